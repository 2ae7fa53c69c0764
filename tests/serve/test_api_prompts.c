// SPDX-License-Identifier: Apache-2.0
// Tests of prompts: conversations in their frame, texts and lists of ids, and which are refused.
#include "serve/request_kit.h"

/// Asserts what tokens a prompt has, written as text with control tokens by their spelling.
static void assert_prompt(size_t index, const char* expected) {
    assert_true(index < desk.request.prompt_count);
    const llm_tokens* tokens = &desk.request.prompts[index];
    llm_bytes text = {0};
    for (size_t i = 0; i < tokens->count; i++) {
        llm_str part = llm_tokenizer_bytes(desk.v.tokenizer, tokens->ids[i]);
        if (part.size == 0) part = llm_tokenizer_spelling(desk.v.tokenizer, tokens->ids[i]);
        assert_int_equal(llm_bytes_append(&text, part.data, part.size, NULL), BERTH_OK);
    }
    assert_bytes(&text, expected);
    llm_bytes_fini(&text);
}

#define ANSWER "<|im_start|>assistant\n"
#define MESSAGE(role, content) "<|im_start|>" role "\n" content "<|im_end|>\n"

static void assert_chat(const char* messages, const char* expected) {
    char body[1024];
    desk.reader.context_tokens = 1024;
    snprintf(body, sizeof body, "{\"messages\":%s}", messages);
    read_body(API_CHAT, body);
    assert_int_equal(desk.request.prompt_count, 1);
    assert_prompt(0, expected);
}

static void messages_are_framed_by_their_roles(void** state) {
    (void)state;
    assert_chat("[{\"role\":\"system\",\"content\":\"Be brief.\"},"
                "{\"role\":\"user\",\"content\":\"Hi\",\"name\":\"bob\"},"
                "{\"role\":\"assistant\",\"content\":\"Yes?\",\"refusal\":null},"
                "{\"role\":\"user\",\"content\":\"\"}]",
                MESSAGE("system", "Be brief.") MESSAGE("user", "Hi") MESSAGE("assistant", "Yes?")
                    MESSAGE("user", "") ANSWER);
}

static void developers_count_as_the_system(void** state) {
    (void)state;
    assert_chat("[{\"role\":\"developer\",\"content\":\"x\"}]", MESSAGE("system", "x") ANSWER);
}

static void contents_in_parts_are_joined_by_new_lines(void** state) {
    (void)state;
    assert_chat("[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
                "{\"type\":\"text\",\"text\":\"\"},{\"type\":\"text\",\"text\":\"b\"}]},"
                "{\"role\":\"user\",\"content\":[]}]",
                MESSAGE("user", "a\n\nb") MESSAGE("user", "") ANSWER);
}

static void an_assistant_may_have_said_nothing(void** state) {
    (void)state;
    assert_chat("[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[]},"
                "{\"role\":\"assistant\"}]",
                MESSAGE("assistant", "") MESSAGE("assistant", "") ANSWER);
}

static void no_content_leaves_its_frame(void** state) {
    (void)state;
    assert_chat("[{\"role\":\"user\",\"content\":\"<|im_end|>\"}]",
                MESSAGE("user", "<|im_end|>") ANSWER);
    // the spelling is there as plain bytes: two control tokens of the message, one of the answer
    size_t controls = 0;
    for (size_t i = 0; i < desk.request.prompts[0].count; i++)
        controls += desk.request.prompts[0].ids[i] < 3;
    assert_int_equal(controls, 3);
}

static void assert_chat_refused(const char* messages, const char* param, const char* part) {
    char body[1024];
    snprintf(body, sizeof body, "{\"messages\":%s}", messages);
    assert_refused(API_CHAT, body, API_ERROR_INVALID, param, part);
}

static void messages_must_be_a_list_with_something_in_it(void** state) {
    (void)state;
    assert_refused(API_CHAT, "{}", API_ERROR_INVALID, "messages", "\"messages\" is missing");
    assert_chat_refused("null", "messages", "\"messages\" is null; it must be a list");
    assert_chat_refused("\"Hi\"", "messages", "is a text");
    assert_chat_refused("[]", "messages", "is an empty list");
    assert_chat_refused(
        "[\"Hi\"]", "messages[0]", "\"messages[0]\" is a text; it must be an object");
}

static void roles_that_are_not_known_are_refused(void** state) {
    (void)state;
    assert_chat_refused(
        "[{\"role\":\"user\",\"content\":\"\"},{\"role\":\"tool\",\"content\":\"\"}]",
        "messages[1].role",
        "\"messages[1].role\" is \"tool\"; it must be system, developer, user or");
    assert_chat_refused("[{\"content\":\"\"}]", "messages[0].role", "is missing");
    assert_chat_refused(
        "[{\"role\":\"user\\u0000\",\"content\":\"\"}]", "messages[0].role", "user?");
}

static void contents_that_are_no_text_are_refused(void** state) {
    (void)state;
    assert_chat_refused("[{\"role\":\"user\"}]", "messages[0].content", "is missing");
    assert_chat_refused(
        "[{\"role\":\"system\",\"content\":null}]", "messages[0].content", "is null");
    assert_chat_refused("[{\"role\":\"user\",\"content\":5}]", "messages[0].content", "is 5");
    assert_chat_refused("[{\"role\":\"user\",\"content\":[5]}]", "messages[0].content[0]", "is 5");
    assert_chat_refused(
        "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"\"},"
        "{\"type\":\"image_url\",\"image_url\":{}}]}]",
        "messages[0].content[1].type",
        "\"messages[0].content[1].type\" is \"image_url\"; only \"text\" is understood");
    assert_chat_refused("[{\"role\":\"user\",\"content\":[{\"text\":\"a\"}]}]",
                        "messages[0].content[0].type",
                        "is \"\"");
    assert_chat_refused("[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]",
                        "messages[0].content[0].text",
                        "is missing");
}

static void what_messages_have_beside_text_is_refused(void** state) {
    (void)state;
    assert_chat_refused("[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"1\"}]}]",
                        "messages[0].tool_calls",
                        "\"messages[0].tool_calls\" is not understood");
    assert_chat_refused("[{\"role\":\"assistant\",\"function_call\":{\"name\":\"f\"}}]",
                        "messages[0].function_call",
                        "not understood");
}

static void a_model_without_a_frame_only_completes(void** state) {
    (void)state;
    desk.reader.chat = NULL;
    assert_refused(API_CHAT, CHAT(""), API_ERROR_INVALID, "messages", "/v1/completions");
    read_body(API_COMPLETION, COMPLETION(""));
}

static void a_prompt_may_be_a_text_or_a_list_of_texts(void** state) {
    (void)state;
    read_body(API_COMPLETION, "{\"prompt\":\"a\\u0000b\"}");
    assert_int_equal(desk.request.prompts[0].count, 3);
    read_body(API_COMPLETION, "{\"prompt\":[\"ab\",\"\\u00e9\"],\"n\":64}");
    assert_int_equal(desk.request.prompt_count, 2);
    assert_prompt(0, "ab");
    assert_prompt(1, "\xc3\xa9");
}

static void a_prompt_may_be_ids_or_a_list_of_lists_of_them(void** state) {
    (void)state;
    read_body(API_COMPLETION, "{\"prompt\":[0,100,258]}");
    assert_int_equal(desk.request.prompt_count, 1);
    assert_int_equal(desk.request.prompts[0].count, 3);
    assert_int_equal(desk.request.prompts[0].ids[0], 0);
    assert_int_equal(desk.request.prompts[0].ids[2], 258);
    read_body(API_COMPLETION, "{\"prompt\":[[100,101],[102],\"a\"]}");
    assert_int_equal(desk.request.prompt_count, 3);
    assert_prompt(0, "ab");
    assert_prompt(1, "c");
    assert_prompt(2, "a");
}

static void texts_to_complete_may_spell_control_tokens(void** state) {
    (void)state;
    read_body(API_COMPLETION, "{\"prompt\":\"<|im_start|>a<|im_end|>\"}");
    assert_int_equal(desk.request.prompts[0].count, 3);
}

static void echoed_prompts_are_kept_as_text(void** state) {
    (void)state;
    read_body(API_COMPLETION, "{\"prompt\":[\"a<|im_end|>\\n\",[100,1,101]],\"echo\":true}");
    assert_bytes(&desk.request.prompt_texts[0], "a<|im_end|>\n");
    assert_bytes(&desk.request.prompt_texts[1], "ab");
}

static void assert_prompt_refused(const char* prompt, const char* param, const char* part) {
    char body[1024];
    snprintf(body, sizeof body, "{\"n\":2,\"prompt\":%s}", prompt);
    assert_refused(API_COMPLETION, body, API_ERROR_INVALID, param, part);
}

static void prompts_that_are_none_are_refused(void** state) {
    (void)state;
    assert_refused(API_COMPLETION, "{}", API_ERROR_INVALID, "prompt", "\"prompt\" is missing");
    assert_prompt_refused("null", "prompt", "is null; it must be a text, or a list of texts");
    assert_prompt_refused("5", "prompt", "is 5");
    assert_prompt_refused("[]", "prompt", "\"prompt\" is an empty list");
    assert_prompt_refused("[[]]", "prompt[0]", "\"prompt[0]\" is an empty list");
    assert_prompt_refused("[\"a\",5]", "prompt[1]", "\"prompt[1]\" is 5; it must be a text or");
    assert_prompt_refused("[5,\"a\"]", "prompt[1]", "whole number from 0 to 258");
    assert_prompt_refused("[5,null]", "prompt[1]", "is null; it must be a token id");
    assert_prompt_refused("[259]", "prompt[0]", "\"prompt[0]\" is 259; it must be a whole number");
    assert_prompt_refused("[[1],[2,-1]]", "prompt[1][1]", "\"prompt[1][1]\" is -1;");
}

static void an_empty_text_needs_a_token_that_begins_texts(void** state) {
    (void)state;
    assert_prompt_refused("\"\"", "prompt", "the prompt is empty");
    static vocab pieces; // of a kind whose texts begin with a token
    vocab_begin_pieces(&pieces);
    vocab_put(&pieces, "llama", NULL);
    llm_gguf_put_u32(&pieces.writer, "tokenizer.ggml.bos_token_id", 1);
    vocab_open(&pieces);
    desk.reader.tokenizer = pieces.tokenizer;
    read_body(API_COMPLETION, "{\"prompt\":\"\"}");
    assert_int_equal(desk.request.prompts[0].count, 1);
    assert_int_equal(desk.request.prompts[0].ids[0], 1);
    vocab_close(&pieces);
}

static void a_request_has_a_limit_of_answers(void** state) {
    (void)state;
    read_body(API_COMPLETION, "{\"prompt\":[\"a\",\"b\"],\"n\":64}");
    assert_refused(API_COMPLETION,
                   "{\"prompt\":[\"a\",\"b\"],\"n\":65}",
                   API_ERROR_INVALID,
                   "prompt",
                   "2 prompts with 65 answers each; a request may have 128 answers");
}

static void prompts_must_leave_room_for_a_token(void** state) {
    (void)state;
    desk.reader.context_tokens = 3;
    read_body(API_COMPLETION, "{\"prompt\":[\"a\",\"ab\"]}");
    assert_int_equal(desk.request.max_tokens, 1); // as the longest one allows
    assert_refused(API_COMPLETION,
                   "{\"prompt\":[\"a\",\"abc\"]}",
                   API_ERROR_CONTEXT_LENGTH,
                   "prompt",
                   "the prompt has 3 tokens; with one of an answer at least it must fit into the "
                   "context of 3 tokens");
    assert_refused(API_CHAT, CHAT(""), API_ERROR_CONTEXT_LENGTH, "messages", "context of 3");
}

static void texts_that_cannot_fit_are_refused_unread(void** state) {
    (void)state;
    desk.reader.context_tokens = 4;
    desk.reader.most_token_bytes = 2;
    assert_refused(API_COMPLETION,
                   "{\"prompt\":\"123456789\"}",
                   API_ERROR_CONTEXT_LENGTH,
                   "prompt",
                   "the prompt has 9 bytes; the context of 4 tokens has room for 8 at most");
    assert_refused(API_CHAT,
                   "{\"messages\":[{\"role\":\"user\",\"content\":\"12345\"},"
                   "{\"role\":\"user\",\"content\":\"6789\"}]}",
                   API_ERROR_CONTEXT_LENGTH,
                   "messages",
                   "the prompt has 9 bytes");
    desk.reader.context_tokens = 64;
    desk.reader.most_token_bytes = SIZE_MAX; // no limit, rather than a product that overflows
    read_body(API_COMPLETION, "{\"prompt\":\"123456789\"}");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        DESK_TEST(messages_are_framed_by_their_roles),
        DESK_TEST(developers_count_as_the_system),
        DESK_TEST(contents_in_parts_are_joined_by_new_lines),
        DESK_TEST(an_assistant_may_have_said_nothing),
        DESK_TEST(no_content_leaves_its_frame),
        DESK_TEST(messages_must_be_a_list_with_something_in_it),
        DESK_TEST(roles_that_are_not_known_are_refused),
        DESK_TEST(contents_that_are_no_text_are_refused),
        DESK_TEST(what_messages_have_beside_text_is_refused),
        DESK_TEST(a_model_without_a_frame_only_completes),
        DESK_TEST(a_prompt_may_be_a_text_or_a_list_of_texts),
        DESK_TEST(a_prompt_may_be_ids_or_a_list_of_lists_of_them),
        DESK_TEST(texts_to_complete_may_spell_control_tokens),
        DESK_TEST(echoed_prompts_are_kept_as_text),
        DESK_TEST(prompts_that_are_none_are_refused),
        DESK_TEST(an_empty_text_needs_a_token_that_begins_texts),
        DESK_TEST(a_request_has_a_limit_of_answers),
        DESK_TEST(prompts_must_leave_room_for_a_token),
        DESK_TEST(texts_that_cannot_fit_are_refused_unread),
    };
    return cmocka_run_group_tests(tests, desk_open, desk_close);
}
