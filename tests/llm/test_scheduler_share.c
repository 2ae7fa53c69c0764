// SPDX-License-Identifier: Apache-2.0
// Tests of the scheduler where blocks are short and tenants compete for them: who waits gets its
// share in a few steps, nobody is pushed out for ever, and a tenant alone has everything.
#include "kit/random.h"
#include "llm/fair_kit.h"

enum { GRANULE = 2 << 20 }; ///< of blocks: 32, 512 tokens of the wide model

static random_file wide;
static chat chats[WIDE_CHATS];

static int open_wide(void** state) {
    (void)state;
    llm_random_spec spec = wide_spec();
    spec.context = 2048;
    wide = random_file_open(&spec);
    rig alone;
    rig_open(&alone, wide.gguf, &(rig_options){0});
    for (size_t i = 0; i < WIDE_CHATS; i++)
        chat_make(&chats[i], &alone, 100 + i, i == 0 ? 12 : WIDE_PROMPT, i == 0 ? 6 : WIDE_ANSWER);
    rig_close(&alone);
    return 0;
}

static int close_wide(void** state) {
    (void)state;
    random_file_close(&wide);
    return 0;
}

/// A server with so many granules of blocks.
static void share_open(fair_server* f, uint64_t granules) {
    fair_open_with(f,
                   wide.gguf,
                   &(server_options){.kv_bytes = granules * GRANULE,
                                     .scheduler = {.step_tokens = 128, .max_running = 16}});
}

static int64_t parks_of(const fair_server* f) {
    const llm_scheduler_stats stats = server_stats(&f->server);
    return (int64_t)(stats.parks_host + stats.parks_drop);
}

// Floods.

enum { FLOODS = 40, EVERY = 9, VISITS = 60 };

/// Floods a server that has blocks for five of the requests, and has `visits` asked meanwhile, of
/// `others` tenants in turn; returns the steps that all took.
static int64_t run_flood(fair_server* f, visit* flood, visit* light, size_t visits, size_t others) {
    share_open(f, 4);
    ask_many(f, flood, FLOODS, FLOOD, 300, 150);
    size_t asked = 0;
    for (int64_t step = 0; server_step(&f->server) || asked < visits; step++) {
        assert_true(step < 20000);
        if (step < 5 || step % EVERY != 0 || asked == visits) continue;
        ask(f, &light[asked], LIGHT + (uint32_t)(asked % others), 20, 5);
        asked++;
    }
    assert_answered_all(flood, FLOODS);
    assert_answered_all(light, visits);
    return f->steps;
}

static void a_flood_that_has_all_blocks_makes_room_in_two_steps(void** state) {
    (void)state;
    static visit flood[FLOODS];
    static visit light[VISITS];
    fair_server f;
    const int64_t alone = run_flood(&f, flood, light, 0, 1);
    assert_int_equal(server_stats(&f.server).parks_share, 0);
    server_close(&f.server);
    for (size_t others = 1; others <= 4; others += 3) {
        const int64_t steps = run_flood(&f, flood, light, VISITS, others);
        int64_t most = 0;
        for (size_t i = 0; i < VISITS; i++)
            if (steps_waited(&light[i]) > most) most = steps_waited(&light[i]);
        const llm_scheduler_stats stats = server_stats(&f.server);
        print_message("beside %d others %d steps instead of %d, %d parked, %d of them for others; "
                      "they waited %d steps at most\n",
                      (int)others,
                      (int)steps,
                      (int)alone,
                      (int)parks_of(&f),
                      (int)stats.parks_share,
                      (int)most);
        assert_in_range(most, 1, 2);
        assert_true(stats.parks_share > 0);
        assert_in_range(steps, alone - alone / 10, alone + alone / 10);
        server_close(&f.server);
    }
}

static void whoever_holds_little_is_not_parked_when_others_grow(void** state) {
    (void)state;
    visit flood[5];
    visit light;
    fair_server f;
    share_open(&f, 3);
    ask_many(&f, flood, 5, FLOOD, 250, 200);
    for (int i = 0; i < 20; i++)
        server_step(&f.server);
    ask(&f, &light, LIGHT, 20, 150); // the youngest
    server_run(&f.server);
    assert_answered_all(flood, 5);
    assert_answered_all(&light, 1);
    assert_true(parks_of(&f) > 0);
    assert_int_equal(light.end.parks, 0);
    server_close(&f.server);
}

static void of_one_tenant_only_the_youngest_is_parked(void** state) {
    (void)state;
    enum { MANY = 24 };
    static visit visits[MANY];
    fair_server f;
    share_open(&f, 3);
    ask_many(&f, visits, MANY, FLOOD, 200, 120);
    int64_t most = 0;
    do {
        const llm_scheduler* s = f.server.scheduler;
        if (s->running.count > 0 && s->parked.count > 0)
            assert_true(s->running.items[s->running.count - 1]->turn < s->parked.items[0]->turn);
        const int64_t held = (int64_t)server_kv_stats(&f.server).held_blocks;
        if (held > most) most = held;
    } while (server_step(&f.server));
    assert_answered_all(visits, MANY);
    assert_true(parks_of(&f) > 0);
    assert_int_equal(server_stats(&f.server).parks_share, 0);
    assert_in_range(most, 90, 96); // all there are
    server_close(&f.server);
}

// Peers.

/// Steps that many requests of random lengths take as those of so many tenants.
static int64_t run_mix(uint32_t tenants) {
    enum { MANY = 200 };
    static visit visits[MANY];
    fair_server f;
    share_open(&f, 4);
    test_random random = test_random_make(5);
    for (uint32_t i = 0; i < MANY; i++) {
        const int64_t prompt = 1 + (int64_t)test_random_below(&random, 300);
        const int64_t answer = 1 + (int64_t)test_random_below(&random, 120);
        ask(&f, &visits[i], i % tenants, prompt, answer);
    }
    server_run(&f.server);
    assert_answered_all(visits, MANY);
    const int64_t steps = f.steps;
    print_message("%d steps, %d parked, %d tokens computed again for %d tenants\n",
                  (int)steps,
                  (int)parks_of(&f),
                  (int)server_stats(&f.server).recomputed_tokens,
                  (int)tenants);
    server_close(&f.server);
    return steps;
}

static void twenty_tenants_take_hardly_more_steps_than_one(void** state) {
    (void)state;
    const int64_t one = run_mix(1);
    assert_in_range(run_mix(20), one - one / 10, one + one / 10);
}

static void two_with_one_long_request_each_take_turns(void** state) {
    (void)state;
    visit giant, other;
    fair_server f;
    share_open(&f, 2);
    ask(&f, &giant, FLOOD, 400, 580); // 62 of 64 blocks in the end
    for (int i = 0; i < 300; i++)
        server_step(&f.server);
    ask(&f, &other, LIGHT, 400, 40); // 28, within its share
    server_run(&f.server);
    assert_answered_all(&giant, 1);
    assert_answered_all(&other, 1);
    // not at once, as what the giant has would have to be computed again; nor at its end
    assert_in_range(giant.end.parks, 1, 2);
    assert_int_equal(other.end.parks, 0);
    assert_in_range(steps_waited(&other), 10, 240);
    server_close(&f.server);
}

static void tenants_that_come_anew_do_not_push_out_a_long_request_for_ever(void** state) {
    (void)state;
    enum { MANY = 2000 };
    static visit visits[MANY];
    visit giant;
    fair_server f;
    share_open(&f, 2);
    ask(&f, &giant, FLOOD, 400, 580); // 62 of 64 blocks in the end
    size_t asked = 0;
    for (int64_t step = 0; server_step(&f.server); step++) {
        if (giant.ends > 0 || step % 2 != 0) continue;
        assert_true(asked + 1 < MANY); // it ends while they still come
        ask(&f, &visits[asked], 1000 + (uint32_t)asked, 30, 12);
        asked++;
    }
    print_message(
        "ended after %d others came; parked %d times\n", (int)asked, (int)giant.end.parks);
    assert_answered_all(&giant, 1);
    assert_true(giant.end.parks > 0);
    assert_answered_all(visits, asked);
    server_close(&f.server);
}

static void a_parked_request_is_passed_by_few_others(void** state) {
    (void)state;
    enum { MANY = 1000 };
    static visit visits[MANY];
    visit giant;
    fair_server f;
    share_open(&f, 2);
    const llm_scheduler* s = f.server.scheduler;
    ask(&f, &giant, FLOOD, 400, 580);
    size_t asked = 0;
    for (int64_t step = 0; s->parked.count == 0; step++) {
        server_step(&f.server);
        assert_true(asked < MANY);
        if (step % 2 != 0) continue;
        ask(&f, &visits[asked], 1000 + (uint32_t)asked, 30, 12);
        asked++;
    }
    // more come than can be answered, and all were served less
    llm_tenant_find(s, FLOOD)->served += 100000;
    const int64_t from = f.steps;
    while (s->parked.count > 0) {
        for (int i = 0; i < 3; i++, asked++)
            ask(&f, &visits[asked], 1000 + (uint32_t)asked, 30, 12);
        server_step(&f.server);
        assert_true(asked + 3 < MANY);
    }
    print_message("%d others wait when it is back after %d steps\n",
                  (int)server_stats(&f.server).queued,
                  (int)(f.steps - from));
    assert_true(server_stats(&f.server).queued > 20);
    assert_in_range(f.steps - from, 1, 60);
    server_run(&f.server);
    assert_answered_all(&giant, 1);
    assert_answered_all(visits, asked);
    server_close(&f.server);
}

// Who owes whom.

static void whoever_was_served_less_is_owed_what_leaves_the_other_twice_as_much(void** state) {
    (void)state;
    visit flood[4];
    visit light;
    fair_server f;
    share_open(&f, 4);
    ask_many(&f, flood, 4, FLOOD, 400, 60);
    ask(&f, &light, LIGHT, 10, 60);
    while (flood[3].count < 10)
        server_step(&f.server);
    llm_scheduler* s = f.server.scheduler;
    llm_tenant* t = llm_tenant_find(s, LIGHT);
    assert_true(llm_scheduler_is_owed(s, t, 1));
    const llm_tenant* other = llm_tenant_find(s, FLOOD);
    const int64_t youngest = berth_kv_sequence_own_blocks(other->youngest->sequence);
    const int64_t most = (other->held - youngest) / 2 - t->held;
    assert_in_range(most, 35, 40); // half of three requests
    t->served = other->served - 1;
    assert_true(llm_scheduler_is_owed(s, t, most));
    assert_false(llm_scheduler_is_owed(s, t, most + 1));
    t->served++;
    assert_false(llm_scheduler_is_owed(s, t, 1));
    server_run(&f.server);
    assert_answered_all(flood, 4);
    assert_answered_all(&light, 1);
    server_close(&f.server);
}

static void one_long_request_owes_little_at_once_and_a_half_in_time(void** state) {
    (void)state;
    visit giant, light;
    fair_server f;
    share_open(&f, 2);
    ask(&f, &giant, FLOOD, 400, 580);
    while (giant.count < 120) // 33 of 64 blocks
        server_step(&f.server);
    ask(&f, &light, LIGHT, 10, 200);
    server_step(&f.server);
    llm_scheduler* s = f.server.scheduler;
    llm_tenant* t = llm_tenant_find(s, LIGHT);
    const llm_tenant* other = llm_tenant_find(s, FLOOD);
    t->served = other->served - 1;
    assert_true(llm_scheduler_is_owed(s, t, 3)); // beside the one that it holds
    assert_false(llm_scheduler_is_owed(s, t, 4));
    t->served = other->served - (uint64_t)other->held * 16 / 4 - 1;
    assert_true(llm_scheduler_is_owed(s, t, 31));
    assert_false(llm_scheduler_is_owed(s, t, 32)); // more than its share
    t->served = other->served;
    server_run(&f.server);
    assert_answered_all(&giant, 1);
    assert_answered_all(&light, 1);
    server_close(&f.server);
}

// What becomes of those that gave way.

/// Three chats of one tenant have all blocks when one of another tenant asks; returns how often
/// they were parked for it.
static uint64_t assert_giving_way_changes_no_token(berth_kv_parking parking) {
    server s;
    server_open(&s,
                wide.gguf,
                &(server_options){.kv_bytes = GRANULE,
                                  .park_bytes = 16 << 20,
                                  .scheduler = {.parking = parking}});
    chats_forget(chats, WIDE_CHATS);
    for (size_t i = 1; i < WIDE_CHATS; i++) {
        llm_request request = chat_request(&chats[i]);
        request.tenant = FLOOD;
        server_ask(&s, &request);
    }
    const uint64_t blocks = 30; // of 32
    while (server_kv_stats(&s).held_blocks < blocks)
        assert_true(server_step(&s));
    llm_request request = chat_request(&chats[0]);
    request.tenant = LIGHT;
    server_ask(&s, &request);
    server_run(&s);
    for (size_t i = 0; i < WIDE_CHATS; i++)
        assert_answered(&chats[i]);
    assert_int_equal(server_kv_stats(&s).held_blocks, 0);
    const llm_scheduler_stats stats = server_stats(&s);
    if (parking == BERTH_KV_PARK_HOST) assert_int_equal(stats.recomputed_tokens, 0);
    server_close(&s);
    return stats.parks_share;
}

// SC4.
static void giving_way_changes_no_token(void** state) {
    (void)state;
    assert_true(assert_giving_way_changes_no_token(BERTH_KV_PARK_HOST) > 0);
    assert_true(assert_giving_way_changes_no_token(BERTH_KV_PARK_DROP) > 0);
}

static void a_parked_request_that_is_cancelled_holds_up_nobody(void** state) {
    (void)state;
    visit flood[5];
    visit light[3];
    fair_server f;
    share_open(&f, 3);
    ask_many(&f, flood, 5, FLOOD, 250, 200);
    while (f.server.scheduler->parked.count == 0)
        assert_true(server_step(&f.server));
    const llm_scheduler* s = f.server.scheduler;
    while (s->parked.count > 0) {
        assert_true(llm_scheduler_cancel(f.server.scheduler, s->parked.items[0]->id));
        assert_true(server_step(&f.server));
    }
    assert_int_equal(llm_tenant_find(s, FLOOD)->parked, 0);
    ask_many(&f, light, 3, LIGHT, 20, 5);
    server_run(&f.server);
    assert_answered_all(light, 3);
    assert_true(server_stats(&f.server).cancelled > 0);
    server_close(&f.server);
}

/// Options of a random server, with blocks of one to four granules.
static server_options draw_options(test_random* random) {
    const int64_t step_tokens = 16 + (int64_t)test_random_below(random, 240);
    return (server_options){
        .kv_bytes = (1 + test_random_below(random, 4)) * GRANULE,
        .park_bytes = test_random_below(random, 2) * (4 << 20),
        .scheduler = {.step_tokens = step_tokens,
                      .max_running = 1 + (int64_t)test_random_below(random, 16),
                      .tenant_share_percent = (int64_t)test_random_below(random, 3) * 40,
                      .parking = (berth_kv_parking)test_random_below(random, 3),
                      .parks_always = test_random_below(random, 8) == 0}};
}

static void requests_of_tenants_that_come_and_go_at_random_all_end(void** state) {
    (void)state;
    enum { ROUNDS = 24, MANY = 40 };
    static visit visits[MANY];
    test_random random = test_random_make(11);
    uint64_t shares = 0;
    for (int round = 0; round < ROUNDS; round++) {
        fair_server f;
        const server_options options = draw_options(&random);
        fair_open_with(&f, wide.gguf, &options);
        const uint32_t tenants = 2 + (uint32_t)test_random_below(&random, 6);
        size_t asked = 0;
        while (server_step(&f.server) || asked < MANY) {
            if (asked < MANY && test_random_below(&random, 4) == 0) {
                const bool floods = test_random_below(&random, 2) == 0;
                ask(&f,
                    &visits[asked++],
                    floods ? 0 : (uint32_t)test_random_below(&random, tenants),
                    1 + (int64_t)test_random_below(&random, 300),
                    1 + (int64_t)test_random_below(&random, 120));
            }
            if (asked > 0 && test_random_below(&random, 64) == 0)
                llm_scheduler_cancel(f.server.scheduler,
                                     visits[test_random_below(&random, asked)].id);
            assert_true(f.steps < 20000);
        }
        for (size_t i = 0; i < MANY; i++) {
            assert_int_equal(visits[i].ends, 1);
            if (visits[i].end.reason != LLM_END_CANCELLED) assert_answered_all(&visits[i], 1);
        }
        assert_int_equal(server_kv_stats(&f.server).held_blocks, 0);
        shares += server_stats(&f.server).parks_share;
        server_close(&f.server);
    }
    assert_true(shares > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flood_that_has_all_blocks_makes_room_in_two_steps),
        cmocka_unit_test(whoever_holds_little_is_not_parked_when_others_grow),
        cmocka_unit_test(of_one_tenant_only_the_youngest_is_parked),
        cmocka_unit_test(twenty_tenants_take_hardly_more_steps_than_one),
        cmocka_unit_test(two_with_one_long_request_each_take_turns),
        cmocka_unit_test(tenants_that_come_anew_do_not_push_out_a_long_request_for_ever),
        cmocka_unit_test(a_parked_request_is_passed_by_few_others),
        cmocka_unit_test(whoever_was_served_less_is_owed_what_leaves_the_other_twice_as_much),
        cmocka_unit_test(one_long_request_owes_little_at_once_and_a_half_in_time),
        cmocka_unit_test(giving_way_changes_no_token),
        cmocka_unit_test(a_parked_request_that_is_cancelled_holds_up_nobody),
        cmocka_unit_test(requests_of_tenants_that_come_and_go_at_random_all_end),
    };
    return cmocka_run_group_tests(tests, open_wide, close_wide);
}
