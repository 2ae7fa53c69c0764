// SPDX-License-Identifier: Apache-2.0
// Tensors made from nothing: FILL ARANGE RAND RANDN RANDINT; and NOOP.
#include <math.h>
#include <string.h>

#include "base/op_params.h"
#include "device/cpu/kernel_basic.h"

#define GRAIN 4096
#define CHEAP_LEAST 65536

// --- FILL ----------------------------------------------------------------------------------------

/// Converts a double to an integer of [low, high]: toward zero, NaN to 0.
static int64_t saturate(double value, int64_t low, int64_t high) {
    if (isnan(value)) return 0;
    if (value <= (double)low) return low;
    if (value >= (double)high) return high; // (double)INT64_MAX is 2^63, which is too large
    return (int64_t)value;
}

void berth_store_double(berth_dtype dtype, double value, void* target) {
    const float narrow = (float)value;
    if (berth_dtype_is_float(dtype)) {
        berth_store_f32(dtype, &narrow, target, 1);
    } else if (dtype == BERTH_BOOL) {
        *(uint8_t*)target = value != 0.0;
    } else {
        const int64_t whole =
            saturate(value, berth_dtype_lowest(dtype), berth_dtype_highest(dtype));
        berth_store_i64(dtype, &whole, target, 1);
    }
}

typedef struct fill_job {
    unsigned char* out;
    int64_t bytes; ///< an element
    union {
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
    } item;
} fill_job;

static void fill_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const fill_job* job = data;
    void* out = job->out + begin * job->bytes;
    const int64_t count = end - begin;
    switch (job->bytes) {
    case 1:
        memset(out, job->item.u8, (size_t)count);
        break;
    case 2:
        for (int64_t i = 0; i < count; ++i)
            ((uint16_t*)out)[i] = job->item.u16;
        break;
    case 4:
        for (int64_t i = 0; i < count; ++i)
            ((uint32_t*)out)[i] = job->item.u32;
        break;
    default:
        for (int64_t i = 0; i < count; ++i)
            ((uint64_t*)out)[i] = job->item.u64;
        break;
    }
}

static void kernel_fill(const berth_op_call* call) {
    const berth_fill_params* params = call->params;
    const berth_view* out = &call->outputs[0];
    fill_job job = {.out = out->data, .bytes = berth_dtype_bytes(out->dtype)};
    berth_store_double(out->dtype, params->value, &job.item);
    berth_run_range(call, berth_view_count(out), GRAIN, CHEAP_LEAST, fill_range, &job);
}

// --- ARANGE --------------------------------------------------------------------------------------

typedef struct arange_job {
    unsigned char* out;
    double start;
    double step;
    berth_dtype dtype;
    int64_t bytes;  ///< an element
    bool is_whole;  ///< integers below 2^53 in magnitude all along
    int64_t lowest; ///< of the type, if it is one of integers
    int64_t highest;
} arange_job;

static void arange_floats(const arange_job* job, int64_t at, int64_t count) {
    float values[BERTH_CHUNK];
    const double start = job->start, step = job->step;
    const double first = (double)at;
    for (int32_t i = 0; i < (int32_t)count; ++i)
        values[i] = (float)(start + (first + (double)i) * step);
    berth_store_f32(job->dtype, values, job->out + at * job->bytes, count);
}

static void arange_integers(const arange_job* job, int64_t at, int64_t count) {
    int64_t values[BERTH_CHUNK];
    if (job->is_whole) {
        const int64_t step = (int64_t)job->step;
        const int64_t first = (int64_t)job->start + at * step;
        for (int64_t i = 0; i < count; ++i) {
            const int64_t value = first + i * step;
            const int64_t above = value > job->lowest ? value : job->lowest;
            values[i] = above < job->highest ? above : job->highest;
        }
    } else {
        for (int64_t i = 0; i < count; ++i)
            values[i] =
                saturate(job->start + (double)(at + i) * job->step, job->lowest, job->highest);
    }
    berth_store_i64(job->dtype, values, job->out + at * job->bytes, count);
}

static void arange_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const arange_job* job = data;
    for (int64_t at = begin; at < end; at += BERTH_CHUNK) {
        const int64_t count = berth_min_i64(BERTH_CHUNK, end - at);
        if (berth_dtype_is_float(job->dtype))
            arange_floats(job, at, count);
        else
            arange_integers(job, at, count);
    }
}

static bool is_whole(double value) { return value == floor(value) && fabs(value) <= 0x1p53; }

static void kernel_arange(const berth_op_call* call) {
    const berth_arange_params* params = call->params;
    const berth_view* out = &call->outputs[0];
    const double last = params->start + (double)params->count * params->step;
    arange_job job = {
        .out = out->data,
        .start = params->start,
        .step = params->step,
        .dtype = out->dtype,
        .bytes = berth_dtype_bytes(out->dtype),
        .is_whole = is_whole(params->start) && is_whole(params->step) && is_whole(last),
    };
    if (!berth_dtype_is_float(out->dtype)) {
        job.lowest = berth_dtype_lowest(out->dtype);
        job.highest = berth_dtype_highest(out->dtype);
    }
    berth_run_range(call, params->count, GRAIN, CHEAP_LEAST, arange_range, &job);
}

// --- RAND RANDN
// -----------------------------------------------------------------------------------

typedef struct random_job {
    unsigned char* out;
    uint64_t key;
    double low;
    double high;
    bool normal;
    berth_dtype dtype;
    int64_t bytes; ///< an element
} random_job;

#define GOLDEN 0x9e3779b97f4a7c15u // 2^64 over the golden ratio: SplitMix64's step

/// Spreads every bit over the word: the multiply-xorshift finaliser of SplitMix64 (Steele, Lea,
/// Flood 2014).
static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/// 64 random bits for element `index`: SplitMix64's output number index + 1 from a state that is
/// the mixed seed, so that neighbouring seeds do not give shifted sequences.
static uint64_t random_bits(uint64_t key, int64_t index) {
    return mix(key + ((uint64_t)index + 1) * GOLDEN);
}

static uint64_t random_key(uint64_t seed) { return mix(seed + GOLDEN); }

/// Uniform in [low, high): 24 bits of the word.
static float random_uniform(const random_job* job, uint64_t bits) {
    const double unit = (double)(bits >> 40) * 0x1p-24;
    const float value = (float)(job->low + unit * (job->high - job->low));
    return value < (float)job->high ? value : nextafterf((float)job->high, (float)job->low);
}

/// Box and Muller's method, from 32 bits each for radius and angle; one of its two results.
static float random_normal(const random_job* job, uint64_t bits) {
    const double unit = ((double)(bits >> 32) + 1.0) * 0x1p-32; // (0, 1]
    const double turn = (double)(bits & 0xffffffffu) * 0x1p-32;
    const double radius = sqrt(-2.0 * log(unit));
    return (float)(job->low + job->high * radius * cos(turn * 6.283185307179586));
}

/// Rounding to a half may reach `high`; such an element takes the value below it.
static void keep_below(const random_job* job, uint16_t* narrow, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        float value;
        berth_convert_query_to_f32(job->dtype)(narrow + i, &value, 1);
        if ((double)value < job->high || job->low >= job->high) continue;
        if ((narrow[i] & 0x7fffu) == 0)
            narrow[i] = 0x8001u; // below zero
        else
            narrow[i] = (uint16_t)(value > 0.0f ? narrow[i] - 1 : narrow[i] + 1);
    }
}

static void random_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const random_job* job = data;
    float values[BERTH_CHUNK];
    for (int64_t at = begin; at < end; at += BERTH_CHUNK) {
        const int64_t count = berth_min_i64(BERTH_CHUNK, end - at);
        for (int64_t i = 0; i < count; ++i) {
            const uint64_t bits = random_bits(job->key, at + i);
            values[i] = job->normal ? random_normal(job, bits) : random_uniform(job, bits);
        }
        void* out = job->out + at * job->bytes;
        berth_store_f32(job->dtype, values, out, count);
        if (job->dtype != BERTH_F32 && !job->normal) keep_below(job, out, count);
    }
}

static void run_random(const berth_op_call* call, bool normal) {
    const berth_random_params* params = call->params;
    const berth_view* out = &call->outputs[0];
    random_job job = {
        .out = out->data,
        .key = random_key(params->seed),
        .low = (double)params->low,
        .high = (double)params->high,
        .normal = normal,
        .dtype = out->dtype,
        .bytes = berth_dtype_bytes(out->dtype),
    };
    berth_run_range(call, berth_view_count(out), GRAIN, GRAIN, random_range, &job);
}

static void kernel_rand(const berth_op_call* call) { run_random(call, false); }
static void kernel_randn(const berth_op_call* call) { run_random(call, true); }

// --- RANDINT -------------------------------------------------------------------------------------

typedef struct randint_job {
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
            bits = mix(bits + GOLDEN);
            product = (wide)bits * span;
        }
    }
    return (uint64_t)(product >> 64);
}

static void randint_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const randint_job* job = data;
    int64_t values[BERTH_CHUNK];
    for (int64_t at = begin; at < end; at += BERTH_CHUNK) {
        const int64_t count = berth_min_i64(BERTH_CHUNK, end - at);
        for (int64_t i = 0; i < count; ++i)
            values[i] =
                (int64_t)(job->low + random_below(random_bits(job->key, at + i), job->span));
        berth_store_i64(job->dtype, values, job->out + at * job->bytes, count);
    }
}

static void kernel_randint(const berth_op_call* call) {
    const berth_randint_params* params = call->params;
    const berth_view* out = &call->outputs[0];
    randint_job job = {
        .out = out->data,
        .key = random_key(params->seed),
        .low = (uint64_t)params->low,
        .span = (uint64_t)params->high - (uint64_t)params->low,
        .dtype = out->dtype,
        .bytes = berth_dtype_bytes(out->dtype),
    };
    berth_run_range(call, berth_view_count(out), GRAIN, GRAIN, randint_range, &job);
}

// --- NOOP ----------------------------------------------------------------------------------------

static void kernel_noop(const berth_op_call* call) { (void)call; }

void berth_cpu_fill_create_kernels(berth_kernel* table) {
    table[BERTH_OP_FILL] = kernel_fill;
    table[BERTH_OP_ARANGE] = kernel_arange;
    table[BERTH_OP_RAND] = kernel_rand;
    table[BERTH_OP_RANDN] = kernel_randn;
    table[BERTH_OP_RANDINT] = kernel_randint;
    table[BERTH_OP_NOOP] = kernel_noop;
}
