// SPDX-License-Identifier: Apache-2.0
// Launchers of the ops whose kernels are in cuda_index.cu and cuda_index_fit.cu.
#include <string.h>

#include "base/dtype.h"
#include "base/op_params.h"
#include "device/cuda/cuda_launch.h"
#include "device/cuda/cuda_launch_value.h"

enum {
    THREADS = BERTH_CUDA_INDEX_THREADS,
    SOME = BERTH_CUDA_INDEX_READS,
    BUSY_THREADS = 1024, // of a multiprocessor, that go through lines
};

static void run_units(berth_cuda_kernel kernel, int64_t count, const void* args) {
    const uint64_t threads = ((uint64_t)count + SOME - 1) / SOME;
    if (count > 0) berth_cuda_run(kernel, berth_cuda_blocks_for(threads, THREADS), THREADS, args);
}

/// Bits of an address or of a distance in bytes, for berth_cuda_walk_widen().
static uint64_t bits_of(const void* address) { return (uint64_t)(uintptr_t)address; }

/// An element of `bytes`, over and over.
static void fill_unit(uint64_t unit[BERTH_CUDA_UNIT_BYTES / 8], const void* item, int64_t bytes) {
    for (int64_t at = 0; at < BERTH_CUDA_UNIT_BYTES; at += bytes)
        memcpy((unsigned char*)unit + at, item, (size_t)bytes);
}

/// The strides of contiguous memory.
static void dense_strides(const berth_view* shape, int64_t strides[BERTH_MAX_RANK]) {
    int64_t stride = 1;
    for (int32_t d = shape->rank; d-- > 0;) {
        strides[d] = stride;
        stride *= shape->dims[d];
    }
}

// --- Placing ------------------------------------------------------------------------------------

/// Goes along a walk from `source` to `target`, elements of `dtype`.
static void run_place(
    berth_cuda_walk* walk, berth_dtype dtype, const void* source, void* target, bool is_dense) {
    berth_cuda_place_args args = {.source = source, .target = target, .is_dense = is_dense};
    const uint64_t places = bits_of(source) | bits_of(target);
    args.unit_bytes = berth_cuda_walk_widen(walk, 3, berth_dtype_bytes(dtype), places);
    berth_cuda_walk_finish(walk);
    args.walk = *walk;
    run_units(BERTH_CUDA_KERNEL_place, walk->count, &args);
}

/// Puts `part` where it belongs in the output, whose dimension `d + 1` is part's `d` from
/// `inserted` on (no dimension: BERTH_MAX_RANK). Its first element goes to `target`.
static void put_part(const berth_view* out,
                     const berth_view* part,
                     int32_t inserted,
                     unsigned char* target) {
    int64_t strides[BERTH_MAX_RANK];
    dense_strides(out, strides);
    berth_cuda_walk walk = berth_cuda_walk_begin();
    for (int32_t d = 0; d < part->rank; ++d) {
        const int64_t own[BERTH_CUDA_WALK_OPERANDS] = {part->strides[d],
                                                       strides[d >= inserted ? d + 1 : d]};
        berth_cuda_walk_append(&walk, part->dims[d], own);
    }
    if (walk.count == 0) return;
    if (part->dtype == out->dtype) {
        run_place(&walk, out->dtype, part->data, target, false);
        return;
    }
    berth_cuda_walk_finish(&walk);
    const berth_cuda_convert_args args = {
        .walk = walk,
        .source = part->data,
        .target = target,
        .from = (int32_t)part->dtype,
        .to = (int32_t)out->dtype,
    };
    const uint64_t blocks = berth_cuda_blocks_for((uint64_t)walk.count, THREADS);
    berth_cuda_run(BERTH_CUDA_KERNEL_place_as, blocks, THREADS, &args);
}

/// Puts inputs [first, ...) into the output, from place `begin` of dimension `dim` on.
static void join_inputs(const berth_op_call* call, uint32_t first, bool is_stack) {
    const berth_join_params* params = call->params;
    const berth_view* out = &call->outputs[0];
    int64_t strides[BERTH_MAX_RANK];
    dense_strides(out, strides);
    const int64_t place_bytes = strides[params->dim] * berth_dtype_bytes(out->dtype);
    unsigned char* target = out->data;
    if (berth_view_count(out) > 0) target += params->begin * place_bytes;
    for (uint32_t i = first; i < call->input_count; ++i) {
        const berth_view* part = &call->inputs[i];
        if (berth_view_count(part) == 0) continue;
        put_part(out, part, is_stack ? params->dim : BERTH_MAX_RANK, target);
        target += (is_stack ? 1 : part->dims[params->dim]) * place_bytes;
    }
}

static void launch_cat(const berth_op_call* call) { join_inputs(call, 0, false); }
static void launch_cat_more(const berth_op_call* call) { join_inputs(call, 1, false); }
static void launch_stack(const berth_op_call* call) { join_inputs(call, 0, true); }
static void launch_stack_more(const berth_op_call* call) { join_inputs(call, 1, true); }

static void launch_roll(const berth_op_call* call) {
    const berth_roll_params* params = call->params;
    const berth_view* out = &call->outputs[0];
    const int32_t dim = params->dim;
    berth_view part = call->inputs[0];
    if (berth_view_count(&part) == 0) return;
    const int64_t bytes = berth_dtype_bytes(part.dtype), size = part.dims[dim];
    int64_t head = params->shift % size; // elements that come from the end
    if (head < 0) head += size;
    int64_t strides[BERTH_MAX_RANK];
    dense_strides(out, strides);
    part.dims[dim] = size - head;
    put_part(out, &part, BERTH_MAX_RANK, (unsigned char*)out->data + head * strides[dim] * bytes);
    part.dims[dim] = head;
    part.data = (unsigned char*)part.data + (size - head) * part.strides[dim] * bytes;
    if (head > 0) put_part(out, &part, BERTH_MAX_RANK, out->data);
}

static void launch_repeat(const berth_op_call* call) {
    const berth_repeat_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    const berth_view* out = &call->outputs[0];
    const int32_t missing = out->rank - x->rank;
    int64_t strides[BERTH_MAX_RANK];
    dense_strides(out, strides);
    berth_cuda_walk walk = berth_cuda_walk_begin();
    for (int32_t d = 0; d < out->rank; ++d) {
        const int64_t size = d >= missing ? x->dims[d - missing] : 1;
        const int64_t stride = d >= missing ? x->strides[d - missing] : 0;
        const int64_t again[BERTH_CUDA_WALK_OPERANDS] = {0, size * strides[d]};
        const int64_t once[BERTH_CUDA_WALK_OPERANDS] = {stride, strides[d]};
        berth_cuda_walk_append(&walk, params->times[d], again);
        berth_cuda_walk_append(&walk, size, once);
    }
    run_place(&walk, x->dtype, x->data, out->data, true);
}

// --- Padding and triangles ----------------------------------------------------------------------

/// Adds a dimension of the output; joined with the last one where it is whole and x's elements go
/// on.
static void append_padded(berth_cuda_pad_args* args,
                          int64_t size,
                          int64_t stride,
                          const int64_t pads[2]) {
    berth_cuda_walk* walk = &args->walk;
    const int64_t whole = pads[0] + size + pads[1];
    const int32_t last = walk->rank - 1;
    walk->count *= whole;
    if (last >= 0 && pads[0] == 0 && pads[1] == 0 && walk->strides[0][last] == size * stride) {
        walk->dims[last].size *= size;
        args->sizes[last] *= size;
        args->before[last] *= size;
        walk->strides[0][last] = stride;
        return;
    }
    walk->dims[walk->rank].size = whole;
    walk->strides[0][walk->rank] = stride;
    args->sizes[walk->rank] = size;
    args->before[walk->rank] = pads[0];
    ++walk->rank;
}

static void launch_pad(const berth_op_call* call) {
    const berth_pad_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    const int64_t bytes = berth_dtype_bytes(x->dtype);
    berth_cuda_pad_args args = {
        .walk = berth_cuda_walk_begin(), .x = x->data, .out = call->outputs[0].data};
    for (int32_t d = 0; d < x->rank; ++d)
        append_padded(&args, x->dims[d], x->strides[d], params->pads[d]);
    if (args.walk.count == 0) return;
    unsigned char item[8] = {0};
    berth_cuda_value_store(x->dtype, params->value, item);
    fill_unit(args.value, item, bytes);
    const int32_t last = args.walk.rank - 1;
    uint64_t places = bits_of(args.x) | bits_of(args.out);
    if (last >= 0) places |= (uint64_t)((args.sizes[last] | args.before[last]) * bytes);
    args.unit_bytes = berth_cuda_walk_widen(&args.walk, 1, bytes, places);
    if (last >= 0) args.sizes[last] /= args.unit_bytes / bytes;
    if (last >= 0) args.before[last] /= args.unit_bytes / bytes;
    berth_cuda_walk_finish(&args.walk);
    run_units(BERTH_CUDA_KERNEL_pad, args.walk.count, &args);
}

static void run_triangle(const berth_op_call* call, bool is_lower) {
    const berth_triangle_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    if (berth_view_count(x) == 0) return;
    const int64_t rows = x->dims[x->rank - 2], columns = x->dims[x->rank - 1];
    // beyond the corners it makes no difference
    int64_t diagonal = params->diagonal < -rows ? -rows : params->diagonal;
    if (diagonal > columns) diagonal = columns;
    berth_cuda_triangle_args args = {
        .walk = berth_cuda_walk_begin(),
        .x = x->data,
        .out = call->outputs[0].data,
        .rows = berth_cuda_divisor_make(rows),
        .columns = berth_cuda_divisor_make(columns),
        .border = is_lower ? diagonal + 1 : diagonal,
        .is_lower = is_lower,
        .is_dense = berth_view_is_contiguous(x),
        .item_bytes = (uint32_t)berth_dtype_bytes(x->dtype),
    };
    for (int32_t d = 0; d < x->rank; ++d) {
        const int64_t strides[BERTH_CUDA_WALK_OPERANDS] = {x->strides[d]};
        berth_cuda_walk_append(&args.walk, x->dims[d], strides);
    }
    berth_cuda_walk_finish(&args.walk);
    const uint64_t bits = bits_of(args.x) | bits_of(args.out) | (uint64_t)columns * args.item_bytes;
    args.is_vector = args.is_dense != 0 && bits % BERTH_CUDA_UNIT_BYTES == 0;
    const int64_t a_step = args.is_vector != 0 ? BERTH_CUDA_UNIT_BYTES / args.item_bytes : 1;
    run_units(BERTH_CUDA_KERNEL_triangle, args.walk.count / a_step, &args);
}

static void launch_tril(const berth_op_call* call) { run_triangle(call, true); }
static void launch_triu(const berth_op_call* call) { run_triangle(call, false); }

// --- Reading by index ---------------------------------------------------------------------------

/// NaN for floats, 0 for the rest.
static void set_missing(berth_cuda_gather_args* args, berth_dtype dtype) {
    const uint32_t nan_value = 0x7fc00000u;
    const uint16_t nan_halves[2] = {0x7e00u, 0x7fc0u};
    if (dtype == BERTH_F32) fill_unit(args->missing, &nan_value, 4);
    if (dtype == BERTH_F16) fill_unit(args->missing, &nan_halves[0], 2);
    if (dtype == BERTH_BF16) fill_unit(args->missing, &nan_halves[1], 2);
}

/// Runs reads along `walk` (0: x, 1: the index), which has all dimensions of the output.
static void run_gather(const berth_op_call* call, const berth_cuda_walk* walk, int32_t dim) {
    const berth_view* x = &call->inputs[0];
    const berth_view* index = &call->inputs[1];
    if (walk->count == 0) return;
    const int64_t bytes = berth_dtype_bytes(x->dtype);
    berth_cuda_gather_args args = {
        .walk = *walk,
        .x = x->data,
        .index = index->data,
        .out = call->outputs[0].data,
        .step = x->strides[dim],
        .size = x->dims[dim],
        .is_wide = index->dtype == BERTH_I64,
    };
    set_missing(&args, x->dtype);
    const uint64_t places = bits_of(args.x) | bits_of(args.out) | (uint64_t)(args.step * bytes);
    args.unit_bytes = berth_cuda_walk_widen(&args.walk, 1, bytes, places);
    args.step /= args.unit_bytes / bytes;
    berth_cuda_walk_finish(&args.walk);
    run_units(BERTH_CUDA_KERNEL_gather, args.walk.count, &args);
}

static void launch_gather(const berth_op_call* call) {
    const berth_index_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    const berth_view* index = &call->inputs[1];
    const berth_view* out = &call->outputs[0];
    berth_cuda_walk walk = berth_cuda_walk_begin();
    for (int32_t d = 0; d < out->rank; ++d) {
        const bool stands = d == params->dim || x->dims[d] == 1;
        const int64_t strides[BERTH_CUDA_WALK_OPERANDS] = {
            stands ? 0 : x->strides[d], index->dims[d] == 1 ? 0 : index->strides[d]};
        berth_cuda_walk_append(&walk, out->dims[d], strides);
    }
    run_gather(call, &walk, params->dim);
}

/// x with its dimension `dim` replaced by those of the index.
static void select_along(const berth_op_call* call, int32_t dim) {
    const berth_view* x = &call->inputs[0];
    const berth_view* index = &call->inputs[1];
    berth_cuda_walk walk = berth_cuda_walk_begin();
    for (int32_t d = 0; d < x->rank; ++d) {
        const int64_t of_x[BERTH_CUDA_WALK_OPERANDS] = {x->strides[d], 0};
        if (d != dim) berth_cuda_walk_append(&walk, x->dims[d], of_x);
        for (int32_t i = 0; i < index->rank && d == dim; ++i) {
            const int64_t of_index[BERTH_CUDA_WALK_OPERANDS] = {0, index->strides[i]};
            berth_cuda_walk_append(&walk, index->dims[i], of_index);
        }
    }
    run_gather(call, &walk, dim);
}

static void launch_index_select(const berth_op_call* call) {
    const berth_index_params* params = call->params;
    select_along(call, params->dim);
}

static void launch_embedding(const berth_op_call* call) {
    const berth_view* table = &call->inputs[0];
    const berth_view* ids = &call->inputs[1];
    if (table->dtype == call->outputs[0].dtype) {
        select_along(call, 0);
        return;
    }
    berth_cuda_embed_args args = {
        .walk = berth_cuda_walk_begin(),
        .table = table->data,
        .ids = ids->data,
        .out = call->outputs[0].data,
        .row_bytes = table->strides[0] * berth_dtype_bytes(table->dtype),
        .size = table->dims[0],
        .dtype = (int32_t)table->dtype,
        .is_wide = ids->dtype == BERTH_I64,
        .is_aligned = bits_of(call->outputs[0].data) % BERTH_CUDA_UNIT_BYTES == 0,
    };
    for (int32_t d = 0; d < ids->rank; ++d) {
        const int64_t strides[BERTH_CUDA_WALK_OPERANDS] = {ids->strides[d]};
        berth_cuda_walk_append(&args.walk, ids->dims[d], strides);
    }
    const int64_t count = args.walk.count * (table->dims[1] / 4);
    if (count == 0) return;
    args.is_small = count < INT32_MAX;
    args.row = berth_cuda_divisor_make(table->dims[1] / 4);
    berth_cuda_walk_finish(&args.walk);
    const uint64_t blocks = berth_cuda_blocks_for((uint64_t)count, THREADS);
    berth_cuda_run(BERTH_CUDA_KERNEL_embed, blocks, THREADS, &args);
}

// --- Writing by index ---------------------------------------------------------------------------

/// Threads that share a line: as many as keep the device busy, where lines are few.
static int64_t owners_of(int64_t lines, int64_t length, int64_t size) {
    const int64_t busy = (int64_t)berth_cuda_query_multiprocessors() * BUSY_THREADS;
    int64_t owners = 1;
    while (owners * 2 * lines <= busy && owners < length && owners < size)
        owners *= 2;
    return owners;
}

static uint32_t meeting_of(berth_dtype dtype, bool is_add) {
    if (!is_add) return BERTH_CUDA_MEETING_SET;
    return dtype == BERTH_BOOL ? BERTH_CUDA_MEETING_BOOL : BERTH_CUDA_MEETING_ADD;
}

/// Writes the elements of `shape`, as many as the index has once it is repeated over the
/// dimensions where `index_strides` is 0.
static void run_scatter(const berth_op_call* call,
                        const int64_t* shape,
                        const int64_t* index_strides,
                        int32_t dim,
                        bool is_add) {
    const berth_view* out = &call->outputs[0];
    const berth_view* index = &call->inputs[1];
    const berth_view* source = &call->inputs[2];
    const int64_t bytes = berth_dtype_bytes(out->dtype);
    berth_cuda_scatter_args args = {
        .lines = berth_cuda_walk_begin(),
        .out = out->data,
        .index = index->data,
        .source = source->data,
        .length = shape[dim],
        .index_along = index_strides[dim],
        .source_along = source->strides[dim],
        .step = out->strides[dim],
        .size = out->dims[dim],
        .unit_bytes = (uint32_t)bytes,
        .dtype = (int32_t)out->dtype,
        .meeting = meeting_of(out->dtype, is_add),
        .is_wide = index->dtype == BERTH_I64,
    };
    for (int32_t d = 0; d < out->rank; ++d) {
        const int64_t strides[BERTH_CUDA_WALK_OPERANDS] = {
            out->strides[d], index_strides[d], source->strides[d]};
        if (d != dim) berth_cuda_walk_append(&args.lines, shape[d], strides);
    }
    if (args.lines.count == 0 || args.length == 0 || args.size == 0) return;
    if (!is_add) {
        const uint64_t places = bits_of(args.out) | bits_of(args.source) |
                                (uint64_t)((args.step | args.source_along) * bytes);
        args.unit_bytes = berth_cuda_walk_widen(&args.lines, 1 | 4, bytes, places);
        args.step /= args.unit_bytes / bytes;
        args.source_along /= args.unit_bytes / bytes;
    }
    berth_cuda_walk_finish(&args.lines);
    args.owners = owners_of(args.lines.count, args.length, args.size);
    const uint64_t threads = (uint64_t)args.lines.count * (uint64_t)args.owners;
    const uint64_t blocks = berth_cuda_blocks_for(threads, THREADS);
    berth_cuda_run(BERTH_CUDA_KERNEL_scatter, blocks, THREADS, &args);
}

static void scatter_by(const berth_op_call* call, bool is_add) {
    const berth_index_params* params = call->params;
    const berth_view* index = &call->inputs[1];
    run_scatter(call, index->dims, index->strides, params->dim, is_add);
}

static void launch_scatter(const berth_op_call* call) { scatter_by(call, false); }
static void launch_scatter_add(const berth_op_call* call) { scatter_by(call, true); }

static void launch_index_copy(const berth_op_call* call) {
    const berth_index_params* params = call->params;
    int64_t strides[BERTH_MAX_RANK] = {0};
    strides[params->dim] = call->inputs[1].strides[0];
    run_scatter(call, call->inputs[2].dims, strides, params->dim, false);
}

void berth_cuda_fill_index(berth_cuda_table* table) {
    table->kernels[BERTH_OP_CAT] = launch_cat;
    table->kernels[BERTH_OP_CAT_MORE] = launch_cat_more;
    table->kernels[BERTH_OP_STACK] = launch_stack;
    table->kernels[BERTH_OP_STACK_MORE] = launch_stack_more;
    table->kernels[BERTH_OP_ROLL] = launch_roll;
    table->kernels[BERTH_OP_REPEAT] = launch_repeat;
    table->kernels[BERTH_OP_PAD] = launch_pad;
    table->kernels[BERTH_OP_TRIL] = launch_tril;
    table->kernels[BERTH_OP_TRIU] = launch_triu;
    table->kernels[BERTH_OP_EMBEDDING] = launch_embedding;
    table->kernels[BERTH_OP_GATHER] = launch_gather;
    table->kernels[BERTH_OP_TAKE_ALONG] = launch_gather;
    table->kernels[BERTH_OP_INDEX_SELECT] = launch_index_select;
    table->kernels[BERTH_OP_INDEX_COPY] = launch_index_copy;
    table->kernels[BERTH_OP_SCATTER] = launch_scatter;
    table->kernels[BERTH_OP_SCATTER_ADD] = launch_scatter_add;
}
