// SPDX-License-Identifier: Apache-2.0
// A step whose planning has paused runs from the pool, writes nothing down, and is still counted.
#include "exec_kit.h"

static void a_step_that_churns_is_no_longer_written_down(void** state) {
    (void)state;
    exec_kit kit;
    const berth_option_setting settings[] = {
        {"device", "cpu"}, {"threads", "1"}, {"buckets", "linear:1"}};
    assert_ok(exec_kit_open(&kit, NULL, settings, 3));
    for (int64_t n = 1; n <= 1100; n++) {
        assert_ok(exec_kit_begin(kit.ctx, "churning", n));
        berth_tensor* x = exec_kit_ramp(kit.ctx, 0, n);
        if (n == 1) assert_true(kit.ctx->run->trace.events.count > 0);
        if (n == 1100) assert_int_equal(kit.ctx->run->trace.events.count, 0);
        void* data;
        assert_ok(berth_tensor_map(x, &data));
        assert_true(((const float*)data)[n - 1] == (float)(n - 1));
        berth_tensor_unmap(x);
        berth_release(x);
        assert_ok(berth_step_end(kit.ctx));
    }
    const berth_step_counters counters = exec_kit_counters(kit.runtime, "churning");
    assert_int_equal(counters.churned, 1);
    assert_int_equal(counters.runs, 1100);
    assert_true(counters.miss_churn > 50);
    exec_kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_that_churns_is_no_longer_written_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
