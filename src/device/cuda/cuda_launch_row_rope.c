// SPDX-License-Identifier: Apache-2.0
// Launcher of ROPE.
#include <math.h>

#include "base/dtype.h"
#include "base/op_params.h"
#include "device/cuda/cuda_launch_row.h"

#define WARP 32
/// Blocks a multiprocessor that are worth making the turns of a token more than once.
#define BLOCKS_EACH 4

/// Fills in shapes and strides; a missing batch has one entry.
static void describe(const berth_op_call* call, berth_cuda_rope_args* args) {
    const berth_view* x = &call->inputs[0];
    const berth_view* positions = &call->inputs[1];
    const int32_t first = x->rank - 3; // the tokens' dimension
    args->batches = first > 0 ? x->dims[0] : 1;
    args->tokens = x->dims[first];
    args->heads = x->dims[first + 1];
    args->head_size = x->dims[first + 2];
    args->strides[0] = first > 0 ? x->strides[0] : 0;
    args->strides[1] = x->strides[first];
    args->strides[2] = x->strides[first + 1];
    args->position_strides[0] = positions->rank > 1 ? positions->strides[0] : 0;
    args->position_strides[1] = positions->strides[positions->rank - 1];
}

static bool is_vector(const berth_cuda_rope_args* args, berth_dtype dtype) {
    const int64_t vector = 16 / (int64_t)berth_dtype_bytes(dtype);
    bool is_even = args->half % vector == 0 && args->head_size % vector == 0;
    for (int i = 0; i < 3; ++i)
        is_even = is_even && args->strides[i] % vector == 0;
    return is_even && berth_cuda_is_aligned(args->x) && berth_cuda_is_aligned(args->out);
}

/// Heads are shared out to several blocks where there are few tokens.
static void split_heads(berth_cuda_rope_args* args) {
    const int64_t rows = args->batches * args->tokens;
    const int64_t wanted = (int64_t)berth_cuda_query_multiprocessors() * BLOCKS_EACH;
    int64_t splits = rows < wanted ? berth_cuda_ceil_div(wanted, rows) : 1;
    if (splits > args->heads) splits = args->heads;
    args->heads_a_block = berth_cuda_ceil_div(args->heads, splits);
    args->splits = berth_cuda_ceil_div(args->heads, args->heads_a_block);
}

/// One for each turn: with several of the heads' vectors to move then, few threads ask for as much
/// as many, and more blocks fit.
static uint32_t threads_of(const berth_cuda_rope_args* args) {
    const int64_t threads = berth_cuda_power_of_two(args->half);
    if (threads < WARP) return WARP;
    return threads > BERTH_CUDA_ROW_THREADS ? BERTH_CUDA_ROW_THREADS : (uint32_t)threads;
}

static void launch_rope(const berth_op_call* call) {
    const berth_rope_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    if (berth_view_count(&call->outputs[0]) == 0) return;
    berth_cuda_rope_args args = {
        .x = x->data,
        .out = call->outputs[0].data,
        .positions = call->inputs[1].data,
        .divisors = call->input_count > 2 ? call->inputs[2].data : NULL,
        .log2_base = log2(params->base),
        .position_scale = params->position_scale,
        .half = params->rotary_dims / 2,
        .dtype = (uint32_t)x->dtype,
        .is_position_i32 = call->inputs[1].dtype == BERTH_I32,
        .halves = params->halves,
    };
    describe(call, &args);
    args.is_vector = is_vector(&args, x->dtype);
    split_heads(&args);
    berth_cuda_run(BERTH_CUDA_KERNEL_rope,
                   (uint64_t)(args.batches * args.tokens * args.splits),
                   threads_of(&args),
                   &args);
}

void berth_cuda_fill_rope(berth_cuda_table* table) { table->kernels[BERTH_OP_ROPE] = launch_rope; }
