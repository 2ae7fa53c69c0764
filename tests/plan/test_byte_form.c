// SPDX-License-Identifier: Apache-2.0
// Forms of bytes: the simplest that fits is found, and what fits none has none.
#include "kit/random.h"
#include "kit/test.h"
#include "plan/byte_form.h"

static berth_byte_form_set fit(const berth_byte_sample* samples, size_t count) {
    berth_byte_form_set set;
    berth_byte_form_set_fit(&set, samples, count);
    return set;
}

static void expect_one(const berth_byte_form_set* set,
                       uint64_t constant,
                       uint64_t linear,
                       uint64_t square) {
    assert_int_equal(set->count, 1);
    assert_int_equal(set->items[0].constant, constant);
    assert_int_equal(set->items[0].linear, linear);
    assert_int_equal(set->items[0].square, square);
}

static void one_term_is_decided_by_two_lengths(void** state) {
    (void)state;
    berth_byte_form_set set = fit((const berth_byte_sample[]){{128, 4096}, {1024, 4096}}, 2);
    expect_one(&set, 4096, 0, 0);
    assert_true(set.confirmed);
    set = fit((const berth_byte_sample[]){{128, 2097152}, {1024, 16777216}}, 2);
    expect_one(&set, 0, 16384, 0);
    set = fit((const berth_byte_sample[]){{128, 4194304}, {1024, 268435456}}, 2);
    expect_one(&set, 0, 0, 256);
    assert_int_equal(berth_byte_form_set_value(&set, 512), 67108864);
    set = fit((const berth_byte_sample[]){{128, 0}, {1024, 0}}, 2);
    assert_int_equal(berth_byte_form_set_value(&set, 512), 0);
}

static void one_length_leaves_every_hypothesis(void** state) {
    (void)state;
    const berth_byte_form_set set = fit((const berth_byte_sample[]){{4, 32}, {4, 32}}, 2);
    assert_int_equal(set.count, 3);
    assert_false(set.confirmed);
    assert_int_equal(berth_byte_form_set_value(&set, 8), 128);
    assert_int_equal(berth_byte_form_set_value(&set, 1), 32);
}

static void two_terms_are_confirmed_by_a_third_length(void** state) {
    (void)state;
    const berth_byte_sample samples[] = {{10, 1100}, {20, 2200 + 2000}, {30, 3300 + 6000}};
    // 10 s + 10 s s, and others through the first two points
    berth_byte_form_set set = fit(samples, 2);
    assert_int_equal(set.terms, 2);
    assert_false(set.confirmed);
    assert_true(berth_byte_form_set_value(&set, 30) >= 9300);
    set = fit(samples, 3);
    expect_one(&set, 0, 10, 10);
    assert_true(set.confirmed);
}

static void three_terms_need_three_lengths(void** state) {
    (void)state;
    const berth_byte_sample samples[] = {
        {3, 7 + 15 + 18}, {5, 7 + 25 + 50}, {8, 7 + 40 + 128}, {13, 7 + 65 + 338}};
    const berth_byte_form_set two = fit(samples, 2);
    assert_true(two.count == 0 || two.terms == 2);
    berth_byte_form_set set = fit(samples, 3);
    expect_one(&set, 7, 5, 2);
    assert_false(set.confirmed);
    set = fit(samples, 4);
    expect_one(&set, 7, 5, 2);
    assert_true(set.confirmed);
}

static void what_shrinks_or_is_no_such_sum_has_no_form(void** state) {
    (void)state;
    assert_int_equal(fit((const berth_byte_sample[]){{10, 100}, {20, 99}}, 2).count, 0);
    assert_int_equal(fit((const berth_byte_sample[]){{7, 100}, {7, 99}}, 2).count, 0);
    // padded to multiples of 64
    assert_int_equal(fit((const berth_byte_sample[]){{60, 64}, {65, 128}, {70, 128}}, 3).count, 0);
    assert_int_equal(fit(NULL, 0).count, 0);
    assert_int_equal(fit((const berth_byte_sample[]){{UINT64_MAX, 4}}, 1).count, 0);
    assert_int_equal(fit((const berth_byte_sample[]){{4, UINT64_MAX}}, 1).count, 0);
    const berth_byte_form_set none = fit(NULL, 0);
    assert_int_equal(berth_byte_form_set_value(&none, 4), 0);
}

static void values_that_do_not_fit_saturate(void** state) {
    (void)state;
    const berth_byte_form form = {1, 1, UINT64_C(1) << 40};
    assert_int_equal(berth_byte_form_value(&form, UINT64_C(1) << 30), UINT64_MAX);
    const berth_byte_form sum = {UINT64_MAX, 1, 0};
    assert_int_equal(berth_byte_form_value(&sum, 1), UINT64_MAX);
}

static void random_sums_are_found_again(void** state) {
    (void)state;
    test_random random = test_random_make(3);
    for (int i = 0; i < 5000; i++) {
        const unsigned bits = 1 + (unsigned)test_random_below(&random, 30);
        berth_byte_form form = {0};
        if (test_random_one_in(&random, 2)) form.constant = test_random_u64(&random) >> (64 - bits);
        if (test_random_one_in(&random, 2)) form.linear = test_random_u64(&random) >> (64 - bits);
        if (test_random_one_in(&random, 2)) form.square = test_random_u64(&random) >> (64 - bits);
        berth_byte_sample samples[4];
        for (int k = 0; k < 4; k++) {
            samples[k].length = (uint64_t)k * 1000 + 1 + test_random_below(&random, 999);
            samples[k].bytes = berth_byte_form_value(&form, samples[k].length);
        }
        const berth_byte_form_set set = fit(samples, 4);
        assert_int_equal(berth_byte_form_set_value(&set, 12345),
                         berth_byte_form_value(&form, 12345));
        // fewer lengths never promise less than what is right among their own hypotheses
        const berth_byte_form_set two = fit(samples, 2);
        const bool is_kept = two.count > 0 && two.terms >= (form.constant > 0) + (form.linear > 0) +
                                                               (form.square > 0);
        if (is_kept)
            assert_true(berth_byte_form_set_value(&two, 12345) >=
                        berth_byte_form_value(&form, 12345));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_term_is_decided_by_two_lengths),
        cmocka_unit_test(one_length_leaves_every_hypothesis),
        cmocka_unit_test(two_terms_are_confirmed_by_a_third_length),
        cmocka_unit_test(three_terms_need_three_lengths),
        cmocka_unit_test(what_shrinks_or_is_no_such_sum_has_no_form),
        cmocka_unit_test(values_that_do_not_fit_saturate),
        cmocka_unit_test(random_sums_are_found_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
