// SPDX-License-Identifier: Apache-2.0
// Sorting, and ops whose results are as long as the data says: any plain dtype, any strides.
//
// In the order of values -0 equals 0 and a NaN, of either sign, is larger than all else. Sorting is
// always stable: equal elements stay in their order, also where it descends.
//
// nonzero, masked_select and unique wait until their result's length has been counted. In a step
// that length is planned by the largest that was seen, with a margin: the step's estimate is
// BERTH_ESTIMATE_OBSERVED, and a result that is longer comes from the pool.
#ifndef BERTH_OPS_SORT_H
#define BERTH_OPS_SORT_H

#include "berth/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/// x sorted along `dim`, in x's shape and dtype. `out_indices` (may be NULL) receives where along
/// `dim` each element was: i64, in x's shape; NULL after an error. A scalar has a dimension 0 of
/// size 1 here.
BERTH_API berth_tensor* berth_sort(
    berth_context* ctx, berth_tensor* x, int32_t dim, bool descending, berth_tensor** out_indices);

/// Where the elements of x sorted along `dim` are: i64, in x's shape.
BERTH_API berth_tensor* berth_argsort(berth_context* ctx,
                                      berth_tensor* x,
                                      int32_t dim,
                                      bool descending);

/// The `k` largest elements along `dim` (or the smallest), sorted: x's dtype and shape but `k` at
/// `dim`, 0 <= k <= its size. Of equal elements the first are taken, in their order (PyTorch leaves
/// that open). `out_indices` as in berth_sort().
BERTH_API berth_tensor* berth_topk(berth_context* ctx,
                                   berth_tensor* x,
                                   int64_t k,
                                   int32_t dim,
                                   bool largest,
                                   berth_tensor** out_indices);

/// i64 [count, rank of x]: the indices of each element that is not zero, in row-major order. A NaN
/// is not zero. A scalar gives [count, 0].
BERTH_API berth_tensor* berth_nonzero(berth_context* ctx, berth_tensor* x);

/// [count] in x's dtype: the elements of x where `mask` (bool) is true, in row-major order; x and
/// mask are broadcast with each other.
BERTH_API berth_tensor* berth_masked_select(berth_context* ctx,
                                            berth_tensor* x,
                                            berth_tensor* mask);

/// [count] in x's dtype: the distinct elements of x, ascending; 0 and -0 are one, whichever comes
/// first in x, and every NaN is one for itself (as in NumPy with equal_nan=False; PyTorch keeps
/// NaNs apart too, but a result with NaNs is not in order there).
/// `out_inverse` (may be NULL) receives, i64 in x's shape, the place of each element of x in the
/// result; `out_counts` (may be NULL), i64 [count], how many are equal to each. Both are NULL after
/// an error.
BERTH_API berth_tensor* berth_unique(berth_context* ctx,
                                     berth_tensor* x,
                                     berth_tensor** out_inverse,
                                     berth_tensor** out_counts);

#ifdef __cplusplus
}
#endif

#endif // BERTH_OPS_SORT_H
