// SPDX-License-Identifier: Apache-2.0
// Classes of dimensions, kept runs, promises: the size model of one path by itself.
#include "step_kit.h"

#include "kit/failing_host.h"
#include "kit/random.h"
#include "plan/size_model.h"

#define VALUES 4u

/// A path of four values: [a, 64], [b, 64], scratch, and a nested frame or not.
typedef struct size_run {
    int64_t a;
    int64_t b;
    int64_t scratch;
    int64_t frame;
} size_run;

static void write_run(step_tape* tape, const size_run* run) {
    berth_trace_clear(&tape->trace);
    tape_op(tape, 1);
    tape_matrix(tape, run->a, 64);
    tape_matrix(tape, run->b, 64);
    tape_bytes(tape, BERTH_VALUE_SCRATCH, run->scratch);
    tape_op(tape, 2);
    tape_bytes(tape, BERTH_VALUE_FRAME, run->frame);
}

typedef struct size_fixture {
    step_tape tape;
    berth_size_model model;
    bool begun;
} size_fixture;

static bool learn(size_fixture* self, const int64_t* symbols, uint32_t count, const size_run* run) {
    self->tape.host = berth_host_default();
    write_run(&self->tape, run);
    bool changed = true;
    if (self->begun)
        assert_ok(berth_size_model_observe(&self->model, &self->tape.trace, symbols, &changed));
    else
        assert_ok(berth_size_model_init(
            &self->model, self->tape.host, &self->tape.trace, symbols, count));
    self->begun = true;
    return changed;
}

static bool learn1(size_fixture* self, int64_t symbol, size_run run) {
    return learn(self, &symbol, 1, &run);
}

static berth_size_answer ask(size_fixture* self, int64_t lo, int64_t hi, uint64_t* bytes) {
    return berth_size_model_evaluate(&self->model, &lo, &hi, &hi, bytes);
}

static void size_fixture_fini(size_fixture* self) {
    berth_size_model_fini(&self->model);
    berth_trace_fini(&self->tape.trace, self->tape.host);
}

static void equal_dimensions_share_a_class_until_they_differ(void** state) {
    (void)state;
    size_fixture f = {0};
    learn1(&f, 10, (size_run){10, 10, 0, 64});
    assert_int_equal(f.model.classes.count, 4); // 10, 64, no scratch, frame
    assert_int_equal(f.model.kinds.count, 3);
    learn1(&f, 20, (size_run){20, 20, 0, 64});
    assert_int_equal(f.model.classes.count, 4);
    learn1(&f, 30, (size_run){30, 31, 0, 64}); // they were never one
    assert_int_equal(f.model.classes.count, 5);
    assert_int_equal(f.model.kinds.count, 4);
    size_fixture_fini(&f);
}

static void sizes_are_evaluated_over_the_box_with_one_promise(void** state) {
    (void)state;
    size_fixture f = {0};
    uint64_t bytes[VALUES];
    for (int64_t s = 10; s <= 31; s += 7)
        learn1(&f, s, (size_run){s, s + 1, 100 * s, 64});
    const berth_size_answer answer = ask(&f, 64, 80, bytes);
    assert_int_equal(answer.promise, BERTH_SIZE_BOUND); // a frame that was constant so far
    assert_int_equal(bytes[0], 80 * 256);
    assert_int_equal(bytes[1], 81 * 256);
    assert_int_equal(bytes[2], 8000);
    assert_int_equal(bytes[3], 64);
    size_fixture_fini(&f);
}

static void sizes_that_do_not_fit_are_marked(void** state) {
    (void)state;
    size_fixture f = {0};
    uint64_t bytes[VALUES];
    learn1(&f, 10, (size_run){10, 10, 0, 64});
    learn1(&f, 20, (size_run){20, 20, 0, 64});
    (void)ask(&f, INT64_MAX - 1, INT64_MAX, bytes);
    assert_true(bytes[0] == UINT64_MAX);
    assert_int_equal(bytes[3], 64);
    size_fixture_fini(&f);
}

static void a_path_applies_where_its_constants_have_their_values(void** state) {
    (void)state;
    size_fixture f = {0};
    const int64_t first[] = {1, 5}, other[] = {1, 9}, second[] = {1, 8}, foreign[] = {2, 5};
    const size_run run = {1, 1, 1, 1};
    learn(&f, first, 2, &run);
    assert_true(berth_size_model_applies(&f.model, first));
    assert_false(berth_size_model_applies(&f.model, second));
    learn(&f, second, 2, &run);
    assert_true(berth_size_model_applies(&f.model, other));
    assert_false(berth_size_model_applies(&f.model, foreign));
    assert_true(berth_size_model_varies(&f.model, 1));
    assert_false(berth_size_model_varies(&f.model, 0));
    size_fixture_fini(&f);
}

static void the_same_key_with_other_sizes_means_that_data_decides(void** state) {
    (void)state;
    size_fixture f = {0};
    uint64_t bytes[VALUES];
    learn1(&f, 10, (size_run){10, 300, 0, 64});
    assert_int_equal(ask(&f, 9, 10, bytes).promise, BERTH_SIZE_BOUND);
    assert_true(learn1(&f, 10, (size_run){10, 200, 0, 64}));
    const berth_size_answer answer = ask(&f, 9, 10, bytes);
    assert_int_equal(answer.promise, BERTH_SIZE_OBSERVED);
    assert_true(answer.learn);
    assert_true(bytes[1] > 300 * 256); // the largest, with a margin
    assert_true(bytes[1] < 400 * 256);
    // No form may be found by chance any more.
    learn1(&f, 20, (size_run){20, 400, 0, 64});
    learn1(&f, 30, (size_run){30, 500, 0, 64});
    assert_int_equal(ask(&f, 29, 30, bytes).promise, BERTH_SIZE_OBSERVED);
    size_fixture_fini(&f);
}

static void observed_sizes_follow_the_symbols_they_were_seen_at(void** state) {
    (void)state;
    size_fixture f = {0};
    uint64_t bytes[VALUES];
    learn1(&f, 10, (size_run){1, 1, 0, 1000});
    learn1(&f, 1000, (size_run){1, 1, 0, 900000});
    (void)ask(&f, 9, 10, bytes);
    assert_true(bytes[3] >= 1000 && bytes[3] < 1300);
    (void)ask(&f, 500, 1000, bytes);
    assert_true(bytes[3] >= 900000);
    size_fixture_fini(&f);
}

static void observed_sizes_that_grow_with_the_symbols_are_no_surprise(void** state) {
    (void)state;
    size_fixture f = {0};
    uint64_t bytes[VALUES];
    for (int64_t s = 10; s < 500; s += 10)
        learn1(&f, s, (size_run){1, 1, 0, s * s * 100});
    (void)ask(&f, 9, 10, bytes);
    assert_true(bytes[3] < 20000);
    (void)ask(&f, 480, 490, bytes);
    assert_true(bytes[3] >= 490 * 490 * 100);
    size_fixture_fini(&f);
}

static void observed_sizes_that_keep_surprising_are_planned_as_the_largest(void** state) {
    (void)state;
    size_fixture f = {0};
    uint64_t bytes[VALUES];
    test_random random = test_random_make(31);
    learn1(&f, 3, (size_run){1, 1, 0, 500000});
    uint32_t surprises = 0;
    for (int run = 0; run < 400; run++) {
        const int64_t s = test_random_between(&random, 1, 100000);
        const int64_t frame = test_random_between(&random, 1, 900000);
        if (run >= 200) {
            (void)ask(&f, s - 1, s, bytes);
            surprises += bytes[3] < (uint64_t)frame;
        }
        learn1(&f, s, (size_run){1, 1, 0, frame});
    }
    assert_int_equal(surprises, 0);
    size_fixture_fini(&f);
}

static void kept_runs_are_few_spread_out_and_include_the_newest(void** state) {
    (void)state;
    size_fixture f = {0};
    for (int64_t s = 1; s <= 1000; s++) {
        learn1(&f, s, (size_run){s, 7, 0, 64});
        assert_true(f.model.run_count <= BERTH_SIZE_RUNS);
        bool newest = false;
        for (uint32_t i = 0; i < f.model.run_count; i++)
            newest = newest || f.model.runs[i] == s;
        assert_true(newest);
    }
    int64_t smallest = INT64_MAX;
    for (uint32_t i = 0; i < f.model.run_count; i++)
        if (f.model.runs[i] < smallest) smallest = f.model.runs[i];
    assert_true(smallest < 100);
    size_fixture_fini(&f);
}

static void a_run_that_changes_nothing_says_so(void** state) {
    (void)state;
    size_fixture f = {0};
    learn1(&f, 11, (size_run){11, 12, 0, 64});
    assert_true(learn1(&f, 21, (size_run){21, 22, 0, 64}));
    assert_false(learn1(&f, 33, (size_run){33, 34, 0, 64}));
    assert_false(learn1(&f, 33, (size_run){33, 34, 0, 64}));
    assert_true(learn1(&f, 55, (size_run){55, 99, 0, 64}));
    size_fixture_fini(&f);
}

static void without_memory_nothing_is_learned_and_nothing_lost(void** state) {
    (void)state;
    failing_host failing;
    failing_host_init(&failing);
    berth_host* host;
    assert_ok(berth_host_create(&failing.allocator, &host));
    step_tape tape = {.host = berth_host_default()};
    const size_run first = {10, 10, 0, 64}, second = {20, 20, 20, 64};
    const int64_t ten = 10, twenty = 20;
    berth_size_model model;
    write_run(&tape, &first);
    size_t nth = 1;
    for (;; nth++) {
        failing_host_fail(&failing, nth, false);
        if (berth_size_model_init(&model, host, &tape.trace, &ten, 1) == BERTH_OK) break;
        assert_int_equal(berth_host_query_live_bytes(host), 0);
    }
    assert_true(nth > 5);
    write_run(&tape, &second);
    bool changed;
    for (nth = 1;; nth++) {
        failing_host_fail(&failing, nth, false);
        if (berth_size_model_observe(&model, &tape.trace, &twenty, &changed) == BERTH_OK) break;
        assert_int_equal(model.run_count, 1);
        assert_int_equal(model.classes.count, 4);
    }
    failing_host_fail(&failing, 0, false);
    assert_int_equal(model.run_count, 2);
    uint64_t bytes[VALUES];
    const int64_t lo = 29, hi = 30;
    (void)berth_size_model_evaluate(&model, &lo, &hi, &hi, bytes);
    assert_int_equal(bytes[0], 30 * 256);
    berth_size_model_fini(&model);
    berth_trace_fini(&tape.trace, tape.host);
    berth_host_destroy(host);
    assert_int_equal(failing.live_blocks, 0);
}

static void what_another_process_has_seen_is_recalled(void** state) {
    (void)state;
    size_fixture f = {.begun = false};
    uint64_t bytes[VALUES];
    (void)learn1(&f, 10, (size_run){10, 10, 64, 128});
    const int64_t other = 20;
    assert_false(berth_size_model_applies(&f.model, &other));
    berth_size_model_recall_symbol(&f.model, 0);
    berth_size_model_recall_symbol(&f.model, 0);
    berth_size_model_recall_symbol(&f.model, 7); // there is no such binding
    assert_int_equal(f.model.symbol_count, 1);
    assert_true(berth_size_model_applies(&f.model, &other));
    const uint32_t frame = 5; // the last dimension
    berth_size_model_recall_dim(&f.model, frame, 4096, 255, false);
    (void)ask(&f, 9, 10, bytes);
    assert_true(bytes[3] >= 4096);
    berth_size_model_recall_dim(&f.model, frame, 0, 0, false); // less says nothing
    (void)ask(&f, 9, 10, bytes);
    assert_true(bytes[3] >= 4096);
    berth_size_model_recall_dim(&f.model, 0, 1000, 255, true);
    assert_int_equal(ask(&f, 9, 10, bytes).promise, BERTH_SIZE_OBSERVED);
    assert_true(bytes[0] >= 1000 * 64 * 4);
    size_fixture_fini(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_another_process_has_seen_is_recalled),
        cmocka_unit_test(equal_dimensions_share_a_class_until_they_differ),
        cmocka_unit_test(sizes_are_evaluated_over_the_box_with_one_promise),
        cmocka_unit_test(sizes_that_do_not_fit_are_marked),
        cmocka_unit_test(a_path_applies_where_its_constants_have_their_values),
        cmocka_unit_test(the_same_key_with_other_sizes_means_that_data_decides),
        cmocka_unit_test(observed_sizes_follow_the_symbols_they_were_seen_at),
        cmocka_unit_test(observed_sizes_that_grow_with_the_symbols_are_no_surprise),
        cmocka_unit_test(observed_sizes_that_keep_surprising_are_planned_as_the_largest),
        cmocka_unit_test(kept_runs_are_few_spread_out_and_include_the_newest),
        cmocka_unit_test(a_run_that_changes_nothing_says_so),
        cmocka_unit_test(without_memory_nothing_is_learned_and_nothing_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
