// SPDX-License-Identifier: Apache-2.0
// What files call the events of a runtime's steps.
//
// An op is its id in small letters with type and rank of its first result ("linear:f32:2"), a
// registered one "op:NAME:f32:2", an allocation "alloc:f32:2", a nested step "step:NAME". In a NAME
// everything but letters, digits, '_', '.' and '-' is written as %XX.
#ifndef BERTH_EXEC_EVENT_NAMES_H
#define BERTH_EXEC_EVENT_NAMES_H

#include "exec/exec_impl.h"
#include "plan/event_names.h"

/// The names of the runtime's events; good as long as it lives. Both functions take the runtime's
/// lock.
berth_event_names berth_runtime_event_names(berth_runtime* runtime);

/// The number by which steps called `name` are known in their parents' traces, the same whenever
/// it is asked for. Under the runtime's lock.
/// Errors: BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status berth_runtime_number_step(berth_runtime* runtime,
                                                       const char* name,
                                                       uint32_t* out_tag);

/// Frees the table of steps' names.
void berth_runtime_forget_step_names(berth_runtime* runtime);

#endif // BERTH_EXEC_EVENT_NAMES_H
