// SPDX-License-Identifier: Apache-2.0
// What a pool notes of the requests for extents, and when it lets its watch look.
#include "memory_kit.h"

#include "memory/pool_internal.h"

#define SITE UINT64_C(0x123456789)

typedef struct look {
    berth_pool* pool;
    berth_pool_watch watch;
    uint64_t period;
    uint64_t samples;
    uint64_t notes[BERTH_POOL_OUTCOMES];
    uint64_t noted_bytes; ///< of the last one that failed or needed a move
    uint64_t noted_sites; ///< their sum
} look;

static void sample(void* self) {
    look* l = self;
    l->samples++;
    l->watch.next_takes = l->pool->takes + l->period;
}

static void note(void* self, uint64_t site, uint64_t size, berth_pool_outcome outcome) {
    look* l = self;
    l->notes[outcome]++;
    l->noted_sites += site;
    if (outcome == BERTH_POOL_MOVED || outcome == BERTH_POOL_REFUSED) l->noted_bytes = size;
}

static berth_pool* make_pool(const memory_kit* kit) {
    const berth_pool_config config = {
        .host = kit->host, .store = kit->store, .stream = kit->stream};
    berth_pool* pool;
    assert_ok(berth_pool_create(&config, &pool));
    return pool;
}

static berth_block take(berth_pool* pool, uint64_t size) {
    const berth_pool_request request = {.size_bytes = size, .site = SITE};
    berth_block block;
    assert_ok(berth_pool_take(pool, &request, &block));
    return block;
}

static uint64_t outcome_of(const berth_pool* pool, berth_pool_outcome outcome) {
    return pool->asked.outcomes[outcome];
}

static void every_size_is_in_the_class_whose_floor_is_next_below(void** state) {
    (void)state;
    for (uint32_t i = 0; i < BERTH_ASKED_CLASSES; i++) {
        const uint64_t floor = berth_asked_floor(i);
        assert_int_equal(berth_asked_class(floor), i);
        if (i > 0) assert_int_equal(berth_asked_class(floor - 1), i - 1);
    }
    assert_int_equal(berth_asked_class(UINT64_MAX), BERTH_ASKED_CLASSES - 1);
}

static void requests_are_sorted_by_how_they_ended(void** state) {
    (void)state;
    memory_kit kit;
    berth_sim_options options = memory_kit_options();
    options.no_remap = true;
    memory_kit_init(&kit, &options);
    berth_pool* pool = make_pool(&kit);
    look l = {.pool = pool, .period = UINT64_MAX};
    l.watch = (berth_pool_watch){&l, UINT64_MAX, sample, note};
    berth_pool_set_watch(pool, &l.watch);

    berth_block blocks[KIT_GRANULES];
    for (uint32_t i = 0; i < KIT_GRANULES; i++)
        blocks[i] = take(pool, KIT_GRANULE);
    assert_int_equal(outcome_of(pool, BERTH_POOL_GREW), KIT_GRANULES);
    // a comb: half of the memory is free, no two granules of it together
    for (uint32_t i = 0; i < KIT_GRANULES; i += 2)
        berth_pool_give(pool, &blocks[i]);
    blocks[0] = take(pool, KIT_GRANULE);
    assert_int_equal(outcome_of(pool, BERTH_POOL_FOUND), 1);
    berth_block none;
    const berth_pool_request two = {.size_bytes = 2 * KIT_GRANULE};
    assert_int_equal(berth_pool_take(pool, &two, &none), BERTH_OK);
    // the free granules went back one by one and came again in one piece
    assert_int_equal(outcome_of(pool, BERTH_POOL_MOVED), 1);
    assert_int_equal(l.noted_bytes, 2 * KIT_GRANULE);
    berth_pool_give(pool, &none);
    const berth_pool_request all = {.size_bytes = KIT_CAPACITY};
    assert_int_equal(berth_pool_take(pool, &all, &none), BERTH_ERR_OUT_OF_MEMORY);
    assert_int_equal(outcome_of(pool, BERTH_POOL_FULL), 1);
    assert_int_equal(l.noted_bytes, 2 * KIT_GRANULE);
    assert_int_equal(outcome_of(pool, BERTH_POOL_SPREAD), 0);
    berth_pool_give(pool, &blocks[0]);
    for (uint32_t i = 1; i < KIT_GRANULES; i += 2)
        berth_pool_give(pool, &blocks[i]);
    berth_pool_destroy(pool);
    memory_kit_fini(&kit);
}

static void a_request_met_by_moving_what_is_free_is_noted(void** state) {
    memory_kit* kit = *state;
    berth_pool* pool = make_pool(kit);
    look l = {.pool = pool, .period = UINT64_MAX};
    l.watch = (berth_pool_watch){&l, UINT64_MAX, sample, note};
    berth_pool_set_watch(pool, &l.watch);
    berth_block blocks[4];
    for (uint32_t i = 0; i < 4; i++)
        blocks[i] = take(pool, KIT_GRANULE);
    berth_pool_give(pool, &blocks[0]);
    berth_pool_give(pool, &blocks[2]);
    const berth_block wide = take(pool, 2 * KIT_GRANULE);
    assert_int_equal(outcome_of(pool, BERTH_POOL_MOVED), 1);
    assert_int_equal(l.notes[BERTH_POOL_MOVED], 1);
    assert_int_equal(l.noted_bytes, 2 * KIT_GRANULE);
    assert_true(pool->asked.moved_bytes >= KIT_GRANULE);
    berth_pool_give(pool, &wide);
    berth_pool_give(pool, &blocks[1]);
    berth_pool_give(pool, &blocks[3]);
    berth_pool_destroy(pool);
}

static void small_blocks_outside_the_granules_in_use_are_refused_though_free(void** state) {
    memory_kit* kit = *state;
    berth_pool* pool = make_pool(kit);
    look l = {.pool = pool, .period = UINT64_MAX};
    l.watch = (berth_pool_watch){&l, UINT64_MAX, sample, note};
    berth_pool_set_watch(pool, &l.watch);
    // two thirds of every granule are taken: what is free is no granule anywhere
    const uint64_t size = KIT_GRANULE * 5 / 8;
    berth_block blocks[KIT_GRANULES];
    for (uint32_t i = 0; i < KIT_GRANULES; i++)
        blocks[i] = take(pool, i % 2 == 0 ? size : KIT_GRANULE);
    const berth_pool_request whole = {.size_bytes = KIT_GRANULE};
    berth_block none;
    assert_int_equal(berth_pool_take(pool, &whole, &none), BERTH_ERR_OUT_OF_MEMORY);
    assert_int_equal(l.notes[BERTH_POOL_REFUSED], 1);
    assert_int_equal(l.noted_bytes, KIT_GRANULE);
    for (uint32_t i = 0; i < KIT_GRANULES; i++)
        berth_pool_give(pool, &blocks[i]);
    berth_pool_destroy(pool);
}

static void the_watch_looks_once_in_its_period_of_takes(void** state) {
    memory_kit* kit = *state;
    berth_pool* pool = make_pool(kit);
    look l = {.pool = pool, .period = 10};
    l.watch = (berth_pool_watch){&l, 0, sample, note};
    berth_pool_set_watch(pool, &l.watch);
    for (uint32_t i = 0; i < 100; i++) {
        const berth_block block = take(pool, KIT_GRANULE);
        berth_pool_give(pool, &block);
    }
    assert_int_equal(l.samples, 10);
    assert_int_equal(l.noted_sites, 100 * SITE);
    berth_pool_set_watch(pool, NULL);
    const berth_block block = take(pool, KIT_GRANULE);
    berth_pool_give(pool, &block);
    assert_int_equal(l.samples, 10);
    assert_int_equal(pool->asked.counts[berth_asked_class(KIT_GRANULE)], 101);
    assert_int_equal(pool->asked.bytes, 101 * KIT_GRANULE);
    berth_pool_destroy(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_is_in_the_class_whose_floor_is_next_below),
        cmocka_unit_test(requests_are_sorted_by_how_they_ended),
        cmocka_unit_test_setup_teardown(
            a_request_met_by_moving_what_is_free_is_noted, memory_kit_setup, memory_kit_teardown),
        cmocka_unit_test_setup_teardown(
            small_blocks_outside_the_granules_in_use_are_refused_though_free,
            memory_kit_setup,
            memory_kit_teardown),
        cmocka_unit_test_setup_teardown(
            the_watch_looks_once_in_its_period_of_takes, memory_kit_setup, memory_kit_teardown),
    };
    return cmocka_run_group_tests_name("pool watch", tests, NULL, NULL);
}
