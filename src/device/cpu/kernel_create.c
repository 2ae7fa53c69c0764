// SPDX-License-Identifier: Apache-2.0
// Tensors made from nothing: FILL ARANGE; and NOOP.
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
    _Alignas(8) unsigned char item[8];
} fill_job;

static void fill_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const fill_job* job = data;
    berth_fill_run(job->item, job->bytes, end - begin, job->out + begin * job->bytes);
}

static void kernel_fill(const berth_op_call* call) {
    const berth_fill_params* params = call->params;
    const berth_view* out = &call->outputs[0];
    fill_job job = {.out = out->data, .bytes = berth_dtype_bytes(out->dtype)};
    berth_store_double(out->dtype, params->value, job.item);
    berth_run_range(call, berth_view_count(out), GRAIN, CHEAP_LEAST, fill_range, &job);
}

// --- ARANGE --------------------------------------------------------------------------------------

typedef struct arange_job {
    const berth_basic_rows* rows;
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
    job->rows->steps_f32(values, count, job->start, job->step, at);
    berth_store_f32(job->dtype, values, job->out + at * job->bytes, count);
}

static void arange_integers(const arange_job* job, int64_t at, int64_t count) {
    int64_t values[BERTH_CHUNK];
    if (job->is_whole) {
        const int64_t step = (int64_t)job->step;
        const int64_t start = (int64_t)job->start + at * step;
        job->rows->steps_i64(values, count, start, step, job->lowest, job->highest);
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
        .rows = berth_basic_query_rows(),
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

// --- NOOP ----------------------------------------------------------------------------------------

static void kernel_noop(const berth_op_call* call) { (void)call; }

void berth_cpu_fill_create_kernels(berth_kernel* table) {
    table[BERTH_OP_FILL] = kernel_fill;
    table[BERTH_OP_ARANGE] = kernel_arange;
    table[BERTH_OP_NOOP] = kernel_noop;
}
