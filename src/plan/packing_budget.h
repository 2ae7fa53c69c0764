// SPDX-License-Identifier: Apache-2.0
// What a search for better packings may spend: CPU time, steps, and the caller's patience.
#ifndef BERTH_PLAN_PACKING_BUDGET_H
#define BERTH_PLAN_PACKING_BUDGET_H

#include "berth/pack.h"

/// Spent by one thread.
typedef struct berth_packing_budget {
    const berth_pack_options* options;
    uint64_t begin_ns;  ///< CPU time of the thread at the start
    uint64_t cpu_ns;    ///< spent at the last look
    uint64_t steps;     ///< spent
    uint64_t end_ns;    ///< CPU time at which it is over; 0: none
    uint64_t end_steps; ///< steps at which it is over; 0: none
    uint64_t next_look;
    uint64_t next_report_ns;
    bool stopped; ///< by the caller
    bool over;
} berth_packing_budget;

/// `options` is borrowed; NULL, or without a budget, it is over at once.
void berth_packing_budget_init(berth_packing_budget* self, const berth_pack_options* options);

/// Looks at the clock, tells the caller how it is getting on, and sets `over`.
void berth_packing_budget_look(berth_packing_budget* self, uint64_t peak, uint64_t lower_bound);

/// Until widen, it is over when one of `shares` equal shares of what is left of it is spent.
void berth_packing_budget_narrow(berth_packing_budget* self, uint64_t shares);
void berth_packing_budget_widen(berth_packing_budget* self);

/// Spends `steps`, each about as long as placing one buffer (some hundred nanoseconds at most).
/// False once the budget is over. A look happens every few thousand steps.
static inline bool berth_packing_budget_spend(berth_packing_budget* self,
                                              uint64_t steps,
                                              uint64_t peak,
                                              uint64_t lower_bound) {
    self->steps += steps;
    if (self->steps >= self->next_look) berth_packing_budget_look(self, peak, lower_bound);
    return !self->over;
}

#endif // BERTH_PLAN_PACKING_BUDGET_H
