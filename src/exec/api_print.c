// SPDX-License-Identifier: Apache-2.0
// Public printing: fetches the elements that are shown, lays them out.
#include "berth/print.h"

#include <errno.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "berth/inspect.h"
#include "exec/exec_impl.h"
#include "tensor/print_array.h"

/// Where the elements that are shown go.
typedef struct fetch {
    berth_tensor* tensor;
    const berth_print_array* array;
    unsigned char* next;
} fetch;

static berth_status fetch_span(fetch* f, int64_t first, int64_t count) {
    BERTH_TRY(berth_tensor_read_span(f->tensor, first, count, f->next));
    f->next += (uint64_t)count * berth_dtype_info_of(f->array->dtype)->block_bytes;
    return BERTH_OK;
}

/// Fetches what is shown under dimension `dim` of the elements from row-major number `first` on.
static berth_status fetch_nested(fetch* f, int32_t dim, int64_t first) {
    const berth_print_array* array = f->array;
    const int64_t size = f->tensor->dims[dim], shown = array->shown[dim];
    int64_t inner = 1;
    for (int32_t d = dim + 1; d < array->rank; ++d)
        inner *= f->tensor->dims[d];
    const int64_t edge = array->is_cut[dim] ? array->edge_items : shown;
    if (dim == array->rank - 1) {
        BERTH_TRY(fetch_span(f, first, edge));
        return edge < shown ? fetch_span(f, first + size - edge, edge) : BERTH_OK;
    }
    for (int64_t i = 0; i < shown; ++i)
        BERTH_TRY(fetch_nested(f, dim + 1, first + (i < edge ? i : size - shown + i) * inner));
    return BERTH_OK;
}

/// Fetches all that is shown, in as few pieces as it lies in.
static berth_status fetch_shown(berth_tensor* tensor,
                                const berth_print_array* array,
                                unsigned char* data) {
    fetch f = {.tensor = tensor, .array = array, .next = data};
    const int64_t count = berth_shape_count(array->rank, array->shown);
    if (count == 0) return BERTH_OK;
    for (int32_t d = 0; d < array->rank; ++d)
        if (array->is_cut[d]) return fetch_nested(&f, 0, 0);
    return fetch_span(&f, 0, count);
}

static berth_status format_values(berth_tensor* tensor,
                                  const berth_print_options* options,
                                  berth_text* text) {
    const berth_host* host = tensor->home->host;
    const berth_dtype dtype = (berth_dtype)tensor->dtype;
    berth_print_array array;
    BERTH_TRY(berth_print_array_init(&array, options, dtype, tensor->rank, tensor->dims));
    const size_t count = (size_t)berth_shape_count(array.rank, array.shown);
    unsigned char* data = berth_host_calloc(host, count, berth_dtype_info_of(dtype)->block_bytes);
    if (data == NULL)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for %zu elements", count);
    const berth_status status = fetch_shown(tensor, &array, data);
    array.data = data;
    if (status == BERTH_OK) berth_print_array_write(&array, text);
    berth_host_free(host, data);
    return status;
}

berth_status berth_tensor_format(berth_tensor* tensor,
                                 const berth_print_options* options,
                                 char* buffer,
                                 size_t size,
                                 size_t* out_needed) {
    if (out_needed != NULL) *out_needed = 0;
    BERTH_TRY(berth_tensor_check(tensor));
    if (buffer == NULL && size > 0)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "the buffer is NULL");
    if (size > 0) buffer[0] = '\0';
    if (!berth_dtype_is_plain((berth_dtype)tensor->dtype))
        return berth_tensor_format_info(tensor, buffer, size, out_needed);
    berth_text text = {.buffer = buffer, .size = size};
    BERTH_TRY(format_values(tensor, options, &text));
    if (out_needed != NULL) *out_needed = text.length;
    return BERTH_OK;
}

berth_status berth_tensor_print(berth_tensor* tensor, FILE* file) {
    if (file == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "the file is NULL");
    size_t length, again;
    BERTH_TRY(berth_tensor_format(tensor, NULL, NULL, 0, &length));
    const berth_host* host = tensor->home->host;
    char* text = berth_host_alloc(host, length + 1);
    if (text == NULL)
        return berth_fail(
            BERTH_ERR_OUT_OF_MEMORY, "no host memory for a text of %zu bytes", length);
    berth_status status = berth_tensor_format(tensor, NULL, text, length + 1, &again);
    // another thread may have written to the tensor in between
    if (again < length) length = again;
    if (status == BERTH_OK && (fwrite(text, 1, length, file) != length || fputc('\n', file) == EOF))
        status = berth_fail(BERTH_ERR_IO, "the text cannot be written: %s", strerror(errno));
    berth_host_free(host, text);
    return status;
}
