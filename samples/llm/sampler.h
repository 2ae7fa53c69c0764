// SPDX-License-Identifier: Apache-2.0
// Choosing the next token from a row of logits.
#ifndef BERTH_SAMPLES_LLM_SAMPLER_H
#define BERTH_SAMPLES_LLM_SAMPLER_H

#include "llm_support.h"

/// How tokens are chosen. Zero temperature is greedy and ignores the rest.
typedef struct llm_sampler_options {
    float temperature; ///< 0 or more; logits are divided by it
    int32_t top_k;     ///< keep this many of the likeliest tokens; 0 keeps all
    float top_p;       ///< then keep the likeliest that together reach this share; 1 keeps all
    uint64_t seed;
} llm_sampler_options;

/// Greedy choice.
llm_sampler_options llm_sampler_options_default(void);

typedef struct llm_sampler llm_sampler;

/// Makes a sampler for rows of `token_count` logits. The same options give the same choices for the
/// same rows.
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
                                               llm_error* error);

/// Chooses a token from `logits`, one for each token. Of equal logits the lower id comes first.
/// Logits that are no number are never chosen; when none is left the result is -1.
/// Cost: O(tokens), plus O(log tokens) for each token that top_k and top_p keep.
int32_t llm_sampler_pick(llm_sampler* sampler, const float* logits);

/// Chooses as a sampler of its own would, of which only `options` and `*random_state` are kept
/// apart: the latter begins as options->seed. So one sampler's room serves many answers.
int32_t llm_sampler_pick_as(llm_sampler* sampler,
                            const llm_sampler_options* options,
                            uint64_t* random_state,
                            const float* logits);

#endif // BERTH_SAMPLES_LLM_SAMPLER_H
