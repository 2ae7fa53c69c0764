// SPDX-License-Identifier: Apache-2.0
// Every op under failing allocations and device calls, one after another: an error that names the
// op, everything given back, and the same call works afterwards.
#include <stdlib.h>

#include "exec/exec_kit.h"
#include "kit/torch_calls.h"

enum { MOST_ROWS = 256 };

typedef enum fault_kind { FAULT_HOST, FAULT_HOST_FOR_GOOD, FAULT_DEVICE } fault_kind;

/// A runtime whose host allocator and device can be made to fail.
typedef struct faulty_kit {
    failing_host host;
    exec_kit exec;
} faulty_kit;

static void open_kit(faulty_kit* kit) {
    failing_host_init(&kit->host);
    const berth_option_setting settings[] = {{"device", "sim"}, {"threads", "1"}};
    assert_ok(exec_kit_open(&kit->exec, &kit->host.allocator, settings, 2));
}

static void arm(faulty_kit* kit, fault_kind fault, size_t nth) {
    if (fault == FAULT_DEVICE) {
        berth_sim_fail_any(kit->exec.runtime->device, nth);
    } else {
        failing_host_fail(&kit->host, nth, fault == FAULT_HOST_FOR_GOOD);
    }
}

/// True if the fault has come; nothing fails any more.
static bool disarm(faulty_kit* kit, fault_kind fault, size_t nth, uint64_t calls_before) {
    bool has_come = failing_host_has_failed(&kit->host);
    if (fault == FAULT_DEVICE) {
        has_come = berth_sim_query_all_calls(kit->exec.runtime->device) - calls_before >= nth;
        berth_sim_fail_any(kit->exec.runtime->device, 0);
    }
    failing_host_fail(&kit->host, 0, false);
    return has_come;
}

/// Runs the call with the `nth` allocation or device call failing. Returns whether it came to that.
static bool run_with_fault(const torch_case* stored, fault_kind fault, size_t nth) {
    static faulty_kit kit;
    open_kit(&kit);
    berth_context* ctx = kit.exec.ctx;
    torch_call c = {.ctx = ctx, .stored = stored};
    for (size_t i = 0; i < stored->input_count; ++i)
        c.in[i] = torch_load(ctx, &stored->inputs[i]);
    assert_context_ok(ctx);
    assert_ok(berth_context_synchronize(ctx));
    const uint64_t calls_before = berth_sim_query_all_calls(kit.exec.runtime->device);
    arm(&kit, fault, nth);
    torch_find_row(stored->name)->run(&c);
    const bool has_come = disarm(&kit, fault, nth, calls_before);
    if (berth_context_error(ctx) != BERTH_OK) {
        if (!has_come) fail_msg("%s fails without a fault", stored->name);
        for (size_t i = 0; i < TORCH_MOST_TENSORS; ++i)
            assert_null(c.out[i]);
        berth_context_clear_error(ctx);
        torch_find_row(stored->name)->run(&c);
    }
    // the same call, on the same operands
    if (berth_context_error(ctx) != BERTH_OK)
        fail_msg("%s: %s", stored->name, berth_context_error_text(ctx));
    for (size_t i = 0; i < stored->output_count; ++i)
        assert_non_null(c.out[i]);
    torch_release(&c);
    assert_ok(berth_context_synchronize(ctx));
    assert_int_equal(ctx->home.live_objects, 0);
    exec_kit_close(&kit.exec);
    assert_int_equal(atomic_load(&kit.host.live_blocks), 0);
    return has_come;
}

static void fail_everywhere(fault_kind fault) {
    static torch_case stored;
    torch_file file;
    assert_true(torch_file_open(&file, BERTH_SOURCE_DIR "/tests/torch/values.bin"));
    bool is_done[MOST_ROWS] = {false};
    assert_true(torch_row_count <= MOST_ROWS);
    while (torch_file_next(&file, &stored)) {
        bool* is_row_done = &is_done[torch_find_row(stored.name) - torch_rows];
        if (*is_row_done) continue;
        *is_row_done = true;
        for (size_t nth = 1; run_with_fault(&stored, fault, nth); ++nth)
            assert_true(nth < 1000);
    }
    free(file.bytes);
}

static void every_op_survives_each_failing_host_allocation(void** state) {
    (void)state;
    fail_everywhere(FAULT_HOST);
}

static void every_op_survives_the_end_of_host_memory(void** state) {
    (void)state;
    fail_everywhere(FAULT_HOST_FOR_GOOD);
}

static void every_op_survives_each_failing_device_call(void** state) {
    (void)state;
    fail_everywhere(FAULT_DEVICE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_survives_each_failing_host_allocation),
        cmocka_unit_test(every_op_survives_the_end_of_host_memory),
        cmocka_unit_test(every_op_survives_each_failing_device_call),
    };
    return cmocka_run_group_tests_name("op faults", tests, NULL, NULL);
}
