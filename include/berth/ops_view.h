// SPDX-License-Identifier: Apache-2.0
// Views: share the operand's storage, copy nothing, cost no memory. A moved operand's reference
// ends with the call.
#ifndef BERTH_OPS_VIEW_H
#define BERTH_OPS_VIEW_H

#include "berth/dims.h"
#include "berth/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// Parts.

/// Elements start, start + step, ... of dimension `dim`, up to `stop` but without it, as Python's
/// x[start:stop:step]: bounds are clamped to the dimension, negative ones count from the end, and
/// `step` may be negative. INT64_MAX and INT64_MIN stand for bounds left out: x[::-1] is start
/// INT64_MAX, stop INT64_MIN, step -1. (PyTorch refuses negative steps.) The last dimension of a
/// quantised tensor cannot be sliced.
BERTH_API berth_tensor* berth_slice(
    berth_context* ctx, berth_tensor* x, int32_t dim, int64_t start, int64_t stop, int64_t step);
/// `length` elements of dimension `dim` from `start` on (negative: from the end). What is not
/// within the dimension is an error.
BERTH_API berth_tensor* berth_narrow(
    berth_context* ctx, berth_tensor* x, int32_t dim, int64_t start, int64_t length);
/// Element `index` of dimension `dim` (negative: from the end), without that dimension: x[index].
BERTH_API berth_tensor* berth_select(berth_context* ctx,
                                     berth_tensor* x,
                                     int32_t dim,
                                     int64_t index);

/// Cuts dimension `dim` into parts of `size` elements, the last one perhaps smaller; an empty
/// dimension is one empty part.
///
/// `out_parts` [capacity] receives the parts, NULL behind them.
/// Returns their number; 0 after an error, with every place NULL.
BERTH_API size_t berth_split(berth_context* ctx,
                             berth_tensor* x,
                             int64_t size,
                             int32_t dim,
                             berth_tensor** out_parts,
                             size_t capacity);
/// Cuts dimension `dim` into `count` parts of `sizes` [count], which make up the dimension.
///
/// `out_parts` [count] receives the parts.
/// Returns false after an error, with every place NULL.
BERTH_API bool berth_split_sizes(berth_context* ctx,
                                 berth_tensor* x,
                                 const int64_t* sizes,
                                 size_t count,
                                 int32_t dim,
                                 berth_tensor** out_parts);
/// Cuts dimension `dim` into at most `chunks` parts of equal size but for the last.
///
/// `out_parts` [chunks] receives the parts, NULL behind them.
/// Returns their number, which is smaller where the size does not allow more (PyTorch's rule); 0
/// after an error, with every place NULL.
BERTH_API size_t berth_chunk(
    berth_context* ctx, berth_tensor* x, size_t chunks, int32_t dim, berth_tensor** out_parts);

// Shapes and orders; not for quantised tensors.

/// Swaps two dimensions.
BERTH_API berth_tensor* berth_transpose(berth_context* ctx,
                                        berth_tensor* x,
                                        int32_t dim_a,
                                        int32_t dim_b);
/// Dimension i of the result is dimension order.dims[i] of x; each comes once.
BERTH_API berth_tensor* berth_permute(berth_context* ctx, berth_tensor* x, berth_dims order);
/// Turns dimensions round (BERTH_ALL_DIMS: all of them), by negative strides. (PyTorch copies.)
BERTH_API berth_tensor* berth_flip(berth_context* ctx, berth_tensor* x, berth_dims dims);
/// Repeats dimensions of size 1, and new ones in front, to the shape `dims` [rank] without copying:
/// their stride is 0. -1 keeps a size.
BERTH_API berth_tensor* berth_expand(berth_context* ctx,
                                     berth_tensor* x,
                                     int32_t rank,
                                     const int64_t* dims);
/// Takes out those of the named dimensions (BERTH_ALL_DIMS: of all) that have size 1.
BERTH_API berth_tensor* berth_squeeze(berth_context* ctx, berth_tensor* x, berth_dims dims);
/// Puts a dimension of size 1 at `dim`, -(rank + 1) .. rank.
BERTH_API berth_tensor* berth_unsqueeze(berth_context* ctx, berth_tensor* x, int32_t dim);
/// The same elements, row-major, in another shape; one size may be -1 (inferred). A view where the
/// strides allow it, else a copy.
BERTH_API berth_tensor* berth_reshape(berth_context* ctx,
                                      berth_tensor* x,
                                      int32_t rank,
                                      const int64_t* dims);
/// As berth_reshape, but an error instead of a copy: PyTorch's view().
BERTH_API berth_tensor* berth_reshape_view(berth_context* ctx,
                                           berth_tensor* x,
                                           int32_t rank,
                                           const int64_t* dims);
/// Any window on x's storage: element [i, j, ...] is element offset + i * strides[0] + j *
/// strides[1] + ... of the storage, whatever x's own shape and offset are. `dims` and `strides`
/// [rank]; strides may be 0, negative, and make elements overlap. Leaving the storage is an error.
BERTH_API berth_tensor* berth_as_strided(berth_context* ctx,
                                         berth_tensor* x,
                                         int32_t rank,
                                         const int64_t* dims,
                                         const int64_t* strides,
                                         int64_t offset);

#ifdef __cplusplus
}
#endif

#endif // BERTH_OPS_VIEW_H
