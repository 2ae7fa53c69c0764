// SPDX-License-Identifier: Apache-2.0
// A greedy rule that builds a packing upwards, for plain problems.
#ifndef BERTH_PLAN_PACKING_SKYLINE_H
#define BERTH_PLAN_PACKING_SKYLINE_H

#include "plan/packing_internal.h"

/// Of items that can lie equally low, the one that is placed first.
typedef enum berth_skyline_tie {
    BERTH_SKYLINE_SECTIONS, ///< lives through most sections of time
    BERTH_SKYLINE_DURATION, ///< lives longest
    BERTH_SKYLINE_AREA,     ///< has the largest size times duration
} berth_skyline_tie;

/// The section of time is served next whose height, less so many eighths of the bytes that have yet
/// to be placed there, is least; by the item whose offset plus so many eighths of its size is.
typedef struct berth_skyline_rule {
    berth_skyline_tie tie;
    int64_t crowd_eighths; ///< at most 1000
    uint64_t size_eighths; ///< at most 64
} berth_skyline_rule;

/// What all runs for one packer share.
typedef struct berth_skyline berth_skyline;

/// NULL without memory. `packer` is borrowed, plain, and not moved.
berth_skyline* berth_skyline_create(berth_packer* packer);
/// Accepts NULL.
void berth_skyline_destroy(berth_skyline* self);

/// Places all items in `packer->offset` and returns the peak, or UINT64_MAX once it would be above
/// `limit` or `budget` (may be NULL) is over. Looks at the clock without spending steps.
/// Cost: O(count * items not placed yet that live near in time).
uint64_t berth_skyline_run(berth_skyline* self,
                           berth_skyline_rule rule,
                           uint64_t limit,
                           berth_packing_budget* budget);

#endif // BERTH_PLAN_PACKING_SKYLINE_H
