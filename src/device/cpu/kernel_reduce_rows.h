// SPDX-License-Identifier: Apache-2.0
// Inner loops of reductions, running sums and norms over contiguous rows of at most BERTH_CHUNK
// elements, once for each instruction set. Each gives the same bits on all of them.
#ifndef BERTH_DEVICE_CPU_KERNEL_REDUCE_ROWS_H
#define BERTH_DEVICE_CPU_KERNEL_REDUCE_ROWS_H

#include "base/dtype.h"

/// Of a row reduced in 16 partial results (S2 of kernel_basic_simd.h).
#define BERTH_PARTIALS 16

/// Rows of one integer type. Results are widened to i64; sums and products wrap.
typedef struct berth_integer_rows {
    int64_t (*sum)(const void* x, int64_t count);
    int64_t (*product)(const void* x, int64_t count);
    int64_t (*largest)(const void* x, int64_t count); ///< count >= 1, as of least
    int64_t (*least)(const void* x, int64_t count);
    /// The first place of `value`, or `count`.
    int64_t (*find)(const void* x, int64_t count, int64_t value);
    /// out[i] = carry + x[0] + ... + x[i]; returns the last; `out` may be `x` if that is i64.
    int64_t (*scan)(int64_t* out, const void* x, int64_t count, int64_t carry);
    // acc[i] = acc[i] op x[i]
    void (*sum_into)(int64_t* acc, const void* x, int64_t count);
    void (*product_into)(int64_t* acc, const void* x, int64_t count);
    void (*largest_into)(int64_t* acc, const void* x, int64_t count);
    void (*least_into)(int64_t* acc, const void* x, int64_t count);
    /// Where x[i] exceeds acc[i], that is replaced and where[i] becomes `row`.
    void (*find_largest_into)(
        int64_t* acc, int64_t* where, const void* x, int64_t count, int64_t row);
    void (*find_least_into)(
        int64_t* acc, int64_t* where, const void* x, int64_t count, int64_t row);
} berth_integer_rows;

/// Rows of elements of 1, 2, 4 or 8 bytes that count as true if a bit of `mask` is set in them.
typedef struct berth_truth_rows {
    bool (*any)(const void* x, int64_t count, uint64_t mask);
    bool (*all)(const void* x, int64_t count, uint64_t mask);
    void (*any_into)(int64_t* acc, const void* x, int64_t count, uint64_t mask);
    void (*all_into)(int64_t* acc, const void* x, int64_t count, uint64_t mask);
} berth_truth_rows;

/// Groups of elements in which a running sum of floats is added up.
#define BERTH_SCAN_GROUP 8

typedef struct berth_reduce_rows {
    /// partial[i % 16] += x[i]
    void (*sum)(float partial[BERTH_PARTIALS], const float* x, int64_t count);
    /// partial[i % 16] += x[i]^2
    void (*sum_squares)(float partial[BERTH_PARTIALS], const float* x, int64_t count);
    /// Some of the partial results = the larger of them and x[i]; NaN wins. As of least.
    void (*largest)(float partial[BERTH_PARTIALS], const float* x, int64_t count);
    void (*least)(float partial[BERTH_PARTIALS], const float* x, int64_t count);
    /// out[i] = e^(x[i] - shift); partial[i % 16] += out[i]; `out` may be `x`
    void (*sum_exp)(
        float partial[BERTH_PARTIALS], float* out, const float* x, int64_t count, float shift);
    /// partial[i % 16] *= x[i]
    void (*product)(double partial[BERTH_PARTIALS], const float* x, int64_t count);
    /// With d = x[i] - shift: sums[i % 16] += d, squares[i % 16] += d^2.
    void (*deviate)(double sums[BERTH_PARTIALS],
                    double squares[BERTH_PARTIALS],
                    const float* x,
                    int64_t count,
                    double shift);
    /// The sum of 16 partial sums: 8 apart first, then 4, 2, 1.
    float (*sum_partials)(const float partial[BERTH_PARTIALS]);
    double (*sum_doubles)(const double partial[BERTH_PARTIALS]);
    /// The largest and the least of 16 partial results; NaN wins.
    float (*largest_partial)(const float partial[BERTH_PARTIALS]);
    float (*least_partial)(const float partial[BERTH_PARTIALS]);
    /// The first place of `value` (of a NaN if it is one), or `count`.
    int64_t (*find)(const float* x, int64_t count, float value);

    // The same for columns side by side: x[i] goes to what is kept for column i.
    void (*product_into)(double* acc, const float* x, int64_t count);
    void (*deviate_into)(
        double* sums, double* squares, const float* x, const float* shifts, int64_t count);
    /// Where x[i] exceeds acc[i], or is the first NaN, that is replaced and where[i] becomes `row`.
    void (*find_largest_into)(
        float* acc, int32_t* where, const float* x, int64_t count, int32_t row);
    void (*find_least_into)(float* acc, int32_t* where, const float* x, int64_t count, int32_t row);

    /// out[i] = carry + x[0] + ... + x[i] in double, rounded; returns the last before it is. Within
    /// groups of BERTH_SCAN_GROUP elements the sums double their reach, then the carry is added.
    /// `out` may be `x`.
    double (*scan)(float* out, const float* x, int64_t count, double carry);
    /// out[i] = x[i]
    void (*widen)(double* out, const float* x, int64_t count);
    void (*round)(float* out, const double* x, int64_t count);
    /// acc[i] += x[i]
    void (*add_doubles)(double* acc, const double* x, int64_t count);

    /// out[i] = x[i] - first - second, from the left; `out` may be `x`
    void (*subtract)(float* out, const float* x, int64_t count, float first, float second);
    /// out[i] = x[i] * scale * weight[i], from the left; `out` may be `x`
    void (*scale_by)(float* out, const float* x, const float* weight, int64_t count, float scale);
    /// out[i] = (x[i] - first - second) * scale * weight[i] + bias[i], from the left; `out` may be
    /// `x`
    void (*normalize)(float* out,
                      const float* x,
                      const float* weight,
                      const float* bias,
                      int64_t count,
                      float first,
                      float second,
                      float scale);

    berth_integer_rows integers[BERTH_PLAIN_DTYPES]; ///< by dtype; none for floats
    berth_truth_rows truths[4];                      ///< for elements of 1, 2, 4 and 8 bytes
} berth_reduce_rows;

extern const berth_reduce_rows berth_reduce_rows_portable;
#if defined(__x86_64__)
extern const berth_reduce_rows berth_reduce_rows_avx2;
extern const berth_reduce_rows berth_reduce_rows_avx512;
#endif

/// The rows for berth_cpu_query_isa().
const berth_reduce_rows* berth_reduce_query_rows(void);

#endif // BERTH_DEVICE_CPU_KERNEL_REDUCE_ROWS_H
