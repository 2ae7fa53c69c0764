// SPDX-License-Identifier: Apache-2.0
// Carries neighbouring blocks of a pool to other addresses, equally far from a border of granules:
// whole granules are remapped, only what lies in a granule with others is copied. So blocks come
// next to free memory that fits with theirs, at a price that does not depend on their size. All
// calls are made by the holder of the pool's guard, on a pool that can remap; the lock is held
// before and after.
#ifndef BERTH_MEMORY_POOL_CARRY_H
#define BERTH_MEMORY_POOL_CARRY_H

#include "memory/pool_internal.h"
#include "memory/pool_move.h"

/// What is to be carried: [start, start + size), USED and FREE extents; a USED one is in it whole.
typedef struct berth_run {
    berth_extent_id first; ///< covers `start`
    uint64_t start;
    uint64_t size;
} berth_run;

/// Finds the shortest run that ends with the lower part of the FREE extent `id`, up to the border
/// `end`, and begins at a border. False if it is too long, or something in it cannot move.
bool berth_run_find_below(const berth_pool* pool,
                          berth_extent_id id,
                          uint64_t end,
                          berth_run* out_run);
/// The same for what begins with the upper part of `id`, from the border `start` on.
bool berth_run_find_above(const berth_pool* pool,
                          berth_extent_id id,
                          uint64_t start,
                          berth_run* out_run);

/// Carries a run to `target`. Its whole granules go to addresses of the HOLE `hole`, what it has of
/// others into FREE memory that touches these; if it has no whole granule, all of it goes into the
/// FREE extent `hole`. True: `run` says where it is; a FREE extent at either end has joined what it
/// touches, and `first` covers the start. False if an owner or the device refuses, or work is
/// pending that may touch it: nothing has changed, but ids of FREE extents. Unlocks.
bool berth_pool_carry(berth_pool* pool,
                      berth_run* run,
                      uint64_t target,
                      berth_extent_id hole,
                      berth_move_count* count);

/// The extent that ends a run.
berth_extent_id berth_run_query_last(const berth_pool* pool, const berth_run* run);

#endif // BERTH_MEMORY_POOL_CARRY_H
