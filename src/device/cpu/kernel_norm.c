// SPDX-License-Identifier: Apache-2.0
// RMS_NORM. Each row's sum of squares is kept in 16 partial sums, so it does not depend on how many
// rows there are.
#include <math.h>

#include "base/op_params.h"
#include "device/cpu/kernel_basic.h"

#define LEAST 65536

typedef struct norm_job {
    const berth_basic_rows* rows;
    berth_walk rows_of_x; ///< the first element of each row
    berth_walk weight;
    unsigned char* out;
    berth_dtype dtype;
    int64_t bytes; ///< an element of x
    int64_t width;
    float eps;
} norm_job;

/// A row's elements as a walk.
static berth_walk row_walk(const norm_job* job, int64_t row) {
    return (berth_walk){
        .data = berth_walk_at(&job->rows_of_x, row),
        .dtype = job->dtype,
        .rank = 1,
        .item_bytes = job->bytes,
        .dims = {job->width},
        .strides = {job->bytes},
    };
}

static float norm_scale(const norm_job* job, const berth_walk* x) {
    float buffer[BERTH_CHUNK];
    float partial[BERTH_PARTIALS] = {0};
    for (int64_t at = 0; at < job->width; at += BERTH_CHUNK) {
        const int64_t count = berth_min_i64(BERTH_CHUNK, job->width - at);
        job->rows->sum_squares(partial, berth_walk_f32(x, at, count, buffer), count);
    }
    const double mean = (double)job->rows->sum_partials(partial) / (double)job->width;
    return (float)(1.0 / sqrt(mean + (double)job->eps));
}

static void norm_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const norm_job* job = data;
    float buffer[BERTH_CHUNK];
    float weights[BERTH_CHUNK];
    for (int64_t row = begin; row < end; ++row) {
        const berth_walk x = row_walk(job, row);
        const float scale = norm_scale(job, &x);
        for (int64_t at = 0; at < job->width; at += BERTH_CHUNK) {
            const int64_t count = berth_min_i64(BERTH_CHUNK, job->width - at);
            unsigned char* out = job->out + (row * job->width + at) * job->bytes;
            const float* from = berth_walk_f32(&x, at, count, buffer);
            const float* weight = berth_walk_f32(&job->weight, at, count, weights);
            float* to = job->dtype == BERTH_F32 ? (float*)(void*)out : buffer;
            job->rows->scale_by(to, from, weight, count, scale);
            berth_store_f32(job->dtype, to, out, count);
        }
    }
}

static void kernel_rms_norm(const berth_op_call* call) {
    const berth_rms_norm_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    const berth_view* out = &call->outputs[0];
    norm_job job = {
        .rows = berth_basic_query_rows(),
        .out = out->data,
        .dtype = out->dtype,
        .bytes = berth_dtype_bytes(out->dtype),
        .width = x->dims[x->rank - 1],
        .eps = params->eps,
    };
    if (job.width == 0) return;
    berth_view first = *x; // the rows without their last dimension
    first.rank = x->rank - 1;
    berth_walk_init(&job.rows_of_x, &first);
    berth_walk_init(&job.weight, &call->inputs[1]);
    const int64_t rows = berth_view_count(out) / job.width;
    berth_run_range(call, rows, 1, 1 + LEAST / job.width, norm_range, &job);
}

void berth_cpu_fill_norm_kernels(berth_kernel* table) {
    table[BERTH_OP_RMS_NORM] = kernel_rms_norm;
    table[BERTH_OP_ROPE] = berth_cpu_rope;
}
