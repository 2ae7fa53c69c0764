// SPDX-License-Identifier: Apache-2.0
// Evaluates forms. What does not fit its type saturates: it can only be planned too large.
#include "plan/form.h"

#include "base/numbers.h"

/// All values that something may have.
typedef struct stretch {
    int64_t low;
    int64_t high;
} stretch;

/// ceil(x / unit); what has saturated stays so.
static int64_t ceil_quotient(int64_t x, uint32_t unit) {
    if (unit == 1 || x == INT64_MAX) return x;
    return x / (int64_t)unit + (x % (int64_t)unit > 0);
}

static int64_t at_least_zero(int64_t x) { return x > 0 ? x : 0; }

static stretch scaled(stretch x, int64_t scale) {
    const int64_t a = berth_mul_saturated_i64(x.low, scale);
    const int64_t b = berth_mul_saturated_i64(x.high, scale);
    return scale >= 0 ? (stretch){a, b} : (stretch){b, a};
}

static stretch quotients(stretch x, uint32_t unit) {
    return (stretch){ceil_quotient(x.low, unit), ceil_quotient(x.high, unit)};
}

static stretch remainders(stretch x, uint32_t unit) {
    const int64_t low = at_least_zero(x.low);
    const int64_t high = at_least_zero(x.high);
    const int64_t u = (int64_t)unit;
    if (low / u == high / u) return (stretch){low % u, high % u};
    return (stretch){0, u - 1};
}

/// The sum of a factor over the points from `first` to `last`.
static stretch sum_over(const berth_form_factor* factor,
                        const int64_t* first,
                        const int64_t* last) {
    stretch sum = {factor->add, factor->add};
    for (uint8_t i = 0; i < factor->count; i++) {
        const uint16_t symbol = factor->symbols[i];
        const stretch term = scaled((stretch){first[symbol], last[symbol]}, factor->scales[i]);
        sum.low = berth_add_saturated_i64(sum.low, term.low);
        sum.high = berth_add_saturated_i64(sum.high, term.high);
    }
    return sum;
}

static stretch factor_over(const berth_form_factor* factor,
                           const int64_t* first,
                           const int64_t* last) {
    const stretch sum = sum_over(factor, first, last);
    return factor->remainder ? remainders(sum, factor->unit) : quotients(sum, factor->unit);
}

/// The padded length, or the plain one where padding costs too much to be planned for.
static int64_t pad(int64_t plain, uint32_t unit) {
    const int64_t padded = berth_mul_saturated_i64(ceil_quotient(plain, unit), (int64_t)unit);
    return padded <= berth_add_saturated_i64(plain, plain / 2) ? padded : plain;
}

/// A form that pads: scale is a multiple of the factor's unit, and padding keeps the order.
static stretch padded_over(const berth_form* form, const int64_t* first, const int64_t* last) {
    const berth_form_factor* factor = &form->factors[0];
    const stretch plain = sum_over(factor, first, last);
    const stretch padded = {pad(plain.low, factor->unit), pad(plain.high, factor->unit)};
    return scaled(padded, form->scale / (int64_t)factor->unit);
}

static stretch product_over(const berth_form* form, const int64_t* first, const int64_t* last) {
    if (form->factor_count == 0) return (stretch){0, 0};
    if (form->padding) return padded_over(form, first, last);
    stretch product = factor_over(&form->factors[0], first, last);
    for (uint8_t i = 1; i < form->factor_count; i++) {
        const stretch factor = factor_over(&form->factors[i], first, last);
        product.low =
            berth_mul_saturated_i64(at_least_zero(product.low), at_least_zero(factor.low));
        product.high =
            berth_mul_saturated_i64(at_least_zero(product.high), at_least_zero(factor.high));
    }
    return scaled(quotients(product, form->unit), form->scale);
}

/// The largest value over the points from `first` to `last`.
static int64_t largest_over(const berth_form* form, const int64_t* first, const int64_t* last) {
    const int64_t value = berth_add_saturated_i64(product_over(form, first, last).high, form->add);
    if (form->limit_kind == BERTH_FORM_AT_MOST && value > form->limit)
        return at_least_zero(form->limit);
    if (form->limit_kind == BERTH_FORM_AT_LEAST && value < form->limit)
        return at_least_zero(form->limit);
    return at_least_zero(value);
}

int64_t berth_form_value(const berth_form* form, const int64_t* bindings) {
    return largest_over(form, bindings, bindings);
}

static bool factor_is_monotone(const berth_form_factor* factor) {
    bool grows = !factor->remainder;
    for (uint8_t i = 0; i < factor->count; i++)
        grows = grows && factor->scales[i] >= 0;
    return grows;
}

bool berth_form_is_monotone(const berth_form* form) {
    bool grows = form->scale >= 0 || form->factor_count == 0;
    for (uint8_t i = 0; i < form->factor_count; i++)
        grows = grows && factor_is_monotone(&form->factors[i]);
    return grows;
}

/// The same form of its own symbols alone, numbered from 0, with their values in the box. The box
/// is open below: its lowest point is lo + 1.
static int64_t bound_of_few(const berth_form* form, const int64_t* lo, const int64_t* hi) {
    int64_t first[BERTH_FORM_FACTORS * BERTH_FORM_TERMS];
    int64_t last[BERTH_FORM_FACTORS * BERTH_FORM_TERMS];
    berth_form local = *form;
    uint16_t count = 0;
    for (uint8_t i = 0; i < form->factor_count; i++) {
        for (uint8_t k = 0; k < form->factors[i].count; k++) {
            const uint16_t symbol = form->factors[i].symbols[k];
            first[count] = lo[symbol] + 1;
            last[count] = hi[symbol];
            local.factors[i].symbols[k] = count++;
        }
    }
    return largest_over(&local, first, last);
}

int64_t berth_form_bound(const berth_form* form, const int64_t* lo, const int64_t* hi) {
    if (berth_form_is_monotone(form)) return largest_over(form, hi, hi);
    return bound_of_few(form, lo, hi);
}

/// Halves the unit of a form that pads until it agrees, if it ever does: padding to a smaller power
/// of two agreed with everything so far, too.
static bool narrow_padding(berth_form* form, const int64_t* bindings, int64_t value) {
    while (form->factors[0].unit > 2 && berth_form_value(form, bindings) != value) {
        form->factors[0].unit /= 2;
        form->scale /= 2;
    }
    return berth_form_value(form, bindings) == value;
}

bool berth_form_set_filter(berth_form_set* set, const int64_t* bindings, int64_t value) {
    uint8_t kept = 0;
    bool changed = false;
    for (uint8_t i = 0; i < set->count; i++) {
        berth_form form = set->items[i];
        const bool agrees = berth_form_value(&form, bindings) == value;
        changed = changed || !agrees;
        if (agrees || (form.padding && narrow_padding(&form, bindings, value)))
            set->items[kept++] = form;
    }
    set->count = kept;
    return changed;
}
