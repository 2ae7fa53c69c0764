// SPDX-License-Identifier: Apache-2.0
// What a pool notes of the extents that it is asked for, and who looks at it now and then. Blocks
// in slabs are not seen here, only the slabs: a place for one more small block is no question of
// fragmentation.
#ifndef BERTH_MEMORY_POOL_WATCH_H
#define BERTH_MEMORY_POOL_WATCH_H

#include "memory/pool.h"

/// Classes of sizes: one below 4 KiB, then four an octave, the last one open.
#define BERTH_ASKED_CLASSES 128u
#define BERTH_ASKED_SMALLEST_BIT 12u

/// How a request for an extent ended.
typedef enum berth_pool_outcome {
    BERTH_POOL_FOUND,   ///< among what is mapped
    BERTH_POOL_GREW,    ///< granules were mapped; too little was free
    BERTH_POOL_SPREAD,  ///< granules were mapped though enough was free
    BERTH_POOL_MOVED,   ///< granules were moved, or given back and mapped anew, enough being free
    BERTH_POOL_REFUSED, ///< it failed though enough was free or could have been mapped
    BERTH_POOL_FULL,    ///< it failed, and there was not enough
    BERTH_POOL_OUTCOMES
} berth_pool_outcome;

/// All since the pool began; differences are what happened in between.
typedef struct berth_pool_asked {
    uint64_t outcomes[BERTH_POOL_OUTCOMES];
    uint64_t bytes;                       ///< of all requests
    uint64_t moved_bytes;                 ///< granules moved so that requests fit
    uint64_t reclaimed_bytes;             ///< granules that the store took back when it was short
    uint32_t counts[BERTH_ASKED_CLASSES]; ///< requests by class, modulo 2^32
} berth_pool_asked;

/// Who looks at a pool. Both functions are called under the pool's lock by whoever takes; they may
/// read the pool's inside and call nothing of it that takes the lock.
typedef struct berth_pool_watch {
    void* self;
    /// The takes from which on `sample` is called, at the next request for an extent; `sample` sets
    /// it anew.
    uint64_t next_takes;
    void (*sample)(void* self);
    /// Called for every request for an extent. `site` as in berth_pool_request; a number of their
    /// own for slabs of each class.
    void (*note)(void* self, uint64_t site, uint64_t size_bytes, berth_pool_outcome outcome);
} berth_pool_watch;

/// The class of `size` bytes, > 0.
static inline uint32_t berth_asked_class(uint64_t size) {
    const uint32_t bit = 63u - (uint32_t)__builtin_clzll(size | 1u);
    if (bit < BERTH_ASKED_SMALLEST_BIT) return 0;
    const uint32_t quarter = (uint32_t)(size >> (bit - 2)) & 3u;
    const uint32_t index = 1 + (bit - BERTH_ASKED_SMALLEST_BIT) * 4 + quarter;
    return index < BERTH_ASKED_CLASSES ? index : BERTH_ASKED_CLASSES - 1;
}
/// The least size of a class.
static inline uint64_t berth_asked_floor(uint32_t index) {
    if (index == 0) return 1;
    const uint32_t bit = BERTH_ASKED_SMALLEST_BIT + (index - 1) / 4;
    return (UINT64_C(4) + ((index - 1) & 3u)) << (bit - 2);
}

/// `watch` is borrowed until another one, or NULL, takes its place.
void berth_pool_set_watch(berth_pool* pool, berth_pool_watch* watch);

#endif // BERTH_MEMORY_POOL_WATCH_H
