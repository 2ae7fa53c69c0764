// SPDX-License-Identifier: Apache-2.0
// How likely the model held tokens to be.
#ifndef BERTH_SAMPLES_LLM_LOGPROBS_H
#define BERTH_SAMPLES_LLM_LOGPROBS_H

#include <stddef.h>
#include <stdint.h>

enum {
    LLM_MOST_TOP_LOGPROBS = 20, ///< most alternatives of a token that can be asked for
    LLM_LEAST_LOGPROB = -9999,  ///< of what cannot happen: a number that every format can write
};

/// A token and the natural logarithm of its probability.
typedef struct llm_token_logprob {
    int32_t id;    ///< of the vocabulary
    float logprob; ///< 0 or less, at least LLM_LEAST_LOGPROB
} llm_token_logprob;

/// Returns the log probability of token `id` in the softmax of `logits` [token_count], and writes
/// the likeliest tokens to `out_top` [top_count], likeliest first; of equals the lower id. Logits
/// that are no number are those of tokens that cannot happen.
///
/// `logits` are to be those of the model, before temperature, penalties and bias: as vLLM's server
/// tells them unless told otherwise ("raw_logprobs"), so that they say what the model holds likely
/// whatever a request does to its choice.
/// `top_count` is at most `token_count` and LLM_MOST_TOP_LOGPROBS.
/// Cost: O(token_count), and O(top_count) for each token that is likelier than those before it.
float llm_logprobs(const float* logits,
                   size_t token_count,
                   int32_t id,
                   llm_token_logprob* out_top,
                   size_t top_count);

#endif // BERTH_SAMPLES_LLM_LOGPROBS_H
