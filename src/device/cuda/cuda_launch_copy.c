// SPDX-License-Identifier: Apache-2.0
// The launcher of COPY: whole words as large as addresses and strides allow; or, where the input's
// neighbours are not the output's, tiles that are transposed.
#include "device/cuda/cuda_launch_copy.h"

#include "base/dtype.h"

enum {
    THREADS = BERTH_CUDA_ELEMENT_THREADS,
    READS = BERTH_CUDA_COPY_READS,
    LEAST_TURNED = 4, // neighbours in the input that are worth a transposition
};

// --- Words --------------------------------------------------------------------------------------

/// The largest word of at most 16 bytes that divides all of `bits`.
static uint32_t word_of(uint64_t bits) {
    uint32_t bytes = 16;
    while (bits % bytes != 0)
        bytes /= 2;
    return bytes;
}

/// Makes the last dimension of `items`, each of `item_bytes`, one of bytes that lie one after
/// another, and all strides bytes. False where that cannot be: then an item is a word.
static bool to_bytes(berth_view* items, int64_t item_bytes) {
    const int32_t last = items->rank - 1;
    const bool is_dense = last >= 0 && items->strides[last] == 1;
    if (!is_dense && item_bytes <= 8) return false;
    for (int32_t d = 0; d <= last; ++d)
        items->strides[d] *= item_bytes;
    // blocks that are not dense have lost their last dimension, so there is room for another
    const int32_t own = is_dense ? last : items->rank++;
    items->dims[own] = (is_dense ? items->dims[own] : 1) * item_bytes;
    items->strides[own] = 1;
    return true;
}

/// Takes words instead of bytes.
static void widen(berth_view* bytes, uint32_t word) {
    const int32_t last = bytes->rank - 1;
    for (int32_t d = 0; d < last; ++d)
        bytes->strides[d] /= word;
    bytes->dims[last] /= word;
}

static void copy_words(berth_view* items, int64_t item_bytes, void* out) {
    berth_cuda_copy_args args = {
        .out = out, .from = items->data, .word_bytes = (uint32_t)item_bytes};
    if (to_bytes(items, item_bytes)) {
        const int32_t last = items->rank - 1;
        uint64_t bits = (uint64_t)(uintptr_t)items->data | (uint64_t)(uintptr_t)out |
                        (uint64_t)items->dims[last];
        for (int32_t d = 0; d < last; ++d)
            bits |= (uint64_t)items->strides[d];
        args.word_bytes = word_of(bits);
        widen(items, args.word_bytes);
    }
    const berth_view* const operands[1] = {items};
    berth_cuda_walk_make(items, 1, operands, &args.walk);
    const uint64_t threads = ((uint64_t)args.walk.count + READS - 1) / READS;
    berth_cuda_run(BERTH_CUDA_KERNEL_copy, berth_cuda_blocks_for(threads, THREADS), THREADS, &args);
}

// --- Transpositions -----------------------------------------------------------------------------

/// The dimension of a walk whose items are neighbours, if it is not the last and large enough; else
/// -1.
static int32_t find_turned(const berth_cuda_walk* walk) {
    const int32_t last = walk->rank - 1;
    if (last < 1 || walk->dims[last].size < LEAST_TURNED) return -1;
    if (walk->strides[0][last] == 0 || walk->strides[0][last] == 1) return -1;
    for (int32_t d = 0; d < last; ++d)
        if (walk->strides[0][d] == 1 && walk->dims[d].size >= LEAST_TURNED) return d;
    return -1;
}

static berth_cuda_divisor tiles_of(int64_t items, int64_t item_bytes) {
    return berth_cuda_divisor_make(berth_cuda_ceil_div(items, BERTH_CUDA_TURN_SIDE(item_bytes)));
}

static void turn(
    const berth_cuda_walk* walk, int32_t turned, int64_t item_bytes, const void* from, void* out) {
    const int32_t last = walk->rank - 1;
    int64_t out_strides[BERTH_CUDA_WALK_RANK];
    int64_t stride = 1;
    for (int32_t d = last; d >= 0; --d) {
        out_strides[d] = stride;
        stride *= walk->dims[d].size;
    }
    berth_cuda_turn_args args = {
        .matrices = berth_cuda_walk_begin(),
        .out = out,
        .from = from,
        .rows = walk->dims[turned].size,
        .columns = walk->dims[last].size,
        .row_stride = out_strides[turned],
        .column_stride = walk->strides[0][last],
        .row_tiles = tiles_of(walk->dims[turned].size, item_bytes),
        .column_tiles = tiles_of(walk->dims[last].size, item_bytes),
        .item_bytes = (uint32_t)item_bytes,
    };
    for (int32_t d = 0; d < last; ++d) {
        const int64_t strides[BERTH_CUDA_WALK_OPERANDS] = {walk->strides[0][d], out_strides[d]};
        if (d != turned) berth_cuda_walk_append(&args.matrices, walk->dims[d].size, strides);
    }
    berth_cuda_walk_finish(&args.matrices);
    const uint64_t tiles =
        (uint64_t)(args.matrices.count * args.row_tiles.size * args.column_tiles.size);
    args.is_small = tiles < INT32_MAX;
    const uint64_t blocks = args.is_small ? tiles : INT32_MAX;
    berth_cuda_run(BERTH_CUDA_KERNEL_turn, blocks, THREADS, &args);
}

// --- Copies -------------------------------------------------------------------------------------

/// The items of `view`: elements, or blocks of a quantised type.
static berth_view items_of(const berth_view* view, int64_t* out_bytes) {
    const berth_dtype_info* info = berth_dtype_info_of(view->dtype);
    berth_view items = *view;
    if (view->rank > 0) items.dims[view->rank - 1] /= (int64_t)info->block_values;
    *out_bytes = (int64_t)info->block_bytes;
    return items;
}

void berth_cuda_copy_view(const berth_view* from, void* out) {
    int64_t bytes;
    const berth_view items = items_of(from, &bytes);
    const berth_view* const operands[1] = {&items};
    berth_cuda_walk walk;
    berth_cuda_walk_make(&items, 1, operands, &walk);
    if (walk.count == 0) return;
    const int32_t turned = bytes <= 8 ? find_turned(&walk) : -1;
    if (turned >= 0) {
        turn(&walk, turned, bytes, from->data, out);
        return;
    }
    // the walk's own dimensions: fewer than the view's
    berth_view joined = items;
    joined.rank = walk.rank;
    for (int32_t d = 0; d < walk.rank; ++d) {
        joined.dims[d] = walk.dims[d].size;
        joined.strides[d] = walk.strides[0][d];
    }
    copy_words(&joined, bytes, out);
}

void berth_cuda_bring_turned(const berth_op_call* call, berth_view* x) {
    const berth_view* out = &call->outputs[0];
    if (!berth_dtype_is_plain(x->dtype) || x->rank != out->rank ||
        berth_dtype_bytes(x->dtype) != berth_dtype_bytes(out->dtype))
        return;
    for (int32_t d = 0; d < x->rank; ++d)
        if (x->dims[d] != out->dims[d]) return;
    for (uint32_t i = 0; i < call->input_count; ++i)
        if (call->inputs[i].data == out->data) return;
    const berth_view* const operands[1] = {x};
    berth_cuda_walk walk;
    berth_cuda_walk_make(out, 1, operands, &walk);
    if (find_turned(&walk) < 0) return;
    berth_cuda_copy_view(x, out->data);
    const berth_dtype dtype = x->dtype;
    *x = *out;
    x->dtype = dtype;
}

static void launch_copy(const berth_op_call* call) {
    berth_cuda_copy_view(&call->inputs[0], call->outputs[0].data);
}

void berth_cuda_fill_copy(berth_cuda_table* table) { table->kernels[BERTH_OP_COPY] = launch_copy; }
