// SPDX-License-Identifier: Apache-2.0
// Recursive descent, evaluating as it reads.
#include "plan/size_expression.h"

#include <string.h>

#include "base/error.h"
#include "base/numbers.h"

typedef struct reader {
    const char* text;
    const char* at;
    berth_size_lookup lookup;
    void* user;
    uint32_t depth;
} reader;

static berth_status read_sum(reader* self, berth_expression_answer* out);

static berth_status expected(const reader* self, const char* what) {
    return berth_fail(BERTH_ERR_CORRUPT,
                      "%s is expected at character %zu of the expression",
                      what,
                      (size_t)(self->at - self->text) + 1);
}

static void skip_spaces(reader* self) {
    while (*self->at == ' ' || *self->at == '\t')
        self->at++;
}

/// True if the next character is `c`, which is passed.
static bool take(reader* self, char c) {
    skip_spaces(self);
    if (*self->at != c) return false;
    self->at++;
    return true;
}

// ---- Arithmetic.

static int64_t negate(int64_t a) { return a == INT64_MIN ? INT64_MAX : -a; }

// What has saturated stays so when it is divided.

static int64_t floor_quotient(int64_t a, int64_t unit) {
    if (a == INT64_MAX) return a;
    return a / unit - (a % unit != 0 && a < 0);
}

static int64_t ceil_quotient(int64_t a, int64_t unit) {
    if (a == INT64_MAX) return a;
    return a / unit + (a % unit != 0 && a > 0);
}

static int64_t remainder_of(int64_t a, int64_t unit) { return a > 0 ? a % unit : 0; }

/// Rounded up to a multiple of `unit`, where that costs at most half as much again.
static int64_t pad(int64_t a, int64_t unit) {
    const int64_t rounded = berth_mul_saturated_i64(ceil_quotient(a, unit), unit);
    return rounded <= berth_add_saturated_i64(a, a / 2) ? rounded : a;
}

static void weaken(berth_expression_answer* answer, berth_estimate_kind kind) {
    if (kind < answer->kind) answer->kind = kind;
}

// ---- Reading.

static berth_status read_number(reader* self, int64_t* out) {
    skip_spaces(self);
    if (*self->at < '0' || *self->at > '9') return expected(self, "a number");
    int64_t number = 0;
    for (; *self->at >= '0' && *self->at <= '9'; self->at++)
        number = berth_add_saturated_i64(berth_mul_saturated_i64(number, 10), *self->at - '0');
    *out = number;
    return BERTH_OK;
}

static bool begins_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool continues_name(char c) { return begins_name(c) || (c >= '0' && c <= '9') || c == '.'; }

static berth_status look_up(reader* self,
                            const char* name,
                            size_t bytes,
                            berth_expression_answer* out) {
    if (self->lookup(self->user, name, bytes, out)) return BERTH_OK;
    return berth_fail(BERTH_ERR_CORRUPT,
                      "the expression names '%.*s', which is no symbol or dimension above it",
                      bytes < 40 ? (int)bytes : 40,
                      name);
}

static berth_status read_max(reader* self, berth_expression_answer* out) {
    BERTH_TRY(read_sum(self, out));
    while (take(self, '|')) {
        berth_expression_answer other;
        BERTH_TRY(read_sum(self, &other));
        if (other.value != out->value) weaken(out, BERTH_ESTIMATE_BOUND);
        weaken(out, other.kind);
        if (other.value > out->value) out->value = other.value;
    }
    return BERTH_OK;
}

/// Holds a value within a limit, which is no hypothesis.
static berth_status read_limited(reader* self, bool at_most, berth_expression_answer* out) {
    berth_expression_answer limit;
    BERTH_TRY(read_sum(self, out));
    if (!take(self, '|')) return expected(self, "'|'");
    BERTH_TRY(read_sum(self, &limit));
    weaken(out, limit.kind);
    if (at_most ? limit.value < out->value : limit.value > out->value) out->value = limit.value;
    return BERTH_OK;
}

static berth_status read_quotient(reader* self,
                                  int64_t (*divide)(int64_t, int64_t),
                                  berth_expression_answer* out) {
    BERTH_TRY(read_sum(self, out));
    if (!take(self, '/')) return expected(self, "'/'");
    int64_t unit;
    BERTH_TRY(read_number(self, &unit));
    if (unit == 0) return berth_fail(BERTH_ERR_CORRUPT, "the expression divides by 0");
    out->value = divide(out->value, unit);
    return BERTH_OK;
}

static berth_status read_observed(reader* self, berth_expression_answer* out) {
    BERTH_TRY(read_sum(self, out));
    weaken(out, BERTH_ESTIMATE_OBSERVED);
    return BERTH_OK;
}

/// Reads the inside of a function, the opening parenthesis being passed.
static berth_status read_function(reader* self,
                                  const char* name,
                                  size_t bytes,
                                  berth_expression_answer* out) {
    if (bytes == 3 && memcmp(name, "max", bytes) == 0) return read_max(self, out);
    if (bytes == 3 && memcmp(name, "pad", bytes) == 0) return read_quotient(self, pad, out);
    if (bytes == 4 && memcmp(name, "ceil", bytes) == 0)
        return read_quotient(self, ceil_quotient, out);
    if (bytes == 3 && memcmp(name, "mod", bytes) == 0)
        return read_quotient(self, remainder_of, out);
    if (bytes == 6 && memcmp(name, "atmost", bytes) == 0) return read_limited(self, true, out);
    if (bytes == 7 && memcmp(name, "atleast", bytes) == 0) return read_limited(self, false, out);
    if (bytes == 5 && memcmp(name, "floor", bytes) == 0)
        return read_quotient(self, floor_quotient, out);
    if (bytes == 8 && memcmp(name, "observed", bytes) == 0) return read_observed(self, out);
    return berth_fail(BERTH_ERR_CORRUPT,
                      "the expression calls '%.*s', which is no function",
                      bytes < 40 ? (int)bytes : 40,
                      name);
}

static berth_status end_parenthesis(reader* self) {
    self->depth--;
    return take(self, ')') ? BERTH_OK : expected(self, "')'");
}

static berth_status begin_parenthesis(reader* self) {
    if (self->depth == BERTH_SIZE_EXPRESSION_DEPTH)
        return berth_fail(BERTH_ERR_CORRUPT,
                          "the expression has more than %u parentheses inside one another",
                          BERTH_SIZE_EXPRESSION_DEPTH);
    self->depth++;
    return BERTH_OK;
}

static berth_status read_name(reader* self, berth_expression_answer* out) {
    const char* name = self->at;
    while (continues_name(*self->at))
        self->at++;
    const size_t bytes = (size_t)(self->at - name);
    if (!take(self, '(')) return look_up(self, name, bytes, out);
    BERTH_TRY(begin_parenthesis(self));
    BERTH_TRY(read_function(self, name, bytes, out));
    return end_parenthesis(self);
}

static berth_status read_braces(reader* self, berth_expression_answer* out) {
    const size_t bytes = strcspn(self->at, "{}");
    if (self->at[bytes] != '}') return expected(self, "a name in braces");
    const char* name = self->at;
    self->at += bytes + 1;
    return look_up(self, name, bytes, out);
}

static berth_status read_factor(reader* self, berth_expression_answer* out) {
    *out = (berth_expression_answer){.kind = BERTH_ESTIMATE_EXACT};
    if (take(self, '{')) return read_braces(self, out);
    if (take(self, '(')) {
        BERTH_TRY(begin_parenthesis(self));
        BERTH_TRY(read_sum(self, out));
        return end_parenthesis(self);
    }
    if (begins_name(*self->at)) return read_name(self, out);
    if (*self->at < '0' || *self->at > '9') return expected(self, "a number, a name or '('");
    return read_number(self, &out->value);
}

static berth_status read_product(reader* self, berth_expression_answer* out) {
    BERTH_TRY(read_factor(self, out));
    while (take(self, '*')) {
        berth_expression_answer factor;
        BERTH_TRY(read_factor(self, &factor));
        out->value = berth_mul_saturated_i64(out->value, factor.value);
        weaken(out, factor.kind);
    }
    return BERTH_OK;
}

static berth_status read_sum(reader* self, berth_expression_answer* out) {
    BERTH_TRY(read_product(self, out));
    for (;;) {
        const bool plus = take(self, '+');
        if (!plus && !take(self, '-')) return BERTH_OK;
        berth_expression_answer term;
        BERTH_TRY(read_product(self, &term));
        out->value = berth_add_saturated_i64(out->value, plus ? term.value : negate(term.value));
        weaken(out, term.kind);
    }
}

berth_status berth_size_expression_evaluate(const char* text,
                                            berth_size_lookup lookup,
                                            void* user,
                                            berth_expression_answer* out_answer) {
    reader self = {.text = text, .at = text, .lookup = lookup, .user = user};
    *out_answer = (berth_expression_answer){0};
    berth_expression_answer answer;
    BERTH_TRY(read_sum(&self, &answer));
    skip_spaces(&self);
    if (*self.at != '\0') return expected(&self, "the end");
    if (answer.value < 0) answer.value = 0;
    *out_answer = answer;
    return BERTH_OK;
}
