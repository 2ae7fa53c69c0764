// SPDX-License-Identifier: Apache-2.0
// Forms of symbols: which are found from few observations, which are kept.
#include "kit/random.h"
#include "kit/test.h"

#include "plan/form_fit.h"

#define MOST BERTH_FORM_SAMPLES

/// Observations of one dimension at values of two symbols (bindings 0 and 1).
typedef struct sample_table {
    int64_t keys[MOST][2];
    const int64_t* rows[MOST];
    int64_t values[MOST];
    size_t count;
    uint16_t symbols[2];
    size_t symbol_count;
} sample_table;

static void observe(sample_table* table, int64_t s, int64_t t, int64_t value) {
    const size_t at = table->count++;
    table->keys[at][0] = s;
    table->keys[at][1] = t;
    table->rows[at] = table->keys[at];
    table->values[at] = value;
}

static berth_form_samples samples_of(sample_table* table, size_t symbol_count) {
    table->symbols[0] = 0;
    table->symbols[1] = 1;
    return (berth_form_samples){.values = table->values,
                                .bindings = table->rows,
                                .count = table->count,
                                .symbols = table->symbols,
                                .symbol_count = symbol_count};
}

static berth_form_set fit(sample_table* table, size_t symbol_count) {
    const berth_form_samples samples = samples_of(table, symbol_count);
    berth_form_set set;
    uint64_t work = 32768;
    berth_form_set_fit(&set, &samples, &work);
    for (uint8_t i = 0; i < set.count; i++)
        for (size_t k = 0; k < table->count; k++)
            assert_int_equal(berth_form_value(&set.items[i], table->rows[k]), table->values[k]);
    return set;
}

static int64_t largest_at(const berth_form_set* set, int64_t s, int64_t t) {
    const int64_t point[2] = {s, t};
    int64_t largest = -1;
    for (uint8_t i = 0; i < set->count; i++) {
        const int64_t value = berth_form_value(&set->items[i], point);
        if (value > largest) largest = value;
    }
    return largest;
}

static void a_dimension_that_never_changes_is_a_constant(void** state) {
    (void)state;
    sample_table t = {0};
    observe(&t, 3, 3, 576);
    observe(&t, 9, 4, 576);
    const berth_form_set set = fit(&t, 2);
    assert_int_equal(set.count, 1);
    assert_true(set.confirmed);
    assert_int_equal(largest_at(&set, 1000, 1000), 576);
}

static void a_symbol_is_recognised_from_two_lengths(void** state) {
    (void)state;
    sample_table t = {0};
    observe(&t, 7, 0, 7);
    observe(&t, 13, 0, 13);
    const berth_form_set set = fit(&t, 1);
    assert_int_equal(set.count, 1);
    assert_true(set.confirmed);
    assert_int_equal(largest_at(&set, 512, 0), 512);
}

static void a_symbol_plus_one_is_not_taken_for_the_symbol(void** state) {
    (void)state;
    sample_table t = {0};
    observe(&t, 7, 0, 8);
    observe(&t, 13, 0, 14);
    const berth_form_set set = fit(&t, 1);
    assert_int_equal(set.count, 1);
    assert_true(set.confirmed);
    assert_int_equal(largest_at(&set, 100, 0), 101);
}

static void a_multiple_is_found_and_a_line_needs_a_third_length_to_be_sure(void** state) {
    (void)state;
    sample_table t = {0};
    observe(&t, 7, 0, 63);
    observe(&t, 13, 0, 117);
    berth_form_set set = fit(&t, 1);
    assert_true(set.confirmed);
    assert_int_equal(largest_at(&set, 100, 0), 900);
    sample_table line = {0};
    observe(&line, 7, 0, 4096 + 7 * 36);
    observe(&line, 13, 0, 4096 + 13 * 36);
    set = fit(&line, 1);
    assert_false(set.confirmed);
    assert_int_equal(largest_at(&set, 100, 0), 4096 + 3600);
    observe(&line, 20, 0, 4096 + 20 * 36);
    set = fit(&line, 1);
    assert_true(set.confirmed);
}

static void symbols_that_were_always_equal_are_both_kept_and_the_largest_is_planned(void** state) {
    (void)state;
    sample_table t = {0};
    observe(&t, 7, 7, 7);
    observe(&t, 13, 13, 13);
    berth_form_set set = fit(&t, 2);
    assert_int_equal(set.count, 2);
    assert_int_equal(largest_at(&set, 5, 90), 90);
    assert_int_equal(largest_at(&set, 90, 5), 90);
    const int64_t diverged[2] = {20, 30};
    assert_true(berth_form_set_filter(&set, diverged, 20));
    assert_int_equal(set.count, 1);
    assert_int_equal(largest_at(&set, 5, 90), 5);
}

static void an_affine_form_of_two_symbols_is_not_entertained_while_one_symbol_does(void** state) {
    (void)state;
    sample_table t = {0};
    observe(&t, 7, 3, 7);
    observe(&t, 13, 5, 13);
    observe(&t, 14, 9, 14);
    const berth_form_set set = fit(&t, 2);
    assert_int_equal(set.count, 1);
    assert_int_equal(set.items[0].factors[0].count, 1);
    assert_int_equal(set.items[0].factors[0].symbols[0], 0);
}

static void sums_and_differences_of_two_symbols_are_found(void** state) {
    (void)state;
    sample_table sum = {0};
    observe(&sum, 5, 0, 5);
    observe(&sum, 9, 0, 9);
    observe(&sum, 7, 12, 19);
    berth_form_set set = fit(&sum, 2);
    assert_int_equal(set.count, 1);
    assert_int_equal(largest_at(&set, 100, 50), 150);
    sample_table difference = {0};
    observe(&difference, 50, 3, 48);
    observe(&difference, 90, 10, 81);
    observe(&difference, 70, 33, 38);
    set = fit(&difference, 2);
    assert_int_equal(set.count, 1);
    assert_false(berth_form_is_monotone(&set.items[0]));
    assert_int_equal(largest_at(&set, 100, 50), 51);
}

static void products_and_squares_are_found(void** state) {
    (void)state;
    sample_table product = {0};
    observe(&product, 5, 2, 30);
    observe(&product, 9, 3, 81);
    observe(&product, 7, 12, 252);
    berth_form_set set = fit(&product, 2);
    assert_int_equal(set.items[0].factor_count, 2);
    assert_int_equal(largest_at(&set, 10, 10), 300);
    sample_table square = {0};
    observe(&square, 8, 0, 64);
    observe(&square, 16, 0, 256);
    observe(&square, 24, 0, 576);
    set = fit(&square, 1);
    assert_int_equal(largest_at(&set, 100, 0), 10000);
}

static void ceiling_quotients_are_found_and_confirmed_late(void** state) {
    (void)state;
    sample_table t = {0};
    observe(&t, 5, 0, 1);
    observe(&t, 20, 0, 2);
    berth_form_set set = fit(&t, 1);
    assert_true(set.count > 1); // several divisors explain this
    assert_false(set.confirmed);
    observe(&t, 33, 0, 3);
    observe(&t, 160, 0, 10);
    observe(&t, 170, 0, 11);
    set = fit(&t, 1);
    assert_true(set.confirmed);
    assert_int_equal(largest_at(&set, 1600, 0), 100);
    assert_int_equal(largest_at(&set, 1601, 0), 101);
    sample_table scaled = {0}; // 96 * ceil((s + 1) / 16)
    observe(&scaled, 15, 0, 96);
    observe(&scaled, 16, 0, 192);
    observe(&scaled, 47, 0, 288);
    observe(&scaled, 48, 0, 384);
    set = fit(&scaled, 1);
    assert_int_equal(largest_at(&set, 63, 0), 384);
    assert_int_equal(largest_at(&set, 64, 0), 480);
}

static void lengths_that_were_all_multiples_may_hide_padding(void** state) {
    (void)state;
    sample_table t = {0};
    for (int64_t i = 1; i <= 8; i++)
        observe(&t, 64 * i, 0, 64 * i);
    berth_form_set set = fit(&t, 1);
    assert_int_equal(set.count, 2);
    assert_int_equal(largest_at(&set, 100, 0), 128);
    // Where rounding would cost half as much again it is not planned for.
    assert_int_equal(largest_at(&set, 65, 0), 65);
    berth_form_set padded = set;
    const int64_t point[2] = {100, 0};
    assert_true(berth_form_set_filter(&padded, point, 128));
    assert_int_equal(padded.count, 1);
    assert_int_equal(largest_at(&padded, 1000, 0), 1024);
    // Padding to a smaller unit agrees with what was seen, too.
    assert_true(berth_form_set_filter(&set, point, 104));
    assert_int_equal(set.count, 1);
    assert_int_equal(set.items[0].factors[0].unit, 8);
}

static void a_window_is_found_on_a_symbol_on_a_sum_and_on_blocks(void** state) {
    (void)state;
    sample_table t = {0};
    observe(&t, 10, 3, 10);
    observe(&t, 91, 9, 91);
    observe(&t, 100, 4, 96);
    berth_form_set set = fit(&t, 2);
    assert_int_equal(set.count, 1);
    assert_int_equal(largest_at(&set, 95, 1), 95);
    assert_int_equal(largest_at(&set, 1000, 1), 96);
    sample_table sum = {0};
    observe(&sum, 10, 1, 11);
    observe(&sum, 90, 8, 96);
    observe(&sum, 50, 20, 70);
    observe(&sum, 40, 200, 96);
    set = fit(&sum, 2);
    assert_int_equal(largest_at(&set, 30, 30), 60);
    assert_int_equal(largest_at(&set, 300, 30), 96);
    sample_table blocks = {0};
    static const int64_t lengths[] = {5, 33, 130, 200, 700, 64, 512, 513};
    for (size_t i = 0; i < 8; i++) {
        const int64_t needed = (lengths[i] + 15) / 16;
        observe(&blocks, lengths[i], 0, needed < 32 ? needed : 32);
    }
    set = fit(&blocks, 1);
    assert_true(set.count > 0);
    assert_int_equal(largest_at(&set, 100, 0), 7);
    assert_int_equal(largest_at(&set, 5000, 0), 32);
}

static void a_minimum_is_found(void** state) {
    (void)state;
    sample_table t = {0};
    observe(&t, 3, 0, 64);
    observe(&t, 9, 0, 64);
    observe(&t, 100, 0, 101);
    observe(&t, 300, 0, 301);
    const berth_form_set set = fit(&t, 1);
    assert_int_equal(set.count, 1);
    assert_int_equal(largest_at(&set, 20, 0), 64);
    assert_int_equal(largest_at(&set, 200, 0), 201);
}

static void blocks_of_two_lengths_are_found(void** state) {
    (void)state;
    static const int64_t s[] = {5, 17, 40, 300, 1}, t[] = {16, 3, 9, 200, 1};
    sample_table table = {0};
    for (size_t i = 0; i < 5; i++)
        observe(&table, s[i], t[i], (s[i] + t[i] + 15) / 16);
    const berth_form_set set = fit(&table, 2);
    assert_true(set.count > 0);
    assert_int_equal(largest_at(&set, 16, 16), 2);
    assert_int_equal(largest_at(&set, 16, 17), 3);
}

/// What a convolution leaves of `s`.
static int64_t convolved(int64_t s, int64_t kernel, int64_t padding, int64_t stride) {
    return (s + 2 * padding - kernel) / stride + 1;
}

static void strides_and_pooling_are_found(void** state) {
    (void)state;
    static const int64_t sides[] = {224, 227, 300, 301, 511, 97, 640, 100};
    static const int64_t layers[][3] = {{7, 3, 2}, {3, 0, 2}, {2, 0, 2}, {5, 2, 3}, {11, 2, 4}};
    for (size_t layer = 0; layer < 5; layer++) {
        const int64_t *l = layers[layer], k = l[0], p = l[1], u = l[2];
        sample_table t = {0};
        for (size_t i = 0; i < 8; i++)
            observe(&t, sides[i], 0, convolved(sides[i], k, p, u));
        const berth_form_set set = fit(&t, 1);
        assert_true(set.count > 0);
        for (int64_t s = 50; s < 60; s++) {
            const int64_t planned = largest_at(&set, s, 0);
            const int64_t needed = convolved(s, k, p, u);
            assert_true(planned >= needed && planned <= needed + 1);
        }
    }
}

static void layers_of_strides_are_one_quotient(void** state) {
    (void)state;
    static const int64_t sides[] = {224, 230, 333, 512, 97, 640, 111, 1023};
    sample_table t = {0};
    for (size_t i = 0; i < 8; i++)
        observe(
            &t, sides[i], 0, convolved(convolved(convolved(sides[i], 7, 3, 2), 3, 1, 2), 3, 1, 2));
    const berth_form_set set = fit(&t, 1);
    assert_true(set.count > 0);
    for (int64_t s = 200; s < 210; s++)
        assert_int_equal(largest_at(&set, s, 0),
                         convolved(convolved(convolved(s, 7, 3, 2), 3, 1, 2), 3, 1, 2));
}

static void patches_of_an_image_are_found(void** state) {
    (void)state;
    static const int64_t h[] = {224, 448, 336, 225, 100}, w[] = {224, 320, 640, 400, 99};
    sample_table t = {0};
    for (size_t i = 0; i < 5; i++)
        observe(&t, h[i], w[i], (h[i] / 16) * (w[i] / 16) + 1);
    const berth_form_set set = fit(&t, 2);
    assert_true(set.count > 0);
    assert_int_equal(largest_at(&set, 512, 500), 32 * 31 + 1);
}

static void a_ring_is_found_and_bounded_over_the_box(void** state) {
    (void)state;
    sample_table t = {0};
    observe(&t, 10, 0, 10);
    observe(&t, 95, 0, 95);
    observe(&t, 97, 0, 1);
    observe(&t, 250, 0, 58);
    const berth_form_set set = fit(&t, 1);
    assert_int_equal(set.count, 1);
    assert_false(berth_form_is_monotone(&set.items[0]));
    assert_int_equal(largest_at(&set, 193, 0), 1);
    const int64_t below[2] = {193, 0}, within[2] = {200, 0}, beyond[2] = {300, 0};
    assert_int_equal(berth_form_bound(&set.items[0], below, within), 8);
    assert_int_equal(berth_form_bound(&set.items[0], below, beyond), 95);
}

static void scratch_bytes_of_attention_are_found(void** state) {
    (void)state;
    static const int64_t s[] = {5, 17, 40, 300, 1, 70}, t[] = {16, 3, 9, 200, 1, 500};
    sample_table curve = {0}, square = {0}, area = {0};
    for (size_t i = 0; i < 6; i++) {
        observe(&curve, s[i], t[i], s[i] * (64 + 36 * t[i] + 8 * s[i]) + 4096);
        observe(&square, s[i], t[i], 4 * s[i] * s[i] + 256 * s[i] + 128);
        observe(&area, s[i], t[i], 16 * s[i] * (s[i] + t[i]));
    }
    berth_form_set set = fit(&curve, 2);
    assert_int_equal(largest_at(&set, 100, 50), 100 * (64 + 1800 + 800) + 4096);
    set = fit(&square, 2);
    assert_int_equal(largest_at(&set, 100, 50), 40000 + 25600 + 128);
    set = fit(&area, 2);
    assert_int_equal(largest_at(&set, 100, 50), 16 * 100 * 150);
}

static void planes_and_padded_products_are_found(void** state) {
    (void)state;
    static const int64_t s[] = {5, 17, 40, 300}, t[] = {16, 3, 9, 200};
    sample_table plane = {0}, packed = {0};
    for (size_t i = 0; i < 4; i++) {
        observe(&plane, s[i], t[i], 576 * s[i] + 100 * t[i] - 37);
        observe(&packed, s[i], t[i], (s[i] * t[i] + 63) / 64 * 64);
    }
    berth_form_set set = fit(&plane, 2);
    assert_true(set.confirmed);
    assert_int_equal(largest_at(&set, 100, 50), 57600 + 5000 - 37);
    set = fit(&packed, 2);
    assert_int_equal(largest_at(&set, 11, 13), 192);
}

static void random_sizes_fit_no_form(void** state) {
    (void)state;
    test_random random = test_random_make(5);
    uint32_t fitted = 0;
    for (int round = 0; round < 50; round++) {
        sample_table t = {0};
        for (size_t i = 0; i < MOST; i++)
            observe(&t,
                    test_random_between(&random, 1, 5000),
                    test_random_between(&random, 1, 5000),
                    test_random_between(&random, 1, 5000));
        fitted += fit(&t, 2).count > 0;
    }
    assert_int_equal(fitted, 0);
}

static void the_work_of_a_fit_is_bounded(void** state) {
    (void)state;
    enum { SYMBOLS = 64 };
    test_random random = test_random_make(6);
    int64_t rows[MOST][SYMBOLS];
    const int64_t* points[MOST];
    int64_t values[MOST];
    uint16_t symbols[SYMBOLS];
    for (uint16_t i = 0; i < SYMBOLS; i++)
        symbols[i] = i;
    for (size_t row = 0; row < MOST; row++) {
        points[row] = rows[row];
        values[row] = test_random_between(&random, 1, 100000);
        for (size_t i = 0; i < SYMBOLS; i++)
            rows[row][i] = test_random_between(&random, 1, 100000);
    }
    berth_form_samples samples = {.values = values,
                                  .bindings = points,
                                  .count = MOST,
                                  .symbols = symbols,
                                  .symbol_count = SYMBOLS};
    berth_form_set set;
    uint64_t work = 10000;
    berth_form_set_fit(&set, &samples, &work);
    assert_int_equal(set.count, 0);
    assert_int_equal(work, 0);
    berth_form_set_fit(&set, &samples, &work);
    assert_int_equal(set.count, 0);
    samples.symbol_count = 4;
    work = 1000000;
    berth_form_set_fit(&set, &samples, &work);
    assert_int_equal(set.count, 0);
    assert_true(work > 0);
}

static void observations_of_any_size_are_no_danger(void** state) {
    (void)state;
    static const int64_t extremes[] = {0,
                                       1,
                                       2,
                                       3,
                                       64,
                                       INT32_MAX,
                                       (int64_t)UINT32_MAX + 1,
                                       INT64_MAX / 2,
                                       INT64_MAX - 1,
                                       INT64_MAX};
    test_random random = test_random_make(7);
    for (int round = 0; round < 1000; round++) {
        sample_table t = {0};
        const size_t count = (size_t)test_random_between(&random, 1, MOST);
        for (size_t i = 0; i < count; i++)
            observe(&t,
                    extremes[test_random_below(&random, 10)],
                    extremes[test_random_below(&random, 10)],
                    extremes[test_random_below(&random, 10)]);
        (void)fit(&t, 2); // what is found agrees with the samples; nothing overflows
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dimension_that_never_changes_is_a_constant),
        cmocka_unit_test(a_symbol_is_recognised_from_two_lengths),
        cmocka_unit_test(a_symbol_plus_one_is_not_taken_for_the_symbol),
        cmocka_unit_test(a_multiple_is_found_and_a_line_needs_a_third_length_to_be_sure),
        cmocka_unit_test(symbols_that_were_always_equal_are_both_kept_and_the_largest_is_planned),
        cmocka_unit_test(an_affine_form_of_two_symbols_is_not_entertained_while_one_symbol_does),
        cmocka_unit_test(sums_and_differences_of_two_symbols_are_found),
        cmocka_unit_test(products_and_squares_are_found),
        cmocka_unit_test(ceiling_quotients_are_found_and_confirmed_late),
        cmocka_unit_test(lengths_that_were_all_multiples_may_hide_padding),
        cmocka_unit_test(a_window_is_found_on_a_symbol_on_a_sum_and_on_blocks),
        cmocka_unit_test(a_minimum_is_found),
        cmocka_unit_test(blocks_of_two_lengths_are_found),
        cmocka_unit_test(strides_and_pooling_are_found),
        cmocka_unit_test(layers_of_strides_are_one_quotient),
        cmocka_unit_test(patches_of_an_image_are_found),
        cmocka_unit_test(a_ring_is_found_and_bounded_over_the_box),
        cmocka_unit_test(scratch_bytes_of_attention_are_found),
        cmocka_unit_test(planes_and_padded_products_are_found),
        cmocka_unit_test(random_sizes_fit_no_form),
        cmocka_unit_test(the_work_of_a_fit_is_bounded),
        cmocka_unit_test(observations_of_any_size_are_no_danger),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
