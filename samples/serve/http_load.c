// SPDX-License-Identifier: Apache-2.0
// The loop of a load: requests that are due, turns of the client, and what is noted of each.
#include "http_load.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "llm_clock.h"

enum {
    LONGEST_WAIT_MS = 100, ///< so that a stop is seen
    PROGRESS_NS = 200000000,
};

struct load;

/// One request, as its callback knows it. Times in ms, -1: it did not come to that.
typedef struct entry {
    struct load* load;
    uint64_t due_ns; ///< on the client's clock
    int64_t asked_tokens;
    double queue_ms;
    double first_ms;
    double token_ms;
    double whole_ms;
} entry;

typedef struct load {
    const http_load_options* options;
    http_load_report* report;
    entry* entries; ///< [count]
    size_t next;    ///< that is made next
    uint64_t began_ns;
    uint64_t ended_ns; ///< when the last request ended
    uint64_t progress_ns;
    llm_bytes body;
} load;

// ---- What is noted.

static double ms_between(uint64_t from, uint64_t to) {
    return to > from ? (double)(to - from) * 1e-6 : 0.0;
}

static void count_status(http_load_report* report, long http_status) {
    if (http_status == 0) return;
    size_t i = 0;
    while (i < report->status_count && report->statuses[i].http_status != http_status)
        i++;
    if (i == HTTP_LOAD_MOST_STATUSES) return;
    if (i == report->status_count)
        report->statuses[report->status_count++].http_status = http_status;
    report->statuses[i].count++;
}

/// Counts an answer's tokens and returns those of the answer itself.
static uint64_t count_tokens(const entry* e, const client_result* result) {
    http_load_report* report = e->load->report;
    const client_usage* usage = &result->usage;
    const bool is_counted = usage->prompt_tokens >= 0 && usage->answer_tokens >= 0;
    const uint64_t answer = is_counted ? (uint64_t)usage->answer_tokens : result->pieces;
    report->answer_tokens += answer;
    report->uncounted += is_counted ? 0 : 1;
    report->unknown_cache += usage->cached_tokens < 0 ? 1 : 0;
    if (!is_counted) return answer;
    report->prompt_tokens += (uint64_t)usage->prompt_tokens;
    if (usage->cached_tokens > 0) report->cached_tokens += (uint64_t)usage->cached_tokens;
    report->other_lengths += usage->answer_tokens != e->asked_tokens ? 1 : 0;
    return answer;
}

static void on_end(void* user, const client_result* result) {
    entry* e = user;
    load* l = e->load;
    http_load_report* report = l->report;
    report->done++;
    report->ends[result->end]++;
    count_status(report, result->http_status);
    l->ended_ns = result->end_ns;
    if (result->end != CLIENT_ANSWERED) {
        if (report->first_error.text[0] == '\0')
            snprintf(report->first_error.text, sizeof report->first_error.text, "%s", result->text);
        return;
    }
    const uint64_t tokens = count_tokens(e, result);
    e->queue_ms = ms_between(e->due_ns, result->sent_ns);
    e->whole_ms = ms_between(e->due_ns, result->end_ns);
    if (result->first_ns == 0) return;
    e->first_ms = ms_between(e->due_ns, result->first_ns);
    if (tokens > 1)
        e->token_ms = ms_between(result->first_ns, result->last_ns) / (double)(tokens - 1);
}

static void tell_progress(load* l) {
    const http_load_options* o = l->options;
    const uint64_t now_ns = llm_now_ns();
    if (o->on_progress == NULL || now_ns - l->progress_ns < PROGRESS_NS) return;
    l->progress_ns = now_ns;
    l->report->seconds = (double)(now_ns - l->began_ns) * 1e-9;
    o->on_progress(o->user, l->report, client_running(o->client));
}

// ---- The loop.

static berth_status submit(load* l, entry* e, llm_error* error) {
    const http_load_options* o = l->options;
    client_ask ask = {0};
    berth_status status = o->ask(o->user, (size_t)(e - l->entries), &ask, error);
    l->body.size = 0;
    if (status == BERTH_OK) status = client_ask_write(&ask, &l->body, error);
    if (status != BERTH_OK) return status;
    e->asked_tokens = ask.max_tokens;
    if (o->due_ns == NULL) e->due_ns = llm_now_ns();
    const client_request request = {.path = client_ask_path(&ask),
                                    .body = {l->body.data, l->body.size},
                                    .is_ask = true,
                                    .on_end = on_end,
                                    .user = e};
    return client_submit(o->client, &request, error);
}

static bool has_room(const load* l) {
    return l->next < l->options->count &&
           client_running(l->options->client) < l->options->concurrency;
}

static berth_status submit_due(load* l, llm_error* error) {
    berth_status status = BERTH_OK;
    while (status == BERTH_OK && has_room(l)) {
        entry* e = &l->entries[l->next];
        if (e->due_ns > llm_now_ns()) break;
        l->next++;
        status = submit(l, e, error);
    }
    return status;
}

/// How long nothing is due.
static int wait_ms(const load* l) {
    if (!has_room(l)) return LONGEST_WAIT_MS;
    const uint64_t now_ns = llm_now_ns(), due_ns = l->entries[l->next].due_ns;
    if (due_ns <= now_ns) return 0;
    const uint64_t ms = (due_ns - now_ns) / 1000000 + 1; // not before it is due
    return ms < LONGEST_WAIT_MS ? (int)ms : LONGEST_WAIT_MS;
}

static berth_status run(load* l, llm_error* error) {
    const http_load_options* o = l->options;
    berth_status status = BERTH_OK;
    while (status == BERTH_OK && l->report->done < o->count) {
        if (o->stop != NULL && *o->stop != 0) break;
        status = submit_due(l, error);
        if (status == BERTH_OK) status = client_turn(o->client, wait_ms(l), error);
        tell_progress(l);
    }
    l->report->was_stopped = l->report->done < o->count;
    return status;
}

// ---- Before and after.

static berth_status check_options(const http_load_options* o, llm_error* error) {
    if (o->count == 0 || o->concurrency == 0)
        return llm_fail(error,
                        BERTH_ERR_INVALID_ARGUMENT,
                        "%zu requests, %zu at a time, are asked for; there must be 1 at least",
                        o->count,
                        o->concurrency);
    for (size_t i = 1; o->due_ns != NULL && i < o->count; i++)
        if (o->due_ns[i] < o->due_ns[i - 1])
            return llm_fail(error,
                            BERTH_ERR_INVALID_ARGUMENT,
                            "request %zu is due before the one before it",
                            i);
    return BERTH_OK;
}

static void make_entries(load* l) {
    const uint64_t* due_ns = l->options->due_ns;
    for (size_t i = 0; i < l->options->count; i++)
        l->entries[i] = (entry){.load = l,
                                .due_ns = due_ns == NULL ? 0 : l->began_ns + due_ns[i],
                                .queue_ms = -1.0,
                                .first_ms = -1.0,
                                .token_ms = -1.0,
                                .whole_ms = -1.0};
}

/// Percentiles of one of the times of those requests that have it.
static llm_replay_times times_of(const load* l, size_t offset, double* room) {
    size_t count = 0;
    for (size_t i = 0; i < l->options->count; i++) {
        double value;
        memcpy(&value, (const char*)&l->entries[i] + offset, sizeof value);
        if (value >= 0.0) room[count++] = value;
    }
    return llm_replay_times_of(room, count);
}

static berth_status collect(const load* l, llm_error* error) {
    http_load_report* report = l->report;
    double* room = llm_alloc(l->options->count, sizeof *room);
    if (room == NULL) return llm_fail_memory(error, "the times of a load");
    report->queue = times_of(l, offsetof(entry, queue_ms), room);
    report->first = times_of(l, offsetof(entry, first_ms), room);
    report->token = times_of(l, offsetof(entry, token_ms), room);
    report->whole = times_of(l, offsetof(entry, whole_ms), room);
    report->seconds = l->ended_ns == 0 ? 0.0 : (double)(l->ended_ns - l->began_ns) * 1e-9;
    llm_free(room);
    return BERTH_OK;
}

berth_status http_load(const http_load_options* options,
                       http_load_report* out_report,
                       llm_error* error) {
    *out_report = (http_load_report){.requests = options->count};
    berth_status status = check_options(options, error);
    if (status != BERTH_OK) return status;
    load l = {.options = options, .report = out_report};
    l.entries = llm_alloc(options->count, sizeof *l.entries);
    if (l.entries == NULL) return llm_fail_memory(error, "the requests of a load");
    l.began_ns = llm_now_ns();
    l.progress_ns = l.began_ns;
    make_entries(&l);
    status = run(&l, error);
    if (status == BERTH_OK) status = collect(&l, error);
    client_leave(options->client); // what still runs has no entry any more
    llm_bytes_fini(&l.body);
    llm_free(l.entries);
    return status;
}
