// SPDX-License-Identifier: Apache-2.0
// Learns the paths of a step and their sizes from its runs.
#include "base/log.h"
#include "plan/step_model_impl.h"

/// Learned runs that changed nothing, after which replays are no longer asked for their sizes.
#define QUIET_RUNS 64u
/// Runs between two requests to learn anew: doubles up to this.
#define RELEARN_GAP_MAX 4096u
/// A full table of paths gives up one that was not taken for this many runs; paths that leave it
/// are then planned before it.
#define STALE_RUNS 64u
/// Replays in a row that do not place everything, after which a path is planned before others.
#define PARTIAL_RUNS 3u

static size_t path_bytes(const berth_known_path* path) {
    return sizeof *path + path->version->bytes + path->sizes.bytes;
}

uint64_t berth_step_model_path_bytes(const berth_step_model* model) {
    uint64_t bytes = berth_path_tree_query_bytes(&model->tree);
    for (uint32_t i = 0; i < model->path_count; i++)
        bytes += path_bytes(&model->paths[i]);
    return bytes;
}

berth_known_path* berth_step_model_find_path(berth_step_model* model, uint32_t id) {
    for (uint32_t i = 0; i < model->path_count; i++)
        if (model->paths[i].id == id) return &model->paths[i];
    return NULL;
}

static uint32_t rank_of(const berth_step_model* model, const berth_known_path* path) {
    return (uint32_t)(path - model->paths);
}

static uint32_t least_recent(const berth_step_model* model) {
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < model->path_count; i++)
        if (model->paths[i].last_taken < model->paths[oldest].last_taken) oldest = i;
    return oldest;
}

static void tell_short(berth_step_model* model, uint64_t bytes) {
    if (model->is_short) return;
    model->is_short = true;
    berth_log_line(BERTH_LOG_WARN,
                   "step %.120s: its %u paths take %llu bytes, more than the plan cache holds; "
                   "those taken last are kept (BERTH_PLAN_CACHE_BYTES)",
                   model->name,
                   model->path_count,
                   (unsigned long long)bytes);
}

void berth_step_model_settle_bytes(berth_step_model* model) {
    uint64_t bytes = berth_step_model_path_bytes(model);
    while (bytes > model->policy.cache_bytes) {
        if (model->path_count == 1)
            berth_log_once(
                BERTH_LOG_WARN,
                "step %s: its trace takes %llu bytes, more than the plan cache holds; it is "
                "not planned",
                model->name,
                (unsigned long long)bytes);
        else
            tell_short(model, bytes);
        berth_step_model_forget_path(model, least_recent(model));
        bytes = berth_step_model_path_bytes(model);
    }
    berth_plan_cache_set_limit(&model->cache, model->policy.cache_bytes - bytes);
}

void berth_step_model_drop_plans(berth_step_model* model, uint32_t at, bool placements_only) {
    berth_plan_cache_drop(&model->cache, model->paths[at].id, placements_only);
    for (uint32_t i = at + 1; i < model->path_count; i++)
        if (berth_path_tree_shared(&model->tree, at, i) > 0)
            berth_plan_cache_drop(&model->cache, model->paths[i].id, placements_only);
}

/// Takes another version of path `at`; its plans go. False without memory.
static bool replace_version(berth_step_model* model, uint32_t at, berth_path_version* version) {
    if (version == NULL) return false;
    berth_path_version_release(model->paths[at].version, model->host);
    model->paths[at].version = version;
    berth_step_model_drop_plans(model, at, false);
    return true;
}

/// Makes path `at` know what `other` knows of the deaths of the values that they share.
static void take_deaths(berth_step_model* model, uint32_t at, uint32_t other) {
    const uint32_t events = berth_path_tree_shared(&model->tree, at, other);
    const berth_path* path = &model->paths[at].version->shown;
    const berth_path* from = &model->paths[other].version->shown;
    if (events == 0 || berth_path_covers(path, from, events)) return;
    // without memory the two are not placed around each other until this succeeds
    if (!replace_version(model, at, berth_path_version_join(model->host, path, from, events)))
        model->unshared = true;
}

/// Makes path `at` agree with all others about the values that they share.
static void share_deaths(berth_step_model* model, uint32_t at) {
    for (uint32_t other = 0; other < model->path_count; other++)
        if (other != at) take_deaths(model, at, other);
    for (uint32_t other = 0; other < model->path_count; other++)
        if (other != at) take_deaths(model, other, at);
}

static void share_all_deaths(berth_step_model* model) {
    model->unshared = false;
    for (uint32_t at = 0; at < model->path_count; at++)
        share_deaths(model, at);
}

/// Plans path `at` before that of rank `to` from now on. Plans for the old order are not found any
/// more, as their keys tell what they were made around.
static void promote(berth_step_model* model, uint32_t at, uint32_t to) {
    const berth_known_path moved = model->paths[at];
    for (uint32_t i = at; i > to; i--)
        model->paths[i] = model->paths[i - 1];
    model->paths[to] = moved;
    berth_path_tree_promote(&model->tree, at, to);
}

/// A path is planned around those before it, and takes their places and sizes for what they share.
/// One that has gone stale is not to hold up those in use, nor one whose sizes do not fit them.
static void promote_if_due(berth_step_model* model, uint32_t at) {
    berth_known_path* path = &model->paths[at];
    const bool is_stuck =
        path->partial_runs >= PARTIAL_RUNS && model->clock >= model->promote_after;
    for (uint32_t to = 0; to < at; to++) {
        if (berth_path_tree_shared(&model->tree, at, to) == 0) continue;
        const bool is_stale = model->paths[to].last_taken + STALE_RUNS < model->clock;
        if (!is_stale && !is_stuck) continue;
        if (is_stuck) {
            path->partial_runs = 0;
            model->promote_gap =
                model->promote_gap < RELEARN_GAP_MAX ? model->promote_gap * 2 + 1 : RELEARN_GAP_MAX;
            model->promote_after = model->clock + model->promote_gap;
        }
        promote(model, at, to);
        return;
    }
}

bool berth_step_model_resume_learning(const berth_step_model* model, berth_known_path* path) {
    if (path->want_next || model->clock < path->relearn_after) return false;
    path->learning = true;
    path->quiet_runs = 0;
    path->relearn_after = model->clock + path->relearn_gap;
    if (path->relearn_gap < RELEARN_GAP_MAX) path->relearn_gap *= 2;
    return true;
}

/// Asks for the sizes of the next run of `path`, not too often.
static void request_learning(berth_step_model* model, berth_known_path* path) {
    if (!berth_step_model_resume_learning(model, path)) return;
    path->want_next = true;
    berth_step_model_drop_plans(model, rank_of(model, path), true); // their `learn` is fixed
}

/// Adds what a run of a known path showed.
static void relearn_path(berth_step_model* model,
                         berth_known_path* path,
                         const int64_t* values,
                         const berth_trace* trace) {
    bool changed = false;
    const uint32_t at = rank_of(model, path);
    const berth_path* shown = &path->version->shown;
    if (berth_path_is_late(shown, trace) &&
        replace_version(model, at, berth_path_version_create(model->host, trace, shown, 0)))
        share_deaths(model, at);
    if (berth_size_model_observe(&path->sizes, trace, values, &changed) != BERTH_OK) return;
    berth_step_model_note_undeclared(model, path);
    if (changed) berth_step_model_drop_plans(model, at, false);
    path->quiet_runs = changed ? 0 : path->quiet_runs + 1;
    if (changed) path->relearn_gap = 1;
    const bool done = path->learning && path->quiet_runs >= QUIET_RUNS;
    if (done) {
        path->learning = false;
        path->relearn_after = model->clock + QUIET_RUNS;
    }
    if (done || path->want_next) berth_step_model_drop_plans(model, at, true);
    path->want_next = false;
}

static void tell_full(berth_step_model* model) {
    if (model->told_full) return;
    model->told_full = true;
    berth_log_line(BERTH_LOG_WARN,
                   "step %s takes more than %u paths; from where the others leave these they are "
                   "served by the pool (BERTH_PATHS_MAX)",
                   model->name,
                   model->policy.max_paths);
}

/// A place for another path; NULL if the table is full of paths in use.
static berth_known_path* take_path_slot(berth_step_model* model) {
    if (model->policy.max_paths == 0) return NULL;
    if (model->path_count == model->policy.max_paths) {
        const uint32_t oldest = least_recent(model);
        if (model->paths[oldest].last_taken + STALE_RUNS > model->clock) {
            tell_full(model);
            return NULL;
        }
        berth_step_model_forget_path(model, oldest);
    }
    return &model->paths[model->path_count];
}

/// Adds the newest path, which is complete, to the tree. False without memory.
static bool join_tree(berth_step_model* model, const berth_known_path* path) {
    uint32_t* shared =
        berth_host_calloc(model->host, model->path_count + (size_t)1, sizeof *shared);
    if (shared == NULL) return false;
    const bool has_room = berth_path_tree_reserve(&model->tree, model->host) == BERTH_OK;
    for (uint32_t i = 0; i < model->path_count && has_room; i++)
        shared[i] = berth_path_shared(&model->paths[i].version->shown, &path->version->shown);
    if (has_room) berth_path_tree_append(&model->tree, shared);
    berth_host_free(model->host, shared);
    return has_room;
}

static berth_known_path* add_path(berth_step_model* model,
                                  const int64_t* values,
                                  const berth_trace* trace) {
    berth_known_path* path = take_path_slot(model);
    if (path == NULL) return NULL;
    *path = (berth_known_path){.id = model->next_path_id, .learning = true, .relearn_gap = 1};
    path->version = berth_path_version_create(model->host, trace, NULL, path->id);
    if (path->version == NULL) return NULL;
    if (berth_size_model_init(&path->sizes, model->host, trace, values, model->binding_count) !=
            BERTH_OK ||
        !join_tree(model, path)) {
        berth_path_version_release(path->version, model->host);
        berth_size_model_fini(&path->sizes);
        return NULL;
    }
    model->next_path_id++;
    model->path_count++;
    share_deaths(model, rank_of(model, path));
    return path;
}

berth_known_path* berth_step_model_learn_run(berth_step_model* model,
                                             const berth_shape_key* key,
                                             const int64_t* values,
                                             const berth_trace* trace) {
    if (trace->events.count > model->policy.max_events || !berth_path_is_sound(trace)) return NULL;
    if (!berth_step_model_learn_names(model, key)) return NULL;
    for (uint32_t i = 0; i < model->path_count; i++) {
        if (!berth_path_matches(&model->paths[i].version->shown, trace)) continue;
        relearn_path(model, &model->paths[i], values, trace);
        return &model->paths[i];
    }
    return add_path(model, values, trace);
}

/// The path of a replay that told nothing; asks for more where the plan did not fit.
static berth_known_path* note_replay(berth_step_model* model, const berth_run_report* report) {
    berth_known_path* path = berth_step_model_find_path(model, report->placement->path->id);
    if (path == NULL) return NULL;
    const bool too_small = report->result == BERTH_RUN_PARTIAL;
    const bool too_large = report->allocated_bytes < report->placement->sum_bytes / 8 * 7;
    if (too_small || too_large) request_learning(model, path);
    return path;
}

void berth_step_model_end_planning(berth_step_model* model) {
    model->ended = true;
    while (model->path_count > 0)
        berth_step_model_forget_path(model, model->path_count - 1);
}

static void give_up(berth_step_model* model) {
    berth_step_model_end_planning(model);
    berth_log_line(BERTH_LOG_WARN,
                   "step %s left its plan %u times in a row; it is no longer planned",
                   model->name,
                   model->exits_in_row);
}

/// A run that leaves its plan late has had use of it: it does not count.
static void count_exits(berth_step_model* model, const berth_run_report* report) {
    const berth_run_result result = report->result;
    if (result == BERTH_RUN_HIT || result == BERTH_RUN_PARTIAL) model->exits_in_row = 0;
    if (result != BERTH_RUN_EXIT) return;
    if (report->placed_bytes > report->allocated_bytes / 2) return;
    model->exits_in_row++;
    if (model->policy.max_exits > 0 && model->exits_in_row >= model->policy.max_exits)
        give_up(model);
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

static void count_miss(berth_step_counters* counters, berth_miss miss) {
    counters->miss_new_step += miss == BERTH_MISS_NEW_STEP;
    counters->miss_new_path += miss == BERTH_MISS_NEW_PATH;
    counters->miss_new_bucket += miss == BERTH_MISS_NEW_BUCKET;
    counters->miss_evicted += miss == BERTH_MISS_EVICTED;
    counters->miss_model_changed += miss == BERTH_MISS_MODEL_CHANGED;
    counters->miss_churn += miss == BERTH_MISS_CHURN;
}

static void count_run(berth_step_counters* counters, const berth_run_report* report) {
    counters->runs++;
    counters->hits += report->result == BERTH_RUN_HIT;
    counters->partial += report->result == BERTH_RUN_PARTIAL;
    counters->side_exits += report->result == BERTH_RUN_EXIT;
    counters->switches += report->switched;
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
    if (report->result == BERTH_RUN_HIT) {
        counters->corner_sum_bytes += report->placement->corner_bytes;
        counters->frame_sum_bytes += report->placement->frame_bytes;
    }
    count_ratio(counters, report);
}

void berth_step_model_take_report(berth_step_model* model,
                                  const berth_shape_key* key,
                                  const int64_t* values,
                                  const berth_run_report* report) {
    model->clock++;
    count_run(&model->counters, report);
    berth_miss miss = report->miss;
    if (model->ended && berth_churn_try_resume(&model->churn, model->clock)) model->ended = false;
    if (model->ended) {
        count_miss(&model->counters, miss);
        return;
    }
    const uint32_t first_new_id = model->next_path_id;
    berth_known_path* path = NULL;
    if (report->trace != NULL)
        path = berth_step_model_learn_run(model, key, values, report->trace);
    else if (report->placement != NULL && report->result != BERTH_RUN_EXIT)
        path = note_replay(model, report);
    if (path != NULL) path->last_taken = model->clock;
    if (path != NULL)
        path->partial_runs = report->result == BERTH_RUN_PARTIAL ? path->partial_runs + 1 : 0;
    const bool is_new = path == NULL || path->id >= first_new_id;
    if (miss == BERTH_MISS_NONE && report->result == BERTH_RUN_EXIT && is_new)
        miss = BERTH_MISS_NEW_PATH;
    count_miss(&model->counters, miss);
    berth_step_model_watch_churn(model, path, values, miss, report);
    if (!model->ended && path != NULL) promote_if_due(model, rank_of(model, path));
    if (model->unshared) share_all_deaths(model);
    if (report->trace != NULL) berth_step_model_settle_bytes(model);
    if (!model->ended) count_exits(model, report);
}
