// SPDX-License-Identifier: Apache-2.0
// Brings together free memory that blocks leave in granules which they share: the end of one run
// and the begin of another are carried next to each other. Nothing is copied to place a block so,
// and less than half a granule to gain a whole one. Called by the holder of the pool's guard.
#ifndef BERTH_MEMORY_POOL_JOIN_H
#define BERTH_MEMORY_POOL_JOIN_H

#include "memory/pool_carry.h"

/// Finds a place for a block of `size` bytes that neither what is mapped nor what can be mapped has
/// room for: between two runs that come together around whole granules. `*out_id` is exactly that,
/// USED and takes at most `room_bytes` of granules that lie free or are mapped for it; 0 where
/// there is none. The lock is held before and after. Unlocks.
BERTH_NODISCARD berth_status berth_pool_join(berth_pool* pool,
                                             uint64_t size,
                                             uint64_t room_bytes,
                                             berth_lifetime lifetime,
                                             berth_extent_id* out_id);

/// Frees a granule by laying the end of one run and the begin of another into one, if that copies
/// at most `limit_bytes`; adds what it moves to `*count`. False if there are no two that fit.
bool berth_pool_merge(berth_pool* pool, uint64_t limit_bytes, berth_move_count* count);

#endif // BERTH_MEMORY_POOL_JOIN_H
