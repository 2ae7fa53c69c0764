// SPDX-License-Identifier: Apache-2.0
// FILL ARANGE RAND RANDN RANDINT against element by element definitions.
#include "device/kernel_kit.h"

static const berth_dtype plain[] = {
    BERTH_F32, BERTH_F16, BERTH_BF16, BERTH_I32, BERTH_I64, BERTH_I8, BERTH_U8, BERTH_BOOL};
enum { PLAIN = sizeof plain / sizeof plain[0], FLOATS = 3, BOOL = PLAIN - 1 };

/// `value` as an element of the type holds it, but for the rounding of floats.
static double converted(berth_dtype dtype, double value) {
    if (dtype == BERTH_BOOL) return value != 0.0;
    if (dtype == BERTH_F16 && fabs(value) > 65520) return copysign((double)INFINITY, value);
    if (!berth_dtype_is_integer(dtype)) return value;
    if (isnan(value)) return 0;
    const double low = (double)berth_dtype_lowest(dtype), high = (double)berth_dtype_highest(dtype);
    return trunc(fmin(fmax(value, low), high));
}

static void fill_writes_the_converted_value_everywhere(void** state) {
    (void)state;
    const double values[] = {0.0, 1.0, -2.75, 300.0, 1e10, -1e10, 1e19, (double)NAN};
    for (int t = 0; t < PLAIN; ++t) {
        for (int v = 0; v < 8; ++v) {
            const int64_t dims[2] = {v == 0 ? 300 : 3, 257};
            kit_tensor out = kit_contiguous(plain[t], 2, dims);
            const berth_fill_params params = {.value = values[v], .dtype = plain[t]};
            berth_op_call call = {.params = &params};
            kit_run_everywhere(BERTH_OP_FILL, &call, &out, true, false, NULL);
            const double expected = converted(plain[t], values[v]);
            for (int64_t i = 0; i < kit_count(&out.view); ++i)
                kit_expect(&out.view, i, expected, t < FLOATS ? fabs(expected) * 0x1p-9 : 0);
            kit_free(&out);
        }
    }
}

static void arange_counts_from_start_by_step(void** state) {
    (void)state;
    const struct {
        double start;
        double step;
        int64_t count;
    } ranges[] = {
        {-5, 3, 70001},
        {100, -1, 300},
        {0.75, 0.3, 5000},
        {-0x1p53, 0x1p40, 3000},
        {0x1p52, -0x1p44, 1100},
        {1e18, 1e16, 1000},
        {7, 1, 0},
        {-3, 0.5, 1},
    };
    for (int t = 0; t < BOOL; ++t) {
        for (size_t r = 0; r < sizeof ranges / sizeof ranges[0]; ++r) {
            const berth_arange_params params = {
                .start = ranges[r].start, .step = ranges[r].step, .count = ranges[r].count};
            kit_tensor out = kit_contiguous(plain[t], 1, &ranges[r].count);
            berth_op_call call = {.params = &params};
            kit_run_everywhere(BERTH_OP_ARANGE, &call, &out, true, false, NULL);
            for (int64_t i = 0; i < ranges[r].count; ++i) {
                const double value = ranges[r].start + (double)i * ranges[r].step;
                const double expected = converted(plain[t], value);
                const double tolerance = t < FLOATS ? kit_tolerance(plain[t], expected, 0) : 0;
                kit_expect(&out.view, i, expected, tolerance);
            }
            kit_free(&out);
        }
    }
}

static void random_numbers_have_the_asked_distribution(void** state) {
    (void)state;
    const int64_t count = 100000;
    for (int t = 0; t < FLOATS; ++t) {
        for (int normal = 0; normal < 2; ++normal) {
            const berth_random_params params = {.seed = 42, .low = 1.0f, .high = 3.0f};
            kit_tensor out = kit_contiguous(plain[t], 1, &count);
            berth_op_call call = {.params = &params};
            const berth_op_id op = normal == 1 ? BERTH_OP_RANDN : BERTH_OP_RAND;
            kit_run_everywhere(op, &call, &out, true, false, NULL);
            double sum = 0;
            double squares = 0;
            for (int64_t i = 0; i < count; ++i) {
                const double x = kit_get(&out.view, i);
                if (normal == 0) assert_true(x >= 1.0 && x < 3.0);
                sum += x;
                squares += x * x;
            }
            const double mean = sum / (double)count;
            const double deviation = sqrt(squares / (double)count - mean * mean);
            assert_true(fabs(mean - (normal == 1 ? 1.0 : 2.0)) < 0.03);
            assert_true(fabs(deviation - (normal == 1 ? 3.0 : 2.0 / sqrt(12.0))) < 0.03);
            kit_free(&out);
        }
    }
}

/// The first of 5000 elements are those of 7, and another seed's are others.
static void check_places(berth_op_id op, berth_op_call* call, berth_dtype dtype, uint64_t* seed) {
    const int64_t counts[2] = {5000, 7};
    kit_tensor whole = kit_contiguous(dtype, 1, &counts[0]);
    kit_tensor part = kit_contiguous(dtype, 1, &counts[1]);
    kit_run_everywhere(op, call, &whole, true, false, NULL);
    kit_run_everywhere(op, call, &part, true, false, NULL);
    assert_memory_equal(whole.view.data, part.view.data, part.bytes);
    ++*seed;
    kit_run_everywhere(op, call, &part, true, false, NULL);
    for (int64_t i = 0; i < 7; ++i) {
        for (int64_t j = 0; j < 5000; ++j) { // nor is it the same sequence, shifted
            assert_true(kit_get(&part.view, i) != kit_get(&whole.view, j));
        }
    }
    kit_free(&whole);
    kit_free(&part);
}

static void a_random_element_depends_on_seed_and_place_alone(void** state) {
    (void)state;
    berth_random_params params = {.seed = 9, .low = -1.0f, .high = 1.0f};
    berth_op_call call = {.params = &params};
    check_places(BERTH_OP_RAND, &call, BERTH_F32, &params.seed);
    berth_randint_params integers = {.seed = 9, .low = INT64_MIN, .high = INT64_MAX};
    call.params = &integers;
    check_places(BERTH_OP_RANDINT, &call, BERTH_I64, &integers.seed);
}

static void random_integers_are_equally_frequent(void** state) {
    (void)state;
    enum { COUNT = 70001, MOST = 256 };
    const struct {
        berth_dtype dtype;
        int64_t low;
        int64_t high;
    } ranges[] = {
        {BERTH_I8, -128, 128},
        {BERTH_U8, 0, 256},
        {BERTH_U8, 3, 10},
        {BERTH_I32, -5, 6},
        {BERTH_I64, 1000000000000, 1000000000003},
        {BERTH_I32, INT32_MAX, (int64_t)INT32_MAX + 1},
    };
    for (size_t r = 0; r < sizeof ranges / sizeof ranges[0]; ++r) {
        const int64_t count = COUNT, span = ranges[r].high - ranges[r].low;
        const berth_randint_params params = {
            .seed = r, .low = ranges[r].low, .high = ranges[r].high};
        kit_tensor out = kit_contiguous(ranges[r].dtype, 1, &count);
        berth_op_call call = {.params = &params};
        kit_run_everywhere(BERTH_OP_RANDINT, &call, &out, true, false, NULL);
        int64_t seen[MOST] = {0};
        for (int64_t i = 0; i < count; ++i) {
            const int64_t value = (int64_t)kit_get(&out.view, i);
            assert_true(value >= ranges[r].low && value < ranges[r].high);
            ++seen[value - ranges[r].low];
        }
        // the sum of squared deviations is near span - 1 and rarely beyond 5 of its deviations
        const double expected = (double)count / (double)span;
        double sum = 0;
        for (int64_t v = 0; v < span; ++v)
            sum += ((double)seen[v] - expected) * ((double)seen[v] - expected) / expected;
        assert_true(sum <= (double)span - 1 + 5 * sqrt(2 * (double)span));
        kit_free(&out);
    }
}

/// Of 2^64 inputs for 3 * 2^62 results, every third result would get two, were none drawn anew.
static void random_integers_of_a_wide_range_are_not_biased(void** state) {
    (void)state;
    const int64_t count = 40000;
    const berth_randint_params params = {.seed = 1, .low = INT64_MIN, .high = INT64_MAX / 2};
    kit_tensor out = kit_contiguous(BERTH_I64, 1, &count);
    berth_op_call call = {.params = &params};
    kit_run_everywhere(BERTH_OP_RANDINT, &call, &out, true, false, NULL);
    int64_t thirds[3] = {0};
    int64_t favoured = 0;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t value = ((const int64_t*)out.view.data)[i];
        const uint64_t above = (uint64_t)value - (uint64_t)INT64_MIN;
        assert_true(value < INT64_MAX / 2);
        ++thirds[above / (UINT64_C(1) << 62)];
        favoured += above % 3 == 0;
    }
    for (int i = 0; i < 3; ++i)
        assert_true(llabs(thirds[i] - count / 3) < 600);
    assert_true(llabs(favoured - count / 3) < 600);
    kit_free(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fill_writes_the_converted_value_everywhere),
        cmocka_unit_test(arange_counts_from_start_by_step),
        cmocka_unit_test(random_numbers_have_the_asked_distribution),
        cmocka_unit_test(a_random_element_depends_on_seed_and_place_alone),
        cmocka_unit_test(random_integers_are_equally_frequent),
        cmocka_unit_test(random_integers_of_a_wide_range_are_not_biased),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
