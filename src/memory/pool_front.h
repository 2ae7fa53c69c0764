// SPDX-License-Identifier: Apache-2.0
// The front of a pool: slots of slabs made ready, and extents given back a moment ago. Takes and
// gives that it can serve need no lock and no locked instruction.
//
// F1: only the holder of the pool's guard touches it; others read its sums.
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
    berth_front_slot* slots; ///< [capacity], the bottom first; NULL before the first use
    uint32_t capacity;       ///< 0: the class has none yet
    uint32_t count;
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
    berth_magazine magazines[BERTH_SLAB_CLASSES];
    uint64_t largest_bytes;        ///< larger extents are not kept
    uint64_t limit_bytes;          ///< of all extents here, and once more of all slots
    _Atomic uint64_t extent_bytes; ///< in extents now
    _Atomic uint64_t slot_bytes;   ///< in slots now
    uint32_t filled;               ///< a bit for each chain that may have an entry
    uint16_t unused;               ///< a chain of entries that hold nothing
    uint16_t chains[BERTH_FRONT_CHAINS];
    berth_front_extent extents[BERTH_FRONT_EXTENTS + 1]; ///< number 0 is none
} berth_front;

/// An empty front for a pool of `capacity_bytes`. Zeroed it is a front that keeps nothing.
void berth_front_init(berth_front* front, uint64_t granule_bytes, uint64_t capacity_bytes);
/// It holds nothing.
void berth_front_fini(berth_front* front, const berth_host* host);

/// Bytes of memory in the front. Any thread.
static inline uint64_t berth_front_query_bytes(const berth_front* front) {
    return atomic_load_explicit(&front->extent_bytes, memory_order_relaxed) +
           atomic_load_explicit(&front->slot_bytes, memory_order_relaxed);
}

/// Changes a sum that others read.
static inline void berth_front_add(_Atomic uint64_t* sum, uint64_t change) {
    const uint64_t bytes = atomic_load_explicit(sum, memory_order_relaxed);
    atomic_store_explicit(sum, bytes + change, memory_order_relaxed);
}

/// Takes a slot of the class, of `bytes`; false if there is none.
static inline bool berth_front_take_slot(berth_front* front,
                                         uint32_t size_class,
                                         uint64_t bytes,
                                         berth_front_slot* out_slot) {
    berth_magazine* magazine = &front->magazines[size_class];
    if (magazine->count == 0) return false;
    *out_slot = magazine->slots[--magazine->count];
    berth_front_add(&front->slot_bytes, 0 - bytes);
    return true;
}

/// Keeps a slot of the class, of `bytes`; false if there is no room.
static inline bool berth_front_give_slot(berth_front* front,
                                         uint32_t size_class,
                                         uint64_t bytes,
                                         berth_front_slot slot) {
    berth_magazine* magazine = &front->magazines[size_class];
    const uint64_t held = atomic_load_explicit(&front->slot_bytes, memory_order_relaxed);
    if (magazine->count >= magazine->capacity || held + bytes > front->limit_bytes) return false;
    magazine->slots[magazine->count++] = slot;
    atomic_store_explicit(&front->slot_bytes, held + bytes, memory_order_relaxed);
    return true;
}

/// The chain of extents of `bytes` bytes.
static inline uint32_t berth_front_chain_of(uint64_t bytes) {
    const uint64_t mixed = (bytes / BERTH_ALIGNMENT) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(mixed >> 59);
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
    uint16_t* link = &front->chains[berth_front_chain_of(bytes)];
    while (*link != 0 && !berth_front_is_like(&front->extents[*link], bytes, lifetime))
        link = &front->extents[*link].next;
    const uint16_t number = *link;
    if (number == 0) return false;
    *out_extent = front->extents[number];
    *link = out_extent->next;
    front->extents[number].next = front->unused;
    front->unused = number;
    berth_front_add(&front->extent_bytes, 0 - bytes);
    return true;
}

/// Keeps an extent; false if it does not fit any more.
static inline bool berth_front_give_extent(berth_front* front, const berth_front_extent* extent) {
    const uint16_t number = front->unused;
    const uint64_t held = atomic_load_explicit(&front->extent_bytes, memory_order_relaxed);
    if (number == 0 || held + extent->bytes > front->limit_bytes) return false;
    const uint32_t chain = berth_front_chain_of(extent->bytes);
    uint16_t* head = &front->chains[chain];
    front->filled |= UINT32_C(1) << chain;
    front->unused = front->extents[number].next;
    front->extents[number] = *extent;
    front->extents[number].next = *head;
    *head = number;
    berth_front_add(&front->extent_bytes, extent->bytes);
    return true;
}

#endif // BERTH_MEMORY_POOL_FRONT_H
