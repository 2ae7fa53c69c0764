// SPDX-License-Identifier: Apache-2.0
// A step whose sizes follow one integer, with a bucket for each value of it: so there are as many
// plans as shapes.
#include "dispatch/placement.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "dispatch/chain.h"
#include "kit/fail.h"
#include "kit/median.h"

enum {
    OPS = 100,            ///< of a chain
    LEARNING_STEPS = 6,   ///< before a plan is there, whatever the shapes
    LEAST_ELEMENTS = 256, ///< of a tensor at the smallest shape
};

const bench_replay_case bench_replay_cases[BENCH_REPLAY_CASES] = {
    {.name = "1 plan", .plans = 1},
    {.name = "10,000 plans", .plans = 10000},
    {.name = "10,000 plans, shapes change", .plans = 10000, .is_changing = true},
    {.name = "100 live values", .plans = 1, .live = 100},
    {.name = "1,000 live values", .plans = 1, .live = 1000},
    {.name = "10,000 live values", .plans = 1, .live = 10000},
};

typedef struct replay {
    const bench_replay_case* at;
    berth_runtime* runtime;
    berth_context* context;
    berth_tensor** live; ///< [at->live]
} replay;

/// What the chains of one step took, in nanoseconds.
typedef struct step_times {
    uint64_t fresh_ns;
    uint64_t in_place_ns;
} step_times;

/// The chain that an instruction counter counts.
__attribute__((noinline)) static berth_tensor* counted_chain(berth_context* ctx, berth_tensor* x) {
    static volatile int runs; // makes this function none of the others
    runs = runs + 1;
    return bench_chain_fresh(ctx, x, OPS);
}

/// One step at shape `shape`, 1 .. plans.
static step_times run_step(replay* r, int64_t shape, bool is_counted) {
    const berth_step_integer integer = {.name = "n", .value = shape};
    const berth_step_desc desc = {.name = "replay", .integers = &integer, .integer_count = 1};
    if (berth_step_begin(r->context, &desc) != BERTH_OK) bench_fail("begin");
    const int64_t dims[1] = {LEAST_ELEMENTS + 16 * shape};
    for (int64_t i = 0; i < r->at->live; ++i)
        r->live[i] = berth_empty(r->context, BERTH_F32, 1, dims);
    berth_tensor* x = berth_empty(r->context, BERTH_F32, 1, dims);
    const uint64_t start = berth_clock_now_ns();
    x = is_counted ? counted_chain(r->context, x) : bench_chain_fresh(r->context, x, OPS);
    const uint64_t middle = berth_clock_now_ns();
    x = bench_chain_in_place(r->context, x, OPS);
    const uint64_t end = berth_clock_now_ns();
    if (x == NULL) bench_fail_for("ops", berth_context_error_text(r->context));
    berth_release(x);
    berth_release_array(r->live, (size_t)r->at->live);
    if (berth_step_end(r->context) != BERTH_OK) bench_fail("end");
    return (step_times){middle - start, end - middle};
}

static berth_step_counters query(const replay* r) {
    const char* name;
    berth_step_counters counters;
    if (berth_runtime_query_step(r->runtime, 0, &name, &counters) != BERTH_OK) bench_fail("query");
    return counters;
}

/// Opens a runtime and makes all plans.
static void open_replay(replay* r, const bench_replay_case* at) {
    const berth_option_setting settings[] = {{"mode", "plan"},
                                             {"threads", "1"},
                                             {"buckets", "linear:1"},
                                             {"plan_quantum", "0"},
                                             {"plan_cache_bytes", "unlimited"},
                                             {"plan_cache_entries", "unlimited"}};
    const berth_runtime_options options = {.struct_size = sizeof options,
                                           .settings = settings,
                                           .setting_count = sizeof settings / sizeof *settings};
    *r = (replay){.at = at};
    if (berth_runtime_create(&options, &r->runtime) != BERTH_OK) bench_fail("runtime");
    if (berth_context_create(r->runtime, &r->context) != BERTH_OK) bench_fail("context");
    r->live = calloc((size_t)at->live + 1, sizeof *r->live);
    if (r->live == NULL) bench_fail_for(at->name, "no memory");
    for (int64_t i = 0; i < at->plans + LEARNING_STEPS; ++i)
        (void)run_step(r, 1 + i % at->plans, false);
    if ((int64_t)query(r).plans_live < at->plans)
        bench_fail_for(at->name, "there are not so many plans");
}

static void close_replay(replay* r) {
    free(r->live);
    berth_context_release(r->context);
    berth_runtime_release(r->runtime);
}

/// A shape of round `round`, somewhere among all.
static int64_t shape_of(const bench_replay_case* at, int64_t round) {
    return at->is_changing ? 1 + round * 7919 % at->plans : (at->plans + 1) / 2;
}

double bench_replay_measure(const bench_replay_case* at, int rounds) {
    replay r;
    open_replay(&r, at);
    double* samples = calloc((size_t)rounds, sizeof *samples);
    if (samples == NULL) bench_fail_for(at->name, "no memory");
    const berth_step_counters before = query(&r);
    for (int round = 0; round < rounds; ++round) {
        const step_times times = run_step(&r, shape_of(at, round), false);
        samples[round] = ((double)times.fresh_ns - (double)times.in_place_ns) / OPS;
    }
    if (query(&r).hits - before.hits != (uint64_t)rounds)
        bench_fail_for(at->name, "a value was not placed as planned");
    const double ns = bench_median(samples, rounds);
    free(samples);
    close_replay(&r);
    return ns;
}

void bench_replay_run_counted(const bench_replay_case* at) {
    replay r;
    open_replay(&r, at);
    (void)run_step(&r, shape_of(at, 1), true);
    close_replay(&r);
}

int64_t bench_replay_query_ops(void) { return OPS; }
