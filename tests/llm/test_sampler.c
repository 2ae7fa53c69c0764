// SPDX-License-Identifier: Apache-2.0
// Tests of the sampler: greedy choice and ties, the cuts of top-k and top-p, shares, seeds.
#include "llm/llm_kit.h"

#include "sampler.h"

#include <math.h>

enum { DRAWS = 20000 };

static llm_sampler* make(float temperature, int32_t top_k, float top_p, uint64_t seed, size_t n) {
    llm_sampler_options options = {temperature, top_k, top_p, seed};
    llm_sampler* sampler;
    llm_error error;
    if (llm_sampler_create(&options, n, &sampler, &error) != BERTH_OK) fail_msg("%s", error.text);
    return sampler;
}

/// Draws many times from one row and counts each id.
static void count_draws(llm_sampler* sampler, const float* logits, size_t n, unsigned* counts) {
    memset(counts, 0, n * sizeof *counts);
    for (int i = 0; i < DRAWS; i++) {
        int32_t id = llm_sampler_pick(sampler, logits);
        assert_true(id >= 0 && (size_t)id < n);
        counts[id]++;
    }
    llm_sampler_destroy(sampler);
}

static void greedy_takes_the_largest_and_the_lowest_id_of_equals(void** state) {
    (void)state;
    const float logits[] = {-1, 3, 7, 7, 2};
    llm_sampler_options options = llm_sampler_options_default();
    llm_sampler* sampler;
    assert_int_equal(llm_sampler_create(&options, 5, &sampler, NULL), BERTH_OK);
    assert_int_equal(llm_sampler_pick(sampler, logits), 2);
    const float equal[] = {0, -0.0f, 0, 0, 0};
    assert_int_equal(llm_sampler_pick(sampler, equal), 0);
    llm_sampler_destroy(sampler);
}

static void logits_that_are_no_number_are_never_chosen(void** state) {
    (void)state;
    const float some[] = {NAN, 1, NAN};
    const float none[] = {NAN, NAN, NAN};
    for (int i = 0; i < 2; i++) {
        llm_sampler* sampler = make(i == 0 ? 0 : 1, 0, 1, 3, 3);
        assert_int_equal(llm_sampler_pick(sampler, some), 1);
        assert_int_equal(llm_sampler_pick(sampler, none), -1);
        llm_sampler_destroy(sampler);
    }
}

static void infinite_logits_decide(void** state) {
    (void)state;
    const float high[] = {1, INFINITY, INFINITY};
    const float low[] = {-INFINITY, -INFINITY, -INFINITY};
    const float one[] = {-INFINITY, 0, -INFINITY};
    llm_sampler* sampler = make(1, 0, 1, 3, 3);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(llm_sampler_pick(sampler, high), 1);
        assert_int_equal(llm_sampler_pick(sampler, low), 0);
        assert_int_equal(llm_sampler_pick(sampler, one), 1);
    }
    llm_sampler_destroy(sampler);
}

static void shares_follow_the_softmax_at_the_temperature(void** state) {
    (void)state;
    const float logits[] = {0, 1, -INFINITY, 2};
    static const float temperatures[] = {0.5f, 1, 3};
    for (size_t t = 0; t < 3; t++) {
        unsigned counts[4];
        count_draws(make(temperatures[t], 0, 1, 17, 4), logits, 4, counts);
        double weights[4], sum = 0;
        for (size_t i = 0; i < 4; i++) {
            weights[i] = exp((double)logits[i] / (double)temperatures[t]);
            sum += weights[i];
        }
        assert_int_equal(counts[2], 0);
        for (size_t i = 0; i < 4; i++)
            assert_true(fabs(counts[i] / (double)DRAWS - weights[i] / sum) < 0.02);
    }
}

static void top_k_keeps_the_likeliest_and_the_lowest_ids_of_equals(void** state) {
    (void)state;
    const float logits[] = {1, 2, 2, 2, 5};
    unsigned counts[5];
    count_draws(make(10, 3, 1, 4, 5), logits, 5, counts);
    assert_int_equal(counts[0], 0);
    assert_int_equal(counts[3], 0);
    assert_true(counts[1] > 0 && counts[2] > 0 && counts[4] > 0);
    count_draws(make(10, 1, 1, 4, 5), logits, 5, counts);
    assert_int_equal(counts[4], DRAWS);
    count_draws(make(10, 99, 1, 4, 5), logits, 5, counts);
    assert_true(counts[0] > 0 && counts[3] > 0);
}

static void top_p_keeps_the_fewest_that_reach_the_share(void** state) {
    (void)state;
    // shares 0.1, 0.2, 0.3, 0.4
    const float logits[] = {logf(1), logf(2), logf(3), logf(4)};
    static const struct {
        float top_p;
        unsigned kept;
    } cases[] = {{0.01f, 1}, {0.39f, 1}, {0.41f, 2}, {0.69f, 2}, {0.71f, 3}, {0.91f, 4}, {1, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned counts[4], kept = 0;
        count_draws(make(1, 0, cases[i].top_p, 9, 4), logits, 4, counts);
        for (size_t j = 0; j < 4; j++)
            kept += counts[j] > 0;
        assert_int_equal(kept, cases[i].kept);
        assert_true(counts[3] > 0);
    }
}

static void top_p_takes_its_share_of_what_top_k_left(void** state) {
    (void)state;
    const float logits[] = {logf(1), logf(2), logf(3), logf(4)};
    unsigned counts[4];
    // of 3 and 4 the share of 4 is 4/7
    count_draws(make(1, 2, 0.56f, 9, 4), logits, 4, counts);
    assert_int_equal(counts[3], DRAWS);
    count_draws(make(1, 2, 0.58f, 9, 4), logits, 4, counts);
    assert_true(counts[2] > 0);
    assert_int_equal(counts[0] + counts[1], 0);
}

static void the_same_seed_gives_the_same_choices(void** state) {
    (void)state;
    float logits[500];
    for (size_t i = 0; i < 500; i++)
        logits[i] = sinf((float)i);
    llm_sampler* a = make(1, 40, 0.95f, 123, 500);
    llm_sampler* b = make(1, 40, 0.95f, 123, 500);
    llm_sampler* c = make(1, 40, 0.95f, 124, 500);
    unsigned differ = 0;
    for (int i = 0; i < 200; i++) {
        int32_t id = llm_sampler_pick(a, logits);
        assert_int_equal(llm_sampler_pick(b, logits), id);
        differ += llm_sampler_pick(c, logits) != id;
    }
    assert_true(differ > 100);
    llm_sampler_destroy(a);
    llm_sampler_destroy(b);
    llm_sampler_destroy(c);
}

static void one_sampler_lends_its_room_to_answers_of_their_own_seeds(void** state) {
    (void)state;
    const llm_sampler_options options[] = {{1, 0, 1, 5}, {2, 3, 0.9f, 6}};
    llm_sampler *shared, *own[2];
    llm_error error;
    assert_int_equal(llm_sampler_create(&options[0], 8, &shared, &error), BERTH_OK);
    uint64_t states[2];
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(llm_sampler_create(&options[i], 8, &own[i], &error), BERTH_OK);
        states[i] = options[i].seed;
    }
    const float logits[8] = {0, 1, 2, 0.5f, 1.5f, 2.5f, 1, 0};
    for (size_t i = 0; i < 200; i++) {
        size_t who = i * 7 % 3 % 2;
        assert_int_equal(llm_sampler_pick_as(shared, &options[who], &states[who], logits),
                         llm_sampler_pick(own[who], logits));
    }
    llm_sampler_destroy(shared);
    llm_sampler_destroy(own[0]);
    llm_sampler_destroy(own[1]);
}

static void options_out_of_range_are_named(void** state) {
    (void)state;
    static const struct {
        llm_sampler_options options;
        const char* mention;
    } cases[] = {
        {{-1, 0, 1, 0}, "temperature is -1"},
        {{NAN, 0, 1, 0}, "temperature"},
        {{INFINITY, 0, 1, 0}, "temperature is inf"},
        {{1, -2, 1, 0}, "top-k is -2"},
        {{1, 0, 0, 0}, "top-p is 0"},
        {{1, 0, 1.5f, 0}, "top-p is 1.5"},
        {{1, 0, NAN, 0}, "top-p"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        llm_sampler* sampler;
        llm_error error;
        assert_int_equal(llm_sampler_create(&cases[i].options, 4, &sampler, &error),
                         BERTH_ERR_INVALID_ARGUMENT);
        assert_null(sampler);
        assert_mentions(&error, cases[i].mention);
    }
}

static void a_sampler_without_memory_is_not_made(void** state) {
    (void)state;
    llm_sampler_options options = {1, 0, 1, 0};
    for (uint64_t n = 1;; n++) {
        alloc_watch watch;
        llm_sampler* sampler;
        watch_begin(&watch, n);
        berth_status status = llm_sampler_create(&options, 100, &sampler, NULL);
        watch_end();
        bool done = watch.calls < n;
        assert_int_equal(status, done ? BERTH_OK : BERTH_ERR_OUT_OF_MEMORY);
        assert_true(done == (sampler != NULL));
        llm_sampler_destroy(sampler);
        if (done) break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_takes_the_largest_and_the_lowest_id_of_equals),
        cmocka_unit_test(logits_that_are_no_number_are_never_chosen),
        cmocka_unit_test(infinite_logits_decide),
        cmocka_unit_test(shares_follow_the_softmax_at_the_temperature),
        cmocka_unit_test(top_k_keeps_the_likeliest_and_the_lowest_ids_of_equals),
        cmocka_unit_test(top_p_keeps_the_fewest_that_reach_the_share),
        cmocka_unit_test(top_p_takes_its_share_of_what_top_k_left),
        cmocka_unit_test(the_same_seed_gives_the_same_choices),
        cmocka_unit_test(one_sampler_lends_its_room_to_answers_of_their_own_seeds),
        cmocka_unit_test(options_out_of_range_are_named),
        cmocka_unit_test(a_sampler_without_memory_is_not_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
