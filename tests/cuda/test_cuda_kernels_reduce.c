// SPDX-License-Identifier: Apache-2.0
// SUM MEAN PROD MAX MIN ARGMAX ARGMIN VAR LOGSUMEXP ANY ALL of the CUDA back end, run on the host,
// against the CPU's; and outputs of the same elements in different layouts, bit for bit.
#include "cuda/cuda_kernel_kit.h"

static const berth_dtype plain[] = {
    BERTH_F32, BERTH_F16, BERTH_BF16, BERTH_I32, BERTH_I64, BERTH_I8, BERTH_U8, BERTH_BOOL};
enum { PLAIN = sizeof plain / sizeof plain[0] };

static bool is_extreme(berth_op_id op) {
    return op == BERTH_OP_MAX || op == BERTH_OP_MIN || op == BERTH_OP_ARGMAX ||
           op == BERTH_OP_ARGMIN;
}

static bool takes(berth_op_id op, berth_dtype dtype) {
    const bool needs_float = op == BERTH_OP_MEAN || op == BERTH_OP_VAR || op == BERTH_OP_LOGSUMEXP;
    return berth_dtype_is_float(dtype) || !needs_float;
}

/// What results of `size` numbers up to `largest` may differ by, folded in another order.
static cuda_kit_tolerance tolerance_of(berth_op_id op,
                                       berth_dtype dtype,
                                       double size,
                                       double largest) {
    const double place = dtype == BERTH_F16 ? 0x1p-10 : dtype == BERTH_BF16 ? 0x1p-7 : 0;
    switch ((int)op) {
    case BERTH_OP_SUM:
        return (cuda_kit_tolerance){place, largest * (1e-6 + 1e-7 * size)};
    case BERTH_OP_MEAN:
    case BERTH_OP_LOGSUMEXP:
        return (cuda_kit_tolerance){place + 1e-6, largest * 2e-6};
    case BERTH_OP_PROD:
    case BERTH_OP_VAR:
        return (cuda_kit_tolerance){place + 1e-6, 1e-12};
    default:
        return (cuda_kit_tolerance){0, 1e-30}; // -0 is 0
    }
}

static berth_op_call call_of(const kit_tensor* x, const berth_reduce_params* params) {
    return (berth_op_call){
        .input_count = 1, .inputs = {x->view}, .params = params, .output_count = 1};
}

/// Mostly true or mostly false, with few exceptions or none.
static void fill_truths(kit_tensor* x) {
    const int64_t mostly = kit_int(0, 1), exceptions = kit_int(0, 2);
    const int64_t count = kit_count(&x->view);
    for (int64_t i = 0; i < count; ++i)
        kit_store(x->view.dtype, kit_at(&x->view, i), (double)mostly);
    for (int64_t i = 0; i < exceptions && count > 0; ++i)
        kit_store(x->view.dtype, kit_at(&x->view, kit_int(0, count - 1)), (double)(1 - mostly));
}

static void fill(kit_tensor* x, berth_op_id op) {
    const berth_dtype dtype = x->view.dtype;
    if (berth_dtype_is_float(dtype) && op == BERTH_OP_PROD)
        kit_fill(x, 0.5, 1.9);
    else if (op == BERTH_OP_ANY || op == BERTH_OP_ALL)
        fill_truths(x);
    else if (dtype == BERTH_U8)
        kit_fill(x, 0, kit_int(0, 1) == 0 ? 4 : 255);
    else
        kit_fill(x, kit_int(0, 1) == 0 ? -3 : -100, kit_int(0, 1) == 0 ? 3 : 100);
}

static void compare(berth_op_id op, kit_tensor* x, const berth_reduce_params* params) {
    berth_op_call call = call_of(x, params);
    const cuda_kit_tolerance tolerance =
        tolerance_of(op, x->view.dtype, (double)kit_count(&x->view), 100);
    cuda_kit_compare(op, &call, -1, tolerance);
}

/// A set of dimensions of `rank`, none for all of them.
static berth_dims draw_dims(berth_op_id op, int32_t rank) {
    berth_dims dims = {0};
    if (op == BERTH_OP_ARGMAX || op == BERTH_OP_ARGMIN) {
        dims.count = (int32_t)kit_int(0, 1);
        dims.dims[0] = (int32_t)kit_int(-rank, rank - 1);
        return dims;
    }
    const int64_t chosen = kit_int(0, (1 << rank) - 1);
    for (int32_t d = 0; d < rank; ++d)
        if (chosen >> d & 1) dims.dims[dims.count++] = d;
    return dims;
}

static berth_op_id draw_op(void) { return (berth_op_id)kit_int(BERTH_OP_SUM, BERTH_OP_ALL); }

static void reductions_are_the_cpus_over_any_dimensions_of_any_layout(void** state) {
    (void)state;
    kit_seed(1);
    for (int round = 0; round < 400; ++round) {
        const berth_op_id op = draw_op();
        const berth_dtype dtype = plain[kit_int(0, PLAIN - 1)];
        if (!takes(op, dtype)) continue;
        int64_t dims[4] = {1, 1, 1, 1};
        const int32_t rank = kit_dims(4, kit_int(0, 2) == 0 ? 13 : 5, dims);
        const berth_reduce_params params = {.dims = draw_dims(op, rank),
                                            .keepdim = kit_int(0, 1) == 0,
                                            .correction = (double)kit_int(0, 1)};
        kit_tensor x = kit_int(0, 1) == 0 ? kit_contiguous(dtype, rank, dims)
                                          : kit_strided(dtype, rank, dims, false, true);
        fill(&x, op);
        if (!is_extreme(op) || kit_count(&x.view) > 0) compare(op, &x, &params);
        kit_free(&x);
    }
}

/// [outputs, size] with the elements of a line, or (`is_column`) of a column, one output.
static kit_tensor make_lines(berth_dtype dtype, int64_t outputs, int64_t size, bool is_column) {
    const int64_t dims[2] = {is_column ? size : outputs, is_column ? outputs : size};
    return kit_contiguous(dtype, 2, dims);
}

static void reductions_of_lines_and_columns_of_any_length_are_the_cpus(void** state) {
    (void)state;
    kit_seed(2);
    // about vectors, a thread's vectors, a warp's lanes, a block's
    static const int64_t sizes[] = {1,   2,   3,    4,    5,    8,    15,   16,   17,   31,
                                    33,  63,  64,   65,   127,  128,  129,  255,  257,  512,
                                    513, 999, 1024, 1025, 2047, 2049, 4096, 4097, 8191, 8192};
    enum { SIZES = sizeof sizes / sizeof sizes[0] };
    for (int round = 0; round < 4 * SIZES; ++round) {
        const berth_op_id op = draw_op();
        const berth_dtype dtype = plain[kit_int(0, PLAIN - 1)];
        if (!takes(op, dtype)) continue;
        const bool is_column = kit_int(0, 1) == 0;
        const int64_t size = sizes[round % SIZES];
        const int64_t outputs = size > 2000 ? kit_int(1, 5) : kit_int(1, 40);
        kit_tensor x = make_lines(dtype, outputs, size, is_column);
        fill(&x, op);
        if (op == BERTH_OP_PROD && size > 300) kit_fill(&x, 0.95, 1.05);
        const berth_reduce_params params = {.dims = {1, {is_column ? 0 : 1}}};
        compare(op, &x, &params);
        kit_free(&x);
    }
}

static void reductions_of_more_elements_than_a_block_folds_are_the_cpus(void** state) {
    (void)state;
    kit_seed(3);
    for (int op = BERTH_OP_SUM; op <= BERTH_OP_ALL; ++op) {
        for (int column = 0; column < 2; ++column) {
            berth_dtype dtype = plain[(op + column) % 3];
            if (takes((berth_op_id)op, BERTH_I32) && kit_int(0, 1) == 0)
                dtype = plain[kit_int(3, PLAIN - 1)];
            const int64_t size = 8192 * 4 / (int64_t)kit_bytes(dtype) * 2 + kit_int(-1, 700);
            kit_tensor x = make_lines(dtype, column == 0 ? 1 : 3, size, column == 1);
            fill(&x, (berth_op_id)op);
            if (op == BERTH_OP_PROD) kit_fill(&x, 0.999, 1.001);
            const berth_reduce_params params = {.dims = {1, {column == 0 ? 1 : 0}}};
            compare((berth_op_id)op, &x, &params);
            kit_free(&x);
        }
    }
}

/// Runs `op` over dimension `dim` of `x`, whose output has `outputs` elements.
static kit_tensor reduce(berth_op_id op, const berth_view* x, int32_t dim, int64_t outputs) {
    const berth_reduce_params params = {.dims = {1, {dim}}, .correction = 1};
    berth_op_call call = {.input_count = 1, .inputs = {*x}, .params = &params, .output_count = 1};
    assert_ok(berth_op_table[op].infer(&call));
    kit_tensor out = kit_contiguous(call.outputs[0].dtype, 1, &outputs);
    call.outputs[0] = out.view;
    const berth_cuda_table* table = berth_cuda_kernel_table();
    cuda_kit_launch(table->kernels[op], &call, table->scratch[op](&call));
    return out;
}

static void an_output_has_the_same_bits_in_every_layout_and_among_any_others(void** state) {
    (void)state;
    kit_seed(4);
    static const berth_op_id ops[] = {
        BERTH_OP_SUM, BERTH_OP_MEAN, BERTH_OP_PROD, BERTH_OP_VAR, BERTH_OP_LOGSUMEXP};
    static const int64_t sizes[] = {7, 33, 130, 515, 1500, 9000};
    for (int round = 0; round < 60; ++round) {
        const berth_op_id op = ops[round % 5];
        const berth_dtype dtype = plain[kit_int(0, 2)];
        const int64_t size = sizes[kit_int(0, 5)];
        const int64_t outputs = kit_int(1, size > 1000 ? 6 : 50);
        kit_tensor lines = make_lines(dtype, outputs, size, false);
        kit_tensor columns = make_lines(dtype, outputs, size, true);
        kit_fill(&lines, op == BERTH_OP_PROD ? 0.9 : -7, op == BERTH_OP_PROD ? 1.1 : 9);
        const size_t bytes = kit_bytes(dtype);
        for (int64_t i = 0; i < outputs * size; ++i)
            memcpy(kit_at(&columns.view, i % size * outputs + i / size),
                   kit_at(&lines.view, i),
                   bytes);
        kit_tensor of_lines = reduce(op, &lines.view, 1, outputs);
        kit_tensor of_columns = reduce(op, &columns.view, 0, outputs);
        assert_memory_equal(of_lines.view.data, of_columns.view.data, of_lines.bytes);
        berth_view last = lines.view; // one line alone, at any address
        last.data = kit_at(&lines.view, (outputs - 1) * size);
        last.dims[0] = 1;
        kit_tensor of_one = reduce(op, &last, 1, 1);
        assert_memory_equal(of_one.view.data, kit_at(&of_lines.view, outputs - 1), bytes);
        kit_free(&lines);
        kit_free(&columns);
        kit_free(&of_lines);
        kit_free(&of_columns);
        kit_free(&of_one);
    }
}

static void nan_and_infinity_come_out_as_on_the_cpu(void** state) {
    (void)state;
    kit_seed(5);
    static const double odd[] = {(double)NAN, (double)INFINITY, -(double)INFINITY, 0.0, -0.0};
    for (int round = 0; round < 200; ++round) {
        const berth_op_id op = draw_op();
        const int64_t size = kit_int(1, 90);
        kit_tensor x = make_lines(plain[kit_int(0, 2)], kit_int(1, 9), size, false);
        kit_fill(&x, 0.5, 2);
        const int64_t count = kit_count(&x.view);
        const int64_t odds = kit_int(1, 5);
        for (int64_t i = 0; i < odds; ++i)
            kit_store(x.view.dtype, kit_at(&x.view, kit_int(0, count - 1)), odd[kit_int(0, 4)]);
        if (round % 10 == 0) kit_fill(&x, -0.0, -0.0);
        if (round % 10 == 1) // nothing but -infinity
            for (int64_t i = 0; i < count; ++i)
                kit_store(x.view.dtype, kit_at(&x.view, i), odd[2]);
        const berth_reduce_params params = {.dims = {1, {(int32_t)kit_int(0, 1)}}};
        compare(op, &x, &params);
        kit_free(&x);
    }
}

static void no_element_reduces_to_what_the_cpu_says(void** state) {
    (void)state;
    const int64_t dims[3] = {3, 0, 2};
    for (int op = BERTH_OP_SUM; op <= BERTH_OP_ALL; ++op) {
        if (is_extreme((berth_op_id)op)) continue;
        kit_tensor x = kit_contiguous(BERTH_F32, 3, dims);
        const berth_reduce_params over_empty = {.dims = {1, {1}}}, over_others = {.dims = {1, {0}}};
        compare((berth_op_id)op, &x, &over_empty);
        compare((berth_op_id)op, &x, &over_others);
        kit_free(&x);
    }
}

static void a_variance_far_from_zero_keeps_its_places(void** state) {
    (void)state;
    kit_seed(6);
    for (int64_t size = 2; size < 3000; size = size * 3 + 1) {
        kit_tensor x = make_lines(BERTH_F32, 3, size, false);
        kit_fill(&x, 1e5, 1e5 + 1);
        const berth_reduce_params params = {.dims = {1, {1}}, .correction = 1};
        compare(BERTH_OP_VAR, &x, &params);
        kit_free(&x);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reductions_are_the_cpus_over_any_dimensions_of_any_layout),
        cmocka_unit_test(reductions_of_lines_and_columns_of_any_length_are_the_cpus),
        cmocka_unit_test(reductions_of_more_elements_than_a_block_folds_are_the_cpus),
        cmocka_unit_test(an_output_has_the_same_bits_in_every_layout_and_among_any_others),
        cmocka_unit_test(nan_and_infinity_come_out_as_on_the_cpu),
        cmocka_unit_test(no_element_reduces_to_what_the_cpu_says),
        cmocka_unit_test(a_variance_far_from_zero_keeps_its_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
