// SPDX-License-Identifier: Apache-2.0
// Size models: a dimension (or a number of scratch bytes) as a form of the symbols of a step. One
// shape of form serves all: a product of up to three factors, each a linear sum of symbols that may
// be divided and rounded up; scaled, shifted, and held within a limit.
#ifndef BERTH_PLAN_FORM_H
#define BERTH_PLAN_FORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BERTH_FORM_TERMS 3u
#define BERTH_FORM_FACTORS 3u

/// ceil((scales[0] * s[symbols[0]] + ... + add) / unit), or what is left of the sum modulo `unit`.
typedef struct berth_form_factor {
    uint16_t symbols[BERTH_FORM_TERMS]; ///< indices of bindings
    uint8_t count;                      ///< of terms
    bool remainder;
    int32_t scales[BERTH_FORM_TERMS];
    int32_t add;
    uint32_t unit; ///< 1: the sum as it is
} berth_form_factor;

typedef enum berth_form_limit {
    BERTH_FORM_UNLIMITED,
    BERTH_FORM_AT_MOST,  ///< a window
    BERTH_FORM_AT_LEAST, ///< filled up to a minimum
} berth_form_limit;

/// scale * ceil(factors[0] * factors[1] * ... / unit) + add, held within `limit`, never below 0.
typedef struct berth_form {
    berth_form_factor factors[BERTH_FORM_FACTORS];
    uint8_t factor_count; ///< 0: the constant `add`
    uint8_t limit_kind;   ///< berth_form_limit
    uint8_t unknowns;     ///< numbers that were chosen to fit
    /// The quotient pads a length that may also be plain: it counts where it costs at most half as
    /// much again.
    bool padding;
    uint32_t unit; ///< 1: the product as it is
    int64_t scale;
    int64_t add;
    int64_t limit;
} berth_form;

#define BERTH_FORM_MAX 6u

/// The hypotheses about one dimension; none: it fits no form.
typedef struct berth_form_set {
    berth_form items[BERTH_FORM_MAX];
    uint8_t count;
    bool confirmed; ///< more observations than the forms have unknowns
} berth_form_set;

/// The value at a point; saturates at INT64_MAX, never below 0.
int64_t berth_form_value(const berth_form* form, const int64_t* bindings);

/// The largest value in the box lo < s <= hi (interval arithmetic), likewise.
int64_t berth_form_bound(const berth_form* form, const int64_t* lo, const int64_t* hi);

/// True if the form grows or stays wherever a symbol grows.
bool berth_form_is_monotone(const berth_form* form);

/// Drops the hypotheses that disagree with `value` at `bindings`.
/// Returns true if any was dropped or changed.
bool berth_form_set_filter(berth_form_set* set, const int64_t* bindings, int64_t value);

#endif // BERTH_PLAN_FORM_H
