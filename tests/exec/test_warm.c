// SPDX-License-Identifier: Apache-2.0
// Memory before the first request: steps that are warmed, and BERTH_PREALLOC.
#include "exec_kit.h"

#include <stdlib.h>

#define MIB UINT64_C(1048576)

/// The step of these tests: a result that escapes, over two that do not.
static berth_tensor* run_ops(berth_context* ctx, int64_t length) {
    const int64_t dims[1] = {length};
    berth_tensor* x = berth_full(ctx, 1.5, BERTH_F32, 1, dims);
    berth_tensor* y = berth_add(ctx, x, x);
    berth_tensor* z = berth_mul(ctx, x, y);
    berth_release_all(x, y);
    return z;
}

static berth_step_desc describe(const int64_t* length, berth_step_input* input) {
    *input = (berth_step_input){.name = "x", .rank = 1, .dims = length};
    return (berth_step_desc){.name = "warm", .inputs = input, .input_count = 1};
}

/// Runs the step at `length`, checks its result, and releases it.
static void run_step(berth_context* ctx, int64_t length) {
    berth_step_input input;
    const berth_step_desc desc = describe(&length, &input);
    assert_ok(berth_step_begin(ctx, &desc));
    berth_tensor* z = run_ops(ctx, length);
    assert_ok(berth_step_end(ctx));
    float* values = malloc((size_t)length * sizeof *values);
    assert_non_null(values);
    assert_ok(berth_tensor_read(z, values, (size_t)length * sizeof *values));
    for (int64_t i = 0; i < length; i += 97)
        assert_true(values[i] == 4.5f);
    free(values);
    berth_release(z);
}

static berth_memory_stats query(const exec_kit* kit) {
    berth_memory_stats memory;
    assert_ok(berth_runtime_query_memory(kit->runtime, &memory));
    return memory;
}

static void open_with(exec_kit* kit, const char* device, const char* keep, const char* prealloc) {
    const berth_option_setting settings[] = {
        {"device", device}, {"threads", "1"}, {"keep", keep}, {"prealloc", prealloc}};
    assert_ok(exec_kit_open(kit, NULL, settings, 4));
}

/// Calls of the simulated device that get memory from it or move it.
static uint64_t count_maps(const exec_kit* kit) {
    return berth_sim_query_calls(kit->runtime->device, BERTH_SIM_MAP);
}

static void learn(berth_context* ctx) {
    for (int64_t i = 0; i < 6; ++i)
        run_step(ctx, 1000 + 37 * i);
}

static void a_warmed_step_maps_nothing_when_it_runs(void** state) {
    exec_kit* kit = *state;
    learn(kit->ctx);
    const int64_t length = 900000; // several granules of either device
    berth_step_input input;
    const berth_step_desc desc = describe(&length, &input);
    const uint64_t before = query(kit).mapped_bytes;
    assert_ok(berth_step_warm(kit->ctx, &desc));
    const uint64_t warm = query(kit).mapped_bytes;
    assert_true(warm > before);
    assert_ok(berth_step_begin(kit->ctx, &desc));
    berth_tensor* z = run_ops(kit->ctx, length);
    assert_int_equal(query(kit).mapped_bytes, warm); // frame and escaping result
    assert_ok(berth_step_end(kit->ctx));
    berth_release(z);
    assert_int_equal(query(kit).peak_mapped_bytes, warm);
}

static void warming_an_unknown_step_does_nothing(void** state) {
    exec_kit* kit = *state;
    const int64_t length = 5;
    berth_step_input input;
    const berth_step_desc desc = describe(&length, &input);
    assert_ok(berth_step_warm(kit->ctx, &desc));
    assert_int_equal(query(kit).mapped_bytes, 0);
    assert_int_equal(berth_runtime_query_step_count(kit->runtime), 0);
}

static void warming_refuses_what_does_not_fit_and_ops_go_on(void** state) {
    exec_kit* kit = *state;
    learn(kit->ctx);
    const uint64_t before = query(kit).mapped_bytes;
    int64_t length = (int64_t)(query(kit).capacity_bytes / 4);
    berth_step_input input;
    const berth_step_desc desc = describe(&length, &input);
    assert_fails(berth_step_warm(kit->ctx, &desc), BERTH_ERR_OUT_OF_MEMORY, "needed");
    assert_context_ok(kit->ctx);
    assert_int_equal(query(kit).mapped_bytes, before);
    length = 1000;
    run_step(kit->ctx, length);
}

static void warming_survives_every_fault_of_the_device(void** state) {
    (void)state;
    for (uint64_t nth = 1;; ++nth) {
        exec_kit kit;
        open_with(&kit, "sim", "auto", "1M");
        learn(kit.ctx);
        const int64_t length = 300000;
        berth_step_input input;
        const berth_step_desc desc = describe(&length, &input);
        berth_sim_fail_any(kit.runtime->device, nth);
        const uint64_t calls = berth_sim_query_all_calls(kit.runtime->device);
        const berth_status status = berth_step_warm(kit.ctx, &desc);
        const bool has_failed = berth_sim_query_all_calls(kit.runtime->device) - calls >= nth;
        berth_sim_fail_any(kit.runtime->device, 0);
        assert_true(has_failed || status == BERTH_OK);
        assert_int_equal(query(&kit).mapped_bytes,
                         berth_sim_query_mapped_bytes(kit.runtime->device));
        run_step(kit.ctx, length);
        exec_kit_close(&kit);
        if (!has_failed) return;
    }
}

static void warming_survives_every_failing_allocation(void** state) {
    (void)state;
    const berth_option_setting settings[] = {{"device", "cpu"}, {"threads", "1"}};
    for (size_t nth = 1;; ++nth) {
        failing_host host;
        failing_host_init(&host);
        exec_kit kit;
        assert_ok(exec_kit_open(&kit, &host.allocator, settings, 2));
        learn(kit.ctx);
        const int64_t length = 120000;
        berth_step_input input;
        const berth_step_desc desc = describe(&length, &input);
        failing_host_fail(&host, nth, false);
        const berth_status status = berth_step_warm(kit.ctx, &desc);
        const bool has_failed = failing_host_has_failed(&host);
        failing_host_fail(&host, 0, false);
        if (status != BERTH_OK) assert_int_equal(status, BERTH_ERR_OUT_OF_MEMORY);
        assert_true(has_failed || status == BERTH_OK);
        run_step(kit.ctx, length);
        exec_kit_close(&kit);
        assert_int_equal(host.live_blocks, 0);
        if (!has_failed) return;
    }
}

static void preallocated_memory_serves_the_first_step_and_its_plan(void** state) {
    (void)state;
    exec_kit kit;
    open_with(&kit, "sim", "all", "8M");
    assert_int_equal(query(&kit).mapped_bytes, 8 * MIB);
    assert_int_equal(query(&kit).ahead_bytes, 8 * MIB);
    const uint64_t maps = count_maps(&kit);
    for (int i = 0; i < 8; ++i) { // from the pool, then from frames
        run_step(kit.ctx, 200000 + 1000 * i);
        assert_int_equal(query(&kit).mapped_bytes, 8 * MIB);
        assert_true(query(&kit).ahead_bytes < 8 * MIB);
    }
    assert_true(exec_kit_counters(kit.runtime, "warm").hits > 0);
    assert_true(query(&kit).frames_bytes > 0 && query(&kit).pool_bytes > 0);
    assert_int_equal(count_maps(&kit), maps);
    exec_kit_close(&kit);
}

static void what_was_preallocated_stays_mapped_whatever_is_kept(void** state) {
    (void)state;
    static const char* const devices[2] = {"cpu", "sim"};
    for (int i = 0; i < 2; ++i) {
        exec_kit kit;
        open_with(&kit, devices[i], "none", "4M");
        for (int64_t run = 0; run < 6; ++run) {
            run_step(kit.ctx, 700000 + 10000 * run); // 2.7 MiB a tensor
            assert_true(query(&kit).mapped_bytes >= 4 * MIB);
        }
        berth_trim_result trimmed;
        assert_ok(berth_trim(kit.runtime, 0, &trimmed));
        assert_int_equal(trimmed.ahead_bytes, 4 * MIB);
        assert_int_equal(query(&kit).mapped_bytes, 4 * MIB); // and no more than that
        assert_int_equal(query(&kit).ahead_bytes, 4 * MIB);
        exec_kit_close(&kit);
    }
}

static void all_of_the_capacity_can_be_preallocated_and_used(void** state) {
    (void)state;
    const berth_option_setting settings[] = {
        {"device", "sim"}, {"threads", "1"}, {"memory", "8M"}, {"prealloc", "8M"}};
    exec_kit kit;
    assert_ok(exec_kit_open(&kit, NULL, settings, 4));
    const int64_t dims[1] = {7 * (int64_t)MIB};
    berth_tensor* x = berth_empty(kit.ctx, BERTH_U8, 1, dims);
    assert_non_null(x);
    berth_tensor* none = berth_empty(kit.ctx, BERTH_U8, 1, dims);
    assert_null(none);
    assert_context_fails(kit.ctx, BERTH_ERR_OUT_OF_MEMORY, "unused 1.00 MiB");
    berth_release(x);
    exec_kit_close(&kit);
}

static void a_share_of_the_device_can_be_preallocated(void** state) {
    (void)state;
    exec_kit kit;
    open_with(&kit, "sim", "auto", "25%"); // of 16 MiB
    assert_int_equal(query(&kit).mapped_bytes, 4 * MIB);
    exec_kit_close(&kit);
}

static void a_runtime_without_so_much_memory_is_refused(void** state) {
    (void)state;
    const berth_option_setting settings[] = {
        {"device", "sim"}, {"memory", "4M"}, {"prealloc", "5M"}};
    exec_kit kit;
    assert_fails(exec_kit_open(&kit, NULL, settings, 3), BERTH_ERR_OUT_OF_MEMORY, "BERTH_PREALLOC");
    assert_non_null(strstr(berth_last_error(), "5242880"));
    assert_non_null(strstr(berth_last_error(), "4194304"));
    const berth_option_setting absurd[] = {{"device", "cpu"}, {"prealloc", "16000000T"}};
    assert_fails(exec_kit_open(&kit, NULL, absurd, 2), BERTH_ERR_OUT_OF_MEMORY, "BERTH_PREALLOC");
}

static void a_runtime_with_preallocation_survives_every_failing_allocation(void** state) {
    (void)state;
    const berth_option_setting settings[] = {
        {"device", "sim"}, {"threads", "1"}, {"keep", "none"}, {"prealloc", "1M"}};
    for (size_t nth = 1;; ++nth) {
        failing_host host;
        failing_host_init(&host);
        failing_host_fail(&host, nth, false);
        exec_kit kit;
        const berth_status status = exec_kit_open(&kit, &host.allocator, settings, 4);
        const bool has_failed = failing_host_has_failed(&host);
        failing_host_fail(&host, 0, false);
        if (status == BERTH_OK) {
            run_step(kit.ctx, 1000);
            exec_kit_close(&kit);
        }
        assert_true(has_failed || status == BERTH_OK);
        assert_int_equal(host.live_blocks, 0);
        if (!has_failed) return;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        EXEC_KIT_ON_BOTH(a_warmed_step_maps_nothing_when_it_runs),
        EXEC_KIT_ON_BOTH(warming_an_unknown_step_does_nothing),
        EXEC_KIT_ON_BOTH(warming_refuses_what_does_not_fit_and_ops_go_on),
        cmocka_unit_test(warming_survives_every_fault_of_the_device),
        cmocka_unit_test(warming_survives_every_failing_allocation),
        cmocka_unit_test(preallocated_memory_serves_the_first_step_and_its_plan),
        cmocka_unit_test(what_was_preallocated_stays_mapped_whatever_is_kept),
        cmocka_unit_test(all_of_the_capacity_can_be_preallocated_and_used),
        cmocka_unit_test(a_share_of_the_device_can_be_preallocated),
        cmocka_unit_test(a_runtime_without_so_much_memory_is_refused),
        cmocka_unit_test(a_runtime_with_preallocation_survives_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
