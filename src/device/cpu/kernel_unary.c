// SPDX-License-Identifier: Apache-2.0
// Functions of one operand: AFFINE; NEG EXP SQRT TANH SIGMOID RELU SILU GELU_TANH.
//
// Operands are brought as f32 (integers as they are) into contiguous chunks, unless they are so
// already, and go through the rows of the instruction set.
#include "base/op_params.h"
#include "device/cpu/kernel_basic.h"

// Fewer elements than this are not worth a second thread.
#define CHEAP_LEAST 65536
#define COSTLY_LEAST 16384
#define GRAIN 4096

typedef struct unary_job {
    berth_walk x;
    unsigned char* out;
    berth_unary_fn row; ///< NULL for AFFINE
    void (*affine)(float* out, const float* x, int64_t count, float scale, float shift);
    float scale;
    float shift;
    berth_dtype dtype;
    int64_t bytes; ///< an element
} unary_job;

static void unary_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const unary_job* job = data;
    _Alignas(64) float buffer[BERTH_CHUNK];
    const bool is_direct = job->x.dtype == BERTH_F32 && berth_walk_is_contiguous(&job->x);
    const int64_t step = is_direct ? end - begin : BERTH_CHUNK;
    for (int64_t at = begin; at < end; at += step) {
        const int64_t count = berth_min_i64(step, end - at);
        unsigned char* out = job->out + at * job->bytes;
        const float* x = berth_walk_f32(&job->x, at, count, buffer);
        float* result = job->dtype == BERTH_F32 ? (float*)(void*)out : buffer;
        if (job->row != NULL)
            job->row(result, x, count);
        else
            job->affine(result, x, count, job->scale, job->shift);
        berth_store_f32(job->dtype, result, out, count);
    }
}

static void run_unary(const berth_op_call* call, unary_job* job, int64_t least) {
    const berth_view* out = &call->outputs[0];
    job->out = out->data;
    job->dtype = out->dtype;
    job->bytes = berth_dtype_bytes(out->dtype);
    berth_walk_init(&job->x, &call->inputs[0]);
    berth_run_range(call, berth_view_count(out), GRAIN, least, unary_range, job);
}

static void run_function(const berth_op_call* call, berth_unary op, int64_t least) {
    unary_job job = {.row = berth_basic_query_rows()->unary[op]};
    run_unary(call, &job, least);
}

static void kernel_exp(const berth_op_call* call) {
    run_function(call, BERTH_UNARY_EXP, COSTLY_LEAST);
}
static void kernel_sqrt(const berth_op_call* call) {
    run_function(call, BERTH_UNARY_SQRT, CHEAP_LEAST);
}
static void kernel_tanh(const berth_op_call* call) {
    run_function(call, BERTH_UNARY_TANH, COSTLY_LEAST);
}
static void kernel_sigmoid(const berth_op_call* call) {
    run_function(call, BERTH_UNARY_SIGMOID, COSTLY_LEAST);
}
static void kernel_relu(const berth_op_call* call) {
    run_function(call, BERTH_UNARY_RELU, CHEAP_LEAST);
}
static void kernel_silu(const berth_op_call* call) {
    run_function(call, BERTH_UNARY_SILU, COSTLY_LEAST);
}
static void kernel_gelu_tanh(const berth_op_call* call) {
    run_function(call, BERTH_UNARY_GELU_TANH, COSTLY_LEAST);
}

static void kernel_affine(const berth_op_call* call) {
    const berth_affine_params* params = call->params;
    unary_job job = {
        .affine = berth_basic_query_rows()->affine,
        .scale = params->scale,
        .shift = params->shift,
    };
    run_unary(call, &job, CHEAP_LEAST);
}

static void negate_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const unary_job* job = data;
    int64_t values[BERTH_CHUNK];
    for (int64_t at = begin; at < end; at += BERTH_CHUNK) {
        const int64_t count = berth_min_i64(BERTH_CHUNK, end - at);
        berth_walk_i64(&job->x, at, count, values);
        for (int64_t i = 0; i < count; ++i)
            values[i] = (int64_t)(0 - (uint64_t)values[i]);
        berth_store_i64(job->dtype, values, job->out + at * job->bytes, count);
    }
}

static void kernel_neg(const berth_op_call* call) {
    const berth_view* out = &call->outputs[0];
    if (berth_dtype_is_float(out->dtype)) {
        run_function(call, BERTH_UNARY_NEG, CHEAP_LEAST);
        return;
    }
    unary_job job = {
        .out = out->data,
        .dtype = out->dtype,
        .bytes = berth_dtype_bytes(out->dtype),
    };
    berth_walk_init(&job.x, &call->inputs[0]);
    berth_run_range(call, berth_view_count(out), GRAIN, CHEAP_LEAST, negate_range, &job);
}

void berth_cpu_fill_unary_kernels(berth_kernel* table) {
    table[BERTH_OP_AFFINE] = kernel_affine;
    table[BERTH_OP_NEG] = kernel_neg;
    table[BERTH_OP_EXP] = kernel_exp;
    table[BERTH_OP_SQRT] = kernel_sqrt;
    table[BERTH_OP_TANH] = kernel_tanh;
    table[BERTH_OP_SIGMOID] = kernel_sigmoid;
    table[BERTH_OP_RELU] = kernel_relu;
    table[BERTH_OP_SILU] = kernel_silu;
    table[BERTH_OP_GELU_TANH] = kernel_gelu_tanh;
}
