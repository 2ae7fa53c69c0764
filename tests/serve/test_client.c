// SPDX-License-Identifier: Apache-2.0
// Tests of the client, against a server whose answers are written here.
#include "client.h"
#include "serve/stub_kit.h"

/// What came of a request.
typedef struct ended {
    client_result result;
    char text[256]; ///< of the answer
    char body[256];
    size_t text_size;
    size_t leave_at; ///< piece at which the client leaves; 0: none
    bool has_ended;
} ended;

static bool on_text(void* user, llm_str text) {
    ended* e = user;
    assert_true(e->text_size + text.size < sizeof e->text);
    memcpy(e->text + e->text_size, text.data, text.size);
    e->text_size += text.size;
    return --e->leave_at != 0;
}

static void on_end(void* user, const client_result* result) {
    ended* e = user;
    assert_false(e->has_ended);
    e->has_ended = true;
    e->result = *result;
    snprintf(e->body, sizeof e->body, "%.*s", (int)result->body.size, result->body.data);
}

static client* open_client(const char* url, size_t most_running) {
    client_options options = client_options_default();
    options.url = url;
    options.most_running = most_running;
    options.most_bytes = 4096;
    client* c;
    llm_error error;
    if (client_create(&options, &c, &error) != BERTH_OK) fail_msg("%s", error.text);
    return c;
}

static const client_ask hello = {
    .prompt = {"hello", 5}, .max_tokens = 4, .ignores_eos = true, .streams = true};

static void submit(client* c, const client_ask* ask, ended* out) {
    llm_error error;
    llm_bytes body = {0};
    assert_int_equal(client_ask_write(ask, &body, &error), BERTH_OK);
    const client_request request = {.path = client_ask_path(ask),
                                    .body = {body.data, body.size},
                                    .is_ask = true,
                                    .on_text = on_text,
                                    .on_end = on_end,
                                    .user = out};
    if (client_submit(c, &request, &error) != BERTH_OK) fail_msg("%s", error.text);
    llm_bytes_fini(&body);
}

static void wait_for(client* c, const ended* e) {
    llm_error error;
    while (!e->has_ended)
        if (client_turn(c, 100, &error) != BERTH_OK) fail_msg("%s", error.text);
}

/// Asks a server that answers so, and asserts how that ends.
static void assert_ends(stub_answer_fn answer, client_end end, const char* mention, ended* out) {
    static stub server;
    stub_begin(&server, answer, NULL);
    client* c = open_client(server.url, 1);
    out->has_ended = false;
    submit(c, &hello, out);
    wait_for(c, out);
    assert_int_equal(client_running(c), 0);
    client_destroy(c);
    stub_end(&server);
    if (out->result.end != end || strstr(out->result.text, mention) == NULL)
        fail_msg("%s: '%s'", client_end_text(out->result.end), out->result.text);
}

// ---- Answers.

static bool answer_in_pieces(stub* s, int fd, const stub_request* request) {
    (void)s;
    (void)request;
    static const char stream[] = ": hello\r\n\r\n" STUB_TEXT("Good") STUB_TEXT(" ") STUB_TEXT("")
        STUB_TEXT("day") STUB_USAGE(9, 3, 4) STUB_DONE;
    stub_begin_stream(fd);
    for (const char* at = stream; *at != '\0'; at++) {
        const char byte[] = {*at, '\0'};
        stub_send_chunk(fd, byte);
    }
    return stub_end_stream(fd);
}

static void a_streamed_answer_is_read_with_its_usage(void** state) {
    (void)state;
    ended e = {0};
    assert_ends(answer_in_pieces, CLIENT_ANSWERED, "", &e);
    assert_int_equal(e.result.http_status, 200);
    assert_string_equal(e.text, "Good day");
    assert_int_equal(e.result.pieces, 3);
    assert_int_equal(e.result.usage.prompt_tokens, 9);
    assert_int_equal(e.result.usage.cached_tokens, 3);
    assert_int_equal(e.result.usage.answer_tokens, 4);
    assert_true(e.result.sent_ns <= e.result.first_ns && e.result.sent_ns > 0);
    assert_true(e.result.first_ns <= e.result.last_ns && e.result.last_ns <= e.result.end_ns);
}

static bool answer_chat(stub* s, int fd, const stub_request* request) {
    (void)s;
    (void)request;
    stub_begin_stream(fd);
    stub_send_chunk(
        fd,
        "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":null}}]}\n\n"
        "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\\u0000!\"}}]}\n\n"
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n" STUB_DONE
        "data: behind the end\n\n");
    return stub_end_stream(fd);
}

static void a_streamed_chat_is_read(void** state) {
    (void)state;
    ended e = {0};
    assert_ends(answer_chat, CLIENT_ANSWERED, "", &e);
    assert_int_equal(e.text_size, 4);
    assert_memory_equal(e.text, "Hi\0!", 4);
    assert_int_equal(e.result.pieces, 1);
    assert_int_equal(e.result.usage.prompt_tokens, -1);
    assert_int_equal(e.result.usage.answer_tokens, -1);
}

static bool answer_whole(stub* s, int fd, const stub_request* request) {
    (void)s;
    (void)request;
    return stub_send_whole(fd,
                           "200 OK",
                           "application/json",
                           "{\"choices\":[{\"message\":{\"content\":\"All\"}}],\"usage\":"
                           "{\"prompt_tokens\":2,\"completion_tokens\":1}}");
}

static void an_answer_that_is_not_streamed_is_read(void** state) {
    (void)state;
    ended e = {0};
    assert_ends(answer_whole, CLIENT_ANSWERED, "", &e);
    assert_string_equal(e.text, "All");
    assert_int_equal(e.result.usage.prompt_tokens, 2);
    assert_int_equal(e.result.usage.cached_tokens, -1);
}

static void a_request_has_what_was_asked(void** state) {
    (void)state;
    stub server;
    stub_begin(&server, answer_whole, NULL);
    char url[96];
    snprintf(url, sizeof url, "%s//v1/", server.url); // as other clients want it
    client_options options = client_options_default();
    options.url = url;
    options.api_key = "sk-abc";
    client* c;
    llm_error error;
    assert_int_equal(client_create(&options, &c, &error), BERTH_OK);
    client_ask ask = hello;
    ask.model = "m";
    ask.user = "tenant-2";
    ended e = {0};
    submit(c, &ask, &e);
    wait_for(c, &e);
    assert_memory_equal(server.last_head, "POST /v1/completions HTTP/1.1\r\n", 31);
    assert_non_null(strstr(server.last_head, "Authorization: Bearer sk-abc\r\n"));
    assert_null(strcasestr(server.last_head, "\r\nexpect"));
    assert_string_equal(server.last_body,
                        "{\"model\":\"m\",\"user\":\"tenant-2\",\"prompt\":\"hello\","
                        "\"max_tokens\":4,\"temperature\":0.0,\"ignore_eos\":true,"
                        "\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
    ask = (client_ask){.is_chat = true,
                       .prompt = {"a \"quote\"\n\xc3\xa9", 12},
                       .max_tokens = 1,
                       .temperature = 1};
    e.has_ended = false;
    submit(c, &ask, &e);
    wait_for(c, &e);
    assert_memory_equal(server.last_head, "POST /v1/chat/completions HTTP/1.1\r\n", 36);
    assert_string_equal(
        server.last_body,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a \\\"quote\\\"\\n\xc3\xa9\"}]"
        ",\"max_tokens\":1,\"temperature\":1.0}");
    client_destroy(c);
    stub_end(&server);
}

static void a_connection_is_used_again(void** state) {
    (void)state;
    stub server;
    stub_begin(&server, answer_whole, NULL);
    client* c = open_client(server.url, 1);
    for (int i = 0; i < 20; i++) {
        ended e = {0};
        submit(c, &hello, &e);
        wait_for(c, &e);
        assert_int_equal(e.result.end, CLIENT_ANSWERED);
    }
    client_destroy(c);
    stub_end(&server);
    assert_int_equal(server.requests, 20);
    assert_int_equal(server.connections, 1);
}

static void many_requests_run_at_a_time(void** state) {
    (void)state;
    enum { MANY = 24 };
    stub server;
    stub_begin(&server, answer_in_pieces, NULL);
    client* c = open_client(server.url, MANY);
    static ended all[MANY];
    memset(all, 0, sizeof all);
    for (int i = 0; i < MANY; i++)
        submit(c, &hello, &all[i]);
    assert_int_equal(client_running(c), MANY);
    const client_request more = {.path = "/v1/models", .on_end = on_end, .user = &all[0]};
    llm_error error;
    assert_int_equal(client_submit(c, &more, &error), BERTH_ERR_STATE);
    assert_mentions(&error, "24 requests run");
    for (int i = 0; i < MANY; i++) {
        wait_for(c, &all[i]);
        assert_int_equal(all[i].result.end, CLIENT_ANSWERED);
        assert_string_equal(all[i].text, "Good day");
    }
    assert_int_equal(client_running(c), 0);
    client_destroy(c);
    stub_end(&server);
}

// ---- What goes wrong.

static bool answer_503(stub* s, int fd, const stub_request* request) {
    (void)s;
    (void)request;
    return stub_send_whole(
        fd,
        "503 Service Unavailable",
        "application/json",
        "{\"error\":{\"message\":\"the queue is full\",\"code\":\"overloaded\"}}");
}

static bool answer_502_in_words(stub* s, int fd, const stub_request* request) {
    (void)s;
    (void)request;
    return stub_send_whole(fd, "502 Bad Gateway", "text/html", "<html>\x1b[31m");
}

static bool answer_413_and_close(stub* s, int fd, const stub_request* request) {
    (void)s;
    (void)request;
    stub_send(fd, "HTTP/1.1 413 Too Large\r\nContent-Length: 1000\r\n\r\ntoo much");
    return false;
}

static bool answer_elsewhere(stub* s, int fd, const stub_request* request) {
    (void)s;
    (void)request;
    stub_send(fd,
              "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n");
    return true;
}

static void a_refusal_has_its_status_and_its_sentence(void** state) {
    (void)state;
    ended e = {0};
    assert_ends(answer_503, CLIENT_REFUSED, "HTTP status 503: the queue is full", &e);
    assert_int_equal(e.result.http_status, 503);
    assert_ends(answer_502_in_words, CLIENT_REFUSED, "HTTP status 502: <html>?[31m", &e);
    assert_ends(answer_413_and_close, CLIENT_REFUSED, "HTTP status 413: too much", &e);
    assert_ends(answer_elsewhere, CLIENT_REFUSED, "HTTP status 302", &e);
}

static bool answer_error_within(stub* s, int fd, const stub_request* request) {
    (void)s;
    (void)request;
    stub_begin_stream(fd);
    stub_send_chunk(fd, STUB_TEXT("Go") "data: {\"error\":{\"message\":\"no memory left\"}}\n\n");
    return stub_end_stream(fd);
}

static bool answer_nonsense(stub* s, int fd, const stub_request* request) {
    (void)s;
    (void)request;
    stub_begin_stream(fd);
    stub_send_chunk(fd, "data: {\"choices\":[{\n\n");
    return stub_end_stream(fd);
}

static bool answer_a_list(stub* s, int fd, const stub_request* request) {
    (void)s;
    (void)request;
    return stub_send_whole(fd, "200 OK", "application/json", "[1, 2]");
}

static bool answer_too_much(stub* s, int fd, const stub_request* request) {
    (void)s;
    (void)request;
    char body[8000];
    memset(body, ' ', sizeof body - 1);
    body[sizeof body - 1] = '\0';
    return stub_send_whole(fd, "200 OK", "application/json", body);
}

static bool answer_no_http(stub* s, int fd, const stub_request* request) {
    (void)s;
    (void)request;
    stub_send(fd, "220 ready\r\n");
    return false;
}

static void an_answer_that_is_none_has_failed(void** state) {
    (void)state;
    ended e = {0};
    assert_ends(answer_error_within, CLIENT_FAILED, "no memory left", &e);
    assert_string_equal(e.text, "Go");
    assert_ends(answer_nonsense, CLIENT_FAILED, "no object of JSON", &e);
    assert_ends(answer_a_list, CLIENT_FAILED, "no object of JSON", &e);
    assert_ends(answer_too_much, CLIENT_FAILED, "4096 bytes", &e);
    assert_ends(answer_no_http, CLIENT_FAILED, "", &e);
}

static bool answer_half(stub* s, int fd, const stub_request* request) {
    (void)s;
    (void)request;
    stub_begin_stream(fd);
    stub_send_chunk(fd, STUB_TEXT("Go"));
    return false;
}

static bool answer_without_mark(stub* s, int fd, const stub_request* request) {
    (void)s;
    (void)request;
    stub_begin_stream(fd);
    stub_send_chunk(fd, STUB_TEXT("Go"));
    return stub_end_stream(fd);
}

static bool answer_nothing(stub* s, int fd, const stub_request* request) {
    (void)s;
    (void)fd;
    (void)request;
    return false;
}

static bool answer_and_break(stub* s, int fd, const stub_request* request) {
    (void)s;
    (void)request;
    stub_begin_stream(fd);
    stub_send_chunk(fd, STUB_TEXT("Go") STUB_DONE);
    return false;
}

static void a_connection_that_ends_early_breaks_the_answer_off(void** state) {
    (void)state;
    ended e = {0};
    assert_ends(answer_half, CLIENT_BROKEN, "", &e);
    assert_int_not_equal(e.result.text[0], '\0');
    assert_int_equal(e.result.http_status, 200);
    assert_ends(answer_without_mark, CLIENT_BROKEN, "[DONE]", &e);
    assert_ends(answer_nothing, CLIENT_BROKEN, "", &e);
    assert_ends(answer_and_break, CLIENT_ANSWERED, "", &e); // all that was to come has come
}

static void a_server_that_is_not_there_is_not_reached(void** state) {
    (void)state;
    unsigned port;
    const int fd = stub_bind(&port); // nobody listens
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%u", port);
    client* c = open_client(url, 1);
    ended e = {0};
    submit(c, &hello, &e);
    wait_for(c, &e);
    assert_int_equal(e.result.end, CLIENT_UNREACHED);
    assert_int_equal(e.result.http_status, 0);
    assert_non_null(strstr(e.result.text, "127.0.0.1"));
    llm_error error;
    llm_bytes body = {0};
    assert_int_equal(client_get(c, "/health", &body, &error), BERTH_ERR_IO);
    assert_mentions(&error, "GET /health: ");
    llm_bytes_fini(&body);
    client_destroy(c);
    close(fd);
}

static bool answer_never(stub* s, int fd, const stub_request* request) {
    (void)s;
    (void)request;
    return stub_wait_for_close(fd);
}

static void a_server_that_is_silent_is_given_up(void** state) {
    (void)state;
    stub server;
    stub_begin(&server, answer_never, NULL);
    client_options options = client_options_default();
    options.url = server.url;
    options.timeout_ms = 30;
    client* c;
    llm_error error;
    assert_int_equal(client_create(&options, &c, &error), BERTH_OK);
    ended e = {0};
    submit(c, &hello, &e);
    wait_for(c, &e);
    assert_int_equal(e.result.end, CLIENT_TIMED_OUT);
    client_destroy(c);
    stub_end(&server);
}

static bool answer_forever(stub* s, int fd, const stub_request* request) {
    (void)s;
    (void)request;
    stub_begin_stream(fd);
    stub_send_chunk(fd, STUB_TEXT("1") STUB_TEXT("2") STUB_TEXT("3"));
    return stub_wait_for_close(fd);
}

static void a_client_may_leave_in_mid_stream(void** state) {
    (void)state;
    ended e = {.leave_at = 2};
    assert_ends(answer_forever, CLIENT_LEFT, "left", &e);
    assert_string_equal(e.text, "12");
}

static void requests_that_run_end_with_the_client(void** state) {
    (void)state;
    stub server;
    stub_begin(&server, answer_forever, NULL);
    client* c = open_client(server.url, 2);
    ended e[2] = {{.has_ended = false}};
    llm_error error;
    submit(c, &hello, &e[0]);
    submit(c, &hello, &e[1]);
    while (e[0].text_size < 3)
        assert_int_equal(client_turn(c, 100, &error), BERTH_OK);
    client_leave(c);
    assert_int_equal(client_running(c), 0);
    submit(c, &hello, &e[0]);
    assert_int_equal(client_turn(c, 0, &error), BERTH_OK);
    client_destroy(c);
    stub_end(&server);
    assert_false(e[0].has_ended || e[1].has_ended);
}

// ---- Other requests, and options.

static bool answer_models(stub* s, int fd, const stub_request* request) {
    (void)s;
    const bool is_models = strncmp(request->head, "GET /v1/models ", 15) == 0;
    return stub_send_whole(
        fd,
        is_models ? "200 OK" : "404 Not Found",
        "application/json",
        "{\"object\":\"list\",\"data\":[{\"id\":\"first\"},{\"id\":\"second\"}]}");
}

static void the_first_model_is_found(void** state) {
    (void)state;
    stub server;
    stub_begin(&server, answer_models, NULL);
    client* c = open_client(server.url, 1);
    llm_error error;
    llm_bytes body = {0}, name = {0};
    assert_int_equal(client_get(c, "/v1/models", &body, &error), BERTH_OK);
    assert_int_equal(client_models_read((llm_str){body.data, body.size}, &name, &error), BERTH_OK);
    assert_string_equal(name.data, "first");
    assert_int_equal(client_get(c, "/v1/other", &body, &error), BERTH_ERR_IO);
    assert_mentions(&error, "404");
    assert_int_equal(client_get(c, "no-slash", &body, &error), BERTH_ERR_INVALID_ARGUMENT);
    assert_int_equal(client_running(c), 0);
    const char* wrong[] = {"{}", "{\"data\":[]}", "{\"data\":[{\"id\":1}]}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(client_models_read(llm_str_of(wrong[i]), &name, &error),
                         BERTH_ERR_NOT_FOUND);
    assert_int_equal(client_models_read(llm_str_of("[]"), &name, &error), BERTH_ERR_CORRUPT);
    assert_int_equal(client_models_read(llm_str_of("{\"error\":\"no\"}"), &name, &error),
                     BERTH_ERR_IO);
    assert_mentions(&error, "no");
    llm_bytes_fini(&name);
    llm_bytes_fini(&body);
    client_destroy(c);
    stub_end(&server);
}

static void assert_refused(client_options options, const char* mention) {
    client* c;
    llm_error error;
    assert_int_equal(client_create(&options, &c, &error), BERTH_ERR_INVALID_ARGUMENT);
    assert_null(c);
    assert_mentions(&error, mention);
}

static void options_that_cannot_be_are_named(void** state) {
    (void)state;
    static const char* const urls[] = {"",
                                       "127.0.0.1:80",
                                       "ftp://a",
                                       "http://",
                                       "http:///v1",
                                       "http://a b",
                                       "http://a:99999999",
                                       "http://a?b=c",
                                       "http://a/#d"};
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        client_options options = client_options_default();
        options.url = urls[i];
        assert_refused(options, "http://HOST:PORT");
    }
    client_options options = client_options_default();
    assert_refused(options, "must be a URL");
    options.url = "http://localhost";
    options.most_running = 0;
    assert_refused(options, "0 requests");
    options.most_running = 65537;
    assert_refused(options, "65537 requests");
    options.most_running = 1;
    options.timeout_ms = 0;
    assert_refused(options, "and 0 ms");
    options.timeout_ms = INT64_MAX;
    assert_refused(options, "at most 2147483647");
    options = client_options_default();
    options.url = "http://localhost";
    static char key[4098];
    memset(key, 'k', sizeof key - 1);
    options.api_key = key;
    assert_refused(options, "API key");
    assert_string_equal(client_end_text(CLIENT_REFUSED), "refused");
    assert_string_equal(client_end_text((client_end)99), "unknown");
}

static void text_that_is_no_utf8_is_not_asked(void** state) {
    (void)state;
    llm_error error;
    llm_bytes body = {0};
    client_ask ask = hello;
    ask.prompt = (llm_str){"\xff", 1};
    assert_int_equal(client_ask_write(&ask, &body, &error), BERTH_ERR_INVALID_ARGUMENT);
    ask = hello;
    ask.model = "\xc3";
    assert_int_equal(client_ask_write(&ask, &body, &error), BERTH_ERR_INVALID_ARGUMENT);
    assert_int_equal(body.size, 0);
    ask = (client_ask){.max_tokens = 1}; // an empty prompt is the server's to refuse
    assert_int_equal(client_ask_write(&ask, &body, &error), BERTH_OK);
    llm_bytes_fini(&body);
}

static void every_allocation_may_fail(void** state) {
    (void)state;
    stub server;
    stub_begin(&server, answer_in_pieces, NULL);
    client_options options = client_options_default();
    options.url = server.url;
    llm_error error;
    bool is_whole = false;
    for (uint64_t fail_at = 1; !is_whole; fail_at++) {
        alloc_watch watch;
        client* c;
        ended e = {0};
        llm_bytes body = {0};
        watch_begin(&watch, fail_at);
        berth_status status = client_create(&options, &c, &error);
        if (status == BERTH_OK) status = client_ask_write(&hello, &body, &error);
        const client_request request = {.path = "/v1/completions",
                                        .body = {body.data, body.size},
                                        .is_ask = true,
                                        .on_end = on_end,
                                        .user = &e};
        if (status == BERTH_OK) status = client_submit(c, &request, &error);
        while (status == BERTH_OK && !e.has_ended)
            status = client_turn(c, 100, &error);
        watch_end();
        llm_bytes_fini(&body);
        client_destroy(c);
        is_whole = watch.calls < fail_at;
        if (is_whole)
            assert_int_equal(e.result.end, CLIENT_ANSWERED);
        else if (status == BERTH_OK)
            assert_int_equal(e.result.end, CLIENT_FAILED);
        else
            assert_int_equal(status, BERTH_ERR_OUT_OF_MEMORY);
        assert_true(fail_at < 100);
    }
    stub_end(&server);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_streamed_answer_is_read_with_its_usage),
        cmocka_unit_test(a_streamed_chat_is_read),
        cmocka_unit_test(an_answer_that_is_not_streamed_is_read),
        cmocka_unit_test(a_request_has_what_was_asked),
        cmocka_unit_test(a_connection_is_used_again),
        cmocka_unit_test(many_requests_run_at_a_time),
        cmocka_unit_test(a_refusal_has_its_status_and_its_sentence),
        cmocka_unit_test(an_answer_that_is_none_has_failed),
        cmocka_unit_test(a_connection_that_ends_early_breaks_the_answer_off),
        cmocka_unit_test(a_server_that_is_not_there_is_not_reached),
        cmocka_unit_test(a_server_that_is_silent_is_given_up),
        cmocka_unit_test(a_client_may_leave_in_mid_stream),
        cmocka_unit_test(requests_that_run_end_with_the_client),
        cmocka_unit_test(the_first_model_is_found),
        cmocka_unit_test(options_that_cannot_be_are_named),
        cmocka_unit_test(text_that_is_no_utf8_is_not_asked),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
