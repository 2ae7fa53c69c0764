// SPDX-License-Identifier: Apache-2.0
// SOFTMAX and LOG_SOFTMAX over one dimension: the largest, the sum of e^(x - largest), then the
// quotients or x - largest - log sum.
//
// Sums go as in kernel_reduce.h: blocks of BERTH_CHUNK elements in 16 partial results, the blocks
// added in double; columns side by side where the dimension is not the last, with the same bits.
// For softmax in f32 the powers are kept in the output; narrower outputs would round them, and
// log_softmax still needs the operand that it may be in the place of.
#include <math.h>

#include "base/dims.h"
#include "device/cpu/kernel_reduce.h"

#define LEAST 16384
#define TILE BERTH_REDUCE_TILE
/// Elements of a line whose powers are kept beside an output that cannot keep them.
#define KEPT_POWERS (2 * BERTH_CHUNK)

typedef struct softmax_job {
    berth_reduced from;
    unsigned char* out;
    berth_dtype dtype;
    int64_t bytes; ///< an element
    bool is_log;
    bool keeps_powers; ///< in the output
} softmax_job;

/// Where the powers of items from `at` on go: the output if it keeps them, else `buffer`.
static float* powers(const softmax_job* job, int64_t at, float* buffer) {
    if (!job->keeps_powers) return buffer;
    return (float*)(void*)(job->out + at * job->bytes);
}

// --- The last dimension --------------------------------------------------------------------------

static float largest_of_line(const softmax_job* job, int64_t first) {
    float largest = -INFINITY;
    for (int64_t at = 0; at < job->from.cut.size; at += BERTH_CHUNK) {
        const int64_t count = berth_min_i64(BERTH_CHUNK, job->from.cut.size - at);
        const float value = berth_reduced_extreme(&job->from, first + at, count, false);
        if (value > largest || isnan(value)) largest = value;
        if (isnan(largest)) break;
    }
    return largest;
}

/// The powers of `count` items from `at` on go to `out`; returns their sum.
static double line_powers(
    const softmax_job* job, int64_t at, int64_t count, float largest, float* out) {
    float partial[BERTH_PARTIALS] = {0};
    float buffer[BERTH_CHUNK];
    const float* x = berth_walk_f32(&job->from.x, at, count, buffer);
    job->from.rows->sum_exp(partial, out, x, count, largest);
    return (double)job->from.rows->sum_partials(partial);
}

/// Writes what follows from the powers, which lie at `out` or, for a narrower type or a logarithm,
/// in `kept`, unless the line is too long for that.
static void finish_line(
    const softmax_job* job, int64_t first, float largest, double total, float* kept) {
    const float scale = (float)(1.0 / total);
    const float log_total = (float)log(total);
    const int64_t size = job->from.cut.size;
    float buffer[BERTH_CHUNK];
    for (int64_t at = 0; at < size; at += BERTH_CHUNK) {
        const int64_t count = berth_min_i64(BERTH_CHUNK, size - at);
        unsigned char* out = job->out + (first + at) * job->bytes;
        float* to = job->dtype == BERTH_F32 ? (float*)(void*)out : buffer;
        if (job->is_log) {
            const float* x = berth_walk_f32(&job->from.x, first + at, count, buffer);
            job->from.rows->subtract(to, x, count, largest, log_total);
        } else {
            const float* power = job->keeps_powers ? to : kept + at % KEPT_POWERS;
            if (!job->keeps_powers && size > KEPT_POWERS)
                line_powers(job, first + at, count, largest, kept + at % KEPT_POWERS);
            job->from.basic->affine(to, power, count, scale, 0.0f);
        }
        berth_store_f32(job->dtype, to, out, count);
    }
}

static void softmax_line(const softmax_job* job, int64_t first) {
    float kept[KEPT_POWERS];
    const float largest = largest_of_line(job, first);
    double total = 0.0;
    for (int64_t at = 0; at < job->from.cut.size; at += BERTH_CHUNK) {
        const int64_t count = berth_min_i64(BERTH_CHUNK, job->from.cut.size - at);
        total += line_powers(
            job, first + at, count, largest, powers(job, first + at, kept + at % KEPT_POWERS));
    }
    finish_line(job, first, largest, total, kept);
}

// --- Another dimension ---------------------------------------------------------------------------

/// The powers of row `r` of a tile, at the output or in `buffer`.
static float* tile_powers(
    const softmax_job* job, int64_t at, int64_t width, const float* largest, float* buffer) {
    const float* x = berth_walk_f32(&job->from.x, at, width, buffer);
    float* power = powers(job, at, buffer);
    job->from.basic->binary_f32[BERTH_BINARY_SUB](power, x, largest, width);
    job->from.basic->unary[BERTH_UNARY_EXP](power, power, width);
    return power;
}

/// The powers' sums, a block of rows at a time.
static void tile_sums(
    const softmax_job* job, int64_t first, int64_t width, const float* largest, double* total) {
    const berth_reduced* from = &job->from;
    berth_tile_partials partial;
    float buffer[BERTH_CHUNK];
    for (int64_t begin = 0; begin < from->cut.size; begin += BERTH_CHUNK) {
        const int64_t count = berth_min_i64(BERTH_CHUNK, from->cut.size - begin);
        for (int64_t r = 0; r < count; ++r) {
            const int64_t at = first + (begin + r) * from->cut.inner_count;
            const float* power = tile_powers(job, at, width, largest, buffer);
            berth_reduced_add(from, partial, r, power, width);
        }
        berth_reduced_collapse(from, partial, count, width);
        for (int64_t c = 0; c < width; ++c)
            total[c] += (double)partial[0][c];
    }
}

/// Row `at` of the result; `last` is log sum, or 1 / sum.
static void finish_tile_row(
    const softmax_job* job, int64_t at, int64_t width, const float* largest, const float* last) {
    const berth_binary_fn* binary = job->from.basic->binary_f32;
    float buffer[BERTH_CHUNK];
    unsigned char* out = job->out + at * job->bytes;
    float* to = job->dtype == BERTH_F32 ? (float*)(void*)out : buffer;
    if (job->is_log) {
        const float* x = berth_walk_f32(&job->from.x, at, width, buffer);
        binary[BERTH_BINARY_SUB](to, x, largest, width);
        binary[BERTH_BINARY_SUB](to, to, last, width);
    } else {
        const float* power = job->keeps_powers ? to : tile_powers(job, at, width, largest, buffer);
        binary[BERTH_BINARY_MUL](to, power, last, width);
    }
    berth_store_f32(job->dtype, to, out, width);
}

static void softmax_tile(const softmax_job* job, int64_t first, int64_t width) {
    float largest[TILE];
    float last[TILE];
    double total[TILE] = {0};
    const berth_reduced* from = &job->from;
    berth_reduced_tile_extreme(from, first, from->cut.size, width, false, largest);
    tile_sums(job, first, width, largest, total);
    for (int64_t c = 0; c < width; ++c)
        last[c] = (float)(job->is_log ? log(total[c]) : 1.0 / total[c]);
    for (int64_t r = 0; r < from->cut.size; ++r)
        finish_tile_row(job, first + r * from->cut.inner_count, width, largest, last);
}

static void softmax_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const softmax_job* job = data;
    const int64_t inner = job->from.cut.inner_count;
    for (int64_t column = begin; column < end;) {
        const int64_t first = berth_reduced_first(&job->from, column);
        if (inner == 1) {
            softmax_line(job, first);
            ++column;
            continue;
        }
        const int64_t left = berth_min_i64(end - column, inner - column % inner);
        const int64_t width = berth_min_i64(TILE, left);
        softmax_tile(job, first, width);
        column += width;
    }
}

static void run_softmax(const berth_op_call* call, bool is_log) {
    const berth_reduce_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    const berth_view* out = &call->outputs[0];
    softmax_job job = {
        .out = out->data,
        .dtype = out->dtype,
        .bytes = berth_dtype_bytes(out->dtype),
        .is_log = is_log,
        .keeps_powers = out->dtype == BERTH_F32 && !is_log,
    };
    berth_reduced_init(&job.from, x, berth_dims_mask(&params->dims, x->rank));
    if (job.from.cut.size == 0) return;
    const int64_t grain = job.from.cut.inner_count == 1 ? 1 : TILE;
    const int64_t columns = job.from.cut.outer_count * job.from.cut.inner_count;
    berth_run_range(call, columns, grain, 1 + LEAST / job.from.cut.size, softmax_range, &job);
}

static void kernel_softmax(const berth_op_call* call) { run_softmax(call, false); }
static void kernel_log_softmax(const berth_op_call* call) { run_softmax(call, true); }

void berth_cpu_fill_softmax_kernels(berth_kernel* table) {
    table[BERTH_OP_SOFTMAX] = kernel_softmax;
    table[BERTH_OP_LOG_SOFTMAX] = kernel_log_softmax;
}
