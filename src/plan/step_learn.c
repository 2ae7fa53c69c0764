// SPDX-License-Identifier: Apache-2.0
// Learns the paths of a step and their sizes from its runs.
#include "base/log.h"
#include "plan/step_model_impl.h"

/// Learned runs that changed nothing, after which replays are no longer asked for their sizes.
#define QUIET_RUNS 64u
/// Runs between two requests to learn anew: doubles up to this.
#define RELEARN_GAP_MAX 4096u
/// A full table of paths gives up one that was not taken for this many runs.
#define STALE_RUNS 64u

static size_t path_bytes(const berth_known_path* path) {
    return sizeof *path + path->version->bytes + path->sizes.bytes;
}

uint64_t berth_step_model_path_bytes(const berth_step_model* model) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < model->path_count; i++)
        bytes += path_bytes(&model->paths[i]);
    return bytes;
}

berth_known_path* berth_step_model_find_path(berth_step_model* model, uint32_t id) {
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
        berth_step_model_forget_path(model, least_recent(model));
        bytes = berth_step_model_path_bytes(model);
    }
    berth_plan_cache_set_limit(&model->cache, model->policy.cache_bytes - bytes);
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
    berth_plan_cache_drop(&model->cache, path->id, true); // their `learn` is fixed
}

/// Adds what a run of a known path showed.
static void relearn_path(berth_step_model* model,
                         berth_known_path* path,
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
    berth_step_model_note_undeclared(model, path);
    if (changed) berth_plan_cache_drop(&model->cache, path->id, false);
    path->quiet_runs = changed ? 0 : path->quiet_runs + 1;
    if (changed) path->relearn_gap = 1;
    const bool done = path->learning && path->quiet_runs >= QUIET_RUNS;
    if (done) {
        path->learning = false;
        path->relearn_after = model->clock + QUIET_RUNS;
    }
    if (done || path->want_next) berth_plan_cache_drop(&model->cache, path->id, true);
    path->want_next = false;
}

/// A place for another path; NULL if the table is full of paths in use.
static berth_known_path* take_path_slot(berth_step_model* model) {
    if (model->policy.max_paths == 0) return NULL;
    if (model->path_count == model->policy.max_paths) {
        const uint32_t oldest = least_recent(model);
        if (model->paths[oldest].last_taken + STALE_RUNS > model->clock) return NULL;
        berth_step_model_forget_path(model, oldest);
    }
    return &model->paths[model->path_count];
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
        BERTH_OK) {
        berth_path_version_release(path->version, model->host);
        return NULL;
    }
    model->next_path_id++;
    model->path_count++;
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

static void count_exits(berth_step_model* model, berth_run_result result) {
    if (result == BERTH_RUN_HIT || result == BERTH_RUN_PARTIAL) model->exits_in_row = 0;
    if (result != BERTH_RUN_EXIT) return;
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
    const bool is_new = path == NULL || path->id >= first_new_id;
    if (miss == BERTH_MISS_NONE && report->result == BERTH_RUN_EXIT && is_new)
        miss = BERTH_MISS_NEW_PATH;
    count_miss(&model->counters, miss);
    berth_step_model_watch_churn(model, path, values, miss, report);
    if (report->trace != NULL) berth_step_model_settle_bytes(model);
    if (!model->ended) count_exits(model, report->result);
}
