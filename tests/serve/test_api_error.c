// SPDX-License-Identifier: Apache-2.0
// Tests of errors as clients are told them.
#include "serve/serve_kit.h"

static llm_bytes out;

static int fini(void** state) {
    (void)state;
    llm_bytes_fini(&out);
    return 0;
}

static void an_error_has_its_message_type_parameter_and_code(void** state) {
    (void)state;
    api_error error;
    assert_false(api_fail(&error, API_ERROR_MODEL_NOT_FOUND, "model", "no model %d", 7));
    assert_true(api_error_render(&error, &out));
    assert_bytes(&out,
                 "{\"error\":{\"message\":\"no model 7\",\"type\":\"invalid_request_error\","
                 "\"param\":\"model\",\"code\":\"model_not_found\"}}");
}

static void what_an_error_lacks_is_null(void** state) {
    (void)state;
    api_error error;
    api_fail(&error, API_ERROR_SERVER, NULL, "a \"quoted\" word");
    assert_true(api_error_render(&error, &out));
    assert_bytes(&out,
                 "{\"error\":{\"message\":\"a \\\"quoted\\\" word\",\"type\":\"server_error\","
                 "\"param\":null,\"code\":null}}");
}

static void each_kind_has_a_status_of_http(void** state) {
    (void)state;
    assert_int_equal(api_error_status(API_ERROR_NONE), 200);
    assert_int_equal(api_error_status(API_ERROR_INVALID), 400);
    assert_int_equal(api_error_status(API_ERROR_UNAUTHORIZED), 401);
    for (int kind = API_ERROR_NONE + 1; kind < API_ERROR_COUNT; kind++)
        assert_in_range(api_error_status((api_error_kind)kind), 400, 599);
}

static void bytes_that_are_no_text_become_question_marks(void** state) {
    (void)state;
    api_error error;
    api_fail(&error, API_ERROR_INVALID, "p\xff", "\xc3\xa9 and \xc3 and \x80");
    assert_string_equal(error.message, "\xc3\xa9 and ? and ?");
    assert_string_equal(error.param, "p?");
}

static void a_message_that_is_too_long_is_cut_between_characters(void** state) {
    (void)state;
    char text[4000];
    for (size_t i = 0; i + 1 < sizeof text; i++)
        text[i] = "\xc3\xa9"[i % 2];
    text[sizeof text - 1] = '\0';
    api_error error;
    api_fail(&error, API_ERROR_INVALID, text, "%s", text);
    assert_int_equal(strlen(error.message), sizeof error.message - 1);
    assert_int_equal(error.message[sizeof error.message - 2], '?');
    assert_int_equal(strlen(error.param), sizeof error.param - 1);
    assert_true(api_error_render(&error, &out)); // refuses what is no UTF-8
}

static void an_error_survives_want_of_memory(void** state) {
    (void)state;
    api_error error;
    api_fail(&error, API_ERROR_INVALID, "n", "wrong");
    assert_int_equal(llm_bytes_append(&out, "before", 6, NULL), BERTH_OK);
    alloc_watch watch;
    uint64_t fails = 0;
    for (;; fails++) {
        watch_json_begin(&watch, fails + 1);
        const bool is_written = api_error_render(&error, &out);
        if (!watch_has_failed(&watch)) break;
        assert_false(is_written);
        assert_bytes(&out, "before");
    }
    assert_true(fails > 5);
}

#define TEST(name) cmocka_unit_test_teardown(name, fini)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(an_error_has_its_message_type_parameter_and_code),
        TEST(what_an_error_lacks_is_null),
        TEST(each_kind_has_a_status_of_http),
        TEST(bytes_that_are_no_text_become_question_marks),
        TEST(a_message_that_is_too_long_is_cut_between_characters),
        TEST(an_error_survives_want_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
