// SPDX-License-Identifier: Apache-2.0
// Steps that never settle: planning pauses and says why; steps that only warm up are left alone.
#include "step_kit.h"

#include <stdio.h>

#include "base/log.h"
#include "kit/random.h"

static char told[1024];
static uint32_t told_count;
static void keep_line(void* self, berth_log_level level, const char* text) {
    (void)self;
    (void)level;
    snprintf(told, sizeof told, "%s", text);
    told_count++;
}

typedef struct churn_fixture {
    berth_step_model* model;
    step_tape tape;
    test_random random;
} churn_fixture;

static bool name_of(void* self, uint32_t kind, uint32_t tag, char name[BERTH_EVENT_NAME_BYTES]) {
    (void)self;
    (void)tag;
    snprintf(name, BERTH_EVENT_NAME_BYTES, kind == 4 ? "linear" : "other");
    return true;
}
static const berth_event_names names = {.name_of = name_of};

static churn_fixture fixture_make(const berth_plan_policy* policy) {
    churn_fixture f = {.tape = {.host = berth_host_default()}, .random = test_random_make(9)};
    assert_ok(berth_step_model_create(berth_host_default(), "step", policy, &f.model));
    berth_step_model_set_source(f.model, NULL, &names);
    told_count = 0;
    told[0] = '\0';
    berth_log_set_callback(keep_line, NULL);
    return f;
}

static void fixture_fini(churn_fixture* f) {
    berth_log_set_callback(NULL, NULL);
    berth_trace_fini(&f->tape.trace, f->tape.host);
    berth_step_model_destroy(f->model);
}

/// One run: a linear of `rows` rows after something of `s` rows.
static step_outcome run_at(churn_fixture* f, int64_t s, int64_t rows) {
    tape_op(&f->tape, 1);
    tape_matrix(&f->tape, s, 8);
    tape_op(&f->tape, 4);
    tape_matrix(&f->tape, 16, rows);
    const berth_binding bindings[] = {{"batch", 4}, {"s", s}};
    const berth_shape_key key = {bindings, 2};
    return run_tape(f->model, &key, &f->tape);
}

static void a_key_that_is_new_in_every_run_pauses_planning_and_names_the_symbol(void** state) {
    (void)state;
    berth_plan_policy policy = default_policy();
    policy.buckets = "linear:1";
    churn_fixture f = fixture_make(&policy);
    for (int64_t run = 0; run < 5000; run++)
        (void)run_at(&f, 1000 + 3 * run, 8);
    const berth_step_counters counters = counters_of(f.model);
    assert_int_equal(counters.churned, 1);
    assert_int_equal(told_count, 1);
    assert_non_null(strstr(told, "symbol s took "));
    assert_non_null(strstr(told, "not planned for the next 16384 runs"));
    assert_int_equal(counters.paths, 0);
    assert_true(counters.miss_churn >= 3900);
    fixture_fini(&f);
}

static void planning_is_tried_again_after_the_pause(void** state) {
    (void)state;
    berth_plan_policy policy = default_policy();
    policy.buckets = "linear:1";
    churn_fixture f = fixture_make(&policy);
    for (int64_t run = 0; run < 1030; run++)
        (void)run_at(&f, 1000 + 3 * run, 8);
    assert_int_equal(counters_of(f.model).churned, 1);
    step_outcome outcome = {0};
    for (int64_t run = 0; run < 16400; run++)
        outcome = run_at(&f, 50, 8);
    assert_int_equal(outcome.result, BERTH_RUN_HIT);
    assert_int_equal(told_count, 1);
    fixture_fini(&f);
}

static void who_asks_for_plans_by_name_keeps_getting_them(void** state) {
    (void)state;
    berth_plan_policy policy = default_policy();
    policy.buckets = "linear:1";
    policy.max_exits = 0;
    churn_fixture f = fixture_make(&policy);
    for (int64_t run = 0; run < 3000; run++)
        assert_int_equal(run_at(&f, 1000 + 3 * run, 8).result == BERTH_RUN_HIT, run >= 2);
    assert_int_equal(counters_of(f.model).churned, 0);
    fixture_fini(&f);
}

static void a_size_that_is_random_in_every_run_pauses_planning_and_is_named(void** state) {
    (void)state;
    const berth_plan_policy policy = default_policy();
    churn_fixture f = fixture_make(&policy);
    uint32_t runs = 0;
    for (; runs < 5000 && counters_of(f.model).churned == 0; runs++)
        (void)run_at(&f,
                     test_random_between(&f.random, 1, 100),
                     INT64_C(1) << test_random_between(&f.random, 0, 14));
    assert_true(runs <= 1100);
    assert_non_null(strstr(told, "dimension 1 of the result of linear (value 1) follows no"));
    fixture_fini(&f);
}

static void an_integer_that_was_not_declared_is_told_once(void** state) {
    (void)state;
    const berth_plan_policy policy = default_policy();
    churn_fixture f = fixture_make(&policy);
    for (int64_t run = 0; run < 50; run++)
        (void)run_at(&f, 20, 100 + run % 7);
    assert_int_equal(told_count, 1);
    assert_non_null(
        strstr(told, "dimension 1 of the result of linear (value 1) was 100 and then 101"));
    assert_non_null(strstr(told, "declare the integer"));
    assert_true(counters_of(f.model).undeclared >= 1);
    assert_int_equal(run_at(&f, 20, 104).result, BERTH_RUN_HIT);
    fixture_fini(&f);
}

static void sizes_that_depend_on_data_are_not_taken_for_undeclared_ones(void** state) {
    (void)state;
    const berth_plan_policy policy = default_policy();
    churn_fixture f = fixture_make(&policy);
    for (int64_t run = 0; run < 3000; run++) {
        tape_op(&f.tape, 1);
        const int64_t found[2] = {1 + run * 37 % 1000, 2};
        tape_value(&f.tape, BERTH_VALUE_DATA, BERTH_F32, 2, found);
        tape_op(&f.tape, 4);
        tape_matrix(&f.tape, found[0] * 3, 8); // follows it
        const berth_binding bindings[] = {{"s", 5}};
        const berth_shape_key key = {bindings, 1};
        (void)run_tape(f.model, &key, &f.tape);
    }
    assert_int_equal(counters_of(f.model).undeclared, 0);
    fixture_fini(&f);
}

static void warm_up_is_no_churn(void** state) {
    (void)state;
    const berth_plan_policy policy = default_policy();
    churn_fixture f = fixture_make(&policy);
    // Decoding, sequence after sequence.
    for (int64_t run = 0; run < 20000; run++)
        (void)run_at(&f, 50 + run % 4000, 50 + run % 4000);
    // Lengths of any kind, from few to many.
    for (int64_t run = 0; run < 20000; run++) {
        const int64_t s = 1 + (int64_t)test_random_below(
                                  &f.random, UINT64_C(1) << test_random_below(&f.random, 20));
        (void)run_at(&f, s, s);
    }
    assert_int_equal(counters_of(f.model).churned, 0);
    assert_int_equal(told_count, 0);
    fixture_fini(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_that_is_new_in_every_run_pauses_planning_and_names_the_symbol),
        cmocka_unit_test(planning_is_tried_again_after_the_pause),
        cmocka_unit_test(who_asks_for_plans_by_name_keeps_getting_them),
        cmocka_unit_test(a_size_that_is_random_in_every_run_pauses_planning_and_is_named),
        cmocka_unit_test(an_integer_that_was_not_declared_is_told_once),
        cmocka_unit_test(sizes_that_depend_on_data_are_not_taken_for_undeclared_ones),
        cmocka_unit_test(warm_up_is_no_churn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
