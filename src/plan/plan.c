// SPDX-License-Identifier: Apache-2.0
// Makes plans and evaluates them.
#include "plan/plan.h"

#include <stdatomic.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "plan/packing.h"
#include "plan/verify.h"

/// A shape is packed by itself when the plan needs more than this share of its lower bound.
#define REPACK_NUMERATOR 51u
#define REPACK_DENOMINATOR 50u
/// A packing from elsewhere that needs more than so many times what is alive is made anew.
#define MOST_RATIO 2u
/// Uses after which a plan is worth a search.
#define FIRST_SEARCH_USES 8u

static bool renew(const berth_host* host, size_t count, uint64_t** array) {
    berth_host_free(host, *array);
    *array = berth_host_calloc(host, count, sizeof **array);
    return *array != NULL;
}

static berth_status no_memory(void) {
    return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory to plan a step");
}

berth_status berth_plan_workspace_reserve(berth_plan_workspace* self, const berth_path* path) {
    if (path->value_count >= self->value_capacity) {
        const size_t capacity = (size_t)path->value_count + path->value_count / 4 + 16;
        self->value_capacity = 0;
        berth_host_free(self->host, self->intervals);
        self->intervals = berth_host_calloc(self->host, capacity, sizeof *self->intervals);
        if (self->intervals == NULL || !renew(self->host, capacity, &self->sizes) ||
            !renew(self->host, capacity, &self->frame_sizes) ||
            !renew(self->host, capacity, &self->pack_sizes) ||
            !renew(self->host, capacity, &self->given) ||
            !renew(self->host, capacity, &self->offsets) ||
            !renew(self->host, capacity, &self->other_offsets) ||
            !renew(self->host, capacity, &self->tops))
            return no_memory();
        self->value_capacity = capacity;
    }
    if (path->event_count >= self->event_capacity) {
        const size_t capacity = (size_t)path->event_count + path->event_count / 4 + 16;
        self->event_capacity = 0;
        if (!renew(self->host, capacity + 1, &self->live) ||
            !renew(self->host, capacity + 1, &self->pool))
            return no_memory();
        self->event_capacity = capacity;
    }
    return BERTH_OK;
}

void berth_plan_workspace_fini(berth_plan_workspace* self) {
    berth_host_free(self->host, self->intervals);
    berth_host_free(self->host, self->sizes);
    berth_host_free(self->host, self->frame_sizes);
    berth_host_free(self->host, self->pack_sizes);
    berth_host_free(self->host, self->given);
    berth_host_free(self->host, self->offsets);
    berth_host_free(self->host, self->other_offsets);
    berth_host_free(self->host, self->tops);
    berth_host_free(self->host, self->live);
    berth_host_free(self->host, self->pool);
    *self = (berth_plan_workspace){.host = self->host};
}

static uint64_t first_search(berth_plan_tier tier) {
    switch (tier) {
    case BERTH_PLAN_QUICK:
        return FIRST_SEARCH_USES;
    case BERTH_PLAN_IMPROVED:
        return FIRST_SEARCH_USES * BERTH_PLAN_HOTTER;
    case BERTH_PLAN_AT_LIMIT:
        break;
    }
    return UINT64_MAX;
}

/// Another number each time: plans and placements are told apart by it.
static uint64_t next_serial(void) {
    static _Atomic uint64_t last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

berth_status berth_plan_create(const berth_host* host,
                               berth_relation* relation,
                               uint64_t peak_bytes,
                               uint64_t lower_bound_bytes,
                               berth_plan_tier tier,
                               berth_plan** out_plan) {
    *out_plan = berth_host_alloc(host, sizeof **out_plan);
    if (*out_plan == NULL) {
        berth_relation_destroy(relation, host);
        return no_memory();
    }
    **out_plan = (berth_plan){.relation = relation,
                              .peak_bytes = peak_bytes,
                              .lower_bound_bytes = lower_bound_bytes,
                              .serial = next_serial(),
                              .tier = tier,
                              .search_at = first_search(tier)};
    return BERTH_OK;
}

void berth_plan_renumber(berth_plan* plan) { plan->serial = next_serial(); }

void berth_plan_destroy(berth_plan* plan, const berth_host* host) {
    if (plan == NULL) return;
    berth_relation_destroy(plan->relation, host);
    berth_host_free(host, plan);
}

size_t berth_plan_query_bytes(const berth_plan* plan) {
    return sizeof *plan + berth_relation_query_bytes(plan->relation);
}

static bool is_pooled(const berth_trace_value* value) {
    return (value->flags & BERTH_VALUE_ESCAPES) != 0;
}

static berth_status too_large(void) {
    return berth_fail(BERTH_ERR_OVERFLOW, "the values of the step are too large to plan");
}

/// True if the base's path knows of the value what this one needs it to (berth_path_covers).
static bool is_covered_by_base(const berth_plan_base* base, const berth_path* path, uint32_t v) {
    const berth_trace_value* value = &path->values[v];
    const uint32_t death = value->death < base->events ? value->death : base->events - 1;
    const bool given_to_pool = base->placement->places[v].offset == BERTH_PLACE_POOL;
    return given_to_pool == is_pooled(value) &&
           (given_to_pool || base->placement->path->values[v].death >= death);
}

/// Takes sizes and offsets of the base's values.
static berth_status load_base(berth_plan_workspace* self, const berth_path* path) {
    const berth_plan_base* base = &self->base;
    self->exceeds_base = false;
    for (uint32_t v = 0; v < base->values; v++) {
        if (!is_covered_by_base(base, path, v))
            return berth_fail(BERTH_ERR_STATE, "value %u dies earlier on the other path", v);
        const berth_place* place = &base->placement->places[v];
        self->exceeds_base = self->exceeds_base || self->sizes[v] > place->bytes;
        self->sizes[v] = place->bytes;
        self->given[v] = is_pooled(&path->values[v]) ? BERTH_PACK_ANYWHERE : place->offset;
    }
    for (uint32_t v = base->values; base->values > 0 && v < path->value_count; v++)
        self->given[v] = BERTH_PACK_ANYWHERE;
    return BERTH_OK;
}

/// Loads the base and fills frame_sizes and pack_sizes from sizes.
static berth_status split_sizes(berth_plan_workspace* self, const berth_path* path) {
    BERTH_TRY(load_base(self, path));
    const berth_plan_base* base = &self->base;
    uint64_t sum = 0;
    for (uint32_t v = 0; v < path->value_count; v++) {
        if (!berth_add_u64(sum, self->sizes[v], &sum)) return too_large();
        const bool is_past = v < base->values && path->values[v].death < base->events;
        self->frame_sizes[v] = is_pooled(&path->values[v]) ? 0 : self->sizes[v];
        self->pack_sizes[v] = is_past ? 0 : self->frame_sizes[v];
    }
    return sum <= BERTH_PACKING_SUM_MAX ? BERTH_OK : too_large();
}

static berth_pack_problem problem_of(const berth_plan_workspace* self, const berth_path* path) {
    return (berth_pack_problem){.intervals = self->intervals,
                                .count = path->value_count,
                                .alignment = BERTH_PLAN_ALIGNMENT,
                                .fixed_offsets = self->base.values > 0 ? self->given : NULL};
}

/// Puts the base's offsets, also of values that the packing left out, into `offsets`.
static void restore_base(const berth_plan_workspace* self, uint64_t* offsets) {
    for (uint32_t v = 0; v < self->base.values; v++)
        offsets[v] = self->given[v] == BERTH_PACK_ANYWHERE ? 0 : self->given[v];
}

/// The frame with values at `offsets`.
static uint64_t highest_top(const berth_plan_workspace* self,
                            const berth_path* path,
                            const uint64_t* offsets) {
    uint64_t highest = 0;
    for (uint32_t v = 0; v < path->value_count; v++) {
        const uint64_t top = self->frame_sizes[v] > 0 ? offsets[v] + self->frame_sizes[v] : 0;
        if (top > highest) highest = top;
    }
    return highest;
}

/// Evaluates at pack_sizes into `self->offsets`; false if that lets values overlap.
static bool evaluate(berth_plan_workspace* self,
                     const berth_path* path,
                     const berth_relation* relation,
                     uint64_t* out_frame) {
    if (self->base.values == 0) {
        *out_frame = berth_relation_evaluate(relation, self->pack_sizes, self->tops, self->offsets);
        return true;
    }
    uint64_t ignored;
    restore_base(self, self->offsets);
    const bool is_sound = berth_relation_evaluate_around(
        relation, self->pack_sizes, self->base.values, self->tops, self->offsets, &ignored);
    *out_frame = highest_top(self, path, self->offsets);
    return is_sound;
}

static void fill_intervals(berth_plan_workspace* self, const berth_path* path) {
    for (uint32_t v = 0; v < path->value_count; v++)
        self->intervals[v] =
            (berth_interval){self->pack_sizes[v], path->values[v].birth, path->values[v].death + 1};
}

/// Packs at pack_sizes into `offsets` and verifies.
static berth_status pack(berth_plan_workspace* self,
                         const berth_path* path,
                         uint64_t* offsets,
                         berth_pack_result* out_packed) {
    fill_intervals(self, path);
    const berth_pack_problem problem = problem_of(self, path);
    BERTH_TRY(berth_packing_solve(self->host, &problem, NULL, offsets, out_packed));
    berth_pack_verdict verified;
    BERTH_TRY(berth_verify_packing(self->host, &problem, offsets, &verified));
    BERTH_CHECK(2, verified.valid && verified.peak == out_packed->peak);
    if (!verified.valid)
        return berth_fail(BERTH_ERR_INTERNAL,
                          "the packing lets values %u and %u overlap",
                          verified.first,
                          verified.second);
    return BERTH_OK;
}

/// The relation at the sizes it was made for keeps everything apart, checked like any packing.
static berth_status verify_relation(berth_plan_workspace* self,
                                    const berth_path* path,
                                    const berth_relation* relation,
                                    uint64_t* out_peak) {
    const bool is_sound = evaluate(self, path, relation, out_peak);
    BERTH_CHECK(2, is_sound);
    if (!is_sound) return berth_fail(BERTH_ERR_INTERNAL, "the relation moves a given value");
    berth_pack_verdict verified;
    const berth_pack_problem problem = problem_of(self, path);
    BERTH_TRY(berth_verify_packing(self->host, &problem, self->offsets, &verified));
    BERTH_CHECK(2, verified.valid);
    if (verified.valid) return BERTH_OK;
    return berth_fail(BERTH_ERR_INTERNAL,
                      "the relation lets values %u and %u overlap",
                      verified.first,
                      verified.second);
}

/// Sweeps the verified packing in `offsets` into a plan.
static berth_status sweep_plan(berth_plan_workspace* self,
                               const berth_path* path,
                               uint64_t lower_bound,
                               berth_plan_tier tier,
                               berth_plan** out_plan) {
    berth_relation* relation;
    BERTH_TRY(berth_relation_create(
        self->host, self->intervals, path->value_count, self->offsets, &relation));
    uint64_t peak;
    const berth_status status = verify_relation(self, path, relation, &peak);
    if (status != BERTH_OK) {
        berth_relation_destroy(relation, self->host);
        return status;
    }
    for (uint32_t v = 0; v < self->base.values; v++) {
        const uint64_t top = self->frame_sizes[v] > 0 ? self->given[v] + self->frame_sizes[v] : 0;
        if (top > lower_bound) lower_bound = top;
    }
    if (peak <= lower_bound) tier = BERTH_PLAN_AT_LIMIT;
    return berth_plan_create(self->host, relation, peak, lower_bound, tier, out_plan);
}

berth_status berth_plan_make(berth_plan_workspace* self,
                             const berth_path* path,
                             berth_plan** out_plan) {
    *out_plan = NULL;
    BERTH_TRY(split_sizes(self, path));
    berth_pack_result packed;
    BERTH_TRY(pack(self, path, self->offsets, &packed));
    return sweep_plan(self, path, packed.lower_bound, BERTH_PLAN_QUICK, out_plan);
}

berth_status berth_plan_adopt(berth_plan_workspace* self,
                              const berth_path* path,
                              berth_plan_tier tier,
                              berth_plan** out_plan) {
    *out_plan = NULL;
    BERTH_TRY(split_sizes(self, path));
    fill_intervals(self, path);
    for (uint32_t v = 0; v < path->value_count; v++)
        if (self->pack_sizes[v] == 0) self->offsets[v] = 0;
    const berth_pack_problem problem = problem_of(self, path);
    berth_pack_verdict verified;
    BERTH_TRY(berth_verify_packing(self->host, &problem, self->offsets, &verified));
    if (!verified.valid)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "the packing lets values %u and %u overlap",
                          verified.first,
                          verified.second);
    if (verified.peak / MOST_RATIO > verified.lower_bound)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "the packing needs %llu bytes where %llu may do",
                          (unsigned long long)verified.peak,
                          (unsigned long long)verified.lower_bound);
    return sweep_plan(self, path, verified.lower_bound, tier, out_plan);
}

/// Fills live (bytes alive at each event) and pool (those planned for the pool), and the sums of
/// `shown`.
static void measure_sizes(berth_plan_workspace* self,
                          const berth_path* path,
                          berth_placement* shown) {
    const size_t events = (size_t)path->event_count + 1;
    memset(self->live, 0, events * sizeof *self->live);
    memset(self->pool, 0, events * sizeof *self->pool);
    for (uint32_t v = 0; v < path->value_count; v++) {
        const berth_trace_value* value = &path->values[v];
        const uint64_t bytes = self->sizes[v];
        self->live[value->birth] += bytes;
        // unsigned on purpose: the running sum is never below 0
        self->live[value->death + 1] -= bytes;
        shown->sum_bytes += bytes;
        if (!is_pooled(value)) continue;
        self->pool[value->birth] += bytes;
        shown->escaping_bytes += bytes;
    }
    uint64_t live = 0;
    uint64_t pool = 0;
    for (uint32_t e = 0; e < path->event_count; e++) {
        live += self->live[e];
        pool += self->pool[e];
        self->pool[e] = pool;
        if (live > shown->lower_bound_bytes) shown->lower_bound_bytes = live;
    }
}

/// The peak with frame values at `offsets`: as nothing planned for the pool dies before the end, a
/// value stands highest together with the pool at its death.
static uint64_t measure_peak(const berth_plan_workspace* self,
                             const berth_path* path,
                             const uint64_t* offsets) {
    uint64_t peak = path->event_count > 0 ? self->pool[path->event_count - 1] : 0;
    for (uint32_t v = 0; v < path->value_count; v++) {
        if (self->frame_sizes[v] == 0) continue;
        const uint64_t top = offsets[v] + self->frame_sizes[v] + self->pool[path->values[v].death];
        if (top > peak) peak = top;
    }
    return peak;
}

/// Writes the placement at `offsets`; NULL without memory.
static berth_plan_placement* freeze(const berth_plan_workspace* self,
                                    berth_path_version* version,
                                    const berth_placement* shown,
                                    berth_size_answer answer,
                                    const uint64_t* offsets) {
    const berth_path* path = &version->shown;
    const size_t bytes = sizeof(berth_plan_placement) + path->value_count * sizeof(berth_place);
    berth_plan_placement* made = berth_host_alloc(self->host, bytes);
    if (made == NULL) return NULL;
    *made = (berth_plan_placement){.shown = *shown,
                                   .version = version,
                                   .refs = 1,
                                   .serial = next_serial(),
                                   .promise = answer.promise,
                                   .bytes = bytes};
    version->refs++;
    made->shown.path = path;
    made->shown.places = made->places;
    made->shown.learn = answer.learn;
    for (uint32_t v = 0; v < path->value_count; v++) {
        const uint64_t offset = is_pooled(&path->values[v]) ? BERTH_PLACE_POOL : offsets[v];
        made->places[v] = (berth_place){offset, self->sizes[v]};
    }
    return made;
}

/// True if every value with bytes is in the relation: those that had none when it was made are not,
/// and it says nothing about where they could go.
static bool is_covered(const berth_plan_workspace* self,
                       const berth_path* path,
                       const berth_relation* relation) {
    uint64_t sum = 0;
    uint64_t covered = 0;
    for (uint32_t v = 0; v < path->value_count; v++)
        sum += self->pack_sizes[v];
    for (uint32_t i = 0; i < relation->count; i++)
        covered += self->pack_sizes[relation->order[i]];
    return sum == covered;
}

/// Packs this shape by itself and takes that if it is better than `shown`.
static berth_status repack(berth_plan_workspace* self,
                           const berth_path* path,
                           berth_placement* shown,
                           bool* out_better) {
    *out_better = false;
    berth_pack_result packed;
    BERTH_TRY(pack(self, path, self->other_offsets, &packed));
    restore_base(self, self->other_offsets);
    const uint64_t frame = highest_top(self, path, self->other_offsets);
    const uint64_t peak = measure_peak(self, path, self->other_offsets);
    if (peak >= shown->peak_bytes || frame > shown->frame_bytes) return BERTH_OK;
    shown->frame_bytes = frame;
    shown->peak_bytes = peak;
    *out_better = true;
    return BERTH_OK;
}

/// True if a quick packing of this shape alone may be clearly better than the plan: it needs more
/// than a little above the bound, and where a search has been at the plan's corner in vain, more
/// than there.
static bool may_pack_better(const berth_plan* plan, const berth_placement* shown) {
    if (shown->peak_bytes / REPACK_NUMERATOR <= shown->lower_bound_bytes / REPACK_DENOMINATOR)
        return false;
    if (plan->searches == 0) return true;
    const double corner = (double)plan->peak_bytes / (double)plan->lower_bound_bytes;
    const double here = (double)shown->peak_bytes / (double)shown->lower_bound_bytes;
    return here * REPACK_DENOMINATOR > corner * REPACK_NUMERATOR;
}

bool berth_plan_measure(berth_plan_workspace* self,
                        const berth_path* path,
                        const berth_plan* plan,
                        uint64_t* out_sizes,
                        uint64_t* out_frame_bytes) {
    if (split_sizes(self, path) != BERTH_OK || !is_covered(self, path, plan->relation))
        return false;
    memcpy(out_sizes, self->frame_sizes, path->value_count * sizeof *out_sizes);
    *out_frame_bytes =
        berth_relation_evaluate(plan->relation, self->frame_sizes, self->tops, self->offsets);
    return true;
}

berth_status berth_plan_place(berth_plan_workspace* self,
                              berth_path_version* version,
                              const berth_plan* plan,
                              berth_size_answer answer,
                              berth_plan_placement** out_placement) {
    *out_placement = NULL;
    const berth_path* path = &version->shown;
    BERTH_TRY(split_sizes(self, path));
    if (self->exceeds_base) answer.promise = BERTH_SIZE_OBSERVED;
    berth_placement shown = {0};
    measure_sizes(self, path, &shown);
    bool own = false;
    if (!is_covered(self, path, plan->relation) ||
        !evaluate(self, path, plan->relation, &shown.frame_bytes)) {
        shown.frame_bytes = shown.peak_bytes = UINT64_MAX;
        BERTH_TRY(repack(self, path, &shown, &own));
    } else {
        shown.peak_bytes = measure_peak(self, path, self->offsets);
        // Without memory for a better packing the plan's own stands.
        if (may_pack_better(plan, &shown)) (void)repack(self, path, &shown, &own);
    }
    berth_plan_placement* made =
        freeze(self, version, &shown, answer, own ? self->other_offsets : self->offsets);
    if (made == NULL) return no_memory();
    made->plan_serial = plan->serial;
    made->is_branch = self->base.values > 0;
    BERTH_CHECK(3, berth_placement_is_valid(&made->shown));
    *out_placement = made;
    return BERTH_OK;
}

void berth_plan_placement_release(berth_plan_placement* placement, const berth_host* host) {
    if (placement == NULL || --placement->refs > 0) return;
    berth_path_version_release(placement->version, host);
    berth_host_free(host, placement);
}
