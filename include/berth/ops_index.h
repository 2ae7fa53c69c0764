// SPDX-License-Identifier: Apache-2.0
// Layout, joining, and ops that follow indices.
#ifndef BERTH_OPS_INDEX_H
#define BERTH_OPS_INDEX_H

#include "berth/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/// x itself (a new reference) if it is contiguous, else a contiguous copy.
BERTH_API berth_tensor* berth_contiguous(berth_context* ctx, berth_tensor* x);

/// A contiguous copy, always.
BERTH_API berth_tensor* berth_copy(berth_context* ctx, berth_tensor* x);

/// 1 to BERTH_OP_MAX_INPUTS tensors of one dtype and shape but for `dim`, one after another.
BERTH_API berth_tensor* berth_cat(berth_context* ctx,
                                  berth_tensor* const* tensors,
                                  size_t count,
                                  int32_t dim);

/// table [V, E], ids i32 or i64 of any shape: rows of the table, ids.shape + [E], f32 for quantised
/// tables. An id outside the table gives a row of NaN.
BERTH_API berth_tensor* berth_embedding(berth_context* ctx, berth_tensor* table, berth_tensor* ids);

/// x with rows index[i] (i32 or i64, [n]) along `dim` replaced by rows i of src. A moved x that
/// nobody else can see is changed in place; otherwise the result is a changed copy. Rows out of
/// range are ignored.
BERTH_API berth_tensor* berth_index_copy(
    berth_context* ctx, berth_tensor* x, int32_t dim, berth_tensor* index, berth_tensor* src);

#ifdef __cplusplus
}
#endif

#endif // BERTH_OPS_INDEX_H
