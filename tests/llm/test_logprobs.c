// SPDX-License-Identifier: Apache-2.0
// Tests of log probabilities: exact shares, order and ties, and logits that are no numbers.
#include "llm/llm_kit.h"

#include "kit/random.h"
#include "logprobs.h"

#include <math.h>
#include <stdlib.h>

static void shares_are_those_of_the_softmax(void** state) {
    (void)state;
    // shares 0.1, 0.2, 0.3, 0.4
    const float logits[] = {logf(1), logf(2), logf(3), logf(4)};
    for (int32_t id = 0; id < 4; id++) {
        llm_token_logprob top[4];
        const float logprob = llm_logprobs(logits, 4, id, top, 4);
        assert_true(fabs(exp((double)logprob) - 0.1 * (id + 1)) < 1e-6);
        for (int32_t at = 0; at < 4; at++) {
            assert_int_equal(top[at].id, 3 - at);
            assert_true(fabs(exp((double)top[at].logprob) - 0.1 * (4 - at)) < 1e-6);
        }
    }
}

static void large_logits_lose_nothing(void** state) {
    (void)state;
    const float logits[] = {20000, 20001, 19000};
    llm_token_logprob top[2];
    const double sum = log(1 + exp(-1.0));
    assert_true(fabs((double)llm_logprobs(logits, 3, 0, top, 2) + 1 + sum) < 1e-6);
    assert_true(fabs((double)top[0].logprob + sum) < 1e-6);
    assert_true(fabs((double)llm_logprobs(logits, 3, 2, NULL, 0) + 1001 + sum) < 1e-3);
}

static int by_logit(const void* a, const void* b) {
    const llm_token_logprob* l = a;
    const llm_token_logprob* r = b;
    if (l->logprob != r->logprob) return l->logprob > r->logprob ? -1 : 1;
    return (l->id > r->id) - (l->id < r->id);
}

static void the_likeliest_are_those_of_a_sorted_vocabulary(void** state) {
    (void)state;
    enum { VOCAB = 500 };
    test_random random = test_random_make(3);
    for (int round = 0; round < 50; round++) {
        float logits[VOCAB];
        llm_token_logprob sorted[VOCAB];
        double sum = 0;
        for (int32_t i = 0; i < VOCAB; i++) {
            // few different values, so that many are equal
            logits[i] = (float)test_random_below(&random, 40) * 0.5F;
            sorted[i] = (llm_token_logprob){i, logits[i]};
            sum += exp((double)logits[i]);
        }
        qsort(sorted, VOCAB, sizeof *sorted, by_logit);
        llm_token_logprob top[LLM_MOST_TOP_LOGPROBS];
        const size_t count = 1 + test_random_below(&random, LLM_MOST_TOP_LOGPROBS);
        llm_logprobs(logits, VOCAB, 0, top, count);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(top[i].id, sorted[i].id);
            assert_true(fabs((double)top[i].logprob - ((double)sorted[i].logprob - log(sum))) <
                        1e-5);
        }
    }
}

static void what_cannot_happen_has_the_least_number(void** state) {
    (void)state;
    const float some[] = {NAN, 0, -INFINITY, 0, -30000};
    llm_token_logprob top[5];
    assert_true(fabs((double)llm_logprobs(some, 5, 1, top, 5) + log(2.0)) < 1e-6);
    static const int32_t order[] = {1, 3, 4, 0, 2};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(top[i].id, order[i]);
        if (i >= 2) assert_true(top[i].logprob == (float)LLM_LEAST_LOGPROB);
    }
    const float none[] = {NAN, -INFINITY, NAN};
    assert_true(llm_logprobs(none, 3, 1, top, 3) == (float)LLM_LEAST_LOGPROB);
    const float both[] = {1, INFINITY, INFINITY, -INFINITY};
    assert_true(fabs((double)llm_logprobs(both, 4, 2, top, 4) + log(2.0)) < 1e-6);
    assert_int_equal(top[0].id, 1);
    assert_true(top[2].logprob == (float)LLM_LEAST_LOGPROB);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_those_of_the_softmax),
        cmocka_unit_test(large_logits_lose_nothing),
        cmocka_unit_test(the_likeliest_are_those_of_a_sorted_vocabulary),
        cmocka_unit_test(what_cannot_happen_has_the_least_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
