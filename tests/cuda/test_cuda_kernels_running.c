// SPDX-License-Identifier: Apache-2.0
// CUMSUM and ROPE of the CUDA back end, run on the host, against the CPU's.
#include "cuda/cuda_kernel_kit.h"

static const berth_dtype plain[] = {
    BERTH_F32, BERTH_F16, BERTH_BF16, BERTH_I32, BERTH_I64, BERTH_I8, BERTH_U8, BERTH_BOOL};
enum { PLAIN = sizeof plain / sizeof plain[0] };

static cuda_kit_tolerance tolerance_of(berth_dtype dtype) {
    const double place = dtype == BERTH_F16 ? 0x1p-11 : dtype == BERTH_BF16 ? 0x1p-8 : 0;
    return (cuda_kit_tolerance){place + 1e-7, 1e-9};
}

// --- CUMSUM --------------------------------------------------------------------------------------

static void fill(kit_tensor* x) { kit_fill(x, x->view.dtype == BERTH_U8 ? 0 : -9, 9); }

static void compare_cumsum(kit_tensor* x, int32_t dim) {
    const berth_reduce_params params = {.dims = {1, {dim}}};
    berth_op_call call = {
        .input_count = 1, .inputs = {x->view}, .params = &params, .output_count = 1};
    const berth_dtype dtype = x->view.dtype;
    const bool keeps_type = berth_dtype_is_float(dtype) || dtype == BERTH_I64;
    const bool is_in_place = keeps_type && berth_view_is_contiguous(&x->view) && kit_int(0, 1) == 0;
    cuda_kit_compare(BERTH_OP_CUMSUM,
                     &call,
                     is_in_place ? 0 : -1,
                     berth_dtype_is_float(dtype) ? tolerance_of(dtype) : cuda_kit_exact);
}

static void running_sums_are_the_cpus_along_any_dimension(void** state) {
    (void)state;
    kit_seed(1);
    for (int round = 0; round < 200; ++round) {
        const berth_dtype dtype = plain[kit_int(0, PLAIN - 1)];
        int64_t dims[3] = {1, 1, 1};
        const int32_t rank = kit_dims(3, round % 3 == 0 ? 40 : 9, dims);
        kit_tensor x = kit_int(0, 1) == 0 ? kit_contiguous(dtype, rank, dims)
                                          : kit_strided(dtype, rank, dims, false, true);
        fill(&x);
        compare_cumsum(&x, (int32_t)kit_int(-rank, rank - 1));
        kit_free(&x);
    }
}

// about a thread's items, a warp's, a block's
static const int64_t sizes[] = {1, 7, 8, 9, 17, 255, 256, 257, 2047, 2048, 2049, 5000};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static void running_sums_of_any_length_are_the_cpus(void** state) {
    (void)state;
    kit_seed(2);
    for (int round = 0; round < 6 * SIZES; ++round) {
        const int64_t size = sizes[round % SIZES];
        const int64_t others = size > 1000 && round % 2 == 0 ? kit_int(1, 3) : kit_int(16, 19);
        const bool is_column = kit_int(0, 1) == 0;
        const int64_t dims[2] = {is_column ? size : others, is_column ? others : size};
        kit_tensor x = kit_contiguous(plain[kit_int(0, PLAIN - 1)], 2, dims);
        fill(&x);
        compare_cumsum(&x, is_column ? 0 : 1);
        kit_free(&x);
    }
}

/// The running sums of `x` along `dim`, in f32.
static kit_tensor run_cumsum(const kit_tensor* x, int32_t dim) {
    const berth_reduce_params params = {.dims = {1, {dim}}};
    berth_op_call call = {
        .input_count = 1, .inputs = {x->view}, .params = &params, .output_count = 1};
    kit_tensor out = kit_contiguous(BERTH_F32, 2, x->view.dims);
    call.outputs[0] = out.view;
    const berth_cuda_table* table = berth_cuda_kernel_table();
    cuda_kit_launch(table->kernels[BERTH_OP_CUMSUM], &call, table->scratch[BERTH_OP_CUMSUM](&call));
    return out;
}

static void a_running_sum_has_the_same_bits_along_a_line_and_along_a_column(void** state) {
    (void)state;
    kit_seed(3);
    for (int round = 0; round < SIZES; ++round) {
        const int64_t size = sizes[round], others = 17;
        const int64_t lines_dims[2] = {others, size}, columns_dims[2] = {size, others};
        kit_tensor lines = kit_contiguous(BERTH_F32, 2, lines_dims);
        kit_tensor columns = kit_contiguous(BERTH_F32, 2, columns_dims);
        for (int64_t i = 0; i < others * size; ++i) {
            const double value = ldexp(kit_real(-1, 1), (int)kit_int(-30, 30));
            kit_store(BERTH_F32, kit_at(&lines.view, i), value);
            kit_store(BERTH_F32, kit_at(&columns.view, i % size * others + i / size), value);
        }
        kit_tensor of_lines = run_cumsum(&lines, 1), of_columns = run_cumsum(&columns, 0);
        for (int64_t i = 0; i < others * size; ++i)
            assert_memory_equal(kit_at(&of_lines.view, i),
                                kit_at(&of_columns.view, i % size * others + i / size),
                                sizeof(float));
        kit_free(&lines);
        kit_free(&columns);
        kit_free(&of_lines);
        kit_free(&of_columns);
    }
}

// --- ROPE ----------------------------------------------------------------------------------------

/// Positions up to `most`, an i32 or an i64 each.
static kit_tensor draw_positions(int32_t rank, const int64_t* dims, int64_t most) {
    kit_tensor positions = kit_contiguous(kit_int(0, 1) == 0 ? BERTH_I32 : BERTH_I64, rank, dims);
    kit_fill(&positions, 0, (double)most);
    return positions;
}

/// Turns x [2, T, H, D] or, without the batch, [T, H, D].
static void compare_rope(const int64_t* dims, int32_t rotary, int64_t most) {
    const berth_dtype dtype = plain[kit_int(0, 2)];
    const bool has_batch = kit_int(0, 1) == 0;
    const int32_t rank = has_batch ? 4 : 3;
    const int64_t* x_dims = has_batch ? dims : dims + 1;
    kit_tensor x = kit_int(0, 1) == 0 ? kit_contiguous(dtype, rank, x_dims)
                                      : kit_strided(dtype, rank, x_dims, true, false);
    kit_fill(&x, -2, 2);
    const bool each_batch = has_batch && kit_int(0, 1) == 0;
    kit_tensor positions = draw_positions(each_batch ? 2 : 1, dims + (each_batch ? 0 : 1), most);
    const int64_t half = rotary / 2;
    kit_tensor divisors = kit_contiguous(BERTH_F32, 1, &half);
    kit_fill(&divisors, 1, 8);
    const berth_rope_params params = {.base = kit_int(0, 1) == 0 ? 1e4 : 5e5,
                                      .position_scale = kit_int(0, 1) == 0 ? 1 : 0.25,
                                      .rotary_dims = rotary,
                                      .halves = kit_int(0, 1) == 0};
    berth_op_call call = {.input_count = kit_int(0, 1) == 0 ? 2 : 3,
                          .inputs = {x.view, positions.view, divisors.view},
                          .params = &params,
                          .output_count = 1};
    cuda_kit_tolerance tolerance = tolerance_of(dtype);
    tolerance.relative += 1e-6;
    tolerance.absolute = 1e-6;
    const bool is_in_place = berth_view_is_contiguous(&x.view) && kit_int(0, 1) == 0;
    cuda_kit_compare(BERTH_OP_ROPE, &call, is_in_place ? 0 : -1, tolerance);
    kit_free(&x);
    kit_free(&positions);
    kit_free(&divisors);
}

static void heads_are_turned_as_on_the_cpu(void** state) {
    (void)state;
    kit_seed(4);
    for (int round = 0; round < 150; ++round) {
        const int64_t dims[4] = {2,
                                 kit_int(round % 9 == 0 ? 0 : 1, 5),
                                 kit_int(1, 7),
                                 kit_int(1, 5) * (round % 2 ? 16 : 3)};
        compare_rope(dims, (int32_t)(2 * kit_int(0, dims[3] / 2)), 5000);
    }
    const int64_t wide[4] = {2, 2, 2, 1300}; // more pairs than a block holds turns of
    for (int round = 0; round < 4; ++round)
        compare_rope(wide, 1280, 5000);
}

static void far_positions_are_turned_as_on_the_cpu(void** state) {
    (void)state;
    kit_seed(5);
    for (int round = 0; round < 20; ++round) {
        const int64_t dims[4] = {2, 3, 2, 64};
        compare_rope(dims, 64, 3000000);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(running_sums_are_the_cpus_along_any_dimension),
        cmocka_unit_test(running_sums_of_any_length_are_the_cpus),
        cmocka_unit_test(a_running_sum_has_the_same_bits_along_a_line_and_along_a_column),
        cmocka_unit_test(heads_are_turned_as_on_the_cpu),
        cmocka_unit_test(far_positions_are_turned_as_on_the_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
