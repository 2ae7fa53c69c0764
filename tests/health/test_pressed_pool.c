// SPDX-License-Identifier: Apache-2.0
// A pool that stays full while everything that moves its blocks is at work at once: requests that
// join runs, the rung of compaction, merges, slides and gathering, with owners that change their
// minds, slabs, and calls that fail.
#include "memory/crowd_kit.h"

#include "health/compactor.h"
#include "memory/ladder.h"
#include "memory/pool_join.h"

enum { BLOCKS = 90 };

typedef struct press_kit {
    crowd_kit* crowd;
    berth_tenant tenant;
    berth_compactor compactor;
    berth_reclaimer room_maker;
    test_random random;
} press_kit;

static const berth_compact_budget slice = {.bytes = 4 * G, .ns = UINT64_MAX / 2};

static uint64_t climb(void* self, const berth_tenant* climber, uint64_t wanted_bytes) {
    press_kit* kit = self;
    if (climber != &kit->tenant) return 0;
    return berth_compactor_give_room(&kit->compactor, &slice, wanted_bytes, true);
}

/// The pool of the crowd is one of a tenant with compaction.
static void open_press(press_kit* kit, const berth_sim_options* options, uint64_t seed) {
    crowd_kit* crowd = calloc(1, sizeof *crowd);
    assert_non_null(crowd);
    *kit = (press_kit){.crowd = crowd, .random = test_random_make(seed)};
    memory_kit_init(&crowd->base, options);
    berth_store_add_tenant(crowd->base.store, &kit->tenant);
    const berth_pool_config config = {.host = crowd->base.host,
                                      .store = crowd->base.store,
                                      .tenant = &kit->tenant,
                                      .stream = crowd->base.stream,
                                      .returns_at_once = seed % 2 == 0};
    assert_ok(berth_pool_create(&config, &crowd->pool));
    berth_pool_allow_moves(crowd->pool);
    berth_compactor_init(&kit->compactor, crowd->base.host, crowd->pool);
    kit->room_maker = (berth_reclaimer){.rung = BERTH_RUNG_COMPACTION,
                                        .tenant = &kit->tenant,
                                        .owner = BERTH_OWNER_POOL,
                                        .self = kit,
                                        .reclaim = climb};
    berth_store_add_reclaimer(crowd->base.store, &kit->room_maker);
}

static void close_press(press_kit* kit) {
    crowd_kit* crowd = kit->crowd;
    for (size_t i = 0; i < crowd->count; i++)
        if (crowd->owners[i].is_out) mover_give(crowd->pool, &crowd->owners[i]);
    berth_store_remove_reclaimer(crowd->base.store, &kit->room_maker);
    berth_compactor_fini(&kit->compactor);
    berth_slide_vec_fini(&crowd->slides, crowd->base.host);
    berth_pool_destroy(crowd->pool);
    berth_store_remove_tenant(crowd->base.store, &kit->tenant);
    memory_kit_fini(&crowd->base);
    free(crowd);
}

static uint64_t random_bytes(press_kit* kit) {
    test_random* random = &kit->random;
    const uint64_t change = test_random_below(random, 3) * 512;
    const uint64_t quarters = 1 + test_random_below(random, 14);
    if (test_random_one_in(random, 3)) return 1 + test_random_below(random, 4000);
    if (test_random_one_in(random, 2)) return quarters * (G / 4) + change;
    if (test_random_one_in(random, 2)) return quarters * (G / 4) - change;
    return 1 + test_random_below(random, 3 * G);
}

static void move_something(press_kit* kit) {
    crowd_kit* crowd = kit->crowd;
    berth_move_count count = {0};
    switch (test_random_below(&kit->random, 6)) {
    case 0:
        berth_pool_gather(crowd->pool, &count);
        break;
    case 1:
        (void)berth_pool_merge(crowd->pool, UINT64_MAX, &count);
        break;
    case 2:
        berth_slides_plan(crowd->pool, G, test_random_one_in(&kit->random, 2), &crowd->slides);
        for (size_t i = 0; i < crowd->slides.count; i++)
            while (berth_slide_query_next(crowd->pool, &crowd->slides.items[i]) != 0)
                if (!berth_slide_step(crowd->pool, &crowd->slides.items[i], &count)) break;
        break;
    case 3:
        (void)berth_compactor_press(&kit->compactor, &slice);
        break;
    case 4:
        (void)berth_compactor_tidy(&kit->compactor, &slice);
        break;
    default:
        berth_compactor_stir(&kit->compactor, &slice);
        break;
    }
}

static void stop_faults(crowd_kit* crowd) {
    failing_host_fail(&crowd->base.failing, 0, false);
    berth_sim_fail_any(crowd->base.device, 0);
}

/// As take_for, with faults only while the pool is asked.
static void take_one(press_kit* kit, mover_owner* owner, unsigned char mark) {
    crowd_kit* crowd = kit->crowd;
    *owner = (mover_owner){.movable = {&mover_ops}, .mark = mark};
    const berth_pool_request request = {.size_bytes = random_bytes(kit),
                                        .movable = &owner->movable};
    owner->is_out = berth_pool_take(crowd->pool, &request, &owner->block) == BERTH_OK;
    stop_faults(crowd);
    if (!owner->is_out) return;
    assert_ok(berth_stream_drain(crowd->base.stream));
    for (uint64_t at = 0; at < owner->block.size_bytes; at++)
        owner->block.data[at] = byte_at(owner, at);
}

static void use_pool(press_kit* kit, int i) {
    crowd_kit* crowd = kit->crowd;
    mover_owner* owner = &crowd->owners[test_random_below(&kit->random, crowd->count)];
    if (owner->is_out && test_random_one_in(&kit->random, 8)) owner->is_pinned = !owner->is_pinned;
    if (owner->is_out && test_random_one_in(&kit->random, 2)) mover_give(crowd->pool, owner);
    if (!owner->is_out) take_one(kit, owner, (unsigned char)i);
    berth_pool_set_waiting(crowd->pool, test_random_one_in(&kit->random, 2));
    if (i % 8 == 7) move_something(kit);
}

/// Lets a call of the device or of the host fail.
static void provoke(press_kit* kit) {
    crowd_kit* crowd = kit->crowd;
    const bool stays = test_random_one_in(&kit->random, 4);
    if (test_random_one_in(&kit->random, 2))
        berth_sim_fail_any(crowd->base.device, 1 + test_random_below(&kit->random, 12));
    else
        failing_host_fail(&crowd->base.failing, 1 + test_random_below(&kit->random, 6), stays);
}

static void run(uint64_t seed, bool fails) {
    berth_sim_options options = memory_kit_options();
    options.seed = seed % 4;
    options.no_remap = seed == 6;
    press_kit kit;
    open_press(&kit, &options, seed);
    crowd_kit* crowd = kit.crowd;
    crowd->count = BLOCKS;
    for (int i = 0; i < 320; i++) {
        if (fails && i % 2 == 1) provoke(&kit);
        use_pool(&kit, i);
        stop_faults(crowd);
        if (i % 32 != 31) continue;
        check(crowd);
    }
    check(crowd);
    close_press(&kit);
}

static void random_programs_keep_their_contents(void** state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 7; seed++)
        run(seed, false);
}
static void programs_whose_calls_fail_keep_their_contents(void** state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 7; seed++)
        run(seed, true);
}
/// Tidies and presses until there is nothing more to be done; returns the slices.
static uint64_t press_all(press_kit* kit, uint64_t slice_bytes) {
    const berth_compact_budget small = {.bytes = slice_bytes, .ns = slice.ns};
    uint64_t slices = 0;
    while (slices < 1000 && (berth_compactor_tidy(&kit->compactor, &small) ||
                             berth_compactor_press(&kit->compactor, &small))) {
        assert_ok(berth_stream_synchronize(kit->crowd->base.stream));
        slices++;
    }
    return slices;
}

static void pressing_ends_where_nothing_changes(void** state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        const berth_sim_options options = memory_kit_options();
        press_kit kit;
        open_press(&kit, &options, seed);
        kit.crowd->count = BLOCKS;
        for (int i = 0; i < 300; i++)
            use_pool(&kit, i);
        kit.compactor.stats = (berth_compact_stats){0};
        assert_true(press_all(&kit, (1 + seed % 4) * G) < 100);
        assert_true(kit.compactor.stats.moved_bytes <= KIT_CAPACITY);
        assert_int_equal(press_all(&kit, G), 0);
        check(kit.crowd);
        close_press(&kit);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_programs_keep_their_contents),
        cmocka_unit_test(programs_whose_calls_fail_keep_their_contents),
        cmocka_unit_test(pressing_ends_where_nothing_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
