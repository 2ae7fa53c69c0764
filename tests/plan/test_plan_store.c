// SPDX-License-Identifier: Apache-2.0
// The plan file under a lock: several writers lose nothing, and whatever call fails, the file is
// the old one or the new one.
#include "plan/plan_store.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "kit/failing_host.h"
#include "plan/plan_file_kit.h"

typedef struct fixture {
    char folder[256];
    char path[300];
} fixture;

static int set_up(void** state) {
    static fixture f;
    const char* where = getenv("TMPDIR");
    *state = &f;
    snprintf(f.folder,
             sizeof f.folder,
             "%s/berth-plans-XXXXXX",
             where != NULL && strlen(where) < 200 ? where : "/tmp");
    if (mkdtemp(f.folder) == NULL) return -1;
    snprintf(f.path, sizeof f.path, "%s/plans", f.folder);
    return 0;
}

static int tear_down(void** state) {
    fixture* f = *state;
    char lock[320];
    snprintf(lock, sizeof lock, "%s.lock", f->path);
    (void)unlink(f->path);
    (void)unlink(lock);
    return rmdir(f->folder); // nothing else was left there
}

static berth_plan_store open_store(const fixture* f, const berth_file_ops* ops) {
    const berth_plan_file_limits limits = file_kit_limits();
    berth_plan_store store;
    assert_ok(berth_plan_store_init(
        &store, berth_host_default(), ops, f->path, FILE_KIT_CONFIG, &limits));
    berth_plan_store_load(&store);
    return store;
}

/// A section for a step called `name` with one path, three runs and plans at `first` and twice it.
static berth_byte_writer make_section(const char* name, int64_t first) {
    const berth_plan_policy policy = default_policy();
    berth_step_model* model;
    step_tape tape = {.host = berth_host_default()};
    assert_ok(berth_step_model_create(tape.host, name, &policy, &model));
    for (int i = 0; i < 5; i++) {
        const int64_t t = first << (i % 2);
        tape_op(&tape, 1);
        tape_matrix(&tape, t, 100);
        const berth_binding bindings[] = {{"t", t}};
        const berth_shape_key key = {bindings, 1};
        (void)run_tape(model, &key, &tape);
    }
    const berth_event_names names = file_kit_names(NULL);
    berth_byte_writer section = {.host = tape.host};
    assert_true(berth_step_model_export(model, &names, &section));
    assert_false(section.failed);
    berth_trace_fini(&tape.trace, tape.host);
    berth_step_model_destroy(model);
    return section;
}

static berth_status save(const berth_plan_store* store, const char* name, int64_t first) {
    berth_byte_writer section = make_section(name, first);
    const berth_status status = berth_plan_store_save(store, &section, 1);
    berth_byte_writer_fini(&section);
    return status;
}

/// Number of plans that the file has for the step called `name`; -1 without the step.
static int plans_of(const fixture* f, const char* name) {
    berth_plan_store store = open_store(f, &berth_file_ops_system);
    const berth_file_step* step = berth_plan_file_find(&store.file, name);
    int plans = step != NULL ? 0 : -1;
    for (uint32_t i = 0; step != NULL && i < step->path_count; i++)
        plans += (int)store.file.paths.items[step->first_path + i].plan_count;
    berth_plan_store_fini(&store);
    return plans;
}

static void what_was_saved_is_there(void** state) {
    fixture* f = *state;
    berth_plan_store store = open_store(f, &berth_file_ops_system);
    assert_int_equal(store.file.steps.count, 0);
    assert_ok(save(&store, "a", 64));
    assert_ok(save(&store, "b", 64));
    assert_int_equal(plans_of(f, "a"), 2);
    assert_int_equal(plans_of(f, "b"), 2);
    assert_int_equal(plans_of(f, "c"), -1);
    berth_plan_store_fini(&store);
}

static void plans_for_other_buckets_of_others_survive(void** state) {
    fixture* f = *state;
    berth_plan_store store = open_store(f, &berth_file_ops_system);
    assert_ok(save(&store, "a", 64));
    assert_ok(save(&store, "a", 1000));
    assert_int_equal(plans_of(f, "a"), 4);
    assert_ok(save(&store, "a", 1000));
    assert_int_equal(plans_of(f, "a"), 4);
    assert_ok(save(&store, "a", 2000)); // one of them is there already
    assert_int_equal(plans_of(f, "a"), 5);
    berth_plan_store_fini(&store);
}

static void a_file_keeps_to_its_limits(void** state) {
    fixture* f = *state;
    berth_plan_store store = open_store(f, &berth_file_ops_system);
    store.limits.step_bytes = 400;
    for (int64_t first = 64; first < 100000; first *= 4)
        assert_ok(save(&store, "a", first));
    struct stat info;
    assert_int_equal(stat(f->path, &info), 0);
    assert_true(info.st_size < 600);
    assert_true(plans_of(f, "a") > 2);
    assert_true(plans_of(f, "a") < 12);
    store.limits.file_bytes = 2048;
    char name[16];
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "step-%d", i);
        assert_ok(save(&store, name, 64));
        assert_int_equal(stat(f->path, &info), 0);
        assert_true(info.st_size <= 2048);
        assert_true(plans_of(f, name) >= 0); // the newest is always there
    }
    assert_int_equal(plans_of(f, "step-0"), -1); // the oldest has gone
    assert_true(plans_of(f, "step-18") >= 0);
    berth_plan_store_fini(&store);
}

static void a_file_larger_than_any_of_ours_is_not_read(void** state) {
    fixture* f = *state;
    berth_plan_store store = open_store(f, &berth_file_ops_system);
    assert_ok(save(&store, "a", 64));
    store.limits.file_bytes = 100;
    assert_fails(save(&store, "b", 64), BERTH_ERR_CORRUPT, "no more than 100");
    berth_plan_store_fini(&store);
    assert_int_equal(plans_of(f, "a"), 2);
}

// ---- The lock.

static int open_lock(const fixture* f) {
    char lock[320];
    snprintf(lock, sizeof lock, "%s.lock", f->path);
    return open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

static void a_lock_that_is_not_given_back_is_waited_for_a_while_only(void** state) {
    fixture* f = *state;
    berth_plan_store store = open_store(f, &berth_file_ops_system);
    const int lock = open_lock(f);
    assert_true(lock >= 0);
    assert_int_equal(flock(lock, LOCK_EX), 0);
    store.tries = 1;
    assert_fails(save(&store, "a", 64), BERTH_ERR_STATE, "keeps it locked");
    assert_int_equal(access(f->path, F_OK), -1);
    assert_int_equal(close(lock), 0); // as the end of its owner does
    assert_ok(save(&store, "a", 64));
    berth_plan_store_fini(&store);
}

static void processes_that_save_at_the_same_time_lose_nothing(void** state) {
    fixture* f = *state;
    enum { PROCESSES = 4, STEPS = 6 };
    pid_t children[PROCESSES];
    for (int p = 0; p < PROCESSES; p++) {
        children[p] = fork();
        assert_true(children[p] >= 0);
        if (children[p] != 0) continue;
        berth_plan_store store = open_store(f, &berth_file_ops_system);
        store.tries = 60000; // however slow the others are
        for (int i = 0; i < STEPS; i++) {
            char name[32];
            snprintf(name, sizeof name, "%d-%d", p, i);
            if (save(&store, name, 64) != BERTH_OK) _exit(1);
            if (save(&store, "shared", (int64_t)64 << (2 * p)) != BERTH_OK) _exit(2);
        }
        _exit(0);
    }
    for (int p = 0; p < PROCESSES; p++) {
        int status = 0;
        assert_int_equal(waitpid(children[p], &status, 0), children[p]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    for (int p = 0; p < PROCESSES; p++) {
        for (int i = 0; i < STEPS; i++) {
            char name[32];
            snprintf(name, sizeof name, "%d-%d", p, i);
            assert_int_equal(plans_of(f, name), 2);
        }
    }
    assert_int_equal(plans_of(f, "shared"), 2 * PROCESSES);
}

// ---- Failing calls.

static int calls_until_failure;

static bool fails_now(int error) {
    errno = error;
    return --calls_until_failure == 0;
}

static int failing_open(const char* path, int flags, mode_t mode) {
    return fails_now(EMFILE) ? -1 : berth_file_ops_system.open(path, flags, mode);
}
static ssize_t failing_read(int descriptor, void* buffer, size_t bytes) {
    return fails_now(EIO) ? -1 : berth_file_ops_system.read(descriptor, buffer, bytes);
}
static ssize_t failing_write(int descriptor, const void* data, size_t bytes) {
    return fails_now(ENOSPC) ? -1 : berth_file_ops_system.write(descriptor, data, bytes);
}
static int failing_fsync(int descriptor) {
    return fails_now(EIO) ? -1 : berth_file_ops_system.fsync(descriptor);
}
static int failing_rename(const char* from, const char* to) {
    return fails_now(EROFS) ? -1 : berth_file_ops_system.rename(from, to);
}
static int failing_flock(int descriptor, int operation) {
    return fails_now(ENOLCK) ? -1 : berth_file_ops_system.flock(descriptor, operation);
}

static void whatever_call_fails_no_plan_is_lost(void** state) {
    fixture* f = *state;
    for (int call = 0; call < 6; call++) {
        berth_file_ops ops = berth_file_ops_system;
        if (call == 0) ops.open = failing_open;
        if (call == 1) ops.read = failing_read;
        if (call == 2) ops.write = failing_write;
        if (call == 3) ops.fsync = failing_fsync;
        if (call == 4) ops.rename = failing_rename;
        if (call == 5) ops.flock = failing_flock;
        for (int nth = 1;; nth++) {
            calls_until_failure = 0; // none
            (void)unlink(f->path);
            berth_plan_store store = open_store(f, &ops);
            assert_ok(save(&store, "old", 64));
            calls_until_failure = nth;
            const berth_status status = save(&store, "new", 64);
            const bool has_failed = calls_until_failure <= 0;
            assert_int_equal(status, has_failed ? BERTH_ERR_IO : BERTH_OK);
            if (has_failed) assert_non_null(strstr(berth_last_error(), f->path));
            calls_until_failure = 0;
            berth_plan_store_fini(&store);
            assert_int_equal(plans_of(f, "old"), 2);
            if (!has_failed) assert_int_equal(plans_of(f, "new"), 2);
            if (!has_failed) break;
            assert_true(nth < 20);
        }
    }
}

static int warnings;

static void count_warning(void* self, berth_log_level level, const char* text) {
    (void)self;
    (void)text;
    warnings += level == BERTH_LOG_WARN;
}

static void a_file_that_cannot_be_read_is_none_with_one_warning(void** state) {
    fixture* f = *state;
    berth_plan_store store = open_store(f, &berth_file_ops_system);
    assert_ok(save(&store, "a", 64));
    berth_plan_store_fini(&store);
    berth_file_ops ops = berth_file_ops_system;
    ops.read = failing_read;
    calls_until_failure = 1;
    warnings = 0;
    berth_log_set_callback(count_warning, NULL);
    store = open_store(f, &ops);
    berth_log_set_callback(NULL, NULL);
    assert_int_equal(warnings, 1);
    assert_int_equal(store.file.steps.count, 0);
    assert_false(store.is_foreign);
    berth_plan_store_fini(&store);
}

static void failing_memory_at_any_call_leaves_the_old_file_or_the_new_one(void** state) {
    fixture* f = *state;
    berth_byte_writer section = make_section("new", 64);
    for (size_t nth = 1;; nth++) {
        (void)unlink(f->path);
        berth_plan_store plain = open_store(f, &berth_file_ops_system);
        assert_ok(save(&plain, "old", 64));
        berth_plan_store_fini(&plain);
        failing_host failing;
        failing_host_init(&failing);
        berth_host* host;
        assert_ok(berth_host_create(&failing.allocator, &host));
        failing_host_fail(&failing, nth, false);
        const berth_plan_file_limits limits = file_kit_limits();
        berth_plan_store store;
        berth_status status = berth_plan_store_init(
            &store, host, &berth_file_ops_system, f->path, FILE_KIT_CONFIG, &limits);
        if (status == BERTH_OK) {
            berth_plan_store_load(&store);
            status = berth_plan_store_save(&store, &section, 1);
            berth_plan_store_fini(&store);
        }
        const bool has_failed = failing_host_has_failed(&failing);
        assert_true(status == BERTH_OK || (has_failed && status == BERTH_ERR_OUT_OF_MEMORY));
        assert_int_equal(plans_of(f, "old"), 2);
        assert_int_equal(plans_of(f, "new"), status == BERTH_OK ? 2 : -1);
        berth_host_destroy(host);
        assert_int_equal(failing.live_blocks, 0);
        if (!has_failed) break;
    }
    berth_byte_writer_fini(&section);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(what_was_saved_is_there),
        TEST(plans_for_other_buckets_of_others_survive),
        TEST(a_file_keeps_to_its_limits),
        TEST(a_file_larger_than_any_of_ours_is_not_read),
        TEST(a_lock_that_is_not_given_back_is_waited_for_a_while_only),
        TEST(processes_that_save_at_the_same_time_lose_nothing),
        TEST(whatever_call_fails_no_plan_is_lost),
        TEST(a_file_that_cannot_be_read_is_none_with_one_warning),
        TEST(failing_memory_at_any_call_leaves_the_old_file_or_the_new_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
