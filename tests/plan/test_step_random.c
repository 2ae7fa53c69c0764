// SPDX-License-Identifier: Apache-2.0
// Random step programs at random shapes: every placement valid, most runs hits; failing memory;
// threads.
#include "step_kit.h"

#include "base/thread.h"
#include "kit/failing_host.h"
#include "kit/random.h"

#define OPS_MAX 40u
#define SYMBOLS 2u

/// A dimension as the program computes it: known to the program, guessed by the planner.
typedef struct program_dim {
    int kind;
    int64_t number;
} program_dim;

typedef struct program_op {
    uint32_t kind;
    uint32_t rank;
    program_dim dims[3];
    program_dim scratch;
    uint32_t life; ///< events the output outlives its own
    bool escapes;
    bool moody; ///< sometimes dies later than usual
} program_op;

typedef struct program {
    uint32_t count;
    program_op ops[OPS_MAX];
    bool branches; ///< the last op is left out now and then
    bool wild;     ///< some sizes follow no form
} program;

static int64_t dim_at(const program_dim* dim, const int64_t* symbols, test_random* random) {
    switch (dim->kind) {
    case 0:
        return dim->number;
    case 1:
        return symbols[0];
    case 2:
        return symbols[1];
    case 3:
        return symbols[0] + dim->number % 7;
    case 4:
        return symbols[0] * (1 + dim->number % 9);
    case 5:
        return symbols[0] + symbols[1];
    case 6:
        return (symbols[0] + 15) / 16 * (dim->number % 5 + 1);
    case 7:
        return symbols[0] * symbols[1];
    case 8:
        return symbols[0] < 50 ? symbols[0] : 50;
    default:
        return (int64_t)test_random_below(random, 300);
    }
}

static program_dim random_dim(test_random* random, bool wild) {
    const uint64_t kinds = wild ? 10 : 8;
    const bool constant = test_random_one_in(random, 2);
    return (program_dim){.kind = constant ? 0 : (int)test_random_below(random, kinds),
                         .number = (int64_t)test_random_below(random, 100)};
}

static program random_program(test_random* random) {
    program p = {.count = 2 + (uint32_t)test_random_below(random, OPS_MAX - 2)};
    p.branches = test_random_one_in(random, 4);
    p.wild = test_random_one_in(random, 4);
    for (uint32_t i = 0; i < p.count; i++) {
        program_op* op = &p.ops[i];
        op->kind = (uint32_t)test_random_below(random, 5);
        op->rank = (uint32_t)test_random_below(random, 4);
        for (uint32_t d = 0; d < op->rank; d++)
            op->dims[d] = random_dim(random, p.wild);
        op->scratch = random_dim(random, p.wild);
        op->life = test_random_one_in(random, 8) ? OPS_MAX : (uint32_t)test_random_below(random, 4);
        op->escapes = test_random_one_in(random, 15);
        op->moody = test_random_one_in(random, 15);
    }
    return p;
}

static void write_run(const program* p,
                      step_tape* tape,
                      const int64_t* symbols,
                      test_random* random) {
    const uint32_t count = p->branches && test_random_one_in(random, 5) ? p->count - 1 : p->count;
    for (uint32_t i = 0; i < count; i++) {
        const program_op* op = &p->ops[i];
        tape_op(tape, op->kind);
        int64_t dims[3];
        for (uint32_t d = 0; d < op->rank; d++)
            dims[d] = dim_at(&op->dims[d], symbols, random);
        const uint32_t value = tape_value(tape, 0, BERTH_F32, op->rank, dims);
        tape_bytes(tape, BERTH_VALUE_SCRATCH, 100 * dim_at(&op->scratch, symbols, random));
        uint32_t death = i + op->life;
        if (op->moody && test_random_one_in(random, 6)) death += 3;
        if (death >= count) death = count - 1;
        tape->trace.values.items[value].death = death;
        if (op->escapes) tape_escape(tape, value);
    }
}

static void any_program_at_any_shape_is_placed_validly_and_tame_ones_are_hits(void** state) {
    (void)state;
    test_random random = test_random_make(21);
    uint32_t tame_runs = 0, tame_hits = 0;
    static const char* const buckets[] = {"geometric:4", "pow2", "linear:5", "list:10,100"};
    for (int round = 0; round < 120; round++) {
        const program p = random_program(&random);
        berth_plan_policy policy = default_policy();
        policy.buckets = buckets[round % 4];
        policy.quantum = round % 3 == 0 ? 0 : 64;
        policy.cache_bytes = round % 5 == 0 ? 40000 : 16 * MIB;
        policy.max_exits = 0;
        berth_step_model* model;
        assert_ok(berth_step_model_create(berth_host_default(), "random", &policy, &model));
        step_tape tape = {.host = berth_host_default()};
        for (int run = 0; run < 30; run++) {
            const int64_t symbols[SYMBOLS] = {test_random_between(&random, 0, 200),
                                              test_random_between(&random, 1, 90)};
            const berth_binding bindings[] = {{"a", symbols[0]}, {"b", symbols[1]}, {"c", 3}};
            const berth_shape_key key = {bindings, 3};
            write_run(&p, &tape, symbols, &random);
            const step_outcome outcome = run_tape(model, &key, &tape);
            if (p.wild || p.branches || run < 10) continue;
            tame_runs++;
            tame_hits += outcome.result == BERTH_RUN_HIT;
        }
        berth_step_counters counters;
        berth_step_model_query_counters(model, &counters);
        assert_int_equal(counters.runs, 30);
        assert_int_equal(counters.hits + counters.partial + counters.recorded + counters.side_exits,
                         30);
        assert_true(counters.plan_bytes <= policy.cache_bytes);
        berth_trace_fini(&tape.trace, tape.host);
        berth_step_model_destroy(model);
    }
    assert_true(tame_runs > 500);
    assert_true(tame_hits * 100 >= tame_runs * 90);
}

// ---- Failing memory.

/// A life of a model: learns, plans, goes on another path, is asked. Returns its hits.
static uint64_t small_life(berth_step_model* model) {
    step_tape tape = {.host = berth_host_default()};
    for (int64_t t = 0; t < 8; t++) {
        const int64_t length = 5 + 13 * t;
        tape_llama(&tape, t == 5 ? 3 : 2, length, length);
        const berth_binding bindings[] = {{"t", length}, {"constant", 3}};
        const berth_shape_key key = {bindings, 2};
        berth_outlook outlook;
        assert_ok(berth_step_model_estimate(model, &key, &outlook));
        assert_null(outlook.placement);
        (void)run_tape(model, &key, &tape);
    }
    berth_step_counters counters;
    berth_step_model_query_counters(model, &counters);
    berth_trace_fini(&tape.trace, tape.host);
    return counters.hits;
}

static void failing_memory_at_any_call_loses_plans_only(void** state) {
    (void)state;
    const berth_plan_policy policy = default_policy();
    bool failed = true;
    uint64_t with_memory = 0;
    for (size_t nth = 0; failed || nth <= 1; nth++) {
        failing_host failing;
        failing_host_init(&failing);
        berth_host* host;
        assert_ok(berth_host_create(&failing.allocator, &host));
        failing_host_fail(&failing, nth, false);
        berth_step_model* model = NULL;
        const berth_status status = berth_step_model_create(host, "failing", &policy, &model);
        if (status == BERTH_OK) {
            const uint64_t hits = small_life(model);
            if (nth == 0) with_memory = hits;
            // One failure costs a run or two, not the planning of the step.
            assert_true(hits + 3 >= with_memory);
        } else {
            assert_int_equal(status, BERTH_ERR_OUT_OF_MEMORY);
            assert_null(model);
        }
        failed = failing_host_has_failed(&failing);
        berth_step_model_destroy(model);
        berth_host_destroy(host);
        assert_int_equal(failing.live_blocks, 0);
        assert_false(failing.mismatch);
    }
    assert_true(with_memory >= 3);
}

static void memory_that_fails_for_good_leaves_steps_running_unplanned(void** state) {
    (void)state;
    const berth_plan_policy policy = default_policy();
    failing_host failing;
    failing_host_init(&failing);
    berth_host* host;
    assert_ok(berth_host_create(&failing.allocator, &host));
    berth_step_model* model;
    assert_ok(berth_step_model_create(host, "failing", &policy, &model));
    failing_host_fail(&failing, 1, true);
    assert_int_equal(small_life(model), 0);
    failing_host_fail(&failing, 0, false);
    assert_true(small_life(model) > 0); // and recovers
    berth_step_model_destroy(model);
    berth_host_destroy(host);
    assert_int_equal(failing.live_blocks, 0);
}

static void a_memo_hit_allocates_nothing(void** state) {
    (void)state;
    const berth_plan_policy policy = default_policy();
    berth_host* host;
    assert_ok(berth_host_create(NULL, &host));
    berth_step_model* model;
    assert_ok(berth_step_model_create(host, "memo", &policy, &model));
    (void)small_life(model);
    const berth_binding bindings[] = {{"t", 70}, {"constant", 3}};
    const berth_shape_key key = {bindings, 2};
    berth_outlook outlook;
    berth_branches branches;
    assert_ok(berth_step_model_begin(model, &key, &branches, &outlook));
    berth_step_model_abandon(model, &branches);
    const uint64_t calls = berth_host_query_alloc_calls(host);
    for (int i = 0; i < 10; i++) {
        assert_ok(berth_step_model_begin(model, &key, &branches, &outlook));
        assert_non_null(outlook.placement);
        berth_run_report report = {.result = BERTH_RUN_HIT,
                                   .placement = outlook.placement,
                                   .branches = &branches,
                                   .allocated_bytes = outlook.placement->sum_bytes};
        berth_step_model_end(model, &key, &report);
    }
    assert_int_equal(berth_host_query_alloc_calls(host), calls);
    berth_step_model_destroy(model);
    berth_host_destroy(host);
}

// ---- Threads.

typedef struct thread_task {
    berth_step_model* model;
    uint64_t seed;
    bool failed;
} thread_task;

/// Runs without assertions, which belong to the main thread: notes what is wrong.
static void run_steps(void* argument) {
    thread_task* task = argument;
    test_random random = test_random_make(task->seed);
    step_tape tape = {.host = berth_host_default()};
    for (int run = 0; run < 60 && !task->failed; run++) {
        const int64_t t = test_random_between(&random, 1, 400);
        tape_llama(&tape, 2, t, t);
        const berth_binding bindings[] = {{"t", t}};
        const berth_shape_key key = {bindings, 1};
        berth_outlook outlook;
        berth_branches branches;
        if (berth_step_model_begin(task->model, &key, &branches, &outlook) != BERTH_OK)
            task->failed = true;
        berth_run_report report = {
            .result = BERTH_RUN_RECORDED, .branches = &branches, .trace = &tape.trace};
        if (outlook.placement != NULL) {
            if (!berth_placement_is_valid(outlook.placement)) task->failed = true;
            for (uint32_t v = 0; v < tape.trace.values.count; v++)
                if (trace_value_bytes(&tape.trace, v) > outlook.placement->places[v].bytes)
                    report.result = BERTH_RUN_PARTIAL;
            if (report.result != BERTH_RUN_PARTIAL) report.result = BERTH_RUN_HIT;
            report.placement = outlook.placement;
        }
        berth_step_model_end(task->model, &key, &report);
        berth_trace_clear(&tape.trace);
        berth_step_counters counters;
        berth_step_model_query_counters(task->model, &counters);
    }
    berth_trace_fini(&tape.trace, tape.host);
}

static void contexts_on_several_threads_share_one_model(void** state) {
    (void)state;
    berth_plan_policy policy = default_policy();
    policy.cache_bytes = 60000; // so that entries are evicted while others use them
    berth_step_model* model;
    assert_ok(berth_step_model_create(berth_host_default(), "shared", &policy, &model));
    berth_thread threads[3];
    thread_task tasks[3];
    for (uint64_t i = 0; i < 3; i++) {
        tasks[i] = (thread_task){model, i + 1, false};
        assert_ok(berth_thread_start(&threads[i], "steps", run_steps, &tasks[i]));
    }
    for (int i = 0; i < 3; i++) {
        berth_thread_join(&threads[i]);
        assert_false(tasks[i].failed);
    }
    berth_step_counters counters;
    berth_step_model_query_counters(model, &counters);
    assert_int_equal(counters.runs, 180);
    assert_true(counters.hits >= 160);
    berth_step_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_program_at_any_shape_is_placed_validly_and_tame_ones_are_hits),
        cmocka_unit_test(failing_memory_at_any_call_loses_plans_only),
        cmocka_unit_test(memory_that_fails_for_good_leaves_steps_running_unplanned),
        cmocka_unit_test(a_memo_hit_allocates_nothing),
        cmocka_unit_test(contexts_on_several_threads_share_one_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
