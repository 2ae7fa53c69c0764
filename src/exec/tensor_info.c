// SPDX-License-Identifier: Apache-2.0
// What a tensor is, for programs and for logs.
#include <inttypes.h>

#include "base/error.h"
#include "berth/inspect.h"
#include "exec/exec_impl.h"

#define SAME_NUMBER(name)                                                                          \
    _Static_assert((int)BERTH_RESIDENCE_##name == (int)BERTH_STORAGE_##name, "one list, two views")
SAME_NUMBER(POOL);
SAME_NUMBER(FRAME);
SAME_NUMBER(HELD);
SAME_NUMBER(FOREIGN);
#undef SAME_NUMBER

const char* berth_residence_text(berth_residence residence) {
    static const char* const texts[] = {
#define TEXT(name, text) text,
        BERTH_RESIDENCE_MAP(TEXT)
#undef TEXT
    };
    return (unsigned)residence < BERTH_RESIDENCE_COUNT ? texts[residence] : "nowhere";
}

/// What does not change while the tensor is there.
static void describe_window(const berth_tensor* tensor, berth_tensor_properties* out) {
    out->dtype = (berth_dtype)tensor->dtype;
    out->rank = tensor->rank;
    for (int32_t i = 0; i < tensor->rank; ++i) {
        out->dims[i] = tensor->dims[i];
        out->strides[i] = tensor->strides[i];
    }
    out->count = berth_tensor_count(tensor);
    out->bytes = berth_tensor_bytes(tensor);
    out->is_contiguous = tensor->is_dense;
    out->offset_bytes = tensor->offset_bytes;
    out->references = atomic_load_explicit(&tensor->refs, memory_order_relaxed);
}

static berth_status describe_storage(berth_storage* storage, berth_tensor_properties* out) {
    if (!berth_home_lock(storage->home)) return BERTH_ERR_STATE;
    const uint32_t marks = atomic_load_explicit(&storage->marks, memory_order_acquire);
    out->is_read_only = storage->is_read_only;
    out->is_pinned = (marks & ~BERTH_STORAGE_SHARED) != 0;
    out->is_shared = (marks & BERTH_STORAGE_SHARED) != 0;
    out->residence = (berth_residence)storage->kind;
    out->storage_bytes = storage->size_bytes;
    out->storage_tensors = atomic_load_explicit(&storage->refs, memory_order_relaxed);
    berth_home_unlock(storage->home);
    return BERTH_OK;
}

berth_status berth_tensor_info(const berth_tensor* tensor,
                               berth_tensor_properties* out_properties) {
    if (out_properties == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a place is needed");
    *out_properties = (berth_tensor_properties){0};
    BERTH_TRY(berth_tensor_check(tensor));
    describe_window(tensor, out_properties);
    const berth_status status = describe_storage(tensor->storage, out_properties);
    if (status != BERTH_OK) *out_properties = (berth_tensor_properties){0};
    return status;
}

static void add_line(berth_text* text, const berth_tensor_properties* p) {
    berth_shape_write(text, p->dtype, p->rank, p->dims);
    berth_text_add(text, " strides [");
    for (int32_t i = 0; i < p->rank; ++i)
        berth_text_add(text, "%s%" PRId64, i == 0 ? "" : ", ", p->strides[i]);
    berth_text_add(text,
                   "], %" PRIu64 " bytes at %" PRIu64 " of %" PRIu64 " %s",
                   p->bytes,
                   p->offset_bytes,
                   p->storage_bytes,
                   berth_residence_text(p->residence));
    berth_text_add(text,
                   "%s%s%s%s",
                   p->is_contiguous ? "" : ", not contiguous",
                   p->is_read_only ? ", read-only" : "",
                   p->is_pinned ? ", pinned" : "",
                   p->is_shared ? ", shared" : "");
    berth_text_add(text,
                   ", references %" PRIu32 ", tensors on the storage %" PRIu32,
                   p->references,
                   p->storage_tensors);
}

berth_status berth_tensor_format_info(const berth_tensor* tensor,
                                      char* buffer,
                                      size_t size,
                                      size_t* out_needed) {
    if (out_needed != NULL) *out_needed = 0;
    if (buffer == NULL && size > 0)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "the buffer is NULL");
    if (size > 0) buffer[0] = '\0';
    berth_tensor_properties properties;
    BERTH_TRY(berth_tensor_info(tensor, &properties));
    berth_text text = {.buffer = buffer, .size = size};
    add_line(&text, &properties);
    if (out_needed != NULL) *out_needed = text.length;
    return BERTH_OK;
}
