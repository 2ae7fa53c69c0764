// SPDX-License-Identifier: Apache-2.0
// The server as clients find it: endpoints, refusals, and clients that are slow, gone or hostile.
#include "kit/random.h"
#include "serve/server_kit.h"

#include <sys/resource.h>

#define KIT_MEMORY (UINT64_C(1) << 30)

static int start_plain(void** state) {
    server_kit* kit = malloc(sizeof *kit);
    assert_non_null(kit);
    kit_prepare(kit, KIT_MEMORY);
    kit_start(kit);
    *state = kit;
    return 0;
}

static int stop(void** state) {
    kit_stop(*state);
    free(*state);
    return 0;
}

static void assert_error(kit_reply* reply, int status, const char* code) {
    assert_int_equal(reply->status, status);
    assert_non_null(strstr(reply->head, "application/json"));
    assert_non_null(strstr(reply->body, "{\"error\":{\"message\":\""));
    if (strstr(reply->body, code) == NULL) fail_msg("no %s in %s", code, reply->body);
    kit_reply_fini(reply);
}

// ---- Endpoints.

static void a_completion_is_answered(void** state) {
    kit_reply reply = kit_ask(
        *state, "/v1/completions", "{\"prompt\":\"hello\",\"max_tokens\":5,\"ignore_eos\":true}");
    assert_int_equal(reply.status, 200);
    assert_non_null(strstr(reply.body, "\"object\":\"text_completion\""));
    assert_non_null(strstr(reply.body, "\"finish_reason\":\"length\""));
    assert_non_null(strstr(reply.body, "\"completion_tokens\":5"));
    kit_reply_fini(&reply);
}

static void a_chat_is_answered_in_a_stream_that_says_its_end(void** state) {
    kit_reply reply = kit_ask(*state,
                              "/v1/chat/completions",
                              "{\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}],"
                              "\"max_tokens\":5,\"ignore_eos\":true,\"stream\":true,"
                              "\"stream_options\":{\"include_usage\":true}}");
    assert_int_equal(reply.status, 200);
    assert_non_null(strstr(reply.head, "text/event-stream"));
    assert_non_null(strstr(reply.body, "\"role\":\"assistant\""));
    assert_non_null(strstr(reply.body, "\"completion_tokens\":5"));
    const char* end = strstr(reply.body, "data: [DONE]\n\n");
    assert_non_null(end);
    assert_string_equal(end, "data: [DONE]\n\n");
    kit_reply_fini(&reply);
}

/// Puts the texts of a stream's events together.
static void join_events(const char* body, char* out) {
    static const char mark[] = "\"text\":\"";
    for (const char* at = strstr(body, mark); at != NULL; at = strstr(at, mark)) {
        at += sizeof mark - 1;
        while (*at != '"') {
            if (*at == '\\') *out++ = *at++;
            *out++ = *at++;
        }
    }
    *out = '\0';
}

static void a_stream_has_the_text_of_the_whole_answer(void** state) {
    static const char whole[] = "{\"prompt\":\"hello\",\"max_tokens\":60,\"ignore_eos\":true,"
                                "\"temperature\":1,\"seed\":7}";
    static const char streamed[] = "{\"prompt\":\"hello\",\"max_tokens\":60,\"ignore_eos\":true,"
                                   "\"temperature\":1,\"seed\":7,\"stream\":true}";
    kit_reply a = kit_ask(*state, "/v1/completions", whole);
    kit_reply b = kit_ask(*state, "/v1/completions", streamed);
    assert_int_equal(a.status, 200);
    assert_int_equal(b.status, 200);
    char* texts[2] = {malloc(strlen(a.body) + 1), malloc(strlen(b.body) + 1)};
    join_events(a.body, texts[0]);
    join_events(b.body, texts[1]);
    assert_true(strlen(texts[0]) > 0);
    assert_string_equal(texts[0], texts[1]);
    free(texts[0]);
    free(texts[1]);
    kit_reply_fini(&a);
    kit_reply_fini(&b);
}

static void answers_to_one_prompt_share_it(void** state) {
    kit_reply reply = kit_ask(*state,
                              "/v1/completions",
                              "{\"prompt\":\"a prompt that is longer than a few blocks of tokens, "
                              "so that it can be found\",\"max_tokens\":3,\"n\":4,"
                              "\"ignore_eos\":true}");
    assert_int_equal(reply.status, 200);
    assert_non_null(strstr(reply.body, "\"index\":3"));
    assert_non_null(strstr(reply.body, "\"completion_tokens\":12"));
    kit_reply_fini(&reply);
    serve_snapshot snapshot;
    kit_await_rest(*state);
    const server_kit* kit = *state;
    serve_engine_query(kit->engine, &snapshot);
    assert_true(snapshot.scheduler.cached_tokens >= 3 * 64); // the three that came after
}

static void each_of_the_small_endpoints_answers(void** state) {
    static const char* const paths[] = {
        "/", "/health", "/v1/models", "/v1/models/random-tiny", "/props", "/metrics", "/memory"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        assert_int_equal(kit_status(*state, paths[i], NULL), 200);
    kit_reply reply = kit_ask(*state, "/tokenize", "{\"content\":\"abc\"}");
    assert_int_equal(reply.status, 200);
    assert_string_equal(reply.body, "{\"tokens\":[113,114,115]}");
    kit_reply_fini(&reply);
    reply = kit_ask(*state, "/detokenize", "{\"tokens\":[113,114,115]}");
    assert_string_equal(reply.body, "{\"content\":\"abc\"}");
    kit_reply_fini(&reply);
}

static void the_page_may_do_nothing_but_talk_to_its_server(void** state) {
    kit_reply reply = kit_ask(*state, "/", NULL);
    assert_non_null(strstr(reply.head, "Content-Security-Policy: default-src 'none'"));
    assert_non_null(strstr(reply.head, "text/html"));
    kit_reply_fini(&reply);
}

// ---- Refusals.

static void what_is_not_there_is_said_to_be_so(void** state) {
    kit_reply reply = kit_ask(*state, "/v1/nothing", NULL);
    assert_error(&reply, 404, "not_found");
    reply = kit_ask(*state, "/v1/models/other", NULL);
    assert_error(&reply, 404, "model_not_found");
}

static void other_methods_are_refused_with_those_that_are_allowed(void** state) {
    kit_reply reply = kit_ask(*state, "/v1/completions", NULL);
    assert_non_null(strstr(reply.head, "Allow: POST\r\n"));
    assert_error(&reply, 405, "method_not_allowed");
    reply = kit_ask(*state, "/health", "{}");
    assert_non_null(strstr(reply.head, "Allow: GET, HEAD\r\n"));
    assert_error(&reply, 405, "method_not_allowed");
}

static void a_body_that_is_not_said_to_be_json_is_refused(void** state) {
    int fd = kit_connect(*state);
    static const char request[] = "POST /v1/completions HTTP/1.1\r\nHost: test\r\n"
                                  "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}";
    assert_true(kit_send(fd, request, sizeof request - 1));
    kit_reply reply = kit_read(fd);
    assert_error(&reply, 415, "unsupported_media_type");
    close(fd);
}

static void a_connection_serves_on_after_a_refusal(void** state) {
    int fd = kit_connect(*state);
    kit_post(fd, "/v1/completions", "", "no json");
    kit_reply reply = kit_read(fd);
    assert_error(&reply, 400, "invalid_request_error");
    kit_post(fd, "/v1/completions", "", "{\"prompt\":\"a\",\"max_tokens\":1,\"ignore_eos\":true}");
    reply = kit_read(fd);
    assert_int_equal(reply.status, 200);
    kit_reply_fini(&reply);
    close(fd);
}

static void a_request_for_more_than_the_context_is_refused_with_both_numbers(void** state) {
    kit_reply reply =
        kit_ask(*state, "/v1/completions", "{\"prompt\":\"hello\",\"max_tokens\":600}");
    assert_non_null(strstr(reply.body, "512"));
    assert_error(&reply, 400, "context_length_exceeded");
}

static void a_body_that_is_too_large_is_refused(void** state) {
    const size_t size = 100000;
    char* body = malloc(size + 1);
    memset(body, ' ', size);
    body[size] = '\0';
    kit_reply reply = kit_ask(*state, "/v1/completions", body);
    assert_error(&reply, 413, "request_too_large");
    free(body);
}

static void a_body_of_chunks_that_is_too_large_is_refused(void** state) {
    int fd = kit_connect(*state);
    static const char head[] = "POST /v1/completions HTTP/1.1\r\nHost: test\r\nContent-Type: "
                               "application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_true(kit_send(fd, head, sizeof head - 1));
    char chunk[5 + 1024 + 2];
    memset(chunk, ' ', sizeof chunk);
    memcpy(chunk, "400\r\n", 5);
    memcpy(chunk + sizeof chunk - 2, "\r\n", 2);
    for (int i = 0; i < 100; i++)
        assert_true(kit_send(fd, chunk, sizeof chunk));
    assert_true(kit_send(fd, "0\r\n\r\n", 5));
    kit_reply reply = kit_read(fd);
    assert_error(&reply, 413, "request_too_large");
    close(fd);
}

static void a_body_without_end_is_cut_off(void** state) {
    int fd = kit_connect(*state);
    static const char head[] = "POST /v1/completions HTTP/1.1\r\nHost: test\r\nContent-Type: "
                               "application/json\r\nContent-Length: 99999999999999\r\n\r\n";
    assert_true(kit_send(fd, head, sizeof head - 1));
    char zeros[65536] = {0};
    while (kit_send(fd, zeros, sizeof zeros)) // ends when the server has had enough
        ;
    close(fd);
    assert_int_equal(kit_status(*state, "/health", NULL), 200);
}

static void headers_without_end_are_cut_off(void** state) {
    int fd = kit_connect(*state);
    static const char head[] = "GET /health HTTP/1.1\r\nHost: test\r\n";
    static const char line[] = "X-More: and more and more and more and more and more\r\n";
    assert_true(kit_send(fd, head, sizeof head - 1));
    while (kit_send(fd, line, sizeof line - 1))
        ;
    close(fd);
    assert_int_equal(kit_status(*state, "/health", NULL), 200);
}

static void a_body_whose_end_could_be_in_two_places_is_refused(void** state) {
    static const char* const framings[] = {
        "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 2\r\nContent-Length: 2\r\n",
        "Content-Length: 2\r\nContent-Length: 50\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
    };
    for (size_t i = 0; i < sizeof framings / sizeof *framings; i++) {
        char request[512];
        int size = snprintf(request,
                            sizeof request,
                            "POST /tokenize HTTP/1.1\r\nHost: test\r\n"
                            "Content-Type: application/json\r\n%s\r\n0\r\n\r\n"
                            "GET /health HTTP/1.1\r\nHost: test\r\n\r\n",
                            framings[i]);
        int fd = kit_connect(*state);
        assert_true(kit_send(fd, request, (size_t)size));
        kit_reply reply = {0}; // until the connection ends: the second request is none
        while (kit_read_some(fd, &reply))
            ;
        kit_parse(&reply);
        assert_null(strstr(reply.body, "HTTP/1.1"));
        assert_non_null(strstr(reply.head, "Connection: close"));
        assert_error(&reply, 400, "Transfer-Encoding");
        close(fd);
    }
}

static void a_path_is_what_it_says(void** state) {
    assert_int_equal(kit_status(*state, "/health?more=1", NULL), 200);
    assert_int_equal(kit_status(*state, "http://test/health", NULL), 200);
    assert_int_equal(kit_status(*state, "http://test", NULL), 200); // the page
    assert_int_equal(kit_status(*state, "http://test/v1/../health", NULL), 404);
    assert_int_equal(kit_status(*state, "/health%00", NULL), 404);
    assert_int_equal(kit_status(*state, "/he%61lth", NULL), 200);
}

static void a_model_with_a_long_name_is_found(void** state) {
    server_kit kit;
    (void)state;
    kit_prepare(&kit, KIT_MEMORY);
    char path[128] = "/v1/models/";
    const size_t at = strlen(path);
    memset(path + at, 'm', 100);
    kit.http_options.about.model_name = path + at;
    kit_start(&kit);
    assert_int_equal(kit_status(&kit, path, NULL), 200);
    path[at + 99] = '\0'; // one letter less
    char shorter[128];
    memcpy(shorter, path, sizeof shorter);
    path[at + 99] = 'm';
    assert_int_equal(kit_status(&kit, shorter, NULL), 404);
    kit_stop(&kit);
}

static void without_a_key_only_the_page_and_health_answer(void** state) {
    server_kit kit;
    (void)state;
    kit_prepare(&kit, KIT_MEMORY);
    char path[] = "/tmp/berth-keys-XXXXXX";
    int file = mkstemp(path);
    assert_int_equal(write(file, "sk-one\nsk-two\n", 14), 14);
    close(file);
    llm_error error;
    assert_int_equal(serve_keys_read(path, &kit.keys, &error), BERTH_OK);
    unlink(path);
    kit_start(&kit);
    assert_int_equal(kit_status(&kit, "/health", NULL), 200);
    assert_int_equal(kit_status(&kit, "/", NULL), 200);
    assert_int_equal(kit_status(&kit, "/metrics", NULL), 401);
    assert_int_equal(kit_status(&kit, "/nothing", NULL), 401);
    kit_reply reply = kit_ask(&kit, "/v1/completions", "{\"prompt\":\"a\",\"max_tokens\":1}");
    assert_non_null(strstr(reply.head, "WWW-Authenticate: Bearer"));
    assert_error(&reply, 401, "invalid_api_key");
    int fd = kit_connect(&kit);
    kit_post(fd,
             "/v1/completions",
             "Authorization: Bearer sk-two\r\n",
             "{\"prompt\":\"a\",\"max_tokens\":1,\"ignore_eos\":true}");
    reply = kit_read(fd);
    assert_int_equal(reply.status, 200);
    kit_reply_fini(&reply);
    kit_get(fd, "/metrics", "Authorization: Bearer sk-three\r\n");
    reply = kit_read(fd);
    assert_int_equal(reply.status, 401);
    kit_reply_fini(&reply);
    close(fd);
    kit_stop(&kit);
}

// ---- Clients that leave, or are slow.

/// Answers that the scheduler has been asked for so far.
static uint64_t count_submitted(const server_kit* kit) {
    serve_snapshot snapshot;
    serve_engine_query(kit->engine, &snapshot);
    return snapshot.scheduler.submitted;
}

/// Waits until the scheduler has been asked for more answers than `before`.
static void await_submitted(server_kit* kit, uint64_t before) {
    while (count_submitted(kit) <= before)
        kit_tick(kit);
}

static const char long_stream[] =
    "{\"prompt\":\"hello\",\"max_tokens\":500,\"n\":128,\"ignore_eos\":true,\"stream\":true}";
static const char long_whole[] =
    "{\"prompt\":\"hello\",\"max_tokens\":500,\"n\":128,\"ignore_eos\":true}";

static const char short_stream[] =
    "{\"prompt\":\"hello\",\"max_tokens\":250,\"n\":4,\"ignore_eos\":true,\"stream\":true}";
static const char short_whole[] =
    "{\"prompt\":\"hello\",\"max_tokens\":250,\"n\":4,\"ignore_eos\":true}";

static void a_client_that_leaves_a_stream_frees_its_blocks(void** state) {
    for (int i = 0; i < 5; i++) {
        int fd = kit_connect(*state);
        kit_post(fd, "/v1/completions", "", long_stream);
        kit_reply reply = {0};
        assert_true(kit_read_some(fd, &reply));
        kit_reply_fini(&reply);
        close(fd);
        kit_await_rest(*state);
    }
}

static void a_client_that_leaves_while_it_waits_frees_its_blocks(void** state) {
    for (int i = 0; i < 5; i++) {
        uint64_t before = count_submitted(*state);
        int fd = kit_connect(*state);
        kit_post(fd, "/v1/completions", "", long_whole);
        if (i % 2 == 0) await_submitted(*state, before);
        close(fd);
        kit_await_rest(*state);
    }
}

static void a_client_that_sends_no_more_counts_as_gone(void** state) {
    int fd = kit_connect(*state);
    kit_post(fd, "/v1/completions", "", long_whole);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    kit_await_rest(*state);
    kit_reply reply = kit_read(fd); // ends
    kit_reply_fini(&reply);
    close(fd);
}

static void a_client_that_reads_nothing_holds_no_blocks(void** state) {
    enum { SLOW = 20 };
    int slow[SLOW];
    for (int i = 0; i < SLOW; i++) {
        slow[i] = kit_connect(*state);
        kit_post(slow[i], "/v1/completions", "", short_stream);
    }
    assert_int_equal(kit_status(*state,
                                "/v1/completions",
                                "{\"prompt\":\"a\",\"max_tokens\":2,\"ignore_eos\":true}"),
                     200);
    kit_await_rest(*state);
    for (int i = 0; i < SLOW; i++) { // it finds all of its answer
        kit_reply reply = kit_read(slow[i]);
        assert_true(reply.is_whole);
        assert_non_null(strstr(reply.body, "data: [DONE]"));
        kit_reply_fini(&reply);
        close(slow[i]);
    }
}

/// Waits until nothing is held for clients any more.
static void await_room(server_kit* kit) {
    while (atomic_load(&kit->room.used_bytes) > 0)
        kit_tick(kit);
}

static void answers_that_nobody_takes_stay_within_their_room(void** state) {
    enum { SLOW = 16, ROOM = 1 << 20, ANSWER = 300000 };
    server_kit kit;
    (void)state;
    kit_prepare(&kit, KIT_MEMORY);
    kit.room.most_bytes = ROOM;
    kit.http_options.body_bytes = 1 << 18;
    kit_start(&kit);
    static char body[ANSWER / 5 + 64] = "{\"content\":\"";
    size_t size = strlen(body);
    memset(body + size, 'a', ANSWER / 5);
    memcpy(body + size + ANSWER / 5, "\"}", 3);
    int slow[SLOW];
    for (int i = 0; i < SLOW; i++) { // more than sockets take by themselves
        slow[i] = kit_connect(&kit);
        const int small = 4096;
        (void)setsockopt(slow[i], SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
        kit_post(slow[i], "/tokenize", "", body);
    }
    for (int i = 0; i < SLOW; i++) {
        kit_reply reply = {0};
        assert_true(kit_read_some(slow[i], &reply));
        kit_parse(&reply);
        assert_true(reply.status == 503 || reply.status == 200);
        kit_reply_fini(&reply);
    }
    assert_true(atomic_load(&kit.room.used_bytes) <= ROOM);
    for (int i = 0; i < SLOW; i++)
        close(slow[i]);
    await_room(&kit);
    assert_int_equal(kit_status(&kit, "/tokenize", body), 200);
    kit_stop(&kit);
}

static void an_answer_for_which_there_is_no_room_is_told_so(void** state) {
    server_kit kit;
    (void)state;
    kit_prepare(&kit, KIT_MEMORY);
    kit.room.most_bytes = 1 << 16;
    kit_start(&kit);
    kit_reply reply = kit_ask(&kit,
                              "/v1/completions",
                              "{\"prompt\":\"a\",\"max_tokens\":400,\"n\":8,\"logprobs\":20,"
                              "\"ignore_eos\":true}");
    assert_error(&reply, 503, "out_of_memory");
    reply = kit_ask(&kit,
                    "/v1/completions",
                    "{\"prompt\":\"a\",\"max_tokens\":400,\"n\":8,\"logprobs\":20,\"stream\":true,"
                    "\"ignore_eos\":true}");
    // before the stream has begun, or in it; what is kept of the answer has no room any more, or
    // what is on its way to the client
    assert_true(reply.status == 503 || strstr(reply.body, "data: [DONE]") != NULL);
    assert_true(strstr(reply.body, "out_of_memory") != NULL ||
                strstr(reply.body, "overloaded") != NULL);
    kit_reply_fini(&reply);
    static char long_user[60000];
    size_t size = (size_t)snprintf(
        long_user, sizeof long_user, "{\"prompt\":\"a\",\"max_tokens\":1,\"user\":\"");
    memset(long_user + size, 'u', sizeof long_user - size - 3);
    memcpy(long_user + sizeof long_user - 3, "\"}", 3);
    await_room(&kit); // of what was told already, but not given back yet
    kit.room.most_bytes = 1 << 15;
    reply = kit_ask(&kit, "/v1/completions", long_user);
    assert_error(&reply, 503, "overloaded");
    await_room(&kit);
    assert_int_equal(kit_status(&kit,
                                "/v1/completions",
                                "{\"prompt\":\"a\",\"max_tokens\":1,\"ignore_eos\":true}"),
                     200);
    kit_await_rest(&kit);
    await_room(&kit);
    kit_stop(&kit);
}

/// Tokens with log probabilities in an event of a completion.
static size_t count_event_tokens(const char* event, const char* end) {
    const char* at = memmem(event, (size_t)(end - event), "\"text_offset\":[", 15);
    if (at == NULL) return 0;
    size_t count = at[15] != ']';
    for (at += 15; at < end && *at != ']'; at++)
        count += *at == ',';
    return count;
}

static void log_probabilities_come_in_events_of_bounded_length(void** state) {
    kit_reply reply = kit_ask(*state,
                              "/v1/completions",
                              "{\"prompt\":\"a\",\"max_tokens\":500,\"logprobs\":0,\"stream\":true,"
                              "\"ignore_eos\":true,\"seed\":1}");
    assert_int_equal(reply.status, 200);
    size_t all = 0;
    for (const char* at = reply.body; (at = strstr(at, "data: {")) != NULL;) {
        const char* end = strchr(at, '\n');
        const size_t count = count_event_tokens(at, end);
        assert_true(count <= 64);
        all += count;
        at = end;
    }
    assert_int_equal(all, 500);
    kit_reply_fini(&reply);
}

static void a_thousand_connections_are_served(void** state) {
    enum { CLIENTS = 1000 };
    struct rlimit files;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    if (files.rlim_cur < 2 * CLIENTS + 100) files.rlim_cur = files.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    int* clients = malloc(CLIENTS * sizeof *clients);
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = kit_connect(*state);
    for (int i = 0; i < CLIENTS; i += 4) // the others stay silent
        kit_post(clients[i],
                 "/v1/completions",
                 "",
                 i % 8 == 0 ? "{\"prompt\":\"a\",\"max_tokens\":2,\"ignore_eos\":true}"
                            : "{\"prompt\":\"a\",\"max_tokens\":2,\"stream\":true,"
                              "\"ignore_eos\":true}");
    for (int i = 0; i < CLIENTS; i += 4) {
        kit_reply reply = kit_read(clients[i]);
        assert_int_equal(reply.status, 200);
        assert_true(reply.is_whole);
        kit_reply_fini(&reply);
    }
    for (int i = 0; i < CLIENTS; i++)
        close(clients[i]);
    free(clients);
    kit_await_rest(*state);
}

static void a_connection_that_does_not_send_its_request_in_time_is_closed(void** state) {
    server_kit kit;
    (void)state;
    kit_prepare(&kit, KIT_MEMORY);
    kit.http_options.request_seconds = 0; // over as soon as somebody looks
    kit_start(&kit);
    static const char unfinished[] = "POST /tokenize HTTP/1.1\r\nHost: test\r\n"
                                     "Content-Type: application/json\r\n"
                                     "Content-Length: 10\r\n\r\n{";
    static const char* const beginnings[] = {"", "GET /hea", unfinished};
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++) {
        int fd = kit_connect(&kit);
        assert_true(kit_send(fd, beginnings[i], strlen(beginnings[i])));
        struct pollfd closed = {.fd = fd, .events = POLLIN};
        while (poll(&closed, 1, 1) == 0)
            serve_http_tick(kit.http);
        char byte;
        assert_true(recv(fd, &byte, 1, 0) <= 0);
        close(fd);
    }
    kit_stop(&kit);
}

// ---- Hostile bytes.

/// Spoils a request: bytes changed, cut out, put in, or the end cut off.
static size_t spoil(test_random* random, char* data, size_t size, size_t room) {
    size_t changes = 1 + test_random_below(random, 4);
    for (size_t i = 0; i < changes && size > 1; i++) {
        size_t at = test_random_below(random, size);
        switch (test_random_below(random, 4)) {
        case 0:
            data[at] = (char)test_random_below(random, 256);
            break;
        case 1:
            memmove(data + at, data + at + 1, size - at - 1);
            size--;
            break;
        case 2:
            if (size == room) break;
            memmove(data + at + 1, data + at, size - at);
            data[at] = "\r\n :{}[]\",\\0"[test_random_below(random, 12)];
            size++;
            break;
        default:
            size = at + 1;
            break;
        }
    }
    return size;
}

static void spoilt_requests_leave_the_server_well(void** state) {
    static const char* const requests[] = {
        "GET /health HTTP/1.1\r\nHost: test\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
        "Content-Length: 53\r\n\r\n{\"prompt\":[\"a\",\"b\"],\"max_tokens\":2,\"ignore_eos\":true}",
        "POST /v1/chat/completions HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: chunked\r\n\r\n10\r\n{\"messages\":[{\"r\r\n31\r\nole\":\"user\","
        "\"content\":\"x\"}],\"max_tokens\":1,\"n\":1 }\r\n0\r\n\r\n",
    };
    test_random random = test_random_make(20);
    for (int i = 0; i < 600; i++) {
        const char* request = requests[i % 3];
        char data[512];
        size_t size = strlen(request);
        memcpy(data, request, size);
        size = spoil(&random, data, size, sizeof data);
        int fd = kit_connect(*state);
        (void)kit_send(fd, data, size);
        (void)shutdown(fd, SHUT_WR); // what waits for more gets none
        struct pollfd readable = {.fd = fd, .events = POLLIN};
        while (poll(&readable, 1, 1) == 0)
            serve_http_tick(((server_kit*)*state)->http);
        kit_reply reply = kit_read(fd);
        kit_reply_fini(&reply);
        close(fd);
    }
    kit_await_rest(*state);
    assert_int_equal(kit_status(*state, "/health", NULL), 200);
}

// ---- The end.

static void draining_lets_requests_end_and_refuses_new_ones(void** state) {
    server_kit kit;
    (void)state;
    kit_prepare(&kit, KIT_MEMORY);
    kit_start(&kit);
    int running = kit_connect(&kit);
    int late = kit_connect(&kit);
    kit_get(late, "/health", "");
    kit_reply reply = kit_read(late);
    assert_int_equal(reply.status, 200);
    kit_reply_fini(&reply);
    kit_post(running, "/v1/completions", "", short_whole);
    await_submitted(&kit, 0);
    serve_http_drain(kit.http);
    serve_engine_drain(kit.engine, false);
    assert_int_equal(kit_try_to_connect(&kit), -1);
    kit_post(late, "/v1/completions", "", short_whole);
    reply = kit_read(late);
    assert_non_null(strstr(reply.head, "Connection: close"));
    assert_error(&reply, 503, "shutting_down");
    reply = kit_read(running);
    assert_int_equal(reply.status, 200);
    assert_non_null(strstr(reply.body, "\"completion_tokens\":1000"));
    kit_reply_fini(&reply);
    close(running);
    close(late);
    kit_stop(&kit);
}

static void ending_at_once_tells_every_request(void** state) {
    server_kit kit;
    (void)state;
    kit_prepare(&kit, KIT_MEMORY);
    kit.engine_options.scheduler.max_running = 1; // so that the second one waits for its turn
    kit_start(&kit);
    int stream = kit_connect(&kit);
    kit_post(stream, "/v1/completions", "", long_stream);
    await_submitted(&kit, 0);
    int whole = kit_connect(&kit);
    kit_post(whole, "/v1/completions", "", long_whole);
    while (serve_engine_job_count(kit.engine) < 2)
        kit_tick(&kit);
    serve_engine_drain(kit.engine, true);
    kit_reply reply = kit_read(whole);
    assert_error(&reply, 503, "shutting_down");
    reply = kit_read(stream);
    assert_int_equal(reply.status, 200);
    assert_true(reply.is_whole);
    assert_non_null(strstr(reply.body, "shutting_down"));
    kit_reply_fini(&reply);
    close(stream);
    close(whole);
    kit_await_rest(&kit);
    kit_stop(&kit);
}

static void an_address_that_is_taken_is_named(void** state) {
    const server_kit* kit = *state;
    serve_http_options options = kit->http_options;
    options.port = serve_http_port(kit->http);
    serve_http* second;
    llm_error error;
    assert_int_equal(serve_http_create(&options, &second, &error), BERTH_ERR_IO);
    assert_null(second);
    assert_mentions(&error, "127.0.0.1");
    assert_mentions(&error, "in use");
    options.host = "no.such.host.invalid";
    assert_int_equal(serve_http_create(&options, &second, &error), BERTH_ERR_IO);
    assert_mentions(&error, "no.such.host.invalid");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_completion_is_answered),
        cmocka_unit_test(a_chat_is_answered_in_a_stream_that_says_its_end),
        cmocka_unit_test(a_stream_has_the_text_of_the_whole_answer),
        cmocka_unit_test(answers_to_one_prompt_share_it),
        cmocka_unit_test(each_of_the_small_endpoints_answers),
        cmocka_unit_test(the_page_may_do_nothing_but_talk_to_its_server),
        cmocka_unit_test(what_is_not_there_is_said_to_be_so),
        cmocka_unit_test(other_methods_are_refused_with_those_that_are_allowed),
        cmocka_unit_test(a_body_that_is_not_said_to_be_json_is_refused),
        cmocka_unit_test(a_connection_serves_on_after_a_refusal),
        cmocka_unit_test(a_request_for_more_than_the_context_is_refused_with_both_numbers),
        cmocka_unit_test(a_body_that_is_too_large_is_refused),
        cmocka_unit_test(a_body_of_chunks_that_is_too_large_is_refused),
        cmocka_unit_test(a_body_without_end_is_cut_off),
        cmocka_unit_test(headers_without_end_are_cut_off),
        cmocka_unit_test(a_body_whose_end_could_be_in_two_places_is_refused),
        cmocka_unit_test(a_path_is_what_it_says),
        cmocka_unit_test(a_model_with_a_long_name_is_found),
        cmocka_unit_test(without_a_key_only_the_page_and_health_answer),
        cmocka_unit_test(a_client_that_leaves_a_stream_frees_its_blocks),
        cmocka_unit_test(a_client_that_leaves_while_it_waits_frees_its_blocks),
        cmocka_unit_test(a_client_that_sends_no_more_counts_as_gone),
        cmocka_unit_test(a_client_that_reads_nothing_holds_no_blocks),
        cmocka_unit_test(answers_that_nobody_takes_stay_within_their_room),
        cmocka_unit_test(an_answer_for_which_there_is_no_room_is_told_so),
        cmocka_unit_test(log_probabilities_come_in_events_of_bounded_length),
        cmocka_unit_test(a_thousand_connections_are_served),
        cmocka_unit_test(a_connection_that_does_not_send_its_request_in_time_is_closed),
        cmocka_unit_test(spoilt_requests_leave_the_server_well),
        cmocka_unit_test(draining_lets_requests_end_and_refuses_new_ones),
        cmocka_unit_test(ending_at_once_tells_every_request),
        cmocka_unit_test(an_address_that_is_taken_is_named),
    };
    return cmocka_run_group_tests(tests, start_plain, stop);
}
