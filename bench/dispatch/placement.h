// SPDX-License-Identifier: Apache-2.0
// Whether the cost of placing a value by a plan depends on how many plans, shapes and live values
// there are.
#ifndef BERTH_BENCH_DISPATCH_PLACEMENT_H
#define BERTH_BENCH_DISPATCH_PLACEMENT_H

#include "berth/berth.h"

enum { BENCH_REPLAY_CASES = 6 };

/// A state of the world, and what placing costs in it.
typedef struct bench_replay_case {
    const char* name;
    int64_t plans;    ///< in the cache, for as many shapes
    int64_t live;     ///< values that are alive meanwhile, in the same step
    bool is_changing; ///< each round has another of the shapes
} bench_replay_case;

extern const bench_replay_case bench_replay_cases[BENCH_REPLAY_CASES];

/// Median over `rounds` of what a placement adds to an op, in nanoseconds. Ends the program if
/// something is not placed as planned.
double bench_replay_measure(const bench_replay_case* at, int rounds);

/// Brings `at` about and runs one chain inside a function counted_chain(), for an instruction
/// counter.
void bench_replay_run_counted(const bench_replay_case* at);

/// The ops of that chain.
int64_t bench_replay_query_ops(void);

#endif // BERTH_BENCH_DISPATCH_PLACEMENT_H
