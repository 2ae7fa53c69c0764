// SPDX-License-Identifier: Apache-2.0
// Launchers of the ops whose kernels are in cuda_sort.cu, cuda_sort_select.cu and
// cuda_sort_unique.cu.
#include "base/checked.h"
#include "base/dtype.h"
#include "base/op_params.h"
#include "device/cuda/cuda_launch.h"

enum {
    THREADS = 256,
    MOST_BLOCKS = 1 << 20, // of kernels that loop over the grid
    GROUP = 1 << 24,       // records that are sorted at once, unless a row has more
    HEAD_BYTES = 64,       // of a workspace that begins with a total
};

static uint64_t at_most_blocks(int64_t blocks) {
    return (uint64_t)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS);
}

// --- Sorting along a dimension ------------------------------------------------------------------

/// Records of a tile.
static int64_t tile_of(const berth_cuda_sort_rows* rows) {
    return rows->is_packed != 0 ? BERTH_CUDA_TILE_WORDS : BERTH_CUDA_TILE_WORDS / 2;
}

static int64_t record_bytes(const berth_cuda_sort_rows* rows) {
    return rows->is_packed != 0 ? 8 : 16;
}

/// What all that sort have in common; `length` elements of x.
static berth_cuda_sort_rows make_rows(const berth_view* x, int64_t length, bool is_descending) {
    return (berth_cuda_sort_rows){
        .walk = berth_cuda_walk_begin(),
        .x = x->data,
        .length = length,
        .kept = length,
        .dtype = (int32_t)x->dtype,
        .item_bytes = (uint32_t)berth_dtype_bytes(x->dtype),
        .is_descending = is_descending,
        .is_packed = x->dtype != BERTH_I64 && length <= UINT32_MAX,
    };
}

/// The rows of `x` along `dim`, of which the outputs have the first `kept`.
static berth_cuda_sort_rows rows_along(const berth_view* x,
                                       int32_t dim,
                                       int64_t kept,
                                       bool is_descending) {
    const int64_t length = x->rank > 0 ? x->dims[dim] : 1; // a scalar is a row of one
    berth_cuda_sort_rows rows = make_rows(x, length, is_descending);
    rows.kept = kept;
    rows.stride = x->rank > 0 ? x->strides[dim] : 1;
    rows.out_stride = 1;
    int64_t strides[BERTH_MAX_RANK]; // of the outputs
    int64_t stride = 1;
    for (int32_t d = x->rank; d-- > 0;) {
        strides[d] = stride;
        if (d == dim) rows.out_stride = stride;
        stride *= d == dim ? kept : x->dims[d];
    }
    for (int32_t d = 0; d < x->rank; ++d) {
        const int64_t own[BERTH_CUDA_WALK_OPERANDS] = {x->strides[d], strides[d]};
        if (d != dim) berth_cuda_walk_append(&rows.walk, x->dims[d], own);
    }
    rows.count = rows.walk.count;
    berth_cuda_walk_finish(&rows.walk);
    return rows;
}

static int64_t rows_at_once(const berth_cuda_sort_rows* rows) {
    const int64_t most = rows->length < GROUP ? GROUP / rows->length : 1;
    return rows->count < most ? rows->count : most;
}

/// Workspace for rows that are longer than a tile: the records of a group, twice.
static uint64_t rows_scratch(const berth_cuda_sort_rows* rows) {
    if (rows->length <= tile_of(rows) || rows->kept == 0 || rows->count == 0) return 0;
    const uint64_t records = (uint64_t)rows_at_once(rows) * (uint64_t)rows->length;
    // more than any device has, and than what is asked of it may be
    if (records > INT64_MAX / 64) return INT64_MAX;
    return 2 * records * (uint64_t)record_bytes(rows);
}

static void run_tiles(const berth_cuda_sort_rows* rows, uint64_t* records) {
    berth_cuda_tiles_args args = {.rows = *rows, .records = records, .tile = tile_of(rows)};
    while (args.tile > 64 && args.tile / 2 >= rows->length)
        args.tile /= 2;
    const int64_t tiles = berth_cuda_ceil_div(rows->length, args.tile);
    const uint32_t threads =
        args.tile / 2 < BERTH_CUDA_TILE_THREADS ? (uint32_t)args.tile / 2 : BERTH_CUDA_TILE_THREADS;
    berth_cuda_run(
        BERTH_CUDA_KERNEL_sort_tiles, at_most_blocks(rows->count * tiles), threads, &args);
}

/// Sorts rows by way of `records` and `spare`, each with room for all of theirs: `to_outputs`, or
/// to one of the two, which place_of_sorted() names.
static void run_passes(const berth_cuda_sort_rows* rows,
                       uint64_t* records,
                       uint64_t* spare,
                       bool to_outputs) {
    int64_t width = tile_of(rows);
    const bool is_one_tile = rows->length <= width;
    run_tiles(rows, is_one_tile && to_outputs ? NULL : records);
    for (; width < rows->length; width *= 2) {
        const bool is_last = width * 2 >= rows->length;
        const berth_cuda_merge_args args = {
            .rows = *rows,
            .source = records,
            .target = is_last && to_outputs ? NULL : spare,
            .length = berth_cuda_divisor_make(rows->length),
            .width = width,
        };
        const uint64_t count = (uint64_t)rows->count * (uint64_t)rows->length;
        const uint64_t blocks = berth_cuda_blocks_for(count, THREADS);
        berth_cuda_run(BERTH_CUDA_KERNEL_sort_merge, blocks, THREADS, &args);
        spare = records;
        records = args.target;
    }
}

static void run_sort(const berth_cuda_sort_rows* all, void* scratch) {
    if (all->count == 0 || all->kept == 0) return;
    berth_cuda_sort_rows rows = *all;
    const bool is_one_tile = rows.length <= tile_of(&rows);
    const int64_t at_once = is_one_tile ? all->count : rows_at_once(all);
    uint64_t* records = scratch;
    uint64_t* spare = NULL;
    if (!is_one_tile) spare = records + at_once * rows.length * (record_bytes(&rows) / 8);
    for (; rows.begin < all->count; rows.begin += at_once) {
        rows.count = all->count - rows.begin < at_once ? all->count - rows.begin : at_once;
        run_passes(&rows, records, spare, true);
    }
}

static berth_cuda_sort_rows sort_rows(const berth_op_call* call) {
    const berth_sort_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    const int64_t length = x->rank > 0 ? x->dims[params->dim] : 1;
    return rows_along(x, params->dim, length, params->descending);
}

static berth_cuda_sort_rows topk_rows(const berth_op_call* call) {
    const berth_topk_params* params = call->params;
    return rows_along(&call->inputs[0], params->dim, params->k, params->largest);
}

static uint64_t scratch_sort(const berth_op_call* call) {
    const berth_cuda_sort_rows rows = sort_rows(call);
    return rows_scratch(&rows);
}

static uint64_t scratch_topk(const berth_op_call* call) {
    const berth_cuda_sort_rows rows = topk_rows(call);
    return rows_scratch(&rows);
}

/// Sorts to the values, and to their numbers where they are asked for.
static void sort_to_both(const berth_op_call* call, berth_cuda_sort_rows* rows) {
    rows->out_values = call->outputs[0].data;
    if (call->output_count > 1) rows->out_numbers = call->outputs[1].data;
    run_sort(rows, call->scratch);
}

static void launch_sort(const berth_op_call* call) {
    berth_cuda_sort_rows rows = sort_rows(call);
    sort_to_both(call, &rows);
}

static void launch_topk(const berth_op_call* call) {
    berth_cuda_sort_rows rows = topk_rows(call);
    sort_to_both(call, &rows);
}

static void launch_argsort(const berth_op_call* call) {
    berth_cuda_sort_rows rows = sort_rows(call);
    rows.out_numbers = call->outputs[0].data;
    run_sort(&rows, call->scratch);
}

// --- Counting -----------------------------------------------------------------------------------

static int64_t chunks_of(int64_t count) { return berth_cuda_ceil_div(count, BERTH_CUDA_CHUNK); }

/// Bytes of a workspace that begins with a total and the counts of chunks.
static uint64_t counts_bytes(int64_t count) {
    return berth_round_up(HEAD_BYTES + 8 * (uint64_t)chunks_of(count), HEAD_BYTES);
}

static int64_t* counts_in(void* scratch) { return (int64_t*)scratch + HEAD_BYTES / 8; }

/// Runs a kernel whose blocks take chunks.
static void run_chunks(berth_cuda_kernel kernel, int64_t chunks, const void* args) {
    berth_cuda_run(kernel, at_most_blocks(chunks), BERTH_CUDA_CHUNK_THREADS, args);
}

static void run_scan(void* scratch, int64_t chunks) {
    const berth_cuda_scan_args args = {
        .total = scratch, .counts = counts_in(scratch), .chunks = chunks};
    berth_cuda_run(BERTH_CUDA_KERNEL_scan_counts, 1, BERTH_CUDA_CHUNK_THREADS, &args);
}

// --- NONZERO MASKED_SELECT ----------------------------------------------------------------------

/// The bits of an element that make it differ from 0: of a float all but the sign.
static uint64_t truth_mask(berth_dtype dtype) {
    if (dtype == BERTH_F32) return UINT64_C(0x7fffffff);
    return berth_dtype_is_half(dtype) ? UINT64_C(0x7fff) : UINT64_MAX;
}

/// The shape that two views are broadcast to; its strides are of no use.
static berth_view common_shape(const berth_view* a, const berth_view* b) {
    const berth_view* other = a->rank >= b->rank ? b : a;
    berth_view shape = a->rank >= b->rank ? *a : *b;
    for (int32_t d = 0; d < other->rank; ++d)
        if (other->dims[d] != 1) shape.dims[shape.rank - other->rank + d] = other->dims[d];
    return shape;
}

/// The elements of `shape` where `flags` is set; of `x` (may be NULL), or their indices.
static berth_cuda_select_args make_select(const berth_op_call* call,
                                          const berth_view* shape,
                                          const berth_view* flags,
                                          const berth_view* x) {
    berth_cuda_select_args args = {
        .walk = berth_cuda_walk_begin(),
        .flags = flags->data,
        .flag_mask = truth_mask(flags->dtype),
        .flag_bytes = (uint32_t)berth_dtype_bytes(flags->dtype),
        .rank = shape->rank,
    };
    for (int32_t d = 0; d < shape->rank; ++d) {
        const int64_t strides[BERTH_CUDA_WALK_OPERANDS] = {
            berth_cuda_broadcast_stride(flags, shape->rank, d),
            x != NULL ? berth_cuda_broadcast_stride(x, shape->rank, d) : 0};
        berth_cuda_walk_append(&args.walk, shape->dims[d], strides);
        if (shape->dims[d] > 0) args.dims[d] = berth_cuda_divisor_make(shape->dims[d]);
    }
    berth_cuda_walk_finish(&args.walk);
    args.chunks = chunks_of(args.walk.count);
    if (call->scratch != NULL) args.counts = counts_in(call->scratch);
    if (x != NULL) {
        args.x = x->data;
        args.item_bytes = (uint32_t)berth_dtype_bytes(x->dtype);
    }
    return args;
}

static berth_cuda_select_args nonzero_args(const berth_op_call* call) {
    const berth_view* x = &call->inputs[0];
    return make_select(call, x, x, NULL);
}

static berth_cuda_select_args masked_select_args(const berth_op_call* call) {
    const berth_view* x = &call->inputs[0];
    const berth_view* mask = &call->inputs[1];
    const berth_view shape = common_shape(x, mask);
    return make_select(call, &shape, mask, x);
}

static void count_selected(const berth_op_call* call, const berth_cuda_select_args* args) {
    run_chunks(BERTH_CUDA_KERNEL_select_count, args->chunks, args);
    run_scan(call->scratch, args->chunks);
}

static void write_selected(const berth_op_call* call, berth_cuda_select_args* args) {
    args->out = call->outputs[0].data;
    args->written = call->outputs[0].dims[0];
    run_chunks(BERTH_CUDA_KERNEL_select_write, args->chunks, args);
}

static uint64_t scratch_nonzero(const berth_op_call* call) {
    return counts_bytes(berth_view_count(&call->inputs[0]));
}

static void count_nonzero(const berth_op_call* call) {
    const berth_cuda_select_args args = nonzero_args(call);
    count_selected(call, &args);
}

static void launch_nonzero(const berth_op_call* call) {
    berth_cuda_select_args args = nonzero_args(call);
    if (args.rank > 0) write_selected(call, &args);
}

static uint64_t scratch_masked_select(const berth_op_call* call) {
    const berth_view shape = common_shape(&call->inputs[0], &call->inputs[1]);
    return counts_bytes(berth_view_count(&shape));
}

static void count_masked_select(const berth_op_call* call) {
    const berth_cuda_select_args args = masked_select_args(call);
    count_selected(call, &args);
}

static void launch_masked_select(const berth_op_call* call) {
    berth_cuda_select_args args = masked_select_args(call);
    write_selected(call, &args);
}

// --- UNIQUE -------------------------------------------------------------------------------------

/// All elements as one row.
static berth_cuda_sort_rows flat_row(const berth_view* x) {
    berth_cuda_sort_rows rows = make_rows(x, berth_view_count(x), false);
    rows.is_flat = 1;
    rows.count = 1;
    for (int32_t d = 0; d < x->rank; ++d) {
        const int64_t strides[BERTH_CUDA_WALK_OPERANDS] = {x->strides[d]};
        berth_cuda_walk_append(&rows.walk, x->dims[d], strides);
    }
    berth_cuda_walk_finish(&rows.walk);
    return rows;
}

/// Behind the counts of the workspace: two places for the records.
static uint64_t* records_in(void* scratch, const berth_cuda_sort_rows* rows, int64_t place) {
    uint64_t* first = (uint64_t*)scratch + counts_bytes(rows->length) / 8;
    return first + place * rows->length * (record_bytes(rows) / 8);
}

static uint64_t scratch_unique(const berth_op_call* call) {
    const berth_cuda_sort_rows rows = flat_row(&call->inputs[0]);
    // more than any device has, and than what is asked of it may be
    if (rows.length > INT64_MAX / 64) return INT64_MAX;
    return counts_bytes(rows.length) + 2 * (uint64_t)(rows.length * record_bytes(&rows));
}

/// In which of the two places the records are once they are sorted: each pass changes it.
static int64_t place_of_sorted(const berth_cuda_sort_rows* rows) {
    int64_t place = 0;
    for (int64_t width = tile_of(rows); width < rows->length; width *= 2)
        place = 1 - place;
    return place;
}

static berth_cuda_unique_args unique_args(const berth_op_call* call,
                                          const berth_cuda_sort_rows* rows) {
    return (berth_cuda_unique_args){
        .walk = rows->walk,
        .x = rows->x,
        .records = records_in(call->scratch, rows, place_of_sorted(rows)),
        .count = rows->length,
        .is_packed = rows->is_packed,
        .item_bytes = rows->item_bytes,
        .has_nan = berth_dtype_is_float((berth_dtype)rows->dtype),
        .nan_key = UINT32_MAX,
        .counts = counts_in(call->scratch),
        .chunks = chunks_of(rows->length),
    };
}

static void count_unique(const berth_op_call* call) {
    const berth_cuda_sort_rows rows = flat_row(&call->inputs[0]);
    const berth_cuda_unique_args args = unique_args(call, &rows);
    if (rows.length > 0)
        run_passes(
            &rows, records_in(call->scratch, &rows, 0), records_in(call->scratch, &rows, 1), false);
    run_chunks(BERTH_CUDA_KERNEL_unique_count, args.chunks, &args);
    run_scan(call->scratch, args.chunks);
}

static void launch_unique(const berth_op_call* call) {
    const berth_unique_params* params = call->params;
    const berth_cuda_sort_rows rows = flat_row(&call->inputs[0]);
    berth_cuda_unique_args args = unique_args(call, &rows);
    if (rows.length == 0) return;
    args.values = call->outputs[0].data;
    if (params->with_inverse) args.inverse = call->outputs[1].data;
    if (params->with_counts) // nobody needs the other place any more
        args.starts = (int64_t*)records_in(call->scratch, &rows, 1 - place_of_sorted(&rows));
    run_chunks(BERTH_CUDA_KERNEL_unique_read, args.chunks, &args);
    if (!params->with_counts) return;
    const berth_cuda_lengths_args lengths = {
        .starts = args.starts,
        .lengths = call->outputs[params->with_inverse ? 2 : 1].data,
        .values = call->outputs[0].dims[0],
        .count = rows.length,
    };
    const uint64_t blocks = berth_cuda_blocks_for((uint64_t)lengths.values, THREADS);
    berth_cuda_run(BERTH_CUDA_KERNEL_unique_lengths, blocks, THREADS, &lengths);
}

void berth_cuda_fill_sort(berth_cuda_table* table) {
    table->kernels[BERTH_OP_SORT] = launch_sort;
    table->kernels[BERTH_OP_ARGSORT] = launch_argsort;
    table->kernels[BERTH_OP_TOPK] = launch_topk;
    table->kernels[BERTH_OP_NONZERO] = launch_nonzero;
    table->kernels[BERTH_OP_MASKED_SELECT] = launch_masked_select;
    table->kernels[BERTH_OP_UNIQUE] = launch_unique;
    table->scratch[BERTH_OP_SORT] = scratch_sort;
    table->scratch[BERTH_OP_ARGSORT] = scratch_sort;
    table->scratch[BERTH_OP_TOPK] = scratch_topk;
    table->scratch[BERTH_OP_NONZERO] = scratch_nonzero;
    table->scratch[BERTH_OP_MASKED_SELECT] = scratch_masked_select;
    table->scratch[BERTH_OP_UNIQUE] = scratch_unique;
    table->counters[BERTH_OP_NONZERO] = count_nonzero;
    table->counters[BERTH_OP_MASKED_SELECT] = count_masked_select;
    table->counters[BERTH_OP_UNIQUE] = count_unique;
}
