// SPDX-License-Identifier: Apache-2.0
// Islands are runs of mapped granules between holes of the addresses. Those with free memory in
// them are carried one behind the other.
#include "memory/pool_carry.h"
#include "memory/pool_slide.h"

/// An island that begins with extent `id`, and its free bytes.
static berth_run find_island(const berth_pool* pool, berth_extent_id id, uint64_t* free_bytes) {
    berth_run run = {.first = id, .start = berth_extents_at(&pool->extents, id)->start};
    *free_bytes = 0;
    for (; id != 0; id = berth_extents_at(&pool->extents, id)->after) {
        const berth_extent* extent = berth_extents_at(&pool->extents, id);
        if (extent->state == BERTH_EXTENT_HOLE) break;
        if (extent->state == BERTH_EXTENT_FREE) *free_bytes += extent->size;
        run.size += extent->size;
    }
    return run;
}

/// The first island of a region at `address` or above it; 0: none.
static berth_extent_id find_at(const berth_pool* pool, size_t region, uint64_t address) {
    if (pool->regions.items[region].space == NULL) return 0;
    berth_extent_id id = pool->regions.items[region].first;
    for (; id != 0; id = berth_extents_at(&pool->extents, id)->after) {
        const berth_extent* extent = berth_extents_at(&pool->extents, id);
        if (extent->start >= address && extent->state != BERTH_EXTENT_HOLE) return id;
    }
    return 0;
}

/// The largest HOLE; 0: none.
static berth_extent_id find_largest_hole(const berth_pool* pool) {
    berth_extent_id best = 0;
    for (size_t i = 0; i < pool->regions.count; i++) {
        if (pool->regions.items[i].space == NULL) continue;
        berth_extent_id id = pool->regions.items[i].first;
        for (; id != 0; id = berth_extents_at(&pool->extents, id)->after) {
            const berth_extent* extent = berth_extents_at(&pool->extents, id);
            if (extent->state != BERTH_EXTENT_HOLE) continue;
            if (best == 0 || extent->size > berth_extents_at(&pool->extents, best)->size) best = id;
        }
    }
    return best;
}

/// Bytes of the islands that have free memory; 0 if there are no two.
static uint64_t bytes_to_gather(const berth_pool* pool) {
    uint64_t bytes = 0, islands = 0;
    for (size_t i = 0; i < pool->regions.count; i++) {
        uint64_t address = 0;
        for (berth_extent_id id; (id = find_at(pool, i, address)) != 0;) {
            uint64_t free_bytes = 0;
            const berth_run run = find_island(pool, id, &free_bytes);
            address = run.start + run.size;
            if (free_bytes == 0) continue;
            bytes += run.size;
            islands++;
        }
    }
    return islands > 1 ? bytes : 0;
}

/// Where islands of `bytes` are gathered: the largest HOLE, after new ones have been made if need
/// be.
static berth_extent_id find_target(berth_pool* pool, uint64_t bytes) {
    const berth_extent_id id = find_largest_hole(pool);
    if (id != 0 && berth_extents_at(&pool->extents, id)->size > bytes) return id;
    // without more addresses some islands stay where they are
    if (berth_extents_prepare(&pool->extents, 1) != BERTH_OK ||
        berth_pool_add_region(pool, bytes + pool->granule_bytes) != BERTH_OK)
        return id;
    return find_largest_hole(pool);
}

/// Carries the islands of one region to the HOLE `target`, none that touches it from below; returns
/// what remains of it.
static berth_extent_id gather_region(berth_pool* pool,
                                     size_t region,
                                     berth_extent_id target,
                                     berth_move_count* count) {
    // whatever others do while one is carried, addresses tell where to go on
    uint64_t address = 0;
    for (berth_extent_id id; target != 0 && (id = find_at(pool, region, address)) != 0;) {
        uint64_t free_bytes = 0;
        berth_run run = find_island(pool, id, &free_bytes);
        address = run.start + run.size;
        const berth_extent* to = berth_extents_at(&pool->extents, target);
        if (free_bytes == 0 || to->start == address || run.size >= to->size) continue;
        if (berth_pool_carry(pool, &run, to->start, target, count)) {
            const berth_extent_id last = berth_run_query_last(pool, &run);
            target = berth_extents_at(&pool->extents, last)->after;
        } else {
            target = find_largest_hole(pool);
        }
    }
    return target;
}

void berth_pool_gather(berth_pool* pool, berth_move_count* count) {
    if (!pool->can_remap) return;
    berth_pool_flush_front(pool); // what is ready in there has an address
    berth_mutex_lock(pool->lock);
    berth_pool_put_in_order(pool, true);
    const uint64_t bytes = bytes_to_gather(pool);
    berth_extent_id target = bytes > 0 ? find_target(pool, bytes) : 0;
    for (size_t i = 0; i < pool->regions.count; i++)
        target = gather_region(pool, i, target, count);
    berth_mutex_unlock(pool->lock);
}
