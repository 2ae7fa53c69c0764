// SPDX-License-Identifier: Apache-2.0
// ROPE: pairs of each head's elements turned by an angle that grows with the token's position.
//
// The angles, in double, and their sines and cosines are made once a token for all its heads, a run
// of PAIRS pairs at a time.
#include <math.h>
#include <string.h>

#include "base/op_params.h"
#include "device/cpu/kernel_basic.h"

#define LEAST 16384
#define PAIRS 128 // pairs of one table; longer rotations take several

typedef struct rope_job {
    const berth_basic_rows* rows;
    const berth_view* x;
    const berth_view* positions;
    const float* divisors; ///< [rotary / 2], or NULL
    unsigned char* out;
    double base;
    double position_scale;
    int64_t half; ///< pairs in all
    bool halves;
    int64_t bytes; ///< an element of x
} rope_job;

/// The turns of one token's pairs [first, first + count), laid out for the row functions.
typedef struct rope_table {
    float cos[2 * PAIRS];
    float sin[2 * PAIRS];
} rope_table;

/// base^(-2i / rotary) / divisor for pairs [first, first + count). A power for every eighth pair,
/// products between: an error of a few units of 2^-53.
static void make_rates(const rope_job* job, int64_t first, int64_t count, double* rates) {
    const double step = pow(job->base, -1.0 / (double)job->half);
    for (int64_t i = 0; i < count; ++i) {
        const int64_t pair = first + i;
        if (i % 8 == 0)
            rates[i] = pow(job->base, -(double)pair / (double)job->half);
        else
            rates[i] = rates[i - 1] * step;
    }
    if (job->divisors == NULL) return;
    for (int64_t i = 0; i < count; ++i)
        rates[i] /= (double)job->divisors[first + i];
}

static double position_of(const rope_job* job, int64_t token) {
    const int64_t at = token * job->positions->strides[0];
    const double position = job->positions->dtype == BERTH_I32
                                ? (double)((const int32_t*)job->positions->data)[at]
                                : (double)((const int64_t*)job->positions->data)[at];
    return position * job->position_scale;
}

static void make_table(
    const rope_job* job, double position, const double* rates, int64_t count, rope_table* table) {
    double angles[PAIRS];
    for (int64_t i = 0; i < count; ++i)
        angles[i] = position * rates[i];
    if (job->halves) {
        job->rows->sincos(angles, table->sin, table->cos, count);
        return;
    }
    float sines[PAIRS];
    float cosines[PAIRS];
    job->rows->sincos(angles, sines, cosines, count);
    for (int64_t i = 0; i < count; ++i) {
        table->cos[2 * i] = cosines[i];
        table->cos[2 * i + 1] = cosines[i];
        table->sin[2 * i] = -sines[i];
        table->sin[2 * i + 1] = sines[i];
    }
}

/// Turns pairs of one head; `from` and `out` are at its first element.
static void turn_head(const rope_job* job,
                      const unsigned char* from,
                      unsigned char* out,
                      int64_t first,
                      int64_t count,
                      const rope_table* table) {
    float buffer[2 * PAIRS];
    const berth_dtype dtype = job->x->dtype;
    const berth_to_f32_fn load = berth_convert_query_to_f32(dtype);
    if (job->halves) {
        const int64_t low = first * job->bytes;
        const int64_t high = (first + job->half) * job->bytes;
        load(from + low, buffer, count);
        load(from + high, buffer + count, count);
        job->rows->rotate_halves(buffer, buffer, table->cos, table->sin, count);
        berth_store_f32(dtype, buffer, out + low, count);
        berth_store_f32(dtype, buffer + count, out + high, count);
        return;
    }
    const int64_t at = 2 * first * job->bytes;
    if (dtype == BERTH_F32) {
        job->rows->rotate_pairs((float*)(void*)(out + at),
                                (const float*)(const void*)(from + at),
                                table->cos,
                                table->sin,
                                2 * count);
        return;
    }
    load(from + at, buffer, 2 * count);
    job->rows->rotate_pairs(buffer, buffer, table->cos, table->sin, 2 * count);
    berth_store_f32(dtype, buffer, out + at, 2 * count);
}

/// Pairs [first, first + count) of tokens [begin, end).
static void turn_tokens(
    const rope_job* job, int64_t begin, int64_t end, int64_t first, int64_t count) {
    const berth_view* x = job->x;
    double rates[PAIRS];
    make_rates(job, first, count, rates);
    for (int64_t token = begin; token < end; ++token) {
        rope_table table;
        make_table(job, position_of(job, token), rates, count, &table);
        const unsigned char* from =
            (const unsigned char*)x->data + token * x->strides[0] * job->bytes;
        unsigned char* out = job->out + token * x->dims[1] * x->dims[2] * job->bytes;
        for (int64_t head = 0; head < x->dims[1]; ++head) {
            turn_head(job, from, out, first, count, &table);
            from += x->strides[1] * job->bytes;
            out += x->dims[2] * job->bytes;
        }
    }
}

/// Copies what is not turned.
static void copy_rest(const rope_job* job, int64_t token) {
    const berth_view* x = job->x;
    const int64_t rest = (x->dims[2] - 2 * job->half) * job->bytes;
    const int64_t skip = 2 * job->half * job->bytes;
    for (int64_t head = 0; head < x->dims[1] && rest > 0; ++head) {
        const unsigned char* from = (const unsigned char*)x->data +
                                    (token * x->strides[0] + head * x->strides[1]) * job->bytes;
        unsigned char* out = job->out + (token * x->dims[1] + head) * x->dims[2] * job->bytes;
        if (out != from) memcpy(out + skip, from + skip, (size_t)rest);
    }
}

static void rope_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const rope_job* job = data;
    for (int64_t first = 0; first < job->half; first += PAIRS) {
        turn_tokens(job, begin, end, first, berth_min_i64(PAIRS, job->half - first));
    }
    for (int64_t token = begin; token < end; ++token)
        copy_rest(job, token);
}

/// One batch: x and out [tokens, heads, size], positions [tokens].
static void turn_batch(const berth_op_call* call,
                       const berth_view* x,
                       const berth_view* positions,
                       const berth_view* out) {
    const berth_rope_params* params = call->params;
    rope_job job = {
        .rows = berth_basic_query_rows(),
        .x = x,
        .positions = positions,
        .divisors = call->input_count > 2 ? call->inputs[2].data : NULL,
        .out = out->data,
        .base = params->base,
        .position_scale = params->position_scale,
        .half = params->rotary_dims / 2,
        .halves = params->halves,
        .bytes = berth_dtype_bytes(x->dtype),
    };
    const int64_t width = x->dims[1] * x->dims[2];
    if (width == 0) return;
    berth_run_range(call, x->dims[0], 1, 1 + LEAST / width, rope_range, &job);
}

static void kernel_rope(const berth_op_call* call) {
    const berth_view* x = &call->inputs[0];
    const berth_view* positions = &call->inputs[1];
    if (x->rank == 3) {
        turn_batch(call, x, positions, &call->outputs[0]);
        return;
    }
    for (int64_t b = 0; b < x->dims[0]; ++b) {
        const berth_view one = berth_view_at(x, b);
        const berth_view out = berth_view_at(&call->outputs[0], b);
        const berth_view of_one = positions->rank == 1 ? *positions : berth_view_at(positions, b);
        turn_batch(call, &one, &of_one, &out);
    }
}

void berth_cpu_fill_rope_kernels(berth_kernel* table) { table[BERTH_OP_ROPE] = kernel_rope; }
