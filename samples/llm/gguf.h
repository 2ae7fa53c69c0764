// SPDX-License-Identifier: Apache-2.0
// Reader of GGUF model files: metadata pairs and tensors as views into one range of memory.
//
// Nothing in a file is trusted: every length and count is compared with the bytes that are left,
// products are checked, names must be unique, and the memory used grows with what was really read.
// A file that opens can be walked without further checks.
#ifndef BERTH_SAMPLES_LLM_GGUF_H
#define BERTH_SAMPLES_LLM_GGUF_H

#include "llm_support.h"

/// Types of metadata values, as numbered in the file.
typedef enum llm_gguf_type {
    LLM_GGUF_U8 = 0,
    LLM_GGUF_I8 = 1,
    LLM_GGUF_U16 = 2,
    LLM_GGUF_I16 = 3,
    LLM_GGUF_U32 = 4,
    LLM_GGUF_I32 = 5,
    LLM_GGUF_F32 = 6,
    LLM_GGUF_BOOL = 7,
    LLM_GGUF_STRING = 8,
    LLM_GGUF_ARRAY = 9,
    LLM_GGUF_U64 = 10,
    LLM_GGUF_I64 = 11,
    LLM_GGUF_F64 = 12,
} llm_gguf_type;

/// Tensor types that can be read, as numbered in the file.
typedef enum llm_tensor_type {
    LLM_TENSOR_F32 = 0,
    LLM_TENSOR_F16 = 1,
    LLM_TENSOR_Q4_0 = 2,
    LLM_TENSOR_Q4_1 = 3,
    LLM_TENSOR_Q5_0 = 6,
    LLM_TENSOR_Q5_1 = 7,
    LLM_TENSOR_Q8_0 = 8,
    LLM_TENSOR_Q4_K = 12,
    LLM_TENSOR_Q5_K = 13,
    LLM_TENSOR_Q6_K = 14,
    LLM_TENSOR_BF16 = 30,
} llm_tensor_type;

/// How a tensor type is laid out: a row is made of whole blocks.
typedef struct llm_tensor_type_info {
    const char* name;
    uint32_t block_values; ///< 0 when the type is known by name but cannot be read
    uint32_t block_bytes;
} llm_tensor_type_info;

/// A metadata value: a view of its bytes in the file.
typedef struct llm_gguf_value {
    uint32_t type;         ///< llm_gguf_type
    uint32_t element_type; ///< of an array, else equal to `type`
    uint64_t count;        ///< elements of an array, else 1
    llm_str bytes;         ///< first element to end; of a single string only its text
} llm_gguf_value;

typedef struct llm_gguf_pair {
    llm_str key;
    llm_gguf_value value;
} llm_gguf_pair;

/// A tensor. `dims[0]` is the contiguous dimension; dims beyond `rank` are 1.
typedef struct llm_gguf_tensor {
    llm_str name;
    uint32_t type; ///< llm_tensor_type
    uint32_t rank; ///< 0 to 4
    uint64_t dims[4];
    uint64_t offset_bytes; ///< from the start of the file
    uint64_t size_bytes;
    const void* data; ///< borrowed from the open file
} llm_gguf_tensor;

/// Walks an array of strings; see llm_gguf_strings().
typedef struct llm_gguf_strings_iterator {
    const char* at;
    uint64_t left;
} llm_gguf_strings_iterator;

typedef struct llm_gguf llm_gguf;

/// Opens a model file.
///
/// `use_mmap` maps it read-only and private, so that weights are paged in on demand and shared with
/// other processes; otherwise the file is read into memory. A mapped file must not be cut short by
/// somebody else while it is open: touching lost pages kills the process.
/// Ownership: the caller gives `*out_gguf` to llm_gguf_close(), which ends everything read from it.
/// Errors:    BERTH_ERR_IO, BERTH_ERR_CORRUPT, BERTH_ERR_UNSUPPORTED (version, byte order or
///            tensor type), BERTH_ERR_OUT_OF_MEMORY; then `*out_gguf` is NULL.
BERTH_NODISCARD berth_status llm_gguf_open(const char* path,
                                           bool use_mmap,
                                           llm_gguf** out_gguf,
                                           llm_error* error);

/// Opens a model that is already in memory. `data` is borrowed and outlives the result; it should
/// begin at a multiple of the file's alignment (64 is enough in practice) when tensors are used.
BERTH_NODISCARD berth_status llm_gguf_open_memory(const void* data,
                                                  size_t size,
                                                  llm_gguf** out_gguf,
                                                  llm_error* error);

/// Closes the file; NULL is allowed.
void llm_gguf_close(llm_gguf* gguf);

/// The whole file as it lies in memory.
llm_str llm_gguf_bytes(const llm_gguf* gguf);

/// The format's version, 2 or 3.
uint32_t llm_gguf_version(const llm_gguf* gguf);

/// The number of metadata pairs.
size_t llm_gguf_pair_count(const llm_gguf* gguf);

/// Returns pair `at`, in file order; `at` is below the count.
const llm_gguf_pair* llm_gguf_pair_at(const llm_gguf* gguf, size_t at);

/// Returns the value of `key`, or NULL.
/// Cost: O(log pairs).
const llm_gguf_value* llm_gguf_find(const llm_gguf* gguf, const char* key);

/// The getters below return BERTH_ERR_NOT_FOUND when the key is missing and BERTH_ERR_CORRUPT when
/// its value has the wrong type or does not fit, with a sentence that names the key. Numbers are
/// accepted from every integer type of the file.
BERTH_NODISCARD berth_status llm_gguf_get_u64(const llm_gguf* gguf,
                                              const char* key,
                                              uint64_t* out_value,
                                              llm_error* error);

/// Accepts f32 and f64.
BERTH_NODISCARD berth_status llm_gguf_get_f64(const llm_gguf* gguf,
                                              const char* key,
                                              double* out_value,
                                              llm_error* error);

/// Accepts bool.
BERTH_NODISCARD berth_status llm_gguf_get_bool(const llm_gguf* gguf,
                                               const char* key,
                                               bool* out_value,
                                               llm_error* error);

/// The text is borrowed from the file and not terminated.
BERTH_NODISCARD berth_status llm_gguf_get_string(const llm_gguf* gguf,
                                                 const char* key,
                                                 llm_str* out_value,
                                                 llm_error* error);

/// Returns an array whose elements have type `element_type`; LLM_GGUF_I64 stands for any integer
/// type.
BERTH_NODISCARD berth_status llm_gguf_get_array(const llm_gguf* gguf,
                                                const char* key,
                                                llm_gguf_type element_type,
                                                const llm_gguf_value** out_value,
                                                llm_error* error);

/// The same getters for keys that may be missing: then the result is `otherwise`. A value of the
/// wrong type is still an error.
BERTH_NODISCARD berth_status llm_gguf_get_u64_or(const llm_gguf* gguf,
                                                 const char* key,
                                                 uint64_t otherwise,
                                                 uint64_t* out_value,
                                                 llm_error* error);

BERTH_NODISCARD berth_status llm_gguf_get_f64_or(
    const llm_gguf* gguf, const char* key, double otherwise, double* out_value, llm_error* error);

BERTH_NODISCARD berth_status llm_gguf_get_bool_or(
    const llm_gguf* gguf, const char* key, bool otherwise, bool* out_value, llm_error* error);

/// Element `at` of an array of integers (any integer type), as a signed number; u64 values above
/// INT64_MAX become INT64_MAX. `at` is below the count.
int64_t llm_gguf_int_at(const llm_gguf_value* array, uint64_t at);

/// Element `at` of an array of f32 or f64. `at` is below the count.
double llm_gguf_float_at(const llm_gguf_value* array, uint64_t at);

/// Starts a walk over an array of strings, without copies.
llm_gguf_strings_iterator llm_gguf_strings(const llm_gguf_value* array);

/// Gives the next string, or returns false at the end.
bool llm_gguf_strings_next(llm_gguf_strings_iterator* strings, llm_str* out_text);

/// The number of tensors.
size_t llm_gguf_tensor_count(const llm_gguf* gguf);

/// Returns tensor `at`, in file order; `at` is below the count.
const llm_gguf_tensor* llm_gguf_tensor_at(const llm_gguf* gguf, size_t at);

/// Returns the tensor called `name`, or NULL.
/// Cost: O(log tensors).
const llm_gguf_tensor* llm_gguf_find_tensor(const llm_gguf* gguf, const char* name);

/// Describes a tensor type of the file, or returns NULL for a number that nobody has assigned.
const llm_tensor_type_info* llm_tensor_type_describe(uint32_t type);

/// Name of a metadata type, "?" for a number that the format does not know.
const char* llm_gguf_type_name(uint32_t type);

/// Bytes of one element of a metadata type, 0 for strings, arrays and unknown types.
size_t llm_gguf_type_bytes(uint32_t type);

#endif // BERTH_SAMPLES_LLM_GGUF_H
