// SPDX-License-Identifier: Apache-2.0
// Tests of replays: what requests hold, what is reported, simulations that repeat, and how little
// of the cache's memory is empty on recorded lengths.
#include "replay_engine.h"
#include "replay_prompts.h"
#include "replay_report.h"
#include "trace_make.h"

#include <math.h>
#include <stdio.h>

#include "llm/llm_kit.h"

static llm_request_trace trace;
static llm_error error;
static llm_replay_report report, second;

static int teardown(void** state) {
    (void)state;
    llm_request_trace_fini(&trace);
    return 0;
}

static void parse(const char* text) {
    if (llm_request_trace_parse(llm_str_of(text), "t", &trace, &error) != BERTH_OK)
        fail_msg("%s", error.text);
}

/// Makes a trace and reads it.
static void make(const char* recipe_text) {
    llm_trace_recipe recipe;
    llm_bytes text;
    llm_request_trace_fini(&trace);
    if (llm_trace_recipe_parse(recipe_text, &recipe, &error) != BERTH_OK ||
        llm_trace_make(&recipe, &text, &error) != BERTH_OK ||
        llm_request_trace_parse((llm_str){text.data, text.size}, "t", &trace, &error) != BERTH_OK)
        fail_msg("%s", error.text);
    llm_bytes_fini(&text);
}

/// A simulation of the whole trace on a model of a few kilobytes a token.
static llm_replay_setup simulation(void) {
    return (llm_replay_setup){
        .has_shape = true,
        .shape = {2, 64, 128, 4, 2, 16, 1000, 131072},
        .memory = "64M",
        .kv_dtype = BERTH_F32,
        .replay = {.trace = &trace,
                   .row_count = trace.row_count,
                   .divide = 1,
                   .speed = 1,
                   .tenants = 1,
                   .simulates = true,
                   .cost = {.fixed_ns = 1e6, .token_ns = 1e4, .key_token_ns = 10}}};
}

static void replay(const llm_replay_setup* setup, llm_replay_report* out) {
    if (llm_replay_in_mode(setup, "plan", out, &error) != BERTH_OK) fail_msg("%s", error.text);
}

// ---- Prompts.

/// Tokens that the prompts of two rows have in common from their begin on.
static int64_t common(const llm_replay_prompts* p, size_t a, size_t b) {
    int64_t at = 0;
    const int64_t a_count = llm_replay_prompt_tokens(p, a);
    const int64_t b_count = llm_replay_prompt_tokens(p, b);
    while (at < a_count && at < b_count && llm_replay_token(p, a, at) == llm_replay_token(p, b, at))
        at++;
    return at;
}

static void prompts_share_exactly_what_their_ids_say(void** state) {
    (void)state;
    parse("{\"t_ms\":0,\"in\":40,\"out\":10,\"in_blocks\":[1,2],\"all_blocks_tail\":[3]}\n"
          "{\"t_ms\":1,\"in\":64,\"out\":10,\"in_blocks\":[1,2,3,9],\"all_blocks_tail\":[]}\n"
          "{\"t_ms\":2,\"in\":40,\"out\":10,\"in_blocks\":[1,7],\"all_blocks_tail\":[8]}\n"
          "{\"t_ms\":3,\"in\":40,\"out\":10,\"in_blocks\":[5,2],\"all_blocks_tail\":[8]}\n");
    // so many ids that nothing agrees by chance here
    const llm_replay_prompts p = {.trace = &trace, .vocab_tokens = 1 << 30, .divide = 1};
    assert_int_equal(common(&p, 0, 1), 40); // block 3 is in both, begun in one
    assert_int_equal(common(&p, 0, 2), 16);
    assert_int_equal(common(&p, 1, 2), 16);
    assert_int_equal(common(&p, 0, 3), 0);
    // the first row's answer goes on as the second row's prompt does, to the end of block 3
    for (int64_t at = 40; at < 48; at++)
        assert_int_equal(llm_replay_token(&p, 0, at), llm_replay_token(&p, 1, at));
    assert_int_not_equal(llm_replay_token(&p, 0, 48), llm_replay_token(&p, 1, 48));
    assert_true(llm_replay_has_answers(&trace));
}

static void divided_prompts_share_a_divided_part(void** state) {
    (void)state;
    parse("{\"t_ms\":0,\"in\":48,\"out\":3,\"in_blocks\":[1,2,3],\"all_blocks_tail\":[]}\n"
          "{\"t_ms\":1,\"in\":48,\"out\":9,\"in_blocks\":[1,2,4],\"all_blocks_tail\":[]}\n");
    const llm_replay_prompts p = {.trace = &trace, .vocab_tokens = 1 << 30, .divide = 4};
    assert_int_equal(llm_replay_prompt_tokens(&p, 0), 12);
    assert_int_equal(llm_replay_answer_tokens(&p, 0), 1);
    assert_int_equal(llm_replay_answer_tokens(&p, 1), 2);
    assert_int_equal(common(&p, 0, 1), 8);
}

static void an_id_of_a_begun_block_says_nothing_of_the_answer(void** state) {
    (void)state;
    parse("{\"timestamp\":0,\"input_length\":600,\"output_length\":9,\"hash_ids\":[0,1]}\n"
          "{\"timestamp\":1,\"input_length\":600,\"output_length\":9,\"hash_ids\":[0,1]}\n");
    const llm_replay_prompts p = {.trace = &trace, .vocab_tokens = 1 << 30, .divide = 1};
    assert_int_equal(common(&p, 0, 1), 600);
    assert_int_not_equal(llm_replay_token(&p, 0, 600), llm_replay_token(&p, 1, 600));
    assert_false(llm_replay_has_answers(&trace));
}

static void requests_without_ids_share_nothing(void** state) {
    (void)state;
    parse("num_prefill_tokens,num_decode_tokens\n20,1\n20,1\n");
    const llm_replay_prompts p = {.trace = &trace, .vocab_tokens = 1 << 30, .divide = 1};
    assert_int_equal(common(&p, 0, 1), 0);
    int32_t ids[20];
    llm_replay_write_prompt(&p, 1, ids);
    for (int64_t at = 0; at < 20; at++)
        assert_int_equal(ids[at], llm_replay_token(&p, 1, at));
    const llm_replay_prompts small = {.trace = &trace, .vocab_tokens = 5, .divide = 1};
    for (int64_t at = 0; at < 20; at++)
        assert_in_range(llm_replay_token(&small, 0, at), 0, 4);
}

// ---- Reports.

static void percentiles_are_values_that_so_many_per_cent_keep_within(void** state) {
    (void)state;
    double hundred[100];
    for (int i = 0; i < 100; i++)
        hundred[i] = 100 - i;
    llm_replay_times t = llm_replay_times_of(hundred, 100);
    assert_int_equal(t.count, 100);
    assert_true(t.p50_ms == 50 && t.p90_ms == 90 && t.p99_ms == 99 && t.max_ms == 100);
    double three[] = {7, 5, 6};
    t = llm_replay_times_of(three, 3);
    assert_true(t.p50_ms == 6 && t.p90_ms == 7 && t.p99_ms == 7);
    double one[] = {4};
    t = llm_replay_times_of(one, 1);
    assert_true(t.p50_ms == 4 && t.p99_ms == 4 && t.max_ms == 4);
    t = llm_replay_times_of(NULL, 0);
    assert_true(t.count == 0 && t.p99_ms == 0);
}

static void assert_near(double value, double wanted) {
    if (!(fabs(value - wanted) <= 1e-3)) fail_msg("%.6f instead of %.6f", value, wanted);
}

static void times_follow_from_what_steps_cost(void** state) {
    (void)state;
    // one prompt of 100 tokens in one step, then nine steps with a token each, a second apart
    parse("TIMESTAMP,ContextTokens,GeneratedTokens\n"
          "2024-01-01 00:00:00,100,10\n"
          "2024-01-01 00:00:01,100,10\n");
    llm_replay_setup setup = simulation();
    setup.replay.cost = (llm_step_cost){.fixed_ns = 2e6, .token_ns = 1e5};
    replay(&setup, &report);
    assert_int_equal(report.ends[LLM_END_LIMIT], 2);
    assert_int_equal(report.prompt_tokens, 200);
    assert_int_equal(report.answer_tokens, 20);
    assert_near(report.queue.max_ms, 0);
    assert_near(report.first.p50_ms, 12.0); // 2 ms and 100 tokens of 0.1 ms
    assert_near(report.first.max_ms, 12.0);
    assert_near(report.token.p50_ms, 2.1);
    assert_near(report.seconds, 1.0 + 0.012 + 9 * 0.0021);
    assert_int_equal(report.scheduler.steps, 20);
    // twice the speed: the second comes at half a second
    setup.replay.speed = 2.0;
    replay(&setup, &report);
    assert_near(report.seconds, 0.5 + 0.012 + 9 * 0.0021);
}

static void a_simulation_repeats(void** state) {
    (void)state;
    make("chat:requests=60,rate=40,most_tokens=1000");
    llm_replay_setup setup = simulation();
    setup.memory = NULL;
    replay(&setup, &report);
    replay(&setup, &second);
    assert_int_equal(report.ends[LLM_END_LIMIT], 60);
    assert_true(report.seconds == second.seconds && report.first.p99_ms == second.first.p99_ms);
    assert_true(report.token.p50_ms == second.token.p50_ms);
    assert_int_equal(report.peak_bytes, second.peak_bytes);
    assert_int_equal(report.scheduler.steps, second.scheduler.steps);
    assert_int_equal(report.kv.hit_tokens, second.kv.hit_tokens);
    assert_int_equal(report.sample_count, second.sample_count);
    assert_memory_equal(
        report.samples, second.samples, report.sample_count * sizeof *report.samples);
    assert_true(llm_replay_hit_ratio(&report) > 0.3); // turns find what was said before
    assert_true(llm_replay_coverage(&report) > 0.5);
    assert_true(llm_replay_hit_ratio(&report) <= 1 && llm_replay_coverage(&report) <= 1);
}

static void what_can_never_fit_is_refused_and_the_rest_is_answered(void** state) {
    (void)state;
    parse("num_prefill_tokens,num_decode_tokens\n50,5\n140000,5\n60,5\n");
    llm_replay_setup setup = simulation();
    setup.replay.speed = 0;
    replay(&setup, &report);
    assert_int_equal(report.ends[LLM_END_LIMIT], 2);
    assert_int_equal(report.ends[LLM_END_REFUSED_TOO_LARGE], 1);
    assert_mentions(&report.first_error, "140005 tokens"); // and says so in its text
    assert_int_equal(report.prompt_tokens, 110);
}

static void what_comes_in_thousands_of_years_comes_last(void** state) {
    (void)state;
    parse("session,round,start_ms,input_tokens,prefix_tokens,output_tokens\n"
          "0,0,1125899906842624,16,0,5\n"
          "1,0,0,16,0,5\n");
    llm_replay_setup setup = simulation();
    replay(&setup, &report);
    assert_int_equal(report.ends[LLM_END_LIMIT], 2);
    assert_true(report.seconds > 1e9);
    setup.replay.cost.token_ns = 1e15;
    setup.replay.cost.key_token_ns = 1e15;
    setup.replay.cost.fixed_ns = 9e18;
    replay(&setup, &report);
    assert_int_equal(report.ends[LLM_END_LIMIT], 2);
}

static void a_stopped_replay_reports_what_there_is(void** state) {
    (void)state;
    parse("num_prefill_tokens,num_decode_tokens\n50,5\n60,5\n");
    const volatile sig_atomic_t stop = 1;
    llm_replay_setup setup = simulation();
    setup.replay.speed = 0;
    setup.replay.stop = &stop;
    replay(&setup, &report);
    assert_true(report.was_stopped);
    assert_int_equal(report.answer_tokens, 0);
    assert_true(report.sample_count > 0);
}

static void wrong_options_are_refused_by_name(void** state) {
    (void)state;
    parse("num_prefill_tokens,num_decode_tokens\n50,5\n");
    llm_replay_setup setup = simulation();
    assert_int_equal(llm_replay_in_mode(&setup, NULL, &report, &error), BERTH_ERR_INVALID_ARGUMENT);
    assert_mentions(&error, "does not say when");
    setup.replay.speed = 0;
    setup.replay.row_count = 2;
    assert_int_equal(llm_replay_in_mode(&setup, NULL, &report, &error), BERTH_ERR_INVALID_ARGUMENT);
    assert_mentions(&error, "the trace has 1");
    setup.replay.row_count = 1;
    setup.replay.divide = 0;
    assert_int_equal(llm_replay_in_mode(&setup, NULL, &report, &error), BERTH_ERR_INVALID_ARGUMENT);
    assert_mentions(&error, "divisor of 0");
    setup.replay.divide = 1;
    setup.replay.simulates = false; // the CPU would read the weights
    assert_int_equal(llm_replay_in_mode(&setup, NULL, &report, &error), BERTH_ERR_UNSUPPORTED);
    assert_mentions(&error, "dry");
    llm_shape shape;
    assert_int_equal(llm_shape_parse("8b", &shape, &error), BERTH_ERR_INVALID_ARGUMENT);
    assert_int_equal(llm_shape_parse("1,2,3,4,3,8,9,9", &shape, &error),
                     BERTH_ERR_INVALID_ARGUMENT);
    assert_int_equal(llm_shape_parse("llama-8b", &shape, &error), BERTH_OK);
    assert_int_equal(shape.layers, 32);
}

static void every_failing_allocation_is_reported_and_leaves_nothing(void** state) {
    (void)state;
    parse("num_prefill_tokens,num_decode_tokens\n5,2\n6,2\n");
    llm_replay_setup setup = simulation();
    setup.replay.speed = 0;
    alloc_watch watch;
    for (uint64_t at = 1;; at++) {
        watch_begin(&watch, at);
        const berth_status status = llm_replay_in_mode(&setup, NULL, &report, &error);
        watch_end();
        if (status == BERTH_OK && watch.calls < at) break;
        if (status != BERTH_OK) assert_int_equal(status, BERTH_ERR_OUT_OF_MEMORY);
        assert_true(at < 1000);
    }
}

static void json_has_what_the_text_has(void** state) {
    (void)state;
    parse("num_prefill_tokens,num_decode_tokens\n50,5\n60,5\n");
    llm_replay_setup setup = simulation();
    setup.replay.speed = 0;
    replay(&setup, &report);
    char* text = NULL;
    size_t size = 0;
    FILE* file = open_memstream(&text, &size);
    assert_non_null(file);
    const char* const modes[] = {"plan"};
    llm_replay_report_write_json(file, &report, modes, 1);
    llm_replay_report_print(file, &report);
    llm_replay_report_print_compared(file, &report, modes, 1);
    fclose(file);
    static const char* const wanted[] = {"{\"modes\":[\n{\"mode\":\"plan\",",
                                         "\"answer_tokens\":10,",
                                         "\"ends\":{\"limit\":2,",
                                         "\"ttft\":{\"count\":2,",
                                         "\"series\":[{\"time_ms\":",
                                         "Simulated 2 of 2 requests",
                                         "to the first token"};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (strstr(text, wanted[i]) == NULL) fail_msg("%s is not in %s", wanted[i], text);
    free(text);
}

// ---- Recorded lengths.

/// Asserts that at most one in a hundred places for tokens that requests hold is empty.
static void assert_little_waste(const char* name, size_t rows) {
    char path[1024];
    snprintf(path, sizeof path, "%s/data/traces/%s", shared_data_folder(name), name);
    llm_request_trace_fini(&trace);
    if (llm_request_trace_read(path, &trace, &error) != BERTH_OK) fail_msg("%s", error.text);
    llm_replay_setup setup = simulation();
    setup.memory = "8G";
    setup.replay.speed = 0;
    if (rows < setup.replay.row_count) setup.replay.row_count = rows;
    setup.replay.scheduler.step_tokens = 4096;
    replay(&setup, &report);
    assert_int_equal(report.ends[LLM_END_LIMIT], setup.replay.row_count);
    const double waste = llm_replay_waste(&report);
    print_message("%s: %.2f %% of held places are empty\n", name, 100 * waste);
    if (!(waste <= 0.01)) fail_msg("%s: %.4f of held places are empty", name, waste);
}

static void little_of_the_cache_is_empty_on_recorded_lengths(void** state) {
    (void)state;
    assert_little_waste("azure2023_conv.csv", 150);
    assert_little_waste("azure2023_code.csv", 150);
    assert_little_waste("sharegpt_8k_lengths.csv", 100);
    assert_little_waste("arxiv_long.csv", 12);
}

// ---- Made traces.

static void a_made_trace_repeats_and_keeps_its_limits(void** state) {
    (void)state;
    llm_trace_recipe recipe;
    assert_int_equal(
        llm_trace_recipe_parse("chat:requests=300,most_tokens=500,seed=3", &recipe, &error),
        BERTH_OK);
    llm_bytes a, b;
    assert_int_equal(llm_trace_make(&recipe, &a, &error), BERTH_OK);
    assert_int_equal(llm_trace_make(&recipe, &b, &error), BERTH_OK);
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.data, b.data, a.size);
    llm_bytes_fini(&a);
    llm_bytes_fini(&b);
    make("chat:requests=300,most_tokens=500,seed=3");
    assert_int_equal(trace.row_count, 300);
    assert_int_equal(trace.format, LLM_TRACE_BLOCKS);
    for (size_t i = 0; i < trace.row_count; i++) {
        const llm_trace_row* r = &trace.rows[i];
        assert_true(r->prompt_tokens >= 49 && r->answer_tokens >= 1);
        assert_true(r->prompt_tokens + r->answer_tokens <= 500);
        assert_true(i == 0 || r->arrival_ms >= trace.rows[i - 1].arrival_ms);
    }
}

static void made_lengths_and_arrivals_have_the_documented_spread(void** state) {
    (void)state;
    make("single:requests=4000,message_median=50,message_sigma=0.5,rate=4,most_tokens=100000");
    double* prompts = malloc(trace.row_count * sizeof *prompts);
    assert_non_null(prompts);
    for (size_t i = 0; i < trace.row_count; i++)
        prompts[i] = (double)trace.rows[i].prompt_tokens;
    const llm_replay_times t = llm_replay_times_of(prompts, trace.row_count);
    free(prompts);
    assert_true(fabs(t.p50_ms - 50) <= 3);
    assert_true(fabs(t.p90_ms - 95) <= 8); // 50 exp(0.5 * 1.2816)
    const double seconds = trace.rows[trace.row_count - 1].arrival_ms * 1e-3;
    assert_true(fabs(seconds - 1000) <= 80);
}

static void a_next_turn_begins_with_the_last_and_its_answer(void** state) {
    (void)state;
    make("chat:requests=40,turns=1000,systems=1,system_tokens=64,most_tokens=100000,rate=1000");
    const llm_replay_prompts p = {.trace = &trace, .vocab_tokens = 1 << 30, .divide = 1};
    // one conversation: few end before their 40th turn
    for (size_t i = 1; i < trace.row_count; i++) {
        const llm_trace_row* last = &trace.rows[i - 1];
        const int64_t whole = (last->prompt_tokens + last->answer_tokens) / 16 * 16;
        for (int64_t at = 0; at < whole; at++)
            assert_int_equal(llm_replay_token(&p, i, at), llm_replay_token(&p, i - 1, at));
    }
    make("shared:requests=30,system_tokens=64");
    for (size_t i = 1; i < trace.row_count; i++) {
        const llm_replay_prompts s = {.trace = &trace, .vocab_tokens = 1 << 30, .divide = 1};
        assert_int_equal(common(&s, 0, i), 64);
    }
}

static void wrong_recipes_are_refused_by_name(void** state) {
    (void)state;
    static const struct {
        const char* text;
        const char* part;
    } wrong[] = {{"talk", "talk"},
                 {"", "no kind"},
                 {"chat:", "no parameter"},
                 {"chat:speed=1", "speed"},
                 {"chat:rate", "rate"},
                 {"chat:rate=0", "from 1e-06"},
                 {"chat:rate=nan", "rate=nan"},
                 {"chat:rate=1x", "rate=1x"},
                 {"chat:rate=", "rate="},
                 {"chat:rate=1,,", "no parameter"}};
    llm_trace_recipe recipe;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(llm_trace_recipe_parse(wrong[i].text, &recipe, &error),
                         BERTH_ERR_INVALID_ARGUMENT);
        assert_mentions(&error, wrong[i].part);
    }
    llm_bytes text;
    assert_int_equal(
        llm_trace_recipe_parse("shared:most_tokens=100,system_tokens=99", &recipe, &error),
        BERTH_OK);
    assert_int_equal(llm_trace_make(&recipe, &text, &error), BERTH_ERR_INVALID_ARGUMENT);
    assert_mentions(&error, "system_tokens is 99");
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_teardown(name, teardown)
        TEST(prompts_share_exactly_what_their_ids_say),
        TEST(divided_prompts_share_a_divided_part),
        TEST(an_id_of_a_begun_block_says_nothing_of_the_answer),
        TEST(requests_without_ids_share_nothing),
        TEST(percentiles_are_values_that_so_many_per_cent_keep_within),
        TEST(times_follow_from_what_steps_cost),
        TEST(a_simulation_repeats),
        TEST(what_can_never_fit_is_refused_and_the_rest_is_answered),
        TEST(what_comes_in_thousands_of_years_comes_last),
        TEST(a_stopped_replay_reports_what_there_is),
        TEST(wrong_options_are_refused_by_name),
        TEST(every_failing_allocation_is_reported_and_leaves_nothing),
        TEST(json_has_what_the_text_has),
        TEST(little_of_the_cache_is_empty_on_recorded_lengths),
        TEST(a_made_trace_repeats_and_keeps_its_limits),
        TEST(made_lengths_and_arrivals_have_the_documented_spread),
        TEST(a_next_turn_begins_with_the_last_and_its_answer),
        TEST(wrong_recipes_are_refused_by_name),
#undef TEST
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
