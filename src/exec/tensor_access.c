// SPDX-License-Identifier: Apache-2.0
// Tensors as the host reaches them: foreign memory in, data in and out.
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "exec/foreign.h"
#include "exec/gather.h"

berth_tensor* berth_tensor_from_memory(berth_context* context,
                                       void* data,
                                       uint64_t bytes,
                                       berth_dtype dtype,
                                       int32_t rank,
                                       const int64_t* dims,
                                       bool read_only,
                                       berth_deleter deleter,
                                       void* self) {
    if (context == NULL || berth_home_is_forked(&context->home)) return NULL;
    const berth_foreign foreign = {
        .data = data,
        .limit_bytes = bytes,
        .dtype = dtype,
        .rank = rank,
        .dims = dims,
        .is_read_only = read_only,
        .deleter = deleter,
        .deleter_self = self,
    };
    return berth_foreign_bring_in(context, "tensor_from_memory", BERTH_OK, &foreign);
}

berth_context* berth_tensor_context(const berth_tensor* tensor) {
    return tensor != NULL ? berth_home_context(tensor->home) : NULL;
}

berth_status berth_tensor_check(const berth_tensor* tensor) {
    if (tensor == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "the tensor is NULL");
    if (berth_is_moved(tensor))
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "the tensor was handed over by berth_move(), which is for ops alone");
    return berth_fork_check(tensor->home->fork_generation);
}

static berth_status refuse_size(const berth_tensor* tensor, uint64_t bytes) {
    char buffer[200];
    berth_text shape = {.buffer = buffer, .size = sizeof buffer};
    berth_shape_write(&shape, (berth_dtype)tensor->dtype, tensor->rank, tensor->dims);
    return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                      "the buffer has %" PRIu64 " bytes, the tensor %s has %" PRIu64,
                      bytes,
                      buffer,
                      berth_tensor_bytes(tensor));
}

static berth_status check_access(const berth_tensor* tensor, const void* buffer, uint64_t bytes) {
    BERTH_TRY(berth_tensor_check(tensor));
    if (bytes != berth_tensor_bytes(tensor)) return refuse_size(tensor, bytes);
    if (buffer == NULL && bytes > 0)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "the buffer is NULL");
    return BERTH_OK;
}

static berth_status read_locked(berth_tensor* tensor, int64_t first, int64_t count, void* buffer) {
    berth_stream* stream = tensor->storage->home->stream;
    const uint64_t item = berth_dtype_info_of((berth_dtype)tensor->dtype)->block_bytes;
    if (count == 0) return BERTH_OK;
    if (tensor->is_dense || !berth_device_has_data(stream->device)) {
        BERTH_TRY(berth_stream_copy(stream,
                                    buffer,
                                    berth_tensor_data(tensor) + (uint64_t)first * item,
                                    (uint64_t)count * item,
                                    BERTH_COPY_DEVICE_TO_HOST));
        return berth_stream_drain(stream);
    }
    berth_view view;
    berth_tensor_view(tensor, &view);
    if (!berth_device_has_host_access(stream->device))
        return berth_gather_from_device(
            tensor->storage->home->host, stream, &view, first, count, buffer);
    BERTH_TRY(berth_stream_synchronize(stream));
    berth_gather_here(&view, first, count, buffer);
    return BERTH_OK;
}

berth_status berth_tensor_read_span(berth_tensor* tensor,
                                    int64_t first,
                                    int64_t count,
                                    void* buffer) {
    berth_home* home = tensor->storage->home;
    BERTH_TRY(berth_fork_check(home->fork_generation));
    if (!berth_home_lock(home)) return BERTH_ERR_STATE;
    const berth_status status = read_locked(tensor, first, count, buffer);
    berth_home_unlock(home);
    return status;
}

berth_status berth_tensor_read(berth_tensor* tensor, void* buffer, uint64_t bytes) {
    BERTH_TRY(check_access(tensor, buffer, bytes));
    const uint64_t item = berth_dtype_info_of((berth_dtype)tensor->dtype)->block_bytes;
    return berth_tensor_read_span(tensor, 0, (int64_t)(bytes / item), buffer);
}

static berth_status write_locked(berth_tensor* tensor, const void* data, uint64_t bytes) {
    berth_stream* stream = tensor->storage->home->stream;
    if (bytes == 0) return BERTH_OK;
    BERTH_TRY(berth_storage_wait_uses(tensor->storage));
    BERTH_TRY(berth_stream_copy(
        stream, berth_tensor_data(tensor), data, bytes, BERTH_COPY_HOST_TO_DEVICE));
    return berth_stream_drain(stream);
}

berth_status berth_tensor_write(berth_tensor* tensor, const void* data, uint64_t bytes) {
    BERTH_TRY(check_access(tensor, data, bytes));
    if (tensor->storage->is_read_only)
        return berth_fail(BERTH_ERR_UNSUPPORTED, "the tensor is read-only");
    if (!tensor->is_dense)
        return berth_fail(BERTH_ERR_UNSUPPORTED,
                          "the tensor is not contiguous: write to berth_contiguous() of it");
    berth_home* home = tensor->storage->home;
    if (!berth_home_lock(home)) return BERTH_ERR_STATE;
    const berth_status status = write_locked(tensor, data, bytes);
    berth_home_unlock(home);
    return status;
}

berth_status berth_tensor_map(berth_tensor* tensor, void** out_data) {
    if (out_data == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a place is needed");
    *out_data = NULL;
    BERTH_TRY(berth_tensor_check(tensor));
    berth_storage* storage = tensor->storage;
    if (!berth_device_has_host_access(storage->home->stream->device))
        return berth_fail(BERTH_ERR_UNSUPPORTED, "the device's memory is not visible to the host");
    if (!berth_home_lock(storage->home)) return BERTH_ERR_STATE;
    berth_status status = berth_stream_synchronize(storage->home->stream);
    if (status == BERTH_OK) status = berth_storage_wait_uses(storage);
    if (status == BERTH_OK) {
        atomic_fetch_add_explicit(&storage->marks, 1, memory_order_acq_rel);
        *out_data = berth_tensor_data(tensor);
    }
    berth_home_unlock(storage->home);
    return status;
}

void berth_tensor_unmap(berth_tensor* tensor) {
    if (tensor == NULL || berth_home_is_forked(tensor->home)) return;
    berth_storage* storage = tensor->storage;
    uint32_t marks = atomic_load_explicit(&storage->marks, memory_order_acquire);
    do {
        if ((marks & ~BERTH_STORAGE_SHARED) == 0) {
            berth_log_line(BERTH_LOG_ERROR, "berth_tensor_unmap: the tensor is not mapped");
            return;
        }
    } while (!atomic_compare_exchange_weak_explicit(
        &storage->marks, &marks, marks - 1, memory_order_acq_rel, memory_order_acquire));
}
