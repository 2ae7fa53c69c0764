// SPDX-License-Identifier: Apache-2.0
// The runtime's side of the debugging options: who notes what is taken, where the program is, what
// is reported when something is left.
#ifndef BERTH_EXEC_DEBUGGING_H
#define BERTH_EXEC_DEBUGGING_H

#include "exec/exec_impl.h"

/// Makes the runtime's audit, if an option asks for one.
/// Errors: BERTH_ERR_OUT_OF_MEMORY (host memory).
BERTH_NODISCARD berth_status berth_debugging_start(berth_runtime* runtime,
                                                   const berth_options* options);
/// Reports what is left and frees the audit. Ops and steps are still there.
void berth_debugging_stop(berth_runtime* runtime);

/// Connects a new context with the runtime's audit.
void berth_debugging_join(berth_context* context);

/// Reports what is out, as something happens: "as the runtime is released". Nothing if
/// BERTH_LEAKS is off or nothing is out.
void berth_debugging_report(berth_runtime* runtime, const char* when);

/// Notes memory beside the pool, taken by `call`; nothing without an audit.
/// Errors: BERTH_ERR_OUT_OF_MEMORY (host memory); nothing noted.
BERTH_NODISCARD berth_status berth_debugging_note(berth_runtime* runtime,
                                                  const void* data,
                                                  uint64_t bytes,
                                                  const char* call);
/// Notes that it is back.
void berth_debugging_forget(berth_runtime* runtime, const void* data);

/// What takes memory in events of `kind`, for people.
const char* berth_debugging_event_name(berth_runtime* runtime, uint32_t kind);

#endif // BERTH_EXEC_DEBUGGING_H
