// SPDX-License-Identifier: Apache-2.0
// Tests of answers as clients get them: whole objects, the events of streams, log probabilities,
// what a server says of itself, and want of memory anywhere.
#include "serve/serve_kit.h"

#include "api_answer.h"

#include <math.h>

enum { CHOICES = 2 };

/// A request with all that its answers need.
typedef struct scene {
    vocab v;
    api_request request;
    llm_bytes prompt_text;
    api_reply reply;
    api_token tokens[3];
    api_logprob top[2];
    api_choice choices[CHOICES];
    api_usage usage;
    llm_bytes out;
} scene;

static scene s;

#define HEAD(id, kind)                                                                             \
    "{\"id\":\"" id "\",\"object\":\"" kind "\",\"created\":1700000000,\"model\":\"tiny\","        \
    "\"system_fingerprint\":\"berth-0.1.0\",\"choices"                                             \
    "\":["
#define USAGE                                                                                      \
    "\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":5,\"total_tokens\":12,"                  \
    "\"prompt_tokens_details\":{\"cached_tokens\":4,\"audio_tokens\":0},"                          \
    "\"completion_tokens_details\":{\"reasoning_tokens\":0,\"audio_tokens\":0,"                    \
    "\"accepted_prediction_tokens\":0,\"rejected_prediction_tokens\":0}}"
#define DONE "data: [DONE]\n\n"

static int open_all(void** state) {
    (void)state;
    vocab_begin_bytes(&s.v);
    vocab_put(&s.v, "gpt2", "smollm");
    vocab_open(&s.v);
    return 0;
}

static int close_all(void** state) {
    (void)state;
    vocab_close(&s.v);
    return 0;
}

/// A chat of one choice, "Hi", that asks for nothing beyond.
static int setup(void** state) {
    (void)state;
    static char prompt[] = "Say: ";
    s.request = (api_request){.endpoint = API_CHAT, .prompt_count = 1, .n = CHOICES};
    s.prompt_text = (llm_bytes){.data = prompt, .size = 5};
    s.reply = (api_reply){.request = &s.request,
                          .tokenizer = s.v.tokenizer,
                          .model_name = "tiny",
                          .id = "chatcmpl-1",
                          .created = 1700000000};
    s.choices[0] = (api_choice){.text = llm_str_of("Hi"), .finish = API_FINISH_STOP};
    s.choices[1] = (api_choice){.index = 1, .text = llm_str_of("a"), .finish = API_FINISH_LENGTH};
    s.usage = (api_usage){.prompt_tokens = 7, .cached_tokens = 4, .answer_tokens = 5};
    s.top[0] = (api_logprob){2, -0.25f};
    s.top[1] = (api_logprob){vocab_byte('H'), -1.5f};
    s.tokens[0] = (api_token){.chosen = {vocab_byte('H'), -1.5f}, .top_count = 2};
    s.tokens[1] = (api_token){.chosen = {vocab_byte('\xc3'), -INFINITY}, .text_offset = 1};
    s.tokens[2] = (api_token){.chosen = {2, 0}, .text_offset = 2};
    return 0;
}

static void ask_completion(void) {
    s.request.endpoint = API_COMPLETION;
    s.reply.id = "cmpl-1";
}

static void want_logprobs(void) {
    s.request.wants_logprobs = true;
    s.request.top_logprobs = 2;
    s.choices[0].tokens = (api_token_list){.tokens = s.tokens, .count = 3, .top = s.top};
}

static int fini(void** state) {
    (void)state;
    llm_bytes_fini(&s.out);
    return 0;
}

static void render_whole(size_t count) {
    assert_true(api_reply_whole(&s.reply, s.choices, count, &s.usage, &s.out));
}

static void a_chat_is_answered_with_messages(void** state) {
    (void)state;
    render_whole(2);
    assert_bytes(
        &s.out,
        HEAD("chatcmpl-1",
             "chat.completion") "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":"
                                "\"Hi\",\"refusal\":"
                                "null},\"logprobs\":null,\"finish_reason\":\"stop\"},"
                                "{\"index\":1,\"message\":{\"role\":\"assistant\",\"content\":"
                                "\"a\",\"refusal\":"
                                "null},\"logprobs\":null,\"finish_reason\":\"length\"}]," USAGE
                                "}");
}

static void a_completion_is_answered_with_text(void** state) {
    (void)state;
    ask_completion();
    render_whole(1);
    assert_bytes(&s.out,
                 HEAD("cmpl-1", "text_completion") "{\"index\":0,\"text\":\"Hi\",\"logprobs\":null,"
                                                   "\"finish_reason\":\"stop\"}]," USAGE "}");
}

static void an_echoed_prompt_is_put_before_each_of_its_answers(void** state) {
    (void)state;
    ask_completion();
    s.request.echoes = true;
    s.request.prompt_texts = &s.prompt_text;
    render_whole(2);
    assert_bytes(
        &s.out,
        HEAD("cmpl-1", "text_completion") "{\"index\":0,\"text\":\"Say: "
                                          "Hi\",\"logprobs\":null,\"finish_reason\":\"stop\"},"
                                          "{\"index\":1,\"text\":\"Say: "
                                          "a\",\"logprobs\":null,\"finish_reason\":\"length\"}"
                                          "]," USAGE "}");
}

static void text_of_any_characters_is_escaped_and_never_cut(void** state) {
    (void)state;
    ask_completion();
    s.choices[0].text = (llm_str){"a\0\"\n\xc3\xa9\xff.", 8};
    render_whole(1);
    assert_bytes(
        &s.out,
        HEAD("cmpl-1",
             "text_completion") "{\"index\":0,\"text\":\"a\\u0000\\\"\\n\xc3\xa9\xef\xbf\xbd.\","
                                "\"logprobs\":null,"
                                "\"finish_reason\":\"stop\"}]," USAGE "}");
}

static void log_probabilities_of_a_chat_have_bytes_and_alternatives(void** state) {
    (void)state;
    want_logprobs();
    render_whole(1);
    assert_bytes(
        &s.out,
        HEAD(
            "chatcmpl-1",
            "chat.completion") "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":"
                               "\"Hi\",\"refusal\":null},"
                               "\"logprobs\":{\"content\":["
                               "{\"token\":\"H\",\"logprob\":-1.5,\"bytes\":[72],\"top_logprobs\":["
                               "{\"token\":\"<|im_end|>\",\"logprob\":-0.25,\"bytes\":null},"
                               "{\"token\":\"H\",\"logprob\":-1.5,\"bytes\":[72]}]},"
                               "{\"token\":\"\xef\xbf\xbd\",\"logprob\":-9999.0,\"bytes\":[195],"
                               "\"top_logprobs\":[]},"
                               "{\"token\":\"<|im_end|>\",\"logprob\":0.0,\"bytes\":null,\"top_"
                               "logprobs\":[]}],"
                               "\"refusal\":null},\"finish_reason\":\"stop\"}]," USAGE "}");
}

static void log_probabilities_of_a_completion_are_lists_side_by_side(void** state) {
    (void)state;
    ask_completion();
    want_logprobs();
    s.top[1].id = vocab_byte('\xc3'); // the chosen one is not among the likeliest
    render_whole(1);
    assert_bytes(
        &s.out,
        HEAD("cmpl-1",
             "text_completion") "{\"index\":0,\"text\":\"Hi\",\"logprobs\":{"
                                "\"tokens\":[\"H\",\"\xef\xbf\xbd\",\"<|im_end|>\"],"
                                "\"token_logprobs\":[-1.5,-9999.0,0.0],"
                                "\"top_logprobs\":[{\"<|im_end|>\":-0.25,\"\xef\xbf\xbd\":-1.5,"
                                "\"H\":-1.5},"
                                "{\"\xef\xbf\xbd\":-9999.0},{\"<|im_end|>\":0.0}],"
                                "\"text_offset\":[0,1,2]},\"finish_reason\":\"stop\"}]," USAGE "}");
}

static void of_alternatives_that_look_alike_the_likelier_is_kept(void** state) {
    (void)state;
    ask_completion();
    want_logprobs();
    s.top[0].id = vocab_byte('\xc3');
    s.top[1].id = vocab_byte('\xc2');
    s.choices[0].tokens.count = 1;
    render_whole(1);
    s.out.data[s.out.size - 1] = '\0';
    assert_non_null(strstr(s.out.data, "\"top_logprobs\":[{\"\xef\xbf\xbd\":-0.25,\"H\":-1.5}]"));
}

static void a_whole_answer_without_tokens_has_empty_lists(void** state) {
    (void)state;
    want_logprobs();
    s.choices[0].tokens.count = 0;
    render_whole(1);
    ask_completion();
    render_whole(1);
    s.out.data[s.out.size - 1] = '\0';
    assert_non_null(strstr(s.out.data, "\"logprobs\":{\"content\":[],\"refusal\":null}"));
    assert_non_null(strstr(s.out.data,
                           "{\"tokens\":[],\"token_logprobs\":[],\"top_logprobs\":[],"
                           "\"text_offset\":[]}"));
}

static void a_stream_of_a_chat_begins_with_the_role(void** state) {
    (void)state;
    assert_true(api_reply_begin(&s.reply, 1, &s.out));
    assert_bytes(
        &s.out,
        "data: " HEAD("chatcmpl-1",
                      "chat.completion.chunk") "{\"index\":1,\"delta\":{\"role\":\"assistant\","
                                               "\"content\":\"\",\"refusal\":null}"
                                               ",\"logprobs\":null,\"finish_reason\":null}]}\n\n");
}

static void a_stream_of_a_completion_begins_with_what_it_echoes(void** state) {
    (void)state;
    ask_completion();
    assert_true(api_reply_begin(&s.reply, 1, &s.out));
    assert_bytes(&s.out, "");
    s.request.echoes = true;
    s.request.prompt_texts = &s.prompt_text;
    assert_true(api_reply_begin(&s.reply, 1, &s.out));
    assert_bytes(
        &s.out,
        "data: " HEAD("cmpl-1",
                      "text_completion") "{\"index\":1,\"text\":\"Say: "
                                         "\",\"logprobs\":null,\"finish_reason\":null}]}\n\n");
}

static void pieces_of_a_chat_are_deltas(void** state) {
    (void)state;
    s.choices[0].finish = API_FINISH_NONE;
    assert_true(api_reply_piece(&s.reply, &s.choices[0], &s.out));
    const size_t first = s.out.size;
    assert_bytes(
        &s.out,
        "data: " HEAD("chatcmpl-1", "chat.completion.chunk") "{\"index\":0,\"delta\":{\"content\":"
                                                             "\"Hi\"},\"logprobs\":null,"
                                                             "\"finish_reason\":null}]}\n\n");
    s.choices[1].text = (llm_str){NULL, 0};
    assert_true(api_reply_piece(&s.reply, &s.choices[1], &s.out));
    assert_bytes_from(
        &s.out,
        first,
        "data: " HEAD("chatcmpl-1",
                      "chat.completion.chunk") "{\"index\":1,\"delta\":{},\"logprobs\":null,"
                                               "\"finish_reason\":\"length\"}]}\n\n");
}

static void pieces_of_a_completion_are_text(void** state) {
    (void)state;
    ask_completion();
    assert_true(api_reply_piece(&s.reply, &s.choices[1], &s.out));
    assert_bytes(
        &s.out,
        "data: " HEAD("cmpl-1", "text_completion") "{\"index\":1,\"text\":\"a\",\"logprobs\":null,"
                                                   "\"finish_reason\":\"length\"}]}\n"
                                                   "\n");
}

static void a_piece_has_the_log_probabilities_of_its_tokens(void** state) {
    (void)state;
    want_logprobs();
    s.choices[0].tokens.count = 1;
    s.tokens[0].top_count = 0;
    assert_true(api_reply_piece(&s.reply, &s.choices[0], &s.out));
    const size_t first = s.out.size;
    assert_bytes(
        &s.out,
        "data: " HEAD(
            "chatcmpl-1",
            "chat.completion.chunk") "{\"index\":0,\"delta\":{\"content\":\"Hi\"},\"logprobs\":{"
                                     "\"content\":["
                                     "{\"token\":\"H\",\"logprob\":-1.5,\"bytes\":[72],\"top_"
                                     "logprobs\":[]}],"
                                     "\"refusal\":null},\"finish_reason\":\"stop\"}]}\n\n");
    assert_true(api_reply_piece(&s.reply, &s.choices[1], &s.out)); // this one has none
    assert_bytes_from(
        &s.out,
        first,
        "data: " HEAD(
            "chatcmpl-1",
            "chat.completion.chunk") "{\"index\":1,\"delta\":{\"content\":\"a\"},\"logprobs\":null,"
                                     "\"finish_reason\":\"length\"}]}\n\n");
}

static void a_stream_ends_with_its_mark(void** state) {
    (void)state;
    assert_true(api_reply_end(&s.reply, &s.usage, &s.out));
    assert_bytes(&s.out, DONE);
}

static void a_stream_tells_its_usage_in_the_end_if_asked(void** state) {
    (void)state;
    s.request.includes_usage = true;
    assert_true(api_reply_piece(&s.reply, &s.choices[0], &s.out));
    const size_t first = s.out.size;
    assert_bytes(
        &s.out,
        "data: " HEAD("chatcmpl-1",
                      "chat.completion.chunk") "{\"index\":0,\"delta\":{\"content\":\"Hi\"},"
                                               "\"logprobs\":null,"
                                               "\"finish_reason\":\"stop\"}],\"usage\":null}\n\n");
    assert_true(api_reply_end(&s.reply, &s.usage, &s.out));
    assert_bytes_from(&s.out,
                      first,
                      "data: " HEAD("chatcmpl-1", "chat.completion.chunk") "]," USAGE "}\n\n" DONE);
}

static void an_error_ends_a_stream(void** state) {
    (void)state;
    api_error error;
    api_fail(&error, API_ERROR_SHUTTING_DOWN, NULL, "bye");
    assert_true(api_reply_break(&error, &s.out));
    assert_bytes(&s.out,
                 "data: {\"error\":{\"message\":\"bye\",\"type\":\"server_error\",\"param\":null,"
                 "\"code\":\"shutting_down\"}}\n\n" DONE);
}

static api_about about = {.model_name = "dir/tiny",
                          .created = 1700000000,
                          .context_tokens = 2048,
                          .trained_tokens = 8192,
                          .vocab_tokens = 259,
                          .weight_bytes = UINT64_C(5000000000),
                          .kv_type = "f16",
                          .chat_style = "chatml",
                          .slots = 64,
                          .version = "0.1.0"};

static void the_list_of_models_has_the_one_that_is_served(void** state) {
    (void)state;
    assert_true(api_models_render(&about, &s.out));
    assert_bytes(&s.out,
                 "{\"object\":\"list\",\"data\":[{\"id\":\"dir/tiny\",\"object\":\"model\","
                 "\"created\":1700000000,\"owned_by\":\"berth\",\"max_model_len\":2048}]}");
}

static void a_name_that_is_no_text_is_mended(void** state) {
    (void)state;
    api_about odd = about;
    odd.model_name = "m\xff";
    assert_true(api_models_render(&odd, &s.out));
    s.out.data[s.out.size - 1] = '\0';
    assert_non_null(strstr(s.out.data, "\"id\":\"m\xef\xbf\xbd\""));
}

static void the_properties_say_what_a_client_may_ask_for(void** state) {
    (void)state;
    assert_true(api_props_render(&about, &s.out));
    const size_t first = s.out.size;
    assert_bytes(&s.out,
                 "{\"model_alias\":\"dir/tiny\",\"build_info\":\"0.1.0\",\"total_slots\":64,"
                 "\"default_generation_settings\":{\"n_ctx\":2048},\"trained_tokens\":8192,"
                 "\"vocab_tokens\":259,\"weight_bytes\":5000000000,\"kv_type\":\"f16\","
                 "\"chat_style\":\"chatml\"}");
    api_about plain = about;
    plain.chat_style = NULL;
    assert_true(api_props_render(&plain, &s.out));
    assert_non_null(memmem(s.out.data + first, s.out.size - first, "\"chat_style\":null}", 18));
}

static bool call_whole(void) {
    return api_reply_whole(&s.reply, s.choices, CHOICES, &s.usage, &s.out);
}
static bool call_begin(void) { return api_reply_begin(&s.reply, 0, &s.out); }
static bool call_piece(void) { return api_reply_piece(&s.reply, &s.choices[0], &s.out); }
static bool call_end(void) { return api_reply_end(&s.reply, &s.usage, &s.out); }
static bool call_break(void) {
    const api_error error = {.kind = API_ERROR_SERVER, .message = "bye"};
    return api_reply_break(&error, &s.out);
}
static bool call_models(void) { return api_models_render(&about, &s.out); }
static bool call_props(void) { return api_props_render(&about, &s.out); }

/// Calls again and again, with each of its allocations failing once, then with none.
static void assert_survives(bool (*call)(void)) {
    llm_bytes_fini(&s.out);
    assert_int_equal(llm_bytes_append(&s.out, "before", 6, NULL), BERTH_OK);
    alloc_watch watch;
    uint64_t fails = 0;
    for (;; fails++) {
        watch_json_begin(&watch, fails + 1);
        const bool is_written = call();
        if (!watch_has_failed(&watch)) break;
        assert_false(is_written);
        assert_bytes(&s.out, "before");
    }
    assert_true(fails > 5);
    const size_t size = s.out.size;
    llm_bytes_fini(&s.out);
    assert_true(call());
    assert_int_equal(s.out.size, size - 6);
}

static void want_of_memory_leaves_all_as_it_was(void** state) {
    (void)state;
    bool (*const calls[])(void) = {
        call_whole, call_begin, call_piece, call_end, call_break, call_models, call_props};
    want_logprobs();
    s.request.includes_usage = true;
    s.request.prompt_texts = &s.prompt_text;
    for (int completes = 0; completes < 2; completes++) {
        if (completes) ask_completion();
        s.request.echoes = completes;
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
            assert_survives(calls[i]);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fini)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_chat_is_answered_with_messages),
        TEST(a_completion_is_answered_with_text),
        TEST(an_echoed_prompt_is_put_before_each_of_its_answers),
        TEST(text_of_any_characters_is_escaped_and_never_cut),
        TEST(log_probabilities_of_a_chat_have_bytes_and_alternatives),
        TEST(log_probabilities_of_a_completion_are_lists_side_by_side),
        TEST(of_alternatives_that_look_alike_the_likelier_is_kept),
        TEST(a_whole_answer_without_tokens_has_empty_lists),
        TEST(a_stream_of_a_chat_begins_with_the_role),
        TEST(a_stream_of_a_completion_begins_with_what_it_echoes),
        TEST(pieces_of_a_chat_are_deltas),
        TEST(pieces_of_a_completion_are_text),
        TEST(a_piece_has_the_log_probabilities_of_its_tokens),
        TEST(a_stream_ends_with_its_mark),
        TEST(a_stream_tells_its_usage_in_the_end_if_asked),
        TEST(an_error_ends_a_stream),
        TEST(the_list_of_models_has_the_one_that_is_served),
        TEST(a_name_that_is_no_text_is_mended),
        TEST(the_properties_say_what_a_client_may_ask_for),
        TEST(want_of_memory_leaves_all_as_it_was),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
