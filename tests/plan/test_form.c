// SPDX-License-Identifier: Apache-2.0
// Forms of symbols: their values, their bounds over boxes, what is left of hypotheses.
#include "kit/test.h"

#include "kit/random.h"
#include "plan/form.h"

/// scale * (s[0] + s[1]) + add.
static berth_form sum_form(int64_t scale, int64_t add) {
    return (berth_form){.factors = {{.symbols = {0, 1}, .count = 2, .scales = {1, 1}, .unit = 1}},
                        .factor_count = 1,
                        .unit = 1,
                        .scale = scale,
                        .add = add};
}

/// scale * ceil((s[symbol] + shift) / unit) + add.
static berth_form stairs_form(uint16_t symbol, int32_t shift, uint32_t unit, int64_t scale) {
    return (berth_form){
        .factors = {{.symbols = {symbol}, .count = 1, .scales = {1}, .add = shift, .unit = unit}},
        .factor_count = 1,
        .unit = 1,
        .scale = scale};
}

static void a_quotient_is_rounded_up_also_below_zero(void** state) {
    (void)state;
    const berth_form down = stairs_form(0, -15, 16, 3); // 3 * floor(s / 16)
    for (int64_t s = 0; s < 100; s++) {
        assert_int_equal(berth_form_value(&down, &s), 3 * (s / 16));
        const berth_form up = stairs_form(0, 0, 16, 3);
        assert_int_equal(berth_form_value(&up, &s), 3 * ((s + 15) / 16));
    }
}

static void a_falling_form_is_bounded_over_the_box(void** state) {
    (void)state;
    berth_form difference = sum_form(1, 0);
    difference.factors[0].scales[1] = -1;
    const int64_t lo[2] = {64, 16}, hi[2] = {80, 20};
    assert_false(berth_form_is_monotone(&difference));
    assert_int_equal(berth_form_bound(&difference, lo, hi), 80 - 17);
    berth_form falling = stairs_form(1, 0, 1, -2);
    falling.add = 100;
    assert_int_equal(berth_form_bound(&falling, lo, hi), 100 - 2 * 17);
    const int64_t far[2] = {64, 1000}, farther[2] = {80, 2000};
    assert_int_equal(berth_form_bound(&falling, far, farther), 0); // never below zero
}

static berth_form random_form(test_random* random) {
    berth_form form = {.unit = 1,
                       .factor_count = (uint8_t)test_random_between(random, 0, 3),
                       .limit_kind = (uint8_t)test_random_between(random, 0, 2),
                       .scale = test_random_between(random, -3, 5),
                       .add = test_random_between(random, -50, 200),
                       .limit = test_random_between(random, 0, 300)};
    if (test_random_one_in(random, 3)) form.unit = (uint32_t)test_random_between(random, 2, 9);
    for (uint8_t i = 0; i < form.factor_count; i++) {
        berth_form_factor* factor = &form.factors[i];
        factor->count = (uint8_t)test_random_between(random, 1, 3);
        factor->unit = (uint32_t)test_random_between(random, 1, 9);
        factor->remainder = test_random_one_in(random, 4);
        factor->add = (int32_t)test_random_between(random, -20, 20);
        for (uint8_t k = 0; k < factor->count; k++) {
            factor->symbols[k] = (uint16_t)test_random_below(random, 2);
            factor->scales[k] = (int32_t)test_random_between(random, -2, 4);
        }
    }
    if (form.factor_count == 1 && !form.factors[0].remainder && test_random_one_in(random, 3)) {
        form.padding = true;
        form.scale = 2 * form.factors[0].unit;
    }
    return form;
}

static void no_point_of_a_box_exceeds_its_bound(void** state) {
    (void)state;
    test_random random = test_random_make(77);
    for (int round = 0; round < 4000; round++) {
        const berth_form form = random_form(&random);
        const int64_t lo[2] = {test_random_between(&random, -1, 60),
                               test_random_between(&random, -1, 60)};
        const int64_t hi[2] = {lo[0] + test_random_between(&random, 1, 12),
                               lo[1] + test_random_between(&random, 1, 12)};
        const int64_t bound = berth_form_bound(&form, lo, hi);
        const bool monotone = berth_form_is_monotone(&form);
        for (int64_t s = lo[0] + 1; s <= hi[0]; s++) {
            for (int64_t t = lo[1] + 1; t <= hi[1]; t++) {
                const int64_t point[2] = {s, t};
                const int64_t value = berth_form_value(&form, point);
                assert_true(value >= 0 && value <= bound);
                const int64_t next[2] = {s + 1, t};
                if (monotone) assert_true(berth_form_value(&form, next) >= value);
            }
        }
        if (monotone) assert_int_equal(bound, berth_form_value(&form, hi));
    }
}

static void hypotheses_that_disagree_are_dropped_and_padding_narrows(void** state) {
    (void)state;
    berth_form_set set = {.items = {stairs_form(0, 0, 1, 1), stairs_form(0, 0, 64, 64)},
                          .count = 2};
    set.items[1].padding = true;
    const int64_t at = 128, odd = 100, off = 103;
    assert_false(berth_form_set_filter(&set, &at, 128));
    assert_int_equal(set.count, 2);
    assert_true(berth_form_set_filter(&set, &odd, 104));
    assert_int_equal(set.count, 1);
    assert_int_equal(set.items[0].factors[0].unit, 8);
    assert_int_equal(set.items[0].scale, 8);
    assert_true(berth_form_set_filter(&set, &off, 103));
    assert_int_equal(set.count, 0);
}

static void values_beyond_their_type_saturate(void** state) {
    (void)state;
    const int64_t huge[2] = {INT64_MAX, INT64_MAX};
    const int64_t below[2] = {INT64_MAX - 1, INT64_MAX - 1};
    berth_form product = stairs_form(0, 0, 1, 3);
    product.factors[product.factor_count++] = stairs_form(1, 0, 1, 1).factors[0];
    const berth_form sum = sum_form(2, 9);
    berth_form stairs = stairs_form(0, 1, 2, 5);
    stairs.factors[0].scales[0] = 3;
    berth_form padded = stairs_form(0, 0, 64, 64);
    padded.padding = true;
    assert_int_equal(berth_form_bound(&product, below, huge), INT64_MAX);
    assert_int_equal(berth_form_bound(&sum, below, huge), INT64_MAX);
    assert_int_equal(berth_form_bound(&stairs, below, huge), INT64_MAX);
    assert_int_equal(berth_form_bound(&padded, below, huge), INT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quotient_is_rounded_up_also_below_zero),
        cmocka_unit_test(a_falling_form_is_bounded_over_the_box),
        cmocka_unit_test(no_point_of_a_box_exceeds_its_bound),
        cmocka_unit_test(hypotheses_that_disagree_are_dropped_and_padding_narrows),
        cmocka_unit_test(values_beyond_their_type_saturate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
