// SPDX-License-Identifier: Apache-2.0
// Random numbers: RAND RANDN RANDINT.
#include "device/cpu/kernel_random.h"

#include <math.h>

#include "base/op_params.h"
#include "device/cpu/kernel_basic.h"

#define GRAIN 4096

// --- RAND RANDN ----------------------------------------------------------------------------------

typedef struct random_job {
    const berth_basic_rows* rows;
    unsigned char* out;
    uint64_t key;
    double low;
    double high;
    berth_dtype dtype;
    int64_t bytes; ///< an element
    float below;   ///< of a half: the largest below `high`
} random_job;

static random_job random_job_of(const berth_op_call* call) {
    const berth_random_params* params = call->params;
    const berth_view* out = &call->outputs[0];
    return (random_job){
        .rows = berth_basic_query_rows(),
        .out = out->data,
        .key = berth_random_key(params->seed),
        .low = (double)params->low,
        .high = (double)params->high,
        .dtype = out->dtype,
        .bytes = berth_dtype_bytes(out->dtype),
    };
}

/// The largest number of a half type that is below `high`.
static float largest_below(berth_dtype dtype, double high) {
    const float start = (float)high;
    uint16_t narrow;
    float value;
    berth_store_f32(dtype, &start, &narrow, 1);
    berth_convert_query_to_f32(dtype)(&narrow, &value, 1);
    if ((double)value < high) return value;
    if ((narrow & 0x7fffu) == 0)
        narrow = 0x8001u; // below zero
    else
        narrow = (uint16_t)(value > 0.0f ? narrow - 1 : narrow + 1);
    berth_convert_query_to_f32(dtype)(&narrow, &value, 1);
    return value;
}

static void rand_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const random_job* job = data;
    const bool may_reach = job->dtype != BERTH_F32 && job->low < job->high;
    uint64_t bits[BERTH_CHUNK];
    float values[BERTH_CHUNK];
    for (int64_t at = begin; at < end; at += BERTH_CHUNK) {
        const int64_t count = berth_min_i64(BERTH_CHUNK, end - at);
        job->rows->random_bits(bits, count, job->key, at);
        job->rows->random_uniform(values, bits, count, job->low, job->high);
        // what rounding to a half would take to `high` becomes the value below it
        for (int64_t i = 0; may_reach && i < count; ++i)
            values[i] = values[i] < job->below ? values[i] : job->below;
        berth_store_f32(job->dtype, values, job->out + at * job->bytes, count);
    }
}

static void kernel_rand(const berth_op_call* call) {
    random_job job = random_job_of(call);
    if (job.dtype != BERTH_F32) job.below = largest_below(job.dtype, job.high);
    berth_run_range(call, berth_view_count(&call->outputs[0]), GRAIN, GRAIN, rand_range, &job);
}

/// Box and Muller's method, from 32 bits each for radius and angle; one of its two results.
static float random_normal(const random_job* job, uint64_t bits) {
    const double unit = ((double)(bits >> 32) + 1.0) * 0x1p-32; // (0, 1]
    const double turn = (double)(bits & 0xffffffffu) * 0x1p-32;
    const double radius = sqrt(-2.0 * log(unit));
    return (float)(job->low + job->high * radius * cos(turn * 6.283185307179586));
}

static void randn_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const random_job* job = data;
    uint64_t bits[BERTH_CHUNK];
    float values[BERTH_CHUNK];
    for (int64_t at = begin; at < end; at += BERTH_CHUNK) {
        const int64_t count = berth_min_i64(BERTH_CHUNK, end - at);
        job->rows->random_bits(bits, count, job->key, at);
        for (int64_t i = 0; i < count; ++i)
            values[i] = random_normal(job, bits[i]);
        berth_store_f32(job->dtype, values, job->out + at * job->bytes, count);
    }
}

static void kernel_randn(const berth_op_call* call) {
    random_job job = random_job_of(call);
    berth_run_range(call, berth_view_count(&call->outputs[0]), GRAIN, GRAIN, randn_range, &job);
}

// --- RANDINT -------------------------------------------------------------------------------------

typedef struct randint_job {
    const berth_basic_rows* rows;
    unsigned char* out;
    uint64_t key;
    uint64_t low; ///< as an int64_t
    uint64_t span;
    berth_dtype dtype;
    int64_t bytes; ///< an element
} randint_job;

__extension__ typedef unsigned __int128 wide;

/// One of 0 .. span - 1, by Lemire's method (2019): the high half of bits * span, but for the few
/// bits of which one result would have more than another; they are drawn anew.
static uint64_t random_below(uint64_t bits, uint64_t span) {
    wide product = (wide)bits * span;
    if ((uint64_t)product < span) {
        const uint64_t excess = (0 - span) % span; // 2^64 mod span
        while ((uint64_t)product < excess) {
            bits = berth_random_mix(bits + BERTH_RANDOM_STEP);
            product = (wide)bits * span;
        }
    }
    return (uint64_t)(product >> 64);
}

static void randint_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const randint_job* job = data;
    uint64_t bits[BERTH_CHUNK];
    int64_t values[BERTH_CHUNK];
    for (int64_t at = begin; at < end; at += BERTH_CHUNK) {
        const int64_t count = berth_min_i64(BERTH_CHUNK, end - at);
        job->rows->random_bits(bits, count, job->key, at);
        for (int64_t i = 0; i < count; ++i)
            values[i] = (int64_t)(job->low + random_below(bits[i], job->span));
        berth_store_i64(job->dtype, values, job->out + at * job->bytes, count);
    }
}

static void kernel_randint(const berth_op_call* call) {
    const berth_randint_params* params = call->params;
    const berth_view* out = &call->outputs[0];
    randint_job job = {
        .rows = berth_basic_query_rows(),
        .out = out->data,
        .key = berth_random_key(params->seed),
        .low = (uint64_t)params->low,
        .span = (uint64_t)params->high - (uint64_t)params->low,
        .dtype = out->dtype,
        .bytes = berth_dtype_bytes(out->dtype),
    };
    berth_run_range(call, berth_view_count(out), GRAIN, GRAIN, randint_range, &job);
}

void berth_cpu_fill_random_kernels(berth_kernel* table) {
    table[BERTH_OP_RAND] = kernel_rand;
    table[BERTH_OP_RANDN] = kernel_randn;
    table[BERTH_OP_RANDINT] = kernel_randint;
}
