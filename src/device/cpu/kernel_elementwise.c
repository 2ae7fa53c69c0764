// SPDX-License-Identifier: Apache-2.0
// ADD SUB MUL DIV MINIMUM MAXIMUM with broadcasting.
//
// Operands are brought as f32 (integers as they are) into contiguous chunks, unless they are so
// already, and go through the rows of the instruction set.
#include <string.h>

#include "base/op_params.h"
#include "device/cpu/kernel_basic.h"

// Fewer elements than this are not worth a second thread.
#define CHEAP_LEAST 65536
#define GRAIN 4096

typedef struct binary_job {
    berth_walk a;
    berth_walk b;
    unsigned char* out;
    berth_binary_fn row;
    berth_dtype dtype;
    int64_t bytes; ///< an element
} binary_job;

/// Items of an operand that may be used where they lie.
static bool is_direct(const berth_walk* walk) {
    return (walk->dtype == BERTH_F32 || !berth_dtype_is_float(walk->dtype)) &&
           berth_walk_is_contiguous(walk);
}

/// Items [begin, begin + count) as the row takes them: f32 for floats, else the type itself.
static const void* operand(const berth_walk* walk, int64_t begin, int64_t count, void* buffer) {
    if (is_direct(walk)) return walk->data + begin * walk->item_bytes;
    if (berth_dtype_is_float(walk->dtype)) return berth_walk_f32(walk, begin, count, buffer);
    berth_walk_copy(walk, begin, count, buffer);
    return buffer;
}

/// True for one item repeated: its chunk is made once.
static bool is_constant(const berth_walk* walk) { return walk->rank == 1 && walk->strides[0] == 0; }

static void binary_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const binary_job* job = data;
    _Alignas(64) int64_t buffer_a[BERTH_CHUNK];
    _Alignas(64) int64_t buffer_b[BERTH_CHUNK];
    const bool narrow = job->dtype == BERTH_F16 || job->dtype == BERTH_BF16;
    const bool direct = is_direct(&job->a) && is_direct(&job->b);
    const int64_t step = direct ? end - begin : BERTH_CHUNK;
    const void* a = NULL;
    const void* b = NULL;
    for (int64_t at = begin; at < end; at += step) {
        const int64_t count = berth_min_i64(step, end - at);
        unsigned char* out = job->out + at * job->bytes;
        if (a == NULL || !is_constant(&job->a)) a = operand(&job->a, at, count, buffer_a);
        if (b == NULL || !is_constant(&job->b)) b = operand(&job->b, at, count, buffer_b);
        if (!narrow) {
            job->row(out, a, b, count);
            continue;
        }
        float result[BERTH_CHUNK];
        job->row(result, a, b, count);
        berth_store_f32(job->dtype, result, out, count);
    }
}

static berth_binary_fn binary_row(berth_binary op, berth_dtype dtype) {
    const berth_basic_rows* rows = berth_basic_query_rows();
    if (berth_dtype_is_float(dtype)) return rows->binary_f32[op];
    if (dtype == BERTH_I32) return rows->binary_i32[op];
    if (dtype == BERTH_I64) return rows->binary_i64[op];
    return rows->binary_u8[op];
}

static void run_binary(const berth_op_call* call, berth_binary op) {
    const berth_view* out = &call->outputs[0];
    binary_job job = {
        .out = out->data,
        .row = binary_row(op, out->dtype),
        .dtype = out->dtype,
        .bytes = berth_dtype_bytes(out->dtype),
    };
    berth_walk_init_like(&job.a, &call->inputs[0], out);
    berth_walk_init_like(&job.b, &call->inputs[1], out);
    berth_run_range(call, berth_view_count(out), GRAIN, CHEAP_LEAST, binary_range, &job);
}

static void kernel_add(const berth_op_call* call) { run_binary(call, BERTH_BINARY_ADD); }
static void kernel_sub(const berth_op_call* call) { run_binary(call, BERTH_BINARY_SUB); }
static void kernel_mul(const berth_op_call* call) { run_binary(call, BERTH_BINARY_MUL); }
static void kernel_div(const berth_op_call* call) { run_binary(call, BERTH_BINARY_DIV); }
static void kernel_minimum(const berth_op_call* call) { run_binary(call, BERTH_BINARY_MINIMUM); }
static void kernel_maximum(const berth_op_call* call) { run_binary(call, BERTH_BINARY_MAXIMUM); }

void berth_cpu_fill_elementwise_kernels(berth_kernel* table) {
    table[BERTH_OP_ADD] = kernel_add;
    table[BERTH_OP_SUB] = kernel_sub;
    table[BERTH_OP_MUL] = kernel_mul;
    table[BERTH_OP_DIV] = kernel_div;
    table[BERTH_OP_MINIMUM] = kernel_minimum;
    table[BERTH_OP_MAXIMUM] = kernel_maximum;
}
