// SPDX-License-Identifier: Apache-2.0
// The plan file of a runtime: read once at its beginning, written under a lock, and merged with
// what other processes have put there.
#ifndef BERTH_PLAN_PLAN_STORE_H
#define BERTH_PLAN_PLAN_STORE_H

#include "base/file_ops.h"
#include "plan/plan_merge.h"

/// Pauses of 10 ms between tries to lock the file before that is given up.
#define BERTH_PLAN_STORE_TRIES 200u

/// A zeroed struct belongs to no file.
typedef struct berth_plan_store {
    const berth_host* host;
    const berth_file_ops* ops; ///< borrowed
    char* path;                ///< NULL: no file
    char* config;              ///< what sizes depend on, a line each
    berth_plan_file_limits limits;
    uint32_t tries;       ///< to get the lock
    bool is_foreign;      ///< what lies at the path is none of ours, and nobody overwrites it
    unsigned char* bytes; ///< of the file as it was at the beginning; `file` points into them
    berth_plan_file file; ///< empty if there was none that could be used
} berth_plan_store;

/// Ties `self` to the file at `path`, as it is seen from the current folder. Nothing is read yet.
/// Errors: BERTH_ERR_OUT_OF_MEMORY; BERTH_ERR_IO if there is no current folder.
BERTH_NODISCARD berth_status berth_plan_store_init(berth_plan_store* self,
                                                   const berth_host* host,
                                                   const berth_file_ops* ops,
                                                   const char* path,
                                                   const char* config,
                                                   const berth_plan_file_limits* limits);
/// Reads the file, if there is one. What cannot be used gives one warning with its name and the
/// reason, and is none.
void berth_plan_store_load(berth_plan_store* self);
/// The models that have taken something in are gone.
void berth_plan_store_fini(berth_plan_store* self);

/// Merges `sections` [count] (of berth_step_model_export) into the file as it is now, and puts the
/// result in its place, whole or not at all.
/// Errors: BERTH_ERR_IO and BERTH_ERR_NOT_FOUND of the file, BERTH_ERR_CORRUPT if it is not ours,
///         BERTH_ERR_STATE if another process keeps it locked, BERTH_ERR_OUT_OF_MEMORY. The file is
///         as it was then. The text names it and the reason.
/// Threads: any; two at a time take turns.
BERTH_NODISCARD berth_status berth_plan_store_save(const berth_plan_store* self,
                                                   const berth_byte_writer* sections,
                                                   size_t count);

#endif // BERTH_PLAN_PLAN_STORE_H
