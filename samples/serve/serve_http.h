// SPDX-License-Identifier: Apache-2.0
// The server's HTTP side: one thread that reads requests, and sends answers as clients take them.
//
//   SH1: a connection waits for at most one job, and a job whose connection ends is left.
//   SH2: what clients can make the server hold is bounded: connections, headers, bodies of each and
//        of all, requests that wait, answers that are not taken.
//   SH3: a connection that has not sent its request in time is closed.
#ifndef BERTH_SAMPLES_SERVE_SERVE_HTTP_H
#define BERTH_SAMPLES_SERVE_SERVE_HTTP_H

#include "serve_engine.h"
#include "serve_keys.h"

/// What is written to stderr of requests.
typedef enum serve_log {
    SERVE_LOG_OFF,
    SERVE_LOG_REQUESTS, ///< a line each: no content
    SERVE_LOG_PROMPTS,  ///< bodies of requests, too
} serve_log;

/// How to serve. All that is pointed at outlives the server.
typedef struct serve_http_options {
    const char* host; ///< an address or a name
    uint16_t port;    ///< 0: any that is free
    serve_engine* engine;
    api_reader reader;
    api_about about;
    const serve_keys* keys;
    serve_room* room;         ///< for requests and answers until they are taken; NULL: no bound
    size_t body_bytes;        ///< most of a request's body
    size_t bodies_bytes;      ///< most of all bodies that are being received
    unsigned header_bytes;    ///< most of a request's line and headers, about
    unsigned connections;     ///< most at a time
    unsigned idle_seconds;    ///< in which a client has to take something of an answer
    unsigned request_seconds; ///< in which a connection has to send its (next) request
    serve_log log;
} serve_http_options;

typedef struct serve_http serve_http;

/// Starts to listen, and to serve.
/// Ownership: the caller gives `*out_http` to serve_http_destroy(), before the engine.
/// Errors:    BERTH_ERR_IO says why there is no listening at the address; BERTH_ERR_OUT_OF_MEMORY.
///            Then it is NULL.
BERTH_NODISCARD berth_status serve_http_create(const serve_http_options* options,
                                               serve_http** out_http,
                                               llm_error* error);

/// The port at which it listens.
uint16_t serve_http_port(const serve_http* http);

/// Looks after connections: closes those whose time is over, and leaves the jobs of clients that
/// have gone. To be called a few times a second.
/// Threads: any one.
void serve_http_tick(serve_http* http);

/// Listens no more, and refuses new requests on open connections. To be called once.
void serve_http_drain(serve_http* http);

/// Requests that are being received or answered.
size_t serve_http_open_count(const serve_http* http);

/// Ends all connections. The engine has been destroyed or drained, so that nobody waits. NULL is
/// allowed.
void serve_http_destroy(serve_http* http);

#endif // BERTH_SAMPLES_SERVE_SERVE_HTTP_H
