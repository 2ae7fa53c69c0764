// SPDX-License-Identifier: Apache-2.0
// The monitors of contexts' pools.
#ifndef BERTH_EXEC_POOL_HEALTH_H
#define BERTH_EXEC_POOL_HEALTH_H

#include "exec/exec_impl.h"

/// Gives the context's pool its monitor.
/// Errors: BERTH_ERR_OUT_OF_MEMORY (host memory).
BERTH_NODISCARD berth_status berth_context_watch(berth_context* context);

#endif // BERTH_EXEC_POOL_HEALTH_H
