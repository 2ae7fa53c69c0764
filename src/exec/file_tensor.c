// SPDX-License-Identifier: Apache-2.0
// Elements from a mapping and to a file.
#include "exec/file_tensor.h"

#include "base/error.h"
#include "exec/api.h"
#include "exec/foreign.h"

enum { CHUNK_BYTES = 1 << 18 };

static void release_map(void* self, void* data) {
    (void)data;
    berth_file_map_release(self);
}

/// Makes the tensor over the mapping itself.
static berth_status adopt_elements(berth_context* context,
                                   berth_file_map* map,
                                   const berth_foreign* elements,
                                   berth_tensor** out_tensor) {
    berth_file_map_retain(map);
    berth_status status = BERTH_ERR_STATE;
    if (berth_home_lock(&context->home)) {
        status = berth_foreign_adopt(context, elements, out_tensor);
        berth_home_unlock(&context->home);
    }
    if (status != BERTH_OK) berth_file_map_release(map);
    return status;
}

berth_tensor* berth_file_tensor(berth_context* context,
                                const char* op,
                                berth_file_map* map,
                                uint64_t offset,
                                berth_dtype dtype,
                                int32_t rank,
                                const int64_t* dims) {
    // as a number: a file without elements may end here, or be empty
    void* data = (void*)((uintptr_t)map->data + offset);
    const bool is_aligned = (uintptr_t)data % berth_dtype_info_of(dtype)->block_bytes == 0;
    berth_tensor* tensor = NULL;
    berth_status status;
    if (is_aligned && berth_device_takes_host_memory(context->home.stream->device)) {
        const berth_foreign elements = {
            .data = data,
            .limit_bytes = map->size - offset,
            .dtype = dtype,
            .rank = rank,
            .dims = dims,
            .is_read_only = true,
            .deleter = release_map,
            .deleter_self = map,
        };
        status = adopt_elements(context, map, &elements, &tensor);
    } else {
        tensor = berth_empty(context, dtype, rank, dims);
        if (tensor == NULL) return NULL;
        status = berth_tensor_write(tensor, data, berth_tensor_bytes(tensor));
    }
    if (status == BERTH_OK) return tensor;
    berth_release(tensor);
    return berth_api_refuse(context, status, op, NULL, 0);
}

berth_status berth_file_write_elements(berth_file_writer* writer, berth_tensor* tensor) {
    const uint32_t item = berth_dtype_info_of((berth_dtype)tensor->dtype)->block_bytes;
    const int64_t items = (int64_t)(berth_tensor_bytes(tensor) / item);
    const int64_t at_a_time = CHUNK_BYTES / item;
    unsigned char* chunk = berth_host_alloc(writer->host, CHUNK_BYTES);
    if (chunk == NULL)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory to write '%s'", writer->path);
    berth_status status = BERTH_OK;
    for (int64_t first = 0; first < items && status == BERTH_OK; first += at_a_time) {
        const int64_t count = items - first < at_a_time ? items - first : at_a_time;
        status = berth_tensor_read_span(tensor, first, count, chunk);
        if (status == BERTH_OK)
            status = berth_file_writer_add(writer, chunk, (uint64_t)count * item);
    }
    berth_host_free(writer->host, chunk);
    return status;
}
