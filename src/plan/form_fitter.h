// SPDX-License-Identifier: Apache-2.0
// The search for forms, shared by its families: form_fit.c (constants, lines, pairs, windows, and
// the order of all), form_quotient.c (what is divided), form_product.c (products and planes).
#ifndef BERTH_PLAN_FORM_FITTER_H
#define BERTH_PLAN_FORM_FITTER_H

#include "plan/form_fit.h"

typedef struct berth_form_fitter {
    const berth_form_samples* samples;
    berth_form_set* set;
    uint64_t* work;
    /// One of each group of symbols that had equal values in every sample: the richer families look
    /// at these alone.
    const uint16_t* symbols;
    size_t symbol_count;
} berth_form_fitter;

typedef void (*berth_form_family)(berth_form_fitter* self);

/// Keeps `form` if it agrees with every sample and there is room.
void berth_form_propose(berth_form_fitter* self, const berth_form* form);

/// Scales and shifts `form`, whose scale is 1 and add 0, to agree with the first sample and the
/// first that tells them; proposes it. With `fixed_add` only the scale is chosen.
void berth_form_propose_scaled(berth_form_fitter* self, berth_form form, bool fixed_add);

/// The unscaled factor s[a], or s[a] + s[b] where they differ, and the form of that factor alone.
berth_form_factor berth_form_factor_of(uint16_t a, uint16_t b);
berth_form berth_form_of(berth_form_factor factor);

/// True if there is work left to spend.
static inline bool berth_form_has_work(const berth_form_fitter* self) { return *self->work > 0; }

/// True if there is nothing left to do: something was found, or the work is used up.
bool berth_form_is_done(const berth_form_fitter* self);

// Families, here without their scales and shifts.
void berth_form_propose_stairs(berth_form_fitter* self);          ///< ceil(s / u)
void berth_form_propose_wide_stairs(berth_form_fitter* self);     ///< ceil((s + t) / u)
void berth_form_propose_shifted_stairs(berth_form_fitter* self);  ///< ceil((s + t + x) / u)
void berth_form_propose_remainders(berth_form_fitter* self);      ///< s mod u
void berth_form_propose_grids(berth_form_fitter* self);           ///< ceil(s / u) ceil(t / u) r
void berth_form_propose_products(berth_form_fitter* self);        ///< s t r, s (t + r)
void berth_form_propose_padded_products(berth_form_fitter* self); ///< ceil(s t / u)
void berth_form_propose_planes(berth_form_fitter* self);          ///< k s + l t
void berth_form_propose_curves(berth_form_fitter* self);          ///< s (k s + l t + m)

#endif // BERTH_PLAN_FORM_FITTER_H
