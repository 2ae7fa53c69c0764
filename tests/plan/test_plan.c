// SPDX-License-Identifier: Apache-2.0
// Plans by themselves: made at one size, evaluated at others; and the checker of placements.
#include "step_kit.h"

#include "plan/plan.h"

typedef struct plan_fixture {
    step_tape tape;
    berth_path_version* version;
    berth_plan_workspace workspace;
    berth_plan* plan;
} plan_fixture;

/// Four events with a value each; the first lives to the end, the last escapes.
static plan_fixture fixture_make(void) {
    plan_fixture f = {.tape = {.host = berth_host_default()}};
    uint32_t first = 0;
    for (uint32_t e = 0; e < 4; e++) {
        tape_op(&f.tape, e);
        const uint32_t value = tape_bytes(&f.tape, 0, 64);
        if (e == 0) first = value;
        if (e == 3) tape_escape(&f.tape, value);
    }
    tape_use(&f.tape, first);
    f.version = berth_path_version_create(f.tape.host, &f.tape.trace, NULL, 1);
    assert_non_null(f.version);
    f.workspace.host = f.tape.host;
    assert_ok(berth_plan_workspace_reserve(&f.workspace, &f.version->shown));
    return f;
}

static void set_sizes(plan_fixture* f, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    const uint64_t sizes[] = {a, b, c, d};
    memcpy(f->workspace.sizes, sizes, sizeof sizes);
}

static berth_plan_placement* place(plan_fixture* f) {
    berth_plan_placement* placement;
    const berth_size_answer answer = {.promise = BERTH_SIZE_EXACT};
    assert_ok(berth_plan_place(&f->workspace, f->version, f->plan, answer, &placement));
    assert_true(berth_placement_is_valid(&placement->shown));
    return placement;
}

static void fixture_fini(plan_fixture* f) {
    berth_plan_destroy(f->plan, f->tape.host);
    berth_plan_workspace_fini(&f->workspace);
    berth_path_version_release(f->version, f->tape.host);
    berth_trace_fini(&f->tape.trace, f->tape.host);
}

static void peak_bound_and_sums_follow_the_definitions(void** state) {
    (void)state;
    plan_fixture f = fixture_make();
    set_sizes(&f, 640, 128, 256, 1024);
    assert_ok(berth_plan_make(&f.workspace, &f.version->shown, &f.plan));
    set_sizes(&f, 640, 128, 256, 1024);
    berth_plan_placement* placement = place(&f);
    assert_int_equal(placement->shown.sum_bytes, 2048);
    assert_int_equal(placement->shown.escaping_bytes, 1024);
    assert_int_equal(placement->shown.frame_bytes, 640 + 256);
    assert_int_equal(placement->shown.lower_bound_bytes, 640 + 1024);
    assert_int_equal(placement->shown.places[3].offset == BERTH_PLACE_POOL, true);
    // At the last event only the first value and the pooled one are alive.
    assert_int_equal(placement->shown.peak_bytes, placement->shown.places[0].offset + 640 + 1024);
    berth_plan_placement_release(placement, f.tape.host);
    fixture_fini(&f);
}

static void values_that_had_no_bytes_in_the_plan_are_kept_apart_all_the_same(void** state) {
    (void)state;
    plan_fixture f = fixture_make();
    set_sizes(&f, 640, 0, 256, 64);
    assert_ok(berth_plan_make(&f.workspace, &f.version->shown, &f.plan));
    set_sizes(&f, 640, 128, 256, 64);
    berth_plan_placement_release(place(&f), f.tape.host);
    fixture_fini(&f);
}

static void a_shape_far_from_the_plans_is_packed_by_itself_where_that_is_better(void** state) {
    (void)state;
    plan_fixture f = fixture_make();
    // By hand: the long value rests on the third one, which is large at this shape only.
    const berth_interval intervals[] = {{64, 0, 4}, {64, 1, 2}, {64, 2, 3}, {0, 3, 4}};
    const uint64_t offsets[] = {64, 0, 0, 0};
    berth_relation* relation;
    assert_ok(berth_relation_create(f.tape.host, intervals, 4, offsets, &relation));
    assert_ok(berth_plan_create(f.tape.host, relation, 128, 128, BERTH_PLAN_QUICK, &f.plan));
    set_sizes(&f, 64, 6400, 64, 12800);
    berth_plan_placement* placement = place(&f);
    assert_int_equal(placement->shown.peak_bytes, placement->shown.lower_bound_bytes);
    berth_plan_placement_release(placement, f.tape.host);
    // Where a search has left as much at the corner, the plan's own places stand.
    f.plan->searches = 1;
    f.plan->peak_bytes = 640;
    set_sizes(&f, 64, 6400, 64, 6400);
    placement = place(&f);
    assert_int_equal(placement->places[0].offset, 6400);
    berth_plan_placement_release(placement, f.tape.host);
    fixture_fini(&f);
}

static void a_plan_knows_its_peak_and_bound_and_is_at_its_limit_where_they_meet(void** state) {
    (void)state;
    plan_fixture f = fixture_make();
    set_sizes(&f, 640, 128, 256, 1024);
    assert_ok(berth_plan_make(&f.workspace, &f.version->shown, &f.plan));
    // what escapes is not in the frame
    assert_int_equal(f.plan->peak_bytes, 640 + 256);
    assert_int_equal(f.plan->lower_bound_bytes, 640 + 256);
    assert_int_equal(f.plan->tier, BERTH_PLAN_AT_LIMIT);
    assert_true(berth_plan_is_proved(f.plan));
    fixture_fini(&f);
}

static void sizes_that_sum_to_too_much_are_an_overflow(void** state) {
    (void)state;
    plan_fixture f = fixture_make();
    set_sizes(&f, UINT64_MAX, 64, 64, 64);
    assert_int_equal(berth_plan_make(&f.workspace, &f.version->shown, &f.plan), BERTH_ERR_OVERFLOW);
    set_sizes(&f, UINT64_C(1) << 61, UINT64_C(1) << 61, 64, 64);
    assert_int_equal(berth_plan_make(&f.workspace, &f.version->shown, &f.plan), BERTH_ERR_OVERFLOW);
    assert_null(f.plan);
    fixture_fini(&f);
}

static void the_checker_refuses_every_wrong_number_of_a_placement(void** state) {
    (void)state;
    plan_fixture f = fixture_make();
    set_sizes(&f, 640, 128, 256, 1024);
    assert_ok(berth_plan_make(&f.workspace, &f.version->shown, &f.plan));
    set_sizes(&f, 640, 128, 256, 1024);
    berth_plan_placement* placement = place(&f);
    const berth_placement good = placement->shown;
    berth_place places[4];
    for (int fault = 0; fault < 9; fault++) {
        berth_placement bad = good;
        memcpy(places, placement->places, sizeof places);
        bad.places = places;
        assert_true(berth_placement_is_valid(&bad));
        if (fault == 0) bad.frame_bytes += 64;
        if (fault == 1) bad.peak_bytes -= 64;
        if (fault == 2) bad.lower_bound_bytes += 64;
        if (fault == 3) bad.sum_bytes += 64;
        if (fault == 4) bad.escaping_bytes = 0;
        if (fault == 5) places[1].offset = places[0].offset;
        if (fault == 6) places[1].offset += 1;
        if (fault == 7) places[1].offset = BERTH_PLACE_POOL;
        if (fault == 8) places[1].bytes = UINT64_MAX - 63;
        assert_false(berth_placement_is_valid(&bad));
    }
    berth_plan_placement_release(placement, f.tape.host);
    fixture_fini(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peak_bound_and_sums_follow_the_definitions),
        cmocka_unit_test(values_that_had_no_bytes_in_the_plan_are_kept_apart_all_the_same),
        cmocka_unit_test(a_shape_far_from_the_plans_is_packed_by_itself_where_that_is_better),
        cmocka_unit_test(a_plan_knows_its_peak_and_bound_and_is_at_its_limit_where_they_meet),
        cmocka_unit_test(sizes_that_sum_to_too_much_are_an_overflow),
        cmocka_unit_test(the_checker_refuses_every_wrong_number_of_a_placement),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
