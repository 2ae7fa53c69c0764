// SPDX-License-Identifier: Apache-2.0
// Writes forms in the grammar of size_expression.h.
#include "plan/form_text.h"

#include <inttypes.h>
#include <string.h>

static bool is_plain(const char* name) {
    const size_t letters = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_");
    return letters > 0 && name[strspn(name,
                                      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                      "_.0123456789")] == '\0';
}

void berth_write_expression_name(berth_byte_writer* out, const char* name) {
    const bool plain = is_plain(name);
    if (!plain) berth_write_bytes(out, "{", 1);
    berth_write_bytes(out, name, strlen(name));
    if (!plain) berth_write_bytes(out, "}", 1);
}

static uint64_t magnitude(int64_t number) {
    return number < 0 ? (uint64_t)0 - (uint64_t)number : (uint64_t)number;
}

/// scale * name + ... + add.
static void write_sum(berth_byte_writer* out,
                      const berth_form_factor* factor,
                      const char* const* names) {
    bool first = true;
    for (uint8_t i = 0; i < factor->count; i++) {
        const int64_t scale = factor->scales[i];
        if (scale == 0) continue;
        berth_write_format(out, "%s", scale < 0 ? (first ? "0-" : "-") : (first ? "" : "+"));
        if (magnitude(scale) != 1) berth_write_format(out, "%" PRIu64 "*", magnitude(scale));
        berth_write_expression_name(out, names[factor->symbols[i]]);
        first = false;
    }
    if (factor->add == 0 && !first) return;
    berth_write_format(out,
                       "%s%" PRIu64,
                       factor->add < 0 ? (first ? "0-" : "-") : (first ? "" : "+"),
                       magnitude(factor->add));
}

static bool may_be_negative(const berth_form_factor* factor) {
    bool negative = factor->add < 0;
    for (uint8_t i = 0; i < factor->count; i++)
        negative = negative || factor->scales[i] < 0;
    return negative && !factor->remainder;
}

static void write_factor(berth_byte_writer* out,
                         const berth_form_factor* factor,
                         bool above_zero,
                         const char* const* names) {
    const bool divided = factor->remainder || factor->unit != 1;
    const bool clamped = above_zero && may_be_negative(factor);
    berth_write_format(out,
                       "%s%s(",
                       clamped ? "atleast(" : "",
                       factor->remainder ? "mod"
                       : divided         ? "ceil"
                                         : "");
    write_sum(out, factor, names);
    if (divided) berth_write_format(out, "/%" PRIu32, factor->unit);
    berth_write_format(out, ")%s", clamped ? "|0)" : "");
}

/// The factors, and what they are divided by. A padded length has another scale.
static void write_product(berth_byte_writer* out,
                          const berth_form* form,
                          const char* const* names) {
    if (form->padding) {
        berth_write_format(out, "pad(");
        write_sum(out, &form->factors[0], names);
        berth_write_format(out, "/%" PRIu32 ")", form->factors[0].unit);
        return;
    }
    if (form->unit != 1) berth_write_format(out, "ceil(");
    for (uint8_t i = 0; i < form->factor_count; i++) {
        if (i > 0) berth_write_format(out, "*");
        write_factor(out, &form->factors[i], form->factor_count > 1, names);
    }
    if (form->unit != 1) berth_write_format(out, "/%" PRIu32 ")", form->unit);
}

static void write_unlimited(berth_byte_writer* out,
                            const berth_form* form,
                            const char* const* names) {
    const int64_t scale =
        form->padding ? form->scale / (int64_t)form->factors[0].unit : form->scale;
    const bool has_product = form->factor_count > 0 && scale != 0;
    if (has_product) {
        berth_write_format(out, "%s", scale < 0 ? "0-" : "");
        if (magnitude(scale) != 1) berth_write_format(out, "%" PRIu64 "*", magnitude(scale));
        write_product(out, form, names);
        if (form->add == 0) return;
    }
    berth_write_format(out,
                       "%s%" PRIu64,
                       form->add < 0 ? (has_product ? "-" : "0-") : (has_product ? "+" : ""),
                       magnitude(form->add));
}

void berth_form_write(berth_byte_writer* out, const berth_form* form, const char* const* names) {
    const bool limited = form->limit_kind != BERTH_FORM_UNLIMITED;
    if (limited)
        berth_write_format(
            out, "%s(", form->limit_kind == BERTH_FORM_AT_MOST ? "atmost" : "atleast");
    write_unlimited(out, form, names);
    if (limited)
        berth_write_format(out, "|%" PRId64 ")", form->limit > 0 ? form->limit : INT64_C(0));
}
