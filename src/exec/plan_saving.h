// SPDX-License-Identifier: Apache-2.0
// A runtime's plan file: what it holds for, and when it is read and written.
#ifndef BERTH_EXEC_PLAN_SAVING_H
#define BERTH_EXEC_PLAN_SAVING_H

#include "exec/exec_impl.h"

/// Ties the runtime, whose device is there, to the file that BERTH_PLAN_CACHE_FILE names, if any.
/// Nothing is read yet.
/// Errors: BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status berth_runtime_open_plans(berth_runtime* runtime,
                                                      const berth_options* options);

/// Writes what the runtime knows at its end. What fails gives a warning.
void berth_runtime_close_plans(berth_runtime* runtime);

#endif // BERTH_EXEC_PLAN_SAVING_H
