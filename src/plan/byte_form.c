// SPDX-License-Identifier: Apache-2.0
// Fits and evaluates forms of bytes.
#include "plan/byte_form.h"

#include "base/numbers.h"

uint64_t berth_byte_form_value(const berth_byte_form* form, uint64_t length) {
    const uint64_t square =
        berth_mul_saturated_u64(berth_mul_saturated_u64(form->square, length), length);
    return berth_add_saturated_u64(
        form->constant,
        berth_add_saturated_u64(berth_mul_saturated_u64(form->linear, length), square));
}

uint64_t berth_byte_form_set_value(const berth_byte_form_set* set, uint64_t length) {
    uint64_t most = 0;
    for (uint8_t i = 0; i < set->count; i++) {
        const uint64_t value = berth_byte_form_value(&set->items[i], length);
        if (value > most) most = value;
    }
    return most;
}

// ---- Fitting. Sizes and lengths beyond these have no exact arithmetic here, and no form.

#define LENGTH_MAX (UINT64_C(1) << 31)
#define BYTES_MAX (UINT64_C(1) << 62)

__extension__ typedef __int128 wide;

typedef struct fitter {
    const berth_byte_sample* samples;
    size_t count;
    berth_byte_form_set* set;
} fitter;

/// Keeps `form` if it agrees with every sample.
static void propose(fitter* self, berth_byte_form form) {
    for (size_t i = 0; i < self->count; i++)
        if (berth_byte_form_value(&form, self->samples[i].length) != self->samples[i].bytes) return;
    self->set->items[self->set->count++] = form;
}

/// The power of a length that stands at a coefficient.
static wide power(uint64_t length, int exponent) {
    wide value = 1;
    for (int i = 0; i < exponent; i++)
        value *= (wide)length;
    return value;
}

static berth_byte_form form_of(const uint64_t coefficients[3]) {
    return (berth_byte_form){coefficients[0], coefficients[1], coefficients[2]};
}

static void propose_single(fitter* self, int exponent) {
    const wide factor = power(self->samples[0].length, exponent);
    uint64_t coefficients[3] = {0};
    if (factor == 0 || self->samples[0].bytes % factor != 0) return;
    coefficients[exponent] = (uint64_t)(self->samples[0].bytes / factor);
    propose(self, form_of(coefficients));
}

/// The first sample at another length than `a` and `b`, or the number of samples.
static size_t other_length(const fitter* self, uint64_t a, uint64_t b) {
    size_t i = 0;
    while (i < self->count && (self->samples[i].length == a || self->samples[i].length == b))
        i++;
    return i;
}

/// p s^low + q s^high through the first two lengths, low < high.
static void propose_pair(fitter* self, int low, int high) {
    const berth_byte_sample* x = &self->samples[0];
    const size_t other = other_length(self, x->length, x->length);
    if (other == self->count) return;
    const berth_byte_sample* y = &self->samples[other];
    const wide x_low = power(x->length, low), x_high = power(x->length, high);
    const wide y_low = power(y->length, low), y_high = power(y->length, high);
    const wide determinant = x_low * y_high - y_low * x_high;
    // below 2^62 (sizes) * 2^62 (squares), so 128 bits hold every product
    const wide p = (wide)x->bytes * y_high - (wide)y->bytes * x_high;
    const wide q = x_low * (wide)y->bytes - y_low * (wide)x->bytes;
    if (determinant == 0 || p % determinant != 0 || q % determinant != 0) return;
    if (p / determinant <= 0 || q / determinant <= 0) return;
    uint64_t coefficients[3] = {0};
    coefficients[low] = (uint64_t)(p / determinant);
    coefficients[high] = (uint64_t)(q / determinant);
    propose(self, form_of(coefficients));
}

/// The parabola through the first three lengths, by divided differences.
static void propose_parabola(fitter* self) {
    const berth_byte_sample* x = &self->samples[0];
    const size_t second = other_length(self, x->length, x->length);
    if (second == self->count) return;
    const berth_byte_sample* y = &self->samples[second];
    const size_t third = other_length(self, x->length, y->length);
    if (third == self->count) return;
    const berth_byte_sample* z = &self->samples[third];
    const wide dx = (wide)y->length - x->length, dz = (wide)z->length - x->length;
    const wide vy = (wide)y->bytes - x->bytes, vz = (wide)z->bytes - x->bytes;
    const wide rise = vy * dz - vz * dx;
    const wide run = dx * dz * ((wide)y->length - z->length);
    if (rise % run != 0) return;
    const wide square = rise / run;
    if (square < 0 || square > (wide)BYTES_MAX) return;
    const wide slope = vy - square * dx * ((wide)y->length + x->length);
    if (slope % dx != 0) return;
    const wide linear = slope / dx;
    if (linear < 0 || linear > (wide)BYTES_MAX) return;
    const wide constant = (wide)x->bytes - linear * x->length - square * power(x->length, 2);
    if (constant < 0) return;
    propose(self, (berth_byte_form){(uint64_t)constant, (uint64_t)linear, (uint64_t)square});
}

static size_t count_lengths(const fitter* self) {
    size_t distinct = 0;
    for (size_t i = 0; i < self->count; i++) {
        bool seen = false;
        for (size_t k = 0; k < i && !seen; k++)
            seen = self->samples[k].length == self->samples[i].length;
        distinct += !seen;
    }
    return distinct;
}

void berth_byte_form_set_fit(berth_byte_form_set* set,
                             const berth_byte_sample* samples,
                             size_t count) {
    *set = (berth_byte_form_set){.count = 0};
    fitter self = {samples, count, set};
    for (size_t i = 0; i < count; i++)
        if (samples[i].length > LENGTH_MAX || samples[i].bytes > BYTES_MAX) return;
    if (count == 0) return;
    for (set->terms = 1; set->terms <= 3 && set->count == 0; set->terms++) {
        for (int low = 0; low < 3 && set->terms < 3; low++) {
            if (set->terms == 1) propose_single(&self, low);
            for (int high = low + 1; high < 3 && set->terms == 2; high++)
                propose_pair(&self, low, high);
        }
        if (set->terms == 3) propose_parabola(&self);
    }
    set->terms--; // the loop passed the one that fits
    set->confirmed = set->count > 0 && count_lengths(&self) > set->terms;
}
