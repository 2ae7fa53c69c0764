// SPDX-License-Identifier: Apache-2.0
// The inside of a pool, shared by its files. A pool's memory lies in regions of reserved addresses
// cut into extents; small blocks come from slabs, which are extents too. So there is no wall
// between sizes: what one kind gives back, any other can take.
//
// The lock is never held while granules are mapped, unmapped or moved: what is under way is BUSY,
// which nobody else touches. So the store may ask this very pool to give memory back while it waits
// for some.
//
// The guard comes before the lock. Its holder alone takes, gives, touches the front, drains the
// ring of remote releases, changes the counts of blocks, and adds slabs; so it may read records of
// slabs that its blocks lie in without the lock.
#ifndef BERTH_MEMORY_POOL_INTERNAL_H
#define BERTH_MEMORY_POOL_INTERNAL_H

#include "base/error.h"
#include "base/thread.h"
#include "memory/extents.h"
#include "memory/ladder.h"
#include "memory/pool.h"
#include "memory/pool_front.h"
#include "memory/pool_remote.h"
#include "memory/pool_watch.h"
#include "memory/sites.h"
#include "memory/slabs.h"

/// Reserved addresses; `space` is NULL in a list entry that can be used again.
typedef struct berth_pool_region {
    berth_space* space;
    berth_extent_id first; ///< the extent at its start
} berth_pool_region;

BERTH_VEC_DEFINE(berth_pool_region_vec, berth_pool_region);

/// Free memory that ends, or begins, at a border of granules within a FREE extent.
typedef struct berth_edge {
    berth_extent_id id;
    uint64_t border; ///< address
    uint64_t bytes;
} berth_edge;

BERTH_VEC_DEFINE(berth_edge_vec, berth_edge);

struct berth_pool {
    berth_mutex* lock; ///< &mutex; a pointer so that queries can take it through a const pool
    berth_mutex mutex;
    const berth_host* host;
    berth_account account; ///< of its granules
    berth_stream* stream;
    berth_pool_guard guard;
    uint64_t granule_bytes;
    uint64_t capacity_bytes; ///< the store's
    bool is_async;
    bool can_remap;
    bool has_bypass;
    bool returns_at_once;
    bool is_promised;       ///< since the last end of a step takes drew on a reservation
    uint64_t spare_bytes;   ///< idle granules, if promised, that no promise counts on
    uint64_t pending_bytes; ///< idle granules that could not be given back when that was last tried
    berth_pool_bypass bypass;
    berth_reclaimer reclaimer;
    berth_reclaimer flusher; ///< of the front
    berth_reclaimer waiter;  ///< the same after the stream's work, on asynchronous devices

    berth_extents extents;
    berth_slabs slabs;
    berth_pool_region_vec regions;
    uint64_t visit; ///< numbers the walks of berth_pool_release_pages

    uint64_t mapped_bytes;
    uint64_t recent_peak_bytes; ///< in USED extents, since the last sample
    uint64_t maps;              ///< takes that mapped something
    uint64_t remapped_bytes;    ///< that have been carried

    // Written by the guard's holder, read by anyone.
    _Atomic uint64_t requested_bytes;
    _Atomic uint64_t peak_requested_bytes;
    _Atomic uint64_t takes;
    _Atomic uint64_t gives;

    berth_front front;
    berth_remote remote;

    berth_sites sites;
    uint64_t steps;          ///< ends of steps
    uint64_t review_takes;   ///< takes when lifetimes were looked at last
    size_t reviewed;         ///< the extent looked at last
    uint64_t window_start;   ///< takes when the present window began
    uint64_t largest_now;    ///< request for an extent in the present window of takes
    uint64_t largest_before; ///< in the one before it
    bool is_cautious;        ///< fragmentation is forecast
    bool may_move;           ///< takes may move blocks whose owners let them
    bool may_wait;           ///< for the stream, before granules get other addresses
    berth_edge_vec tails;    ///< for joining; they end at borders
    berth_edge_vec heads;    ///< they begin at borders

    berth_pool_asked asked;
    berth_pool_watch* watch; ///< NULL: nobody looks
};

// A block's handle is 0 (it has no bytes), a slab's slot shifted left with the lowest bit set, or
// an extent's id shifted left.
static inline bool berth_pool_is_slot(uint64_t handle) { return (handle & 1u) != 0; }

static inline void* berth_pool_address(uint64_t start) { return (void*)(uintptr_t)start; }

/// A block gets whole granules where that wastes at most 1/16 of it.
#define BERTH_POOL_LARGE_WASTE_SHARE 16u

/// Rounds the size of a block in an extent of its own; returns the multiple at which it begins.
static inline uint64_t berth_pool_shape(const berth_pool* pool, uint64_t* size) {
    const uint64_t granule = pool->granule_bytes;
    const uint64_t bytes = (*size + BERTH_ALIGNMENT - 1) & ~(uint64_t)(BERTH_ALIGNMENT - 1);
    const uint64_t whole = (bytes + granule - 1) & ~(granule - 1);
    const bool is_large = whole - bytes <= bytes / BERTH_POOL_LARGE_WASTE_SHARE;
    *size = is_large ? whole : bytes;
    return is_large ? granule : BERTH_ALIGNMENT;
}

/// Adds to a count that the guard's holder alone writes.
static inline void berth_pool_count(_Atomic uint64_t* count, uint64_t change) {
    const uint64_t now = atomic_load_explicit(count, memory_order_relaxed) + change;
    atomic_store_explicit(count, now, memory_order_relaxed);
}

/// Blocks have come back. The guard's holder.
static inline void berth_pool_count_gives(berth_pool* pool, uint64_t blocks, uint64_t bytes) {
    BERTH_CHECK(1, pool->requested_bytes >= bytes);
    berth_pool_count(&pool->gives, blocks);
    berth_pool_count(&pool->requested_bytes, 0 - bytes);
}

/// Becomes the guard's holder, for a short while; false if there is one.
static inline bool berth_pool_try_enter(const berth_pool* pool) {
    return pool->guard.try_lock == NULL || pool->guard.try_lock(pool->guard.self);
}
static inline void berth_pool_leave(const berth_pool* pool) {
    if (pool->guard.unlock != NULL) pool->guard.unlock(pool->guard.self);
}

/// Gives memory back to the system. Nobody else keeps the order of the stream for it.
void berth_pool_give_bypass(const berth_pool* pool, const berth_block* block);

// All below: the lock is held before and after; functions marked "unlocks" let go of it in between.

/// Marks memory as out of bounds for sanitizers, where no enqueued work can still come to it.
void berth_pool_poison(const berth_pool* pool, uint64_t start, uint64_t size);
/// Puts back what only waits to be used again: if the caller holds the guard, that of the front and
/// the ring, too.
void berth_pool_put_in_order(berth_pool* pool, bool is_holder);
/// Makes `id` FREE (poisoned where sanitizers look) and joins it with its neighbours.
berth_extent_id berth_pool_free_extent(berth_pool* pool, berth_extent_id id, uint64_t ticket);

/// An extent has come to another place: if that is the begin of its region, it is the first one.
static inline void berth_pool_note_first(berth_pool* pool, berth_extent_id id) {
    const berth_extent* extent = berth_extents_at(&pool->extents, id);
    if (extent->before == 0) pool->regions.items[extent->region].first = id;
}

/// Puts a block's memory back among what is free, past the front. Its bytes are counted elsewhere.
void berth_pool_return_block(berth_pool* pool, const berth_block* block);
/// True if the books are right but for the front, which is its holder's.
bool berth_pool_are_books_right(const berth_pool* pool);

// pool_front.c, for the guard's holder:

/// Gives a block to the front; false if that has no room for it. Nothing is counted, and the lock
/// is not needed.
bool berth_pool_give_to_front(berth_pool* pool, const berth_block* block);
/// Fills the empty magazine of a class with free slots, up to the half.
void berth_pool_refill(berth_pool* pool, uint32_t size_class);
/// Empties the older half of a class's magazine.
void berth_pool_make_room_for_slot(berth_pool* pool, uint32_t size_class);
/// Gives the front's extents back.
void berth_pool_flush_front_extents(berth_pool* pool);
/// Gives everything in the front back; false if there was nothing.
bool berth_pool_empty_front(berth_pool* pool);
bool berth_pool_is_front_valid(const berth_pool* pool);

// pool_remote.c, for the guard's holder:

/// Takes over what other threads have given back; false if no block of it is in its place yet.
bool berth_pool_take_over_remote(berth_pool* pool);
/// The same where there mostly is nothing.
static inline bool berth_pool_drain_remote(berth_pool* pool) {
    return !berth_remote_is_empty(&pool->remote) && berth_pool_take_over_remote(pool);
}

// pool_place.c

/// An extent of `size` bytes at a multiple of `alignment`, USED, for a block or a slab of
/// `lifetime`; `site` is for the watch. Unlocks.
BERTH_NODISCARD berth_status berth_pool_take_extent(berth_pool* pool,
                                                    uint64_t site,
                                                    uint64_t size,
                                                    uint64_t alignment,
                                                    berth_lifetime lifetime,
                                                    berth_reservation* reservation,
                                                    berth_extent_id* out_id);
/// What is known of a block that is to be taken.
typedef struct berth_life {
    uint32_t site;            ///< its site's number; 0: none
    berth_lifetime predicted; ///< unknown if nothing is
    berth_lifetime believed;  ///< for placing it; unknown only where nobody has asked yet
} berth_life;

/// A block with an extent of its own; what is believed of it is looked up if `life` does not say.
/// Unlocks.
BERTH_NODISCARD berth_status berth_pool_take_large(berth_pool* pool,
                                                   const berth_pool_request* request,
                                                   const berth_life* life,
                                                   berth_block* out_block);

// pool_lives.c

/// What is believed of a block that a request of `site` is to be given. Looks now and then at
/// blocks that live longer than was believed.
berth_life berth_pool_expect_life(berth_pool* pool, uint64_t site);
/// The same for a block from the front: the lock is not held, and not waited for.
berth_life berth_pool_expect_life_in_front(berth_pool* pool, uint64_t site);
/// Notes in the extent of a new block, and in the block, what will be learned from. Needs no lock.
void berth_pool_begin_life(berth_pool* pool,
                           berth_extent* extent,
                           const berth_life* life,
                           berth_block* block);
/// What is known of the block on extent `from`, which has moved, is known of extent `to`.
void berth_pool_move_life(berth_pool* pool, berth_extent_id from, berth_extent_id to);
/// The block has come back: lets its site learn from it. Needs no lock.
void berth_pool_end_life(berth_pool* pool, berth_extent* extent);
/// The same for a block that may have no extent of its own.
static inline void berth_pool_end_life_of(berth_pool* pool, const berth_block* block) {
    if (!berth_pool_is_slot(block->handle) && block->handle != 0)
        berth_pool_end_life(
            pool, berth_extents_at(&pool->extents, (berth_extent_id)(block->handle >> 1)));
}
/// A block has come back to the guard's holder: counts it, and lets its site learn. Needs no lock.
static inline void berth_pool_count_give(berth_pool* pool, const berth_block* block) {
    berth_pool_count_gives(pool, 1, block->size_bytes);
    berth_pool_end_life_of(pool, block);
}

// pool_watch.c

/// Where a pool stands before it looks for an extent.
typedef struct berth_pool_footing {
    uint64_t free_bytes;
    uint64_t shifted_bytes; ///< moved or reclaimed
    uint64_t maps;
} berth_pool_footing;

/// Bytes moved or reclaimed for requests.
static inline uint64_t berth_pool_query_shifted(const berth_pool* pool) {
    return pool->asked.moved_bytes + pool->asked.reclaimed_bytes;
}
static inline berth_pool_footing berth_pool_stand(const berth_pool* pool) {
    return (berth_pool_footing){.free_bytes = pool->extents.bytes[BERTH_EXTENT_FREE],
                                .shifted_bytes = berth_pool_query_shifted(pool),
                                .maps = pool->maps};
}
/// Notes how a request for an extent of `size` bytes ended that began with `before`.
void berth_pool_note_asked(berth_pool* pool,
                           const berth_pool_footing* before,
                           uint64_t site,
                           uint64_t size,
                           berth_status status);

// pool_small.c

/// A block in a slab. Unlocks.
BERTH_NODISCARD berth_status berth_pool_take_small(berth_pool* pool,
                                                   const berth_pool_request* request,
                                                   berth_block* out_block);
/// Gives a used slot, which no sanitizer lets anybody touch any more, back to its slab.
void berth_pool_return_slot(berth_pool* pool, uint64_t handle);
/// Turns an empty slab back into a free extent.
void berth_pool_drop_slab(berth_pool* pool, berth_slab_id id);
/// Turns all empty slabs back into free extents.
void berth_pool_flush_slabs(berth_pool* pool);

// pool_pages.c

/// An extent that is to be made by mapping what is missing.
typedef struct berth_pool_growth {
    uint64_t size;
    uint64_t alignment; ///< at most a granule
    berth_lifetime lifetime;
    bool extends; ///< what is free beside a hole of the addresses may be a part of it
    berth_reservation* reservation;
} berth_pool_growth;

/// `*out_id` is exactly what is asked for, USED. Unlocks.
BERTH_NODISCARD berth_status berth_pool_grow(berth_pool* pool,
                                             const berth_pool_growth* wanted,
                                             berth_extent_id* out_id);
/// A stretch of a HOLE between FREE extents, or beside one.
typedef struct berth_pool_gap {
    berth_extent_id lower; ///< ends where it begins; 0: none
    berth_extent_id upper; ///< begins where it ends; 0: none
    uint64_t start;
    uint64_t size;
} berth_pool_gap;

/// As grow, for a block that begins with `lower`, or the gap, and reaches over all of the gap.
BERTH_NODISCARD berth_status berth_pool_fill_gap(berth_pool* pool,
                                                 const berth_pool_gap* gap,
                                                 uint64_t size,
                                                 berth_lifetime lifetime,
                                                 berth_extent_id* out_id);
/// Reserves addresses for at least `need` bytes, generously if the system lets us. Needs a spare
/// record.
BERTH_NODISCARD berth_status berth_pool_add_region(berth_pool* pool, uint64_t need);
/// Gives granules back to the store until FREE extents hold `keep_bytes` or `limit_bytes` are given
/// back; returns the bytes. Unlocks.
uint64_t berth_pool_release_pages(berth_pool* pool,
                                  uint64_t keep_bytes,
                                  uint64_t limit_bytes,
                                  bool may_block);
/// Releases the address ranges that hold nothing, but for one if `keep_one`.
void berth_pool_release_regions(berth_pool* pool, bool keep_one);

// pool_keep.c

/// Notes that a take is about to draw on `reservation` (may be NULL). The promise counts on what it
/// has mapped: until the step's end nothing goes back at once then, and otherwise no more than was
/// idle before or has been mapped beyond the promise.
void berth_pool_note_promise(berth_pool* pool, const berth_reservation* reservation);
/// Gives idle granules back if the pool is one that does so at once and they have become many,
/// beside what is in use and what could not be given back the last time. Unlocks.
void berth_pool_return_excess(berth_pool* pool);

#endif // BERTH_MEMORY_POOL_INTERNAL_H
