// SPDX-License-Identifier: Apache-2.0
// Why runs had no plan ready: each miss has one reason, and the reasons are told apart.
#include "base/thread.h"
#include "plan/step_kit.h"

typedef struct fixture {
    berth_step_model* model;
    step_tape tape;
} fixture;

static fixture open_fixture(const berth_plan_policy* policy) {
    fixture f = {.tape = {.host = berth_host_default()}};
    assert_ok(berth_step_model_create(f.tape.host, "step", policy, &f.model));
    return f;
}

static void close_fixture(fixture* f) {
    berth_trace_fini(&f->tape.trace, f->tape.host);
    berth_step_model_destroy(f->model);
}

static uint64_t sum_of_misses(const berth_step_counters* c) {
    return c->miss_new_step + c->miss_new_path + c->miss_new_bucket + c->miss_evicted +
           c->miss_model_changed + c->miss_churn;
}

/// One run at `t` of two values of [t, width], on the path `kind`, the first alive for `life`
/// events.
static step_outcome run(fixture* f, int64_t t, int64_t width, uint32_t kind, int life) {
    const berth_binding bindings[] = {{"t", t}};
    const berth_shape_key key = {bindings, 1};
    tape_op(&f->tape, kind);
    const uint32_t first = tape_matrix(&f->tape, t, width);
    for (int i = 0; i < 4; i++) {
        tape_op(&f->tape, 9);
        tape_matrix(&f->tape, t, width);
        if (i < life) tape_use(&f->tape, first);
    }
    return run_tape(f->model, &key, &f->tape);
}

static void a_run_before_anything_is_known_is_a_new_step(void** state) {
    (void)state;
    const berth_plan_policy policy = default_policy();
    fixture f = open_fixture(&policy);
    (void)run(&f, 10, 8, 1, 1);
    berth_step_counters c = counters_of(f.model);
    assert_int_equal(c.miss_new_step, 1);
    assert_int_equal(sum_of_misses(&c), 1);
    // a length that was never seen before fits no path that is known to vary
    (void)run(&f, 20, 8, 1, 1);
    c = counters_of(f.model);
    assert_int_equal(c.miss_new_path, 1);
    assert_int_equal(sum_of_misses(&c), 2);
    close_fixture(&f);
}

/// Two lengths, so that the step is planned.
static void learn(fixture* f) {
    for (int64_t t = 10; t <= 30; t += 10)
        (void)run(f, t, 8, 1, 1);
}

static void a_bucket_is_new_once(void** state) {
    (void)state;
    const berth_plan_policy policy = default_policy();
    fixture f = open_fixture(&policy);
    learn(&f);
    const berth_step_counters before = counters_of(f.model);
    assert_int_equal(run(&f, 100, 8, 1, 1).result, BERTH_RUN_HIT);
    assert_int_equal(run(&f, 100, 8, 1, 1).result, BERTH_RUN_HIT);
    assert_int_equal(run(&f, 101, 8, 1, 1).result, BERTH_RUN_HIT);
    const berth_step_counters after = counters_of(f.model);
    assert_int_equal(after.miss_new_bucket - before.miss_new_bucket, 1);
    assert_int_equal(sum_of_misses(&after) - sum_of_misses(&before), 1);
    close_fixture(&f);
}

static void a_cache_of_one_entry_serves_every_run_and_says_evicted(void** state) {
    (void)state;
    berth_plan_policy policy = default_policy();
    policy.cache_entries = 1;
    fixture f = open_fixture(&policy);
    learn(&f);
    const berth_step_counters before = counters_of(f.model);
    for (int i = 0; i < 20; i++)
        assert_int_equal(run(&f, i % 2 == 0 ? 100 : 1000, 8, 1, 1).result, BERTH_RUN_HIT);
    const berth_step_counters after = counters_of(f.model);
    assert_true(after.plans_live <= 1);
    assert_int_equal(after.miss_new_bucket - before.miss_new_bucket, 2);
    assert_int_equal(after.miss_evicted - before.miss_evicted, 18);
    assert_int_equal(sum_of_misses(&after) - sum_of_misses(&before), 20);
    close_fixture(&f);
}

static void sizes_and_deaths_learned_anew_are_a_changed_model(void** state) {
    (void)state;
    const berth_plan_policy policy = default_policy();
    fixture f = open_fixture(&policy);
    learn(&f);
    (void)run(&f, 100, 8, 1, 1);
    const berth_step_counters before = counters_of(f.model);
    (void)run(&f, 100, 8, 1, 3); // a later death
    assert_int_equal(run(&f, 100, 8, 1, 3).result, BERTH_RUN_HIT);
    const berth_step_counters after = counters_of(f.model);
    assert_int_equal(after.miss_model_changed - before.miss_model_changed, 1);
    assert_int_equal(sum_of_misses(&after) - sum_of_misses(&before), 1);
    close_fixture(&f);
}

static void a_run_that_leaves_for_an_unknown_path_is_a_new_path(void** state) {
    (void)state;
    const berth_plan_policy policy = default_policy();
    fixture f = open_fixture(&policy);
    learn(&f);
    (void)run(&f, 30, 8, 1, 1);
    const berth_step_counters before = counters_of(f.model);
    assert_int_equal(run(&f, 30, 8, 2, 1).result, BERTH_RUN_EXIT);
    assert_int_equal(counters_of(f.model).miss_new_path - before.miss_new_path, 1);
    assert_int_equal(run(&f, 30, 8, 1, 1).result, BERTH_RUN_HIT); // that one is known
    const berth_step_counters after = counters_of(f.model);
    assert_int_equal(after.miss_new_path - before.miss_new_path, 1);
    close_fixture(&f);
}

static void a_step_that_is_given_up_says_churn(void** state) {
    (void)state;
    berth_plan_policy policy = default_policy();
    policy.max_exits = 1;
    fixture f = open_fixture(&policy);
    learn(&f);
    assert_int_equal(run(&f, 30, 8, 2, 1).result, BERTH_RUN_EXIT);
    const berth_step_counters before = counters_of(f.model);
    for (int i = 0; i < 3; i++)
        assert_int_equal(run(&f, 30, 8, 1, 1).result, BERTH_RUN_RECORDED);
    const berth_step_counters after = counters_of(f.model);
    assert_int_equal(after.miss_churn - before.miss_churn, 3);
    close_fixture(&f);
}

static void asking_is_no_miss(void** state) {
    (void)state;
    const berth_plan_policy policy = default_policy();
    fixture f = open_fixture(&policy);
    learn(&f);
    const berth_step_counters before = counters_of(f.model);
    const berth_binding bindings[] = {{"t", 500}};
    const berth_shape_key key = {bindings, 1};
    berth_outlook outlook;
    assert_ok(berth_step_model_estimate(f.model, &key, &outlook));
    berth_branches branches;
    assert_ok(berth_step_model_begin(f.model, &key, &branches, &outlook)); // as a warm-up does
    berth_step_model_abandon(f.model, &branches);
    const berth_step_counters after = counters_of(f.model);
    assert_int_equal(sum_of_misses(&after), sum_of_misses(&before));
    close_fixture(&f);
}

// ---- Threads.

typedef struct begin_task {
    berth_step_model* model;
    bool made_plan;
    bool failed;
} begin_task;

static void begin_at_100(void* argument) {
    begin_task* task = argument;
    const berth_binding bindings[] = {{"t", 100}};
    const berth_shape_key key = {bindings, 1};
    berth_outlook outlook;
    berth_branches branches;
    task->failed = berth_step_model_begin(task->model, &key, &branches, &outlook) != BERTH_OK ||
                   outlook.placement == NULL;
    task->made_plan = outlook.made_plan;
    berth_step_model_abandon(task->model, &branches);
}

static void contexts_that_miss_on_one_bucket_at_once_make_one_plan(void** state) {
    (void)state;
    enum { THREADS = 4 };
    for (int round = 0; round < 20; round++) {
        const berth_plan_policy policy = default_policy();
        fixture f = open_fixture(&policy);
        learn(&f);
        const berth_step_counters before = counters_of(f.model);
        berth_thread threads[THREADS];
        begin_task tasks[THREADS] = {{.failed = false}};
        for (int i = 0; i < THREADS; i++) {
            tasks[i].model = f.model;
            assert_ok(berth_thread_start(&threads[i], "begin", begin_at_100, &tasks[i]));
        }
        int made = 0;
        for (int i = 0; i < THREADS; i++) {
            berth_thread_join(&threads[i]);
            assert_false(tasks[i].failed);
            made += tasks[i].made_plan;
        }
        assert_int_equal(made, 1);
        assert_int_equal(counters_of(f.model).plans - before.plans, 1);
        close_fixture(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_before_anything_is_known_is_a_new_step),
        cmocka_unit_test(a_bucket_is_new_once),
        cmocka_unit_test(a_cache_of_one_entry_serves_every_run_and_says_evicted),
        cmocka_unit_test(sizes_and_deaths_learned_anew_are_a_changed_model),
        cmocka_unit_test(a_run_that_leaves_for_an_unknown_path_is_a_new_path),
        cmocka_unit_test(a_step_that_is_given_up_says_churn),
        cmocka_unit_test(asking_is_no_miss),
        cmocka_unit_test(contexts_that_miss_on_one_bucket_at_once_make_one_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
