// SPDX-License-Identifier: Apache-2.0
// How much idle memory contexts keep (BERTH_KEEP).
#ifndef BERTH_EXEC_KEEP_H
#define BERTH_EXEC_KEEP_H

#include "exec/exec_impl.h"

/// Gives back what the policy does not keep, at the end of an outermost step. Under the context's
/// lock.
void berth_context_keep(berth_context* context);

#endif // BERTH_EXEC_KEEP_H
