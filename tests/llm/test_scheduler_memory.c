// SPDX-License-Identifier: Apache-2.0
// Tests of the scheduler where memory is short: everybody gets an answer or a typed refusal, and
// answers are those of memory without end.
#include "kit/random.h"
#include "llm/scheduler_kit.h"

static random_file wide;
static chat chats[WIDE_CHATS];

static int open_wide(void** state) {
    (void)state;
    wide = wide_file_open(chats);
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
    o.kv_bytes = WIDE_KV_BYTES;
    server s;
    server_open(&s, wide.gguf, &o);
    for (int i = 0; i < times; i++)
        assert_all_answered(&s, chats, WIDE_CHATS);
    llm_scheduler_stats stats = server_stats(&s);
    assert_true(server_kv_stats(&s).mapped_bytes <= WIDE_KV_BYTES);
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
    assert_true(stats.parks_drop <= 4 * WIDE_CHATS);
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

// SC4.
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
    *c = chats[test_random_below(random, WIDE_CHATS)];
    chats_forget(c, 1);
    c->max_tokens = 1 + (int64_t)test_random_below(random, WIDE_ANSWER);
    llm_request request = chat_request(c);
    request.tenant = (uint32_t)test_random_below(random, 3);
    request.key = keys[test_random_below(random, 2)];
    request.key_bytes = test_random_below(random, 2);
    request.is_private = test_random_below(random, 4) == 0;
    server_ask(s, &request);
}

static void requests_that_come_and_go_at_random_get_the_right_tokens(void** state) {
    (void)state;
    enum { MANY = 30 };
    static chat many[MANY];
    static const berth_option_setting setting = {"compact", "always"};
    server s;
    server_open(&s,
                wide.gguf,
                &(server_options){.settings = &setting,
                                  .setting_count = 1,
                                  .kv_bytes = WIDE_KV_BYTES,
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
    assert_limit_is_told(&(server_options){.kv_bytes = WIDE_KV_BYTES});
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
    assert_what_is_taken_is_answered("sim", "2M");
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
        many[i] = chats[i % WIDE_CHATS];
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
    assert_budget_is_kept("sim", 2);
    assert_budget_is_kept("sim", 3);
}

static int32_t choose_token(void* user, uint64_t id, int64_t index) {
    (void)user;
    return (int32_t)((id * 31 + (uint64_t)index) % 200);
}

/// What is scheduled on a device when tokens do not come from the model.
static llm_scheduler_stats schedule_on(const char* device) {
    const berth_option_setting setting = {"device", device};
    server s;
    server_open(&s,
                wide.gguf,
                &(server_options){.settings = &setting,
                                  .setting_count = 1,
                                  .kv_bytes = WIDE_KV_BYTES,
                                  .scheduler = {.token_of = choose_token}});
    chats_forget(chats, WIDE_CHATS);
    for (size_t i = 0; i < WIDE_CHATS; i++)
        server_submit(&s, &chats[i]);
    server_run(&s);
    for (size_t i = 0; i < WIDE_CHATS; i++)
        assert_int_equal(chats[i].end.reason, LLM_END_LIMIT);
    llm_scheduler_stats stats = server_stats(&s);
    server_close(&s);
    return stats;
}

static void a_dry_device_schedules_as_a_real_one(void** state) {
    (void)state;
    llm_scheduler_stats real = schedule_on("cpu");
    llm_scheduler_stats dry = schedule_on("dry");
    assert_true(real.parks_drop > 0);
    assert_int_equal(dry.parks_drop, real.parks_drop);
    assert_int_equal(dry.steps, real.steps);
    assert_int_equal(dry.computed_tokens, real.computed_tokens);
    assert_int_equal(dry.batch_sum, real.batch_sum);
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
        cmocka_unit_test(a_dry_device_schedules_as_a_real_one),
        cmocka_unit_test(one_budget_for_blocks_and_steps_is_kept),
    };
    return cmocka_run_group_tests(tests, open_wide, close_wide);
}
