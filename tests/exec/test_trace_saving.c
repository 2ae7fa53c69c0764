// SPDX-License-Identifier: Apache-2.0
// Trace files of a runtime: saved when asked for and at the end, and planned offline.
#include "files/file_kit.h"
#include "kit/failing_host.h"
#include "plan/problem_kit.h"

typedef struct fixture {
    file_kit files;
    char path[400];
} fixture;

static int set_up(void** state) {
    static fixture f;
    f = (fixture){0};
    *state = &f;
    if (!file_kit_open_folder(&f.files)) return -1;
    snprintf(f.path, sizeof f.path, "%s/steps.csv", f.files.folder);
    return 0;
}

static int tear_down(void** state) {
    fixture* f = *state;
    file_kit_close_folder(&f->files);
    return 0;
}

static exec_kit open_kit(const char* trace_file, const berth_host_allocator* host) {
    const berth_option_setting settings[] = {
        {"trace_file", trace_file}, {"threads", "1"}, {"device", "cpu"}, {"plan_quantum", "0"}};
    exec_kit kit;
    assert_ok(exec_kit_open(&kit, host, settings, 4));
    return kit;
}

static void run_steps(berth_context* ctx) {
    static const int64_t lengths[] = {100, 300, 170, 64, 520};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        assert_ok(exec_kit_begin(ctx, "block", lengths[i]));
        berth_tensor* x = exec_kit_ramp(ctx, 1, lengths[i] * 32);
        x = berth_reshape(ctx, berth_move(x), BERTH_SHAPE(lengths[i], 32));
        berth_tensor* y = berth_silu(ctx, x);
        berth_tensor* z = berth_add(ctx, berth_move(y), x);
        berth_release_all(x, z);
        assert_context_ok(ctx);
        assert_ok(berth_step_end(ctx));
    }
}

static void a_saved_step_needs_what_the_runtime_estimates(void** state) {
    fixture* f = *state;
    exec_kit kit = open_kit("-", NULL);
    run_steps(kit.ctx);
    assert_ok(berth_runtime_save_traces(berth_context_runtime(kit.ctx), f->path));
    berth_trace_file* file;
    berth_trace_part part;
    berth_trace_symbol symbol;
    assert_ok(berth_trace_file_read(f->path, &file));
    assert_int_equal(berth_trace_file_query_part_count(file), 1);
    assert_ok(berth_trace_file_query_part(file, 0, &part));
    assert_string_equal(part.step, "block");
    assert_int_equal(part.symbol_count, 1);
    assert_ok(berth_trace_file_query_symbol(file, 0, 0, &symbol));
    for (int64_t n = 1; n < 3000; n += 211) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(symbol.name, "."), symbol.name);
        const berth_step_input input = {name, 1, &n};
        const berth_step_desc desc = {.name = "block", .inputs = &input, .input_count = 1};
        berth_step_estimate_result estimate;
        assert_ok(berth_step_estimate(kit.ctx, &desc, &estimate));
        assert_true(estimate.kind >= BERTH_ESTIMATE_BOUND);
        const berth_trace_setting at = {symbol.name, n};
        berth_problem* problem = problem_kit_make(file, 0, &at, 1);
        const berth_pack_result result = problem_kit_solve(problem);
        assert_true(result.peak <= estimate.bytes && result.lower_bound > 0);
        assert_int_equal(berth_problem_query_kind(problem), estimate.kind);
        berth_problem_destroy(problem);
    }
    berth_trace_file_destroy(file);
    exec_kit_close(&kit);
    assert_int_equal(file_kit_count(&f->files), 1);
}

static void the_option_saves_at_the_end_of_the_runtime(void** state) {
    fixture* f = *state;
    exec_kit kit = open_kit(f->path, NULL);
    run_steps(kit.ctx);
    assert_int_equal(file_kit_count(&f->files), 0);
    exec_kit_close(&kit);
    berth_trace_file* file;
    assert_ok(berth_trace_file_read(f->path, &file));
    berth_trace_part part;
    assert_ok(berth_trace_file_query_part(file, 0, &part));
    assert_string_equal(part.step, "block");
    berth_trace_file_destroy(file);
}

static void saving_that_fails_is_reported(void** state) {
    fixture* f = *state;
    exec_kit kit = open_kit("-", NULL);
    berth_runtime* runtime = berth_context_runtime(kit.ctx);
    const berth_status bad = BERTH_ERR_INVALID_ARGUMENT;
    assert_int_equal(berth_runtime_save_traces(NULL, f->path), bad);
    assert_int_equal(berth_runtime_save_traces(runtime, NULL), bad);
    assert_fails(berth_runtime_save_traces(runtime, "/no/such/folder/x"),
                 BERTH_ERR_NOT_FOUND,
                 "/no/such/folder/x");
    assert_int_equal(berth_runtime_save_traces(runtime, "/dev/null"), BERTH_ERR_IO);
    exec_kit_close(&kit);
}

static void memory_that_runs_out_leaves_no_file(void** state) {
    fixture* f = *state;
    static failing_host failing;
    failing_host_init(&failing);
    exec_kit kit = open_kit("-", &failing.allocator);
    run_steps(kit.ctx);
    berth_runtime* runtime = berth_context_runtime(kit.ctx);
    for (size_t nth = 1;; nth++) {
        const size_t live = atomic_load(&failing.live_blocks);
        failing_host_fail(&failing, nth, true);
        const berth_status status = berth_runtime_save_traces(runtime, f->path);
        const bool failed = failing_host_has_failed(&failing);
        failing_host_fail(&failing, 0, false);
        assert_int_equal(status, failed ? BERTH_ERR_OUT_OF_MEMORY : BERTH_OK);
        assert_int_equal(file_kit_count(&f->files), failed ? 0 : 1);
        assert_int_equal(atomic_load(&failing.live_blocks), live);
        if (!failed) break;
    }
    exec_kit_close(&kit);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_saved_step_needs_what_the_runtime_estimates),
        TEST(the_option_saves_at_the_end_of_the_runtime),
        TEST(saving_that_fails_is_reported),
        TEST(memory_that_runs_out_leaves_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
