// SPDX-License-Identifier: Apache-2.0
// Two operands with broadcasting: ADD SUB MUL DIV MINIMUM MAXIMUM REMAINDER POW, EQ .. GE,
// LOGICAL_AND .. LOGICAL_XOR, OUTER; WHERE; CLAMP.
//
// Operands are brought to the type in which they meet, a chunk at a time unless they lie so
// already, and go through the rows of the instruction set.
#include <math.h>

#include "base/op_params.h"
#include "device/cpu/kernel_operand.h"

// Fewer elements than this are not worth a second thread.
#define CHEAP_LEAST 65536
#define COSTLY_LEAST 16384

// --- Two operands --------------------------------------------------------------------------------

typedef struct pair_job {
    berth_operand a;
    berth_operand b;
    berth_binary_fn row;
    berth_from_f32_fn store; ///< of results that the row gives as f32, to halves; or NULL
    unsigned char* out;
    int64_t bytes; ///< an element of the output
} pair_job;

static void pair_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const pair_job* job = data;
    berth_chunk buffer_a;
    berth_chunk buffer_b;
    float results[BERTH_CHUNK];
    const bool is_direct = job->a.is_direct && job->b.is_direct && job->store == NULL;
    const int64_t step = is_direct ? end - begin : BERTH_CHUNK;
    const void* a = NULL;
    const void* b = NULL;
    for (int64_t at = begin; at < end; at += step) {
        const int64_t count = berth_min_i64(step, end - at);
        unsigned char* out = job->out + at * job->bytes;
        if (a == NULL || !job->a.is_constant) a = berth_operand_load(&job->a, at, count, &buffer_a);
        if (b == NULL || !job->b.is_constant) b = berth_operand_load(&job->b, at, count, &buffer_b);
        if (job->store == NULL) {
            job->row(out, a, b, count);
            continue;
        }
        job->row(results, a, b, count);
        job->store(results, out, count);
    }
}

/// Runs `row` over two operands converted to `meeting`.
static void run_pair(const berth_op_call* call,
                     const berth_view* a,
                     const berth_view* b,
                     berth_dtype meeting,
                     berth_binary_fn row,
                     int64_t least) {
    const berth_view* out = &call->outputs[0];
    pair_job job = {
        .row = row,
        .out = out->data,
        .bytes = berth_dtype_bytes(out->dtype),
    };
    if (berth_dtype_is_half(out->dtype)) job.store = berth_convert_query_from_f32(out->dtype);
    berth_view left = *a, right = *b;
    berth_bring_turned(call, &left);
    if (left.data != out->data) berth_bring_turned(call, &right);
    berth_operand_init(&job.a, &left, out, meeting, BERTH_OPERAND_COMPUTED);
    berth_operand_init(&job.b, &right, out, meeting, BERTH_OPERAND_COMPUTED);
    const berth_walk* const walks[2] = {&job.a.walk, &job.b.walk};
    berth_run_elements(call, berth_view_count(out), least, walks, 2, pair_range, &job);
}

static berth_binary_fn arithmetic_row(berth_binary op, berth_dtype dtype) {
    const berth_basic_rows* rows = berth_basic_query_rows();
    if (berth_dtype_is_float(dtype)) return rows->binary_f32[op];
    if (dtype == BERTH_I32) return rows->binary_i32[op];
    if (dtype == BERTH_I64) return rows->binary_i64[op];
    if (dtype == BERTH_I8) return rows->binary_i8[op];
    return dtype == BERTH_U8 ? rows->binary_u8[op] : rows->binary_bool[op];
}

/// The output has the type in which the operands meet.
static void run_arithmetic(const berth_op_call* call, berth_binary op, int64_t least) {
    const berth_dtype dtype = call->outputs[0].dtype;
    run_pair(call, &call->inputs[0], &call->inputs[1], dtype, arithmetic_row(op, dtype), least);
}

#define KERNEL_ARITHMETIC(name, ID, least)                                                         \
    static void kernel_##name(const berth_op_call* call) {                                         \
        run_arithmetic(call, BERTH_BINARY_##ID, least);                                            \
    }
KERNEL_ARITHMETIC(add, ADD, CHEAP_LEAST)
KERNEL_ARITHMETIC(sub, SUB, CHEAP_LEAST)
KERNEL_ARITHMETIC(mul, MUL, CHEAP_LEAST)
KERNEL_ARITHMETIC(div, DIV, CHEAP_LEAST)
KERNEL_ARITHMETIC(minimum, MINIMUM, CHEAP_LEAST)
KERNEL_ARITHMETIC(maximum, MAXIMUM, CHEAP_LEAST)
KERNEL_ARITHMETIC(remainder, REMAINDER, COSTLY_LEAST)
KERNEL_ARITHMETIC(pow, POW, COSTLY_LEAST)

/// Every element of a vector with every element of another: a column and a row.
static void kernel_outer(const berth_op_call* call) {
    const berth_dtype dtype = call->outputs[0].dtype;
    berth_view column = call->inputs[0];
    column.rank = 2;
    column.dims[1] = 1;
    column.strides[1] = 1;
    run_pair(call,
             &column,
             &call->inputs[1],
             dtype,
             arithmetic_row(BERTH_BINARY_MUL, dtype),
             CHEAP_LEAST);
}

// --- Comparisons and logic -----------------------------------------------------------------------

/// Compares a with b, or b with a where `is_turned`.
static void run_compare(const berth_op_call* call, berth_compare op, bool is_turned) {
    const berth_compare_params* params = call->params;
    const berth_dtype row = berth_dtype_is_float(params->dtype) ? BERTH_F32 : params->dtype;
    run_pair(call,
             &call->inputs[is_turned ? 1 : 0],
             &call->inputs[is_turned ? 0 : 1],
             params->dtype,
             berth_basic_query_rows()->compare[op][row],
             CHEAP_LEAST);
}

static void kernel_eq(const berth_op_call* call) { run_compare(call, BERTH_COMPARE_EQ, false); }
static void kernel_ne(const berth_op_call* call) { run_compare(call, BERTH_COMPARE_NE, false); }
static void kernel_lt(const berth_op_call* call) { run_compare(call, BERTH_COMPARE_LT, false); }
static void kernel_le(const berth_op_call* call) { run_compare(call, BERTH_COMPARE_LE, false); }
static void kernel_gt(const berth_op_call* call) { run_compare(call, BERTH_COMPARE_LT, true); }
static void kernel_ge(const berth_op_call* call) { run_compare(call, BERTH_COMPARE_LE, true); }

static void run_logic(const berth_op_call* call, berth_binary_fn row) {
    run_pair(call, &call->inputs[0], &call->inputs[1], BERTH_BOOL, row, CHEAP_LEAST);
}

static void kernel_logical_and(const berth_op_call* call) {
    run_logic(call, arithmetic_row(BERTH_BINARY_MUL, BERTH_BOOL));
}
static void kernel_logical_or(const berth_op_call* call) {
    run_logic(call, arithmetic_row(BERTH_BINARY_ADD, BERTH_BOOL));
}
static void kernel_logical_xor(const berth_op_call* call) {
    run_logic(call, berth_basic_query_rows()->compare[BERTH_COMPARE_NE][BERTH_BOOL]);
}

// --- WHERE ---------------------------------------------------------------------------------------

typedef struct where_job {
    berth_operand condition;
    berth_operand a;
    berth_operand b;
    berth_select_fn row;
    unsigned char* out;
    int64_t bytes; ///< an element
} where_job;

static void where_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const where_job* job = data;
    berth_chunk buffer_condition;
    berth_chunk buffer_a;
    berth_chunk buffer_b;
    const bool is_direct = job->condition.is_direct && job->a.is_direct && job->b.is_direct;
    const int64_t step = is_direct ? end - begin : BERTH_CHUNK;
    const void* a = NULL;
    const void* b = NULL;
    for (int64_t at = begin; at < end; at += step) {
        const int64_t count = berth_min_i64(step, end - at);
        const void* condition = berth_operand_load(&job->condition, at, count, &buffer_condition);
        if (a == NULL || !job->a.is_constant) a = berth_operand_load(&job->a, at, count, &buffer_a);
        if (b == NULL || !job->b.is_constant) b = berth_operand_load(&job->b, at, count, &buffer_b);
        job->row(job->out + at * job->bytes, condition, a, b, count);
    }
}

static void kernel_where(const berth_op_call* call) {
    const berth_view* out = &call->outputs[0];
    where_job job = {.out = out->data, .bytes = berth_dtype_bytes(out->dtype)};
    job.row = berth_basic_query_rows()->select[berth_width_of(job.bytes)];
    berth_operand_init(&job.condition, &call->inputs[0], out, BERTH_BOOL, BERTH_OPERAND_COMPUTED);
    berth_operand_init(&job.a, &call->inputs[1], out, out->dtype, BERTH_OPERAND_STORED);
    berth_operand_init(&job.b, &call->inputs[2], out, out->dtype, BERTH_OPERAND_STORED);
    const berth_walk* const walks[3] = {&job.condition.walk, &job.a.walk, &job.b.walk};
    berth_run_elements(call, berth_view_count(out), CHEAP_LEAST, walks, 3, where_range, &job);
}

// --- CLAMP ---------------------------------------------------------------------------------------

/// A bound in the type in which the elements are compared.
typedef union clamp_bound {
    float f32;
    int32_t i32;
    int64_t i64;
    int8_t i8;
    uint8_t u8;
} clamp_bound;

typedef struct clamp_job {
    berth_operand x;
    berth_clamp_fn row;
    berth_from_f32_fn store; ///< as of pair_job
    clamp_bound low;
    clamp_bound high;
    unsigned char* out;
    int64_t bytes; ///< an element
} clamp_job;

static void clamp_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const clamp_job* job = data;
    berth_chunk buffer;
    const int64_t step = job->x.is_direct ? end - begin : BERTH_CHUNK;
    for (int64_t at = begin; at < end; at += step) {
        const int64_t count = berth_min_i64(step, end - at);
        unsigned char* out = job->out + at * job->bytes;
        const void* x = berth_operand_load(&job->x, at, count, &buffer);
        if (job->store == NULL) {
            job->row(out, x, count, &job->low, &job->high);
            continue;
        }
        job->row(buffer.f32, x, count, &job->low, &job->high);
        job->store(buffer.f32, out, count);
    }
}

static void kernel_clamp(const berth_op_call* call) {
    const berth_clamp_params* params = call->params;
    const berth_view* out = &call->outputs[0];
    const berth_dtype dtype = out->dtype;
    const bool is_float = berth_dtype_is_float(dtype);
    const berth_dtype computed = is_float ? BERTH_F32 : dtype;
    clamp_job job = {
        .row = berth_basic_query_rows()->clamp[computed],
        .out = out->data,
        .bytes = berth_dtype_bytes(dtype),
    };
    // the integers between two bounds are those between the whole numbers inside them
    berth_store_double(computed, is_float ? params->low : ceil(params->low), &job.low);
    berth_store_double(computed, is_float ? params->high : floor(params->high), &job.high);
    if (berth_dtype_is_half(dtype)) job.store = berth_convert_query_from_f32(dtype);
    berth_view x = call->inputs[0];
    berth_bring_turned(call, &x);
    berth_operand_init(&job.x, &x, out, dtype, BERTH_OPERAND_COMPUTED);
    const berth_walk* const walks[1] = {&job.x.walk};
    berth_run_elements(call, berth_view_count(out), CHEAP_LEAST, walks, 1, clamp_range, &job);
}

void berth_cpu_fill_binary_kernels(berth_kernel* table) {
    table[BERTH_OP_ADD] = kernel_add;
    table[BERTH_OP_SUB] = kernel_sub;
    table[BERTH_OP_MUL] = kernel_mul;
    table[BERTH_OP_DIV] = kernel_div;
    table[BERTH_OP_MINIMUM] = kernel_minimum;
    table[BERTH_OP_MAXIMUM] = kernel_maximum;
    table[BERTH_OP_REMAINDER] = kernel_remainder;
    table[BERTH_OP_POW] = kernel_pow;
    table[BERTH_OP_EQ] = kernel_eq;
    table[BERTH_OP_NE] = kernel_ne;
    table[BERTH_OP_LT] = kernel_lt;
    table[BERTH_OP_LE] = kernel_le;
    table[BERTH_OP_GT] = kernel_gt;
    table[BERTH_OP_GE] = kernel_ge;
    table[BERTH_OP_LOGICAL_AND] = kernel_logical_and;
    table[BERTH_OP_LOGICAL_OR] = kernel_logical_or;
    table[BERTH_OP_LOGICAL_XOR] = kernel_logical_xor;
    table[BERTH_OP_WHERE] = kernel_where;
    table[BERTH_OP_CLAMP] = kernel_clamp;
    table[BERTH_OP_OUTER] = kernel_outer;
}
