// SPDX-License-Identifier: Apache-2.0
// SOFTMAX LOG_SOFTMAX LAYER_NORM RMS_NORM of the CUDA back end, run on the host, against the CPU's;
// and one row alone against the same row among many, bit for bit.
#include "cuda/cuda_kernel_kit.h"

static const berth_dtype floats[] = {BERTH_F32, BERTH_F16, BERTH_BF16};

static cuda_kit_tolerance tolerance_of(berth_dtype dtype) {
    const double place = dtype == BERTH_F16 ? 0x1p-11 : dtype == BERTH_BF16 ? 0x1p-8 : 0;
    return (cuda_kit_tolerance){place + 4e-6, 4e-6};
}

static berth_dtype draw_dtype(void) { return floats[kit_int(0, 2)]; }

static kit_tensor draw(berth_dtype dtype, int32_t rank, const int64_t* dims) {
    kit_tensor x = kit_int(0, 2) > 0 ? kit_contiguous(dtype, rank, dims)
                                     : kit_strided(dtype, rank, dims, kit_int(0, 1) == 0, true);
    kit_fill(&x, -8, 8);
    return x;
}

// --- Softmax -------------------------------------------------------------------------------------

static void compare_softmax(kit_tensor* x, int32_t dim, bool is_in_place) {
    const berth_op_id op = kit_int(0, 1) == 0 ? BERTH_OP_SOFTMAX : BERTH_OP_LOG_SOFTMAX;
    const berth_reduce_params params = {.dims = {1, {dim}}};
    berth_op_call call = {
        .input_count = 1, .inputs = {x->view}, .params = &params, .output_count = 1};
    cuda_kit_tolerance tolerance = tolerance_of(x->view.dtype);
    if (op == BERTH_OP_LOG_SOFTMAX) tolerance.absolute *= 4;
    cuda_kit_compare(op, &call, is_in_place ? 0 : -1, tolerance);
}

static void softmax_is_the_cpus_along_any_dimension(void** state) {
    (void)state;
    kit_seed(1);
    for (int round = 0; round < 150; ++round) {
        int64_t dims[3] = {1, 1, 1};
        const int32_t rank = kit_dims(3, round % 3 == 0 ? 40 : 9, dims);
        kit_tensor x = draw(draw_dtype(), rank, dims);
        const bool is_in_place = berth_view_is_contiguous(&x.view) && kit_int(0, 1) == 0;
        compare_softmax(&x, (int32_t)kit_int(-rank, rank - 1), is_in_place);
        kit_free(&x);
    }
}

// about vectors, a warp's and blocks' elements, what a thread keeps
static const int64_t sizes[] = {1,   3,   4,    7,    8,    9,    31,   33,   255,  256,  257,
                                512, 513, 1000, 1024, 1025, 4096, 8191, 8192, 8193, 9999, 32768};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static void softmax_of_rows_of_any_length_is_the_cpus(void** state) {
    (void)state;
    kit_seed(2);
    for (int round = 0; round < 2 * SIZES; ++round) {
        const int64_t size = sizes[round % SIZES];
        const int64_t dims[2] = {size > 1000 ? 2 : kit_int(1, 11), size};
        kit_tensor x = kit_contiguous(draw_dtype(), 2, dims);
        kit_fill(&x, -8, 8);
        compare_softmax(&x, 1, kit_int(0, 1) == 0);
        kit_free(&x);
    }
}

static void softmax_of_rows_that_no_block_keeps_is_the_cpus(void** state) {
    (void)state;
    kit_seed(3);
    for (int round = 0; round < 3; ++round) {
        const int64_t dims[2] = {2, 32769 + kit_int(0, 9)};
        kit_tensor x = kit_contiguous(floats[round], 2, dims);
        kit_fill(&x, -8, 8);
        compare_softmax(&x, 1, round == 1);
        kit_free(&x);
    }
}

static void softmax_of_nan_and_infinity_is_the_cpus(void** state) {
    (void)state;
    kit_seed(4);
    static const double odd[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    for (int round = 0; round < 60; ++round) {
        const int64_t dims[2] = {kit_int(1, 4), kit_int(1, 40)};
        kit_tensor x = kit_contiguous(draw_dtype(), 2, dims);
        kit_fill(&x, -2, 2);
        const int64_t count = kit_count(&x.view);
        for (int64_t i = 0; i < count; ++i)
            if (round % 4 == 0 || kit_int(0, 9) == 0)
                kit_store(
                    x.view.dtype, kit_at(&x.view, i), odd[round % 4 == 0 ? 2 : kit_int(0, 2)]);
        compare_softmax(&x, (int32_t)kit_int(0, 1), false);
        kit_free(&x);
    }
}

// --- Norms ---------------------------------------------------------------------------------------

typedef struct norm_case {
    berth_op_id op;
    berth_norm_params params;
    kit_tensor operands[3];
    berth_op_call call;
} norm_case;

static void norm_make(norm_case* made, kit_tensor x) {
    const int64_t size = x.view.dims[x.view.rank - 1];
    *made = (norm_case){
        .op = kit_int(0, 1) == 0 ? BERTH_OP_RMS_NORM : BERTH_OP_LAYER_NORM,
        .params = {.eps = 1e-5f, .has_weight = kit_int(0, 3) > 0},
        .operands = {x},
    };
    uint32_t count = 1;
    if (made->params.has_weight) made->operands[count++] = draw(draw_dtype(), 1, &size);
    made->params.has_bias = made->op == BERTH_OP_LAYER_NORM && kit_int(0, 3) > 0;
    if (made->params.has_bias) made->operands[count++] = draw(draw_dtype(), 1, &size);
    made->call = (berth_op_call){.input_count = count, .output_count = 1};
    for (uint32_t i = 0; i < count; ++i)
        made->call.inputs[i] = made->operands[i].view;
    made->call.params = &made->params;
}

static void norm_free(norm_case* made) {
    for (uint32_t i = 0; i < made->call.input_count; ++i)
        kit_free(&made->operands[i]);
}

static void compare_norm(kit_tensor x, bool is_in_place) {
    norm_case made;
    norm_make(&made, x);
    cuda_kit_tolerance tolerance = tolerance_of(x.view.dtype);
    tolerance.absolute = 2e-5; // weights reach 8, biases nearly cancel
    cuda_kit_compare(made.op, &made.call, is_in_place ? 0 : -1, tolerance);
    norm_free(&made);
}

static void norms_are_the_cpus_whatever_the_strides_and_types(void** state) {
    (void)state;
    kit_seed(5);
    for (int round = 0; round < 150; ++round) {
        int64_t dims[3] = {1, 1, 1};
        const int32_t rank = kit_dims(3, round % 3 == 0 ? 70 : 9, dims);
        kit_tensor x = draw(draw_dtype(), rank, dims);
        compare_norm(x, berth_view_is_contiguous(&x.view) && kit_int(0, 1) == 0);
    }
}

static void norms_of_rows_of_any_length_are_the_cpus(void** state) {
    (void)state;
    kit_seed(6);
    for (int round = 0; round < 2 * SIZES; ++round) {
        const int64_t size = sizes[round % SIZES];
        const int64_t dims[2] = {size > 1000 ? 2 : kit_int(1, 11), size};
        kit_tensor x = kit_contiguous(draw_dtype(), 2, dims);
        kit_fill(&x, -8, 8);
        compare_norm(x, kit_int(0, 1) == 0);
    }
    const int64_t longest[2] = {2, 32771};
    kit_tensor x = kit_contiguous(draw_dtype(), 2, longest);
    kit_fill(&x, -8, 8);
    compare_norm(x, true);
}

static void layer_norm_keeps_its_places_far_from_zero(void** state) {
    (void)state;
    kit_seed(7);
    for (int64_t size = 2; size < 5000; size = size * 3 + 1) {
        const int64_t dims[2] = {3, size};
        kit_tensor x = kit_contiguous(BERTH_F32, 2, dims);
        kit_fill(&x, 1e5, 1e5 + 1);
        const berth_norm_params params = {.eps = 1e-6f};
        berth_op_call call = {
            .input_count = 1, .inputs = {x.view}, .params = &params, .output_count = 1};
        cuda_kit_compare(BERTH_OP_LAYER_NORM, &call, -1, (cuda_kit_tolerance){1e-5, 1e-5});
        kit_free(&x);
    }
}

// --- One row -------------------------------------------------------------------------------------

static void run_cuda(berth_op_id op, berth_op_call* call, void* out) {
    assert_ok(berth_op_table[op].infer(call));
    uint64_t bytes;
    assert_ok(berth_shape_lay_out(&call->outputs[0], &bytes));
    call->outputs[0].data = out;
    const berth_cuda_table* table = berth_cuda_kernel_table();
    cuda_kit_launch(
        table->kernels[op], call, table->scratch[op] != NULL ? table->scratch[op](call) : 0);
}

static void a_row_alone_has_the_bits_that_it_has_among_others(void** state) {
    (void)state;
    kit_seed(8);
    static const berth_op_id ops[] = {
        BERTH_OP_SOFTMAX, BERTH_OP_LOG_SOFTMAX, BERTH_OP_LAYER_NORM, BERTH_OP_RMS_NORM};
    for (int round = 0; round < 80; ++round) {
        const berth_op_id op = ops[round % 4];
        const bool is_norm = round % 4 > 1;
        const int64_t dims[2] = {kit_int(2, 9), sizes[kit_int(0, SIZES - 6)]};
        kit_tensor x = kit_contiguous(draw_dtype(), 2, dims);
        kit_tensor all = kit_contiguous(x.view.dtype, 2, dims);
        kit_tensor one = kit_contiguous(x.view.dtype, 1, dims + 1);
        kit_fill(&x, -8, 8);
        const berth_norm_params norm = {.eps = 1e-5f};
        const berth_reduce_params softmax = {.dims = {1, {1}}};
        berth_op_call call = {.input_count = 1, .output_count = 1, .inputs = {x.view}};
        call.params = is_norm ? (const void*)&norm : &softmax;
        run_cuda(op, &call, all.view.data);
        const int64_t row = kit_int(0, dims[0] - 1);
        call.inputs[0].data = kit_at(&x.view, row * dims[1]);
        call.inputs[0].dims[0] = 1;
        run_cuda(op, &call, one.view.data);
        assert_memory_equal(one.view.data, kit_at(&all.view, row * dims[1]), one.bytes);
        kit_free(&x);
        kit_free(&all);
        kit_free(&one);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax_is_the_cpus_along_any_dimension),
        cmocka_unit_test(softmax_of_rows_of_any_length_is_the_cpus),
        cmocka_unit_test(softmax_of_rows_that_no_block_keeps_is_the_cpus),
        cmocka_unit_test(softmax_of_nan_and_infinity_is_the_cpus),
        cmocka_unit_test(norms_are_the_cpus_whatever_the_strides_and_types),
        cmocka_unit_test(norms_of_rows_of_any_length_are_the_cpus),
        cmocka_unit_test(layer_norm_keeps_its_places_far_from_zero),
        cmocka_unit_test(a_row_alone_has_the_bits_that_it_has_among_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
