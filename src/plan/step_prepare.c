// SPDX-License-Identifier: Apache-2.0
// Places one path at a shape: finds bucket and quantum, plans what is missing, evaluates.
//
// A path that leaves another one is planned around what that one has placed before the fork. What
// it was planned around belongs to the key: the other plan's serial to that of its plan, the other
// placement's to that of its placement. So both go out of use by themselves when the other changes.
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

berth_cache_key berth_step_model_plan_key(const berth_known_path* path,
                                          const berth_shape_box* box) {
    return (berth_cache_key){BERTH_CACHE_PLAN, path->id, path->sizes.symbol_count, box->plan_key};
}

/// What a piece of planning cost; without a clock, its size stands for it.
static uint64_t cost_since(const berth_step_model* model, uint64_t begin, uint64_t size) {
    return model->policy.now_ns != NULL ? berth_step_model_now(model) - begin + 1 : size + 1;
}

/// One path that is being placed.
typedef struct placing {
    berth_step_model* model;
    berth_plan_inquiry* inquiry;
    berth_known_path* path;
    berth_plan_base base; ///< at the shape
    berth_shape_box box;
    berth_cache_key placement_key;
    berth_cache_key plan_key;
} placing;

static void make_keys(placing* self) {
    const uint32_t symbols = self->path->sizes.symbol_count;
    const bool has_base = self->base.values > 0;
    if (has_base) {
        const berth_plan_placement* base = berth_placement_own(self->base.placement);
        self->box.placement_key[symbols] = (int64_t)base->serial;
        self->box.plan_key[symbols] = (int64_t)base->plan_serial;
    }
    const uint32_t count = symbols + (has_base ? 1 : 0);
    self->placement_key =
        (berth_cache_key){BERTH_CACHE_PLACEMENT, self->path->id, count, self->box.placement_key};
    self->plan_key = berth_step_model_plan_key(self->path, &self->box);
    self->plan_key.count = count;
}

static berth_plan_placement* find_placement(const placing* self) {
    berth_plan_placement* placement = berth_plan_cache_find_placement(
        &self->model->cache, &self->placement_key, self->inquiry->remember);
    if (placement != NULL) return placement;
    return berth_plan_cache_find_placement(&self->inquiry->scratch, &self->placement_key, false);
}

static berth_plan* find_plan(const placing* self) {
    berth_plan* plan =
        berth_plan_cache_find_plan(&self->model->cache, &self->plan_key, self->inquiry->remember);
    if (plan != NULL) return plan;
    return berth_plan_cache_find_plan(&self->inquiry->scratch, &self->plan_key, false);
}

/// Keeps a plan for later, or for this inquiry. False without memory: the plan is gone.
static bool keep_plan(const placing* self, berth_plan* plan, uint64_t cost) {
    if (self->inquiry->remember &&
        berth_plan_cache_insert_plan(&self->model->cache, &self->plan_key, plan, cost))
        return true;
    if (berth_plan_cache_insert_plan(&self->inquiry->scratch, &self->plan_key, plan, cost))
        return true;
    berth_plan_destroy(plan, self->model->host);
    return false;
}

static void keep_placement(const placing* self, berth_plan_placement* placement, uint64_t cost) {
    if (self->inquiry->remember &&
        berth_plan_cache_insert_placement(
            &self->model->cache, &self->placement_key, &self->plan_key, placement, cost))
        return;
    // without memory it is made again where it is needed
    (void)berth_plan_cache_insert_placement(
        &self->inquiry->scratch, &self->placement_key, &self->plan_key, placement, cost);
}

/// Takes the plan that a seed gives at the corner's sizes in the workspace. False if there is none.
static bool sprout(const placing* self, berth_plan** out_plan) {
    bool owned;
    *out_plan = berth_step_model_sprout(
        self->model, self->path, &self->plan_key, self->inquiry->remember, &owned);
    if (*out_plan == NULL) return false;
    if (!owned) return true;
    if (!berth_plan_cache_insert_plan(&self->inquiry->scratch, &self->plan_key, *out_plan, 1)) {
        berth_plan_destroy(*out_plan, self->model->host);
        *out_plan = NULL;
    }
    return *out_plan != NULL;
}

/// Makes the plan for the bucket, around `corner_base`; NULL without memory. Borrowed until
/// anything is kept.
static berth_plan* make_plan(const placing* self, const berth_plan_base* corner_base) {
    berth_step_model* model = self->model;
    const berth_shape_box* box = &self->box;
    const uint64_t begin = berth_step_model_now(model);
    if (berth_plan_workspace_reserve(&model->workspace, &self->path->version->shown) != BERTH_OK)
        return NULL;
    (void)berth_size_model_evaluate(
        &self->path->sizes, box->bucket_lo, box->bucket_hi, box->bucket_hi, model->workspace.sizes);
    berth_plan* plan;
    if (corner_base->values == 0 && sprout(self, &plan)) return plan;
    self->inquiry->miss = berth_plan_cache_query_miss(&model->cache, &self->plan_key);
    model->workspace.base = *corner_base;
    const berth_status status =
        berth_plan_make(&model->workspace, &self->path->version->shown, &plan);
    model->workspace.base = (berth_plan_base){.values = 0};
    if (status != BERTH_OK) return NULL;
    const uint64_t cost = cost_since(model, begin, self->path->sizes.value_count * UINT64_C(16));
    if (!keep_plan(self, plan, cost)) return NULL;
    if (self->inquiry->remember) {
        self->inquiry->made_plan = true;
        model->counters.plans++;
    }
    return plan;
}

static berth_plan_placement* evaluate_plan(const placing* self, const berth_plan* plan) {
    berth_step_model* model = self->model;
    berth_known_path* path = self->path;
    if (berth_plan_workspace_reserve(&model->workspace, &path->version->shown) != BERTH_OK)
        return NULL;
    berth_size_answer answer = berth_size_model_evaluate(
        &path->sizes, self->box.lo, self->box.hi, self->box.bucket_hi, model->workspace.sizes);
    // A shape not asked for lately may tell hypotheses apart that others could not.
    if (answer.learn && !path->learning)
        answer.learn = self->inquiry->remember && berth_step_model_resume_learning(model, path);
    answer.learn = path->want_next || answer.learn;
    model->workspace.base = self->base;
    berth_plan_placement* placement;
    const berth_status status =
        berth_plan_place(&model->workspace, path->version, plan, answer, &placement);
    model->workspace.base = (berth_plan_base){.values = 0};
    return status == BERTH_OK ? placement : NULL;
}

static void begin_placing(placing* self, const berth_branch_set* set, uint32_t branch) {
    const berth_branch* item = &set->branches->items[branch];
    self->path = set->paths[branch];
    self->base.events = item->fork;
    self->base.values = item->parent == BERTH_BRANCH_NONE
                            ? 0
                            : berth_path_values_before(&self->path->version->shown, item->fork);
}

/// Evaluates the plan, which may be NULL: then it is made around `corner_base`. Retained.
static berth_plan_placement* make_placement(const placing* self,
                                            const berth_plan* plan,
                                            const berth_plan_base* corner_base) {
    berth_step_model* model = self->model;
    if (plan == NULL) plan = make_plan(self, corner_base);
    if (plan == NULL) return NULL;
    const uint64_t evaluation = berth_step_model_now(model);
    berth_plan_placement* placement = evaluate_plan(self, plan);
    if (placement == NULL) return NULL;
    placement->shown.corner_bytes = plan->peak_bytes;
    if (self->inquiry->remember) {
        self->inquiry->evaluated = true;
        model->counters.evaluations++;
    }
    keep_placement(self, placement, cost_since(model, evaluation, self->path->sizes.value_count));
    return placement;
}

/// The placement of a branch at the upper ends of a bucket, where its parents are at theirs too.
static berth_plan_placement* place_at_corner(const placing* asked,
                                             const berth_branch_set* set,
                                             uint32_t branch) {
    uint32_t chain[BERTH_BRANCHES_MAX];
    uint32_t length = 0;
    for (uint32_t at = branch; at != BERTH_BRANCH_NONE; at = set->branches->items[at].parent)
        chain[length++] = at;
    placing self = {.model = asked->model, .inquiry = asked->inquiry};
    berth_plan_placement* below = NULL;
    while (length > 0) {
        begin_placing(&self, set, chain[--length]);
        self.base.placement = below != NULL ? &below->shown : NULL;
        berth_step_model_find_box(self.model, self.path, asked->box.bucket_hi, &self.box);
        make_keys(&self);
        berth_plan_placement* placement = find_placement(&self);
        if (placement != NULL)
            placement->refs++;
        else
            placement = make_placement(&self, find_plan(&self), &self.base);
        berth_plan_placement_release(below, self.model->host);
        if (placement == NULL) return NULL;
        below = placement;
    }
    return below;
}

/// Makes a placement that was not found.
static berth_plan_placement* place_anew(const placing* self,
                                        const berth_branch_set* set,
                                        uint32_t branch) {
    const berth_plan* plan = find_plan(self);
    if (plan != NULL || self->base.values == 0) return make_placement(self, plan, &self->base);
    berth_plan_placement* corner = place_at_corner(self, set, set->branches->items[branch].parent);
    if (corner == NULL) return NULL;
    berth_plan_base corner_base = self->base;
    corner_base.placement = &corner->shown;
    berth_plan_placement* placement = make_placement(self, NULL, &corner_base);
    berth_plan_placement_release(corner, self->model->host);
    return placement;
}

berth_plan_placement* berth_step_model_place(berth_step_model* model,
                                             const berth_branch_set* set,
                                             uint32_t branch,
                                             const int64_t* values,
                                             berth_plan_inquiry* inquiry) {
    placing self = {.model = model, .inquiry = inquiry};
    begin_placing(&self, set, branch);
    if (self.base.values > 0)
        self.base.placement = set->branches->items[set->branches->items[branch].parent].placement;
    berth_step_model_find_box(model, self.path, values, &self.box);
    make_keys(&self);
    berth_plan_placement* placement = find_placement(&self);
    if (placement != NULL) {
        placement->refs++;
        return placement;
    }
    const uint64_t begin = berth_step_model_now(model);
    placement = place_anew(&self, set, branch);
    if (placement != NULL && inquiry->remember)
        inquiry->plan_ns += berth_step_model_now(model) - begin;
    return placement;
}
