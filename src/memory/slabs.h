// SPDX-License-Identifier: Apache-2.0
// Books over slabs: stretches of a power of two of bytes inside one granule, each cut into slots of
// one size class. Metadata lives outside of the memory. Not thread-safe.
//
// C1: a slot has at least the bytes asked for; less than one alignment unit more up to 8 units, at
//     most an eighth more above.
// C2: a slab with a free slot stands in the list of its class, a full one does not.
#ifndef BERTH_MEMORY_SLABS_H
#define BERTH_MEMORY_SLABS_H

#include "base/host.h"
#include "base/vec.h"
#include "memory/movable.h"

#include <stdbool.h>

#define BERTH_SLAB_CLASSES 48u
#define BERTH_SLAB_SLOTS 256u ///< at most, in one slab

/// Names a slab; 0 is none.
typedef uint32_t berth_slab_id;

typedef struct berth_slab {
    uint64_t start;                             ///< address
    uint64_t free_slots[BERTH_SLAB_SLOTS / 64]; ///< a bit for each
    uint32_t free_count;
    uint32_t size_class;
    berth_movable** movables;    ///< [slot_count], of the used slots; NULL: does not move
    uint32_t extent;             ///< the pool's stretch of memory under it; 0 in spare records
    berth_slab_id before, after; ///< in the list of its class, or of spare records
} berth_slab;

BERTH_VEC_DEFINE(berth_slab_vec, berth_slab);

/// The geometry of a class and its slabs with free slots, the one used last first.
typedef struct berth_slab_class {
    uint64_t slot_bytes;
    uint64_t slab_bytes;
    uint32_t slot_count;
    uint32_t least_slots; ///< the smallest slot_count of this class and those below
    berth_slab_id head;
} berth_slab_class;

typedef struct berth_slabs {
    const berth_host* host; ///< borrowed
    berth_slab_vec records; ///< record 0 is never a slab
    berth_slab_id spare;
    berth_movable** spare_movables; ///< for the next slab; [spare_slots], or NULL
    uint32_t spare_slots;
    uint64_t max_bytes;   ///< larger requests are not for slabs
    uint64_t empty_count; ///< slabs without a used slot
    uint64_t used_bytes;  ///< in used slots
    uint64_t slab_bytes;  ///< in slabs
    berth_slab_class classes[BERTH_SLAB_CLASSES];
} berth_slabs;

void berth_slabs_init(berth_slabs* slabs, const berth_host* host, uint64_t granule_bytes);
void berth_slabs_fini(berth_slabs* slabs);

/// The class for `size` bytes, 0 < size <= max_bytes.
static inline uint32_t berth_slabs_class_of(uint64_t size) {
    if (size <= 512) return (uint32_t)((size - 1) / 64);
    const uint64_t last = size - 1;
    const uint32_t octave = 63u - (uint32_t)__builtin_clzll(last);
    return 8u + (octave - 9u) * 8u + ((uint32_t)(last >> (octave - 3u)) & 7u);
}

static inline berth_slab* berth_slabs_at(const berth_slabs* slabs, berth_slab_id id) {
    return &slabs->records.items[id];
}

/// The slab of the slot that `handle` names.
static inline berth_slab* berth_slabs_of(const berth_slabs* slabs, uint64_t handle) {
    return berth_slabs_at(slabs, (berth_slab_id)(handle / BERTH_SLAB_SLOTS));
}
/// Notes who can follow a move of a used slot (NULL: nobody).
static inline void berth_slabs_note(const berth_slabs* slabs,
                                    uint64_t handle,
                                    berth_movable* movable) {
    berth_slabs_of(slabs, handle)->movables[handle % BERTH_SLAB_SLOTS] = movable;
}

/// Makes sure that a slab of the class can be added. Fails only for want of host memory.
BERTH_NODISCARD berth_status berth_slabs_prepare(berth_slabs* slabs, uint32_t size_class);
/// Adds an empty slab over memory at `start`, for which prepare was the last call.
berth_slab_id berth_slabs_add(berth_slabs* slabs,
                              uint32_t size_class,
                              uint64_t start,
                              uint32_t extent);
/// Forgets an empty slab.
void berth_slabs_remove(berth_slabs* slabs, berth_slab_id id);

/// Takes a slot of the class's first slab for `movable` (may be NULL); there is one. Returns its
/// address.
uint64_t berth_slabs_take(berth_slabs* slabs,
                          uint32_t size_class,
                          berth_movable* movable,
                          uint64_t* out_handle);
/// As berth_slabs_take, from the slab `id`, which has a free slot.
uint64_t berth_slabs_take_from(berth_slabs* slabs,
                               berth_slab_id id,
                               berth_movable* movable,
                               uint64_t* out_handle);
/// Gives a slot back; returns its slab, which may be empty now.
berth_slab_id berth_slabs_give(berth_slabs* slabs, uint64_t handle);
/// Bytes of the slot that `handle` names.
uint64_t berth_slabs_query_slot_bytes(const berth_slabs* slabs, uint64_t handle);

/// True if the slab has no used slot.
static inline bool berth_slabs_is_empty(const berth_slabs* slabs, berth_slab_id id) {
    const berth_slab* slab = berth_slabs_at(slabs, id);
    return slab->free_count == slabs->classes[slab->size_class].slot_count;
}
/// True if the slab is the only one of its class with a free slot.
static inline bool berth_slabs_is_last(const berth_slabs* slabs, berth_slab_id id) {
    const berth_slab* slab = berth_slabs_at(slabs, id);
    return slab->before == 0 && slab->after == 0;
}
/// Some empty slab of the class, or 0.
berth_slab_id berth_slabs_find_empty(const berth_slabs* slabs, uint32_t size_class);

/// Checks C2 and the counters.
bool berth_slabs_are_valid(const berth_slabs* slabs);

#endif // BERTH_MEMORY_SLABS_H
