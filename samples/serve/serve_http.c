// SPDX-License-Identifier: Apache-2.0
// Listening, connections, and requests until their body is there.
#include "llm_clock.h"
#include "page.h"
#include "serve_http_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    BACKLOG = 1024,
    PING_SECONDS = 15, ///< without anything sent on a stream: something that means nothing is
    SKIP_FACTOR = 8,   ///< bodies that are too large are read so far, so that the answer is seen
    FEW_BYTES = 4096,  ///< of an answer that any connection may have
    ROOM_STEP = 4096,  ///< by which a connection's memory grows
};

static uint64_t seconds_ns(unsigned seconds) { return (uint64_t)seconds * 1000000000u; }

// ---- Connections.

static void link_connection(serve_http* http, serve_connection* c) {
    pthread_mutex_lock(&http->lock);
    c->deadline_ns = llm_now_ns() + seconds_ns(http->options.request_seconds);
    c->next = http->connections;
    if (c->next != NULL) c->next->before = c;
    http->connections = c;
    pthread_mutex_unlock(&http->lock);
}

static void unlink_connection(serve_http* http, serve_connection* c) {
    pthread_mutex_lock(&http->lock);
    if (c->before != NULL)
        c->before->next = c->next;
    else
        http->connections = c->next;
    if (c->next != NULL) c->next->before = c->before;
    pthread_mutex_unlock(&http->lock);
}

/// Hears of connections that begin and end, before the socket is closed.
static void on_connection(void* self,
                          struct MHD_Connection* connection,
                          void** context,
                          enum MHD_ConnectionNotificationCode what) {
    serve_http* http = self;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (*context == NULL) return;
        unlink_connection(http, *context);
        llm_free(*context);
        *context = NULL;
        serve_counters_close(&http->counters);
        return;
    }
    const union MHD_ConnectionInfo* info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    serve_connection* c = info == NULL ? NULL : llm_alloc_zeroed(1, sizeof *c);
    if (c == NULL) return; // its first request is refused
    c->fd = info->connect_fd;
    *context = c;
    link_connection(http, c);
    serve_counters_open(&http->counters);
}

/// Whether a client has gone, or sends no more, which counts as that: the library ends such
/// connections, too, when it comes to read from them.
static bool has_gone(int fd) {
    struct pollfd looked = {.fd = fd, .events = POLLRDHUP};
    return poll(&looked, 1, 0) == 1 && looked.revents != 0;
}

/// Looks after a connection that has not sent its request: its time may be over, or it sends no
/// more, which the library does not notice where that came with the last of the data. It gets one
/// more look, as the request may be whole. The library closes it when it finds it shut down.
static void tend_receiving(serve_connection* c, uint64_t now) {
    if (now > c->deadline_ns || c->is_cut) shutdown(c->fd, SHUT_RDWR);
    c->is_cut = has_gone(c->fd);
}

/// Looks after the client of a job, and has a stream that is quiet for long say that it lives.
static void tend_waiting(serve_exchange* x, int fd, uint64_t now) {
    if (has_gone(fd)) {
        serve_engine_leave(x->http->options.engine, x->job);
    } else if (now - atomic_load(&x->last_write_ns) >= seconds_ns(PING_SECONDS)) {
        atomic_store(&x->last_write_ns, now);
        atomic_store(&x->wants_ping, true);
        pthread_mutex_lock(&x->job->lock);
        serve_job_wake(x->job);
        pthread_mutex_unlock(&x->job->lock);
    }
}

void serve_http_tick(serve_http* http) {
    uint64_t now = llm_now_ns();
    pthread_mutex_lock(&http->lock);
    for (serve_connection* c = http->connections; c != NULL; c = c->next) {
        if (c->deadline_ns != 0) tend_receiving(c, now);
        if (c->waiting != NULL) tend_waiting(c->waiting, c->fd, now);
    }
    pthread_mutex_unlock(&http->lock);
}

static void set_deadline(serve_exchange* x, uint64_t deadline_ns) {
    if (x->peer == NULL) return;
    pthread_mutex_lock(&x->http->lock);
    x->peer->deadline_ns = deadline_ns;
    x->peer->is_cut = false;
    pthread_mutex_unlock(&x->http->lock);
}

// ---- Requests.

static void print_line(const serve_exchange* x) {
    const serve_log level = x->http->options.log;
    if (level == SERVE_LOG_OFF) return;
    int64_t prompt = 0;
    int64_t answer = 0;
    if (x->job != NULL) {
        pthread_mutex_lock(&x->job->lock);
        prompt = x->job->usage.prompt_tokens;
        answer = x->job->usage.answer_tokens;
        pthread_mutex_unlock(&x->job->lock);
    }
    fprintf(stderr,
            "%s %s %u, %.1f ms, %" PRId64 " + %" PRId64 " tokens\n",
            x->method,
            llm_quote(llm_str_of(x->path)).text,
            x->status,
            (double)(llm_now_ns() - x->begin_ns) * 1e-6,
            prompt,
            answer);
}

void serve_body_fini(serve_exchange* x) {
    atomic_fetch_sub(&x->http->bodies_bytes, x->counted_bytes);
    x->counted_bytes = 0;
    llm_bytes_fini(&x->body);
}

/// Ends a request, whatever became of its answer.
static void on_completed(void* self,
                         struct MHD_Connection* connection,
                         void** context,
                         enum MHD_RequestTerminationCode how) {
    (void)connection;
    serve_http* http = self;
    serve_exchange* x = *context;
    if (x == NULL) return;
    *context = NULL;
    print_line(x);
    if (how != MHD_REQUEST_TERMINATED_COMPLETED_OK) serve_counters_leave(&http->counters);
    serve_counters_request(
        &http->counters, x->route == NULL ? SERVE_ENDPOINT_OTHER : x->route->endpoint, x->status);
    if (x->is_streaming) serve_counters_stream_end(&http->counters);
    serve_answer_leave(x);
    serve_body_fini(x);
    llm_bytes_fini(&x->out);
    llm_free(x->cursors);
    serve_room_give(http->options.room, x->held_bytes);
    set_deadline(x, llm_now_ns() + seconds_ns(http->options.request_seconds));
    atomic_fetch_sub(&http->open_count, 1);
    llm_free(x);
}

static bool has_json_body(struct MHD_Connection* connection) {
    static const char json[] = "application/json";
    const char* type =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_TYPE);
    if (type == NULL || strncasecmp(type, json, sizeof json - 1) != 0) return false;
    char next = type[sizeof json - 1];
    return next == '\0' || next == ';' || next == ' ';
}

/// The length that a request announces; 0 for none.
static uint64_t announced_bytes(struct MHD_Connection* connection) {
    const char* text =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return text == NULL ? 0 : strtoull(text, NULL, 10);
}

/// What says how long a body is.
typedef struct framing {
    unsigned lengths;
    unsigned codings;
    bool is_strange; ///< a coding that is not known
} framing;

static enum MHD_Result note_framing(void* self,
                                    enum MHD_ValueKind kind,
                                    const char* name,
                                    const char* value) {
    (void)kind;
    framing* f = self;
    if (strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0) f->lengths++;
    if (strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0) {
        f->codings++;
        f->is_strange |= value == NULL || strcasecmp(value, "chunked") != 0;
    }
    return MHD_YES;
}

/// Refuses a body whose end could be looked for in two ways: a proxy in between might choose the
/// other one, and take for a part of the body what this server would take for the next request.
static bool check_framing(serve_exchange* x) {
    framing f = {0};
    (void)MHD_get_connection_values(x->connection, MHD_HEADER_KIND, note_framing, &f);
    if (f.lengths + f.codings <= 1 && !f.is_strange) return true;
    x->closes = true;
    return api_fail(&x->error,
                    API_ERROR_INVALID,
                    NULL,
                    "a body needs one Content-Length, or else the Transfer-Encoding chunked; there "
                    "are %u and %u%s",
                    f.lengths,
                    f.codings,
                    f.is_strange ? ", of another kind" : "");
}

static bool check_body(serve_exchange* x) {
    const serve_http_options* o = &x->http->options;
    uint64_t bytes = announced_bytes(x->connection);
    if (bytes > o->body_bytes)
        return api_fail(&x->error,
                        API_ERROR_TOO_LARGE,
                        NULL,
                        "the body is %" PRIu64 " bytes long; it may have %zu",
                        bytes,
                        o->body_bytes);
    // what a page of another origin can send without being asked for is no JSON
    if (strcmp(x->route->method, "POST") == 0 && !has_json_body(x->connection))
        return api_fail(&x->error,
                        API_ERROR_MEDIA_TYPE,
                        NULL,
                        "the header Content-Type has to be application/json");
    return true;
}

/// Finds the endpoint, and whether the request may be read at all.
static bool check_head(serve_exchange* x, const char* path, const char* method) {
    bool has_other = false;
    if (!check_framing(x)) return false;
    const char* header =
        MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    x->route = serve_route_find(path, method, &has_other);
    bool is_open = x->route != NULL && x->route->is_open;
    if (!serve_keys_find(x->http->options.keys, header, &x->key) && !is_open)
        return api_fail(&x->error,
                        API_ERROR_UNAUTHORIZED,
                        NULL,
                        "an API key is needed, in the header Authorization: Bearer KEY");
    if (x->route == NULL)
        return api_fail(&x->error,
                        has_other ? API_ERROR_METHOD : API_ERROR_NOT_FOUND,
                        NULL,
                        has_other ? "%s does not take the method %s"
                                  : "there is no endpoint %s for the method %s",
                        llm_quote(llm_str_of(path)).text,
                        llm_quote(llm_str_of(method)).text);
    if (x->peer == NULL)
        return api_fail(&x->error, API_ERROR_OUT_OF_MEMORY, NULL, "no memory for a connection");
    return check_body(x);
}

/// The path of a target that names the server as well, as proxies are sent it.
static const char* path_of(const char* target) {
    static const char scheme[] = "http://";
    if (strncasecmp(target, scheme, sizeof scheme - 1) != 0) return target;
    const char* slash = strchr(target + sizeof scheme - 1, '/');
    return slash == NULL ? "/" : slash;
}

/// Begins a request whose headers are there. One that is refused for them is answered at once, and
/// its connection closed, unless its body is short enough to be read.
static enum MHD_Result begin(serve_http* http,
                             struct MHD_Connection* connection,
                             const char* target,
                             const char* method,
                             void** context) {
    const char* path = path_of(target);
    serve_exchange* x = llm_alloc_zeroed(1, sizeof *x);
    if (x == NULL) return MHD_NO;
    const union MHD_ConnectionInfo* info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    *x = (serve_exchange){.http = http,
                          .connection = connection,
                          .peer = info == NULL ? NULL : info->socket_context,
                          .method = method,
                          .begin_ns = llm_now_ns()};
    snprintf(x->path, sizeof x->path, "%s", path);
    *context = x;
    atomic_fetch_add(&http->open_count, 1);
    if (check_head(x, path, method)) return MHD_YES;
    uint64_t bytes = announced_bytes(connection);
    if (!x->closes && bytes <= SKIP_FACTOR * (uint64_t)http->options.body_bytes) return MHD_YES;
    return serve_reply_error(x, &x->error);
}

static bool take_piece(serve_exchange* x, const char* data, size_t size) {
    const serve_http_options* o = &x->http->options;
    if (size > o->body_bytes - x->body.size)
        return api_fail(&x->error,
                        API_ERROR_TOO_LARGE,
                        NULL,
                        "the body is longer than %zu bytes",
                        o->body_bytes);
    size_t all = atomic_fetch_add(&x->http->bodies_bytes, size) + size;
    x->counted_bytes += size;
    serve_counters_receive(&x->http->counters, size);
    if (all > o->bodies_bytes)
        return api_fail(&x->error,
                        API_ERROR_OVERLOADED,
                        NULL,
                        "the server is receiving %zu bytes of requests, as many as it may",
                        o->bodies_bytes);
    if (llm_bytes_append(&x->body, data, size, NULL) != BERTH_OK)
        return api_fail(&x->error, API_ERROR_OUT_OF_MEMORY, NULL, "no memory for the request");
    return true;
}

/// Takes what has come of a body, or lets it go by where the request is refused anyway. False ends
/// the connection.
static bool receive(serve_exchange* x, const char* data, size_t size) {
    if (x->error.kind == API_ERROR_NONE && take_piece(x, data, size)) return true;
    serve_body_fini(x);
    x->skipped_bytes += size;
    return x->skipped_bytes <= SKIP_FACTOR * x->http->options.body_bytes;
}

/// Answers a request that is there.
static enum MHD_Result answer(serve_exchange* x) {
    set_deadline(x, 0);
    if (x->http->options.log == SERVE_LOG_PROMPTS && x->job == NULL && x->body.size > 0)
        fprintf(stderr, "%.*s\n", (int)x->body.size, x->body.data);
    if (x->error.kind != API_ERROR_NONE) return serve_reply_error(x, &x->error);
    return x->route->handle(x);
}

/// Is called for each request when its headers are there, for each piece of its body, when that is
/// whole, and after each time that its connection waited.
static enum MHD_Result on_request(void* self,
                                  struct MHD_Connection* connection,
                                  const char* path,
                                  const char* method,
                                  const char* version,
                                  const char* data,
                                  size_t* size,
                                  void** context) {
    (void)version;
    serve_exchange* x = *context;
    if (x == NULL) return begin(self, connection, path, method, context);
    if (*size == 0) return answer(x);
    bool goes_on = receive(x, data, *size);
    *size = 0;
    return goes_on ? MHD_YES : MHD_NO;
}

// ---- Replies.

static void free_body(void* data) { llm_free(data); }

static void add_headers(const serve_exchange* x,
                        struct MHD_Response* response,
                        const char* media_type) {
    // a response without one of these is still one
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, media_type);
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    (void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (x->route != NULL && x->route->endpoint == SERVE_ENDPOINT_PAGE)
        (void)MHD_add_response_header(response, "Content-Security-Policy", serve_page_policy);
    if (x->job != NULL) (void)MHD_add_response_header(response, "X-Request-Id", x->job->id);
    if (x->status == MHD_HTTP_UNAUTHORIZED)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (x->status == MHD_HTTP_SERVICE_UNAVAILABLE || x->status == MHD_HTTP_TOO_MANY_REQUESTS)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    if (x->status == MHD_HTTP_METHOD_NOT_ALLOWED)
        (void)MHD_add_response_header(
            response, MHD_HTTP_HEADER_ALLOW, serve_route_methods(x->path));
    if (x->closes || atomic_load(&x->http->is_draining))
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
}

enum MHD_Result serve_queue(serve_exchange* x,
                            unsigned status,
                            const char* media_type,
                            struct MHD_Response* response) {
    if (response == NULL) return MHD_NO;
    x->status = status;
    add_headers(x, response, media_type);
    enum MHD_Result result = MHD_queue_response(x->connection, status, response);
    MHD_destroy_response(response);
    return result;
}

bool serve_hold(serve_exchange* x, size_t bytes) {
    if (bytes <= x->held_bytes) return true;
    if (!serve_room_take(x->http->options.room, bytes - x->held_bytes)) return false;
    x->held_bytes = bytes;
    return true;
}

static enum MHD_Result refuse_reply(serve_exchange* x, llm_bytes* body) {
    llm_bytes_fini(body);
    api_error error;
    api_fail(&error,
             API_ERROR_OVERLOADED,
             NULL,
             "clients have not taken their answers yet, and there is no room for more of them");
    return serve_reply_error(x, &error);
}

enum MHD_Result serve_reply(serve_exchange* x,
                            unsigned status,
                            const char* media_type,
                            llm_bytes* body) {
    // for a few words, such as what is wrong, there is always room
    if (body->size > FEW_BYTES && !serve_hold(x, body->capacity)) return refuse_reply(x, body);
    struct MHD_Response* response =
        MHD_create_response_from_buffer_with_free_callback(body->size, body->data, free_body);
    if (response == NULL) llm_bytes_fini(body);
    serve_counters_send(&x->http->counters, body->size);
    *body = (llm_bytes){0};
    return serve_queue(x, status, media_type, response);
}

enum MHD_Result serve_reply_error(serve_exchange* x, const api_error* error) {
    llm_bytes json = {0};
    if (!api_error_render(error, &json)) return MHD_NO;
    return serve_reply(x, api_error_status(error->kind), "application/json", &json);
}

enum MHD_Result serve_reply_json(serve_exchange* x, bool is_rendered, llm_bytes* json) {
    if (is_rendered) return serve_reply(x, MHD_HTTP_OK, "application/json", json);
    llm_bytes_fini(json);
    api_error error;
    api_fail(&error, API_ERROR_OUT_OF_MEMORY, NULL, "no memory for the answer");
    return serve_reply_error(x, &error);
}

// ---- The server.

static berth_status fail_listen(const serve_http_options* o, const char* why, llm_error* error) {
    return llm_fail(
        error, BERTH_ERR_IO, "cannot listen at %s, port %u: %s", o->host, (unsigned)o->port, why);
}

/// A socket that listens at one address; -1 and errno.
static int listen_at(const struct addrinfo* at) {
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, at->ai_protocol);
    if (fd < 0) return -1;
    int on = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) return fd;
    int code = errno;
    close(fd);
    errno = code;
    return -1;
}

static berth_status open_socket(const serve_http_options* o, int* out_fd, llm_error* error) {
    char port[8];
    snprintf(port, sizeof port, "%u", (unsigned)o->port);
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo* found;
    int code = getaddrinfo(o->host, port, &hints, &found);
    if (code != 0) return fail_listen(o, gai_strerror(code), error);
    *out_fd = -1;
    for (const struct addrinfo* at = found; at != NULL && *out_fd < 0; at = at->ai_next)
        *out_fd = listen_at(at);
    int why = errno;
    freeaddrinfo(found);
    return *out_fd >= 0 ? BERTH_OK : fail_listen(o, strerror(why), error);
}

static uint16_t port_of(int fd) {
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    char port[8];
    if (getsockname(fd, (struct sockaddr*)&address, &size) != 0 ||
        getnameinfo(
            (const struct sockaddr*)&address, size, NULL, 0, port, sizeof port, NI_NUMERICSERV) !=
            0)
        return 0;
    return (uint16_t)strtoul(port, NULL, 10);
}

static void ignore_log(void* self, const char* format, va_list arguments) {
    // what clients do wrong is no matter of the server's
    (void)self;
    (void)format;
    (void)arguments;
}

/// Undoes what is written as %XX, but for a NUL, which would hide the rest.
static size_t unescape(void* self, struct MHD_Connection* connection, char* text) {
    (void)self;
    (void)connection;
    return strstr(text, "%00") != NULL ? strlen(text) : MHD_http_unescape(text);
}

static berth_status start(serve_http* http, int fd, llm_error* error) {
    const serve_http_options* o = &http->options;
    http->port = port_of(fd);
    http->daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME |
                                        MHD_USE_ERROR_LOG,
                                    0,
                                    NULL,
                                    NULL,
                                    on_request,
                                    http,
                                    MHD_OPTION_EXTERNAL_LOGGER,
                                    ignore_log,
                                    NULL,
                                    MHD_OPTION_UNESCAPE_CALLBACK,
                                    unescape,
                                    NULL,
                                    MHD_OPTION_LISTEN_SOCKET,
                                    fd,
                                    MHD_OPTION_CONNECTION_LIMIT,
                                    o->connections,
                                    MHD_OPTION_CONNECTION_TIMEOUT,
                                    o->idle_seconds,
                                    MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                                    (size_t)o->header_bytes,
                                    MHD_OPTION_CONNECTION_MEMORY_INCREMENT,
                                    (size_t)ROOM_STEP,
                                    MHD_OPTION_STRICT_FOR_CLIENT,
                                    1,
                                    MHD_OPTION_NOTIFY_CONNECTION,
                                    on_connection,
                                    http,
                                    MHD_OPTION_NOTIFY_COMPLETED,
                                    on_completed,
                                    http,
                                    MHD_OPTION_END);
    if (http->daemon != NULL) return BERTH_OK;
    close(fd);
    return fail_listen(o, "the HTTP library could not start", error);
}

berth_status serve_http_create(const serve_http_options* options,
                               serve_http** out_http,
                               llm_error* error) {
    *out_http = NULL;
    serve_http* http = llm_alloc_zeroed(1, sizeof *http);
    if (http == NULL) return llm_fail_memory(error, "a server");
    http->options = *options;
    http->drained_fd = -1;
    if (pthread_mutex_init(&http->lock, NULL) != 0) {
        llm_free(http);
        return llm_fail_memory(error, "a lock");
    }
    int fd;
    berth_status status = open_socket(options, &fd, error);
    if (status == BERTH_OK) status = start(http, fd, error);
    if (status != BERTH_OK) {
        serve_http_destroy(http);
        return status;
    }
    *out_http = http;
    return BERTH_OK;
}

uint16_t serve_http_port(const serve_http* http) { return http->port; }

void serve_http_drain(serve_http* http) {
    atomic_store(&http->is_draining, true);
    http->drained_fd = MHD_quiesce_daemon(http->daemon);
    // The library's thread may still ask about the socket, so it is closed when that has ended.
    if (http->drained_fd != MHD_INVALID_SOCKET) (void)shutdown(http->drained_fd, SHUT_RDWR);
}

size_t serve_http_open_count(const serve_http* http) { return atomic_load(&http->open_count); }

void serve_http_destroy(serve_http* http) {
    if (http == NULL) return;
    if (http->daemon != NULL) MHD_stop_daemon(http->daemon);
    if (http->drained_fd >= 0) close(http->drained_fd);
    pthread_mutex_destroy(&http->lock);
    llm_free(http);
}
