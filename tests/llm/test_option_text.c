// SPDX-License-Identifier: Apache-2.0
// Numbers of command lines.
#include "llm/llm_kit.h"

#include "option_text.h"

static void whole_numbers_are_read_within_their_range(void** state) {
    (void)state;
    int64_t value = 7;
    assert_true(llm_parse_whole("-3", -3, 10, &value));
    assert_int_equal(value, -3);
    assert_true(llm_parse_whole("9223372036854775807", 0, INT64_MAX, &value));
    assert_int_equal(value, INT64_MAX);
}

static void what_is_no_whole_number_leaves_the_value_alone(void** state) {
    (void)state;
    static const char* const texts[] = {"", " ", "11", "-1", "3x", "1.5", "9223372036854775808"};
    int64_t value = 7;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_false(llm_parse_whole(texts[i], 0, 10, &value));
    assert_int_equal(value, 7);
}

static void numbers_are_read_within_their_range(void** state) {
    (void)state;
    double value = 7.0;
    assert_true(llm_parse_number("0.25", 0.0, 1.0, &value));
    assert_true(value == 0.25);
    static const char* const texts[] = {"", "1.01", "-0.1", "nan", "inf", "0.5x"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_false(llm_parse_number(texts[i], 0.0, 1.0, &value));
    assert_true(value == 0.25);
}

static void bytes_have_units(void** state) {
    (void)state;
    uint64_t bytes = 7;
    assert_true(llm_parse_bytes("12", &bytes));
    assert_int_equal(bytes, 12);
    assert_true(llm_parse_bytes("3K", &bytes));
    assert_int_equal(bytes, 3072);
    assert_true(llm_parse_bytes("4GiB", &bytes));
    assert_int_equal(bytes, UINT64_C(4) << 30);
}

static void bytes_that_are_none_or_too_many_are_refused(void** state) {
    (void)state;
    static const char* const texts[] = {
        "", "M", "-1", " 1", "1k", "1MB", "1Mi", "16777216T", "18446744073709551616"};
    uint64_t bytes = 7;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_false(llm_parse_bytes(texts[i], &bytes));
    assert_int_equal(bytes, 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_are_read_within_their_range),
        cmocka_unit_test(what_is_no_whole_number_leaves_the_value_alone),
        cmocka_unit_test(numbers_are_read_within_their_range),
        cmocka_unit_test(bytes_have_units),
        cmocka_unit_test(bytes_that_are_none_or_too_many_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
