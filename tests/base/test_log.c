// SPDX-License-Identifier: Apache-2.0
// Levels, targets and cutting of log lines.
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"

typedef struct lines {
    int count;
    berth_log_level level;
    char last[2048];
} lines;

static void keep_line(void* self, berth_log_level level, const char* line) {
    lines* kept = self;
    kept->count++;
    kept->level = level;
    strcpy(kept->last, line);
}

static char folder[] = "/tmp/berth-log-XXXXXX";
static char path[64];
static char setting[80];

/// Lines go to a file here, so that the tests' output stays readable.
static int set_up(void** state) {
    static lines kept;
    kept = (lines){0};
    berth_log_set_sink(keep_line, &kept);
    *state = &kept;
    (void)unlink(path);
    return berth_log_configure(setting) == BERTH_OK ? 0 : 1;
}

static int tear_down(void** state) {
    (void)state;
    berth_log_set_sink(NULL, NULL);
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

static void lines_up_to_the_level_are_written(void** state) {
    lines* kept = *state;
    berth_log(BERTH_LOG_INFO, "seen %d", 1);
    assert_string_equal(kept->last, "berth: info: seen 1");
    assert_int_equal(kept->level, BERTH_LOG_INFO);
    berth_log(BERTH_LOG_DEBUG, "not seen");
    assert_int_equal(kept->count, 1);
    assert_true(berth_log_enabled(BERTH_LOG_ERROR));
    assert_false(berth_log_enabled(BERTH_LOG_DEBUG));
    assert_false(berth_log_enabled(BERTH_LOG_OFF));
}

static void a_file_is_appended_to(void** state) {
    (void)state;
    berth_log(BERTH_LOG_ERROR, "one");
    assert_ok(berth_log_configure(setting));
    berth_log(BERTH_LOG_WARN, "two");
    char text[256];
    read_back(text, sizeof text);
    assert_string_equal(text, "berth: error: one\nberth: warn: two\n");
}

static void a_bad_setting_is_refused_and_changes_nothing(void** state) {
    lines* kept = *state;
    assert_fails(berth_log_configure("loud"), BERTH_ERR_INVALID_ARGUMENT, "'loud'");
    assert_fails(berth_log_configure(""), BERTH_ERR_INVALID_ARGUMENT, "debug");
    assert_fails(berth_log_configure("debug:/nowhere/at/all"), BERTH_ERR_IO, "/nowhere/at/all");
    berth_log(BERTH_LOG_INFO, "still");
    berth_log(BERTH_LOG_DEBUG, "still not");
    assert_int_equal(kept->count, 1);
}

static void levels_are_read_in_any_case(void** state) {
    lines* kept = *state;
    assert_ok(berth_log_configure("OFF"));
    berth_log(BERTH_LOG_ERROR, "silent");
    assert_int_equal(kept->count, 0);
}

static void a_long_line_is_cut_and_still_a_line(void** state) {
    lines* kept = *state;
    char text[3000];
    memset(text, 'y', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    berth_log(BERTH_LOG_WARN, "%s", text);
    assert_in_range(strlen(kept->last), 1000, 1023);
    char written[4096];
    read_back(written, sizeof written);
    assert_int_equal(strlen(written), strlen(kept->last) + 1);
    assert_int_equal(written[strlen(written) - 1], '\n');
}

static void once_means_once(void** state) {
    lines* kept = *state;
    for (int i = 0; i < 3; i++)
        berth_log_once(BERTH_LOG_WARN, "round %d", i);
    assert_int_equal(kept->count, 1);
    assert_string_equal(kept->last, "berth: warn: round 0");
}

static void logging_keeps_errno(void** state) {
    (void)state;
    errno = EDOM;
    berth_log(BERTH_LOG_WARN, "text");
    assert_int_equal(errno, EDOM);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    if (mkdtemp(folder) == NULL) return 1;
    (void)snprintf(path, sizeof path, "%s/log", folder);
    (void)snprintf(setting, sizeof setting, "info:%s", path);
    const struct CMUnitTest tests[] = {
        TEST(lines_up_to_the_level_are_written),
        TEST(a_file_is_appended_to),
        TEST(a_bad_setting_is_refused_and_changes_nothing),
        TEST(levels_are_read_in_any_case),
        TEST(a_long_line_is_cut_and_still_a_line),
        TEST(once_means_once),
        TEST(logging_keeps_errno),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(path);
    (void)rmdir(folder);
    return failed;
}
