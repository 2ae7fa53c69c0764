// SPDX-License-Identifier: Apache-2.0
// Sites: what is learned of lifetimes, how soon, and what a flood of names can do.
#include "test.h"

#include "failing_host.h"
#include "memory/sites.h"
#include "random.h"

typedef struct kit {
    failing_host failing;
    berth_host* host;
    berth_sites sites;
} kit;

static kit fixture;

static int setup(void** state) {
    failing_host_init(&fixture.failing);
    assert_ok(berth_host_create(&fixture.failing.allocator, &fixture.host));
    assert_ok(berth_sites_init(&fixture.sites, fixture.host));
    *state = &fixture;
    return 0;
}

static int teardown(void** state) {
    kit* k = *state;
    berth_sites_fini(&k->sites);
    berth_host_destroy(k->host);
    assert_int_equal(k->failing.live_blocks, 0);
    return 0;
}

/// What is predicted for a block of the site now.
static berth_lifetime ask(kit* k, uint64_t name) {
    berth_lifetime predicted = BERTH_LIFETIME_COUNT;
    berth_sites_predict(&k->sites, name, &predicted);
    return predicted;
}

/// One block of the site comes and lives like `seen`; returns what was predicted for it.
static berth_lifetime live(kit* k, uint64_t name, berth_lifetime seen) {
    berth_lifetime predicted = BERTH_LIFETIME_COUNT;
    const uint32_t number = berth_sites_predict(&k->sites, name, &predicted);
    assert_int_not_equal(number, 0);
    berth_sites_learn(&k->sites, number, predicted, seen);
    return predicted;
}

static void lifetimes_are_told_apart_by_takes_and_steps(void** state) {
    (void)state;
    assert_int_equal(berth_lifetime_of(0, 0), BERTH_LIFETIME_SHORT);
    assert_int_equal(berth_lifetime_of(10, 0), BERTH_LIFETIME_SHORT);
    assert_int_equal(berth_lifetime_of(10, 1), BERTH_LIFETIME_MEDIUM);
    assert_int_equal(berth_lifetime_of(1000, 0), BERTH_LIFETIME_MEDIUM);
    assert_int_equal(berth_lifetime_of(10, 2), BERTH_LIFETIME_LONG);
    assert_int_equal(berth_lifetime_of(100000, 0), BERTH_LIFETIME_LONG);
}

static void a_site_is_believed_once_two_of_its_blocks_agree(void** state) {
    kit* k = *state;
    assert_int_equal(live(k, 7, BERTH_LIFETIME_LONG), BERTH_LIFETIME_UNKNOWN);
    assert_int_equal(live(k, 7, BERTH_LIFETIME_LONG), BERTH_LIFETIME_UNKNOWN);
    assert_int_equal(live(k, 7, BERTH_LIFETIME_LONG), BERTH_LIFETIME_LONG);
    assert_int_equal(ask(k, 8), BERTH_LIFETIME_UNKNOWN);
    assert_int_equal(k->sites.right, 1);
    assert_int_equal(k->sites.wrong, 0);
}

static void a_site_that_contradicts_itself_is_not_believed(void** state) {
    kit* k = *state;
    uint32_t believed = 0;
    for (int i = 0; i < 200; i++)
        believed += live(k, 7, i % 2 == 0 ? BERTH_LIFETIME_SHORT : BERTH_LIFETIME_LONG) !=
                    BERTH_LIFETIME_UNKNOWN;
    assert_true(believed < 10);
    // one stray among many is forgiven
    for (int i = 0; i < 100; i++)
        live(k, 9, i % 20 == 10 ? BERTH_LIFETIME_LONG : BERTH_LIFETIME_SHORT);
    assert_int_equal(ask(k, 9), BERTH_LIFETIME_SHORT);
}

static void a_site_that_changes_its_ways_is_learned_anew_soon(void** state) {
    kit* k = *state;
    for (int i = 0; i < 1000; i++)
        live(k, 7, BERTH_LIFETIME_SHORT);
    uint32_t wrong = 0, blocks = 0;
    for (; ask(k, 7) != BERTH_LIFETIME_LONG; blocks++) {
        assert_true(blocks < 32);
        wrong += live(k, 7, BERTH_LIFETIME_LONG) == BERTH_LIFETIME_SHORT;
    }
    assert_int_equal(k->sites.wrong, wrong);
    assert_true(wrong > 0 && wrong < 8);
}

static void a_block_without_a_site_teaches_nothing(void** state) {
    kit* k = *state;
    berth_lifetime predicted = BERTH_LIFETIME_COUNT;
    assert_int_equal(berth_sites_predict(&k->sites, 0, &predicted), 0);
    assert_int_equal(predicted, BERTH_LIFETIME_UNKNOWN);
    berth_sites_learn(&k->sites, 0, BERTH_LIFETIME_UNKNOWN, BERTH_LIFETIME_LONG);
    assert_int_equal(k->sites.right + k->sites.wrong, 0);
}

static void names_are_compared_in_full(void** state) {
    kit* k = *state;
    const uint64_t name = UINT64_C(0x0123456789ABCDEF);
    for (int i = 0; i < 4; i++)
        live(k, name, BERTH_LIFETIME_LONG);
    for (uint32_t bit = 0; bit < 64; bit++)
        assert_int_equal(ask(k, name ^ UINT64_C(1) << bit), BERTH_LIFETIME_UNKNOWN);
    assert_int_equal(ask(k, name), BERTH_LIFETIME_LONG);
}

static void what_outlives_its_evicted_site_teaches_no_other(void** state) {
    kit* k = *state;
    berth_lifetime predicted = BERTH_LIFETIME_COUNT;
    const uint32_t number = berth_sites_predict(&k->sites, 1, &predicted);
    for (uint64_t name = 2; name < 100000; name++)
        ask(k, name);
    for (int i = 0; i < 8; i++)
        berth_sites_learn(&k->sites, number, BERTH_LIFETIME_UNKNOWN, BERTH_LIFETIME_LONG);
    for (uint64_t name = 99999; name > 99000; name--)
        assert_int_equal(ask(k, name), BERTH_LIFETIME_UNKNOWN);
}

static void a_flood_of_names_takes_no_memory_and_leaves_the_busy_sites(void** state) {
    kit* k = *state;
    const size_t blocks = k->failing.live_blocks;
    test_random random = test_random_make(5);
    for (uint64_t name = 1; name <= 100; name++) {
        for (int i = 0; i < 50; i++)
            live(k, name, BERTH_LIFETIME_LONG);
    }
    for (int i = 0; i < 200000; i++) {
        ask(k, test_random_u64(&random));
        if (i % 5 == 0) ask(k, 1 + (uint64_t)(i / 5) % 100);
    }
    uint32_t known = 0;
    for (uint64_t name = 1; name <= 100; name++)
        known += ask(k, name) == BERTH_LIFETIME_LONG;
    assert_true(known >= 90);
    assert_true(k->sites.evictions > 150000);
    assert_int_equal(k->failing.live_blocks, blocks);
}

static void sites_of_yesterday_make_room(void** state) {
    kit* k = *state;
    for (uint64_t round = 0; round < 2; round++) {
        for (int i = 0; i < 300; i++) {
            for (uint64_t name = 1; name <= 400; name++)
                live(k, round * 1000 + name, BERTH_LIFETIME_SHORT);
        }
    }
    uint32_t known = 0;
    for (uint64_t name = 1001; name <= 1400; name++)
        known += ask(k, name) == BERTH_LIFETIME_SHORT;
    assert_true(known >= 350);
}

static void a_table_without_memory_is_refused(void** state) {
    kit* k = *state;
    berth_sites sites;
    failing_host_fail(&k->failing, 1, false);
    assert_int_equal(berth_sites_init(&sites, k->host), BERTH_ERR_OUT_OF_MEMORY);
    failing_host_fail(&k->failing, 0, false);
    berth_sites_fini(&sites);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(lifetimes_are_told_apart_by_takes_and_steps),
        TEST(a_site_is_believed_once_two_of_its_blocks_agree),
        TEST(a_site_that_contradicts_itself_is_not_believed),
        TEST(a_site_that_changes_its_ways_is_learned_anew_soon),
        TEST(a_block_without_a_site_teaches_nothing),
        TEST(names_are_compared_in_full),
        TEST(what_outlives_its_evicted_site_teaches_no_other),
        TEST(a_flood_of_names_takes_no_memory_and_leaves_the_busy_sites),
        TEST(sites_of_yesterday_make_room),
        TEST(a_table_without_memory_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
