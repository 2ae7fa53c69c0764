// SPDX-License-Identifier: Apache-2.0
// What is remembered of requests, and what is found where they came before.
#include "kit/test.h"

#include <stdlib.h>

#include "health/echo.h"
#include "kit/random.h"

#define KIB UINT64_C(1024)

static int set_up(void** state) {
    *state = calloc(1, sizeof(berth_echo));
    return *state == NULL ? -1 : 0;
}

static int tear_down(void** state) {
    free(*state);
    return 0;
}

/// One turn of a program: 20 requests from sites of their own, the 15th an event.
static uint64_t turn(berth_echo* echo, uint64_t takes, uint64_t size, int until) {
    for (int i = 0; i < until; i++)
        berth_echo_note(echo, 100 + (uint64_t)i, size * (i == 15 ? 8 : 1), ++takes, i == 15);
    return takes;
}

static void an_empty_record_knows_nothing(void** state) {
    berth_echo_answer answer;
    berth_echo_ask(*state, 10, 0, UINT64_MAX, &answer);
    assert_int_equal(answer.matches, 0);
}

static void what_followed_last_time_is_told(void** state) {
    berth_echo* echo = *state;
    berth_echo_answer answer;
    uint64_t takes = 0;
    for (int k = 0; k < 3; k++)
        takes = turn(echo, takes, KIB, 20);
    takes = turn(echo, takes, KIB, 10);
    berth_echo_ask(echo, 4, 2 * KIB, UINT64_MAX, &answer);
    assert_true(answer.is_long);
    assert_true(answer.event_share <= 0);
    assert_true(answer.between <= 0);
    berth_echo_ask(echo, 6, 2 * KIB, UINT64_MAX, &answer);
    assert_true(answer.event_share >= 1);
    assert_true(answer.between >= 1 && answer.between <= 1);
    assert_int_equal(answer.largest_bytes, 8 * KIB);
    berth_echo_ask(echo, 6, 2 * KIB, 4 * KIB, &answer);
    assert_true(answer.between <= 0);
}

static void sizes_are_scaled_to_those_of_now(void** state) {
    berth_echo* echo = *state;
    berth_echo_answer answer;
    const uint64_t takes = turn(echo, 0, KIB, 20);
    turn(echo, takes, 4 * KIB, 12);
    berth_echo_ask(echo, 8, 16 * KIB, UINT64_MAX, &answer);
    assert_int_equal(answer.matches, 1);
    assert_true(answer.largest_bytes > 30 * KIB && answer.largest_bytes <= 32 * KIB);
    assert_true(answer.between >= 1);
}

static void a_loop_shorter_than_the_horizon_goes_round(void** state) {
    berth_echo* echo = *state;
    berth_echo_answer answer;
    uint64_t takes = 0;
    for (int k = 0; k < 40; k++) {
        berth_echo_note(echo, 1, KIB, ++takes, false);
        berth_echo_note(echo, 2, 3 * KIB, ++takes, false);
    }
    berth_echo_ask(echo, 100, 2 * KIB, UINT64_MAX, &answer);
    assert_true(answer.between > 45 && answer.between < 55);
}

static void what_never_came_before_matches_nothing(void** state) {
    berth_echo* echo = *state;
    berth_echo_answer answer;
    for (uint64_t i = 0; i < 3 * BERTH_ECHO_ENTRIES; i++) {
        berth_echo_note(echo, i, KIB, i, false);
        if (i % 7 != 0) continue;
        berth_echo_ask(echo, 32, 0, UINT64_MAX, &answer);
        assert_int_equal(answer.matches, 0);
    }
}

static void any_record_gives_an_answer_within_bounds(void** state) {
    berth_echo* echo = *state;
    test_random random = test_random_make(5);
    berth_echo_answer answer;
    uint64_t takes = UINT64_MAX - 1000;
    for (uint32_t i = 0; i < 4 * BERTH_ECHO_ENTRIES; i++) {
        berth_echo_note(echo,
                        test_random_below(&random, 4),
                        test_random_u64(&random) >> test_random_below(&random, 64),
                        takes += test_random_below(&random, 3),
                        test_random_one_in(&random, 20));
        // also after long silence, when much of the record is new to the tables
        if (!test_random_one_in(&random, i % 5000 < 100 ? 3 : 3000)) continue;
        berth_echo_ask(echo, test_random_below(&random, 1000), 0, UINT64_MAX, &answer);
        assert_true(answer.matches <= 2);
        assert_true(answer.event_share >= 0 && answer.event_share <= 1);
        assert_true(answer.between >= 0 && answer.between <= 512);
    }
}

static void the_record_begins_anew_before_its_numbers_come_round(void** state) {
    berth_echo* echo = *state;
    berth_echo_answer answer;
    turn(echo, 0, KIB, 20);
    echo->count = UINT32_MAX;
    uint64_t takes = turn(echo, 0, KIB, 20);
    turn(echo, takes, KIB, 10);
    assert_int_equal(echo->count, 30);
    berth_echo_ask(echo, 6, 2 * KIB, UINT64_MAX, &answer);
    assert_int_equal(answer.matches, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(an_empty_record_knows_nothing),
        TEST(what_followed_last_time_is_told),
        TEST(sizes_are_scaled_to_those_of_now),
        TEST(a_loop_shorter_than_the_horizon_goes_round),
        TEST(what_never_came_before_matches_nothing),
        TEST(any_record_gives_an_answer_within_bounds),
        TEST(the_record_begins_anew_before_its_numbers_come_round),
    };
    return cmocka_run_group_tests_name("echo", tests, NULL, NULL);
}
