// SPDX-License-Identifier: Apache-2.0
// RMS_NORM and LAYER_NORM over the last dimension. Each row's sums are kept in 16 partial sums, so
// they do not depend on how many rows there are.
#include <math.h>

#include "device/cpu/kernel_reduce.h"

#define LEAST 65536

typedef struct norm_job {
    const berth_reduce_rows* rows;
    berth_walk rows_of_x; ///< the first element of each row
    int64_t stride_bytes; ///< from one element of a row of x to the next
    berth_walk weight;    ///< ones where there is none
    berth_walk bias;      ///< zeros where there is none
    unsigned char* out;
    berth_dtype dtype;
    int64_t bytes; ///< an element of x
    int64_t width;
    float eps;
} norm_job;

/// The elements `value`, `width` times.
static berth_walk repeated(const float* value, int64_t width) {
    return (berth_walk){.data = (const unsigned char*)value,
                        .dtype = BERTH_F32,
                        .rank = 1,
                        .item_bytes = (int64_t)sizeof *value,
                        .dims = {width},
                        .strides = {0}};
}

static void job_init(norm_job* job,
                     const berth_op_call* call,
                     const berth_view* weight,
                     const berth_view* bias) {
    static const float zero = 0.0f;
    static const float one = 1.0f;
    const berth_norm_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    const int32_t last = x->rank - 1;
    berth_view first = *x; // the rows without their last dimension
    first.rank = last;
    *job = (norm_job){
        .rows = berth_reduce_query_rows(),
        .out = call->outputs[0].data,
        .dtype = x->dtype,
        .bytes = berth_dtype_bytes(x->dtype),
        .width = x->dims[last],
        .eps = params->eps,
    };
    job->stride_bytes = x->strides[last] * job->bytes;
    berth_walk_init(&job->rows_of_x, &first);
    job->weight = repeated(&one, job->width);
    job->bias = repeated(&zero, job->width);
    if (weight != NULL) berth_walk_init(&job->weight, weight);
    if (bias != NULL) berth_walk_init(&job->bias, bias);
}

static void run_norm(const berth_op_call* call, norm_job* job, berth_range_fn fn) {
    if (job->width == 0) return;
    const int64_t rows = berth_view_count(&call->outputs[0]) / job->width;
    berth_run_range(call, rows, 1, 1 + LEAST / job->width, fn, job);
}

/// A row's elements as a walk.
static berth_walk row_walk(const norm_job* job, int64_t row) {
    return (berth_walk){
        .data = berth_walk_at(&job->rows_of_x, row),
        .dtype = job->dtype,
        .rank = 1,
        .item_bytes = job->bytes,
        .dims = {job->width},
        .strides = {job->stride_bytes},
    };
}

/// Weights or biases of `count` columns from `at` on; `is_first` for the first call with `buffer`,
/// where later ones find what does not change.
static const float* load_columns(const norm_job* job,
                                 const berth_walk* walk,
                                 int64_t at,
                                 int64_t count,
                                 bool is_first,
                                 float* buffer) {
    const bool is_kept = job->width <= BERTH_CHUNK || walk->strides[0] == 0;
    const bool is_direct = walk->dtype == BERTH_F32 && berth_walk_is_contiguous(walk);
    if (is_kept && !is_first && !is_direct) return buffer;
    return berth_walk_f32(walk, at, count, buffer);
}

// --- RMS norm ------------------------------------------------------------------------------------

static float rms_scale(const norm_job* job, const berth_walk* x) {
    float buffer[BERTH_CHUNK];
    float partial[BERTH_PARTIALS] = {0};
    for (int64_t at = 0; at < job->width; at += BERTH_CHUNK) {
        const int64_t count = berth_min_i64(BERTH_CHUNK, job->width - at);
        job->rows->sum_squares(partial, berth_walk_f32(x, at, count, buffer), count);
    }
    const double mean = (double)job->rows->sum_partials(partial) / (double)job->width;
    return (float)(1.0 / sqrt(mean + (double)job->eps));
}

static void rms_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const norm_job* job = data;
    float buffer[BERTH_CHUNK];
    float weights[BERTH_CHUNK];
    for (int64_t row = begin; row < end; ++row) {
        const berth_walk x = row_walk(job, row);
        const float scale = rms_scale(job, &x);
        for (int64_t at = 0; at < job->width; at += BERTH_CHUNK) {
            const int64_t count = berth_min_i64(BERTH_CHUNK, job->width - at);
            unsigned char* out = job->out + (row * job->width + at) * job->bytes;
            const float* from = berth_walk_f32(&x, at, count, buffer);
            const float* weight =
                load_columns(job, &job->weight, at, count, row == begin && at == 0, weights);
            float* to = job->dtype == BERTH_F32 ? (float*)(void*)out : buffer;
            job->rows->scale_by(to, from, weight, count, scale);
            berth_store_f32(job->dtype, to, out, count);
        }
    }
}

static void kernel_rms_norm(const berth_op_call* call) {
    const berth_norm_params* params = call->params;
    norm_job job;
    job_init(&job, call, params->has_weight ? &call->inputs[1] : NULL, NULL);
    run_norm(call, &job, rms_range);
}

// --- Layer norm ----------------------------------------------------------------------------------

/// What makes a row's mean 0 and its variance 1.
typedef struct row_norm {
    float mean;
    float rest; ///< of the mean, what its f32 leaves out
    float scale;
} row_norm;

static double sum_of(const double partial[BERTH_PARTIALS]) {
    double sums[BERTH_PARTIALS];
    for (int32_t i = 0; i < BERTH_PARTIALS; ++i)
        sums[i] = partial[i];
    for (int32_t step = BERTH_PARTIALS / 2; step > 0; step /= 2)
        for (int32_t i = 0; i < step; ++i)
            sums[i] += sums[i + step];
    return sums[0];
}

// In double, from the first element: what is lost by cancellation is far below an f32's last place.
static row_norm layer_scale(const norm_job* job, const berth_walk* x) {
    float buffer[BERTH_CHUNK];
    double sums[BERTH_PARTIALS] = {0};
    double squares[BERTH_PARTIALS] = {0};
    const double shift = (double)*berth_walk_f32(x, 0, 1, buffer);
    for (int64_t at = 0; at < job->width; at += BERTH_CHUNK) {
        const int64_t count = berth_min_i64(BERTH_CHUNK, job->width - at);
        job->rows->deviate(sums, squares, berth_walk_f32(x, at, count, buffer), count, shift);
    }
    const double sum = sum_of(sums);
    const double offset = sum / (double)job->width;
    const double variance = (sum_of(squares) - sum * offset) / (double)job->width;
    const double mean = shift + offset;
    row_norm norm = {.mean = (float)mean};
    norm.rest = (float)(mean - (double)norm.mean);
    norm.scale = (float)(1.0 / sqrt(variance + (double)job->eps));
    return norm;
}

static void layer_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const norm_job* job = data;
    float buffer[BERTH_CHUNK];
    float weights[BERTH_CHUNK];
    float biases[BERTH_CHUNK];
    for (int64_t row = begin; row < end; ++row) {
        const berth_walk x = row_walk(job, row);
        const row_norm norm = layer_scale(job, &x);
        for (int64_t at = 0; at < job->width; at += BERTH_CHUNK) {
            const int64_t count = berth_min_i64(BERTH_CHUNK, job->width - at);
            unsigned char* out = job->out + (row * job->width + at) * job->bytes;
            const float* from = berth_walk_f32(&x, at, count, buffer);
            const bool is_first = row == begin && at == 0;
            const float* weight = load_columns(job, &job->weight, at, count, is_first, weights);
            const float* bias = load_columns(job, &job->bias, at, count, is_first, biases);
            float* to = job->dtype == BERTH_F32 ? (float*)(void*)out : buffer;
            job->rows->normalize(to, from, weight, bias, count, norm.mean, norm.rest, norm.scale);
            berth_store_f32(job->dtype, to, out, count);
        }
    }
}

static void kernel_layer_norm(const berth_op_call* call) {
    const berth_norm_params* params = call->params;
    const berth_view* weight = params->has_weight ? &call->inputs[1] : NULL;
    const berth_view* bias = params->has_bias ? &call->inputs[params->has_weight ? 2 : 1] : NULL;
    norm_job job;
    job_init(&job, call, weight, bias);
    run_norm(call, &job, layer_range);
}

void berth_cpu_fill_norm_kernels(berth_kernel* table) {
    table[BERTH_OP_RMS_NORM] = kernel_rms_norm;
    table[BERTH_OP_LAYER_NORM] = kernel_layer_norm;
    table[BERTH_OP_ROPE] = berth_cpu_rope;
}
