// SPDX-License-Identifier: Apache-2.0
// Checks of foreign memory, and the tensor over it.
#include "exec/foreign.h"

#include <inttypes.h>

#include "base/error.h"

/// Writes the window's shape into `view`, with strides that are all within reach.
static berth_status lay_out(const berth_foreign* foreign, berth_view* view) {
    if (foreign->rank > 0 && foreign->dims == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "the dimensions are missing");
    int64_t count;
    BERTH_TRY(berth_shape_measure(foreign->dtype, foreign->rank, foreign->dims, &count, NULL));
    *view = (berth_view){.data = foreign->data, .dtype = foreign->dtype, .rank = foreign->rank};
    for (int32_t i = 0; i < view->rank; ++i)
        view->dims[i] = foreign->dims[i];
    berth_shape_dense_strides(view->dtype, view->rank, view->dims, view->strides);
    if (foreign->strides == NULL || count == 0) return BERTH_OK;
    for (int32_t i = 0; i < view->rank; ++i)
        if (view->dims[i] > 1) view->strides[i] = foreign->strides[i];
    const berth_dtype_info* info = berth_dtype_info_of(view->dtype);
    if (!berth_dtype_is_plain(view->dtype) && view->strides[view->rank - 1] != 1)
        return berth_fail(
            BERTH_ERR_INVALID_ARGUMENT, "the rows of %s are not contiguous", info->name);
    return BERTH_OK;
}

/// The bytes [*out_begin, *out_end) around `view->data` are memory that can exist.
static berth_status check_span(const berth_foreign* foreign,
                               const berth_view* view,
                               int64_t* out_begin,
                               int64_t* out_end) {
    BERTH_TRY(berth_shape_span(view, out_begin, out_end));
    if ((uint64_t)*out_end > foreign->limit_bytes)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "the shape needs %" PRId64 " bytes, the memory has %" PRIu64,
                          *out_end,
                          foreign->limit_bytes);
    const uintptr_t at = (uintptr_t)view->data;
    if (*out_end > 0 && at == 0)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "the memory is NULL");
    if (at < (uint64_t) - *out_begin || UINTPTR_MAX - at < (uint64_t)*out_end)
        return berth_fail(BERTH_ERR_OVERFLOW,
                          "the shape reaches from %" PRId64 " to %" PRId64
                          " bytes around its first element, beyond the end of all addresses",
                          *out_begin,
                          *out_end);
    const berth_dtype_info* info = berth_dtype_info_of(view->dtype);
    if (berth_dtype_is_plain(view->dtype) && at % info->block_bytes != 0)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "the memory is not aligned to %" PRIu32
                          " bytes, as an element of %s needs: copy it to memory that is",
                          info->block_bytes,
                          info->name);
    return BERTH_OK;
}

berth_status berth_foreign_adopt(berth_context* context,
                                 const berth_foreign* foreign,
                                 berth_tensor** out_tensor) {
    *out_tensor = NULL;
    berth_view view;
    int64_t begin, end;
    BERTH_TRY(lay_out(foreign, &view));
    BERTH_TRY(check_span(foreign, &view, &begin, &end));
    berth_tensor* tensor = berth_tensor_new_on_storage(&context->home);
    if (tensor == NULL) return BERTH_ERR_OUT_OF_MEMORY;
    berth_storage* storage = tensor->storage;
    storage->kind = BERTH_STORAGE_FOREIGN;
    // as a number: memory without bytes may be at NULL
    storage->data = (unsigned char*)((uintptr_t)foreign->data - (uint64_t)-begin);
    storage->size_bytes = storage->rounded_bytes = (uint64_t)(end - begin);
    storage->is_special = true;
    storage->is_read_only = foreign->is_read_only;
    storage->deleter = foreign->deleter;
    storage->deleter_self = foreign->deleter_self;
    tensor->dtype = (uint8_t)view.dtype;
    tensor->rank = (uint8_t)view.rank;
    tensor->offset_bytes = (uint64_t)-begin;
    tensor->is_dense = berth_shape_is_dense(view.dtype, view.rank, view.dims, view.strides);
    for (int32_t i = 0; i < view.rank; ++i) {
        tensor->dims[i] = view.dims[i];
        tensor->strides[i] = view.strides[i];
    }
    *out_tensor = tensor;
    return BERTH_OK;
}
