// SPDX-License-Identifier: Apache-2.0
// Tests of the sampler: greedy choice and ties, the cuts of top-k, min-p and top-p, shares, bias
// and penalties, seeds.
#include "llm/llm_kit.h"

#include "sampler.h"

#include <math.h>

enum { DRAWS = 20000 };

static llm_sampler* make_of(const llm_sampler_options* options, size_t n) {
    llm_sampler* sampler;
    llm_error error;
    if (llm_sampler_create(options, n, &sampler, &error) != BERTH_OK) fail_msg("%s", error.text);
    return sampler;
}

static llm_sampler* make(float temperature, int32_t top_k, float top_p, uint64_t seed, size_t n) {
    llm_sampler_options options = {
        .temperature = temperature, .top_k = top_k, .top_p = top_p, .seed = seed};
    return make_of(&options, n);
}

/// Draws many times from one row and counts each id.
static void count_draws(llm_sampler* sampler, const float* logits, size_t n, unsigned* counts) {
    memset(counts, 0, n * sizeof *counts);
    for (int i = 0; i < DRAWS; i++) {
        int32_t id = llm_sampler_pick(sampler, NULL, 0, logits);
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
    assert_int_equal(llm_sampler_pick(sampler, NULL, 0, logits), 2);
    const float equal[] = {0, -0.0f, 0, 0, 0};
    assert_int_equal(llm_sampler_pick(sampler, NULL, 0, equal), 0);
    llm_sampler_destroy(sampler);
}

static void logits_that_are_no_number_are_never_chosen(void** state) {
    (void)state;
    const float some[] = {NAN, 1, NAN};
    const float none[] = {NAN, NAN, NAN};
    for (int i = 0; i < 2; i++) {
        llm_sampler* sampler = make(i == 0 ? 0 : 1, 0, 1, 3, 3);
        assert_int_equal(llm_sampler_pick(sampler, NULL, 0, some), 1);
        assert_int_equal(llm_sampler_pick(sampler, NULL, 0, none), -1);
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
        assert_int_equal(llm_sampler_pick(sampler, NULL, 0, high), 1);
        assert_int_equal(llm_sampler_pick(sampler, NULL, 0, low), 0);
        assert_int_equal(llm_sampler_pick(sampler, NULL, 0, one), 1);
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

static void min_p_keeps_what_has_its_share_of_the_likeliest(void** state) {
    (void)state;
    // shares 0.1, 0.2, 0.3, 0.4, and beside the likeliest 0.25, 0.5, 0.75, 1
    const float logits[] = {logf(1), logf(2), logf(3), logf(4)};
    static const struct {
        float min_p, top_p;
        int32_t top_k;
        unsigned kept;
    } cases[] = {{0.2F, 1, 0, 4},
                 {0.3F, 1, 0, 3},
                 {0.7F, 1, 0, 2},
                 {1, 1, 0, 1},
                 {0.3F, 1, 2, 2},
                 // of the three that are left the likeliest two have 7/9
                 {0.3F, 0.77F, 0, 2},
                 {0.3F, 0.79F, 0, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        llm_sampler_options options = {.temperature = 1,
                                       .min_p = cases[i].min_p,
                                       .top_p = cases[i].top_p,
                                       .top_k = cases[i].top_k,
                                       .seed = 9};
        unsigned counts[4], kept = 0;
        count_draws(make_of(&options, 4), logits, 4, counts);
        for (size_t j = 0; j < 4; j++)
            kept += counts[j] > 0;
        assert_int_equal(kept, cases[i].kept);
    }
}

static void bias_moves_a_choice_greedy_or_not(void** state) {
    (void)state;
    const float logits[] = {0, 1, NAN, 2};
    // both of the last two count, and what is no number stays so
    const llm_logit_bias bias[] = {{3, -100}, {2, 100}, {0, 1}, {0, 0.5F}};
    for (int round = 0; round < 2; round++) {
        llm_sampler_options options = {.temperature = round == 0 ? 0 : 0.001F,
                                       .top_p = 1,
                                       .logit_bias = bias,
                                       .logit_bias_count = 4};
        llm_sampler* sampler = make_of(&options, 4);
        for (int i = 0; i < 50; i++)
            assert_int_equal(llm_sampler_pick(sampler, NULL, 0, logits), 0);
        llm_sampler_destroy(sampler);
    }
}

static void penalties_count_what_the_answer_has(void** state) {
    (void)state;
    const float logits[] = {1, 0.95F, 0.5F, 0};
    static const struct {
        float presence, frequency;
        int32_t answer[3];
        size_t count;
        int32_t choice;
    } cases[] = {
        {0, 0, {0, 0, 0}, 3, 0},
        {0.1F, 0, {0}, 1, 1},
        {0.1F, 0, {0, 0, 1}, 3, 0}, // once, however often
        {0, 0.1F, {0, 0, 1}, 3, 1}, // 0.8, 0.85, 0.5
        {0, 0.3F, {0, 0, 1}, 3, 1}, // 0.4, 0.65, 0.5
        {0.25F, 0.3F, {0, 1, 1}, 3, 2},
        {-1, 0, {2}, 1, 2}, // below zero they repeat
        {2, 2, {0}, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int round = 0; round < 2; round++) {
            llm_sampler_options options = {.temperature = round == 0 ? 0 : 0.001F,
                                           .top_p = 1,
                                           .presence_penalty = cases[i].presence,
                                           .frequency_penalty = cases[i].frequency};
            llm_sampler* sampler = make_of(&options, 4);
            for (int again = 0; again < 3; again++)
                assert_int_equal(llm_sampler_pick(sampler, cases[i].answer, cases[i].count, logits),
                                 cases[i].choice);
            llm_sampler_destroy(sampler);
        }
    }
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
        int32_t id = llm_sampler_pick(a, NULL, 0, logits);
        assert_int_equal(llm_sampler_pick(b, NULL, 0, logits), id);
        differ += llm_sampler_pick(c, NULL, 0, logits) != id;
    }
    assert_true(differ > 100);
    llm_sampler_destroy(a);
    llm_sampler_destroy(b);
    llm_sampler_destroy(c);
}

static void one_sampler_lends_its_room_to_answers_of_their_own_seeds(void** state) {
    (void)state;
    const llm_sampler_options options[] = {
        {.temperature = 1, .top_p = 1, .seed = 5},
        {.temperature = 2, .top_k = 3, .top_p = 0.9f, .seed = 6}};
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
        assert_int_equal(llm_sampler_pick_as(shared, &options[who], &states[who], NULL, 0, logits),
                         llm_sampler_pick(own[who], NULL, 0, logits));
    }
    llm_sampler_destroy(shared);
    llm_sampler_destroy(own[0]);
    llm_sampler_destroy(own[1]);
}

static void options_out_of_range_are_named(void** state) {
    (void)state;
    static const llm_logit_bias bias[] = {{4, 0}, {-1, 0}, {1, 101}, {1, NAN}};
    static const llm_logit_bias many[LLM_MOST_LOGIT_BIASES + 1];
    static const struct {
        llm_sampler_options options;
        const char* mention;
    } cases[] = {
        {{.temperature = -1, .top_p = 1}, "temperature is -1"},
        {{.temperature = NAN, .top_p = 1}, "temperature"},
        {{.temperature = INFINITY, .top_p = 1}, "temperature is inf"},
        {{.top_k = -2, .top_p = 1}, "top-k is -2"},
        {{.top_p = 0}, "top-p is 0"},
        {{.top_p = 1.5f}, "top-p is 1.5"},
        {{.top_p = NAN}, "top-p"},
        {{.top_p = 1, .min_p = -0.5f}, "min-p is -0.5"},
        {{.top_p = 1, .min_p = NAN}, "min-p"},
        {{.top_p = 1, .presence_penalty = 2.5f}, "presence penalty is 2.5"},
        {{.top_p = 1, .frequency_penalty = NAN}, "frequency penalty"},
        {{.top_p = 1, .logit_bias_count = 1}, "without its tokens"},
        {{.top_p = 1, .logit_bias = many, .logit_bias_count = 301}, "301 tokens; it may have 300"},
        {{.top_p = 1, .logit_bias = &bias[0], .logit_bias_count = 1}, "token 4, which is not in"},
        {{.top_p = 1, .logit_bias = &bias[1], .logit_bias_count = 1}, "token -1, which is not in"},
        {{.top_p = 1, .logit_bias = &bias[2], .logit_bias_count = 1}, "token 1 is 101"},
        {{.top_p = 1, .logit_bias = &bias[3], .logit_bias_count = 1}, "logit bias of token 1"},
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
    llm_sampler_options options = {.temperature = 1, .top_p = 1};
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
        cmocka_unit_test(min_p_keeps_what_has_its_share_of_the_likeliest),
        cmocka_unit_test(bias_moves_a_choice_greedy_or_not),
        cmocka_unit_test(penalties_count_what_the_answer_has),
        cmocka_unit_test(the_same_seed_gives_the_same_choices),
        cmocka_unit_test(one_sampler_lends_its_room_to_answers_of_their_own_seeds),
        cmocka_unit_test(options_out_of_range_are_named),
        cmocka_unit_test(a_sampler_without_memory_is_not_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
