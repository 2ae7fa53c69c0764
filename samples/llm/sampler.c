// SPDX-License-Identifier: Apache-2.0
// Bias and penalties, greedy choice, temperature, top-k, min-p and top-p.
#include "sampler.h"

#include "llm_random.h"

#include <math.h>
#include <string.h>

enum { LANES = 16 };

/// A token that may be chosen.
typedef struct candidate {
    float logit;
    int32_t id;
} candidate;

struct llm_sampler {
    llm_sampler_options options;
    uint64_t random_state;
    size_t token_count;
    candidate* heap; ///< [token_count], likeliest at the top
    size_t heap_count;
    candidate* kept; ///< [token_count]
    double* weights; ///< [token_count], of the kept ones
    float* adjusted; ///< [token_count], logits with bias and penalties
    uint32_t* times; ///< [token_count], in the answer; all 0 between choices
};

/// Takes penalties off the logits of what the answer has, each by one subtraction however often.
static void penalize(llm_sampler* s, const int32_t* answer, size_t answer_count) {
    for (size_t i = 0; i < answer_count; i++)
        s->times[answer[i]]++;
    for (size_t i = 0; i < answer_count; i++) {
        const int32_t id = answer[i];
        if (s->times[id] == 0) continue;
        s->adjusted[id] -=
            s->options.presence_penalty + s->options.frequency_penalty * (float)s->times[id];
        s->times[id] = 0;
    }
}

/// The logits with bias and penalties: the row itself where there are none.
static const float* adjust(llm_sampler* s,
                           const int32_t* answer,
                           size_t answer_count,
                           const float* logits) {
    const llm_sampler_options* o = &s->options;
    const bool has_penalty = o->presence_penalty != 0.0F || o->frequency_penalty != 0.0F;
    if (o->logit_bias_count == 0 && !(has_penalty && answer_count > 0)) return logits;
    memcpy(s->adjusted, logits, s->token_count * sizeof *logits);
    for (size_t i = 0; i < o->logit_bias_count; i++)
        s->adjusted[o->logit_bias[i].id] += o->logit_bias[i].bias;
    if (has_penalty) penalize(s, answer, answer_count);
    return s->adjusted;
}

static bool comes_before(candidate a, candidate b) {
    return a.logit > b.logit || (!(a.logit < b.logit) && a.id < b.id);
}

/// The largest of `count` logits that are numbers; minus infinity if there is none.
static float find_largest(const float* logits, size_t count) {
    // lanes of their own, which the compiler can keep in one register; no number is never larger
    float lanes[LANES];
    for (size_t i = 0; i < LANES; i++)
        lanes[i] = -INFINITY;
    size_t at = 0;
    for (; at + LANES <= count; at += LANES)
        for (size_t i = 0; i < LANES; i++)
            lanes[i] = logits[at + i] > lanes[i] ? logits[at + i] : lanes[i];
    float largest = -INFINITY;
    for (size_t i = 0; i < LANES; i++)
        largest = lanes[i] > largest ? lanes[i] : largest;
    for (; at < count; at++)
        largest = logits[at] > largest ? logits[at] : largest;
    return largest;
}

static int32_t pick_greedy(const float* logits, size_t count) {
    float largest = find_largest(logits, count);
    for (size_t i = 0; i < count; i++)
        if (logits[i] == largest) return (int32_t)i;
    return -1;
}

static void sift_down(candidate* heap, size_t count, size_t at) {
    candidate item = heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= count) break;
        if (child + 1 < count && comes_before(heap[child + 1], heap[child])) child++;
        if (!comes_before(heap[child], item)) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = item;
}

static void order_heap(llm_sampler* s) {
    for (size_t at = s->heap_count / 2; at-- > 0;)
        sift_down(s->heap, s->heap_count, at);
}

static void fill_heap(llm_sampler* s, const float* logits) {
    s->heap_count = 0;
    for (size_t i = 0; i < s->token_count; i++) {
        if (!isnan(logits[i])) s->heap[s->heap_count++] = (candidate){logits[i], (int32_t)i};
    }
    order_heap(s);
}

static candidate take_top(llm_sampler* s) {
    candidate top = s->heap[0];
    s->heap[0] = s->heap[--s->heap_count];
    if (s->heap_count > 0) sift_down(s->heap, s->heap_count, 0);
    return top;
}

static double weigh(const llm_sampler* s, candidate c, float best) {
    return exp(((double)c.logit - (double)best) / (double)s->options.temperature);
}

/// Weighs the kept tokens against the likeliest; returns the sum.
static double weigh_kept(llm_sampler* s, size_t count, float best) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        s->weights[i] = weigh(s, s->kept[i], best);
        sum += s->weights[i];
    }
    return sum;
}

/// Keeps the top_k likeliest, in order; all of them, in no order, when there is no limit.
static size_t keep_top_k(llm_sampler* s) {
    size_t limit = (size_t)s->options.top_k;
    if (limit == 0 || limit >= s->heap_count) {
        memcpy(s->kept, s->heap, s->heap_count * sizeof *s->kept);
        return s->heap_count;
    }
    for (size_t i = 0; i < limit; i++)
        s->kept[i] = take_top(s);
    return limit;
}

/// Keeps those of `count` kept tokens that weigh min_p or more, in their order; the likeliest
/// weighs 1.
static size_t keep_min_p(llm_sampler* s, size_t count, double* sum) {
    size_t kept = 0;
    *sum = 0;
    for (size_t i = 0; i < count; i++) {
        if (s->weights[i] < (double)s->options.min_p) continue;
        s->kept[kept] = s->kept[i];
        s->weights[kept] = s->weights[i];
        *sum += s->weights[kept++];
    }
    return kept;
}

/// Keeps the likeliest of `count` kept tokens that reach top_p of their sum. Only these are
/// ordered: they come off the heap one by one.
static size_t keep_top_p(llm_sampler* s, size_t count, float best, double* sum) {
    double enough = (double)s->options.top_p * *sum;
    memcpy(s->heap, s->kept, count * sizeof *s->heap);
    s->heap_count = count;
    order_heap(s);
    size_t kept = 0;
    double reached = 0;
    while (s->heap_count > 0 && reached < enough) {
        s->kept[kept] = take_top(s);
        s->weights[kept] = weigh(s, s->kept[kept], best);
        reached += s->weights[kept++];
    }
    *sum = reached;
    return kept;
}

static double random_share(llm_sampler* s) {
    return (double)(llm_random_next(&s->random_state) >> 11) * 0x1p-53;
}

llm_sampler_options llm_sampler_options_default(void) {
    return (llm_sampler_options){.temperature = 0, .top_k = 0, .top_p = 1, .seed = 0};
}

static berth_status check_penalty(const char* name, float value, llm_error* error) {
    if (value >= -2.0F && value <= 2.0F) return BERTH_OK;
    return llm_fail(error,
                    BERTH_ERR_INVALID_ARGUMENT,
                    "%s is %g; it must be from -2 to 2",
                    name,
                    (double)value);
}

static berth_status check_bias(const llm_sampler_options* options,
                               size_t token_count,
                               llm_error* error) {
    if (options->logit_bias_count > LLM_MOST_LOGIT_BIASES)
        return llm_fail(error,
                        BERTH_ERR_INVALID_ARGUMENT,
                        "logit bias has %zu tokens; it may have %d",
                        options->logit_bias_count,
                        LLM_MOST_LOGIT_BIASES);
    if (options->logit_bias_count > 0 && options->logit_bias == NULL)
        return llm_fail(error, BERTH_ERR_INVALID_ARGUMENT, "logit bias without its tokens");
    for (size_t i = 0; i < options->logit_bias_count; i++) {
        const llm_logit_bias* b = &options->logit_bias[i];
        if (b->id < 0 || (size_t)b->id >= token_count)
            return llm_fail(error,
                            BERTH_ERR_INVALID_ARGUMENT,
                            "logit bias has token %d, which is not in the vocabulary of %zu",
                            b->id,
                            token_count);
        if (!(b->bias >= -100.0F && b->bias <= 100.0F))
            return llm_fail(error,
                            BERTH_ERR_INVALID_ARGUMENT,
                            "logit bias of token %d is %g; it must be from -100 to 100",
                            b->id,
                            (double)b->bias);
    }
    return BERTH_OK;
}

/// Checks what cuts tokens off.
static berth_status check_cuts(const llm_sampler_options* options, llm_error* error) {
    if (options->top_k < 0)
        return llm_fail(
            error, BERTH_ERR_INVALID_ARGUMENT, "top-k is %d; it must be 0 or more", options->top_k);
    if (!(options->top_p > 0 && options->top_p <= 1))
        return llm_fail(error,
                        BERTH_ERR_INVALID_ARGUMENT,
                        "top-p is %g; it must be above 0 and at most 1",
                        (double)options->top_p);
    if (!(options->min_p >= 0 && options->min_p <= 1))
        return llm_fail(error,
                        BERTH_ERR_INVALID_ARGUMENT,
                        "min-p is %g; it must be from 0 to 1",
                        (double)options->min_p);
    return BERTH_OK;
}

berth_status llm_sampler_check(const llm_sampler_options* options,
                               size_t token_count,
                               llm_error* error) {
    if (!(options->temperature >= 0) || isinf(options->temperature))
        return llm_fail(error,
                        BERTH_ERR_INVALID_ARGUMENT,
                        "temperature is %g; it must be 0 or a positive number",
                        (double)options->temperature);
    berth_status status = check_cuts(options, error);
    if (status == BERTH_OK)
        status = check_penalty("presence penalty", options->presence_penalty, error);
    if (status == BERTH_OK)
        status = check_penalty("frequency penalty", options->frequency_penalty, error);
    return status == BERTH_OK ? check_bias(options, token_count, error) : status;
}

berth_status llm_sampler_create(const llm_sampler_options* options,
                                size_t token_count,
                                llm_sampler** out_sampler,
                                llm_error* error) {
    *out_sampler = NULL;
    berth_status status = llm_sampler_check(options, token_count, error);
    if (status != BERTH_OK) return status;
    llm_sampler* sampler = llm_alloc_zeroed(1, sizeof *sampler);
    if (sampler == NULL) return llm_fail_memory(error, "a sampler");
    sampler->options = *options;
    sampler->random_state = options->seed;
    sampler->token_count = token_count;
    sampler->heap = llm_alloc(token_count, sizeof *sampler->heap);
    sampler->kept = llm_alloc(token_count, sizeof *sampler->kept);
    sampler->weights = llm_alloc(token_count, sizeof *sampler->weights);
    sampler->adjusted = llm_alloc(token_count, sizeof *sampler->adjusted);
    sampler->times = llm_alloc_zeroed(token_count, sizeof *sampler->times);
    if (sampler->heap == NULL || sampler->kept == NULL || sampler->weights == NULL ||
        sampler->adjusted == NULL || sampler->times == NULL) {
        llm_sampler_destroy(sampler);
        return llm_fail_memory(error, "a sampler");
    }
    *out_sampler = sampler;
    return BERTH_OK;
}

void llm_sampler_destroy(llm_sampler* sampler) {
    if (sampler == NULL) return;
    llm_free(sampler->heap);
    llm_free(sampler->kept);
    llm_free(sampler->weights);
    llm_free(sampler->adjusted);
    llm_free(sampler->times);
    llm_free(sampler);
}

int32_t llm_sampler_pick(llm_sampler* sampler,
                         const int32_t* answer,
                         size_t answer_count,
                         const float* logits) {
    const float* row = adjust(sampler, answer, answer_count, logits);
    int32_t likeliest = pick_greedy(row, sampler->token_count);
    bool is_greedy = !(sampler->options.temperature > 0);
    // an infinite logit leaves nothing to weigh
    if (likeliest < 0 || is_greedy || isinf(row[likeliest])) return likeliest;
    float best = row[likeliest];
    fill_heap(sampler, row);
    size_t count = keep_top_k(sampler);
    double sum = weigh_kept(sampler, count, best);
    if (sampler->options.min_p > 0) count = keep_min_p(sampler, count, &sum);
    if (sampler->options.top_p < 1) count = keep_top_p(sampler, count, best, &sum);
    double left = random_share(sampler) * sum;
    int32_t chosen = likeliest;
    for (size_t i = 0; i < count && left >= 0; i++) {
        if (!(sampler->weights[i] > 0)) continue; // rounding must not reach what cannot happen
        left -= sampler->weights[i];
        chosen = sampler->kept[i].id;
    }
    return chosen;
}

int32_t llm_sampler_pick_as(llm_sampler* sampler,
                            const llm_sampler_options* options,
                            uint64_t* random_state,
                            const int32_t* answer,
                            size_t answer_count,
                            const float* logits) {
    const llm_sampler_options own = sampler->options;
    const uint64_t own_state = sampler->random_state;
    sampler->options = *options;
    sampler->random_state = *random_state;
    int32_t id = llm_sampler_pick(sampler, answer, answer_count, logits);
    *random_state = sampler->random_state;
    sampler->options = own;
    sampler->random_state = own_state;
    return id;
}
