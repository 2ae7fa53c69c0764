// SPDX-License-Identifier: Apache-2.0
// Access to the pairs and tensors of an open GGUF file, and the tables of its types.
#include "gguf_internal.h"

#include <string.h>

static const char* const value_type_names[] = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};
static const uint8_t value_type_bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

static const llm_tensor_type_info tensor_types[] = {
    [0] = {"F32", 1, 4},       [1] = {"F16", 1, 2},       [2] = {"Q4_0", 32, 18},
    [3] = {"Q4_1", 32, 20},    [6] = {"Q5_0", 32, 22},    [7] = {"Q5_1", 32, 24},
    [8] = {"Q8_0", 32, 34},    [9] = {"Q8_1", 0, 0},      [10] = {"Q2_K", 0, 0},
    [11] = {"Q3_K", 0, 0},     [12] = {"Q4_K", 256, 144}, [13] = {"Q5_K", 256, 176},
    [14] = {"Q6_K", 256, 210}, [15] = {"Q8_K", 0, 0},     [16] = {"IQ2_XXS", 0, 0},
    [17] = {"IQ2_XS", 0, 0},   [18] = {"IQ3_XXS", 0, 0},  [19] = {"IQ1_S", 0, 0},
    [20] = {"IQ4_NL", 0, 0},   [21] = {"IQ3_S", 0, 0},    [22] = {"IQ2_S", 0, 0},
    [23] = {"IQ4_XS", 0, 0},   [24] = {"I8", 0, 0},       [25] = {"I16", 0, 0},
    [26] = {"I32", 0, 0},      [27] = {"I64", 0, 0},      [28] = {"F64", 0, 0},
    [29] = {"IQ1_M", 0, 0},    [30] = {"BF16", 1, 2},     [34] = {"TQ1_0", 0, 0},
    [35] = {"TQ2_0", 0, 0},    [39] = {"MXFP4", 0, 0},
};

static bool is_integer(uint32_t type) {
    return type <= LLM_GGUF_I32 || type == LLM_GGUF_U64 || type == LLM_GGUF_I64;
}

/// Reads one little-endian integer of a checked type. Values of u64 keep their bits.
static uint64_t read_integer(uint32_t type, const char* bytes) {
    uint64_t raw = 0;
    size_t width = llm_gguf_type_bytes(type);
    memcpy(&raw, bytes, width);
    bool is_signed = type == LLM_GGUF_I8 || type == LLM_GGUF_I16 || type == LLM_GGUF_I32;
    if (is_signed && (raw >> (8 * width - 1)) != 0) raw |= UINT64_MAX << (8 * width);
    return raw;
}

static bool is_negative(uint32_t type, uint64_t raw) {
    return type != LLM_GGUF_U64 && (raw >> 63) != 0;
}

static double read_float(uint32_t type, const char* bytes) {
    if (type == LLM_GGUF_F64) {
        double wide;
        memcpy(&wide, bytes, sizeof wide);
        return wide;
    }
    float narrow;
    memcpy(&narrow, bytes, sizeof narrow);
    return (double)narrow;
}

static berth_status fail_missing(const char* key, llm_error* error) {
    return llm_fail(error, BERTH_ERR_NOT_FOUND, "the model file has no key %s", key);
}

static berth_status fail_type(const char* key,
                              const llm_gguf_value* value,
                              const char* wanted,
                              llm_error* error) {
    bool is_array = value->type == LLM_GGUF_ARRAY;
    return llm_fail(error,
                    BERTH_ERR_CORRUPT,
                    "key %s holds %s%s where %s is expected",
                    key,
                    is_array ? "an array of " : "",
                    llm_gguf_type_name(value->element_type),
                    wanted);
}

const char* llm_gguf_type_name(uint32_t type) {
    return type <= LLM_GGUF_F64 ? value_type_names[type] : "?";
}

size_t llm_gguf_type_bytes(uint32_t type) {
    return type <= LLM_GGUF_F64 ? value_type_bytes[type] : 0;
}

const llm_tensor_type_info* llm_tensor_type_describe(uint32_t type) {
    if (type >= sizeof tensor_types / sizeof *tensor_types) return NULL;
    return tensor_types[type].name == NULL ? NULL : &tensor_types[type];
}

llm_str llm_gguf_bytes(const llm_gguf* gguf) { return (llm_str){gguf->base, gguf->size}; }

uint32_t llm_gguf_version(const llm_gguf* gguf) { return gguf->version; }

size_t llm_gguf_pair_count(const llm_gguf* gguf) { return gguf->pair_count; }

const llm_gguf_pair* llm_gguf_pair_at(const llm_gguf* gguf, size_t at) { return &gguf->pairs[at]; }

/// Finds `name` in a sorted table, or returns NULL.
static const llm_gguf_name* find_name(const llm_gguf_name* names, size_t count, llm_str name) {
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = llm_str_compare(names[middle].name, name);
        if (order == 0) return &names[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const llm_gguf_value* llm_gguf_find(const llm_gguf* gguf, const char* key) {
    const llm_gguf_name* found = find_name(gguf->pair_names, gguf->pair_count, llm_str_of(key));
    return found == NULL ? NULL : &gguf->pairs[found->at].value;
}

berth_status llm_gguf_get_u64(const llm_gguf* gguf,
                              const char* key,
                              uint64_t* out_value,
                              llm_error* error) {
    *out_value = 0;
    const llm_gguf_value* value = llm_gguf_find(gguf, key);
    if (value == NULL) return fail_missing(key, error);
    if (!is_integer(value->type)) return fail_type(key, value, "an integer", error);
    uint64_t raw = read_integer(value->type, value->bytes.data);
    if (is_negative(value->type, raw))
        return llm_fail(
            error, BERTH_ERR_CORRUPT, "key %s is negative: %lld", key, (long long)(int64_t)raw);
    *out_value = raw;
    return BERTH_OK;
}

berth_status llm_gguf_get_f64(const llm_gguf* gguf,
                              const char* key,
                              double* out_value,
                              llm_error* error) {
    *out_value = 0;
    const llm_gguf_value* value = llm_gguf_find(gguf, key);
    if (value == NULL) return fail_missing(key, error);
    if (value->type != LLM_GGUF_F32 && value->type != LLM_GGUF_F64)
        return fail_type(key, value, "a float", error);
    *out_value = read_float(value->type, value->bytes.data);
    return BERTH_OK;
}

berth_status llm_gguf_get_bool(const llm_gguf* gguf,
                               const char* key,
                               bool* out_value,
                               llm_error* error) {
    *out_value = false;
    const llm_gguf_value* value = llm_gguf_find(gguf, key);
    if (value == NULL) return fail_missing(key, error);
    if (value->type != LLM_GGUF_BOOL) return fail_type(key, value, "a bool", error);
    *out_value = value->bytes.data[0] != 0;
    return BERTH_OK;
}

berth_status llm_gguf_get_string(const llm_gguf* gguf,
                                 const char* key,
                                 llm_str* out_value,
                                 llm_error* error) {
    *out_value = (llm_str){NULL, 0};
    const llm_gguf_value* value = llm_gguf_find(gguf, key);
    if (value == NULL) return fail_missing(key, error);
    if (value->type != LLM_GGUF_STRING) return fail_type(key, value, "a string", error);
    *out_value = value->bytes;
    return BERTH_OK;
}

berth_status llm_gguf_get_array(const llm_gguf* gguf,
                                const char* key,
                                llm_gguf_type element_type,
                                const llm_gguf_value** out_value,
                                llm_error* error) {
    *out_value = NULL;
    const llm_gguf_value* value = llm_gguf_find(gguf, key);
    if (value == NULL) return fail_missing(key, error);
    bool any_integer = element_type == LLM_GGUF_I64;
    bool fits = value->type == LLM_GGUF_ARRAY && (value->element_type == (uint32_t)element_type ||
                                                  (any_integer && is_integer(value->element_type)));
    if (!fits) {
        char wanted[40] = "an array of integers";
        if (!any_integer) {
            strcpy(wanted, "an array of ");
            strcat(wanted, llm_gguf_type_name((uint32_t)element_type));
        }
        return fail_type(key, value, wanted, error);
    }
    *out_value = value;
    return BERTH_OK;
}

berth_status llm_gguf_get_u64_or(const llm_gguf* gguf,
                                 const char* key,
                                 uint64_t otherwise,
                                 uint64_t* out_value,
                                 llm_error* error) {
    *out_value = otherwise;
    if (llm_gguf_find(gguf, key) == NULL) return BERTH_OK;
    return llm_gguf_get_u64(gguf, key, out_value, error);
}

berth_status llm_gguf_get_f64_or(
    const llm_gguf* gguf, const char* key, double otherwise, double* out_value, llm_error* error) {
    *out_value = otherwise;
    if (llm_gguf_find(gguf, key) == NULL) return BERTH_OK;
    return llm_gguf_get_f64(gguf, key, out_value, error);
}

berth_status llm_gguf_get_bool_or(
    const llm_gguf* gguf, const char* key, bool otherwise, bool* out_value, llm_error* error) {
    *out_value = otherwise;
    if (llm_gguf_find(gguf, key) == NULL) return BERTH_OK;
    return llm_gguf_get_bool(gguf, key, out_value, error);
}

int64_t llm_gguf_int_at(const llm_gguf_value* array, uint64_t at) {
    uint32_t type = array->element_type;
    uint64_t raw = read_integer(type, array->bytes.data + at * llm_gguf_type_bytes(type));
    if (type == LLM_GGUF_U64 && raw > INT64_MAX) return INT64_MAX;
    return (int64_t)raw;
}

double llm_gguf_float_at(const llm_gguf_value* array, uint64_t at) {
    uint32_t type = array->element_type;
    return read_float(type, array->bytes.data + at * llm_gguf_type_bytes(type));
}

llm_gguf_strings_iterator llm_gguf_strings(const llm_gguf_value* array) {
    return (llm_gguf_strings_iterator){array->bytes.data, array->count};
}

bool llm_gguf_strings_next(llm_gguf_strings_iterator* strings, llm_str* out_text) {
    *out_text = (llm_str){NULL, 0};
    if (strings->left == 0) return false;
    uint64_t size;
    memcpy(&size, strings->at, sizeof size);
    *out_text = (llm_str){strings->at + sizeof size, (size_t)size};
    strings->at += sizeof size + size;
    strings->left--;
    return true;
}

size_t llm_gguf_tensor_count(const llm_gguf* gguf) { return gguf->tensor_count; }

const llm_gguf_tensor* llm_gguf_tensor_at(const llm_gguf* gguf, size_t at) {
    return &gguf->tensors[at];
}

const llm_gguf_tensor* llm_gguf_find_tensor(const llm_gguf* gguf, const char* name) {
    const llm_gguf_name* found =
        find_name(gguf->tensor_names, gguf->tensor_count, llm_str_of(name));
    return found == NULL ? NULL : &gguf->tensors[found->at];
}
