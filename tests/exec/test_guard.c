// SPDX-License-Identifier: Apache-2.0
// BERTH_GUARD: what is written behind a block is seen at its release, far beyond large ones and
// frames it faults; everything else is as without.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/checked.h"
#include "exec_kit.h"

static char logged[4000];

static void collect(void* self, berth_log_level level, const char* text) {
    (void)self, (void)level;
    const size_t used = strlen(logged);
    snprintf(logged + used, sizeof logged - used, "%s\n", text);
}

static int set_up_with(void** state, const char* device, const char* strict, const char* mode) {
    static exec_kit kit;
    *state = &kit;
    logged[0] = '\0';
    berth_log_set_callback(collect, NULL);
    const berth_option_setting settings[] = {
        {"device", device}, {"threads", "1"}, {"guard", "1"}, {"strict", strict}, {"mode", mode}};
    return exec_kit_open(&kit, NULL, settings, 5) == BERTH_OK ? 0 : -1;
}

static int set_up_cpu(void** state) { return set_up_with(state, "cpu", "0", "auto"); }
static int set_up_sim(void** state) { return set_up_with(state, "sim", "0", "auto"); }
static int set_up_strict(void** state) { return set_up_with(state, "cpu", "1", "auto"); }
static int set_up_system(void** state) { return set_up_with(state, "cpu", "0", "system"); }

static int tear_down(void** state) {
    exec_kit_close(*state);
    berth_log_set_callback(NULL, NULL);
    return 0;
}

static uint64_t broken(const exec_kit* kit) {
    berth_memory_stats stats;
    assert_ok(berth_runtime_query_memory(kit->runtime, &stats));
    return stats.guards_broken;
}

#define assert_logged(part)                                                                        \
    do {                                                                                           \
        if (strstr(logged, part) == NULL) fail_msg("'%s' does not have '%s'", logged, part);       \
    } while (0)

static void a_byte_behind_a_block_is_told_with_the_op_that_took_it(void** state) {
    exec_kit* kit = *state;
    unsigned char* bytes = berth_alloc(kit->ctx, 1001);
    bytes[1000] = 1;
    berth_free(kit->ctx, bytes);
    assert_string_equal(logged, "");
    bytes = berth_alloc(kit->ctx, 1001);
    bytes[1001 + 5] = 7;
    bytes[1001 + 63] = 7;
    berth_free(kit->ctx, bytes);
    assert_logged("guard: 2 bytes behind the 1001 bytes at 0x");
    assert_logged(" of alloc are damaged, the first at +5 is 0x07");
    assert_int_equal(broken(kit), 1);
    assert_ok(exec_kit_begin(kit->ctx, "block", 3));
    berth_tensor* x = exec_kit_ramp(kit->ctx, 0, 100);
    void* data;
    assert_ok(berth_tensor_map(x, &data));
    ((float*)data)[100] = 0.0f;
    berth_tensor_unmap(x);
    berth_release(x);
    assert_ok(berth_step_end(kit->ctx));
    assert_logged("guard: 4 bytes behind the 400 bytes");
    assert_logged(" of arange in step block, event 0 are damaged");
    assert_int_equal(broken(kit), 2);
    assert_context_ok(kit->ctx);
}

static void strict_programs_get_an_error(void** state) {
    exec_kit* kit = *state;
    unsigned char* bytes = berth_alloc(kit->ctx, 10);
    bytes[10] = 1;
    berth_free(kit->ctx, bytes);
    assert_context_fails(kit->ctx, BERTH_ERR_CORRUPT, "guard: 1 bytes behind the 10 bytes");
}

static void a_large_block_lies_alone_and_is_given_back(void** state) {
    exec_kit* kit = *state;
    const uint64_t granule = kit->runtime->device->granule_bytes;
    berth_memory_stats before, with, after;
    assert_ok(berth_runtime_query_memory(kit->runtime, &before));
    unsigned char* bytes = berth_alloc(kit->ctx, granule + 10);
    assert_context_ok(kit->ctx);
    assert_ok(berth_runtime_query_memory(kit->runtime, &with));
    assert_int_equal(with.requested_bytes - before.requested_bytes, granule + 10);
    assert_int_equal(with.mapped_bytes - before.mapped_bytes, 2 * granule);
    assert_int_equal((uintptr_t)bytes % BERTH_ALIGNMENT, 0);
    // it ends where its granules do, but for its line
    assert_int_equal((uintptr_t)(bytes + granule + 64) % granule, 0);
    memset(bytes, 1, granule + 10);
    berth_free(kit->ctx, bytes);
    assert_ok(berth_runtime_query_memory(kit->runtime, &after));
    assert_int_equal(after.mapped_bytes, before.mapped_bytes);
    assert_int_equal(after.requested_bytes, before.requested_bytes);
    assert_string_equal(logged, "");
    bytes = berth_alloc(kit->ctx, granule + 10);
    bytes[granule + 10] = 3;
    berth_free(kit->ctx, bytes);
    assert_logged("the first at +0 is 0x03");
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NOT_WATCHED __attribute__((no_sanitize("address")))
#endif
#endif
#ifndef NOT_WATCHED
#define NOT_WATCHED
#endif

/// Also where a sanitizer knows that nothing lives: the question is what the hardware says.
NOT_WATCHED static void touch(volatile unsigned char* at) { *at = *at; }

/// True if writing there ends a child of this process.
static bool faults(volatile unsigned char* at) {
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); // cmocka goes on with the next test
        signal(SIGBUS, SIG_DFL);
        touch(at);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static void far_beyond_a_large_block_writing_faults(void** state) {
    exec_kit* kit = *state;
    const uint64_t granule = kit->runtime->device->granule_bytes;
    unsigned char* bytes = berth_alloc(kit->ctx, granule);
    assert_context_ok(kit->ctx);
    assert_false(faults(bytes));
    assert_false(faults(bytes + granule - 1));
    assert_true(faults(bytes + granule));
    assert_true(faults(bytes - 1));
    berth_free(kit->ctx, bytes);
}

static void beyond_a_frame_writing_faults(void** state) {
    exec_kit* kit = *state;
    for (int64_t run = 0; run < 6; ++run) {
        // the frames shrink: what a larger one has used is not left behind a smaller one
        const int64_t n = 60000 - 4000 * run;
        assert_ok(exec_kit_begin(kit->ctx, "block", n));
        berth_tensor* x = berth_ones(kit->ctx, BERTH_F32, BERTH_SHAPE(n));
        berth_tensor* y = berth_exp(kit->ctx, x);
        const berth_frame* frame = &kit->ctx->run->frame;
        assert_context_ok(kit->ctx);
        if (frame->size_bytes > 0) {
            assert_false(faults(frame->base + frame->size_bytes - 1));
            assert_true(faults(frame->base + berth_round_up(frame->size_bytes, BERTH_ALIGNMENT)));
            assert_true(faults(frame->base - kit->runtime->device->granule_bytes));
        }
        berth_release_all(x, y);
        assert_ok(berth_step_end(kit->ctx));
    }
    assert_true(exec_kit_counters(kit->runtime, "block").hits > 0);
}

static void a_promise_counts_the_guards(void** state) {
    exec_kit* kit = *state;
    berth_tensor* kept[3] = {NULL};
    for (int64_t run = 0; run < 8; ++run) {
        const int64_t n = 3000 + 64 * run;
        assert_ok(exec_kit_begin(kit->ctx, "block", n));
        berth_tensor* x = berth_ones(kit->ctx, BERTH_F32, BERTH_SHAPE(n));
        for (int i = 0; i < 3; ++i) {
            berth_release(kept[i]);
            kept[i] = berth_exp(kit->ctx, x);
        }
        berth_release(x);
        assert_ok(berth_step_end(kit->ctx));
        assert_context_ok(kit->ctx);
        berth_memory_stats stats;
        assert_ok(berth_runtime_query_memory(kit->runtime, &stats));
        assert_int_equal(stats.reserved_bytes, 0);
    }
    berth_release_array(kept, 3);
    assert_int_equal(broken(kit), 0);
    assert_string_equal(logged, "");
}

static void moves_leave_the_lines_of_others_whole(void** state) {
    (void)state;
    static const char* const devices[] = {"cpu", "sim"};
    for (size_t d = 0; d < 2; ++d) {
        exec_kit kit;
        const berth_option_setting settings[] = {{"device", devices[d]},
                                                 {"threads", "1"},
                                                 {"guard", "1"},
                                                 {"poison", "both"},
                                                 {"compact", "always"}};
        assert_ok(exec_kit_open(&kit, NULL, settings, 5));
        berth_tensor* x[40];
        // a length that ends within a line of the pool, so that the next block begins in sight
        for (size_t i = 0; i < 40; ++i)
            x[i] = berth_full(kit.ctx, (double)i, BERTH_F32, BERTH_SHAPE(3007));
        for (size_t i = 0; i < 40; i += 3) {
            berth_release(x[i]);
            x[i] = NULL;
        }
        for (size_t i = 0; i < 40; ++i)
            berth_release(berth_ones(kit.ctx, BERTH_F32, BERTH_SHAPE(3007)));
        berth_memory_stats stats;
        assert_ok(berth_runtime_query_memory(kit.runtime, &stats));
        assert_true(stats.moved_bytes > 0);
        for (size_t i = 0; i < 40; ++i) {
            float values[3007] = {0};
            if (x[i] == NULL) continue;
            assert_ok(berth_tensor_read(x[i], values, sizeof values));
            for (size_t k = 0; k < 3007; ++k)
                if (values[k] != (float)i) fail_msg("element %zu of %zu has changed", k, i);
            berth_release(x[i]);
        }
        assert_int_equal(broken(&kit), 0);
        assert_context_ok(kit.ctx);
        exec_kit_close(&kit);
    }
}

static void blocks_without_bytes_have_a_line_as_well(void** state) {
    exec_kit* kit = *state;
    berth_tensor* x = berth_empty(kit->ctx, BERTH_F32, BERTH_SHAPE(0, 3));
    berth_tensor* y = berth_empty(kit->ctx, BERTH_F32, BERTH_SHAPE(0, 3));
    assert_context_ok(kit->ctx);
    assert_ptr_not_equal(exec_kit_place(x), exec_kit_place(y));
    berth_release_all(x, y);
    assert_null(berth_alloc(kit->ctx, UINT64_MAX - 3));
    assert_context_fails(kit->ctx, BERTH_ERR_OVERFLOW, "bytes");
    assert_string_equal(logged, "");
}

static berth_tensor* run_program(berth_context* ctx) {
    void* bytes = berth_alloc(ctx, 3 << 20);
    berth_tensor* x = exec_kit_ramp(ctx, 0, 100);
    x = berth_neg(ctx, berth_move(x));
    berth_free(ctx, bytes);
    return x;
}

static void host_memory_that_runs_out_loses_nothing(void** state) {
    (void)state;
    setenv("BERTH_GUARD", "1", 1);
    exec_kit_fail_every_allocation("cpu", run_program);
    exec_kit_fail_every_allocation("sim", run_program);
    unsetenv("BERTH_GUARD");
}

static void device_calls_that_fail_lose_nothing(void** state) {
    exec_kit* kit = *state;
    berth_device* device = kit->runtime->device;
    for (uint64_t nth = 1;; ++nth) {
        const uint64_t calls = berth_sim_query_all_calls(device);
        berth_sim_fail_any(device, nth);
        berth_tensor* x = run_program(kit->ctx);
        berth_release(x);
        const bool is_over = berth_sim_query_all_calls(device) - calls < nth;
        berth_sim_fail_any(device, 0);
        berth_context_clear_error(kit->ctx);
        assert_int_equal(kit->ctx->home.live_objects, 0);
        assert_ok(berth_context_synchronize(kit->ctx));
        berth_memory_stats stats;
        assert_ok(berth_runtime_query_memory(kit->runtime, &stats));
        assert_int_equal(stats.requested_bytes, kit->ctx->plain_bytes.count > 0 ? 3 << 20 : 0);
        assert_int_equal(stats.guards_broken, 0);
        if (is_over) break;
    }
    // what was refused once goes back with the next large block
    berth_free(kit->ctx, berth_alloc(kit->ctx, 1 << 20));
    assert_int_equal(kit->ctx->home.guards.rests.count, 0);
}

#define CPU(test)                                                                                  \
    { "cpu: " #test, test, set_up_cpu, tear_down, NULL }
#define SIM(test)                                                                                  \
    { "sim: " #test, test, set_up_sim, tear_down, NULL }
#define SYSTEM(test)                                                                               \
    { "system: " #test, test, set_up_system, tear_down, NULL }
#define ON_BOTH(test) CPU(test), SIM(test)

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_BOTH(a_byte_behind_a_block_is_told_with_the_op_that_took_it),
        SYSTEM(a_byte_behind_a_block_is_told_with_the_op_that_took_it),
        cmocka_unit_test_setup_teardown(strict_programs_get_an_error, set_up_strict, tear_down),
        ON_BOTH(a_large_block_lies_alone_and_is_given_back),
        ON_BOTH(far_beyond_a_large_block_writing_faults),
        ON_BOTH(beyond_a_frame_writing_faults),
        ON_BOTH(a_promise_counts_the_guards),
        cmocka_unit_test(moves_leave_the_lines_of_others_whole),
        ON_BOTH(blocks_without_bytes_have_a_line_as_well),
        SYSTEM(blocks_without_bytes_have_a_line_as_well),
        cmocka_unit_test(host_memory_that_runs_out_loses_nothing),
        SIM(device_calls_that_fail_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
