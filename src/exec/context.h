// SPDX-License-Identifier: Apache-2.0
// What the runtime and its contexts ask of each other.
#ifndef BERTH_EXEC_CONTEXT_H
#define BERTH_EXEC_CONTEXT_H

#include "base/checked.h"
#include "exec/exec_impl.h"

/// A context keeps its runtime until its last tensor is gone.
void berth_runtime_retain(berth_runtime* runtime);

#endif // BERTH_EXEC_CONTEXT_H
