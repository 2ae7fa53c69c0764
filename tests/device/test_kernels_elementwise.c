// SPDX-License-Identifier: Apache-2.0
// ADD .. MAXIMUM against arithmetic in double, over types, strides and broadcasting.
#include "device/kernel_kit.h"

static const berth_dtype floats[] = {BERTH_F32, BERTH_F16, BERTH_BF16};

static double binary_reference(berth_op_id op, double a, double b) {
    switch ((int)op) {
    case BERTH_OP_ADD:
        return a + b;
    case BERTH_OP_SUB:
        return a - b;
    case BERTH_OP_MUL:
        return a * b;
    case BERTH_OP_DIV:
        return a / b;
    case BERTH_OP_MINIMUM:
        return isnan(a) || isnan(b) ? (double)NAN : fmin(a, b);
    default:
        return isnan(a) || isnan(b) ? (double)NAN : fmax(a, b);
    }
}

/// Operand dimensions that broadcast to `dims`: some 1, some left off in front.
static kit_tensor broadcast_operand(berth_dtype dtype,
                                    int32_t rank,
                                    const int64_t* dims,
                                    bool whole) {
    int64_t own[BERTH_MAX_RANK];
    const int32_t missing = whole ? 0 : (int32_t)kit_int(0, rank);
    for (int32_t d = missing; d < rank; ++d) {
        own[d - missing] = !whole && kit_int(0, 3) == 0 ? 1 : dims[d];
    }
    return kit_strided(dtype, rank - missing, own, false, true);
}

/// The element of `operand` that goes with element `index` of the broadcast shape.
static double broadcast_get(const berth_view* operand, const berth_view* shape, int64_t index) {
    int64_t offset = 0;
    const int32_t missing = shape->rank - operand->rank;
    for (int32_t d = shape->rank; d-- > 0;) {
        const int64_t at = index % shape->dims[d];
        index /= shape->dims[d];
        if (d >= missing && operand->dims[d - missing] > 1) {
            offset += at * operand->strides[d - missing];
        }
    }
    return kit_load(operand->dtype,
                    (unsigned char*)operand->data + offset * (int64_t)kit_bytes(operand->dtype));
}

static void check_binary(berth_op_id op, berth_dtype dtype) {
    int64_t dims[BERTH_MAX_RANK];
    const int32_t rank = kit_dims(4, 9, dims);
    const int64_t side = kit_int(0, 2);
    kit_tensor a = broadcast_operand(dtype, rank, dims, side == 0);
    kit_tensor b = broadcast_operand(dtype, rank, dims, side != 0);
    for (int32_t d = 0; d < rank; ++d) { // what the two really broadcast to
        const int32_t in_a = d - (rank - a.view.rank);
        const int32_t in_b = d - (rank - b.view.rank);
        const int64_t from_a = in_a >= 0 ? a.view.dims[in_a] : 1;
        const int64_t from_b = in_b >= 0 ? b.view.dims[in_b] : 1;
        dims[d] = from_a == 1 ? from_b : from_a;
    }
    kit_tensor out = kit_contiguous(dtype, rank, dims);
    const bool is_unsigned = dtype == BERTH_U8;
    kit_fill(&a, is_unsigned ? 0 : -9, 9);
    kit_fill(&b, is_unsigned ? 0 : -9, 9);
    berth_op_call call = {.input_count = 2, .inputs = {a.view, b.view}};
    kit_run_everywhere(op, &call, &out, true, false, NULL);
    for (int64_t i = 0; i < kit_count(&out.view); ++i) {
        const double x = broadcast_get(&a.view, &out.view, i);
        const double y = broadcast_get(&b.view, &out.view, i);
        double expected = binary_reference(op, x, y);
        if (is_unsigned) expected = (uint8_t)(int)expected;
        const bool is_float = dtype == BERTH_F32 || dtype == BERTH_F16 || dtype == BERTH_BF16;
        kit_expect(&out.view, i, expected, is_float ? kit_tolerance(dtype, expected, 0x1p-23) : 0);
    }
    kit_free(&a);
    kit_free(&b);
    kit_free(&out);
}

static void two_operands_of_any_strides_broadcast(void** state) {
    (void)state;
    kit_seed(1);
    const berth_dtype dtypes[] = {BERTH_F32, BERTH_F16, BERTH_BF16, BERTH_I32, BERTH_I64, BERTH_U8};
    for (int op = BERTH_OP_ADD; op <= BERTH_OP_MAXIMUM; ++op) {
        const int types = op == BERTH_OP_DIV ? 3 : 6;
        for (int t = 0; t < types; ++t) {
            for (int round = 0; round < 12; ++round)
                check_binary((berth_op_id)op, dtypes[t]);
        }
    }
}

static void integers_wrap(void** state) {
    (void)state;
    int32_t a[3] = {INT32_MAX, INT32_MIN, 65536};
    int32_t b[3] = {1, -1, 65536};
    int32_t out[3];
    const berth_view shape = {.dtype = BERTH_I32, .rank = 1, .dims = {3}, .strides = {1}};
    berth_op_call call = {.input_count = 2, .inputs = {shape, shape}, .outputs = {shape}};
    call.inputs[0].data = a;
    call.inputs[1].data = b;
    call.outputs[0].data = out;
    berth_cpu_kernels()[BERTH_OP_ADD](&call);
    assert_int_equal(out[0], INT32_MIN);
    assert_int_equal(out[1], INT32_MAX);
    berth_cpu_kernels()[BERTH_OP_MUL](&call);
    assert_int_equal(out[2], 0);
    call.input_count = 1;
    berth_cpu_kernels()[BERTH_OP_NEG](&call);
    assert_int_equal(out[1], INT32_MIN);
}

static void a_nan_wins_over_any_number(void** state) {
    (void)state;
    float a[20];
    float b[20];
    for (int i = 0; i < 20; ++i) {
        a[i] = i % 2 == 0 ? NAN : (float)i;
        b[i] = i % 3 == 0 ? NAN : 7.5f;
    }
    const int64_t dims[1] = {20};
    kit_tensor out = kit_contiguous(BERTH_F32, 1, dims);
    berth_op_call call = {.input_count = 2, .inputs = {out.view, out.view}};
    call.inputs[0].data = a;
    call.inputs[1].data = b;
    for (int op = BERTH_OP_MINIMUM; op <= BERTH_OP_MAXIMUM; ++op) {
        kit_run_everywhere((berth_op_id)op, &call, &out, false, false, NULL);
        for (int i = 0; i < 20; ++i) {
            const double expected = binary_reference((berth_op_id)op, (double)a[i], (double)b[i]);
            kit_expect(&out.view, i, expected, 0);
        }
    }
    kit_free(&out);
}

static void large_operands_are_shared_among_workers(void** state) {
    (void)state;
    kit_seed(2);
    const int64_t dims[2] = {401, 997};
    const int64_t row[1] = {997};
    for (int t = 0; t < 3; ++t) {
        kit_tensor a = kit_contiguous(floats[t], 2, dims);
        kit_tensor b = kit_contiguous(floats[t], 1, row);
        kit_tensor out = kit_contiguous(floats[t], 2, dims);
        kit_fill(&a, -2, 2);
        kit_fill(&b, -2, 2);
        berth_op_call call = {.input_count = 2, .inputs = {a.view, b.view}};
        kit_run_everywhere(BERTH_OP_MUL, &call, &out, true, false, NULL);
        for (int64_t i = 0; i < kit_count(&out.view); i += 31) {
            const double expected = kit_get(&a.view, i) * kit_get(&b.view, i % 997);
            kit_expect(&out.view, i, expected, kit_tolerance(floats[t], expected, 0x1p-23));
        }
        kit_free(&a);
        kit_free(&b);
        kit_free(&out);
    }
}

static void two_operands_may_be_overwritten(void** state) {
    (void)state;
    kit_seed(3);
    const int64_t dims[1] = {70001};
    for (int t = 0; t < 3; ++t) {
        kit_tensor a = kit_contiguous(floats[t], 1, dims);
        kit_tensor b = kit_contiguous(floats[t], 1, dims);
        kit_tensor apart = kit_contiguous(floats[t], 1, dims);
        kit_fill(&a, -2, 2);
        kit_fill(&b, -2, 2);
        berth_op_call call = {.input_count = 2, .inputs = {a.view, b.view}};
        kit_run_everywhere(BERTH_OP_SUB, &call, &apart, true, false, NULL);
        kit_run_everywhere(BERTH_OP_SUB, &call, &a, true, true, NULL);
        assert_memory_equal(a.memory + KIT_GUARD, apart.memory + KIT_GUARD, apart.bytes);
        kit_free(&a);
        kit_free(&b);
        kit_free(&apart);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_operands_of_any_strides_broadcast),
        cmocka_unit_test(integers_wrap),
        cmocka_unit_test(a_nan_wins_over_any_number),
        cmocka_unit_test(large_operands_are_shared_among_workers),
        cmocka_unit_test(two_operands_may_be_overwritten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
