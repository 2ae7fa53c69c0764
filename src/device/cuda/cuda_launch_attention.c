// SPDX-License-Identifier: Apache-2.0
// Launchers of the ops whose kernels are in cuda_attention*.cu.
#include "base/dtype.h"
#include "base/op_params.h"
#include "device/cuda/cuda_launch.h"

#define THREADS 128
#define ROWS 16     // of a block
#define COLUMNS 128 // of values, of a block
#define PREPARE_THREADS 256
#define MOST_BLOCKS (1 << 30)

static bool is_aligned(const void* data, int64_t stride_bytes) {
    return (uintptr_t)data % 16 == 0 && stride_bytes % 16 == 0;
}

/// [batch or block, row, head, values], or without the first.
static berth_cuda_cached cached_of(const berth_view* x) {
    const int32_t first = x->rank - 3;
    const int64_t bytes = berth_dtype_bytes(x->dtype);
    berth_cuda_cached cached = {
        .data = x->data,
        .block = first > 0 ? x->strides[0] : 0,
        .row = x->strides[first],
        .head = x->strides[first + 1],
    };
    cached.is_aligned = is_aligned(x->data, cached.block * bytes) &&
                        is_aligned(x->data, cached.row * bytes) &&
                        is_aligned(x->data, cached.head * bytes);
    return cached;
}

static berth_cuda_rows rows_of(const berth_view* x) {
    const berth_cuda_cached cached = cached_of(x);
    return (berth_cuda_rows){
        .data = x->data,
        .batch = cached.block,
        .row = cached.row,
        .head = cached.head,
        .dtype = (int32_t)x->dtype,
        .is_aligned = cached.is_aligned,
    };
}

/// What both ops have: q [.., tokens, heads, depth] and keys and values [.., rows, heads, ..].
static void describe(const berth_op_call* call, berth_cuda_attention_args* args) {
    const berth_view* q = &call->inputs[0];
    const berth_view* keys = &call->inputs[1];
    const berth_view* values = &call->inputs[2];
    *args = (berth_cuda_attention_args){
        .q = rows_of(q),
        .keys = cached_of(keys),
        .values = cached_of(values),
        .out = call->outputs[0].data,
        .batches = 1,
        .tokens = q->dims[q->rank - 3],
        .heads = q->dims[q->rank - 2],
        .kv_heads = keys->dims[keys->rank - 2],
        .depth = q->dims[q->rank - 1],
        .width = values->dims[values->rank - 1],
        .new_count = -1,
        .dtype = (int32_t)keys->dtype,
    };
}

static berth_cuda_kernel kernel_of(berth_dtype dtype) {
    if (dtype == BERTH_F32) return BERTH_CUDA_KERNEL_attention_f32;
    if (dtype == BERTH_F16) return BERTH_CUDA_KERNEL_attention_f16;
    return dtype == BERTH_BF16 ? BERTH_CUDA_KERNEL_attention_bf16
                               : BERTH_CUDA_KERNEL_attention_q8_0;
}

static bool has_output(const berth_cuda_attention_args* args) {
    return args->batches > 0 && args->tokens > 0 && args->heads > 0 && args->width > 0;
}

static void run_attention(const berth_cuda_attention_args* args) {
    if (!has_output(args)) return;
    const uint64_t tiles =
        (uint64_t)berth_cuda_ceil_div(args->tokens * (args->heads / args->kv_heads), ROWS);
    const uint64_t parts = args->sequences != NULL ? tiles + (uint64_t)args->sequence_count
                                                   : tiles * (uint64_t)args->batches;
    const uint64_t blocks =
        parts * (uint64_t)args->kv_heads * (uint64_t)berth_cuda_ceil_div(args->width, COLUMNS);
    berth_cuda_run(kernel_of((berth_dtype)args->dtype),
                   blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS,
                   THREADS,
                   args);
}

// --- ATTENTION -----------------------------------------------------------------------------------

/// The mask's strides over [batch, head, token, key]: 0 where it is repeated.
static void describe_mask(const berth_view* mask, berth_cuda_attention_args* args) {
    args->mask = mask->data;
    args->mask_dtype = (int32_t)mask->dtype;
    for (int32_t d = 0; d < 4; ++d)
        args->mask_strides[d] = berth_cuda_broadcast_stride(mask, 4, d);
}

static void launch_attention(const berth_op_call* call) {
    const berth_attention_params* params = call->params;
    const berth_view* keys = &call->inputs[1];
    berth_cuda_attention_args args;
    describe(call, &args);
    args.scale = params->scale;
    if (keys->rank == 4) args.batches = keys->dims[0];
    args.key_count = keys->dims[keys->rank - 3];
    // an offset beyond the keys may be so large that nothing can be added to it
    const bool sees_all = !params->causal || params->query_offset >= args.key_count;
    args.first_seen = sees_all ? args.key_count : params->query_offset + 1;
    if (call->input_count == 4) describe_mask(&call->inputs[3], &args);
    run_attention(&args);
}

// --- PAGED_ATTENTION -----------------------------------------------------------------------------

static void launch_paged_attention(const berth_op_call* call) {
    const berth_paged_attention_params* params = call->params;
    const berth_view* keys = &call->inputs[1];
    const berth_view* sequences = &call->inputs[3];
    const berth_view* table = &call->inputs[4];
    berth_cuda_attention_args args;
    describe(call, &args);
    args.scale = params->scale;
    args.sequences = sequences->data;
    args.sequence_row = sequences->strides[0];
    args.sequence_number = sequences->strides[1];
    args.sequence_count = sequences->dims[0];
    args.table = table->data;
    args.table_stride = table->strides[0];
    args.entry_count = table->dims[0];
    args.block_count = keys->dims[0];
    args.block_keys = keys->dims[1];
    if (call->input_count > 6) {
        args.new_keys = rows_of(&call->inputs[5]);
        args.new_values = rows_of(&call->inputs[6]);
        args.new_count = call->inputs[5].dims[0];
    }
    const int64_t values = has_output(&args) ? args.tokens * args.heads * args.width : 0;
    const uint64_t zeroing = berth_cuda_blocks_for((uint64_t)values, PREPARE_THREADS);
    const uint64_t most = 4 * (uint64_t)berth_cuda_query_multiprocessors();
    const uint64_t rows = args.new_count > 0 ? (uint64_t)args.new_count : 0;
    const uint64_t writing = rows < most ? rows : most;
    berth_cuda_run(BERTH_CUDA_KERNEL_attention_prepare,
                   zeroing > writing ? zeroing : writing,
                   PREPARE_THREADS,
                   &args);
    if (args.sequence_count > 0) run_attention(&args);
}

void berth_cuda_fill_attention(berth_cuda_table* table) {
    table->kernels[BERTH_OP_ATTENTION] = launch_attention;
    table->kernels[BERTH_OP_PAGED_ATTENTION] = launch_paged_attention;
}
