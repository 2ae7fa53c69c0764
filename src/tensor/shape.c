// SPDX-License-Identifier: Apache-2.0
// Arithmetic on shapes.
#include "tensor/shape.h"

#include <inttypes.h>

#include "base/checked.h"
#include "base/error.h"

berth_status berth_shape_measure(
    berth_dtype dtype, int32_t rank, const int64_t* dims, int64_t* out_count, uint64_t* out_bytes) {
    const berth_dtype_info* info = berth_dtype_query_info(dtype);
    if (info == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "%d is no element type", (int)dtype);
    if (rank < 0 || rank > BERTH_MAX_RANK)
        return berth_fail(
            BERTH_ERR_INVALID_ARGUMENT, "rank %d is outside 0 .. %d", (int)rank, BERTH_MAX_RANK);
    // the product of the sizes that are not zero must fit too: strides are made of it
    int64_t span = 1;
    bool empty = false;
    for (int32_t i = 0; i < rank; ++i) {
        if (dims[i] < 0)
            return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                              "size %" PRId64 " of dimension %d is negative",
                              dims[i],
                              (int)i);
        if (dims[i] == 0) {
            empty = true;
        } else if (!berth_mul_i64(span, dims[i], &span)) {
            return berth_fail(BERTH_ERR_OVERFLOW, "the number of elements does not fit 63 bits");
        }
    }
    if (info->block_values > 1 && (rank == 0 || dims[rank - 1] % info->block_values != 0))
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "the last dimension of %s must be a multiple of %" PRIu32,
                          info->name,
                          info->block_values);
    int64_t bytes;
    if (!berth_mul_i64(span / info->block_values, info->block_bytes, &bytes) ||
        bytes > INT64_MAX - 4096)
        return berth_fail(BERTH_ERR_OVERFLOW, "the size in bytes does not fit 63 bits");
    if (out_count != NULL) *out_count = empty ? 0 : span;
    if (out_bytes != NULL) *out_bytes = empty ? 0 : (uint64_t)bytes;
    return BERTH_OK;
}

void berth_shape_dense_strides(berth_dtype dtype,
                               int32_t rank,
                               const int64_t* dims,
                               int64_t* strides) {
    int64_t stride = 1;
    for (int32_t i = rank - 1; i >= 0; --i) {
        strides[i] = stride;
        const int64_t size = dims[i] > 0 ? dims[i] : 1;
        const uint32_t block = i == rank - 1 ? berth_dtype_info_of(dtype)->block_values : 1;
        stride *= block > 1 && size >= block ? size / block : size;
    }
}

berth_status berth_shape_lay_out_slow(berth_view* view, uint64_t* out_bytes) {
    const berth_status status =
        berth_shape_measure(view->dtype, view->rank, view->dims, NULL, out_bytes);
    if (status == BERTH_OK)
        berth_shape_dense_strides(view->dtype, view->rank, view->dims, view->strides);
    return status;
}

bool berth_shape_is_dense(berth_dtype dtype,
                          int32_t rank,
                          const int64_t* dims,
                          const int64_t* strides) {
    for (int32_t i = 0; i < rank; ++i)
        if (dims[i] == 0) return true;
    int64_t expected = 1;
    for (int32_t i = rank - 1; i >= 0; --i) {
        if (dims[i] != 1 && strides[i] != expected) return false;
        const uint32_t block = i == rank - 1 ? berth_dtype_info_of(dtype)->block_values : 1;
        expected *= dims[i] / block;
    }
    return true;
}

bool berth_view_is_contiguous(const berth_view* view) {
    return view != NULL && berth_shape_is_dense(view->dtype, view->rank, view->dims, view->strides);
}

berth_status berth_shape_span(const berth_view* view, int64_t* out_begin, int64_t* out_end) {
    const berth_dtype_info* info = berth_dtype_info_of(view->dtype);
    int64_t first = 0, last = 0; // blocks
    *out_begin = *out_end = 0;
    for (int32_t i = 0; i < view->rank; ++i)
        if (view->dims[i] == 0) return BERTH_OK;
    for (int32_t i = 0; i < view->rank; ++i) {
        const int64_t blocks =
            i == view->rank - 1 ? view->dims[i] / info->block_values : view->dims[i];
        int64_t* edge = view->strides[i] < 0 ? &first : &last;
        int64_t reach;
        if (!berth_mul_i64(blocks - 1, view->strides[i], &reach) ||
            !berth_add_i64(*edge, reach, edge))
            return berth_fail(BERTH_ERR_OVERFLOW,
                              "stride %" PRId64 " of dimension %d reaches beyond 63 bits",
                              view->strides[i],
                              (int)i);
    }
    int64_t begin, end, length;
    if (!berth_mul_i64(first, info->block_bytes, &begin) || !berth_add_i64(last, 1, &end) ||
        !berth_mul_i64(end, info->block_bytes, &end) || !berth_sub_i64(end, begin, &length))
        return berth_fail(BERTH_ERR_OVERFLOW, "the bytes that the strides span do not fit 63 bits");
    *out_begin = begin;
    *out_end = end;
    return BERTH_OK;
}

bool berth_shape_broadcast(int32_t rank_a,
                           const int64_t* dims_a,
                           int32_t rank_b,
                           const int64_t* dims_b,
                           int32_t* out_rank,
                           int64_t* out_dims) {
    const int32_t rank = rank_a > rank_b ? rank_a : rank_b;
    *out_rank = rank;
    for (int32_t i = 0; i < rank; ++i) {
        const int32_t in_a = i - (rank - rank_a);
        const int32_t in_b = i - (rank - rank_b);
        const int64_t a = in_a < 0 ? 1 : dims_a[in_a];
        const int64_t b = in_b < 0 ? 1 : dims_b[in_b];
        if (a != b && a != 1 && b != 1) return false;
        out_dims[i] = a == 1 ? b : a;
    }
    return true;
}

bool berth_shape_normalize_dim(int32_t rank, int32_t* dim) {
    if (*dim < -rank || *dim >= rank) return false;
    if (*dim < 0) *dim += rank;
    return true;
}

void berth_shape_write(berth_text* text, berth_dtype dtype, int32_t rank, const int64_t* dims) {
    const berth_dtype_info* info = berth_dtype_query_info(dtype);
    berth_text_add(text, "%s[", info != NULL ? info->name : "?");
    for (int32_t i = 0; i < rank; ++i)
        berth_text_add(text, "%s%" PRId64, i == 0 ? "" : ", ", dims[i]);
    berth_text_add(text, "]");
}
