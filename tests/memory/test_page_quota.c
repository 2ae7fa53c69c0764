// SPDX-License-Identifier: Apache-2.0
// Tenants of the page store: quotas bound them, shares are kept for them, the ladder respects both.
#include "memory_kit.h"

#include <pthread.h>
#include <sched.h>

#include "memory/page_store_internal.h"

#define G KIT_GRANULE

typedef struct quota_kit {
    memory_kit base;
    berth_tenant one;
    berth_tenant other;
    berth_space* space;
    uint64_t idle; ///< granules of `other` that its place gives back, from the space's start
    uint64_t late; ///< granules of `one`, from there on, that go back while the place is called
    berth_reclaimer place;
} quota_kit;

static berth_account account_of(quota_kit* kit, berth_tenant* tenant) {
    return (berth_account){.store = kit->base.store, .tenant = tenant, .owner = BERTH_OWNER_POOL};
}

static uint64_t give_idle(void* self, const berth_tenant* climber, uint64_t wanted_bytes) {
    (void)climber;
    quota_kit* kit = self;
    uint64_t given = 0;
    if (kit->late > 0)
        assert_ok(berth_store_unmap(
            account_of(kit, &kit->one), kit->space, kit->idle * G, kit->late * G));
    kit->late = 0;
    for (; kit->idle > 0 && given < wanted_bytes; kit->idle--, given += G) {
        const uint64_t offset = (kit->idle - 1) * G;
        if (berth_store_unmap(account_of(kit, &kit->other), kit->space, offset, G) != BERTH_OK)
            break;
    }
    return given;
}

static int setup(void** state) {
    quota_kit* kit = calloc(1, sizeof *kit);
    const berth_sim_options options = memory_kit_options();
    memory_kit_init(&kit->base, &options);
    berth_store_add_tenant(kit->base.store, &kit->one);
    berth_store_add_tenant(kit->base.store, &kit->other);
    assert_ok(berth_space_reserve(kit->base.device, KIT_CAPACITY, &kit->space));
    kit->place = (berth_reclaimer){.rung = BERTH_RUNG_TRIM,
                                   .tenant = &kit->other,
                                   .owner = BERTH_OWNER_POOL,
                                   .self = kit,
                                   .reclaim = give_idle};
    berth_store_add_reclaimer(kit->base.store, &kit->place);
    *state = kit;
    return 0;
}

static int teardown(void** state) {
    quota_kit* kit = *state;
    berth_store_remove_reclaimer(kit->base.store, &kit->place);
    assert_int_equal(give_idle(kit, NULL, UINT64_MAX) % G, 0);
    berth_space_release(kit->space);
    berth_store_remove_tenant(kit->base.store, &kit->one);
    berth_store_remove_tenant(kit->base.store, &kit->other);
    memory_kit_fini(&kit->base);
    free(kit);
    return 0;
}

static void a_tenant_gets_no_more_than_its_quota(void** state) {
    quota_kit* kit = *state;
    assert_ok(berth_store_set_tenant_quota(kit->base.store, &kit->one, 4 * G));
    berth_reservation promise = {0};
    assert_ok(berth_store_reserve(account_of(kit, &kit->one), 4 * G, &promise));
    assert_fails(berth_store_reserve(account_of(kit, &kit->one), G, &promise),
                 BERTH_ERR_OUT_OF_MEMORY,
                 "quota of this context 256.00 KiB");
    assert_int_equal(promise.bytes, 4 * G);
    assert_int_equal(berth_store_query_room(account_of(kit, &kit->one)), 0);
    berth_reservation others = {0};
    assert_ok(berth_store_reserve(account_of(kit, &kit->other), KIT_CAPACITY - 4 * G, &others));
    berth_store_unreserve(kit->base.store, &others);
    berth_store_unreserve(kit->base.store, &promise);
}

static void an_owner_gets_no_more_than_its_quota_over_all_tenants(void** state) {
    quota_kit* kit = *state;
    berth_store_set_owner_quota(kit->base.store, BERTH_OWNER_POOL, 4 * G);
    berth_reservation mine = {0}, others = {0};
    assert_ok(berth_store_reserve(account_of(kit, &kit->one), 3 * G, &mine));
    assert_fails(berth_store_reserve(account_of(kit, &kit->other), 2 * G, &others),
                 BERTH_ERR_OUT_OF_MEMORY,
                 "quota of pool");
    assert_ok(berth_store_map(account_of(kit, &kit->one), &mine, kit->space, 0, 3 * G)); // M3
    assert_ok(berth_store_unmap(account_of(kit, &kit->one), kit->space, 0, 3 * G));
}

static void a_share_is_kept_whatever_others_ask_for(void** state) {
    quota_kit* kit = *state;
    assert_ok(berth_store_set_tenant_share(kit->base.store, &kit->one, 10 * G));
    berth_reservation others = {0}, mine = {0};
    assert_ok(berth_store_reserve(account_of(kit, &kit->other), KIT_CAPACITY - 10 * G, &others));
    assert_fails(berth_store_reserve(account_of(kit, &kit->other), G, &others),
                 BERTH_ERR_OUT_OF_MEMORY,
                 "kept for contexts");
    assert_ok(berth_store_reserve(account_of(kit, &kit->one), 10 * G, &mine)); // M5
    assert_int_equal(memory_kit_stats(&kit->base).shares_bytes, 0);
    berth_store_unreserve(kit->base.store, &mine);
    assert_int_equal(memory_kit_stats(&kit->base).shares_bytes, 10 * G);
    berth_store_unreserve(kit->base.store, &others);
}

static void a_share_that_nobody_can_back_is_refused_and_changes_nothing(void** state) {
    quota_kit* kit = *state;
    berth_reservation others = {0};
    assert_ok(berth_store_reserve(account_of(kit, &kit->other), KIT_CAPACITY - 2 * G, &others));
    assert_int_equal(berth_store_set_tenant_share(kit->base.store, &kit->one, 3 * G),
                     BERTH_ERR_OUT_OF_MEMORY);
    assert_int_equal(kit->one.share_bytes, 0);
    assert_ok(berth_store_set_tenant_share(kit->base.store, &kit->one, 2 * G));
    assert_int_equal(berth_store_set_tenant_quota(kit->base.store, &kit->one, G),
                     BERTH_ERR_INVALID_ARGUMENT);
    berth_store_unreserve(kit->base.store, &others);
}

static void a_share_is_not_backed_by_what_its_tenant_gives_up_meanwhile(void** state) {
    quota_kit* kit = *state;
    berth_reservation others = {0};
    assert_ok(berth_store_map(account_of(kit, &kit->one), NULL, kit->space, 0, 4 * G));
    assert_ok(berth_store_reserve(account_of(kit, &kit->other), KIT_CAPACITY - 4 * G, &others));
    kit->late = 4; // as if another thread trimmed
    assert_int_equal(berth_store_set_tenant_share(kit->base.store, &kit->one, 8 * G),
                     BERTH_ERR_OUT_OF_MEMORY);
    assert_int_equal(kit->late, 0);
    assert_int_equal(kit->one.share_bytes, 0);
    assert_ok(berth_store_set_tenant_share(kit->base.store, &kit->one, 4 * G));
    berth_store_unreserve(kit->base.store, &others);
}

/// A thread that has taken a granule out of its books, and gives it back once somebody has climbed
/// the ladder in vain.
typedef struct leaver {
    quota_kit* kit;
    _Atomic bool has_begun;
    _Atomic bool was_asked;
} leaver;

static uint64_t give_nothing(void* self, const berth_tenant* climber, uint64_t wanted_bytes) {
    (void)climber;
    (void)wanted_bytes;
    atomic_store(&((leaver*)self)->was_asked, true);
    return 0;
}

/// Whether the one climber has places left to ask.
static bool is_asking(berth_store* store) {
    berth_mutex_lock(store->lock);
    const bool is_under_way = store->climbers != NULL && !store->climbers->has_asked_all;
    berth_mutex_unlock(store->lock);
    return is_under_way;
}

static void* leave(void* opaque) {
    leaver* self = opaque;
    berth_store* store = self->kit->base.store;
    berth_transit transit;
    berth_store_begin_transit(store, &transit);
    atomic_store(&self->has_begun, true);
    while (!atomic_load(&self->was_asked) || is_asking(store))
        sched_yield();
    (void)!berth_store_unmap(account_of(self->kit, &self->kit->other), self->kit->space, 0, G);
    berth_store_end_transit(store, &transit);
    return NULL;
}

static void whoever_is_short_waits_for_what_others_are_just_giving_back(void** state) {
    quota_kit* kit = *state;
    berth_store* store = kit->base.store;
    leaver self = {.kit = kit};
    berth_reclaimer place = {.rung = BERTH_RUNG_TRIM, .self = &self, .reclaim = give_nothing};
    berth_store_add_reclaimer(store, &place);
    assert_ok(berth_store_map(account_of(kit, &kit->other), NULL, kit->space, 0, KIT_CAPACITY));
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, leave, &self), 0);
    while (!atomic_load(&self.has_begun))
        sched_yield();
    berth_reservation mine = {0};
    const berth_status status = berth_store_reserve(account_of(kit, &kit->one), G, &mine);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(status, BERTH_OK);
    berth_store_unreserve(store, &mine);
    berth_store_remove_reclaimer(store, &place);
    assert_ok(berth_store_unmap(account_of(kit, &kit->other), kit->space, G, KIT_CAPACITY - G));
}

static void the_ladder_takes_from_others_only_what_is_above_their_share(void** state) {
    quota_kit* kit = *state;
    kit->idle = KIT_GRANULES;
    assert_ok(berth_store_map(account_of(kit, &kit->other), NULL, kit->space, 0, KIT_CAPACITY));
    assert_ok(berth_store_set_tenant_share(kit->base.store, &kit->other, KIT_CAPACITY - 2 * G));
    berth_reservation mine = {0};
    assert_int_equal(berth_store_reserve(account_of(kit, &kit->one), 3 * G, &mine),
                     BERTH_ERR_OUT_OF_MEMORY);
    assert_true(kit->idle >= KIT_GRANULES - 2); // L2
    assert_ok(berth_store_reserve(account_of(kit, &kit->one), 2 * G, &mine));
    berth_store_unreserve(kit->base.store, &mine);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_tenant_gets_no_more_than_its_quota),
        TEST(an_owner_gets_no_more_than_its_quota_over_all_tenants),
        TEST(a_share_is_kept_whatever_others_ask_for),
        TEST(a_share_that_nobody_can_back_is_refused_and_changes_nothing),
        TEST(a_share_is_not_backed_by_what_its_tenant_gives_up_meanwhile),
        TEST(whoever_is_short_waits_for_what_others_are_just_giving_back),
        TEST(the_ladder_takes_from_others_only_what_is_above_their_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
