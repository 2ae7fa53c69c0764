// SPDX-License-Identifier: Apache-2.0
// Reading safetensors headers.
#include "tensor/safetensors_index.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are used as they lie");

enum { LENGTH_BYTES = 8 };

/// The format's element types, and which of ours they are.
static const struct {
    const char* text;
    uint32_t bits;
    berth_dtype dtype;
} types[] = {{"BOOL", 8, BERTH_BOOL},
             {"U8", 8, BERTH_U8},
             {"I8", 8, BERTH_I8},
             {"I32", 32, BERTH_I32},
             {"I64", 64, BERTH_I64},
             {"F16", 16, BERTH_F16},
             {"BF16", 16, BERTH_BF16},
             {"F32", 32, BERTH_F32},
             {"I16", 16, BERTH_DTYPE_COUNT},
             {"U16", 16, BERTH_DTYPE_COUNT},
             {"U32", 32, BERTH_DTYPE_COUNT},
             {"U64", 64, BERTH_DTYPE_COUNT},
             {"F64", 64, BERTH_DTYPE_COUNT},
             {"C64", 64, BERTH_DTYPE_COUNT},
             {"F8_E4M3", 8, BERTH_DTYPE_COUNT},
             {"F8_E5M2", 8, BERTH_DTYPE_COUNT},
             {"F8_E8M0", 8, BERTH_DTYPE_COUNT},
             {"F6_E2M3", 6, BERTH_DTYPE_COUNT},
             {"F6_E3M2", 6, BERTH_DTYPE_COUNT},
             {"F4", 4, BERTH_DTYPE_COUNT}};
enum { TYPES = sizeof types / sizeof types[0] };

const char* berth_safetensors_dtype_text(berth_dtype dtype) {
    for (size_t i = 0; i < TYPES; ++i)
        if (types[i].dtype == dtype && dtype != BERTH_DTYPE_COUNT) return types[i].text;
    return NULL;
}

static berth_status out_of_memory(void) {
    return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for a safetensors header");
}

static berth_status corrupt(const char* what) {
    return berth_fail(BERTH_ERR_CORRUPT, "%s in the safetensors header", what);
}

// ----------------------------------------------------------------------------------- one tensor

static berth_status read_type(const json_t* value, berth_safetensors_item* item) {
    const char* text = json_string_value(value);
    if (text == NULL || strlen(text) >= sizeof item->dtype_text)
        return corrupt("'dtype' is no type's name");
    memcpy(item->dtype_text, text, strlen(text) + 1);
    item->dtype = BERTH_DTYPE_COUNT;
    for (size_t i = 0; i < TYPES; ++i)
        if (strcmp(text, types[i].text) == 0) item->dtype = types[i].dtype;
    return BERTH_OK;
}

/// Reads a whole number that is not negative.
static bool read_size(const json_t* value, int64_t* out) {
    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= 0;
}

static berth_status read_shape(const json_t* value, berth_safetensors_item* item) {
    if (!json_is_array(value)) return corrupt("'shape' is no array");
    const size_t rank = json_array_size(value);
    if (rank > BERTH_MAX_RANK)
        return berth_fail(BERTH_ERR_UNSUPPORTED,
                          "it has %zu dimensions, Berth's tensors at most %d",
                          rank,
                          BERTH_MAX_RANK);
    item->rank = (int32_t)rank;
    for (size_t i = 0; i < rank; ++i)
        if (!read_size(json_array_get(value, i), &item->dims[i]))
            return corrupt("'shape' has a size that is no number from 0 to 2^63 - 1");
    return BERTH_OK;
}

static berth_status read_place(const json_t* value, berth_safetensors_item* item) {
    int64_t begin, end;
    if (!json_is_array(value) || json_array_size(value) != 2 ||
        !read_size(json_array_get(value, 0), &begin) || !read_size(json_array_get(value, 1), &end))
        return corrupt("'data_offsets' is no pair of numbers from 0 to 2^63 - 1");
    if (end < begin) return corrupt("'data_offsets' ends before it begins");
    item->begin = (uint64_t)begin;
    item->end = (uint64_t)end;
    return BERTH_OK;
}

/// The item has the bytes that its type, if known, and its shape need.
static berth_status check_size(const berth_safetensors_item* item) {
    uint64_t bits = 0, factor;
    for (size_t i = 0; i < TYPES; ++i)
        if (strcmp(item->dtype_text, types[i].text) == 0) bits = types[i].bits;
    if (bits == 0) return BERTH_OK;
    bool is_empty = false;
    for (int32_t d = 0; d < item->rank; ++d) {
        is_empty = is_empty || item->dims[d] == 0;
        factor = item->dims[d] == 0 ? 1 : (uint64_t)item->dims[d];
        if (!berth_mul_u64(bits, factor, &bits)) return corrupt("a shape is too large");
    }
    if (is_empty) bits = 0;
    if (bits % 8 == 0 && bits / 8 == item->end - item->begin) return BERTH_OK;
    return berth_fail(BERTH_ERR_CORRUPT,
                      "its type and shape need %" PRIu64 " bits, it has %" PRIu64 " bytes",
                      bits,
                      item->end - item->begin);
}

static berth_status read_item(const json_t* value, berth_safetensors_item* item) {
    if (!json_is_object(value)) return corrupt("its entry is no object");
    BERTH_TRY(read_type(json_object_get(value, "dtype"), item));
    BERTH_TRY(read_shape(json_object_get(value, "shape"), item));
    BERTH_TRY(read_place(json_object_get(value, "data_offsets"), item));
    return check_size(item);
}

static berth_status add_item(berth_safetensors_index* index,
                             const char* name,
                             const json_t* value) {
    berth_safetensors_item item = {0};
    const berth_status status = read_item(value, &item);
    if (status != BERTH_OK) return berth_fail_prefix(status, "tensor '%s'", name);
    item.name = berth_host_strdup(index->host, name);
    if (item.name == NULL) return out_of_memory();
    if (berth_safetensors_item_vec_push(&index->items, index->host, item) == BERTH_OK)
        return BERTH_OK;
    berth_host_free(index->host, item.name);
    return out_of_memory();
}

// ------------------------------------------------------------------------------------- the header

static berth_status add_pair(berth_safetensors_index* index, const char* key, const json_t* value) {
    if (!json_is_string(value))
        return berth_fail(BERTH_ERR_CORRUPT, "the metadata '%s' is no text", key);
    berth_safetensors_pair pair = {
        .key = berth_host_strdup(index->host, key),
        .value = berth_host_strdup(index->host, json_string_value(value)),
    };
    if (pair.key != NULL && pair.value != NULL &&
        berth_safetensors_pair_vec_push(&index->pairs, index->host, pair) == BERTH_OK)
        return BERTH_OK;
    berth_host_free(index->host, pair.key);
    berth_host_free(index->host, pair.value);
    return out_of_memory();
}

static berth_status read_header(berth_safetensors_index* index, json_t* root) {
    const char *name, *key;
    json_t *value, *text;
    if (!json_is_object(root)) return corrupt("there is no object");
    json_object_foreach(root, name, value) {
        if (strcmp(name, BERTH_SAFETENSORS_METADATA) != 0) {
            BERTH_TRY(add_item(index, name, value));
            continue;
        }
        if (!json_is_object(value)) return corrupt("the metadata is no object");
        json_object_foreach(value, key, text) BERTH_TRY(add_pair(index, key, text));
    }
    return BERTH_OK;
}

static int by_place(const void* a, const void* b) {
    const berth_safetensors_item *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int by_name(const void* a, const void* b, void* items) {
    const berth_safetensors_item* all = items;
    return strcmp(all[*(const uint32_t*)a].name, all[*(const uint32_t*)b].name);
}

/// Orders the items by their places, and checks that these cover `data_bytes` exactly.
static berth_status order_items(berth_safetensors_index* index, uint64_t data_bytes) {
    const size_t count = index->items.count;
    berth_safetensors_item* items = index->items.items;
    if (count > 0) qsort(items, count, sizeof *items, by_place);
    uint64_t covered = 0;
    for (size_t i = 0; i < count; covered = items[i].end, ++i)
        if (items[i].begin != covered)
            return berth_fail(BERTH_ERR_CORRUPT,
                              "tensor '%s' begins at byte %" PRIu64 " of the data, what is before "
                              "it ends at %" PRIu64,
                              items[i].name,
                              items[i].begin,
                              covered);
    if (covered != data_bytes)
        return berth_fail(BERTH_ERR_CORRUPT,
                          "the tensors have %" PRIu64 " bytes, the safetensors file %" PRIu64,
                          covered,
                          data_bytes);
    index->by_name = berth_host_calloc(index->host, count, sizeof *index->by_name);
    if (index->by_name == NULL) return out_of_memory();
    for (size_t i = 0; i < count; ++i)
        index->by_name[i] = (uint32_t)i;
    if (count > 0) qsort_r(index->by_name, count, sizeof *index->by_name, by_name, items);
    return BERTH_OK;
}

static berth_status load_json(const char* text, size_t length, json_t** out_root) {
    json_error_t error = {0};
    errno = 0;
    *out_root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (*out_root != NULL) return BERTH_OK;
    // jansson says nothing where memory is short, or that what it could not store is wrong
    if (errno == ENOMEM || error.text[0] == '\0') return out_of_memory();
    return berth_fail(BERTH_ERR_CORRUPT,
                      "the safetensors header is no JSON: %s (at byte %d of it)",
                      error.text,
                      error.position);
}

/// Finds the header's text.
static berth_status find_header(const unsigned char* file, uint64_t size, uint64_t* out_length) {
    if (size < LENGTH_BYTES)
        return berth_fail(
            BERTH_ERR_CORRUPT, "%" PRIu64 " bytes are no safetensors file: 8 are the least", size);
    memcpy(out_length, file, sizeof *out_length);
    if (*out_length > BERTH_SAFETENSORS_MAX_HEADER_BYTES || *out_length > size - LENGTH_BYTES)
        return berth_fail(BERTH_ERR_CORRUPT,
                          "a safetensors header of %" PRIu64 " bytes is no part of a file of "
                          "%" PRIu64 ": %u are the most",
                          *out_length,
                          size,
                          BERTH_SAFETENSORS_MAX_HEADER_BYTES);
    if (*out_length == 0 || file[LENGTH_BYTES] != '{') return corrupt("the first byte is no '{'");
    return BERTH_OK;
}

berth_status berth_safetensors_parse(const berth_host* host,
                                     const void* file,
                                     uint64_t size,
                                     berth_safetensors_index* out_index) {
    *out_index = (berth_safetensors_index){.host = host};
    uint64_t length = 0;
    json_t* root = NULL;
    BERTH_TRY(find_header(file, size, &length));
    BERTH_TRY(load_json((const char*)file + LENGTH_BYTES, (size_t)length, &root));
    out_index->data_offset = LENGTH_BYTES + length;
    berth_status status = read_header(out_index, root);
    json_decref(root);
    if (status == BERTH_OK) status = order_items(out_index, size - out_index->data_offset);
    if (status != BERTH_OK) berth_safetensors_index_fini(out_index);
    return status;
}

void berth_safetensors_index_fini(berth_safetensors_index* index) {
    if (index->host == NULL) return;
    for (size_t i = 0; i < index->items.count; ++i)
        berth_host_free(index->host, index->items.items[i].name);
    for (size_t i = 0; i < index->pairs.count; ++i) {
        berth_host_free(index->host, index->pairs.items[i].key);
        berth_host_free(index->host, index->pairs.items[i].value);
    }
    berth_safetensors_item_vec_fini(&index->items, index->host);
    berth_safetensors_pair_vec_fini(&index->pairs, index->host);
    berth_host_free(index->host, index->by_name);
    *index = (berth_safetensors_index){0};
}

size_t berth_safetensors_index_find(const berth_safetensors_index* index, const char* name) {
    size_t low = 0, high = index->items.count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(name, index->items.items[index->by_name[middle]].name);
        if (order == 0) return index->by_name[middle];
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return index->items.count;
}
