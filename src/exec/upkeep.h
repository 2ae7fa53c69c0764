// SPDX-License-Identifier: Apache-2.0
// The safe points at which a context's memory is put in order: between ops, at the end of a step,
// when the program is idle, and when memory is short (on the ladder). All under the context's lock,
// or in a visit of its home.
#ifndef BERTH_EXEC_UPKEEP_H
#define BERTH_EXEC_UPKEEP_H

#include "exec/exec_impl.h"

/// Prepares a context whose pool is there.
void berth_upkeep_begin(berth_context* context);
/// Nothing of the context is out.
void berth_upkeep_end(berth_context* context);

/// One slice, no op being under way.
void berth_upkeep_run_slice(berth_context* context);

/// Before an op: nothing, or a slice.
static inline void berth_upkeep_between_ops(berth_context* context) {
    if (context->wants_upkeep) berth_upkeep_run_slice(context);
}

/// After a step has ended.
void berth_upkeep_at_step_end(berth_context* context);

/// After a change of what guests have: a slice of their tidying, and their idle memory if nothing
/// is to be kept.
void berth_upkeep_of_guests(berth_context* context);

/// In a visit of a context in which nothing happens: a slice, if it is worth one. True if there is
/// more to be done.
bool berth_upkeep_in_visit(berth_context* context);

#endif // BERTH_EXEC_UPKEEP_H
