// SPDX-License-Identifier: Apache-2.0
// The improver: one thread in the background of a runtime that searches for better packings of the
// plans that are used most.
//
// I1: a step never waits for the improver. They share no lock: one problem at a time lies on a desk
//     that passes from hand to hand by one atomic state, and an outcome waits in its step's tray.
// I2: offering a plan allocates nothing (but the thread itself, at the first); the improver makes
//     the room that a problem needs.
// I3: what it hands out is verified.
//
// A step offers the plan of a run that ends: its worth is uses x bytes above the lower bound. The
// improver listens for a while, then takes the first offer that is about as good as the best heard.
// A plan that gets no other offer of its step until its outcome was taken is not offered twice.
#ifndef BERTH_PLAN_IMPROVER_H
#define BERTH_PLAN_IMPROVER_H

#include <stdatomic.h>

#include "base/host.h"
#include "berth/pack.h"
#include "plan/plan.h"

/// Shapes at which a new packing is compared with the old one, at most.
#define BERTH_IMPROVER_ROWS 8u

/// What a search came to. One block.
typedef struct berth_improvement {
    berth_plan_ticket plan;
    berth_relation* relation;   ///< a better one; NULL: none was found
    uint64_t peak_bytes;        ///< its frame at the corner
    uint64_t lower_bound_bytes; ///< of any frame there: may be more than was known
    uint64_t cpu_ns;            ///< spent
} berth_improvement;

/// Accepts NULL.
void berth_improvement_destroy(berth_improvement* improvement, const berth_host* host);

/// Where a step's outcome waits. A zeroed struct is empty; it outlives the improver.
typedef struct berth_improver_tray {
    _Atomic(berth_improvement*) outcome;
    bool is_waiting; ///< a problem was handed in; guarded by the step's own lock
} berth_improver_tray;

/// A problem on the desk. Who holds the desk fills the arrays; the rest as the offer said.
typedef struct berth_improver_desk {
    _Atomic(berth_improver_tray*) tray; ///< of the step whose problem it is
    berth_plan_ticket plan;
    uint32_t effort; ///< times the budget
    uint32_t value_count;
    uint32_t row_count;
    uint64_t lower_bound_bytes;
    berth_interval* intervals;                 ///< [value_count] of the frame, at the corner
    uint64_t* rows;                            ///< [row_count][value_count] sizes at some shapes
    uint64_t frame_bytes[BERTH_IMPROVER_ROWS]; ///< of the plan at these shapes
    uint64_t* offsets;                         ///< scratch, [value_count]
    uint64_t* tops;                            ///< scratch, [value_count]
} berth_improver_desk;

typedef struct berth_improver berth_improver;

/// `budget_ns` is the CPU time that one search may take, > 0.
/// Errors: BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status berth_improver_create(const berth_host* host,
                                                   uint64_t budget_ns,
                                                   berth_improver** out_improver);
/// Ends a search under way, within milliseconds of its thread's time. Accepts NULL. No step offers
/// any more.
void berth_improver_destroy(berth_improver* improver);

/// From now on nobody works but who calls berth_improver_work: for tests. Before the first offer.
void berth_improver_hold(berth_improver* improver);

/// Offers a plan of `value_count` values that is worth `worth`. Gives the desk if the problem is
/// wanted now: the caller fills it and hands it in. NULL: not now.
/// Threads: any; one at a time for one tray, whose is_waiting is false.
/// Cost:    a few atomic operations; once, the start of the thread.
berth_improver_desk* berth_improver_offer(berth_improver* improver,
                                          berth_improver_tray* tray,
                                          uint64_t worth,
                                          uint32_t value_count);
/// Hands the desk in: filled, the tray is then waiting, or not wanted after all.
void berth_improver_hand_in(berth_improver* improver, berth_improver_desk* desk, bool is_filled);

/// What has come out for `tray`, now the caller's; NULL: nothing yet.
static inline berth_improvement* berth_improver_collect(berth_improver_tray* tray) {
    if (atomic_load_explicit(&tray->outcome, memory_order_relaxed) == NULL) return NULL;
    tray->is_waiting = false;
    return atomic_exchange_explicit(&tray->outcome, NULL, memory_order_acquire);
}

/// Does what the thread would do next; false: there is nothing to do. One caller at a time.
bool berth_improver_work(berth_improver* improver);

/// Waits until the thread has nothing to do.
void berth_improver_wait(berth_improver* improver);

#endif // BERTH_PLAN_IMPROVER_H
