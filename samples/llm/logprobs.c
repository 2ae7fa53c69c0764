// SPDX-License-Identifier: Apache-2.0
// Log probabilities: the likeliest tokens by insertion, the softmax's sum in double.
#include "logprobs.h"

#include <math.h>

/// A logit with what is no number made the least.
static float logit_at(const float* logits, size_t i) {
    return isnan(logits[i]) ? -INFINITY : logits[i];
}

/// Writes the `count` largest logits, largest first, where their log probabilities go.
static void find_top(const float* logits,
                     size_t token_count,
                     llm_token_logprob* top,
                     size_t count) {
    size_t held = 0;
    for (size_t i = 0; i < token_count; i++) {
        const float logit = logit_at(logits, i);
        if (held == count && !(logit > top[held - 1].logprob)) continue;
        size_t at = held < count ? held++ : held - 1;
        for (; at > 0 && logit > top[at - 1].logprob; at--)
            top[at] = top[at - 1];
        top[at] = (llm_token_logprob){(int32_t)i, logit};
    }
}

/// Sum over tokens of how likely each is beside one of the likeliest.
static double sum_shares(const float* logits, size_t token_count, float best) {
    double sum = 0.0;
    for (size_t i = 0; i < token_count; i++) {
        const float logit = logit_at(logits, i);
        // infinite ones share all there is
        sum += logit == best ? 1.0 : exp((double)logit - (double)best);
    }
    return sum;
}

static float logprob_of(float logit, float best, double log_sum) {
    const double beside = logit == best ? 0.0 : (double)logit - (double)best;
    const double logprob = beside - log_sum;
    return isinf(logit) && logit < 0.0F ? (float)LLM_LEAST_LOGPROB
                                        : (float)fmax(logprob, LLM_LEAST_LOGPROB);
}

float llm_logprobs(const float* logits,
                   size_t token_count,
                   int32_t id,
                   llm_token_logprob* out_top,
                   size_t top_count) {
    llm_token_logprob top[LLM_MOST_TOP_LOGPROBS] = {{0, -INFINITY}};
    find_top(logits, token_count, top, top_count > 0 ? top_count : 1);
    const float best = top[0].logprob;
    const double log_sum = log(sum_shares(logits, token_count, best));
    for (size_t i = 0; i < top_count; i++)
        out_top[i] = (llm_token_logprob){top[i].id, logprob_of(top[i].logprob, best, log_sum)};
    return logprob_of(logit_at(logits, (size_t)id), best, log_sum);
}
