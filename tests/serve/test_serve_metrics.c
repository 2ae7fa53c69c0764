// SPDX-License-Identifier: Apache-2.0
// Tests of a server's numbers: kept, taken, and told in both forms.
#include "serve_metrics_table.h"

#include "llm/scheduler_kit.h"
#include "serve/exposition_kit.h"

#include <jansson.h>
#include <pthread.h>

enum { CHATS = 8, LONGEST = 60, THREADS = 4, ROUNDS = 2000 };

static const api_about about = {
    .model_name = "tiny", .created = 1700000000, .kv_type = "f32", .version = "1.2.3"};
static const serve_budget some_budget = {
    .total_bytes = 64 << 20, .weights_bytes = 1 << 20, .device_bytes = 32 << 20, .kv_tokens = 4096};
static random_file tiny;
static chat chats[CHATS];

static int open_tiny(void** state) {
    (void)state;
    llm_random_spec spec = llm_random_spec_tiny(7);
    tiny = random_file_open(&spec);
    chats_make(chats, CHATS, tiny.gguf, 1, LONGEST);
    return 0;
}

static int close_tiny(void** state) {
    (void)state;
    random_file_close(&tiny);
    return 0;
}

/// Both forms of the same numbers.
typedef struct forms {
    exposition text;
    json_t* json;
} forms;

static void forms_open(forms* f,
                       const api_about* whose,
                       const serve_snapshot* snapshot,
                       const serve_counters* counters) {
    llm_bytes bytes = {0};
    assert_true(serve_metrics_render(whose, snapshot, counters, &bytes));
    exposition_open(&f->text, &bytes);
    bytes.size = 0;
    assert_true(serve_memory_render(whose, snapshot, counters, &bytes));
    json_error_t error;
    f->json = json_loadb(bytes.data, bytes.size, JSON_REJECT_DUPLICATES, &error);
    if (f->json == NULL) fail_msg("%s", error.text);
    llm_bytes_fini(&bytes);
}

static void forms_close(forms* f) {
    exposition_close(&f->text);
    json_decref(f->json);
}

/// The member at a path of names with dots between.
static json_t* member(json_t* root, const char* path) {
    char name[128];
    snprintf(name, sizeof name, "%s", path);
    char* rest = name;
    for (char* part = strsep(&rest, "."); part != NULL; part = strsep(&rest, "."))
        root = json_object_get(root, part);
    if (root == NULL) fail_msg("%s is missing", path);
    return root;
}

static double number(const forms* f, const char* path) {
    json_t* found = member(f->json, path);
    assert_true(json_is_number(found));
    return json_number_value(found);
}

static size_t count_numbers(json_t* value) {
    if (!json_is_object(value)) return json_is_number(value);
    size_t count = 0;
    const char* key;
    json_t* inner;
    json_object_foreach(value, key, inner) count += count_numbers(inner);
    return count;
}

static void take(server* s, serve_latencies* latencies, serve_snapshot* out) {
    if (serve_snapshot_take(out, s->model, s->scheduler, latencies, &some_budget, &s->error) !=
        BERTH_OK)
        fail_msg("%s", s->error.text);
}

/// A snapshot whose numbers all differ, as counts and as shares.
static void fill_snapshot(serve_snapshot* out) {
    *out = (serve_snapshot){.unix_seconds = about.created + 90};
    size_t count;
    const serve_series* list = serve_series_list(&count);
    for (size_t i = 0; i < count; i++) {
        if (list[i].offset >= sizeof *out) continue; // what is derived
        const uint64_t whole = 1000003 * (i + 1);
        const double real = (double)whole / 7.0;
        char* at = (char*)out + list[i].offset;
        memcpy(at, list[i].scale == SERVE_REAL ? (const void*)&real : (const void*)&whole, 8);
    }
}

// ---- Both forms.

// ME1.
static void both_forms_tell_the_same_numbers(void** state) {
    (void)state;
    static serve_counters counters;
    for (int i = 0; i < SERVE_ENDPOINT_COUNT; i++)
        for (int j = 0; j <= i; j++)
            serve_counters_request(&counters, (serve_endpoint)i, 200);
    serve_snapshot snapshot;
    fill_snapshot(&snapshot);
    forms f;
    forms_open(&f, &about, &snapshot, &counters);
    size_t count;
    const serve_series* list = serve_series_list(&count);
    for (size_t i = 0; i < count; i++) {
        char name[128];
        snprintf(name, sizeof name, "berth_%s", serve_families()[list[i].family].name);
        if (sample_of(&f.text, name, list[i].labels) != number(&f, list[i].path))
            fail_msg("%s{%s} differs from %s", name, list[i].labels, list[i].path);
    }
    json_object_del(f.json, "latency");
    assert_int_equal(count_numbers(f.json), count); // no path stands there twice
    assert_true(number(&f, "http.requests.models.2xx") == SERVE_ENDPOINT_MODELS + 1);
    forms_close(&f);
}

static void every_number_stands_under_its_name(void** state) {
    (void)state;
    static const serve_counters counters;
    serve_snapshot s;
    fill_snapshot(&s);
    const struct {
        const char* path;
        uint64_t value;
    } rows[] = {
        {"budget.total_bytes", s.budget.total_bytes},
        {"budget.kv_tokens", s.budget.kv_tokens},
        {"memory.weights_bytes", s.weight_bytes},
        {"memory.frames_bytes", s.memory.frames_bytes},
        {"memory.pool_bytes", s.memory.pool_bytes},
        {"memory.kv_used_bytes", s.kv.held_blocks * s.kv.block_bytes},
        {"memory.kv_cached_bytes", s.kv.cached_blocks * s.kv.block_bytes},
        {"memory.ahead_bytes", s.memory.ahead_bytes},
        {"memory.host_bytes", s.memory.host_bytes},
        {"memory.peak_bytes", s.memory.peak_mapped_bytes},
        {"memory.refusals", s.memory.failures},
        {"kv.used_blocks", s.kv.held_blocks},
        {"kv.cached_blocks", s.kv.cached_blocks},
        {"kv.free_blocks", s.kv.free_blocks},
        {"kv.used_tokens", s.kv.held_tokens},
        {"kv.cached_tokens", s.kv.cached_tokens},
        {"kv.wasted_tokens", s.kv.wasted_tokens},
        {"kv.prompt_tokens.hit", s.kv.hit_tokens},
        {"kv.prompt_tokens.evicted", s.kv.miss_evicted},
        {"kv.prompt_tokens.other_tenant", s.kv.miss_other_tenant},
        {"scheduler.queued", s.scheduler.queued},
        {"scheduler.parked", s.scheduler.parked},
        {"scheduler.parks_host", s.scheduler.parks_host},
        {"scheduler.parks_drop", s.scheduler.parks_drop},
        {"scheduler.parks_share", s.scheduler.parks_share},
        {"scheduler.ended.refused_quota", s.scheduler.refused_quota},
        {"throughput.answer_tokens", s.scheduler.decoded_tokens},
        {"plans.prefill.miss_new_bucket", s.prefill.miss_new_bucket},
        {"plans.decode.restored", s.decode.plans_restored},
        {"fragmentation.largest_free_bytes", s.health.largest_free_bytes},
        {"fragmentation.requests.grew", s.health.grew},
        {"fragmentation.forecasts.false_negative", s.health.false_negatives},
        {"compaction.wanted.index", s.health.wanted_for_fi},
        {"compaction.emptied_bytes", s.health.compact_emptied_bytes},
    };
    forms f;
    forms_open(&f, &about, &s, &counters);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (number(&f, rows[i].path) != (double)rows[i].value)
            fail_msg("%s is %.0f", rows[i].path, number(&f, rows[i].path));
    assert_true(number(&f, "fragmentation.index_expected") ==
                (double)s.health.fi_predicted_ppm / 1e6);
    assert_true(number(&f, "plans.decode.plan_seconds") == (double)s.decode.plan_ns / 1e9);
    forms_close(&f);
}

static void units_are_seconds_bytes_and_shares(void** state) {
    (void)state;
    serve_snapshot snapshot = {.time_ns = 1500000000,
                               .unix_seconds = about.created + 90,
                               .health.fi_ppm = 250000,
                               .health.compact_p99_ns = 2000,
                               .scheduler.kv_ns = 3000000,
                               .speed.answer_tokens = 12.5};
    static const serve_counters counters;
    forms f;
    forms_open(&f, &about, &snapshot, &counters);
    assert_true(sample_of(&f.text, "berth_clock_seconds", "") == 1.5);
    assert_true(sample_of(&f.text, "berth_uptime_seconds", "") == 90);
    assert_true(sample_of(&f.text, "berth_fragmentation_index", "when=\"now\"") == 0.25);
    assert_true(sample_of(&f.text, "berth_compaction_slice_seconds", "which=\"p99\"") == 2e-6);
    assert_true(sample_of(&f.text, "berth_step_seconds_total", "part=\"kv\"") == 0.003);
    assert_true(sample_of(&f.text, "berth_tokens_per_second", "kind=\"answer\"") == 12.5);
    for (size_t i = 0; i < f.text.family_count; i++) {
        const char* name = f.text.families[i].name;
        assert_null(strstr(name, "_ns"));
        assert_null(strstr(name, "_ms"));
        assert_null(strstr(name, "ppm"));
    }
    forms_close(&f);
}

static void names_of_any_bytes_are_told_as_valid_text(void** state) {
    (void)state;
    static const struct {
        const char* name;
        const char* label; ///< as it stands in the text
        const char* json;
    } names[] = {{"a \"b\" \\c\nd", "a \\\"b\\\" \\\\c\\nd", "a \"b\" \\c\nd"},
                 {"\xff"
                  "a\xc3",
                  "?a?",
                  "?a?"},
                 {"Modèle", "Modèle", "Modèle"},
                 {NULL, "", ""}};
    static const serve_counters counters;
    const serve_snapshot snapshot = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        api_about named = about;
        named.model_name = names[i].name;
        forms f;
        forms_open(&f, &named, &snapshot, &counters);
        char labels[128];
        snprintf(labels,
                 sizeof labels,
                 "version=\"1.2.3\",model=\"%s\",kv_type=\"f32\"",
                 names[i].label);
        assert_true(sample_of(&f.text, "berth_build_info", labels) == 1);
        assert_string_equal(json_string_value(member(f.json, "server.model")), names[i].json);
        forms_close(&f);
    }
}

static void a_long_name_is_cut_between_characters(void** state) {
    (void)state;
    char name[1024];
    for (size_t i = 0; i + 2 < sizeof name; i += 2)
        memcpy(name + i, "é", 2);
    name[sizeof name - 2] = '\0';
    api_about named = about;
    named.model_name = name;
    static const serve_counters counters;
    const serve_snapshot snapshot = {0};
    forms f;
    forms_open(&f, &named, &snapshot, &counters);
    assert_in_range(json_string_length(member(f.json, "server.model")), 200, 300);
    forms_close(&f);
}

static void numbers_beyond_all_bounds_are_told_as_the_largest(void** state) {
    (void)state;
    serve_snapshot snapshot;
    memset(&snapshot, 0xff, sizeof snapshot);
    snapshot.latencies = (serve_latencies){0};
    snapshot.speed = (serve_speed){0};
    static const serve_counters counters;
    forms f;
    forms_open(&f, &about, &snapshot, &counters);
    assert_true(number(&f, "memory.frames_bytes") == (double)INT64_MAX);
    assert_true(number(&f, "memory.free_bytes") >= 0);
    forms_close(&f);
}

static void a_form_for_which_memory_is_short_is_no_form(void** state) {
    (void)state;
    static const serve_counters counters;
    serve_snapshot snapshot;
    fill_snapshot(&snapshot);
    llm_bytes out = {0};
    assert_int_equal(llm_bytes_append(&out, "before", 6, NULL), BERTH_OK);
    alloc_watch watch;
    for (uint64_t fail_at = 1;; fail_at++) {
        out.capacity = 6; // so that it has to grow
        watch_begin(&watch, fail_at);
        const bool is_made = serve_metrics_render(&about, &snapshot, &counters, &out);
        watch_end();
        if (is_made) break;
        assert_int_equal(out.size, 6);
    }
    assert_true(watch.calls > 3);
    assert_memory_equal(out.data, "before# HELP berth_build_info ", 30);
    out.size = 6;
    out.capacity = 6;
    watch_begin(&watch, 1);
    assert_false(serve_memory_render(&about, &snapshot, &counters, &out));
    watch_end();
    assert_int_equal(out.size, 6);
    llm_bytes_fini(&out);
}

static alloc_watch json_watch;

static void* json_alloc(size_t bytes) {
    return watch_alloc(&json_watch, bytes) ? malloc(bytes) : NULL;
}

static void json_for_which_memory_is_short_is_none(void** state) {
    (void)state;
    static const serve_counters counters;
    serve_snapshot snapshot;
    fill_snapshot(&snapshot);
    serve_histogram_observe(&snapshot.latencies.queue, SERVE_SECONDS, 1.5);
    llm_bytes out = {0};
    assert_int_equal(llm_bytes_append(&out, "before", 6, NULL), BERTH_OK);
    json_malloc_t old_alloc;
    json_free_t old_free;
    json_get_alloc_funcs(&old_alloc, &old_free);
    bool is_made = false;
    for (uint64_t fail_at = 1; !is_made; fail_at++) {
        json_watch = (alloc_watch){.fail_at = fail_at};
        json_set_alloc_funcs(json_alloc, free);
        is_made = serve_memory_render(&about, &snapshot, &counters, &out);
        json_set_alloc_funcs(old_alloc, old_free);
        if (!is_made) assert_int_equal(out.size, 6);
    }
    assert_true(json_watch.calls > 500);
    assert_memory_equal(out.data, "before{", 7);
    llm_bytes_fini(&out);
}

// ---- Histograms and rates.

static void buckets_hold_what_does_not_exceed_them(void** state) {
    (void)state;
    serve_histogram h = {0};
    size_t count;
    const double* bounds = serve_histogram_bounds(SERVE_TOKENS, &count);
    serve_histogram_observe(&h, SERVE_TOKENS, 1);
    serve_histogram_observe(&h, SERVE_TOKENS, 2);
    serve_histogram_observe(&h, SERVE_TOKENS, 3);
    serve_histogram_observe(&h, SERVE_TOKENS, bounds[count - 1]);
    serve_histogram_observe(&h, SERVE_TOKENS, bounds[count - 1] + 1);
    assert_int_equal(h.counts[0], 1);
    assert_int_equal(h.counts[1], 1);
    assert_int_equal(h.counts[2], 1);
    assert_int_equal(h.counts[count - 1], 1);
    assert_int_equal(h.counts[count], 1);
    assert_int_equal(serve_histogram_count(&h), 5);
    assert_true(h.sum == 6 + 2 * bounds[count - 1] + 1);
}

static void values_that_are_none_count_as_zero(void** state) {
    (void)state;
    serve_histogram h = {0};
    const double odd[] = {nan(""), HUGE_VAL, -HUGE_VAL, -1.0};
    for (size_t i = 0; i < 4; i++)
        serve_histogram_observe(&h, SERVE_SECONDS, odd[i]);
    assert_int_equal(h.counts[0], 4);
    assert_true(h.sum == 0.0);
}

static void quantiles_are_within_a_bucket_of_the_truth(void** state) {
    (void)state;
    serve_histogram h = {0};
    assert_true(serve_histogram_quantile(&h, SERVE_SECONDS, 0.5) == 0.0);
    for (int i = 1; i <= 1000; i++)
        serve_histogram_observe(&h, SERVE_SECONDS, i * 1e-3);
    const double shares[] = {0.01, 0.1, 0.5, 0.9, 0.99};
    for (size_t i = 0; i < 5; i++) {
        const double told = serve_histogram_quantile(&h, SERVE_SECONDS, shares[i]);
        if (fabs(told - shares[i]) > 0.03 * shares[i])
            fail_msg("%.2f of the values are told as %.4f", shares[i], told);
    }
    assert_true(serve_histogram_quantile(&h, SERVE_SECONDS, 1.0) == 1.0);
    serve_histogram one = {0};
    serve_histogram_observe(&one, SERVE_SECONDS, 5000.0); // beyond all bounds
    const double told = serve_histogram_quantile(&one, SERVE_SECONDS, 0.99);
    assert_true(told > 600.0 && told <= 5000.0);
}

static void rates_are_of_the_last_ten_seconds(void** state) {
    (void)state;
    const uint64_t tenth = 100000000;
    serve_rate rate = {0};
    serve_speed speed = {0};
    for (uint64_t tick = 0; tick <= 400; tick++) { // twice as fast in the second half
        const uint64_t answers = tick <= 200 ? tick : 200 + 2 * (tick - 200);
        speed = serve_rate_note(&rate, &(serve_mark){(tick + 1) * tenth, 3 * tick, answers});
        if (tick > 0) assert_true(fabs(speed.prompt_tokens - 30.0) < 1e-9);
        if (tick > 0 && tick <= 200) assert_true(fabs(speed.answer_tokens - 10.0) < 1e-9);
        if (tick >= 300) assert_true(fabs(speed.answer_tokens - 20.0) < 1e-9);
    }
    assert_true(speed.answer_tokens > 0.0);
    speed = serve_rate_note(&rate, &(serve_mark){1000 * tenth, 1200, 600}); // after a long rest
    assert_true(speed.prompt_tokens == 0.0 && speed.answer_tokens == 0.0);
}

// ---- Requests that end.

static void times_of_a_request_are_counted_as_far_as_it_came(void** state) {
    (void)state;
    const uint64_t second = 1000000000;
    const llm_request_end end = {.reason = LLM_END_STOP_TOKEN,
                                 .prompt_tokens = 100,
                                 .answer_tokens = 5,
                                 .submit_ns = second,
                                 .admit_ns = 2 * second,
                                 .first_token_ns = 4 * second,
                                 .end_ns = 6 * second};
    serve_latencies all = {0};
    serve_latencies_observe(&all, &end);
    assert_true(all.queue.sum == 1.0);
    assert_true(all.first_token.sum == 3.0);
    assert_true(all.each_token.sum == 0.5);
    assert_true(all.whole.sum == 5.0);
    assert_true(all.prompt_tokens.sum == 100.0);
    assert_true(all.answer_tokens.sum == 5.0);

    serve_latencies cut = {0}; // left in the middle of its answer
    llm_request_end left = end;
    left.reason = LLM_END_CANCELLED;
    serve_latencies_observe(&cut, &left);
    assert_int_equal(serve_histogram_count(&cut.queue), 1);
    assert_int_equal(serve_histogram_count(&cut.first_token), 1);
    assert_int_equal(serve_histogram_count(&cut.each_token), 0);
    assert_int_equal(serve_histogram_count(&cut.whole), 0);

    serve_latencies none = {0}; // refused when it came
    serve_latencies_observe(
        &none, &(llm_request_end){.reason = LLM_END_REFUSED_QUEUE_FULL, .submit_ns = second});
    assert_memory_equal(&none, &(serve_latencies){0}, sizeof none);

    serve_latencies single = {0}; // one token has no time of a further one
    llm_request_end one = end;
    one.answer_tokens = 1;
    serve_latencies_observe(&single, &one);
    assert_int_equal(serve_histogram_count(&single.each_token), 0);
    assert_int_equal(serve_histogram_count(&single.whole), 1);
}

// ---- The HTTP side.

static void statuses_are_counted_by_class(void** state) {
    (void)state;
    serve_counters c = {0};
    const unsigned statuses[] = {200, 204, 400, 429, 499, 500, 503, 0};
    for (size_t i = 0; i < 8; i++)
        serve_counters_request(&c, SERVE_ENDPOINT_CHAT, statuses[i]);
    assert_int_equal(c.requests[SERVE_ENDPOINT_CHAT][SERVE_STATUS_OK], 2);
    assert_int_equal(c.requests[SERVE_ENDPOINT_CHAT][SERVE_STATUS_CLIENT], 3);
    assert_int_equal(c.requests[SERVE_ENDPOINT_CHAT][SERVE_STATUS_SERVER], 2);
    assert_int_equal(c.requests[SERVE_ENDPOINT_CHAT][SERVE_STATUS_NONE], 1);
}

static void* count_all(void* user) {
    serve_counters* c = user;
    for (int i = 0; i < ROUNDS; i++) {
        serve_counters_open(c);
        serve_counters_stream_begin(c);
        serve_counters_request(c, SERVE_ENDPOINT_PAGE, 200);
        serve_counters_receive(c, 3);
        serve_counters_send(c, 5);
        serve_counters_leave(c);
        serve_counters_stream_end(c);
        serve_counters_close(c);
    }
    return NULL;
}

static void threads_count_together(void** state) {
    (void)state;
    serve_counters c = {0};
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_all, &c), 0);
    const serve_snapshot snapshot = {0};
    llm_bytes out = {0}; // it may be told meanwhile
    assert_true(serve_memory_render(&about, &snapshot, &c, &out));
    llm_bytes_fini(&out);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    forms f;
    forms_open(&f, &about, &snapshot, &c);
    assert_true(number(&f, "http.connections") == 0);
    assert_true(number(&f, "http.streams") == 0);
    assert_true(number(&f, "http.connections_total") == THREADS * ROUNDS);
    assert_true(number(&f, "http.clients_gone") == THREADS * ROUNDS);
    assert_true(number(&f, "http.requests.page.2xx") == THREADS * ROUNDS);
    assert_true(number(&f, "http.received_bytes") == 3 * THREADS * ROUNDS);
    assert_true(number(&f, "http.sent_bytes") == 5 * THREADS * ROUNDS);
    forms_close(&f);
}

// ---- A model that serves.

/// Sum of the members of an object.
static double sum_of(const forms* f, const char* path) {
    double sum = 0.0;
    const char* key;
    json_t* value;
    json_object_foreach(member(f->json, path), key, value) sum += json_number_value(value);
    return sum;
}

/// What is the same for every server: parts make up their whole.
static void assert_sums(const forms* f, const serve_snapshot* s) {
    static const char* const owners[] = {
        "weights", "frames", "pool", "kv_used", "kv_cached", "kv_free", "ahead", "host", "free"};
    double sum = 0.0;
    for (size_t i = 0; i < sizeof owners / sizeof *owners; i++) {
        char labels[64];
        snprintf(labels, sizeof labels, "owner=\"%s\"", owners[i]);
        sum += sample_of(&f->text, "berth_memory_bytes", labels);
    }
    assert_true(sum == (double)s->budget.total_bytes);
    assert_true(sum_of(f, "kv.prompt_tokens") == (double)s->kv.prompt_tokens);
    const double whole = (double)s->scheduler.whole_ns * 1e-9;
    assert_true(fabs(sum_of(f, "scheduler.seconds") - whole) < 1e-6 + 1e-6 * whole);
    static const char* const steps[] = {"prefill", "decode"};
    const uint64_t runs[] = {s->prefill.runs, s->decode.runs};
    for (size_t i = 0; i < 2; i++) {
        double told = 0.0;
        static const char* const outcomes[] = {"hit", "partial", "side_exit", "recorded"};
        for (size_t j = 0; j < 4; j++) {
            char path[64];
            snprintf(path, sizeof path, "plans.%s.%s", steps[i], outcomes[j]);
            told += number(f, path);
        }
        assert_true(told == (double)runs[i]);
    }
}

static void a_model_that_serves_shows_what_it_did(void** state) {
    (void)state;
    static const serve_counters counters;
    static serve_latencies latencies;
    server s;
    server_open(&s, tiny.gguf, &(server_options){0});
    int64_t prompts = 0;
    int64_t answers = 0;
    int64_t cached = 0;
    for (int round = 0; round < 2; round++) {
        assert_all_answered(&s, chats, CHATS);
        for (size_t i = 0; i < CHATS; i++) {
            serve_latencies_observe(&latencies, &chats[i].end);
            prompts += chats[i].prompt_count;
            answers += chats[i].count;
            cached += chats[i].end.cached_tokens;
        }
    }
    serve_snapshot snapshot;
    take(&s, &latencies, &snapshot);
    forms f;
    forms_open(&f, &about, &snapshot, &counters);
    assert_sums(&f, &snapshot);
    assert_true(number(&f, "throughput.prompt_tokens") == (double)prompts);
    assert_true(number(&f, "throughput.answer_tokens") == (double)answers);
    assert_true(cached > 0 && number(&f, "kv.prompt_tokens.hit") == (double)cached);
    assert_true(number(&f, "scheduler.ended.finished") == 2 * CHATS);
    assert_true(number(&f, "scheduler.running") == 0);
    assert_true(number(&f, "kv.used_blocks") == 0 && number(&f, "kv.cached_blocks") > 0);
    assert_true(number(&f, "memory.weights_bytes") == (double)s.model->weight_bytes);
    assert_true(number(&f, "plans.decode.hit") > 0);
    assert_true(number(&f, "latency.request_prompt_tokens.sum") == (double)prompts);
    assert_true(sample_of(&f.text, "berth_time_to_first_token_seconds_count", "") == 2 * CHATS);
    assert_true(number(&f, "latency.time_to_first_token_seconds.p50") > 0);
    assert_true(number(&f, "server.resident_bytes") > 1 << 20);
    forms_close(&f);
    server_close(&s);
}

static void a_model_in_the_middle_of_its_work_shows_who_waits(void** state) {
    (void)state;
    static const serve_counters counters;
    serve_latencies latencies = {0};
    server s;
    server_open(
        &s,
        tiny.gguf,
        &(server_options){.scheduler = {.max_running = 3, .max_queued = 4, .parks_always = true}});
    chats_forget(chats, CHATS);
    for (size_t i = 0; i < CHATS; i++)
        server_submit(&s, &chats[i]);
    for (int i = 0; i < 3; i++)
        (void)server_step(&s);
    serve_snapshot snapshot;
    take(&s, &latencies, &snapshot);
    forms f;
    forms_open(&f, &about, &snapshot, &counters);
    assert_sums(&f, &snapshot);
    assert_true(number(&f, "scheduler.submitted") == CHATS);
    assert_true(number(&f, "scheduler.ended.refused_queue_full") == CHATS - 4);
    assert_true(number(&f, "scheduler.running") + number(&f, "scheduler.queued") +
                    number(&f, "scheduler.parked") + sum_of(&f, "scheduler.ended") ==
                CHATS);
    assert_true(number(&f, "scheduler.parks_host") + number(&f, "scheduler.parks_drop") > 0);
    assert_true(number(&f, "kv.used_blocks") > 0 && number(&f, "kv.used_tokens") > 0);
    forms_close(&f);
    server_run(&s);
    server_close(&s);
}

static void without_a_budget_free_is_what_the_device_has_left(void** state) {
    (void)state;
    static const serve_counters counters;
    const serve_snapshot snapshot = {.weight_bytes = 77,
                                     .memory = {.capacity_bytes = 1000, .mapped_bytes = 400}};
    forms f;
    forms_open(&f, &about, &snapshot, &counters);
    assert_true(number(&f, "memory.free_bytes") == 600);
    forms_close(&f);
    serve_snapshot over = snapshot; // what is over the budget is not below nothing
    over.budget.total_bytes = 450;
    forms_open(&f, &about, &over, &counters);
    assert_true(number(&f, "memory.free_bytes") == 0);
    forms_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_forms_tell_the_same_numbers),
        cmocka_unit_test(every_number_stands_under_its_name),
        cmocka_unit_test(units_are_seconds_bytes_and_shares),
        cmocka_unit_test(names_of_any_bytes_are_told_as_valid_text),
        cmocka_unit_test(a_long_name_is_cut_between_characters),
        cmocka_unit_test(numbers_beyond_all_bounds_are_told_as_the_largest),
        cmocka_unit_test(a_form_for_which_memory_is_short_is_no_form),
        cmocka_unit_test(json_for_which_memory_is_short_is_none),
        cmocka_unit_test(buckets_hold_what_does_not_exceed_them),
        cmocka_unit_test(values_that_are_none_count_as_zero),
        cmocka_unit_test(quantiles_are_within_a_bucket_of_the_truth),
        cmocka_unit_test(rates_are_of_the_last_ten_seconds),
        cmocka_unit_test(times_of_a_request_are_counted_as_far_as_it_came),
        cmocka_unit_test(statuses_are_counted_by_class),
        cmocka_unit_test(threads_count_together),
        cmocka_unit_test(a_model_that_serves_shows_what_it_did),
        cmocka_unit_test(a_model_in_the_middle_of_its_work_shows_who_waits),
        cmocka_unit_test(without_a_budget_free_is_what_the_device_has_left),
    };
    return cmocka_run_group_tests(tests, open_tiny, close_tiny);
}
