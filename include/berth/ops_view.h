// SPDX-License-Identifier: Apache-2.0
// Views: share the operand's storage, copy nothing, cost no memory. A moved operand's reference
// ends with the call.
#ifndef BERTH_OPS_VIEW_H
#define BERTH_OPS_VIEW_H

#include "berth/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Elements start, start + step, ... below stop of dimension `dim`; step >= 1; start and stop are
/// clamped to the dimension, negative count from the end (INT64_MAX: to the end). The last
/// dimension of a quantised tensor cannot be sliced.
BERTH_API berth_tensor* berth_slice(
    berth_context* ctx, berth_tensor* x, int32_t dim, int64_t start, int64_t stop, int64_t step);

/// Swaps two dimensions.
BERTH_API berth_tensor* berth_transpose(berth_context* ctx,
                                        berth_tensor* x,
                                        int32_t dim_a,
                                        int32_t dim_b);

/// The same elements, row-major, in another shape; one size may be -1 (inferred). A view where the
/// strides allow it, else a copy. Not for quantised tensors.
BERTH_API berth_tensor* berth_reshape(berth_context* ctx,
                                      berth_tensor* x,
                                      int32_t rank,
                                      const int64_t* dims);

#ifdef __cplusplus
}
#endif

#endif // BERTH_OPS_VIEW_H
