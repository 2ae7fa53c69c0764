// SPDX-License-Identifier: Apache-2.0
// Buckets that were set for steps before their first run.
#ifndef BERTH_EXEC_BUCKET_SETTINGS_H
#define BERTH_EXEC_BUCKET_SETTINGS_H

#include "exec/exec_impl.h"

/// Gives a new step what was set for its name. The runtime's lock is held.
/// Errors: BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status berth_bucket_settings_apply(berth_runtime* runtime,
                                                         const char* step,
                                                         berth_step_model* model);

/// Frees all settings.
void berth_bucket_settings_forget(berth_runtime* runtime);

#endif // BERTH_EXEC_BUCKET_SETTINGS_H
