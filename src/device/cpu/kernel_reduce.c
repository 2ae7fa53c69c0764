// SPDX-License-Identifier: Apache-2.0
// SUM MEAN PROD MAX MIN ARGMAX ARGMIN VAR LOGSUMEXP ANY ALL over any set of dimensions: how an
// operand is cut, and who computes what.
//
// Where there are outputs enough, each thread takes some; else the blocks of one output, or of one
// tile of them, are shared out and merged afterwards.
#include "device/cpu/kernel_reduce.h"

#include <string.h>

#include "base/dims.h"
#include "device/cpu/cpu_kernels.h"

#define LEAST 65536
#define TILE BERTH_REDUCE_TILE

/// Columns that are worth being a tile, and those that fill one well.
#define FEW_COLUMNS 8
#define MANY_COLUMNS 64
/// Elements of a line below which a call a line costs more than they do.
#define SHORT_LINE 48
/// Folds that one sharing out of blocks leaves to merge.
#define SHARED_FOLDS 2048

// --- Cuts ----------------------------------------------------------------------------------------

/// Dimensions of a view by number, in the order of the view.
typedef struct dim_list {
    int32_t count;
    int32_t dims[BERTH_MAX_RANK];
} dim_list;

static void list_dims(const berth_view* view, uint32_t mask, dim_list* kept, dim_list* reduced) {
    kept->count = 0;
    reduced->count = 0;
    for (int32_t d = 0; d < view->rank; ++d) {
        dim_list* list = (mask >> d & 1u) != 0 ? reduced : kept;
        list->dims[list->count++] = d;
    }
}

/// Appends entries [from, to) of `list` to `out`; returns the number of their elements.
static int64_t append_dims(
    berth_view* out, const berth_view* view, const dim_list* list, int32_t from, int32_t to) {
    int64_t count = 1;
    for (int32_t i = from; i < to; ++i) {
        out->dims[out->rank] = view->dims[list->dims[i]];
        out->strides[out->rank] = view->strides[list->dims[i]];
        count *= out->dims[out->rank++];
    }
    return count;
}

/// Cuts `view` with entries [inner, kept->count) of `kept` as the columns.
static void cut_at(berth_reduced* from,
                   const berth_view* view,
                   const dim_list* kept,
                   const dim_list* reduced,
                   int32_t inner) {
    berth_view turned = {.data = view->data, .dtype = view->dtype};
    from->cut.outer_count = append_dims(&turned, view, kept, 0, inner);
    from->cut.size = append_dims(&turned, view, reduced, 0, reduced->count);
    from->cut.inner_count = append_dims(&turned, view, kept, inner, kept->count);
    from->basic = berth_basic_query_rows();
    from->rows = berth_reduce_query_rows();
    berth_walk_init(&from->x, &turned);
}

void berth_reduced_init(berth_reduced* from, const berth_view* view, uint32_t mask) {
    dim_list kept;
    dim_list reduced;
    list_dims(view, mask, &kept, &reduced);
    int32_t inner = 0;
    while (inner < kept.count && reduced.count > 0 && kept.dims[inner] < reduced.dims[0])
        ++inner;
    cut_at(from, view, &kept, &reduced, inner);
}

/// The last of `list` that has more than one element; -1 if there is none.
static int32_t last_long_dim(const berth_view* view, const dim_list* list) {
    for (int32_t i = list->count; i-- > 0;)
        if (view->dims[list->dims[i]] != 1) return i;
    return -1;
}

static int64_t distance(const berth_view* view, int32_t dim) {
    const int64_t stride = view->strides[dim];
    return stride < 0 ? -stride : stride;
}

void berth_reduced_init_folded(berth_reduced* from, const berth_view* view, uint32_t mask) {
    dim_list kept;
    dim_list reduced;
    list_dims(view, mask, &kept, &reduced);
    const int32_t last_kept = last_long_dim(view, &kept);
    const int32_t last_reduced = last_long_dim(view, &reduced);
    int64_t size = 1;
    for (int32_t i = 0; i < reduced.count; ++i)
        size *= view->dims[reduced.dims[i]];
    // columns: as many of the last dimensions that stay as fill a tile
    int64_t columns = 1;
    int32_t inner = kept.count;
    while (inner > 0 && columns < MANY_COLUMNS)
        columns *= view->dims[kept.dims[--inner]];
    bool is_tiled = columns >= FEW_COLUMNS;
    if (is_tiled && size >= SHORT_LINE && last_reduced >= 0) {
        const int32_t column = kept.dims[last_kept];
        is_tiled = view->dims[column] >= FEW_COLUMNS &&
                   distance(view, column) < distance(view, reduced.dims[last_reduced]);
    }
    cut_at(from, view, &kept, &reduced, is_tiled ? inner : kept.count);
}

// --- Blocks --------------------------------------------------------------------------------------

static int64_t block_count(const berth_reduced* from) {
    return berth_ceil_div(from->cut.size, BERTH_CHUNK);
}

/// Folds block `block` of `width` outputs, the first of which is number `output`.
static void fold_block(
    const berth_reduce_job* job, int64_t output, int64_t width, int64_t block, berth_fold* out) {
    const berth_reduced* from = &job->from;
    const int64_t at = block * BERTH_CHUNK;
    const int64_t count = berth_min_i64(BERTH_CHUNK, from->cut.size - at);
    const int64_t first = berth_reduced_first(from, output) + at * from->cut.inner_count;
    if (from->cut.inner_count == 1)
        job->how->line(from, first, count, out);
    else
        job->how->tile(from, first, count, width, out);
    for (int64_t c = 0; c < width; ++c)
        out[c].where += at;
}

static void merge_block(const berth_reduce_job* job,
                        int64_t width,
                        int64_t block,
                        berth_fold* totals,
                        const berth_fold* folds) {
    const int64_t at = block * BERTH_CHUNK;
    const int64_t count = berth_min_i64(BERTH_CHUNK, job->from.cut.size - at);
    for (int64_t c = 0; c < width; ++c) {
        if (block == 0)
            totals[c] = folds[c];
        else
            job->how->merge(&totals[c], at, &folds[c], count);
    }
}

static void finish(const berth_reduce_job* job,
                   int64_t output,
                   int64_t width,
                   const berth_fold* totals) {
    job->how->finish(job, totals, width, job->out + output * job->out_bytes);
}

/// `width` outputs by one thread.
static void reduce_alone(const berth_reduce_job* job, int64_t output, int64_t width) {
    berth_fold totals[TILE];
    berth_fold folds[TILE];
    const int64_t blocks = block_count(&job->from);
    if (blocks > 0) fold_block(job, output, width, 0, totals);
    for (int64_t block = 1; block < blocks; ++block) {
        fold_block(job, output, width, block, folds);
        merge_block(job, width, block, totals, folds);
    }
    for (int64_t c = 0; blocks == 0 && c < width; ++c)
        totals[c] = job->how->nothing;
    finish(job, output, width, totals);
}

/// Outputs side by side from `output` on, at most, and before `end`.
static int64_t group_width(const berth_reduced* from, int64_t output, int64_t end) {
    const int64_t inner = from->cut.inner_count;
    const int64_t left = berth_min_i64(end - output, inner - output % inner);
    return berth_min_i64(TILE, left);
}

static void reduce_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const berth_reduce_job* job = data;
    for (int64_t output = begin; output < end;) {
        const int64_t width = group_width(&job->from, output, end);
        reduce_alone(job, output, width);
        output += width;
    }
}

// --- Blocks shared out ---------------------------------------------------------------------------

typedef struct shared_job {
    const berth_reduce_job* job;
    int64_t output;
    int64_t width;
    int64_t first_block;
    berth_fold* folds; ///< [blocks, width]
} shared_job;

static void fold_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const shared_job* shared = data;
    for (int64_t i = begin; i < end; ++i)
        fold_block(shared->job,
                   shared->output,
                   shared->width,
                   shared->first_block + i,
                   shared->folds + i * shared->width);
}

/// `width` outputs by the team.
static void reduce_shared(const berth_op_call* call,
                          const berth_reduce_job* job,
                          int64_t output,
                          int64_t width) {
    berth_fold totals[TILE];
    berth_fold folds[SHARED_FOLDS];
    const int64_t blocks = block_count(&job->from);
    const int64_t most = SHARED_FOLDS / width;
    shared_job shared = {.job = job, .output = output, .width = width, .folds = folds};
    for (int64_t first = 0; first < blocks; first += most) {
        const int64_t count = berth_min_i64(most, blocks - first);
        shared.first_block = first;
        berth_run_range(call, count, 1, 2, fold_range, &shared);
        for (int64_t i = 0; i < count; ++i)
            merge_block(job, width, first + i, totals, folds + i * width);
    }
    finish(job, output, width, totals);
}

/// True if there are too few groups of outputs to go round, and work enough to share.
static bool is_shared(const berth_op_call* call, const berth_reduced* from) {
    const int64_t workers = berth_team_worker_count(call->team);
    const int64_t inner = from->cut.inner_count;
    const int64_t groups = from->cut.outer_count * berth_ceil_div(inner, TILE);
    const int64_t outputs = from->cut.outer_count * inner;
    return workers > 1 && groups < 4 * workers && block_count(from) > 1 &&
           from->cut.size > LEAST / (outputs > 0 ? outputs : 1);
}

static void run_reduction(const berth_op_call* call, const berth_reduction* how) {
    const berth_reduce_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    const berth_view* out = &call->outputs[0];
    berth_reduce_job job = {
        .how = how,
        .out = out->data,
        .out_dtype = out->dtype,
        .out_bytes = berth_dtype_bytes(out->dtype),
        .correction = params->correction,
    };
    berth_reduced_init_folded(&job.from, x, berth_dims_mask(&params->dims, x->rank));
    const berth_cut* cut = &job.from.cut;
    const int64_t outputs = cut->outer_count * cut->inner_count;
    if (is_shared(call, &job.from)) {
        for (int64_t output = 0; output < outputs;) {
            const int64_t width = group_width(&job.from, output, outputs);
            reduce_shared(call, &job, output, width);
            output += width;
        }
        return;
    }
    const int64_t grain = cut->inner_count == 1 ? 1 : TILE;
    const int64_t least = 1 + LEAST / (cut->size > 0 ? cut->size : 1);
    berth_run_range(call, outputs, grain, least, reduce_range, &job);
}

// --- The table -----------------------------------------------------------------------------------

const berth_reduce_rows* berth_reduce_query_rows(void) {
#if defined(__x86_64__)
    const berth_cpu_isa isa = berth_cpu_query_isa();
    if (isa >= BERTH_CPU_ISA_AVX512) return &berth_reduce_rows_avx512;
    if (isa >= BERTH_CPU_ISA_AVX2) return &berth_reduce_rows_avx2;
#endif
    return &berth_reduce_rows_portable;
}

#define DEFINE_KERNEL(name, ID)                                                                    \
    static void kernel_##name(const berth_op_call* call) {                                         \
        const bool is_float = berth_dtype_is_float(call->inputs[0].dtype);                         \
        run_reduction(call,                                                                        \
                      is_float ? berth_reduction_of_floats(BERTH_OP_##ID)                          \
                               : berth_reduction_of_integers(BERTH_OP_##ID));                      \
    }
DEFINE_KERNEL(sum, SUM)
DEFINE_KERNEL(mean, MEAN)
DEFINE_KERNEL(prod, PROD)
DEFINE_KERNEL(max, MAX)
DEFINE_KERNEL(min, MIN)
DEFINE_KERNEL(argmax, ARGMAX)
DEFINE_KERNEL(argmin, ARGMIN)
DEFINE_KERNEL(var, VAR)
DEFINE_KERNEL(logsumexp, LOGSUMEXP)

static void kernel_any(const berth_op_call* call) {
    run_reduction(call, berth_reduction_of_truths(BERTH_OP_ANY));
}

static void kernel_all(const berth_op_call* call) {
    run_reduction(call, berth_reduction_of_truths(BERTH_OP_ALL));
}

void berth_cpu_fill_reduce_kernels(berth_kernel* table) {
    table[BERTH_OP_SUM] = kernel_sum;
    table[BERTH_OP_MEAN] = kernel_mean;
    table[BERTH_OP_PROD] = kernel_prod;
    table[BERTH_OP_MAX] = kernel_max;
    table[BERTH_OP_MIN] = kernel_min;
    table[BERTH_OP_ARGMAX] = kernel_argmax;
    table[BERTH_OP_ARGMIN] = kernel_argmin;
    table[BERTH_OP_VAR] = kernel_var;
    table[BERTH_OP_LOGSUMEXP] = kernel_logsumexp;
    table[BERTH_OP_ANY] = kernel_any;
    table[BERTH_OP_ALL] = kernel_all;
}
