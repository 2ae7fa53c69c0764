// SPDX-License-Identifier: Apache-2.0
// Choosing the next token from a row of logits.
#ifndef BERTH_SAMPLES_LLM_SAMPLER_H
#define BERTH_SAMPLES_LLM_SAMPLER_H

#include "llm_support.h"

enum { LLM_MOST_LOGIT_BIASES = 300 };

/// What is added to the logit of a token.
typedef struct llm_logit_bias {
    int32_t id;
    float bias; ///< -100 to 100, which in effect forbid and force the token
} llm_logit_bias;

/// How tokens are chosen. Bias and penalties change the logits first; zero temperature then takes
/// the largest and ignores the rest. All zero but for top_p 1: greedy.
typedef struct llm_sampler_options {
    float temperature; ///< 0 or more; logits are divided by it
    int32_t top_k;     ///< keep this many of the likeliest tokens; 0 keeps all
    float top_p;       ///< at last keep the likeliest that together reach this share of what is
                       ///< left; 1 keeps all
    uint64_t seed;     ///< equal seeds choose alike
    float min_p; ///< after top_k keep those that have this share of the likeliest's probability, 0
                 ///< to 1; 0 keeps all
    float presence_penalty;           ///< -2 to 2, off the logits of tokens that the answer has
    float frequency_penalty;          ///< -2 to 2, off them for each time that it has them
    const llm_logit_bias* logit_bias; ///< [logit_bias_count], all of which count; borrowed
    size_t logit_bias_count;          ///< at most LLM_MOST_LOGIT_BIASES
} llm_sampler_options;

/// Greedy choice.
llm_sampler_options llm_sampler_options_default(void);

typedef struct llm_sampler llm_sampler;

/// Makes a sampler for rows of `token_count` logits. The same options give the same choices for the
/// same rows. What options->logit_bias points at outlives the sampler.
/// Ownership: the caller gives `*out_sampler` to llm_sampler_destroy().
/// Errors:    BERTH_ERR_INVALID_ARGUMENT names an option out of range; BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status llm_sampler_create(const llm_sampler_options* options,
                                                size_t token_count,
                                                llm_sampler** out_sampler,
                                                llm_error* error);

/// Frees the sampler; NULL is allowed.
void llm_sampler_destroy(llm_sampler* sampler);

/// Checks options as llm_sampler_create() does, without making anything.
/// Errors: BERTH_ERR_INVALID_ARGUMENT names the option out of range.
BERTH_NODISCARD berth_status llm_sampler_check(const llm_sampler_options* options,
                                               size_t token_count,
                                               llm_error* error);

/// Chooses a token from `logits`, one for each token. Of equal logits the lower id comes first.
/// Logits that are no number are never chosen; when none is left the result is -1. `answer`
/// [answer_count], ids below the sampler's count, is what was chosen before: for penalties.
/// Cost: O(tokens), plus O(log tokens) for each token that top_k and top_p keep, plus
///       O(answer_count) with penalties.
int32_t llm_sampler_pick(llm_sampler* sampler,
                         const int32_t* answer,
                         size_t answer_count,
                         const float* logits);

/// Chooses as a sampler of its own would, of which only `options` and `*random_state` are kept
/// apart: the latter begins as options->seed. So one sampler's room serves many answers.
int32_t llm_sampler_pick_as(llm_sampler* sampler,
                            const llm_sampler_options* options,
                            uint64_t* random_state,
                            const int32_t* answer,
                            size_t answer_count,
                            const float* logits);

#endif // BERTH_SAMPLES_LLM_SAMPLER_H
