// SPDX-License-Identifier: Apache-2.0
// Ops that make tensors of nothing: rank 0 .. BERTH_MAX_RANK, dims [rank], each >= 0. A double
// becomes an integer toward zero, saturating, NaN 0; a bool as value != 0; f16 and bf16 through
// f32. Integers beyond 2^53 are not all doubles: berth_from_data() takes them as they are.
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

/// `value` converted to `dtype`, without dimensions; any plain dtype.
BERTH_API berth_tensor* berth_scalar(berth_context* ctx, double value, berth_dtype dtype);

/// A copy of what lies at `data`: contiguous, row-major elements of any plain dtype (bool: bytes of
/// 0 or 1). `data` is host memory, no longer needed when the call returns, NULL only where there is
/// no element.
BERTH_API berth_tensor* berth_from_data(
    berth_context* ctx, const void* data, berth_dtype dtype, int32_t rank, const int64_t* dims);

/// [ceil((stop - start) / step)]: start, start + step, ..., computed in double; floats and
/// integers. Without elements where the step leads away from stop, as in NumPy (an error in
/// PyTorch).
BERTH_API berth_tensor* berth_arange(
    berth_context* ctx, double start, double stop, double step, berth_dtype dtype);

/// Uniform in [low, high), low <= high (all low where they are equal), floats; the same seed gives
/// the same numbers on every run.
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

/// Uniform among the integers of [low, high), all of which `dtype` (an integer type) must hold. The
/// same seed gives the same numbers on every run.
BERTH_API berth_tensor* berth_randint(berth_context* ctx,
                                      uint64_t seed,
                                      int64_t low,
                                      int64_t high,
                                      berth_dtype dtype,
                                      int32_t rank,
                                      const int64_t* dims);

#ifdef __cplusplus
}
#endif

#endif // BERTH_OPS_CREATE_H
