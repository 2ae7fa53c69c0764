// SPDX-License-Identifier: Apache-2.0
// Tensor layer: shapes, storages, tensors. Knows nothing of ops, plans or steps.
//
// T1: a storage dies once: when no tensor is on it; its bytes go back to where they came from.
// T2: a storage that is pinned, shared or foreign never moves, and no op writes to it in place.
// T3: a tensor's elements lie inside its storage, whatever its strides.
//
// This header: arithmetic on shapes.
#ifndef BERTH_TENSOR_SHAPE_H
#define BERTH_TENSOR_SHAPE_H

#include "base/dtype.h"
#include "base/text.h"

/// Bytes of a dense [dims] of `dtype`, and their number of elements (either out may be NULL).
/// Errors: BERTH_ERR_INVALID_ARGUMENT (rank, a negative size, rows that are not whole blocks),
///         BERTH_ERR_OVERFLOW; the thread's detail text says which.
BERTH_NODISCARD berth_status berth_shape_measure(
    berth_dtype dtype, int32_t rank, const int64_t* dims, int64_t* out_count, uint64_t* out_bytes);

/// Elements of a shape that has been measured before.
static inline int64_t berth_shape_count(int32_t rank, const int64_t* dims) {
    int64_t count = 1;
    for (int32_t i = 0; i < rank; ++i)
        count *= dims[i];
    return count;
}

/// Writes row-major strides: elements, or blocks but for the last of a quantised dtype.
void berth_shape_dense_strides(berth_dtype dtype,
                               int32_t rank,
                               const int64_t* dims,
                               int64_t* strides);

/// Gives `view`, whose dtype, rank and dims are set, row-major strides; `*out_bytes` is its size.
/// Errors: as of berth_shape_measure.
BERTH_NODISCARD berth_status berth_shape_lay_out_slow(berth_view* view, uint64_t* out_bytes);
BERTH_NODISCARD static inline berth_status berth_shape_lay_out(berth_view* view,
                                                               uint64_t* out_bytes) {
    // a plain type and sizes far from the limits, in one pass; the rest elsewhere
    if ((unsigned)view->dtype < BERTH_PLAIN_DTYPES && (uint32_t)view->rank <= BERTH_MAX_RANK) {
        const int64_t limit = (int64_t)1 << 38; // times a size and an element: 2^61 bytes at most
        int64_t stride = 1;
        int32_t i = view->rank - 1;
        for (; i >= 0; --i) {
            view->strides[i] = stride;
            if ((uint64_t)view->dims[i] - 1 >= (1u << 20) || stride > limit) break;
            stride *= view->dims[i];
        }
        if (i < 0) {
            *out_bytes = (uint64_t)stride * berth_dtype_info_of(view->dtype)->block_bytes;
            return BERTH_OK;
        }
    }
    return berth_shape_lay_out_slow(view, out_bytes);
}

/// True if the elements lie one after another in row-major order (sizes of 1 may have any stride).
bool berth_shape_is_dense(berth_dtype dtype,
                          int32_t rank,
                          const int64_t* dims,
                          const int64_t* strides);

/// The bytes that the elements of `view` lie in, relative to element [0, ..., 0]: from `*out_begin`
/// (<= 0) to before `*out_end`; both 0 without elements. The shape has been measured; the view's
/// data does not matter.
/// Errors: BERTH_ERR_OVERFLOW.
BERTH_NODISCARD berth_status berth_shape_span(const berth_view* view,
                                              int64_t* out_begin,
                                              int64_t* out_end);

/// NumPy's broadcasting of two shapes; false if they do not fit.
bool berth_shape_broadcast(int32_t rank_a,
                           const int64_t* dims_a,
                           int32_t rank_b,
                           const int64_t* dims_b,
                           int32_t* out_rank,
                           int64_t* out_dims);

/// Maps a dimension that may count from the end to 0 .. rank - 1; false if there is none such.
bool berth_shape_normalize_dim(int32_t rank, int32_t* dim);

/// Adds "f32[2, 3]" to `text`.
void berth_shape_write(berth_text* text, berth_dtype dtype, int32_t rank, const int64_t* dims);

#endif // BERTH_TENSOR_SHAPE_H
