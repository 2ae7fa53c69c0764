// SPDX-License-Identifier: Apache-2.0
// Small blocks: slots of slabs, which lie in extents like any other block.
#include "base/error.h"
#include "memory/pool_internal.h"

void berth_pool_drop_slab(berth_pool* pool, berth_slab_id id) {
    const berth_extent_id extent = berth_slabs_at(&pool->slabs, id)->extent;
    berth_slabs_remove(&pool->slabs, id);
    berth_pool_free_extent(pool, extent, 0);
}

void berth_pool_flush_slabs(berth_pool* pool) {
    for (uint32_t i = 0; i < BERTH_SLAB_CLASSES && pool->slabs.empty_count > 0; i++) {
        for (;;) {
            const berth_slab_id id = berth_slabs_find_empty(&pool->slabs, i);
            if (id == 0) break;
            berth_pool_drop_slab(pool, id);
        }
    }
}

/// Adds a slab of the class. Unlocks.
static berth_status add_slab(berth_pool* pool,
                             uint32_t size_class,
                             berth_reservation* reservation) {
    const uint64_t bytes = pool->slabs.classes[size_class].slab_bytes;
    berth_extent_id extent = 0;
    BERTH_TRY(berth_pool_take_extent(
        pool, size_class + 1, bytes, bytes, BERTH_LIFETIME_MEDIUM, reservation, &extent));
    const berth_status status = berth_slabs_prepare(&pool->slabs, size_class);
    if (status != BERTH_OK) {
        berth_pool_free_extent(pool, extent, 0);
        return status;
    }
    berth_extent* stretch = berth_extents_at(&pool->extents, extent);
    stretch->slab = berth_slabs_add(&pool->slabs, size_class, stretch->start, extent);
    return BERTH_OK;
}

berth_status berth_pool_take_small(berth_pool* pool,
                                   const berth_pool_request* request,
                                   berth_block* out_block) {
    const uint32_t size_class = berth_slabs_class_of(request->size_bytes);
    if (pool->slabs.classes[size_class].head == 0)
        BERTH_TRY(add_slab(pool, size_class, request->reservation));
    uint64_t slot = 0;
    out_block->data =
        berth_pool_address(berth_slabs_take(&pool->slabs, size_class, request->movable, &slot));
    out_block->handle = slot << 1 | 1u;
    berth_pool_refill(pool, size_class);
    return BERTH_OK;
}

void berth_pool_return_slot(berth_pool* pool, uint64_t handle) {
    const berth_slab_id slab = berth_slabs_give(&pool->slabs, handle >> 1);
    if (berth_slabs_is_empty(&pool->slabs, slab) && !berth_slabs_is_last(&pool->slabs, slab))
        berth_pool_drop_slab(pool, slab);
}
