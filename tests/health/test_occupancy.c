// SPDX-License-Identifier: Apache-2.0
// A device that is nearly full: with compaction, what is free can be used. Counts only.
#include "memory/memory_kit.h"

#include "health/compactor.h"
#include "kit/movers.h"
#include "memory/ladder.h"

#define G KIT_GRANULE
/// Many granules, so that one is less than a thousandth of them.
#define GRANULES UINT64_C(1024)
#define CAPACITY (GRANULES * G)

enum { MOST = 65536 };

typedef struct full_kit {
    memory_kit base;
    berth_pool* pool;
    berth_tenant tenant;
    berth_compactor compactor;
    berth_reclaimer room_maker;
    mover_owner owners[MOST];
    size_t count;
    test_random random;
} full_kit;

static const berth_compact_budget slice = {.bytes = UINT64_C(1) << 20, .ns = UINT64_MAX / 2};

/// The rung of compaction, as contexts have one.
static uint64_t climb(void* self, const berth_tenant* climber, uint64_t wanted_bytes) {
    (void)climber;
    full_kit* kit = self;
    return berth_compactor_give_room(&kit->compactor, &slice, wanted_bytes, true);
}

static full_kit* open_kit(uint64_t seed, bool compacts) {
    full_kit* kit = calloc(1, sizeof *kit);
    assert_non_null(kit);
    const berth_sim_options options = {.capacity_bytes = CAPACITY, .granule_bytes = G};
    memory_kit_init(&kit->base, &options);
    kit->random = test_random_make(seed);
    berth_store_add_tenant(kit->base.store, &kit->tenant);
    const berth_pool_config config = {.host = kit->base.host,
                                      .store = kit->base.store,
                                      .tenant = &kit->tenant,
                                      .stream = kit->base.stream};
    assert_ok(berth_pool_create(&config, &kit->pool));
    berth_compactor_init(&kit->compactor, kit->base.host, kit->pool);
    kit->room_maker = (berth_reclaimer){.rung = BERTH_RUNG_COMPACTION,
                                        .tenant = &kit->tenant,
                                        .owner = BERTH_OWNER_POOL,
                                        .self = kit,
                                        .reclaim = climb};
    if (!compacts) return kit;
    berth_store_add_reclaimer(kit->base.store, &kit->room_maker);
    berth_pool_allow_moves(kit->pool);
    return kit;
}

static void close_kit(full_kit* kit, bool compacts) {
    for (size_t i = 0; i < kit->count; i++)
        if (kit->owners[i].is_out) mover_give(kit->pool, &kit->owners[i]);
    if (compacts) berth_store_remove_reclaimer(kit->base.store, &kit->room_maker);
    berth_compactor_fini(&kit->compactor);
    berth_pool_destroy(kit->pool);
    berth_store_remove_tenant(kit->base.store, &kit->tenant);
    memory_kit_fini(&kit->base);
    free(kit);
}

static berth_pool_stats stats_of(const full_kit* kit) {
    berth_pool_stats stats;
    berth_pool_query_stats(kit->pool, &stats);
    return stats;
}

/// Bytes of the device that are in no block, rounding of blocks left out.
static uint64_t free_bytes(const full_kit* kit) {
    const berth_pool_stats stats = stats_of(kit);
    return CAPACITY - (stats.mapped_bytes - stats.free_bytes);
}

static bool take(full_kit* kit, mover_owner* owner, uint64_t bytes) {
    const unsigned char mark = (unsigned char)test_random_u64(&kit->random);
    return mover_take(kit->pool, kit->base.stream, owner, bytes, mark) == BERTH_OK;
}

/// A number of bytes from `least` to `most`.
static uint64_t between(full_kit* kit, uint64_t least, uint64_t most) {
    return least + test_random_below(&kit->random, most - least + 1);
}

static bool fits(const full_kit* kit, uint64_t bytes, uint64_t percent) {
    return stats_of(kit).requested_bytes + bytes <= CAPACITY / 100 * percent;
}

/// Takes blocks until `percent` of the device are in use; none is refused.
static void fill(full_kit* kit, uint64_t least, uint64_t most, uint64_t percent) {
    for (; kit->count < MOST; kit->count++) {
        const uint64_t bytes = between(kit, least, most);
        if (!fits(kit, bytes, percent)) return;
        assert_true(take(kit, &kit->owners[kit->count], bytes));
    }
}

static void give_at(full_kit* kit, size_t at) {
    if (kit->owners[at].is_out) mover_give(kit->pool, &kit->owners[at]);
}

/// Granules that can be had now, one by one; they are given back.
static uint64_t count_granules(full_kit* kit) {
    static mover_owner owners[GRANULES];
    uint64_t count = 0;
    while (count < GRANULES && take(kit, &owners[count], G))
        count++;
    for (uint64_t i = 0; i < count; i++)
        mover_give(kit->pool, &owners[i]);
    return count;
}

static void check_contents(full_kit* kit) {
    assert_ok(berth_stream_synchronize(kit->base.stream));
    for (size_t i = 0; i < kit->count; i++)
        if (kit->owners[i].is_out) mover_check(&kit->owners[i]);
    assert_true(berth_pool_is_valid(kit->pool));
    memory_kit_check_books(&kit->base);
}

/// A sixth of the blocks goes and others come, as many as fit; none is refused.
static void replace_some(full_kit* kit, uint64_t least, uint64_t most, uint64_t percent) {
    for (size_t i = 0; i < kit->count; i++) {
        if (!test_random_one_in(&kit->random, 6)) continue;
        give_at(kit, i);
        const uint64_t bytes = between(kit, least, most);
        if (fits(kit, bytes, percent)) assert_true(take(kit, &kit->owners[i], bytes));
    }
}

static void at_95_percent_what_is_free_serves_granules_but_for_a_hundredth(void** state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 2; seed++) {
        full_kit* kit = open_kit(seed, true);
        fill(kit, G / 32, G / 4, 95);
        for (int round = 0; round < 12; round++)
            replace_some(kit, G / 32, G / 4, 95);
        const uint64_t free_before = free_bytes(kit);
        const uint64_t unused = free_before - count_granules(kit) * G;
        assert_true(unused <= CAPACITY / 100);
        check_contents(kit);
        close_kit(kit, true);
    }
}

static void a_request_that_scattered_memory_has_room_for_is_met_by_compaction_alone(void** state) {
    (void)state;
    for (int compacts = 0; compacts < 2; compacts++) {
        full_kit* kit = open_kit(3, compacts != 0);
        fill(kit, G / 4, G / 4, 97);
        for (size_t i = 1; i < kit->count; i += 2)
            give_at(kit, i);
        mover_owner large = {0};
        const uint64_t whole = free_bytes(kit) / G;
        assert_true(whole > GRANULES / 3);
        assert_int_equal(take(kit, &large, (whole - 1) * G), compacts != 0);
        check_contents(kit);
        if (large.is_out) mover_give(kit->pool, &large);
        close_kit(kit, compacts != 0);
    }
}

static void a_small_block_between_two_holes_does_not_keep_a_request_out(void** state) {
    (void)state;
    full_kit* kit = open_kit(4, true);
    const uint64_t half = (GRANULES / 2 - 1) * G;
    mover_owner lower, small, upper, large;
    assert_true(take(kit, &lower, half));
    assert_true(take(kit, &small, G / 2));
    assert_true(take(kit, &upper, half));
    mover_give(kit->pool, &lower);
    mover_give(kit->pool, &upper);
    assert_true(take(kit, &large, CAPACITY - G));
    mover_give(kit->pool, &large);
    mover_give(kit->pool, &small);
    close_kit(kit, true);
}

static void what_one_size_gave_back_serves_every_other_size(void** state) {
    (void)state;
    full_kit* kit = open_kit(5, true);
    static const uint64_t sizes[] = {192, 3 * G + 100, 5000, G, G / 2 + 64, 40 * G, 700};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        kit->count = 0;
        fill(kit, sizes[i], sizes[i], 80); // of the smallest, as many as there are owners
        for (size_t k = 0; k < kit->count; k++)
            give_at(kit, k);
    }
    assert_true(stats_of(kit).mapped_bytes <= CAPACITY / 10 * 9);
    assert_int_equal(count_granules(kit), GRANULES);
    close_kit(kit, true);
}

static void a_weight_in_a_large_hole_leaves_the_rest_of_it_to_large_requests(void** state) {
    (void)state;
    full_kit* kit = open_kit(6, true);
    mover_owner hole, weight, large;
    fill(kit, 12 * G, 12 * G, 70);
    assert_true(take(kit, &hole, 265 * G));
    mover_give(kit->pool, &hole);
    assert_true(take(kit, &weight, 135 * G));
    assert_true(take(kit, &large, free_bytes(kit) / G * G));
    assert_true(free_bytes(kit) < G);
    mover_give(kit->pool, &large);
    mover_give(kit->pool, &weight);
    check_contents(kit);
    close_kit(kit, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_95_percent_what_is_free_serves_granules_but_for_a_hundredth),
        cmocka_unit_test(a_request_that_scattered_memory_has_room_for_is_met_by_compaction_alone),
        cmocka_unit_test(a_small_block_between_two_holes_does_not_keep_a_request_out),
        cmocka_unit_test(what_one_size_gave_back_serves_every_other_size),
        cmocka_unit_test(a_weight_in_a_large_hole_leaves_the_rest_of_it_to_large_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
