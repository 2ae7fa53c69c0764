// SPDX-License-Identifier: Apache-2.0
// Every run of tokens through a model is one step of Berth: "decode" where each sequence of the
// batch has one new token, "prefill" where one has more, "score" where the logits of every token
// are asked for. It declares the batch's sizes as inputs: tokens [T], sequences [S], blocks [M].
#ifndef BERTH_SAMPLES_LLM_MODEL_STEP_H
#define BERTH_SAMPLES_LLM_MODEL_STEP_H

#include "model.h"

/// The kinds of step; Berth plans each by itself.
typedef enum llm_step_kind {
    LLM_STEP_PREFILL,
    LLM_STEP_DECODE,
    LLM_STEP_SCORE,
    LLM_STEP_KIND_COUNT
} llm_step_kind;

/// The name under which Berth knows a kind of step.
const char* llm_step_kind_name(llm_step_kind kind);

/// The sizes that a step declares.
typedef struct llm_step_sizes {
    int64_t tokens;    ///< T, new ones
    int64_t sequences; ///< S
    int64_t blocks;    ///< M, of all sequences
} llm_step_sizes;

/// A step's description, with what it points at. Not to be copied.
typedef struct llm_step_shape {
    llm_step_sizes sizes;
    berth_step_input inputs[3];
    berth_step_desc desc;
} llm_step_shape;

/// Fills in `shape`, whose `desc` is then what berth_step_begin() and berth_step_estimate() take.
void llm_step_shape_init(llm_step_shape* shape, llm_step_kind kind, const llm_step_sizes* sizes);

/// Where the time of runs goes, in nanoseconds, added up.
typedef struct llm_run_times {
    uint64_t step_ns;   ///< beginning and ending the step
    uint64_t kv_ns;     ///< ending the batch
    uint64_t logits_ns; ///< on_logits
    uint64_t ops_ns;    ///< the rest
} llm_run_times;

/// Gets the logits of a run, [S, vocab_tokens], or [T, ...] of LLM_STEP_SCORE, for this call,
/// within the step. It runs no ops.
typedef void (*llm_logits_callback)(void* user, const float* logits);

/// How a run of a batch is to be done. All zero but for the kind: logits are not read.
typedef struct llm_run_options {
    llm_step_kind kind;
    llm_layer_hook hook; ///< called after each layer; may be NULL
    void* hook_user;
    llm_logits_callback on_logits; ///< NULL: they are not read
    void* logits_user;
    llm_run_times* times; ///< NULL: not measured
} llm_run_options;

/// Runs an open batch as one step, and ends the batch within it, so that nothing of it outlives the
/// step: with its tokens kept if all went well.
/// Errors: the context's, which is cleared; BERTH_ERR_OUT_OF_MEMORY if the step was refused, or if
///         memory was short in it. Nothing was added to the sequences.
BERTH_NODISCARD berth_status llm_model_run(const llm_model* model,
                                           berth_kv_batch* batch,
                                           const llm_run_options* options,
                                           llm_error* error);

#endif // BERTH_SAMPLES_LLM_MODEL_STEP_H
