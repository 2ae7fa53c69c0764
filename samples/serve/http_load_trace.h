// SPDX-License-Identifier: Apache-2.0
// A request trace as a load: prompts of words, as long as the trace says and alike where it says
// so.
#ifndef BERTH_SAMPLES_SERVE_HTTP_LOAD_TRACE_H
#define BERTH_SAMPLES_SERVE_HTTP_LOAD_TRACE_H

#include "http_load.h"
#include "replay_prompts.h"

/// What to replay, and against what.
typedef struct http_trace_options {
    client* client;                 ///< borrowed; nothing else runs in it
    const char* model;              ///< as the server names it; borrowed
    size_t concurrency;             ///< most requests at a time
    const llm_request_trace* trace; ///< borrowed
    size_t first_row;               ///< of the trace that is replayed
    size_t row_count;               ///< rows from there; at least 1, within the trace
    int64_t divide;                 ///< by which lengths are divided, at least 1
    uint32_t
        tenants;  ///< requests, or sessions, are said to be of so many users in turn; 1: of none
    double speed; ///< 1: the trace's; 0: as fast as `concurrency` allows
    const volatile sig_atomic_t* stop; ///< as in http_load_options
    void (*on_progress)(void* user, const http_load_report* report, size_t running); ///< as there
    void* user;
} http_trace_options;

/// Replays. Answers have exactly the trace's length if the server knows "ignore_eos", and are those
/// at temperature 0.
/// Errors: BERTH_ERR_INVALID_ARGUMENT names the option, and what http_load() reports.
BERTH_NODISCARD berth_status http_load_trace(const http_trace_options* options,
                                             http_load_report* out_report,
                                             llm_error* error);

/// Prints a report.
void http_load_report_print(FILE* out, const http_load_report* report);

/// Writes a report as one JSON object, {"modes": [...]}, as llm_replay_report_write_json() does,
/// with the mode "url".
void http_load_report_write_json(FILE* out, const http_load_report* report);

/// Answer tokens a second.
double http_load_speed(const http_load_report* report);

#endif // BERTH_SAMPLES_SERVE_HTTP_LOAD_TRACE_H
