// SPDX-License-Identifier: Apache-2.0
// Ops on two operands, element by element, with NumPy's broadcasting; both have one dtype (f32 f16
// bf16 i32 i64 u8; div: floats). Integers wrap around; minimum and maximum of a NaN are NaN.
#ifndef BERTH_OPS_BINARY_H
#define BERTH_OPS_BINARY_H

#include "berth/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/// a + b.
BERTH_API berth_tensor* berth_add(berth_context* ctx, berth_tensor* a, berth_tensor* b);

/// a - b.
BERTH_API berth_tensor* berth_sub(berth_context* ctx, berth_tensor* a, berth_tensor* b);

/// a * b.
BERTH_API berth_tensor* berth_mul(berth_context* ctx, berth_tensor* a, berth_tensor* b);

/// a / b.
BERTH_API berth_tensor* berth_div(berth_context* ctx, berth_tensor* a, berth_tensor* b);

/// The smaller of a and b.
BERTH_API berth_tensor* berth_minimum(berth_context* ctx, berth_tensor* a, berth_tensor* b);

/// The larger of a and b.
BERTH_API berth_tensor* berth_maximum(berth_context* ctx, berth_tensor* a, berth_tensor* b);

#ifdef __cplusplus
}
#endif

#endif // BERTH_OPS_BINARY_H
