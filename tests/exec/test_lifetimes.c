// SPDX-License-Identifier: Apache-2.0
// What the pool of a context learns of lifetimes from ops and steps.
#include "exec_kit.h"

/// Elements of a tensor that is too large for a slab.
#define LARGE 50000

static berth_pool_stats stats_of(const exec_kit* kit) {
    berth_pool_stats stats;
    berth_pool_query_stats(kit->ctx->home.pool, &stats);
    return stats;
}

static void an_op_outside_of_steps_is_known_by_its_name_and_size(void** state) {
    exec_kit* kit = *state;
    berth_tensor* kept[16];
    for (int i = 0; i < 16; i++) {
        berth_release(exec_kit_ramp(kit->ctx, 0, LARGE));
        // the same op with another size: these stay
        kept[i] = exec_kit_ramp(kit->ctx, 0, 3 * LARGE);
    }
    const berth_pool_stats stats = stats_of(kit);
    assert_int_equal(stats.predictions, 14);
    assert_int_equal(stats.right_predictions, 14);
    for (int i = 0; i < 16; i++)
        berth_release(kept[i]);
    assert_context_ok(kit->ctx);
}

/// A step of which one value stays until `kept` is full and another passes, made by the same op
/// with the same size.
static void run_step(exec_kit* kit, int64_t length, berth_tensor** kept) {
    assert_ok(exec_kit_begin(kit->ctx, "step", length));
    berth_tensor* passes = exec_kit_ramp(kit->ctx, 0, length);
    berth_release(*kept);
    *kept = exec_kit_ramp(kit->ctx, 1, length);
    berth_release(passes);
    assert_ok(berth_step_end(kit->ctx));
}

static void values_of_a_step_are_known_by_their_position(void** state) {
    (void)state;
    exec_kit kit;
    // nothing is planned, so the pool serves both
    const berth_option_setting settings[] = {{"device", "cpu"}, {"threads", "1"}, {"mode", "pool"}};
    assert_ok(exec_kit_open(&kit, NULL, settings, 3));
    berth_tensor* kept[4] = {NULL};
    for (int i = 0; i < 80; i++)
        run_step(&kit, LARGE + i, &kept[i % 4]);
    const berth_pool_stats stats = stats_of(&kit);
    assert_true(stats.right_predictions >= 100);
    assert_int_equal(stats.wrong_predictions, 0);
    for (int i = 0; i < 4; i++)
        berth_release(kept[i]);
    assert_context_ok(kit.ctx);
    exec_kit_close(&kit);
}

static void what_escapes_a_planned_step_is_learned_too(void** state) {
    exec_kit* kit = *state;
    berth_tensor* kept[4] = {NULL};
    for (int i = 0; i < 40; i++)
        run_step(kit, LARGE, &kept[i % 4]);
    assert_true(exec_kit_counters(kit->runtime, "step").hits > 20);
    const berth_pool_stats stats = stats_of(kit);
    assert_true(stats.right_predictions >= 20);
    assert_int_equal(stats.wrong_predictions, 0);
    for (int i = 0; i < 4; i++)
        berth_release(kept[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        EXEC_KIT_ON_BOTH(an_op_outside_of_steps_is_known_by_its_name_and_size),
        cmocka_unit_test(values_of_a_step_are_known_by_their_position),
        EXEC_KIT_ON_BOTH(what_escapes_a_planned_step_is_learned_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
