// SPDX-License-Identifier: Apache-2.0
// Watermarks: crossings take turns, none is lost that is news, and the store notes every change.
#include "memory_kit.h"

#include "memory/watermarks.h"

#define G KIT_GRANULE

enum { RANDOM_STEPS = 20000 };

static berth_watermarks marks_of(uint64_t high, uint64_t low) {
    return (berth_watermarks){.high_bytes = high, .low_bytes = low};
}

/// Takes what is to be told; fails unless it is `expected`, 'h' and 'l' in order.
static void expect_told(berth_watermarks* marks, const char* expected) {
    berth_crossing crossings[BERTH_CROSSINGS_MOST];
    const size_t count = berth_watermarks_take(marks, crossings);
    assert_int_equal(count, strlen(expected));
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(crossings[i].is_rise, expected[i] == 'h');
        assert_int_equal(crossings[i].mark_bytes,
                         crossings[i].is_rise ? marks->high_bytes : marks->low_bytes);
    }
    if (count > 0) berth_watermarks_end_telling(marks);
}

static void note_all(berth_watermarks* marks, const uint64_t* used, size_t count) {
    for (size_t i = 0; i < count; i++)
        berth_watermarks_note(marks, used[i]);
}

static void use_that_goes_up_and_down_around_a_mark_is_told_once(void** state) {
    (void)state;
    berth_watermarks marks = marks_of(100, 50);
    const uint64_t around_high[] = {99, 100, 99, 100, 60, 120, 51};
    note_all(&marks, around_high, 7);
    expect_told(&marks, "h");
    const uint64_t around_low[] = {50, 51, 50, 99, 0};
    note_all(&marks, around_low, 5);
    expect_told(&marks, "l");
    expect_told(&marks, "");
    assert_int_equal(marks.rises, 1);
}

static void a_peak_that_is_over_is_told_from_its_beginning(void** state) {
    (void)state;
    berth_watermarks marks = marks_of(100, 50);
    note_all(&marks, (const uint64_t[]){100, 50}, 2);
    expect_told(&marks, "hl");
    note_all(&marks, (const uint64_t[]){100, 0, 130, 0, 140}, 5);
    expect_told(&marks, "h");
    note_all(&marks, (const uint64_t[]){10, 100}, 2);
    expect_told(&marks, "lh");
    assert_int_equal(marks.rise_bytes, 100);
    assert_int_equal(marks.fall_bytes, 10);
}

static void while_somebody_is_telling_nobody_else_does(void** state) {
    (void)state;
    berth_watermarks marks = marks_of(100, 50);
    berth_crossing crossings[BERTH_CROSSINGS_MOST];
    berth_watermarks_note(&marks, 100);
    assert_int_equal(berth_watermarks_take(&marks, crossings), 1);
    berth_watermarks_note(&marks, 0);
    assert_false(berth_watermarks_has_news(&marks));
    assert_int_equal(berth_watermarks_take(&marks, crossings), 0);
    berth_watermarks_end_telling(&marks);
    expect_told(&marks, "l");
}

static void without_marks_nothing_is_noted(void** state) {
    (void)state;
    berth_watermarks marks = {0};
    note_all(&marks, (const uint64_t[]){UINT64_MAX, 0, UINT64_MAX}, 3);
    expect_told(&marks, "");
}

static void what_is_told_takes_turns_and_ends_with_how_it_is(void** state) {
    (void)state;
    test_random random = test_random_make(7);
    berth_watermarks marks = marks_of(100, 50);
    bool told = false; // that use is high
    for (int i = 0; i < RANDOM_STEPS; i++) {
        berth_watermarks_note(&marks, test_random_below(&random, 150));
        if (!test_random_one_in(&random, 5)) continue;
        berth_crossing crossings[BERTH_CROSSINGS_MOST];
        const size_t count = berth_watermarks_take(&marks, crossings);
        for (size_t c = 0; c < count; c++) {
            assert_int_equal(crossings[c].is_rise, !told);
            assert_true(crossings[c].is_rise ? crossings[c].used_bytes >= 100
                                             : crossings[c].used_bytes <= 50);
            told = crossings[c].is_rise;
        }
        assert_int_equal(told, marks.is_above);
        if (count > 0) berth_watermarks_end_telling(&marks);
    }
}

// --- In the store --------------------------------------------------------------------------------

typedef struct mark_kit {
    memory_kit base;
    berth_tenant tenant;
    berth_space* space;
    _Atomic bool bell;
} mark_kit;

static berth_account account_of(mark_kit* kit) {
    return (berth_account){
        .store = kit->base.store, .tenant = &kit->tenant, .owner = BERTH_OWNER_POOL};
}

static int setup(void** state) {
    mark_kit* kit = calloc(1, sizeof *kit);
    const berth_sim_options options = memory_kit_options();
    memory_kit_init(&kit->base, &options);
    berth_store_set_watermarks(kit->base.store, 48 * G, 32 * G);
    berth_store_add_tenant(kit->base.store, &kit->tenant);
    kit->tenant.bell = &kit->bell;
    assert_ok(berth_space_reserve(kit->base.device, KIT_CAPACITY, &kit->space));
    *state = kit;
    return 0;
}

static int teardown(void** state) {
    mark_kit* kit = *state;
    berth_space_release(kit->space);
    berth_store_remove_tenant(kit->base.store, &kit->tenant);
    memory_kit_fini(&kit->base);
    free(kit);
    return 0;
}

/// Fails unless the bell rang for `expected`, or did not without any; stops it.
static void expect_rung(mark_kit* kit, const char* expected) {
    berth_crossing crossings[BERTH_CROSSINGS_MOST];
    assert_int_equal(atomic_exchange(&kit->bell, false), expected[0] != '\0');
    const size_t count = berth_store_take_crossings(kit->base.store, crossings);
    assert_int_equal(count, strlen(expected));
    for (size_t i = 0; i < count; i++)
        assert_int_equal(crossings[i].is_rise, expected[i] == 'h');
    if (count > 0) assert_false(berth_store_end_telling(kit->base.store));
}

static void promises_count_and_maps_that_draw_on_them_change_nothing(void** state) {
    mark_kit* kit = *state;
    berth_reservation promise = {0};
    assert_ok(berth_store_reserve(account_of(kit), 47 * G, &promise));
    expect_rung(kit, "");
    assert_ok(berth_store_reserve(account_of(kit), G, &promise));
    expect_rung(kit, "h");
    assert_ok(berth_store_map(account_of(kit), &promise, kit->space, 0, 40 * G));
    expect_rung(kit, "");
    berth_store_unreserve(kit->base.store, &promise);
    expect_rung(kit, ""); // 40
    assert_ok(berth_store_unmap(account_of(kit), kit->space, 0, 8 * G));
    expect_rung(kit, "l");
    assert_ok(berth_store_map(account_of(kit), NULL, kit->space, 0, 8 * G));
    expect_rung(kit, "");
    assert_ok(berth_store_unmap(account_of(kit), kit->space, 0, 40 * G));
    expect_rung(kit, "");
    assert_int_equal(memory_kit_stats(&kit->base).rises, 1);
}

static void what_the_device_refuses_crosses_nothing(void** state) {
    mark_kit* kit = *state;
    berth_sim_fail(kit->base.device, BERTH_SIM_MAP, 1);
    assert_int_equal(berth_store_map(account_of(kit), NULL, kit->space, 0, 50 * G),
                     BERTH_ERR_OUT_OF_MEMORY);
    expect_rung(kit, "");
    assert_ok(berth_store_map(account_of(kit), NULL, kit->space, 0, 50 * G));
    expect_rung(kit, "h");
    berth_sim_fail(kit->base.device, BERTH_SIM_UNMAP, 1);
    assert_int_equal(berth_store_unmap(account_of(kit), kit->space, 0, 50 * G), BERTH_ERR_DEVICE);
    expect_rung(kit, "");
    assert_ok(berth_store_unmap(account_of(kit), kit->space, 0, 50 * G));
    expect_rung(kit, "l");
}

static void what_is_mapped_ahead_is_in_nobodys_use(void** state) {
    (void)state;
    memory_kit base;
    const berth_sim_options options = memory_kit_options();
    memory_kit_init(&base, &options);
    berth_store_set_watermarks(base.store, 8 * G, 4 * G);
    assert_ok(berth_store_map_ahead(base.store, 32 * G));
    berth_space* space;
    assert_ok(berth_space_reserve(base.device, KIT_CAPACITY, &space));
    const berth_account account = {.store = base.store, .owner = BERTH_OWNER_POOL};
    berth_crossing crossings[BERTH_CROSSINGS_MOST];
    assert_ok(berth_store_map(account, NULL, space, 0, 7 * G));
    assert_int_equal(berth_store_take_crossings(base.store, crossings), 0);
    assert_ok(berth_store_map(account, NULL, space, 7 * G, G));
    assert_int_equal(berth_store_take_crossings(base.store, crossings), 1);
    assert_int_equal(crossings[0].used_bytes, 8 * G);
    assert_false(berth_store_end_telling(base.store));
    assert_ok(berth_store_unmap(account, space, 0, 8 * G));
    assert_int_equal(berth_store_take_crossings(base.store, crossings), 1);
    assert_int_equal(crossings[0].used_bytes, 0);
    assert_false(berth_store_end_telling(base.store));
    berth_space_release(space);
    berth_store_destroy(base.store);
    berth_stream_destroy(base.stream);
    berth_device_destroy(base.device);
    berth_host_destroy(base.host);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(use_that_goes_up_and_down_around_a_mark_is_told_once),
        cmocka_unit_test(a_peak_that_is_over_is_told_from_its_beginning),
        cmocka_unit_test(while_somebody_is_telling_nobody_else_does),
        cmocka_unit_test(without_marks_nothing_is_noted),
        cmocka_unit_test(what_is_told_takes_turns_and_ends_with_how_it_is),
        TEST(promises_count_and_maps_that_draw_on_them_change_nothing),
        TEST(what_the_device_refuses_crosses_nothing),
        cmocka_unit_test(what_is_mapped_ahead_is_in_nobodys_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
