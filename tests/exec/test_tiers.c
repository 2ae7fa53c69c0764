// SPDX-License-Identifier: Apache-2.0
// Plans that get better in the background of a runtime: steps do not notice but for their frames.
#include <sys/wait.h>
#include <unistd.h>

#include "exec/exec_kit.h"
#include "plan/step_model_impl.h"

enum { LENGTH = 1000, VALUES = 6 };

/// The next value of a chain; the one before is released.
static berth_tensor* step_on(berth_context* ctx, berth_tensor* x) {
    berth_tensor* y = berth_neg(ctx, x);
    berth_release(x);
    return y;
}

/// One run: a chain of ops, checked to the bit.
static void run(berth_context* ctx, int64_t n) {
    assert_ok(exec_kit_begin(ctx, "s", n));
    berth_tensor* x = exec_kit_ramp(ctx, 1, n);
    for (uint32_t i = 1; i < VALUES; ++i)
        x = step_on(ctx, x);
    assert_context_ok(ctx);
    float last;
    assert_ok(berth_tensor_read_span(x, n - 1, 1, &last));
    assert_true(last == (VALUES % 2 == 1 ? (float)n : -(float)n));
    berth_release(x);
    assert_ok(berth_step_end(ctx));
}

static void a_budget_of_zero_means_no_improver(void** state) {
    (void)state;
    const berth_option_setting none[] = {{"plan_budget_ms", "0"}, {"threads", "1"}};
    exec_kit kit;
    assert_ok(exec_kit_open(&kit, NULL, none, 2));
    assert_null(kit.runtime->improver);
    exec_kit_close(&kit);
    assert_ok(exec_kit_open(&kit, NULL, none + 1, 1));
    assert_non_null(kit.runtime->improver);
    exec_kit_close(&kit);
}

/// Puts all values of the plan of the step that is open one above the other, as if no better plan
/// had been found in time.
static void spoil_open_step(berth_context* ctx) {
    berth_step_model* model = ctx->run->entry->model;
    const berth_plan_placement* placement =
        (const berth_plan_placement*)(const void*)ctx->run->placement;
    assert_non_null(placement);
    berth_interval intervals[64];
    uint64_t offsets[64];
    const uint32_t count = placement->shown.path->value_count;
    assert_in_range(count, 2, 64);
    for (uint32_t v = 0; v < count; ++v) {
        intervals[v] = (berth_interval){64, 0, 1};
        offsets[v] = (uint64_t)v * 64;
    }
    berth_relation* relation;
    uint64_t hits;
    berth_mutex_lock(&model->lock);
    assert_ok(berth_relation_create(model->host, intervals, count, offsets, &relation));
    berth_plan* plan = berth_plan_cache_redeem(&model->cache, placement->plan, &hits);
    assert_non_null(plan);
    berth_plan_cache_replace(&model->cache, placement->plan, relation, 0);
    // whole values of LENGTH f32, rounded as plans round them: the corner is the shape
    plan->peak_bytes = 0;
    for (uint32_t v = 0; v < count; ++v)
        plan->peak_bytes += placement->shown.places[v].bytes;
    plan->tier = BERTH_PLAN_QUICK;
    plan->searches = 0;
    plan->search_at = 8;
    berth_mutex_unlock(&model->lock);
}

static void warm_up(berth_context* ctx) {
    for (uint32_t i = 0; i < 100; ++i)
        run(ctx, LENGTH);
}

static void a_running_step_keeps_its_places_and_the_next_has_the_better_ones(void** state) {
    exec_kit* kit = *state;
    berth_improver_hold(kit->runtime->improver);
    warm_up(kit->ctx);
    assert_ok(exec_kit_begin(kit->ctx, "s", LENGTH));
    spoil_open_step(kit->ctx);
    berth_tensor* x = exec_kit_ramp(kit->ctx, 1, LENGTH);
    berth_release(x);
    assert_ok(berth_step_end(kit->ctx)); // leaves its trace
    for (uint32_t i = 0; i < 100; ++i) {
        run(kit->ctx, LENGTH);
        (void)berth_improver_work(kit->runtime->improver);
    }
    const berth_step_counters counters = exec_kit_counters(kit->runtime, "s");
    assert_int_equal(counters.improved, 1);
    assert_true(counters.improve_saved_bytes > LENGTH * sizeof(float));
}

/// Leaves the improver's thread with a plan that it can improve.
static void give_work(berth_context* ctx) {
    warm_up(ctx);
    assert_ok(exec_kit_begin(ctx, "s", LENGTH));
    spoil_open_step(ctx);
    assert_ok(berth_step_end(ctx));
    for (uint32_t i = 0; i < 40; ++i)
        run(ctx, LENGTH);
}

static void a_runtime_ends_while_its_improver_has_work(void** state) {
    exec_kit* kit = *state;
    give_work(kit->ctx);
    // the tear-down closes it
}

static void a_forked_child_leaves_the_improver_alone(void** state) {
    exec_kit* kit = *state;
    give_work(kit->ctx);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60); // a child that hangs dies of it
        const bool is_refused = exec_kit_begin(kit->ctx, "s", LENGTH) == BERTH_ERR_FORKED;
        berth_context_release(kit->ctx);
        berth_runtime_release(kit->runtime);
        _exit(is_refused ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    run(kit->ctx, LENGTH);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_budget_of_zero_means_no_improver),
        EXEC_KIT_ON_BOTH(a_running_step_keeps_its_places_and_the_next_has_the_better_ones),
        EXEC_KIT_ON_BOTH(a_runtime_ends_while_its_improver_has_work),
        EXEC_KIT_ON_BOTH(a_forked_child_leaves_the_improver_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
