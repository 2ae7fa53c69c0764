// SPDX-License-Identifier: Apache-2.0
// ADD .. OUTER against plain arithmetic on double and int64_t, over pairs of types, strides and
// broadcasting. Integers, comparisons and the four operations on floats are exact.
#include "device/binary_kit.h"

static const berth_op_id arithmetic[] = {BERTH_OP_ADD,
                                         BERTH_OP_SUB,
                                         BERTH_OP_MUL,
                                         BERTH_OP_DIV,
                                         BERTH_OP_MINIMUM,
                                         BERTH_OP_MAXIMUM,
                                         BERTH_OP_REMAINDER,
                                         BERTH_OP_POW};
enum { ARITHMETIC_COUNT = sizeof arithmetic / sizeof arithmetic[0] };

static const berth_op_id predicates[] = {BERTH_OP_EQ,
                                         BERTH_OP_NE,
                                         BERTH_OP_LT,
                                         BERTH_OP_LE,
                                         BERTH_OP_GT,
                                         BERTH_OP_GE,
                                         BERTH_OP_LOGICAL_AND,
                                         BERTH_OP_LOGICAL_OR,
                                         BERTH_OP_LOGICAL_XOR};
enum { PREDICATE_COUNT = sizeof predicates / sizeof predicates[0] };

static void check_pair(berth_op_id op, berth_dtype type_a, berth_dtype type_b) {
    const berth_dtype meeting = pair_meeting(op, type_a, type_b);
    if (!pair_is_accepted(op, meeting)) return;
    int64_t dims[BERTH_MAX_RANK];
    const int32_t rank = kit_dims(4, 7, dims);
    kit_tensor a = pair_operand(type_a, rank, dims);
    kit_tensor b = pair_operand(type_b, rank, dims);
    pair_shape(&a.view, &b.view, rank, dims);
    kit_tensor out = kit_contiguous(pair_result(op, meeting), rank, dims);
    pair_fill(&a, op);
    pair_fill(&b, op);
    const berth_compare_params params = {.dtype = meeting};
    berth_op_call call = {.input_count = 2, .inputs = {a.view, b.view}, .params = &params};
    kit_run_everywhere(op, &call, &out, true, false, NULL);
    for (int64_t i = 0; i < kit_count(&out.view); ++i) {
        const pair_value x = pair_at(&a.view, &out.view, i);
        const pair_value y = pair_at(&b.view, &out.view, i);
        pair_expect(op, meeting, x, y, &out.view, i);
    }
    kit_free(&a);
    kit_free(&b);
    kit_free(&out);
}

static void arithmetic_meets_in_the_promoted_type(void** state) {
    (void)state;
    kit_seed(1);
    for (int o = 0; o < ARITHMETIC_COUNT; ++o)
        for (int t = 0; t < PAIR_TYPE_COUNT; ++t)
            for (int u = 0; u < PAIR_TYPE_COUNT; ++u)
                check_pair(arithmetic[o], pair_types[t], pair_types[u]);
}

static void predicates_of_any_two_types_are_bool(void** state) {
    (void)state;
    kit_seed(2);
    for (int o = 0; o < PREDICATE_COUNT; ++o)
        for (int t = 0; t < PAIR_TYPE_COUNT; ++t)
            for (int u = 0; u < PAIR_TYPE_COUNT; ++u)
                check_pair(predicates[o], pair_types[t], pair_types[u]);
}

/// Every byte with every other, as operands of one type.
static void check_all_bytes(berth_op_id op, berth_dtype dtype) {
    const berth_dtype meeting = pair_meeting(op, dtype, dtype);
    const int64_t dims[2] = {256, 256};
    const int64_t column[2] = {256, 1};
    const int64_t row[1] = {256};
    kit_tensor a = kit_contiguous(dtype, 2, column);
    kit_tensor b = kit_contiguous(dtype, 1, row);
    for (int i = 0; i < 256; ++i) {
        ((uint8_t*)a.view.data)[i] = (uint8_t)i;
        ((uint8_t*)b.view.data)[i] = (uint8_t)i;
    }
    kit_tensor out = kit_contiguous(pair_result(op, meeting), 2, dims);
    const berth_compare_params params = {.dtype = meeting};
    berth_op_call call = {.input_count = 2, .inputs = {a.view, b.view}, .params = &params};
    kit_run_everywhere(op, &call, &out, true, false, NULL);
    for (int64_t i = 0; i < 65536; ++i)
        pair_expect(op,
                    meeting,
                    pair_load(dtype, (uint8_t*)a.view.data + i / 256),
                    pair_load(dtype, (uint8_t*)b.view.data + i % 256),
                    &out.view,
                    i);
    kit_free(&a);
    kit_free(&b);
    kit_free(&out);
}

static void every_pair_of_bytes_is_exact(void** state) {
    (void)state;
    for (int t = 0; t < 2; ++t) {
        const berth_dtype dtype = t == 0 ? BERTH_I8 : BERTH_U8;
        for (int o = 0; o < ARITHMETIC_COUNT; ++o)
            if (arithmetic[o] != BERTH_OP_DIV) check_all_bytes(arithmetic[o], dtype);
        for (int o = 0; o < PREDICATE_COUNT; ++o)
            check_all_bytes(predicates[o], dtype);
    }
}

/// Extreme integers, and random ones of any size.
static int64_t wide_integer(berth_dtype dtype) {
    static const int64_t extremes[] = {
        0, 1, -1, 2, -2, 7, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
    const int64_t kind = kit_int(0, 2);
    if (kind == 0) return pair_wrap(dtype, extremes[kit_int(0, 9)]);
    const uint64_t size = kit_next() >> kit_int(0, 63);
    return pair_wrap(dtype, (int64_t)(kind == 1 ? size : 0 - size));
}

static void check_wide(berth_op_id op, berth_dtype dtype) {
    enum { COUNT = 3001 };
    const berth_dtype meeting = pair_meeting(op, dtype, dtype);
    const int64_t dims[1] = {COUNT};
    kit_tensor a = kit_contiguous(dtype, 1, dims);
    kit_tensor b = kit_contiguous(dtype, 1, dims);
    kit_tensor out = kit_contiguous(pair_result(op, meeting), 1, dims);
    for (int64_t i = 0; i < COUNT; ++i) {
        const int64_t x = wide_integer(dtype);
        const int64_t y = op == BERTH_OP_POW ? kit_int(-3, 70) : wide_integer(dtype);
        memcpy(kit_at(&a.view, i), &x, kit_bytes(dtype)); // the low bytes
        memcpy(kit_at(&b.view, i), &y, kit_bytes(dtype));
    }
    const berth_compare_params params = {.dtype = meeting};
    berth_op_call call = {.input_count = 2, .inputs = {a.view, b.view}, .params = &params};
    kit_run_everywhere(op, &call, &out, true, false, NULL);
    for (int64_t i = 0; i < COUNT; ++i)
        pair_expect(op,
                    meeting,
                    pair_load(dtype, kit_at(&a.view, i)),
                    pair_load(dtype, kit_at(&b.view, i)),
                    &out.view,
                    i);
    kit_free(&a);
    kit_free(&b);
    kit_free(&out);
}

static void large_integers_wrap_and_compare_exactly(void** state) {
    (void)state;
    kit_seed(3);
    for (int t = 0; t < 2; ++t) {
        const berth_dtype dtype = t == 0 ? BERTH_I32 : BERTH_I64;
        for (int o = 0; o < ARITHMETIC_COUNT; ++o)
            check_wide(arithmetic[o], dtype);
        for (int o = 0; o < PREDICATE_COUNT; ++o)
            check_wide(predicates[o], dtype);
    }
}

static const float edges[] = {
    0.0f,      -0.0f,     1.0f,         -1.0f,           2.0f,         -2.0f,
    0.5f,      -0.5f,     3.0f,         -3.0f,           2.5f,         -2.5f,
    INFINITY,  -INFINITY, NAN,          1e-40f,          -7.0f,        -1e-40f,
    0x1p-149f, 1e30f,     -1e30f,       0x1.fffffep127f, 8388607.0f,   8388608.5f,
    7.0f,      16777215,  -16777217.0f, 0.99999994f,     -0.99999994f, 1.0000001f,
    127.5f,    -149.0f,
};
enum { EDGE_COUNT = sizeof edges / sizeof edges[0] };

static void floats_are_right_at_the_edges(void** state) {
    (void)state;
    const int64_t dims[2] = {EDGE_COUNT, EDGE_COUNT};
    const int64_t column[2] = {EDGE_COUNT, 1};
    const int64_t row[1] = {EDGE_COUNT};
    kit_tensor a = kit_contiguous(BERTH_F32, 2, column);
    kit_tensor b = kit_contiguous(BERTH_F32, 1, row);
    memcpy(a.view.data, edges, sizeof edges);
    memcpy(b.view.data, edges, sizeof edges);
    for (int o = 0; o < ARITHMETIC_COUNT + PREDICATE_COUNT; ++o) {
        const berth_op_id op =
            o < ARITHMETIC_COUNT ? arithmetic[o] : predicates[o - ARITHMETIC_COUNT];
        const berth_dtype meeting = pair_meeting(op, BERTH_F32, BERTH_F32);
        kit_tensor out = kit_contiguous(pair_result(op, meeting), 2, dims);
        const berth_compare_params params = {.dtype = meeting};
        berth_op_call call = {.input_count = 2, .inputs = {a.view, b.view}, .params = &params};
        // a NaN has many forms
        kit_run_everywhere(op, &call, &out, false, false, NULL);
        for (int64_t i = 0; i < kit_count(&out.view); ++i) {
            const float x = edges[i / EDGE_COUNT];
            const float y = edges[i % EDGE_COUNT];
            pair_expect(
                op, meeting, pair_load(BERTH_F32, &x), pair_load(BERTH_F32, &y), &out.view, i);
            if (op == BERTH_OP_MINIMUM || op == BERTH_OP_MAXIMUM) continue; // of 0 and -0, either
            const float found = (float)kit_get(&out.view, i);
            const float expected = (float)pair_float(op, (double)x, (double)y);
            if (o < ARITHMETIC_COUNT && expected == 0.0f)
                assert_int_equal(signbit(found) != 0, signbit(expected) != 0);
        }
        kit_free(&out);
    }
    kit_free(&a);
    kit_free(&b);
}

/// Of any size and sign.
static float any_float(int32_t exponents) {
    const double size = ldexp(kit_real(1, 2), (int)kit_int(-exponents, exponents));
    return (float)(kit_int(0, 1) == 0 ? size : -size);
}

static void powers_are_within_six_tenths_of_the_last_place(void** state) {
    (void)state;
    enum { COUNT = 40003 };
    const int64_t dims[1] = {COUNT};
    kit_seed(4);
    kit_tensor a = kit_contiguous(BERTH_F32, 1, dims);
    kit_tensor b = kit_contiguous(BERTH_F32, 1, dims);
    kit_tensor out = kit_contiguous(BERTH_F32, 1, dims);
    for (int64_t i = 0; i < COUNT; ++i) {
        // bases near 1 with large powers, and bases of any size with those that stay in range
        const bool is_near = kit_int(0, 2) == 0;
        const double base = is_near ? kit_real(0.9, 1.1) : fabs((double)any_float(126));
        const double range = is_near ? 500 : 149 / fmax(fabs(log2(base)), 0x1p-20);
        ((float*)a.view.data)[i] = (float)base;
        ((float*)b.view.data)[i] = (float)kit_real(-range, range);
    }
    berth_op_call call = {.input_count = 2, .inputs = {a.view, b.view}};
    kit_run_everywhere(BERTH_OP_POW, &call, &out, true, false, NULL);
    for (int64_t i = 0; i < COUNT; ++i) {
        const double expected = pow(kit_get(&a.view, i), kit_get(&b.view, i));
        if (expected > 0x1.fffffep127) {
            kit_expect(&out.view, i, (double)INFINITY, 0);
            continue;
        }
        const int exponent = ilogb(expected) < -126 ? -126 : ilogb(expected);
        kit_expect(&out.view, i, expected, ldexp(0.6, exponent - 23));
    }
    kit_free(&a);
    kit_free(&b);
    kit_free(&out);
}

static void remainders_are_exact_however_large_the_quotient(void** state) {
    (void)state;
    enum { COUNT = 20011 };
    const int64_t dims[1] = {COUNT};
    kit_seed(5);
    kit_tensor a = kit_contiguous(BERTH_F32, 1, dims);
    kit_tensor b = kit_contiguous(BERTH_F32, 1, dims);
    kit_tensor out = kit_contiguous(BERTH_F32, 1, dims);
    for (int64_t i = 0; i < COUNT; ++i) {
        const int32_t exponents = i % 3 == 0 ? 126 : i % 3 == 1 ? 20 : 3;
        ((float*)a.view.data)[i] = any_float(exponents);
        ((float*)b.view.data)[i] = i % 7 == 0 ? (float)kit_int(1, 9) : any_float(exponents);
    }
    berth_op_call call = {.input_count = 2, .inputs = {a.view, b.view}};
    kit_run_everywhere(BERTH_OP_REMAINDER, &call, &out, true, false, NULL);
    for (int64_t i = 0; i < COUNT; ++i)
        pair_expect(BERTH_OP_REMAINDER,
                    BERTH_F32,
                    pair_load(BERTH_F32, kit_at(&a.view, i)),
                    pair_load(BERTH_F32, kit_at(&b.view, i)),
                    &out.view,
                    i);
    kit_free(&a);
    kit_free(&b);
    kit_free(&out);
}

static void large_operands_are_shared_among_workers(void** state) {
    (void)state;
    kit_seed(6);
    const int64_t dims[2] = {401, 997};
    const int64_t row[1] = {997};
    const berth_dtype types[] = {BERTH_F32, BERTH_F16, BERTH_I8};
    for (int t = 0; t < 3; ++t) {
        kit_tensor a = kit_contiguous(types[t], 2, dims);
        kit_tensor b = kit_contiguous(types[t], 1, row);
        kit_tensor out = kit_contiguous(types[t], 2, dims);
        pair_fill(&a, BERTH_OP_MUL);
        pair_fill(&b, BERTH_OP_MUL);
        berth_op_call call = {.input_count = 2, .inputs = {a.view, b.view}};
        kit_run_everywhere(BERTH_OP_MUL, &call, &out, true, false, NULL);
        for (int64_t i = 0; i < kit_count(&out.view); i += 31)
            pair_expect(BERTH_OP_MUL,
                        types[t],
                        pair_load(types[t], kit_at(&a.view, i)),
                        pair_load(types[t], kit_at(&b.view, i % 997)),
                        &out.view,
                        i);
        kit_free(&a);
        kit_free(&b);
        kit_free(&out);
    }
}

/// The result in the place of operand `index`, which has elements of the same size.
static void check_in_place(berth_op_id op, berth_dtype type_a, berth_dtype type_b, uint32_t index) {
    const int64_t dims[1] = {70001};
    const berth_dtype meeting = pair_meeting(op, type_a, type_b);
    kit_tensor a = kit_contiguous(type_a, 1, dims);
    kit_tensor b = kit_contiguous(type_b, 1, dims);
    kit_tensor apart = kit_contiguous(pair_result(op, meeting), 1, dims);
    pair_fill(&a, op);
    pair_fill(&b, op);
    const berth_compare_params params = {.dtype = meeting};
    berth_op_call call = {.input_count = 2, .inputs = {a.view, b.view}, .params = &params};
    kit_run_everywhere(op, &call, &apart, true, false, NULL);
    kit_tensor* taken = index == 0 ? &a : &b;
    assert_int_equal(taken->bytes, apart.bytes);
    taken->view.dtype = apart.view.dtype;
    kit_run_everywhere(op, &call, taken, true, true, NULL);
    assert_memory_equal(taken->memory + KIT_GUARD, apart.memory + KIT_GUARD, apart.bytes);
    kit_free(&a);
    kit_free(&b);
    kit_free(&apart);
}

static void results_may_take_the_place_of_an_operand(void** state) {
    (void)state;
    kit_seed(7);
    for (uint32_t index = 0; index < 2; ++index) {
        for (int t = 0; t < PAIR_TYPE_COUNT; ++t)
            if (pair_types[t] != BERTH_BOOL)
                check_in_place(BERTH_OP_SUB, pair_types[t], pair_types[t], index);
        check_in_place(BERTH_OP_POW, BERTH_I32, BERTH_I32, index);
        check_in_place(BERTH_OP_REMAINDER, BERTH_F32, BERTH_F32, index);
        check_in_place(BERTH_OP_LT, BERTH_U8, BERTH_U8, index);
        check_in_place(BERTH_OP_GE, BERTH_I8, BERTH_U8, index);
        check_in_place(BERTH_OP_LOGICAL_XOR, BERTH_I8, BERTH_BOOL, index);
        check_in_place(BERTH_OP_DIV, BERTH_I32, BERTH_I32, index);
    }
    check_in_place(BERTH_OP_ADD, BERTH_I32, BERTH_F32, 0);
    check_in_place(BERTH_OP_ADD, BERTH_F32, BERTH_I32, 1);
    check_in_place(BERTH_OP_GT, BERTH_BOOL, BERTH_F32, 0);
}

static void an_outer_product_is_every_pair(void** state) {
    (void)state;
    kit_seed(8);
    for (int t = 0; t < PAIR_TYPE_COUNT; ++t) {
        for (int64_t size = 0; size < 40; size += 13) {
            const int64_t rows[1] = {size};
            const int64_t columns[1] = {17};
            const int64_t dims[2] = {size, 17};
            kit_tensor a = kit_strided(pair_types[t], 1, rows, false, true);
            kit_tensor b = kit_strided(BERTH_I8, 1, columns, false, true);
            const berth_dtype meeting = berth_promote_dtypes(pair_types[t], BERTH_I8);
            kit_tensor out = kit_contiguous(meeting, 2, dims);
            pair_fill(&a, BERTH_OP_MUL);
            pair_fill(&b, BERTH_OP_MUL);
            berth_op_call call = {.input_count = 2, .inputs = {a.view, b.view}};
            kit_run_everywhere(BERTH_OP_OUTER, &call, &out, true, false, NULL);
            for (int64_t i = 0; i < size * 17; ++i)
                pair_expect(BERTH_OP_MUL,
                            meeting,
                            pair_load(pair_types[t], kit_at(&a.view, i / 17)),
                            pair_load(BERTH_I8, kit_at(&b.view, i % 17)),
                            &out.view,
                            i);
            kit_free(&a);
            kit_free(&b);
            kit_free(&out);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arithmetic_meets_in_the_promoted_type),
        cmocka_unit_test(predicates_of_any_two_types_are_bool),
        cmocka_unit_test(every_pair_of_bytes_is_exact),
        cmocka_unit_test(large_integers_wrap_and_compare_exactly),
        cmocka_unit_test(floats_are_right_at_the_edges),
        cmocka_unit_test(powers_are_within_six_tenths_of_the_last_place),
        cmocka_unit_test(remainders_are_exact_however_large_the_quotient),
        cmocka_unit_test(large_operands_are_shared_among_workers),
        cmocka_unit_test(results_may_take_the_place_of_an_operand),
        cmocka_unit_test(an_outer_product_is_every_pair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
