// SPDX-License-Identifier: Apache-2.0
// Functions of one operand: AFFINE, NEG .. GELU_TANH, LOGICAL_NOT ISNAN ISINF ISFINITE.
//
// Operands are brought as f32 (integers as they are, where the result is one) into contiguous
// chunks, unless they are so already, and go through the rows of the instruction set.
#include <string.h>

#include "base/op_params.h"
#include "device/cpu/kernel_basic.h"

// Fewer elements than this are not worth a second thread.
#define CHEAP_LEAST 65536
#define COSTLY_LEAST 16384

typedef struct unary_job {
    berth_walk x;
    unsigned char* out;
    berth_dtype dtype; ///< of the result
    int64_t bytes;     ///< an element of it
    // One of these, or for an integer's copy none.
    berth_unary_fn row;
    berth_unary_int_fn int_row;
    berth_test_fn test_row;
    void (*affine)(float* out, const float* x, int64_t count, float scale, float shift);
    float scale;
    float shift;
    uint64_t mask;  ///< of a test
    uint64_t value; ///< of a test
} unary_job;

static void run(const berth_op_call* call, unary_job* job, int64_t least, berth_range_fn range) {
    const berth_view* out = &call->outputs[0];
    job->out = out->data;
    job->dtype = out->dtype;
    job->bytes = berth_dtype_bytes(out->dtype);
    berth_view x = call->inputs[0];
    berth_bring_turned(call, &x);
    berth_walk_init(&job->x, &x);
    const berth_walk* const walks[1] = {&job->x};
    berth_run_elements(call, berth_view_count(out), least, walks, 1, range, job);
}

// --- In f32 --------------------------------------------------------------------------------------

static void float_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const unary_job* job = data;
    _Alignas(64) int64_t buffer[BERTH_CHUNK]; // of the operand's type, then f32
    const bool is_direct = job->x.dtype == BERTH_F32 && berth_walk_is_contiguous(&job->x);
    const int64_t step = is_direct ? end - begin : BERTH_CHUNK;
    for (int64_t at = begin; at < end; at += step) {
        const int64_t count = berth_min_i64(step, end - at);
        unsigned char* out = job->out + at * job->bytes;
        const float* x = berth_walk_as(&job->x, BERTH_F32, at, count, buffer);
        float* result = (float*)(void*)(job->dtype == BERTH_F32 ? (void*)out : buffer);
        if (job->row != NULL)
            job->row(result, x, count);
        else
            job->affine(result, x, count, job->scale, job->shift);
        berth_store_f32(job->dtype, result, out, count);
    }
}

static void kernel_affine(const berth_op_call* call) {
    const berth_affine_params* params = call->params;
    unary_job job = {
        .affine = berth_basic_query_rows()->affine,
        .scale = params->scale,
        .shift = params->shift,
    };
    run(call, &job, CHEAP_LEAST, float_range);
}

static void run_float(const berth_op_call* call, berth_unary op, int64_t least) {
    unary_job job = {.row = berth_basic_query_rows()->unary[op]};
    run(call, &job, least, float_range);
}

// --- In integers ---------------------------------------------------------------------------------

static void int_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const unary_job* job = data;
    _Alignas(64) int64_t buffer[BERTH_CHUNK];
    const int64_t step = berth_walk_is_contiguous(&job->x) ? end - begin : BERTH_CHUNK;
    for (int64_t at = begin; at < end; at += step) {
        const int64_t count = berth_min_i64(step, end - at);
        unsigned char* out = job->out + at * job->bytes;
        const void* x = berth_walk_as(&job->x, job->x.dtype, at, count, buffer);
        if (job->int_row != NULL)
            job->int_row(out, x, count);
        else if (out != x)
            memcpy(out, x, (size_t)(count * job->bytes));
    }
}

/// A function that gives integers for integers.
static void run_number(const berth_op_call* call, berth_unary op) {
    const berth_dtype dtype = call->inputs[0].dtype;
    if (berth_dtype_is_float(dtype)) {
        run_float(call, op, CHEAP_LEAST);
        return;
    }
    unary_job job = {.int_row = berth_basic_query_rows()->unary_int[op][dtype]};
    run(call, &job, CHEAP_LEAST, int_range);
}

// --- Questions -----------------------------------------------------------------------------------

static void test_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const unary_job* job = data;
    _Alignas(64) int64_t buffer[BERTH_CHUNK];
    const int64_t step = berth_walk_is_contiguous(&job->x) ? end - begin : BERTH_CHUNK;
    for (int64_t at = begin; at < end; at += step) {
        const int64_t count = berth_min_i64(step, end - at);
        if (job->test_row == NULL) {
            memset(job->out + at, (int)job->value, (size_t)count);
            continue;
        }
        const void* x = berth_walk_as(&job->x, job->x.dtype, at, count, buffer);
        job->test_row(job->out + at, x, count, job->mask, job->value);
    }
}

/// Which of the rows for 1, 2, 4 and 8 bytes.
static int32_t width_of(berth_dtype dtype) { return berth_width_of(berth_dtype_bytes(dtype)); }

static uint64_t infinity_bits(berth_dtype dtype) {
    return dtype == BERTH_F32   ? UINT64_C(0x7f800000)
           : dtype == BERTH_F16 ? UINT64_C(0x7c00)
                                : UINT64_C(0x7f80);
}

/// How a float's magnitude compares with infinity; integers all give `of_integers`.
static void run_class(const berth_op_call* call, const berth_test_fn* rows, bool of_integers) {
    const berth_dtype dtype = call->inputs[0].dtype;
    unary_job job = {.value = of_integers};
    if (berth_dtype_is_float(dtype)) {
        job.test_row = rows[width_of(dtype)];
        job.mask = berth_truth_mask(dtype);
        job.value = infinity_bits(dtype);
    }
    run(call, &job, CHEAP_LEAST, test_range);
}

static void kernel_logical_not(const berth_op_call* call) {
    const berth_dtype dtype = call->inputs[0].dtype;
    unary_job job = {
        .test_row = berth_basic_query_rows()->is_equal[width_of(dtype)],
        .mask = berth_truth_mask(dtype),
    };
    run(call, &job, CHEAP_LEAST, test_range);
}

static void kernel_isnan(const berth_op_call* call) {
    run_class(call, berth_basic_query_rows()->is_above, false);
}
static void kernel_isinf(const berth_op_call* call) {
    run_class(call, berth_basic_query_rows()->is_equal, false);
}
static void kernel_isfinite(const berth_op_call* call) {
    run_class(call, berth_basic_query_rows()->is_below, true);
}

// --- The table -----------------------------------------------------------------------------------

#define NUMBER_FUNCTIONS(X) X(NEG) X(ABS) X(SIGN) X(RELU) X(FLOOR) X(CEIL) X(ROUND)

#define CHEAP_FUNCTIONS(X) X(SQRT) X(RSQRT) X(RECIPROCAL)

#define COSTLY_FUNCTIONS(X)                                                                        \
    X(EXP) X(LOG) X(LOG1P) X(SIN) X(COS) X(TANH) X(SIGMOID) X(SILU) X(GELU) X(GELU_TANH)

#define DEFINE_NUMBER(ID)                                                                          \
    static void kernel_##ID(const berth_op_call* call) { run_number(call, BERTH_UNARY_##ID); }
NUMBER_FUNCTIONS(DEFINE_NUMBER)

#define DEFINE_CHEAP(ID)                                                                           \
    static void kernel_##ID(const berth_op_call* call) {                                           \
        run_float(call, BERTH_UNARY_##ID, CHEAP_LEAST);                                            \
    }
CHEAP_FUNCTIONS(DEFINE_CHEAP)

#define DEFINE_COSTLY(ID)                                                                          \
    static void kernel_##ID(const berth_op_call* call) {                                           \
        run_float(call, BERTH_UNARY_##ID, COSTLY_LEAST);                                           \
    }
COSTLY_FUNCTIONS(DEFINE_COSTLY)

void berth_cpu_fill_unary_kernels(berth_kernel* table) {
#define ENTER(ID) table[BERTH_OP_##ID] = kernel_##ID;
    NUMBER_FUNCTIONS(ENTER)
    CHEAP_FUNCTIONS(ENTER)
    COSTLY_FUNCTIONS(ENTER)
#undef ENTER
    table[BERTH_OP_AFFINE] = kernel_affine;
    table[BERTH_OP_LOGICAL_NOT] = kernel_logical_not;
    table[BERTH_OP_ISNAN] = kernel_isnan;
    table[BERTH_OP_ISINF] = kernel_isinf;
    table[BERTH_OP_ISFINITE] = kernel_isfinite;
}
