// SPDX-License-Identifier: Apache-2.0
// Blocks that are pushed together, and islands of granules that are gathered: contents, owners and
// books stay right, also where somebody refuses.
#include "crowd_kit.h"

static int setup(void** state) {
    const berth_sim_options options = memory_kit_options();
    *state = open_kit(&options);
    return 0;
}

static int teardown(void** state) {
    close_kit(*state);
    return 0;
}

/// Makes all steps of what was planned; returns the bytes copied, and stops where one refuses.
static uint64_t run(crowd_kit* kit) {
    berth_move_count count = {0};
    for (size_t i = 0; i < kit->slides.count; i++)
        while (berth_slide_query_next(kit->pool, &kit->slides.items[i]) != 0)
            if (!berth_slide_step(kit->pool, &kit->slides.items[i], &count)) break;
    return count.moved_bytes;
}

/// Blocks of 1 1/4 granules, of which every fourth goes: no other block fits into the gaps but
/// those, and no granule is free.
static void scatter(crowd_kit* kit, size_t blocks) {
    for (size_t i = 0; i < blocks; i++)
        take(kit, G + G / 4);
    for (size_t i = 1; i < blocks; i += 4)
        mover_give(kit->pool, &kit->owners[i]);
    berth_pool_flush_front(kit->pool);
}

static void neighbours_pushed_together_free_whole_granules(void** state) {
    crowd_kit* kit = *state;
    scatter(kit, 40);
    const uint64_t before = whole_bytes(kit);
    const uint64_t gain = berth_slides_plan(kit->pool, 2 * G, true, &kit->slides);
    assert_true(gain >= 2 * G);
    assert_true(run(kit) > 0);
    assert_true(whole_bytes(kit) >= before + gain);
    check(kit);
}

static void what_is_planned_is_no_more_than_what_is_asked_for_needs(void** state) {
    crowd_kit* kit = *state;
    scatter(kit, 40);
    assert_true(berth_slides_plan(kit->pool, G, true, &kit->slides) >= G);
    assert_int_equal(kit->slides.count, 1);
    assert_true(berth_slides_plan(kit->pool, KIT_CAPACITY, true, &kit->slides) < KIT_CAPACITY);
}

static void blocks_that_stay_end_a_slide(void** state) {
    crowd_kit* kit = *state;
    scatter(kit, 40);
    for (size_t i = 0; i < kit->count; i++)
        kit->owners[i].is_pinned = true;
    assert_int_equal(berth_slides_plan(kit->pool, G, true, &kit->slides), 0);
    // pinned after the plan was made
    for (size_t i = 0; i < kit->count; i++)
        kit->owners[i].is_pinned = false;
    assert_true(berth_slides_plan(kit->pool, G, true, &kit->slides) >= G);
    for (size_t i = 0; i < kit->count; i++)
        kit->owners[i].is_pinned = true;
    assert_int_equal(run(kit), 0);
    check(kit);
}

static void a_compact_pool_has_nothing_to_push(void** state) {
    crowd_kit* kit = *state;
    for (size_t i = 0; i < 40; i++)
        take(kit, G + G / 4);
    // what is left of the last granule can become no whole one
    assert_int_equal(berth_slides_plan(kit->pool, G, true, &kit->slides), 0);
}

/// Leaves holes of addresses between runs of small and medium blocks.
static void make_islands(crowd_kit* kit) {
    for (size_t i = 0; i < 24; i++) {
        take(kit, G + G / 4);
        take(kit, 300);
        take(kit, G / 8);
        take(kit, 3 * G);
    }
    for (size_t i = 3; i < kit->count; i += 4)
        mover_give(kit->pool, &kit->owners[i]);
    for (size_t i = 0; i < kit->count; i += 8)
        mover_give(kit->pool, &kit->owners[i]);
    assert_ok(berth_stream_synchronize(kit->base.stream));
    berth_pool_trim(kit->pool, 0, true);
}

static void gathered_islands_lie_side_by_side_with_their_contents(void** state) {
    (void)state;
    const berth_sim_options options = {.capacity_bytes = 4 * KIT_CAPACITY, .granule_bytes = G};
    crowd_kit* kit = open_kit(&options);
    make_islands(kit);
    const uint64_t apart = berth_slides_plan(kit->pool, 4 * KIT_CAPACITY, true, &kit->slides);
    const uint64_t copies = berth_sim_query_calls(kit->base.device, BERTH_SIM_COPY);
    assert_ok(berth_stream_synchronize(kit->base.stream));
    berth_pool_gather(kit->pool, &(berth_move_count){0});
    assert_int_equal(berth_sim_query_calls(kit->base.device, BERTH_SIM_COPY), copies);
    const uint64_t moves = moves_of(kit);
    assert_true(moves > 0);
    check(kit);
    berth_pool_gather(kit->pool, &(berth_move_count){0});
    assert_int_equal(moves_of(kit), moves); // what lies side by side stays
    assert_true(berth_slides_plan(kit->pool, 4 * KIT_CAPACITY, true, &kit->slides) > apart);
    assert_true(run(kit) > 0);
    check(kit);
    close_kit(kit);
}

static void islands_with_pinned_blocks_stay(void** state) {
    (void)state;
    const berth_sim_options options = {.capacity_bytes = 4 * KIT_CAPACITY, .granule_bytes = G};
    crowd_kit* kit = open_kit(&options);
    make_islands(kit);
    for (size_t i = 0; i < kit->count; i++)
        kit->owners[i].is_pinned = i % 4 == 2;
    berth_pool_gather(kit->pool, &(berth_move_count){0});
    for (size_t i = 0; i < kit->count; i++)
        if (kit->owners[i].is_pinned) assert_int_equal(kit->owners[i].moves, 0);
    check(kit);
    close_kit(kit);
}

static void nothing_is_gathered_while_work_is_pending(void** state) {
    (void)state;
    const berth_sim_options options = {.capacity_bytes = 4 * KIT_CAPACITY, .granule_bytes = G};
    crowd_kit* kit = open_kit(&options);
    make_islands(kit);
    static unsigned char source[300];
    for (uint64_t i = 0; i < sizeof source; i++)
        source[i] = byte_at(&kit->owners[1], i);
    memory_kit_enqueue_write(kit->base.stream, kit->owners[1].block.data, source, sizeof source);
    berth_pool_gather(kit->pool, &(berth_move_count){0});
    assert_int_equal(moves_of(kit), 0);
    check(kit);
    close_kit(kit);
}

/// Gathers and pushes with the `nth` call of the device, or of the host, failing; true if none did.
static bool survives(size_t nth, bool host_fails) {
    const berth_sim_options options = {.capacity_bytes = 4 * KIT_CAPACITY, .granule_bytes = G};
    crowd_kit* kit = open_kit(&options);
    make_islands(kit);
    assert_ok(berth_stream_synchronize(kit->base.stream));
    const uint64_t calls = berth_sim_query_all_calls(kit->base.device);
    if (host_fails)
        failing_host_fail(&kit->base.failing, nth, false);
    else
        berth_sim_fail_any(kit->base.device, nth);
    berth_pool_gather(kit->pool, &(berth_move_count){0});
    berth_slides_plan(kit->pool, KIT_CAPACITY, true, &kit->slides);
    (void)run(kit);
    const bool done = host_fails ? !failing_host_has_failed(&kit->base.failing)
                                 : berth_sim_query_all_calls(kit->base.device) - calls < nth;
    failing_host_fail(&kit->base.failing, 0, false);
    berth_sim_fail_any(kit->base.device, 0);
    check(kit);
    close_kit(kit);
    return done;
}

static void whatever_fails_no_content_is_lost(void** state) {
    (void)state;
    size_t nth = 1;
    while (!survives(nth, false))
        nth++;
    assert_true(nth > 10);
    nth = 1;
    while (!survives(nth, true))
        nth++;
}

/// Random sizes come and go; now and then all is gathered and pushed.
static void random_programs_keep_their_contents(void** state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        berth_sim_options options = memory_kit_options();
        options.seed = seed % 3;
        options.no_remap = seed == 4;
        crowd_kit* kit = open_kit(&options);
        test_random random = test_random_make(seed);
        kit->count = 200;
        for (int i = 0; i < 3000; i++) {
            mover_owner* owner = &kit->owners[test_random_below(&random, kit->count)];
            const uint64_t bytes =
                test_random_below(&random, UINT64_C(64) << test_random_below(&random, 12));
            if (owner->is_out)
                mover_give(kit->pool, owner);
            else
                (void)!take_for(kit, owner, bytes, (unsigned char)i);
            if (i % 64 != 63) continue;
            if (test_random_one_in(&random, 2))
                berth_pool_gather(kit->pool, &(berth_move_count){0});
            berth_slides_plan(kit->pool, KIT_CAPACITY, true, &kit->slides);
            (void)run(kit);
            if (test_random_one_in(&random, 4)) berth_pool_trim(kit->pool, 0, true);
            check(kit);
        }
        close_kit(kit);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(neighbours_pushed_together_free_whole_granules),
        TEST(what_is_planned_is_no_more_than_what_is_asked_for_needs),
        TEST(blocks_that_stay_end_a_slide),
        TEST(a_compact_pool_has_nothing_to_push),
        cmocka_unit_test(gathered_islands_lie_side_by_side_with_their_contents),
        cmocka_unit_test(islands_with_pinned_blocks_stay),
        cmocka_unit_test(nothing_is_gathered_while_work_is_pending),
        cmocka_unit_test(whatever_fails_no_content_is_lost),
        cmocka_unit_test(random_programs_keep_their_contents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
