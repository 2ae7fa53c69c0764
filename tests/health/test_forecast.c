// SPDX-License-Identifier: Apache-2.0
// The forecast on scripted sequences: what is certain to come, what never comes, and the books over
// predictions.
#include "kit/test.h"

#include <math.h>
#include <string.h>

#include "health/forecast.h"
#include "kit/random.h"

#define HORIZON UINT64_C(64)
#define MIB (UINT64_C(1) << 20)

/// A pool as the forecast sees it, under the test's command.
typedef struct script {
    berth_forecast forecast;
    berth_forecast_input input;
} script;

static void begin(script* s) {
    memset(s, 0, sizeof *s);
    berth_forecast_init(&s->forecast, HORIZON);
    s->input = (berth_forecast_input){
        .free_bytes = 64 * MIB,
        .largest_bytes = 8 * MIB,
        .used_bytes = 192 * MIB,
    };
}

/// One take of `size` bytes; as the monitor does, the forecast hears of events at once and is asked
/// once in a period.
static void take(script* s, uint64_t size) {
    s->input.takes++;
    const bool is_event = size > s->input.largest_bytes && size <= s->input.free_bytes;
    berth_forecast_note(&s->forecast, 1, size, s->input.takes, is_event);
    if (s->input.takes % berth_forecast_period(&s->forecast) == 0)
        berth_forecast_sample(&s->forecast, &s->input);
}

static uint64_t sum_of(const berth_forecast_record* r) {
    return r->true_positives + r->false_positives + r->false_negatives + r->true_negatives;
}

static void what_is_certain_to_come_is_foretold(void** state) {
    (void)state;
    script s;
    begin(&s);
    for (int i = 0; i < 20000; i++) {
        if (i == 10000) s.forecast.record = (berth_forecast_record){0};
        take(&s, i % 16 == 0 ? 12 * MIB : MIB);
    }
    assert_true(s.forecast.is_expected);
    assert_true(s.forecast.probability > 0.9);
    assert_int_equal(s.forecast.record.false_negatives, 0);
    assert_true(s.forecast.record.true_positives > 500);
    assert_int_equal(s.forecast.record.false_positives, 0);
}

static void what_never_comes_is_not_foretold(void** state) {
    (void)state;
    script s;
    begin(&s);
    for (int i = 0; i < 20000; i++) {
        if (i == 10000) s.forecast.record = (berth_forecast_record){0};
        take(&s, i % 16 == 0 ? 4 * MIB : MIB);
    }
    assert_false(s.forecast.is_expected);
    assert_true(s.forecast.probability < 0.05);
    assert_int_equal(sum_of(&s.forecast.record), s.forecast.record.true_negatives);
}

static void the_forecast_follows_the_holes_and_not_only_the_past(void** state) {
    (void)state;
    script s;
    begin(&s);
    test_random random = test_random_make(7);
    // phases of random length in which the holes are too small for one request in 16, or are not
    uint64_t said_at_onset = 0, onsets = 0;
    for (int phase = 0; phase < 400; phase++) {
        s.input.largest_bytes = phase % 2 == 0 ? 8 * MIB : 16 * MIB;
        const int length = (int)test_random_between(&random, 96, 320);
        for (int i = 0; i < length; i++) {
            take(&s, test_random_one_in(&random, 16) ? 12 * MIB : MIB);
            // the first sample of a phase of small holes: nothing has come yet for long
            if (phase > 200 && phase % 2 == 0 && i == 16) {
                onsets++;
                said_at_onset += s.forecast.is_expected ? 1 : 0;
            }
        }
    }
    assert_true(onsets > 90);
    assert_true(said_at_onset * 10 >= onsets * 9);
    const berth_forecast_record* r = &s.forecast.record;
    assert_true(r->true_positives * 10 >= (r->true_positives + r->false_negatives) * 9);
}

static void a_prediction_comes_true_up_to_its_horizon_and_no_later(void** state) {
    (void)state;
    for (int late = 0; late < 2; late++) {
        script s;
        begin(&s);
        s.input.takes = 1000;
        berth_forecast_sample(&s.forecast, &s.input);
        berth_forecast_note(&s.forecast, 1, MIB, 1000 + HORIZON + (uint64_t)late, true);
        assert_int_equal(sum_of(&s.forecast.record), 0);
        s.input.takes = 1000 + HORIZON;
        berth_forecast_sample(&s.forecast, &s.input);
        assert_int_equal(sum_of(&s.forecast.record), 0);
        s.input.takes++;
        berth_forecast_sample(&s.forecast, &s.input);
        const berth_forecast_record* r = &s.forecast.record;
        assert_int_equal(sum_of(r), 1);
        assert_int_equal(r->true_positives + r->false_negatives, late == 0 ? 1 : 0);
    }
}

static void every_prediction_is_counted_once(void** state) {
    (void)state;
    script s;
    begin(&s);
    test_random random = test_random_make(11);
    uint64_t samples = 0;
    for (int i = 0; i < 5000; i++) {
        s.input.takes += test_random_below(&random, 3 * HORIZON);
        samples += s.input.takes - s.forecast.last_takes >= berth_forecast_period(&s.forecast);
        berth_forecast_note(&s.forecast, 1, MIB, s.input.takes, test_random_one_in(&random, 4));
        if (s.input.takes - s.forecast.last_takes >= berth_forecast_period(&s.forecast))
            berth_forecast_sample(&s.forecast, &s.input);
    }
    assert_int_equal(sum_of(&s.forecast.record) + s.forecast.pending_count, samples);
}

static void asking_too_often_keeps_the_books_bounded(void** state) {
    (void)state;
    script s;
    begin(&s);
    for (int i = 0; i < 1000; i++)
        berth_forecast_sample(&s.forecast, &s.input);
    assert_int_equal(s.forecast.pending_count, 2 * BERTH_FORECAST_SAMPLES);
    assert_int_equal(sum_of(&s.forecast.record), 0);
}

static void a_rising_index_is_expected_to_be_higher_and_never_above_one(void** state) {
    (void)state;
    script s;
    begin(&s);
    for (int i = 0; i < 60; i++) {
        s.input.takes += berth_forecast_period(&s.forecast);
        s.input.fi = 0.01 * i;
        berth_forecast_sample(&s.forecast, &s.input);
    }
    assert_true(s.forecast.fi_predicted > s.input.fi + 0.003);
    assert_true(s.forecast.fi_predicted < s.input.fi + 0.08);
    for (int i = 0; i < 60; i++) {
        s.input.takes += berth_forecast_period(&s.forecast);
        s.input.fi = fmin(0.6 + 0.01 * i, 1);
        berth_forecast_sample(&s.forecast, &s.input);
        assert_true(s.forecast.fi_predicted <= 1);
    }
    for (int i = 0; i < 200; i++) {
        s.input.takes += berth_forecast_period(&s.forecast);
        s.input.fi = 0.25;
        berth_forecast_sample(&s.forecast, &s.input);
    }
    assert_true(fabs(s.forecast.fi_predicted - 0.25) < 0.01);
}

static void demand_counts_what_lies_between_two_sizes(void** state) {
    (void)state;
    script s;
    begin(&s);
    assert_true(berth_forecast_query_demand(&s.forecast, 0, UINT64_MAX) <= 0);
    for (int i = 0; i < 6400; i++)
        take(&s, i % 4 == 0 ? 4 * MIB : MIB);
    assert_true(fabs(berth_forecast_query_demand(&s.forecast, 2 * MIB, 64 * MIB) - 16) < 0.5);
    assert_true(fabs(berth_forecast_query_demand(&s.forecast, 1, 64 * MIB) - 64) < 1.5);
    assert_true(berth_forecast_query_demand(&s.forecast, 5 * MIB, 64 * MIB) < 0.01);
    assert_true(berth_forecast_query_demand(&s.forecast, 4 * MIB, 4 * MIB) <= 0);
}

static void absurd_figures_leave_a_probability(void** state) {
    (void)state;
    script s;
    begin(&s);
    test_random random = test_random_make(3);
    for (int i = 0; i < 3000; i++) {
        static const uint64_t extremes[] = {0, 1, UINT64_MAX, INT64_MAX, 4096};
        s.input.takes += test_random_below(&random, 1000);
        s.input.free_bytes = extremes[test_random_below(&random, 5)];
        s.input.largest_bytes = extremes[test_random_below(&random, 5)];
        s.input.room_bytes = extremes[test_random_below(&random, 5)];
        s.input.used_bytes = extremes[test_random_below(&random, 5)];
        berth_forecast_note(&s.forecast,
                            test_random_below(&random, 3),
                            extremes[test_random_below(&random, 5)],
                            s.input.takes,
                            test_random_one_in(&random, 3));
        berth_forecast_sample(&s.forecast, &s.input);
        assert_true(s.forecast.probability >= 0 && s.forecast.probability <= 1);
        assert_true(s.forecast.fi_predicted >= 0 && s.forecast.fi_predicted <= 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_certain_to_come_is_foretold),
        cmocka_unit_test(what_never_comes_is_not_foretold),
        cmocka_unit_test(the_forecast_follows_the_holes_and_not_only_the_past),
        cmocka_unit_test(a_prediction_comes_true_up_to_its_horizon_and_no_later),
        cmocka_unit_test(every_prediction_is_counted_once),
        cmocka_unit_test(asking_too_often_keeps_the_books_bounded),
        cmocka_unit_test(a_rising_index_is_expected_to_be_higher_and_never_above_one),
        cmocka_unit_test(demand_counts_what_lies_between_two_sizes),
        cmocka_unit_test(absurd_figures_leave_a_probability),
    };
    return cmocka_run_group_tests_name("forecast", tests, NULL, NULL);
}
