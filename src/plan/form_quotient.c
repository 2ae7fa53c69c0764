// SPDX-License-Identifier: Apache-2.0
// Families of forms with a division: blocks, strides, pooling, ring buffers.
#include "base/numbers.h"
#include "plan/form_fitter.h"

/// Divisors that are looked at: powers of two times these, and every small number.
#define UNIT_MAX 4096u
#define SMALL_UNIT_MAX 32u
static const uint32_t odd_parts[] = {1, 3, 5, 7, 25};
#define ODD_PART_COUNT (sizeof odd_parts / sizeof odd_parts[0])

/// The form ceil((sum of `factor` + shift) / unit): a divisor is a number that was chosen, and a
/// shift another.
static berth_form stairs(berth_form_factor factor, uint32_t unit, int32_t shift) {
    factor.unit = unit;
    factor.add = shift;
    berth_form form = berth_form_of(factor);
    form.unknowns = shift == 0 ? 2 : 3;
    return form;
}

/// Enough samples that the first kind of divisor that fits is likely to be the right one.
#define TELLING_SAMPLES 4u

/// True if no further divisors need be looked at.
static bool is_settled(const berth_form_fitter* self) {
    return !berth_form_has_work(self) ||
           (self->set->count > 0 && self->samples->count >= TELLING_SAMPLES);
}

/// Stairs of `factor` with the divisors 2^i * odd, at 0 where the factor is 0: rounded up, and
/// rounded down.
static void propose_stairs_by(berth_form_fitter* self, berth_form_factor factor, uint32_t odd) {
    for (uint32_t unit = odd == 1 ? 2 : odd; unit <= UNIT_MAX; unit *= 2) {
        berth_form_propose_scaled(self, stairs(factor, unit, 0), true);
        const int32_t down = -(int32_t)(unit - 1);
        berth_form_propose_scaled(self, stairs(factor, unit, down), true);
    }
}

void berth_form_propose_stairs(berth_form_fitter* self) {
    if (self->samples->count < 2) return;
    for (size_t odd = 0; odd < ODD_PART_COUNT && !is_settled(self); odd++) {
        for (size_t i = 0; i < self->symbol_count; i++) {
            const uint16_t symbol = self->symbols[i];
            propose_stairs_by(self, berth_form_factor_of(symbol, symbol), odd_parts[odd]);
        }
    }
}

/// Stairs with one divisor and any shift, at any height. Of large divisors a few shifts are tried.
static void propose_shifts(berth_form_fitter* self, berth_form_factor factor, uint32_t unit) {
    const uint32_t stride = unit <= SMALL_UNIT_MAX ? 1 : unit / 4;
    for (uint32_t shift = 0; shift < unit; shift += stride)
        berth_form_propose_scaled(self, stairs(factor, unit, (int32_t)shift), false);
    if (stride == 1) return;
    berth_form_propose_scaled(self, stairs(factor, unit, 1), false);
    berth_form_propose_scaled(self, stairs(factor, unit, (int32_t)unit - 1), false);
}

static void propose_shifted(berth_form_fitter* self, berth_form_factor factor) {
    for (uint32_t unit = 2; unit <= SMALL_UNIT_MAX && berth_form_has_work(self); unit++)
        propose_shifts(self, factor, unit);
    for (size_t odd = 0; odd < ODD_PART_COUNT; odd++)
        for (uint32_t unit = odd_parts[odd]; unit <= UNIT_MAX && berth_form_has_work(self);
             unit *= 2)
            if (unit > SMALL_UNIT_MAX) propose_shifts(self, factor, unit);
}

void berth_form_propose_wide_stairs(berth_form_fitter* self) {
    if (self->samples->count < 3) return;
    for (size_t odd = 0; odd < ODD_PART_COUNT && !is_settled(self); odd++)
        for (size_t i = 0; i < self->symbol_count; i++)
            for (size_t j = i + 1; j < self->symbol_count; j++)
                propose_stairs_by(
                    self, berth_form_factor_of(self->symbols[i], self->symbols[j]), odd_parts[odd]);
}

void berth_form_propose_shifted_stairs(berth_form_fitter* self) {
    if (self->samples->count < 4) return;
    for (size_t i = 0; i < self->symbol_count; i++)
        propose_shifted(self, berth_form_factor_of(self->symbols[i], self->symbols[i]));
    if (berth_form_is_done(self) || self->samples->count < 5) return;
    for (size_t i = 0; i < self->symbol_count; i++)
        for (size_t j = i + 1; j < self->symbol_count; j++)
            propose_shifted(self, berth_form_factor_of(self->symbols[i], self->symbols[j]));
}

// ---- Remainders.

/// `value - add` is s modulo whatever divides each difference from s.
static void propose_remainder(berth_form_fitter* self, berth_form_factor factor, int64_t add) {
    const berth_form_samples* samples = self->samples;
    const berth_form whole = berth_form_of(factor);
    uint64_t divisor = 0;
    int64_t largest = 0;
    for (size_t i = 0; i < samples->count; i++) {
        const int64_t rest = samples->values[i] - add;
        const int64_t s = berth_form_value(&whole, samples->bindings[i]);
        if (rest < 0 || rest > s) return;
        divisor = berth_common_divisor((uint64_t)(s - rest), divisor);
        if (rest > largest) largest = rest;
    }
    if (divisor <= (uint64_t)largest || divisor > INT32_MAX) return;
    berth_form form = whole;
    form.factors[0].remainder = true;
    form.factors[0].unit = (uint32_t)divisor;
    form.add = add;
    form.unknowns = add == 0 ? 1 : 2;
    berth_form_propose(self, &form);
}

void berth_form_propose_remainders(berth_form_fitter* self) {
    if (self->samples->count < 3) return;
    for (size_t i = 0; i < self->symbol_count; i++) {
        for (size_t j = i; j < self->symbol_count && berth_form_has_work(self); j++) {
            const berth_form_factor factor =
                berth_form_factor_of(self->symbols[i], self->symbols[j]);
            propose_remainder(self, factor, 0);
            propose_remainder(self, factor, 1);
        }
    }
}

// ---- Grids: patches of an image, tiles of a matrix.

static void propose_grid(berth_form_fitter* self, berth_form form) {
    berth_form_propose_scaled(self, form, true);
    if (self->samples->count >= 4) berth_form_propose_scaled(self, form, false);
    for (size_t i = 0; i < self->symbol_count && self->samples->count >= 4; i++) {
        berth_form deep = form;
        deep.factors[deep.factor_count++] =
            berth_form_factor_of(self->symbols[i], self->symbols[i]);
        berth_form_propose_scaled(self, deep, true);
    }
}

static void propose_grid_of(berth_form_fitter* self, uint16_t a, uint16_t b, uint32_t unit) {
    for (int down = 0; down < 2; down++) {
        const int32_t shift = down == 1 ? -(int32_t)(unit - 1) : 0;
        berth_form form = stairs(berth_form_factor_of(a, a), unit, shift);
        form.factors[1] = berth_form_factor_of(b, b);
        form.factors[1].unit = unit;
        form.factors[1].add = shift;
        form.factor_count = 2;
        form.unknowns = 1;
        propose_grid(self, form);
    }
}

void berth_form_propose_grids(berth_form_fitter* self) {
    if (self->samples->count < 3) return;
    for (size_t odd = 0; odd < ODD_PART_COUNT && !berth_form_is_done(self); odd++)
        for (uint32_t unit = odd == 0 ? 2 : odd_parts[odd]; unit <= 256; unit *= 2)
            for (size_t i = 0; i < self->symbol_count && berth_form_has_work(self); i++)
                for (size_t j = i; j < self->symbol_count; j++)
                    propose_grid_of(self, self->symbols[i], self->symbols[j], unit);
}
