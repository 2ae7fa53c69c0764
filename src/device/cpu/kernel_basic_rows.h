// SPDX-License-Identifier: Apache-2.0
// Inner loops over contiguous rows, once for each instruction set. Kernels bring operands of any
// type and strides into this form.
#ifndef BERTH_DEVICE_CPU_KERNEL_BASIC_ROWS_H
#define BERTH_DEVICE_CPU_KERNEL_BASIC_ROWS_H

#include "device/cpu/kernel_convert.h"

typedef enum berth_binary {
    BERTH_BINARY_ADD,
    BERTH_BINARY_SUB,
    BERTH_BINARY_MUL,
    BERTH_BINARY_DIV,
    BERTH_BINARY_MINIMUM,
    BERTH_BINARY_MAXIMUM,
    BERTH_BINARY_REMAINDER,
    BERTH_BINARY_POW,
    BERTH_BINARY_COUNT
} berth_binary;

typedef enum berth_compare {
    BERTH_COMPARE_EQ,
    BERTH_COMPARE_NE,
    BERTH_COMPARE_LT,
    BERTH_COMPARE_LE,
    BERTH_COMPARE_COUNT
} berth_compare;

/// Functions of one operand, in the order of their op ids.
typedef enum berth_unary {
    BERTH_UNARY_NEG,
    BERTH_UNARY_ABS,
    BERTH_UNARY_SIGN,
    BERTH_UNARY_RELU,
    BERTH_UNARY_FLOOR,
    BERTH_UNARY_CEIL,
    BERTH_UNARY_ROUND,
    BERTH_UNARY_EXP,
    BERTH_UNARY_LOG,
    BERTH_UNARY_LOG1P,
    BERTH_UNARY_SQRT,
    BERTH_UNARY_RSQRT,
    BERTH_UNARY_RECIPROCAL,
    BERTH_UNARY_SIN,
    BERTH_UNARY_COS,
    BERTH_UNARY_TANH,
    BERTH_UNARY_SIGMOID,
    BERTH_UNARY_SILU,
    BERTH_UNARY_GELU,
    BERTH_UNARY_GELU_TANH,
    BERTH_UNARY_COUNT,
    BERTH_UNARY_INT_COUNT = BERTH_UNARY_EXP, ///< the first ones take integers as they are
} berth_unary;

/// out[i] = a[i] op b[i]; `out` may be `a` or `b`, or else overlaps neither.
typedef void (*berth_binary_fn)(void* out, const void* a, const void* b, int64_t count);

/// out[i] = min(max(x[i], *low), *high), all of one type, NaN wins; `out` may be `x`.
typedef void (*berth_clamp_fn)(
    void* out, const void* x, int64_t count, const void* low, const void* high);

/// out[i] = condition[i] != 0 ? a[i] : b[i]; `out` may be `a` or `b`.
typedef void (*berth_select_fn)(
    void* out, const uint8_t* condition, const void* a, const void* b, int64_t count);

/// out[i] = f(x[i]); `out` may be `x`.
typedef void (*berth_unary_fn)(float* out, const float* x, int64_t count);

/// The same on integers.
typedef void (*berth_unary_int_fn)(void* out, const void* x, int64_t count);

/// out[i] = 1 if (x[i] & mask) compares with `value`, else 0; `out` may be `x`.
typedef void (*berth_test_fn)(
    uint8_t* out, const void* x, int64_t count, uint64_t mask, uint64_t value);

/// Keys that attention takes at a time: tiles start at multiples of this.
#define BERTH_ATTENTION_TILE 64

/// Where a query row of attention stands.
typedef struct berth_attention_state {
    float largest; ///< score so far; -infinity before the first
    float total;   ///< of the powers e^(score - largest)
} berth_attention_state;

/// Rows that are asked of memory one by one while others are worked on: memory takes few requests
/// at a time, and drops the rest.
typedef struct berth_rows_ahead {
    const unsigned char* rows;
    int64_t stride_bytes; ///< from row to row
    int64_t row_bytes;
    int64_t count;
} berth_rows_ahead;

/// Asks for row `row`, if there are so many.
static inline void berth_rows_ask(const berth_rows_ahead* ahead, int64_t row) {
    if (row >= ahead->count) return;
    const unsigned char* from = ahead->rows + row * ahead->stride_bytes;
    for (int64_t at = 0; at < ahead->row_bytes; at += 64)
        __builtin_prefetch(from + at);
}

typedef struct berth_basic_rows {
    // Integers: NULL for division. Bool: ADD is or, MUL is and; SUB, REMAINDER and POW are NULL
    // too.
    berth_binary_fn binary_f32[BERTH_BINARY_COUNT];
    berth_binary_fn binary_i32[BERTH_BINARY_COUNT];
    berth_binary_fn binary_i64[BERTH_BINARY_COUNT];
    berth_binary_fn binary_i8[BERTH_BINARY_COUNT];
    berth_binary_fn binary_u8[BERTH_BINARY_COUNT];
    berth_binary_fn binary_bool[BERTH_BINARY_COUNT];
    // Of each type, BERTH_F32 .. BERTH_BOOL; NULL for f16 and bf16.
    berth_binary_fn compare[BERTH_COMPARE_COUNT][BERTH_PLAIN_DTYPES]; ///< to bool
    berth_clamp_fn clamp[BERTH_PLAIN_DTYPES];                         ///< NULL for bool
    berth_select_fn select[4];                                        ///< elements of 2^n bytes
    berth_unary_fn unary[BERTH_UNARY_COUNT];
    /// By dtype; NULL where the result is the operand.
    berth_unary_int_fn unary_int[BERTH_UNARY_INT_COUNT][BERTH_PLAIN_DTYPES];
    // Elements of 1, 2, 4 and 8 bytes as bits; NULL where nothing asks for it.
    berth_test_fn is_equal[4]; ///< ==
    berth_test_fn is_above[4]; ///< >
    berth_test_fn is_below[4]; ///< <
    void (*affine)(float* out, const float* x, int64_t count, float scale, float shift);

    /// out[i] = start + (first + i) * step, in double; `count` fits 31 bits.
    void (*steps_f32)(float* out, int64_t count, double start, double step, int64_t first);
    /// out[i] = start + i * step, but at least `low` and at most `high`; no sum overflows.
    void (*steps_i64)(
        int64_t* out, int64_t count, int64_t start, int64_t step, int64_t low, int64_t high);
    /// out[i] = the random bits of element first + i.
    void (*random_bits)(uint64_t* out, int64_t count, uint64_t key, int64_t first);
    /// out[i] = a number of [low, high) made of bits[i].
    void (*random_uniform)(
        float* out, const uint64_t* bits, int64_t count, double low, double high);

    /// Sine and cosine, in f32, of angles in radians of any size.
    void (*sincos)(const double* angle, float* out_sin, float* out_cos, int64_t count);
    /// Adjacent pairs turned: out[i] = x[i] * cos[i] + x[i ^ 1] * sin[i] for an even `count`, each
    /// angle standing twice, its first sine negated; `out` may be `x`.
    void (*rotate_pairs)(
        float* out, const float* x, const float* cos, const float* sin, int64_t count);
    /// Pairs (x[i], x[i + count]) turned; `out` may be `x`.
    void (*rotate_halves)(
        float* out, const float* x, const float* cos, const float* sin, int64_t count);

    /// to [depth, TILE] = `count` rows of `from`, [depth] and `stride` elements apart, transposed;
    /// columns from there to `columns`, a multiple of 16, are 0. For f32, f16 and bf16.
    void (*transpose_tile[BERTH_BF16 + 1])(float* to,
                                           int64_t columns,
                                           const void* from,
                                           int64_t stride,
                                           int64_t count,
                                           int64_t depth,
                                           const berth_rows_ahead* ahead);
    /// to [count, pitch] = `count` rows of `from`, [width] and `stride` elements apart; 0 behind
    /// them.
    void (*widen_tile[BERTH_BF16 + 1])(float* to,
                                       int64_t pitch,
                                       const void* from,
                                       int64_t stride,
                                       int64_t count,
                                       int64_t width,
                                       const berth_rows_ahead* ahead);
    /// Turns a row's `count` scores (1 .. TILE) into powers relative to the largest score so far,
    /// and what was summed before along with them: sums [columns], a multiple of 16 wide.
    void (*attend)(
        float* scores, int64_t count, berth_attention_state* state, float* sums, int64_t columns);
    /// Adds what other keys gave to what was summed before.
    void (*attend_merge)(berth_attention_state* state,
                         float* sums,
                         const berth_attention_state* other,
                         const float* other_sums,
                         int64_t columns);
    /// c [rows, columns] += a [rows, depth] x b [depth, columns], each element in ascending order
    /// of depth; strides in elements; `columns` is a multiple of 16.
    void (*multiply_add)(float* c,
                         int64_t c_stride,
                         const float* a,
                         int64_t a_stride,
                         const float* b,
                         int64_t b_stride,
                         int64_t rows,
                         int64_t depth,
                         int64_t columns);
} berth_basic_rows;

extern const berth_basic_rows berth_basic_rows_portable;
#if defined(__x86_64__)
extern const berth_basic_rows berth_basic_rows_avx2;
extern const berth_basic_rows berth_basic_rows_avx512;
#endif

/// The rows for berth_cpu_query_isa().
const berth_basic_rows* berth_basic_query_rows(void);

#endif // BERTH_DEVICE_CPU_KERNEL_BASIC_ROWS_H
