// SPDX-License-Identifier: Apache-2.0
// WHERE and CLAMP against plain choices, over types, strides and broadcasting; exact.
#include "device/binary_kit.h"

// --- WHERE ---------------------------------------------------------------------------------------

static void check_where(berth_dtype condition_type, berth_dtype type_a, berth_dtype type_b) {
    int64_t dims[BERTH_MAX_RANK];
    const int32_t rank = kit_dims(4, 7, dims);
    kit_tensor condition = pair_operand(condition_type, rank, dims);
    kit_tensor a = pair_operand(type_a, rank, dims);
    kit_tensor b = pair_operand(type_b, rank, dims);
    pair_shape(&a.view, &b.view, rank, dims);
    const berth_dtype meeting = berth_promote_dtypes(type_a, type_b);
    berth_view sides = {.rank = rank};
    memcpy(sides.dims, dims, sizeof dims);
    pair_shape(&condition.view, &sides, rank, dims);
    kit_tensor out = kit_contiguous(meeting, rank, dims);
    pair_fill(&condition, BERTH_OP_WHERE);
    pair_fill(&a, BERTH_OP_WHERE);
    pair_fill(&b, BERTH_OP_WHERE);
    berth_op_call call = {.input_count = 3, .inputs = {condition.view, a.view, b.view}};
    kit_run_everywhere(BERTH_OP_WHERE, &call, &out, true, false, NULL);
    for (int64_t i = 0; i < kit_count(&out.view); ++i) {
        const bool yes =
            pair_convert(pair_at(&condition.view, &out.view, i), BERTH_BOOL).whole != 0;
        const pair_value x = pair_at(yes ? &a.view : &b.view, &out.view, i);
        kit_expect(&out.view, i, pair_convert(x, meeting).real, 0);
    }
    kit_free(&condition);
    kit_free(&a);
    kit_free(&b);
    kit_free(&out);
}

static void where_takes_one_side_or_the_other(void** state) {
    (void)state;
    kit_seed(1);
    for (int t = 0; t < PAIR_TYPE_COUNT; ++t)
        for (int u = 0; u < PAIR_TYPE_COUNT; ++u) {
            check_where(BERTH_BOOL, pair_types[t], pair_types[u]);
            check_where(pair_types[kit_int(0, PAIR_TYPE_COUNT - 1)], pair_types[t], pair_types[u]);
        }
}

static void where_keeps_every_bit_of_what_it_takes(void** state) {
    (void)state;
    const uint32_t a[3] = {0x7fa00001, 0x80000000, 0x00000001}; // a signalling NaN, -0, a subnormal
    const uint32_t b[3] = {1, 2, 0xffc12345};
    const uint8_t condition[3] = {1, 255, 0};
    const int64_t dims[1] = {3};
    kit_tensor out = kit_contiguous(BERTH_F32, 1, dims);
    kit_tensor sides[2] = {kit_contiguous(BERTH_F32, 1, dims), kit_contiguous(BERTH_F32, 1, dims)};
    kit_tensor chosen = kit_contiguous(BERTH_BOOL, 1, dims);
    memcpy(sides[0].view.data, a, sizeof a);
    memcpy(sides[1].view.data, b, sizeof b);
    memcpy(chosen.view.data, condition, sizeof condition);
    berth_op_call call = {.input_count = 3, .inputs = {chosen.view, sides[0].view, sides[1].view}};
    kit_run_everywhere(BERTH_OP_WHERE, &call, &out, true, false, NULL);
    const uint32_t expected[3] = {a[0], a[1], b[2]};
    assert_memory_equal(out.view.data, expected, sizeof expected);
    kit_free(&out);
    kit_free(&sides[0]);
    kit_free(&sides[1]);
    kit_free(&chosen);
}

/// The result in the place of operand `index`.
static void check_where_in_place(berth_dtype type_a, berth_dtype type_b, uint32_t index) {
    const int64_t dims[1] = {70001};
    const berth_dtype meeting = berth_promote_dtypes(type_a, type_b);
    kit_tensor condition = kit_contiguous(BERTH_BOOL, 1, dims);
    kit_tensor a = kit_contiguous(type_a, 1, dims);
    kit_tensor b = kit_contiguous(type_b, 1, dims);
    kit_tensor apart = kit_contiguous(meeting, 1, dims);
    kit_fill(&condition, 0, 2);
    kit_fill(&a, 0, 9);
    kit_fill(&b, 0, 9);
    berth_op_call call = {.input_count = 3, .inputs = {condition.view, a.view, b.view}};
    kit_run_everywhere(BERTH_OP_WHERE, &call, &apart, true, false, NULL);
    kit_tensor* taken = index == 1 ? &a : &b;
    taken->view.dtype = meeting;
    kit_run_everywhere(BERTH_OP_WHERE, &call, taken, true, true, NULL);
    assert_memory_equal(taken->memory + KIT_GUARD, apart.memory + KIT_GUARD, apart.bytes);
    kit_free(&condition);
    kit_free(&a);
    kit_free(&b);
    kit_free(&apart);
}

static void where_may_take_the_place_of_a_side(void** state) {
    (void)state;
    kit_seed(2);
    for (int t = 0; t < PAIR_TYPE_COUNT; ++t) {
        check_where_in_place(pair_types[t], pair_types[t], 1);
        check_where_in_place(pair_types[t], pair_types[t], 2);
    }
    check_where_in_place(BERTH_I32, BERTH_F32, 1);
    check_where_in_place(BERTH_F32, BERTH_I32, 2);
    check_where_in_place(BERTH_BOOL, BERTH_I8, 1);
    check_where_in_place(BERTH_I64, BERTH_F16, 2);
}

// --- CLAMP ---------------------------------------------------------------------------------------

/// What a double bound is in an integer type.
static int64_t whole_bound(berth_dtype dtype, double bound, bool is_low) {
    const int64_t least = dtype == BERTH_I64   ? INT64_MIN
                          : dtype == BERTH_I32 ? INT32_MIN
                          : dtype == BERTH_I8  ? INT8_MIN
                                               : 0;
    const int64_t most = dtype == BERTH_I64   ? INT64_MAX
                         : dtype == BERTH_I32 ? INT32_MAX
                         : dtype == BERTH_I8  ? INT8_MAX
                                              : UINT8_MAX;
    if (bound <= (double)least) return least;
    if (bound >= (double)most) return most;
    return (int64_t)(is_low ? ceil(bound) : floor(bound));
}

static void check_clamp(berth_dtype dtype, double low, double high) {
    int64_t dims[BERTH_MAX_RANK];
    const int32_t rank = kit_dims(4, 9, dims);
    kit_tensor x = kit_strided(dtype, rank, dims, false, true);
    kit_tensor out = kit_contiguous(dtype, rank, dims);
    pair_fill(&x, BERTH_OP_CLAMP);
    const berth_clamp_params params = {.low = low, .high = high};
    berth_op_call call = {.input_count = 1, .inputs = {x.view}, .params = &params};
    kit_run_everywhere(BERTH_OP_CLAMP, &call, &out, true, false, NULL);
    const bool is_float = berth_dtype_is_float(dtype);
    for (int64_t i = 0; i < kit_count(&out.view); ++i) {
        const pair_value value = pair_load(dtype, kit_at(&x.view, i));
        if (is_float) {
            const double raised = value.real < low ? low : value.real;
            kit_expect(&out.view, i, pair_round(dtype, raised > high ? high : raised), 0);
        } else {
            const int64_t least = whole_bound(dtype, low, true);
            const int64_t most = whole_bound(dtype, high, false);
            const int64_t raised = value.whole < least ? least : value.whole;
            assert_int_equal(pair_load(dtype, kit_at(&out.view, i)).whole,
                             raised > most ? most : raised);
        }
    }
    kit_free(&x);
    kit_free(&out);
}

static void clamp_keeps_elements_within_bounds(void** state) {
    (void)state;
    static const double bounds[][2] = {{-2, 3},
                                       {-2.5, 2.5},
                                       {0.25, 0.75},
                                       {3, -3},
                                       {-(double)INFINITY, 1},
                                       {-1, (double)INFINITY},
                                       {(double)INFINITY, -(double)INFINITY},
                                       {-1e300, 1e300},
                                       {1e300, 1e301},
                                       {-9.3e18, 9.3e18},
                                       {-300, -200}};
    kit_seed(3);
    for (int t = 0; t < PAIR_TYPE_COUNT - 1; ++t) // not bool
        for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; ++i)
            check_clamp(pair_types[t], bounds[i][0], bounds[i][1]);
}

static void a_nan_bound_makes_every_float_nan(void** state) {
    (void)state;
    const int64_t dims[1] = {19};
    for (int t = 0; t < 3; ++t) {
        for (int side = 0; side < 2; ++side) {
            kit_tensor x = kit_contiguous(pair_types[t], 1, dims);
            kit_fill(&x, -9, 9);
            kit_tensor out = kit_contiguous(pair_types[t], 1, dims);
            const berth_clamp_params params = {.low = side == 0 ? (double)NAN : 0,
                                               .high = side == 0 ? 1 : (double)NAN};
            berth_op_call call = {.input_count = 1, .inputs = {x.view}, .params = &params};
            kit_run_everywhere(BERTH_OP_CLAMP, &call, &out, false, false, NULL);
            for (int64_t i = 0; i < 19; ++i)
                kit_expect(&out.view, i, (double)NAN, 0);
            kit_free(&x);
            kit_free(&out);
        }
    }
}

static void the_extremes_of_integers_are_no_bounds_too_far(void** state) {
    (void)state;
    const int64_t dims[1] = {2};
    const int64_t values[2] = {INT64_MIN, INT64_MAX};
    kit_tensor x = kit_contiguous(BERTH_I64, 1, dims);
    kit_tensor out = kit_contiguous(BERTH_I64, 1, dims);
    memcpy(x.view.data, values, sizeof values);
    const berth_clamp_params params = {.low = -0x1p63, .high = 0x1p63};
    berth_op_call call = {.input_count = 1, .inputs = {x.view}, .params = &params};
    kit_run_everywhere(BERTH_OP_CLAMP, &call, &out, true, false, NULL);
    assert_memory_equal(out.view.data, values, sizeof values);
    kit_free(&x);
    kit_free(&out);
}

static void a_clamped_tensor_may_be_overwritten(void** state) {
    (void)state;
    kit_seed(4);
    const int64_t dims[1] = {70001};
    const berth_clamp_params params = {.low = 1, .high = 4};
    for (int t = 0; t < PAIR_TYPE_COUNT - 1; ++t) {
        kit_tensor x = kit_contiguous(pair_types[t], 1, dims);
        kit_tensor apart = kit_contiguous(pair_types[t], 1, dims);
        kit_fill(&x, 0, 9);
        berth_op_call call = {.input_count = 1, .inputs = {x.view}, .params = &params};
        kit_run_everywhere(BERTH_OP_CLAMP, &call, &apart, true, false, NULL);
        kit_run_everywhere(BERTH_OP_CLAMP, &call, &x, true, true, NULL);
        assert_memory_equal(x.memory + KIT_GUARD, apart.memory + KIT_GUARD, apart.bytes);
        kit_free(&x);
        kit_free(&apart);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_takes_one_side_or_the_other),
        cmocka_unit_test(where_keeps_every_bit_of_what_it_takes),
        cmocka_unit_test(where_may_take_the_place_of_a_side),
        cmocka_unit_test(clamp_keeps_elements_within_bounds),
        cmocka_unit_test(a_nan_bound_makes_every_float_nan),
        cmocka_unit_test(the_extremes_of_integers_are_no_bounds_too_far),
        cmocka_unit_test(a_clamped_tensor_may_be_overwritten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
