// SPDX-License-Identifier: Apache-2.0
// Reductions over dimension `dim`, which keeps size 1 with keepdim and is dropped otherwise, and
// norms.
#ifndef BERTH_OPS_REDUCE_H
#define BERTH_OPS_REDUCE_H

#include "berth/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The sum; floats, i32, i64. Over nothing: 0.
BERTH_API berth_tensor* berth_sum(berth_context* ctx, berth_tensor* x, int32_t dim, bool keepdim);

/// The mean; floats. Over nothing: NaN.
BERTH_API berth_tensor* berth_mean(berth_context* ctx, berth_tensor* x, int32_t dim, bool keepdim);

/// The largest; floats, i32, i64. NaN if there is one. An empty dimension is an error.
BERTH_API berth_tensor* berth_max(berth_context* ctx, berth_tensor* x, int32_t dim, bool keepdim);

/// Index (i64) of the first of the largest, or of the first NaN. As berth_max otherwise.
BERTH_API berth_tensor* berth_argmax(berth_context* ctx,
                                     berth_tensor* x,
                                     int32_t dim,
                                     bool keepdim);

/// e^x over its sum along `dim`, which stays; floats.
BERTH_API berth_tensor* berth_softmax(berth_context* ctx, berth_tensor* x, int32_t dim);

/// x [..., E] floats, weight [E] f32 or x's dtype: x / sqrt(mean(x^2) + eps) * weight.
BERTH_API berth_tensor* berth_rms_norm(berth_context* ctx,
                                       berth_tensor* x,
                                       berth_tensor* weight,
                                       float eps);

#ifdef __cplusplus
}
#endif

#endif // BERTH_OPS_REDUCE_H
