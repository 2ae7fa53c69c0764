// SPDX-License-Identifier: Apache-2.0
// Where blocks that are too large for slabs go: an extent among what is mapped, or growth.
#include "base/checked.h"
#include "base/error.h"
#include "base/log.h"
#include "memory/pool_internal.h"

/// A remainder below 1/16 of the block, and too small for anything but a slab's work, stays with
/// the block.
#define USELESS_SHARE 16u
/// A block gets whole granules where that wastes at most 1/8 of it.
#define LARGE_WASTE_SHARE 8u

/// Multiple at which a block of `size` bytes begins; for a large one the size is rounded up too.
static uint64_t shape_block(const berth_pool* pool, uint64_t* size) {
    const uint64_t granule = pool->granule_bytes;
    const uint64_t whole = berth_round_up(*size, granule);
    if (whole - *size > *size / LARGE_WASTE_SHARE) return BERTH_ALIGNMENT;
    *size = whole;
    return granule;
}

/// Cuts a block out of the FREE extent `id`, without leaving a useless remainder.
static berth_extent_id carve(berth_pool* pool, berth_extent_id id, uint64_t start, uint64_t size) {
    const berth_extent* extent = berth_extents_at(&pool->extents, id);
    const uint64_t rest = extent->start + extent->size - start - size;
    if (rest < size / USELESS_SHARE && rest < pool->slabs.max_bytes) size += rest;
    return berth_extents_take_out(&pool->extents, id, start, size, BERTH_EXTENT_USED);
}

/// Finds a place among what is mapped; 0 if there is none. Needs two spare records.
static berth_extent_id take_mapped(berth_pool* pool, uint64_t size, uint64_t alignment) {
    uint64_t start = 0;
    berth_extent_id id = berth_extents_find(&pool->extents, false, size, alignment, &start);
    if (id == 0 && pool->slabs.empty_count > 0) {
        berth_pool_flush_slabs(pool);
        id = berth_extents_find(&pool->extents, false, size, alignment, &start);
    }
    if (id == 0) return 0;
    return carve(pool, id, start, size);
}

/// Waits for the work that keeps memory of this pool from being moved. Unlocks.
static void relieve(berth_pool* pool) {
    berth_mutex_unlock(pool->lock);
    const berth_status status = berth_stream_synchronize(pool->stream);
    if (status != BERTH_OK)
        berth_log_once(BERTH_LOG_WARN, "a stream cannot be waited for: %s", berth_last_error());
    berth_mutex_lock(pool->lock);
}

/// As berth_pool_take_extent, which notes how it ended.
static berth_status find_extent(berth_pool* pool,
                                uint64_t size,
                                uint64_t alignment,
                                berth_reservation* reservation,
                                berth_extent_id* out_id) {
    for (bool relieved = false;; relieved = true) {
        BERTH_TRY(berth_extents_prepare(&pool->extents, 2));
        *out_id = take_mapped(pool, size, alignment);
        if (*out_id != 0) return BERTH_OK;
        const berth_status status = berth_pool_grow(pool, size, alignment, reservation, out_id);
        if (status != BERTH_ERR_OUT_OF_MEMORY || relieved || size > pool->capacity_bytes ||
            !pool->is_async)
            return status;
        // Better late than not at all: what work may touch now can be moved then.
        relieve(pool);
    }
}

berth_status berth_pool_take_extent(berth_pool* pool,
                                    uint64_t size,
                                    uint64_t alignment,
                                    berth_reservation* reservation,
                                    berth_extent_id* out_id) {
    const berth_pool_footing before = berth_pool_stand(pool);
    const berth_status status = find_extent(pool, size, alignment, reservation, out_id);
    berth_pool_note_asked(pool, &before, size, status);
    return status;
}

berth_status berth_pool_take_large(berth_pool* pool,
                                   const berth_pool_request* request,
                                   berth_block* out_block) {
    uint64_t bytes = berth_round_up(request->size_bytes, BERTH_ALIGNMENT);
    const uint64_t alignment = shape_block(pool, &bytes);
    berth_extent_id id = 0;
    BERTH_TRY(berth_pool_take_extent(pool, bytes, alignment, request->reservation, &id));
    berth_extent* extent = berth_extents_at(&pool->extents, id);
    extent->movable = request->movable;
    out_block->data = berth_pool_address(extent->start);
    out_block->handle = (uint64_t)id << 1;
    return BERTH_OK;
}
