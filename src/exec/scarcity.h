// SPDX-License-Identifier: Apache-2.0
// What a context does when the page store has refused it: it asks the program to make room, and
// says what is known before the refusal becomes an error.
#ifndef BERTH_EXEC_SCARCITY_H
#define BERTH_EXEC_SCARCITY_H

#include "exec/exec_impl.h"

/// The most calls of the out-of-memory callback for one request.
#define BERTH_SCARCITY_CALLS 16u

/// Reads the options. Errors: BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status berth_scarcity_start(berth_runtime* runtime,
                                                  const berth_options* options);
/// Warns if the folder of BERTH_SNAPSHOT_ON_OOM cannot be written. Called once the log is set up.
void berth_scarcity_check_path(const berth_runtime* runtime);
void berth_scarcity_stop(berth_runtime* runtime);

/// Takes the context's place on the ladder, for releases that wait for its lock.
void berth_scarcity_join(berth_context* context);
/// What the store has refused the context until now was no request that the program could have made
/// room for. Under the context's lock.
void berth_scarcity_forget(berth_context* context);
/// Accepts a context that has not joined.
void berth_scarcity_leave(berth_context* context);

#endif // BERTH_EXEC_SCARCITY_H
