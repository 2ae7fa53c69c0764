// SPDX-License-Identifier: Apache-2.0
// Recent use of memory in epochs: what is expected while it goes on and after it has ended.
#include "test.h"

#include "memory/use_window.h"

#define MB (UINT64_C(1) << 20)
enum { EPOCHS = BERTH_USE_EPOCHS };

/// A window with `count` epochs of `peak` bytes up to epoch `last`, nothing in use after it.
static berth_use_window used(uint64_t last, uint64_t count, uint64_t peak) {
    berth_use_window window = {0};
    for (uint64_t epoch = last + 1 - count; epoch <= last; epoch++)
        berth_use_window_note(&window, epoch, peak, 0);
    return window;
}

static void nothing_is_expected_before_anything_was_used(void** state) {
    (void)state;
    const berth_use_window window = {0};
    assert_int_equal(berth_use_window_expect(&window, 12345), 0);
}

static void steady_use_is_expected_to_go_on(void** state) {
    (void)state;
    const berth_use_window window = used(1000, 100, 64 * MB);
    assert_int_equal(berth_use_window_expect(&window, 1000), 64 * MB);
}

static void after_the_end_less_is_expected_with_every_epoch_and_nothing_in_the_end(void** state) {
    (void)state;
    const berth_use_window window = used(1000, 100, 64 * MB);
    uint64_t before = berth_use_window_expect(&window, 1000);
    for (uint64_t age = 1; age <= EPOCHS; age++) {
        const uint64_t now = berth_use_window_expect(&window, 1000 + age);
        assert_true(now <= before);
        assert_true(before - now <= 64 * MB / 8); // in steps, none of them large
        before = now;
    }
    assert_int_equal(before, 0);
    assert_int_equal(berth_use_window_expect(&window, UINT64_MAX / 2), 0);
}

static void a_single_peak_fades_out_instead_of_going_at_once(void** state) {
    (void)state;
    berth_use_window window = used(1000, EPOCHS, 0);
    berth_use_window_note(&window, 1001, 64 * MB, 0);
    assert_int_equal(berth_use_window_expect(&window, 1001), 64 * MB);
    const uint64_t half = berth_use_window_expect(&window, 1001 + EPOCHS / 2);
    assert_in_range(half, 31 * MB, 33 * MB);
    assert_int_equal(berth_use_window_expect(&window, 1001 + EPOCHS), 0);
}

static void long_use_is_kept_longer_than_a_single_peak(void** state) {
    (void)state;
    berth_use_window peak = used(1000, EPOCHS, 0);
    berth_use_window_note(&peak, 1001, 64 * MB, 0);
    const berth_use_window lasting = used(1001, EPOCHS, 64 * MB);
    const uint64_t later = 1001 + EPOCHS / 2;
    assert_true(berth_use_window_expect(&lasting, later) >
                berth_use_window_expect(&peak, later) + 8 * MB);
}

static void no_more_is_expected_than_the_highest_peak_and_no_less_than_is_in_use(void** state) {
    (void)state;
    berth_use_window window = {0};
    for (uint64_t epoch = 1; epoch <= 500; epoch++) {
        const uint64_t peak = epoch * 7919 % 64 * MB;
        berth_use_window_note(&window, epoch, peak, peak / 2);
        const uint64_t expected = berth_use_window_expect(&window, epoch);
        assert_in_range(expected, peak / 2, 63 * MB);
    }
}

static void between_notes_as_much_is_in_use_as_at_the_last_one(void** state) {
    (void)state;
    berth_use_window window = {0};
    berth_use_window_note(&window, 10, 48 * MB, 48 * MB);
    berth_use_window_note(&window, 10 + 5 * EPOCHS, 0, 0); // released just now
    assert_int_equal(berth_use_window_expect(&window, 10 + 5 * EPOCHS), 48 * MB);
    assert_int_equal(berth_use_window_expect(&window, 10 + 6 * EPOCHS), 0);
}

static void what_stays_in_use_is_all_that_is_expected_later(void** state) {
    (void)state;
    berth_use_window window = used(1000, 100, 64 * MB);
    berth_use_window_note(&window, 1001, 5 * MB + 1, 5 * MB + 1);
    assert_int_equal(berth_use_window_expect(&window, 1001 + 2 * EPOCHS), 5 * MB + 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_expected_before_anything_was_used),
        cmocka_unit_test(steady_use_is_expected_to_go_on),
        cmocka_unit_test(after_the_end_less_is_expected_with_every_epoch_and_nothing_in_the_end),
        cmocka_unit_test(a_single_peak_fades_out_instead_of_going_at_once),
        cmocka_unit_test(long_use_is_kept_longer_than_a_single_peak),
        cmocka_unit_test(no_more_is_expected_than_the_highest_peak_and_no_less_than_is_in_use),
        cmocka_unit_test(between_notes_as_much_is_in_use_as_at_the_last_one),
        cmocka_unit_test(what_stays_in_use_is_all_that_is_expected_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
