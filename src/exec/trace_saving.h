// SPDX-License-Identifier: Apache-2.0
// The trace file that a runtime writes at its end.
#ifndef BERTH_EXEC_TRACE_SAVING_H
#define BERTH_EXEC_TRACE_SAVING_H

#include "exec/exec_impl.h"

/// Writes the file that BERTH_TRACE_FILE names, if any. What fails gives a warning.
void berth_runtime_close_traces(berth_runtime* runtime);

#endif // BERTH_EXEC_TRACE_SAVING_H
