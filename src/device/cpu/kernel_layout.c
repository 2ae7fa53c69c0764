// SPDX-License-Identifier: Apache-2.0
// Moving elements: COPY CAT EMBEDDING INDEX_COPY.
#include <math.h>
#include <string.h>

#include "base/op_params.h"
#include "device/cpu/kernel_basic.h"

#define GRAIN 4096
#define CHEAP_LEAST 65536

// --- COPY ----------------------------------------------------------------------------------------

typedef struct copy_job {
    berth_walk from;
    unsigned char* out;
} copy_job;

static void copy_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const copy_job* job = data;
    berth_walk_copy(&job->from, begin, end - begin, job->out + begin * job->from.item_bytes);
}

/// A matrix whose rows lie along the output's columns is copied in squares, as each cache line of
/// it holds elements of many output rows.
#define SQUARE 32

static bool is_transposed(const berth_walk* walk) {
    return walk->rank == 2 && walk->strides[0] == walk->item_bytes &&
           walk->strides[1] != walk->item_bytes && walk->dims[0] >= SQUARE;
}

static void transposed_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const copy_job* job = data;
    const berth_walk* from = &job->from;
    const int64_t columns = from->dims[1];
    for (int64_t row = begin; row < end; row += SQUARE) { // output rows
        const int64_t rows = berth_min_i64(SQUARE, end - row);
        for (int64_t column = 0; column < columns; column += SQUARE) {
            const berth_walk square = {
                .data = from->data + row * from->strides[0] + column * from->strides[1],
                .dtype = from->dtype,
                .rank = 1,
                .item_bytes = from->item_bytes,
                .dims = {berth_min_i64(SQUARE, columns - column)},
                .strides = {from->strides[1]},
            };
            for (int64_t r = 0; r < rows; ++r) {
                berth_walk line = square;
                line.data += r * from->strides[0];
                const int64_t at = (row + r) * columns + column;
                berth_walk_copy(&line, 0, square.dims[0], job->out + at * from->item_bytes);
            }
        }
    }
}

static void kernel_copy(const berth_op_call* call) {
    copy_job job = {.out = call->outputs[0].data};
    berth_walk_init(&job.from, &call->inputs[0]);
    int64_t count = 1;
    for (int32_t d = 0; d < job.from.rank; ++d)
        count *= job.from.dims[d];
    if (is_transposed(&job.from)) {
        const int64_t rows = job.from.dims[0];
        const int64_t least = count < CHEAP_LEAST ? rows + 1 : 1;
        berth_run_range(call, rows, SQUARE, least, transposed_range, &job);
        return;
    }
    berth_run_range(call, count, GRAIN, CHEAP_LEAST, copy_range, &job);
}

// --- CAT -----------------------------------------------------------------------------------------

typedef struct cat_job {
    berth_walk from;
    unsigned char* out;   ///< where the input's first run goes
    int64_t run;          ///< elements of the input that stay together
    int64_t stride_bytes; ///< from one run of the output to the next
} cat_job;

static void cat_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const cat_job* job = data;
    for (int64_t at = begin; at < end;) {
        const int64_t inside = at % job->run;
        const int64_t count = berth_min_i64(job->run - inside, end - at);
        unsigned char* row = job->out + at / job->run * job->stride_bytes;
        berth_walk_copy(&job->from, at, count, row + inside * job->from.item_bytes);
        at += count;
    }
}

static void kernel_cat(const berth_op_call* call) {
    const berth_cat_params* params = call->params;
    const berth_view* out = &call->outputs[0];
    const berth_cut whole = berth_view_cut(out, params->dim);
    if (berth_view_count(out) == 0) return;
    unsigned char* target = out->data;
    for (uint32_t i = 0; i < call->input_count; ++i) {
        const berth_cut cut = berth_view_cut(&call->inputs[i], params->dim);
        cat_job job = {.out = target, .run = cut.size * cut.inner_count};
        berth_walk_init(&job.from, &call->inputs[i]);
        job.stride_bytes = whole.size * whole.inner_count * job.from.item_bytes;
        berth_run_range(call, cut.outer_count * job.run, GRAIN, CHEAP_LEAST, cat_range, &job);
        target += job.run * job.from.item_bytes;
    }
}

// --- Rows chosen by index ------------------------------------------------------------------------

static int64_t load_index(const berth_view* view, int64_t i) {
    if (view->dtype == BERTH_I32) return ((const int32_t*)view->data)[i];
    return ((const int64_t*)view->data)[i];
}

typedef struct embedding_job {
    const berth_view* table;
    const berth_view* ids;
    unsigned char* out;
    int64_t row_stride_bytes; ///< of the table
    int64_t row_bytes;        ///< of the output
    berth_dtype dtype;        ///< of the output
} embedding_job;

static void fill_nan(berth_dtype dtype, void* out, int64_t count) {
    const float nan_value = NAN;
    const int64_t bytes = berth_dtype_bytes(dtype);
    for (int64_t i = 0; i < count; ++i) {
        berth_convert_query_from_f32(dtype)(&nan_value, (unsigned char*)out + i * bytes, 1);
    }
}

static void embedding_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const embedding_job* job = data;
    const int64_t width = job->table->dims[1];
    const bool quantised = job->table->dtype != job->dtype;
    for (int64_t i = begin; i < end; ++i) {
        void* out = job->out + i * job->row_bytes;
        const int64_t id = load_index(job->ids, i);
        if (id < 0 || id >= job->table->dims[0]) {
            fill_nan(job->dtype, out, width);
            continue;
        }
        const unsigned char* row =
            (const unsigned char*)job->table->data + id * job->row_stride_bytes;
        if (quantised)
            berth_convert_query_to_f32(job->table->dtype)(row, out, width);
        else
            memcpy(out, row, (size_t)job->row_bytes);
    }
}

static void kernel_embedding(const berth_op_call* call) {
    const berth_view* table = &call->inputs[0];
    const berth_view* out = &call->outputs[0];
    const int64_t width = table->dims[1];
    embedding_job job = {
        .table = table,
        .ids = &call->inputs[1],
        .out = out->data,
        .row_stride_bytes = table->strides[0] * berth_dtype_bytes(table->dtype),
        .row_bytes = width * berth_dtype_bytes(out->dtype),
        .dtype = out->dtype,
    };
    if (width == 0) return;
    const int64_t rows = berth_view_count(&call->inputs[1]);
    berth_run_range(call, rows, 4, 1 + CHEAP_LEAST / width, embedding_range, &job);
}

typedef struct index_copy_job {
    const berth_view* index;
    berth_walk from;
    unsigned char* out;
    berth_cut to_cut;
    int64_t rows;      ///< of the source
    int64_t row_bytes; ///< of one row at one outer position
} index_copy_job;

/// Outer positions [begin, end); rows in ascending order in each, so the last of equal indices
/// wins.
static void index_copy_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const index_copy_job* job = data;
    const int64_t inner = job->to_cut.inner_count;
    for (int64_t outer = begin; outer < end; ++outer) {
        unsigned char* block = job->out + outer * job->to_cut.size * job->row_bytes;
        for (int64_t i = 0; i < job->rows; ++i) {
            const int64_t row = load_index(job->index, i);
            if (row < 0 || row >= job->to_cut.size) continue;
            const int64_t at = (outer * job->rows + i) * inner;
            berth_walk_copy(&job->from, at, inner, block + row * job->row_bytes);
        }
    }
}

static void kernel_index_copy(const berth_op_call* call) {
    const berth_index_copy_params* params = call->params;
    const berth_view* out = &call->outputs[0];
    const berth_view* src = &call->inputs[2];
    index_copy_job job = {
        .index = &call->inputs[1],
        .out = out->data,
        .to_cut = berth_view_cut(out, params->dim),
        .rows = src->dims[params->dim],
    };
    berth_walk_init(&job.from, src);
    job.row_bytes = job.to_cut.inner_count * job.from.item_bytes;
    if (berth_view_count(src) == 0) return;
    const int64_t least = 1 + CHEAP_LEAST / (job.rows * job.to_cut.inner_count);
    berth_run_range(call, job.to_cut.outer_count, 1, least, index_copy_range, &job);
}

void berth_cpu_fill_layout_kernels(berth_kernel* table) {
    table[BERTH_OP_COPY] = kernel_copy;
    table[BERTH_OP_CAT] = kernel_cat;
    table[BERTH_OP_EMBEDDING] = kernel_embedding;
    table[BERTH_OP_INDEX_COPY] = kernel_index_copy;
}
