// SPDX-License-Identifier: Apache-2.0
// Tells the program that memory in use has crossed a watermark.
//
// The page store notes a crossing under its lock and rings at the home of the context concerned;
// whoever unlocks a home that rings tells, holding no lock. So do calls of the program that take
// no home's lock. Threads of the library's own leave it to the program's next call: what a callback
// does may end a runtime, which waits for them.
#ifndef BERTH_EXEC_ALARM_H
#define BERTH_EXEC_ALARM_H

#include "exec/exec_impl.h"

/// Reads the options; the store is there. Errors: BERTH_ERR_INVALID_ARGUMENT with the numbers.
BERTH_NODISCARD berth_status berth_alarm_start(berth_runtime* runtime,
                                               const berth_options* options);

/// Has the store ring at a new context.
void berth_alarm_join(berth_context* context);

/// Tells what there is to tell, unless another thread does or this one is in an out-of-memory
/// callback. Keeps the thread's detail text. No lock is held; the runtime may end in it.
void berth_alarm_tell(berth_runtime* runtime);

#endif // BERTH_EXEC_ALARM_H
