// SPDX-License-Identifier: Apache-2.0
// Bounds that follow the values seen: least waste, drift, values beyond; and through a step.
#include "step_kit.h"

#include "base/log.h"
#include "kit/failing_host.h"
#include "kit/random.h"
#include "plan/bucket_adaptive.h"

/// Observes `count` values from `low` to `high`; returns how often bounds moved.
static uint32_t observe(
    berth_bucket_adaptive* self, test_random* random, uint32_t count, int64_t low, int64_t high) {
    uint32_t moves = 0;
    for (uint32_t i = 0; i < count; i++)
        moves += berth_bucket_adaptive_observe(self, test_random_between(random, low, high));
    return moves;
}

/// The mean of (upper end - value) over the values from `low` to `high`.
static double mean_waste(const berth_bucket_adaptive* self, int64_t low, int64_t high) {
    double waste = 0;
    for (int64_t value = low; value <= high; value++)
        waste += (double)(berth_bucket_adaptive_find(self, value).hi - value);
    return waste / (double)(high - low + 1);
}

/// The least waste of any bounds, one a set bit of `chosen`, by trying all.
static double least_waste(const int64_t* points, const double* weights, int count, int limit) {
    double least = 1e300;
    for (unsigned chosen = 0; chosen < 1u << count; chosen++) {
        if (!(chosen >> (count - 1) & 1) || __builtin_popcount(chosen) > limit) continue;
        double waste = 0;
        int64_t upper = 0;
        for (int i = count; i-- > 0;) {
            if (chosen >> i & 1) upper = points[i];
            waste += (double)(upper - points[i]) * weights[i];
        }
        if (waste < least) least = waste;
    }
    return least;
}

static void few_values_have_the_bounds_that_waste_least(void** state) {
    (void)state;
    test_random random = test_random_make(3);
    for (int round = 0; round < 60; round++) {
        enum { POINTS = 9, ROUND_VALUES = 16 };
        const int limit = (int)test_random_between(&random, 1, POINTS);
        berth_bucket_adaptive buckets = {.limit = (uint32_t)limit};
        int64_t values[POINTS];
        for (int i = 0; i < POINTS; i++)
            values[i] = 1 + 100 * i + test_random_between(&random, 0, 99);
        for (int i = 0; i < ROUND_VALUES; i++)
            (void)berth_bucket_adaptive_observe(
                &buckets, values[i < POINTS ? i : (int)test_random_below(&random, POINTS)]);
        assert_true(buckets.bound_count > 0 && buckets.bound_count <= (uint32_t)limit);
        double waste = 0;
        for (int i = 0; i < POINTS; i++) {
            assert_int_equal(buckets.points[i], values[i]);
            const int64_t upper = berth_bucket_adaptive_find(&buckets, values[i]).hi;
            waste += (double)(upper - values[i]) * buckets.weights[i];
        }
        const double least = least_waste(values, buckets.weights, POINTS, limit);
        assert_true(waste <= least * (1 + 1e-9) + 1e-6);
    }
}

static void bounds_follow_values_that_drift_and_settle_again(void** state) {
    (void)state;
    test_random random = test_random_make(4);
    berth_bucket_adaptive buckets = {.limit = 8};
    (void)observe(&buckets, &random, 4000, 1000, 1800);
    // 8 equal buckets of 100 waste 50 in the mean.
    assert_true(mean_waste(&buckets, 1000, 1800) < 60);
    assert_true(observe(&buckets, &random, 20000, 1000, 1800) <= 4);
    (void)observe(&buckets, &random, 8000, 4000, 4800);
    assert_true(mean_waste(&buckets, 4000, 4800) < 60);
    assert_true(observe(&buckets, &random, 20000, 4000, 4800) <= 4);
    (void)observe(&buckets, &random, 12000, 10, 410);
    assert_true(mean_waste(&buckets, 10, 410) < 35);
    assert_true(buckets.bound_count <= 8);
}

static void values_beyond_and_zero_are_covered(void** state) {
    (void)state;
    test_random random = test_random_make(5);
    berth_bucket_adaptive buckets = {.limit = 4};
    (void)observe(&buckets, &random, 100, 100, 200);
    const int64_t last = buckets.bounds[buckets.bound_count - 1];
    static const int64_t values[] = {0, 1, 99, 150, 200, 201, 205, 260, 100000, INT64_MAX};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        const berth_bucket bucket = berth_bucket_adaptive_find(&buckets, values[i]);
        assert_true(bucket.lo < values[i] && values[i] <= bucket.hi);
        assert_int_equal(berth_bucket_adaptive_find(&buckets, bucket.hi).lo, bucket.lo);
        assert_int_equal(berth_bucket_adaptive_find(&buckets, bucket.lo + 1).hi, bucket.hi);
        if (values[i] > last) assert_true(bucket.lo >= last);
    }
    assert_int_equal(berth_bucket_adaptive_find(&buckets, 0).hi, 0);
    assert_int_equal(berth_bucket_adaptive_find(&buckets, 90000).hi, 98304);
}

static void any_values_keep_the_histogram_small_and_in_order(void** state) {
    (void)state;
    test_random random = test_random_make(6);
    berth_bucket_adaptive buckets = {.limit = BERTH_BUCKET_LIST_MAX};
    for (int i = 0; i < 100000; i++) {
        const int64_t value = test_random_one_in(&random, 50)
                                  ? INT64_MAX - test_random_between(&random, 0, 5)
                                  : test_random_between(&random, 0, 1 << (i / 5000));
        (void)berth_bucket_adaptive_observe(&buckets, value);
        if (i % 997 != 0) continue;
        assert_true(buckets.point_count <= BERTH_BUCKET_POINTS);
        for (uint32_t k = 1; k < buckets.point_count; k++)
            assert_true(buckets.points[k - 1] < buckets.points[k]);
        for (uint32_t k = 1; k < buckets.bound_count; k++)
            assert_true(buckets.bounds[k - 1] < buckets.bounds[k]);
    }
}

// ---- Through a step.

static step_outcome run_rows(berth_step_model* model, step_tape* tape, int64_t s, int64_t t) {
    tape_op(tape, 1);
    const uint32_t first = tape_matrix(tape, s, 64);
    tape_op(tape, 2);
    tape_matrix(tape, t, 64);
    tape_use(tape, first);
    const berth_binding bindings[] = {{"s", s}, {"t", t}};
    const berth_shape_key key = {bindings, 2};
    return run_tape(model, &key, tape);
}

static void plans_stay_few_while_lengths_drift_and_all_runs_hit(void** state) {
    (void)state;
    berth_plan_policy policy = default_policy();
    policy.buckets = "adaptive:6";
    berth_step_model* model;
    assert_ok(berth_step_model_create(berth_host_default(), "step", &policy, &model));
    step_tape tape = {.host = berth_host_default()};
    test_random random = test_random_make(7);
    berth_step_counters before = {0}, after;
    for (int run = 0; run < 24000; run++) {
        const int64_t middle = run < 12000 ? 1000 : 3000;
        const int64_t s = middle + test_random_between(&random, -200, 200);
        const step_outcome outcome = run_rows(model, &tape, s, 5);
        if (run >= 4) assert_int_equal(outcome.result, BERTH_RUN_HIT);
        if (run != 20000) continue;
        berth_step_model_query_counters(model, &before);
    }
    berth_step_model_query_counters(model, &after);
    assert_true(after.plans_live <= 8);
    assert_int_equal(after.plans, before.plans); // settled
    // 6 bounds on 401 lengths: 33 of 3000 wasted in the mean, and `t` does not count much.
    const double corner = (double)(after.corner_sum_bytes - before.corner_sum_bytes);
    const double frame = (double)(after.frame_sum_bytes - before.frame_sum_bytes);
    assert_true(corner >= frame);
    assert_true(corner <= frame * 1.02);
    berth_trace_fini(&tape.trace, tape.host);
    berth_step_model_destroy(model);
}

static void buckets_of_one_symbol_are_set_by_name_before_and_after_the_first_run(void** state) {
    (void)state;
    const berth_plan_policy policy = default_policy();
    berth_step_model* model;
    assert_ok(berth_step_model_create(berth_host_default(), "step", &policy, &model));
    step_tape tape = {.host = berth_host_default()};
    assert_ok(berth_step_model_set_buckets(model, "s", "linear:1000"));
    for (int64_t s = 100; s <= 900; s += 100)
        (void)run_rows(model, &tape, s, 5);
    berth_step_counters counters;
    berth_step_model_query_counters(model, &counters);
    assert_int_equal(counters.plans_live, 1);
    assert_fails(berth_step_model_set_buckets(model, "u", "pow2"), BERTH_ERR_INVALID_ARGUMENT, "u");
    assert_fails(
        berth_step_model_set_buckets(model, "s", "pow3"), BERTH_ERR_INVALID_ARGUMENT, "pow3");
    assert_fails(
        berth_step_model_set_buckets(model, "s", NULL), BERTH_ERR_INVALID_ARGUMENT, "missing");
    // All others: no matter to s.
    assert_ok(berth_step_model_set_buckets(model, NULL, "linear:10"));
    for (int64_t s = 100; s <= 900; s += 100)
        (void)run_rows(model, &tape, s, 5);
    berth_step_model_query_counters(model, &counters);
    assert_int_equal(counters.plans_live, 1);
    assert_ok(berth_step_model_set_buckets(model, "s", "linear:100"));
    for (int64_t s = 100; s <= 900; s += 100)
        assert_int_equal(run_rows(model, &tape, s, 5).result, BERTH_RUN_HIT);
    berth_step_model_query_counters(model, &counters);
    assert_int_equal(counters.plans_live, 9);
    berth_trace_fini(&tape.trace, tape.host);
    berth_step_model_destroy(model);
}

static uint32_t strangers;
static void count_strangers(void* self, berth_log_level level, const char* text) {
    (void)self;
    (void)level;
    if (strstr(text, "has buckets for token, which it does not declare: it declares s") != NULL)
        strangers++;
}

static void buckets_of_a_symbol_that_is_not_declared_are_told_once(void** state) {
    (void)state;
    const berth_plan_policy policy = default_policy();
    berth_step_model* model;
    assert_ok(berth_step_model_create(berth_host_default(), "step", &policy, &model));
    assert_ok(berth_step_model_set_buckets(model, "token", "pow2"));
    step_tape tape = {.host = berth_host_default()};
    strangers = 0;
    berth_log_set_callback(count_strangers, NULL);
    for (int64_t s = 10; s < 20; s++)
        (void)run_rows(model, &tape, s, 5);
    berth_log_set_callback(NULL, NULL);
    assert_int_equal(strangers, 1);
    berth_trace_fini(&tape.trace, tape.host);
    berth_step_model_destroy(model);
}

static void without_memory_buckets_are_as_before_or_geometric(void** state) {
    (void)state;
    failing_host failing;
    failing_host_init(&failing);
    berth_host* host;
    assert_ok(berth_host_create(&failing.allocator, &host));
    berth_plan_policy policy = default_policy();
    policy.buckets = "adaptive:4";
    step_tape tape = {.host = berth_host_default()};
    for (size_t nth = 1; nth < 60; nth++) {
        failing_host_fail(&failing, nth, false);
        berth_step_model* model;
        if (berth_step_model_create(host, "step", &policy, &model) == BERTH_OK) {
            const berth_status status = berth_step_model_set_buckets(model, "s", "adaptive:3");
            assert_true(status == BERTH_OK || status == BERTH_ERR_OUT_OF_MEMORY);
            for (int64_t s = 10; s < 60; s++)
                assert_int_not_equal(run_rows(model, &tape, s, s % 7).result, BERTH_RUN_EXIT);
            berth_step_model_destroy(model);
        }
        failing_host_fail(&failing, 0, false);
        assert_int_equal(berth_host_query_live_bytes(host), 0);
    }
    berth_trace_fini(&tape.trace, tape.host);
    berth_host_destroy(host);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_values_have_the_bounds_that_waste_least),
        cmocka_unit_test(bounds_follow_values_that_drift_and_settle_again),
        cmocka_unit_test(values_beyond_and_zero_are_covered),
        cmocka_unit_test(any_values_keep_the_histogram_small_and_in_order),
        cmocka_unit_test(plans_stay_few_while_lengths_drift_and_all_runs_hit),
        cmocka_unit_test(buckets_of_one_symbol_are_set_by_name_before_and_after_the_first_run),
        cmocka_unit_test(buckets_of_a_symbol_that_is_not_declared_are_told_once),
        cmocka_unit_test(without_memory_buckets_are_as_before_or_geometric),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
