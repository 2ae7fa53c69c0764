// SPDX-License-Identifier: Apache-2.0
// Launcher of CUMSUM. Outputs of one chunk take one kernel, longer ones three: the chunks' sums,
// the sums before each, the elements. Bits are the same whichever kernel takes them.
#include "base/dims.h"
#include "base/dtype.h"
#include "base/op_params.h"
#include "device/cuda/cuda_launch_row.h"

#define THREADS BERTH_CUDA_ROW_THREADS
#define SUM_BYTES 8
#define WARP 32

/// The dimension and how it is cut; false if there is nothing to do.
static bool describe(const berth_op_call* call, berth_cuda_running_args* args) {
    const berth_reduce_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    const uint32_t all = (UINT32_C(1) << x->rank) - 1;
    const uint32_t mask = berth_dims_mask(&params->dims, x->rank) & all;
    *args = (berth_cuda_running_args){.size = 1, .inner = 1, .stride = 1};
    for (int32_t d = 0; d < x->rank; ++d) {
        if ((mask >> d & 1u) == 0) {
            args->inner *= x->dims[d];
            continue;
        }
        args->size = x->dims[d];
        args->stride = x->strides[d];
        args->inner = 1;
    }
    berth_cuda_walk_dims(x, all & ~mask, &args->kept);
    args->outputs = args->kept.count;
    args->chunks = berth_cuda_ceil_div(args->size, BERTH_CUDA_RUNNING_CHUNK);
    args->dtype = (uint32_t)x->dtype;
    return args->outputs > 0 && args->size > 0;
}

static uint64_t scratch_cumsum(const berth_op_call* call) {
    berth_cuda_running_args args;
    if (!describe(call, &args) || args.chunks == 1) return 0;
    return (uint64_t)(args.outputs * args.chunks) * SUM_BYTES;
}

/// True if threads should take a column each: neighbouring columns lie closer together than a
/// column's elements, or columns are short.
static bool is_by_columns(const berth_cuda_running_args* args) {
    if (args->size <= 2 * BERTH_CUDA_RUNNING_ITEMS) return true;
    const berth_cuda_walk* kept = &args->kept;
    return kept->rank > 0 && kept->dims[kept->rank - 1].size >= 16 &&
           berth_cuda_magnitude(kept->strides[0][kept->rank - 1]) <
               berth_cuda_magnitude(args->stride);
}

static bool is_aligned_by(int64_t elements, berth_dtype dtype) {
    return elements * (int64_t)berth_dtype_bytes(dtype) % 16 == 0;
}

/// As many warps as a line of one chunk has items for.
static uint32_t line_threads(const berth_cuda_running_args* args) {
    if (args->chunks > 1) return THREADS;
    const int64_t threads = berth_cuda_ceil_div(args->size, BERTH_CUDA_RUNNING_ITEMS);
    return (uint32_t)(berth_cuda_ceil_div(threads, WARP) * WARP);
}

static void run_sums(const berth_cuda_running_args* args, bool is_total) {
    berth_cuda_running_args of_pass = *args;
    of_pass.is_total = is_total;
    const int64_t items = args->outputs * args->chunks;
    if (is_by_columns(args))
        berth_cuda_run(BERTH_CUDA_KERNEL_running_columns,
                       (uint64_t)berth_cuda_ceil_div(items, THREADS),
                       THREADS,
                       &of_pass);
    else
        berth_cuda_run(
            BERTH_CUDA_KERNEL_running_lines, (uint64_t)items, line_threads(args), &of_pass);
}

static void launch_cumsum(const berth_op_call* call) {
    const berth_view* x = &call->inputs[0];
    const berth_view* out = &call->outputs[0];
    berth_cuda_running_args args;
    if (!describe(call, &args)) return;
    args.x = x->data;
    args.out = out->data;
    args.carries = args.chunks > 1 ? call->scratch : NULL;
    // a thread's items are read 16 bytes at a time, or all at once where they are fewer
    args.is_vector = args.stride == 1 && berth_cuda_is_aligned(x->data) &&
                     berth_cuda_walk_keeps(&args.kept, 16 / (int64_t)berth_dtype_bytes(x->dtype));
    args.is_vector_to = args.inner == 1 && berth_cuda_is_aligned(out->data) &&
                        (args.outputs == 1 || is_aligned_by(args.size, out->dtype));
    if (args.chunks > 1) {
        run_sums(&args, true);
        berth_cuda_run(BERTH_CUDA_KERNEL_running_carries,
                       (uint64_t)berth_cuda_ceil_div(args.outputs, THREADS),
                       THREADS,
                       &args);
    }
    run_sums(&args, false);
}

void berth_cuda_fill_running(berth_cuda_table* table) {
    table->kernels[BERTH_OP_CUMSUM] = launch_cumsum;
    table->scratch[BERTH_OP_CUMSUM] = scratch_cumsum;
}
