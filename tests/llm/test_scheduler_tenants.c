// SPDX-License-Identifier: Apache-2.0
// Tests of the scheduler where tenants compete: a flood of one holds back no other, service is
// divided evenly, and nobody gains by staying away. On a device that computes nothing, by a clock
// of steps.
#include "llm/fair_kit.h"

static random_file tiny;

static int open_tiny(void** state) {
    (void)state;
    llm_random_spec spec = llm_random_spec_tiny(7);
    tiny = random_file_open(&spec);
    return 0;
}

static int close_tiny(void** state) {
    (void)state;
    random_file_close(&tiny);
    return 0;
}

static void fair_open(fair_server* f, const llm_scheduler_options* options) {
    fair_open_with(f, tiny.gguf, &(server_options){.scheduler = *options});
}

// A flood.

/// One tenant floods with `count` long requests while another one asks a little now and then;
/// returns the most steps that the latter waited.
static int64_t longest_wait(size_t count, uint64_t* out_order) {
    enum { MOST = 500, EVERY = 9, VISITS = 40 };
    static visit flood[MOST];
    static visit light[VISITS];
    fair_server f;
    fair_open(&f,
              &(llm_scheduler_options){
                  .step_tokens = 128, .max_running = 16, .tenant_share_percent = 75});
    ask(&f, &light[0], LIGHT, 10, 2);
    ask_many(&f, flood, count, FLOOD, 300, 40);
    size_t asked = 1;
    for (int64_t step = 0; server_step(&f.server) || asked < VISITS; step++) {
        if (step % EVERY == 0 && asked < VISITS) ask(&f, &light[asked++], LIGHT, 20, 5);
        assert_true(step < 100000);
    }
    assert_answered_all(light, VISITS);
    assert_answered_all(flood, count);
    int64_t most = 0;
    for (size_t i = 0; i < VISITS; i++)
        if (steps_waited(&light[i]) > most) most = steps_waited(&light[i]);
    *out_order = f.order;
    server_close(&f.server);
    return most;
}

static void a_flood_holds_back_no_first_token_of_another(void** state) {
    (void)state;
    uint64_t order[3];
    const int64_t few = longest_wait(50, &order[0]);
    const int64_t many = longest_wait(500, &order[1]);
    print_message("%d steps beside 50 requests, %d beside 500\n", (int)few, (int)many);
    assert_in_range(few, 1, 2);
    assert_in_range(many, 1, 2);
    longest_wait(500, &order[2]); // the same requests are served in the same order
    assert_true(order[1] == order[2]);
}

static void prompts_of_all_tenants_go_on_in_each_step(void** state) {
    (void)state;
    enum { LONG = 6 };
    visit flood[LONG], light;
    fair_server f;
    fair_open(&f, &(llm_scheduler_options){.step_tokens = 64});
    ask_many(&f, flood, LONG, FLOOD, 480, 2);
    for (int i = 0; i < 3; i++)
        server_step(&f.server);
    ask(&f, &light, LIGHT, 30, 2);
    server_run(&f.server);
    assert_answered_all(flood, LONG);
    // a step of the long prompt that is in the making is divided by two
    assert_int_equal(steps_waited(&light), 1);
    // and what the short one left of it is the long one's: 3 of 64, 34, then 64 again
    assert_int_equal(steps_waited(&flood[0]), 8);
    server_close(&f.server);
}

static void many_tenants_divide_a_step(void** state) {
    (void)state;
    enum { TENANTS = 8 };
    visit visits[TENANTS];
    fair_server f;
    fair_open(&f, &(llm_scheduler_options){.step_tokens = 128, .max_running = 16});
    for (uint32_t i = 0; i < TENANTS; i++)
        ask(&f, &visits[i], i, i % 2 == 0 ? 160 : 8, 2);
    server_run(&f.server);
    assert_answered_all(visits, TENANTS);
    for (uint32_t i = 0; i < TENANTS; i++)
        if (i % 2 != 0)
            assert_int_equal(steps_waited(&visits[i]), 1);
        else // 4 x 160 tokens, of which 24 fit beside the short ones
            assert_in_range(steps_waited(&visits[i]), 5, 7);
    server_close(&f.server);
}

static void the_next_place_is_for_who_was_served_least(void** state) {
    (void)state;
    enum { MANY = 40 };
    static visit flood[MANY];
    visit light;
    fair_server f;
    fair_open(&f, &(llm_scheduler_options){.max_running = 4});
    ask_many(&f, flood, MANY, FLOOD, 30, 12);
    for (int i = 0; i < 5; i++)
        server_step(&f.server);
    assert_int_equal(running_of(&f, FLOOD), 4);
    ask(&f, &light, LIGHT, 30, 12);
    server_run(&f.server);
    assert_answered_all(&light, 1);
    assert_answered_all(flood, MANY);
    for (size_t i = 0; i < MANY; i++)
        assert_false(flood[i].end.admit_ns > light.end.submit_ns &&
                     flood[i].end.admit_ns < light.end.admit_ns);
    server_close(&f.server);
}

static void of_tenants_served_alike_the_one_with_less_taken_up_goes_first(void** state) {
    (void)state;
    visit flood[3], light;
    fair_server f;
    fair_open(&f, &(llm_scheduler_options){.max_running = 2});
    ask(&f, &flood[0], FLOOD, 10, 8);
    ask(&f, &flood[1], FLOOD, 10, 2);
    ask(&f, &flood[2], FLOOD, 10, 8);
    while (flood[1].ends == 0)
        server_step(&f.server);
    ask(&f, &light, LIGHT, 10, 2); // lifted to the other one
    assert_true(served_of(&f, LIGHT) == served_of(&f, FLOOD));
    server_step(&f.server);
    assert_int_equal(steps_waited(&light), 1);
    server_run(&f.server);
    assert_answered_all(flood, 3);
    server_close(&f.server);
}

// Service.

static void tenants_that_wait_are_served_alike_whatever_they_ask(void** state) {
    (void)state;
    enum { LONG = 60, SHORT = 600 };
    static visit many_long[LONG];
    static visit many_short[SHORT];
    fair_server f;
    fair_open(&f, &(llm_scheduler_options){.step_tokens = 128, .max_running = 8});
    ask_many(&f, many_long, LONG, 1, 300, 30);
    ask_many(&f, many_short, SHORT, 2, 20, 8);
    // one prompt, and an answer of each place
    const uint64_t most_apart = 300 + 8 * 2 * 30;
    int64_t steps = 0;
    while (server_step(&f.server)) {
        const llm_tenant* a = llm_tenant_find(f.server.scheduler, 1);
        const llm_tenant* b = llm_tenant_find(f.server.scheduler, 2);
        if (a->queued == 0 || b->queued == 0) break;
        assert_true(a->served - b->served + most_apart <= 2 * most_apart);
        steps++;
    }
    assert_true(steps > 100);
    server_run(&f.server);
    assert_answered_all(many_long, LONG);
    assert_answered_all(many_short, SHORT);
    server_close(&f.server);
}

static void who_was_away_has_saved_up_nothing(void** state) {
    (void)state;
    enum { MANY = 40 };
    static visit visits[2][MANY];
    visit early;
    fair_server f;
    fair_open(&f, &(llm_scheduler_options){.max_running = 4});
    ask(&f, &early, LIGHT, 10, 1);
    server_run(&f.server);
    ask_many(&f, visits[0], MANY, FLOOD, 40, 20);
    for (int i = 0; i < 60; i++)
        server_step(&f.server);
    const uint64_t served = served_of(&f, FLOOD);
    assert_true(served > 500);
    ask_many(&f, visits[1], MANY, LIGHT, 40, 20);
    assert_true(served_of(&f, LIGHT) >= served);
    for (int i = 0; i < 60; i++)
        server_step(&f.server);
    // from then on both have had the same, and who was there before has not been shut out
    assert_in_range(served_of(&f, FLOOD) - served, 400, 560);
    server_run(&f.server);
    assert_answered_all(visits[0], MANY);
    assert_answered_all(visits[1], MANY);
    server_close(&f.server);
}

static void what_the_cache_has_is_not_counted(void** state) {
    (void)state;
    fair_server f;
    fair_open(&f, &(llm_scheduler_options){0});
    int32_t ids[200] = {0};
    for (int round = 0; round < 2; round++) {
        const uint64_t before = round == 0 ? 0 : served_of(&f, LIGHT);
        const llm_request request = {.tenant = LIGHT,
                                     .prompt = ids,
                                     .prompt_count = 200,
                                     .max_tokens = 3,
                                     .sampling = llm_sampler_options_default()};
        assert_int_equal(llm_scheduler_submit(f.server.scheduler, &request, NULL, &f.server.error),
                         BERTH_OK);
        server_run(&f.server);
        const uint64_t cached = server_stats(&f.server).cached_tokens;
        assert_true(round == 0 || cached > 100);
        assert_int_equal(served_of(&f, LIGHT) - before, 200 - cached + 2 * 3);
    }
    server_close(&f.server);
}

// Shares.

static void a_share_is_kept_while_others_were_seen_lately(void** state) {
    (void)state;
    enum { MANY = 200 };
    static visit flood[MANY];
    visit light[2];
    fair_server f;
    fair_open(&f, &(llm_scheduler_options){.max_running = 8, .tenant_share_percent = 50});
    ask_many(&f, flood, MANY, FLOOD, 10, 30);
    for (int i = 0; i < 3; i++)
        server_step(&f.server);
    assert_int_equal(running_of(&f, FLOOD), 8); // alone
    ask(&f, &light[0], LIGHT, 10, 3);
    for (int i = 0; i < 100; i++)
        server_step(&f.server);
    assert_answered_all(light, 1);
    assert_int_equal(running_of(&f, FLOOD), 4);
    ask(&f, &light[1], LIGHT, 10, 3);
    server_step(&f.server);
    assert_int_equal(steps_waited(&light[1]), 1);
    for (int i = 0; i < 10; i++)
        server_step(&f.server);
    assert_answered_all(light, 2);
    f.now_ns = light[1].end.end_ns + UINT64_C(60000000000) - 2 * STEP_NS;
    server_step(&f.server);
    assert_int_equal(running_of(&f, FLOOD), 4);
    f.now_ns += 2 * STEP_NS;
    server_step(&f.server);
    assert_int_equal(running_of(&f, FLOOD), 8); // alone again
    server_run(&f.server);
    assert_answered_all(flood, MANY);
    server_close(&f.server);
}

static void the_smallest_share_is_one_request(void** state) {
    (void)state;
    visit visits[6];
    fair_server f;
    fair_open(&f, &(llm_scheduler_options){.max_running = 4, .tenant_share_percent = 1});
    for (uint32_t i = 0; i < 6; i++)
        ask(&f, &visits[i], i % 2, 10, 5);
    while (server_step(&f.server)) {
        assert_in_range(running_of(&f, 0), 0, 1);
        assert_in_range(running_of(&f, 1), 0, 1);
    }
    assert_answered_all(visits, 6);
    server_close(&f.server);
}

static void a_flood_that_waits_is_refused_while_others_get_in(void** state) {
    (void)state;
    visit flood[6], light;
    fair_server f;
    fair_open(&f, &(llm_scheduler_options){.max_queued = 8, .tenant_queued = 5});
    ask_many(&f, flood, 6, FLOOD, 10, 2);
    assert_int_equal(flood[5].end.reason, LLM_END_REFUSED_QUOTA);
    assert_non_null(strstr(flood[5].text, "5 requests of the tenant"));
    assert_int_equal(flood[5].id, 0);
    ask(&f, &light, LIGHT, 10, 2);
    server_run(&f.server);
    assert_answered_all(flood, 5);
    assert_answered_all(&light, 1);
    assert_int_equal(server_stats(&f.server).refused_quota, 1);
    ask(&f, &flood[5], FLOOD, 10, 2); // there is room again
    server_run(&f.server);
    assert_answered_all(&flood[5], 1);
    server_close(&f.server);
}

static void requests_withdrawn_before_their_turn_end_once(void** state) {
    (void)state;
    enum { MANY = 30 };
    visit visits[MANY];
    fair_server f;
    fair_open(&f, &(llm_scheduler_options){.max_running = 2});
    for (uint32_t i = 0; i < MANY; i++)
        ask(&f, &visits[i], i % 3, 10, 20);
    server_step(&f.server);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_true(llm_scheduler_cancel(f.server.scheduler, visits[i].id));
        assert_true(llm_scheduler_cancel(f.server.scheduler, visits[i].id)); // not yet ended
        assert_int_equal(visits[i].ends, 0);
    }
    assert_int_equal(server_stats(&f.server).queued, 0);
    assert_false(server_step(&f.server));
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(visits[i].ends, 1);
        assert_int_equal(visits[i].end.reason, LLM_END_CANCELLED);
        assert_false(llm_scheduler_cancel(f.server.scheduler, visits[i].id));
    }
    assert_int_equal(f.server.scheduler->queued_bytes, 0);
    assert_int_equal(f.server.scheduler->tenants.active_count, 0);
    server_close(&f.server);
}

static void tenants_without_requests_are_forgotten_in_time(void** state) {
    (void)state;
    enum { MANY = 3000, KNOWN = 1024 };
    static visit visits[MANY];
    fair_server f;
    fair_open(&f, &(llm_scheduler_options){0});
    for (uint32_t i = 0; i < MANY; i++)
        ask(&f, &visits[i], i, 4, 1);
    server_run(&f.server);
    assert_answered_all(visits, MANY);
    const llm_tenants* known = &f.server.scheduler->tenants;
    assert_int_equal(known->active_count, 0);
    assert_int_equal(known->idle_count, KNOWN);
    assert_null(llm_tenant_find(f.server.scheduler, 0));
    assert_non_null(llm_tenant_find(f.server.scheduler, MANY - 1));
    f.now_ns += UINT64_C(61000000000);
    ask(&f, &visits[0], MANY, 4, 1);
    server_run(&f.server);
    assert_int_equal(known->idle_count, 1);
    server_close(&f.server);
}

// Where memory is short.

static void who_waits_for_room_holds_up_nobody_that_was_served_less(void** state) {
    (void)state;
    llm_random_spec spec = wide_spec();
    random_file file = random_file_open(&spec);
    visit flood[3], light, again;
    fair_server f;
    fair_open_with(&f, file.gguf, &(server_options){.kv_bytes = WIDE_KV_BYTES});
    ask(&f, &flood[0], FLOOD, 300, 60); // of 512 tokens that there is room for
    for (int i = 0; i < 3; i++)
        server_step(&f.server);
    ask(&f, &flood[1], FLOOD, 300, 60);
    ask(&f, &flood[2], FLOOD, 300, 60);
    server_step(&f.server);
    assert_int_equal(flood[1].count, 0); // at the gate
    ask(&f, &light, LIGHT, 20, 4);
    server_step(&f.server);
    assert_int_equal(steps_waited(&light), 1);
    for (int i = 0; i < 6; i++)
        server_step(&f.server);
    // now it has had more than the other one, and waits until that one has had as much
    ask(&f, &again, LIGHT, 20, 4);
    server_step(&f.server);
    assert_int_equal(again.count, 0);
    server_run(&f.server);
    assert_answered_all(flood, 3);
    assert_answered_all(&light, 1);
    assert_answered_all(&again, 1);
    assert_in_range(steps_waited(&again), 2, 10);
    server_close(&f.server);
    random_file_close(&file);
}

static void who_waits_for_room_takes_no_tokens_of_steps(void** state) {
    (void)state;
    llm_random_spec spec = wide_spec();
    random_file file = random_file_open(&spec);
    visit flood[2], light;
    fair_server f;
    fair_open_with(&f,
                   file.gguf,
                   &(server_options){.kv_bytes = WIDE_KV_BYTES, .scheduler = {.step_tokens = 64}});
    ask(&f, &flood[0], FLOOD, 280, 60);
    for (int i = 0; i < 5; i++)
        server_step(&f.server);
    ask(&f, &flood[1], FLOOD, 300, 60);
    server_step(&f.server);
    ask(&f, &light, LIGHT, 150, 2);
    server_run(&f.server);
    assert_answered_all(flood, 2);
    assert_answered_all(&light, 1);
    assert_int_equal(steps_waited(&light), 3); // 63 of 64 tokens in each
    server_close(&f.server);
    random_file_close(&file);
}

static void who_waits_for_room_keeps_none_from_others(void** state) {
    (void)state;
    enum { MANY = 10 };
    llm_random_spec spec = wide_spec();
    random_file file = random_file_open(&spec);
    visit first, waiting[MANY], light;
    fair_server f;
    fair_open_with(&f, file.gguf, &(server_options){.kv_bytes = WIDE_KV_BYTES});
    ask(&f, &first, 100, 300, 60); // 19 of 32 blocks
    for (int i = 0; i < 3; i++)
        server_step(&f.server);
    for (uint32_t i = 0; i < MANY; i++)
        ask(&f, &waiting[i], 200 + i, 220, 2); // 14
    server_step(&f.server);
    assert_int_equal(f.server.scheduler->running.count, 1 + MANY);
    ask(&f, &light, LIGHT, 60, 2); // 4, beside which a block for each of those would not be free
    server_step(&f.server);
    assert_int_equal(light.count, 1);
    server_run(&f.server);
    assert_answered_all(waiting, MANY);
    assert_answered_all(&first, 1);
    server_close(&f.server);
    random_file_close(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flood_holds_back_no_first_token_of_another),
        cmocka_unit_test(prompts_of_all_tenants_go_on_in_each_step),
        cmocka_unit_test(many_tenants_divide_a_step),
        cmocka_unit_test(the_next_place_is_for_who_was_served_least),
        cmocka_unit_test(of_tenants_served_alike_the_one_with_less_taken_up_goes_first),
        cmocka_unit_test(tenants_that_wait_are_served_alike_whatever_they_ask),
        cmocka_unit_test(who_was_away_has_saved_up_nothing),
        cmocka_unit_test(what_the_cache_has_is_not_counted),
        cmocka_unit_test(a_share_is_kept_while_others_were_seen_lately),
        cmocka_unit_test(the_smallest_share_is_one_request),
        cmocka_unit_test(a_flood_that_waits_is_refused_while_others_get_in),
        cmocka_unit_test(requests_withdrawn_before_their_turn_end_once),
        cmocka_unit_test(tenants_without_requests_are_forgotten_in_time),
        cmocka_unit_test(who_waits_for_room_holds_up_nobody_that_was_served_less),
        cmocka_unit_test(who_waits_for_room_takes_no_tokens_of_steps),
        cmocka_unit_test(who_waits_for_room_keeps_none_from_others),
    };
    return cmocka_run_group_tests(tests, open_tiny, close_tiny);
}
