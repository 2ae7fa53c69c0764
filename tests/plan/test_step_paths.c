// SPDX-License-Identifier: Apache-2.0
// Steps that take several paths: a tree, planned so that a replay may change from one to another.
#include <stdio.h>

#include "step_kit.h"

#include "base/log.h"
#include "kit/random.h"
#include "plan/step_model_impl.h"

typedef struct fixture {
    berth_step_model* model;
    step_tape tape;
} fixture;

static fixture open_fixture(const berth_plan_policy* policy) {
    fixture f = {.tape = {.host = berth_host_default()}};
    assert_ok(berth_step_model_create(berth_host_default(), "routed", policy, &f.model));
    return f;
}

static void close_fixture(fixture* f) {
    berth_trace_fini(&f->tape.trace, f->tape.host);
    berth_step_model_destroy(f->model);
}

static step_outcome run_at(fixture* f, int64_t t) {
    const berth_binding bindings[] = {{"t", t}};
    const berth_shape_key key = {bindings, 1};
    return run_tape(f->model, &key, &f->tape);
}

/// A chain of `length` ops over t rows, whose ops differ from op `fork` on by `way`.
static void tape_chain(step_tape* tape, int64_t t, uint32_t length, uint32_t fork, uint32_t way) {
    uint32_t x = UINT32_MAX;
    for (uint32_t i = 0; i < length; i++)
        x = tape_linear(tape,
                        i < fork ? 1 : 2 + way,
                        t,
                        16 + 8 * (int64_t)((i + way * (i >= fork)) % 5),
                        64 * t,
                        x,
                        UINT32_MAX);
}

static void strictly_alternating_paths_are_hits(void** state) {
    (void)state;
    const berth_plan_policy policy = default_policy();
    fixture f = open_fixture(&policy);
    for (int64_t run = 0; run < 100; run++) {
        tape_chain(&f.tape, 50 + 7 * (run / 2 % 10), 9, 4, (uint32_t)(run % 2));
        const step_outcome outcome = run_at(&f, 50 + 7 * (run / 2 % 10));
        if (run < 8) continue;
        assert_int_equal(outcome.result, BERTH_RUN_HIT);
        assert_true(outcome.switched);
        assert_int_equal(outcome.kind, BERTH_ESTIMATE_BOUND);
        assert_true(outcome.frame_bytes + outcome.pool_bytes >= outcome.peak_bytes);
    }
    assert_true(counters_of(f.model).side_exits <= 4);
    assert_true(counters_of(f.model).switches >= 92);
    close_fixture(&f);
}

static void a_run_that_ends_early_is_a_path_of_its_own(void** state) {
    (void)state;
    const berth_plan_policy policy = default_policy();
    fixture f = open_fixture(&policy);
    test_random random = test_random_make(3);
    for (int run = 0; run < 80; run++) {
        const int64_t t = test_random_between(&random, 20, 200);
        const uint32_t length = 3 + 2 * (uint32_t)test_random_below(&random, 4);
        tape_chain(&f.tape, t, length, 99, 0);
        const step_outcome outcome = run_at(&f, t);
        if (run >= 30) assert_int_equal(outcome.result, BERTH_RUN_HIT);
    }
    assert_int_equal(counters_of(f.model).paths, 4);
    close_fixture(&f);
}

static void a_branch_needs_no_more_than_alone_where_the_prefix_allows(void** state) {
    (void)state;
    const berth_plan_policy policy = default_policy();
    fixture f = open_fixture(&policy);
    fixture alone = open_fixture(&policy);
    for (int64_t run = 0; run < 30; run++) {
        const int64_t t = 30 + run;
        tape_chain(&f.tape, t, 9, 4, 0);
        (void)run_at(&f, t);
        tape_chain(&f.tape, t, 9, 4, 1);
        const step_outcome outcome = run_at(&f, t);
        tape_chain(&alone.tape, t, 9, 4, 1);
        const step_outcome reference = run_at(&alone, t);
        if (run < 4) continue;
        assert_int_equal(outcome.result, BERTH_RUN_HIT);
        assert_int_equal(reference.result, BERTH_RUN_HIT);
        // by less than a tenth: what stands where it was put may be in the way
        assert_true(outcome.peak_bytes * 10 <= reference.peak_bytes * 11);
    }
    close_fixture(&alone);
    close_fixture(&f);
}

static void a_value_that_lives_longer_on_one_path_is_kept_clear_of_on_both(void** state) {
    (void)state;
    const berth_plan_policy policy = default_policy();
    fixture f = open_fixture(&policy);
    for (uint32_t run = 0; run < 12; run++) {
        const uint32_t way = run % 2;
        tape_op(&f.tape, 1);
        const uint32_t first = tape_matrix(&f.tape, 64, 64);
        for (uint32_t e = 2; e <= 4; e++) {
            tape_op(&f.tape, e);
            tape_matrix(&f.tape, 64, 64);
        }
        tape_op(&f.tape, 5 + way);
        tape_matrix(&f.tape, 64, 64);
        if (way == 1) tape_use(&f.tape, first); // read again behind the fork
        const step_outcome outcome = run_at(&f, 1);
        if (run >= 4) assert_int_equal(outcome.result, BERTH_RUN_HIT);
    }
    // both paths know: within what they share the value does not die
    for (uint32_t i = 0; i < f.model->path_count; i++)
        assert_true(f.model->paths[i].version->shown.values[0].death >= 3);
    close_fixture(&f);
}

static void a_value_that_escapes_on_one_path_is_the_pools_on_both(void** state) {
    (void)state;
    const berth_plan_policy policy = default_policy();
    fixture f = open_fixture(&policy);
    for (uint32_t run = 0; run < 12; run++) {
        tape_op(&f.tape, 1);
        const uint32_t first = tape_matrix(&f.tape, 64, 64);
        tape_op(&f.tape, 2 + run % 2);
        tape_matrix(&f.tape, 32, 32);
        if (run % 2 == 1) tape_escape(&f.tape, first);
        const step_outcome outcome = run_at(&f, 1);
        if (run < 4) continue;
        assert_int_equal(outcome.result, BERTH_RUN_HIT);
        assert_int_equal(outcome.pool_bytes, 64 * 64 * 4);
        assert_int_equal(outcome.frame_bytes, 32 * 32 * 4);
    }
    close_fixture(&f);
}

static uint32_t told;
static void count_full(void* self, berth_log_level level, const char* text) {
    (void)self;
    (void)level;
    if (strstr(text, "more than 3 paths") != NULL) told++;
}

static void paths_beyond_the_limit_keep_what_they_share_planned_and_are_named_once(void** state) {
    (void)state;
    berth_plan_policy policy = default_policy();
    policy.max_paths = 3;
    policy.max_exits = 0;
    fixture f = open_fixture(&policy);
    told = 0;
    berth_log_set_callback(count_full, NULL);
    test_random random = test_random_make(8);
    uint32_t hits = 0;
    for (int run = 0; run < 200; run++) {
        tape_chain(&f.tape, 40, 12, 6, (uint32_t)test_random_below(&random, 6));
        hits += run_at(&f, 40).result == BERTH_RUN_HIT;
    }
    berth_log_set_callback(NULL, NULL);
    assert_int_equal(counters_of(f.model).paths, 3);
    assert_true(hits > 70);
    assert_int_equal(told, 1);
    close_fixture(&f);
}

static void a_trunk_that_is_no_longer_taken_gives_way(void** state) {
    (void)state;
    const berth_plan_policy policy = default_policy();
    fixture f = open_fixture(&policy);
    for (uint32_t run = 0; run < 6; run++) {
        tape_chain(&f.tape, 40, 9, 4, run % 2);
        (void)run_at(&f, 40);
    }
    const uint32_t trunk = f.model->paths[0].id;
    for (int run = 0; run < 80; run++) {
        tape_chain(&f.tape, 40, 9, 4, 1);
        assert_int_equal(run_at(&f, 40).result, BERTH_RUN_HIT);
    }
    assert_int_not_equal(f.model->paths[0].id, trunk);
    assert_int_equal(berth_path_tree_shared(&f.model->tree, 0, 1), 4);
    tape_chain(&f.tape, 40, 9, 4, 0);
    assert_int_equal(run_at(&f, 40).result, BERTH_RUN_HIT);
    close_fixture(&f);
}

// ---- Random trees.

enum { DEPTH = 5, OPS_MAX = 30 };

/// An op of a random tree: its sizes are forms of t.
typedef struct tree_op {
    uint32_t kind;
    int64_t columns;
    int64_t fixed;
    int64_t scratch;
    uint32_t life;
    bool escapes;
} tree_op;

/// Stretches of ops; each ends in a choice of two, or in the end of the run.
typedef struct tree_program {
    tree_op ops[1 << DEPTH][OPS_MAX];
    uint32_t count[1 << DEPTH];
    bool may_end[1 << DEPTH];
} tree_program;

static void make_program(tree_program* p, test_random* random) {
    for (uint32_t node = 1; node < 1 << DEPTH; node++) {
        p->count[node] = 1 + (uint32_t)test_random_below(random, 6);
        p->may_end[node] = test_random_one_in(random, 6);
        for (uint32_t i = 0; i < p->count[node]; i++) {
            tree_op* op = &p->ops[node][i];
            op->kind = i == 0 ? 100 + node : (uint32_t)test_random_below(random, 4);
            op->columns = test_random_between(random, 0, 40);
            op->fixed = test_random_between(random, 0, 6000);
            op->scratch = test_random_between(random, 0, 90);
            op->life = test_random_one_in(random, 5) ? 12 : (uint32_t)test_random_below(random, 4);
            op->escapes = test_random_one_in(random, 25);
        }
    }
}

/// Where a walk through the tree goes at each choice: a bit for each.
static void write_walk(const tree_program* p, step_tape* tape, int64_t t, uint32_t choices) {
    uint32_t last[256] = {0};
    uint32_t values = 0;
    for (uint32_t node = 1; node < 1 << DEPTH; node = node * 2 + (choices & 1), choices >>= 1) {
        for (uint32_t i = 0; i < p->count[node]; i++) {
            const tree_op* op = &p->ops[node][i];
            tape_op(tape, op->kind);
            const uint32_t value = op->columns % 2 == 0 ? tape_matrix(tape, t, op->columns)
                                                        : tape_bytes(tape, 0, op->fixed);
            tape_bytes(tape, BERTH_VALUE_SCRATCH, op->scratch * t);
            last[values++] = tape_now(tape) + op->life;
            (void)value;
            if (op->escapes) tape_escape(tape, value);
        }
        if (p->may_end[node] && (choices & 1) != 0) break;
    }
    for (uint32_t v = 0, k = 0; v < tape->trace.values.count; v++) {
        berth_trace_value* value = &tape->trace.values.items[v];
        if ((value->flags & BERTH_VALUE_SCRATCH) != 0) continue;
        value->death = last[k] < tape_now(tape) ? last[k] : tape_now(tape);
        k++;
    }
}

static void any_tree_is_placed_alike_on_what_its_paths_share(void** state) {
    (void)state;
    static tree_program p;
    test_random random = test_random_make(77);
    uint32_t late_runs = 0, late_hits = 0, switched = 0;
    for (int round = 0; round < 40; round++) {
        make_program(&p, &random);
        berth_plan_policy policy = default_policy();
        policy.max_paths = round % 4 == 0 ? 5 : 16;
        policy.max_exits = 0;
        policy.quantum = round % 3 == 0 ? 0 : 64;
        policy.cache_bytes = round % 5 == 0 ? 60000 : 16 * MIB;
        fixture f = open_fixture(&policy);
        const uint32_t mask = round % 2 == 0 ? 7 : 31;
        for (int run = 0; run < 120; run++) {
            const int64_t t = test_random_between(&random, 1, 300);
            write_walk(&p, &f.tape, t, (uint32_t)test_random_below(&random, mask + UINT64_C(1)));
            const step_outcome outcome = run_at(&f, t); // asserts all that is true of every run
            if (run < 60 || policy.max_paths == 5 || mask == 31 || round % 5 == 0) continue;
            late_runs++;
            late_hits += outcome.result == BERTH_RUN_HIT;
            switched += outcome.switched;
        }
        const berth_step_counters counters = counters_of(f.model);
        assert_true(counters.plan_bytes <= policy.cache_bytes);
        close_fixture(&f);
    }
    assert_true(late_runs > 400);
    assert_true(late_hits * 100 >= late_runs * 98);
    assert_true(switched * 2 >= late_runs);
}

static void what_a_path_needs_where_it_was_never_seen_is_not_promised(void** state) {
    (void)state;
    const berth_plan_policy policy = default_policy();
    fixture f = open_fixture(&policy);
    for (int64_t t = 10; t <= 50; t += 10) {
        tape_chain(&f.tape, t, 9, 4, 0);
        assert_int_equal(run_at(&f, t).kind,
                         t <= 20 ? BERTH_ESTIMATE_UNKNOWN : BERTH_ESTIMATE_EXACT);
    }
    tape_chain(&f.tape, 10, 20, 4, 1);
    (void)run_at(&f, 10);
    tape_chain(&f.tape, 10, 9, 4, 0);
    assert_int_equal(run_at(&f, 10).kind, BERTH_ESTIMATE_BOUND);
    tape_chain(&f.tape, 60, 9, 4, 0);
    assert_int_equal(run_at(&f, 60).kind, BERTH_ESTIMATE_OBSERVED);
    close_fixture(&f);
}

static void paths_beyond_the_limit_leave_nothing_to_promise(void** state) {
    (void)state;
    berth_plan_policy policy = default_policy();
    policy.max_paths = 1;
    fixture f = open_fixture(&policy);
    for (int64_t run = 0; run < 6; run++) {
        tape_chain(&f.tape, 10, run == 3 ? 20 : 9, 4, run == 3);
        const step_outcome outcome = run_at(&f, 10);
        if (run == 0) continue;
        assert_int_equal(outcome.kind, run <= 3 ? BERTH_ESTIMATE_EXACT : BERTH_ESTIMATE_OBSERVED);
    }
    close_fixture(&f);
}

static char said[512];

static void note_line(void* self, berth_log_level level, const char* text) {
    (void)self;
    if (level == BERTH_LOG_WARN) snprintf(said, sizeof said, "%s", text);
}

static void paths_that_the_cache_cannot_hold_are_told_of_and_not_promised(void** state) {
    (void)state;
    berth_plan_policy policy = default_policy();
    policy.cache_bytes = 24000;
    fixture f = open_fixture(&policy);
    said[0] = '\0';
    berth_log_set_callback(note_line, NULL);
    step_outcome outcome = {.kind = BERTH_ESTIMATE_UNKNOWN};
    for (int64_t run = 0; run < 8; run++) {
        tape_chain(&f.tape, 10, 100, 50, (uint32_t)(run / 2 % 2));
        outcome = run_at(&f, 10);
    }
    berth_log_set_callback(NULL, NULL);
    assert_int_equal(counters_of(f.model).paths, 1);
    assert_int_equal(outcome.kind, BERTH_ESTIMATE_OBSERVED);
    assert_non_null(strstr(said, "step routed: its 2 paths take "));
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strictly_alternating_paths_are_hits),
        cmocka_unit_test(a_run_that_ends_early_is_a_path_of_its_own),
        cmocka_unit_test(a_branch_needs_no_more_than_alone_where_the_prefix_allows),
        cmocka_unit_test(a_value_that_lives_longer_on_one_path_is_kept_clear_of_on_both),
        cmocka_unit_test(a_value_that_escapes_on_one_path_is_the_pools_on_both),
        cmocka_unit_test(paths_beyond_the_limit_keep_what_they_share_planned_and_are_named_once),
        cmocka_unit_test(a_trunk_that_is_no_longer_taken_gives_way),
        cmocka_unit_test(any_tree_is_placed_alike_on_what_its_paths_share),
        cmocka_unit_test(what_a_path_needs_where_it_was_never_seen_is_not_promised),
        cmocka_unit_test(paths_beyond_the_limit_leave_nothing_to_promise),
        cmocka_unit_test(paths_that_the_cache_cannot_hold_are_told_of_and_not_promised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
