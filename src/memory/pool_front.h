// SPDX-License-Identifier: Apache-2.0
// The front of a pool: slots of slabs made ready, and extents given back a moment ago. Takes and
// gives that it can serve need no lock and no locked instruction.
//
// F1: only the holder of the pool's guard touches it; others read its counts.
// F2: what it holds is USED in the books of extents and slabs, and nobody's: no movable is noted.
// F3: it holds at most a 64th of the capacity and two granules.
#ifndef BERTH_MEMORY_POOL_FRONT_H
#define BERTH_MEMORY_POOL_FRONT_H

#include "memory/extents.h"
#include "memory/pool.h"
#include "memory/sites.h"
#include "memory/slabs.h"

#include <stdatomic.h>

typedef struct berth_front_slot {
    unsigned char* data;
    uint64_t handle; ///< the block's
} berth_front_slot;

/// Ready slots of one size class, the one given back last on top.
typedef struct berth_magazine {
    berth_front_slot* slots; ///< [capacity], the bottom first
    uint32_t capacity;       ///< 0: the class has none
    _Atomic uint32_t count;
} berth_magazine;

#define BERTH_FRONT_EXTENTS 32u
#define BERTH_FRONT_CHAINS 32u ///< a power of two

typedef struct berth_front_extent {
    uint64_t bytes; ///< as a request for it is rounded
    unsigned char* data;
    berth_extent_id id;
    uint16_t next;    ///< in its chain or among the unused; 0: none
    uint8_t lifetime; ///< a berth_lifetime: what those around it are believed to have
} berth_front_extent;

typedef struct berth_front {
    berth_front_slot* slots; ///< of all magazines
    berth_magazine magazines[BERTH_SLAB_CLASSES];
    uint64_t largest_bytes;        ///< larger extents are not kept
    uint64_t limit_bytes;          ///< of all extents here
    _Atomic uint64_t extent_bytes; ///< in them now
    uint16_t unused;               ///< a chain of entries that hold nothing
    uint16_t chains[BERTH_FRONT_CHAINS];
    berth_front_extent extents[BERTH_FRONT_EXTENTS + 1]; ///< number 0 is none
} berth_front;

/// An empty front for a pool of `capacity_bytes`. Zeroed before; that is a front that keeps
/// nothing. Errors: BERTH_ERR_OUT_OF_MEMORY (host memory).
BERTH_NODISCARD berth_status berth_front_init(berth_front* front,
                                              const berth_host* host,
                                              const berth_slabs* slabs,
                                              uint64_t granule_bytes,
                                              uint64_t capacity_bytes);
/// It holds nothing.
void berth_front_fini(berth_front* front, const berth_host* host);

/// Bytes of memory in the front. Any thread.
uint64_t berth_front_query_bytes(const berth_front* front, const berth_slabs* slabs);

/// Takes a slot of the class; false if there is none.
static inline bool berth_front_take_slot(berth_front* front,
                                         uint32_t size_class,
                                         berth_front_slot* out_slot) {
    berth_magazine* magazine = &front->magazines[size_class];
    const uint32_t count = atomic_load_explicit(&magazine->count, memory_order_relaxed);
    if (count == 0) return false;
    *out_slot = magazine->slots[count - 1];
    atomic_store_explicit(&magazine->count, count - 1, memory_order_relaxed);
    return true;
}

/// Keeps a slot of the class; false if the magazine is full.
static inline bool berth_front_give_slot(berth_front* front,
                                         uint32_t size_class,
                                         berth_front_slot slot) {
    berth_magazine* magazine = &front->magazines[size_class];
    const uint32_t count = atomic_load_explicit(&magazine->count, memory_order_relaxed);
    if (count >= magazine->capacity) return false;
    magazine->slots[count] = slot;
    atomic_store_explicit(&magazine->count, count + 1, memory_order_relaxed);
    return true;
}

/// The chain of extents of `bytes` bytes.
static inline uint16_t* berth_front_chain(berth_front* front, uint64_t bytes) {
    const uint64_t mixed = (bytes / BERTH_ALIGNMENT) * UINT64_C(0x9E3779B97F4A7C15);
    return &front->chains[mixed >> 59];
}

/// Changes the sum over extents, which others read.
static inline void berth_front_add_bytes(berth_front* front, uint64_t change) {
    const uint64_t bytes = atomic_load_explicit(&front->extent_bytes, memory_order_relaxed);
    atomic_store_explicit(&front->extent_bytes, bytes + change, memory_order_relaxed);
}

static inline bool berth_front_is_like(const berth_front_extent* extent,
                                       uint64_t bytes,
                                       berth_lifetime lifetime) {
    return extent->bytes == bytes && extent->lifetime == (uint8_t)lifetime;
}

/// Takes the extent of exactly `bytes` among blocks of this lifetime that was given back last;
/// false if there is none.
static inline bool berth_front_take_extent(berth_front* front,
                                           uint64_t bytes,
                                           berth_lifetime lifetime,
                                           berth_front_extent* out_extent) {
    uint16_t* link = berth_front_chain(front, bytes);
    while (*link != 0 && !berth_front_is_like(&front->extents[*link], bytes, lifetime))
        link = &front->extents[*link].next;
    const uint16_t number = *link;
    if (number == 0) return false;
    *out_extent = front->extents[number];
    *link = out_extent->next;
    front->extents[number].next = front->unused;
    front->unused = number;
    berth_front_add_bytes(front, 0 - bytes);
    return true;
}

/// Keeps an extent; false if it does not fit any more.
static inline bool berth_front_give_extent(berth_front* front, const berth_front_extent* extent) {
    const uint16_t number = front->unused;
    const uint64_t held = atomic_load_explicit(&front->extent_bytes, memory_order_relaxed);
    if (number == 0 || held + extent->bytes > front->limit_bytes) return false;
    uint16_t* head = berth_front_chain(front, extent->bytes);
    front->unused = front->extents[number].next;
    front->extents[number] = *extent;
    front->extents[number].next = *head;
    *head = number;
    berth_front_add_bytes(front, extent->bytes);
    return true;
}

#endif // BERTH_MEMORY_POOL_FRONT_H
