// SPDX-License-Identifier: Apache-2.0
// Buckets set for a step or a symbol by the public call, before and after the first run.
#include "exec_kit.h"

static void run_step(exec_kit* kit, const char* name, int64_t n) {
    assert_ok(exec_kit_begin(kit->ctx, name, n));
    berth_release(exec_kit_ramp(kit->ctx, 0, n));
    assert_ok(berth_step_end(kit->ctx));
}

static uint64_t plans_after_runs(exec_kit* kit, const char* name) {
    for (int64_t n = 100; n <= 900; n += 100)
        run_step(kit, name, n);
    return exec_kit_counters(kit->runtime, name).plans_live;
}

static void buckets_set_before_the_first_run_hold_for_that_step_alone(void** state) {
    exec_kit* kit = *state;
    assert_ok(berth_step_set_buckets(kit->runtime, "wide", NULL, "linear:10"));
    assert_ok(berth_step_set_buckets(kit->runtime, "wide", NULL, "linear:5000")); // replaces it
    assert_ok(berth_step_set_buckets(kit->runtime, "by name", NULL, "linear:5000"));
    assert_ok(berth_step_set_buckets(kit->runtime, "by name", "x.0", "linear:100"));
    assert_int_equal(plans_after_runs(kit, "wide"), 1);
    assert_true(plans_after_runs(kit, "narrow") > 5);
    assert_true(plans_after_runs(kit, "by name") > 5);
}

static void buckets_set_later_hold_from_the_next_run_on(void** state) {
    exec_kit* kit = *state;
    assert_true(plans_after_runs(kit, "later") > 5);
    assert_ok(berth_step_set_buckets(kit->runtime, "later", "x.0", "adaptive:4"));
    for (int round = 0; round < 20; round++)
        (void)plans_after_runs(kit, "later");
    assert_true(exec_kit_counters(kit->runtime, "later").plans_live <= 4);
    const berth_step_counters counters = exec_kit_counters(kit->runtime, "later");
    assert_true(counters.corner_sum_bytes >= counters.frame_sum_bytes);
    assert_true(counters.frame_sum_bytes > 0);
}

static void what_cannot_be_set_is_refused_by_name(void** state) {
    exec_kit* kit = *state;
    run_step(kit, "refused", 10);
    assert_fails(berth_step_set_buckets(kit->runtime, "refused", "y.0", "pow2"),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "declares no dimension or integer called y.0: it declares x.0");
    assert_fails(berth_step_set_buckets(kit->runtime, "refused", "x.0", "pow"),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "\"pow\" is unknown");
    assert_fails(berth_step_set_buckets(kit->runtime, "not run", NULL, "linear:"),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "has a bad number");
    assert_fails(berth_step_set_buckets(kit->runtime, "not run", NULL, NULL),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "is missing");
    assert_fails(berth_step_set_buckets(kit->runtime, NULL, NULL, "pow2"),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "needed");
    assert_fails(berth_step_set_buckets(NULL, "refused", NULL, "pow2"),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "needed");
}

static void without_memory_a_setting_is_not_kept(void** state) {
    (void)state;
    failing_host failing;
    failing_host_init(&failing);
    exec_kit kit;
    const berth_option_setting settings[] = {{"device", "sim"}, {"threads", "1"}};
    assert_ok(exec_kit_open(&kit, &failing.allocator, settings, 2));
    for (size_t nth = 1; nth <= 4; nth++) {
        failing_host_fail(&failing, nth, false);
        assert_fails(berth_step_set_buckets(kit.runtime, "step", "x.0", "pow2"),
                     BERTH_ERR_OUT_OF_MEMORY,
                     "the buckets of step step");
    }
    failing_host_fail(&failing, 0, false);
    assert_ok(berth_step_set_buckets(kit.runtime, "step", "x.0", "pow2"));
    exec_kit_close(&kit);
    assert_int_equal(failing.live_blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(buckets_set_before_the_first_run_hold_for_that_step_alone,
                                        exec_kit_set_up_cpu,
                                        exec_kit_tear_down),
        cmocka_unit_test_setup_teardown(
            buckets_set_later_hold_from_the_next_run_on, exec_kit_set_up_cpu, exec_kit_tear_down),
        cmocka_unit_test_setup_teardown(
            what_cannot_be_set_is_refused_by_name, exec_kit_set_up_cpu, exec_kit_tear_down),
        cmocka_unit_test(without_memory_a_setting_is_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
