// SPDX-License-Identifier: Apache-2.0
// When compaction is wanted, and when no longer. Time is a number here.
#include "kit/test.h"

#include "health/trigger.h"

#define GRANULE (UINT64_C(2) << 20)
#define COOLDOWN UINT64_C(1000)

static berth_trigger make(void) {
    berth_trigger trigger;
    const berth_trigger_config config = {.fi_threshold = 0.5, .cooldown_ns = COOLDOWN};
    berth_trigger_init(&trigger, &config);
    return trigger;
}

static berth_trigger_input quiet(void) {
    return (berth_trigger_input){.gain_bytes = 8 * GRANULE, .granule_bytes = GRANULE};
}

static void nothing_is_wanted_while_all_is_well(void** state) {
    (void)state;
    berth_trigger trigger = make();
    berth_trigger_input input = quiet();
    for (input.now_ns = 0; input.now_ns < 100; input.now_ns++)
        assert_int_equal(berth_trigger_update(&trigger, &input), BERTH_TRIGGER_NONE);
}

static void a_high_index_is_acted_on_until_it_is_well_below_the_threshold(void** state) {
    (void)state;
    berth_trigger trigger = make();
    berth_trigger_input input = quiet();
    input.fi = 0.49;
    assert_int_equal(berth_trigger_update(&trigger, &input), BERTH_TRIGGER_NONE);
    input.fi = 0.51;
    assert_int_equal(berth_trigger_update(&trigger, &input), BERTH_TRIGGER_FI);
    input.fi = 0.4;
    assert_int_equal(berth_trigger_update(&trigger, &input), BERTH_TRIGGER_FI);
    input.fi = 0.34;
    assert_int_equal(berth_trigger_update(&trigger, &input), BERTH_TRIGGER_NONE);
    input.fi = 0.49;
    assert_int_equal(berth_trigger_update(&trigger, &input), BERTH_TRIGGER_NONE);
    assert_int_equal(trigger.counts[BERTH_TRIGGER_FI], 1);
}

static void what_is_foretold_counts_like_what_is(void** state) {
    (void)state;
    berth_trigger trigger = make();
    berth_trigger_input input = quiet();
    input.fi_predicted = 0.6;
    assert_int_equal(berth_trigger_update(&trigger, &input), BERTH_TRIGGER_FORECAST);
    input.fi_predicted = 0;
    assert_int_equal(berth_trigger_update(&trigger, &input), BERTH_TRIGGER_NONE);
    input.is_expected = true;
    assert_int_equal(berth_trigger_update(&trigger, &input), BERTH_TRIGGER_FORECAST);
    assert_int_equal(trigger.counts[BERTH_TRIGGER_FORECAST], 2);
}

static void without_a_granule_to_gain_nothing_is_wanted(void** state) {
    (void)state;
    berth_trigger trigger = make();
    berth_trigger_input input = quiet();
    input.gain_bytes = GRANULE - 1;
    input.fi = 1;
    input.is_expected = true;
    input.refused = 1;
    assert_int_equal(berth_trigger_update(&trigger, &input), BERTH_TRIGGER_NONE);
    assert_int_equal(berth_trigger_idle(&trigger, &input), BERTH_TRIGGER_NONE);
    input.gain_bytes = GRANULE;
    assert_int_equal(berth_trigger_update(&trigger, &input), BERTH_TRIGGER_FI);
}

static void after_a_pass_there_is_peace_for_the_cool_down(void** state) {
    (void)state;
    berth_trigger trigger = make();
    berth_trigger_input input = quiet();
    input.fi = 0.9;
    assert_int_equal(berth_trigger_update(&trigger, &input), BERTH_TRIGGER_FI);
    berth_trigger_finish(&trigger, 500, GRANULE);
    input.now_ns = 500 + COOLDOWN - 1;
    assert_int_equal(berth_trigger_update(&trigger, &input), BERTH_TRIGGER_NONE);
    input.now_ns = 500 + COOLDOWN;
    assert_int_equal(berth_trigger_update(&trigger, &input), BERTH_TRIGGER_FI);
}

static void passes_that_bring_nothing_become_rare_until_one_does(void** state) {
    (void)state;
    berth_trigger trigger = make();
    for (uint32_t i = 1; i < 40; i++) {
        berth_trigger_finish(&trigger, 0, 0);
        assert_int_equal(trigger.ready_ns, COOLDOWN << (i < 6 ? i : 6));
    }
    berth_trigger_finish(&trigger, 0, 1);
    assert_int_equal(trigger.ready_ns, COOLDOWN);
    berth_trigger_finish(&trigger, UINT64_MAX - 1, 1);
    assert_int_equal(trigger.ready_ns, UINT64_MAX);
}

static void a_request_that_fails_waits_for_no_cool_down(void** state) {
    (void)state;
    berth_trigger trigger = make();
    berth_trigger_finish(&trigger, 0, 0);
    berth_trigger_input input = quiet();
    input.refused = 1;
    assert_int_equal(berth_trigger_update(&trigger, &input), BERTH_TRIGGER_FAILING);
    // once for each failure
    assert_int_equal(berth_trigger_update(&trigger, &input), BERTH_TRIGGER_NONE);
    input.refused = 2;
    assert_int_equal(berth_trigger_update(&trigger, &input), BERTH_TRIGGER_FAILING);
    assert_int_equal(trigger.counts[BERTH_TRIGGER_FAILING], 2);
}

static void a_rising_share_of_moves_is_acted_on_and_a_steady_one_is_not(void** state) {
    (void)state;
    berth_trigger trigger = make();
    berth_trigger_input input = quiet();
    for (int i = 0; i < 50; i++) {
        input.requests += 20;
        assert_int_equal(berth_trigger_update(&trigger, &input), BERTH_TRIGGER_NONE);
    }
    uint32_t wanted = 0;
    for (int i = 0; i < 400; i++) {
        input.requests += 20;
        input.moved += 10;
        if (berth_trigger_update(&trigger, &input) == BERTH_TRIGGER_MOVES) {
            assert_true(i < 40);
            wanted++;
        }
    }
    assert_true(wanted > 0);
}

static void idle_time_is_used_for_whatever_can_be_gained(void** state) {
    (void)state;
    berth_trigger trigger = make();
    const berth_trigger_input input = quiet();
    berth_trigger_finish(&trigger, 0, GRANULE);
    assert_int_equal(berth_trigger_idle(&trigger, &input), BERTH_TRIGGER_IDLE);
    assert_int_equal(trigger.counts[BERTH_TRIGGER_IDLE], 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_wanted_while_all_is_well),
        cmocka_unit_test(a_high_index_is_acted_on_until_it_is_well_below_the_threshold),
        cmocka_unit_test(what_is_foretold_counts_like_what_is),
        cmocka_unit_test(without_a_granule_to_gain_nothing_is_wanted),
        cmocka_unit_test(after_a_pass_there_is_peace_for_the_cool_down),
        cmocka_unit_test(passes_that_bring_nothing_become_rare_until_one_does),
        cmocka_unit_test(a_request_that_fails_waits_for_no_cool_down),
        cmocka_unit_test(a_rising_share_of_moves_is_acted_on_and_a_steady_one_is_not),
        cmocka_unit_test(idle_time_is_used_for_whatever_can_be_gained),
    };
    return cmocka_run_group_tests_name("trigger", tests, NULL, NULL);
}
