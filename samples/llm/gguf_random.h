// SPDX-License-Identifier: Apache-2.0
// Llama-architecture models with seeded random weights, as GGUF files in memory: what the sample
// runs when no trained model is at hand, and what tests use.
#ifndef BERTH_SAMPLES_LLM_GGUF_RANDOM_H
#define BERTH_SAMPLES_LLM_GGUF_RANDOM_H

#include "gguf_writer.h"

/// Geometry and weight types of a random model.
typedef struct llm_random_spec {
    uint32_t width; ///< values of a token's vector; heads divide it
    uint32_t layers;
    uint32_t heads;
    uint32_t kv_heads; ///< divides heads
    uint32_t ffn_width;
    uint32_t context; ///< tokens
    float rope_base;
    uint32_t embedding_type; ///< LLM_TENSOR_F32, LLM_TENSOR_Q8_0 or LLM_TENSOR_Q4_1
    uint32_t matrix_type;    ///< the same choice, for the matrices of the layers
    uint64_t seed;
} llm_random_spec;

/// The geometry of SmolLM2-135M: Q8_0 embedding, Q4_1 matrices. Only the vocabulary differs.
llm_random_spec llm_random_spec_smollm2(uint64_t seed);

/// A model of a few kilobytes, for tests.
llm_random_spec llm_random_spec_tiny(uint64_t seed);

enum {
    /// Tokens of a random model: ids 0 to 15 are control tokens, the first three "<|endoftext|>",
    /// "<|im_start|>" and "<|im_end|>"; id 16 + b is byte b.
    LLM_RANDOM_CONTROL_TOKENS = 16,
    LLM_RANDOM_TOKENS = LLM_RANDOM_CONTROL_TOKENS + 256,
};

/// Makes the model's file. The same spec gives the same bytes everywhere.
/// Ownership: the caller gives `*out_data` to llm_gguf_writer_release(), after closing the reader.
/// Errors:    BERTH_ERR_INVALID_ARGUMENT for a geometry that does not fit together,
///            BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status llm_random_model(const llm_random_spec* spec,
                                              void** out_data,
                                              size_t* out_size,
                                              llm_error* error);

#endif // BERTH_SAMPLES_LLM_GGUF_RANDOM_H
