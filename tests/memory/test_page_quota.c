// SPDX-License-Identifier: Apache-2.0
// Tenants of the page store: quotas bound them, shares are kept for them, the ladder respects both.
#include "memory_kit.h"

#include "memory/ladder.h"

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
        TEST(the_ladder_takes_from_others_only_what_is_above_their_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
