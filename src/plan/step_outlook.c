// SPDX-License-Identifier: Apache-2.0
// Says what a run will need: places all paths that it may take, the first ones first.
#include "plan/step_model_impl.h"

/// True if `other`, which has not been seen at `values`, may be taken there all the same: no
/// binding tells it from `expected` for sure.
static bool may_be_taken(const berth_known_path* other,
                         const berth_known_path* expected,
                         const int64_t* values) {
    for (uint32_t i = 0; i < other->sizes.binding_count; i++) {
        const bool fixed = !berth_size_model_varies(&other->sizes, i) &&
                           !berth_size_model_varies(&expected->sizes, i);
        if (fixed && other->sizes.runs[i] != values[i]) return false;
    }
    return true;
}

static berth_estimate_kind kind_of_promise(berth_size_promise promise) {
    switch (promise) {
    case BERTH_SIZE_OBSERVED:
        return BERTH_ESTIMATE_OBSERVED;
    case BERTH_SIZE_BOUND:
        return BERTH_ESTIMATE_BOUND;
    case BERTH_SIZE_EXACT:
        return BERTH_ESTIMATE_EXACT;
    }
    return BERTH_ESTIMATE_UNKNOWN;
}

static void weaken(berth_outlook* outlook, berth_estimate_kind kind) {
    if (kind < outlook->kind) outlook->kind = kind;
}

/// Folds a placement of one path into the outlook.
static void fold(berth_outlook* outlook, const berth_plan_placement* placement) {
    weaken(outlook, kind_of_promise(placement->promise));
    if (placement->shown.frame_bytes > outlook->frame_bytes)
        outlook->frame_bytes = placement->shown.frame_bytes;
    if (placement->shown.escaping_bytes > outlook->pool_bytes)
        outlook->pool_bytes = placement->shown.escaping_bytes;
}

/// Ranks of the paths that apply at `values`, ascending: the most recent of them.
typedef struct candidates {
    uint32_t count;
    uint32_t rank[BERTH_BRANCHES_MAX];
    bool left_out; ///< there are more
} candidates;

static void add_candidate(const berth_step_model* model, candidates* list, uint32_t rank) {
    if (list->count == BERTH_BRANCHES_MAX) {
        list->left_out = true;
        uint32_t oldest = 0;
        for (uint32_t i = 1; i < list->count; i++)
            if (model->paths[list->rank[i]].last_taken <
                model->paths[list->rank[oldest]].last_taken)
                oldest = i;
        if (model->paths[list->rank[oldest]].last_taken >= model->paths[rank].last_taken) return;
        for (uint32_t i = oldest; i + 1 < list->count; i++)
            list->rank[i] = list->rank[i + 1];
        list->count--;
    }
    list->rank[list->count++] = rank;
}

static void find_candidates(const berth_step_model* model,
                            const int64_t* values,
                            candidates* list) {
    for (uint32_t rank = 0; rank < model->path_count; rank++)
        if (berth_size_model_applies(&model->paths[rank].sizes, values))
            add_candidate(model, list, rank);
}

/// The path expected: of those that apply, the one taken last. There is one at least.
static uint32_t expected_rank(const berth_step_model* model, const candidates* list) {
    uint32_t expected = list->rank[0];
    for (uint32_t i = 1; i < list->count; i++)
        if (model->paths[list->rank[i]].last_taken > model->paths[expected].last_taken)
            expected = list->rank[i];
    return expected;
}

/// Adds path `rank` as a branch of what shares most events with it. False if it cannot be placed.
static bool add_branch(berth_step_model* model,
                       berth_branch_set* set,
                       uint32_t rank,
                       const int64_t* values,
                       berth_plan_inquiry* inquiry) {
    berth_branches* branches = set->branches;
    berth_branch branch = {.parent = BERTH_BRANCH_NONE};
    for (uint32_t i = 0; i < branches->count; i++) {
        const uint32_t other = (uint32_t)(set->paths[i] - model->paths);
        const uint32_t shared = berth_path_tree_shared(&model->tree, rank, other);
        if (shared <= branch.fork) continue;
        branch.fork = shared;
        branch.parent = i;
    }
    const uint32_t at = branches->count;
    branches->items[at] = branch;
    set->paths[at] = &model->paths[rank];
    const berth_plan_placement* placement = berth_step_model_place(model, set, at, values, inquiry);
    if (placement == NULL) return false;
    branches->items[at].placement = &placement->shown;
    branches->count++;
    return true;
}

/// Places all candidates. False if that of `expected` cannot be placed.
static bool place_all(berth_step_model* model,
                      const candidates* list,
                      uint32_t expected,
                      const int64_t* values,
                      berth_plan_inquiry* inquiry,
                      berth_branches* branches,
                      berth_outlook* outlook) {
    berth_branch_set set = {.branches = branches};
    bool is_placed = false;
    for (uint32_t i = 0; i < list->count; i++) {
        inquiry->miss = BERTH_MISS_NONE;
        const bool placed = add_branch(model, &set, list->rank[i], values, inquiry);
        const uint32_t at = branches->count - 1;
        if (list->rank[i] == expected) {
            outlook->miss = inquiry->miss;
            if (!placed) return false;
            is_placed = true;
            outlook->expected = at;
            outlook->placement = branches->items[at].placement;
        }
        if (placed) {
            fold(outlook, berth_placement_own(branches->items[at].placement));
        } else {
            weaken(outlook, BERTH_ESTIMATE_OBSERVED);
            outlook->has_other_paths = true;
        }
    }
    if (branches->count > 1) weaken(outlook, BERTH_ESTIMATE_BOUND);
    return is_placed;
}

/// Paths that have not been placed but may be taken.
static void note_others(const berth_step_model* model,
                        const candidates* list,
                        uint32_t expected,
                        const int64_t* values,
                        berth_outlook* outlook) {
    // a path that found no place among those known may be taken too
    const bool is_full = model->told_full && model->path_count == model->policy.max_paths;
    if (is_full || model->is_short) weaken(outlook, BERTH_ESTIMATE_OBSERVED);
    bool others = list->left_out;
    for (uint32_t rank = 0; rank < model->path_count && !others; rank++) {
        const berth_known_path* path = &model->paths[rank];
        others = !berth_size_model_applies(&path->sizes, values) &&
                 may_be_taken(path, &model->paths[expected], values);
    }
    if (!others) return;
    // what such a path needs here has never been seen
    weaken(outlook, BERTH_ESTIMATE_OBSERVED);
    outlook->has_other_paths = true;
}

void berth_step_model_release(berth_step_model* model, berth_branches* branches) {
    for (uint32_t i = 0; i < branches->count; i++)
        berth_plan_placement_release(berth_placement_own(branches->items[i].placement),
                                     model->host);
    branches->count = 0;
}

void berth_step_model_look_out(berth_step_model* model,
                               const int64_t* values,
                               berth_plan_inquiry* inquiry,
                               berth_branches* out_branches,
                               berth_outlook* out) {
    out->miss = model->path_count == 0 ? BERTH_MISS_NEW_STEP : BERTH_MISS_NEW_PATH;
    candidates list = {0};
    find_candidates(model, values, &list);
    if (list.count == 0) return;
    const uint32_t expected = expected_rank(model, &list);
    berth_outlook outlook = {.kind = BERTH_ESTIMATE_EXACT};
    inquiry->scratch = (berth_plan_cache){.host = model->host, .limit_bytes = UINT64_MAX};
    if (place_all(model, &list, expected, values, inquiry, out_branches, &outlook)) {
        note_others(model, &list, expected, values, &outlook);
        *out = outlook;
    } else {
        out->miss = outlook.miss;
        berth_step_model_release(model, out_branches);
    }
    berth_plan_cache_fini(&inquiry->scratch);
}
