// SPDX-License-Identifier: Apache-2.0
// One plan file out of two: what this process knows, and what others have put into the file.
#ifndef BERTH_PLAN_PLAN_MERGE_H
#define BERTH_PLAN_PLAN_MERGE_H

#include "plan/plan_file.h"

/// How much a file keeps; the more valuable stays.
typedef struct berth_plan_file_limits {
    uint64_t step_bytes; ///< of one kind of step
    uint64_t file_bytes; ///< of all
    uint32_t step_paths; ///< of one kind of step: those taken last
} berth_plan_file_limits;

/// Writes the file that holds `ours` and what of `theirs` is not in it: steps, paths of steps that
/// have the same bindings, plans for other buckets of paths that have the same symbols. Where both
/// know a path, ours is what counts, with the later of two deaths. Beyond the limits the plans with
/// the least cost times hits go first, then the paths and steps not used for longest.
/// Errors: BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status berth_plan_file_merge(const berth_plan_file* ours,
                                                   const berth_plan_file* theirs,
                                                   const char* config,
                                                   const berth_plan_file_limits* limits,
                                                   berth_byte_writer* out);

#endif // BERTH_PLAN_PLAN_MERGE_H
