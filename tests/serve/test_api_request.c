// SPDX-License-Identifier: Apache-2.0
// Tests of requests read: what their members mean, which values are refused and in what words, and
// want of memory anywhere.
#include "serve/request_kit.h"

#include <float.h>
#include <math.h>

static void assert_near(float value, double wanted) {
    if (!(fabs((double)value - wanted) < 1e-6)) fail_msg("%g instead of %g", (double)value, wanted);
}

static void a_chat_that_says_nothing_has_the_defaults(void** state) {
    (void)state;
    read_body(API_CHAT, CHAT(""));
    const api_request* r = &desk.request;
    assert_int_equal(r->endpoint, API_CHAT);
    assert_int_equal(r->n, 1);
    assert_int_equal(r->prompt_count, 1);
    assert_null(r->prompt_texts);
    assert_int_equal(r->max_tokens, REQUEST_CONTEXT - (int64_t)r->prompts[0].count);
    assert_near(r->sampling.temperature, 1);
    assert_near(r->sampling.top_p, 1);
    assert_near(r->sampling.min_p, 0);
    assert_int_equal(r->sampling.top_k, 0);
    assert_int_equal(r->sampling.logit_bias_count, 0);
    assert_false(r->wants_logprobs || r->ignores_stop || r->echoes || r->streams);
    assert_int_equal(r->stop_count, 0);
    assert_int_equal(r->user.size, 0);
}

static void a_completion_that_says_nothing_has_the_usual_length(void** state) {
    (void)state;
    read_body(API_COMPLETION, COMPLETION(""));
    assert_int_equal(desk.request.endpoint, API_COMPLETION);
    assert_int_equal(desk.request.max_tokens, API_COMPLETION_TOKENS);
    desk.reader.context_tokens = 5;
    read_body(API_COMPLETION, COMPLETION(""));
    assert_int_equal(desk.request.max_tokens, 3);
}

static void members_that_are_null_or_unknown_say_nothing(void** state) {
    (void)state;
    read_body(API_CHAT,
              CHAT("\"n\":null,\"stop\":null,\"seed\":null,\"temperature\":null,\"top_p\":null,"
                   "\"max_tokens\":null,\"logit_bias\":null,\"logprobs\":null,\"stream\":null,"
                   "\"stream_options\":null,\"user\":null,\"model\":null,\"tools\":null,"
                   "\"top_logprobs\":null,\"new_thing\":{\"a\":[1,2]},"));
    assert_int_equal(desk.request.n, 1);
    assert_near(desk.request.sampling.temperature, 1);
}

static void sampling_is_as_asked(void** state) {
    (void)state;
    read_body(API_CHAT,
              CHAT("\"temperature\":0.25,\"top_p\":0.5,\"top_k\":40,\"min_p\":0.125,"
                   "\"presence_penalty\":-2,\"frequency_penalty\":1.5,\"seed\":42,"
                   "\"logit_bias\":{\"5\":-100,\"258\":1.5},"));
    const llm_sampler_options* sampling = &desk.request.sampling;
    assert_near(sampling->temperature, 0.25);
    assert_near(sampling->top_p, 0.5);
    assert_int_equal(sampling->top_k, 40);
    assert_near(sampling->min_p, 0.125);
    assert_near(sampling->presence_penalty, -2);
    assert_near(sampling->frequency_penalty, 1.5);
    assert_int_equal(sampling->seed, 42);
    assert_int_equal(sampling->logit_bias_count, 2);
    assert_ptr_equal(sampling->logit_bias, desk.request.logit_bias);
    assert_int_equal(sampling->logit_bias[0].id, 5);
    assert_near(sampling->logit_bias[0].bias, -100);
    assert_int_equal(sampling->logit_bias[1].id, 258);
    assert_near(sampling->logit_bias[1].bias, 1.5);
}

/// All that is read can be sampled with, at the ends of the ranges too.
static void the_ends_of_ranges_are_valid_options(void** state) {
    (void)state;
    static const char* const bodies[] = {
        CHAT("\"temperature\":0,\"top_p\":0,\"top_k\":-1,\"min_p\":0,\"presence_penalty\":-2,"
             "\"frequency_penalty\":-2,"),
        CHAT("\"temperature\":2,\"top_p\":1,\"top_k\":2147483647,\"min_p\":1,"
             "\"presence_penalty\":2,\"frequency_penalty\":2.0,\"logit_bias\":{\"0\":100},"),
    };
    for (int i = 0; i < 2; i++) {
        read_body(API_CHAT, bodies[i]);
        llm_error error;
        if (llm_sampler_check(&desk.request.sampling, 259, &error) != BERTH_OK)
            fail_msg("%s", error.text);
    }
    read_body(API_CHAT, bodies[0]);
    assert_int_equal(desk.request.sampling.top_k, 0);
    assert_true(desk.request.sampling.top_p > 0);
}

static void seeds_may_be_any_integer(void** state) {
    (void)state;
    read_body(API_CHAT, CHAT("\"seed\":-1,"));
    assert_true(desk.request.sampling.seed == UINT64_MAX);
    read_body(API_CHAT, CHAT("\"seed\":9223372036854775807,"));
    assert_true(desk.request.sampling.seed == INT64_MAX);
    ASSERT_BOTH_REFUSE("\"seed\":9223372036854775808,",
                       "seed",
                       "\"seed\" is 9.22337e+18; it must be a whole number from "
                       "-9223372036854775808 to 9223372036854775807");
}

static void requests_without_a_seed_have_random_ones(void** state) {
    (void)state;
    read_body(API_CHAT, CHAT(""));
    const uint64_t first = desk.request.sampling.seed;
    read_body(API_CHAT, CHAT("\"seed\":null,"));
    assert_true(desk.request.sampling.seed != first);
}

static void numbers_out_of_range_are_refused_with_the_range(void** state) {
    (void)state;
    ASSERT_BOTH_REFUSE("\"n\":0,", "n", "\"n\" is 0; it must be a whole number from 1 to 128");
    ASSERT_BOTH_REFUSE("\"n\":129,", "n", "from 1 to 128");
    ASSERT_BOTH_REFUSE("\"n\":1.5,", "n", "\"n\" is 1.5;");
    ASSERT_BOTH_REFUSE("\"n\":\"2\",", "n", "\"n\" is a text;");
    ASSERT_BOTH_REFUSE("\"n\":true,", "n", "\"n\" is true;");
    ASSERT_BOTH_REFUSE("\"n\":99999999999999999999999,", "n", "\"n\" is 1e+23;");
    ASSERT_BOTH_REFUSE("\"temperature\":2.01,",
                       "temperature",
                       "\"temperature\" is 2.01; it must be a number from 0 to 2");
    ASSERT_BOTH_REFUSE("\"temperature\":-1,", "temperature", "from 0 to 2");
    ASSERT_BOTH_REFUSE("\"top_p\":1.1,", "top_p", "from 0 to 1");
    ASSERT_BOTH_REFUSE("\"top_k\":-2,", "top_k", "from -1 to 2147483647");
    ASSERT_BOTH_REFUSE("\"min_p\":[0],", "min_p", "\"min_p\" is a list;");
    ASSERT_BOTH_REFUSE("\"presence_penalty\":3,", "presence_penalty", "from -2 to 2");
    ASSERT_BOTH_REFUSE("\"frequency_penalty\":{},", "frequency_penalty", "is an object;");
    ASSERT_BOTH_REFUSE("\"max_tokens\":0,", "max_tokens", "whole number from 1 to");
    ASSERT_BOTH_REFUSE("\"stream\":1,", "stream", "\"stream\" is 1; it must be true or false");
    ASSERT_BOTH_REFUSE("\"user\":7,", "user", "must be a text");
    ASSERT_BOTH_REFUSE("\"ignore_eos\":\"no\",", "ignore_eos", "true or false");
}

static void a_whole_number_may_be_written_with_a_point(void** state) {
    (void)state;
    read_body(API_CHAT, CHAT("\"n\":2.0,\"max_tokens\":3e0,"));
    assert_int_equal(desk.request.n, 2);
    assert_int_equal(desk.request.max_tokens, 3);
}

static void biases_name_tokens_of_the_vocabulary(void** state) {
    (void)state;
    ASSERT_BOTH_REFUSE("\"logit_bias\":{\"259\":1},",
                       "logit_bias",
                       "\"logit_bias\" has \"259\", which is no token id from 0 to 258");
    ASSERT_BOTH_REFUSE("\"logit_bias\":{\"-1\":1},", "logit_bias", "\"-1\"");
    ASSERT_BOTH_REFUSE("\"logit_bias\":{\"\":1},", "logit_bias", "\"\"");
    ASSERT_BOTH_REFUSE(
        "\"logit_bias\":{\"99999999999999999999999\":1},", "logit_bias", "no token id");
    ASSERT_BOTH_REFUSE("\"logit_bias\":{\"7\":101},", "logit_bias.7", "from -100 to 100");
    ASSERT_BOTH_REFUSE("\"logit_bias\":[],", "logit_bias", "must be an object");
}

static void biases_are_limited_in_number(void** state) {
    (void)state;
    llm_bytes body = {0};
    char item[32];
    for (int i = 0; i <= LLM_MOST_LOGIT_BIASES; i++) {
        snprintf(item, sizeof item, "%s\"%d\":1", i == 0 ? "{\"logit_bias\":{" : ",", i);
        assert_int_equal(llm_bytes_append(&body, item, strlen(item), NULL), BERTH_OK);
    }
    assert_int_equal(llm_bytes_append(&body, "}}", 3, NULL), BERTH_OK);
    assert_refused(API_CHAT, body.data, API_ERROR_INVALID, "logit_bias", "has 301 tokens");
    llm_bytes_fini(&body);
}

static void assert_stops(size_t count, const char* const expected[]) {
    assert_int_equal(desk.request.stop_count, count);
    for (size_t i = 0; i < count; i++)
        assert_bytes(&desk.request.stops[i], expected[i]);
}

static void stop_is_a_text_or_a_list(void** state) {
    (void)state;
    read_body(API_CHAT, CHAT("\"stop\":\"\\n\","));
    assert_stops(1, (const char*[]){"\n"});
    read_body(API_COMPLETION, COMPLETION("\"stop\":[\"END\",\"\xc3\xa9\"],"));
    assert_stops(2, (const char*[]){"END", "\xc3\xa9"});
    read_body(API_CHAT, CHAT("\"stop\":[],"));
    assert_stops(0, NULL);
    read_body(API_CHAT, CHAT("\"stop\":\"a\\u0000b\","));
    assert_int_equal(desk.request.stops[0].size, 3);
}

static void stops_that_cannot_be_looked_for_are_refused(void** state) {
    (void)state;
    ASSERT_BOTH_REFUSE("\"stop\":\"\",", "stop", "\"stop\" has 0 bytes; it must have 1 to 1024");
    ASSERT_BOTH_REFUSE("\"stop\":[\"a\",\"\"],", "stop[1]", "has 0 bytes");
    ASSERT_BOTH_REFUSE("\"stop\":[\"a\",null],", "stop[1]", "is null; it must be a text");
    ASSERT_BOTH_REFUSE("\"stop\":3,", "stop", "must be a text");
    ASSERT_BOTH_REFUSE("\"stop\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17],",
                       "stop",
                       "has 17 texts; at most 16");
    char body[1200] = "{\"stop\":\"";
    memset(body + strlen(body), 'x', 1025);
    strcat(body, "\"}");
    assert_refused(API_CHAT, body, API_ERROR_INVALID, "stop", "has 1025 bytes");
}

static void a_chat_wants_log_probabilities_by_a_flag_and_a_number(void** state) {
    (void)state;
    read_body(API_CHAT, CHAT("\"logprobs\":true,"));
    assert_true(desk.request.wants_logprobs);
    assert_int_equal(desk.request.top_logprobs, 0);
    read_body(API_CHAT, CHAT("\"logprobs\":true,\"top_logprobs\":20,"));
    assert_int_equal(desk.request.top_logprobs, 20);
    read_body(API_CHAT, CHAT("\"logprobs\":false,\"top_logprobs\":0,"));
    assert_false(desk.request.wants_logprobs);
    assert_refused(API_CHAT,
                   CHAT("\"top_logprobs\":1,"),
                   API_ERROR_INVALID,
                   "top_logprobs",
                   "needs \"logprobs\" to be true");
    assert_refused(API_CHAT,
                   CHAT("\"logprobs\":true,\"top_logprobs\":21,"),
                   API_ERROR_INVALID,
                   "top_logprobs",
                   "from 0 to 20");
    assert_refused(
        API_CHAT, CHAT("\"logprobs\":3,"), API_ERROR_INVALID, "logprobs", "true or false");
}

static void a_completion_wants_log_probabilities_by_a_number(void** state) {
    (void)state;
    read_body(API_COMPLETION, COMPLETION("\"logprobs\":0,"));
    assert_true(desk.request.wants_logprobs);
    assert_int_equal(desk.request.top_logprobs, 0);
    read_body(API_COMPLETION, COMPLETION("\"logprobs\":5,"));
    assert_int_equal(desk.request.top_logprobs, 5);
    assert_refused(API_COMPLETION,
                   COMPLETION("\"logprobs\":21,"),
                   API_ERROR_INVALID,
                   "logprobs",
                   "from 0 to 20");
    assert_refused(
        API_COMPLETION, COMPLETION("\"logprobs\":true,"), API_ERROR_INVALID, "logprobs", "is true");
    assert_refused(API_COMPLETION,
                   COMPLETION("\"logprobs\":1,\"echo\":true,"),
                   API_ERROR_INVALID,
                   "echo",
                   "cannot be had together");
}

static void streams_may_include_their_usage(void** state) {
    (void)state;
    read_body(API_CHAT, CHAT("\"stream\":true,"));
    assert_true(desk.request.streams);
    assert_false(desk.request.includes_usage);
    read_body(API_CHAT, CHAT("\"stream\":true,\"stream_options\":{\"include_usage\":true},"));
    assert_true(desk.request.includes_usage);
    ASSERT_BOTH_REFUSE("\"stream_options\":{\"include_usage\":true},",
                       "stream_options",
                       "needs \"stream\" to be true");
    ASSERT_BOTH_REFUSE("\"stream\":true,\"stream_options\":[],", "stream_options", "an object");
    ASSERT_BOTH_REFUSE("\"stream\":true,\"stream_options\":{\"include_usage\":1},",
                       "stream_options.include_usage",
                       "true or false");
}

static void user_and_ignore_eos_are_kept(void** state) {
    (void)state;
    read_body(API_CHAT, CHAT("\"user\":\"alice\",\"ignore_eos\":true,"));
    assert_bytes(&desk.request.user, "alice");
    assert_true(desk.request.ignores_stop);
}

static void the_model_goes_by_its_name_or_the_end_of_it(void** state) {
    (void)state;
    read_body(API_CHAT, CHAT("\"model\":\"models/tiny\","));
    read_body(API_CHAT, CHAT("\"model\":\"tiny\","));
    desk.reader.model_name = "tiny";
    read_body(API_CHAT, CHAT("\"model\":\"tiny\","));
    assert_refused(API_CHAT,
                   CHAT("\"model\":\"models/tiny\","),
                   API_ERROR_MODEL_NOT_FOUND,
                   "model",
                   "the model \"models/tiny\" is not here; \"tiny\" is");
    assert_refused(
        API_CHAT, CHAT("\"model\":\"\","), API_ERROR_MODEL_NOT_FOUND, "model", "\"tiny\" is");
    ASSERT_BOTH_REFUSE("\"model\":5,", "model", "must be a text");
}

static void members_that_cannot_be_honoured_are_refused_by_name(void** state) {
    (void)state;
    ASSERT_BOTH_REFUSE("\"tools\":[{\"type\":\"function\"}],", "tools", "\"tools\" asks for what");
    ASSERT_BOTH_REFUSE("\"functions\":[{}],", "functions", "leave it out");
    ASSERT_BOTH_REFUSE("\"tool_choice\":\"required\",", "tool_choice", "tool_choice");
    ASSERT_BOTH_REFUSE("\"tool_choice\":{\"type\":\"function\"},", "tool_choice", "tool_choice");
    ASSERT_BOTH_REFUSE("\"response_format\":{\"type\":\"json_object\"},",
                       "response_format",
                       "\"response_format\" asks");
    ASSERT_BOTH_REFUSE("\"modalities\":[\"text\",\"audio\"],", "modalities", "modalities");
    ASSERT_BOTH_REFUSE("\"audio\":{\"voice\":\"x\"},", "audio", "audio");
    ASSERT_BOTH_REFUSE("\"suffix\":\"end\",", "suffix", "suffix");
    ASSERT_BOTH_REFUSE("\"store\":true,", "store", "store");
    ASSERT_BOTH_REFUSE("\"min_tokens\":2,", "min_tokens", "min_tokens");
    ASSERT_BOTH_REFUSE("\"repetition_penalty\":1.1,", "repetition_penalty", "repetition_penalty");
}

static void they_are_ignored_where_they_ask_for_nothing(void** state) {
    (void)state;
    static const char nothing[] =
        CHAT("\"tools\":[],\"functions\":null,\"tool_choice\":\"auto\","
             "\"function_call\":\"none\",\"response_format\":{\"type\":\"text\"},"
             "\"modalities\":[\"text\"],\"store\":false,\"suffix\":\"\",\"min_tokens\":0,"
             "\"repetition_penalty\":1.0,\"audio\":{},");
    read_body(API_CHAT, nothing);
}

static void answers_may_be_as_long_as_the_context_allows(void** state) {
    (void)state;
    read_body(API_COMPLETION, COMPLETION("\"max_tokens\":62,"));
    assert_int_equal(desk.request.max_tokens, 62);
    read_body(API_CHAT, CHAT("\"max_completion_tokens\":7,\"max_tokens\":7,"));
    assert_int_equal(desk.request.max_tokens, 7);
    assert_refused(API_COMPLETION,
                   COMPLETION("\"max_tokens\":63,"),
                   API_ERROR_CONTEXT_LENGTH,
                   "max_tokens",
                   "the prompt has 2 tokens and the answer may have 63; together they must fit "
                   "into the context of 64 tokens");
    assert_refused(API_CHAT,
                   CHAT("\"max_tokens\":9223372036854775807,"),
                   API_ERROR_CONTEXT_LENGTH,
                   "max_tokens",
                   "9223372036854775807");
    ASSERT_BOTH_REFUSE("\"max_tokens\":3,\"max_completion_tokens\":4,",
                       "max_tokens",
                       "\"max_tokens\" is 3 and \"max_completion_tokens\" is 4");
}

static void best_of_is_all_of_them(void** state) {
    (void)state;
    read_body(API_COMPLETION, COMPLETION("\"n\":3,\"best_of\":3,"));
    assert_int_equal(desk.request.n, 3);
    assert_refused(API_COMPLETION,
                   COMPLETION("\"best_of\":2,"),
                   API_ERROR_INVALID,
                   "best_of",
                   "\"best_of\" is 2; it must be \"n\", which is 1");
}

/// Reads a body again and again, with each of its allocations failing once.
static void assert_survives(api_endpoint endpoint, const char* body) {
    alloc_watch watch;
    uint64_t fails = 0;
    for (;; fails++) {
        api_request_fini(&desk.request);
        watch_json_begin(&watch, fails + 1);
        const bool is_read =
            api_request_parse(&desk.reader, endpoint, llm_str_of(body), &desk.request, &desk.error);
        if (!watch_has_failed(&watch)) break;
        assert_false(is_read);
        if (desk.error.kind != API_ERROR_OUT_OF_MEMORY)
            fail_msg("allocation %llu: %s", (unsigned long long)fails, desk.error.message);
    }
    assert_true(fails > 20);
}

static void want_of_memory_is_told_as_such(void** state) {
    (void)state;
    assert_survives(API_CHAT,
                    "{\"messages\":[{\"role\":\"system\",\"content\":\"\\u00e9\"},{\"role\":"
                    "\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\","
                    "\"text\":\"b\"}]}],\"stop\":[\"a\",\"b\"],\"user\":\"u\",\"logit_bias\":{"
                    "\"1\":2,\"3\":4.5},\"seed\":99999999999,\"model\":\"tiny\"}");
    assert_survives(
        API_COMPLETION,
        "{\"prompt\":[\"Hi\",[5,6],\"a<|im_end|>\"],\"echo\":true,\"n\":2,\"stop\":\"x\"}");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        DESK_TEST(a_chat_that_says_nothing_has_the_defaults),
        DESK_TEST(a_completion_that_says_nothing_has_the_usual_length),
        DESK_TEST(members_that_are_null_or_unknown_say_nothing),
        DESK_TEST(sampling_is_as_asked),
        DESK_TEST(the_ends_of_ranges_are_valid_options),
        DESK_TEST(seeds_may_be_any_integer),
        DESK_TEST(requests_without_a_seed_have_random_ones),
        DESK_TEST(numbers_out_of_range_are_refused_with_the_range),
        DESK_TEST(a_whole_number_may_be_written_with_a_point),
        DESK_TEST(biases_name_tokens_of_the_vocabulary),
        DESK_TEST(biases_are_limited_in_number),
        DESK_TEST(stop_is_a_text_or_a_list),
        DESK_TEST(stops_that_cannot_be_looked_for_are_refused),
        DESK_TEST(a_chat_wants_log_probabilities_by_a_flag_and_a_number),
        DESK_TEST(a_completion_wants_log_probabilities_by_a_number),
        DESK_TEST(streams_may_include_their_usage),
        DESK_TEST(user_and_ignore_eos_are_kept),
        DESK_TEST(the_model_goes_by_its_name_or_the_end_of_it),
        DESK_TEST(members_that_cannot_be_honoured_are_refused_by_name),
        DESK_TEST(they_are_ignored_where_they_ask_for_nothing),
        DESK_TEST(answers_may_be_as_long_as_the_context_allows),
        DESK_TEST(best_of_is_all_of_them),
        DESK_TEST(want_of_memory_is_told_as_such),
    };
    return cmocka_run_group_tests(tests, desk_open, desk_close);
}
