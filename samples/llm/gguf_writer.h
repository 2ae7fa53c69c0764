// SPDX-License-Identifier: Apache-2.0
// Writer of GGUF files in memory, for tests and for models with random weights.
//
// Calls in any number of llm_gguf_put_* and llm_gguf_add_tensor, then llm_gguf_writer_finish. The
// first failure sticks: later calls do nothing and finish returns it.
#ifndef BERTH_SAMPLES_LLM_GGUF_WRITER_H
#define BERTH_SAMPLES_LLM_GGUF_WRITER_H

#include "gguf.h"

/// Writes a tensor's bytes when the file is laid out. `out` holds `size_bytes` zero bytes.
typedef void (*llm_gguf_fill)(void* user, void* out, uint64_t size_bytes);

typedef struct llm_gguf_writer {
    llm_bytes pairs;
    llm_bytes infos;
    struct llm_gguf_writer_tensor* tensors;
    size_t tensor_count;
    size_t tensor_capacity;
    uint64_t pair_count;
    uint64_t data_bytes;
    uint32_t alignment;
    berth_status status; ///< the first failure
} llm_gguf_writer;

/// Starts a file. An `alignment` other than 32 is written into the file as general.alignment.
void llm_gguf_writer_init(llm_gguf_writer* writer, uint32_t alignment);

/// Frees what the writer holds; the finished file is not part of it.
void llm_gguf_writer_fini(llm_gguf_writer* writer);

void llm_gguf_put_u32(llm_gguf_writer* writer, const char* key, uint32_t value);
void llm_gguf_put_f32(llm_gguf_writer* writer, const char* key, float value);
void llm_gguf_put_bool(llm_gguf_writer* writer, const char* key, bool value);
void llm_gguf_put_string(llm_gguf_writer* writer, const char* key, llm_str value);
void llm_gguf_put_strings(llm_gguf_writer* writer,
                          const char* key,
                          const llm_str* values,
                          size_t count);

/// Puts an array of numbers of the given type; `values` holds `count` of them as they go to the
/// file.
void llm_gguf_put_numbers(
    llm_gguf_writer* writer, const char* key, uint32_t type, const void* values, size_t count);

/// Puts a pair whose value's bytes are given, right or wrong: tests make broken files with it.
void llm_gguf_put_raw(
    llm_gguf_writer* writer, const char* key, uint32_t type, const void* bytes, size_t size);

/// Adds a tensor whose bytes `fill(user, ...)` writes at the end; NULL leaves zeros. The size
/// follows from type and dims; a type that cannot be read counts as one byte a value.
void llm_gguf_add_tensor(llm_gguf_writer* writer,
                         const char* name,
                         uint32_t type,
                         uint32_t rank,
                         const uint64_t* dims,
                         llm_gguf_fill fill,
                         void* user);

/// Lays the file out in one block that begins at a multiple of 64 bytes.
/// Ownership: the caller gives `*out_data` to llm_gguf_writer_release().
/// Errors:    the first failure of the calls before, or BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status llm_gguf_writer_finish(const llm_gguf_writer* writer,
                                                    void** out_data,
                                                    size_t* out_size,
                                                    llm_error* error);

/// Frees a finished file; NULL is allowed.
void llm_gguf_writer_release(void* data);

#endif // BERTH_SAMPLES_LLM_GGUF_WRITER_H
