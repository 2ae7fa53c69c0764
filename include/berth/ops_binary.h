// SPDX-License-Identifier: Apache-2.0
// Ops on two operands, element by element, with NumPy's broadcasting; where and clamp. Operands are
// plain and promoted as berth/ops.h says; the result has the promoted type unless it is said to be
// another. Integers wrap around.
#ifndef BERTH_OPS_BINARY_H
#define BERTH_OPS_BINARY_H

#include "berth/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/// a + b; of two bools: a or b.
BERTH_API berth_tensor* berth_add(berth_context* ctx, berth_tensor* a, berth_tensor* b);

/// a - b; not of two bools (PyTorch: not of any).
BERTH_API berth_tensor* berth_sub(berth_context* ctx, berth_tensor* a, berth_tensor* b);

/// a * b; of two bools: a and b.
BERTH_API berth_tensor* berth_mul(berth_context* ctx, berth_tensor* a, berth_tensor* b);

/// a / b, the true quotient: f32 for integers and bools.
BERTH_API berth_tensor* berth_div(berth_context* ctx, berth_tensor* a, berth_tensor* b);

/// The smaller of a and b, NaN if one of them is.
BERTH_API berth_tensor* berth_minimum(berth_context* ctx, berth_tensor* a, berth_tensor* b);

/// The larger of a and b, NaN if one of them is.
BERTH_API berth_tensor* berth_maximum(berth_context* ctx, berth_tensor* a, berth_tensor* b);

/// What is left of a after division by b, with the sign of b; not of two bools. Of floats: exact
/// but for one rounding where the signs of a and b differ, NaN for b = 0 or an infinite a; a zero
/// has the sign of a. Of integers: 0 for b = 0 (as in NumPy; PyTorch raises an error).
BERTH_API berth_tensor* berth_remainder(berth_context* ctx, berth_tensor* a, berth_tensor* b);

/// a to the power of b; not of two bools. Of floats: within 0.6 units in the last place of f32,
/// with the special cases of C's pow: NaN for a negative number to a broken power. Of integers:
/// exact but for wrapping around; to a negative power 0, except that 1 and -1 have theirs.
BERTH_API berth_tensor* berth_pow(berth_context* ctx, berth_tensor* a, berth_tensor* b);

/// bool: a = b. A comparison with NaN is false.
BERTH_API berth_tensor* berth_eq(berth_context* ctx, berth_tensor* a, berth_tensor* b);

/// bool: not a = b; true where one is NaN.
BERTH_API berth_tensor* berth_ne(berth_context* ctx, berth_tensor* a, berth_tensor* b);

/// bool: a < b.
BERTH_API berth_tensor* berth_lt(berth_context* ctx, berth_tensor* a, berth_tensor* b);

/// bool: a <= b.
BERTH_API berth_tensor* berth_le(berth_context* ctx, berth_tensor* a, berth_tensor* b);

/// bool: a > b.
BERTH_API berth_tensor* berth_gt(berth_context* ctx, berth_tensor* a, berth_tensor* b);

/// bool: a >= b.
BERTH_API berth_tensor* berth_ge(berth_context* ctx, berth_tensor* a, berth_tensor* b);

/// bool: a and b, each true where it is not 0; NaN is true.
BERTH_API berth_tensor* berth_logical_and(berth_context* ctx, berth_tensor* a, berth_tensor* b);

/// bool: a or b.
BERTH_API berth_tensor* berth_logical_or(berth_context* ctx, berth_tensor* a, berth_tensor* b);

/// bool: one of a and b, not both.
BERTH_API berth_tensor* berth_logical_xor(berth_context* ctx, berth_tensor* a, berth_tensor* b);

/// a where the condition is true, else b: all three broadcast; a and b are promoted. The condition
/// is bool or of any plain type, true where it is not 0 (PyTorch wants bool).
BERTH_API berth_tensor* berth_where(berth_context* ctx,
                                    berth_tensor* condition,
                                    berth_tensor* a,
                                    berth_tensor* b);

/// x, but `low` where it is below and then `high` where it is above, in x's type; so `high`
/// everywhere if `low` is above it. Pass -INFINITY or INFINITY for no bound. Floats: NaN stays, and
/// a bound that is NaN makes all NaN. Integers stay between the whole numbers within the bounds,
/// and bounds beyond the type's range count as its ends; a NaN bound is refused. (PyTorch makes
/// floats of integers where a bound is no integer.) Not for bool.
BERTH_API berth_tensor* berth_clamp(berth_context* ctx, berth_tensor* x, double low, double high);

/// Each element of a [M] times each of b [N]: [M, N].
BERTH_API berth_tensor* berth_outer(berth_context* ctx, berth_tensor* a, berth_tensor* b);

#ifdef __cplusplus
}
#endif

#endif // BERTH_OPS_BINARY_H
