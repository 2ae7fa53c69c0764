// SPDX-License-Identifier: Apache-2.0
// A server within the test's own process, on tiny random weights, and clients that speak to it by
// plain sockets, so that they can do what no library would.
#ifndef BERTH_TESTS_SERVER_KIT_H
#define BERTH_TESTS_SERVER_KIT_H

#include "llm/llm_kit.h"
#include "serve_http.h"
#include "serve_setup.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/// A server. Changed as wanted before kit_start().
typedef struct server_kit {
    serve_setup setup;
    serve_keys keys;
    serve_room room;
    serve_engine_options engine_options;
    serve_http_options http_options;
    serve_engine* engine;
    serve_http* http;
} server_kit;

/// Prepares a server of 512 tokens of context within `memory_bytes`.
static inline void kit_prepare(server_kit* kit, uint64_t memory_bytes) {
    *kit = (server_kit){.room = {.most_bytes = 1 << 28}};
    const serve_setup_options setup = {
        .is_tiny = true, .memory_bytes = memory_bytes, .bounded_bytes = 1 << 20, .threads = "2"};
    llm_error error;
    if (serve_setup_open(&setup, &kit->setup, &error) != BERTH_OK) fail_msg("%s", error.text);
    kit->engine_options =
        (serve_engine_options){.model = kit->setup.model,
                               .tokenizer = kit->setup.tokenizer,
                               .kv = llm_model_kv_options(kit->setup.model, BERTH_F16),
                               .scheduler = {.context_tokens = 512},
                               .budget = kit->setup.budget};
    kit->http_options = (serve_http_options){
        .host = "127.0.0.1",
        .reader = {.tokenizer = kit->setup.tokenizer,
                   .chat = &kit->setup.chat,
                   .model_name = kit->setup.model_name,
                   .context_tokens = 512,
                   .most_token_bytes = kit->setup.most_token_bytes,
                   .reply_bytes = kit->room.most_bytes},
        .about = {.model_name = kit->setup.model_name,
                  .context_tokens = 512,
                  .trained_tokens = 512,
                  .vocab_tokens = kit->setup.model->params.vocab_tokens,
                  .kv_type = "f16",
                  .chat_style = "chatml",
                  .slots = 64,
                  .version = "test"},
        .keys = &kit->keys,
        .room = &kit->room,
        .body_bytes = 1 << 16,
        .bodies_bytes = 1 << 20,
        .header_bytes = 16384,
        .connections = 2048,
        .idle_seconds = 600,
        .request_seconds = 600,
    };
}

/// Starts the engine and listens.
static inline void kit_start(server_kit* kit) {
    llm_error error;
    if (serve_engine_create(&kit->engine_options, &kit->engine, &error) != BERTH_OK)
        fail_msg("%s", error.text);
    kit->http_options.engine = kit->engine;
    if (serve_http_create(&kit->http_options, &kit->http, &error) != BERTH_OK)
        fail_msg("%s", error.text);
}

/// Ends everything.
static inline void kit_stop(server_kit* kit) {
    if (kit->engine != NULL) serve_engine_stop(kit->engine);
    serve_http_destroy(kit->http);
    serve_engine_destroy(kit->engine);
    serve_setup_close(&kit->setup);
    serve_keys_fini(&kit->keys);
}

/// A client's connection; -1 if the server takes none.
static inline int kit_try_to_connect(const server_kit* kit) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons(serve_http_port(kit->http)),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (connect(fd, (const struct sockaddr*)&address, sizeof address) == 0) return fd;
    close(fd);
    return -1;
}

static inline int kit_connect(const server_kit* kit) {
    int fd = kit_try_to_connect(kit);
    assert_true(fd >= 0);
    return fd;
}

/// Sends all of some bytes; false if the server takes no more of them.
static inline bool kit_send(int fd, const void* data, size_t size) {
    const char* at = data;
    while (size > 0) {
        ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
        if (sent <= 0) return false;
        at += sent;
        size -= (size_t)sent;
    }
    return true;
}

/// Sends a request with a body of JSON. `headers` are whole lines, "" for none.
static inline void kit_post(int fd, const char* path, const char* headers, const char* body) {
    char head[1024];
    int size = snprintf(head,
                        sizeof head,
                        "POST %s HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
                        "Content-Length: %zu\r\n%s\r\n",
                        path,
                        strlen(body),
                        headers);
    assert_true(kit_send(fd, head, (size_t)size));
    assert_true(kit_send(fd, body, strlen(body)));
}

/// Sends a request without a body.
static inline void kit_get(int fd, const char* path, const char* headers) {
    char head[1024];
    int size =
        snprintf(head, sizeof head, "GET %s HTTP/1.1\r\nHost: test\r\n%s\r\n", path, headers);
    assert_true(kit_send(fd, head, (size_t)size));
}

/// An answer; text is terminated.
typedef struct kit_reply {
    int status; ///< 0: the connection ended before there was one
    char* head;
    char* body; ///< without the framing of chunks
    bool is_whole;
    llm_bytes raw;
} kit_reply;

static inline void kit_reply_fini(kit_reply* reply) {
    llm_bytes_fini(&reply->raw);
    free(reply->body);
    free(reply->head);
    *reply = (kit_reply){0};
}

static inline char* kit_copy_text(const char* data, size_t size) {
    char* text = malloc(size + 1);
    assert_non_null(text);
    memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

/// Takes chunks apart; returns whether the last one is there.
static inline bool kit_join_chunks(const char* at, const char* end, char* out) {
    for (;;) {
        const char* line = memchr(at, '\n', (size_t)(end - at));
        if (line == NULL) break;
        size_t size = strtoul(at, NULL, 16);
        at = line + 1;
        if (size == 0) {
            *out = '\0';
            return true;
        }
        size_t there = (size_t)(end - at) < size ? (size_t)(end - at) : size;
        memcpy(out, at, there);
        out += there;
        if (there < size || (size_t)(end - at) < size + 2) break;
        at += size + 2;
    }
    *out = '\0';
    return false;
}

/// Looks whether what has come is a whole answer.
static inline void kit_parse(kit_reply* reply) {
    const char* data = reply->raw.data;
    const char* end = data + reply->raw.size;
    const char* body = reply->raw.size == 0 ? NULL : memmem(data, reply->raw.size, "\r\n\r\n", 4);
    if (body == NULL) return;
    body += 4;
    free(reply->head);
    free(reply->body);
    reply->head = kit_copy_text(data, (size_t)(body - data));
    reply->body = kit_copy_text(body, (size_t)(end - body));
    assert_int_equal(sscanf(reply->head, "HTTP/1.%*d %d", &reply->status), 1);
    const char* length = strcasestr(reply->head, "\r\nContent-Length:");
    if (length != NULL)
        reply->is_whole = (size_t)(end - body) >= strtoul(length + 17, NULL, 10);
    else if (strcasestr(reply->head, "\r\nTransfer-Encoding: chunked") != NULL)
        reply->is_whole = kit_join_chunks(body, end, reply->body);
}

/// Reads once. False at the connection's end.
static inline bool kit_read_some(int fd, kit_reply* reply) {
    char buffer[16384];
    ssize_t size = recv(fd, buffer, sizeof buffer, 0);
    if (size <= 0) return false;
    assert_int_equal(llm_bytes_append(&reply->raw, buffer, (size_t)size, NULL), BERTH_OK);
    return true;
}

/// Reads one answer, or until the connection ends.
static inline kit_reply kit_read(int fd) {
    kit_reply reply = {0};
    while (!reply.is_whole && kit_read_some(fd, &reply))
        kit_parse(&reply);
    return reply;
}

/// One request on a connection of its own.
static inline kit_reply kit_ask(const server_kit* kit, const char* path, const char* body) {
    int fd = kit_connect(kit);
    if (body == NULL)
        kit_get(fd, path, "");
    else
        kit_post(fd, path, "", body);
    kit_reply reply = kit_read(fd);
    close(fd);
    return reply;
}

/// Asks and forgets all but the status.
static inline int kit_status(const server_kit* kit, const char* path, const char* body) {
    kit_reply reply = kit_ask(kit, path, body);
    int status = reply.status;
    kit_reply_fini(&reply);
    return status;
}

/// Looks after connections, and after other threads' time, while a test waits for something.
static inline void kit_tick(server_kit* kit) {
    serve_http_tick(kit->http);
    const struct timespec rest = {.tv_nsec = 2000000};
    nanosleep(&rest, NULL);
}

/// Waits until no job is there and no block is held, as the engine's own numbers say; hangs if that
/// never comes.
static inline void kit_await_rest(server_kit* kit) {
    serve_snapshot snapshot;
    do {
        kit_tick(kit);
        serve_engine_query(kit->engine, &snapshot);
    } while (serve_engine_job_count(kit->engine) > 0 || snapshot.kv.held_blocks > 0 ||
             snapshot.scheduler.running + snapshot.scheduler.queued > 0);
}

#endif // BERTH_TESTS_SERVER_KIT_H
