// SPDX-License-Identifier: Apache-2.0
// Levels, targets and cutting of log lines; the user's callback.
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/thread.h"

typedef struct lines {
    int count;
    berth_log_level level;
    char last[2048];
} lines;

static void keep_line(void* self, berth_log_level level, const char* text) {
    lines* kept = self;
    kept->count++;
    kept->level = level;
    strcpy(kept->last, text);
}

static char folder[] = "/tmp/berth-log-XXXXXX";
static char path[64];
static char setting[80];

/// Lines go to a file here, so that the tests' output stays readable.
static int set_up(void** state) {
    static lines kept;
    kept = (lines){0};
    berth_log_set_callback(keep_line, &kept);
    *state = &kept;
    (void)unlink(path);
    return berth_log_configure(setting) == BERTH_OK ? 0 : 1;
}

static int tear_down(void** state) {
    (void)state;
    berth_log_set_callback(NULL, NULL);
    return berth_log_configure("warn") == BERTH_OK ? 0 : 1;
}

static void read_back(char* text, size_t size) {
    const int file = open(path, O_RDONLY);
    assert_true(file >= 0);
    const ssize_t length = read(file, text, size - 1);
    (void)close(file);
    assert_true(length >= 0);
    text[length] = '\0';
}

static void lines_up_to_the_level_are_logged(void** state) {
    lines* kept = *state;
    berth_log_line(BERTH_LOG_INFO, "seen %d", 1);
    assert_string_equal(kept->last, "seen 1");
    assert_int_equal(kept->level, BERTH_LOG_INFO);
    berth_log_line(BERTH_LOG_DEBUG, "not seen");
    assert_int_equal(kept->count, 1);
    assert_true(berth_log_enabled(BERTH_LOG_ERROR));
    assert_false(berth_log_enabled(BERTH_LOG_DEBUG));
    assert_false(berth_log_enabled(BERTH_LOG_OFF));
}

static void a_file_is_appended_to(void** state) {
    (void)state;
    berth_log_set_callback(NULL, NULL);
    berth_log_line(BERTH_LOG_ERROR, "one");
    assert_ok(berth_log_configure(setting));
    berth_log_line(BERTH_LOG_WARN, "two");
    char text[256];
    read_back(text, sizeof text);
    assert_string_equal(text, "berth: error: one\nberth: warn: two\n");
}

static void a_bad_setting_is_refused_and_changes_nothing(void** state) {
    lines* kept = *state;
    assert_fails(berth_log_configure("loud"), BERTH_ERR_INVALID_ARGUMENT, "'loud'");
    assert_fails(berth_log_configure(""), BERTH_ERR_INVALID_ARGUMENT, "debug");
    assert_fails(berth_log_configure("debug:/nowhere/at/all"), BERTH_ERR_IO, "/nowhere/at/all");
    berth_log_line(BERTH_LOG_INFO, "still");
    berth_log_line(BERTH_LOG_DEBUG, "still not");
    assert_int_equal(kept->count, 1);
}

static void levels_are_read_in_any_case(void** state) {
    lines* kept = *state;
    assert_ok(berth_log_configure("OFF"));
    berth_log_line(BERTH_LOG_ERROR, "silent");
    assert_int_equal(kept->count, 0);
}

static void a_long_line_is_cut_and_still_a_line(void** state) {
    lines* kept = *state;
    char text[3000];
    memset(text, 'y', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    berth_log_line(BERTH_LOG_WARN, "%s", text);
    assert_in_range(strlen(kept->last), 1000, 1023);
    berth_log_set_callback(NULL, NULL);
    berth_log_line(BERTH_LOG_WARN, "%s", text);
    char written[4096];
    read_back(written, sizeof written);
    assert_in_range(strlen(written), 1000, 1024);
    assert_int_equal(written[strlen(written) - 1], '\n');
}

static void once_means_once(void** state) {
    lines* kept = *state;
    for (int i = 0; i < 3; i++)
        berth_log_once(BERTH_LOG_WARN, "round %d", i);
    assert_int_equal(kept->count, 1);
    assert_string_equal(kept->last, "round 0");
}

static void logging_keeps_errno(void** state) {
    (void)state;
    errno = EDOM;
    berth_log_line(BERTH_LOG_WARN, "text");
    assert_int_equal(errno, EDOM);
}

static void a_callback_stands_in_for_the_file_until_it_is_taken_away(void** state) {
    lines* kept = *state;
    berth_log_line(BERTH_LOG_WARN, "to the callback");
    berth_log_set_callback(NULL, NULL);
    berth_log_line(BERTH_LOG_WARN, "to the file");
    assert_int_equal(kept->count, 1);
    char text[256];
    read_back(text, sizeof text);
    assert_string_equal(text, "berth: warn: to the file\n");
}

static void log_again(void* self, berth_log_level level, const char* text) {
    keep_line(self, level, text);
    berth_log_line(level, "about %s", text);
}

static void a_line_logged_in_the_callback_goes_to_the_file(void** state) {
    lines* kept = *state;
    berth_log_set_callback(log_again, kept);
    berth_log_line(BERTH_LOG_WARN, "this");
    assert_int_equal(kept->count, 1);
    char text[256];
    read_back(text, sizeof text);
    assert_string_equal(text, "berth: warn: about this\n");
}

static void end_callbacks(void* self, berth_log_level level, const char* text) {
    keep_line(self, level, text);
    berth_log_set_callback(NULL, NULL);
}

static void a_callback_may_end_itself(void** state) {
    lines* kept = *state;
    berth_log_set_callback(end_callbacks, kept);
    berth_log_line(BERTH_LOG_WARN, "one");
    berth_log_line(BERTH_LOG_WARN, "two");
    assert_int_equal(kept->count, 1);
    char text[256];
    read_back(text, sizeof text);
    assert_string_equal(text, "berth: warn: two\n");
}

enum { LOGGING_THREADS = 3, LINES_A_THREAD = 200 };

static void log_often(void* unused) {
    (void)unused;
    for (int i = 0; i < LINES_A_THREAD; i++)
        berth_log_line(BERTH_LOG_WARN, "line %d", i);
}

/// The counts are plain integers: under the thread sanitizer this also shows that calls are one at
/// a time.
static void threads_log_one_at_a_time_and_a_replaced_callback_is_not_called_again(void** state) {
    lines* const first = *state;
    berth_thread threads[LOGGING_THREADS];
    for (int i = 0; i < LOGGING_THREADS; i++)
        assert_ok(berth_thread_start(&threads[i], "logger", log_often, NULL));
    lines second = {0};
    berth_log_set_callback(keep_line, &second);
    const int counted = first->count; // nobody writes it any more
    for (int i = 0; i < LOGGING_THREADS; i++)
        berth_thread_join(&threads[i]);
    assert_int_equal(first->count, counted);
    assert_int_equal(first->count + second.count, LOGGING_THREADS * LINES_A_THREAD);
    berth_log_set_callback(NULL, NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    if (mkdtemp(folder) == NULL) return 1;
    (void)snprintf(path, sizeof path, "%s/log", folder);
    (void)snprintf(setting, sizeof setting, "info:%s", path);
    const struct CMUnitTest tests[] = {
        TEST(lines_up_to_the_level_are_logged),
        TEST(a_file_is_appended_to),
        TEST(a_bad_setting_is_refused_and_changes_nothing),
        TEST(levels_are_read_in_any_case),
        TEST(a_long_line_is_cut_and_still_a_line),
        TEST(once_means_once),
        TEST(logging_keeps_errno),
        TEST(a_callback_stands_in_for_the_file_until_it_is_taken_away),
        TEST(a_line_logged_in_the_callback_goes_to_the_file),
        TEST(a_callback_may_end_itself),
        TEST(threads_log_one_at_a_time_and_a_replaced_callback_is_not_called_again),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(path);
    (void)rmdir(folder);
    return failed;
}
