// SPDX-License-Identifier: Apache-2.0
// Rows of a trace in the order of their coming, and what they ask.
#include "http_load_trace.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "http_load_words.h"

/// What comes later than this comes then: 285 years.
#define MOST_NS 9e18

typedef struct arrival {
    uint64_t due_ns;
    size_t row;
} arrival;

typedef struct replay {
    const http_trace_options* options;
    llm_replay_prompts prompts;
    arrival* arrivals; ///< [row_count], in the order of their coming
    uint64_t* due_ns;  ///< [row_count], of those
    int32_t* ids;      ///< room for the longest prompt
    llm_bytes text;
    char tenant[32]; ///< name of the one whose request is made
} replay;

static const char* name_tenant(replay* r, size_t row) {
    const uint32_t tenants = r->options->tenants;
    const int64_t session = r->options->trace->rows[row].session;
    if (tenants == 1) return NULL;
    const uint64_t number = session >= 0 ? (uint64_t)session : (uint64_t)row;
    snprintf(r->tenant, sizeof r->tenant, "tenant-%" PRIu64, number % tenants);
    return r->tenant;
}

static berth_status ask(void* user, size_t index, client_ask* out_ask, llm_error* error) {
    replay* r = user;
    const size_t row = r->arrivals[index].row;
    llm_replay_write_prompt(&r->prompts, row, r->ids);
    r->text.size = 0;
    const size_t count = (size_t)llm_replay_prompt_tokens(&r->prompts, row);
    berth_status status = http_load_write_words(r->ids, count, &r->text, error);
    *out_ask = (client_ask){.model = r->options->model,
                            .user = name_tenant(r, row),
                            .prompt = {r->text.data, r->text.size},
                            .max_tokens = llm_replay_answer_tokens(&r->prompts, row),
                            .ignores_eos = true,
                            .streams = true};
    return status;
}

static void on_progress(void* user, const http_load_report* report, size_t running) {
    const http_trace_options* o = ((const replay*)user)->options;
    o->on_progress(o->user, report, running);
}

static int by_due(const void* a, const void* b) {
    const arrival* left = a;
    const arrival* right = b;
    if (left->due_ns != right->due_ns) return left->due_ns < right->due_ns ? -1 : 1;
    return (left->row > right->row) - (left->row < right->row);
}

/// Says when each request comes, and puts them in that order.
static void place_requests(replay* r) {
    const http_trace_options* o = r->options;
    const llm_trace_row* rows = o->trace->rows + o->first_row;
    double first_ms = rows[0].arrival_ms;
    for (size_t i = 0; i < o->row_count; i++)
        first_ms = fmin(first_ms, rows[i].arrival_ms);
    for (size_t i = 0; i < o->row_count; i++) {
        r->arrivals[i] = (arrival){.row = o->first_row + i};
        if (o->speed > 0.0)
            r->arrivals[i].due_ns =
                (uint64_t)fmin((rows[i].arrival_ms - first_ms) * 1e6 / o->speed, MOST_NS);
    }
    qsort(r->arrivals, o->row_count, sizeof *r->arrivals, by_due);
    for (size_t i = 0; i < o->row_count; i++)
        r->due_ns[i] = r->arrivals[i].due_ns;
}

static berth_status check_options(const http_trace_options* o, llm_error* error) {
    if (o->row_count == 0 || o->first_row >= o->trace->row_count ||
        o->row_count > o->trace->row_count - o->first_row)
        return llm_fail(error,
                        BERTH_ERR_INVALID_ARGUMENT,
                        "%zu requests from number %zu on are asked for; the trace has %zu",
                        o->row_count,
                        o->first_row,
                        o->trace->row_count);
    if (o->divide < 1 || o->tenants < 1 || !(o->speed >= 0.0))
        return llm_fail(error,
                        BERTH_ERR_INVALID_ARGUMENT,
                        "a divisor of %" PRId64 ", %u tenants and speed %g are asked for; there "
                        "must be a divisor and a tenant at least",
                        o->divide,
                        (unsigned)o->tenants,
                        o->speed);
    if (o->speed > 0.0 && o->trace->rows[o->first_row].arrival_ms < 0.0)
        return llm_fail(error,
                        BERTH_ERR_INVALID_ARGUMENT,
                        "the trace does not say when its requests came, so that they have no "
                        "speed: only as fast as possible");
    return BERTH_OK;
}

static berth_status make_tables(replay* r, llm_error* error) {
    const http_trace_options* o = r->options;
    int64_t longest = 1;
    for (size_t i = 0; i < o->row_count; i++) {
        const int64_t tokens = llm_replay_prompt_tokens(&r->prompts, o->first_row + i);
        if (tokens > longest) longest = tokens;
    }
    r->arrivals = llm_alloc(o->row_count, sizeof *r->arrivals);
    r->due_ns = llm_alloc(o->row_count, sizeof *r->due_ns);
    r->ids = llm_alloc((size_t)longest, sizeof *r->ids);
    if (r->arrivals == NULL || r->due_ns == NULL || r->ids == NULL)
        return llm_fail_memory(error, "a replay's requests");
    place_requests(r);
    return BERTH_OK;
}

berth_status http_load_trace(const http_trace_options* options,
                             http_load_report* out_report,
                             llm_error* error) {
    *out_report = (http_load_report){.requests = options->row_count};
    berth_status status = check_options(options, error);
    if (status != BERTH_OK) return status;
    replay r = {.options = options,
                .prompts = {.trace = options->trace,
                            .vocab_tokens = HTTP_LOAD_WORDS,
                            .divide = options->divide}};
    status = make_tables(&r, error);
    const http_load_options load = {.client = options->client,
                                    .concurrency = options->concurrency,
                                    .count = options->row_count,
                                    .due_ns = options->speed > 0.0 ? r.due_ns : NULL,
                                    .ask = ask,
                                    .stop = options->stop,
                                    .on_progress =
                                        options->on_progress == NULL ? NULL : on_progress,
                                    .user = &r};
    if (status == BERTH_OK) status = http_load(&load, out_report, error);
    llm_bytes_fini(&r.text);
    llm_free(r.ids);
    llm_free(r.due_ns);
    llm_free(r.arrivals);
    return status;
}
