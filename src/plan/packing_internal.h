// SPDX-License-Identifier: Apache-2.0
// What the greedy rules of the packing portfolio share.
#ifndef BERTH_PLAN_PACKING_INTERNAL_H
#define BERTH_PLAN_PACKING_INTERNAL_H

#include "plan/packing.h"
#include "plan/sort.h"

/// A problem made ready: only items that need bytes, sorted by start. One block holds all arrays.
typedef struct berth_packer {
    const berth_host* host;
    uint32_t count;
    uint32_t* source; ///< index in the caller's array
    uint32_t* start;
    uint32_t* end;
    uint64_t* size;
    uint32_t* by_end; ///< items sorted by end
    uint64_t* offset; ///< of the attempt under way
    uint64_t* best;   ///< of the best attempt so far
    uint64_t peak;    ///< of the best attempt; UINT64_MAX before the first
    uint64_t lower_bound;
    uint32_t most_alive; ///< largest number of items alive at one moment
    uint64_t neighbours; ///< pairs of items that are alive at one moment

    // Scratch.
    berth_sort_entry* entries;      ///< [count]
    berth_sort_entry* entries_swap; ///< [count]
    uint32_t* order;                ///< [count]
    uint32_t* swap;                 ///< [count]
    uint32_t* placed;               ///< [count] items placed so far, by offset
    bool* is_placed;                ///< [count]
    uint64_t* live_low;             ///< [most_alive + 1] offsets of the items alive, ascending
    uint64_t* live_high;            ///< [most_alive + 1] their ends
    uint32_t* live_item;            ///< [most_alive + 1]
    uint32_t* gap_stamp; ///< [most_alive + 2] when bytes of the gap below item i were released last

    /// Items alive together with item i: near[near_at[i] .. near_at[i + 1]). NULL before the first
    /// use and where they would be too many. One block, which near_at begins.
    uint32_t* near_at; ///< [count + 1]
    uint32_t* near;

    uint32_t culprit; ///< position in the sequence of the item that decided the last attempt's peak
} berth_packer;

/// Runs an online rule (by start or, mirrored, by end). Returns the peak, or UINT64_MAX once it is
/// clear that it would not be below `self->peak`.
uint64_t berth_packer_run_online(berth_packer* self, berth_packing_order order);

/// Places the items in the sequence of `self->order`. Returns as above.
uint64_t berth_packer_run_sequence(berth_packer* self, bool best_fit);

/// Fills near and near_at. False without memory or if there are too many neighbours: the rules then
/// do without.
bool berth_packer_find_neighbours(berth_packer* self);

#endif // BERTH_PLAN_PACKING_INTERNAL_H
