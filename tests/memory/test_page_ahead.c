// SPDX-License-Identifier: Apache-2.0
// Granules mapped ahead of their use: who gets them, what stays, and failures in between.
#include "memory_kit.h"

#include "base/thread.h"

#define G KIT_GRANULE

/// A store with `granules` mapped ahead, and a space to map in.
typedef struct ahead_kit {
    memory_kit* kit;
    berth_store* store;
    berth_space* space;
} ahead_kit;

static ahead_kit open_ahead(memory_kit* kit, uint64_t granules) {
    assert_ok(berth_store_map_ahead(kit->store, granules * G));
    ahead_kit opened = {.kit = kit, .store = kit->store};
    assert_ok(berth_space_reserve(kit->device, KIT_CAPACITY, &opened.space));
    return opened;
}

/// Ends the test with a store of its own making, as the kit's must be empty of what is ahead.
static void close_ahead(ahead_kit* opened) {
    memory_kit_check_books(opened->kit);
    berth_space_release(opened->space);
    berth_store_destroy(opened->store);
    assert_int_equal(berth_sim_query_mapped_bytes(opened->kit->device), 0);
    assert_ok(berth_store_create(
        opened->kit->host, opened->kit->device, UINT64_MAX, &opened->kit->store));
}

static uint64_t ahead_of(const ahead_kit* opened) {
    return memory_kit_stats(opened->kit).mapped_by_owner[BERTH_OWNER_AHEAD] / G;
}

static berth_status map(ahead_kit* opened, uint64_t first, uint64_t count) {
    return berth_store_map((berth_account){.store = opened->store, .owner = BERTH_OWNER_POOL},
                           NULL,
                           opened->space,
                           first * G,
                           count * G);
}

static berth_status unmap(ahead_kit* opened, uint64_t first, uint64_t count) {
    return berth_store_unmap((berth_account){.store = opened->store, .owner = BERTH_OWNER_POOL},
                             opened->space,
                             first * G,
                             count * G);
}

static void maps_take_what_is_ahead_before_the_system_is_asked(void** state) {
    ahead_kit a = open_ahead(*state, 4);
    const uint64_t maps = berth_sim_query_calls(a.kit->device, BERTH_SIM_MAP);
    assert_ok(map(&a, 0, 3));
    assert_int_equal(berth_sim_query_calls(a.kit->device, BERTH_SIM_MAP), maps);
    assert_int_equal(ahead_of(&a), 1);
    assert_int_equal(memory_kit_stats(a.kit).mapped_bytes, 4 * G);
    memset(a.space->base, 1, 3 * G);
    assert_ok(map(&a, 3, 3)); // one from ahead, two new
    memset(a.space->base, 2, 6 * G);
    assert_int_equal(ahead_of(&a), 0);
    assert_int_equal(memory_kit_stats(a.kit).mapped_bytes, 6 * G);
    memory_kit_check_books(a.kit);
    assert_ok(unmap(&a, 0, 6));
    close_ahead(&a);
}

static void what_is_given_back_stays_up_to_the_amount(void** state) {
    ahead_kit a = open_ahead(*state, 4);
    assert_ok(map(&a, 0, 10));
    assert_ok(unmap(&a, 0, 5)); // five are left with their owner
    assert_int_equal(ahead_of(&a), 0);
    assert_int_equal(memory_kit_stats(a.kit).mapped_bytes, 5 * G);
    assert_ok(unmap(&a, 5, 3)); // two are left
    assert_int_equal(ahead_of(&a), 2);
    assert_int_equal(memory_kit_stats(a.kit).mapped_bytes, 4 * G);
    assert_ok(unmap(&a, 8, 2));
    assert_int_equal(ahead_of(&a), 4);
    close_ahead(&a);
}

static void what_is_ahead_can_be_promised(void** state) {
    ahead_kit a = open_ahead(*state, KIT_GRANULES);
    berth_reservation promise = {0};
    assert_ok(berth_store_reserve(
        (berth_account){.store = a.store, .owner = BERTH_OWNER_POOL}, KIT_CAPACITY, &promise));
    assert_fails(map(&a, 0, 1), BERTH_ERR_OUT_OF_MEMORY, "unused 0 B");
    assert_ok(berth_store_map((berth_account){.store = a.store, .owner = BERTH_OWNER_FRAMES},
                              &promise,
                              a.space,
                              0,
                              KIT_CAPACITY - G));
    assert_int_equal(promise.bytes, G);
    berth_store_unreserve(a.store, &promise);
    assert_ok(berth_store_unmap((berth_account){.store = a.store, .owner = BERTH_OWNER_FRAMES},
                                a.space,
                                0,
                                KIT_CAPACITY - G));
    close_ahead(&a);
}

static void a_map_that_cannot_have_what_is_ahead_changes_nothing(void** state) {
    ahead_kit a = open_ahead(*state, 4);
    berth_sim_fail(a.kit->device, BERTH_SIM_REMAP, 1);
    assert_int_not_equal(map(&a, 0, 6), BERTH_OK);
    assert_int_equal(ahead_of(&a), 4);
    assert_int_equal(memory_kit_stats(a.kit).mapped_bytes, 4 * G);
    berth_sim_fail(a.kit->device, BERTH_SIM_MAP, 1);
    assert_int_not_equal(map(&a, 0, 6), BERTH_OK); // the granules from ahead go back
    assert_int_equal(ahead_of(&a), 4);
    memory_kit_check_books(a.kit);
    assert_ok(map(&a, 0, 6));
    assert_ok(unmap(&a, 0, 6));
    close_ahead(&a);
}

static void what_cannot_be_kept_goes_to_the_system(void** state) {
    ahead_kit a = open_ahead(*state, 4);
    assert_ok(map(&a, 0, 4));
    berth_sim_fail(a.kit->device, BERTH_SIM_REMAP, 1);
    assert_ok(unmap(&a, 0, 4));
    assert_int_equal(ahead_of(&a), 0);
    memory_kit_check_books(a.kit);
    assert_ok(map(&a, 0, 2)); // what comes back later is kept again
    assert_ok(unmap(&a, 0, 2));
    assert_int_equal(ahead_of(&a), 2);
    close_ahead(&a);
}

static void a_failed_unmap_leaves_all_of_it_mapped(void** state) {
    ahead_kit a = open_ahead(*state, 2);
    assert_ok(map(&a, 0, 6));
    berth_sim_fail(a.kit->device, BERTH_SIM_UNMAP, 1);
    assert_int_not_equal(unmap(&a, 0, 6), BERTH_OK);
    assert_int_equal(memory_kit_stats(a.kit).mapped_by_owner[BERTH_OWNER_POOL], 6 * G);
    memory_kit_check_books(a.kit);
    memset(a.space->base, 1, 6 * G);
    assert_ok(unmap(&a, 0, 6));
    assert_int_equal(ahead_of(&a), 2);
    close_ahead(&a);
}

static void nothing_is_mapped_ahead_where_it_cannot_be(void** state) {
    memory_kit* kit = *state;
    assert_ok(berth_store_map_ahead(kit->store, 0));
    assert_fails(
        berth_store_map_ahead(kit->store, KIT_CAPACITY + 1), BERTH_ERR_OUT_OF_MEMORY, "capacity");
    for (int call = 0; call < 2; call++) {
        berth_sim_fail(kit->device, call == 0 ? BERTH_SIM_RESERVE : BERTH_SIM_MAP, 1);
        assert_int_not_equal(berth_store_map_ahead(kit->store, 2 * G), BERTH_OK);
        memory_kit_check_books(kit);
    }
    berth_device* fixed = NULL;
    berth_store* store = NULL;
    const berth_sim_options options = {.granule_bytes = G, .no_remap = true};
    assert_ok(berth_sim_device_create(kit->host, &options, &fixed));
    assert_ok(berth_store_create(kit->host, fixed, UINT64_MAX, &store));
    assert_fails(berth_store_map_ahead(store, G), BERTH_ERR_UNSUPPORTED, "cannot move memory");
    berth_store_destroy(store);
    berth_device_destroy(fixed);
}

enum { THREADS = 4, TURNS = 400, PART = 8 };

typedef struct worker {
    ahead_kit* opened;
    uint64_t first; ///< granule of its part of the space
} worker;

/// Maps and unmaps stretches of its own part.
static void work(void* self) {
    const worker* w = self;
    test_random random = test_random_make(w->first + 1);
    for (int turn = 0; turn < TURNS; turn++) {
        const uint64_t count = 1 + test_random_below(&random, PART);
        assert_ok(map(w->opened, w->first, count));
        w->opened->space->base[w->first * G] = 1;
        assert_ok(unmap(w->opened, w->first, count));
    }
}

static void threads_share_what_is_ahead(void** state) {
    ahead_kit a = open_ahead(*state, 12);
    worker workers[THREADS];
    berth_thread threads[THREADS];
    for (uint64_t i = 0; i < THREADS; i++) {
        workers[i] = (worker){.opened = &a, .first = i * PART};
        assert_ok(berth_thread_start(&threads[i], "worker", work, &workers[i]));
    }
    for (int i = 0; i < THREADS; i++)
        berth_thread_join(&threads[i]);
    assert_int_equal(ahead_of(&a), 12);
    assert_int_equal(memory_kit_stats(a.kit).mapped_bytes, 12 * G);
    close_ahead(&a);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, memory_kit_setup, memory_kit_teardown)
    const struct CMUnitTest tests[] = {
        TEST(maps_take_what_is_ahead_before_the_system_is_asked),
        TEST(what_is_given_back_stays_up_to_the_amount),
        TEST(what_is_ahead_can_be_promised),
        TEST(a_map_that_cannot_have_what_is_ahead_changes_nothing),
        TEST(what_cannot_be_kept_goes_to_the_system),
        TEST(a_failed_unmap_leaves_all_of_it_mapped),
        TEST(nothing_is_mapped_ahead_where_it_cannot_be),
        TEST(threads_share_what_is_ahead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
