// SPDX-License-Identifier: Apache-2.0
// Launchers of SUM MEAN PROD MAX MIN ARGMAX ARGMIN VAR LOGSUMEXP ANY ALL.
//
// How an output's elements are cut (lanes, chunks) follows from their number and type alone: bits
// depend on it. Who folds what (the mode, the threads of a column) follows from strides and from
// the number of outputs.
#include "base/checked.h"
#include "base/dims.h"
#include "base/dtype.h"
#include "base/op_params.h"
#include "device/cuda/cuda_launch_row.h"

#define THREADS BERTH_CUDA_ROW_THREADS
#define WARP 32
/// Vectors of an accumulator before outputs get a block's lanes, and in a chunk then.
#define VECTORS_A_LANE 8
/// Lanes that one thread of a column folds at least.
#define LEAST_LANES 4
/// Blocks that keep a multiprocessor busy.
#define BLOCKS_EACH 4
/// The most bytes that a chunk of elements folds to.
#define FOLD_BYTES 16

static int64_t vector_of(berth_dtype dtype) { return 16 / (int64_t)berth_dtype_bytes(dtype); }

/// Lanes and chunks of outputs of args->size elements.
static void cut(berth_cuda_reduce_args* args, berth_dtype dtype) {
    const int64_t vector = vector_of(dtype);
    const bool is_short = args->size <= VECTORS_A_LANE * WARP * vector;
    args->lanes = is_short ? WARP : THREADS;
    args->chunk = VECTORS_A_LANE * (int64_t)args->lanes * vector;
    args->chunks = args->size > args->chunk ? berth_cuda_ceil_div(args->size, args->chunk) : 1;
}

/// The distance of neighbours in the last dimension of a walk; `none` if it has no dimension.
static int64_t last_step(const berth_cuda_walk* walk, int64_t none) {
    return walk->rank > 0 ? berth_cuda_magnitude(walk->strides[0][walk->rank - 1]) : none;
}

/// True if neighbouring threads should take neighbouring outputs: those lie closer together than
/// an output's elements, or outputs are so small that one thread folds each.
static bool is_by_columns(const berth_cuda_reduce_args* args, int64_t vector) {
    if (args->size <= LEAST_LANES * vector) return true;
    const berth_cuda_walk* kept = &args->kept;
    return kept->rank > 0 && kept->dims[kept->rank - 1].size >= 4 &&
           last_step(kept, 0) < last_step(&args->reduced, 0);
}

/// Neighbouring columns of a block: half as many, or a quarter, where they are few, as more threads
/// then share a column; but not less than one access to memory fetches.
static int64_t width_of(const berth_cuda_reduce_args* args, int64_t most, int64_t vector) {
    const int64_t busy = (int64_t)berth_cuda_query_multiprocessors() * BLOCKS_EACH;
    int64_t width = most;
    while (width > 2 * vector && args->outputs / width * args->chunks < busy)
        width /= 2;
    return width;
}

/// Threads that share an output's chunk: more where there are few neighbours.
static void share_columns(berth_cuda_reduce_args* args, int64_t vector) {
    const int64_t elements = args->size < args->chunk ? args->size : args->chunk;
    const int64_t groups = berth_cuda_power_of_two(
        berth_cuda_ceil_div(elements > 0 ? elements : 1, LEAST_LANES * vector));
    const int64_t most_groups = args->lanes / LEAST_LANES;
    const int64_t used = groups < most_groups ? groups : most_groups;
    const berth_cuda_walk* kept = &args->kept;
    const int64_t columns =
        kept->rank > 0 ? berth_cuda_power_of_two(kept->dims[kept->rank - 1].size) : 1;
    const int64_t width = width_of(args, columns < WARP ? columns : WARP, vector);
    int64_t depth = used < THREADS / width ? used : THREADS / width;
    if (used / depth > 8) depth = used / 8; // a thread joins at most 32 lanes
    args->depth = (uint32_t)depth;
    args->lanes_a_thread = (uint32_t)(used / depth * LEAST_LANES);
}

static uint64_t choose_mode(berth_cuda_reduce_args* args, berth_dtype dtype) {
    const int64_t vector = vector_of(dtype);
    if (is_by_columns(args, vector)) {
        args->mode = BERTH_CUDA_REDUCE_COLUMNS;
        share_columns(args, vector);
        const int64_t width = THREADS / args->depth;
        return (uint64_t)(berth_cuda_ceil_div(args->outputs, width) * args->chunks);
    }
    if (args->lanes == WARP) {
        args->mode = BERTH_CUDA_REDUCE_WARPS;
        return (uint64_t)berth_cuda_ceil_div(args->outputs, THREADS / WARP);
    }
    args->mode = BERTH_CUDA_REDUCE_BLOCKS;
    return (uint64_t)(args->outputs * args->chunks);
}

static void describe(const berth_view* x, uint32_t mask, berth_cuda_reduce_args* args) {
    const uint32_t all = (UINT32_C(1) << x->rank) - 1;
    berth_cuda_walk_dims(x, all & ~mask, &args->kept);
    berth_cuda_walk_dims(x, all & mask, &args->reduced);
    args->outputs = args->kept.count;
    args->size = args->reduced.count;
    args->dtype = (uint32_t)x->dtype;
    cut(args, x->dtype);
}

void berth_cuda_reduce(berth_cuda_kernel kernel,
                       const berth_view* x,
                       uint32_t mask,
                       uint32_t finish,
                       double correction,
                       void* out,
                       void* scratch) {
    berth_cuda_reduce_args args = {
        .x = x->data,
        .out = out,
        .partials = scratch,
        .correction = correction,
        .finish = finish,
    };
    describe(x, mask, &args);
    const bool is_dense = args.reduced.rank == 0 || berth_cuda_walk_is_dense(&args.reduced, 0);
    args.is_vector = is_dense && berth_cuda_is_aligned(x->data) &&
                     berth_cuda_walk_keeps(&args.kept, vector_of(x->dtype));
    const uint64_t blocks = choose_mode(&args, x->dtype);
    berth_cuda_run(kernel, blocks, THREADS, &args);
    if (args.chunks == 1) return;
    args.mode = BERTH_CUDA_REDUCE_MERGE;
    berth_cuda_run(kernel, (uint64_t)args.outputs, THREADS, &args);
}

uint64_t berth_cuda_reduce_scratch(const berth_view* x, uint32_t mask) {
    berth_cuda_reduce_args args;
    describe(x, mask, &args);
    if (args.chunks == 1) return 0;
    return berth_round_up((uint64_t)(args.outputs * args.chunks) * FOLD_BYTES, 64);
}

// --- The ops ------------------------------------------------------------------------------------

static uint32_t mask_of(const berth_op_call* call) {
    const berth_reduce_params* params = call->params;
    return berth_dims_mask(&params->dims, call->inputs[0].rank);
}

static uint64_t scratch_reduce(const berth_op_call* call) {
    return berth_cuda_reduce_scratch(&call->inputs[0], mask_of(call));
}

static void run(const berth_op_call* call, berth_cuda_kernel kernel, uint32_t finish) {
    const berth_reduce_params* params = call->params;
    berth_cuda_reduce(kernel,
                      &call->inputs[0],
                      mask_of(call),
                      finish,
                      params->correction,
                      call->outputs[0].data,
                      call->scratch);
}

#define DEFINE_LAUNCHER(name, finish, floats, integers)                                            \
    static void launch_##name(const berth_op_call* call) {                                         \
        const bool is_float = berth_dtype_is_float(call->inputs[0].dtype);                         \
        run(call,                                                                                  \
            is_float ? BERTH_CUDA_KERNEL_##floats : BERTH_CUDA_KERNEL_##integers,                  \
            BERTH_CUDA_FINISH_##finish);                                                           \
    }
DEFINE_LAUNCHER(sum, VALUE, sum_floats, sum_integers)
DEFINE_LAUNCHER(mean, MEAN, sum_floats, sum_floats)
DEFINE_LAUNCHER(prod, VALUE, prod_floats, prod_integers)
DEFINE_LAUNCHER(max, VALUE, max_floats, max_integers)
DEFINE_LAUNCHER(min, VALUE, min_floats, min_integers)
DEFINE_LAUNCHER(argmax, VALUE, argmax_floats, argmax_integers)
DEFINE_LAUNCHER(argmin, VALUE, argmin_floats, argmin_integers)
DEFINE_LAUNCHER(var, VALUE, variance, variance)
DEFINE_LAUNCHER(logsumexp, VALUE, logsumexp, logsumexp)
DEFINE_LAUNCHER(any, VALUE, any, any)
DEFINE_LAUNCHER(all, VALUE, all, all)

void berth_cuda_fill_reduce(berth_cuda_table* table) {
    table->kernels[BERTH_OP_SUM] = launch_sum;
    table->kernels[BERTH_OP_MEAN] = launch_mean;
    table->kernels[BERTH_OP_PROD] = launch_prod;
    table->kernels[BERTH_OP_MAX] = launch_max;
    table->kernels[BERTH_OP_MIN] = launch_min;
    table->kernels[BERTH_OP_ARGMAX] = launch_argmax;
    table->kernels[BERTH_OP_ARGMIN] = launch_argmin;
    table->kernels[BERTH_OP_VAR] = launch_var;
    table->kernels[BERTH_OP_LOGSUMEXP] = launch_logsumexp;
    table->kernels[BERTH_OP_ANY] = launch_any;
    table->kernels[BERTH_OP_ALL] = launch_all;
    for (int op = BERTH_OP_SUM; op <= BERTH_OP_ALL; ++op)
        table->scratch[op] = scratch_reduce;
}
