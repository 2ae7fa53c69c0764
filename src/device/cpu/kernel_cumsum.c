// SPDX-License-Identifier: Apache-2.0
// CUMSUM along one dimension. Integers add up in i64 that wraps. Floats add up in double, in groups
// of BERTH_SCAN_GROUP from the first element on, whether along a line or in columns side by side,
// so a result has the same bits for every layout of its operand.
//
// A line is one thread's: each of its sums needs the one before, and a second pass over the
// operand to find where each part of it begins would cost what the other threads save.
#include <string.h>

#include "base/dims.h"
#include "device/cpu/kernel_reduce.h"

#define LEAST 65536
#define TILE BERTH_REDUCE_TILE

typedef struct cumsum_job {
    berth_reduced from;
    unsigned char* out;
    berth_dtype out_dtype;
    int64_t out_bytes; ///< an element
} cumsum_job;

// --- Lines ---------------------------------------------------------------------------------------

static void float_line(const cumsum_job* job, int64_t first) {
    const berth_reduced* from = &job->from;
    float buffer[BERTH_CHUNK];
    double carry = 0.0;
    for (int64_t at = 0; at < from->cut.size; at += BERTH_CHUNK) {
        const int64_t count = berth_min_i64(BERTH_CHUNK, from->cut.size - at);
        unsigned char* out = job->out + (first + at) * job->out_bytes;
        const float* x = berth_walk_f32(&from->x, first + at, count, buffer);
        float* to = job->out_dtype == BERTH_F32 ? (float*)(void*)out : buffer;
        carry = from->rows->scan(to, x, count, carry);
        berth_store_f32(job->out_dtype, to, out, count);
    }
}

static void integer_line(const cumsum_job* job, int64_t first) {
    const berth_reduced* from = &job->from;
    const berth_integer_rows* rows = &from->rows->integers[from->x.dtype];
    int64_t buffer[BERTH_CHUNK];
    int64_t carry = 0;
    for (int64_t at = 0; at < from->cut.size; at += BERTH_CHUNK) {
        const int64_t count = berth_min_i64(BERTH_CHUNK, from->cut.size - at);
        const void* x = berth_walk_as(&from->x, from->x.dtype, first + at, count, buffer);
        int64_t* out = (int64_t*)(void*)(job->out + (first + at) * job->out_bytes);
        carry = rows->scan(out, x, count, carry);
    }
}

// --- Columns side by side ------------------------------------------------------------------------

/// `count` (1 .. BERTH_SCAN_GROUP) rows of a tile from item `first` on: as scan adds a group up.
static void float_group(
    const cumsum_job* job, int64_t first, int64_t count, int64_t width, double* carry) {
    const berth_reduced* from = &job->from;
    const int64_t inner = from->cut.inner_count;
    double sums[BERTH_SCAN_GROUP][TILE];
    float buffer[BERTH_CHUNK];
    for (int64_t r = 0; r < count; ++r)
        from->rows->widen(sums[r], berth_reduced_row(from, first, r, width, buffer), width);
    for (int64_t step = 1; step < count; step *= 2)
        for (int64_t r = count - 1; r >= step; --r)
            from->rows->add_doubles(sums[r], sums[r - step], width);
    for (int64_t r = 0; r < count; ++r) {
        from->rows->add_doubles(sums[r], carry, width);
        from->rows->round(buffer, sums[r], width);
        unsigned char* out = job->out + (first + r * inner) * job->out_bytes;
        berth_convert_query_from_f32(job->out_dtype)(buffer, out, width);
    }
    memcpy(carry, sums[count - 1], (size_t)width * sizeof *carry);
}

static void float_tile(const cumsum_job* job, int64_t first, int64_t width) {
    const berth_cut* cut = &job->from.cut;
    double carry[TILE] = {0};
    for (int64_t r = 0; r < cut->size; r += BERTH_SCAN_GROUP)
        float_group(job,
                    first + r * cut->inner_count,
                    berth_min_i64(BERTH_SCAN_GROUP, cut->size - r),
                    width,
                    carry);
}

static void integer_tile(const cumsum_job* job, int64_t first, int64_t width) {
    const berth_reduced* from = &job->from;
    const berth_integer_rows* rows = &from->rows->integers[from->x.dtype];
    int64_t totals[TILE] = {0};
    int64_t buffer[BERTH_CHUNK];
    for (int64_t r = 0; r < from->cut.size; ++r) {
        const int64_t at = first + r * from->cut.inner_count;
        rows->sum_into(totals, berth_walk_as(&from->x, from->x.dtype, at, width, buffer), width);
        memcpy(job->out + at * job->out_bytes, totals, (size_t)width * sizeof totals[0]);
    }
}

static void cumsum_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const cumsum_job* job = data;
    const int64_t inner = job->from.cut.inner_count;
    const bool is_float = berth_dtype_is_float(job->from.x.dtype);
    for (int64_t column = begin; column < end;) {
        const int64_t first = berth_reduced_first(&job->from, column);
        const int64_t left = berth_min_i64(end - column, inner - column % inner);
        const int64_t width = berth_min_i64(TILE, left);
        if (inner == 1)
            (is_float ? float_line : integer_line)(job, first);
        else
            (is_float ? float_tile : integer_tile)(job, first, width);
        column += width;
    }
}

static void kernel_cumsum(const berth_op_call* call) {
    const berth_reduce_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    const berth_view* out = &call->outputs[0];
    cumsum_job job = {
        .out = out->data,
        .out_dtype = out->dtype,
        .out_bytes = berth_dtype_bytes(out->dtype),
    };
    berth_reduced_init(&job.from, x, berth_dims_mask(&params->dims, x->rank));
    if (job.from.cut.size == 0) return;
    const int64_t grain = job.from.cut.inner_count == 1 ? 1 : TILE;
    const int64_t columns = job.from.cut.outer_count * job.from.cut.inner_count;
    berth_run_range(call, columns, grain, 1 + LEAST / job.from.cut.size, cumsum_range, &job);
}

void berth_cpu_fill_cumsum_kernels(berth_kernel* table) { table[BERTH_OP_CUMSUM] = kernel_cumsum; }
