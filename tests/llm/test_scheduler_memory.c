// SPDX-License-Identifier: Apache-2.0
// Tests of the scheduler where memory is short: everybody gets an answer or a typed refusal, and
// answers are those of memory without end.
#include "device/sim/sim_device.h"
#include "exec/exec_impl.h"
#include "kit/failing_host.h"
#include "kit/random.h"
#include "llm/scheduler_kit.h"

enum {
    CHATS = 4,
    PROMPT = 40,
    ANSWER = 160,
    KV_BYTES = 2 << 20, ///< a granule: 512 tokens of the wide model, for two and a half chats
};

static random_file wide;
static chat chats[CHATS];

/// A model whose keys and values are large beside its work: 4 KiB a token.
static llm_random_spec wide_spec(void) {
    llm_random_spec spec = llm_random_spec_tiny(9);
    spec.width = 256;
    spec.heads = 16;
    spec.kv_heads = 16;
    return spec;
}

static int open_wide(void** state) {
    (void)state;
    llm_random_spec spec = wide_spec();
    wide = random_file_open(&spec);
    rig alone;
    rig_open(&alone, wide.gguf, &(rig_options){0});
    for (size_t i = 0; i < CHATS; i++)
        chat_make(&chats[i], &alone, 100 + i, PROMPT + (int64_t)i, ANSWER);
    rig_close(&alone);
    return 0;
}

static int close_wide(void** state) {
    (void)state;
    random_file_close(&wide);
    return 0;
}

/// Four long chats on memory for two and a half, so often.
static llm_scheduler_stats assert_all_finish(const server_options* options, int times) {
    server_options o = *options;
    o.kv_bytes = KV_BYTES;
    server s;
    server_open(&s, wide.gguf, &o);
    for (int i = 0; i < times; i++)
        assert_all_answered(&s, chats, CHATS);
    llm_scheduler_stats stats = server_stats(&s);
    assert_true(server_kv_stats(&s).mapped_bytes <= KV_BYTES);
    server_close(&s);
    return stats;
}

static void four_long_chats_finish_on_memory_for_two(void** state) {
    (void)state;
    llm_scheduler_stats stats = assert_all_finish(&(server_options){0}, 2);
    print_message("%d parked, %d tokens computed again\n",
                  (int)(stats.parks_host + stats.parks_drop),
                  (int)stats.recomputed_tokens);
    assert_true(stats.parks_drop > 0);
    // parking is rare, as a request comes back only when there is room for all of it
    assert_true(stats.parks_drop <= 4 * CHATS);
}

static void a_copy_in_host_memory_saves_computing_again(void** state) {
    (void)state;
    llm_scheduler_stats stats = assert_all_finish(
        &(server_options){.park_bytes = 16 << 20, .scheduler = {.parking = BERTH_KV_PARK_HOST}}, 1);
    assert_true(stats.parks_host > 0);
    assert_int_equal(stats.parks_drop, 0);
    assert_int_equal(stats.recomputed_tokens, 0);
}

static void a_copy_that_has_no_room_is_dropped_instead(void** state) {
    (void)state;
    llm_scheduler_stats stats = assert_all_finish(
        &(server_options){.park_bytes = 1000, .scheduler = {.parking = BERTH_KV_PARK_HOST}}, 1);
    assert_true(stats.parks_drop > 0);
    assert_int_equal(stats.parks_host, 0);
}

static void parking_before_every_step_changes_no_token(void** state) {
    (void)state;
    static const berth_kv_parking ways[] = {BERTH_KV_PARK_HOST, BERTH_KV_PARK_DROP};
    for (size_t i = 0; i < 2; i++) {
        llm_scheduler_stats stats = assert_all_finish(
            &(server_options){.park_bytes = 16 << 20,
                              .scheduler = {.parking = ways[i], .parks_always = true}},
            1);
        assert_true(stats.parks_host + stats.parks_drop > 100);
    }
}

static void options_of_memory_change_no_token_where_it_is_short(void** state) {
    (void)state;
    static const berth_option_setting settings[] = {
        {"compact", "always"},
        {"plan_cache_entries", "1"},
        {"keep", "none"},
        {"device", "sim"},
        {"poison", "both"},
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        assert_all_finish(&(server_options){.settings = &settings[i], .setting_count = 1}, 1);
}

/// One of the chats, asked for by a random tenant, alone or not, for a random part of its answer.
static void submit_random(server* s, chat* c, test_random* random) {
    static const char* const keys[] = {"a", "b"};
    *c = chats[test_random_below(random, CHATS)];
    chats_forget(c, 1);
    c->max_tokens = 1 + (int64_t)test_random_below(random, ANSWER);
    llm_request request = chat_request(c);
    request.tenant = (uint32_t)test_random_below(random, 3);
    request.key = keys[test_random_below(random, 2)];
    request.key_bytes = test_random_below(random, 2);
    request.is_private = test_random_below(random, 4) == 0;
    server_ask(s, &request);
}

static void requests_that_come_and_go_at_random_get_the_right_tokens(void** state) {
    (void)state;
    enum { MANY = 40 };
    static chat many[MANY];
    static const berth_option_setting setting = {"compact", "always"};
    server s;
    server_open(&s,
                wide.gguf,
                &(server_options){.settings = &setting,
                                  .setting_count = 1,
                                  .kv_bytes = KV_BYTES,
                                  .park_bytes = 1 << 20,
                                  .scheduler = {.max_running = 6, .tenant_running = 3}});
    test_random random = test_random_make(77);
    size_t count = 0;
    while (server_step(&s) || count < MANY) {
        if (count < MANY && test_random_below(&random, 16) == 0)
            submit_random(&s, &many[count++], &random);
        if (count > 0 && test_random_below(&random, 64) == 0)
            llm_scheduler_cancel(s.scheduler, many[test_random_below(&random, count)].id);
    }
    int answered = 0;
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(many[i].ends, 1);
        // what it has got is right, too
        assert_memory_equal(
            many[i].answer, many[i].expected, (size_t)many[i].count * sizeof(int32_t));
        if (many[i].end.reason == LLM_END_CANCELLED) continue;
        assert_answered(&many[i]);
        answered++;
    }
    llm_scheduler_stats stats = server_stats(&s);
    print_message("%d of %d answered, %d copied out, %d dropped\n",
                  answered,
                  MANY,
                  (int)stats.parks_host,
                  (int)stats.parks_drop);
    assert_in_range(answered, MANY / 3, MANY - 1);
    assert_true(stats.parks_host + stats.parks_drop > 0);
    assert_int_equal(server_kv_stats(&s).held_blocks, 0);
    server_close(&s);
}

/// Memory for 512 tokens: 513 are refused, 512 are answered.
static void assert_limit_is_told(const server_options* options) {
    llm_random_spec spec = wide_spec();
    spec.context = 4096;
    random_file file = random_file_open(&spec);
    server s;
    server_open(&s, file.gguf, options);
    chat c = {.prompt_count = 500, .max_tokens = 14}; // 513 are fed
    server_submit(&s, &c);
    assert_int_equal(c.ends, 1);
    assert_int_equal(c.end.reason, LLM_END_REFUSED_TOO_LARGE);
    assert_non_null(strstr(c.text, "514 tokens"));
    assert_non_null(strstr(c.text, "2162688 bytes")); // 33 blocks
    assert_non_null(strstr(c.text, "512 tokens"));
    assert_non_null(strstr(c.text, "2097152 bytes")); // 32
    c = (chat){.prompt_count = 499, .max_tokens = 14};
    server_submit(&s, &c);
    server_run(&s);
    assert_int_equal(c.end.reason, LLM_END_LIMIT);
    server_close(&s);
    random_file_close(&file);
}

static void what_can_never_be_had_is_refused_at_once_with_both_numbers(void** state) {
    (void)state;
    static const berth_option_setting quota = {"kv_quota", "2M"};
    assert_limit_is_told(&(server_options){.kv_bytes = KV_BYTES});
    assert_limit_is_told(&(server_options){.settings = &quota, .setting_count = 1});
}

/// The longest prompt that is taken is answered, whatever the memory.
static void assert_what_is_taken_is_answered(const char* device, const char* memory) {
    llm_random_spec spec = wide_spec();
    spec.context = 4096;
    random_file file = random_file_open(&spec);
    const berth_option_setting settings[] = {{"device", device}, {"memory", memory}};
    server s;
    server_open(&s, file.gguf, &(server_options){.settings = settings, .setting_count = 2});
    static int32_t prompt[4000];
    make_prompt(3, (int64_t)s.model->params.vocab_tokens, prompt, 4000);
    for (int round = 0; round < 2; round++) {
        chat c = {.max_tokens = 2};
        llm_request request = chat_request(&c);
        request.prompt = prompt;
        for (c.prompt_count = 4000; c.id == 0; c.prompt_count -= c.id == 0 ? 16 : 0) {
            request.prompt_count = c.prompt_count;
            c.ends = 0;
            server_ask(&s, &request);
        }
        print_message("%s %s: %d tokens\n", device, memory, (int)c.prompt_count);
        server_run(&s);
        if (c.end.reason != LLM_END_LIMIT) fail_msg("%s: %s", memory, c.text);
    }
    server_close(&s);
    random_file_close(&file);
}

static void what_is_taken_is_answered(void** state) {
    (void)state;
    assert_what_is_taken_is_answered("cpu", "6M");
    assert_what_is_taken_is_answered("cpu", "11M");
    assert_what_is_taken_is_answered("sim", "2M");
    assert_what_is_taken_is_answered("sim", "3M");
}

/// Many long chats on `megabytes` for blocks, frames and everything else.
static void assert_budget_is_kept(const char* device, int megabytes) {
    enum { MANY = 12 };
    static chat many[MANY];
    char bytes[16];
    snprintf(bytes, sizeof bytes, "%dM", megabytes);
    const berth_option_setting settings[] = {{"device", device}, {"memory", bytes}};
    server s;
    server_open(&s, wide.gguf, &(server_options){.settings = settings, .setting_count = 2});
    for (size_t i = 0; i < MANY; i++)
        many[i] = chats[i % CHATS];
    assert_all_answered(&s, many, MANY);
    assert_all_answered(&s, many, MANY);
    berth_memory_stats memory;
    assert_int_equal(berth_runtime_query_memory(s.runtime, &memory), BERTH_OK);
    llm_scheduler_stats stats = server_stats(&s);
    print_message("%s, %s: most mapped %d KiB, %d parked, %d steps refused, most in a step %d\n",
                  device,
                  bytes,
                  (int)(memory.peak_mapped_bytes >> 10),
                  (int)(stats.parks_host + stats.parks_drop),
                  (int)stats.step_refusals,
                  (int)stats.batch_max);
    assert_true(memory.peak_mapped_bytes <= (uint64_t)megabytes << 20);
    assert_in_range(stats.step_refusals, 0, 8); // what Berth says and what is promised: learned
    server_close(&s);
}

static void one_budget_for_blocks_and_steps_is_kept(void** state) {
    (void)state;
    assert_budget_is_kept("cpu", 6);
    assert_budget_is_kept("cpu", 10);
    assert_budget_is_kept("sim", 2);
    assert_budget_is_kept("sim", 3);
    assert_budget_is_kept("sim", 5);
}

// Failures.

static void every_failing_allocation_of_the_sample_is_an_end_or_an_error(void** state) {
    (void)state;
    bool has_failed = true;
    for (uint64_t nth = 1; has_failed; nth++) {
        assert_true(nth < 200);
        alloc_watch watch;
        server s;
        watch_begin(&watch, nth);
        berth_status status =
            server_try_open(&s, wide.gguf, &(server_options){.kv_bytes = KV_BYTES});
        chats_forget(chats, 2);
        int taken = 0;
        for (size_t i = 0; i < 2 && status == BERTH_OK; i++) {
            llm_request request = chat_request(&chats[i]);
            request.max_tokens = chats[i].max_tokens = 3;
            status = llm_scheduler_submit(s.scheduler, &request, &chats[i].id, &s.error);
            taken += status == BERTH_OK;
        }
        if (status == BERTH_OK) server_run(&s);
        watch_end();
        has_failed = watch.calls >= nth;
        server_close(&s);
        for (int i = 0; i < taken; i++)
            assert_int_equal(chats[i].ends, 1);
        if (status != BERTH_OK) assert_int_equal(status, BERTH_ERR_OUT_OF_MEMORY);
        for (size_t i = 0; i < 2; i++)
            chats[i].max_tokens = ANSWER;
    }
}

/// Has the chats ask for fewer tokens, so that there is time for many trials.
static void shorten(int64_t tokens) {
    chats_forget(chats, CHATS);
    for (size_t i = 0; i < CHATS; i++)
        chats[i].max_tokens = tokens;
}

static void lengthen(void) { shorten(ANSWER); }

/// Counts a chat that has to have its answer or a typed failure, and has it asked again.
static void note_end(chat* c, int* answered, int* failed) {
    assert_int_equal(c->ends, 1);
    if (c->end.reason == LLM_END_LIMIT) {
        assert_answered(c);
        ++*answered;
    } else {
        assert_int_equal(c->end.reason, LLM_END_FAILED);
        assert_true(c->end.status != BERTH_OK);
        assert_true(c->text[0] != '\0');
        ++*failed;
    }
    chats_forget(c, 1);
}

static void memory_that_others_take_ends_requests_in_few_steps(void** state) {
    (void)state;
    enum { MOST = 64 };
    static const berth_option_setting settings[] = {{"device", "sim"}, {"memory", "3M"}};
    server s;
    server_open(&s, wide.gguf, &(server_options){.settings = settings, .setting_count = 2});
    chats_forget(chats, CHATS);
    for (size_t i = 0; i < CHATS; i++)
        server_submit(&s, &chats[i]);
    void* taken[MOST];
    size_t count = 0;
    while (count < MOST && (taken[count] = berth_alloc(s.context, 65536)) != NULL)
        count++;
    berth_context_clear_error(s.context);
    int steps = 0;
    while (server_step(&s))
        assert_true(++steps < 1000);
    int answered = 0;
    int failed = 0;
    for (size_t i = 0; i < CHATS; i++)
        note_end(&chats[i], &answered, &failed);
    print_message("%d answered, %d failed in %d steps\n", answered, failed, steps);
    assert_true(failed > 0);
    while (count > 0)
        berth_free(s.context, taken[--count]);
    assert_all_answered(&s, chats, CHATS);
    server_close(&s);
}

static void failing_host_memory_below_ends_requests_and_loses_nothing(void** state) {
    (void)state;
    static failing_host host;
    int answered = 0;
    int failed = 0;
    for (size_t nth = 1; nth < 400; nth += 1 + nth / 4) {
        failing_host_init(&host);
        server s;
        server_open(
            &s, wide.gguf, &(server_options){.host = &host.allocator, .kv_bytes = KV_BYTES});
        shorten(12);
        for (size_t i = 0; i < CHATS; i++)
            server_submit(&s, &chats[i]);
        failing_host_fail(&host, nth, false);
        server_run(&s);
        failing_host_fail(&host, 0, false);
        for (size_t i = 0; i < CHATS; i++)
            note_end(&chats[i], &answered, &failed);
        assert_all_answered(&s, chats, CHATS); // as good as new
        server_close(&s);
        assert_int_equal(atomic_load(&host.live_blocks), 0);
        lengthen();
    }
    print_message("%d answered, %d failed\n", answered, failed);
    assert_true(answered > failed);
}

static void faults_of_the_device_end_requests_and_lose_nothing(void** state) {
    (void)state;
    static const berth_option_setting setting = {"device", "sim"};
    int answered = 0;
    int failed = 0;
    for (uint64_t nth = 1; nth < 3000; nth += 1 + nth / 3) {
        server s;
        server_open(
            &s,
            wide.gguf,
            &(server_options){.settings = &setting, .setting_count = 1, .kv_bytes = KV_BYTES});
        berth_device* device = s.runtime->device;
        shorten(12);
        for (size_t i = 0; i < CHATS; i++)
            server_submit(&s, &chats[i]);
        berth_sim_fail_any(device, nth);
        server_run(&s);
        berth_sim_fail_any(device, 0);
        for (size_t i = 0; i < CHATS; i++)
            note_end(&chats[i], &answered, &failed);
        // a device that has lost work stays as it is: what comes then is refused or right
        for (size_t i = 0; i < CHATS; i++)
            server_submit(&s, &chats[i]);
        server_run(&s);
        for (size_t i = 0; i < CHATS; i++)
            note_end(&chats[i], &answered, &failed);
        server_close(&s);
        lengthen();
    }
    print_message("%d answered, %d failed\n", answered, failed);
    assert_true(answered > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_long_chats_finish_on_memory_for_two),
        cmocka_unit_test(a_copy_in_host_memory_saves_computing_again),
        cmocka_unit_test(a_copy_that_has_no_room_is_dropped_instead),
        cmocka_unit_test(parking_before_every_step_changes_no_token),
        cmocka_unit_test(options_of_memory_change_no_token_where_it_is_short),
        cmocka_unit_test(requests_that_come_and_go_at_random_get_the_right_tokens),
        cmocka_unit_test(what_can_never_be_had_is_refused_at_once_with_both_numbers),
        cmocka_unit_test(what_is_taken_is_answered),
        cmocka_unit_test(one_budget_for_blocks_and_steps_is_kept),
        cmocka_unit_test(every_failing_allocation_of_the_sample_is_an_end_or_an_error),
        cmocka_unit_test(memory_that_others_take_ends_requests_in_few_steps),
        cmocka_unit_test(failing_host_memory_below_ends_requests_and_loses_nothing),
        cmocka_unit_test(faults_of_the_device_end_requests_and_lose_nothing),
    };
    return cmocka_run_group_tests(tests, open_wide, close_wide);
}
