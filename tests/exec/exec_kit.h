// SPDX-License-Identifier: Apache-2.0
// Fixtures for tests of the executor: a runtime with settings, one context, small helpers.
#ifndef BERTH_TEST_EXEC_KIT_H
#define BERTH_TEST_EXEC_KIT_H

#include <stdlib.h>

#include "berth/berth.h"
#include "device/sim/sim_device.h"
#include "exec/exec_impl.h"
#include "kit/failing_host.h"
#include "kit/random.h"
#include "kit/test.h"

typedef struct exec_kit {
    berth_runtime* runtime;
    berth_context* ctx;
} exec_kit;

/// Creates a runtime from up to `count` settings, and one context.
static inline berth_status exec_kit_open(exec_kit* kit,
                                         const berth_host_allocator* host,
                                         const berth_option_setting* settings,
                                         size_t count) {
    *kit = (exec_kit){0};
    const berth_runtime_options options = {
        .struct_size = sizeof options,
        .host = host,
        .settings = settings,
        .setting_count = count,
    };
    berth_status status = berth_runtime_create(&options, &kit->runtime);
    if (status == BERTH_OK) status = berth_context_create(kit->runtime, &kit->ctx);
    if (status != BERTH_OK) {
        berth_runtime_release(kit->runtime);
        kit->runtime = NULL;
    }
    return status;
}

static inline void exec_kit_close(exec_kit* kit) {
    berth_context_release(kit->ctx);
    berth_runtime_release(kit->runtime);
    *kit = (exec_kit){0};
}

/// cmocka's set-up and tear-down of one kit on either device.
static inline int exec_kit_set_up(void** state, const char* device) {
    static exec_kit kit;
    *state = &kit;
    const berth_option_setting settings[] = {{"device", device}, {"threads", "1"}};
    return exec_kit_open(&kit, NULL, settings, 2) == BERTH_OK ? 0 : -1;
}

static inline int exec_kit_set_up_cpu(void** state) { return exec_kit_set_up(state, "cpu"); }

/// The simulated device, or what EXEC_KIT_DEVICE names in its place.
static inline const char* exec_kit_sim(void) {
    const char* other = getenv("EXEC_KIT_DEVICE");
    return other != NULL ? other : "sim";
}

static inline int exec_kit_set_up_sim(void** state) {
    return exec_kit_set_up(state, exec_kit_sim());
}

/// Ends a test of what the host does where tensors lie, on a device that has no place for that.
static inline void exec_kit_need_host_access(const berth_context* ctx) {
    if (!berth_device_has_host_access(ctx->home.stream->device)) skip();
}

static inline int exec_kit_tear_down(void** state) {
    exec_kit_close(*state);
    return 0;
}

/// Two entries of a cmocka table: the test on cpu and on sim, each with a kit of its own.
#define EXEC_KIT_ON_BOTH(test)                                                                     \
    {"cpu: " #test, test, exec_kit_set_up_cpu, exec_kit_tear_down, NULL}, {                        \
        "sim: " #test, test, exec_kit_set_up_sim, exec_kit_tear_down, NULL                         \
    }

/// Fails with the context's error if there is one.
#define assert_context_ok(ctx)                                                                     \
    do {                                                                                           \
        if (berth_context_error(ctx) != BERTH_OK) fail_msg("%s", berth_context_error_text(ctx));   \
    } while (0)

/// Fails unless the context's error is `status` with `part` in its text; clears it.
#define assert_context_fails(ctx, status, part)                                                    \
    do {                                                                                           \
        assert_int_equal(berth_context_error(ctx), status);                                        \
        if (strstr(berth_context_error_text(ctx), part) == NULL)                                   \
            fail_msg("'%s' does not mention '%s'", berth_context_error_text(ctx), part);           \
        berth_context_clear_error(ctx);                                                            \
    } while (0)

/// A [count] f32 tensor with values first, first + 1, ...
static inline berth_tensor* exec_kit_ramp(berth_context* ctx, float first, int64_t count) {
    return berth_arange(ctx, (double)first, (double)first + (double)count, 1, BERTH_F32);
}

/// Address of the first element; only to compare places.
static inline const void* exec_kit_place(const berth_tensor* tensor) {
    return berth_tensor_data(tensor);
}

/// Fails unless the f32 tensor holds exactly `expected` [count].
static inline void exec_kit_expect(berth_tensor* tensor, const float* expected, size_t count) {
    float values[256];
    assert_non_null(tensor);
    assert_true(count <= 256);
    assert_int_equal(berth_tensor_count(tensor), count);
    assert_ok(berth_tensor_read(tensor, values, count * sizeof(float)));
    assert_memory_equal(values, expected, count * sizeof(float));
}

/// Begins a step of one input "x" with `length` elements.
static inline berth_status exec_kit_begin(berth_context* ctx, const char* name, int64_t length) {
    const berth_step_input input = {.name = "x", .rank = 1, .dims = &length};
    const berth_step_desc desc = {.name = name, .inputs = &input, .input_count = 1};
    return berth_step_begin(ctx, &desc);
}

/// Counters of the step called `name`; zeros if there is none.
static inline berth_step_counters exec_kit_counters(berth_runtime* runtime, const char* name) {
    berth_step_counters counters = {0};
    const size_t count = berth_runtime_query_step_count(runtime);
    for (size_t i = 0; i < count; ++i) {
        const char* found;
        assert_ok(berth_runtime_query_step(runtime, i, &found, &counters));
        if (strcmp(found, name) == 0) return counters;
    }
    return (berth_step_counters){0};
}

/// Runs ops on a device, `run`, with the n-th allocation of host memory failing, for every n until
/// none fails: a result or an error, and nothing left behind. `run` gives its last op's result.
static inline void exec_kit_fail_every_allocation(const char* device,
                                                  berth_tensor* (*run)(berth_context* ctx)) {
    const berth_option_setting settings[] = {{"device", device}, {"threads", "1"}};
    for (size_t nth = 1;; ++nth) {
        failing_host host;
        failing_host_init(&host);
        exec_kit kit;
        assert_ok(exec_kit_open(&kit, &host.allocator, settings, 2));
        failing_host_fail(&host, nth, false);
        berth_tensor* result = run(kit.ctx);
        const bool has_failed = failing_host_has_failed(&host);
        assert_true(has_failed || result != NULL);
        if (result == NULL) assert_int_equal(berth_context_error(kit.ctx), BERTH_ERR_OUT_OF_MEMORY);
        berth_release(result);
        assert_int_equal(kit.ctx->home.live_objects, 0);
        exec_kit_close(&kit);
        assert_int_equal(host.live_blocks, 0);
        assert_false(host.mismatch);
        if (!has_failed) return;
    }
}

#endif // BERTH_TEST_EXEC_KIT_H
