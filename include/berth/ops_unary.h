// SPDX-License-Identifier: Apache-2.0
// Ops on one operand, element by element: the result has its shape.
//
// Functions of real numbers (affine and exp .. gelu_tanh) take any plain type; integers and bool
// are converted to f32, and the result is f32. f16 and bf16 are computed in f32 and rounded once.
// Errors are given in units in the last place of an f32 result, over all finite operands unless
// said otherwise. A moved operand is taken in place where its elements have the result's size.
#ifndef BERTH_OPS_UNARY_H
#define BERTH_OPS_UNARY_H

#include "berth/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Elements converted to `dtype`: to floats rounded to nearest even; floats to integers toward
/// zero, saturating, NaN to 0; integers to narrower ones wrap around; to bool x != 0. From a
/// quantised type to floats only. A new reference to x if it has that dtype already.
BERTH_API berth_tensor* berth_cast(berth_context* ctx, berth_tensor* x, berth_dtype dtype);

/// x * scale + shift, each rounded.
BERTH_API berth_tensor* berth_affine(berth_context* ctx, berth_tensor* x, float scale, float shift);

/// -x; floats and integers. The smallest of a signed type stays, unsigned wrap around.
BERTH_API berth_tensor* berth_neg(berth_context* ctx, berth_tensor* x);

/// |x|; floats and integers. The smallest of a signed type stays.
BERTH_API berth_tensor* berth_abs(berth_context* ctx, berth_tensor* x);

/// -1, 0 or 1; any plain type. 0 for NaN, as in PyTorch (NumPy: NaN).
BERTH_API berth_tensor* berth_sign(berth_context* ctx, berth_tensor* x);

/// The larger of x and 0; floats and integers. NaN stays.
BERTH_API berth_tensor* berth_relu(berth_context* ctx, berth_tensor* x);

/// The next integer below; floats, and integers as they are.
BERTH_API berth_tensor* berth_floor(berth_context* ctx, berth_tensor* x);

/// The next integer above; floats, and integers as they are.
BERTH_API berth_tensor* berth_ceil(berth_context* ctx, berth_tensor* x);

/// The nearest integer, halves to even; floats, and integers as they are.
BERTH_API berth_tensor* berth_round(berth_context* ctx, berth_tensor* x);

/// e^x, to 1.1 units.
BERTH_API berth_tensor* berth_exp(berth_context* ctx, berth_tensor* x);

/// The natural logarithm, to 1.5 units; -infinity for 0, NaN below.
BERTH_API berth_tensor* berth_log(berth_context* ctx, berth_tensor* x);

/// The natural logarithm of 1 + x, to 2 units, near 0 too; -infinity for -1, NaN below.
BERTH_API berth_tensor* berth_log1p(berth_context* ctx, berth_tensor* x);

/// The square root, correctly rounded; NaN below 0.
BERTH_API berth_tensor* berth_sqrt(berth_context* ctx, berth_tensor* x);

/// 1 / sqrt(x), to 1.5 units; infinity of its sign for 0, NaN below.
BERTH_API berth_tensor* berth_rsqrt(berth_context* ctx, berth_tensor* x);

/// 1 / x, correctly rounded; infinity of its sign for 0.
BERTH_API berth_tensor* berth_reciprocal(berth_context* ctx, berth_tensor* x);

/// The sine of x radians, of any size, to 1 unit; NaN for infinities.
BERTH_API berth_tensor* berth_sin(berth_context* ctx, berth_tensor* x);

/// The cosine of x radians, of any size, to 1 unit; NaN for infinities.
BERTH_API berth_tensor* berth_cos(berth_context* ctx, berth_tensor* x);

/// The hyperbolic tangent, to 3 units.
BERTH_API berth_tensor* berth_tanh(berth_context* ctx, berth_tensor* x);

/// 1 / (1 + e^-x), to 2.5 units and 2^-126.
BERTH_API berth_tensor* berth_sigmoid(berth_context* ctx, berth_tensor* x);

/// x * sigmoid(x), to 3 units and 2^-120; NaN for -infinity, as in PyTorch.
BERTH_API berth_tensor* berth_silu(berth_context* ctx, berth_tensor* x);

/// The Gaussian error linear unit, x Phi(x) with Phi the normal distribution, to 6 units and
/// 2^-148. NaN for -infinity, as in PyTorch.
BERTH_API berth_tensor* berth_gelu(berth_context* ctx, berth_tensor* x);

/// Its approximation x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, to 2^-16 of it. NaN for
/// -infinity, as in PyTorch.
BERTH_API berth_tensor* berth_gelu_tanh(berth_context* ctx, berth_tensor* x);

/// x == 0, as bool; any plain type. A NaN is not 0.
BERTH_API berth_tensor* berth_logical_not(berth_context* ctx, berth_tensor* x);

/// Whether x is NaN, as bool; any plain type.
BERTH_API berth_tensor* berth_isnan(berth_context* ctx, berth_tensor* x);

/// Whether x is one of the infinities, as bool; any plain type.
BERTH_API berth_tensor* berth_isinf(berth_context* ctx, berth_tensor* x);

/// Whether x is neither infinite nor NaN, as bool; any plain type.
BERTH_API berth_tensor* berth_isfinite(berth_context* ctx, berth_tensor* x);

#ifdef __cplusplus
}
#endif

#endif // BERTH_OPS_UNARY_H
