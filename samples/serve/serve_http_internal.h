// SPDX-License-Identifier: Apache-2.0
// What the files of the HTTP side share: connections and listening (serve_http.c), one request at
// its endpoint (serve_routes.c), and answers as they are made (serve_answer.c).
#ifndef BERTH_SAMPLES_SERVE_SERVE_HTTP_INTERNAL_H
#define BERTH_SAMPLES_SERVE_SERVE_HTTP_INTERNAL_H

#include "serve_http.h"

#include <microhttpd.h>

/// An open connection.
typedef struct serve_connection {
    struct serve_connection* next;
    struct serve_connection* before;
    int fd;
    // Under the lock of the server:
    uint64_t deadline_ns;           ///< by which its request has to be there; 0: it is
    bool is_cut;                    ///< it sends no more, although its request is not there
    struct serve_exchange* waiting; ///< a request with a job that has not ended; or NULL
} serve_connection;

struct serve_http {
    serve_http_options options;
    struct MHD_Daemon* daemon;
    int drained_fd; ///< the socket that was listened to, when that has ended; else -1
    uint16_t port;
    atomic_bool is_draining;
    atomic_size_t open_count;   ///< requests
    atomic_size_t bodies_bytes; ///< of all that are being received
    serve_counters counters;
    pthread_mutex_t lock;
    serve_connection* connections;
};

/// What has been sent of one answer of a stream.
typedef struct serve_cursor {
    size_t text_bytes;
    size_t tokens;
    bool has_begun;
    bool has_ended;
} serve_cursor;

/// A request and its answer. Of the HTTP thread, but for what is marked.
typedef struct serve_exchange {
    serve_http* http;
    struct MHD_Connection* connection;
    serve_connection* peer;
    const struct serve_route* route;
    const char* method; ///< for the log: the library's, until the request ends
    char path[256];     ///< cut
    uint64_t begin_ns;
    unsigned status; ///< of the answer; 0: none yet
    uint32_t key;    ///< number of the API key
    llm_bytes body;
    size_t counted_bytes; ///< of the body in bodies_bytes
    size_t held_bytes;    ///< of the room, by its answer
    size_t skipped_bytes; ///< of a body that is too large
    api_error error;      ///< found before the body was read
    serve_job* job;
    serve_cursor* cursors; ///< [job->choice_count] of a stream
    llm_bytes out;         ///< of a stream, rendered
    size_t out_at;         ///< of it, that is sent
    bool closes;           ///< nothing more is read from its connection
    bool is_streaming;
    bool has_finished;      ///< all of a stream is rendered
    atomic_bool wants_ping; ///< any thread: something is to be sent to see whether it is taken
    _Atomic uint64_t last_write_ns; ///< any thread reads it
} serve_exchange;

/// What an endpoint does with a request whose body is there. It queues a response, or suspends the
/// connection and is called again.
typedef enum MHD_Result (*serve_handler)(serve_exchange* exchange);

/// An endpoint.
typedef struct serve_route {
    const char* path;
    const char* method; ///< "GET" (and HEAD) or "POST"
    bool is_open;       ///< needs no key
    bool is_prefix;     ///< whatever follows the path
    serve_endpoint endpoint;
    serve_handler handle;
} serve_route;

/// The endpoint at a path; NULL for none. `*out_other_method` says that there is one for another
/// method.
const serve_route* serve_route_find(const char* path, const char* method, bool* out_other_method);

/// The methods of the endpoint at a path, for the header Allow.
const char* serve_route_methods(const char* path);

/// Queues a response, which it takes over; NULL ends the connection.
enum MHD_Result serve_queue(serve_exchange* exchange,
                            unsigned status,
                            const char* media_type,
                            struct MHD_Response* response);

/// Counts an answer's memory, `bytes` of it in all so far, in the server's room for what it holds.
/// False if there is none left.
bool serve_hold(serve_exchange* exchange, size_t bytes);

/// Answers with `body` (taken over, and empty afterwards) of a media type.
enum MHD_Result serve_reply(serve_exchange* exchange,
                            unsigned status,
                            const char* media_type,
                            llm_bytes* body);

/// Answers with an error as JSON.
enum MHD_Result serve_reply_error(serve_exchange* exchange, const api_error* error);

/// Answers with JSON that was rendered, or that there was no memory to.
enum MHD_Result serve_reply_json(serve_exchange* exchange, bool is_rendered, llm_bytes* json);

/// Handles a request for answers.
enum MHD_Result serve_answer_handle(serve_exchange* exchange);

/// Ends what an exchange has to do with its job: nobody is woken any more, and a job that has not
/// ended is left.
void serve_answer_leave(serve_exchange* exchange);

/// Gives back what a body takes.
void serve_body_fini(serve_exchange* exchange);

#endif // BERTH_SAMPLES_SERVE_SERVE_HTTP_INTERNAL_H
