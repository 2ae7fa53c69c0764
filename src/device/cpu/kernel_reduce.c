// SPDX-License-Identifier: Apache-2.0
// SUM MEAN MAX ARGMAX over one dimension.
//
// Floats are reduced in blocks of BERTH_CHUNK elements along the dimension, each in 16 partial
// results (element i in number i % 16) that are added 8, 4, 2, 1 apart; the blocks' sums are added
// in double. Where the dimension is not the last, a tile of neighbouring columns goes through the
// same additions side by side, so an output has the same bits for every layout of its operand.
#include "device/cpu/kernel_reduce.h"

#include <math.h>
#include <string.h>

#include "base/op_params.h"

#define LEAST 65536
#define TILE BERTH_REDUCE_TILE

typedef enum reduction { REDUCTION_SUM, REDUCTION_MEAN, REDUCTION_MAX, REDUCTION_ARGMAX } reduction;

typedef struct reduce_job {
    berth_reduced from;
    unsigned char* out;
    berth_dtype out_dtype;
    int64_t out_bytes; ///< an element
    reduction op;
} reduce_job;

void berth_reduced_init(berth_reduced* from, const berth_view* view, int32_t dim) {
    from->cut = berth_view_cut(view, dim);
    from->rows = berth_basic_query_rows();
    berth_walk_init(&from->x, view);
}

// --- Floats: rows --------------------------------------------------------------------------------

static double sum_line(const berth_reduced* from, int64_t first) {
    double total = 0.0;
    for (int64_t at = 0; at < from->cut.size; at += BERTH_CHUNK) {
        const int64_t count = berth_min_i64(BERTH_CHUNK, from->cut.size - at);
        float buffer[BERTH_CHUNK];
        float partial[BERTH_PARTIALS] = {0};
        from->rows->sum(partial, berth_walk_f32(&from->x, first + at, count, buffer), count);
        total += (double)from->rows->sum_partials(partial);
    }
    return total;
}

float berth_reduced_max_line(const berth_reduced* from, int64_t first) {
    float partial[BERTH_PARTIALS];
    for (int32_t i = 0; i < BERTH_PARTIALS; ++i)
        partial[i] = -INFINITY;
    for (int64_t at = 0; at < from->cut.size; at += BERTH_CHUNK) {
        const int64_t count = berth_min_i64(BERTH_CHUNK, from->cut.size - at);
        float buffer[BERTH_CHUNK];
        from->rows->max(partial, berth_walk_f32(&from->x, first + at, count, buffer), count);
    }
    return from->rows->max_partials(partial);
}

static bool is_found(float value, float largest) {
    return value == largest || (isnan(largest) && isnan(value));
}

static int64_t find_in_line(const berth_reduced* from, int64_t first, float largest) {
    for (int64_t at = 0; at < from->cut.size; at += BERTH_CHUNK) {
        const int64_t count = berth_min_i64(BERTH_CHUNK, from->cut.size - at);
        float buffer[BERTH_CHUNK];
        const float* x = berth_walk_f32(&from->x, first + at, count, buffer);
        for (int64_t i = 0; i < count; ++i) {
            if (is_found(x[i], largest)) return at + i;
        }
    }
    return 0;
}

// --- Floats: tiles of columns --------------------------------------------------------------------

/// Row `r` of the tile of `width` columns whose first element is item `first`.
static const float* tile_row(
    const berth_reduced* from, int64_t first, int64_t r, int64_t width, float* buffer) {
    return berth_walk_f32(&from->x, first + r * from->cut.inner_count, width, buffer);
}

void berth_reduced_collapse(const berth_reduced* from,
                            float partial[BERTH_PARTIALS][BERTH_REDUCE_TILE],
                            double* total,
                            int64_t width) {
    for (int64_t c = 0; c < width; ++c) {
        float column[BERTH_PARTIALS];
        for (int32_t i = 0; i < BERTH_PARTIALS; ++i)
            column[i] = partial[i][c];
        total[c] += (double)from->rows->sum_partials(column);
    }
    memset(partial, 0, BERTH_PARTIALS * sizeof partial[0]);
}

static void sum_tile(const berth_reduced* from, int64_t first, int64_t width, double* total) {
    float partial[BERTH_PARTIALS][TILE] = {{0}};
    float buffer[BERTH_CHUNK];
    memset(total, 0, TILE * sizeof *total);
    for (int64_t r = 0; r < from->cut.size; ++r) {
        const float* x = tile_row(from, first, r, width, buffer);
        float* sums = partial[r % BERTH_PARTIALS];
        from->rows->binary_f32[BERTH_BINARY_ADD](sums, sums, x, width);
        if ((r + 1) % BERTH_CHUNK == 0) berth_reduced_collapse(from, partial, total, width);
    }
    if (from->cut.size % BERTH_CHUNK != 0) berth_reduced_collapse(from, partial, total, width);
}

void berth_reduced_max_tile(const berth_reduced* from,
                            int64_t first,
                            int64_t width,
                            float* largest) {
    float buffer[BERTH_CHUNK];
    for (int64_t c = 0; c < width; ++c)
        largest[c] = -INFINITY;
    for (int64_t r = 0; r < from->cut.size; ++r) {
        const float* x = tile_row(from, first, r, width, buffer);
        from->rows->binary_f32[BERTH_BINARY_MAXIMUM](largest, largest, x, width);
    }
}

static void find_in_tile(
    const berth_reduced* from, int64_t first, int64_t width, const float* largest, int64_t* found) {
    float buffer[BERTH_CHUNK];
    for (int64_t c = 0; c < width; ++c)
        found[c] = -1;
    for (int64_t r = 0; r < from->cut.size; ++r) {
        const float* x = tile_row(from, first, r, width, buffer);
        for (int64_t c = 0; c < width; ++c) {
            if (found[c] < 0 && is_found(x[c], largest[c])) found[c] = r;
        }
    }
}

// --- Integers ------------------------------------------------------------------------------------

/// Folds element `r` of a column, `value`, into `*best` and, for ARGMAX, `*where`.
static void fold_integer(reduction op, int64_t r, int64_t value, int64_t* best, int64_t* where) {
    if (op == REDUCTION_SUM) {
        *best = (int64_t)((uint64_t)*best + (uint64_t)value);
    } else if (r == 0 || value > *best) {
        *best = value;
        *where = r;
    }
}

static void integer_tile(const reduce_job* job, int64_t first, int64_t width, int64_t* result) {
    int64_t where[TILE] = {0};
    int64_t buffer[BERTH_CHUNK];
    for (int64_t c = 0; c < width; ++c)
        result[c] = 0;
    for (int64_t r = 0; r < job->from.cut.size; ++r) {
        berth_walk_i64(&job->from.x, first + r * job->from.cut.inner_count, width, buffer);
        for (int64_t c = 0; c < width; ++c) {
            fold_integer(job->op, r, buffer[c], &result[c], &where[c]);
        }
    }
    if (job->op == REDUCTION_ARGMAX) memcpy(result, where, (size_t)width * sizeof *result);
}

static int64_t integer_line(const reduce_job* job, int64_t first) {
    int64_t best = 0;
    int64_t where = 0;
    int64_t buffer[BERTH_CHUNK];
    for (int64_t at = 0; at < job->from.cut.size; at += BERTH_CHUNK) {
        const int64_t count = berth_min_i64(BERTH_CHUNK, job->from.cut.size - at);
        berth_walk_i64(&job->from.x, first + at, count, buffer);
        for (int64_t i = 0; i < count; ++i) {
            fold_integer(job->op, at + i, buffer[i], &best, &where);
        }
    }
    return job->op == REDUCTION_ARGMAX ? where : best;
}

// --- Both ----------------------------------------------------------------------------------------

static void store_sum(const reduce_job* job, int64_t output, double total) {
    if (job->op == REDUCTION_MEAN) total /= (double)job->from.cut.size;
    const float value = (float)total;
    berth_store_f32(job->out_dtype, &value, job->out + output * job->out_bytes, 1);
}

/// One output whose elements follow each other in the operand's sequence.
static void reduce_line(const reduce_job* job, int64_t output) {
    const int64_t first = output * job->from.cut.size;
    void* out = job->out + output * job->out_bytes;
    if (!berth_dtype_is_float(job->from.x.dtype)) {
        const int64_t value = integer_line(job, first);
        berth_store_i64(job->out_dtype, &value, out, 1);
    } else if (job->op == REDUCTION_SUM || job->op == REDUCTION_MEAN) {
        store_sum(job, output, sum_line(&job->from, first));
    } else {
        const float largest = berth_reduced_max_line(&job->from, first);
        const int64_t found =
            job->op == REDUCTION_ARGMAX ? find_in_line(&job->from, first, largest) : 0;
        if (job->op == REDUCTION_ARGMAX)
            memcpy(out, &found, sizeof found);
        else
            berth_store_f32(job->out_dtype, &largest, out, 1);
    }
}

/// `width` outputs side by side, the first of which is number `output`.
static void reduce_tile(const reduce_job* job, int64_t output, int64_t width) {
    const int64_t first = berth_reduced_first(&job->from, output);
    void* out = job->out + output * job->out_bytes;
    if (!berth_dtype_is_float(job->from.x.dtype)) {
        int64_t result[TILE];
        integer_tile(job, first, width, result);
        berth_store_i64(job->out_dtype, result, out, width);
    } else if (job->op == REDUCTION_SUM || job->op == REDUCTION_MEAN) {
        double total[TILE];
        sum_tile(&job->from, first, width, total);
        for (int64_t c = 0; c < width; ++c)
            store_sum(job, output + c, total[c]);
    } else {
        float largest[TILE];
        int64_t found[TILE];
        berth_reduced_max_tile(&job->from, first, width, largest);
        if (job->op == REDUCTION_ARGMAX) {
            find_in_tile(&job->from, first, width, largest, found);
            memcpy(out, found, (size_t)width * sizeof *found);
        } else {
            berth_store_f32(job->out_dtype, largest, out, width);
        }
    }
}

static void reduce_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const reduce_job* job = data;
    const int64_t inner = job->from.cut.inner_count;
    for (int64_t output = begin; output < end;) {
        if (inner == 1) {
            reduce_line(job, output++);
            continue;
        }
        const int64_t left = berth_min_i64(end - output, inner - output % inner);
        const int64_t width = berth_min_i64(TILE, left);
        reduce_tile(job, output, width);
        output += width;
    }
}

static void run_reduction(const berth_op_call* call, reduction op) {
    const berth_reduce_params* params = call->params;
    const berth_view* out = &call->outputs[0];
    reduce_job job = {
        .out = out->data,
        .out_dtype = out->dtype,
        .out_bytes = berth_dtype_bytes(out->dtype),
        .op = op,
    };
    berth_reduced_init(&job.from, &call->inputs[0], params->dim);
    const int64_t grain = job.from.cut.inner_count == 1 ? 1 : TILE;
    const int64_t least = 1 + LEAST / (job.from.cut.size > 0 ? job.from.cut.size : 1);
    const int64_t outputs = job.from.cut.outer_count * job.from.cut.inner_count;
    berth_run_range(call, outputs, grain, least, reduce_range, &job);
}

static void kernel_sum(const berth_op_call* call) { run_reduction(call, REDUCTION_SUM); }
static void kernel_mean(const berth_op_call* call) { run_reduction(call, REDUCTION_MEAN); }
static void kernel_max(const berth_op_call* call) { run_reduction(call, REDUCTION_MAX); }
static void kernel_argmax(const berth_op_call* call) { run_reduction(call, REDUCTION_ARGMAX); }

void berth_cpu_fill_reduce_kernels(berth_kernel* table) {
    table[BERTH_OP_SUM] = kernel_sum;
    table[BERTH_OP_MEAN] = kernel_mean;
    table[BERTH_OP_MAX] = kernel_max;
    table[BERTH_OP_ARGMAX] = kernel_argmax;
    table[BERTH_OP_SOFTMAX] = berth_cpu_softmax;
}
