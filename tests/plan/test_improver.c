// SPDX-License-Identifier: Apache-2.0
// The improver: which plans it is given, what it makes of them, and when a step gets to see it.
// Nobody but the test does its work, unless a test is about its thread.
#include "step_kit.h"

#include "kit/failing_host.h"
#include "kit/random.h"
#include "plan/step_model_impl.h"

#define BUDGET_NS UINT64_C(2000000)

typedef struct improver_kit {
    const berth_host* host;
    berth_improver* improver;
    berth_step_model* model;
} improver_kit;

static improver_kit kit_make(const berth_host* host) {
    improver_kit kit = {.host = host};
    assert_ok(berth_improver_create(host, BUDGET_NS, &kit.improver));
    berth_improver_hold(kit.improver);
    berth_plan_policy policy = default_policy();
    policy.improver = kit.improver;
    assert_ok(berth_step_model_create(host, "s", &policy, &kit.model));
    return kit;
}

static void kit_fini(improver_kit* kit) {
    berth_improver_destroy(kit->improver);
    berth_step_model_destroy(kit->model);
}

/// One run at length `n`: a chain of values, two of which are alive at a time.
static step_outcome run(berth_step_model* model, int64_t n) {
    step_tape tape = {.host = berth_host_default()};
    uint32_t last = UINT32_MAX;
    for (uint32_t e = 0; e < 8; e++)
        last = tape_linear(&tape, e, n, 64 + e, 0, last, UINT32_MAX);
    const berth_binding binding = {"n", n};
    const berth_shape_key key = {&binding, 1};
    const step_outcome outcome = run_tape(model, &key, &tape);
    berth_trace_fini(&tape.trace, tape.host);
    return outcome;
}

/// Runs until the models are settled and nothing more is learned.
static void warm_up(berth_step_model* model) {
    for (int64_t i = 0; i < 100; i++)
        (void)run(model, 1000 + i % 20);
}

static berth_plan_placement* begin(berth_step_model* model, int64_t n) {
    const berth_binding binding = {"n", n};
    const berth_shape_key key = {&binding, 1};
    berth_outlook outlook;
    berth_branches branches;
    assert_ok(berth_step_model_begin(model, &key, &branches, &outlook));
    assert_non_null(outlook.placement);
    berth_plan_placement* placement = berth_placement_own(outlook.placement);
    placement->refs++;
    berth_step_model_abandon(model, &branches);
    return placement;
}

static void give_back(berth_step_model* model, berth_plan_placement* placement) {
    berth_plan_placement_release(placement, model->host);
}

static berth_plan* plan_at(berth_step_model* model, int64_t n) {
    berth_plan_placement* placement = begin(model, n);
    uint64_t hits;
    berth_plan* plan = berth_plan_cache_redeem(&model->cache, placement->plan, &hits);
    assert_non_null(plan);
    give_back(model, placement);
    return plan;
}

/// A relation that stacks all values, none on another's bytes.
static berth_relation* make_stack(const berth_host* host, uint32_t count) {
    berth_interval intervals[64];
    uint64_t offsets[64];
    assert_true(count <= 64);
    for (uint32_t v = 0; v < count; v++) {
        intervals[v] = (berth_interval){64, 0, 1};
        offsets[v] = (uint64_t)v * 64;
    }
    berth_relation* relation;
    assert_ok(berth_relation_create(host, intervals, count, offsets, &relation));
    return relation;
}

/// Makes the plan at `n` as bad as it can be, as if the quick portfolio had found nothing better.
static berth_plan* spoil(berth_step_model* model, int64_t n) {
    berth_plan_placement* placement = begin(model, n);
    berth_known_path* path = berth_step_model_find_path(model, placement->shown.path->id);
    berth_shape_box box;
    berth_step_model_find_box(model, path, &n, &box);
    berth_plan_cache_replace(&model->cache,
                             placement->plan,
                             make_stack(model->host, placement->shown.path->value_count),
                             0);
    uint64_t hits;
    uint64_t sizes[64];
    berth_plan* plan = berth_plan_cache_redeem(&model->cache, placement->plan, &hits);
    (void)berth_size_model_evaluate(
        &path->sizes, box.bucket_lo, box.bucket_hi, box.bucket_hi, model->workspace.sizes);
    assert_true(berth_plan_measure(
        &model->workspace, &path->version->shown, plan, sizes, &plan->peak_bytes));
    plan->tier = BERTH_PLAN_QUICK;
    plan->searches = 0;
    plan->search_at = 8;
    give_back(model, placement);
    return plan;
}

/// Runs at `n` and lets the improver work, `times` times.
static void run_and_improve(improver_kit* kit, int64_t n, uint32_t times) {
    for (uint32_t i = 0; i < times; i++) {
        (void)run(kit->model, n);
        (void)berth_improver_work(kit->improver);
    }
}

static void a_hot_plan_above_its_bound_is_made_tighter(void** state) {
    (void)state;
    improver_kit kit = kit_make(berth_host_default());
    warm_up(kit.model);
    const berth_plan* plan = spoil(kit.model, 1000);
    const uint64_t before = plan->peak_bytes;
    assert_true(before > 2 * plan->lower_bound_bytes);
    run_and_improve(&kit, 1000, 64);
    assert_int_equal(plan->peak_bytes, plan->lower_bound_bytes);
    assert_int_equal(plan->tier, BERTH_PLAN_AT_LIMIT);
    const berth_step_counters counters = counters_of(kit.model);
    assert_int_equal(counters.improved, 1);
    assert_int_equal(counters.improve_tried, 1);
    assert_int_equal(counters.improve_saved_bytes, before - plan->peak_bytes);
    assert_true(counters.improve_ns > 0);
    assert_int_equal(run(kit.model, 1000).result, BERTH_RUN_HIT);
    kit_fini(&kit);
}

static void a_plan_at_its_bound_is_not_searched_for(void** state) {
    (void)state;
    improver_kit kit = kit_make(berth_host_default());
    warm_up(kit.model);
    assert_true(berth_plan_is_proved(plan_at(kit.model, 1000)));
    for (uint32_t i = 0; i < 200; i++) {
        (void)run(kit.model, 1000);
        assert_false(berth_improver_work(kit.improver));
    }
    assert_int_equal(counters_of(kit.model).improve_tried, 0);
    kit_fini(&kit);
}

static void a_plan_that_is_seldom_used_is_not_searched_for(void** state) {
    (void)state;
    improver_kit kit = kit_make(berth_host_default());
    warm_up(kit.model);
    for (int64_t n = 10000; n < 20000; n *= 2) // a bucket that is new
        (void)run(kit.model, n);
    spoil(kit.model, 10000)->search_at = 1000;
    for (uint32_t i = 0; i < 100; i++) {
        (void)run(kit.model, 10000);
        assert_false(berth_improver_work(kit.improver));
    }
    kit_fini(&kit);
}

static void a_step_meets_the_better_plan_at_its_next_begin_and_no_earlier(void** state) {
    (void)state;
    improver_kit kit = kit_make(berth_host_default());
    warm_up(kit.model);
    const berth_plan* plan = spoil(kit.model, 1000);
    // the stack is what this shape gets, whatever the portfolio may find for it alone
    while (atomic_load(&kit.model->tray.outcome) == NULL)
        run_and_improve(&kit, 1000, 1);
    const uint64_t before = plan->peak_bytes;
    berth_plan_placement* held = begin(kit.model, 1000); // takes the outcome
    assert_true(plan->peak_bytes < before);
    const berth_place first = held->places[0];
    assert_int_equal(spoil(kit.model, 1000)->peak_bytes, before); // swaps again, under the replay
    assert_memory_equal(&held->places[0], &first, sizeof first);
    assert_true(berth_placement_is_valid(&held->shown));
    berth_plan_placement* next = begin(kit.model, 1000);
    assert_ptr_not_equal(next, held);
    give_back(kit.model, held);
    give_back(kit.model, next);
    kit_fini(&kit);
}

static void what_was_found_for_a_plan_that_has_gone_is_dropped(void** state) {
    (void)state;
    improver_kit kit = kit_make(berth_host_default());
    warm_up(kit.model);
    (void)spoil(kit.model, 1000);
    while (atomic_load(&kit.model->tray.outcome) == NULL)
        run_and_improve(&kit, 1000, 1);
    berth_plan_cache_drop(&kit.model->cache, kit.model->paths[0].id, false);
    assert_int_equal(run(kit.model, 1000).result, BERTH_RUN_HIT);
    const berth_step_counters counters = counters_of(kit.model);
    assert_int_equal(counters.improve_tried, 1);
    assert_int_equal(counters.improved, 0);
    kit_fini(&kit);
}

/// Lets a search for the plan at `n` have come to nothing.
static void find_nothing(berth_step_model* model, int64_t n) {
    berth_plan_placement* placement = begin(model, n);
    berth_improvement* found = berth_host_calloc(model->host, 1, sizeof *found);
    assert_non_null(found);
    found->plan = placement->plan;
    give_back(model, placement);
    atomic_store(&model->tray.outcome, found);
    (void)run(model, n);
}

static void a_plan_is_searched_for_again_when_it_is_much_hotter_and_never_a_third_time(
    void** state) {
    (void)state;
    improver_kit kit = kit_make(berth_host_default());
    warm_up(kit.model);
    berth_plan* plan = spoil(kit.model, 1000);
    const uint64_t first_at = plan->search_at;
    find_nothing(kit.model, 1000);
    assert_int_equal(plan->tier, BERTH_PLAN_QUICK);
    assert_true(plan->search_at >= first_at * BERTH_PLAN_HOTTER);
    assert_true(plan->search_at < 1000000);
    find_nothing(kit.model, 1000);
    assert_int_equal(plan->tier, BERTH_PLAN_AT_LIMIT);
    assert_true(plan->search_at == UINT64_MAX);
    assert_int_equal(counters_of(kit.model).improve_tried, 2);
    assert_int_equal(counters_of(kit.model).improved, 0);
    kit_fini(&kit);
}

static void the_step_that_gains_most_comes_first(void** state) {
    (void)state;
    improver_kit kit = kit_make(berth_host_default());
    berth_plan_policy policy = default_policy();
    policy.improver = kit.improver;
    berth_step_model* small;
    assert_ok(berth_step_model_create(kit.host, "small", &policy, &small));
    warm_up(kit.model);
    for (int64_t i = 0; i < 100; i++)
        (void)run(small, 10 + i % 3);
    (void)spoil(kit.model, 1000);
    (void)spoil(small, 10);
    while (!kit.model->tray.is_waiting) {
        assert_false(small->tray.is_waiting);
        (void)run(small, 10);
        (void)run(kit.model, 1000);
        (void)berth_improver_work(kit.improver);
    }
    // and then the other
    for (uint32_t i = 0; counters_of(small).improved == 0; i++) {
        assert_true(i < 200);
        (void)run(small, 10);
        (void)run(kit.model, 1000);
        (void)berth_improver_work(kit.improver);
    }
    berth_improver_destroy(kit.improver);
    berth_step_model_destroy(small);
    berth_step_model_destroy(kit.model);
}

// ---- The desk.

/// Offers until the desk is given, with room for `count` values.
static berth_improver_desk* get_desk(berth_improver* improver,
                                     berth_improver_tray* tray,
                                     uint32_t count) {
    for (uint32_t i = 0; i < 100; i++) {
        berth_improver_desk* desk = berth_improver_offer(improver, tray, 1000, count);
        if (desk != NULL) return desk;
        (void)berth_improver_work(improver);
    }
    fail_msg("no offer was taken");
    return NULL;
}

/// Three values in a row; a plan that needs `frame` for them at all shapes of the desk but the
/// last, and `last_frame` there.
static berth_improvement* improve_row(uint64_t frame, uint64_t last_frame) {
    berth_improver* improver;
    assert_ok(berth_improver_create(berth_host_default(), BUDGET_NS, &improver));
    berth_improver_hold(improver);
    berth_improver_tray tray = {.is_waiting = false};
    berth_improver_desk* desk = get_desk(improver, &tray, 3);
    desk->plan = (berth_plan_ticket){1, 1};
    desk->effort = 1;
    desk->lower_bound_bytes = 64;
    desk->row_count = 3;
    for (uint32_t v = 0; v < 3; v++) {
        desk->intervals[v] = (berth_interval){640, v, v + 1};
        for (uint32_t row = 0; row < 3; row++)
            desk->rows[row * 3 + v] = 640;
    }
    for (uint32_t row = 0; row < 3; row++)
        desk->frame_bytes[row] = row < 2 ? frame : last_frame;
    berth_improver_hand_in(improver, desk, true);
    assert_true(tray.is_waiting);
    assert_null(berth_improver_collect(&tray));
    assert_true(berth_improver_work(improver));
    assert_false(berth_improver_work(improver));
    berth_improvement* found = berth_improver_collect(&tray);
    assert_false(tray.is_waiting);
    assert_null(berth_improver_collect(&tray));
    berth_improver_destroy(improver);
    assert_non_null(found);
    return found;
}

static void a_packing_is_taken_if_it_is_better_in_the_mean_and_nowhere_clearly_worse(void** state) {
    (void)state;
    const berth_host* host = berth_host_default();
    berth_improvement* found = improve_row(1280, 1280);
    assert_non_null(found->relation);
    assert_int_equal(found->peak_bytes, 640);
    assert_int_equal(found->lower_bound_bytes, 640);
    assert_int_equal(found->plan.serial, 1);
    berth_improvement_destroy(found, host);
    found = improve_row(1280, 631); // 640 is less than a 64th more
    assert_non_null(found->relation);
    berth_improvement_destroy(found, host);
    found = improve_row(1280, 600);
    assert_null(found->relation);
    berth_improvement_destroy(found, host);
    found = improve_row(640, 1280); // no better at the corner
    assert_null(found->relation);
    assert_int_equal(found->lower_bound_bytes, 640);
    berth_improvement_destroy(found, host);
}

static void a_problem_that_never_comes_is_not_waited_for(void** state) {
    (void)state;
    berth_improver* improver;
    assert_ok(berth_improver_create(berth_host_default(), BUDGET_NS, &improver));
    berth_improver_hold(improver);
    berth_improver_tray gone = {.is_waiting = false};
    berth_improver_tray here = {.is_waiting = false};
    while (!berth_improver_work(improver)) // asked to make room
        assert_null(berth_improver_offer(improver, &gone, 1000, 3));
    berth_improver_desk* desk = NULL;
    for (uint32_t i = 0; i < 1000 && desk == NULL; i++) {
        desk = berth_improver_offer(improver, &here, 10, 3);
        (void)berth_improver_work(improver);
    }
    assert_non_null(desk);
    berth_improver_hand_in(improver, desk, false); // after all not
    assert_false(here.is_waiting);
    assert_false(berth_improver_work(improver));
    (void)get_desk(improver, &here, 3);
    berth_improver_destroy(improver);
}

static void who_made_the_best_offer_and_left_does_not_keep_others_away(void** state) {
    (void)state;
    berth_improver* improver;
    assert_ok(berth_improver_create(berth_host_default(), BUDGET_NS, &improver));
    berth_improver_hold(improver);
    berth_improver_tray rich = {.is_waiting = false};
    berth_improver_tray poor = {.is_waiting = false};
    assert_null(berth_improver_offer(improver, &rich, UINT64_MAX, 3));
    uint32_t offers = 0;
    for (; !berth_improver_work(improver); offers++)
        assert_null(berth_improver_offer(improver, &poor, 1, 3));
    assert_in_range(offers, 17, 2000);
    berth_improver_destroy(improver);
}

// ---- Failures.

static void no_failing_allocation_loses_anything(void** state) {
    (void)state;
    for (size_t nth = 1;; nth++) {
        failing_host failing;
        failing_host_init(&failing);
        berth_host* host;
        assert_ok(berth_host_create(&failing.allocator, &host));
        improver_kit kit = kit_make(host);
        warm_up(kit.model);
        const berth_plan* plan = spoil(kit.model, 1000);
        failing_host_fail(&failing, nth, false);
        run_and_improve(&kit, 1000, 64);
        const bool has_failed = failing_host_has_failed(&failing);
        failing_host_fail(&failing, 0, false);
        if (!has_failed) assert_int_equal(plan->tier, BERTH_PLAN_AT_LIMIT);
        assert_int_equal(run(kit.model, 1000).result, BERTH_RUN_HIT);
        kit_fini(&kit);
        berth_host_destroy(host);
        assert_int_equal(failing.live_blocks, 0);
        assert_false(failing.mismatch);
        if (!has_failed) return;
    }
}

// ---- The thread.

/// A thread's stack that no system has.
static bool forbid_threads(pthread_attr_t* out_before) {
    pthread_attr_t huge;
    if (pthread_getattr_default_np(out_before) != 0 || pthread_getattr_default_np(&huge) != 0)
        return false;
    const bool done = pthread_attr_setstacksize(&huge, (size_t)1 << 52) == 0 &&
                      pthread_setattr_default_np(&huge) == 0;
    (void)pthread_attr_destroy(&huge);
    return done;
}

static void without_a_thread_plans_stay_as_they_are(void** state) {
    (void)state;
    berth_improver* improver;
    assert_ok(berth_improver_create(berth_host_default(), BUDGET_NS, &improver));
    berth_improver_tray tray = {.is_waiting = false};
    pthread_attr_t before;
    assert_true(forbid_threads(&before));
    for (uint32_t i = 0; i < 100; i++)
        assert_null(berth_improver_offer(improver, &tray, 1000, 3));
    assert_int_equal(pthread_setattr_default_np(&before), 0);
    (void)pthread_attr_destroy(&before);
    for (uint32_t i = 0; i < 100; i++) // not tried again
        assert_null(berth_improver_offer(improver, &tray, 1000, 3));
    berth_improver_wait(improver);
    berth_improver_destroy(improver);
}

static void the_thread_improves_while_steps_run(void** state) {
    (void)state;
    berth_improver* improver;
    assert_ok(berth_improver_create(berth_host_default(), BUDGET_NS, &improver));
    berth_plan_policy policy = default_policy();
    policy.improver = improver;
    berth_step_model* model;
    assert_ok(berth_step_model_create(berth_host_default(), "s", &policy, &model));
    warm_up(model);
    const berth_plan* plan = spoil(model, 1000);
    for (uint32_t i = 0; counters_of(model).improved == 0; i++) {
        assert_true(i < 1000);
        (void)run(model, 1000);
        berth_improver_wait(improver);
    }
    assert_int_equal(plan->tier, BERTH_PLAN_AT_LIMIT);
    berth_improver_destroy(improver);
    berth_step_model_destroy(model);
}

/// A problem that keeps a search busy for long: sizes and lifetimes by chance.
static void write_hard_problem(berth_improver_desk* desk, uint32_t count) {
    test_random random = test_random_make(7);
    uint64_t sum = 0;
    for (uint32_t v = 0; v < count; v++) {
        const uint64_t size = 64 * (1 + test_random_below(&random, 5000));
        const uint32_t start = (uint32_t)test_random_below(&random, 500);
        const uint32_t length = 1 + (uint32_t)test_random_below(&random, 60);
        desk->intervals[v] = (berth_interval){size, start, start + length};
        desk->rows[v] = size;
        sum += size;
    }
    desk->plan = (berth_plan_ticket){1, 1};
    desk->effort = 1;
    desk->lower_bound_bytes = 0;
    desk->row_count = 1;
    desk->frame_bytes[0] = sum;
}

static void a_search_under_way_ends_when_its_runtime_does(void** state) {
    (void)state;
    enum { VALUES = 600 };
    berth_improver* improver;
    assert_ok(berth_improver_create(berth_host_default(), UINT64_C(3600000000000), &improver));
    berth_improver_tray tray = {.is_waiting = false};
    berth_improver_desk* desk = NULL;
    while (desk == NULL) {
        desk = berth_improver_offer(improver, &tray, 1000, VALUES);
        berth_improver_wait(improver); // for room
    }
    write_hard_problem(desk, VALUES);
    berth_improver_hand_in(improver, desk, true);
    berth_improver_destroy(improver); // would last an hour
    berth_improvement_destroy(berth_improver_collect(&tray), berth_host_default());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hot_plan_above_its_bound_is_made_tighter),
        cmocka_unit_test(a_plan_at_its_bound_is_not_searched_for),
        cmocka_unit_test(a_plan_that_is_seldom_used_is_not_searched_for),
        cmocka_unit_test(a_step_meets_the_better_plan_at_its_next_begin_and_no_earlier),
        cmocka_unit_test(what_was_found_for_a_plan_that_has_gone_is_dropped),
        cmocka_unit_test(
            a_plan_is_searched_for_again_when_it_is_much_hotter_and_never_a_third_time),
        cmocka_unit_test(the_step_that_gains_most_comes_first),
        cmocka_unit_test(a_packing_is_taken_if_it_is_better_in_the_mean_and_nowhere_clearly_worse),
        cmocka_unit_test(a_problem_that_never_comes_is_not_waited_for),
        cmocka_unit_test(who_made_the_best_offer_and_left_does_not_keep_others_away),
        cmocka_unit_test(no_failing_allocation_loses_anything),
        cmocka_unit_test(without_a_thread_plans_stay_as_they_are),
        cmocka_unit_test(the_thread_improves_while_steps_run),
        cmocka_unit_test(a_search_under_way_ends_when_its_runtime_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
