// SPDX-License-Identifier: Apache-2.0
// Families of forms with a product or several coefficients: batches, scratch bytes, attention.
#include <math.h>

#include "base/checked.h"
#include "plan/form_fitter.h"

static berth_form times(berth_form form, uint16_t a, uint16_t b) {
    form.factors[form.factor_count++] = berth_form_factor_of(a, b);
    return form;
}

static void propose_both(berth_form_fitter* self, berth_form form) {
    berth_form_propose_scaled(self, form, true);
    if (self->samples->count >= 4) berth_form_propose_scaled(self, form, false);
}

/// Products of a with b, with b + c and with b * c.
static void propose_products_of(berth_form_fitter* self, uint16_t a, uint16_t b) {
    const berth_form first = berth_form_of(berth_form_factor_of(a, a));
    if (a <= b) propose_both(self, times(first, b, b));
    for (size_t k = 0; k < self->symbol_count && berth_form_has_work(self); k++) {
        const uint16_t c = self->symbols[k];
        if (c < b) continue;
        if (c != b) propose_both(self, times(first, b, c));
        if (a <= b) propose_both(self, times(times(first, b, b), c, c));
    }
}

void berth_form_propose_products(berth_form_fitter* self) {
    if (self->samples->count < 3) return;
    for (size_t i = 0; i < self->symbol_count; i++)
        for (size_t j = 0; j < self->symbol_count; j++)
            propose_products_of(self, self->symbols[i], self->symbols[j]);
}

void berth_form_propose_padded_products(berth_form_fitter* self) {
    if (self->samples->count < 3) return;
    for (size_t i = 0; i < self->symbol_count; i++) {
        for (size_t j = i; j < self->symbol_count && berth_form_has_work(self); j++) {
            const uint16_t a = self->symbols[i];
            const uint16_t b = self->symbols[j];
            berth_form form = times(berth_form_of(berth_form_factor_of(a, a)), b, b);
            form.unknowns = 2;
            for (form.unit = 2; form.unit <= 4096; form.unit *= 2)
                berth_form_propose_scaled(self, form, true);
        }
    }
}

// ---- Several coefficients at once.

#define BASIS_MAX 4u

/// Products of up to two symbols (UINT16_MAX: 1) that make up a value.
typedef struct basis {
    uint16_t symbols[BASIS_MAX][2];
    uint32_t count;
} basis;

static void basis_push(basis* self, uint16_t a, uint16_t b) {
    self->symbols[self->count][0] = a;
    self->symbols[self->count++][1] = b;
}

typedef struct equations {
    double rows[BERTH_FORM_SAMPLES][BASIS_MAX + 1];
    size_t count;
} equations;

static equations write_equations(const berth_form_samples* samples, const basis* terms) {
    equations all = {.count = samples->count};
    for (size_t i = 0; i < samples->count; i++) {
        for (uint32_t k = 0; k < terms->count; k++) {
            double product = 1;
            for (int f = 0; f < 2; f++)
                if (terms->symbols[k][f] != UINT16_MAX)
                    product *= (double)samples->bindings[i][terms->symbols[k][f]];
            all.rows[i][k] = product;
        }
        all.rows[i][terms->count] = (double)samples->values[i];
    }
    return all;
}

/// Makes column `k` zero below row `k`. False if the samples do not tell that coefficient.
static bool eliminate(equations* all, uint32_t k, uint32_t width) {
    size_t pivot = k;
    for (size_t i = k + (size_t)1; i < all->count; i++)
        if (fabs(all->rows[i][k]) > fabs(all->rows[pivot][k])) pivot = i;
    if (fabs(all->rows[pivot][k]) < 1e-6) return false;
    for (uint32_t c = 0; c <= width; c++) {
        const double moved = all->rows[k][c];
        all->rows[k][c] = all->rows[pivot][c];
        all->rows[pivot][c] = moved;
    }
    for (size_t i = k + (size_t)1; i < all->count; i++) {
        const double share = all->rows[i][k] / all->rows[k][k];
        for (uint32_t c = k; c <= width; c++)
            all->rows[i][c] -= share * all->rows[k][c];
    }
    return true;
}

/// The integers nearest to the coefficients of `terms`; whether they are right shows when the form
/// is compared with the samples.
static bool solve(berth_form_fitter* self, const basis* terms, int64_t* out) {
    const uint32_t width = terms->count;
    const uint64_t cost = self->samples->count * width;
    if (self->samples->count < width || *self->work < cost) return false;
    *self->work -= cost;
    equations all = write_equations(self->samples, terms);
    for (uint32_t k = 0; k < width; k++)
        if (!eliminate(&all, k, width)) return false;
    double solution[BASIS_MAX];
    for (uint32_t k = width; k-- > 0;) {
        solution[k] = all.rows[k][width];
        for (uint32_t c = k + 1; c < width; c++)
            solution[k] -= all.rows[k][c] * solution[c];
        solution[k] /= all.rows[k][k];
        if (!(fabs(solution[k]) < 9e15)) return false;
        out[k] = (int64_t)llround(solution[k]);
        // so that an error here does not become a large one there
        solution[k] = (double)out[k];
    }
    return true;
}

static bool is_small(int64_t x) { return x >= INT32_MIN && x <= INT32_MAX; }

static void plane_of(berth_form_fitter* self, const uint16_t* symbols, uint8_t count) {
    basis terms = {.count = 0};
    for (uint8_t i = 0; i < count; i++)
        basis_push(&terms, symbols[i], UINT16_MAX);
    basis_push(&terms, UINT16_MAX, UINT16_MAX);
    int64_t x[BASIS_MAX];
    if (!solve(self, &terms, x)) return;
    berth_form form = berth_form_of((berth_form_factor){.unit = 1, .count = count});
    form.add = x[count];
    form.unknowns = (uint8_t)(count + 1);
    for (uint8_t i = 0; i < count; i++) {
        if (x[i] == 0 || !is_small(x[i])) return;
        form.factors[0].symbols[i] = symbols[i];
        form.factors[0].scales[i] = (int32_t)x[i];
    }
    berth_form_propose(self, &form);
}

void berth_form_propose_planes(berth_form_fitter* self) {
    for (size_t i = 0; i < self->symbol_count; i++)
        for (size_t j = i + 1; j < self->symbol_count; j++)
            plane_of(self, (const uint16_t[]){self->symbols[i], self->symbols[j]}, 2);
    if (berth_form_is_done(self) || self->samples->count < 5) return;
    for (size_t i = 0; i < self->symbol_count; i++)
        for (size_t j = i + 1; j < self->symbol_count && berth_form_has_work(self); j++)
            for (size_t k = j + 1; k < self->symbol_count; k++)
                plane_of(self,
                         (const uint16_t[]){self->symbols[i], self->symbols[j], self->symbols[k]},
                         3);
}

/// s * (square * s + cross * t + line) + add.
static void propose_curve(berth_form_fitter* self,
                          uint16_t s,
                          uint16_t t,
                          int64_t square,
                          int64_t cross,
                          int64_t line,
                          int64_t add) {
    if (!is_small(square) || !is_small(cross) || !is_small(line)) return;
    berth_form form = berth_form_of(berth_form_factor_of(s, s));
    form.factors[1] = (berth_form_factor){.symbols = {s, t},
                                          .count = t == s ? 1 : 2,
                                          .scales = {(int32_t)square, (int32_t)cross},
                                          .add = (int32_t)line,
                                          .unit = 1};
    form.factor_count = 2;
    form.add = add;
    form.unknowns = (uint8_t)((square != 0) + (cross != 0) + (line != 0) + (add != 0));
    berth_form_propose(self, &form);
}

static void parabola_of(berth_form_fitter* self, uint16_t s) {
    const basis terms = {{{s, s}, {s, UINT16_MAX}, {UINT16_MAX, UINT16_MAX}}, 3};
    int64_t x[BASIS_MAX];
    if (solve(self, &terms, x)) propose_curve(self, s, s, x[0], 0, x[1], x[2]);
}

static void saddle_of(berth_form_fitter* self, uint16_t s, uint16_t t) {
    const basis terms = {{{s, t}, {s, UINT16_MAX}, {UINT16_MAX, UINT16_MAX}}, 3};
    int64_t x[BASIS_MAX];
    if (solve(self, &terms, x)) propose_curve(self, s, t, 0, x[0], x[1], x[2]);
    if (self->samples->count < 5) return;
    const basis more = {{{s, s}, {s, t}, {s, UINT16_MAX}, {UINT16_MAX, UINT16_MAX}}, 4};
    if (solve(self, &more, x)) propose_curve(self, s, t, x[0], x[1], x[2], x[3]);
}

/// (s + x) (k t + l) + add, which is k s t + l s + k x t + ...
static void shifted_product_of(berth_form_fitter* self, uint16_t s, uint16_t t) {
    const basis terms = {{{s, t}, {s, UINT16_MAX}, {t, UINT16_MAX}, {UINT16_MAX, UINT16_MAX}}, 4};
    int64_t x[BASIS_MAX];
    if (!solve(self, &terms, x) || x[0] == 0 || x[2] % x[0] != 0) return;
    const int64_t shift = x[2] / x[0];
    int64_t rise;
    if (!is_small(x[0]) || !is_small(x[1]) || !is_small(shift)) return;
    berth_form form = berth_form_of(berth_form_factor_of(s, s));
    form.factors[0].add = (int32_t)shift;
    form.factors[1] = berth_form_factor_of(t, t);
    form.factors[1].scales[0] = (int32_t)x[0];
    form.factors[1].add = (int32_t)x[1];
    form.factor_count = 2;
    form.unknowns = 4;
    if (!berth_mul_i64(shift, x[1], &rise) || !berth_add_i64(x[3], -rise, &form.add)) return;
    berth_form_propose(self, &form);
}

void berth_form_propose_curves(berth_form_fitter* self) {
    if (self->samples->count < 4) return;
    for (size_t i = 0; i < self->symbol_count; i++)
        parabola_of(self, self->symbols[i]);
    for (size_t i = 0; i < self->symbol_count && berth_form_has_work(self); i++) {
        for (size_t j = 0; j < self->symbol_count; j++) {
            if (i == j) continue;
            saddle_of(self, self->symbols[i], self->symbols[j]);
            if (self->samples->count >= 5)
                shifted_product_of(self, self->symbols[i], self->symbols[j]);
        }
    }
}
