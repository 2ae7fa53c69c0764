// SPDX-License-Identifier: Apache-2.0
// Tests of bodies as JSON: what is none, what is too much of it, and what is written.
#include "serve/serve_kit.h"

#include "api_request.h"

static llm_bytes body;
static llm_bytes out;
static api_error error;

static int fini(void** state) {
    (void)state;
    llm_bytes_fini(&body);
    llm_bytes_fini(&out);
    return 0;
}

/// Reads a body from a block of exactly its size.
static json_t* load(llm_str text) {
    char* copy = copy_exactly(text.data, text.size);
    json_t* object = api_json_load((llm_str){copy, text.size}, &error);
    free(copy);
    return object;
}

static void assert_refused(llm_str text, const char* part) {
    assert_null(load(text));
    assert_int_equal(error.kind, API_ERROR_INVALID);
    assert_says(&error, part);
}

static void add(const char* text, size_t times) {
    for (size_t i = 0; i < times; i++)
        assert_int_equal(llm_bytes_append(&body, text, strlen(text), NULL), BERTH_OK);
}

static void a_body_must_be_an_object(void** state) {
    (void)state;
    assert_refused((llm_str){NULL, 0}, "the body is empty");
    assert_refused(llm_str_of("[1]"), "the body is a list");
    assert_refused(llm_str_of("5"), "the body is no JSON");
    assert_refused(llm_str_of("{\"a\":1"), "(line 1, column 6)");
    assert_refused(llm_str_of("{} x"), "end of file expected");
    assert_refused(llm_str_of("{\"a\":NaN}"), "no JSON");
    assert_refused(llm_str_of("{\"a\":1e999}"), "overflow");
    assert_refused(llm_str_of("{\"a\":\"\xff\"}"), "0xff");
    assert_refused(llm_str_of("{\"a\":\"\\ud800\"}"), "no JSON");
}

static void a_member_may_not_come_twice(void** state) {
    (void)state;
    assert_refused(llm_str_of("{\"a\":1,\"a\":2}"), "duplicate");
}

static void nul_is_a_character_of_texts_and_not_of_names(void** state) {
    (void)state;
    json_t* object = load(llm_str_of("{\"a\":\"x\\u0000y\"}"));
    assert_non_null(object);
    assert_int_equal(json_string_length(json_object_get(object, "a")), 3);
    json_decref(object);
    assert_refused(llm_str_of("{\"a\\u0000\":1}"), "no JSON");
    assert_refused((llm_str){"{\"a\":\"\0\"}", 9}, "no JSON");
}

static void bodies_are_nested_so_deep_and_no_deeper(void** state) {
    (void)state;
    add("{\"a\":", 1);
    add("[", API_MOST_DEPTH - 1);
    add("]", API_MOST_DEPTH - 1);
    add("}", 1);
    json_t* object = load((llm_str){body.data, body.size});
    assert_non_null(object);
    json_decref(object);
    llm_bytes_fini(&body);
    add("{\"a\":", 1);
    add("[", API_MOST_DEPTH);
    add("]", API_MOST_DEPTH);
    add("}", 1);
    assert_refused((llm_str){body.data, body.size}, "nests 65 deep; at most 64 levels");
    llm_bytes_fini(&body);
    add("[", 1000000);
    assert_refused((llm_str){body.data, body.size}, "nests 1000000 deep");
}

static void brackets_within_texts_do_not_count(void** state) {
    (void)state;
    add("{\"a\":\"", 1);
    add("[{,\\\"[", 100);
    add("\\\\\",\"b\":[[]]}", 1);
    json_t* object = load((llm_str){body.data, body.size});
    assert_non_null(object);
    assert_int_equal(json_object_size(object), 2);
    json_decref(object);
    assert_refused(llm_str_of("{\"a\":\"\\"), "no JSON"); // ends within an escape
}

static void lists_and_values_are_limited_in_number(void** state) {
    (void)state;
    add("{\"a\":[[]", 1);
    add(",[]", API_MOST_LISTS);
    add("]}", 1);
    assert_refused((llm_str){body.data, body.size}, "lists and objects");
    llm_bytes_fini(&body);
    add("{\"a\":[1", 1);
    add(",1", API_MOST_VALUES);
    add("]}", 1);
    assert_refused((llm_str){body.data, body.size}, "524290 values; at most 32768 and 524288");
}

static void want_of_memory_is_not_taken_for_bad_json(void** state) {
    (void)state;
    static const char text[] =
        "{\"a\":[1,\"text\",{\"b\":\"\\u00e9\",\"c\":2.5}],\"d\":12345678901234567890}";
    alloc_watch watch;
    json_t* object;
    uint64_t fails = 0;
    for (;; fails++) {
        watch_json_begin(&watch, fails + 1);
        object = api_json_load(llm_str_of(text), &error);
        if (!watch_has_failed(&watch)) break;
        assert_null(object);
        assert_int_equal(error.kind, API_ERROR_OUT_OF_MEMORY);
    }
    assert_non_null(object);
    assert_true(fails > 15);
    json_decref(object);
}

static void values_are_written_behind_what_is_there(void** state) {
    (void)state;
    assert_true(api_json_append(json_integer(5), &out));
    assert_true(api_json_append(api_json_text((llm_str){"a\xc3\xa9\xc3\0", 5}), &out));
    assert_true(api_json_append(api_json_bytes((llm_str){"\xff\0", 2}), &out));
    assert_true(api_json_append(json_real(0.1), &out));
    assert_bytes(&out, "5\"a\xc3\xa9\xef\xbf\xbd\\u0000\"[255,0]0.1");
    assert_false(api_json_append(NULL, &out));
}

static void text_is_valid_utf8(void** state) {
    (void)state;
    assert_true(api_json_is_text((llm_str){NULL, 0}));
    assert_true(api_json_is_text(llm_str_of("a\xf0\x9f\x98\x80")));
    assert_false(api_json_is_text(llm_str_of("a\xf0\x9f\x98")));
    assert_false(api_json_is_text(llm_str_of("\x80")));
}

#define TEST(name) cmocka_unit_test_teardown(name, fini)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_body_must_be_an_object),
        TEST(a_member_may_not_come_twice),
        TEST(nul_is_a_character_of_texts_and_not_of_names),
        TEST(bodies_are_nested_so_deep_and_no_deeper),
        TEST(brackets_within_texts_do_not_count),
        TEST(lists_and_values_are_limited_in_number),
        TEST(want_of_memory_is_not_taken_for_bad_json),
        TEST(values_are_written_behind_what_is_there),
        TEST(text_is_valid_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
