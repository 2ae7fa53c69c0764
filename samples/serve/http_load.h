// SPDX-License-Identifier: Apache-2.0
// Many requests to a server, when they are due or as fast as it answers, and what came of them.
#ifndef BERTH_SAMPLES_SERVE_HTTP_LOAD_H
#define BERTH_SAMPLES_SERVE_HTTP_LOAD_H

#include <signal.h>

#include "client.h"
#include "replay.h"

enum { HTTP_LOAD_MOST_STATUSES = 16 }; ///< that are told apart

/// Requests that ended with one HTTP status.
typedef struct http_load_status {
    long http_status;
    uint64_t count;
} http_load_status;

/// What came of a load.
typedef struct http_load_report {
    bool was_stopped;
    uint64_t requests; ///< that were to be made
    uint64_t done;     ///< that ended
    uint64_t ends[CLIENT_END_COUNT];
    http_load_status statuses[HTTP_LOAD_MOST_STATUSES]; ///< in the order in which they came
    size_t status_count;
    llm_error first_error; ///< what was said of the first request that was not answered, or ""
    double seconds;        ///< from the first request to the last end

    // of requests that were answered
    uint64_t prompt_tokens; ///< as the server counts them, which it may not do
    uint64_t cached_tokens; ///< of them
    uint64_t answer_tokens; ///< as the server counts them, else events with text
    uint64_t uncounted;     ///< requests whose tokens the server did not count
    uint64_t unknown_cache; ///< requests of which it did not say what it had cached
    uint64_t other_lengths; ///< answers of another length than was asked for, among those counted

    llm_replay_times queue; ///< from when a request was due to its being sent
    llm_replay_times first; ///< from when it was due to its first text
    llm_replay_times token; ///< for each further token
    llm_replay_times whole; ///< from when it was due to its end
} http_load_report;

/// What to load a server with.
typedef struct http_load_options {
    client* client;         ///< borrowed; nothing else runs in it
    size_t concurrency;     ///< most requests at a time, from 1 to the client's
    size_t count;           ///< requests, at least 1
    const uint64_t* due_ns; ///< [count] ascending, from the beginning on; NULL: when there is room
    /// Says what request number `index` asks; what it points to is needed until the next call.
    berth_status (*ask)(void* user, size_t index, client_ask* out_ask, llm_error* error);
    const volatile sig_atomic_t* stop; ///< not 0: end now with what there is; may be NULL
    /// Called a few times a second with what there is so far, times not among it. May be NULL.
    void (*on_progress)(void* user, const http_load_report* report, size_t running);
    void* user;
} http_load_options;

/// Makes all requests and waits for their ends.
/// Errors: BERTH_ERR_INVALID_ARGUMENT names the option; BERTH_ERR_OUT_OF_MEMORY; what ask() and the
///         client report: the client can only be destroyed then. What fails for one request is in
///         the report.
BERTH_NODISCARD berth_status http_load(const http_load_options* options,
                                       http_load_report* out_report,
                                       llm_error* error);

#endif // BERTH_SAMPLES_SERVE_HTTP_LOAD_H
