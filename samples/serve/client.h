// SPDX-License-Identifier: Apache-2.0
// A client of OpenAI-compatible servers: many requests at a time from one thread.
//
// Connections are kept and used again. Redirections are not followed and no proxy is used, so that
// a key goes nowhere else and times are the server's.
#ifndef BERTH_SAMPLES_SERVE_CLIENT_H
#define BERTH_SAMPLES_SERVE_CLIENT_H

#include "client_answer.h"

/// How a client reaches its server.
typedef struct client_options {
    const char* url;            ///< "http://HOST:PORT", a path or "/v1" behind it; borrowed
    const char* api_key;        ///< NULL: none; borrowed
    size_t most_running;        ///< requests at a time, from 1 to 65536
    int64_t connect_timeout_ms; ///< until a connection is there, at least 1
    int64_t timeout_ms;         ///< until a request has ended, at least 1
    size_t most_bytes;          ///< of an event, or of an answer that is not streamed
} client_options;

/// 64 requests at a time, 10 s to connect, 10 min for a request, 16 MiB.
client_options client_options_default(void);

// clang-format off
/// How requests end: X(ID, text, help).
#define CLIENT_END_MAP(X)                                                                          \
    X(ANSWERED,  "answered",      "the whole answer has come")                                     \
    X(REFUSED,   "refused",       "with an HTTP status that is no success")                        \
    X(FAILED,    "failed",        "an error within the answer, or an answer that is none")         \
    X(BROKEN,    "broken off",    "the connection ended before the answer")                        \
    X(UNREACHED, "not connected", "the server was not reached")                                    \
    X(TIMED_OUT, "timed out",     "the answer took too long")                                      \
    X(LEFT,      "left",          "by the client itself, as on_text() wanted")
// clang-format on

/// How a request ended.
typedef enum client_end {
#define CLIENT_END_ENUM(id, text, help) CLIENT_##id, ///< help
    CLIENT_END_MAP(CLIENT_END_ENUM)
#undef CLIENT_END_ENUM
        CLIENT_END_COUNT, ///< number of ends
} client_end;

/// The words for an end, such as "refused".
const char* client_end_text(client_end end);

/// What came of a request. Times are llm_now_ns()'s.
typedef struct client_result {
    client_end end;
    long http_status;   ///< 0: none came
    uint64_t sent_ns;   ///< the request was handed over
    uint64_t first_ns;  ///< the answer's first text came; 0: none did
    uint64_t last_ns;   ///< the last text came
    uint64_t end_ns;    ///< the request ended
    uint64_t pieces;    ///< events that brought text
    client_usage usage; ///< of an answer
    llm_str body;       ///< of what is no stream; borrowed until on_end() returns
    char text[640];     ///< why it is not answered, a sentence
} client_result;

/// A request.
typedef struct client_request {
    const char* path; ///< such as "/v1/completions"
    llm_str body;     ///< of a POST, copied; data NULL: a GET
    bool is_ask;      ///< the answer is one of client_answer.h, else any body
    /// Called with text as it comes; false: the client leaves. May be NULL.
    bool (*on_text)(void* user, llm_str text);
    /// Called once from client_turn(), unless the client ends before. It cannot call the client.
    void (*on_end)(void* user, const client_result* result);
    void* user;
} client_request;

/// A client.
typedef struct client client;

/// Makes a client; it connects to nothing yet.
/// Ownership: the caller gives it to client_destroy().
/// Errors:    BERTH_ERR_INVALID_ARGUMENT names the option; BERTH_ERR_OUT_OF_MEMORY. `*out_client`
///            is NULL then.
/// Threads:   one at a time, here and below; each may have clients of its own.
BERTH_NODISCARD berth_status client_create(const client_options* options,
                                           client** out_client,
                                           llm_error* error);

/// Ends a client. Requests that run are broken off, and their on_end() is not called.
void client_destroy(client* self);

/// Hands a request over. What goes wrong from here on is told to on_end().
/// Errors: BERTH_ERR_STATE if as many run as may; BERTH_ERR_OUT_OF_MEMORY. on_end() is not called
///         then.
BERTH_NODISCARD berth_status client_submit(client* self,
                                           const client_request* request,
                                           llm_error* error);

/// Sends and receives what can be, waits for at most `timeout_ms` if that is nothing, and tells
/// which requests ended.
/// Errors: BERTH_ERR_IO, BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status client_turn(client* self, int timeout_ms, llm_error* error);

/// Breaks all requests off that run; their on_end() is not called.
void client_leave(client* self);

/// Requests that run.
size_t client_running(const client* self);

/// Gets `path` and appends the body to `out_body`. Other requests go on meanwhile.
/// Errors: BERTH_ERR_IO unless the status is a success, and what the others report.
BERTH_NODISCARD berth_status client_get(client* self,
                                        const char* path,
                                        llm_bytes* out_body,
                                        llm_error* error);

#endif // BERTH_SAMPLES_SERVE_CLIENT_H
