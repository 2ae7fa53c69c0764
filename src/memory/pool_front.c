// SPDX-License-Identifier: Apache-2.0
// Filling and emptying a pool's front, in batches under the pool's lock.
#include "memory/pool_front.h"

#include "base/error.h"
#include "memory/pool_internal.h"

#include <string.h>

/// At most this share of the capacity, and so many granules, is in a front; slots and extents have
/// half of it each.
#define CAPACITY_SHARE 64u
#define MOST_GRANULES 2u
#define MAGAZINE_SLOTS 64u
/// An extent of more than this share of what all may have would drive out the others.
#define LARGEST_SHARE 2u

_Static_assert(BERTH_FRONT_CHAINS == 32, "a chain is chosen by the upper 5 bits of 64");

void berth_front_init(berth_front* front, uint64_t granule_bytes, uint64_t capacity_bytes) {
    uint64_t bytes = capacity_bytes / CAPACITY_SHARE;
    if (bytes > MOST_GRANULES * granule_bytes) bytes = MOST_GRANULES * granule_bytes;
    front->limit_bytes = bytes / 2;
    front->largest_bytes = front->limit_bytes / LARGEST_SHARE;
    for (uint16_t i = BERTH_FRONT_EXTENTS; i > 0; i--) {
        front->extents[i].next = front->unused;
        front->unused = i;
    }
}

void berth_front_fini(berth_front* front, const berth_host* host) {
    for (uint32_t i = 0; i < BERTH_SLAB_CLASSES; i++)
        berth_host_free(host, front->magazines[i].slots);
    *front = (berth_front){0};
}

/// Makes the magazine of a class where there is none yet. Without host memory it stays away.
static void prepare_magazine(berth_pool* pool, berth_magazine* magazine, uint64_t slot_bytes) {
    if (magazine->capacity > 0 || slot_bytes > pool->front.limit_bytes) return;
    magazine->slots = berth_host_calloc(pool->host, MAGAZINE_SLOTS, sizeof *magazine->slots);
    if (magazine->slots != NULL) magazine->capacity = MAGAZINE_SLOTS;
}

void berth_pool_refill(berth_pool* pool, uint32_t size_class) {
    berth_magazine* magazine = &pool->front.magazines[size_class];
    const berth_slab_class* geometry = &pool->slabs.classes[size_class];
    BERTH_CHECK(2, magazine->count == 0);
    prepare_magazine(pool, magazine, geometry->slot_bytes);
    const uint64_t room = (pool->front.limit_bytes - pool->front.slot_bytes) / geometry->slot_bytes;
    uint32_t most = magazine->capacity / 2;
    if (most > room) most = (uint32_t)room;
    uint32_t count = 0;
    // from the top down, so that slots leave in the order of their addresses
    while (count < most && geometry->head != 0) {
        berth_front_slot* slot = &magazine->slots[most - ++count];
        uint64_t number = 0;
        slot->data = berth_pool_address(berth_slabs_take(&pool->slabs, size_class, NULL, &number));
        slot->handle = number << 1 | 1u;
    }
    if (count == 0) return;
    memmove(magazine->slots, &magazine->slots[most - count], count * sizeof *magazine->slots);
    magazine->count = count;
    berth_front_add(&pool->front.slot_bytes, count * geometry->slot_bytes);
}

/// Gives the `count` bottom slots of a class's magazine to their slabs.
static void flush_slots(berth_pool* pool, uint32_t size_class, uint32_t count) {
    berth_magazine* magazine = &pool->front.magazines[size_class];
    if (count == 0) return;
    for (uint32_t i = 0; i < count; i++)
        berth_pool_return_slot(pool, magazine->slots[i].handle);
    magazine->count -= count;
    memmove(magazine->slots, &magazine->slots[count], magazine->count * sizeof *magazine->slots);
    berth_front_add(&pool->front.slot_bytes,
                    0 - count * pool->slabs.classes[size_class].slot_bytes);
}

static void flush_half(berth_pool* pool, uint32_t size_class) {
    const uint32_t count = pool->front.magazines[size_class].count;
    flush_slots(pool, size_class, count - count / 2);
}

void berth_pool_make_room_for_slot(berth_pool* pool, uint32_t size_class) {
    const berth_magazine* magazine = &pool->front.magazines[size_class];
    if (magazine->count == magazine->capacity) {
        flush_half(pool, size_class);
        return;
    }
    // all classes together have too many bytes
    for (uint32_t i = 0; i < BERTH_SLAB_CLASSES; i++)
        flush_half(pool, i);
}

/// Gives the extents of one chain back.
static void flush_chain(berth_pool* pool, uint16_t* head) {
    berth_front* front = &pool->front;
    while (*head != 0) {
        const uint16_t number = *head;
        berth_front_extent* extent = &front->extents[number];
        *head = extent->next;
        extent->next = front->unused;
        front->unused = number;
        berth_front_add(&front->extent_bytes, 0 - extent->bytes);
        berth_pool_free_extent(pool, extent->id, 0);
    }
}

void berth_pool_flush_front_extents(berth_pool* pool) {
    berth_front* front = &pool->front;
    for (; front->filled != 0; front->filled &= front->filled - 1)
        flush_chain(pool, &front->chains[__builtin_ctz(front->filled)]);
}

bool berth_pool_empty_front(berth_pool* pool) {
    if (berth_front_query_bytes(&pool->front) == 0) return false;
    for (uint32_t i = 0; i < BERTH_SLAB_CLASSES; i++)
        flush_slots(pool, i, pool->front.magazines[i].count);
    berth_pool_flush_front_extents(pool);
    return true;
}

void berth_pool_flush_front(berth_pool* pool) {
    berth_mutex_lock(pool->lock);
    (void)berth_pool_drain_remote(pool);
    (void)berth_pool_empty_front(pool);
    berth_mutex_unlock(pool->lock);
}

/// Every slot is used in its slab, has no movable, and is where it says.
static bool is_slot_right(const berth_pool* pool, uint32_t size_class, berth_front_slot entry) {
    const uint64_t slot = entry.handle >> 1;
    const uint32_t place = (uint32_t)(slot % BERTH_SLAB_SLOTS);
    const berth_slab* slab = berth_slabs_of(&pool->slabs, slot);
    const uint64_t start = slab->start + place * pool->slabs.classes[size_class].slot_bytes;
    return slab->extent != 0 && slab->size_class == size_class &&
           (slab->free_slots[place / 64] >> (place % 64) & 1u) == 0 &&
           slab->movables[place] == NULL && (uint64_t)(uintptr_t)entry.data == start;
}

static bool is_extent_right(const berth_pool* pool, const berth_front_extent* entry) {
    const berth_extent* extent = berth_extents_at(&pool->extents, entry->id);
    return extent->state == BERTH_EXTENT_USED && extent->movable == NULL && extent->slab == 0 &&
           extent->start == (uint64_t)(uintptr_t)entry->data && extent->size >= entry->bytes;
}

static bool are_magazines_valid(const berth_pool* pool) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < BERTH_SLAB_CLASSES; i++) {
        const berth_magazine* magazine = &pool->front.magazines[i];
        if (magazine->count > magazine->capacity) return false;
        for (uint32_t at = 0; at < magazine->count; at++)
            if (!is_slot_right(pool, i, magazine->slots[at])) return false;
        bytes += magazine->count * pool->slabs.classes[i].slot_bytes;
    }
    return bytes == pool->front.slot_bytes && bytes <= pool->front.limit_bytes;
}

bool berth_pool_is_front_valid(const berth_pool* pool) {
    const berth_front* front = &pool->front;
    uint64_t bytes = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < BERTH_FRONT_CHAINS; i++) {
        const bool is_filled = (front->filled >> i & 1u) != 0;
        for (uint32_t n = front->chains[i]; n != 0; n = front->extents[n].next, count++) {
            if (!is_filled || !is_extent_right(pool, &front->extents[n])) return false;
            bytes += front->extents[n].bytes;
        }
    }
    for (uint32_t n = front->unused; n != 0; n = front->extents[n].next)
        count++;
    return are_magazines_valid(pool) && bytes == front->extent_bytes &&
           bytes <= front->limit_bytes && (count == BERTH_FRONT_EXTENTS || pool->has_bypass);
}
