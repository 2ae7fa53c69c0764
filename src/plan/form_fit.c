// SPDX-License-Identifier: Apache-2.0
// The order of the families, and the simple ones: constants, lines, pairs, windows on them.
#include "plan/form_fit.h"

#include "base/checked.h"
#include "plan/form_fitter.h"

/// Multiples up to this are seen as padding while all observed lengths happen to be multiples.
#define PADDING_UNIT_MAX 64

static int64_t symbol_at(const berth_form_fitter* self, size_t sample, uint16_t symbol) {
    return self->samples->bindings[sample][symbol];
}

// ---- What all families use.

bool berth_form_is_done(const berth_form_fitter* self) {
    return self->set->count > 0 || !berth_form_has_work(self);
}

static bool fits(berth_form_fitter* self, const berth_form* form) {
    const berth_form_samples* samples = self->samples;
    for (size_t i = 0; i < samples->count; i++) {
        if (!berth_form_has_work(self)) return false;
        --*self->work;
        if (berth_form_value(form, samples->bindings[i]) != samples->values[i]) return false;
    }
    return true;
}

void berth_form_propose(berth_form_fitter* self, const berth_form* form) {
    if (self->set->count < BERTH_FORM_MAX && fits(self, form))
        self->set->items[self->set->count++] = *form;
}

berth_form_factor berth_form_factor_of(uint16_t a, uint16_t b) {
    berth_form_factor factor = {.symbols = {a, b}, .scales = {1, 1}, .unit = 1};
    factor.count = a == b ? 1 : 2;
    return factor;
}

berth_form berth_form_of(berth_form_factor factor) {
    return (berth_form){.factors = {factor}, .factor_count = 1, .unit = 1, .scale = 1};
}

/// Chooses scale and add (unless `fixed_add`) by the first samples that tell them. False if they
/// are no integers.
static bool choose_scale(berth_form_fitter* self, berth_form* form, bool fixed_add) {
    const berth_form_samples* samples = self->samples;
    const int64_t p0 = fixed_add ? 0 : berth_form_value(form, samples->bindings[0]);
    const int64_t v0 = fixed_add ? 0 : samples->values[0];
    for (size_t i = 0; i < samples->count && berth_form_has_work(self); i++) {
        --*self->work;
        const int64_t dp = berth_form_value(form, samples->bindings[i]) - p0;
        const int64_t dv = samples->values[i] - v0;
        if (dp == 0) continue;
        int64_t rise;
        if (dv % dp != 0 || dv == 0 || !berth_mul_i64(dv / dp, p0, &rise) || rise == INT64_MIN)
            return false;
        form->scale = dv / dp;
        if (!berth_add_i64(v0, -rise, &form->add)) return false;
        form->unknowns = (uint8_t)(form->unknowns + (form->scale != 1) + (form->add != 0));
        return true;
    }
    return false;
}

void berth_form_propose_scaled(berth_form_fitter* self, berth_form form, bool fixed_add) {
    if (choose_scale(self, &form, fixed_add) && form.scale > 0) berth_form_propose(self, &form);
}

// ---- One symbol.

static void propose_constant(berth_form_fitter* self) {
    const berth_form form = {.unit = 1, .scale = 1, .add = self->samples->values[0]};
    berth_form_propose(self, &form);
}

static void propose_identities(berth_form_fitter* self) {
    for (size_t i = 0; i < self->samples->symbol_count; i++) {
        const uint16_t symbol = self->samples->symbols[i];
        const berth_form form = berth_form_of(berth_form_factor_of(symbol, symbol));
        berth_form_propose(self, &form);
    }
}

static void propose_lines(berth_form_fitter* self, bool general) {
    for (size_t i = 0; i < self->samples->symbol_count; i++) {
        const uint16_t symbol = self->samples->symbols[i];
        berth_form form = berth_form_of(berth_form_factor_of(symbol, symbol));
        if (!choose_scale(self, &form, false)) continue;
        if (general || form.scale == 1 || (form.add == 0 && form.scale > 1))
            berth_form_propose(self, &form);
    }
}

static void propose_simple_lines(berth_form_fitter* self) { propose_lines(self, false); }
static void propose_general_lines(berth_form_fitter* self) { propose_lines(self, true); }

// ---- Two and three symbols.

static void propose_sum(berth_form_fitter* self, uint16_t a, uint16_t b, int32_t sign, bool add) {
    berth_form form = berth_form_of(berth_form_factor_of(a, b));
    form.factors[0].scales[1] = sign;
    if (add) {
        int64_t sum;
        const int64_t second = symbol_at(self, 0, b);
        if (!berth_add_i64(symbol_at(self, 0, a), sign < 0 ? -second : second, &sum)) return;
        if (sum == INT64_MIN || !berth_add_i64(self->samples->values[0], -sum, &form.add)) return;
        form.unknowns = 1;
    }
    berth_form_propose(self, &form);
}

static void propose_pair_product(berth_form_fitter* self, uint16_t a, uint16_t b, bool scaled) {
    berth_form form = berth_form_of(berth_form_factor_of(a, a));
    form.factors[form.factor_count++] = berth_form_factor_of(b, b);
    if (scaled)
        berth_form_propose_scaled(self, form, true);
    else
        berth_form_propose(self, &form);
}

/// Sums and products of two symbols, first without a further number, then with one.
static void propose_pairs(berth_form_fitter* self, bool number) {
    const uint16_t* symbols = self->symbols;
    for (size_t i = 0; i < self->symbol_count && berth_form_has_work(self); i++) {
        for (size_t j = i; j < self->symbol_count; j++) {
            propose_pair_product(self, symbols[i], symbols[j], number);
            if (i == j) continue;
            propose_sum(self, symbols[i], symbols[j], 1, number);
            propose_sum(self, symbols[i], symbols[j], -1, number);
            propose_sum(self, symbols[j], symbols[i], -1, number);
        }
    }
}

static void propose_plain_pairs(berth_form_fitter* self) { propose_pairs(self, false); }
static void propose_numbered_pairs(berth_form_fitter* self) { propose_pairs(self, true); }

static void propose_triple_sums(berth_form_fitter* self) {
    for (size_t i = 0; i < self->symbol_count; i++) {
        for (size_t j = i + 1; j < self->symbol_count && berth_form_has_work(self); j++) {
            for (size_t k = j + 1; k < self->symbol_count; k++) {
                berth_form form =
                    berth_form_of(berth_form_factor_of(self->symbols[i], self->symbols[j]));
                form.factors[0].symbols[2] = self->symbols[k];
                form.factors[0].scales[2] = 1;
                form.factors[0].count = 3;
                if (choose_scale(self, &form, false) && form.scale == 1)
                    berth_form_propose(self, &form);
            }
        }
    }
}

// ---- What others of the same step follow: the form alone is evidence enough.

static void propose_known(berth_form_fitter* self) {
    for (size_t i = 0; i < self->samples->known_count && berth_form_has_work(self); i++) {
        berth_form form = *self->samples->known[i];
        if (form.limit_kind != BERTH_FORM_UNLIMITED || form.padding) continue;
        form.unknowns = 0;
        berth_form_propose(self, &form);
        form.scale = 1;
        form.add = 0;
        if (self->samples->count >= 2) berth_form_propose_scaled(self, form, true);
        if (self->samples->count >= 3) berth_form_propose_scaled(self, form, false);
    }
}

// ---- Windows: the samples off the limit lie on a simple form.

static uint32_t symbols_of(const berth_form* form, uint16_t* out) {
    uint32_t count = 0;
    for (uint8_t i = 0; i < form->factor_count; i++) {
        for (uint8_t k = 0; k < form->factors[i].count; k++) {
            uint32_t seen = 0;
            while (seen < count && out[seen] != form->factors[i].symbols[k])
                seen++;
            if (seen == count) out[count++] = form->factors[i].symbols[k];
        }
    }
    return count;
}

/// Fits `families` to the samples that differ from `limit`; proposes what is found, limited.
static void propose_limited(berth_form_fitter* self,
                            berth_form_limit kind,
                            int64_t limit,
                            const berth_form_family* families,
                            size_t family_count) {
    int64_t values[BERTH_FORM_SAMPLES];
    const int64_t* points[BERTH_FORM_SAMPLES];
    berth_form_samples off = *self->samples;
    off.values = values;
    off.bindings = points;
    off.count = 0;
    for (size_t i = 0; i < self->samples->count; i++) {
        if (self->samples->values[i] == limit) continue;
        values[off.count] = self->samples->values[i];
        points[off.count++] = self->samples->bindings[i];
    }
    berth_form_set found = {.count = 0};
    berth_form_fitter inner = *self;
    inner.samples = &off;
    inner.set = &found;
    for (size_t i = 0; i < family_count && !berth_form_is_done(&inner); i++)
        families[i](&inner);
    for (uint8_t i = 0; i < found.count; i++) {
        berth_form form = found.items[i];
        uint16_t symbols[BERTH_FORM_FACTORS * BERTH_FORM_TERMS];
        const uint32_t known = form.unknowns == 0 ? 1 : symbols_of(&form, symbols);
        if (off.count < form.unknowns + known) continue;
        form.limit_kind = (uint8_t)kind;
        form.limit = limit;
        form.unknowns++;
        berth_form_propose(self, &form);
    }
}

static void propose_windows_of(berth_form_fitter* self,
                               const berth_form_family* families,
                               size_t count) {
    const berth_form_samples* samples = self->samples;
    int64_t low = samples->values[0];
    int64_t high = low;
    for (size_t i = 1; i < samples->count; i++) {
        if (samples->values[i] < low) low = samples->values[i];
        if (samples->values[i] > high) high = samples->values[i];
    }
    propose_limited(self, BERTH_FORM_AT_MOST, high, families, count);
    propose_limited(self, BERTH_FORM_AT_LEAST, low, families, count);
}

static void propose_windows(berth_form_fitter* self) {
    static const berth_form_family families[] = {
        propose_identities, propose_known, propose_simple_lines, propose_plain_pairs};
    propose_windows_of(self, families, sizeof families / sizeof families[0]);
}

static void propose_rich_windows(berth_form_fitter* self) {
    static const berth_form_family families[] = {
        propose_numbered_pairs, propose_general_lines, berth_form_propose_stairs};
    propose_windows_of(self, families, sizeof families / sizeof families[0]);
}

static void propose_stepped_windows(berth_form_fitter* self) {
    static const berth_form_family families[] = {berth_form_propose_wide_stairs,
                                                 berth_form_propose_shifted_stairs};
    propose_windows_of(self, families, sizeof families / sizeof families[0]);
}

// ---- Padding.

/// The largest power of two, at most PADDING_UNIT_MAX, that divides the factor in every sample.
static uint32_t common_unit(const berth_form_fitter* self, const berth_form_factor* factor) {
    const berth_form form = berth_form_of(*factor);
    uint64_t bits = PADDING_UNIT_MAX;
    uint64_t any = 0;
    for (size_t i = 0; i < self->samples->count; i++) {
        const uint64_t value = (uint64_t)berth_form_value(&form, self->samples->bindings[i]);
        bits |= value;
        any |= value;
    }
    return any == 0 ? 1 : (uint32_t)(bits & (~bits + 1));
}

/// While the lengths happen to be multiples, what follows a length may follow the padded one.
static void propose_padding(berth_form_fitter* self) {
    const uint8_t count = self->set->count;
    for (uint8_t i = 0; i < count; i++) {
        berth_form form = self->set->items[i];
        if (form.factor_count != 1 || form.factors[0].unit != 1 || form.scale < 0) continue;
        const uint32_t unit = common_unit(self, &form.factors[0]);
        if (unit == 1 || !berth_mul_i64(form.scale, (int64_t)unit, &form.scale)) continue;
        form.factors[0].unit = unit;
        form.padding = true;
        berth_form_propose(self, &form);
    }
}

// ---- All together.

/// One of each group of symbols that are equal in every sample.
static size_t find_representatives(const berth_form_samples* samples, uint16_t* out) {
    size_t count = 0;
    for (size_t i = 0; i < samples->symbol_count; i++) {
        bool known = false;
        for (size_t k = 0; k < count && !known; k++) {
            size_t row = 0;
            while (row < samples->count &&
                   samples->bindings[row][samples->symbols[i]] == samples->bindings[row][out[k]])
                row++;
            known = row == samples->count;
        }
        if (!known) out[count++] = samples->symbols[i];
    }
    return count;
}

void berth_form_set_fit(berth_form_set* set, const berth_form_samples* samples, uint64_t* work) {
    static const berth_form_family simple[] = {
        propose_constant, propose_identities, propose_simple_lines};
    static const berth_form_family rich[] = {propose_known,
                                             propose_plain_pairs,
                                             propose_windows,
                                             propose_numbered_pairs,
                                             propose_general_lines,
                                             berth_form_propose_remainders,
                                             berth_form_propose_stairs,
                                             propose_triple_sums,
                                             berth_form_propose_wide_stairs,
                                             berth_form_propose_grids,
                                             berth_form_propose_products,
                                             berth_form_propose_padded_products,
                                             propose_rich_windows,
                                             berth_form_propose_planes,
                                             berth_form_propose_curves,
                                             berth_form_propose_shifted_stairs,
                                             propose_stepped_windows};
    *set = (berth_form_set){.count = 0};
    berth_form_fitter self = {samples, set, work, samples->symbols, samples->symbol_count};
    for (size_t i = 0; i < sizeof simple / sizeof simple[0] && !berth_form_is_done(&self); i++)
        simple[i](&self);
    uint16_t representatives[UINT8_MAX];
    if (!berth_form_is_done(&self) && samples->symbol_count <= UINT8_MAX) {
        self.symbols = representatives;
        self.symbol_count = find_representatives(samples, representatives);
        for (size_t i = 0; i < sizeof rich / sizeof rich[0] && !berth_form_is_done(&self); i++)
            rich[i](&self);
    }
    propose_padding(&self);
    berth_form_set_confirm(set, samples);
}

/// True if sample `i` tells nothing of a form but that it is beyond its limit.
static bool is_beyond(const berth_form* form, const berth_form_samples* samples, size_t i) {
    return form->limit_kind != BERTH_FORM_UNLIMITED && samples->values[i] == form->limit;
}

static bool same_point(const berth_form_samples* samples,
                       size_t i,
                       size_t j,
                       const uint16_t* symbols,
                       uint32_t count) {
    for (uint32_t k = 0; k < count; k++)
        if (samples->bindings[i][symbols[k]] != samples->bindings[j][symbols[k]]) return false;
    return true;
}

/// Different points among the samples, as far as the form's symbols tell.
static size_t distinct_points(const berth_form* form,
                              const berth_form_samples* samples,
                              const uint16_t* symbols,
                              uint32_t count) {
    size_t distinct = 0;
    for (size_t i = 0; i < samples->count; i++) {
        bool seen = is_beyond(form, samples, i);
        for (size_t j = 0; j < i && !seen; j++)
            seen = !is_beyond(form, samples, j) && same_point(samples, i, j, symbols, count);
        distinct += !seen;
    }
    return distinct;
}

static bool is_confirmed(const berth_form* form, const berth_form_samples* samples) {
    uint16_t symbols[BERTH_FORM_FACTORS * BERTH_FORM_TERMS];
    const uint32_t count = symbols_of(form, symbols);
    if (count == 0) return true;
    // The limit itself is told by the samples that are not counted.
    const bool limited = form->limit_kind != BERTH_FORM_UNLIMITED;
    const size_t least = count == 1 || limited ? 2 : 3;
    const size_t needed = form->unknowns + (size_t)!limited;
    return distinct_points(form, samples, symbols, count) >= (needed > least ? needed : least);
}

void berth_form_set_confirm(berth_form_set* set, const berth_form_samples* samples) {
    set->confirmed = set->count > 0;
    for (uint8_t i = 0; i < set->count; i++)
        set->confirmed = set->confirmed && is_confirmed(&set->items[i], samples);
}
