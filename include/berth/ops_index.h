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

/// `count` (>= 1) plain tensors of one shape but for `dim`, one after another, in the type that
/// theirs are promoted to. Unlike in PyTorch an empty tensor needs a fitting shape, too.
BERTH_API berth_tensor* berth_cat(berth_context* ctx,
                                  berth_tensor* const* tensors,
                                  size_t count,
                                  int32_t dim);

/// `count` (>= 1) plain tensors of one shape along a new dimension, number `dim` of the result
/// (negative: from its end), in the type that theirs are promoted to.
BERTH_API berth_tensor* berth_stack(berth_context* ctx,
                                    berth_tensor* const* tensors,
                                    size_t count,
                                    int32_t dim);

/// x plain, `times[d]` (>= 0) times along dimension d, for times [rank], rank >= x's: its
/// dimensions are the last ones, as in PyTorch (NumPy's tile).
BERTH_API berth_tensor* berth_repeat(berth_context* ctx,
                                     berth_tensor* x,
                                     int32_t rank,
                                     const int64_t* times);

/// x plain, moved on by `shift` places along `dim`; what is moved beyond the end comes in at the
/// beginning. For more dimensions, roll again.
BERTH_API berth_tensor* berth_roll(berth_context* ctx, berth_tensor* x, int64_t shift, int32_t dim);

/// x plain, with elements `value` (converted as by berth_full) around it: pads [pad_count] are
/// pairs of how many come before and behind, from the last dimension backwards, for as many
/// dimensions as there are pairs. Numbers below 0 take elements away. PyTorch's F.pad in mode
/// constant.
BERTH_API berth_tensor* berth_pad(
    berth_context* ctx, berth_tensor* x, int32_t pad_count, const int64_t* pads, double value);

/// x plain, [..., M, N], with 0 above the diagonal that begins `diagonal` columns right of the
/// first (negative: below it).
BERTH_API berth_tensor* berth_tril(berth_context* ctx, berth_tensor* x, int64_t diagonal);

/// As berth_tril, with 0 below that diagonal.
BERTH_API berth_tensor* berth_triu(berth_context* ctx, berth_tensor* x, int64_t diagonal);

// Ops that follow indices, of i32 or i64, counted from 0: PyTorch's, and as there a negative index
// is out of range. An index out of range is an error where the device computes at once in memory
// that the host sees (the CPU). On an asynchronous device nobody can look in time: there it reads
// NaN, 0 for types that are not floats, and writes nothing. `dim` is a dimension of x, which has
// one at least.

/// table [V, E], ids of any shape: rows of the table, ids.shape + [E], in the table's dtype; f32
/// for quantised tables, whose rows must be contiguous.
BERTH_API berth_tensor* berth_embedding(berth_context* ctx, berth_tensor* table, berth_tensor* ids);

/// x plain, index of x's rank and of no larger sizes but at `dim`: [index.shape], element [.., i,
/// ..] is x[.., index[.., i, ..], ..].
BERTH_API berth_tensor* berth_gather(berth_context* ctx,
                                     berth_tensor* x,
                                     int32_t dim,
                                     berth_tensor* index);

/// As berth_gather, but x and the index broadcast in every dimension other than `dim`: NumPy's
/// take_along_axis (without its negative indices), PyTorch's take_along_dim.
BERTH_API berth_tensor* berth_take_along(berth_context* ctx,
                                         berth_tensor* x,
                                         int32_t dim,
                                         berth_tensor* index);

/// x plain, index [n]: slices index[i] of x along `dim`, which becomes n; NumPy's take.
BERTH_API berth_tensor* berth_index_select(berth_context* ctx,
                                           berth_tensor* x,
                                           int32_t dim,
                                           berth_tensor* index);

// Changed copies of x. A moved x that nobody else can see, neither src, is changed in place.

/// x plain, index [n], src in x's dtype and shape but n at `dim`: x with slice index[i] along `dim`
/// replaced by slice i of src; of equal indices the last one counts.
BERTH_API berth_tensor* berth_index_copy(
    berth_context* ctx, berth_tensor* x, int32_t dim, berth_tensor* index, berth_tensor* src);

/// x plain; index and src of x's rank, src in x's dtype; index no larger than src in any dimension,
/// nor than x but at `dim`: x with element [.., index[.., i, ..], ..] replaced by src[.., i, ..],
/// in ascending i, so that of equal indices the last one counts (PyTorch does not say which).
BERTH_API berth_tensor* berth_scatter(
    berth_context* ctx, berth_tensor* x, int32_t dim, berth_tensor* index, berth_tensor* src);

/// As berth_scatter, but src is added, in ascending i. Every sum is rounded to x's dtype, as in
/// PyTorch: many small ones can get lost in f16 and bf16. Sums of bools are logical ors.
BERTH_API berth_tensor* berth_scatter_add(
    berth_context* ctx, berth_tensor* x, int32_t dim, berth_tensor* index, berth_tensor* src);

#ifdef __cplusplus
}
#endif

#endif // BERTH_OPS_INDEX_H
