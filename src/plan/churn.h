// SPDX-License-Identifier: Apache-2.0
// Churn: a step whose sizes or buckets never settle costs more to plan than plans give back. It is
// judged over whole windows of runs; ordinary warm-up does not last that long.
#ifndef BERTH_PLAN_CHURN_H
#define BERTH_PLAN_CHURN_H

#include <stdbool.h>
#include <stdint.h>

#define BERTH_CHURN_WINDOW 256u ///< runs that are judged together
#define BERTH_CHURN_WINDOWS 4u  ///< bad windows in a row that end planning

/// What was wrong with a run.
typedef enum berth_churn_fault {
    BERTH_CHURN_NONE,
    BERTH_CHURN_BUCKET, ///< there was no plan for its bucket
    BERTH_CHURN_SIZE,   ///< sizes were learned anew, or a value did not fit
} berth_churn_fault;

typedef struct berth_churn {
    uint32_t runs; ///< of the window under way
    uint32_t bucket_faults;
    uint32_t size_faults;
    double planned_bytes; ///< sums over the window's replays
    double needed_bytes;
    uint32_t bad_windows;    ///< in a row
    uint32_t bucket_windows; ///< of these, for want of plans for buckets
    uint64_t resume_at;      ///< planning is tried again at this run; 0: it has not ended
    uint64_t pause;          ///< runs from the end of planning to the next try
} berth_churn;

/// Counts a run. `formless` tells whether some size follows no form, without being expected to.
/// Returns true if planning is to end. It is bad if 7 of 8 runs are at fault, or if formless sizes
/// make plans hold more than twice what their runs need.
bool berth_churn_count(berth_churn* self,
                       berth_churn_fault fault,
                       uint64_t planned_bytes,
                       uint64_t needed_bytes,
                       bool formless);

/// True if most bad windows were for want of plans for buckets.
static inline bool berth_churn_is_of_buckets(const berth_churn* self) {
    return self->bucket_windows * 2 > self->bad_windows;
}

/// Planning ends at run `now`: begins a pause, 4 times as long as the one before.
void berth_churn_pause(berth_churn* self, uint64_t now);

/// True if the pause is over at run `now`; counting then begins anew.
bool berth_churn_try_resume(berth_churn* self, uint64_t now);

#endif // BERTH_PLAN_CHURN_H
