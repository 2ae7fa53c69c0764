// SPDX-License-Identifier: Apache-2.0
// API keys: files, headers, and what is no key.
#include "llm/llm_kit.h"

#include "serve_keys.h"

#include <stdio.h>
#include <unistd.h>

/// A file of its own with so many bytes of text.
typedef struct key_file {
    char path[64];
} key_file;

static key_file write_file(const char* text, size_t size) {
    key_file file = {"/tmp/berth-keys-XXXXXX"};
    int fd = mkstemp(file.path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, size), size);
    close(fd);
    return file;
}

static berth_status read_text(const char* text, serve_keys* keys, llm_error* error) {
    key_file file = write_file(text, strlen(text));
    berth_status status = serve_keys_read(file.path, keys, error);
    unlink(file.path);
    return status;
}

static uint32_t find(const serve_keys* keys, const char* header) {
    uint32_t number = 99;
    bool is_found = serve_keys_find(keys, header, &number);
    assert_int_equal(is_found, number != 0);
    return number;
}

static void each_line_is_a_key(void** state) {
    (void)state;
    serve_keys keys;
    llm_error error;
    assert_int_equal(read_text("# keys\n\n  sk-one \r\nsk-two", &keys, &error), BERTH_OK);
    assert_int_equal(keys.count, 2);
    assert_int_equal(find(&keys, "Bearer sk-one"), 1);
    assert_int_equal(find(&keys, "bearer  sk-two"), 2);
    serve_keys_fini(&keys);
}

static void what_is_no_key_is_refused(void** state) {
    (void)state;
    serve_keys keys;
    llm_error error;
    assert_int_equal(read_text("sk-one\nsk-two\n", &keys, &error), BERTH_OK);
    static const char* const headers[] = {"",
                                          "Bearer",
                                          "Bearer ",
                                          "Bearer sk-on",
                                          "Bearer sk-onee",
                                          "Bearer sk-one ",
                                          "Basic sk-one",
                                          "sk-one",
                                          "Bearer SK-ONE"};
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        assert_int_equal(find(&keys, headers[i]), 0);
    assert_int_equal(find(&keys, NULL), 0);
    char endless[2000];
    memset(endless, 'x', sizeof endless - 1);
    memcpy(endless, "Bearer ", 7);
    endless[sizeof endless - 1] = '\0';
    assert_int_equal(find(&keys, endless), 0);
    serve_keys_fini(&keys);
}

static void without_keys_everybody_may(void** state) {
    (void)state;
    const serve_keys none = {0};
    uint32_t number = 99;
    assert_true(serve_keys_find(&none, NULL, &number));
    assert_int_equal(number, 0);
    assert_true(serve_keys_find(&none, "Bearer whatever", &number));
    assert_int_equal(number, 0);
}

static void files_that_hold_no_keys_are_refused_with_a_sentence(void** state) {
    (void)state;
    serve_keys keys;
    llm_error error;
    assert_int_equal(read_text("\n# none\n", &keys, &error), BERTH_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(error.text, "has no key"));
    assert_int_equal(read_text("two words\n", &keys, &error), BERTH_ERR_INVALID_ARGUMENT);
    assert_int_equal(read_text("b\xc3\xa4h\n", &keys, &error), BERTH_ERR_INVALID_ARGUMENT);
    assert_int_equal(serve_keys_read("/nonexistent/keys", &keys, &error), BERTH_ERR_IO);
    assert_non_null(strstr(error.text, "/nonexistent/keys"));
    assert_int_equal(serve_keys_read("/", &keys, &error), BERTH_ERR_IO);
    assert_int_equal(keys.count, 0);
    assert_null(keys.keys);
}

static void a_line_that_is_too_long_is_refused_as_a_whole(void** state) {
    (void)state;
    char text[1024];
    memset(text, '#', sizeof text); // a remark, however long, is none
    memcpy(text + 1000, "\nsk-one\n", 9);
    serve_keys keys;
    llm_error error;
    assert_int_equal(read_text(text, &keys, &error), BERTH_OK);
    assert_int_equal(keys.count, 1);
    serve_keys_fini(&keys);
    text[0] = 'k';
    assert_int_equal(read_text(text, &keys, &error), BERTH_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(error.text, "longer than 255 bytes"));
}

static void want_of_memory_leaves_no_keys(void** state) {
    (void)state;
    serve_keys keys;
    llm_error error;
    for (size_t at = 1; at <= 2; at++) {
        alloc_watch watch;
        watch_begin(&watch, at);
        assert_int_equal(read_text("sk-one\nsk-two\n", &keys, &error), BERTH_ERR_OUT_OF_MEMORY);
        watch_end();
        assert_int_equal(keys.count, 0);
        assert_null(keys.keys);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_line_is_a_key),
        cmocka_unit_test(what_is_no_key_is_refused),
        cmocka_unit_test(without_keys_everybody_may),
        cmocka_unit_test(files_that_hold_no_keys_are_refused_with_a_sentence),
        cmocka_unit_test(a_line_that_is_too_long_is_refused_as_a_whole),
        cmocka_unit_test(want_of_memory_leaves_no_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
