// SPDX-License-Identifier: Apache-2.0
// Ops that make tensors of nothing: rank 0 .. BERTH_MAX_RANK, dims [rank], each >= 0.
#ifndef BERTH_OPS_CREATE_H
#define BERTH_OPS_CREATE_H

#include "berth/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Undefined content; any plain (not quantised) dtype.
BERTH_API berth_tensor* berth_empty(berth_context* ctx,
                                    berth_dtype dtype,
                                    int32_t rank,
                                    const int64_t* dims);

/// Zeros; any plain dtype.
BERTH_API berth_tensor* berth_zeros(berth_context* ctx,
                                    berth_dtype dtype,
                                    int32_t rank,
                                    const int64_t* dims);

/// Ones; any plain dtype.
BERTH_API berth_tensor* berth_ones(berth_context* ctx,
                                   berth_dtype dtype,
                                   int32_t rank,
                                   const int64_t* dims);

/// `value` converted to `dtype`, in every element; any plain dtype.
BERTH_API berth_tensor* berth_full(
    berth_context* ctx, double value, berth_dtype dtype, int32_t rank, const int64_t* dims);

/// [ceil((stop - start) / step)]: start, start + step, ...; f32, i32, i64.
BERTH_API berth_tensor* berth_arange(
    berth_context* ctx, double start, double stop, double step, berth_dtype dtype);

/// Uniform in [low, high), floats; the same seed gives the same numbers on every run.
BERTH_API berth_tensor* berth_rand(berth_context* ctx,
                                   uint64_t seed,
                                   float low,
                                   float high,
                                   berth_dtype dtype,
                                   int32_t rank,
                                   const int64_t* dims);

/// Normal with the given mean and deviation, floats.
BERTH_API berth_tensor* berth_randn(berth_context* ctx,
                                    uint64_t seed,
                                    float mean,
                                    float deviation,
                                    berth_dtype dtype,
                                    int32_t rank,
                                    const int64_t* dims);

#ifdef __cplusplus
}
#endif

#endif // BERTH_OPS_CREATE_H
