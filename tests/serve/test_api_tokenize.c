// SPDX-License-Identifier: Apache-2.0
// Tests of texts to tokens and back, as clients ask for it.
#include "serve/request_kit.h"

static llm_bytes out;

typedef bool (*endpoint)(const api_reader* reader, llm_str body, llm_bytes* out, api_error* error);

static int fini(void** state) {
    llm_bytes_fini(&out);
    return desk_fini(state);
}

static void assert_answer(endpoint call, const char* body, const char* expected) {
    llm_bytes_fini(&out);
    if (!call(&desk.reader, llm_str_of(body), &out, &desk.error))
        fail_msg("%s: %s", body, desk.error.message);
    assert_bytes(&out, expected);
}

static void assert_wrong(endpoint call, const char* body, const char* param, const char* part) {
    llm_bytes_fini(&out);
    assert_int_equal(llm_bytes_append(&out, "before", 6, NULL), BERTH_OK);
    assert_false(call(&desk.reader, llm_str_of(body), &out, &desk.error));
    assert_int_equal(desk.error.kind, API_ERROR_INVALID);
    assert_string_equal(desk.error.param, param);
    assert_says(&desk.error, part);
    assert_bytes(&out, "before");
}

static void a_text_becomes_token_ids(void** state) {
    (void)state;
    assert_answer(api_tokenize, "{\"content\":\"ab\"}", "{\"tokens\":[100,101]}");
    assert_answer(api_tokenize, "{\"content\":\"\"}", "{\"tokens\":[]}");
    assert_answer(api_tokenize, "{\"content\":\"\\u0000\"}", "{\"tokens\":[3]}");
}

static void control_tokens_are_parsed_unless_the_client_says_no(void** state) {
    (void)state;
    assert_answer(api_tokenize, "{\"content\":\"<|im_end|>\"}", "{\"tokens\":[2]}");
    assert_answer(
        api_tokenize, "{\"content\":\"<|\",\"parse_special\":false}", "{\"tokens\":[63,127]}");
    llm_bytes_fini(&out);
    assert_true(api_tokenize(&desk.reader,
                             llm_str_of("{\"content\":\"<|im_end|>\",\"parse_special\":false}"),
                             &out,
                             &desk.error));
    assert_null(memmem(out.data, out.size, "[2]", 3));
}

static void tokens_that_begin_a_text_are_put_if_asked(void** state) {
    (void)state;
    static vocab pieces; // of a kind whose texts begin with a token
    vocab_begin_pieces(&pieces);
    vocab_put(&pieces, "llama", NULL);
    llm_gguf_put_u32(&pieces.writer, "tokenizer.ggml.bos_token_id", 1);
    vocab_open(&pieces);
    desk.reader.tokenizer = pieces.tokenizer;
    assert_answer(api_tokenize, "{\"content\":\"\",\"add_special\":true}", "{\"tokens\":[1]}");
    assert_answer(api_tokenize, "{\"content\":\"\"}", "{\"tokens\":[]}");
    vocab_close(&pieces);
}

static void pieces_are_texts_or_lists_of_bytes(void** state) {
    (void)state;
    assert_answer(api_tokenize,
                  "{\"content\":\"a\\u00e9<|im_end|>\",\"with_pieces\":true}",
                  "{\"tokens\":[{\"id\":100,\"piece\":\"a\"},{\"id\":198,\"piece\":[195]},"
                  "{\"id\":172,\"piece\":[169]},{\"id\":2,\"piece\":\"<|im_end|>\"}]}");
}

static void a_request_to_tokenize_names_what_is_wrong(void** state) {
    (void)state;
    assert_wrong(api_tokenize, "{}", "content", "\"content\" is missing; it must be a text");
    assert_wrong(api_tokenize, "{\"content\":[1]}", "content", "is a list");
    assert_wrong(
        api_tokenize, "{\"content\":\"\",\"add_special\":1}", "add_special", "true or false");
    assert_wrong(
        api_tokenize, "{\"content\":\"\",\"with_pieces\":\"\"}", "with_pieces", "true or false");
    assert_wrong(api_tokenize, "nonsense", "", "no JSON");
}

static void token_ids_become_a_text(void** state) {
    (void)state;
    assert_answer(api_detokenize, "{\"tokens\":[100,198,172,2]}", "{\"content\":\"a\xc3\xa9\"}");
    assert_answer(api_detokenize, "{\"tokens\":[198]}", "{\"content\":\"\xef\xbf\xbd\"}");
    assert_answer(api_detokenize, "{\"tokens\":[]}", "{\"content\":\"\"}");
}

static void a_request_to_detokenize_names_what_is_wrong(void** state) {
    (void)state;
    assert_wrong(api_detokenize, "{}", "tokens", "\"tokens\" is missing");
    assert_wrong(api_detokenize, "{\"tokens\":\"a\"}", "tokens", "is a text");
    assert_wrong(api_detokenize, "{\"tokens\":[1,259]}", "tokens[1]", "from 0 to 258");
    assert_wrong(api_detokenize, "{\"tokens\":[null]}", "tokens[0]", "is null");
}

static void assert_survives(endpoint call, const char* body) {
    llm_bytes_fini(&out);
    assert_int_equal(llm_bytes_append(&out, "before", 6, NULL), BERTH_OK);
    alloc_watch watch;
    uint64_t fails = 0;
    for (;; fails++) {
        watch_json_begin(&watch, fails + 1);
        const bool is_done = call(&desk.reader, llm_str_of(body), &out, &desk.error);
        if (!watch_has_failed(&watch)) break;
        assert_false(is_done);
        assert_int_equal(desk.error.kind, API_ERROR_OUT_OF_MEMORY);
        assert_bytes(&out, "before");
    }
    assert_true(fails > 10);
    const size_t size = out.size - 6;
    llm_bytes_fini(&out);
    assert_true(call(&desk.reader, llm_str_of(body), &out, &desk.error));
    assert_int_equal(out.size, size);
}

static void want_of_memory_is_told_as_such(void** state) {
    (void)state;
    assert_survives(api_tokenize, "{\"content\":\"ab\\u00e9<|im_end|>\",\"with_pieces\":true}");
    assert_survives(api_tokenize,
                    "{\"content\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}");
    assert_survives(api_detokenize, "{\"tokens\":[100,198,172,2]}");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, desk_setup, fini)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_text_becomes_token_ids),
        TEST(control_tokens_are_parsed_unless_the_client_says_no),
        TEST(tokens_that_begin_a_text_are_put_if_asked),
        TEST(pieces_are_texts_or_lists_of_bytes),
        TEST(a_request_to_tokenize_names_what_is_wrong),
        TEST(token_ids_become_a_text),
        TEST(a_request_to_detokenize_names_what_is_wrong),
        TEST(want_of_memory_is_told_as_such),
    };
    return cmocka_run_group_tests(tests, desk_open, desk_close);
}
