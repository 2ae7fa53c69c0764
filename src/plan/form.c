// SPDX-License-Identifier: Apache-2.0
// Fits and evaluates forms.
#include "plan/form.h"

#include "base/checked.h"

/// Multiples up to this are seen as padding while all observed lengths happen to be multiples.
#define ROUND_UNIT_MAX 64

// ---- Evaluation. A value that does not fit saturates: it can only be planned too large.

static int64_t add_saturated(int64_t a, int64_t b) {
    int64_t sum;
    if (berth_add_i64(a, b, &sum)) return sum;
    return a > 0 ? INT64_MAX : INT64_MIN;
}

static int64_t mul_saturated(int64_t a, int64_t b) {
    int64_t product;
    if (berth_mul_i64(a, b, &product)) return product;
    return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
}

/// ceil(x / unit) for x >= 0.
static int64_t ceil_quotient(int64_t x, uint32_t unit) {
    return x / (int64_t)unit + (x % (int64_t)unit != 0);
}

static int64_t round_value(int64_t s, uint32_t unit) {
    const int64_t rounded = mul_saturated(ceil_quotient(s, unit), (int64_t)unit);
    return rounded <= add_saturated(s, s / 2) ? rounded : s;
}

/// scale times the end of the interval that makes the product largest.
static int64_t scaled(int64_t scale, int64_t lowest, int64_t highest) {
    return mul_saturated(scale, scale >= 0 ? highest : lowest);
}

static int64_t form_over(const berth_form* form, const int64_t* lowest, const int64_t* highest) {
    int64_t value = 0;
    const uint16_t a = form->a;
    const uint16_t b = form->b;
    switch (form->kind) {
    case BERTH_FORM_AFFINE:
        value = form->add;
        if (form->scale != 0)
            value = add_saturated(scaled(form->scale, lowest[a], highest[a]), value);
        break;
    case BERTH_FORM_ROUND:
        value = round_value(highest[a], form->unit);
        break;
    case BERTH_FORM_SUM:
        value = add_saturated(scaled(form->scale, lowest[a], highest[a]),
                              scaled(form->scale_b, lowest[b], highest[b]));
        value = add_saturated(value, form->add);
        break;
    case BERTH_FORM_PRODUCT:
        value = mul_saturated(form->scale, mul_saturated(highest[a], highest[b]));
        break;
    case BERTH_FORM_CEIL: {
        const int64_t above = ceil_quotient(add_saturated(highest[a], form->shift), form->unit);
        const int64_t below = ceil_quotient(add_saturated(lowest[a], form->shift), form->unit);
        value = add_saturated(scaled(form->scale, below, above), form->add);
        break;
    }
    }
    return value > 0 ? value : 0;
}

int64_t berth_form_value(const berth_form* form, const int64_t* bindings) {
    return form_over(form, bindings, bindings);
}

int64_t berth_form_bound(const berth_form* form, const int64_t* lo, const int64_t* hi) {
    if (berth_form_is_monotone(form)) return form_over(form, hi, hi);
    // The box is open below: its lowest point is lo + 1.
    const berth_form* f = form;
    const bool two = f->kind == BERTH_FORM_SUM;
    const int64_t lowest[2] = {lo[f->a] + 1, two ? lo[f->b] + 1 : 0};
    const int64_t highest[2] = {hi[f->a], two ? hi[f->b] : 0};
    berth_form local = *form;
    local.a = 0;
    local.b = 1;
    return form_over(&local, lowest, highest);
}

bool berth_form_is_monotone(const berth_form* form) {
    return form->scale >= 0 && (form->kind != BERTH_FORM_SUM || form->scale_b >= 0);
}

// ---- Fitting.

typedef struct fitter {
    const berth_form_samples* samples;
    berth_form_set* set;
} fitter;

static int64_t symbol_at(const fitter* self, size_t sample, uint16_t symbol) {
    return self->samples->bindings[sample][symbol];
}

static bool fits(const fitter* self, const berth_form* form) {
    for (size_t i = 0; i < self->samples->count; i++)
        if (berth_form_value(form, self->samples->bindings[i]) != self->samples->values[i])
            return false;
    return true;
}

/// Keeps `form` if it agrees with every sample and there is room.
static void propose(fitter* self, berth_form form) {
    if (self->set->count < BERTH_FORM_MAX && fits(self, &form))
        self->set->items[self->set->count++] = form;
}

static void propose_constant(fitter* self) {
    propose(self, (berth_form){.kind = BERTH_FORM_AFFINE, .add = self->samples->values[0]});
}

/// The largest power of two, at most ROUND_UNIT_MAX, that divides every observed value of `symbol`.
static uint32_t common_unit(const fitter* self, uint16_t symbol) {
    uint64_t bits = ROUND_UNIT_MAX;
    uint64_t any = 0;
    for (size_t i = 0; i < self->samples->count; i++) {
        bits |= (uint64_t)symbol_at(self, i, symbol);
        any |= (uint64_t)symbol_at(self, i, symbol);
    }
    return any == 0 ? 1 : (uint32_t)(bits & (~bits + 1));
}

static void propose_identities(fitter* self) {
    for (size_t i = 0; i < self->samples->symbol_count; i++)
        propose(
            self,
            (berth_form){.kind = BERTH_FORM_AFFINE, .a = self->samples->symbols[i], .scale = 1});
    const uint8_t identities = self->set->count;
    for (uint8_t i = 0; i < identities; i++) {
        const uint16_t symbol = self->set->items[i].a;
        const uint32_t unit = common_unit(self, symbol);
        if (unit > 1)
            propose(self, (berth_form){.kind = BERTH_FORM_ROUND, .a = symbol, .unit = unit});
    }
}

/// The line through two samples with different values of `symbol`. False if its coefficients are no
/// integers.
static bool line_through(const fitter* self, uint16_t symbol, berth_form* out) {
    const int64_t s0 = symbol_at(self, 0, symbol);
    const int64_t v0 = self->samples->values[0];
    for (size_t i = 1; i < self->samples->count; i++) {
        const int64_t ds = symbol_at(self, i, symbol) - s0;
        const int64_t dv = self->samples->values[i] - v0;
        if (ds == 0) continue;
        int64_t rise;
        if (dv % ds != 0 || !berth_mul_i64(dv / ds, s0, &rise) || rise == INT64_MIN) return false;
        *out = (berth_form){.kind = BERTH_FORM_AFFINE, .a = symbol, .scale = dv / ds};
        return berth_add_i64(v0, -rise, &out->add);
    }
    return false;
}

static void propose_lines(fitter* self, bool general) {
    for (size_t i = 0; i < self->samples->symbol_count; i++) {
        berth_form form;
        if (!line_through(self, self->samples->symbols[i], &form)) continue;
        if (general || form.scale == 1 || (form.add == 0 && form.scale > 1)) propose(self, form);
    }
}

static void propose_sum(fitter* self, uint16_t a, uint16_t b, int64_t scale_b, bool with_constant) {
    berth_form form = {.kind = BERTH_FORM_SUM, .a = a, .b = b, .scale = 1, .scale_b = scale_b};
    if (with_constant) {
        const int64_t s =
            add_saturated(symbol_at(self, 0, a), mul_saturated(scale_b, symbol_at(self, 0, b)));
        if (!berth_add_i64(self->samples->values[0], -s, &form.add)) return;
    }
    propose(self, form);
}

static void propose_product(fitter* self, uint16_t a, uint16_t b, bool scaled_too) {
    berth_form form = {.kind = BERTH_FORM_PRODUCT, .a = a, .b = b, .scale = 1};
    if (scaled_too) {
        size_t i = 0;
        int64_t product = 0;
        for (; i < self->samples->count && product == 0; i++)
            product = mul_saturated(symbol_at(self, i, a), symbol_at(self, i, b));
        if (product == 0 || self->samples->values[i - 1] % product != 0) return;
        form.scale = self->samples->values[i - 1] / product;
        if (form.scale < 1) return;
    }
    propose(self, form);
}

/// Sums and products of two symbols, first without a further number, then with one.
static void propose_pairs(fitter* self, bool with_number) {
    const uint16_t* symbols = self->samples->symbols;
    for (size_t i = 0; i < self->samples->symbol_count; i++) {
        for (size_t j = i; j < self->samples->symbol_count; j++) {
            propose_product(self, symbols[i], symbols[j], with_number);
            if (i == j) continue;
            propose_sum(self, symbols[i], symbols[j], 1, with_number);
            propose_sum(self, symbols[i], symbols[j], -1, with_number);
            propose_sum(self, symbols[j], symbols[i], -1, with_number);
        }
    }
}

/// scale * ceil((s + shift) / unit) + add through two samples with different quotients.
static bool stairs_through(
    const fitter* self, uint16_t symbol, uint32_t unit, uint32_t shift, berth_form* out) {
    const int64_t q0 = ceil_quotient(add_saturated(symbol_at(self, 0, symbol), shift), unit);
    const int64_t v0 = self->samples->values[0];
    for (size_t i = 1; i < self->samples->count; i++) {
        const int64_t q = ceil_quotient(add_saturated(symbol_at(self, i, symbol), shift), unit);
        const int64_t dv = self->samples->values[i] - v0;
        if (q == q0) continue;
        int64_t rise;
        if (dv % (q - q0) != 0 || dv / (q - q0) < 1) return false;
        if (!berth_mul_i64(dv / (q - q0), q0, &rise)) return false;
        *out = (berth_form){.kind = BERTH_FORM_CEIL,
                            .a = symbol,
                            .unit = unit,
                            .shift = shift,
                            .scale = dv / (q - q0)};
        return berth_add_i64(v0, -rise, &out->add);
    }
    return false;
}

/// Ceiling quotients by 2^i * factor.
static void propose_stairs(fitter* self, uint32_t factor, bool with_constant) {
    for (size_t i = 0; i < self->samples->symbol_count; i++) {
        for (uint32_t unit = factor == 1 ? 2 : factor; unit <= 4096; unit *= 2) {
            for (uint32_t shift = 0; shift < 2; shift++) {
                berth_form form;
                if (!stairs_through(self, self->samples->symbols[i], unit, shift, &form)) continue;
                if (with_constant || form.add == 0) propose(self, form);
            }
        }
    }
}

/// The plane through the first three samples that span one, if its coefficients are integers.
static void propose_plane(fitter* self, uint16_t a, uint16_t b) {
    const berth_form_samples* samples = self->samples;
    const int64_t a0 = symbol_at(self, 0, a);
    const int64_t b0 = symbol_at(self, 0, b);
    const int64_t v0 = samples->values[0];
    for (size_t i = 1; i < samples->count; i++) {
        for (size_t j = i + 1; j < samples->count; j++) {
            const int64_t ai = symbol_at(self, i, a) - a0, aj = symbol_at(self, j, a) - a0;
            const int64_t bi = symbol_at(self, i, b) - b0, bj = symbol_at(self, j, b) - b0;
            const int64_t vi = samples->values[i] - v0, vj = samples->values[j] - v0;
            int64_t p[6];
            if (!berth_mul_i64(ai, bj, &p[0]) || !berth_mul_i64(aj, bi, &p[1]) ||
                !berth_mul_i64(vi, bj, &p[2]) || !berth_mul_i64(vj, bi, &p[3]) ||
                !berth_mul_i64(ai, vj, &p[4]) || !berth_mul_i64(aj, vi, &p[5]))
                return;
            for (int k = 0; k < 6; k++)
                if (p[k] > INT64_MAX / 4 || p[k] < INT64_MIN / 4) return;
            const int64_t determinant = p[0] - p[1];
            if (determinant == 0) continue;
            const int64_t x = p[2] - p[3];
            const int64_t y = p[4] - p[5];
            if (x % determinant != 0 || y % determinant != 0) return;
            berth_form form = {.kind = BERTH_FORM_SUM, .a = a, .b = b};
            form.scale = x / determinant;
            form.scale_b = y / determinant;
            const int64_t rise =
                add_saturated(mul_saturated(form.scale, a0), mul_saturated(form.scale_b, b0));
            if (rise == INT64_MIN || !berth_add_i64(v0, -rise, &form.add)) return;
            propose(self, form);
            return;
        }
    }
}

static void propose_planes(fitter* self) {
    const uint16_t* symbols = self->samples->symbols;
    for (size_t i = 0; i < self->samples->symbol_count; i++)
        for (size_t j = i + 1; j < self->samples->symbol_count; j++)
            propose_plane(self, symbols[i], symbols[j]);
}

void berth_form_set_fit(berth_form_set* set, const berth_form_samples* samples) {
    *set = (berth_form_set){.count = 0};
    fitter self = {samples, set};
    // Families in order of simplicity: the first that fits hides the rest, else data that happens
    // to lie on a general form would be taken for it.
    propose_constant(&self);
    if (set->count == 0) propose_identities(&self);
    if (set->count == 0) propose_lines(&self, false);
    if (set->count == 0) propose_pairs(&self, false);
    if (set->count == 0) propose_pairs(&self, true);
    if (set->count == 0) propose_lines(&self, true);
    if (set->count == 0) propose_stairs(&self, 1, false);
    if (set->count == 0) propose_stairs(&self, 3, false);
    if (set->count == 0) propose_stairs(&self, 1, true);
    if (set->count == 0) propose_planes(&self);
    berth_form_set_confirm(set, samples);
}

bool berth_form_set_filter(berth_form_set* set, const int64_t* bindings, int64_t value) {
    uint8_t kept = 0;
    bool changed = false;
    for (uint8_t i = 0; i < set->count; i++) {
        berth_form form = set->items[i];
        while (berth_form_value(&form, bindings) != value && form.kind == BERTH_FORM_ROUND &&
               form.unit > 2) {
            form.unit /= 2; // padding to a smaller unit agreed with everything so far, too
            changed = true;
        }
        if (berth_form_value(&form, bindings) == value)
            set->items[kept++] = form;
        else
            changed = true;
    }
    set->count = kept;
    return changed;
}

static size_t distinct_values(const berth_form_samples* samples, uint16_t symbol) {
    size_t distinct = 0;
    for (size_t i = 0; i < samples->count; i++) {
        bool seen = false;
        for (size_t j = 0; j < i && !seen; j++)
            seen = samples->bindings[j][symbol] == samples->bindings[i][symbol];
        distinct += !seen;
    }
    return distinct;
}

static bool is_confirmed(const berth_form* form, const berth_form_samples* samples) {
    switch (form->kind) {
    case BERTH_FORM_AFFINE:
        if (form->scale == 0) return true;
        return distinct_values(samples, form->a) >= (form->scale != 1 && form->add != 0 ? 3u : 2u);
    case BERTH_FORM_ROUND:
        return distinct_values(samples, form->a) >= 2;
    case BERTH_FORM_SUM: {
        const bool unit = form->scale == 1 && (form->scale_b == 1 || form->scale_b == -1);
        return samples->count >= (unit ? 3u : 4u);
    }
    case BERTH_FORM_PRODUCT:
        return samples->count >= 3;
    case BERTH_FORM_CEIL:
        return distinct_values(samples, form->a) >= 4;
    }
    return false;
}

void berth_form_set_confirm(berth_form_set* set, const berth_form_samples* samples) {
    set->confirmed = set->count > 0;
    for (uint8_t i = 0; i < set->count; i++)
        set->confirmed = set->confirmed && is_confirmed(&set->items[i], samples);
}
