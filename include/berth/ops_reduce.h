// SPDX-License-Identifier: Apache-2.0
// Reductions, running sums, norms.
//
// Reductions over `dims`, BERTH_DIMS(0, -1) or BERTH_ALL_DIMS: each dimension at most once. They
// keep size 1 with keepdim and are dropped otherwise. As in PyTorch, a tensor of rank 0 may be
// asked for its dimension 0. The bits of a result depend on its elements and their row-major order
// alone, not on strides, other results or threads (but for which of two zeros is the larger).
#ifndef BERTH_OPS_REDUCE_H
#define BERTH_OPS_REDUCE_H

#include "berth/dims.h"
#include "berth/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The sum; plain. Floats keep their type, integers and bool give i64, which wraps. Over nothing:
/// 0.
BERTH_API berth_tensor* berth_sum(berth_context* ctx,
                                  berth_tensor* x,
                                  berth_dims dims,
                                  bool keepdim);

/// The product; types as of berth_sum. Over nothing: 1.
BERTH_API berth_tensor* berth_prod(berth_context* ctx,
                                   berth_tensor* x,
                                   berth_dims dims,
                                   bool keepdim);

/// The mean; floats. Over nothing: NaN.
BERTH_API berth_tensor* berth_mean(berth_context* ctx,
                                   berth_tensor* x,
                                   berth_dims dims,
                                   bool keepdim);

/// The variance; floats: the squared deviations from the mean, summed, over n - correction (at
/// least 0) for n elements. PyTorch's default for `correction` is 1, NumPy's 0. Over nothing: NaN.
BERTH_API berth_tensor* berth_var(
    berth_context* ctx, berth_tensor* x, berth_dims dims, double correction, bool keepdim);

/// The largest; plain. NaN if there is one. Without an element to take it is an error, unless the
/// result has none either.
BERTH_API berth_tensor* berth_max(berth_context* ctx,
                                  berth_tensor* x,
                                  berth_dims dims,
                                  bool keepdim);

/// The least. As berth_max otherwise.
BERTH_API berth_tensor* berth_min(berth_context* ctx,
                                  berth_tensor* x,
                                  berth_dims dims,
                                  bool keepdim);

/// Index (i64) along `dim` of the first of the largest, or of the first NaN. As berth_max
/// otherwise.
BERTH_API berth_tensor* berth_argmax(berth_context* ctx,
                                     berth_tensor* x,
                                     int32_t dim,
                                     bool keepdim);

/// Index (i64) along `dim` of the first of the least, or of the first NaN. As berth_max otherwise.
BERTH_API berth_tensor* berth_argmin(berth_context* ctx,
                                     berth_tensor* x,
                                     int32_t dim,
                                     bool keepdim);

/// Whether any element is not 0 (NaN is not); plain -> bool, also for u8, where PyTorch gives u8.
/// Over nothing: false.
BERTH_API berth_tensor* berth_any(berth_context* ctx,
                                  berth_tensor* x,
                                  berth_dims dims,
                                  bool keepdim);

/// Whether no element is 0. As berth_any otherwise. Over nothing: true.
BERTH_API berth_tensor* berth_all(berth_context* ctx,
                                  berth_tensor* x,
                                  berth_dims dims,
                                  bool keepdim);

/// log of the sum of e^x, without overflow; floats. Over nothing, or only -infinity: -infinity.
BERTH_API berth_tensor* berth_logsumexp(berth_context* ctx,
                                        berth_tensor* x,
                                        berth_dims dims,
                                        bool keepdim);

/// The sums of the elements so far along `dim`; types as of berth_sum. Floats are added in double.
BERTH_API berth_tensor* berth_cumsum(berth_context* ctx, berth_tensor* x, int32_t dim);

/// e^x over its sum along `dim`, which stays; floats.
BERTH_API berth_tensor* berth_softmax(berth_context* ctx, berth_tensor* x, int32_t dim);

/// The logarithm of berth_softmax: x less the log of the sum of e^x along `dim`; floats.
BERTH_API berth_tensor* berth_log_softmax(berth_context* ctx, berth_tensor* x, int32_t dim);

/// x [..., E], weight [E] or NULL, bias [E] or NULL; floats each:
/// (x - mean) / sqrt(variance + eps) * weight + bias over the last dimension, the variance without
/// correction; in f32, rounded to x's type once. `eps` is at least 0.
BERTH_API berth_tensor* berth_layer_norm(
    berth_context* ctx, berth_tensor* x, berth_tensor* weight, berth_tensor* bias, float eps);

/// x [..., E], weight [E] or NULL; floats each: x / sqrt(mean(x^2) + eps) * weight over the last
/// dimension; in f32, rounded to x's type once. `eps` is at least 0.
BERTH_API berth_tensor* berth_rms_norm(berth_context* ctx,
                                       berth_tensor* x,
                                       berth_tensor* weight,
                                       float eps);

#ifdef __cplusplus
}
#endif

#endif // BERTH_OPS_REDUCE_H
