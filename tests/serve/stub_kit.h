// SPDX-License-Identifier: Apache-2.0
// A server for the tests of clients: threads with sockets, and answers that the test writes.
#ifndef BERTH_TESTS_STUB_KIT_H
#define BERTH_TESTS_STUB_KIT_H

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "llm/llm_kit.h"

enum { STUB_MOST_CONNECTIONS = 64, STUB_MOST_BYTES = 1 << 16 };

/// A request as it came. Text is terminated.
typedef struct stub_request {
    char head[STUB_MOST_BYTES]; ///< with the empty line behind it
    char body[STUB_MOST_BYTES];
    size_t number; ///< counts all requests from 0
} stub_request;

struct stub;

/// Answers one request on `fd`; false closes the connection.
typedef bool (*stub_answer_fn)(struct stub* stub, int fd, const stub_request* request);

/// A server.
typedef struct stub {
    stub_answer_fn answer;
    const void* user; ///< of the test
    int listener;
    char url[64];
    pthread_t acceptor;
    pthread_t threads[STUB_MOST_CONNECTIONS];
    int sockets[STUB_MOST_CONNECTIONS];
    size_t connections;
    atomic_size_t requests;
    pthread_mutex_t lock;
    char last_head[STUB_MOST_BYTES]; ///< of the request that came last; so is the body
    char last_body[STUB_MOST_BYTES];
} stub;

typedef struct stub_connection {
    stub* server;
    int fd;
} stub_connection;

/// Sends all of a text; a client that is gone is no failure of the stub.
static inline void stub_send(int fd, const char* text) {
    size_t size = strlen(text);
    while (size > 0) {
        const ssize_t sent = send(fd, text, size, MSG_NOSIGNAL);
        if (sent <= 0) return;
        text += sent;
        size -= (size_t)sent;
    }
}

/// Answers with a body whose size is known, and keeps the connection.
static inline bool stub_send_whole(int fd, const char* status, const char* type, const char* body) {
    char head[256];
    snprintf(head,
             sizeof head,
             "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n\r\n",
             status,
             type,
             strlen(body));
    stub_send(fd, head);
    stub_send(fd, body);
    return true;
}

static inline void stub_begin_stream(int fd) {
    stub_send(fd,
              "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
              "Transfer-Encoding: chunked\r\n\r\n");
}

/// Sends bytes of a stream as a chunk of their own.
static inline void stub_send_chunk(int fd, const char* bytes) {
    char chunk[STUB_MOST_BYTES];
    snprintf(chunk, sizeof chunk, "%zx\r\n%s\r\n", strlen(bytes), bytes);
    stub_send(fd, chunk);
}

static inline bool stub_end_stream(int fd) {
    stub_send(fd, "0\r\n\r\n");
    return true;
}

/// Waits until the client has closed the connection.
static inline bool stub_wait_for_close(int fd) {
    char rest[256];
    while (recv(fd, rest, sizeof rest, 0) > 0) {
    }
    return false;
}

/// Reads a head and a body. False: the client is gone.
static inline bool stub_read(int fd, stub_request* out) {
    size_t size = 0, body_bytes = 0;
    for (;;) {
        const ssize_t got = recv(fd, out->head + size, 1, 0);
        if (got != 1 || size + 2 >= sizeof out->head) return false;
        out->head[++size] = '\0';
        if (size >= 4 && memcmp(out->head + size - 4, "\r\n\r\n", 4) == 0) break;
    }
    const char* length = strcasestr(out->head, "\r\ncontent-length:");
    if (length != NULL) body_bytes = strtoul(length + 17, NULL, 10);
    if (body_bytes >= sizeof out->body) return false;
    out->body[body_bytes] = '\0';
    return body_bytes == 0 || recv(fd, out->body, body_bytes, MSG_WAITALL) == (ssize_t)body_bytes;
}

static inline void* stub_serve_connection(void* argument) {
    stub_connection* connection = argument;
    stub* s = connection->server;
    const int fd = connection->fd;
    free(connection);
    stub_request* request = calloc(1, sizeof *request);
    while (request != NULL && stub_read(fd, request)) {
        pthread_mutex_lock(&s->lock);
        memcpy(s->last_head, request->head, sizeof request->head);
        memcpy(s->last_body, request->body, sizeof request->body);
        pthread_mutex_unlock(&s->lock);
        request->number = atomic_fetch_add(&s->requests, 1);
        if (!s->answer(s, fd, request)) break;
    }
    free(request);
    shutdown(fd, SHUT_RDWR); // closed when the stub ends, so that the number is not used again
    return NULL;
}

static inline void* stub_accept(void* argument) {
    stub* s = argument;
    for (;;) {
        const int fd = accept(s->listener, NULL, NULL);
        if (fd < 0) return NULL;
        stub_connection* connection = malloc(sizeof *connection);
        if (s->connections == STUB_MOST_CONNECTIONS || connection == NULL) abort();
        *connection = (stub_connection){.server = s, .fd = fd};
        s->sockets[s->connections] = fd;
        if (pthread_create(
                &s->threads[s->connections++], NULL, stub_serve_connection, connection) != 0)
            abort();
    }
}

/// Opens a socket on a free port of this machine, without listening.
static inline int stub_bind(unsigned* out_port) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    assert_int_equal(bind(fd, (const struct sockaddr*)&address, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr*)&address, &size), 0);
    *out_port = ntohs(address.sin_port);
    return fd;
}

/// Starts a server that answers with `answer`.
static inline void stub_begin(stub* s, stub_answer_fn answer, const void* user) {
    *s = (stub){.answer = answer, .user = user};
    unsigned port;
    s->listener = stub_bind(&port);
    assert_int_equal(listen(s->listener, STUB_MOST_CONNECTIONS), 0);
    snprintf(s->url, sizeof s->url, "http://127.0.0.1:%u", port);
    assert_int_equal(pthread_mutex_init(&s->lock, NULL), 0);
    assert_int_equal(pthread_create(&s->acceptor, NULL, stub_accept, s), 0);
}

/// Whether the last request's body has `part` in it.
static inline bool stub_last_body_has(stub* s, const char* part) {
    pthread_mutex_lock(&s->lock);
    const bool has = strstr(s->last_body, part) != NULL;
    pthread_mutex_unlock(&s->lock);
    return has;
}

/// Ends the server: connections are broken off.
static inline void stub_end(stub* s) {
    shutdown(s->listener, SHUT_RDWR);
    pthread_join(s->acceptor, NULL);
    close(s->listener);
    for (size_t i = 0; i < s->connections; i++) {
        shutdown(s->sockets[i], SHUT_RDWR);
        pthread_join(s->threads[i], NULL);
        close(s->sockets[i]);
    }
    pthread_mutex_destroy(&s->lock);
}

/// An event of a completion, with one piece of text.
#define STUB_TEXT(text)                                                                            \
    "data: {\"choices\":[{\"index\":0,\"text\":\"" text "\"}],\"usage\":null}\n\n"
/// The event that tells the tokens.
#define STUB_USAGE(prompt, cached, answer)                                                         \
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":" #prompt                                  \
    ",\"completion_tokens\":" #answer ",\"prompt_tokens_details\":{\"cached_tokens\":" #cached     \
    "}}}\n\n"
#define STUB_DONE "data: [DONE]\n\n"

#endif // BERTH_TESTS_STUB_KIT_H
