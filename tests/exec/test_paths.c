// SPDX-License-Identifier: Apache-2.0
// Steps that take several paths, with real ops: experts, early exits, a cache that hits or misses.
#include "exec/exec_kit.h"
#include "kit/random.h"

/// Runs of a step whose way is chosen by `way`; returns what the last op gave.
typedef float (*routed_run)(berth_context* ctx, int64_t n, uint32_t way);

static float read_sum(berth_context* ctx, berth_tensor* x) {
    float sum = 0;
    berth_tensor* total = berth_sum(ctx, x, BERTH_DIMS(0, 1), false);
    assert_context_ok(ctx);
    assert_ok(berth_tensor_read(total, &sum, sizeof sum));
    berth_release(total);
    return sum;
}

static berth_tensor* make_rows(berth_context* ctx, int64_t n, int64_t columns) {
    return berth_rand(ctx, (uint64_t)n, -1, 1, BERTH_F32, 2, (int64_t[]){n, columns});
}

/// Two of four experts, in the order in which the router gives them.
static float run_experts(berth_context* ctx, int64_t n, uint32_t way) {
    assert_ok(exec_kit_begin(ctx, "routed", n));
    berth_tensor* x = make_rows(ctx, n, 24);
    berth_tensor* y = berth_silu(ctx, x);
    for (uint32_t k = 0; k < 2; k++, way /= 4) {
        berth_tensor* z;
        switch (way % 4) {
        case 0:
            z = berth_exp(ctx, y);
            break;
        case 1:
            z = berth_mul(ctx, y, x);
            break;
        case 2: {
            berth_tensor* wide = berth_add(ctx, y, x);
            z = berth_mul(ctx, wide, y);
            berth_release(wide);
            break;
        }
        default:
            z = berth_tanh(ctx, y);
            break;
        }
        berth_release(y);
        y = z;
    }
    const float sum = read_sum(ctx, y);
    berth_release_all(x, y);
    assert_ok(berth_step_end(ctx));
    return sum;
}

/// Leaves after one to four layers.
static float run_early_exit(berth_context* ctx, int64_t n, uint32_t way) {
    assert_ok(exec_kit_begin(ctx, "routed", n));
    berth_tensor* x = make_rows(ctx, n, 40);
    for (uint32_t layer = 0; layer <= way % 4; layer++) {
        berth_tensor* h = berth_tanh(ctx, x);
        berth_tensor* y = berth_mul(ctx, h, x);
        berth_release_all(h, x);
        x = y;
    }
    assert_ok(berth_step_end(ctx));
    const float sum = read_sum(ctx, x);
    berth_release(x);
    return sum;
}

/// A value that is kept from the step on one path, and used up on the other.
static float run_cache(berth_context* ctx, int64_t n, uint32_t way) {
    static berth_tensor* kept;
    assert_ok(exec_kit_begin(ctx, "routed", n));
    berth_tensor* x = make_rows(ctx, n, 16);
    berth_tensor* y = berth_exp(ctx, x);
    if (way % 2 == 0) kept = berth_retain(y);
    berth_tensor* z = way % 2 == 0 ? berth_silu(ctx, y) : berth_add(ctx, y, x);
    berth_release(y);
    float sum = read_sum(ctx, z);
    berth_release_all(x, z);
    assert_ok(berth_step_end(ctx));
    if (kept != NULL) sum += read_sum(ctx, kept);
    berth_release(kept);
    kept = NULL;
    return sum;
}

/// The way and the length of a run: any, at random.
static void choose(test_random* random, uint32_t ways, int64_t* n, uint32_t* way) {
    *n = test_random_between(random, 20, 90);
    *way = (uint32_t)test_random_below(random, ways);
}

static void expect_hits(exec_kit* kit, routed_run run, uint32_t ways) {
    const berth_option_setting unplanned[] = {{"mode", "pool"}, {"threads", "1"}};
    exec_kit reference;
    assert_ok(exec_kit_open(&reference, NULL, unplanned, 2));
    test_random random = test_random_make(ways);
    int64_t n;
    uint32_t way;
    for (int i = 0; i < 200; i++) {
        choose(&random, ways, &n, &way);
        const float planned = run(kit->ctx, n, way);
        assert_true(planned == run(reference.ctx, n, way));
    }
    const berth_step_counters before = exec_kit_counters(kit->runtime, "routed");
    for (int i = 0; i < 100; i++) {
        choose(&random, ways, &n, &way);
        const float planned = run(kit->ctx, n, way);
        assert_true(planned == run(reference.ctx, n, way));
    }
    const berth_step_counters after = exec_kit_counters(kit->runtime, "routed");
    assert_int_equal(after.hits - before.hits, 100);
    assert_true(after.switches - before.switches >= 30);
    exec_kit_close(&reference);
}

static void open_many_paths(exec_kit* kit) {
    const berth_option_setting settings[] = {{"paths_max", "32"}, {"threads", "1"}};
    assert_ok(exec_kit_open(kit, NULL, settings, 2));
}

static void experts_in_any_order_are_hits_with_the_bits_of_no_plan(void** state) {
    (void)state;
    exec_kit kit;
    open_many_paths(&kit);
    expect_hits(&kit, run_experts, 16);
    exec_kit_close(&kit);
}

static void early_exits_are_hits_with_the_bits_of_no_plan(void** state) {
    (void)state;
    exec_kit kit;
    open_many_paths(&kit);
    expect_hits(&kit, run_early_exit, 4);
    exec_kit_close(&kit);
}

static void a_cache_that_hits_or_misses_is_a_hit_with_the_bits_of_no_plan(void** state) {
    (void)state;
    exec_kit kit;
    open_many_paths(&kit);
    expect_hits(&kit, run_cache, 2);
    exec_kit_close(&kit);
}

static void a_replay_that_changes_its_path_asks_the_host_for_nothing(void** state) {
    (void)state;
    exec_kit kit;
    open_many_paths(&kit);
    for (uint32_t i = 0; i < 300; i++)
        (void)run_experts(kit.ctx, 64, i % 16);
    const berth_step_counters before = exec_kit_counters(kit.runtime, "routed");
    const uint64_t calls = berth_host_query_alloc_calls(kit.runtime->host);
    for (uint32_t i = 0; i < 64; i++)
        (void)run_experts(kit.ctx, 64, i * 5 % 16);
    assert_int_equal(berth_host_query_alloc_calls(kit.runtime->host), calls);
    const berth_step_counters after = exec_kit_counters(kit.runtime, "routed");
    assert_int_equal(after.hits - before.hits, 64);
    assert_true(after.switches - before.switches >= 60);
    exec_kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_in_any_order_are_hits_with_the_bits_of_no_plan),
        cmocka_unit_test(early_exits_are_hits_with_the_bits_of_no_plan),
        cmocka_unit_test(a_cache_that_hits_or_misses_is_a_hit_with_the_bits_of_no_plan),
        cmocka_unit_test(a_replay_that_changes_its_path_asks_the_host_for_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
