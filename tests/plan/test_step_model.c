// SPDX-License-Identifier: Apache-2.0
// What the step model learns from which runs, and how later ones go.
#include "step_kit.h"

#include "base/log.h"

typedef struct step_fixture {
    berth_step_model* model;
    step_tape tape;
} step_fixture;

static step_fixture fixture_make(const berth_plan_policy* policy) {
    step_fixture fixture = {.tape = {.host = berth_host_default()}};
    assert_ok(berth_step_model_create(berth_host_default(), "step", policy, &fixture.model));
    return fixture;
}

static step_fixture default_fixture(void) {
    const berth_plan_policy policy = default_policy();
    return fixture_make(&policy);
}

static void fixture_fini(step_fixture* fixture) {
    berth_trace_fini(&fixture->tape.trace, fixture->tape.host);
    berth_step_model_destroy(fixture->model);
}

/// Runs the tape with one or two bindings.
static step_outcome run_at(step_fixture* fixture, int64_t s) {
    const berth_binding bindings[] = {{"s", s}};
    const berth_shape_key key = {bindings, 1};
    return run_tape(fixture->model, &key, &fixture->tape);
}

static step_outcome run_at2(step_fixture* fixture, int64_t s, int64_t t) {
    const berth_binding bindings[] = {{"s", s}, {"t", t}};
    const berth_shape_key key = {bindings, 2};
    return run_tape(fixture->model, &key, &fixture->tape);
}

static berth_outlook estimate_at(step_fixture* fixture, int64_t s) {
    const berth_binding bindings[] = {{"s", s}};
    const berth_shape_key key = {bindings, 1};
    berth_outlook outlook;
    assert_ok(berth_step_model_estimate(fixture->model, &key, &outlook));
    return outlook;
}

/// Three values of [rows, 100], the first alive to the end.
static void three_values(step_tape* tape, int64_t rows) {
    tape_op(tape, 1);
    const uint32_t first = tape_matrix(tape, rows, 100);
    tape_op(tape, 2);
    tape_matrix(tape, rows, 100);
    tape_op(tape, 3);
    tape_matrix(tape, rows, 100);
    tape_use(tape, first);
}

// ---- Language models.

static void after_three_lengths_every_prefill_is_a_hit_close_to_the_bound(void** state) {
    (void)state;
    step_fixture f = default_fixture();
    static const int64_t lengths[] = {
        130, 512, 37, 9, 64, 65, 1100, 2047, 3, 131, 700, 1023, 1024, 300, 301, 1999};
    double sum = 0;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        const int64_t t = lengths[i];
        tape_llama(&f.tape, 6, t, t);
        const berth_binding bindings[] = {{"tokens.0", t}, {"past", 0}, {"capacity", 64}};
        const berth_shape_key key = {bindings, 3};
        const step_outcome outcome = run_tape(f.model, &key, &f.tape);
        if (i < 3) continue;
        assert_int_equal(outcome.result, BERTH_RUN_HIT);
        assert_int_equal(outcome.kind, BERTH_ESTIMATE_EXACT);
        const double ratio = (double)outcome.peak_bytes / (double)outcome.lower_bound_bytes;
        assert_true(ratio <= 1.15);
        sum += ratio;
    }
    assert_true(sum / 13 <= 1.02);
    const berth_step_counters counters = counters_of(f.model);
    assert_int_equal(counters.runs, 16);
    assert_true(counters.hits >= 13);
    assert_true(counters.ratio_max_ppm <= 1150000);
    fixture_fini(&f);
}

static void a_decode_loop_hits_after_three_steps_and_records_when_capacity_first_grows(
    void** state) {
    (void)state;
    step_fixture f = default_fixture();
    int64_t capacity = 64;
    uint32_t growths = 0;
    for (int64_t past = 50; past < 700; past++) {
        bool grew = false;
        for (; capacity < past + 1; capacity *= 2)
            grew = true;
        growths += grew;
        tape_llama(&f.tape, 3, 1, past + 1);
        const berth_binding bindings[] = {{"tokens.0", 1}, {"past", past}, {"capacity", capacity}};
        const berth_shape_key key = {bindings, 3};
        const step_outcome outcome = run_tape(f.model, &key, &f.tape);
        if (past < 53) continue;
        const bool first_growth = grew && growths == 1;
        assert_int_equal(outcome.result, first_growth ? BERTH_RUN_RECORDED : BERTH_RUN_HIT);
    }
    assert_true(growths >= 4);
    const berth_step_counters counters = counters_of(f.model);
    // Past 128 several steps share offsets, so most need no evaluation.
    assert_true(counters.memo_hits * 2 > counters.hits);
    fixture_fini(&f);
}

// ---- Traps of inference.

static void equal_symbols_that_diverge_later_are_hits_at_the_larger_and_then_told_apart(
    void** state) {
    (void)state;
    step_fixture f = default_fixture();
    for (int64_t s = 10; s <= 30; s += 10) {
        three_values(&f.tape, s);
        (void)run_at2(&f, s, s);
    }
    three_values(&f.tape, 40);
    step_outcome outcome = run_at2(&f, 40, 200);
    assert_int_equal(outcome.result, BERTH_RUN_HIT);
    assert_int_equal(outcome.kind, BERTH_ESTIMATE_BOUND);
    assert_true(outcome.learned);
    const uint64_t careful = outcome.frame_bytes;
    three_values(&f.tape, 40);
    outcome = run_at2(&f, 40, 200);
    assert_int_equal(outcome.result, BERTH_RUN_HIT);
    assert_int_equal(outcome.kind, BERTH_ESTIMATE_EXACT);
    assert_true(outcome.frame_bytes * 4 < careful);
    three_values(&f.tape, 200);
    assert_int_equal(run_at2(&f, 200, 7).result, BERTH_RUN_HIT);
    fixture_fini(&f);
}

static void a_symbol_stuck_at_one_is_part_of_the_key_until_it_varies(void** state) {
    (void)state;
    step_fixture f = default_fixture();
    for (int64_t s = 10; s <= 30; s += 10) {
        three_values(&f.tape, s);
        (void)run_at2(&f, s, 1);
    }
    three_values(&f.tape, 40);
    assert_int_equal(run_at2(&f, 40, 1).result, BERTH_RUN_HIT);
    three_values(&f.tape, 40 * 2);
    assert_int_equal(run_at2(&f, 40, 2).result, BERTH_RUN_RECORDED);
    three_values(&f.tape, 25 * 5);
    assert_int_equal(run_at2(&f, 25, 5).result, BERTH_RUN_HIT);
    three_values(&f.tape, 70);
    assert_int_equal(run_at2(&f, 70, 1).result, BERTH_RUN_HIT);
    fixture_fini(&f);
}

static void a_length_and_its_successor_are_two_dimensions(void** state) {
    (void)state;
    step_fixture f = default_fixture();
    static const int64_t lengths[] = {10, 17, 40, 400, 401, 3};
    for (size_t i = 0; i < 6; i++) {
        const int64_t s = lengths[i];
        tape_op(&f.tape, 1);
        tape_matrix(&f.tape, s, s + 1);
        tape_matrix(&f.tape, s + 1, 16);
        const step_outcome outcome = run_at(&f, s);
        assert_int_equal(outcome.result, i < 2 ? BERTH_RUN_RECORDED : BERTH_RUN_HIT);
        if (i >= 2) assert_int_equal(outcome.kind, BERTH_ESTIMATE_EXACT);
    }
    fixture_fini(&f);
}

static void a_window_is_never_wrong_and_is_not_planned_ever_larger(void** state) {
    (void)state;
    step_fixture f = default_fixture();
    const int64_t window = 96;
    step_outcome outcome = {0};
    for (int64_t past = 80; past < 1000; past++) {
        const int64_t seen = past < window ? past : window;
        tape_op(&f.tape, 1);
        tape_matrix(&f.tape, seen, 256);
        outcome = run_at(&f, past);
    }
    const uint64_t needed = 96 * 256 * 4;
    assert_int_equal(outcome.result, BERTH_RUN_HIT);
    assert_true(outcome.frame_bytes >= needed);
    assert_true(outcome.frame_bytes <= needed * 5 / 4);
    // And back below the window.
    for (int64_t past = 20; past < 60; past++) {
        tape_op(&f.tape, 1);
        tape_matrix(&f.tape, past, 256);
        assert_int_equal(run_at(&f, past).result, BERTH_RUN_HIT);
    }
    fixture_fini(&f);
}

static void fifty_padded_lengths_do_not_hide_the_padding(void** state) {
    (void)state;
    step_fixture padded = default_fixture();
    step_fixture plain = default_fixture();
    for (int64_t i = 1; i <= 50; i++) {
        three_values(&padded.tape, 64 * i);
        (void)run_at(&padded, 64 * i);
        three_values(&plain.tape, 64 * i);
        (void)run_at(&plain, 64 * i);
    }
    // Both explanations are planned for, whichever is true.
    three_values(&padded.tape, 1024);
    assert_int_equal(run_at(&padded, 1000).result, BERTH_RUN_HIT);
    three_values(&plain.tape, 1000);
    assert_int_equal(run_at(&plain, 1000).result, BERTH_RUN_HIT);
    for (int64_t s = 5; s < 3000; s = s * 3 / 2) {
        three_values(&padded.tape, (s + 63) / 64 * 64);
        assert_int_not_equal(run_at(&padded, s).result, BERTH_RUN_EXIT);
        three_values(&plain.tape, s);
        assert_int_equal(run_at(&plain, s).result, BERTH_RUN_HIT);
    }
    three_values(&padded.tape, 704);
    assert_int_equal(run_at(&padded, 700).result, BERTH_RUN_HIT);
    fixture_fini(&padded);
    fixture_fini(&plain);
}

static void a_wrong_guess_costs_one_partial_run_and_is_corrected(void** state) {
    (void)state;
    step_fixture f = default_fixture();
    // Constant at first, really a number of blocks.
    static const int64_t lengths[] = {5, 9, 11};
    for (size_t i = 0; i < 3; i++) {
        tape_op(&f.tape, 1);
        tape_matrix(&f.tape, lengths[i], 64);
        tape_bytes(&f.tape, BERTH_VALUE_SCRATCH, 4096);
        (void)run_at(&f, lengths[i]);
    }
    uint32_t hits = 0, partial = 0;
    for (int64_t s = 20; s <= 400; s += 20) {
        tape_op(&f.tape, 1);
        tape_matrix(&f.tape, s, 64);
        tape_bytes(&f.tape, BERTH_VALUE_SCRATCH, (s + 15) / 16 * 4096);
        const berth_run_result result = run_at(&f, s).result;
        hits += result == BERTH_RUN_HIT;
        partial += result == BERTH_RUN_PARTIAL;
    }
    assert_int_equal(hits + partial, 20);
    assert_true(partial <= 3);
    fixture_fini(&f);
}

static void sizes_that_depend_on_data_are_observed_with_a_margin(void** state) {
    (void)state;
    step_fixture f = default_fixture();
    static const int64_t found[] = {1000, 400, 1040, 1090, 700};
    for (size_t i = 0; i < 5; i++) {
        tape_op(&f.tape, 1);
        const int64_t dims[] = {found[i], 8};
        tape_value(&f.tape, BERTH_VALUE_DATA, BERTH_F32, 2, dims);
        const step_outcome outcome = run_at(&f, 10);
        assert_int_equal(outcome.result, i == 0 ? BERTH_RUN_RECORDED : BERTH_RUN_HIT);
        if (i > 0) assert_int_equal(outcome.kind, BERTH_ESTIMATE_OBSERVED);
    }
    tape_op(&f.tape, 1);
    const int64_t large[] = {5000, 8};
    tape_value(&f.tape, BERTH_VALUE_DATA, BERTH_F32, 2, large);
    assert_int_equal(run_at(&f, 10).result, BERTH_RUN_PARTIAL);
    tape_op(&f.tape, 1);
    tape_value(&f.tape, BERTH_VALUE_DATA, BERTH_F32, 2, large);
    assert_int_equal(run_at(&f, 10).result, BERTH_RUN_HIT);
    fixture_fini(&f);
}

static void the_frame_of_a_nested_step_is_planned_as_the_largest_seen(void** state) {
    (void)state;
    step_fixture f = default_fixture();
    for (int64_t s = 10; s <= 40; s += 10) {
        tape_op(&f.tape, 1);
        tape_matrix(&f.tape, s, 64);
        tape_op(&f.tape, 200);
        tape_bytes(&f.tape, BERTH_VALUE_FRAME, 65536);
        const step_outcome outcome = run_at(&f, s);
        if (s > 20) assert_int_equal(outcome.result, BERTH_RUN_HIT);
        if (s > 20) assert_int_equal(outcome.kind, BERTH_ESTIMATE_BOUND);
    }
    // A frame that grows counts as observed from then on, and keeps a margin.
    for (int64_t s = 50; s <= 80; s += 10) {
        tape_op(&f.tape, 1);
        tape_matrix(&f.tape, s, 64);
        tape_op(&f.tape, 200);
        tape_bytes(&f.tape, BERTH_VALUE_FRAME, 131072);
        const step_outcome outcome = run_at(&f, s);
        assert_int_equal(outcome.result, s == 50 ? BERTH_RUN_PARTIAL : BERTH_RUN_HIT);
        if (s > 50) assert_int_equal(outcome.kind, BERTH_ESTIMATE_OBSERVED);
    }
    fixture_fini(&f);
}

static void a_size_that_was_zero_at_larger_shapes_is_placed_where_it_harms_nothing(void** state) {
    (void)state;
    berth_plan_policy policy = default_policy();
    policy.buckets = "linear:1000";
    step_fixture f = fixture_make(&policy);
    static const int64_t at[] = {900, 800, 700, 600, 100, 500, 90, 400, 80, 850};
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        tape_op(&f.tape, 1);
        const uint32_t first = tape_matrix(&f.tape, 64, 64);
        tape_op(&f.tape, 2);
        const int64_t frame = at[i] > 450 ? 0 : 70000 + at[i] % 7;
        const uint32_t odd = tape_bytes(&f.tape, BERTH_VALUE_FRAME, frame);
        tape_op(&f.tape, 3);
        tape_matrix(&f.tape, 64, 64);
        tape_use(&f.tape, first);
        tape_use(&f.tape, odd);
        assert_int_not_equal(run_at(&f, at[i]).result, BERTH_RUN_EXIT);
    }
    fixture_fini(&f);
}

// ---- Paths, deaths, escapes.

static void a_fixed_shape_is_planned_from_its_second_run_on(void** state) {
    (void)state;
    step_fixture f = default_fixture();
    three_values(&f.tape, 10);
    assert_int_equal(run_at(&f, 10).result, BERTH_RUN_RECORDED);
    three_values(&f.tape, 10);
    const step_outcome outcome = run_at(&f, 10);
    assert_int_equal(outcome.result, BERTH_RUN_HIT);
    assert_true(outcome.made_plan);
    assert_int_equal(outcome.kind, BERTH_ESTIMATE_EXACT);
    assert_int_equal(outcome.frame_bytes, 2 * 4032); // 4000 bytes each, two alive at a time
    fixture_fini(&f);
}

static void a_step_without_values_is_a_hit_too(void** state) {
    (void)state;
    step_fixture f = default_fixture();
    assert_int_equal(run_at(&f, 10).result, BERTH_RUN_RECORDED);
    assert_int_equal(run_at(&f, 10).result, BERTH_RUN_HIT);
    fixture_fini(&f);
}

static void another_path_is_a_side_exit_once_and_the_estimate_covers_both(void** state) {
    (void)state;
    step_fixture f = default_fixture();
    for (int i = 0; i < 2; i++) {
        three_values(&f.tape, 10);
        (void)run_at(&f, 10);
    }
    tape_op(&f.tape, 1);
    tape_matrix(&f.tape, 10, 100);
    tape_op(&f.tape, 9);
    tape_matrix(&f.tape, 1000, 100);
    assert_int_equal(run_at(&f, 10).result, BERTH_RUN_EXIT);
    // The path taken last is expected; admission covers the largest.
    tape_op(&f.tape, 1);
    tape_matrix(&f.tape, 10, 100);
    tape_op(&f.tape, 9);
    tape_matrix(&f.tape, 1000, 100);
    step_outcome outcome = run_at(&f, 10);
    assert_int_equal(outcome.result, BERTH_RUN_HIT);
    assert_int_equal(outcome.kind, BERTH_ESTIMATE_BOUND);
    assert_false(outcome.switched);
    // The first path is still known: the replay changes to it.
    for (int i = 0; i < 2; i++) {
        three_values(&f.tape, 10);
        outcome = run_at(&f, 10);
        assert_int_equal(outcome.result, BERTH_RUN_HIT);
        assert_int_equal(outcome.switched, i == 0);
        assert_true(outcome.frame_bytes >= 400000);
    }
    assert_int_equal(counters_of(f.model).paths, 2);
    assert_int_equal(counters_of(f.model).side_exits, 1);
    assert_int_equal(counters_of(f.model).switches, 1);
    fixture_fini(&f);
}

static void an_integer_that_chooses_the_path_keeps_both_paths_exact(void** state) {
    (void)state;
    step_fixture f = default_fixture();
    for (int64_t i = 0; i < 12; i++) {
        const int64_t s = 10 + 7 * (i / 2);
        three_values(&f.tape, s);
        if (i % 2 == 1) {
            tape_op(&f.tape, 9);
            tape_matrix(&f.tape, s, 9);
        }
        const step_outcome outcome = run_at2(&f, s, i % 2);
        assert_int_equal(outcome.result, i < 4 ? BERTH_RUN_RECORDED : BERTH_RUN_HIT);
        if (i >= 4) assert_int_equal(outcome.kind, BERTH_ESTIMATE_EXACT);
    }
    fixture_fini(&f);
}

static void paths_are_bounded_and_stale_ones_make_room(void** state) {
    (void)state;
    berth_plan_policy policy = default_policy();
    policy.max_paths = 2;
    policy.max_exits = 0;
    step_fixture f = fixture_make(&policy);
    for (uint32_t kind = 1; kind <= 5; kind++) {
        tape_op(&f.tape, kind);
        tape_matrix(&f.tape, 8, 8);
        (void)run_at(&f, 1);
    }
    assert_int_equal(counters_of(f.model).paths, 2);
    // A new path that stays gets its place in the end.
    berth_run_result last = BERTH_RUN_EXIT;
    for (int i = 0; i < 100; i++) {
        tape_op(&f.tape, 77);
        tape_matrix(&f.tape, 8, 8);
        last = run_at(&f, 1).result;
    }
    assert_int_equal(last, BERTH_RUN_HIT);
    assert_int_equal(counters_of(f.model).paths, 2);
    fixture_fini(&f);
}

static uint32_t logged;
static void count_lines(void* self, berth_log_level level, const char* text) {
    (void)self;
    (void)level;
    if (strstr(text, "no longer planned") != NULL) logged++;
}

static void a_step_that_keeps_diverging_is_given_up_with_one_line(void** state) {
    (void)state;
    berth_plan_policy policy = default_policy();
    policy.max_exits = 4;
    step_fixture f = fixture_make(&policy);
    logged = 0;
    berth_log_set_callback(count_lines, NULL);
    for (uint32_t kind = 1; kind <= 20; kind++) {
        tape_op(&f.tape, kind);
        tape_matrix(&f.tape, 8, 8);
        const step_outcome outcome = run_at(&f, 1);
        if (kind > 6) assert_int_equal(outcome.result, BERTH_RUN_RECORDED);
    }
    berth_log_set_callback(NULL, NULL);
    assert_int_equal(logged, 1);
    const berth_step_counters counters = counters_of(f.model);
    assert_int_equal(counters.side_exits, 4);
    assert_int_equal(counters.paths, 0);
    assert_int_equal(counters.plan_bytes, 0);
    assert_int_equal(estimate_at(&f, 1).kind, BERTH_ESTIMATE_UNKNOWN);
    fixture_fini(&f);
}

static void a_late_death_changes_the_next_plan_and_an_early_one_does_not(void** state) {
    (void)state;
    step_fixture f = default_fixture();
    for (int run = 0; run < 6; run++) {
        tape_op(&f.tape, 1);
        const uint32_t first = tape_matrix(&f.tape, 64, 64);
        for (uint32_t e = 2; e <= 5; e++) {
            tape_op(&f.tape, e);
            tape_matrix(&f.tape, 64, 64);
            if (e <= 3 || run == 2) tape_use(&f.tape, first);
        }
        const step_outcome outcome = run_at(&f, 1);
        if (run == 1) assert_int_equal(outcome.result, BERTH_RUN_HIT);
        // Overdue, it stands in the way of a value that was to take its place.
        if (run == 2) assert_true(outcome.learned);
        if (run > 2) assert_int_equal(outcome.result, BERTH_RUN_HIT);
        assert_int_equal(outcome.made_plan, run == 1 || run == 3);
    }
    fixture_fini(&f);
}

static void values_that_ever_escaped_are_planned_for_the_pool(void** state) {
    (void)state;
    step_fixture f = default_fixture();
    for (int run = 0; run < 4; run++) {
        tape_op(&f.tape, 1);
        const uint32_t kept = tape_matrix(&f.tape, 64, 64);
        if (run == 1) tape_escape(&f.tape, kept);
        tape_op(&f.tape, 2);
        tape_matrix(&f.tape, 64, 64);
        const step_outcome outcome = run_at(&f, 1);
        if (run < 2) continue;
        assert_int_equal(outcome.result, BERTH_RUN_HIT);
        assert_int_equal(outcome.pool_bytes, 64 * 64 * 4);
        assert_int_equal(outcome.frame_bytes, 64 * 64 * 4);
    }
    fixture_fini(&f);
}

static void values_of_another_type_are_another_path(void** state) {
    (void)state;
    step_fixture f = default_fixture();
    const int64_t dims[] = {64};
    for (int run = 0; run < 4; run++) {
        tape_op(&f.tape, 1);
        tape_value(&f.tape, 0, run == 0 ? BERTH_F16 : BERTH_F32, 1, dims);
        if (run == 3)
            assert_int_equal(run_at(&f, 1).result, BERTH_RUN_HIT);
        else
            (void)run_at(&f, 1);
    }
    assert_int_equal(counters_of(f.model).paths, 2);
    fixture_fini(&f);
}

// ---- Keys, estimates, memo, bounds.

static void names_and_order_are_fixed_by_the_first_run(void** state) {
    (void)state;
    step_fixture f = default_fixture();
    three_values(&f.tape, 3);
    (void)run_at2(&f, 3, 4);
    berth_outlook outlook;
    berth_branches branches;
    const berth_binding swapped[] = {{"t", 3}, {"s", 4}};
    const berth_shape_key other = {swapped, 2};
    assert_fails(berth_step_model_begin(f.model, &other, &branches, &outlook),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "had s");
    const berth_binding fewer[] = {{"s", 3}};
    const berth_shape_key one = {fewer, 1};
    assert_fails(
        berth_step_model_estimate(f.model, &one, &outlook), BERTH_ERR_INVALID_ARGUMENT, "had 2");
    const berth_binding negative[] = {{"s", -3}, {"t", 4}};
    const berth_shape_key below = {negative, 2};
    assert_fails(berth_step_model_begin(f.model, &below, &branches, &outlook),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "-3");
    assert_null(outlook.placement);
    berth_binding many[100];
    for (int i = 0; i < 100; i++)
        many[i] = (berth_binding){"x", i};
    const berth_shape_key too_many = {many, 100};
    assert_fails(berth_step_model_begin(f.model, &too_many, &branches, &outlook),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "64");
    fixture_fini(&f);
}

static void estimates_answer_for_shapes_never_run_and_change_nothing(void** state) {
    (void)state;
    step_fixture f = default_fixture();
    assert_int_equal(estimate_at(&f, 50).kind, BERTH_ESTIMATE_UNKNOWN);
    for (int64_t s = 10; s <= 30; s += 10) {
        three_values(&f.tape, s);
        (void)run_at(&f, s);
    }
    const berth_step_counters before = counters_of(f.model);
    const berth_outlook outlook = estimate_at(&f, 5000);
    assert_int_equal(outlook.kind, BERTH_ESTIMATE_EXACT);
    assert_true(outlook.frame_bytes >= 2 * 5000 * 400);
    assert_true(outlook.frame_bytes <= 2 * 5000 * 400 * 65 / 64);
    assert_null(outlook.placement);
    const berth_step_counters after = counters_of(f.model);
    assert_memory_equal(&before, &after, sizeof before);
    fixture_fini(&f);
}

static void sizes_too_large_for_any_memory_are_unknown_not_wrong(void** state) {
    (void)state;
    step_fixture f = default_fixture();
    for (int64_t s = 10; s <= 30; s += 10) {
        three_values(&f.tape, s);
        (void)run_at(&f, s);
    }
    assert_int_equal(estimate_at(&f, INT64_MAX).kind, BERTH_ESTIMATE_UNKNOWN);
    assert_int_equal(estimate_at(&f, INT64_MAX / 400).kind, BERTH_ESTIMATE_UNKNOWN);
    const berth_outlook outlook = estimate_at(&f, INT64_C(1) << 40);
    assert_int_equal(outlook.kind, BERTH_ESTIMATE_EXACT);
    fixture_fini(&f);
}

static void shapes_within_a_quantum_share_their_addresses(void** state) {
    (void)state;
    step_fixture f = default_fixture();
    for (int64_t s = 1000; s < 1003; s++) {
        three_values(&f.tape, s);
        (void)run_at(&f, s);
    }
    const berth_binding first[] = {{"s", 1025}}, last[] = {{"s", 1040}}, next[] = {{"s", 1041}};
    const berth_shape_key keys[] = {{first, 1}, {last, 1}, {next, 1}};
    berth_outlook outlooks[3];
    berth_branches branches[3];
    for (int i = 0; i < 3; i++)
        assert_ok(berth_step_model_begin(f.model, &keys[i], &branches[i], &outlooks[i]));
    assert_ptr_equal(outlooks[0].placement, outlooks[1].placement);
    assert_ptr_not_equal(outlooks[0].placement, outlooks[2].placement);
    assert_true(outlooks[0].placement->places[0].bytes >= 1040 * 400);
    for (int i = 0; i < 3; i++)
        berth_step_model_abandon(f.model, &branches[i]);
    fixture_fini(&f);
}

static void rounding_up_to_the_quantum_stays_inside_the_bucket(void** state) {
    (void)state;
    berth_plan_policy policy = default_policy();
    policy.buckets = "list:1030";
    step_fixture f = fixture_make(&policy);
    for (int64_t s = 1000; s < 1003; s++) {
        three_values(&f.tape, s);
        (void)run_at(&f, s);
    }
    assert_int_equal(estimate_at(&f, 1025).frame_bytes, 2 * (1030 * 400 / 64 + 1) * 64);
    fixture_fini(&f);
}

static void no_shape_inside_a_bucket_needs_more_than_its_corner(void** state) {
    (void)state;
    berth_plan_policy policy = default_policy();
    policy.quantum = 0;
    step_fixture f = fixture_make(&policy);
    for (int64_t t = 100; t < 103; t++) {
        tape_llama(&f.tape, 4, t, t);
        (void)run_at(&f, t);
    }
    const uint64_t corner = estimate_at(&f, 640).frame_bytes; // geometric:4: (512, 640]
    for (int64_t t = 513; t <= 640; t++)
        assert_true(estimate_at(&f, t).frame_bytes <= corner);
    fixture_fini(&f);
}

static void plans_and_memo_stay_within_their_bytes_whatever_shapes_come(void** state) {
    (void)state;
    berth_plan_policy policy = default_policy();
    policy.cache_bytes = 96 * 1024;
    policy.buckets = "linear:8";
    step_fixture f = fixture_make(&policy);
    for (int64_t i = 0; i < 400; i++) {
        const int64_t t = 1 + i * 37 % 3001;
        tape_llama(&f.tape, 2, t, t);
        const step_outcome outcome = run_at(&f, t);
        if (i > 4) assert_int_equal(outcome.result, BERTH_RUN_HIT);
        assert_true(counters_of(f.model).plan_bytes <= policy.cache_bytes);
    }
    const berth_step_counters counters = counters_of(f.model);
    assert_true(counters.plans_evicted > 100);
    assert_true(counters.plans_live > 0);
    fixture_fini(&f);
}

static void a_plan_used_often_outlives_those_used_once(void** state) {
    (void)state;
    berth_plan_policy policy = default_policy();
    policy.cache_bytes = 96 * 1024;
    policy.buckets = "linear:8";
    step_fixture f = fixture_make(&policy);
    for (int64_t i = 0; i < 300; i++) {
        const int64_t t = i % 2 == 0 ? 40 : 2 + i * 37 % 3001;
        tape_llama(&f.tape, 2, t, t);
        const step_outcome outcome = run_at(&f, t);
        if (i > 20 && i % 2 == 0) assert_false(outcome.made_plan);
    }
    // Hits of its placement count for the plan, which serves another shape now.
    tape_llama(&f.tape, 2, 37, 37);
    assert_false(run_at(&f, 37).made_plan);
    fixture_fini(&f);
}

static void a_trace_larger_than_the_cache_is_not_kept(void** state) {
    (void)state;
    berth_plan_policy policy = default_policy();
    policy.cache_bytes = 4096;
    step_fixture f = fixture_make(&policy);
    for (int i = 0; i < 4; i++) {
        tape_llama(&f.tape, 20, 5, 5);
        assert_int_equal(run_at(&f, 5).result, BERTH_RUN_RECORDED);
        assert_int_equal(counters_of(f.model).plan_bytes, 0);
    }
    policy = default_policy();
    policy.max_events = 10;
    step_fixture g = fixture_make(&policy);
    for (int i = 0; i < 4; i++) {
        tape_llama(&g.tape, 2, 5, 5);
        assert_int_equal(run_at(&g, 5).result, BERTH_RUN_RECORDED);
    }
    fixture_fini(&f);
    fixture_fini(&g);
}

static void every_run_after_enough_quiet_ones_is_spared_recording(void** state) {
    (void)state;
    step_fixture f = default_fixture();
    bool learned = true;
    for (int run = 0; run < 80; run++) {
        tape_op(&f.tape, 200);
        tape_bytes(&f.tape, BERTH_VALUE_FRAME, 65536);
        learned = run_at(&f, 5).learned;
    }
    assert_false(learned);
    // A size that does not fit wakes learning up.
    for (int run = 0; run < 3; run++) {
        tape_op(&f.tape, 200);
        tape_bytes(&f.tape, BERTH_VALUE_FRAME, 650000);
        assert_int_equal(run_at(&f, 5).result, run == 0 ? BERTH_RUN_PARTIAL : BERTH_RUN_HIT);
    }
    fixture_fini(&f);
}

static void discarded_runs_teach_nothing(void** state) {
    (void)state;
    step_fixture f = default_fixture();
    three_values(&f.tape, 4);
    const berth_binding bindings[] = {{"s", 4}};
    const berth_shape_key key = {bindings, 1};
    berth_run_report report = {.result = BERTH_RUN_DISCARDED, .trace = &f.tape.trace};
    berth_step_model_end(f.model, &key, &report);
    assert_int_equal(counters_of(f.model).runs, 0);
    assert_int_equal(counters_of(f.model).paths, 0);
    fixture_fini(&f);
}

static void a_bad_bucket_policy_is_refused(void** state) {
    (void)state;
    berth_plan_policy policy = default_policy();
    policy.buckets = "sideways:8";
    berth_step_model* model;
    assert_fails(berth_step_model_create(berth_host_default(), "step", &policy, &model),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "sideways:8");
    assert_null(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_three_lengths_every_prefill_is_a_hit_close_to_the_bound),
        cmocka_unit_test(
            a_decode_loop_hits_after_three_steps_and_records_when_capacity_first_grows),
        cmocka_unit_test(
            equal_symbols_that_diverge_later_are_hits_at_the_larger_and_then_told_apart),
        cmocka_unit_test(a_symbol_stuck_at_one_is_part_of_the_key_until_it_varies),
        cmocka_unit_test(a_length_and_its_successor_are_two_dimensions),
        cmocka_unit_test(a_window_is_never_wrong_and_is_not_planned_ever_larger),
        cmocka_unit_test(fifty_padded_lengths_do_not_hide_the_padding),
        cmocka_unit_test(a_wrong_guess_costs_one_partial_run_and_is_corrected),
        cmocka_unit_test(sizes_that_depend_on_data_are_observed_with_a_margin),
        cmocka_unit_test(the_frame_of_a_nested_step_is_planned_as_the_largest_seen),
        cmocka_unit_test(a_size_that_was_zero_at_larger_shapes_is_placed_where_it_harms_nothing),
        cmocka_unit_test(a_fixed_shape_is_planned_from_its_second_run_on),
        cmocka_unit_test(a_step_without_values_is_a_hit_too),
        cmocka_unit_test(another_path_is_a_side_exit_once_and_the_estimate_covers_both),
        cmocka_unit_test(an_integer_that_chooses_the_path_keeps_both_paths_exact),
        cmocka_unit_test(paths_are_bounded_and_stale_ones_make_room),
        cmocka_unit_test(a_step_that_keeps_diverging_is_given_up_with_one_line),
        cmocka_unit_test(a_late_death_changes_the_next_plan_and_an_early_one_does_not),
        cmocka_unit_test(values_that_ever_escaped_are_planned_for_the_pool),
        cmocka_unit_test(values_of_another_type_are_another_path),
        cmocka_unit_test(names_and_order_are_fixed_by_the_first_run),
        cmocka_unit_test(estimates_answer_for_shapes_never_run_and_change_nothing),
        cmocka_unit_test(sizes_too_large_for_any_memory_are_unknown_not_wrong),
        cmocka_unit_test(shapes_within_a_quantum_share_their_addresses),
        cmocka_unit_test(rounding_up_to_the_quantum_stays_inside_the_bucket),
        cmocka_unit_test(no_shape_inside_a_bucket_needs_more_than_its_corner),
        cmocka_unit_test(plans_and_memo_stay_within_their_bytes_whatever_shapes_come),
        cmocka_unit_test(a_plan_used_often_outlives_those_used_once),
        cmocka_unit_test(a_trace_larger_than_the_cache_is_not_kept),
        cmocka_unit_test(every_run_after_enough_quiet_ones_is_spared_recording),
        cmocka_unit_test(discarded_runs_teach_nothing),
        cmocka_unit_test(a_bad_bucket_policy_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
