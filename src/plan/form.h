// SPDX-License-Identifier: Apache-2.0
// Size models: a dimension (or a number of scratch bytes) as a form of the symbols of a step, found
// from observations. Simple families are tried first; all hypotheses of the first family that fits
// are kept, and the largest of their values is planned for.
#ifndef BERTH_PLAN_FORM_H
#define BERTH_PLAN_FORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum berth_form_kind {
    BERTH_FORM_AFFINE,  ///< scale * s_a + add; a constant if scale is 0
    BERTH_FORM_ROUND,   ///< s_a rounded up to a multiple of unit where that costs at most half as
                        ///< much again
    BERTH_FORM_SUM,     ///< scale * s_a + scale_b * s_b + add
    BERTH_FORM_PRODUCT, ///< scale * s_a * s_b
    BERTH_FORM_CEIL,    ///< scale * ceil((s_a + shift) / unit) + add
} berth_form_kind;

/// `a` and `b` are indices of bindings.
typedef struct berth_form {
    berth_form_kind kind;
    uint16_t a;
    uint16_t b;
    uint32_t unit;
    uint32_t shift;
    int64_t scale;
    int64_t scale_b;
    int64_t add;
} berth_form;

#define BERTH_FORM_MAX 6u

/// The hypotheses about one dimension; none: it fits no form.
typedef struct berth_form_set {
    berth_form items[BERTH_FORM_MAX];
    uint8_t count;
    bool confirmed; ///< more observations than the forms have unknowns
} berth_form_set;

/// What was observed of one dimension. Keys are distinct.
typedef struct berth_form_samples {
    const int64_t* values;          ///< [count]
    const int64_t* const* bindings; ///< [count], each by index of binding
    size_t count;
    const uint16_t* symbols; ///< bindings that have varied
    size_t symbol_count;
} berth_form_samples;

/// Finds the forms that agree with every sample; at least one sample.
void berth_form_set_fit(berth_form_set* set, const berth_form_samples* samples);

/// Drops the hypotheses that disagree with `value` at `bindings`.
/// Returns true if any was dropped or changed.
bool berth_form_set_filter(berth_form_set* set, const int64_t* bindings, int64_t value);

/// Counts the samples that the forms of `set` need, and sets `confirmed`.
void berth_form_set_confirm(berth_form_set* set, const berth_form_samples* samples);

/// The value at a point; saturates at INT64_MAX, never below 0.
int64_t berth_form_value(const berth_form* form, const int64_t* bindings);

/// The largest value in the box lo < s <= hi (interval arithmetic), likewise.
int64_t berth_form_bound(const berth_form* form, const int64_t* lo, const int64_t* hi);

/// True if the form grows or stays wherever a symbol grows.
bool berth_form_is_monotone(const berth_form* form);

#endif // BERTH_PLAN_FORM_H
