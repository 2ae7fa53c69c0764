// SPDX-License-Identifier: Apache-2.0
// Which kernel a call takes: what lies well for memory must not fall to the kernels for what lies
// anyhow, nor the other way round. That each gives the CPU's results is for the other tests; here
// calls are made for their choice, and compared as well.
#include "cuda/cuda_kernel_kit.h"
#include "cuda/direct_run.h"

enum { ROWS = 3 };

static const cuda_kit_tolerance close_enough = {0x1p-7, 0x1p-9};

/// A part of a larger tensor that begins `skip` elements behind what is aligned, its rows `wide`
/// elements apart.
static kit_tensor part_of(berth_dtype dtype, int64_t columns, int64_t wide, int64_t skip) {
    const int64_t dims[2] = {ROWS + 1, wide};
    kit_tensor x = kit_contiguous(dtype, 2, dims);
    kit_fill(&x, 0, 2);
    x.view.data = kit_at(&x.view, skip);
    x.view.dims[0] = ROWS;
    x.view.dims[1] = columns;
    return x;
}

static kit_tensor rows_of(berth_dtype dtype, int64_t columns) {
    return part_of(dtype, columns, columns, 0);
}

/// Asserts that `op` of operands [count], which are freed, begins with kernel `expected`.
static void expect(berth_op_id op,
                   const void* params,
                   uint32_t count,
                   kit_tensor* operands,
                   berth_cuda_kernel expected) {
    berth_op_call call = {.input_count = count, .output_count = 1, .params = params};
    for (uint32_t i = 0; i < count; ++i)
        call.inputs[i] = operands[i].view;
    direct_run_watch();
    cuda_kit_compare(op, &call, -1, close_enough);
    assert_int_equal(direct_run_first(), expected);
    for (uint32_t i = 0; i < count; ++i)
        kit_free(&operands[i]);
}

static void expect_sum(kit_tensor a, kit_tensor b, berth_cuda_kernel expected) {
    kit_tensor operands[2] = {a, b};
    expect(BERTH_OP_ADD, NULL, 2, operands, expected);
}

static void vectors_are_taken_of_rows_columns_numbers_and_parts_that_lie_well(void** state) {
    (void)state;
    for (berth_dtype dtype = BERTH_F32; dtype <= BERTH_BF16; ++dtype) {
        kit_tensor row = rows_of(dtype, 64), column = rows_of(dtype, 64);
        row.view.dims[0] = 1;
        column.view.dims[1] = 1;
        expect_sum(rows_of(dtype, 64), rows_of(dtype, 64), BERTH_CUDA_KERNEL_add);
        expect_sum(rows_of(dtype, 64), row, BERTH_CUDA_KERNEL_add);
        expect_sum(column, rows_of(dtype, 64), BERTH_CUDA_KERNEL_add);
        expect_sum(part_of(dtype, 64, 96, 32), rows_of(dtype, 64), BERTH_CUDA_KERNEL_add);
        expect_sum(rows_of(dtype, 61), rows_of(dtype, 61), BERTH_CUDA_KERNEL_add);
    }
}

static void groups_are_taken_of_mixed_types_and_of_what_is_out_of_place(void** state) {
    (void)state;
    expect_sum(rows_of(BERTH_F32, 64), rows_of(BERTH_F16, 64), BERTH_CUDA_KERNEL_add_any);
    expect_sum(rows_of(BERTH_F16, 64), rows_of(BERTH_I32, 64), BERTH_CUDA_KERNEL_add_any);
    expect_sum(rows_of(BERTH_U8, 64), rows_of(BERTH_U8, 64), BERTH_CUDA_KERNEL_add_any);
    expect_sum(part_of(BERTH_F32, 64, 65, 0), rows_of(BERTH_F32, 64), BERTH_CUDA_KERNEL_add_any);
    expect_sum(part_of(BERTH_F16, 64, 96, 1), rows_of(BERTH_F16, 64), BERTH_CUDA_KERNEL_add_any);
    expect_sum(
        part_of(BERTH_F32, 63, 64, 0), part_of(BERTH_F32, 63, 64, 1), BERTH_CUDA_KERNEL_add_any);
}

static void expect_cast(kit_tensor x, berth_dtype to, berth_cuda_kernel expected) {
    const berth_cast_params params = {.dtype = to};
    expect(BERTH_OP_CAST, &params, 1, &x, expected);
}

static void casts_between_floats_take_vectors_of_the_wider_type(void** state) {
    (void)state;
    expect_cast(rows_of(BERTH_F32, 4), BERTH_F16, BERTH_CUDA_KERNEL_cast);
    expect_cast(rows_of(BERTH_F16, 4), BERTH_F32, BERTH_CUDA_KERNEL_cast);
    // a vector of four halves is 8 bytes: such parts lie well, as long as they begin at those
    expect_cast(part_of(BERTH_BF16, 4, 12, 4), BERTH_F32, BERTH_CUDA_KERNEL_cast);
    expect_cast(part_of(BERTH_BF16, 4, 12, 4), BERTH_F16, BERTH_CUDA_KERNEL_cast_any);
    expect_cast(part_of(BERTH_F16, 4, 12, 2), BERTH_F32, BERTH_CUDA_KERNEL_cast_any);
    expect_cast(rows_of(BERTH_I32, 4), BERTH_F32, BERTH_CUDA_KERNEL_cast_any);
}

static void expect_where(berth_dtype left, berth_dtype right, berth_cuda_kernel expected) {
    kit_tensor operands[3] = {rows_of(BERTH_BOOL, 64), rows_of(left, 64), rows_of(right, 64)};
    expect(BERTH_OP_WHERE, NULL, 3, operands, expected);
}

static void choices_take_vectors_where_both_sides_are_of_one_type(void** state) {
    (void)state;
    for (berth_dtype dtype = BERTH_F32; dtype <= BERTH_BOOL; ++dtype)
        expect_where(dtype, dtype, BERTH_CUDA_KERNEL_where);
    expect_where(BERTH_F32, BERTH_F16, BERTH_CUDA_KERNEL_where_any);
    expect_where(BERTH_I64, BERTH_U8, BERTH_CUDA_KERNEL_where_any);
}

static void expect_softmax(kit_tensor x, int32_t dim, berth_cuda_kernel expected) {
    const berth_reduce_params params = {.dims = {1, {dim}}};
    expect(BERTH_OP_SOFTMAX, &params, 1, &x, expected);
}

static void rows_of_softmax_are_kept_in_few_vectors_in_many_or_not_at_all(void** state) {
    (void)state;
    expect_softmax(rows_of(BERTH_F32, 256), 1, BERTH_CUDA_KERNEL_softmax_short);
    expect_softmax(rows_of(BERTH_F16, 512), 1, BERTH_CUDA_KERNEL_softmax_short);
    expect_softmax(rows_of(BERTH_F32, 260), 1, BERTH_CUDA_KERNEL_softmax_long);
    expect_softmax(rows_of(BERTH_F16, 4100), 1, BERTH_CUDA_KERNEL_softmax_long);
    expect_softmax(rows_of(BERTH_F32, 9), 0, BERTH_CUDA_KERNEL_logsumexp);
}

static void expect_norm(kit_tensor x,
                        berth_dtype weights,
                        int64_t skip,
                        berth_cuda_kernel expected) {
    kit_tensor operands[2] = {x, part_of(weights, x.view.dims[1], x.view.dims[1], skip)};
    operands[1].view.rank = 1;
    operands[1].view.dims[0] = x.view.dims[1];
    operands[1].view.strides[0] = 1;
    const berth_norm_params params = {.eps = 1e-5f, .has_weight = true};
    expect(BERTH_OP_RMS_NORM, &params, 2, operands, expected);
}

static void rows_to_norm_are_read_by_vectors_where_they_and_the_weights_lie_well(void** state) {
    (void)state;
    expect_norm(rows_of(BERTH_F32, 256), BERTH_F32, 0, BERTH_CUDA_KERNEL_norm_dense);
    expect_norm(rows_of(BERTH_F16, 512), BERTH_F32, 0, BERTH_CUDA_KERNEL_norm_dense);
    expect_norm(rows_of(BERTH_F32, 260), BERTH_F16, 0, BERTH_CUDA_KERNEL_norm_wide);
    expect_norm(rows_of(BERTH_BF16, 4096), BERTH_BF16, 0, BERTH_CUDA_KERNEL_norm_wide);
    expect_norm(rows_of(BERTH_F32, 259), BERTH_F32, 0, BERTH_CUDA_KERNEL_norm_short);
    expect_norm(rows_of(BERTH_F32, 256), BERTH_F32, 1, BERTH_CUDA_KERNEL_norm_short);
    expect_norm(part_of(BERTH_F32, 256, 257, 0), BERTH_F32, 0, BERTH_CUDA_KERNEL_norm_short);
    expect_norm(rows_of(BERTH_F32, 32772), BERTH_F32, 0, BERTH_CUDA_KERNEL_norm_long);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_are_taken_of_rows_columns_numbers_and_parts_that_lie_well),
        cmocka_unit_test(groups_are_taken_of_mixed_types_and_of_what_is_out_of_place),
        cmocka_unit_test(casts_between_floats_take_vectors_of_the_wider_type),
        cmocka_unit_test(choices_take_vectors_where_both_sides_are_of_one_type),
        cmocka_unit_test(rows_of_softmax_are_kept_in_few_vectors_in_many_or_not_at_all),
        cmocka_unit_test(rows_to_norm_are_read_by_vectors_where_they_and_the_weights_lie_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
