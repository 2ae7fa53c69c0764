// SPDX-License-Identifier: Apache-2.0
// Tests of server-sent events as a client reads them.
#include "client_events.h"
#include "llm/llm_kit.h"

/// What was read: the data of each event, with a bar behind it.
typedef struct heard {
    char text[1024];
    size_t size;
    size_t refuse_at; ///< event that is not taken; 0: none
    size_t count;
} heard;

static berth_status hear(void* user, llm_str data, llm_error* error) {
    heard* h = user;
    if (++h->count == h->refuse_at) return llm_fail(error, BERTH_ERR_IO, "no more");
    assert_true(h->size + data.size + 2 < sizeof h->text);
    memcpy(h->text + h->size, data.data, data.size);
    h->size += data.size;
    h->text[h->size++] = '|';
    h->text[h->size] = '\0';
    return BERTH_OK;
}

/// Reads a stream in pieces of `step` bytes, each in a block of its own.
static berth_status read_in_steps(heard* h, const char* stream, size_t step, llm_error* error) {
    client_events events = {.on_event = hear, .user = h, .most_bytes = 200};
    berth_status status = BERTH_OK;
    const size_t size = strlen(stream);
    for (size_t at = 0; at < size && status == BERTH_OK; at += step) {
        const size_t part = size - at < step ? size - at : step;
        char* bytes = copy_exactly(stream + at, part);
        status = client_events_push(&events, bytes, part, error);
        free(bytes);
    }
    client_events_fini(&events);
    return status;
}

/// Asserts what a stream holds, wherever it is cut.
static void assert_holds(const char* stream, const char* expected) {
    llm_error error;
    for (size_t step = 1; step <= strlen(stream); step++) {
        heard h = {.count = 0};
        assert_int_equal(read_in_steps(&h, stream, step, &error), BERTH_OK);
        if (strcmp(h.text, expected) != 0)
            fail_msg("'%s' in steps of %zu: '%s', not '%s'", stream, step, h.text, expected);
    }
}

static void events_are_read_wherever_the_bytes_are_cut(void** state) {
    (void)state;
    assert_holds("data: one\n\ndata: two\n\n", "one|two|");
    assert_holds("data: one\r\n\r\ndata: two\r\n\r\n", "one|two|");
    assert_holds("data: one\r\rdata: two\r\r", "one|two|");
    assert_holds("data: one\n\r\ndata: two\r\n\n", "one|two|");
}

static void lines_of_one_event_are_joined(void** state) {
    (void)state;
    assert_holds("data: one\ndata: two\n\n", "one\ntwo|");
    assert_holds("data\ndata\n\n", "\n|");
    assert_holds("data:\ndata:x\n\n", "\nx|");
}

static void only_one_space_behind_the_colon_is_not_data(void** state) {
    (void)state;
    assert_holds("data:  x \n\ndata:y: z\n\n", " x |y: z|");
}

static void comments_and_other_fields_say_nothing(void** state) {
    (void)state;
    assert_holds(": wait\n\nevent: x\nid: 7\nretry: 10\n\n", "");
    assert_holds("event: x\ndata: one\n: still\ndatum: no\ndat: no\nDATA: no\n\n", "one|");
    assert_holds(":\n\n:data: x\n\n\n\n", "");
}

static void the_mark_of_the_byte_order_may_begin_a_stream(void** state) {
    (void)state;
    assert_holds("\xEF\xBB\xBF"
                 "data: x\n\n",
                 "x|");
    assert_holds("data: y\n\n\xEF\xBB\xBF"
                 "data: x\n\n",
                 "y|");
}

static void an_event_that_the_stream_ends_within_is_none(void** state) {
    (void)state;
    assert_holds("data: one\n\ndata: two\n", "one|");
    assert_holds("data: one\n\ndata: tw", "one|");
}

static void an_event_of_too_many_bytes_is_an_error(void** state) {
    (void)state;
    llm_error error;
    char line[256];
    memset(line, 'x', sizeof line);
    memcpy(line, "data: ", 6);
    line[200] = '\0';
    heard h = {.count = 0};
    assert_int_equal(read_in_steps(&h, line, 7, &error), BERTH_OK); // just as many as may be
    line[200] = 'x';
    line[201] = '\0';
    assert_int_equal(read_in_steps(&h, line, 7, &error), BERTH_ERR_CORRUPT);
    assert_mentions(&error, "200 bytes");
    // many lines of an event that does not end
    char lines[500] = "";
    for (int i = 0; i < 30; i++)
        strcat(lines, "data: abcdefgh\n");
    assert_int_equal(read_in_steps(&h, lines, 11, &error), BERTH_ERR_CORRUPT);
    // comments are not kept
    char comments[400] = "";
    for (int i = 0; i < 30; i++)
        strcat(comments, ": abcdefgh\n");
    assert_int_equal(read_in_steps(&h, comments, 11, &error), BERTH_OK);
}

static void what_the_listener_says_ends_the_reading(void** state) {
    (void)state;
    llm_error error;
    heard h = {.refuse_at = 2};
    assert_int_equal(read_in_steps(&h, "data: 1\n\ndata: 2\n\ndata: 3\n\n", 40, &error),
                     BERTH_ERR_IO);
    assert_string_equal(h.text, "1|");
    assert_int_equal(h.count, 2);
}

static void every_allocation_may_fail(void** state) {
    (void)state;
    llm_error error;
    alloc_watch watch;
    uint64_t failures = 0;
    for (uint64_t fail_at = 1;; fail_at++) {
        heard h = {.count = 0};
        watch_begin(&watch, fail_at);
        const berth_status status = read_in_steps(&h, "data: one\ndata: two\n\n", 3, &error);
        watch_end();
        if (watch.calls < fail_at) break;
        assert_int_equal(status, BERTH_ERR_OUT_OF_MEMORY);
        failures++;
    }
    assert_true(failures >= 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_read_wherever_the_bytes_are_cut),
        cmocka_unit_test(lines_of_one_event_are_joined),
        cmocka_unit_test(only_one_space_behind_the_colon_is_not_data),
        cmocka_unit_test(comments_and_other_fields_say_nothing),
        cmocka_unit_test(the_mark_of_the_byte_order_may_begin_a_stream),
        cmocka_unit_test(an_event_that_the_stream_ends_within_is_none),
        cmocka_unit_test(an_event_of_too_many_bytes_is_an_error),
        cmocka_unit_test(what_the_listener_says_ends_the_reading),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
