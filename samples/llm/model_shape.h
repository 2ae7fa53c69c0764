// SPDX-License-Identifier: Apache-2.0
// Models that are nothing but their sizes, for simulations on a device that computes nothing.
#ifndef BERTH_SAMPLES_LLM_MODEL_SHAPE_H
#define BERTH_SAMPLES_LLM_MODEL_SHAPE_H

#include "model.h"

// clang-format off
/// Sizes that have a name: X(word, layers, width, ffn_width, heads, kv_heads, head_dims, vocab,
/// context).
#define LLM_SHAPE_MAP(X)                                                                           \
    X("smollm2-135m", 30, 576,  1536,  9,  3,  64,  49152,  8192)                                  \
    X("llama-1b",     16, 2048, 8192,  32, 8,  64,  128256, 131072)                                \
    X("llama-3b",     28, 3072, 8192,  24, 8,  128, 128256, 131072)                                \
    X("llama-8b",     32, 4096, 14336, 32, 8,  128, 128256, 131072)                                \
    X("llama-70b",    80, 8192, 28672, 64, 8,  128, 128256, 131072)
// clang-format on

/// A model's sizes.
typedef struct llm_shape {
    int64_t layers;
    int64_t width;
    int64_t ffn_width;
    int64_t heads;
    int64_t kv_heads;
    int64_t head_dims; ///< of keys and of values
    int64_t vocab;
    int64_t context; ///< tokens
} llm_shape;

/// Reads a name of LLM_SHAPE_MAP, or the eight numbers in the struct's order, separated by commas.
/// Errors: BERTH_ERR_INVALID_ARGUMENT says what is accepted.
BERTH_NODISCARD berth_status llm_shape_parse(const char* text,
                                             llm_shape* out_shape,
                                             llm_error* error);

/// Makes a model of such sizes with f16 weights that are nowhere and cost no memory. Only a device
/// that reads no data can run it (BERTH_DEVICE=dry).
/// Ownership: the caller gives `*out_model` to llm_model_destroy().
/// Errors:    BERTH_ERR_UNSUPPORTED on another device, BERTH_ERR_OUT_OF_MEMORY; then `*out_model`
///            is NULL.
BERTH_NODISCARD berth_status llm_model_create_shape(berth_context* context,
                                                    const llm_shape* shape,
                                                    llm_model** out_model,
                                                    llm_error* error);

#endif // BERTH_SAMPLES_LLM_MODEL_SHAPE_H
