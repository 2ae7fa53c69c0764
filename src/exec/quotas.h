// SPDX-License-Identifier: Apache-2.0
// What contexts and uses of memory may have: from the options to the page store.
#ifndef BERTH_EXEC_QUOTAS_H
#define BERTH_EXEC_QUOTAS_H

#include "base/text.h"
#include "exec/exec_impl.h"

/// Reads the options; the store is there. Errors: BERTH_ERR_INVALID_ARGUMENT with the numbers.
BERTH_NODISCARD berth_status berth_quotas_start(berth_runtime* runtime,
                                                const berth_options* options);

/// Gives a new context, which nobody else knows yet, quota and share as the options say.
/// Errors: those of a share that cannot be kept.
BERTH_NODISCARD berth_status berth_quotas_join(berth_context* context);

/// Adds what uses and contexts have, and may have, to a report.
void berth_quotas_write(berth_text* text, berth_runtime* runtime);

#endif // BERTH_EXEC_QUOTAS_H
