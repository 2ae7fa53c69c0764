// SPDX-License-Identifier: Apache-2.0
// Visits: a thread that puts a context's memory in order while others use and end the context.
#include "exec_kit.h"

#include "base/thread.h"

typedef struct releaser {
    berth_tensor* tensor;
} releaser;

static void release(void* opaque) { berth_release(((releaser*)opaque)->tensor); }

static void a_visit_is_refused_while_the_lock_is_taken_and_the_other_way_round(void** state) {
    exec_kit* kit = *state;
    berth_home* home = &kit->ctx->home;
    assert_true(berth_home_try_visit(home));
    assert_false(berth_home_try_visit(home));
    assert_false(berth_home_try_lock(home));
    berth_home_end_visit(home);
    assert_true(berth_home_try_lock(home));
    assert_false(berth_home_try_visit(home));
    berth_home_unlock(home);
}

static void what_is_released_during_a_visit_is_finished_by_who_released_it(void** state) {
    (void)state;
    failing_host host;
    failing_host_init(&host);
    const berth_option_setting settings[] = {{"device", "sim"}, {"threads", "1"}};
    exec_kit kit;
    assert_ok(exec_kit_open(&kit, &host.allocator, settings, 2));
    releaser last = {.tensor = exec_kit_ramp(kit.ctx, 0, 100)};
    assert_non_null(last.tensor);
    berth_home* home = &kit.ctx->home;
    berth_context_release(kit.ctx); // it ends with its last tensor, and the runtime with it
    berth_runtime_release(kit.runtime);
    assert_true(berth_home_try_visit(home));
    berth_thread thread;
    assert_ok(berth_thread_start(&thread, "releaser", release, &last));
    while (atomic_load(&home->remote) == NULL) { // until the thread cannot but wait for the visit
    }
    berth_home_end_visit(home);
    berth_thread_join(&thread);
    assert_int_equal(host.live_blocks, 0);
}

static void a_context_is_locked_after_a_visit_without_a_trace_of_it(void** state) {
    exec_kit* kit = *state;
    assert_true(berth_home_try_visit(&kit->ctx->home));
    berth_home_end_visit(&kit->ctx->home);
    berth_tensor* x = exec_kit_ramp(kit->ctx, 1, 3);
    const float expected[] = {1, 2, 3};
    exec_kit_expect(x, expected, 3);
    berth_release(x);
    assert_int_equal(kit->ctx->home.live_objects, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        EXEC_KIT_ON_BOTH(a_visit_is_refused_while_the_lock_is_taken_and_the_other_way_round),
        cmocka_unit_test(what_is_released_during_a_visit_is_finished_by_who_released_it),
        EXEC_KIT_ON_BOTH(a_context_is_locked_after_a_visit_without_a_trace_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
