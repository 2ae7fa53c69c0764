// SPDX-License-Identifier: Apache-2.0
// Random tensor programs: steps of ops, views, moves and releases in any order, tensors kept beyond
// their step, nested steps, branches, early ends, two contexts that share tensors, shapes that
// change at every run. What a program computes depends on its seed alone, so that its digest must
// not depend on how memory is managed.
#ifndef BERTH_TEST_PROGRAM_H
#define BERTH_TEST_PROGRAM_H

#include <stdbool.h>

#include "berth/berth.h"
#include "program_ways.h"

enum { PROGRAM_MOST_OPS = 256 };

typedef struct program_result {
    uint64_t digest;    ///< of every element that the program read
    uint64_t ops;       ///< ops run
    uint64_t hits;      ///< steps replayed as planned
    uint64_t exits;     ///< steps that left their trace
    uint64_t shortages; ///< calls of the out-of-memory callback
    uint64_t switches;  ///< changes from one known path to another within a replay
    uint64_t refusals;  ///< calls that failed and were borne (program_set_tolerance)
    /// Times that each built-in op gave a result, by berth_op_id.
    uint64_t drawn[PROGRAM_MOST_OPS];
    char failure[256]; ///< "" if all checks held
} program_result;

/// Runs program `seed` with `runs` runs of its steps on a new runtime as `way` says, and closes
/// everything. Checks on the way that storages that are not dead never overlap, and at the
/// end that the books balance: no object, no promise, no mapped byte is left.
program_result program_run(uint64_t seed, uint32_t runs, const program_way* way);

/// Has `new_watcher` called with the runtime of each program before its first op; NULL: nobody.
void program_set_watcher(void (*new_watcher)(berth_runtime* runtime));

/// Has programs bear calls that fail, count them and go on: for devices that are made to fail.
/// `calm` is called when a program has run and ends failures: from then on all is given back, but
/// where it returns false, for a device that is lost. NULL: failures are not borne.
void program_set_tolerance(bool (*calm)(void));

#endif // BERTH_TEST_PROGRAM_H
