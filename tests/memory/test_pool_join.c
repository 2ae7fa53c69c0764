// SPDX-License-Identifier: Apache-2.0
// Runs of blocks that are carried next to each other: places that are found so, granules that are
// gained, what stays where it is, and what fails.
#include "crowd_kit.h"

#include "memory/pool_join.h"

/// Fills the device with blocks of 1 1/4 granules and a large one, so that there is no granule
/// left, and gives two blocks back: each leaves a stretch of 1 1/4, in other parts of its granules.
static crowd_kit* open_crowd(const berth_sim_options* options, bool may_move) {
    crowd_kit* kit = open_kit(options);
    for (size_t i = 0; i < 40; i++)
        take(kit, G + G / 4);
    take(kit, 14 * G);
    mover_give(kit->pool, &kit->owners[1]);
    mover_give(kit->pool, &kit->owners[6]);
    berth_pool_flush_front(kit->pool);
    if (may_move) berth_pool_allow_moves(kit->pool);
    assert_ok(berth_stream_synchronize(kit->base.stream));
    return kit;
}

static const uint64_t wide = G + G / 2 - 1024;

static uint64_t copies_of(const crowd_kit* kit) {
    return berth_sim_query_calls(kit->base.device, BERTH_SIM_COPY);
}

static void a_block_lies_over_the_ends_of_two_runs_and_nothing_is_copied(void** state) {
    (void)state;
    const berth_sim_options options = memory_kit_options();
    crowd_kit* kit = open_crowd(&options, true);
    const uint64_t copies = copies_of(kit);
    take(kit, wide);
    assert_int_equal(copies_of(kit), copies);
    assert_true(moves_of(kit) > 0);
    check(kit);
    close_kit(kit);
}

static void no_block_moves_for_a_take_unless_that_is_allowed(void** state) {
    (void)state;
    const berth_sim_options options = memory_kit_options();
    crowd_kit* kit = open_crowd(&options, false);
    assert_int_equal(take_for(kit, &kit->owners[kit->count], wide, 1), BERTH_ERR_OUT_OF_MEMORY);
    assert_int_equal(moves_of(kit), 0);
    check(kit);
    close_kit(kit);
}

static void pinned_blocks_and_those_with_pending_work_stay(void** state) {
    (void)state;
    const berth_sim_options options = memory_kit_options();
    for (int is_pinned = 0; is_pinned < 2; is_pinned++) {
        crowd_kit* kit = open_crowd(&options, true);
        static unsigned char source[300];
        for (uint64_t i = 0; i < sizeof source; i++)
            source[i] = byte_at(&kit->owners[2], i);
        if (is_pinned)
            for (size_t i = 0; i < kit->count; i++)
                kit->owners[i].is_pinned = true;
        else
            memory_kit_enqueue_write(
                kit->base.stream, kit->owners[2].block.data, source, sizeof source);
        assert_int_equal(take_for(kit, &kit->owners[kit->count], wide, 1), BERTH_ERR_OUT_OF_MEMORY);
        assert_int_equal(moves_of(kit), 0);
        check(kit);
        close_kit(kit);
    }
}

static void a_merge_gains_a_granule_for_less_than_half_a_granule_of_copies(void** state) {
    (void)state;
    const berth_sim_options options = memory_kit_options();
    crowd_kit* kit = open_crowd(&options, false);
    assert_int_equal(whole_bytes(kit), 0);
    berth_move_count count = {0};
    assert_true(berth_pool_merge(kit->pool, UINT64_MAX, &count));
    assert_int_equal(whole_bytes(kit), G);
    assert_true(count.moved_bytes > 0 && count.moved_bytes <= G / 2);
    check(kit);
    close_kit(kit);
}

static void a_merge_that_copies_more_than_it_may_is_left_out(void** state) {
    (void)state;
    const berth_sim_options options = memory_kit_options();
    crowd_kit* kit = open_crowd(&options, false);
    berth_move_count count = {0};
    assert_false(berth_pool_merge(kit->pool, G / 8, &count));
    assert_int_equal(moves_of(kit), 0);
    assert_true(berth_pool_merge(kit->pool, G / 4, &count));
    close_kit(kit);
}

/// Takes and merges with the `nth` call of the device, or of the host, failing; true if none did.
static bool survives(size_t nth, bool host_fails) {
    const berth_sim_options options = memory_kit_options();
    crowd_kit* kit = open_crowd(&options, true);
    mover_give(kit->pool, &kit->owners[11]);
    mover_give(kit->pool, &kit->owners[20]);
    berth_pool_flush_front(kit->pool);
    const uint64_t calls = berth_sim_query_all_calls(kit->base.device);
    if (host_fails)
        failing_host_fail(&kit->base.failing, nth, false);
    else
        berth_sim_fail_any(kit->base.device, nth);
    mover_owner* owner = &kit->owners[1];
    *owner = (mover_owner){.movable = {&mover_ops}, .mark = 1};
    const berth_pool_request request = {.size_bytes = wide, .movable = &owner->movable};
    owner->is_out = berth_pool_take(kit->pool, &request, &owner->block) == BERTH_OK;
    for (uint64_t at = 0; owner->is_out && at < wide; at++)
        owner->block.data[at] = byte_at(owner, at);
    berth_move_count count = {0};
    while (berth_pool_merge(kit->pool, UINT64_MAX, &count))
        (void)berth_pool_wait(kit->pool);
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
    assert_true(nth > 6);
    nth = 1;
    while (!survives(nth, true))
        nth++;
}

/// Random sizes come and go on a device that stays full; merges come in between.
static void random_programs_keep_their_contents(void** state) {
    (void)state;
    uint64_t moves = 0;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        berth_sim_options options = memory_kit_options();
        options.seed = seed % 3;
        crowd_kit* kit = open_kit(&options);
        berth_pool_allow_moves(kit->pool);
        test_random random = test_random_make(seed);
        kit->count = 120;
        for (int i = 0; i < 2000; i++) {
            mover_owner* owner = &kit->owners[test_random_below(&random, kit->count)];
            const uint64_t bytes =
                test_random_below(&random, UINT64_C(64) << test_random_below(&random, 13));
            if (owner->is_out && test_random_one_in(&random, 2)) mover_give(kit->pool, owner);
            if (!owner->is_out) (void)!take_for(kit, owner, bytes, (unsigned char)i);
            berth_pool_set_waiting(kit->pool, test_random_one_in(&random, 2));
            berth_move_count count = {0};
            if (i % 16 == 15) (void)berth_pool_merge(kit->pool, UINT64_MAX, &count);
            if (i % 64 == 63) check(kit);
        }
        moves += moves_of(kit);
        check(kit);
        close_kit(kit);
    }
    assert_true(moves > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_lies_over_the_ends_of_two_runs_and_nothing_is_copied),
        cmocka_unit_test(no_block_moves_for_a_take_unless_that_is_allowed),
        cmocka_unit_test(pinned_blocks_and_those_with_pending_work_stay),
        cmocka_unit_test(a_merge_gains_a_granule_for_less_than_half_a_granule_of_copies),
        cmocka_unit_test(a_merge_that_copies_more_than_it_may_is_left_out),
        cmocka_unit_test(whatever_fails_no_content_is_lost),
        cmocka_unit_test(random_programs_keep_their_contents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
