// SPDX-License-Identifier: Apache-2.0
// What the parts of the packing solver share: a problem made ready, and the rules that run on it.
//
// K1: items are sorted by start, so a part of the problem that no moment connects to the rest is a
//     stretch of them; a packer is the view of one part, with items numbered from 0.
// K2: `best` is a valid packing of `peak` bytes unless `peak` is UINT64_MAX.
// K3: no packing of the part needs less than `lower_bound`.
#ifndef BERTH_PLAN_PACKING_INTERNAL_H
#define BERTH_PLAN_PACKING_INTERNAL_H

#include "plan/packing.h"
#include "plan/packing_budget.h"
#include "plan/sort.h"

#define BERTH_PACKER_NONE UINT32_MAX

/// One part of a problem: only items that need bytes, sorted by start.
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
    uint64_t enough;     ///< a peak that need not be improved, at least lower_bound
    uint64_t reuse;      ///< reuse distance of `best`; UINT64_MAX: not known
    uint32_t most_alive; ///< largest number of items alive at one moment
    uint64_t neighbours; ///< pairs of items that are alive at one moment

    /// True: nothing but sizes and lifetimes matters. False: `align`, `given` and the partners do.
    bool plain;
    uint64_t* align;  ///< powers of two that offsets are multiples of; [count], as the next ones
    uint64_t* given;  ///< offsets that are given, or BERTH_PACK_ANYWHERE
    uint32_t* before; ///< the item whose offset it may take while that one ends, or none
    uint32_t* after;  ///< the item that may take its offset

    // Scratch.
    berth_sort_entry* entries;      ///< [2 * count]
    berth_sort_entry* entries_swap; ///< [2 * count]
    uint32_t* order;                ///< [count]
    uint32_t* swap;                 ///< [count]
    uint32_t* placed;               ///< [count] items placed so far, by offset
    bool* is_placed;                ///< [count]
    uint64_t* live_low;             ///< [count + 8] offsets of the items alive, ascending
    uint64_t* live_high;            ///< [count + 1] their ends
    uint32_t* live_item;            ///< [count + 1]
    uint32_t* gap_stamp; ///< [count + 2] when bytes of the gap below item i were released last

    /// Items alive together with item i: near[near_at[i] .. near_at[i + 1]). NULL before the first
    /// use and where they would be too many. One block, which near_at begins.
    uint32_t* near_at; ///< [count + 1]
    uint32_t* near;
} berth_packer;

// ---- packing_load.c: a problem made ready.

/// The whole problem behind its parts.
typedef struct berth_packing_load {
    berth_packer whole;
    void* block;            ///< holds all arrays of `whole`
    uint64_t raised;        ///< bytes below all items, of those that share with nobody
    uint32_t* raised_items; ///< [raised_count] indices in the caller's array, lowest first
    uint64_t* raised_sizes; ///< [raised_count]
    uint32_t raised_count;
    uint32_t* part_at; ///< [part_count + 1] first items of the parts
    uint64_t* part_peak;
    uint64_t* part_bound;
    uint32_t part_count;
} berth_packing_load;

/// Checks the problem, and loads it into `self`, which fini is due to in any case.
BERTH_NODISCARD berth_status berth_packing_load_init(berth_packing_load* self,
                                                     const berth_host* host,
                                                     const berth_pack_problem* problem);
void berth_packing_load_fini(berth_packing_load* self);

/// A view of part `part`, measured, with nothing placed. Its scratch is shared with all other
/// views, of which one is in use at a time. fini is due to it.
void berth_packer_init(berth_packer* self, const berth_packing_load* load, uint32_t part);
void berth_packer_fini(berth_packer* self);

// ---- packing.c

/// Takes the attempt in `offset` for the best, if `peak` is below that of the best so far, or equal
/// with a smaller reuse distance.
void berth_packer_keep(berth_packer* self, uint64_t peak);

/// Fills `order` with the sequence of one rule.
void berth_packer_make_sequence(berth_packer* self, berth_packing_order order);

// ---- Rules. Each places all items in `offset` and returns the peak, or UINT64_MAX once it is
// clear that it would be above `limit`.

/// packing_online.c: in order of start or, mirrored, of end. For plain problems.
uint64_t berth_packer_run_online(berth_packer* self, berth_packing_order order, uint64_t limit);

/// packing_rules.c: in the sequence of `order`. For plain problems.
uint64_t berth_packer_run_sequence(berth_packer* self, bool best_fit, uint64_t limit);

/// packing_constrained.c: in the sequence of `order`, around what is given; for all problems.
typedef struct berth_packer_constrained {
    bool by_start; ///< the sequence is that of the starts
    bool best_fit; ///< the smallest gap, not the lowest
    bool in_place; ///< partners share where they can
} berth_packer_constrained;

/// UINT64_MAX also once `budget` (may be NULL) is over: looks at the clock without spending steps.
uint64_t berth_packer_run_constrained(berth_packer* self,
                                      berth_packer_constrained rule,
                                      uint64_t limit,
                                      berth_packing_budget* budget);

/// Fills near and near_at. False without memory or if there are too many neighbours: the rules then
/// do without.
bool berth_packer_find_neighbours(berth_packer* self);

// ---- packing_reuse.c

/// The reuse distance of `offsets` (see berth_pack_result), a valid packing of `peak` bytes.
/// Uses entries, entries_swap and the live arrays. 0 without items.
uint64_t berth_packer_reuse_distance(berth_packer* self, const uint64_t* offsets, uint64_t peak);

#endif // BERTH_PLAN_PACKING_INTERNAL_H
