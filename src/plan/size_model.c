// SPDX-License-Identifier: Apache-2.0
// Partition refinement over the dimensions of a path, and evaluation.
#include "plan/size_model.h"

#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/hash.h"

/// Surprises after which a size without a form counts as independent of the symbols.
#define MISSES_MAX 8u
/// What one run may spend on looking for forms, and one class of it (10 to 60 ns each).
#define RUN_WORK 65536u
#define CLASS_WORK 32768u
/// Forms of other classes that a class is compared with.
#define KNOWN_FORMS 16u
/// Fits that may fail in a row before there are gaps between them, which double so many times.
#define FAILED_FITS 8u
#define FIT_GAP_DOUBLINGS 6u

static int64_t* run_at(const berth_size_model* self, uint32_t run) {
    return self->runs + (size_t)run * self->binding_count;
}

// ---- Classes.

static berth_status push_class(berth_size_model* self, berth_size_class class) {
    const size_t capacity = self->classes.capacity;
    BERTH_TRY(berth_size_class_vec_push(&self->classes, self->host, class));
    if (self->classes.capacity == capacity) return BERTH_OK;
    int64_t* grown = berth_host_realloc(
        self->host, self->class_value, self->classes.capacity * sizeof *self->class_value);
    if (grown != NULL) {
        self->class_value = grown;
        return BERTH_OK;
    }
    self->classes.count--;
    self->classes.capacity = capacity; // the block is larger than said; the scratch is not
    return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory for size classes");
}

static berth_size_class first_class(const berth_trace_value* value, int64_t dim) {
    berth_size_class class = {.largest = dim};
    class.values[0] = dim;
    class.frame = (value->flags & BERTH_VALUE_FRAME) != 0;
    class.data = class.expected = (value->flags & BERTH_VALUE_DATA) != 0;
    class.scratch = (value->flags & BERTH_VALUE_SCRATCH) != 0;
    return class;
}

static bool same_first(const berth_size_class* a, const berth_size_class* b) {
    return a->values[0] == b->values[0] && a->frame == b->frame && a->data == b->data &&
           a->scratch == b->scratch;
}

static berth_status first_classes(berth_size_model* self, const berth_trace* trace) {
    for (size_t v = 0; v < trace->values.count; v++) {
        const berth_trace_value* value = &trace->values.items[v];
        for (uint32_t d = 0; d < value->rank; d++) {
            const uint32_t at = value->dims_at + d;
            const berth_size_class class = first_class(value, trace->dims.items[at]);
            size_t found = 0;
            while (found < self->classes.count && !same_first(&self->classes.items[found], &class))
                found++;
            if (found == self->classes.count) BERTH_TRY(push_class(self, class));
            self->class_of[at] = (uint32_t)found;
        }
    }
    return BERTH_OK;
}

/// Splits the classes by the dimensions of a further run. The new class of each dimension goes to
/// `scratch`, and `class_value` tells each class's dimension in that run. Old classes are unchanged
/// but for new ones behind them.
static berth_status split_classes(berth_size_model* self, const berth_trace* trace) {
    const size_t old_count = self->classes.count;
    // next[c]: another class split from the same one, 0 for none (class 0 is never split off).
    uint32_t* next = berth_host_calloc(self->host, old_count + self->dim_count + 1, sizeof *next);
    bool* seen = berth_host_calloc(self->host, old_count + 1, sizeof *seen);
    berth_status status = next != NULL && seen != NULL ? BERTH_OK : BERTH_ERR_OUT_OF_MEMORY;
    for (uint32_t at = 0; at < self->dim_count && status == BERTH_OK; at++) {
        const int64_t dim = trace->dims.items[at];
        uint32_t class = self->class_of[at];
        if (!seen[class]) {
            seen[class] = true;
            self->class_value[class] = dim;
        }
        while (self->class_value[class] != dim) {
            if (next[class] == 0) {
                const uint32_t made = (uint32_t)self->classes.count;
                status = push_class(self, self->classes.items[self->class_of[at]]);
                if (status != BERTH_OK) break;
                self->class_value[made] = dim;
                next[class] = made;
            }
            class = next[class];
        }
        self->scratch[at] = class;
    }
    berth_host_free(self->host, next);
    berth_host_free(self->host, seen);
    if (status != BERTH_OK) {
        self->classes.count = old_count;
        return berth_fail(status, "no memory to learn the sizes of a run");
    }
    return BERTH_OK;
}

// ---- Kinds.

static bool same_kind(const berth_size_kind* a, const berth_size_kind* b) {
    return a->rank == b->rank && a->dtype == b->dtype &&
           memcmp(a->classes, b->classes, a->rank * sizeof a->classes[0]) == 0;
}

static berth_size_kind kind_of_value(const berth_trace_value* value, const uint32_t* class_of) {
    berth_size_kind kind = {.rank = value->rank, .dtype = value->dtype};
    memcpy(kind.classes, class_of + value->dims_at, value->rank * sizeof kind.classes[0]);
    return kind;
}

/// Numbers the distinct kinds into fresh arrays.
static berth_status number_kinds(const berth_size_model* self,
                                 const berth_trace* trace,
                                 const uint32_t* class_of,
                                 berth_size_kind_vec* kinds,
                                 uint32_t* kind_of) {
    size_t slots = 64;
    while (slots < trace->values.count * 2)
        slots *= 2;
    uint32_t* table = berth_host_calloc(self->host, slots, sizeof *table);
    berth_status status = table != NULL ? BERTH_OK : BERTH_ERR_OUT_OF_MEMORY;
    for (size_t v = 0; v < trace->values.count && status == BERTH_OK; v++) {
        const berth_size_kind kind = kind_of_value(&trace->values.items[v], class_of);
        size_t slot = berth_hash64(&kind, sizeof kind, 0) & (slots - 1);
        while (table[slot] != 0 && !same_kind(&kinds->items[table[slot] - 1], &kind))
            slot = (slot + 1) & (slots - 1);
        if (table[slot] == 0) {
            status = berth_size_kind_vec_push(kinds, self->host, kind);
            table[slot] = (uint32_t)kinds->count;
        }
        kind_of[v] = table[slot] - 1;
    }
    berth_host_free(self->host, table);
    return status;
}

/// Replaces the kinds for the classes in `class_of`; as before without memory.
static berth_status renew_kinds(berth_size_model* self,
                                const berth_trace* trace,
                                const uint32_t* class_of) {
    berth_size_kind_vec kinds = {0};
    uint32_t* kind_of =
        berth_host_calloc(self->host, self->value_count + (size_t)1, sizeof *kind_of);
    uint64_t* bytes = NULL;
    berth_status status = kind_of != NULL ? BERTH_OK : BERTH_ERR_OUT_OF_MEMORY;
    if (status == BERTH_OK) status = number_kinds(self, trace, class_of, &kinds, kind_of);
    if (status == BERTH_OK) {
        bytes = berth_host_calloc(self->host, kinds.count + 1, sizeof *bytes);
        if (bytes == NULL) status = BERTH_ERR_OUT_OF_MEMORY;
    }
    if (status != BERTH_OK) {
        berth_host_free(self->host, kind_of);
        berth_size_kind_vec_fini(&kinds, self->host);
        return berth_fail(status, "no memory to learn the sizes of a run");
    }
    berth_host_free(self->host, self->kind_of);
    berth_host_free(self->host, self->kind_bytes);
    berth_size_kind_vec_fini(&self->kinds, self->host);
    self->kind_of = kind_of;
    self->kind_bytes = bytes;
    self->kinds = kinds;
    return BERTH_OK;
}

// ---- Runs.

static void count_bytes(berth_size_model* self) {
    self->bytes = self->classes.capacity * (sizeof(berth_size_class) + sizeof(int64_t)) +
                  self->kinds.capacity * (sizeof(berth_size_kind) + sizeof(uint64_t)) +
                  (size_t)self->dim_count * 2 * sizeof(uint32_t) +
                  (size_t)self->value_count * sizeof(uint32_t) +
                  (size_t)self->binding_count * (BERTH_SIZE_RUNS + 1) * sizeof(int64_t);
}

static uint32_t find_run(const berth_size_model* self, const int64_t* bindings) {
    uint32_t run = 0;
    while (run < self->run_count &&
           memcmp(run_at(self, run), bindings, self->binding_count * sizeof *bindings) != 0)
        run++;
    return run;
}

/// Ratio-like distance of two runs.
static double distance(const berth_size_model* self, const int64_t* a, const int64_t* b) {
    double sum = 0;
    for (uint32_t i = 0; i < self->binding_count; i++) {
        const double difference = (double)a[i] - (double)b[i];
        const double whole = (double)a[i] + (double)b[i] + 1;
        sum += (difference < 0 ? -difference : difference) / whole;
    }
    return sum;
}

/// Refuting runs are kept as if they stood so much farther from others.
#define TELLING_DISTANCE 4.0

/// Of two kept runs near each other the one to give up: one that refuted nothing, or the older.
static uint32_t lesser_run(const berth_size_model* self, uint32_t i, uint32_t k) {
    if (self->telling[i] != self->telling[k]) return self->telling[i] ? k : i;
    return self->run_age[i] < self->run_age[k] ? i : k;
}

/// Chooses the place of a new run: a free one, or that of the lesser of the two kept runs nearest
/// to each other (counting the new one, which always stays).
static uint32_t choose_run(const berth_size_model* self, const int64_t* bindings) {
    if (self->run_count < BERTH_SIZE_RUNS) return self->run_count;
    uint32_t victim = 0;
    double nearest = -1;
    for (uint32_t i = 0; i < BERTH_SIZE_RUNS; i++) {
        double gap = distance(self, run_at(self, i), bindings);
        if (self->telling[i]) gap *= TELLING_DISTANCE;
        uint32_t lesser = i;
        for (uint32_t k = 0; k < i; k++) {
            double other = distance(self, run_at(self, i), run_at(self, k));
            if (self->telling[i] && self->telling[k]) other *= TELLING_DISTANCE;
            if (other >= gap) continue;
            gap = other;
            lesser = lesser_run(self, i, k);
        }
        if (nearest < 0 || gap < nearest) {
            nearest = gap;
            victim = lesser;
        }
    }
    return victim;
}

static bool note_symbols(berth_size_model* self, const int64_t* bindings) {
    const uint32_t before = self->symbol_count;
    for (uint32_t i = 0; i < self->binding_count; i++) {
        if (bindings[i] == run_at(self, 0)[i] || berth_size_model_varies(self, i)) continue;
        self->symbols[self->symbol_count++] = (uint16_t)i;
    }
    return self->symbol_count != before;
}

// ---- Learning.

static bool has_no_form(const berth_size_class* class) {
    return class->frame || class->data || class->forms.count == 0;
}

static berth_form_samples samples_of(const berth_size_model* self,
                                     const berth_size_class* class,
                                     const int64_t** points) {
    for (uint32_t i = 0; i < self->run_count; i++)
        points[i] = run_at(self, i);
    return (berth_form_samples){.values = class->values,
                                .bindings = points,
                                .count = self->run_count,
                                .symbols = self->symbols,
                                .symbol_count = self->symbol_count};
}

/// Writes forms that other classes are known to follow to `out` [KNOWN_FORMS].
static size_t known_forms(const berth_size_model* self, const berth_form** out) {
    size_t count = 0;
    for (size_t i = 0; i < self->classes.count && count < KNOWN_FORMS; i++) {
        const berth_form_set* forms = &self->classes.items[i].forms;
        const bool found = forms->count > 0 && forms->confirmed && forms->items[0].factor_count > 0;
        if (found) out[count++] = &forms->items[0];
    }
    return count;
}

/// Looks for forms, of which there are none, with a part of what is left of `*work`. A class that
/// keeps having none is looked at less and less often.
static void fit_class(const berth_size_model* self, berth_size_class* class, uint64_t* work) {
    class->forms = (berth_form_set){.count = 0};
    if (class->frame || class->data || self->clock < class->fit_at) return;
    const int64_t* points[BERTH_SIZE_RUNS];
    berth_form_samples samples = samples_of(self, class, points);
    const berth_form* known[KNOWN_FORMS];
    samples.known = known;
    samples.known_count = known_forms(self, known);
    uint64_t share = *work < CLASS_WORK ? *work : CLASS_WORK;
    *work -= share;
    const bool whole = share == CLASS_WORK;
    berth_form_set_fit(&class->forms, &samples, &share);
    *work += share;
    if (class->forms.count > 0) {
        class->failed_fits = 0;
    } else if (whole || share > 0) { // else it was not looked at in full
        if (class->failed_fits < FAILED_FITS + FIT_GAP_DOUBLINGS) class->failed_fits++;
        if (class->failed_fits > FAILED_FITS)
            class->fit_at = self->clock + (UINT64_C(1) << (class->failed_fits - FAILED_FITS));
    }
}

/// What is planned for a class without forms: the largest of the runs at no larger symbols, with a
/// margin. `skip` is a run to leave out, or BERTH_SIZE_RUNS.
static int64_t observed_bound(const berth_size_model* self,
                              const berth_size_class* class,
                              const int64_t* hi,
                              uint32_t skip) {
    if (!class->varied) return class->largest;
    int64_t most = -1;
    for (uint32_t run = 0; run < self->run_count && class->misses < MISSES_MAX; run++) {
        bool within = run != skip;
        for (uint32_t i = 0; i < self->symbol_count && within; i++)
            within = run_at(self, run)[self->symbols[i]] <= hi[self->symbols[i]];
        if (within && class->values[run] > most) most = class->values[run];
    }
    if (most < 0) most = class->largest;
    int64_t with_margin;
    return berth_add_i64(most, most / 8 + (most > 0), &with_margin) ? with_margin : INT64_MAX;
}

/// A further run as each class learns it.
typedef struct run_lesson {
    const int64_t* bindings;
    uint32_t at;   ///< where the run is kept
    bool again;    ///< its key was seen before
    bool symbols;  ///< it made symbols of bindings
    bool telling;  ///< some form was refuted
    bool expected; ///< a size changed that may, at bindings seen before
    uint64_t work; ///< left for fitting
} run_lesson;

/// True if `value` is clearly larger than that of a kept run at no smaller symbols: then the size
/// does not simply grow with the symbols.
static bool is_surprise(const berth_size_model* self,
                        const berth_size_class* class,
                        int64_t value,
                        const run_lesson* lesson) {
    for (uint32_t run = 0; run < self->run_count; run++) {
        bool beyond = run != lesson->at;
        for (uint32_t i = 0; i < self->symbol_count && beyond; i++) {
            const uint16_t symbol = self->symbols[i];
            beyond = run_at(self, run)[symbol] >= lesson->bindings[symbol];
        }
        if (beyond && value - value / 9 > class->values[run]) return true;
    }
    return false;
}

/// A class that has no form before the lesson. Returns true if planning changes.
static bool teach_observed(const berth_size_model* self,
                           berth_size_class* class,
                           int64_t value,
                           const run_lesson* lesson) {
    const uint32_t skip = lesson->again ? BERTH_SIZE_RUNS : lesson->at;
    const bool missed = value > observed_bound(self, class, lesson->bindings, skip);
    if (missed && class->misses < MISSES_MAX && is_surprise(self, class, value, lesson))
        class->misses++;
    return missed;
}

/// Tests the forms of a class, and looks for others if none is left. Returns true if planning
/// changes.
static bool teach_forms(const berth_size_model* self,
                        berth_size_class* class,
                        int64_t value,
                        run_lesson* lesson) {
    const bool was_confirmed = class->forms.confirmed;
    const bool changed = berth_form_set_filter(&class->forms, lesson->bindings, value);
    lesson->telling = lesson->telling || changed;
    if (class->forms.count == 0) {
        class->fit_at = 0;
        fit_class(self, class, &lesson->work);
        return true;
    }
    const int64_t* points[BERTH_SIZE_RUNS];
    const berth_form_samples samples = samples_of(self, class, points);
    berth_form_set_confirm(&class->forms, &samples);
    // A confirmation stays, whatever runs are kept, until there are more symbols to depend on.
    if (was_confirmed && !lesson->symbols) class->forms.confirmed = true;
    return changed || class->forms.confirmed != was_confirmed;
}

/// Takes the value of one class in a further run. Returns true if planning changes.
static bool teach(const berth_size_model* self,
                  berth_size_class* class,
                  int64_t value,
                  run_lesson* lesson) {
    const uint32_t at = lesson->at;
    const bool was_varied = class->varied;
    const bool had_no_form = has_no_form(class);
    const bool missed = had_no_form && teach_observed(self, class, value, lesson);
    class->varied = class->varied || value != class->values[0];
    if (value > class->largest) class->largest = value;
    if (lesson->again && class->values[at] != value) {
        class->data = true; // no function of the symbols; the larger stays
        if (value > class->values[at]) class->values[at] = value;
        class->forms.count = 0;
        return !had_no_form || missed || !was_varied;
    }
    class->values[at] = value;
    if (class->frame || class->data) return missed || class->varied != was_varied;
    if (!had_no_form) return teach_forms(self, class, value, lesson);
    fit_class(self, class, &lesson->work);
    return class->forms.count > 0 || missed;
}

/// Compares the size of a class with that of an earlier run at the same bindings.
static void note_contradiction(berth_size_model* self,
                               uint32_t at,
                               int64_t value,
                               run_lesson* lesson) {
    const berth_size_class* class = &self->classes.items[at];
    const int64_t before = class->values[lesson->at];
    if (!lesson->again || before == value) return;
    if (class->expected || class->frame)
        lesson->expected = true;
    else if (!class->data && self->contradiction.class == UINT32_MAX)
        self->contradiction = (berth_size_contradiction){at, before, value};
}

/// Takes a further run, whose sizes are in class_value. The classes take turns at being first, as
/// what is spent on fitting is bounded.
static bool teach_all(berth_size_model* self, run_lesson* lesson) {
    bool changed = false;
    size_t at = self->first_class;
    for (size_t i = 0; i < self->classes.count; i++, at++) {
        if (at >= self->classes.count) at = 0;
        if (lesson->work > 0) self->first_class = at;
        berth_size_class* class = &self->classes.items[at];
        note_contradiction(self, (uint32_t)at, self->class_value[at], lesson);
        if (!teach(self, class, self->class_value[at], lesson)) continue;
        class->changes++;
        changed = true;
    }
    if (lesson->expected) self->contradiction.class = UINT32_MAX;
    return changed;
}

berth_status berth_size_model_init(berth_size_model* self,
                                   const berth_host* host,
                                   const berth_trace* trace,
                                   const int64_t* bindings,
                                   uint32_t binding_count) {
    *self = (berth_size_model){.host = host,
                               .value_count = (uint32_t)trace->values.count,
                               .dim_count = (uint32_t)trace->dims.count,
                               .binding_count = binding_count};
    const size_t dims = trace->dims.count + 1;
    self->runs =
        berth_host_calloc(host, (size_t)BERTH_SIZE_RUNS * binding_count + 1, sizeof *self->runs);
    self->symbols = berth_host_calloc(host, binding_count + (size_t)1, sizeof *self->symbols);
    self->class_of = berth_host_calloc(host, dims, sizeof *self->class_of);
    self->scratch = berth_host_calloc(host, dims, sizeof *self->scratch);
    berth_status status = BERTH_ERR_OUT_OF_MEMORY;
    if (self->runs != NULL && self->symbols != NULL && self->class_of != NULL &&
        self->scratch != NULL)
        status = first_classes(self, trace);
    if (status == BERTH_OK) status = renew_kinds(self, trace, self->class_of);
    if (status != BERTH_OK) {
        berth_size_model_fini(self);
        return berth_fail(status, "no memory to learn the sizes of a run");
    }
    if (binding_count > 0) memcpy(self->runs, bindings, binding_count * sizeof *bindings);
    self->run_count = 1;
    self->contradiction.class = UINT32_MAX;
    uint64_t work = UINT64_MAX; // there is nothing but constants yet
    for (size_t i = 0; i < self->classes.count; i++)
        fit_class(self, &self->classes.items[i], &work);
    count_bytes(self);
    return BERTH_OK;
}

void berth_size_model_fini(berth_size_model* self) {
    berth_host_free(self->host, self->runs);
    berth_host_free(self->host, self->symbols);
    berth_host_free(self->host, self->class_of);
    berth_host_free(self->host, self->kind_of);
    berth_host_free(self->host, self->class_value);
    berth_host_free(self->host, self->kind_bytes);
    berth_host_free(self->host, self->scratch);
    berth_size_class_vec_fini(&self->classes, self->host);
    berth_size_kind_vec_fini(&self->kinds, self->host);
    *self = (berth_size_model){.host = self->host};
}

berth_status berth_size_model_observe(berth_size_model* self,
                                      const berth_trace* trace,
                                      const int64_t* bindings,
                                      bool* out_changed) {
    *out_changed = false;
    const size_t classes_before = self->classes.count;
    BERTH_TRY(split_classes(self, trace));
    if (self->classes.count != classes_before) {
        const berth_status status = renew_kinds(self, trace, self->scratch);
        if (status != BERTH_OK) {
            self->classes.count = classes_before;
            return status;
        }
    }
    // From here on nothing can fail.
    uint32_t* class_of = self->class_of;
    self->class_of = self->scratch;
    self->scratch = class_of;
    const uint32_t same = find_run(self, bindings);
    const bool again = same < self->run_count;
    const uint32_t at = again ? same : choose_run(self, bindings);
    const bool new_symbols = note_symbols(self, bindings);
    bool changed = new_symbols;
    if (!again) {
        if (self->binding_count > 0)
            memcpy(run_at(self, at), bindings, self->binding_count * sizeof *bindings);
        if (at == self->run_count) self->run_count++;
    }
    self->run_age[at] = ++self->clock;
    run_lesson lesson = {
        .bindings = bindings, .at = at, .again = again, .symbols = new_symbols, .work = RUN_WORK};
    self->contradiction.class = UINT32_MAX;
    changed = teach_all(self, &lesson) || changed;
    self->telling[at] = lesson.telling || (again && self->telling[at]);
    *out_changed = changed;
    count_bytes(self);
    return BERTH_OK;
}

void berth_size_model_recall_symbol(berth_size_model* self, uint16_t binding) {
    if (binding < self->binding_count && !berth_size_model_varies(self, binding))
        self->symbols[self->symbol_count++] = binding;
}

void berth_size_model_recall_dim(
    berth_size_model* self, uint32_t dim, int64_t largest, uint8_t misses, bool data) {
    berth_size_class* class = &self->classes.items[self->class_of[dim]];
    if (largest > class->largest) {
        class->largest = largest;
        class->varied = true;
    }
    if (misses > class->misses) class->misses = misses;
    if (!data) return;
    class->data = true;
    class->forms.count = 0;
}

berth_size_contradiction berth_size_model_contradiction(const berth_size_model* self) {
    return self->contradiction;
}

uint32_t berth_size_model_find_restless(const berth_size_model* self, bool any) {
    uint32_t found = UINT32_MAX;
    for (uint32_t i = 0; i < self->classes.count; i++) {
        const berth_size_class* class = &self->classes.items[i];
        const bool formless = has_no_form(class) && class->varied;
        if (!any && (!formless || class->frame || class->expected)) continue;
        if (found == UINT32_MAX || class->changes > self->classes.items[found].changes) found = i;
    }
    return found;
}

bool berth_size_model_varies(const berth_size_model* self, uint32_t binding) {
    for (uint32_t i = 0; i < self->symbol_count; i++)
        if (self->symbols[i] == binding) return true;
    return false;
}

bool berth_size_model_applies(const berth_size_model* self, const int64_t* bindings) {
    for (uint32_t i = 0; i < self->binding_count; i++)
        if (bindings[i] != self->runs[i] && !berth_size_model_varies(self, i)) return false;
    return true;
}

// ---- Evaluation.

static int64_t evaluate_class(const berth_size_model* self,
                              const berth_size_class* class,
                              const int64_t* lo,
                              const int64_t* hi,
                              const int64_t* corner,
                              berth_size_answer* answer) {
    if (has_no_form(class)) {
        const bool steady = class->frame && !class->varied;
        answer->promise =
            steady && answer->promise >= BERTH_SIZE_BOUND ? BERTH_SIZE_BOUND : BERTH_SIZE_OBSERVED;
        answer->learn = true;
        return observed_bound(self, class, corner, BERTH_SIZE_RUNS);
    }
    int64_t largest = 0;
    bool differ = false;
    bool monotone = true;
    for (uint8_t i = 0; i < class->forms.count; i++) {
        const int64_t value = berth_form_bound(&class->forms.items[i], lo, hi);
        differ = differ || (i > 0 && value != largest);
        monotone = monotone && berth_form_is_monotone(&class->forms.items[i]);
        if (value > largest) largest = value;
    }
    if (!class->forms.confirmed)
        answer->promise = BERTH_SIZE_OBSERVED;
    else if ((differ || !monotone) && answer->promise > BERTH_SIZE_BOUND)
        answer->promise = BERTH_SIZE_BOUND;
    answer->learn = answer->learn || differ || !class->forms.confirmed;
    return largest;
}

berth_size_answer berth_size_model_evaluate(berth_size_model* self,
                                            const int64_t* lo,
                                            const int64_t* hi,
                                            const int64_t* corner,
                                            uint64_t* out_bytes) {
    berth_size_answer answer = {.promise = BERTH_SIZE_EXACT};
    for (size_t i = 0; i < self->classes.count; i++)
        self->class_value[i] =
            evaluate_class(self, &self->classes.items[i], lo, hi, corner, &answer);
    for (size_t i = 0; i < self->kinds.count; i++) {
        const berth_size_kind* kind = &self->kinds.items[i];
        int64_t dims[BERTH_MAX_RANK];
        for (uint32_t d = 0; d < kind->rank; d++)
            dims[d] = self->class_value[kind->classes[d]];
        self->kind_bytes[i] = berth_trace_bytes((berth_dtype)kind->dtype, kind->rank, dims);
    }
    for (uint32_t v = 0; v < self->value_count; v++)
        out_bytes[v] = self->kind_bytes[self->kind_of[v]];
    return answer;
}
