// SPDX-License-Identifier: Apache-2.0
// A pool that keeps nothing: idle granules go back with the give that makes them many.
#include "memory_kit.h"

#include "memory/pool.h"

#define G KIT_GRANULE
#define GRANULES (4 * KIT_GRANULES)

typedef struct keep_kit {
    memory_kit base;
    berth_pool* pool;
} keep_kit;

static int set_up(void** state, bool returns_at_once) {
    keep_kit* kit = calloc(1, sizeof *kit);
    berth_sim_options options = memory_kit_options();
    options.capacity_bytes = GRANULES * G;
    memory_kit_init(&kit->base, &options);
    const berth_pool_config config = {.host = kit->base.host,
                                      .store = kit->base.store,
                                      .stream = kit->base.stream,
                                      .returns_at_once = returns_at_once};
    assert_ok(berth_pool_create(&config, &kit->pool));
    *state = kit;
    return 0;
}

static int set_up_at_once(void** state) { return set_up(state, true); }
static int set_up_keeping(void** state) { return set_up(state, false); }

static int tear_down(void** state) {
    keep_kit* kit = *state;
    berth_pool_destroy(kit->pool);
    memory_kit_fini(&kit->base);
    free(kit);
    return 0;
}

static uint64_t mapped(const keep_kit* kit) {
    assert_true(berth_pool_is_valid(kit->pool));
    memory_kit_check_books(&kit->base);
    return memory_kit_stats(&kit->base).mapped_bytes;
}

static berth_block take(keep_kit* kit, uint64_t size, berth_reservation* reservation) {
    berth_block block;
    const berth_pool_request request = {.size_bytes = size, .reservation = reservation};
    assert_ok(berth_pool_take(kit->pool, &request, &block));
    return block;
}

static void give(keep_kit* kit, berth_block block) { berth_pool_give(kit->pool, &block); }

static void a_give_gives_its_granules_back(void** state) {
    keep_kit* kit = *state;
    const berth_block first = take(kit, 2 * G, NULL);
    const berth_block second = take(kit, 3 * G, NULL);
    give(kit, second);
    assert_int_equal(mapped(kit), 2 * G);
    give(kit, first);
    assert_int_equal(mapped(kit), 0);
}

static void a_pool_that_keeps_waits_for_a_trim(void** state) {
    keep_kit* kit = *state;
    give(kit, take(kit, 5 * G, NULL));
    assert_int_equal(mapped(kit), 5 * G);
    assert_int_equal(berth_pool_trim(kit->pool, 0, false), 5 * G);
}

static void parts_of_a_granule_go_back_with_its_last_block(void** state) {
    keep_kit* kit = *state;
    const berth_block first = take(kit, G / 2 * 3, NULL);
    const berth_block second = take(kit, G / 2 * 3, NULL);
    assert_int_equal(mapped(kit), 3 * G);
    give(kit, second);
    assert_int_equal(mapped(kit), 2 * G); // they shared the one in the middle
    give(kit, first);
    assert_int_equal(mapped(kit), 0);
}

static void few_idle_granules_beside_many_in_use_stay(void** state) {
    keep_kit* kit = *state;
    const berth_block large = take(kit, 128 * G, NULL);
    berth_block few[3];
    for (int i = 0; i < 3; i++)
        few[i] = take(kit, G, NULL);
    give(kit, few[0]);
    give(kit, few[1]);
    assert_int_equal(mapped(kit), 131 * G); // two beside 129 are no more than a 64th
    give(kit, few[2]);
    assert_int_equal(mapped(kit), 128 * G);
    give(kit, large);
    assert_int_equal(mapped(kit), 0);
}

static void what_was_promised_stays_mapped_until_the_step_ends(void** state) {
    keep_kit* kit = *state;
    berth_reservation reservation = {0};
    const berth_account account = memory_kit_account(&kit->base, BERTH_OWNER_POOL);
    assert_ok(berth_store_reserve(account, 4 * G, &reservation));
    give(kit, take(kit, 4 * G, &reservation));
    assert_int_equal(reservation.bytes, 0);
    assert_int_equal(mapped(kit), 4 * G);
    // nobody else can have them before the promise is needed again
    const berth_block rest = take(kit, (GRANULES - 4) * G, NULL);
    const berth_block again = take(kit, 4 * G, &reservation);
    give(kit, again);
    give(kit, rest);
    assert_int_equal(mapped(kit), GRANULES * G);
    berth_pool_note_step(kit->pool);
    give(kit, take(kit, G, NULL));
    assert_int_equal(mapped(kit), 0);
}

/// Promises all that nobody has to somebody else.
static void take_the_rest(keep_kit* kit, berth_reservation* others) {
    const berth_store_stats stats = memory_kit_stats(&kit->base);
    const uint64_t left = stats.capacity_bytes - stats.mapped_bytes - stats.reserved_bytes;
    assert_ok(
        berth_store_reserve(memory_kit_account(&kit->base, BERTH_OWNER_FRAMES), left, others));
}

static void nobody_gets_idle_granules_that_a_promise_counts_on(void** state) {
    keep_kit* kit = *state;
    const berth_account account = memory_kit_account(&kit->base, BERTH_OWNER_POOL);
    berth_reservation promise = {0}, others = {0};
    give(kit, take(kit, 2 * G, NULL)); // idle before
    assert_ok(berth_store_reserve(account, 4 * G, &promise));
    give(kit, take(kit, 6 * G, &promise));
    assert_int_equal(mapped(kit), 6 * G);
    assert_int_equal(berth_pool_release_idle(kit->pool, 0, G), G);
    assert_int_equal(berth_pool_trim(kit->pool, 0, true), G);
    assert_int_equal(berth_pool_trim(kit->pool, 0, true), 0);
    berth_rest rest = {0};
    berth_pool_add_rest(kit->pool, 0, &rest);
    assert_int_equal(rest.kept_bytes, 4 * G);
    assert_int_equal(rest.refused_bytes, 0);
    take_the_rest(kit, &others);
    assert_int_equal(berth_store_reserve(account, G, &others), BERTH_ERR_OUT_OF_MEMORY);
    give(kit, take(kit, 4 * G, &promise));
    berth_store_unreserve(kit->base.store, &others);
    berth_pool_note_step(kit->pool);
    assert_int_equal(berth_pool_trim(kit->pool, 0, true), 4 * G);
}

static void granules_beyond_a_promise_go_back_before_it_ends(void** state) {
    keep_kit* kit = *state;
    const berth_account account = memory_kit_account(&kit->base, BERTH_OWNER_POOL);
    berth_reservation promise = {0}, others = {0};
    assert_ok(berth_store_reserve(account, 4 * G, &promise));
    give(kit, take(kit, 7 * G, &promise));
    assert_int_equal(berth_pool_trim(kit->pool, 0, true), 3 * G);
    take_the_rest(kit, &others);
    berth_block block;
    const berth_pool_request more = {.size_bytes = 5 * G, .reservation = &promise};
    assert_int_equal(berth_pool_take(kit->pool, &more, &block), BERTH_ERR_OUT_OF_MEMORY);
    // a request that was refused leaves nothing to give back
    assert_int_equal(berth_pool_trim(kit->pool, 0, true), 0);
    give(kit, take(kit, 4 * G, &promise));
    berth_store_unreserve(kit->base.store, &others);
}

static void granules_that_could_not_be_given_back_can_be_later(void** state) {
    keep_kit* kit = *state;
    const berth_account account = memory_kit_account(&kit->base, BERTH_OWNER_POOL);
    berth_reservation promise = {0};
    give(kit, take(kit, 3 * G, NULL));
    assert_ok(berth_store_reserve(account, G, &promise));
    give(kit, take(kit, G, &promise));
    berth_sim_fail(kit->base.device, BERTH_SIM_UNMAP, 1);
    assert_int_equal(berth_pool_trim(kit->pool, 0, true), 0);
    assert_int_equal(berth_pool_trim(kit->pool, 0, true), 3 * G);
    berth_store_unreserve(kit->base.store, &promise);
}

static void what_work_may_still_use_goes_back_with_a_later_give(void** state) {
    keep_kit* kit = *state;
    static const unsigned char source[G];
    const berth_block used = take(kit, 4 * G, NULL);
    const berth_block other = take(kit, 2 * G, NULL);
    memory_kit_enqueue_write(kit->base.stream, used.data, source, G);
    give(kit, used);
    assert_int_equal(mapped(kit), 6 * G);
    assert_ok(berth_stream_synchronize(kit->base.stream));
    give(kit, other);
    assert_int_equal(mapped(kit), 0);
}

static void a_device_that_refuses_is_asked_again_by_a_later_give(void** state) {
    keep_kit* kit = *state;
    const berth_block first = take(kit, 4 * G, NULL);
    const berth_block second = take(kit, 2 * G, NULL);
    berth_sim_fail(kit->base.device, BERTH_SIM_UNMAP, 1);
    give(kit, first);
    assert_int_equal(mapped(kit), 6 * G);
    give(kit, second);
    assert_int_equal(mapped(kit), 0);
}

static void without_host_memory_granules_stay_for_later(void** state) {
    keep_kit* kit = *state;
    berth_block blocks[8];
    for (size_t fail = 1; fail < 6; fail++) {
        for (int i = 0; i < 8; i++)
            blocks[i] = take(kit, (uint64_t)(i + 1) * G, NULL);
        failing_host_fail(&kit->base.failing, fail, true);
        for (int i = 0; i < 8; i++)
            give(kit, blocks[(i * 3) % 8]);
        failing_host_fail(&kit->base.failing, 0, false);
        give(kit, take(kit, 40 * G, NULL));
        assert_int_equal(mapped(kit), 0);
    }
}

/// Takes and gives at random; nothing else lets go of idle granules.
static void idle_granules_are_few_at_any_time(void** state) {
    keep_kit* kit = *state;
    enum { BLOCKS = 40 };
    test_random random = test_random_make(7);
    berth_block blocks[BLOCKS] = {{0}};
    for (int i = 0; i < 4000; i++) {
        berth_block* block = &blocks[test_random_below(&random, BLOCKS)];
        if (block->data != NULL) {
            give(kit, *block);
            *block = (berth_block){0};
            // no granule more than a 64th, and what is left of one on either side
            berth_pool_stats stats;
            berth_pool_query_stats(kit->pool, &stats);
            const uint64_t used = stats.mapped_bytes - stats.free_bytes;
            assert_true(stats.largest_free_bytes < 2 * G + used / 64);
        } else {
            *block = take(kit, 1 + test_random_below(&random, 3 * G), NULL);
        }
    }
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].data != NULL) give(kit, blocks[i]);
    (void)mapped(kit);
}

#define WITH(set_up, test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(set_up_at_once, a_give_gives_its_granules_back),
        WITH(set_up_keeping, a_pool_that_keeps_waits_for_a_trim),
        WITH(set_up_at_once, parts_of_a_granule_go_back_with_its_last_block),
        WITH(set_up_at_once, few_idle_granules_beside_many_in_use_stay),
        WITH(set_up_at_once, what_was_promised_stays_mapped_until_the_step_ends),
        WITH(set_up_keeping, nobody_gets_idle_granules_that_a_promise_counts_on),
        WITH(set_up_keeping, granules_beyond_a_promise_go_back_before_it_ends),
        WITH(set_up_keeping, granules_that_could_not_be_given_back_can_be_later),
        WITH(set_up_at_once, what_work_may_still_use_goes_back_with_a_later_give),
        WITH(set_up_at_once, a_device_that_refuses_is_asked_again_by_a_later_give),
        WITH(set_up_at_once, without_host_memory_granules_stay_for_later),
        WITH(set_up_at_once, idle_granules_are_few_at_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
