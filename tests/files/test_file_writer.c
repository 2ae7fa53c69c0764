// SPDX-License-Identifier: Apache-2.0
// Files that appear whole or not at all.
#include "base/file_writer.h"

#include "base/error.h"
#include "files/file_kit.h"

static const berth_host* host(void) { return berth_host_default(); }

static int set_up(void** state) {
    static file_kit kit;
    kit = (file_kit){0};
    *state = &kit;
    return file_kit_open_folder(&kit) ? 0 : -1;
}

static int tear_down(void** state) {
    file_kit_close_folder(*state);
    return 0;
}

static void the_file_is_there_once_it_is_finished(void** state) {
    file_kit* kit = *state;
    berth_file_writer writer;
    char bytes[16];
    const char* path = file_kit_path(kit, "out");
    assert_ok(berth_file_writer_init(&writer, host(), &berth_file_ops_system, path));
    assert_ok(berth_file_writer_add(&writer, "abc", 3));
    assert_ok(berth_file_writer_add(&writer, NULL, 0));
    assert_ok(berth_file_writer_add(&writer, "de", 2));
    assert_int_equal(access(path, F_OK), -1);
    assert_ok(berth_file_writer_finish(&writer, BERTH_OK));
    assert_int_equal(file_kit_get(path, bytes, sizeof bytes), 5);
    assert_memory_equal(bytes, "abcde", 5);
    assert_int_equal(file_kit_count(kit), 1);
}

static void a_new_file_may_be_read_as_the_mask_says(void** state) {
    file_kit* kit = *state;
    berth_file_writer writer;
    struct stat info;
    const mode_t before = umask(027);
    const berth_status status =
        berth_file_writer_init(&writer, host(), &berth_file_ops_system, file_kit_path(kit, "out"));
    umask(before);
    assert_ok(status);
    assert_ok(berth_file_writer_finish(&writer, BERTH_OK));
    assert_int_equal(stat(kit->path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
}

static void a_failure_leaves_what_was_there(void** state) {
    file_kit* kit = *state;
    berth_file_writer writer;
    char bytes[16];
    const char* path = file_kit_put(kit, "out", "old", 3);
    assert_ok(berth_file_writer_init(&writer, host(), &berth_file_ops_system, path));
    assert_ok(berth_file_writer_add(&writer, "new", 3));
    const berth_status status = berth_file_writer_finish(&writer, BERTH_ERR_DEVICE);
    assert_int_equal(status, BERTH_ERR_DEVICE);
    assert_int_equal(file_kit_get(path, bytes, sizeof bytes), 3);
    assert_memory_equal(bytes, "old", 3);
    assert_int_equal(file_kit_count(kit), 1);
}

static void a_link_stays_and_what_it_leads_to_is_written(void** state) {
    file_kit* kit = *state;
    berth_file_writer writer;
    char target[512];
    char bytes[16];
    snprintf(target, sizeof target, "%s", file_kit_put(kit, "target", "old", 3));
    const char* link = file_kit_path(kit, "link");
    assert_int_equal(symlink("target", link), 0);
    assert_ok(berth_file_writer_init(&writer, host(), &berth_file_ops_system, link));
    assert_ok(berth_file_writer_add(&writer, "fresh", 5));
    assert_ok(berth_file_writer_finish(&writer, BERTH_OK));
    assert_true(readlink(link, bytes, sizeof bytes) > 0);
    assert_int_equal(file_kit_get(target, bytes, sizeof bytes), 5);
    assert_int_equal(file_kit_count(kit), 2);
}

static void a_name_that_cannot_be_given_is_an_error(void** state) {
    file_kit* kit = *state;
    berth_file_writer writer;
    const char* path = file_kit_path(kit, "out");
    assert_ok(berth_file_writer_init(&writer, host(), &berth_file_ops_system, path));
    assert_int_equal(remove(writer.temporary), 0);
    assert_fails(berth_file_writer_finish(&writer, BERTH_OK),
                 BERTH_ERR_NOT_FOUND,
                 "out' cannot be written: No such file");
    assert_ok(berth_file_writer_init(&writer, host(), &berth_file_ops_system, path));
    assert_int_equal(mkdir(path, 0700), 0); // what takes the place meanwhile stays
    assert_fails(berth_file_writer_finish(&writer, BERTH_OK),
                 BERTH_ERR_IO,
                 "out' cannot be written: Is a directory");
    assert_int_equal(file_kit_count(kit), 1);
}

static void the_last_of_two_writers_wins(void** state) {
    file_kit* kit = *state;
    berth_file_writer first, second;
    char bytes[16];
    const char* path = file_kit_path(kit, "out");
    assert_ok(berth_file_writer_init(&first, host(), &berth_file_ops_system, path));
    assert_ok(berth_file_writer_init(&second, host(), &berth_file_ops_system, path));
    assert_ok(berth_file_writer_add(&first, "first", 5));
    assert_ok(berth_file_writer_add(&second, "second", 6));
    assert_ok(berth_file_writer_finish(&second, BERTH_OK));
    assert_ok(berth_file_writer_finish(&first, BERTH_OK));
    assert_int_equal(file_kit_get(path, bytes, sizeof bytes), 5);
    assert_int_equal(file_kit_count(kit), 1);
}

static void names_that_are_taken_are_passed_over(void** state) {
    file_kit* kit = *state;
    berth_file_writer writer;
    unsigned long process, number;
    assert_ok(
        berth_file_writer_init(&writer, host(), &berth_file_ops_system, file_kit_path(kit, "out")));
    assert_int_equal(
        sscanf(strrchr(writer.temporary, '/'), "/.berth-%lu-%lu.tmp", &process, &number), 2);
    assert_int_equal(process, getpid());
    char next[64];
    snprintf(next, sizeof next, ".berth-%lu-%lu.tmp", process, number + 1);
    berth_file_writer other;
    file_kit_put(kit, next, "mine", 4);
    file_kit_path(kit, "out");
    assert_ok(berth_file_writer_init(&other, host(), &berth_file_ops_system, kit->path));
    assert_string_not_equal(strrchr(other.temporary, '/') + 1, next);
    assert_ok(berth_file_writer_finish(&other, BERTH_OK));
    assert_ok(berth_file_writer_finish(&writer, BERTH_OK));
    assert_int_equal(file_kit_count(kit), 2);
}

static void a_path_without_a_folder_is_in_the_current_one(void** state) {
    file_kit* kit = *state;
    berth_file_writer writer;
    char before[4096];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(kit->folder), 0);
    berth_status status = berth_file_writer_init(&writer, host(), &berth_file_ops_system, "out");
    if (status == BERTH_OK) status = berth_file_writer_finish(&writer, BERTH_OK);
    assert_int_equal(chdir(before), 0);
    assert_ok(status);
    assert_int_equal(access(file_kit_path(kit, "out"), F_OK), 0);
}

// ---- Failing calls.

static int calls_until_failure; // of the call under test; fails once it reaches 0

static bool fails_now(void) {
    errno = ENOSPC;
    return --calls_until_failure == 0;
}

static int failing_open(const char* path, int flags, mode_t mode) {
    return fails_now() ? -1 : berth_file_ops_system.open(path, flags, mode);
}

static ssize_t failing_write(int descriptor, const void* data, size_t bytes) {
    return fails_now() ? -1 : berth_file_ops_system.write(descriptor, data, bytes);
}

static int failing_fsync(int descriptor) {
    return fails_now() ? -1 : berth_file_ops_system.fsync(descriptor);
}

static int failing_rename(const char* from, const char* to) {
    return fails_now() ? -1 : berth_file_ops_system.rename(from, to);
}

static berth_status write_new(const berth_file_ops* ops, const char* path) {
    berth_file_writer writer;
    BERTH_TRY(berth_file_writer_init(&writer, host(), ops, path));
    const berth_status status = berth_file_writer_add(&writer, "new", 3);
    return berth_file_writer_finish(&writer, status);
}

static void whatever_call_fails_the_file_is_the_old_or_the_new_one(void** state) {
    file_kit* kit = *state;
    for (int call = 0; call < 4; call++) {
        berth_file_ops ops = berth_file_ops_system;
        if (call == 0) ops.open = failing_open;
        if (call == 1) ops.write = failing_write;
        if (call == 2) ops.fsync = failing_fsync;
        if (call == 3) ops.rename = failing_rename;
        for (int nth = 1; nth < 10; nth++) {
            char bytes[16] = "";
            const char* path = file_kit_put(kit, "out", "old", 3);
            calls_until_failure = nth;
            const berth_status status = write_new(&ops, path);
            const bool has_failed = calls_until_failure <= 0;
            assert_int_equal(status, has_failed ? BERTH_ERR_IO : BERTH_OK);
            if (has_failed) assert_non_null(strstr(berth_last_error(), "No space"));
            assert_int_equal(file_kit_get(path, bytes, sizeof bytes), 3);
            // the second call of open and of fsync is for the folder, when the new file is there
            const bool is_new = !has_failed || nth == 2;
            assert_memory_equal(bytes, is_new ? "new" : "old", 3);
            assert_int_equal(file_kit_count(kit), 1);
            if (!has_failed) break;
            assert_true(nth <= 2);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_file_is_there_once_it_is_finished, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_new_file_may_be_read_as_the_mask_says, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_failure_leaves_what_was_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_link_stays_and_what_it_leads_to_is_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_name_that_cannot_be_given_is_an_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_last_of_two_writers_wins, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_that_are_taken_are_passed_over, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_path_without_a_folder_is_in_the_current_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            whatever_call_fails_the_file_is_the_old_or_the_new_one, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
