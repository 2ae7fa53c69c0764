// SPDX-License-Identifier: Apache-2.0
// Books over stretches of addresses: each region is cut into extents that follow one another
// without gaps; unused ones are found by size. Metadata lives outside of the memory, no device is
// called. Not thread-safe.
//
// R1: the extents of a region cover it exactly; neighbours never both FREE, nor both HOLE.
// R2: FREE and HOLE extents, and only they, stand in the bin of their size.
// R3: a border between a HOLE and anything else is a border of granules.
// R4: a FREE extent with a whole granule inside is nobody's. Any other belongs to whoever lives
//     longest of the two neighbours, as far as they share a granule with it: the stretches between
//     short-lived blocks form segments apart from those between long-lived ones, without a border
//     that would have to be drawn or moved.
#ifndef BERTH_MEMORY_EXTENTS_H
#define BERTH_MEMORY_EXTENTS_H

#include "base/host.h"
#include "memory/movable.h"
#include "memory/sites.h"

#include <stdbool.h>

typedef enum berth_extent_state {
    BERTH_EXTENT_SPARE, ///< no extent: a record to be used
    BERTH_EXTENT_HOLE,  ///< reserved addresses, nothing mapped
    BERTH_EXTENT_FREE,  ///< mapped, in no block
    BERTH_EXTENT_USED,  ///< a block or a slab
    BERTH_EXTENT_BUSY,  ///< on its way between two states: being mapped, unmapped or moved
    BERTH_EXTENT_STATE_COUNT
} berth_extent_state;

/// Names an extent; 0 is none.
typedef uint32_t berth_extent_id;

typedef struct berth_extent {
    uint64_t start; ///< address
    uint64_t size;  ///< bytes, a multiple of BERTH_ALIGNMENT
    /// FREE: all work on these bytes is enqueued before this ticket of the pool's stream; 0 if no
    /// ticket has been issued since the last use.
    uint64_t ticket;
    berth_extent_id before, after;         ///< neighbours in the region; 0 at its ends
    berth_extent_id bin_before, bin_after; ///< in the bin, or the list of spare records
    uint32_t region;                       ///< of the pool's list
    uint32_t slab;                         ///< USED: the slab that stands on it; 0: none
    berth_movable* movable;                ///< USED: who can follow a move; NULL: nobody
    uint64_t visit;                        ///< the last walk that passed this extent over
    uint32_t site;                         ///< USED: number of the block's site; 0: none
    uint32_t born;                         ///< USED: the pool's takes before this one
    uint32_t born_step;                    ///< USED: the pool's ends of steps before it
    berth_extent_state state;
    /// USED: how long the block is believed to live; never unknown. FREE: as R4 says; unknown where
    /// it is nobody's.
    uint8_t lifetime;
    uint8_t predicted; ///< USED: what was predicted for it and has not been judged
    uint8_t learned;   ///< USED: what its site has learned from it so far
} berth_extent;

/// Records lie in chunks, each twice as long as the one before, and never move: whoever has a block
/// can reach its record while another thread adds some.
#define BERTH_EXTENT_CHUNKS 26u
#define BERTH_EXTENT_CHUNK_BIT 6u ///< the first chunk has 2^6 records

/// Sizes for which the books tell at any time how much of the free memory blocks of it can use.
typedef enum berth_placeable {
    BERTH_PLACEABLE_64K,     ///< blocks of 64 KiB
    BERTH_PLACEABLE_1M,      ///< blocks of 1 MiB
    BERTH_PLACEABLE_GRANULE, ///< blocks of one granule
    BERTH_PLACEABLE_COUNT
} berth_placeable;

#define BERTH_EXTENT_OCTAVES 40u
#define BERTH_EXTENT_STEPS 16u ///< bins an octave

/// Extents by size: bins of one 16th of an octave, with bits for those that are not empty.
typedef struct berth_extent_bins {
    uint64_t octaves;
    uint16_t steps[BERTH_EXTENT_OCTAVES];
    berth_extent_id heads[BERTH_EXTENT_OCTAVES * BERTH_EXTENT_STEPS];
} berth_extent_bins;

typedef struct berth_extents {
    const berth_host* host; ///< borrowed
    berth_extent* chunks[BERTH_EXTENT_CHUNKS];
    uint32_t record_count; ///< record 0 is never an extent
    berth_extent_id spare;
    size_t spare_count;
    berth_extent_bins free[BERTH_LIFETIME_COUNT]; ///< by R4
    berth_extent_bins holes;
    uint64_t granule_bytes;                   ///< a power of two
    uint64_t bytes[BERTH_EXTENT_STATE_COUNT]; ///< exact, by state
    uint64_t free_count;                      ///< FREE extents; exact
    /// Bytes that blocks of each size can use without a move: the sum over FREE extents of
    /// floor(bytes / size) * size, from the first multiple of the granule on where the size is
    /// whole granules (as a pool places such blocks). Exact.
    uint64_t placeable[BERTH_PLACEABLE_COUNT];
} berth_extents;

void berth_extents_init(berth_extents* extents, const berth_host* host, uint64_t granule_bytes);
void berth_extents_fini(berth_extents* extents);

/// Adds spare records until there are `count`.
BERTH_NODISCARD berth_status berth_extents_add_spare(berth_extents* extents, size_t count);
/// Makes sure that `count` records are spare. Fails only for want of host memory.
BERTH_NODISCARD static inline berth_status berth_extents_prepare(berth_extents* extents,
                                                                 size_t count) {
    return extents->spare_count >= count ? BERTH_OK : berth_extents_add_spare(extents, count);
}
/// Takes a spare record out of everybody's reach; there is one.
berth_extent_id berth_extents_hide_spare(berth_extents* extents);
/// Gives a hidden record back.
void berth_extents_return_spare(berth_extents* extents, berth_extent_id id);

/// A new region, one HOLE. Needs a spare record. The id returned names the region's first extent
/// for good.
berth_extent_id berth_extents_add_region(berth_extents* extents,
                                         uint64_t start,
                                         uint64_t size,
                                         uint32_t region);
/// Forgets a region that is one HOLE.
void berth_extents_remove_region(berth_extents* extents, berth_extent_id id);

static inline berth_extent* berth_extents_at(const berth_extents* extents, berth_extent_id id) {
    const uint32_t number = id + (1u << BERTH_EXTENT_CHUNK_BIT);
    // exclusive ors, as compilers turn these into one instruction each
    const uint32_t bit = 31u ^ (uint32_t)__builtin_clz(number);
    return &extents->chunks[bit - BERTH_EXTENT_CHUNK_BIT][number ^ 1u << bit];
}

/// Takes [start, start + size) out of the extent `id`, which covers it, and gives it `state`, USED
/// or BUSY; what remains on either side keeps the old state. `lifetime` is that of whoever will use
/// it, unknown if nobody yet. Returns the extent that is exactly the stretch. Needs a spare record
/// for each side that remains.
berth_extent_id berth_extents_take_out(berth_extents* extents,
                                       berth_extent_id id,
                                       uint64_t start,
                                       uint64_t size,
                                       berth_extent_state state,
                                       berth_lifetime lifetime);
/// Changes the state and, for FREE and HOLE, joins equal neighbours; returns the extent that now
/// contains it. `ticket` is that of a FREE one. Needs nothing.
berth_extent_id berth_extents_set(berth_extents* extents,
                                  berth_extent_id id,
                                  berth_extent_state state,
                                  uint64_t ticket);
/// Changes what is believed of a USED extent's lifetime.
void berth_extents_set_lifetime(berth_extents* extents,
                                berth_extent_id id,
                                berth_lifetime lifetime);
/// Lets the BUSY extent `id` and the USED one after it change places: the latter may be its
/// region's first one then.
void berth_extents_swap_after(berth_extents* extents, berth_extent_id id);
/// Lets the neighbours `first` to `last`, USED and BUSY ones, change places with the BUSY extent
/// `busy`, which is none of them, as long, and equally far from a border of granules. Ids stay:
/// others may be the first ones of their regions then.
void berth_extents_exchange(berth_extents* extents,
                            berth_extent_id first,
                            berth_extent_id last,
                            berth_extent_id busy);
/// Joins two BUSY neighbours, `id` and the one after it.
void berth_extents_join_after(berth_extents* extents, berth_extent_id id);

/// Finds the FREE (or, with `holes`, the HOLE) extent that fits `size` bytes at a multiple of
/// `alignment` best, and the first place in it; 0 if there is none.
berth_extent_id berth_extents_find(const berth_extents* extents,
                                   bool holes,
                                   uint64_t size,
                                   uint64_t alignment,
                                   uint64_t* out_start);
/// As find, for a FREE extent where a block of `lifetime` does little harm: best fit first in the
/// segments of blocks that live as long or longer, then among whole granules, then anywhere. So
/// a block does not keep a granule that would be free without it; a short-lived one fills holes
/// that are there anyway. 0 only if nothing fits.
berth_extent_id berth_extents_find_among_like(const berth_extents* extents,
                                              berth_lifetime lifetime,
                                              uint64_t size,
                                              uint64_t alignment,
                                              uint64_t* out_start);
/// Where in the FREE extent `id`, whose first place for the block is `first`, it lies next to its
/// like, or at least not in a granule of others.
uint64_t berth_extents_choose_end(const berth_extents* extents,
                                  berth_extent_id id,
                                  berth_lifetime lifetime,
                                  uint64_t size,
                                  uint64_t alignment,
                                  uint64_t first);
/// Walks the FREE extents of at least `min_size` bytes by bins: `id` 0 gives the first one, another
/// the next; 0 at the end. `down` goes from large to small.
berth_extent_id berth_extents_walk_free(const berth_extents* extents,
                                        berth_extent_id id,
                                        uint64_t min_size,
                                        bool down);

/// The size of the largest FREE extent; looks at all of its bin.
uint64_t berth_extents_query_largest(const berth_extents* extents);
/// An upper bound of berth_extents_query_largest, at most a 16th above it. O(1).
uint64_t berth_extents_bound_largest(const berth_extents* extents);

/// Checks R1 to R4 and the counters.
bool berth_extents_are_valid(const berth_extents* extents);

#endif // BERTH_MEMORY_EXTENTS_H
