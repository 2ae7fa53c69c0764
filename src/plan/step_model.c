// SPDX-License-Identifier: Apache-2.0
// Learns the paths of a step from its runs, and prepares runs from plans.
#include "plan/step_model.h"

#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "plan/bucket.h"
#include "plan/plan.h"
#include "plan/plan_cache.h"

#define BINDINGS_MAX 64u
/// Learned runs that changed nothing, after which replays are no longer asked for their sizes.
#define QUIET_RUNS 64u
/// Runs between two requests to learn anew: doubles up to this.
#define RELEARN_GAP_MAX 4096u
/// A full table of paths gives up one that was not taken for this many runs.
#define STALE_RUNS 64u

typedef struct known_path {
    uint32_t id;
    berth_path_version* version;
    berth_size_model sizes;
    uint64_t last_taken; ///< by the model's clock of runs
    bool learning;       ///< placements ask for the sizes of runs that would tell hypotheses apart
    bool want_next;      ///< the next run's sizes are wanted in any case
    uint32_t quiet_runs;
    uint64_t relearn_after; ///< by the model's clock
    uint64_t relearn_gap;
} known_path;

struct berth_step_model {
    const berth_host* host;
    char* name;
    berth_mutex lock; ///< guards all below
    bool lock_made;
    berth_plan_policy policy;
    berth_bucket_policy buckets;
    char** binding_names; ///< [binding_count] fixed by the first run that is learned
    uint32_t binding_count;
    bool names_known;
    bool ended; ///< planning ended: too many side exits in a row
    uint32_t exits_in_row;
    uint32_t next_path_id;
    uint64_t clock;    ///< runs that ended
    known_path* paths; ///< [policy.max_paths]
    uint32_t path_count;
    berth_plan_cache cache;
    berth_plan_workspace workspace;
    berth_step_counters counters;
};

// ---- Creation.

berth_status berth_step_model_create(const berth_host* host,
                                     const char* name,
                                     const berth_plan_policy* policy,
                                     berth_step_model** out_model) {
    *out_model = NULL;
    berth_bucket_policy buckets;
    BERTH_TRY(berth_bucket_policy_parse(&buckets, policy->buckets));
    berth_step_model* model = berth_host_calloc(host, 1, sizeof *model);
    if (model == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory for step %s", name);
    model->host = host;
    model->cache.host = host;
    model->workspace.host = host;
    model->policy = *policy;
    model->policy.buckets = NULL; // borrowed for this call only
    model->buckets = buckets;
    model->cache.limit_bytes = policy->cache_bytes;
    model->next_path_id = 1;
    berth_status status = BERTH_ERR_OUT_OF_MEMORY;
    model->name = berth_host_strdup(host, name);
    model->paths = berth_host_calloc(host, policy->max_paths + (size_t)1, sizeof *model->paths);
    if (model->name == NULL || model->paths == NULL) {
        (void)berth_fail(status, "no memory for step %s", name);
        goto fail;
    }
    status = berth_mutex_init(&model->lock);
    if (status != BERTH_OK) goto fail;
    model->lock_made = true;
    *out_model = model;
    return BERTH_OK;
fail:
    berth_step_model_destroy(model);
    return status;
}

static void forget_names(berth_step_model* model) {
    for (uint32_t i = 0; model->binding_names != NULL && i < model->binding_count; i++)
        berth_host_free(model->host, model->binding_names[i]);
    berth_host_free(model->host, model->binding_names);
    model->binding_names = NULL;
    model->binding_count = 0;
}

/// Forgets path `at`, with its plans. Replays under way keep their version.
static void forget_path(berth_step_model* model, uint32_t at) {
    known_path* path = &model->paths[at];
    berth_plan_cache_drop(&model->cache, path->id, false);
    berth_path_version_release(path->version, model->host);
    berth_size_model_fini(&path->sizes);
    *path = model->paths[--model->path_count];
    model->paths[model->path_count] = (known_path){.id = 0};
}

void berth_step_model_destroy(berth_step_model* model) {
    if (model == NULL) return;
    while (model->path_count > 0)
        forget_path(model, model->path_count - 1);
    berth_plan_cache_fini(&model->cache);
    berth_plan_workspace_fini(&model->workspace);
    forget_names(model);
    if (model->lock_made) berth_mutex_fini(&model->lock);
    berth_host_free(model->host, model->paths);
    berth_host_free(model->host, model->name);
    berth_host_free(model->host, model);
}

const char* berth_step_model_name(const berth_step_model* model) { return model->name; }

// ---- Keys.

/// Copies the values of `key` to `values` [BINDINGS_MAX]. Needs the lock.
static berth_status read_key(const berth_step_model* model,
                             const berth_shape_key* key,
                             int64_t* values) {
    if (key->count > BINDINGS_MAX)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "step %s declares %zu dimensions and integers, at most %u are possible",
                          model->name,
                          key->count,
                          BINDINGS_MAX);
    if (model->names_known && key->count != model->binding_count)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "step %s declares %zu dimensions and integers, its first run had %u",
                          model->name,
                          key->count,
                          model->binding_count);
    for (size_t i = 0; i < key->count; i++) {
        const berth_binding* binding = &key->bindings[i];
        if (model->names_known && strcmp(binding->name, model->binding_names[i]) != 0)
            return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                              "step %s declares %s where its first run had %s",
                              model->name,
                              binding->name,
                              model->binding_names[i]);
        if (binding->value < 0)
            return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                              "%s of step %s is %lld, below 0",
                              binding->name,
                              model->name,
                              (long long)binding->value);
        values[i] = binding->value;
    }
    return BERTH_OK;
}

/// Fixes names and order by the first run. False without memory.
static bool learn_names(berth_step_model* model, const berth_shape_key* key) {
    if (model->names_known) return true;
    model->binding_names =
        berth_host_calloc(model->host, key->count + 1, sizeof *model->binding_names);
    if (model->binding_names == NULL) return false;
    for (size_t i = 0; i < key->count; i++) {
        model->binding_names[i] = berth_host_strdup(model->host, key->bindings[i].name);
        model->binding_count++;
        if (model->binding_names[i] != NULL) continue;
        forget_names(model);
        return false;
    }
    model->names_known = true;
    return true;
}

// ---- Preparing a run.

/// Where a shape lies: the quantum box around it inside its bucket, and both keys.
typedef struct shape_box {
    int64_t lo[BINDINGS_MAX];
    int64_t hi[BINDINGS_MAX];
    int64_t bucket_lo[BINDINGS_MAX];
    int64_t bucket_hi[BINDINGS_MAX];
    int64_t placement_key[BINDINGS_MAX]; ///< by symbol
    int64_t plan_key[BINDINGS_MAX];      ///< by symbol
} shape_box;

static void find_box(const berth_step_model* model,
                     const known_path* path,
                     const int64_t* values,
                     shape_box* box) {
    const berth_size_model* sizes = &path->sizes;
    for (uint32_t i = 0; i < sizes->binding_count; i++) {
        box->lo[i] = box->bucket_lo[i] = values[i] - 1;
        box->hi[i] = box->bucket_hi[i] = values[i];
    }
    for (uint32_t k = 0; k < sizes->symbol_count; k++) {
        const uint16_t i = sizes->symbols[k];
        const berth_bucket bucket = berth_bucket_of(&model->buckets, values[i]);
        const berth_bucket quantum = berth_bucket_quantum(model->policy.quantum, values[i]);
        box->bucket_lo[i] = bucket.lo;
        box->bucket_hi[i] = bucket.hi;
        box->lo[i] = quantum.lo > bucket.lo ? quantum.lo : bucket.lo;
        box->hi[i] = quantum.hi < bucket.hi ? quantum.hi : bucket.hi;
        box->placement_key[k] = box->hi[i];
        box->plan_key[k] = bucket.hi;
    }
}

static uint64_t now(const berth_step_model* model) {
    return model->policy.now_ns != NULL ? model->policy.now_ns() : 0;
}

/// What a piece of planning cost; without a clock, its size stands for it.
static uint64_t cost_since(const berth_step_model* model, uint64_t begin, uint64_t size) {
    return model->policy.now_ns != NULL ? now(model) - begin + 1 : size + 1;
}

/// A way to ask: begin plans and remembers, estimate leaves no trace.
typedef struct plan_inquiry {
    bool remember;
    bool made_plan;
    bool evaluated;
    uint64_t plan_ns; ///< a memo hit does not look at the clock
} plan_inquiry;

static berth_cache_key plan_key_of(const known_path* path, const shape_box* box) {
    return (berth_cache_key){BERTH_CACHE_PLAN, path->id, path->sizes.symbol_count, box->plan_key};
}

/// The relation for the bucket of `box`; `*out_owned`: the caller destroys it.
static berth_relation* find_plan(berth_step_model* model,
                                 known_path* path,
                                 const shape_box* box,
                                 plan_inquiry* inquiry,
                                 bool* out_owned) {
    *out_owned = false;
    const berth_cache_key key = plan_key_of(path, box);
    berth_relation* relation = berth_plan_cache_find_plan(&model->cache, &key, inquiry->remember);
    if (relation != NULL) return relation;
    const uint64_t begin = now(model);
    (void)berth_size_model_evaluate(
        &path->sizes, box->bucket_lo, box->bucket_hi, box->bucket_hi, model->workspace.sizes);
    if (berth_plan_make(&model->workspace, &path->version->shown, &relation) != BERTH_OK)
        return NULL;
    const uint64_t cost = cost_since(model, begin, path->sizes.value_count * UINT64_C(16));
    if (inquiry->remember) {
        inquiry->made_plan = true;
        model->counters.plans++;
    }
    *out_owned =
        !inquiry->remember || !berth_plan_cache_insert_plan(&model->cache, &key, relation, cost);
    return relation;
}

static berth_plan_placement* evaluate_plan(berth_step_model* model,
                                           known_path* path,
                                           const shape_box* box,
                                           const berth_relation* relation) {
    berth_size_answer answer = berth_size_model_evaluate(
        &path->sizes, box->lo, box->hi, box->bucket_hi, model->workspace.sizes);
    answer.learn = path->want_next || (path->learning && answer.learn);
    berth_plan_placement* placement;
    if (berth_plan_place(&model->workspace, path->version, relation, answer, &placement) !=
        BERTH_OK)
        return NULL;
    return placement;
}

static berth_plan_placement* make_placement(berth_step_model* model,
                                            known_path* path,
                                            const shape_box* box,
                                            const berth_cache_key* key,
                                            plan_inquiry* inquiry) {
    const uint64_t begin = now(model);
    if (berth_plan_workspace_reserve(&model->workspace, &path->version->shown) != BERTH_OK)
        return NULL;
    bool owned;
    berth_relation* relation = find_plan(model, path, box, inquiry, &owned);
    if (relation == NULL) return NULL;
    const uint64_t evaluation = now(model);
    berth_plan_placement* placement = evaluate_plan(model, path, box, relation);
    if (owned) berth_relation_destroy(relation, model->host);
    if (placement == NULL || !inquiry->remember) return placement;
    inquiry->evaluated = true;
    model->counters.evaluations++;
    const uint64_t cost = cost_since(model, evaluation, path->sizes.value_count);
    const berth_cache_key plan_key = plan_key_of(path, box);
    (void)berth_plan_cache_insert_placement(&model->cache, key, &plan_key, placement, cost);
    inquiry->plan_ns += now(model) - begin;
    return placement;
}

/// The placement of `path` at `values`, retained; NULL without memory or if a size does not fit.
static berth_plan_placement* place(berth_step_model* model,
                                   known_path* path,
                                   const int64_t* values,
                                   plan_inquiry* inquiry) {
    shape_box box;
    find_box(model, path, values, &box);
    const berth_cache_key key = {
        BERTH_CACHE_PLACEMENT, path->id, path->sizes.symbol_count, box.placement_key};
    berth_plan_placement* placement =
        berth_plan_cache_find_placement(&model->cache, &key, inquiry->remember);
    if (placement == NULL) return make_placement(model, path, &box, &key, inquiry);
    placement->refs++;
    return placement;
}

/// The path expected at `values`: of those that apply, the one taken last.
static known_path* expected_path(berth_step_model* model, const int64_t* values) {
    known_path* expected = NULL;
    for (uint32_t i = 0; i < model->path_count; i++) {
        known_path* path = &model->paths[i];
        if (!berth_size_model_applies(&path->sizes, values)) continue;
        if (expected == NULL || path->last_taken > expected->last_taken) expected = path;
    }
    return expected;
}

/// True if `other`, which has not been seen at `values`, may be taken there all the same: no
/// binding tells it from `expected` for sure.
static bool may_be_taken(const known_path* other,
                         const known_path* expected,
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

/// Fills the outlook at `values`: UNKNOWN if nothing applies or memory runs out.
static void look_out(berth_step_model* model,
                     const int64_t* values,
                     plan_inquiry* inquiry,
                     berth_outlook* out) {
    known_path* expected = expected_path(model, values);
    if (expected == NULL) return;
    berth_plan_placement* chosen = place(model, expected, values, inquiry);
    if (chosen == NULL) return;
    berth_outlook outlook = {.kind = BERTH_ESTIMATE_EXACT};
    fold(&outlook, chosen);
    for (uint32_t i = 0; i < model->path_count; i++) {
        known_path* other = &model->paths[i];
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

// A placement handed out is the first member of the planner's own record.
static berth_plan_placement* own_placement(const berth_placement* placement) {
    return (berth_plan_placement*)(uintptr_t)placement;
}

/// Counts what begin has found out.
static void count_inquiry(berth_step_model* model,
                          const plan_inquiry* inquiry,
                          berth_outlook* outlook) {
    outlook->made_plan = inquiry->made_plan;
    outlook->plan_ns = inquiry->plan_ns;
    model->counters.plan_ns += inquiry->plan_ns;
    if (outlook->placement != NULL && !inquiry->evaluated) model->counters.memo_hits++;
}

static berth_status inquire(berth_step_model* model,
                            const berth_shape_key* key,
                            bool remember,
                            berth_outlook* out_outlook) {
    *out_outlook = (berth_outlook){.kind = BERTH_ESTIMATE_UNKNOWN};
    int64_t values[BINDINGS_MAX];
    berth_mutex_lock(&model->lock);
    const berth_status status = read_key(model, key, values);
    if (status == BERTH_OK && !model->ended) {
        plan_inquiry inquiry = {.remember = remember};
        look_out(model, values, &inquiry, out_outlook);
        if (remember) {
            count_inquiry(model, &inquiry, out_outlook);
        } else {
            berth_plan_placement_release(own_placement(out_outlook->placement), model->host);
            out_outlook->placement = NULL;
        }
    }
    berth_mutex_unlock(&model->lock);
    return status;
}

berth_status berth_step_model_begin(berth_step_model* model,
                                    const berth_shape_key* key,
                                    berth_outlook* out_outlook) {
    return inquire(model, key, true, out_outlook);
}

berth_status berth_step_model_estimate(berth_step_model* model,
                                       const berth_shape_key* key,
                                       berth_outlook* out_outlook) {
    return inquire(model, key, false, out_outlook);
}

void berth_step_model_abandon(berth_step_model* model, const berth_placement* placement) {
    if (placement == NULL) return;
    berth_mutex_lock(&model->lock);
    berth_plan_placement_release(own_placement(placement), model->host);
    berth_mutex_unlock(&model->lock);
}

// ---- Learning from a run.

static size_t path_bytes(const known_path* path) {
    return sizeof *path + path->version->bytes + path->sizes.bytes;
}

static uint64_t all_path_bytes(const berth_step_model* model) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < model->path_count; i++)
        bytes += path_bytes(&model->paths[i]);
    return bytes;
}

static known_path* find_path(berth_step_model* model, uint32_t id) {
    for (uint32_t i = 0; i < model->path_count; i++)
        if (model->paths[i].id == id) return &model->paths[i];
    return NULL;
}

static uint32_t least_recent(const berth_step_model* model) {
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < model->path_count; i++)
        if (model->paths[i].last_taken < model->paths[oldest].last_taken) oldest = i;
    return oldest;
}

/// Keeps models and plans within the bound (P4): models first, the rest is for plans.
static void settle_bytes(berth_step_model* model) {
    uint64_t bytes = all_path_bytes(model);
    while (bytes > model->policy.cache_bytes) {
        if (model->path_count == 1)
            berth_log_once(
                BERTH_LOG_WARN,
                "step %s: its trace takes %llu bytes, more than the plan cache holds; it is "
                "not planned",
                model->name,
                (unsigned long long)bytes);
        forget_path(model, least_recent(model));
        bytes = all_path_bytes(model);
    }
    berth_plan_cache_set_limit(&model->cache, model->policy.cache_bytes - bytes);
}

/// Asks for the sizes of the next run of `path`, not too often.
static void request_learning(berth_step_model* model, known_path* path) {
    if (path->want_next || model->clock < path->relearn_after) return;
    path->want_next = true;
    path->learning = true;
    path->quiet_runs = 0;
    path->relearn_after = model->clock + path->relearn_gap;
    if (path->relearn_gap < RELEARN_GAP_MAX) path->relearn_gap *= 2;
    berth_plan_cache_drop(&model->cache, path->id, true); // their `learn` is fixed
}

/// Adds what a run of a known path showed.
static void relearn_path(berth_step_model* model,
                         known_path* path,
                         const int64_t* values,
                         const berth_trace* trace) {
    bool changed = false;
    if (berth_path_is_late(&path->version->shown, trace)) {
        berth_path_version* version =
            berth_path_version_create(model->host, trace, &path->version->shown, 0);
        if (version != NULL) {
            berth_path_version_release(path->version, model->host);
            path->version = version;
            berth_plan_cache_drop(&model->cache, path->id, false);
        }
    }
    if (berth_size_model_observe(&path->sizes, trace, values, &changed) != BERTH_OK) return;
    if (changed) berth_plan_cache_drop(&model->cache, path->id, false);
    path->quiet_runs = changed ? 0 : path->quiet_runs + 1;
    const bool done = path->learning && path->quiet_runs >= QUIET_RUNS;
    if (done) path->learning = false;
    if (done || path->want_next) berth_plan_cache_drop(&model->cache, path->id, true);
    path->want_next = false;
}

/// A place for another path; NULL if the table is full of paths in use.
static known_path* take_path_slot(berth_step_model* model) {
    if (model->policy.max_paths == 0) return NULL;
    if (model->path_count == model->policy.max_paths) {
        const uint32_t oldest = least_recent(model);
        if (model->paths[oldest].last_taken + STALE_RUNS > model->clock) return NULL;
        forget_path(model, oldest);
    }
    return &model->paths[model->path_count];
}

static known_path* add_path(berth_step_model* model,
                            const int64_t* values,
                            const berth_trace* trace) {
    known_path* path = take_path_slot(model);
    if (path == NULL) return NULL;
    *path = (known_path){.id = model->next_path_id, .learning = true, .relearn_gap = 1};
    path->version = berth_path_version_create(model->host, trace, NULL, path->id);
    if (path->version == NULL) return NULL;
    if (berth_size_model_init(&path->sizes, model->host, trace, values, model->binding_count) !=
        BERTH_OK) {
        berth_path_version_release(path->version, model->host);
        return NULL;
    }
    model->next_path_id++;
    model->path_count++;
    return path;
}

/// Learns a whole run. Returns the path it took, or NULL if that is not kept.
static known_path* learn_run(berth_step_model* model,
                             const berth_shape_key* key,
                             const int64_t* values,
                             const berth_trace* trace) {
    if (trace->events.count > model->policy.max_events || !berth_path_is_sound(trace)) return NULL;
    if (!learn_names(model, key)) return NULL;
    for (uint32_t i = 0; i < model->path_count; i++) {
        if (!berth_path_matches(&model->paths[i].version->shown, trace)) continue;
        relearn_path(model, &model->paths[i], values, trace);
        return &model->paths[i];
    }
    return add_path(model, values, trace);
}

/// The path of a replay that told nothing; asks for more where the plan did not fit.
static known_path* note_replay(berth_step_model* model, const berth_run_report* report) {
    known_path* path = find_path(model, report->placement->path->id);
    if (path == NULL) return NULL;
    const bool too_small = report->result == BERTH_RUN_PARTIAL;
    const bool too_large = report->allocated_bytes < report->placement->sum_bytes / 8 * 7;
    if (too_small || too_large) request_learning(model, path);
    return path;
}

static void end_planning(berth_step_model* model) {
    model->ended = true;
    while (model->path_count > 0)
        forget_path(model, model->path_count - 1);
    berth_log_line(BERTH_LOG_WARN,
                   "step %s left its plan %u times in a row; it is no longer planned",
                   model->name,
                   model->exits_in_row);
}

static void count_exits(berth_step_model* model, berth_run_result result) {
    if (result == BERTH_RUN_HIT || result == BERTH_RUN_PARTIAL) model->exits_in_row = 0;
    if (result != BERTH_RUN_EXIT) return;
    model->exits_in_row++;
    if (model->policy.max_exits > 0 && model->exits_in_row >= model->policy.max_exits)
        end_planning(model);
}

static void count_ratio(berth_step_counters* counters, const berth_run_report* report) {
    const bool replay = report->result == BERTH_RUN_HIT || report->result == BERTH_RUN_PARTIAL;
    if (!replay || report->lower_bound_bytes == 0) return;
    const uint64_t ppm =
        (uint64_t)((double)report->peak_bytes * 1e6 / (double)report->lower_bound_bytes + 0.5);
    counters->ratio_sum_ppm += ppm;
    counters->ratio_runs++;
    if (ppm > counters->ratio_max_ppm) counters->ratio_max_ppm = ppm;
}

static void count_run(berth_step_counters* counters, const berth_run_report* report) {
    counters->runs++;
    counters->hits += report->result == BERTH_RUN_HIT;
    counters->partial += report->result == BERTH_RUN_PARTIAL;
    counters->side_exits += report->result == BERTH_RUN_EXIT;
    counters->recorded += report->result == BERTH_RUN_RECORDED;
    counters->placed_bytes += report->placed_bytes;
    counters->allocated_bytes += report->allocated_bytes;
    if (report->placement != NULL && report->placement->frame_bytes > counters->frame_bytes)
        counters->frame_bytes = report->placement->frame_bytes;
    if (report->peak_bytes > counters->peak_bytes) {
        counters->peak_bytes = report->peak_bytes;
        counters->lower_bound_bytes = report->lower_bound_bytes;
        counters->sum_bytes = report->allocated_bytes;
    }
    if (report->pool_peak_bytes > counters->pool_bytes)
        counters->pool_bytes = report->pool_peak_bytes;
    count_ratio(counters, report);
}

static void take_report(berth_step_model* model,
                        const berth_shape_key* key,
                        const int64_t* values,
                        const berth_run_report* report) {
    model->clock++;
    count_run(&model->counters, report);
    if (model->ended) return;
    known_path* path = NULL;
    if (report->trace != NULL)
        path = learn_run(model, key, values, report->trace);
    else if (report->placement != NULL && report->result != BERTH_RUN_EXIT)
        path = note_replay(model, report);
    if (path != NULL) path->last_taken = model->clock;
    if (report->trace != NULL) settle_bytes(model);
    count_exits(model, report->result);
}

void berth_step_model_end(berth_step_model* model,
                          const berth_shape_key* key,
                          berth_run_report* report) {
    int64_t values[BINDINGS_MAX];
    berth_mutex_lock(&model->lock);
    if (report->result != BERTH_RUN_DISCARDED && read_key(model, key, values) == BERTH_OK)
        take_report(model, key, values, report);
    berth_plan_placement_release(own_placement(report->placement), model->host);
    report->placement = NULL;
    berth_mutex_unlock(&model->lock);
}

void berth_step_model_query_counters(berth_step_model* model, berth_step_counters* out_counters) {
    berth_mutex_lock(&model->lock);
    *out_counters = model->counters;
    out_counters->plans_live = model->cache.live[BERTH_CACHE_PLAN];
    out_counters->plans_evicted = model->cache.evicted[BERTH_CACHE_PLAN];
    out_counters->plan_bytes = model->cache.bytes + all_path_bytes(model);
    out_counters->paths = model->path_count;
    berth_mutex_unlock(&model->lock);
}
