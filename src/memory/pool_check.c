// SPDX-License-Identifier: Apache-2.0
// Walks a pool's whole structure, for assertions and tests.
#include "memory/pool_internal.h"

/// Every slab stands on a USED extent of its own size and place.
static bool are_slabs_placed(const berth_pool* pool) {
    for (size_t i = 1; i < pool->slabs.records.count; i++) {
        const berth_slab* slab = &pool->slabs.records.items[i];
        if (slab->extent == 0) continue;
        const berth_extent* extent = berth_extents_at(&pool->extents, slab->extent);
        if (extent->state != BERTH_EXTENT_USED || extent->start != slab->start) return false;
        const uint64_t bytes = pool->slabs.classes[slab->size_class].slab_bytes;
        if (extent->size < bytes) return false;
        if (slab->start / pool->granule_bytes != (slab->start + bytes - 1) / pool->granule_bytes)
            return false;
    }
    return true;
}

/// Regions are covered from their first address to their last one.
static bool are_regions_covered(const berth_pool* pool) {
    for (size_t i = 0; i < pool->regions.count; i++) {
        const berth_pool_region* region = &pool->regions.items[i];
        if (region->space == NULL) continue;
        uint64_t at = (uint64_t)(uintptr_t)region->space->base;
        const uint64_t end = at + region->space->size_bytes;
        for (berth_extent_id id = region->first; id != 0;) {
            const berth_extent* extent = berth_extents_at(&pool->extents, id);
            if (extent->start != at || extent->region != i) return false;
            at += extent->size;
            id = extent->after;
        }
        if (at != end) return false;
    }
    return true;
}

bool berth_pool_are_books_right(const berth_pool* pool) {
    const uint64_t* bytes = pool->extents.bytes;
    const uint64_t sure = bytes[BERTH_EXTENT_FREE] + bytes[BERTH_EXTENT_USED];
    return berth_extents_are_valid(&pool->extents) && are_slabs_placed(pool) &&
           are_regions_covered(pool) && berth_slabs_are_valid(&pool->slabs) &&
           pool->slabs.slab_bytes <= bytes[BERTH_EXTENT_USED] && sure <= pool->mapped_bytes &&
           pool->mapped_bytes <= sure + bytes[BERTH_EXTENT_BUSY] &&
           (pool->has_bypass ||
            pool->requested_bytes - pool->remote.settled_bytes <= bytes[BERTH_EXTENT_USED]);
}

bool berth_pool_is_valid(const berth_pool* pool) {
    berth_mutex_lock(pool->lock);
    const bool valid = berth_pool_are_books_right(pool) && berth_pool_is_front_valid(pool);
    berth_mutex_unlock(pool->lock);
    return valid;
}
