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

/// A row that is normed.
typedef struct norm_row {
    berth_walk x;
    const float* values;       ///< all of them, if they fit a chunk
    float buffer[BERTH_CHUNK]; ///< where they are then, unless they lie so anyway
} norm_row;

static void row_begin(norm_row* row, const norm_job* job, int64_t index) {
    row->x = (berth_walk){
        .data = berth_walk_at(&job->rows_of_x, index),
        .dtype = job->dtype,
        .rank = 1,
        .item_bytes = job->bytes,
        .dims = {job->width},
        .strides = {job->stride_bytes},
    };
    row->values = NULL;
    if (job->width <= BERTH_CHUNK)
        row->values = berth_walk_f32(&row->x, 0, job->width, row->buffer);
}

/// Elements [at, at + count) of the row, a chunk at most.
static const float* row_part(norm_row* row, int64_t at, int64_t count) {
    if (row->values != NULL) return row->values + at;
    return berth_walk_f32(&row->x, at, count, row->buffer);
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

static float rms_scale(const norm_job* job, norm_row* row) {
    float partial[BERTH_PARTIALS] = {0};
    for (int64_t at = 0; at < job->width; at += BERTH_CHUNK) {
        const int64_t count = berth_min_i64(BERTH_CHUNK, job->width - at);
        job->rows->sum_squares(partial, row_part(row, at, count), count);
    }
    const double mean = (double)job->rows->sum_partials(partial) / (double)job->width;
    return (float)(1.0 / sqrt(mean + (double)job->eps));
}

static void rms_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const norm_job* job = data;
    norm_row row;
    float weights[BERTH_CHUNK];
    for (int64_t index = begin; index < end; ++index) {
        row_begin(&row, job, index);
        const float scale = rms_scale(job, &row);
        for (int64_t at = 0; at < job->width; at += BERTH_CHUNK) {
            const int64_t count = berth_min_i64(BERTH_CHUNK, job->width - at);
            unsigned char* out = job->out + (index * job->width + at) * job->bytes;
            const float* from = row_part(&row, at, count);
            const float* weight =
                load_columns(job, &job->weight, at, count, index == begin && at == 0, weights);
            float* to = job->dtype == BERTH_F32 ? (float*)(void*)out : row.buffer;
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

// In double, from the first element: what is lost by cancellation is far below an f32's last place.
static row_norm layer_scale(const norm_job* job, norm_row* row) {
    double sums[BERTH_PARTIALS] = {0};
    double squares[BERTH_PARTIALS] = {0};
    const double shift = (double)*row_part(row, 0, 1);
    for (int64_t at = 0; at < job->width; at += BERTH_CHUNK) {
        const int64_t count = berth_min_i64(BERTH_CHUNK, job->width - at);
        job->rows->deviate(sums, squares, row_part(row, at, count), count, shift);
    }
    const double sum = job->rows->sum_doubles(sums);
    const double offset = sum / (double)job->width;
    const double variance = (job->rows->sum_doubles(squares) - sum * offset) / (double)job->width;
    const double mean = shift + offset;
    row_norm norm = {.mean = (float)mean};
    norm.rest = (float)(mean - (double)norm.mean);
    norm.scale = (float)(1.0 / sqrt(variance + (double)job->eps));
    return norm;
}

static void layer_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const norm_job* job = data;
    norm_row row;
    float weights[BERTH_CHUNK];
    float biases[BERTH_CHUNK];
    for (int64_t index = begin; index < end; ++index) {
        row_begin(&row, job, index);
        const row_norm norm = layer_scale(job, &row);
        for (int64_t at = 0; at < job->width; at += BERTH_CHUNK) {
            const int64_t count = berth_min_i64(BERTH_CHUNK, job->width - at);
            unsigned char* out = job->out + (index * job->width + at) * job->bytes;
            const float* from = row_part(&row, at, count);
            const bool is_first = index == begin && at == 0;
            const float* weight = load_columns(job, &job->weight, at, count, is_first, weights);
            const float* bias = load_columns(job, &job->bias, at, count, is_first, biases);
            float* to = job->dtype == BERTH_F32 ? (float*)(void*)out : row.buffer;
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
}
