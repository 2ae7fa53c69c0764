// SPDX-License-Identifier: Apache-2.0
// Prepares runs: finds bucket and quantum of a shape, plans what is missing, evaluates, and says
// what a run will need.
#include "plan/step_model_impl.h"

void berth_step_model_find_box(const berth_step_model* model,
                               const berth_known_path* path,
                               const int64_t* values,
                               berth_shape_box* box) {
    const berth_size_model* sizes = &path->sizes;
    for (uint32_t i = 0; i < sizes->binding_count; i++) {
        box->lo[i] = box->bucket_lo[i] = values[i] - 1;
        box->hi[i] = box->bucket_hi[i] = values[i];
    }
    for (uint32_t k = 0; k < sizes->symbol_count; k++) {
        const uint16_t i = sizes->symbols[k];
        const berth_bucket bucket = berth_symbol_buckets_find(&model->buckets, i, values[i]);
        const berth_bucket quantum = berth_bucket_quantum(model->policy.quantum, values[i]);
        box->bucket_lo[i] = bucket.lo;
        box->bucket_hi[i] = bucket.hi;
        box->lo[i] = quantum.lo > bucket.lo ? quantum.lo : bucket.lo;
        box->hi[i] = quantum.hi < bucket.hi ? quantum.hi : bucket.hi;
        box->placement_key[k] = box->hi[i];
        box->plan_key[k] = bucket.hi;
    }
}

/// What a piece of planning cost; without a clock, its size stands for it.
static uint64_t cost_since(const berth_step_model* model, uint64_t begin, uint64_t size) {
    return model->policy.now_ns != NULL ? berth_step_model_now(model) - begin + 1 : size + 1;
}

berth_cache_key berth_step_model_plan_key(const berth_known_path* path,
                                          const berth_shape_box* box) {
    return (berth_cache_key){BERTH_CACHE_PLAN, path->id, path->sizes.symbol_count, box->plan_key};
}

/// The plan for the bucket of `box`; `*out_owned`: the caller destroys it.
static berth_plan* find_plan(berth_step_model* model,
                             berth_known_path* path,
                             const berth_shape_box* box,
                             berth_plan_inquiry* inquiry,
                             bool* out_owned) {
    *out_owned = false;
    const berth_cache_key key = berth_step_model_plan_key(path, box);
    berth_plan* plan = berth_plan_cache_find_plan(&model->cache, &key, inquiry->remember);
    if (plan != NULL) return plan;
    const uint64_t begin = berth_step_model_now(model);
    (void)berth_size_model_evaluate(
        &path->sizes, box->bucket_lo, box->bucket_hi, box->bucket_hi, model->workspace.sizes);
    plan = berth_step_model_sprout(model, path, &key, inquiry->remember, out_owned);
    if (plan != NULL) return plan;
    inquiry->miss = berth_plan_cache_query_miss(&model->cache, &key);
    if (berth_plan_make(&model->workspace, &path->version->shown, &plan) != BERTH_OK) return NULL;
    const uint64_t cost = cost_since(model, begin, path->sizes.value_count * UINT64_C(16));
    if (inquiry->remember) {
        inquiry->made_plan = true;
        model->counters.plans++;
    }
    *out_owned =
        !inquiry->remember || !berth_plan_cache_insert_plan(&model->cache, &key, plan, cost);
    return plan;
}

static berth_plan_placement* evaluate_plan(berth_step_model* model,
                                           berth_known_path* path,
                                           const berth_shape_box* box,
                                           const berth_plan* plan,
                                           bool remember) {
    berth_size_answer answer = berth_size_model_evaluate(
        &path->sizes, box->lo, box->hi, box->bucket_hi, model->workspace.sizes);
    // A shape not asked for lately may tell hypotheses apart that others could not.
    if (answer.learn && !path->learning)
        answer.learn = remember && berth_step_model_resume_learning(model, path);
    answer.learn = path->want_next || answer.learn;
    berth_plan_placement* placement;
    if (berth_plan_place(&model->workspace, path->version, plan, answer, &placement) != BERTH_OK)
        return NULL;
    return placement;
}

static berth_plan_placement* make_placement(berth_step_model* model,
                                            berth_known_path* path,
                                            const berth_shape_box* box,
                                            const berth_cache_key* key,
                                            berth_plan_inquiry* inquiry) {
    const uint64_t begin = berth_step_model_now(model);
    if (berth_plan_workspace_reserve(&model->workspace, &path->version->shown) != BERTH_OK)
        return NULL;
    bool owned;
    berth_plan* plan = find_plan(model, path, box, inquiry, &owned);
    if (plan == NULL) return NULL;
    const uint64_t evaluation = berth_step_model_now(model);
    berth_plan_placement* placement = evaluate_plan(model, path, box, plan, inquiry->remember);
    if (placement != NULL) placement->shown.corner_bytes = plan->peak_bytes;
    if (owned) berth_plan_destroy(plan, model->host);
    if (placement == NULL || !inquiry->remember) return placement;
    inquiry->evaluated = true;
    model->counters.evaluations++;
    const uint64_t cost = cost_since(model, evaluation, path->sizes.value_count);
    const berth_cache_key plan_key = berth_step_model_plan_key(path, box);
    (void)berth_plan_cache_insert_placement(&model->cache, key, &plan_key, placement, cost);
    inquiry->plan_ns += berth_step_model_now(model) - begin;
    return placement;
}

/// The placement of `path` at `values`, retained; NULL without memory or if a size does not fit.
static berth_plan_placement* place(berth_step_model* model,
                                   berth_known_path* path,
                                   const int64_t* values,
                                   berth_plan_inquiry* inquiry) {
    berth_shape_box box;
    berth_step_model_find_box(model, path, values, &box);
    const berth_cache_key key = {
        BERTH_CACHE_PLACEMENT, path->id, path->sizes.symbol_count, box.placement_key};
    berth_plan_placement* placement =
        berth_plan_cache_find_placement(&model->cache, &key, inquiry->remember);
    if (placement == NULL) return make_placement(model, path, &box, &key, inquiry);
    placement->refs++;
    return placement;
}

/// The path expected at `values`: of those that apply, the one taken last.
static berth_known_path* expected_path(berth_step_model* model, const int64_t* values) {
    berth_known_path* expected = NULL;
    for (uint32_t i = 0; i < model->path_count; i++) {
        berth_known_path* path = &model->paths[i];
        if (!berth_size_model_applies(&path->sizes, values)) continue;
        if (expected == NULL || path->last_taken > expected->last_taken) expected = path;
    }
    return expected;
}

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

void berth_step_model_look_out(berth_step_model* model,
                               const int64_t* values,
                               berth_plan_inquiry* inquiry,
                               berth_outlook* out) {
    berth_known_path* expected = expected_path(model, values);
    out->miss = model->path_count == 0 ? BERTH_MISS_NEW_STEP : BERTH_MISS_NEW_PATH;
    if (expected == NULL) return;
    berth_plan_placement* chosen = place(model, expected, values, inquiry);
    out->miss = inquiry->miss;
    if (chosen == NULL) return;
    berth_outlook outlook = {.kind = BERTH_ESTIMATE_EXACT, .miss = inquiry->miss};
    fold(&outlook, chosen);
    for (uint32_t i = 0; i < model->path_count; i++) {
        berth_known_path* other = &model->paths[i];
        if (other == expected) continue;
        if (!berth_size_model_applies(&other->sizes, values)) {
            if (may_be_taken(other, expected, values)) weaken(&outlook, BERTH_ESTIMATE_BOUND);
            continue;
        }
        berth_plan_placement* placement = place(model, other, values, inquiry);
        weaken(&outlook, placement != NULL ? BERTH_ESTIMATE_BOUND : BERTH_ESTIMATE_OBSERVED);
        if (placement != NULL) fold(&outlook, placement);
        outlook.has_other_paths = true;
        berth_plan_placement_release(placement, model->host);
    }
    *out = outlook;
    out->placement = &chosen->shown;
}
