// SPDX-License-Identifier: Apache-2.0
// The loop of a replay: requests that are due, steps, waiting, and what is noted of each.
#include "replay.h"

#include "llm_clock.h"
#include "replay_prompts.h"
#include "replay_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_WAITING = 64,       ///< requests in the queue when they come as fast as they are taken
    MOST_STALLS = 10000,     ///< steps in a row that compute nothing
    PROGRESS_NS = 200000000, ///< between two calls of on_progress
    LONGEST_SLEEP_NS = 100000000, ///< so that a stop is seen
};

/// A replay's clock goes this far, which is 285 years: what comes later comes then.
#define MOST_NS 9e18

struct replay;

/// One request, as its callbacks know it.
typedef struct entry {
    struct replay* replay;
    size_t row;
    uint64_t arrival_ns;
    double queue_ms; ///< -1: it did not come to that
    double first_ms;
    double token_ms;
} entry;

typedef struct replay {
    const llm_replay_options* options;
    const llm_model* model;
    llm_scheduler* scheduler;
    llm_replay_prompts prompts;
    llm_replay_report* report;
    entry* entries; ///< [row_count], in the order of arrival
    size_t next;    ///< entry that comes next
    size_t* entry_of_id;
    int32_t* prompt; ///< room for the longest
    uint64_t began_ns;
    double virtual_ns; ///< clock of a simulation
    uint64_t done;
    uint64_t progress_ns;    ///< when it was told last
    uint64_t sample_gap_ns;  ///< least time between samples
    uint64_t next_sample_ns; ///< clock of the next one
} replay;

// ---- The clock. It starts at 1, as the scheduler's zero says "never".

static uint64_t now(void* user) {
    const replay* r = user;
    if (r->options->simulates) return 1 + (uint64_t)fmin(r->virtual_ns, MOST_NS);
    return 1 + llm_now_ns() - r->began_ns;
}

static void after_step(void* user, const llm_step_summary* step) {
    replay* r = user;
    const llm_step_cost* cost = &r->options->cost;
    if (r->options->simulates)
        r->virtual_ns += cost->fixed_ns + cost->token_ns * (double)step->tokens +
                         cost->key_token_ns * (double)step->key_tokens;
    berth_kv_stats kv;
    berth_kv_cache_query_stats(llm_scheduler_cache(r->scheduler), &kv);
    r->report->held_tokens += (double)kv.held_tokens;
    r->report->wasted_tokens += (double)kv.wasted_tokens;
}

// ---- Requests.

static int32_t token_of(void* user, uint64_t id, int64_t index) {
    const replay* r = user;
    const size_t row = r->entries[r->entry_of_id[id]].row;
    return llm_replay_token(&r->prompts, row, llm_replay_prompt_tokens(&r->prompts, row) + index);
}

static double ms_between(uint64_t from, uint64_t to) {
    return to > from ? (double)(to - from) * 1e-6 : 0.0;
}

static void on_end(void* user, uint64_t id, const llm_request_end* end) {
    (void)id;
    entry* e = user;
    replay* r = e->replay;
    r->done++;
    r->report->ends[end->reason]++;
    char* said = r->report->first_error.text;
    if (said[0] == '\0' && end->status != BERTH_OK)
        snprintf(said, sizeof r->report->first_error.text, "%s", end->text);
    if (end->reason != LLM_END_LIMIT) return;
    r->report->prompt_tokens += (uint64_t)end->prompt_tokens;
    r->report->answer_tokens += (uint64_t)end->answer_tokens;
    e->queue_ms = ms_between(e->arrival_ns, end->admit_ns);
    e->first_ms = ms_between(e->arrival_ns, end->first_token_ns);
    if (end->answer_tokens > 1)
        e->token_ms =
            ms_between(end->first_token_ns, end->end_ns) / (double)(end->answer_tokens - 1);
}

/// What is replayed of the trace.
static llm_replay_rows rows_of(const llm_replay_options* o) {
    return (llm_replay_rows){.trace = o->trace,
                             .first_row = o->first_row,
                             .row_count = o->row_count,
                             .divide = o->divide,
                             .speed = o->speed,
                             .tenants = o->tenants};
}

static berth_status submit(replay* r, entry* e, llm_error* error) {
    llm_replay_write_prompt(&r->prompts, e->row, r->prompt);
    const llm_replay_rows rows = rows_of(r->options);
    const llm_request request = {
        .tenant = llm_replay_rows_tenant(&rows, e->row),
        .prompt = r->prompt,
        .prompt_count = llm_replay_prompt_tokens(&r->prompts, e->row),
        .max_tokens = llm_replay_answer_tokens(&r->prompts, e->row),
        .sampling = llm_sampler_options_default(),
        .ignores_stop = true,
        .on_end = on_end,
        .user = e,
    };
    uint64_t id;
    berth_status status = llm_scheduler_submit(r->scheduler, &request, &id, error);
    // ids are given in turn, one for each request that is taken
    if (status == BERTH_OK && id != 0) r->entry_of_id[id] = (size_t)(e - r->entries);
    return status;
}

static bool goes_fast(const replay* r) { return r->options->speed <= 0.0; }

static bool is_due(replay* r) {
    if (r->next >= r->options->row_count) return false;
    if (!goes_fast(r)) return r->entries[r->next].arrival_ns <= now(r);
    llm_scheduler_stats stats;
    llm_scheduler_query_stats(r->scheduler, &stats);
    return stats.queued < MOST_WAITING;
}

static berth_status submit_due(replay* r, llm_error* error) {
    berth_status status = BERTH_OK;
    while (status == BERTH_OK && is_due(r)) {
        entry* e = &r->entries[r->next++];
        if (goes_fast(r)) e->arrival_ns = now(r);
        status = submit(r, e, error);
    }
    return status;
}

// ---- What is noted.

/// Keeps every other sample, and takes them half as often from now on.
static void thin_samples(replay* r) {
    llm_replay_report* report = r->report;
    report->sample_count /= 2;
    for (size_t i = 0; i < report->sample_count; i++)
        report->samples[i] = report->samples[2 * i];
    r->sample_gap_ns = r->sample_gap_ns == 0 ? 1000000 : r->sample_gap_ns * 2;
}

static berth_status query_memory(const replay* r, berth_memory_stats* out, llm_error* error) {
    berth_status status = berth_runtime_query_memory(berth_context_runtime(r->model->context), out);
    if (status != BERTH_OK) llm_fail(error, status, "%s", berth_last_error());
    return status;
}

static berth_status add_sample(replay* r, llm_error* error) {
    llm_replay_report* report = r->report;
    if (report->sample_count == LLM_REPLAY_SAMPLES) thin_samples(r);
    berth_memory_stats memory;
    berth_status status = query_memory(r, &memory, error);
    if (status != BERTH_OK) return status;
    llm_scheduler_stats stats;
    llm_scheduler_query_stats(r->scheduler, &stats);
    berth_kv_stats kv;
    berth_kv_cache_query_stats(llm_scheduler_cache(r->scheduler), &kv);
    const uint64_t at_ns = now(r);
    report->samples[report->sample_count++] =
        (llm_replay_sample){.time_ms = at_ns / 1000000,
                            .running = stats.running,
                            .queued = stats.queued,
                            .parked = stats.parked,
                            .answer_tokens = stats.decoded_tokens,
                            .frames_bytes = memory.frames_bytes,
                            .pool_bytes = memory.pool_bytes,
                            .kv_bytes = memory.kv_bytes,
                            .kv_held_bytes = kv.held_blocks * kv.block_bytes,
                            .kv_cached_bytes = kv.cached_blocks * kv.block_bytes,
                            .mapped_bytes = memory.mapped_bytes};
    r->next_sample_ns = at_ns + r->sample_gap_ns;
    return BERTH_OK;
}

static void tell_progress(replay* r) {
    const uint64_t real_ns = llm_now_ns();
    if (r->options->on_progress == NULL || real_ns - r->progress_ns < PROGRESS_NS) return;
    r->progress_ns = real_ns;
    llm_scheduler_stats stats;
    llm_scheduler_query_stats(r->scheduler, &stats);
    berth_memory_stats memory;
    if (query_memory(r, &memory, NULL) != BERTH_OK) return;
    const llm_replay_progress progress = {.done = r->done,
                                          .requests = r->options->row_count,
                                          .seconds = (double)now(r) * 1e-9,
                                          .answer_tokens = stats.decoded_tokens,
                                          .running = stats.running,
                                          .queued = stats.queued,
                                          .mapped_bytes = memory.mapped_bytes};
    r->options->on_progress(r->options->user, &progress);
}

// ---- The loop.

/// Lets time go on until the next request comes.
static void wait_for_next(replay* r) {
    const uint64_t due_ns = r->entries[r->next].arrival_ns;
    const uint64_t at_ns = now(r);
    if (due_ns <= at_ns) return;
    uint64_t rest_ns = due_ns - at_ns;
    if (r->options->simulates) {
        r->virtual_ns += (double)rest_ns;
        return;
    }
    if (rest_ns > LONGEST_SLEEP_NS) rest_ns = LONGEST_SLEEP_NS;
    const struct timespec rest = {.tv_nsec = (long)rest_ns};
    nanosleep(&rest, NULL);
}

static bool is_stopped(const replay* r) {
    return r->options->stop != NULL && *r->options->stop != 0;
}

/// One turn: what is due comes, a step runs, or time goes on. `*stalls` counts steps in a row that
/// computed nothing although there was something to compute.
static berth_status turn(replay* r, int* stalls, bool* out_ended, llm_error* error) {
    llm_step_summary summary = {0};
    berth_status status = submit_due(r, error);
    if (status == BERTH_OK) status = llm_scheduler_step(r->scheduler, &summary, error);
    if (status == BERTH_OK && summary.ran && now(r) >= r->next_sample_ns)
        status = add_sample(r, error);
    if (status != BERTH_OK) return status;
    const bool all_came = r->next >= r->options->row_count;
    *out_ended = summary.is_idle && all_came;
    *stalls = summary.ran || summary.is_idle ? 0 : *stalls + 1;
    if (*stalls > MOST_STALLS)
        return llm_fail(error, BERTH_ERR_INTERNAL, "requests wait, and no step runs");
    if (!summary.ran && !all_came && !goes_fast(r)) wait_for_next(r);
    return BERTH_OK;
}

static berth_status run(replay* r, llm_error* error) {
    berth_status status = BERTH_OK;
    bool has_ended = false;
    int stalls = 0;
    while (status == BERTH_OK && !has_ended && !is_stopped(r)) {
        status = turn(r, &stalls, &has_ended, error);
        tell_progress(r);
    }
    r->report->was_stopped = !has_ended;
    return status;
}

// ---- Before and after.

/// Makes an entry for each request, in the order in which they come.
static berth_status place_requests(replay* r, llm_error* error) {
    const llm_replay_rows rows = rows_of(r->options);
    llm_replay_arrival* arrivals = llm_alloc(rows.row_count, sizeof *arrivals);
    if (arrivals == NULL) return llm_fail_memory(error, "a replay's requests");
    llm_replay_rows_place(&rows, arrivals);
    for (size_t i = 0; i < rows.row_count; i++)
        r->entries[i] = (entry){.replay = r,
                                .row = arrivals[i].row,
                                .arrival_ns = goes_fast(r) ? 0 : 1 + arrivals[i].due_ns,
                                .queue_ms = -1.0,
                                .first_ms = -1.0,
                                .token_ms = -1.0};
    llm_free(arrivals);
    return BERTH_OK;
}

static berth_status make_tables(replay* r, llm_error* error) {
    const llm_replay_options* o = r->options;
    int64_t longest = 1;
    for (size_t i = 0; i < o->row_count; i++) {
        const int64_t tokens = llm_replay_prompt_tokens(&r->prompts, o->first_row + i);
        if (tokens > longest) longest = tokens;
    }
    r->entries = llm_alloc(o->row_count, sizeof *r->entries);
    r->entry_of_id = llm_alloc_zeroed(o->row_count + 1, sizeof *r->entry_of_id);
    r->prompt = llm_alloc((size_t)longest, sizeof *r->prompt);
    if (r->entries == NULL || r->entry_of_id == NULL || r->prompt == NULL)
        return llm_fail_memory(error, "a replay's requests");
    return place_requests(r, error);
}

static berth_status open_scheduler(replay* r, llm_error* error) {
    llm_scheduler_options options = r->options->scheduler;
    options.now = now;
    options.after_step = after_step;
    options.user = r;
    // a simulation has large contexts; as fast as possible few wait
    if (r->options->simulates || goes_fast(r)) options.max_queued_bytes = INT64_MAX;
    if (r->options->simulates || llm_replay_has_answers(r->options->trace))
        options.token_of = token_of;
    return llm_scheduler_create(r->model, &r->options->kv, &options, &r->scheduler, error);
}

/// Percentiles of one of the times of those requests that have it.
static llm_replay_times times_of(const replay* r, size_t offset, double* room) {
    size_t count = 0;
    for (size_t i = 0; i < r->options->row_count; i++) {
        double value;
        memcpy(&value, (const char*)&r->entries[i] + offset, sizeof value);
        if (value >= 0.0) room[count++] = value;
    }
    return llm_replay_times_of(room, count);
}

static berth_status collect_times(replay* r, llm_error* error) {
    double* room = llm_alloc(r->options->row_count, sizeof *room);
    if (room == NULL) return llm_fail_memory(error, "a replay's times");
    r->report->queue = times_of(r, offsetof(entry, queue_ms), room);
    r->report->first = times_of(r, offsetof(entry, first_ms), room);
    r->report->token = times_of(r, offsetof(entry, token_ms), room);
    llm_free(room);
    return BERTH_OK;
}

static void collect_steps(const replay* r) {
    berth_runtime* runtime = berth_context_runtime(r->model->context);
    const size_t count = berth_runtime_query_step_count(runtime);
    for (size_t i = 0; i < count; i++) {
        const char* name;
        berth_step_counters counters;
        if (berth_runtime_query_step(runtime, i, &name, &counters) != BERTH_OK) return;
        if (strcmp(name, "prefill") == 0) r->report->prefill = counters;
        if (strcmp(name, "decode") == 0) r->report->decode = counters;
    }
}

/// Fills in what is known when the last step has run; the scheduler ends after it.
static berth_status collect(replay* r, llm_error* error) {
    llm_replay_report* report = r->report;
    report->seconds = (double)(now(r) - 1) * 1e-9;
    report->real_seconds = (double)(llm_now_ns() - r->began_ns) * 1e-9;
    llm_scheduler_query_stats(r->scheduler, &report->scheduler);
    berth_kv_cache_layout(llm_scheduler_cache(r->scheduler), &report->layout);
    berth_kv_cache_query_stats(llm_scheduler_cache(r->scheduler), &report->kv);
    collect_steps(r);
    berth_status status = add_sample(r, error);
    if (status == BERTH_OK) status = query_memory(r, &report->memory, error);
    report->peak_bytes = report->memory.peak_mapped_bytes;
    return status;
}

berth_status llm_replay(const llm_model* model,
                        const llm_replay_options* options,
                        llm_replay_report* out_report,
                        llm_error* error) {
    *out_report =
        (llm_replay_report){.is_simulated = options->simulates, .requests = options->row_count};
    const llm_replay_rows rows = rows_of(options);
    berth_status status = llm_replay_rows_check(&rows, error);
    if (status != BERTH_OK) return status;
    replay r = {.options = options,
                .model = model,
                .prompts = {.trace = options->trace,
                            .vocab_tokens = model->params.vocab_tokens,
                            .divide = options->divide},
                .report = out_report,
                .began_ns = llm_now_ns()};
    r.progress_ns = r.began_ns;
    status = make_tables(&r, error);
    if (status == BERTH_OK) status = open_scheduler(&r, error);
    if (status == BERTH_OK) status = run(&r, error);
    if (status == BERTH_OK) status = collect(&r, error);
    // requests that are left end as cancelled
    llm_scheduler_destroy(r.scheduler);
    if (status == BERTH_OK) status = collect_times(&r, error);
    llm_free(r.prompt);
    llm_free(r.entry_of_id);
    llm_free(r.entries);
    return status;
}

static int by_value(const void* a, const void* b) {
    const double left = *(const double*)a;
    const double right = *(const double*)b;
    return (left > right) - (left < right);
}

llm_replay_times llm_replay_times_of(double* values, size_t count) {
    if (count == 0) return (llm_replay_times){0};
    qsort(values, count, sizeof *values, by_value);
    const size_t last = count - 1;
    // the nearest rank: the least value that so many per cent of all do not exceed
    return (llm_replay_times){.count = count,
                              .p50_ms = values[(count * 50 + 99) / 100 - 1],
                              .p90_ms = values[(count * 90 + 99) / 100 - 1],
                              .p99_ms = values[(count * 99 + 99) / 100 - 1],
                              .max_ms = values[last]};
}
