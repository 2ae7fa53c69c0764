// SPDX-License-Identifier: Apache-2.0
// Kernels of the CUDA back end that sort and select, run on the host, against the CPU's.
#include "cuda/cuda_kernel_kit.h"

enum { ROUNDS = 60 };

static const berth_dtype plain_dtypes[] = {
    BERTH_F32, BERTH_F16, BERTH_BF16, BERTH_I32, BERTH_I64, BERTH_I8, BERTH_U8, BERTH_BOOL};

static berth_dtype any_dtype(void) { return plain_dtypes[kit_int(0, 7)]; }

/// Many equal elements, and among floats NaN, infinities and both zeros.
static void fill_ties(kit_tensor* tensor) {
    const berth_dtype dtype = tensor->view.dtype;
    const int64_t count = kit_count(&tensor->view), range = kit_int(1, 100);
    static const double special[] = {(double)NAN, (double)INFINITY, -(double)INFINITY, 0.0, -0.0};
    for (int64_t i = 0; i < count; ++i) {
        double value = (double)kit_int(dtype == BERTH_U8 ? 0 : -range, range);
        if (dtype == BERTH_BOOL) value = (double)kit_int(0, 1);
        if (dtype == BERTH_I64) value *= 1e15;
        if (berth_dtype_is_float(dtype) && kit_int(0, 7) == 0) value = special[kit_int(0, 4)];
        kit_store(dtype, kit_at(&tensor->view, i), value);
    }
}

static void fill_bytes(kit_tensor* tensor) {
    for (size_t i = 0; i < tensor->bytes; ++i)
        tensor->memory[KIT_GUARD + i] = (unsigned char)kit_next();
}

static kit_tensor any_tensor(berth_dtype dtype, int32_t rank, const int64_t* dims) {
    kit_tensor tensor = kit_int(0, 1) == 0 ? kit_contiguous(dtype, rank, dims)
                                           : kit_strided(dtype, rank, dims, false, true);
    fill_ties(&tensor);
    return tensor;
}

/// Few rows of `length` along a random dimension, which is returned.
static int32_t any_rows(int64_t length, int32_t* rank, int64_t* dims) {
    *rank = (int32_t)kit_int(1, 3);
    const int32_t dim = (int32_t)kit_int(0, *rank - 1);
    for (int32_t d = 0; d < *rank; ++d)
        dims[d] = d == dim ? length : kit_int(1, 3);
    return dim;
}

/// Lengths within a tile of shared memory, around its end, and of several tiles.
static int64_t any_length(int round) {
    static const int64_t lengths[] = {1023, 1024, 1025, 2047, 2048, 2049, 4100, 5000};
    if (round % 8 == 0) return lengths[round / 8 % 8];
    return kit_int(0, 20) == 0 ? 0 : kit_int(1, 130);
}

static void compare(berth_op_id op, const void* params, kit_tensor* x, uint32_t output_count) {
    berth_op_call call = {
        .input_count = 1, .output_count = output_count, .params = params, .inputs = {x->view}};
    cuda_kit_compare(op, &call, -1, cuda_kit_exact);
    kit_free(x);
}

static void sorted_rows_are_stable_with_nan_above_all(void** state) {
    (void)state;
    kit_seed(1);
    for (int round = 0; round < 2 * ROUNDS; ++round) {
        int64_t dims[3];
        int32_t rank;
        const berth_sort_params params = {
            .dim = any_rows(any_length(round), &rank, dims),
            .descending = kit_int(0, 1) == 0,
        };
        kit_tensor x = any_tensor(plain_dtypes[(round / 3) % 8], rank, dims);
        compare(BERTH_OP_SORT, &params, &x, (uint32_t)kit_int(1, 2));
    }
}

static void sorting_gives_indices_alone(void** state) {
    (void)state;
    kit_seed(2);
    for (int round = 0; round < ROUNDS; ++round) {
        int64_t dims[3];
        int32_t rank;
        const berth_sort_params params = {
            .dim = any_rows(any_length(round), &rank, dims),
            .descending = kit_int(0, 1) == 0,
        };
        kit_tensor x = any_tensor(any_dtype(), rank, dims);
        compare(BERTH_OP_ARGSORT, &params, &x, 1);
    }
    const berth_sort_params params = {.dim = 0};
    kit_tensor scalar = any_tensor(BERTH_F32, 0, NULL);
    compare(BERTH_OP_ARGSORT, &params, &scalar, 1);
}

static void the_first_of_a_row_are_those_that_sorting_puts_first(void** state) {
    (void)state;
    kit_seed(3);
    for (int round = 0; round < 2 * ROUNDS; ++round) {
        int64_t dims[3];
        int32_t rank;
        const int64_t length = any_length(round);
        const berth_topk_params params = {
            .k = kit_int(0, 2) == 0 ? kit_int(0, length) : kit_int(0, length < 9 ? length : 9),
            .dim = any_rows(length, &rank, dims),
            .largest = kit_int(0, 1) == 0,
        };
        kit_tensor x = any_tensor(any_dtype(), rank, dims);
        compare(BERTH_OP_TOPK, &params, &x, (uint32_t)kit_int(1, 2));
    }
}

static void more_rows_than_are_sorted_at_once_all_come_out(void** state) {
    (void)state;
    kit_seed(7);
    // rows of many tiles, and more of them than the workspace takes
    const berth_topk_params params = {.k = 3, .dim = 0, .largest = true};
    kit_tensor x = kit_contiguous(BERTH_I8, 2, (int64_t[2]){70000, 8});
    fill_bytes(&x);
    compare(BERTH_OP_TOPK, &params, &x, 2);
}

// --- Counted sizes ------------------------------------------------------------------------------

/// One device's kernels for an op of a counted size.
typedef struct counted_kernels {
    berth_scratch_rule scratch;
    berth_kernel counter;
    berth_kernel kernel;
} counted_kernels;

static counted_kernels kernels_of(berth_op_id op, int device) {
    const berth_op_desc* desc = &berth_op_table[op];
    const berth_cuda_table* cuda = berth_cuda_kernel_table();
    if (device == 0)
        return (counted_kernels){
            desc->scratch, desc->counters[BERTH_DEVICE_CPU], berth_cpu_kernels()[op]};
    return (counted_kernels){cuda->scratch[op], cuda->counters[op], cuda->kernels[op]};
}

/// Counts, makes the outputs and runs the kernel, as the runtime does.
static void run_counted(berth_op_id op, int device, berth_op_call* call, kit_tensor* outputs) {
    const counted_kernels kernels = kernels_of(op, device);
    for (uint32_t i = 0; i < call->output_count; ++i)
        call->outputs[i] = (berth_view){.dtype = BERTH_DTYPE_COUNT};
    assert_ok(berth_op_table[op].infer(call));
    call->scratch_bytes = kernels.scratch(call);
    kit_tensor workspace;
    kit_guard(&workspace, call->scratch_bytes + 64);
    const uintptr_t at = (uintptr_t)workspace.memory + KIT_GUARD;
    call->scratch = workspace.memory + KIT_GUARD + (64 - at % 64) % 64;
    kernels.counter(call);
    int64_t count;
    memcpy(&count, call->scratch, sizeof count);
    assert_true(count >= 0);
    for (uint32_t i = 0; i < call->output_count; ++i) {
        berth_view* out = &call->outputs[i];
        for (int32_t d = 0; d < out->rank; ++d)
            if (out->dims[d] == BERTH_DIM_COUNTED) out->dims[d] = count;
        outputs[i] = kit_contiguous(out->dtype, out->rank, out->dims);
        memset(outputs[i].view.data, 0x5A, outputs[i].bytes);
        *out = outputs[i].view;
    }
    kernels.kernel(call);
    kit_free(&workspace);
}

static void compare_counted(
    berth_op_id op, const void* params, uint32_t count, kit_tensor* operands, uint32_t results) {
    berth_op_call call = {.input_count = count, .output_count = results, .params = params};
    for (uint32_t i = 0; i < count; ++i)
        call.inputs[i] = operands[i].view;
    kit_tensor outputs[2][BERTH_OP_MAX_OUTPUTS];
    for (int device = 0; device < 2; ++device)
        run_counted(op, device, &call, outputs[device]);
    for (uint32_t i = 0; i < results; ++i) {
        for (int32_t d = 0; d < outputs[0][i].view.rank; ++d)
            assert_int_equal(outputs[0][i].view.dims[d], outputs[1][i].view.dims[d]);
        cuda_kit_compare_outputs(op, &outputs[0][i].view, &outputs[1][i].view, cuda_kit_exact);
        kit_free(&outputs[0][i]);
        kit_free(&outputs[1][i]);
    }
    for (uint32_t i = 0; i < count; ++i)
        kit_free(&operands[i]);
}

/// Shapes of up to a few chunks.
static int32_t any_dims(int32_t least, int64_t* dims) {
    const int32_t rank = (int32_t)kit_int(least, 3);
    for (int32_t d = 0; d < rank; ++d)
        dims[d] = kit_int(0, 30) == 0 ? 0 : kit_int(1, d == 0 ? 60 : 11);
    return rank;
}

static void indices_of_elements_that_are_not_zero_are_in_order(void** state) {
    (void)state;
    kit_seed(4);
    for (int round = 0; round < ROUNDS; ++round) {
        int64_t dims[3];
        const int32_t rank = any_dims(0, dims);
        kit_tensor x = any_tensor(any_dtype(), rank, dims);
        compare_counted(BERTH_OP_NONZERO, NULL, 1, &x, 1);
    }
}

static void indices_are_in_order_over_more_chunks_than_a_block_adds_up_at_once(void** state) {
    (void)state;
    kit_seed(8);
    kit_tensor x = kit_contiguous(BERTH_I8, 2, (int64_t[2]){700, 1000});
    fill_bytes(&x);
    compare_counted(BERTH_OP_NONZERO, NULL, 1, &x, 1);
}

static void selected_elements_are_those_under_the_mask(void** state) {
    (void)state;
    kit_seed(5);
    for (int round = 0; round < ROUNDS; ++round) {
        int64_t dims[3], mask_dims[3];
        const int32_t rank = any_dims(1, dims);
        memcpy(mask_dims, dims, sizeof dims);
        if (kit_int(0, 2) == 0) mask_dims[kit_int(0, rank - 1)] = 1;
        if (kit_int(0, 2) == 0) dims[kit_int(0, rank - 1)] = 1;
        const int32_t less = (int32_t)kit_int(0, 1);
        kit_tensor operands[2] = {
            any_tensor(any_dtype(), rank, dims),
            any_tensor(BERTH_BOOL, rank - less, mask_dims + less),
        };
        compare_counted(BERTH_OP_MASKED_SELECT, NULL, 2, operands, 1);
    }
}

static void distinct_elements_are_ascending_and_each_nan_is_one(void** state) {
    (void)state;
    kit_seed(6);
    for (int round = 0; round < ROUNDS; ++round) {
        int64_t dims[3];
        const int32_t rank = any_dims(0, dims);
        const berth_unique_params params = {
            .with_inverse = kit_int(0, 1) == 0,
            .with_counts = kit_int(0, 1) == 0,
        };
        const uint32_t results =
            1u + (params.with_inverse ? 1u : 0u) + (params.with_counts ? 1u : 0u);
        kit_tensor x = any_tensor(any_dtype(), rank, dims);
        compare_counted(BERTH_OP_UNIQUE, &params, 1, &x, results);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sorted_rows_are_stable_with_nan_above_all),
        cmocka_unit_test(sorting_gives_indices_alone),
        cmocka_unit_test(the_first_of_a_row_are_those_that_sorting_puts_first),
        cmocka_unit_test(more_rows_than_are_sorted_at_once_all_come_out),
        cmocka_unit_test(indices_of_elements_that_are_not_zero_are_in_order),
        cmocka_unit_test(indices_are_in_order_over_more_chunks_than_a_block_adds_up_at_once),
        cmocka_unit_test(selected_elements_are_those_under_the_mask),
        cmocka_unit_test(distinct_elements_are_ascending_and_each_nan_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
