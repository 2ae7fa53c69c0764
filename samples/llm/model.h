// SPDX-License-Identifier: Apache-2.0
// Llama-architecture models: weights that stay in their file (or are copied to a device that does
// not reach the host's memory, a GPU's matrices as f16), and the forward pass over them.
//
// The forward pass takes new tokens of one sequence or of many. It runs the same ops in the same
// order for every number of tokens and sequences, so that a step around it is one path whatever its
// lengths.
#ifndef BERTH_SAMPLES_LLM_MODEL_H
#define BERTH_SAMPLES_LLM_MODEL_H

#include "gguf.h"

#include <berth/berth.h>

/// Geometry and constants of a model, as its metadata gives them.
typedef struct llm_model_params {
    int64_t context_tokens; ///< trained context
    int64_t vocab_tokens;
    int64_t width; ///< values of a token's vector
    int64_t ffn_width;
    int64_t layers;
    int64_t heads;
    int64_t kv_heads;   ///< divides heads
    int64_t key_dims;   ///< of one head
    int64_t value_dims; ///< of one head
    int64_t rope_dims;  ///< dimensions of a head that are rotated
    double rope_base;
    double rope_position_scale; ///< positions are multiplied by it
    float norm_eps;
} llm_model_params;

/// Weights of one layer. Matrices are [outputs, inputs]; a bias that the file lacks is NULL.
typedef struct llm_layer {
    berth_tensor* attn_norm;   ///< [width] f32
    berth_tensor* q;           ///< [heads * key_dims, width]
    berth_tensor* k;           ///< [kv_heads * key_dims, width]
    berth_tensor* v;           ///< [kv_heads * value_dims, width]
    berth_tensor* attn_output; ///< [width, heads * value_dims]
    berth_tensor* q_bias;
    berth_tensor* k_bias;
    berth_tensor* v_bias;
    berth_tensor* attn_output_bias;
    berth_tensor* ffn_norm; ///< [width] f32
    berth_tensor* ffn_gate; ///< [ffn_width, width]
    berth_tensor* ffn_up;   ///< [ffn_width, width]
    berth_tensor* ffn_down; ///< [width, ffn_width]
} llm_layer;

/// A model of one context. Its tensors lie in the open file, which outlives it, or on the device.
typedef struct llm_model {
    llm_model_params params;
    berth_context* context;      ///< borrowed
    berth_tensor* embedding;     ///< [vocab_tokens, width]
    berth_tensor* output;        ///< [vocab_tokens, width]; the embedding itself when they are tied
    berth_tensor* output_norm;   ///< [width] f32
    berth_tensor* rope_divisors; ///< [rope_dims / 2] f32, or NULL
    llm_layer* layers;           ///< [params.layers]
    uint64_t weight_bytes;       ///< of all tensors, tied ones once
    /// What one decoded token reads of them: all matrices, but of the embedding one row.
    uint64_t decode_weight_bytes;
} llm_model;

/// Called after each layer of a forward pass, inside its step. It may run ops on `hidden` [T,
/// width] (after the last layer a row for each part of the batch unless all logits are asked for)
/// and keeps no reference to it.
typedef void (*llm_layer_hook)(void* user,
                               berth_context* context,
                               int64_t layer,
                               berth_tensor* hidden);

/// Makes the model of an open file. No weight is copied where the device reaches the host's memory;
/// to a GPU all are, and quantised ones become f16.
///
/// `gguf` is borrowed and outlives the model and every tensor made from it. Each tensor's shape and
/// type is checked against the metadata.
/// Ownership: the caller gives `*out_model` to llm_model_destroy().
/// Errors:    BERTH_ERR_NOT_FOUND, BERTH_ERR_CORRUPT and BERTH_ERR_UNSUPPORTED name the key or the
///            tensor; BERTH_ERR_OUT_OF_MEMORY. Then `*out_model` is NULL.
BERTH_NODISCARD berth_status llm_model_create(berth_context* context,
                                              const llm_gguf* gguf,
                                              llm_model** out_model,
                                              llm_error* error);

/// Releases the weights; NULL is allowed.
void llm_model_destroy(llm_model* model);

/// The options of a cache for the model's keys and values, of `dtype`; all else is default.
berth_kv_options llm_model_kv_options(const llm_model* model, berth_dtype dtype);

/// The dtype that keys and values may be cached in and that is called `word`, such as "bf16";
/// false, and `*out_dtype` as before, if there is none.
bool llm_kv_dtype_find(const char* word, berth_dtype* out_dtype);

/// Runs the new tokens of an open batch, T of S sequences, and returns logits: [S, vocab_tokens] of
/// the last token of each, or [T, vocab_tokens] if `all_logits`; f32. Their keys and values are
/// written to the batch's blocks; ending the batch keeps them.
/// Errors: NULL, and the context's error.
berth_tensor* llm_model_forward(const llm_model* model,
                                berth_kv_batch* batch,
                                bool all_logits,
                                llm_layer_hook hook,
                                void* hook_user);

#endif // BERTH_SAMPLES_LLM_MODEL_H
