// SPDX-License-Identifier: Apache-2.0
// What is out is told by the place that took it: at any time, when the runtime is released, when it
// ends, and when the process ends.
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "berth/debug.h"
#include "exec_kit.h"

static char logged[8000];

static void collect(void* self, berth_log_level level, const char* text) {
    (void)self, (void)level;
    const size_t used = strlen(logged);
    snprintf(logged + used, sizeof logged - used, "%s\n", text);
}

static int set_up_on(void** state, const char* device) {
    static exec_kit kit;
    *state = &kit;
    logged[0] = '\0';
    berth_log_set_callback(collect, NULL);
    const berth_option_setting settings[] = {{"device", device}, {"threads", "1"}, {"leaks", "1"}};
    return exec_kit_open(&kit, NULL, settings, 3) == BERTH_OK ? 0 : -1;
}

static int set_up_cpu(void** state) { return set_up_on(state, "cpu"); }
static int set_up_sim(void** state) { return set_up_on(state, exec_kit_sim()); }

static int tear_down(void** state) {
    exec_kit_close(*state);
    berth_log_set_callback(NULL, NULL);
    return 0;
}

static const char* leaks(berth_runtime* runtime) {
    static char text[4000];
    size_t needed;
    assert_ok(berth_runtime_format_leaks(runtime, text, sizeof text, &needed));
    assert_int_equal(needed, strlen(text));
    return text;
}

#define assert_has(text, part)                                                                     \
    do {                                                                                           \
        if (strstr(text, part) == NULL) fail_msg("'%s' does not have '%s'", text, part);           \
    } while (0)

static void what_is_out_is_told_by_op_step_and_event(void** state) {
    exec_kit* kit = *state;
    berth_tensor* x = exec_kit_ramp(kit->ctx, 0, 100);
    assert_ok(exec_kit_begin(kit->ctx, "block", 100));
    berth_tensor* y = berth_neg(kit->ctx, x);
    berth_tensor* z = berth_exp(kit->ctx, y);
    void* bytes = berth_alloc(kit->ctx, 77);
    assert_ok(berth_step_end(kit->ctx));
    assert_context_ok(kit->ctx);
    const char* text = leaks(kit->runtime);
    assert_has(text, "1 blocks, 400 bytes: arange, oldest 3 takes ago");
    assert_has(text, "1 blocks, 400 bytes: neg in step block, event 0, oldest 2 takes ago");
    assert_has(text, "1 blocks, 400 bytes: exp in step block, event 1, oldest 1 takes ago");
    assert_has(text, "1 blocks, 77 bytes: alloc in step block, event 1, oldest 0 takes ago");
    berth_release_all(x, y, z);
    berth_free(kit->ctx, bytes);
    assert_string_equal(leaks(kit->runtime), "");
    assert_string_equal(logged, "");
}

static void a_value_that_leaves_a_frame_is_told_by_the_op_that_made_it(void** state) {
    exec_kit* kit = *state;
    exec_kit_need_host_access(kit->ctx);
    berth_tensor* kept = NULL;
    berth_tensor* held = NULL;
    for (int64_t run = 0; run < 5; ++run) {
        const int64_t n = 40 + 16 * run;
        berth_release_all(kept, held);
        if (held != NULL) berth_tensor_unmap(held);
        kept = held = NULL;
        assert_ok(exec_kit_begin(kit->ctx, "block", n));
        berth_tensor* x = berth_ones(kit->ctx, BERTH_F32, BERTH_SHAPE(n));
        berth_tensor* y = berth_exp(kit->ctx, x);
        kept = berth_neg(kit->ctx, y);
        held = berth_add(kit->ctx, y, x);
        if (run == 4) {
            void* data;
            assert_ok(berth_tensor_map(held, &data));
        }
        berth_release_all(x, y);
        assert_ok(berth_step_end(kit->ctx));
        assert_context_ok(kit->ctx);
    }
    assert_true(exec_kit_counters(kit->runtime, "block").hits > 0);
    const char* text = leaks(kit->runtime);
    assert_has(text, "1 blocks, 416 bytes: neg in step block, event 2");
    assert_has(text, "1 blocks, 416 bytes: add in step block, event 3");
    berth_tensor_unmap(held);
    berth_release_all(kept, held);
    assert_string_equal(leaks(kit->runtime), "");
}

static void blocks_that_move_are_told_by_the_op_that_took_them(void** state) {
    (void)state;
    const char* const devices[] = {"cpu", "sim"};
    for (size_t d = 0; d < 2; ++d) {
        const berth_option_setting settings[] = {
            {"device", devices[d]}, {"threads", "1"}, {"leaks", "1"}, {"compact", "always"}};
        exec_kit kit;
        assert_ok(exec_kit_open(&kit, NULL, settings, 4));
        berth_tensor* kept[8];
        for (int64_t i = 0; i < 8; ++i) {
            berth_tensor* x = berth_ones(kit.ctx, BERTH_I8, BERTH_SHAPE(3000 + 500 * i));
            kept[i] = i % 2 == 0 ? berth_copy(kit.ctx, x) : berth_abs(kit.ctx, x);
            berth_release(x);
        }
        const void* places[8];
        bool has_moved = false;
        for (int i = 0; i < 8; ++i)
            places[i] = exec_kit_place(kept[i]);
        for (int i = 0; i < 40; ++i) {
            berth_release(berth_ones(kit.ctx, BERTH_U8, BERTH_SHAPE(100 + 200 * i)));
            has_moved = has_moved || exec_kit_place(kept[i % 8]) != places[i % 8];
        }
        assert_context_ok(kit.ctx);
        assert_true(has_moved);
        const char* text = leaks(kit.runtime);
        assert_has(text, "4 blocks, 18000 bytes: copy");
        assert_has(text, "4 blocks, 20000 bytes: abs");
        berth_release_array(kept, 8);
        assert_string_equal(leaks(kit.runtime), "");
        exec_kit_close(&kit);
    }
}

static void a_runtime_that_is_released_too_early_says_what_is_out(void** state) {
    exec_kit* kit = *state;
    berth_tensor* x = exec_kit_ramp(kit->ctx, 0, 100);
    void* pinned;
    assert_ok(berth_pinned_alloc(kit->runtime, 5000, &pinned));
    berth_runtime_release(kit->runtime);
    kit->runtime = NULL;
    assert_has(logged, "leaks: 2 blocks, 5400 bytes are out as the runtime is released");
    assert_has(logged, "leaks: 1 blocks, 5000 bytes: pinned_alloc, oldest 0 takes ago");
    assert_has(logged, "leaks: 1 blocks, 400 bytes: arange, oldest 1 takes ago");
    logged[0] = '\0';
    assert_non_null(berth_alloc(kit->ctx, 10));
    berth_release(x);
    berth_context_release(kit->ctx);
    kit->ctx = NULL;
    assert_has(logged, "leaks: 1 blocks of berth_alloc() are out at the end of their context");
    assert_has(logged, "leaks: 1 blocks, 5000 bytes are out as the runtime ends");
}

static void a_program_that_gives_all_back_is_told_nothing(void** state) {
    exec_kit* kit = *state;
    berth_tensor* x = exec_kit_ramp(kit->ctx, 0, 100);
    void* pinned;
    void* bytes = berth_alloc(kit->ctx, 0);
    assert_ok(berth_pinned_alloc(kit->runtime, 5000, &pinned));
    berth_release(x);
    berth_free(kit->ctx, bytes);
    berth_pinned_free(kit->runtime, pinned);
    exec_kit_close(kit);
    assert_string_equal(logged, "");
}

static void without_the_options_there_is_nothing_to_tell(void** state) {
    (void)state;
    exec_kit kit;
    assert_ok(exec_kit_open(&kit, NULL, NULL, 0));
    assert_null(kit.ctx->home.audit);
    size_t needed = 7;
    assert_fails(
        berth_runtime_format_leaks(kit.runtime, NULL, 0, &needed), BERTH_ERR_STATE, "BERTH_LEAKS");
    assert_int_equal(needed, 0);
    assert_fails(berth_runtime_save_history(kit.runtime, "/tmp/x"), BERTH_ERR_STATE, "HISTORY");
    const berth_status bad = BERTH_ERR_INVALID_ARGUMENT;
    assert_int_equal(berth_runtime_format_leaks(NULL, NULL, 0, NULL), bad);
    assert_int_equal(berth_runtime_format_leaks(kit.runtime, NULL, 1, NULL), bad);
    exec_kit_close(&kit);
}

static void the_end_of_the_process_tells_what_is_out(void** state) {
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        exec_kit kit;
        const berth_option_setting settings[] = {{"leaks", "1"}};
        if (exec_kit_open(&kit, NULL, settings, 1) == BERTH_OK) (void)berth_alloc(kit.ctx, 123);
        exit(0);
    }
    close(ends[1]);
    char text[2000] = "";
    size_t used = 0;
    ssize_t got;
    while ((got = read(ends[0], text + used, sizeof text - 1 - used)) > 0)
        used += (size_t)got;
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_has(text, "leaks: 1 blocks, 123 bytes are out as the process ends");
    assert_has(text, "leaks: 1 blocks, 123 bytes: alloc, oldest 0 takes ago");
}

static berth_tensor* run_program(berth_context* ctx) {
    void* bytes = berth_alloc(ctx, 100);
    berth_tensor* x = exec_kit_ramp(ctx, 0, 100);
    x = berth_neg(ctx, berth_move(x));
    berth_free(ctx, bytes);
    return x;
}

static void noting_that_fails_is_an_error_and_loses_nothing(void** state) {
    (void)state;
    setenv("BERTH_LEAKS", "1", 1);
    setenv("BERTH_HISTORY", "8", 1);
    exec_kit_fail_every_allocation("cpu", run_program);
    exec_kit_fail_every_allocation("sim", run_program);
    unsetenv("BERTH_LEAKS");
    unsetenv("BERTH_HISTORY");
}

#define ON_BOTH(test)                                                                              \
    {"cpu: " #test, test, set_up_cpu, tear_down, NULL}, {                                          \
        "sim: " #test, test, set_up_sim, tear_down, NULL                                           \
    }

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_BOTH(what_is_out_is_told_by_op_step_and_event),
        ON_BOTH(a_value_that_leaves_a_frame_is_told_by_the_op_that_made_it),
        cmocka_unit_test(blocks_that_move_are_told_by_the_op_that_took_them),
        ON_BOTH(a_runtime_that_is_released_too_early_says_what_is_out),
        ON_BOTH(a_program_that_gives_all_back_is_told_nothing),
        cmocka_unit_test(without_the_options_there_is_nothing_to_tell),
        cmocka_unit_test(the_end_of_the_process_tells_what_is_out),
        cmocka_unit_test(noting_that_fails_is_an_error_and_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
