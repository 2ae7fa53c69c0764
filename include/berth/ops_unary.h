// SPDX-License-Identifier: Apache-2.0
// Ops on one operand, element by element.
#ifndef BERTH_OPS_UNARY_H
#define BERTH_OPS_UNARY_H

#include "berth/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Elements converted to `dtype` (round to nearest even; to integers toward zero, saturating, NaN
/// to 0). From a quantised type to floats only. A new reference to x if it has that dtype already.
BERTH_API berth_tensor* berth_cast(berth_context* ctx, berth_tensor* x, berth_dtype dtype);

/// x * scale + shift.
BERTH_API berth_tensor* berth_affine(berth_context* ctx, berth_tensor* x, float scale, float shift);

/// -x; floats, i32, i64.
BERTH_API berth_tensor* berth_neg(berth_context* ctx, berth_tensor* x);

/// e^x.
BERTH_API berth_tensor* berth_exp(berth_context* ctx, berth_tensor* x);

/// The square root of x; NaN below 0.
BERTH_API berth_tensor* berth_sqrt(berth_context* ctx, berth_tensor* x);

/// The hyperbolic tangent of x.
BERTH_API berth_tensor* berth_tanh(berth_context* ctx, berth_tensor* x);

/// 1 / (1 + e^-x).
BERTH_API berth_tensor* berth_sigmoid(berth_context* ctx, berth_tensor* x);

/// The larger of x and 0.
BERTH_API berth_tensor* berth_relu(berth_context* ctx, berth_tensor* x);

/// x * sigmoid(x).
BERTH_API berth_tensor* berth_silu(berth_context* ctx, berth_tensor* x);

/// The Gaussian error linear unit of x, in its tanh form.
BERTH_API berth_tensor* berth_gelu_tanh(berth_context* ctx, berth_tensor* x);

#ifdef __cplusplus
}
#endif

#endif // BERTH_OPS_UNARY_H
