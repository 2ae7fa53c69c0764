// SPDX-License-Identifier: Apache-2.0
// Finds forms from observations. Families are tried in order of simplicity; all hypotheses of the
// first that fits are kept, else data that happens to lie on a general form would be taken for it.
#ifndef BERTH_PLAN_FORM_FIT_H
#define BERTH_PLAN_FORM_FIT_H

#include "plan/form.h"

/// Observations that are looked at, at most.
#define BERTH_FORM_SAMPLES 12u

/// What was observed of one dimension. Keys are distinct.
typedef struct berth_form_samples {
    const int64_t* values;          ///< [count]
    const int64_t* const* bindings; ///< [count], each by index of binding
    size_t count;                   ///< 1 .. BERTH_FORM_SAMPLES
    const uint16_t* symbols;        ///< bindings that have varied
    size_t symbol_count;
    const berth_form* const* known; ///< [known_count] forms that others of the same step follow
    size_t known_count;
} berth_form_samples;

/// Finds forms that agree with every sample. `*work` is what may still be spent, in forms compared
/// with a sample; it is reduced. Without any left, the set is empty.
void berth_form_set_fit(berth_form_set* set, const berth_form_samples* samples, uint64_t* work);

/// Counts the samples that the forms of `set` need, and sets `confirmed`.
void berth_form_set_confirm(berth_form_set* set, const berth_form_samples* samples);

#endif // BERTH_PLAN_FORM_FIT_H
