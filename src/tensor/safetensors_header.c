// SPDX-License-Identifier: Apache-2.0
// Headers of safetensors files as JSON.
#include "tensor/safetensors_header.h"

#include <jansson.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "tensor/safetensors_index.h"

enum { LENGTH_BYTES = 8, ALIGNMENT = 8, MAX_ELEMENT_BYTES = 8 };

static berth_status out_of_memory(void) {
    return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for a safetensors header");
}

/// Number of bytes of the well-formed UTF-8 character at `text`; 0 if there is none.
static size_t character_bytes(const unsigned char* text) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char first = text[0];
    const size_t bytes = first < 0x80             ? 1
                         : (first & 0xe0) == 0xc0 ? 2
                         : (first & 0xf0) == 0xe0 ? 3
                         : (first & 0xf8) == 0xf0 ? 4
                                                  : 0;
    uint32_t code = bytes < 2 ? first : first & (0x7fu >> bytes);
    for (size_t i = 1; i < bytes; ++i) {
        if ((text[i] & 0xc0) != 0x80) return 0; // the zero byte at the end, too
        code = code << 6 | (text[i] & 0x3fu);
    }
    const bool is_surrogate = code >= 0xd800 && code < 0xe000;
    return bytes == 0 || code < least[bytes] || code > 0x10ffff || is_surrogate ? 0 : bytes;
}

static bool is_utf8(const char* text) {
    const unsigned char* at = (const unsigned char*)text;
    while (*at != '\0') {
        const size_t bytes = character_bytes(at);
        if (bytes == 0) return false;
        at += bytes;
    }
    return true;
}

static berth_status check_source(const berth_safetensors_source* source, size_t number) {
    if (source->name == NULL || source->tensor == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "the %s of entry %zu is NULL",
                          source->name == NULL ? "name" : "tensor",
                          number);
    if (!is_utf8(source->name) || strcmp(source->name, BERTH_SAFETENSORS_METADATA) == 0)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "the name '%s' of entry %zu is reserved or not UTF-8",
                          source->name,
                          number);
    const berth_dtype dtype = berth_tensor_dtype(source->tensor);
    if (berth_safetensors_dtype_text(dtype) == NULL)
        return berth_fail(BERTH_ERR_UNSUPPORTED,
                          "tensor '%s': safetensors has no element type %s: write berth_cast() of "
                          "it",
                          source->name,
                          berth_dtype_query_info(dtype)->name);
    return BERTH_OK;
}

berth_status berth_safetensors_order(const berth_safetensors_source* sources,
                                     size_t count,
                                     const berth_safetensors_note* notes,
                                     size_t note_count,
                                     size_t* out_order) {
    for (size_t i = 0; i < count; ++i)
        BERTH_TRY(check_source(&sources[i], i));
    for (size_t i = 0; i < note_count; ++i)
        if (notes[i].key == NULL || notes[i].value == NULL || !is_utf8(notes[i].key) ||
            !is_utf8(notes[i].value))
            return berth_fail(
                BERTH_ERR_INVALID_ARGUMENT, "key or text %zu of the metadata is not UTF-8", i);
    size_t placed = 0;
    for (uint32_t bytes = MAX_ELEMENT_BYTES; bytes > 0; bytes /= 2)
        for (size_t i = 0; i < count; ++i)
            if (berth_dtype_query_info(berth_tensor_dtype(sources[i].tensor))->block_bytes == bytes)
                out_order[placed++] = i;
    return BERTH_OK;
}

/// Puts `value`, which is consumed and may be NULL for want of memory, into `object`.
static berth_status put(json_t* object, const char* key, json_t* value) {
    if (json_object_get(object, key) != NULL) {
        json_decref(value);
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "the name '%s' comes twice", key);
    }
    return json_object_set_new(object, key, value) == 0 ? BERTH_OK : out_of_memory();
}

/// An array of whole numbers; NULL without memory.
static json_t* numbers(const int64_t* values, int32_t count) {
    json_t* array = json_array();
    for (int32_t i = 0; i < count; ++i) {
        if (array != NULL && json_array_append_new(array, json_integer(values[i])) == 0) continue;
        json_decref(array);
        return NULL;
    }
    return array;
}

static berth_status put_tensor(json_t* root,
                               const berth_safetensors_source* source,
                               uint64_t begin) {
    const berth_tensor* tensor = source->tensor;
    const int64_t place[] = {(int64_t)begin, (int64_t)(begin + berth_tensor_bytes(tensor))};
    json_t* entry = json_object();
    BERTH_TRY(put(root, source->name, entry)); // from here on the root's
    const char* type = berth_safetensors_dtype_text(berth_tensor_dtype(tensor));
    BERTH_TRY(put(entry, "dtype", json_string(type)));
    BERTH_TRY(put(entry, "shape", numbers(berth_tensor_dims(tensor), berth_tensor_rank(tensor))));
    return put(entry, "data_offsets", numbers(place, 2));
}

static berth_status put_notes(json_t* root, const berth_safetensors_note* notes, size_t count) {
    if (count == 0) return BERTH_OK;
    json_t* metadata = json_object();
    BERTH_TRY(put(root, BERTH_SAFETENSORS_METADATA, metadata));
    for (size_t i = 0; i < count; ++i)
        BERTH_TRY(put(metadata, notes[i].key, json_string(notes[i].value)));
    return BERTH_OK;
}

/// Turns the object into the bytes of the file's beginning.
static berth_status render(const berth_host* host,
                           const json_t* root,
                           char** out_header,
                           uint64_t* out_bytes) {
    const size_t length = json_dumpb(root, NULL, 0, JSON_COMPACT);
    if (length == 0) return out_of_memory();
    const uint64_t padded = berth_round_up(length, ALIGNMENT);
    if (padded > BERTH_SAFETENSORS_MAX_HEADER_BYTES)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "a safetensors header of %zu bytes is too long: %u are the most",
                          length,
                          BERTH_SAFETENSORS_MAX_HEADER_BYTES);
    char* header = berth_host_alloc(host, LENGTH_BYTES + (size_t)padded);
    if (header == NULL) return out_of_memory();
    memcpy(header, &padded, LENGTH_BYTES);
    memset(header + LENGTH_BYTES, ' ', (size_t)padded);
    if (json_dumpb(root, header + LENGTH_BYTES, length, JSON_COMPACT) != length) {
        berth_host_free(host, header);
        return out_of_memory();
    }
    *out_header = header;
    *out_bytes = LENGTH_BYTES + padded;
    return BERTH_OK;
}

berth_status berth_safetensors_compose(const berth_host* host,
                                       const berth_safetensors_source* sources,
                                       const size_t* order,
                                       size_t count,
                                       const berth_safetensors_note* notes,
                                       size_t note_count,
                                       char** out_header,
                                       uint64_t* out_bytes) {
    *out_header = NULL;
    json_t* root = json_object();
    if (root == NULL) return out_of_memory();
    berth_status status = put_notes(root, notes, note_count);
    uint64_t begin = 0;
    for (size_t i = 0; i < count && status == BERTH_OK; ++i) {
        const berth_safetensors_source* source = &sources[order[i]];
        status = put_tensor(root, source, begin);
        if (!berth_add_u64(begin, berth_tensor_bytes(source->tensor), &begin) || begin > INT64_MAX)
            status = berth_fail(BERTH_ERR_OVERFLOW, "the tensors' bytes do not fit 63 bits");
    }
    if (status == BERTH_OK) status = render(host, root, out_header, out_bytes);
    json_decref(root);
    return status;
}
