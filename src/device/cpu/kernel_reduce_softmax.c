// SPDX-License-Identifier: Apache-2.0
// SOFTMAX over one dimension: the largest, the sum of e^(x - largest), the quotients.
//
// Sums go as in kernel_reduce.c: blocks of BERTH_CHUNK elements in 16 partial results, the blocks
// added in double; columns side by side where the dimension is not the last, with the same bits.
// The powers are kept in an f32 output; for narrower outputs, which would round them, they are
// computed again.
#include "base/op_params.h"
#include "device/cpu/kernel_reduce.h"

#define LEAST 16384
#define TILE BERTH_REDUCE_TILE

typedef struct softmax_job {
    berth_reduced from;
    unsigned char* out;
    berth_dtype dtype;
    int64_t bytes; ///< an element
} softmax_job;

/// Where the powers of items from `at` on go: the output if it is f32, else `buffer`.
static float* powers(const softmax_job* job, int64_t at, float* buffer) {
    if (job->dtype != BERTH_F32) return buffer;
    return (float*)(void*)(job->out + at * job->bytes);
}

// --- The last dimension --------------------------------------------------------------------------

static void softmax_line(const softmax_job* job, int64_t first) {
    float buffer[BERTH_CHUNK];
    const float largest = berth_reduced_max_line(&job->from, first);
    double total = 0.0;
    for (int64_t at = 0; at < job->from.cut.size; at += BERTH_CHUNK) {
        const int64_t count = berth_min_i64(BERTH_CHUNK, job->from.cut.size - at);
        const float* x = berth_walk_f32(&job->from.x, first + at, count, buffer);
        float partial[BERTH_PARTIALS] = {0};
        job->from.rows->sum_exp(partial, powers(job, first + at, buffer), x, count, largest);
        total += (double)job->from.rows->sum_partials(partial);
    }
    const float scale = (float)(1.0 / total);
    for (int64_t at = 0; at < job->from.cut.size; at += BERTH_CHUNK) {
        const int64_t count = berth_min_i64(BERTH_CHUNK, job->from.cut.size - at);
        float* power = powers(job, first + at, buffer);
        if (job->dtype != BERTH_F32) {
            float unused[BERTH_PARTIALS] = {0};
            const float* x = berth_walk_f32(&job->from.x, first + at, count, buffer);
            job->from.rows->sum_exp(unused, power, x, count, largest);
        }
        job->from.rows->affine(power, power, count, scale, 0.0f);
        berth_store_f32(job->dtype, power, job->out + (first + at) * job->bytes, count);
    }
}

// --- Another dimension ---------------------------------------------------------------------------

/// The powers of row `r` of a tile, at the output or in `buffer`.
static float* tile_powers(
    const softmax_job* job, int64_t at, int64_t width, const float* largest, float* buffer) {
    const float* x = berth_walk_f32(&job->from.x, at, width, buffer);
    float* power = powers(job, at, buffer);
    job->from.rows->binary_f32[BERTH_BINARY_SUB](power, x, largest, width);
    job->from.rows->unary[BERTH_UNARY_EXP](power, power, width);
    return power;
}

static void sum_tile(
    const softmax_job* job, int64_t first, int64_t width, const float* largest, float* scale) {
    double total[TILE] = {0};
    float partial[BERTH_PARTIALS][TILE] = {{0}};
    float buffer[BERTH_CHUNK];
    for (int64_t r = 0; r < job->from.cut.size; ++r) {
        const int64_t at = first + r * job->from.cut.inner_count;
        const float* power = tile_powers(job, at, width, largest, buffer);
        float* sums = partial[r % BERTH_PARTIALS];
        job->from.rows->binary_f32[BERTH_BINARY_ADD](sums, sums, power, width);
        if ((r + 1) % BERTH_CHUNK == 0) berth_reduced_collapse(&job->from, partial, total, width);
    }
    if (job->from.cut.size % BERTH_CHUNK != 0)
        berth_reduced_collapse(&job->from, partial, total, width);
    for (int64_t c = 0; c < width; ++c)
        scale[c] = (float)(1.0 / total[c]);
}

static void softmax_tile(const softmax_job* job, int64_t first, int64_t width) {
    float largest[TILE];
    float scale[TILE];
    float buffer[BERTH_CHUNK];
    berth_reduced_max_tile(&job->from, first, width, largest);
    sum_tile(job, first, width, largest, scale);
    for (int64_t r = 0; r < job->from.cut.size; ++r) {
        const int64_t at = first + r * job->from.cut.inner_count;
        float* power = powers(job, at, buffer);
        if (job->dtype != BERTH_F32) power = tile_powers(job, at, width, largest, buffer);
        job->from.rows->binary_f32[BERTH_BINARY_MUL](power, power, scale, width);
        berth_store_f32(job->dtype, power, job->out + at * job->bytes, width);
    }
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

void berth_cpu_softmax(const berth_op_call* call) {
    const berth_reduce_params* params = call->params;
    const berth_view* out = &call->outputs[0];
    softmax_job job = {
        .out = out->data,
        .dtype = out->dtype,
        .bytes = berth_dtype_bytes(out->dtype),
    };
    berth_reduced_init(&job.from, &call->inputs[0], params->dim);
    if (job.from.cut.size == 0) return;
    const int64_t grain = job.from.cut.inner_count == 1 ? 1 : TILE;
    const int64_t columns = job.from.cut.outer_count * job.from.cut.inner_count;
    berth_run_range(call, columns, grain, 1 + LEAST / job.from.cut.size, softmax_range, &job);
}
