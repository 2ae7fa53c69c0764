// SPDX-License-Identifier: Apache-2.0
// Launchers of SOFTMAX LOG_SOFTMAX LAYER_NORM RMS_NORM. How many threads share a row follows from
// its length alone, as do the elements that each of them takes.
#include "base/dims.h"
#include "base/dtype.h"
#include "base/op_params.h"
#include "device/cuda/cuda_launch_row.h"

#define THREADS BERTH_CUDA_ROW_THREADS
#define WARP_BITS 5
#define MOST_BITS 10

/// Elements that a thread keeps of few vectors.
static int64_t short_kept(berth_dtype dtype) {
    return BERTH_CUDA_ROW_VECTORS * 16 / (int64_t)berth_dtype_bytes(dtype);
}

/// True if a warp keeps a row in few vectors each.
static bool is_short(int64_t size, berth_dtype dtype) {
    return size <= short_kept(dtype) << WARP_BITS;
}

/// Twice as many threads, from a warp on, until each keeps `kept` elements of a row at most.
static uint32_t row_bits_of(int64_t size, int64_t kept) {
    uint32_t bits = WARP_BITS;
    while (bits < MOST_BITS && kept << bits < size)
        ++bits;
    return bits;
}

/// Enqueues a kernel of rows that 2^bits threads share: several warps' rows a block.
static void run_rows(berth_cuda_kernel kernel, int64_t rows, uint32_t bits, const void* args) {
    const uint32_t rows_a_block = bits == WARP_BITS ? THREADS >> WARP_BITS : 1;
    berth_cuda_run(
        kernel, (uint64_t)berth_cuda_ceil_div(rows, rows_a_block), rows_a_block << bits, args);
}

/// True if rows with such first elements and neighbours `stride` apart can be read 16 bytes a time.
static bool is_vector(const berth_view* view, const berth_cuda_walk* firsts, int64_t stride) {
    const int64_t vector = 16 / (int64_t)berth_dtype_bytes(view->dtype);
    return stride == 1 && berth_cuda_is_aligned(view->data) &&
           berth_cuda_walk_keeps(firsts, vector);
}

/// True if rows of `size` elements are whole vectors.
static bool is_whole(const berth_view* view, int64_t size) {
    return size * (int64_t)berth_dtype_bytes(view->dtype) % 16 == 0;
}

/// The same as is_vector() of a contiguous view whose rows have `size` elements.
static bool is_vector_to(const berth_view* view, int64_t size) {
    const int64_t vector = 16 / (int64_t)berth_dtype_bytes(view->dtype);
    const bool is_row_aligned = size % vector == 0 || berth_view_count(view) == size;
    return is_row_aligned && berth_cuda_is_aligned(view->data);
}

// --- Softmax ------------------------------------------------------------------------------------

/// The dimension's number; -1 for a rank of 0, which has one element.
static int32_t dim_of(const berth_op_call* call) {
    const berth_reduce_params* params = call->params;
    const uint32_t mask = berth_dims_mask(&params->dims, call->inputs[0].rank);
    for (int32_t d = 0; d < call->inputs[0].rank; ++d)
        if ((mask >> d & 1u) != 0) return d;
    return -1;
}

static uint32_t all_but(const berth_view* view, int32_t dim) {
    const uint32_t all = (UINT32_C(1) << view->rank) - 1;
    return dim < 0 ? all : all & ~(UINT32_C(1) << dim);
}

/// True if rows are kept in registers.
static bool is_kept(const berth_view* x, int32_t dim) {
    return dim < 0 ||
           (dim == x->rank - 1 && x->dims[dim] <= ((int64_t)BERTH_CUDA_ROW_KEPT << MOST_BITS));
}

static void softmax_kept(const berth_op_call* call, int32_t dim, bool is_log) {
    const berth_view* x = &call->inputs[0];
    const berth_view* out = &call->outputs[0];
    berth_cuda_softmax_args args = {
        .x = x->data,
        .out = out->data,
        .size = dim < 0 ? 1 : x->dims[dim],
        .stride = dim < 0 ? 1 : x->strides[dim],
        .dtype = (uint32_t)x->dtype,
        .is_log = is_log,
    };
    berth_cuda_walk_dims(x, all_but(x, dim), &args.kept);
    args.rows = args.kept.count;
    args.row_bits = row_bits_of(args.size, BERTH_CUDA_ROW_KEPT);
    args.is_vector = is_vector(x, &args.kept, args.stride);
    args.is_vector_to = is_vector_to(out, args.size);
    args.is_dense = args.is_vector && args.is_vector_to && is_whole(x, args.size);
    run_rows(is_short(args.size, x->dtype) ? BERTH_CUDA_KERNEL_softmax_short
                                           : BERTH_CUDA_KERNEL_softmax_long,
             args.rows,
             args.row_bits,
             &args);
}

static void softmax_by_powers(const berth_op_call* call, int32_t dim, bool is_log) {
    const berth_view* x = &call->inputs[0];
    const uint32_t mask = UINT32_C(1) << dim;
    const uint64_t reduce_bytes = berth_cuda_reduce_scratch(x, mask);
    float* powers = (float*)(void*)((unsigned char*)call->scratch + reduce_bytes);
    berth_cuda_reduce(
        BERTH_CUDA_KERNEL_logsumexp, x, mask, BERTH_CUDA_FINISH_POWERS, 0, powers, call->scratch);
    berth_cuda_softmax_apply_args args = {
        .x = x->data,
        .out = call->outputs[0].data,
        .powers = powers,
        .size = berth_cuda_divisor_make(x->dims[dim]),
        .dtype = (uint32_t)x->dtype,
        .is_log = is_log,
    };
    int64_t inner = 1;
    for (int32_t d = dim + 1; d < x->rank; ++d)
        inner *= x->dims[d];
    args.inner = berth_cuda_divisor_make(inner);
    const berth_view* operand = x;
    berth_cuda_walk_make(x, 1, &operand, &args.walk);
    args.count = args.walk.count;
    args.is_vector = berth_cuda_walk_is_dense(&args.walk, 0) && berth_cuda_is_aligned(args.x) &&
                     berth_cuda_is_aligned(args.out);
    args.is_row = args.is_vector && inner == 1 && is_whole(x, args.size.size);
    const int64_t vector = args.is_row ? 16 / (int64_t)berth_dtype_bytes(x->dtype) : 1;
    const int64_t threads = berth_cuda_ceil_div(args.count, BERTH_CUDA_ROW_VECTORS * vector);
    berth_cuda_run(BERTH_CUDA_KERNEL_softmax_apply,
                   berth_cuda_blocks_for((uint64_t)threads, THREADS),
                   THREADS,
                   &args);
}

static void run_softmax(const berth_op_call* call, bool is_log) {
    const int32_t dim = dim_of(call);
    if (berth_view_count(&call->outputs[0]) == 0) return;
    if (is_kept(&call->inputs[0], dim))
        softmax_kept(call, dim, is_log);
    else
        softmax_by_powers(call, dim, is_log);
}

static void launch_softmax(const berth_op_call* call) { run_softmax(call, false); }
static void launch_log_softmax(const berth_op_call* call) { run_softmax(call, true); }

static uint64_t scratch_softmax(const berth_op_call* call) {
    const berth_view* x = &call->inputs[0];
    const int32_t dim = dim_of(call);
    const int64_t count = berth_view_count(x);
    if (count == 0 || is_kept(x, dim)) return 0;
    return berth_cuda_reduce_scratch(x, UINT32_C(1) << dim) +
           (uint64_t)(count / x->dims[dim]) * 2 * sizeof(float);
}

// --- Norms --------------------------------------------------------------------------------------

static berth_cuda_columns columns_of(const berth_view* view) {
    if (view == NULL) return (berth_cuda_columns){.data = NULL};
    return (berth_cuda_columns){
        .data = view->data,
        .stride = view->strides[0],
        .dtype = (uint32_t)view->dtype,
        .is_vector = view->strides[0] == 1 && berth_cuda_is_aligned(view->data),
    };
}

/// The kernel of such rows, and how many threads share one.
static berth_cuda_kernel norm_kernel(berth_cuda_norm_args* args, berth_dtype dtype) {
    const int64_t few = short_kept(dtype);
    args->row_bits = row_bits_of(args->size, args->is_dense ? BERTH_CUDA_ROW_KEPT : few);
    if (args->is_dense && is_short(args->size, dtype)) return BERTH_CUDA_KERNEL_norm_dense;
    if (args->is_dense && args->size <= ((int64_t)BERTH_CUDA_ROW_KEPT << MOST_BITS))
        return BERTH_CUDA_KERNEL_norm_wide;
    if (args->size <= few << MOST_BITS) return BERTH_CUDA_KERNEL_norm_short;
    args->row_bits = MOST_BITS;
    return BERTH_CUDA_KERNEL_norm_long;
}

static void run_norm(const berth_op_call* call,
                     const berth_view* weight,
                     const berth_view* bias,
                     bool is_layer) {
    const berth_norm_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    const int32_t last = x->rank - 1;
    berth_cuda_norm_args args = {
        .x = x->data,
        .out = call->outputs[0].data,
        .weight = columns_of(weight),
        .bias = columns_of(bias),
        .size = x->dims[last],
        .stride = x->strides[last],
        .eps = params->eps,
        .dtype = (uint32_t)x->dtype,
        .is_layer = is_layer,
    };
    if (args.size == 0) return;
    berth_cuda_walk_dims(x, all_but(x, last), &args.kept);
    args.rows = args.kept.count;
    args.is_vector = is_vector(x, &args.kept, args.stride);
    args.is_vector_to = is_vector_to(&call->outputs[0], args.size);
    if (weight == NULL) args.weight.dtype = args.bias.dtype;
    args.is_dense = args.is_vector && args.is_vector_to && is_whole(x, args.size) &&
                    (weight == NULL || args.weight.is_vector) &&
                    (bias == NULL || (args.bias.is_vector && bias->dtype == args.weight.dtype));
    const berth_cuda_kernel kernel = norm_kernel(&args, x->dtype);
    run_rows(kernel, args.rows, args.row_bits, &args);
}

static void launch_rms_norm(const berth_op_call* call) {
    const berth_norm_params* params = call->params;
    run_norm(call, params->has_weight ? &call->inputs[1] : NULL, NULL, false);
}

static void launch_layer_norm(const berth_op_call* call) {
    const berth_norm_params* params = call->params;
    run_norm(call,
             params->has_weight ? &call->inputs[1] : NULL,
             params->has_bias ? &call->inputs[params->has_weight ? 2 : 1] : NULL,
             true);
}

void berth_cuda_fill_norm(berth_cuda_table* table) {
    table->kernels[BERTH_OP_SOFTMAX] = launch_softmax;
    table->kernels[BERTH_OP_LOG_SOFTMAX] = launch_log_softmax;
    table->scratch[BERTH_OP_SOFTMAX] = scratch_softmax;
    table->scratch[BERTH_OP_LOG_SOFTMAX] = scratch_softmax;
    table->kernels[BERTH_OP_RMS_NORM] = launch_rms_norm;
    table->kernels[BERTH_OP_LAYER_NORM] = launch_layer_norm;
}
