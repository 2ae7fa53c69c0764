// SPDX-License-Identifier: Apache-2.0
// The guests of a context. Under the lock of its home, or in a visit.
#ifndef BERTH_EXEC_GUESTS_H
#define BERTH_EXEC_GUESTS_H

#include "exec/exec_impl.h"
#include "exec/guest.h"

/// `guest`, whose ops are set, stays its owner's until it leaves.
void berth_guests_join(berth_context* context, berth_guest* guest);
void berth_guests_leave(berth_context* context, berth_guest* guest);

/// A slice of each guest's tidying; true if there is more to be done.
bool berth_guests_tidy(berth_context* context, const berth_compact_budget* slice);
/// As of berth_guest_ops, over all guests.
uint64_t berth_guests_age(berth_context* context,
                          uint64_t epoch,
                          uint64_t floor_bytes,
                          uint64_t limit_bytes,
                          bool* out_are_settled);
/// As of berth_guest_ops, over all guests.
uint64_t berth_guests_trim(berth_context* context, uint64_t keep_bytes, bool may_block);
/// As of berth_guest_ops, over all guests.
void berth_guests_add_rest(const berth_context* context, uint64_t keep_bytes, berth_rest* rest);

#endif // BERTH_EXEC_GUESTS_H
