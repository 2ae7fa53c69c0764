// SPDX-License-Identifier: Apache-2.0
// Elementwise kernels on operands whose neighbours are not the result's, such as transposed
// matrices: bit for bit what contiguous copies of these operands give.
#include "device/kernel_kit.h"

enum { SHAPES = 7, MOST_OPERANDS = 3 };
static const struct shape {
    int32_t rank;
    int64_t dims[4];
} shapes[SHAPES] = {
    {2, {37, 129}},
    {2, {8, 64}},
    {2, {300, 331}}, // for several workers
    {3, {3, 40, 70}},
    {3, {5, 9, 33}},
    {4, {2, 3, 17, 33}},
    {2, {64, 0}},
};

/// A tensor that lies in memory with its last two dimensions exchanged, and now and then reversed;
/// or, for `kind` 1, all dimensions in reverse.
static kit_tensor turned(berth_dtype dtype, const struct shape* shape, int kind) {
    int64_t dims[BERTH_MAX_RANK];
    const int32_t rank = shape->rank;
    for (int32_t d = 0; d < rank; ++d)
        dims[d] = shape->dims[kind == 1 ? rank - 1 - d : d];
    if (kind == 0) {
        dims[rank - 1] = shape->dims[rank - 2];
        dims[rank - 2] = shape->dims[rank - 1];
    }
    kit_tensor x = kit_contiguous(dtype, rank, dims);
    int64_t strides[BERTH_MAX_RANK];
    memcpy(strides, x.view.strides, sizeof strides);
    for (int32_t d = 0; d < rank; ++d) {
        const int32_t from = kind == 1 ? rank - 1 - d : d < rank - 2 ? d : (2 * rank - 3) - d;
        x.view.dims[d] = shape->dims[d];
        x.view.strides[d] = strides[from];
    }
    if (kit_count(&x.view) > 0 && kit_int(0, 2) == 0) {
        const int32_t d = rank - 1;
        x.view.data = kit_at(&x.view, x.view.dims[d] - 1);
        x.view.strides[d] = -x.view.strides[d];
    }
    return x;
}

static kit_tensor contiguous_copy(const kit_tensor* x) {
    kit_tensor copy = kit_contiguous(x->view.dtype, x->view.rank, x->view.dims);
    for (int64_t i = 0; i < kit_count(&x->view); ++i)
        memcpy(kit_at(&copy.view, i), kit_at(&x->view, i), kit_bytes(x->view.dtype));
    return copy;
}

/// Runs `op` on operands of `dtypes` [count]; operand i is turned if bit i of `which` is set.
static void check(berth_op_id op,
                  const void* params,
                  const berth_dtype* dtypes,
                  uint32_t count,
                  uint32_t which,
                  berth_dtype result) {
    for (int s = 0; s < SHAPES; ++s) {
        // of two dimensions there is but one other order
        for (int kind = 0; kind < (shapes[s].rank == 2 ? 1 : 2); ++kind) {
            kit_tensor operands[MOST_OPERANDS], copies[MOST_OPERANDS];
            kit_tensor out = kit_contiguous(result, shapes[s].rank, shapes[s].dims);
            kit_tensor expected = kit_contiguous(result, shapes[s].rank, shapes[s].dims);
            berth_op_call call = {.input_count = count, .params = params};
            for (uint32_t i = 0; i < count; ++i) {
                operands[i] = (which >> i & 1) != 0
                                  ? turned(dtypes[i], &shapes[s], kind)
                                  : kit_contiguous(dtypes[i], shapes[s].rank, shapes[s].dims);
                kit_fill(&operands[i], 0, 100);
                copies[i] = contiguous_copy(&operands[i]);
                call.inputs[i] = copies[i].view;
            }
            kit_run_everywhere(op, &call, &expected, true, false, NULL);
            for (uint32_t i = 0; i < count; ++i)
                call.inputs[i] = operands[i].view;
            kit_run_everywhere(op, &call, &out, true, false, NULL);
            assert_memory_equal(out.memory, expected.memory, out.bytes + 2 * KIT_GUARD);
            for (uint32_t i = 0; i < count; ++i) {
                kit_free(&operands[i]);
                kit_free(&copies[i]);
            }
            kit_free(&out);
            kit_free(&expected);
        }
    }
}

static void functions_of_one_operand_read_it_in_any_order(void** state) {
    (void)state;
    kit_seed(1);
    const struct {
        berth_op_id op;
        berth_dtype dtype;
        berth_dtype result;
    } cases[] = {
        {BERTH_OP_EXP, BERTH_F32, BERTH_F32},
        {BERTH_OP_SIN, BERTH_F16, BERTH_F16},
        {BERTH_OP_SQRT, BERTH_I32, BERTH_F32},
        {BERTH_OP_SQRT, BERTH_I64, BERTH_F32},
        {BERTH_OP_LOG1P, BERTH_U8, BERTH_F32},
        {BERTH_OP_NEG, BERTH_I8, BERTH_I8},
        {BERTH_OP_NEG, BERTH_I64, BERTH_I64},
        {BERTH_OP_FLOOR, BERTH_I32, BERTH_I32},
        {BERTH_OP_LOGICAL_NOT, BERTH_F32, BERTH_BOOL},
        {BERTH_OP_LOGICAL_NOT, BERTH_U8, BERTH_BOOL},
        {BERTH_OP_ISFINITE, BERTH_I64, BERTH_BOOL},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; ++c)
        check(cases[c].op, NULL, &cases[c].dtype, 1, 1, cases[c].result);
}

static void casts_read_their_operand_in_any_order(void** state) {
    (void)state;
    kit_seed(2);
    const berth_dtype types[] = {BERTH_F32, BERTH_BF16, BERTH_I64, BERTH_U8};
    for (int from = 0; from < 4; ++from) {
        for (int to = 0; to < 4; ++to) {
            const berth_cast_params params = {.dtype = types[to]};
            check(BERTH_OP_CAST, &params, &types[from], 1, 1, types[to]);
        }
    }
}

static void functions_of_more_operands_read_each_in_any_order(void** state) {
    (void)state;
    kit_seed(3);
    const berth_dtype floats[2] = {BERTH_F32, BERTH_F32};
    const berth_dtype mixed[2] = {BERTH_I32, BERTH_F32};
    const berth_dtype halves[2] = {BERTH_BF16, BERTH_BF16};
    const berth_dtype integers[2] = {BERTH_I64, BERTH_U8};
    const berth_compare_params meeting = {.dtype = BERTH_F32};
    const berth_clamp_params clamp = {.low = 10, .high = 50};
    for (uint32_t which = 1; which < 4; ++which) {
        check(BERTH_OP_SUB, NULL, floats, 2, which, BERTH_F32);
        check(BERTH_OP_SUB, NULL, mixed, 2, which, BERTH_F32);
        check(BERTH_OP_MUL, NULL, halves, 2, which, BERTH_BF16);
        check(BERTH_OP_SUB, NULL, integers, 2, which, BERTH_I64);
        check(BERTH_OP_LT, &meeting, mixed, 2, which, BERTH_BOOL);
    }
    const berth_dtype chosen[3] = {BERTH_BOOL, BERTH_F32, BERTH_F32};
    for (uint32_t which = 1; which < 8; ++which)
        check(BERTH_OP_WHERE, NULL, chosen, 3, which, BERTH_F32);
    check(BERTH_OP_CLAMP, &clamp, floats, 1, 1, BERTH_F32);
    check(BERTH_OP_CLAMP, &clamp, halves, 1, 1, BERTH_BF16);
}

/// The result may lie in the place of the other operand, which must not be lost.
static void a_turned_operand_leaves_the_other_in_its_place(void** state) {
    (void)state;
    kit_seed(4);
    for (int s = 0; s < SHAPES; ++s) {
        for (uint32_t side = 0; side < 2; ++side) {
            kit_tensor x = turned(BERTH_F32, &shapes[s], 0);
            kit_tensor place = kit_contiguous(BERTH_F32, shapes[s].rank, shapes[s].dims);
            kit_tensor out = kit_contiguous(BERTH_F32, shapes[s].rank, shapes[s].dims);
            kit_fill(&x, -3, 3);
            kit_fill(&place, -3, 3);
            berth_op_call call = {.input_count = 2};
            call.inputs[side] = x.view;
            call.inputs[1 - side] = place.view;
            kit_run_everywhere(BERTH_OP_SUB, &call, &out, true, false, NULL);
            kit_run_everywhere(BERTH_OP_SUB, &call, &place, true, true, NULL);
            assert_memory_equal(place.memory, out.memory, out.bytes + 2 * KIT_GUARD);
            kit_free(&x);
            kit_free(&place);
            kit_free(&out);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_of_one_operand_read_it_in_any_order),
        cmocka_unit_test(casts_read_their_operand_in_any_order),
        cmocka_unit_test(functions_of_more_operands_read_each_in_any_order),
        cmocka_unit_test(a_turned_operand_leaves_the_other_in_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
