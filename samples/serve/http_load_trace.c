// SPDX-License-Identifier: Apache-2.0
// Rows of a trace in the order of their coming, and what they ask.
#include "http_load_trace.h"

#include <stdio.h>

#include "http_load_words.h"
#include "replay_rows.h"

typedef struct replay {
    const http_trace_options* options;
    llm_replay_rows rows;
    llm_replay_prompts prompts;
    llm_replay_arrival* arrivals; ///< [row_count], in the order of their coming
    uint64_t* due_ns;             ///< [row_count], of those
    int32_t* ids;                 ///< room for the longest prompt
    llm_bytes text;
    char tenant[32]; ///< name of the one whose request is made
} replay;

static const char* name_tenant(replay* r, size_t row) {
    if (r->rows.tenants == 1) return NULL;
    const unsigned number = llm_replay_rows_tenant(&r->rows, row);
    snprintf(r->tenant, sizeof r->tenant, "tenant-%u", number);
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
    llm_replay_rows_place(&r->rows, r->arrivals);
    for (size_t i = 0; i < o->row_count; i++)
        r->due_ns[i] = r->arrivals[i].due_ns;
    return BERTH_OK;
}

berth_status http_load_trace(const http_trace_options* options,
                             http_load_report* out_report,
                             llm_error* error) {
    *out_report = (http_load_report){.requests = options->row_count};
    replay r = {.options = options,
                .rows = {.trace = options->trace,
                         .first_row = options->first_row,
                         .row_count = options->row_count,
                         .divide = options->divide,
                         .speed = options->speed,
                         .tenants = options->tenants},
                .prompts = {.trace = options->trace,
                            .vocab_tokens = HTTP_LOAD_WORDS,
                            .divide = options->divide}};
    berth_status status = llm_replay_rows_check(&r.rows, error);
    if (status == BERTH_OK) status = make_tables(&r, error);
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
