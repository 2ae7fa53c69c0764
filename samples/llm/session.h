// SPDX-License-Identifier: Apache-2.0
// A conversation with a model: its sequence of cached tokens, steps over new ones, generation.
//
// Every run of tokens through the model is one step: see model_step.h.
#ifndef BERTH_SAMPLES_LLM_SESSION_H
#define BERTH_SAMPLES_LLM_SESSION_H

#include "model_step.h"
#include "sampler.h"
#include "tokenizer.h"

enum { LLM_LEARNING_LENGTHS = 3 }; ///< different lengths after which every run should be a hit

/// What a session has seen of one kind of step.
typedef struct llm_step_record {
    uint64_t runs;
    uint64_t tokens;
    uint64_t run_ns;
    /// Runs that were no hit although the kind had been seen at LLM_LEARNING_LENGTHS lengths
    /// before; counted while llm_session_options.watch_hits is set.
    uint64_t late_misses;
    /// The first different ones: tokens of the step, or for a decode step blocks of the sequence.
    int64_t lengths[LLM_LEARNING_LENGTHS];
    size_t length_count;
} llm_step_record;

typedef struct llm_session_options {
    int64_t context_tokens; ///< limit for prompt and answer; 0: what the model was trained for
    int64_t chunk_tokens;   ///< most tokens of one step; 0: no limit
    berth_dtype kv_dtype;   ///< of keys and values: BERTH_F32, F16, BF16 or Q8_0
    int64_t block_tokens;   ///< of the cache; 0: its default
    bool watch_hits;        ///< count late misses, which asks Berth for its counters at every step
    llm_layer_hook hook;    ///< called after each layer; may be NULL
    void* hook_user;
} llm_session_options;

typedef struct llm_session {
    const llm_model* model; ///< borrowed
    llm_session_options options;
    berth_kv_cache* cache;
    berth_kv_sequence* sequence; ///< the tokens seen so far
    float* logits;               ///< [vocab_tokens] of the last token, after a feed
    llm_step_record steps[LLM_STEP_KIND_COUNT];
} llm_session;

/// Starts a session. `model` outlives it; both belong to the model's context.
/// Ownership: the caller gives `*out_session` to llm_session_destroy().
/// Errors:    BERTH_ERR_INVALID_ARGUMENT, BERTH_ERR_OUT_OF_MEMORY; then `*out_session` is NULL.
BERTH_NODISCARD berth_status llm_session_create(const llm_model* model,
                                                const llm_session_options* options,
                                                llm_session** out_session,
                                                llm_error* error);

/// Ends the session; NULL is allowed.
void llm_session_destroy(llm_session* session);

/// Tokens seen so far.
int64_t llm_session_length(const llm_session* session);

/// Forgets all tokens; the cache keeps its memory for the next.
void llm_session_reset(llm_session* session);

/// Runs `count` > 0 tokens after those seen so far; then `session->logits` are those of the last.
///
/// Errors: BERTH_ERR_INVALID_ARGUMENT for more tokens than the context holds or an id outside the
///         vocabulary, and whatever the cache and the step report. Then no token was added, but
///         those of earlier chunks stay.
BERTH_NODISCARD berth_status llm_session_feed(llm_session* session,
                                              const int32_t* ids,
                                              int64_t count,
                                              llm_error* error);

/// The same in one step, writing the logits of every token to `out_logits` [count, vocab_tokens].
BERTH_NODISCARD berth_status llm_session_score(
    llm_session* session, const int32_t* ids, int64_t count, float* out_logits, llm_error* error);

typedef enum llm_stop_reason {
    LLM_STOP_LIMIT,   ///< max_tokens were made
    LLM_STOP_TOKEN,   ///< the model ended its answer
    LLM_STOP_CONTEXT, ///< the context is full
    LLM_STOP_CALLER,  ///< on_token returned false
} llm_stop_reason;

typedef struct llm_generate_options {
    int64_t max_tokens;
    const llm_tokenizer* tokenizer; ///< whose stop tokens end an answer; NULL: none do
    llm_sampler* sampler;           ///< chooses each token; made for the model's vocabulary
    /// Called with the logits of the prompt's last token. May be NULL.
    void (*on_prompt)(void* user, const float* logits);
    /// Called for each token as it is chosen; false ends the answer after it. May be NULL.
    bool (*on_token)(void* user, int32_t id);
    void* user;
} llm_generate_options;

typedef struct llm_generate_result {
    llm_stop_reason reason;
    int64_t tokens;      ///< made, without a stop token
    int64_t decode_runs; ///< tokens fed back one by one
    uint64_t prefill_ns; ///< until the logits of the prompt were there
    uint64_t decode_ns;  ///< from then on
} llm_generate_result;

/// Feeds `prompt` [count] and appends the answer's tokens to `out_tokens`.
/// Errors: as llm_session_feed(); `out_tokens` then holds what was made before.
BERTH_NODISCARD berth_status llm_generate(llm_session* session,
                                          const int32_t* prompt,
                                          int64_t count,
                                          const llm_generate_options* options,
                                          llm_tokens* out_tokens,
                                          llm_generate_result* out_result,
                                          llm_error* error);

#endif // BERTH_SAMPLES_LLM_SESSION_H
