// SPDX-License-Identifier: Apache-2.0
// The open file, shared by the parser and the getters.
#ifndef BERTH_SAMPLES_LLM_GGUF_INTERNAL_H
#define BERTH_SAMPLES_LLM_GGUF_INTERNAL_H

#include "gguf.h"

/// One entry of a table of names in byte order. Sorting, not hashing, finds duplicates: no choice
/// of names makes it slow.
typedef struct llm_gguf_name {
    llm_str name;
    size_t at; ///< index of the pair or tensor
} llm_gguf_name;

struct llm_gguf {
    const char* base;
    size_t size;
    void* mapping; ///< from mmap, or NULL
    void* copy;    ///< from llm_alloc, or NULL; with neither the bytes are borrowed
    uint32_t version;
    uint64_t alignment;
    llm_gguf_pair* pairs;
    size_t pair_count;
    size_t pair_capacity;
    llm_gguf_name* pair_names; ///< [pair_count]
    llm_gguf_tensor* tensors;
    size_t tensor_count;
    size_t tensor_capacity;
    llm_gguf_name* tensor_names; ///< [tensor_count]
};

#endif // BERTH_SAMPLES_LLM_GGUF_INTERNAL_H
