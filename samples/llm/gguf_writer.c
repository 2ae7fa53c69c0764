// SPDX-License-Identifier: Apache-2.0
// Writing GGUF files into memory.
#include "gguf_writer.h"

#include <string.h>

enum { BLOCK_ALIGNMENT = 64 };

struct llm_gguf_writer_tensor {
    uint64_t offset_bytes;
    uint64_t size_bytes;
    llm_gguf_fill fill;
    void* user;
};

static void append(llm_gguf_writer* writer, llm_bytes* to, const void* bytes, size_t size) {
    if (writer->status == BERTH_OK) writer->status = llm_bytes_append(to, bytes, size, NULL);
}

static void append_u32(llm_gguf_writer* writer, llm_bytes* to, uint32_t value) {
    append(writer, to, &value, sizeof value);
}

static void append_u64(llm_gguf_writer* writer, llm_bytes* to, uint64_t value) {
    append(writer, to, &value, sizeof value);
}

static void append_string(llm_gguf_writer* writer, llm_bytes* to, llm_str text) {
    append_u64(writer, to, text.size);
    append(writer, to, text.data, text.size);
}

static void begin_pair(llm_gguf_writer* writer, const char* key, uint32_t type) {
    append_string(writer, &writer->pairs, llm_str_of(key));
    append_u32(writer, &writer->pairs, type);
    writer->pair_count++;
}

static uint64_t align_up(uint64_t bytes, uint64_t alignment) {
    return (bytes + alignment - 1) / alignment * alignment;
}

static uint64_t tensor_bytes(uint32_t type, uint32_t rank, const uint64_t* dims) {
    const llm_tensor_type_info* info = llm_tensor_type_describe(type);
    uint64_t values = 1;
    for (uint32_t i = 0; i < rank; i++)
        values *= dims[i];
    if (info == NULL || info->block_values == 0) return values;
    return values / info->block_values * info->block_bytes;
}

void llm_gguf_writer_init(llm_gguf_writer* writer, uint32_t alignment) {
    *writer = (llm_gguf_writer){.alignment = alignment};
    if (alignment != 32) llm_gguf_put_u32(writer, "general.alignment", alignment);
}

void llm_gguf_writer_fini(llm_gguf_writer* writer) {
    llm_bytes_fini(&writer->pairs);
    llm_bytes_fini(&writer->infos);
    llm_free(writer->tensors);
    writer->tensors = NULL;
}

void llm_gguf_put_raw(
    llm_gguf_writer* writer, const char* key, uint32_t type, const void* bytes, size_t size) {
    begin_pair(writer, key, type);
    append(writer, &writer->pairs, bytes, size);
}

void llm_gguf_put_u32(llm_gguf_writer* writer, const char* key, uint32_t value) {
    llm_gguf_put_raw(writer, key, LLM_GGUF_U32, &value, sizeof value);
}

void llm_gguf_put_f32(llm_gguf_writer* writer, const char* key, float value) {
    llm_gguf_put_raw(writer, key, LLM_GGUF_F32, &value, sizeof value);
}

void llm_gguf_put_bool(llm_gguf_writer* writer, const char* key, bool value) {
    uint8_t byte = value ? 1 : 0;
    llm_gguf_put_raw(writer, key, LLM_GGUF_BOOL, &byte, sizeof byte);
}

void llm_gguf_put_string(llm_gguf_writer* writer, const char* key, llm_str value) {
    begin_pair(writer, key, LLM_GGUF_STRING);
    append_string(writer, &writer->pairs, value);
}

void llm_gguf_put_strings(llm_gguf_writer* writer,
                          const char* key,
                          const llm_str* values,
                          size_t count) {
    begin_pair(writer, key, LLM_GGUF_ARRAY);
    append_u32(writer, &writer->pairs, LLM_GGUF_STRING);
    append_u64(writer, &writer->pairs, count);
    for (size_t i = 0; i < count; i++)
        append_string(writer, &writer->pairs, values[i]);
}

void llm_gguf_put_numbers(
    llm_gguf_writer* writer, const char* key, uint32_t type, const void* values, size_t count) {
    begin_pair(writer, key, LLM_GGUF_ARRAY);
    append_u32(writer, &writer->pairs, type);
    append_u64(writer, &writer->pairs, count);
    append(writer, &writer->pairs, values, count * llm_gguf_type_bytes(type));
}

void llm_gguf_add_tensor(llm_gguf_writer* writer,
                         const char* name,
                         uint32_t type,
                         uint32_t rank,
                         const uint64_t* dims,
                         llm_gguf_fill fill,
                         void* user) {
    if (writer->status != BERTH_OK) return;
    if (writer->tensor_count == writer->tensor_capacity) {
        size_t wanted = writer->tensor_capacity == 0 ? 16 : writer->tensor_capacity * 2;
        struct llm_gguf_writer_tensor* grown =
            llm_realloc(writer->tensors, wanted, sizeof *writer->tensors);
        if (grown == NULL) {
            writer->status = BERTH_ERR_OUT_OF_MEMORY;
            return;
        }
        writer->tensors = grown;
        writer->tensor_capacity = wanted;
    }
    struct llm_gguf_writer_tensor* tensor = &writer->tensors[writer->tensor_count++];
    tensor->offset_bytes = align_up(writer->data_bytes, writer->alignment);
    tensor->size_bytes = tensor_bytes(type, rank, dims);
    tensor->fill = fill;
    tensor->user = user;
    writer->data_bytes = tensor->offset_bytes + tensor->size_bytes;

    append_string(writer, &writer->infos, llm_str_of(name));
    append_u32(writer, &writer->infos, rank);
    for (uint32_t i = 0; i < rank; i++)
        append_u64(writer, &writer->infos, dims[i]);
    append_u32(writer, &writer->infos, type);
    append_u64(writer, &writer->infos, tensor->offset_bytes);
}

static char* put(char* at, const void* bytes, size_t size) {
    if (size > 0) memcpy(at, bytes, size);
    return at + size;
}

/// Returns `size` zero bytes at a multiple of BLOCK_ALIGNMENT; the block's real start lies in the
/// pointer's width before it.
static char* allocate_aligned(uint64_t size) {
    if (size > PTRDIFF_MAX - 2 * BLOCK_ALIGNMENT) return NULL;
    char* block = llm_alloc_zeroed((size_t)size + 2 * BLOCK_ALIGNMENT, 1);
    if (block == NULL) return NULL;
    uintptr_t past = (uintptr_t)block % BLOCK_ALIGNMENT;
    char* base = block + (2 * BLOCK_ALIGNMENT - past);
    memcpy(base - sizeof block, &block, sizeof block);
    return base;
}

berth_status llm_gguf_writer_finish(const llm_gguf_writer* writer,
                                    void** out_data,
                                    size_t* out_size,
                                    llm_error* error) {
    *out_data = NULL;
    *out_size = 0;
    if (writer->status != BERTH_OK)
        return llm_fail(error, writer->status, "the model file could not be put together");
    uint64_t head = 4 + 4 + 8 + 8 + writer->pairs.size + writer->infos.size;
    // a file without tensors needs no padding
    uint64_t data_start = writer->tensor_count == 0 ? head : align_up(head, writer->alignment);
    uint64_t size = data_start + writer->data_bytes;
    char* base = allocate_aligned(size);
    if (base == NULL) return llm_fail_memory(error, "the model file");

    uint32_t version = 3;
    uint64_t tensor_count = writer->tensor_count;
    char* at = put(base, "GGUF", 4);
    at = put(at, &version, sizeof version);
    at = put(at, &tensor_count, sizeof tensor_count);
    at = put(at, &writer->pair_count, sizeof writer->pair_count);
    at = put(at, writer->pairs.data, writer->pairs.size);
    put(at, writer->infos.data, writer->infos.size);
    for (size_t i = 0; i < writer->tensor_count; i++) {
        const struct llm_gguf_writer_tensor* tensor = &writer->tensors[i];
        char* data = base + data_start + tensor->offset_bytes;
        if (tensor->fill != NULL) tensor->fill(tensor->user, data, tensor->size_bytes);
    }
    *out_data = base;
    *out_size = (size_t)size;
    return BERTH_OK;
}

void llm_gguf_writer_release(void* data) {
    if (data == NULL) return;
    char* block;
    memcpy(&block, (char*)data - sizeof block, sizeof block);
    llm_free(block);
}
