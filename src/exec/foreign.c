// SPDX-License-Identifier: Apache-2.0
// Checks of foreign memory, and the tensor over it, or of what lies there.
#include "exec/foreign.h"

#include <inttypes.h>

#include "base/error.h"
#include "exec/gather.h"
#include "exec/plain_bytes.h"
#include "exec/run.h"

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

bool berth_foreign_is_usable(const berth_context* context, const berth_foreign* foreign) {
    return foreign->is_on_device || berth_device_takes_host_memory(context->home.stream->device) ||
           berth_plain_bytes_have(context, foreign->data);
}

/// The window's elements in row-major order, in host memory of its own where they lie otherwise:
/// `*out_own` is to be freed.
static berth_status collect(const berth_host* host,
                            const berth_view* view,
                            uint64_t bytes,
                            const void** out_data,
                            void** out_own) {
    *out_data = view->data;
    *out_own = NULL;
    if (berth_shape_is_dense(view->dtype, view->rank, view->dims, view->strides)) return BERTH_OK;
    unsigned char* own = berth_host_alloc(host, bytes);
    if (own == NULL)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY,
                          "no host memory to lay %" PRIu64 " bytes out for a copy to the device",
                          bytes);
    berth_gather_here(
        view, 0, (int64_t)(bytes / berth_dtype_info_of(view->dtype)->block_bytes), own);
    *out_data = *out_own = own;
    return BERTH_OK;
}

static berth_status copy_to_device(berth_stream* stream,
                                   void* target,
                                   const void* data,
                                   uint64_t bytes) {
    if (bytes == 0) return BERTH_OK;
    const berth_status status =
        berth_stream_copy(stream, target, data, bytes, BERTH_COPY_HOST_TO_DEVICE);
    // also after a failure nothing may read there any more
    const berth_status drained = berth_stream_drain(stream);
    return status != BERTH_OK ? status : drained;
}

berth_status berth_foreign_copy(berth_context* context,
                                const berth_foreign* foreign,
                                berth_tensor** out_tensor) {
    *out_tensor = NULL;
    berth_home* home = &context->home;
    berth_view view;
    int64_t begin, end;
    uint64_t bytes;
    const void* data;
    void* own;
    BERTH_TRY(lay_out(foreign, &view));
    BERTH_TRY(check_span(foreign, &view, &begin, &end));
    BERTH_TRY(berth_shape_measure(view.dtype, view.rank, view.dims, NULL, &bytes));
    if (end == begin) bytes = 0;
    BERTH_TRY(collect(home->host, &view, bytes, &data, &own));
    if (context->run != NULL)
        berth_run_begin_event(context,
                              context->run,
                              BERTH_EVENT_ALLOC,
                              1,
                              (uint32_t)view.rank | (uint32_t)view.dtype << 8);
    berth_view shape = view;
    berth_shape_dense_strides(view.dtype, view.rank, shape.dims, shape.strides);
    berth_tensor* tensor;
    berth_status status = berth_context_new_tensor(context, &shape, bytes, 0, &tensor);
    if (status == BERTH_OK) {
        status = copy_to_device(home->stream, berth_tensor_data(tensor), data, bytes);
        if (status != BERTH_OK) berth_tensor_drop(tensor, home);
    }
    berth_host_free(home->host, own);
    if (status != BERTH_OK) return status;
    if (foreign->is_read_only) tensor->storage->is_read_only = tensor->storage->is_special = true;
    *out_tensor = tensor;
    return BERTH_OK;
}

berth_tensor* berth_foreign_bring_in(berth_context* context,
                                     const char* op,
                                     berth_status status,
                                     const berth_foreign* foreign) {
    berth_tensor* tensor = NULL;
    if (!berth_home_lock(&context->home)) return NULL;
    const bool is_copied = status == BERTH_OK && !berth_foreign_is_usable(context, foreign);
    if (context->error == BERTH_OK) {
        context->home.doing = op;
        if (status == BERTH_OK)
            status = is_copied ? berth_foreign_copy(context, foreign, &tensor)
                               : berth_foreign_adopt(context, foreign, &tensor);
        if (status != BERTH_OK) berth_context_fail(context, status, op, NULL);
    }
    berth_home_unlock(&context->home);
    if (is_copied && tensor != NULL && foreign->deleter != NULL)
        foreign->deleter(foreign->deleter_self, foreign->data);
    return tensor;
}
