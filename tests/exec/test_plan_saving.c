// SPDX-License-Identifier: Apache-2.0
// Plans that outlive their process: a runtime that starts with the file of another hits at its
// first step, with the same bits, and no file can do worse than none.
#include <sys/wait.h>

#include "base/log.h"
#include "base/thread.h"
#include "files/file_kit.h"
#include "plan/plan_file_seal.h"

typedef struct fixture {
    file_kit files;
    char path[400];
} fixture;

static int set_up(void** state) {
    static fixture f;
    f = (fixture){0};
    *state = &f;
    if (!file_kit_open_folder(&f.files)) return -1;
    snprintf(f.path, sizeof f.path, "%s/plans", f.files.folder);
    return 0;
}

static int tear_down(void** state) {
    fixture* f = *state;
    file_kit_close_folder(&f->files);
    return 0;
}

static berth_status open_with(exec_kit* kit,
                              const char* path,
                              const berth_host_allocator* host,
                              const char* threads) {
    const berth_option_setting settings[] = {
        {"plan_cache_file", path}, {"threads", threads}, {"device", "cpu"}, {"memory", "256M"}};
    return exec_kit_open(kit, host, settings, 4);
}

static exec_kit open_kit(const fixture* f) {
    exec_kit kit;
    assert_ok(open_with(&kit, f->path, NULL, "1"));
    return kit;
}

/// A step of a few ops over `n` rows; returns a sum that depends on every element.
static float run_step(berth_context* ctx, const char* name, int64_t n) {
    assert_ok(exec_kit_begin(ctx, name, n));
    berth_tensor* x = exec_kit_ramp(ctx, 1, n * 32);
    x = berth_reshape(ctx, berth_move(x), BERTH_SHAPE(n, 32));
    berth_tensor* y = berth_silu(ctx, x);
    berth_tensor* z = berth_add(ctx, berth_move(y), x);
    berth_tensor* w = berth_mul(ctx, berth_move(z), x);
    berth_tensor* v = berth_softmax(ctx, berth_move(w), -1);
    berth_tensor* sum = berth_sum(ctx, berth_move(v), BERTH_DIMS(0, 1), false);
    float value = 0;
    assert_context_ok(ctx);
    assert_ok(berth_tensor_read(sum, &value, sizeof value));
    berth_release_all(x, sum);
    assert_ok(berth_step_end(ctx));
    return value;
}

static const int64_t lengths[] = {100, 300, 170, 64, 520};
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

static void run_all(berth_context* ctx, const char* name) {
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < LENGTHS; i++)
            (void)run_step(ctx, name, lengths[i]);
}

/// A process that runs step `name` and ends.
static void learn(const fixture* f, const char* name) {
    exec_kit kit = open_kit(f);
    run_all(kit.ctx, name);
    exec_kit_close(&kit);
}

// ---- Warnings.

static int warnings;
static char last_warning[1024];

static void count_warning(void* self, berth_log_level level, const char* text) {
    (void)self;
    if (level > BERTH_LOG_WARN) return;
    warnings++;
    snprintf(last_warning, sizeof last_warning, "%s", text);
}

static void watch_warnings(void) {
    warnings = 0;
    berth_log_set_callback(count_warning, NULL);
}

static void expect_one_warning(const fixture* f, const char* part) {
    berth_log_set_callback(NULL, NULL);
    assert_int_equal(warnings, 1);
    if (strstr(last_warning, part) == NULL || strstr(last_warning, f->path) == NULL)
        fail_msg("'%s' does not mention '%s' and the file", last_warning, part);
}

/// The file's bytes, up to a megabyte.
static size_t get_file(const fixture* f, char* bytes) {
    return file_kit_get(f->path, bytes, 1 << 20);
}

static char* buffer_of_a_megabyte(void) {
    static char buffer[1 << 20];
    return buffer;
}

// ---- Restarts.

static void a_restarted_program_hits_at_its_first_step(void** state) {
    fixture* f = *state;
    learn(f, "s");
    exec_kit plain, kit = open_kit(f);
    const berth_option_setting off[] = {{"mode", "pool"}, {"threads", "1"}};
    assert_ok(exec_kit_open(&plain, NULL, off, 2));
    for (int i = 0; i < LENGTHS; i++) {
        const float here = run_step(kit.ctx, "s", lengths[i]);
        const float there = run_step(plain.ctx, "s", lengths[i]);
        assert_memory_equal(&here, &there, sizeof here);
    }
    const berth_step_counters counters = exec_kit_counters(kit.runtime, "s");
    assert_int_equal(counters.runs, LENGTHS);
    assert_int_equal(counters.hits, LENGTHS);
    assert_int_equal(counters.plans, 0);
    assert_int_equal(counters.recorded, 0);
    exec_kit_close(&kit);
    exec_kit_close(&plain);
}

static void another_process_hits_at_its_first_step(void** state) {
    fixture* f = *state;
    for (int process = 0; process < 2; process++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            exec_kit kit;
            if (open_with(&kit, f->path, NULL, "1") != BERTH_OK) _exit(1);
            (void)run_step(kit.ctx, "s", 300);
            const berth_step_counters first = exec_kit_counters(kit.runtime, "s");
            if (first.hits != (process == 0 ? 0 : 1)) _exit(2);
            run_all(kit.ctx, "s");
            exec_kit_close(&kit);
            _exit(0);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

static void what_a_step_needs_is_known_before_its_first_run(void** state) {
    fixture* f = *state;
    learn(f, "s");
    exec_kit kit = open_kit(f);
    const int64_t length = 300;
    const berth_step_input input = {.name = "x", .rank = 1, .dims = &length};
    const berth_step_desc desc = {.name = "s", .inputs = &input, .input_count = 1};
    berth_step_estimate_result estimate;
    assert_ok(berth_step_estimate(kit.ctx, &desc, &estimate));
    assert_int_equal(estimate.kind, BERTH_ESTIMATE_EXACT);
    assert_true(estimate.bytes >= 300 * 32 * 4);
    assert_ok(berth_step_warm(kit.ctx, &desc));
    (void)run_step(kit.ctx, "s", 300);
    assert_int_equal(exec_kit_counters(kit.runtime, "s").hits, 1);
    exec_kit_close(&kit);
}

static void infer_and_nothing_else(const berth_op_call* call) { (void)call; }

static berth_status infer_same(berth_op_call* call) {
    call->outputs[0] = call->inputs[0];
    return BERTH_OK;
}

static const berth_op* register_op(berth_runtime* runtime, const char* name) {
    const berth_op_desc desc = {.struct_size = sizeof desc,
                                .name = name,
                                .min_inputs = 1,
                                .max_inputs = 1,
                                .output_count = 1,
                                .infer = infer_same,
                                .kernels = {[BERTH_DEVICE_CPU] = infer_and_nothing_else}};
    const berth_op* op;
    assert_ok(berth_op_register(runtime, &desc, &op));
    return op;
}

/// An outer step with an op of the user's and two inner steps.
static void run_nested(berth_context* ctx, const berth_op* op, int64_t n) {
    assert_ok(exec_kit_begin(ctx, "outer", n));
    berth_tensor* x = exec_kit_ramp(ctx, 1, n);
    berth_tensor* y = berth_apply(ctx, op, &x, 1, NULL, 0, NULL);
    for (int i = 0; i < 2; i++)
        (void)run_step(ctx, i == 0 ? "inner" : "inner, too", n);
    berth_release_all(x, y);
    assert_context_ok(ctx);
    assert_ok(berth_step_end(ctx));
}

static void nested_steps_and_registered_ops_are_found_by_name(void** state) {
    fixture* f = *state;
    for (int process = 0; process < 2; process++) {
        exec_kit kit = open_kit(f);
        // other numbers in each process
        if (process == 1) (void)register_op(kit.runtime, "before");
        if (process == 1) (void)run_step(kit.ctx, "first", 64);
        const berth_op* op = register_op(kit.runtime, "mine");
        // twice: the frames of the inner steps are known once these are planned
        for (int i = 0; i < (process == 0 ? 24 : 2); i++)
            run_nested(kit.ctx, op, 100 + i % 12 * 40);
        if (process == 1) {
            assert_int_equal(exec_kit_counters(kit.runtime, "outer").hits, 2);
            assert_int_equal(exec_kit_counters(kit.runtime, "inner").hits, 2);
            assert_int_equal(exec_kit_counters(kit.runtime, "inner, too").hits, 2);
        }
        exec_kit_close(&kit);
    }
}

static void a_path_whose_op_is_missing_is_kept_for_those_who_have_it(void** state) {
    fixture* f = *state;
    exec_kit kit = open_kit(f);
    const berth_op* op = register_op(kit.runtime, "mine");
    for (int i = 0; i < 12; i++)
        run_nested(kit.ctx, op, 100 + i * 40);
    exec_kit_close(&kit);
    kit = open_kit(f);
    const berth_op* other = register_op(kit.runtime, "other");
    run_nested(kit.ctx, other, 100);
    assert_int_equal(exec_kit_counters(kit.runtime, "outer").hits, 0);
    exec_kit_close(&kit);
    kit = open_kit(f);
    op = register_op(kit.runtime, "mine");
    (void)register_op(kit.runtime, "other");
    run_nested(kit.ctx, op, 140);
    run_nested(kit.ctx, op, 140);
    assert_int_equal(exec_kit_counters(kit.runtime, "outer").paths, 2);
    assert_true(exec_kit_counters(kit.runtime, "outer").hits >= 1);
    exec_kit_close(&kit);
}

// ---- Merging.

static void runtimes_at_the_same_time_keep_each_others_steps(void** state) {
    fixture* f = *state;
    exec_kit a = open_kit(f);
    exec_kit b = open_kit(f);
    run_all(a.ctx, "a");
    run_all(b.ctx, "b");
    for (int i = 0; i < 3; i++) {
        (void)run_step(a.ctx, "both", 100 << i);
        (void)run_step(b.ctx, "both", 4000 << i);
    }
    (void)run_step(a.ctx, "both", 100);
    (void)run_step(b.ctx, "both", 4000);
    assert_ok(berth_runtime_save_plans(a.runtime));
    exec_kit_close(&b);
    exec_kit_close(&a); // knows nothing of b's
    exec_kit c = open_kit(f);
    (void)run_step(c.ctx, "a", 300);
    (void)run_step(c.ctx, "b", 300);
    (void)run_step(c.ctx, "both", 100);
    (void)run_step(c.ctx, "both", 4000);
    assert_int_equal(exec_kit_counters(c.runtime, "a").hits, 1);
    assert_int_equal(exec_kit_counters(c.runtime, "b").hits, 1);
    assert_int_equal(exec_kit_counters(c.runtime, "both").hits, 2);
    assert_int_equal(exec_kit_counters(c.runtime, "both").plans, 0);
    exec_kit_close(&c);
}

static void saving_again_and_again_does_not_grow_the_file(void** state) {
    fixture* f = *state;
    learn(f, "s");
    char* bytes = buffer_of_a_megabyte();
    const size_t size = get_file(f, bytes);
    exec_kit kit = open_kit(f);
    for (int i = 0; i < 5; i++) {
        (void)run_step(kit.ctx, "s", lengths[i % LENGTHS]);
        assert_ok(berth_runtime_save_plans(kit.runtime));
        assert_int_equal(get_file(f, bytes), size);
    }
    exec_kit_close(&kit);
    assert_int_equal(get_file(f, bytes), size);
    assert_int_equal(file_kit_count(&f->files), 2); // it and its lock
}

// ---- Files that cannot be used.

static void a_file_that_is_not_ours_is_left_alone(void** state) {
    fixture* f = *state;
    static const char diary[] = "Dear diary, today I made no plans.";
    file_kit_put(&f->files, "plans", diary, sizeof diary);
    watch_warnings();
    exec_kit kit = open_kit(f);
    run_all(kit.ctx, "s");
    assert_true(exec_kit_counters(kit.runtime, "s").hits > 0);
    assert_fails(berth_runtime_save_plans(kit.runtime), BERTH_ERR_CORRUPT, "no plan file");
    exec_kit_close(&kit);
    expect_one_warning(f, "no plan file");
    char* bytes = buffer_of_a_megabyte();
    assert_int_equal(get_file(f, bytes), sizeof diary);
    assert_memory_equal(bytes, diary, sizeof diary);
}

static void a_damaged_file_is_said_once_and_replaced(void** state) {
    fixture* f = *state;
    learn(f, "s");
    char* bytes = buffer_of_a_megabyte();
    const size_t size = get_file(f, bytes);
    bytes[size / 2] ^= 4;
    file_kit_put(&f->files, "plans", bytes, size);
    watch_warnings();
    learn(f, "s");
    expect_one_warning(f, "checksum");
    watch_warnings();
    exec_kit kit = open_kit(f);
    (void)run_step(kit.ctx, "s", 300);
    assert_int_equal(exec_kit_counters(kit.runtime, "s").hits, 1);
    exec_kit_close(&kit);
    berth_log_set_callback(NULL, NULL);
    assert_int_equal(warnings, 0);
}

static void a_file_of_another_configuration_is_not_used(void** state) {
    fixture* f = *state;
    learn(f, "s");
    watch_warnings();
    exec_kit kit;
    assert_ok(open_with(&kit, f->path, NULL, "2"));
    (void)run_step(kit.ctx, "s", 300);
    assert_int_equal(exec_kit_counters(kit.runtime, "s").hits, 0);
    exec_kit_close(&kit);
    expect_one_warning(f, "threads=1");
}

/// As run_step, where the step may be refused for want of memory; then it runs without one.
static float run_refused_or_not(berth_context* ctx, int64_t n) {
    const berth_status status = exec_kit_begin(ctx, "s", n);
    if (status == BERTH_OK) {
        assert_ok(berth_step_end(ctx)); // ended early: another path
        return run_step(ctx, "s", n);
    }
    assert_int_equal(status, BERTH_ERR_OUT_OF_MEMORY);
    berth_context_clear_error(ctx);
    return run_step(ctx, "without", n);
}

static void a_file_of_an_enemy_changes_no_result(void** state) {
    fixture* f = *state;
    float expected[2];
    exec_kit kit = open_kit(f);
    for (int i = 0; i < 2; i++)
        expected[i] = run_step(kit.ctx, "s", lengths[i]);
    exec_kit_close(&kit);
    learn(f, "s");
    char* good = buffer_of_a_megabyte();
    const size_t size = get_file(f, good);
    unsigned char* bytes = malloc(size);
    assert_non_null(bytes);
    static const unsigned char values[] = {0, 1, 2, 8, 0x40, 0x7f, 0x80, 0xff};
    test_random random = test_random_make(11);
    berth_log_set_callback(count_warning, NULL);
    for (int round = 0; round < 80; round++) {
        memcpy(bytes, good, size);
        const size_t first = BERTH_PLAN_FILE_HEADER_BYTES + berth_load_u32(bytes + 36) + 16;
        for (uint64_t left = 1 + test_random_below(&random, 4); left > 0; left--)
            bytes[first + test_random_below(&random, size - 16 - first)] =
                values[test_random_below(&random, sizeof values)];
        file_kit_seal(bytes, size);
        file_kit_put(&f->files, "plans", bytes, size);
        kit = open_kit(f);
        for (int i = 0; i < 2; i++) {
            const float value = run_refused_or_not(kit.ctx, lengths[i]);
            assert_memory_equal(&value, &expected[i], sizeof value);
        }
        exec_kit_close(&kit);
    }
    berth_log_set_callback(NULL, NULL);
    free(bytes);
}

static void an_empty_file_is_no_file(void** state) {
    fixture* f = *state;
    file_kit_put(&f->files, "plans", "", 0);
    watch_warnings();
    learn(f, "s");
    berth_log_set_callback(NULL, NULL);
    assert_int_equal(warnings, 0);
    assert_true(get_file(f, buffer_of_a_megabyte()) > 0);
}

static void folders_and_places_that_do_not_exist_are_warned_of(void** state) {
    fixture* f = *state;
    assert_int_equal(mkdir(f->path, 0700), 0);
    watch_warnings();
    exec_kit kit = open_kit(f);
    (void)run_step(kit.ctx, "s", 100);
    assert_fails(berth_runtime_save_plans(kit.runtime), BERTH_ERR_IO, "not a regular file");
    berth_context_release(kit.ctx);
    berth_log_set_callback(NULL, NULL);
    assert_int_equal(warnings, 1);
    berth_runtime_release(kit.runtime);
    char missing[500];
    snprintf(missing, sizeof missing, "%s/none/plans", f->files.folder);
    watch_warnings();
    assert_ok(open_with(&kit, missing, NULL, "1"));
    (void)run_step(kit.ctx, "s", 100);
    assert_fails(berth_runtime_save_plans(kit.runtime), BERTH_ERR_NOT_FOUND, "No such file");
    exec_kit_close(&kit);
    berth_log_set_callback(NULL, NULL);
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(last_warning, missing));
}

static void a_path_is_seen_from_where_the_runtime_began(void** state) {
    fixture* f = *state;
    char before[4096];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(f->files.folder), 0);
    exec_kit kit;
    const berth_status status = open_with(&kit, "plans", NULL, "1");
    assert_int_equal(chdir(before), 0);
    assert_ok(status);
    (void)run_step(kit.ctx, "s", 100);
    exec_kit_close(&kit);
    assert_int_equal(access(f->path, F_OK), 0);
}

// ---- The call.

static void saving_without_a_file_or_a_runtime_is_an_error(void** state) {
    (void)state;
    exec_kit kit;
    const berth_option_setting settings[] = {{"device", "sim"}, {"threads", "1"}};
    assert_ok(exec_kit_open(&kit, NULL, settings, 2));
    assert_fails(berth_runtime_save_plans(kit.runtime), BERTH_ERR_STATE, "BERTH_PLAN_CACHE_FILE");
    assert_fails(berth_runtime_save_plans(NULL), BERTH_ERR_INVALID_ARGUMENT, "a runtime");
    exec_kit_close(&kit);
}

static void a_runtime_that_did_nothing_writes_nothing(void** state) {
    fixture* f = *state;
    exec_kit kit = open_kit(f);
    assert_ok(berth_runtime_save_plans(kit.runtime));
    exec_kit_close(&kit);
    assert_int_equal(file_kit_count(&f->files), 0);
}

static void a_forked_child_writes_nothing(void** state) {
    fixture* f = *state;
    exec_kit kit = open_kit(f);
    run_all(kit.ctx, "s");
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (berth_runtime_save_plans(kit.runtime) != BERTH_ERR_FORKED) _exit(1);
        exec_kit_close(&kit);
        _exit(access(f->path, F_OK) == 0 ? 2 : 0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    exec_kit_close(&kit);
    assert_int_equal(access(f->path, F_OK), 0);
}

typedef struct worker {
    exec_kit kit; ///< the runtime is shared
    float sums[LENGTHS];
    bool same;
} worker;

/// Runs the steps again and again; each length must give one sum.
static void work(void* argument) {
    worker* self = argument;
    self->same = true;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < LENGTHS; i++) {
            const float sum = run_step(self->kit.ctx, i % 2 == 0 ? "s" : "t", lengths[i]);
            if (round == 0) self->sums[i] = sum;
            self->same = self->same && sum == self->sums[i];
        }
    }
}

static void saving_while_steps_run_and_are_taken_in_is_safe(void** state) {
    fixture* f = *state;
    learn(f, "s");
    enum { WORKERS = 2 };
    exec_kit kit = open_kit(f);
    worker workers[WORKERS] = {0};
    berth_thread threads[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        workers[i].kit.runtime = kit.runtime;
        assert_ok(berth_context_create(kit.runtime, &workers[i].kit.ctx));
        assert_ok(berth_thread_start(&threads[i], "steps", work, &workers[i]));
    }
    for (int i = 0; i < 10; i++)
        assert_ok(berth_runtime_save_plans(kit.runtime));
    for (int i = 0; i < WORKERS; i++) {
        berth_thread_join(&threads[i]);
        assert_true(workers[i].same);
        berth_context_release(workers[i].kit.ctx);
    }
    exec_kit_close(&kit);
    kit = open_kit(f);
    (void)run_step(kit.ctx, "t", lengths[1]);
    assert_int_equal(exec_kit_counters(kit.runtime, "t").hits, 1);
    exec_kit_close(&kit);
}

static void a_full_disk_leaves_the_old_file(void** state) {
    fixture* f = *state;
    learn(f, "s");
    char* bytes = buffer_of_a_megabyte();
    const size_t size = get_file(f, bytes);
    exec_kit kit = open_kit(f);
    run_all(kit.ctx, "s");
    run_all(kit.ctx, "t");
    file_kit_limit_size(100);
    const berth_status status = berth_runtime_save_plans(kit.runtime);
    file_kit_limit_size(RLIM_INFINITY);
    assert_int_equal(status, BERTH_ERR_IO);
    assert_int_equal(get_file(f, bytes), size);
    assert_ok(berth_runtime_save_plans(kit.runtime));
    assert_true(get_file(f, bytes) > size);
    exec_kit_close(&kit);
}

static void failing_memory_at_any_call_leaves_a_good_file_or_none(void** state) {
    fixture* f = *state;
    learn(f, "s");
    berth_log_set_callback(count_warning, NULL);
    for (size_t nth = 1;; nth += 1 + nth / 60) {
        failing_host host;
        failing_host_init(&host);
        failing_host_fail(&host, nth, false);
        exec_kit kit;
        const berth_status opened = open_with(&kit, f->path, &host.allocator, "1");
        if (opened == BERTH_OK) {
            if (exec_kit_begin(kit.ctx, "s", 100) == BERTH_OK) {
                berth_release(exec_kit_ramp(kit.ctx, 0, 3200));
                if (berth_step_end(kit.ctx) != BERTH_OK) berth_context_clear_error(kit.ctx);
            }
            const berth_status saved = berth_runtime_save_plans(kit.runtime);
            assert_true(saved == BERTH_OK || saved == BERTH_ERR_OUT_OF_MEMORY);
            exec_kit_close(&kit);
        } else {
            assert_int_equal(opened, BERTH_ERR_OUT_OF_MEMORY);
        }
        assert_int_equal(host.live_blocks, 0);
        assert_false(host.mismatch);
        if (!failing_host_has_failed(&host)) break;
        watch_warnings();
        exec_kit check = open_kit(f);
        assert_int_equal(warnings, 0);
        exec_kit_close(&check);
    }
    berth_log_set_callback(NULL, NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static void a_question_does_not_fix_what_a_saved_step_declares(void** state) {
    fixture* f = *state;
    learn(f, "asked");
    exec_kit kit = open_kit(f);
    const berth_step_input other = {.name = "y", .rank = 1, .dims = (const int64_t[]){100}};
    const berth_step_desc desc = {.name = "asked", .inputs = &other, .input_count = 1};
    berth_step_estimate_result result;
    assert_ok(berth_step_estimate(kit.ctx, &desc, &result));
    assert_int_equal(result.kind, BERTH_ESTIMATE_UNKNOWN);
    assert_ok(berth_step_warm(kit.ctx, &desc));
    (void)run_step(kit.ctx, "asked", 300);
    assert_int_equal(exec_kit_counters(kit.runtime, "asked").hits, 1);
    exec_kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_restarted_program_hits_at_its_first_step),
        TEST(another_process_hits_at_its_first_step),
        TEST(what_a_step_needs_is_known_before_its_first_run),
        TEST(a_question_does_not_fix_what_a_saved_step_declares),
        TEST(nested_steps_and_registered_ops_are_found_by_name),
        TEST(a_path_whose_op_is_missing_is_kept_for_those_who_have_it),
        TEST(runtimes_at_the_same_time_keep_each_others_steps),
        TEST(saving_again_and_again_does_not_grow_the_file),
        TEST(a_file_that_is_not_ours_is_left_alone),
        TEST(a_damaged_file_is_said_once_and_replaced),
        TEST(a_file_of_another_configuration_is_not_used),
        TEST(a_file_of_an_enemy_changes_no_result),
        TEST(an_empty_file_is_no_file),
        TEST(folders_and_places_that_do_not_exist_are_warned_of),
        TEST(a_path_is_seen_from_where_the_runtime_began),
        cmocka_unit_test(saving_without_a_file_or_a_runtime_is_an_error),
        TEST(a_runtime_that_did_nothing_writes_nothing),
        TEST(a_forked_child_writes_nothing),
        TEST(saving_while_steps_run_and_are_taken_in_is_safe),
        TEST(a_full_disk_leaves_the_old_file),
        TEST(failing_memory_at_any_call_leaves_a_good_file_or_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
