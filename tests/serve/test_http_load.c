// SPDX-License-Identifier: Apache-2.0
// Tests of loads and of traces as loads, against a server whose answers are written here.
#include "http_load_trace.h"
#include "http_load_words.h"
#include "serve/stub_kit.h"
#include "tokenizer.h"

#include <jansson.h>

// ---- A server that answers each prompt with as many tokens as it wants, and counts.

enum { MOST_SEEN = 64 };

/// What the server was asked, in the order of its asking.
typedef struct seen {
    pthread_mutex_t lock;
    char prompts[MOST_SEEN][2048];
    char users[MOST_SEEN][32];
    json_int_t lengths[MOST_SEEN];
    size_t count;
    size_t running, most_running;
    bool counts_tokens; ///< else it sends no usage
    size_t refuse_at;   ///< request that is refused, counted from 1
} seen;

static void note(seen* s, const json_t* body) {
    assert_true(s->count < MOST_SEEN);
    snprintf(s->prompts[s->count],
             sizeof s->prompts[0],
             "%s",
             json_string_value(json_object_get(body, "prompt")));
    const char* user = json_string_value(json_object_get(body, "user"));
    snprintf(s->users[s->count], sizeof s->users[0], "%s", user == NULL ? "" : user);
    s->lengths[s->count++] = json_integer_value(json_object_get(body, "max_tokens"));
    if (++s->running > s->most_running) s->most_running = s->running;
}

static int64_t count_words(const char* text) {
    int64_t words = 1;
    for (; *text != '\0'; text++)
        words += *text == ' ';
    return words;
}

static bool answer_counted(stub* server, int fd, const stub_request* request) {
    seen* s = (seen*)(uintptr_t)server->user;
    json_t* body = json_loads(request->body, 0, NULL);
    pthread_mutex_lock(&s->lock);
    note(s, body);
    const bool is_refused = s->count == s->refuse_at;
    pthread_mutex_unlock(&s->lock);
    if (is_refused) {
        stub_send_whole(
            fd, "429 Slow", "application/json", "{\"error\":{\"message\":\"slow down\"}}");
    } else {
        const int64_t tokens = json_integer_value(json_object_get(body, "max_tokens"));
        char usage[256];
        snprintf(
            usage,
            sizeof usage,
            "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%lld,\"completion_tokens\":%lld,"
            "\"prompt_tokens_details\":{\"cached_tokens\":2}}}\n\n",
            (long long)count_words(json_string_value(json_object_get(body, "prompt"))),
            (long long)tokens);
        stub_begin_stream(fd);
        for (int64_t i = 0; i < tokens; i++)
            stub_send_chunk(fd, STUB_TEXT("x"));
        if (s->counts_tokens) stub_send_chunk(fd, usage);
        stub_send_chunk(fd, STUB_DONE);
    }
    pthread_mutex_lock(&s->lock);
    s->running--;
    pthread_mutex_unlock(&s->lock);
    if (!is_refused) stub_end_stream(fd);
    json_decref(body);
    return true;
}

/// A server and its client.
typedef struct pair {
    stub server;
    seen seen;
    client* client;
} pair;

static void begin(pair* p, stub_answer_fn answer, size_t concurrency) {
    memset(&p->seen, 0, sizeof p->seen);
    p->seen.counts_tokens = true;
    assert_int_equal(pthread_mutex_init(&p->seen.lock, NULL), 0);
    stub_begin(&p->server, answer, &p->seen);
    client_options options = client_options_default();
    options.url = p->server.url;
    options.most_running = concurrency;
    llm_error error;
    assert_int_equal(client_create(&options, &p->client, &error), BERTH_OK);
}

static void end(pair* p) {
    client_destroy(p->client);
    stub_end(&p->server);
    pthread_mutex_destroy(&p->seen.lock);
}

static pair shared_pair;

// ---- Traces.

/// Two requests that begin with the same block, and one that does not.
static const char blocks[] =
    "{\"t_ms\":0,\"in\":40,\"out\":3,\"in_blocks\":[1,2],\"all_blocks_tail\":[]}\n"
    "{\"t_ms\":4,\"in\":33,\"out\":2,\"in_blocks\":[1,3],\"all_blocks_tail\":[]}\n"
    "{\"t_ms\":2,\"in\":16,\"out\":5,\"in_blocks\":[4],\"all_blocks_tail\":[]}\n";

static http_trace_options open_trace(const pair* p, const char* text, llm_request_trace* trace) {
    llm_error error;
    if (llm_request_trace_parse(llm_str_of(text), "t", trace, &error) != BERTH_OK)
        fail_msg("%s", error.text);
    return (http_trace_options){.client = p->client,
                                .model = "m",
                                .concurrency = 2,
                                .trace = trace,
                                .row_count = trace->row_count,
                                .divide = 1,
                                .tenants = 1};
}

static void load(const http_trace_options* options, http_load_report* report) {
    llm_error error;
    if (http_load_trace(options, report, &error) != BERTH_OK) fail_msg("%s", error.text);
}

/// Words that two texts begin with alike.
static size_t common_words(const char* a, const char* b) {
    size_t words = 0;
    for (; *a == *b && *a != '\0'; a++, b++)
        words += *a == ' ';
    return words;
}

static void prompts_have_the_traces_lengths_and_begin_alike_where_it_says_so(void** state) {
    (void)state;
    pair* p = &shared_pair;
    begin(p, answer_counted, 2);
    llm_request_trace trace;
    http_trace_options options = open_trace(p, blocks, &trace);
    options.concurrency = 1;
    http_load_report report;
    load(&options, &report);
    const seen* s = &p->seen;
    assert_int_equal(s->count, 3);
    assert_int_equal(count_words(s->prompts[0]), 40);
    assert_int_equal(count_words(s->prompts[1]), 33);
    assert_int_equal(count_words(s->prompts[2]), 16);
    assert_in_range(common_words(s->prompts[0], s->prompts[1]), 16, 17);
    assert_in_range(common_words(s->prompts[0], s->prompts[2]), 0, 2);
    assert_int_equal(s->lengths[0], 3);
    assert_int_equal(s->lengths[2], 5);
    assert_string_equal(s->users[0], "");
    assert_int_equal(report.ends[CLIENT_ANSWERED], 3);
    assert_int_equal(report.prompt_tokens, 89);
    assert_int_equal(report.answer_tokens, 10);
    assert_int_equal(report.cached_tokens, 6);
    assert_int_equal(report.other_lengths, 0);
    assert_int_equal(report.first.count, 3);
    assert_int_equal(report.token.count, 3);
    assert_int_equal(report.whole.count, 3);
    assert_true(report.whole.max_ms >= report.first.max_ms && report.first.p50_ms > 0.0);
    assert_true(http_load_speed(&report) > 0.0);
    llm_request_trace_fini(&trace);
    end(p);
}

static void requests_come_in_the_order_of_their_arrival(void** state) {
    (void)state;
    pair* p = &shared_pair;
    begin(p, answer_counted, 1);
    llm_request_trace trace;
    http_trace_options options = open_trace(p, blocks, &trace);
    options.speed = 1.0;
    options.concurrency = 1;
    options.tenants = 2;
    http_load_report report;
    load(&options, &report);
    assert_int_equal(p->seen.lengths[0], 3);
    assert_int_equal(p->seen.lengths[1], 5); // 2 ms after the first
    assert_int_equal(p->seen.lengths[2], 2);
    assert_string_equal(p->seen.users[0], "tenant-0");
    assert_string_equal(p->seen.users[1], "tenant-0");
    assert_string_equal(p->seen.users[2], "tenant-1");
    assert_true(report.seconds >= 0.004);
    assert_int_equal(report.queue.count, 3);
    llm_request_trace_fini(&trace);
    end(p);
}

static void a_part_of_a_trace_is_replayed_with_lengths_divided(void** state) {
    (void)state;
    pair* p = &shared_pair;
    begin(p, answer_counted, 1);
    llm_request_trace trace;
    http_trace_options options = open_trace(p, blocks, &trace);
    options.first_row = 1;
    options.row_count = 1;
    options.divide = 2;
    options.concurrency = 1;
    http_load_report report;
    load(&options, &report);
    assert_int_equal(p->seen.count, 1);
    assert_int_equal(count_words(p->seen.prompts[0]), 16);
    assert_int_equal(p->seen.lengths[0], 1);
    assert_int_equal(report.token.count, 0); // no token behind the first
    llm_request_trace_fini(&trace);
    end(p);
}

static void no_more_requests_run_than_may(void** state) {
    (void)state;
    pair* p = &shared_pair;
    begin(p, answer_counted, 8);
    char text[4096] = "num_prefill_tokens,num_decode_tokens\n";
    for (int i = 0; i < 40; i++)
        strcat(text, "5,2\n");
    llm_request_trace trace;
    http_trace_options options = open_trace(p, text, &trace);
    options.concurrency = 3;
    http_load_report report;
    load(&options, &report);
    assert_int_equal(report.ends[CLIENT_ANSWERED], 40);
    assert_in_range(p->seen.most_running, 1, 3);
    llm_request_trace_fini(&trace);
    end(p);
}

static void what_is_refused_is_counted_by_status(void** state) {
    (void)state;
    pair* p = &shared_pair;
    begin(p, answer_counted, 1);
    p->seen.refuse_at = 2;
    llm_request_trace trace;
    http_trace_options options = open_trace(p, blocks, &trace);
    options.concurrency = 1;
    http_load_report report;
    load(&options, &report);
    assert_int_equal(report.ends[CLIENT_ANSWERED], 2);
    assert_int_equal(report.ends[CLIENT_REFUSED], 1);
    assert_int_equal(report.status_count, 2);
    assert_int_equal(report.statuses[0].http_status, 200);
    assert_int_equal(report.statuses[0].count, 2);
    assert_int_equal(report.statuses[1].http_status, 429);
    assert_int_equal(report.statuses[1].count, 1);
    assert_mentions(&report.first_error, "slow down");
    assert_int_equal(report.first.count, 2);
    llm_request_trace_fini(&trace);
    end(p);
}

static void answers_are_counted_by_events_where_the_server_does_not_count(void** state) {
    (void)state;
    pair* p = &shared_pair;
    begin(p, answer_counted, 2);
    p->seen.counts_tokens = false;
    llm_request_trace trace;
    http_trace_options options = open_trace(p, blocks, &trace);
    http_load_report report;
    load(&options, &report);
    assert_int_equal(report.answer_tokens, 10);
    assert_int_equal(report.prompt_tokens, 0);
    assert_int_equal(report.uncounted, 3);
    assert_int_equal(report.unknown_cache, 3);
    llm_request_trace_fini(&trace);
    end(p);
}

static bool answer_short(stub* s, int fd, const stub_request* request) {
    (void)s;
    (void)request;
    stub_begin_stream(fd);
    stub_send_chunk(fd, STUB_TEXT("x") STUB_USAGE(5, 0, 1) STUB_DONE);
    return stub_end_stream(fd);
}

static void answers_of_another_length_are_counted(void** state) {
    (void)state;
    pair* p = &shared_pair;
    begin(p, answer_short, 2);
    llm_request_trace trace;
    const http_trace_options options = open_trace(p, blocks, &trace);
    http_load_report report;
    load(&options, &report);
    assert_int_equal(report.other_lengths, 3);
    llm_request_trace_fini(&trace);
    end(p);
}

// ---- Stopping, and what goes wrong.

static volatile sig_atomic_t stop;
static pthread_t loader; ///< the thread that is told to stop

static void on_signal(int number) {
    (void)number;
    stop = 1;
}

static bool answer_and_stop(stub* s, int fd, const stub_request* request) {
    (void)s;
    (void)request;
    pthread_kill(loader, SIGUSR1);
    return stub_wait_for_close(fd);
}

static void a_load_that_is_stopped_leaves_its_requests(void** state) {
    (void)state;
    pair* p = &shared_pair;
    loader = pthread_self();
    stop = 0;
    const struct sigaction action = {.sa_handler = on_signal};
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    begin(p, answer_and_stop, 2);
    llm_request_trace trace;
    http_trace_options options = open_trace(p, blocks, &trace);
    options.stop = &stop;
    http_load_report report;
    load(&options, &report);
    assert_true(report.was_stopped);
    assert_int_equal(report.done, 0);
    assert_true(report.seconds == 0.0);
    assert_int_equal(client_running(p->client), 0);
    llm_request_trace_fini(&trace);
    end(p);
}

static void assert_refused(const http_trace_options* options, const char* mention) {
    http_load_report report;
    llm_error error;
    assert_int_equal(http_load_trace(options, &report, &error), BERTH_ERR_INVALID_ARGUMENT);
    assert_mentions(&error, mention);
}

static void options_that_cannot_be_are_named(void** state) {
    (void)state;
    pair* p = &shared_pair;
    begin(p, answer_counted, 1);
    llm_request_trace trace;
    http_trace_options options = open_trace(p, blocks, &trace);
    options.row_count = 4;
    assert_refused(&options, "4 requests");
    options.row_count = 0;
    assert_refused(&options, "0 requests");
    options.row_count = 3;
    options.divide = 0;
    assert_refused(&options, "divisor");
    options.divide = 1;
    options.tenants = 0;
    assert_refused(&options, "0 tenants");
    options.tenants = 1;
    options.speed = -1.0;
    assert_refused(&options, "speed -1");
    options.speed = 0.0;
    options.concurrency = 0;
    assert_refused(&options, "0 at a time");
    options.concurrency = 2; // the client has but one
    http_load_report report;
    llm_error error;
    assert_int_equal(http_load_trace(&options, &report, &error), BERTH_ERR_STATE);
    llm_request_trace_fini(&trace);
    options = open_trace(p, "num_prefill_tokens,num_decode_tokens\n1,1\n", &trace);
    options.speed = 1.0;
    assert_refused(&options, "does not say when");
    llm_request_trace_fini(&trace);
    const uint64_t due_ns[] = {5, 4};
    const http_load_options wrong = {
        .client = p->client, .concurrency = 1, .count = 2, .due_ns = due_ns};
    assert_int_equal(http_load(&wrong, &report, &error), BERTH_ERR_INVALID_ARGUMENT);
    assert_mentions(&error, "request 1 is due before");
    end(p);
}

static void every_allocation_may_fail(void** state) {
    (void)state;
    pair* p = &shared_pair;
    begin(p, answer_short, 2);
    llm_request_trace trace;
    const http_trace_options options = open_trace(p, blocks, &trace);
    bool is_whole = false;
    for (uint64_t fail_at = 1; !is_whole; fail_at++) {
        alloc_watch watch;
        http_load_report report;
        llm_error error;
        watch_begin(&watch, fail_at);
        const berth_status status = http_load_trace(&options, &report, &error);
        watch_end();
        is_whole = watch.calls < fail_at;
        if (is_whole)
            assert_int_equal(report.ends[CLIENT_ANSWERED], 3);
        else if (status == BERTH_OK)
            assert_in_range(report.ends[CLIENT_FAILED], 1, 3);
        else
            assert_int_equal(status, BERTH_ERR_OUT_OF_MEMORY);
        assert_true(fail_at < 200);
    }
    llm_request_trace_fini(&trace);
    end(p);
}

// ---- The report.

static void the_report_is_text_and_json(void** state) {
    (void)state;
    http_load_report report = {.requests = 4,
                               .done = 4,
                               .ends = {[CLIENT_ANSWERED] = 3, [CLIENT_REFUSED] = 1},
                               .statuses = {{200, 3}, {503, 1}},
                               .status_count = 2,
                               .first_error = {"HTTP status 503: full"},
                               .seconds = 2.0,
                               .prompt_tokens = 200,
                               .cached_tokens = 50,
                               .answer_tokens = 30,
                               .uncounted = 1,
                               .unknown_cache = 1,
                               .other_lengths = 1,
                               .first = {.count = 3, .p50_ms = 12.5}};
    char* text = NULL;
    size_t size = 0;
    FILE* out = open_memstream(&text, &size);
    http_load_report_print(out, &report);
    fclose(out);
    static const char* const mentions[] = {"Answered 3 of 4 requests in 2.00 s",
                                           "refused",
                                           "HTTP status 503",
                                           "the first: HTTP status 503: full",
                                           "25.00%",
                                           "15.0",
                                           "another length",
                                           "did not count",
                                           "did not say",
                                           "12.5"};
    for (size_t i = 0; i < sizeof mentions / sizeof *mentions; i++)
        if (strstr(text, mentions[i]) == NULL) fail_msg("no '%s' in:\n%s", mentions[i], text);
    free(text);
    for (uint64_t unknown = 1; unknown <= 3; unknown += 2) {
        report.unknown_cache = unknown;
        out = open_memstream(&text, &size);
        http_load_report_write_json(out, &report);
        fclose(out);
        json_t* object = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
        const json_t* mode = json_array_get(json_object_get(object, "modes"), 0);
        assert_string_equal(json_string_value(json_object_get(mode, "mode")), "url");
        assert_int_equal(
            json_integer_value(json_object_get(json_object_get(mode, "statuses"), "503")), 1);
        assert_int_equal(
            json_integer_value(json_object_get(json_object_get(mode, "ends"), "refused")), 1);
        assert_true(json_real_value(json_object_get(mode, "tok_s")) == 15.0);
        const json_t* first = json_object_get(mode, "ttft");
        assert_true(json_real_value(json_object_get(first, "p50_ms")) == 12.5);
        assert_int_equal(json_is_null(json_object_get(mode, "hit_rate")), unknown == 3);
        json_decref(object);
        free(text);
    }
}

// ---- Words.

static void no_word_is_there_twice(void** state) {
    (void)state;
    for (uint32_t i = 0; i < HTTP_LOAD_WORDS; i++)
        for (uint32_t k = i + 1; k < HTTP_LOAD_WORDS; k++)
            assert_string_not_equal(http_load_word(i), http_load_word(k));
    assert_string_equal(http_load_word(HTTP_LOAD_WORDS), http_load_word(0));
}

/// Asserts that all words are one token each in a vocabulary of the shared data.
static void assert_one_token_each(const char* name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/data/gguf/%s", shared_data_folder("vocabularies"), name);
    llm_error error;
    llm_gguf* gguf;
    llm_tokenizer* tokenizer;
    if (llm_gguf_open(path, true, &gguf, &error) != BERTH_OK) fail_msg("%s", error.text);
    assert_int_equal(llm_tokenizer_create(gguf, &tokenizer, &error), BERTH_OK);
    int32_t ids[HTTP_LOAD_WORDS];
    for (int32_t i = 0; i < HTTP_LOAD_WORDS; i++)
        ids[i] = i;
    llm_bytes text = {0};
    llm_tokens tokens = {0};
    assert_int_equal(http_load_write_words(ids, HTTP_LOAD_WORDS, &text, &error), BERTH_OK);
    assert_int_equal(
        llm_tokenizer_encode(
            tokenizer, (llm_str){text.data, text.size}, LLM_ENCODE_PLAIN, &tokens, &error),
        BERTH_OK);
    assert_int_equal(tokens.count, HTTP_LOAD_WORDS);
    llm_tokens_fini(&tokens);
    llm_bytes_fini(&text);
    llm_tokenizer_destroy(tokenizer);
    llm_gguf_close(gguf);
}

static void a_word_is_a_token(void** state) {
    (void)state;
    assert_one_token_each("vocab-llama-spm.gguf");
    assert_one_token_each("vocab-starcoder.gguf");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_have_the_traces_lengths_and_begin_alike_where_it_says_so),
        cmocka_unit_test(requests_come_in_the_order_of_their_arrival),
        cmocka_unit_test(a_part_of_a_trace_is_replayed_with_lengths_divided),
        cmocka_unit_test(no_more_requests_run_than_may),
        cmocka_unit_test(what_is_refused_is_counted_by_status),
        cmocka_unit_test(answers_are_counted_by_events_where_the_server_does_not_count),
        cmocka_unit_test(answers_of_another_length_are_counted),
        cmocka_unit_test(a_load_that_is_stopped_leaves_its_requests),
        cmocka_unit_test(options_that_cannot_be_are_named),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(the_report_is_text_and_json),
        cmocka_unit_test(no_word_is_there_twice),
        cmocka_unit_test(a_word_is_a_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
