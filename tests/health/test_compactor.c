// SPDX-License-Identifier: Apache-2.0
// Compaction of a pool: what it empties, what it leaves alone, and that no content is lost.
#include "memory/memory_kit.h"

#include "base/clock.h"
#include "health/compactor.h"
#include "kit/movers.h"

#define G KIT_GRANULE

enum { MOST = 6000 };

typedef struct compact_kit {
    memory_kit base;
    berth_pool* pool;
    berth_compactor compactor;
    mover_owner owners[MOST];
    size_t count;
} compact_kit;

static const berth_compact_budget plenty = {.bytes = UINT64_MAX, .ns = UINT64_MAX / 2};

static compact_kit* open_kit(const berth_sim_options* options) {
    compact_kit* kit = calloc(1, sizeof *kit);
    assert_non_null(kit);
    memory_kit_init(&kit->base, options);
    const berth_pool_config config = {
        .host = kit->base.host, .store = kit->base.store, .stream = kit->base.stream};
    assert_ok(berth_pool_create(&config, &kit->pool));
    berth_compactor_init(&kit->compactor, kit->base.host, kit->pool);
    return kit;
}

static void close_kit(compact_kit* kit) {
    for (size_t i = 0; i < kit->count; ++i)
        if (kit->owners[i].is_out) mover_give(kit->pool, &kit->owners[i]);
    berth_compactor_fini(&kit->compactor);
    berth_pool_destroy(kit->pool);
    memory_kit_fini(&kit->base);
    free(kit);
}

static int setup(void** state) {
    const berth_sim_options options = memory_kit_options();
    *state = open_kit(&options);
    return 0;
}

static int teardown(void** state) {
    close_kit(*state);
    return 0;
}

/// Takes `bytes` at a time until the pool refuses or there are `limit` blocks.
static void fill(compact_kit* kit, uint64_t bytes, size_t limit) {
    for (; kit->count < limit; ++kit->count)
        if (mover_take(kit->pool,
                       kit->base.stream,
                       &kit->owners[kit->count],
                       bytes,
                       (unsigned char)(kit->count * 7 + 1)) != BERTH_OK)
            break;
}

/// Gives back all but every `kept`-th block, beginning with `from`.
static void thin_out(compact_kit* kit, size_t kept, size_t from) {
    for (size_t i = from; i < kit->count; ++i)
        if ((i - from) % kept != 0) mover_give(kit->pool, &kit->owners[i]);
}

static void check(compact_kit* kit) {
    assert_ok(berth_stream_synchronize(kit->base.stream));
    for (size_t i = 0; i < kit->count; ++i)
        if (kit->owners[i].is_out) mover_check(&kit->owners[i]);
    assert_true(berth_pool_is_valid(kit->pool));
    memory_kit_check_books(&kit->base);
}

static uint64_t live_bytes(const compact_kit* kit) {
    berth_pool_stats stats;
    berth_pool_query_stats(kit->pool, &stats);
    return stats.requested_bytes;
}

/// Makes slices until there is nothing more to do; fails if that takes for ever.
static void tidy(compact_kit* kit, const berth_compact_budget* slice) {
    for (int i = 0; berth_compactor_tidy(&kit->compactor, slice); ++i)
        assert_true(i < 20000);
    check(kit);
}

static void a_comb_of_blocks_is_packed_and_the_rest_goes_back(void** state) {
    compact_kit* kit = *state;
    fill(kit, G / 8, MOST);
    thin_out(kit, 4, 0);
    const uint64_t live = live_bytes(kit);
    tidy(kit, &plenty);
    berth_pool_trim(kit->pool, 0, true);
    const uint64_t mapped = memory_kit_stats(&kit->base).mapped_bytes;
    assert_true(mapped <= live + live / 16 + 2 * G);
    assert_true(kit->compactor.stats.emptied_bytes > 0);
    check(kit);
}

static void the_slots_of_sparse_slabs_join(void** state) {
    compact_kit* kit = *state;
    fill(kit, 256, MOST);
    thin_out(kit, 16, 0);
    const uint64_t before = memory_kit_stats(&kit->base).mapped_bytes;
    tidy(kit, &plenty);
    berth_pool_trim(kit->pool, 0, true);
    assert_true(memory_kit_stats(&kit->base).mapped_bytes <= before / 8);
    check(kit);
}

static void a_compact_pool_is_left_alone(void** state) {
    compact_kit* kit = *state;
    fill(kit, G / 8, MOST);
    thin_out(kit, 3, 0);
    tidy(kit, &plenty);
    const uint64_t moved = kit->compactor.stats.moved_bytes;
    assert_true(moved > 0);
    // a change of nothing that matters begins another round
    mover_owner guest;
    assert_ok(mover_take(kit->pool, kit->base.stream, &guest, 64, 1));
    mover_give(kit->pool, &guest);
    tidy(kit, &plenty);
    tidy(kit, &plenty);
    assert_int_equal(kit->compactor.stats.moved_bytes, moved);
}

static void a_request_that_is_refused_is_met_after_room_was_made(void** state) {
    compact_kit* kit = *state;
    fill(kit, G / 4, MOST);
    thin_out(kit, 4, 1); // every granule keeps one block or two
    mover_owner* large = &kit->owners[kit->count];
    const uint64_t bytes = 40 * G;
    assert_int_equal(mover_take(kit->pool, kit->base.stream, large, bytes, 3),
                     BERTH_ERR_OUT_OF_MEMORY);
    const uint64_t least = 40 * G / 4;
    assert_int_equal(berth_compactor_make_room(&kit->compactor, &plenty, bytes, true), bytes);
    assert_true(kit->compactor.stats.moved_bytes <= least + least / 2);
    assert_ok(mover_take(kit->pool, kit->base.stream, large, bytes, 3));
    ++kit->count;
    check(kit);
}

static void nothing_is_moved_for_room_that_cannot_be_made(void** state) {
    compact_kit* kit = *state;
    fill(kit, G / 4, MOST);
    thin_out(kit, 2, 0);
    assert_int_equal(berth_compactor_make_room(&kit->compactor, &plenty, 50 * G, true), 0);
    assert_int_equal(kit->compactor.stats.moved_bytes, 0);
    check(kit);
}

static void what_is_pinned_stays_and_others_make_the_room(void** state) {
    compact_kit* kit = *state;
    fill(kit, G / 4, MOST);
    thin_out(kit, 4, 0);
    for (size_t i = 0; i < kit->count; i += 12)
        kit->owners[i].is_pinned = true;
    assert_int_equal(berth_compactor_make_room(&kit->compactor, &plenty, 16 * G, true), 16 * G);
    for (size_t i = 0; i < kit->count; i += 12)
        assert_int_equal(kit->owners[i].moves, 0);
    check(kit);
}

static void blocks_without_an_owner_stay(void** state) {
    compact_kit* kit = *state;
    berth_block stuck[64];
    for (size_t i = 0; i < 64; ++i) {
        assert_ok(berth_pool_take(
            kit->pool, &(berth_pool_request){.size_bytes = G / 2 + G / 4}, &stuck[i]));
    }
    for (size_t i = 0; i < 64; i += 2)
        berth_pool_give(kit->pool, &stuck[i]);
    tidy(kit, &plenty);
    assert_int_equal(kit->compactor.stats.moved_bytes, 0);
    for (size_t i = 1; i < 64; i += 2)
        berth_pool_give(kit->pool, &stuck[i]);
}

static void hot_blocks_are_moved_last(void** state) {
    compact_kit* kit = *state;
    fill(kit, G / 4, MOST);
    thin_out(kit, 4, 0);
    for (size_t i = 0; i < kit->count; i += 4)
        kit->owners[i].last_use = i % 8 == 0 ? 1000 : 1;
    assert_int_equal(berth_compactor_make_room(&kit->compactor, &plenty, 30 * G, true), 30 * G);
    for (size_t i = 0; i < kit->count; i += 8)
        assert_int_equal(kit->owners[i].moves, 0);
}

static void a_slice_copies_no_more_than_its_bytes(void** state) {
    compact_kit* kit = *state;
    fill(kit, G / 8, MOST);
    thin_out(kit, 4, 0);
    const berth_compact_budget slice = {.bytes = G / 4, .ns = UINT64_MAX / 2};
    uint64_t moved = 0;
    uint64_t slices = 0;
    while (berth_compactor_tidy(&kit->compactor, &slice)) {
        const uint64_t now = kit->compactor.stats.moved_bytes;
        assert_true(now - moved <= slice.bytes);
        slices += now > moved;
        moved = now;
        check(kit);
        assert_true(slices < 1000);
    }
    assert_true(slices > 8);
    berth_pool_trim(kit->pool, 0, true);
    assert_true(memory_kit_stats(&kit->base).mapped_bytes <= KIT_CAPACITY / 4 + 4 * G);
}

static uint64_t ticking(void* self) {
    uint64_t* now = self;
    return *now += 1000;
}

static void a_slice_begins_nothing_after_its_time(void** state) {
    compact_kit* kit = *state;
    fill(kit, G / 8, MOST);
    thin_out(kit, 4, 0);
    uint64_t now = 0;
    const berth_clock_source clock = {.now_ns = ticking, .self = &now};
    berth_clock_set_source(&clock);
    const berth_compact_budget slice = {.bytes = UINT64_MAX, .ns = 20000};
    tidy(kit, &slice);
    berth_clock_set_source(NULL);
    assert_true(kit->compactor.stats.slices > 8);
    assert_true(kit->compactor.stats.longest_ns <= 30000);
    assert_true(berth_compact_query_slice_ns(&kit->compactor.stats, 990) <= 32768);
    assert_true(berth_compact_query_slice_ns(&kit->compactor.stats, 0) > 0);
}

static void blocks_that_pass_borders_of_granules_are_moved_whole(void** state) {
    compact_kit* kit = *state;
    fill(kit, G / 4 + G / 8, MOST);
    thin_out(kit, 3, 0);
    assert_int_equal(berth_compactor_make_room(&kit->compactor, &plenty, 12 * G, true), 12 * G);
    check(kit);
    tidy(kit, &plenty);
}

/// A block that stays where it is.
static berth_block take_firmly(compact_kit* kit, uint64_t bytes) {
    berth_block block;
    assert_ok(
        berth_pool_take(kit->pool, &(berth_pool_request){.size_bytes = bytes, .site = 0}, &block));
    return block;
}

static void a_slab_with_a_remainder_in_a_victim_is_emptied_elsewhere(void** state) {
    compact_kit* kit = *state;
    // two granules: the second block lies over the border between them
    const berth_block firm = take_firmly(kit, G * 3 / 4);
    fill(kit, G / 4 + 256, 1);
    fill(kit, G / 4, 2);
    fill(kit, G * 3 / 4 - 256, 3);
    mover_give(kit->pool, &kit->owners[0]);
    const berth_block lone = take_firmly(kit, G / 4 + 512); // in a granule that has room
    // what it leaves is little more than a slab
    mover_owner* small = &kit->owners[0];
    assert_ok(mover_take(kit->pool, kit->base.stream, small, 256, 9));
    assert_ptr_equal(small->block.data, firm.data + G * 3 / 4);
    mover_give(kit->pool, &kit->owners[2]);
    tidy(kit, &plenty);
    assert_int_equal(kit->owners[1].moves, 1);
    assert_int_equal(small->moves, 1);
    berth_pool_give(kit->pool, &firm);
    berth_pool_give(kit->pool, &lone);
    check(kit);
}

/// A random program with compaction at random moments; faults where `fails`.
static void run_randomly(uint64_t seed, bool fails) {
    berth_sim_options options = memory_kit_options();
    options.seed = seed;
    options.no_remap = seed % 2 == 0;
    compact_kit* kit = open_kit(&options);
    test_random random = test_random_make(seed);
    kit->count = 300;
    for (int i = 0; i < 3000; ++i) {
        mover_owner* owner = &kit->owners[test_random_below(&random, kit->count)];
        if (fails && test_random_one_in(&random, 8))
            berth_sim_fail_any(kit->base.device, 1 + test_random_below(&random, 4));
        if (fails && test_random_one_in(&random, 8))
            failing_host_fail(&kit->base.failing, 1 + test_random_below(&random, 3), false);
        const uint64_t shift = test_random_below(&random, 19);
        const uint64_t bytes = 1 + test_random_below(&random, UINT64_C(1) << shift);
        const berth_compact_budget slice = {.bytes = test_random_below(&random, 4 * G),
                                            .ns = UINT64_MAX / 2};
        switch (test_random_below(&random, 8)) {
        case 0:
            (void)berth_compactor_tidy(&kit->compactor, &slice);
            break;
        case 1:
            berth_compactor_stir(&kit->compactor, &slice);
            break;
        case 2:
            if (test_random_one_in(&random, 8))
                berth_compactor_make_room(&kit->compactor, &slice, bytes, true);
            owner->is_pinned = owner->is_out && test_random_one_in(&random, 4);
            break;
        default:
            berth_sim_fail_any(kit->base.device, 0);
            if (owner->is_out) {
                // whatever is enqueued still writes the block
                assert_ok(berth_stream_drain(kit->base.stream));
                mover_check(owner);
                mover_give(kit->pool, owner);
            } else {
                (void)!mover_take(
                    kit->pool, kit->base.stream, owner, bytes, (unsigned char)(i + 1));
            }
        }
        assert_true(berth_pool_is_valid(kit->pool));
    }
    berth_sim_fail_any(kit->base.device, 0);
    failing_host_fail(&kit->base.failing, 0, false);
    check(kit);
    close_kit(kit);
}

static void random_programs_keep_their_contents(void** state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 6; ++seed)
        run_randomly(seed, false);
}

static void faults_at_any_call_lose_nothing(void** state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 8; ++seed)
        run_randomly(seed, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_comb_of_blocks_is_packed_and_the_rest_goes_back, setup, teardown),
        cmocka_unit_test_setup_teardown(the_slots_of_sparse_slabs_join, setup, teardown),
        cmocka_unit_test_setup_teardown(a_compact_pool_is_left_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_request_that_is_refused_is_met_after_room_was_made, setup, teardown),
        cmocka_unit_test_setup_teardown(
            nothing_is_moved_for_room_that_cannot_be_made, setup, teardown),
        cmocka_unit_test_setup_teardown(
            what_is_pinned_stays_and_others_make_the_room, setup, teardown),
        cmocka_unit_test_setup_teardown(blocks_without_an_owner_stay, setup, teardown),
        cmocka_unit_test_setup_teardown(hot_blocks_are_moved_last, setup, teardown),
        cmocka_unit_test_setup_teardown(a_slice_copies_no_more_than_its_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_slice_begins_nothing_after_its_time, setup, teardown),
        cmocka_unit_test_setup_teardown(
            blocks_that_pass_borders_of_granules_are_moved_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_slab_with_a_remainder_in_a_victim_is_emptied_elsewhere, setup, teardown),
        cmocka_unit_test(random_programs_keep_their_contents),
        cmocka_unit_test(faults_at_any_call_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
