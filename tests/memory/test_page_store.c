// SPDX-License-Identifier: Apache-2.0
// The page store: promises, the ladder, exact books, refusals that explain themselves.
#include "memory_kit.h"

#include "base/thread.h"
#include "memory/ladder.h"

#define G KIT_GRANULE

/// Gives back one granule of its own space each time it is asked.
typedef struct hoard {
    berth_reclaimer reclaimer;
    berth_store* store;
    berth_space* space;
    uint64_t granules; ///< mapped from the start of the space
    uint64_t calls;
    uint64_t asked;
} hoard;

static uint64_t hoard_reclaim(void* self, const berth_tenant* climber, uint64_t wanted_bytes) {
    (void)climber;
    hoard* h = self;
    uint64_t given = 0;
    h->calls++;
    h->asked = wanted_bytes;
    while (h->granules > 0 && given < wanted_bytes) {
        if (berth_store_unmap((berth_account){.store = h->store, .owner = BERTH_OWNER_KV},
                              h->space,
                              (h->granules - 1) * G,
                              G) != BERTH_OK)
            break;
        h->granules--;
        given += G;
    }
    return given;
}

static void hoard_init(hoard* h, memory_kit* kit, uint64_t granules) {
    *h = (hoard){.store = kit->store, .granules = granules};
    h->reclaimer = (berth_reclaimer){.self = h, .reclaim = hoard_reclaim};
    assert_ok(berth_space_reserve(kit->device, KIT_CAPACITY, &h->space));
    assert_ok(
        berth_store_map(memory_kit_account(kit, BERTH_OWNER_KV), NULL, h->space, 0, granules * G));
    berth_store_add_reclaimer(kit->store, &h->reclaimer);
}

static void hoard_fini(hoard* h) {
    berth_store_remove_reclaimer(h->store, &h->reclaimer);
    if (h->granules > 0)
        assert_ok(berth_store_unmap((berth_account){.store = h->store, .owner = BERTH_OWNER_KV},
                                    h->space,
                                    0,
                                    h->granules * G));
    berth_space_release(h->space);
}

static void the_capacity_is_cut_to_what_the_device_has(void** state) {
    memory_kit* kit = *state;
    assert_int_equal(memory_kit_stats(kit).capacity_bytes, KIT_CAPACITY);
    berth_store* small = NULL;
    assert_ok(berth_store_create(kit->host, kit->device, 3 * G + 5, &small));
    berth_store_stats stats;
    berth_store_query_stats(small, &stats);
    assert_int_equal(stats.capacity_bytes, 3 * G);
    assert_ptr_equal(berth_store_device(small), kit->device);
    berth_store_destroy(small);
}

static void a_capacity_below_one_granule_is_refused(void** state) {
    memory_kit* kit = *state;
    berth_store* store = (berth_store*)(uintptr_t)1;
    assert_fails(berth_store_create(kit->host, kit->device, G - 1, &store),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "granule");
    assert_null(store);
}

static void destroying_no_store_is_allowed(void** state) {
    (void)state;
    berth_store_destroy(NULL);
}

static void a_promise_is_kept_for_whom_it_was_made(void** state) {
    memory_kit* kit = *state;
    berth_reservation mine = {0};
    assert_ok(berth_store_reserve(
        memory_kit_account(kit, BERTH_OWNER_POOL), KIT_CAPACITY - G + 1, &mine));
    assert_int_equal(mine.bytes, KIT_CAPACITY);
    berth_space* space = NULL;
    assert_ok(berth_space_reserve(kit->device, KIT_CAPACITY, &space));

    // M3: nobody else gets in between, and the promise turns into granules.
    assert_int_equal(berth_store_map(memory_kit_account(kit, BERTH_OWNER_POOL), NULL, space, 0, G),
                     BERTH_ERR_OUT_OF_MEMORY);
    assert_ok(berth_store_map(
        memory_kit_account(kit, BERTH_OWNER_FRAMES), &mine, space, 0, KIT_CAPACITY - G));
    assert_int_equal(mine.bytes, G);
    memory_kit_check_books(kit);
    berth_store_unreserve(kit->store, &mine);
    assert_int_equal(mine.bytes, 0);
    assert_ok(berth_store_map(
        memory_kit_account(kit, BERTH_OWNER_POOL), NULL, space, KIT_CAPACITY - G, G));
    assert_int_equal(memory_kit_stats(kit).mapped_by_owner[BERTH_OWNER_POOL], G);
    assert_int_equal(memory_kit_stats(kit).peak_mapped_bytes, KIT_CAPACITY);

    assert_ok(
        berth_store_unmap(memory_kit_account(kit, BERTH_OWNER_POOL), space, KIT_CAPACITY - G, G));
    assert_ok(
        berth_store_unmap(memory_kit_account(kit, BERTH_OWNER_FRAMES), space, 0, KIT_CAPACITY - G));
    memory_kit_check_books(kit);
    assert_int_equal(memory_kit_stats(kit).peak_mapped_bytes, KIT_CAPACITY);
    berth_space_release(space);
}

static void a_map_larger_than_its_promise_takes_the_rest_from_what_is_free(void** state) {
    memory_kit* kit = *state;
    berth_reservation mine = {0};
    assert_ok(berth_store_reserve(memory_kit_account(kit, BERTH_OWNER_POOL), 2 * G, &mine));
    berth_space* space = NULL;
    assert_ok(berth_space_reserve(kit->device, KIT_CAPACITY, &space));
    assert_ok(berth_store_map(memory_kit_account(kit, BERTH_OWNER_POOL), &mine, space, 0, 5 * G));
    assert_int_equal(mine.bytes, 0);
    assert_int_equal(memory_kit_stats(kit).mapped_bytes, 5 * G);
    assert_int_equal(memory_kit_stats(kit).reserved_bytes, 0);
    assert_ok(berth_store_unmap(memory_kit_account(kit, BERTH_OWNER_POOL), space, 0, 5 * G));
    berth_space_release(space);
}

static void unreserving_nothing_is_allowed(void** state) {
    memory_kit* kit = *state;
    berth_reservation none = {0};
    berth_store_unreserve(kit->store, NULL);
    berth_store_unreserve(kit->store, &none);
    assert_ok(berth_store_reserve(memory_kit_account(kit, BERTH_OWNER_POOL), 0, &none));
    assert_int_equal(none.bytes, 0);
}

static void a_refusal_names_need_capacity_owners_promises_and_what_was_tried(void** state) {
    memory_kit* kit = *state;
    hoard h;
    hoard_init(&h, kit, 2);
    berth_reservation mine = {0};
    assert_ok(berth_store_reserve(memory_kit_account(kit, BERTH_OWNER_POOL), 3 * G, &mine));
    berth_space* space;
    assert_ok(berth_space_reserve(kit->device, 16 * G, &space));
    assert_ok(
        berth_store_map(memory_kit_account(kit, BERTH_OWNER_WEIGHTS), NULL, space, 0, 16 * G));
    berth_reservation more = {0};
    assert_fails(
        berth_store_reserve(memory_kit_account(kit, BERTH_OWNER_POOL), KIT_CAPACITY, &more),
        BERTH_ERR_OUT_OF_MEMORY,
        "4.00 MiB");
    assert_non_null(strstr(berth_last_error(), "weights 1.00 MiB"));
    assert_non_null(strstr(berth_last_error(), "promised 192.00 KiB"));
    assert_non_null(strstr(berth_last_error(), "pending releases gave 128.00 KiB"));
    assert_non_null(strstr(berth_last_error(), "BERTH_MEMORY"));
    assert_int_equal(more.bytes, 0);
    assert_int_equal(memory_kit_stats(kit).failures, 1);
    assert_int_equal(memory_kit_stats(kit).reclaims, 1);
    berth_store_unreserve(kit->store, &mine);
    assert_ok(berth_store_unmap(memory_kit_account(kit, BERTH_OWNER_WEIGHTS), space, 0, 16 * G));
    berth_space_release(space);
    hoard_fini(&h);
}

static void a_need_above_the_capacity_is_refused_without_taking_from_others(void** state) {
    memory_kit* kit = *state;
    hoard h;
    hoard_init(&h, kit, 2);
    berth_reservation mine = {0};
    assert_int_equal(
        berth_store_reserve(memory_kit_account(kit, BERTH_OWNER_POOL), KIT_CAPACITY + 1, &mine),
        BERTH_ERR_OUT_OF_MEMORY);
    assert_int_equal(h.calls, 0);
    assert_int_equal(
        berth_store_reserve(memory_kit_account(kit, BERTH_OWNER_POOL), UINT64_MAX, &mine),
        BERTH_ERR_OVERFLOW);
    hoard_fini(&h);
}

static void a_shortage_climbs_the_ladder_only_as_far_as_needed(void** state) {
    memory_kit* kit = *state;
    hoard first, second;
    hoard_init(&first, kit, 4);
    hoard_init(&second, kit, 4);
    berth_reservation mine = {0};
    assert_ok(berth_store_reserve(
        memory_kit_account(kit, BERTH_OWNER_POOL), KIT_CAPACITY - 6 * G, &mine));
    assert_int_equal(first.calls, 1);
    assert_int_equal(first.asked, 2 * G);
    assert_int_equal(first.granules, 2);
    assert_int_equal(second.calls, 0);
    berth_store_unreserve(kit->store, &mine);
    assert_ok(
        berth_store_reserve(memory_kit_account(kit, BERTH_OWNER_POOL), KIT_CAPACITY - G, &mine));
    assert_int_equal(first.granules, 0);
    assert_int_equal(second.granules, 1);
    memory_kit_check_books(kit);
    berth_store_unreserve(kit->store, &mine);
    hoard_fini(&first);
    hoard_fini(&second);
}

static void a_system_that_is_short_before_the_capacity_is_asks_the_ladder_too(void** state) {
    memory_kit* kit = *state;
    hoard h;
    hoard_init(&h, kit, 4);
    berth_space* space = NULL;
    assert_ok(berth_space_reserve(kit->device, KIT_CAPACITY, &space));
    berth_sim_fail(kit->device, BERTH_SIM_MAP, 1);
    assert_ok(berth_store_map(memory_kit_account(kit, BERTH_OWNER_POOL), NULL, space, 0, 2 * G));
    assert_int_equal(h.granules, 2);
    memory_kit_check_books(kit);
    assert_ok(berth_store_unmap(memory_kit_account(kit, BERTH_OWNER_POOL), space, 0, 2 * G));
    berth_space_release(space);
    hoard_fini(&h);
}

static void a_failed_map_leaves_books_and_promise_as_they_were(void** state) {
    memory_kit* kit = *state;
    berth_reservation mine = {0};
    assert_ok(berth_store_reserve(memory_kit_account(kit, BERTH_OWNER_POOL), 2 * G, &mine));
    berth_space* space = NULL;
    assert_ok(berth_space_reserve(kit->device, KIT_CAPACITY, &space));
    berth_sim_fail(kit->device, BERTH_SIM_MAP, 1);
    assert_int_equal(
        berth_store_map(memory_kit_account(kit, BERTH_OWNER_POOL), &mine, space, 0, 3 * G),
        BERTH_ERR_OUT_OF_MEMORY);
    assert_int_equal(mine.bytes, 2 * G);
    assert_int_equal(memory_kit_stats(kit).reserved_bytes, 2 * G);
    assert_int_equal(memory_kit_stats(kit).peak_mapped_bytes, 0);
    memory_kit_check_books(kit);
    berth_store_unreserve(kit->store, &mine);
    berth_space_release(space);
}

static void a_failed_unmap_leaves_the_granules_mapped_and_accounted(void** state) {
    memory_kit* kit = *state;
    berth_space* space = NULL;
    assert_ok(berth_space_reserve(kit->device, KIT_CAPACITY, &space));
    assert_ok(berth_store_map(memory_kit_account(kit, BERTH_OWNER_POOL), NULL, space, 0, 2 * G));
    berth_sim_fail(kit->device, BERTH_SIM_UNMAP, 1);
    assert_int_equal(berth_store_unmap(memory_kit_account(kit, BERTH_OWNER_POOL), space, 0, 2 * G),
                     BERTH_ERR_DEVICE);
    assert_int_equal(memory_kit_stats(kit).mapped_bytes, 2 * G);
    memory_kit_check_books(kit);
    assert_ok(berth_store_unmap(memory_kit_account(kit, BERTH_OWNER_POOL), space, 0, 2 * G));
    berth_space_release(space);
}

static void a_store_without_host_memory_is_not_made(void** state) {
    memory_kit* kit = *state;
    berth_store* store = NULL;
    failing_host_fail(&kit->failing, 1, false);
    assert_int_equal(berth_store_create(kit->host, kit->device, UINT64_MAX, &store),
                     BERTH_ERR_OUT_OF_MEMORY);
    assert_null(store);
}

typedef struct worker {
    memory_kit* kit;
    berth_thread thread;
    uint64_t seed;
    uint64_t mapped;
} worker;

/// Promises, maps and unmaps at random within a space of its own.
static void work(void* argument) {
    worker* w = argument;
    test_random random = test_random_make(w->seed);
    berth_space* space = NULL;
    if (berth_space_reserve(w->kit->device, KIT_CAPACITY, &space) != BERTH_OK) abort();
    for (int i = 0; i < 300; i++) {
        berth_reservation promise = {0};
        const uint64_t bytes = (1 + test_random_below(&random, 24)) * G;
        if (berth_store_reserve(memory_kit_account(w->kit, BERTH_OWNER_POOL), bytes, &promise) !=
            BERTH_OK)
            continue;
        if (berth_store_map(
                memory_kit_account(w->kit, BERTH_OWNER_POOL), &promise, space, 0, bytes) !=
            BERTH_OK)
            abort(); // M3
        w->mapped++;
        memset(space->base, (int)w->seed, bytes);
        if (berth_store_unmap(memory_kit_account(w->kit, BERTH_OWNER_POOL), space, 0, bytes) !=
            BERTH_OK)
            abort();
    }
    berth_space_release(space);
}

static void promises_of_several_threads_are_all_kept(void** state) {
    memory_kit* kit = *state;
    worker workers[4] = {{0}};
    for (size_t i = 0; i < 4; i++) {
        workers[i] = (worker){.kit = kit, .seed = i + 1};
        assert_ok(berth_thread_start(&workers[i].thread, "worker", work, &workers[i]));
    }
    uint64_t mapped = 0;
    for (size_t i = 0; i < 4; i++) {
        berth_thread_join(&workers[i].thread);
        mapped += workers[i].mapped;
    }
    // one of them may find no room at any try, while another sleeps on its promise; not all
    assert_true(mapped > 0);
    memory_kit_check_books(kit);
    assert_true(memory_kit_stats(kit).peak_mapped_bytes <= KIT_CAPACITY);
}

static void come_and_go(void* argument) {
    memory_kit* kit = argument;
    for (int i = 0; i < 500; i++) {
        hoard h = {.store = kit->store};
        h.reclaimer = (berth_reclaimer){.self = &h, .reclaim = hoard_reclaim};
        berth_store_add_reclaimer(kit->store, &h.reclaimer);
        berth_store_remove_reclaimer(kit->store, &h.reclaimer);
        h.store = NULL; // a call after the removal would crash
        h.granules = 1;
    }
}

static void climb_often(void* argument) {
    memory_kit* kit = argument;
    berth_reservation all = {0}, more = {0};
    if (berth_store_reserve(memory_kit_account(kit, BERTH_OWNER_POOL), KIT_CAPACITY / 2, &all) !=
        BERTH_OK)
        abort();
    for (int i = 0; i < 500; i++) {
        if (berth_store_reserve(memory_kit_account(kit, BERTH_OWNER_POOL), KIT_CAPACITY, &more) ==
            BERTH_OK)
            abort();
    }
    berth_store_unreserve(kit->store, &all);
}

static void reclaimers_may_come_and_go_while_others_climb(void** state) {
    memory_kit* kit = *state;
    berth_thread threads[3];
    assert_ok(berth_thread_start(&threads[0], "come", come_and_go, kit));
    assert_ok(berth_thread_start(&threads[1], "go", come_and_go, kit));
    assert_ok(berth_thread_start(&threads[2], "climb", climb_often, kit));
    for (size_t i = 0; i < 3; i++)
        berth_thread_join(&threads[i]);
    memory_kit_check_books(kit);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, memory_kit_setup, memory_kit_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(the_capacity_is_cut_to_what_the_device_has),
        TEST(a_capacity_below_one_granule_is_refused),
        TEST(destroying_no_store_is_allowed),
        TEST(a_promise_is_kept_for_whom_it_was_made),
        TEST(a_map_larger_than_its_promise_takes_the_rest_from_what_is_free),
        TEST(unreserving_nothing_is_allowed),
        TEST(a_refusal_names_need_capacity_owners_promises_and_what_was_tried),
        TEST(a_need_above_the_capacity_is_refused_without_taking_from_others),
        TEST(a_shortage_climbs_the_ladder_only_as_far_as_needed),
        TEST(a_system_that_is_short_before_the_capacity_is_asks_the_ladder_too),
        TEST(a_failed_map_leaves_books_and_promise_as_they_were),
        TEST(a_failed_unmap_leaves_the_granules_mapped_and_accounted),
        TEST(a_store_without_host_memory_is_not_made),
        TEST(promises_of_several_threads_are_all_kept),
        TEST(reclaimers_may_come_and_go_while_others_climb),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
