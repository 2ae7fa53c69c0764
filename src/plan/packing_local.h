// SPDX-License-Identifier: Apache-2.0
// The local search for packings of parts that are not plain.
#ifndef BERTH_PLAN_PACKING_LOCAL_H
#define BERTH_PLAN_PACKING_LOCAL_H

#include "plan/packing_internal.h"

/// Improves `self->best` until the peak is `self->enough`, the budget is over, or no memory is
/// left. A part of too many neighbours stays as it is.
void berth_packer_search_local(berth_packer* self, berth_packing_budget* budget);

#endif // BERTH_PLAN_PACKING_LOCAL_H
