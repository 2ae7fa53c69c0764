// SPDX-License-Identifier: Apache-2.0
// The search for packings that no greedy rule finds, and for proofs that there is none.
#ifndef BERTH_PLAN_PACKING_SEARCH_H
#define BERTH_PLAN_PACKING_SEARCH_H

#include "plan/packing_internal.h"

/// Improves `self->best`, and raises `self->lower_bound` where it has a proof, until the peak is
/// `self->enough` or the bound, the budget is over, or no memory is left. A problem that is not
/// plain or too large for it stays as it is.
void berth_packer_search(berth_packer* self, berth_packing_budget* budget);

#endif // BERTH_PLAN_PACKING_SEARCH_H
