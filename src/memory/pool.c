// SPDX-License-Identifier: Apache-2.0
// The pool's face: small blocks from slabs, all others from extents by best fit, large ones on
// whole granules. Common takes and gives are a few loads and stores under one lock.
#include "memory/pool.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/log.h"
#include "base/numbers.h"
#include "memory/poison.h"
#include "memory/pool_internal.h"

#include <inttypes.h>

/// A failed wait is tried again this often; then the device is believed dead.
#define WAIT_TRIES 3
/// A remainder below 1/16 of the block, and too small for anything but a slab's work, stays with
/// the block.
#define USELESS_SHARE 16u
/// A block gets whole granules where that wastes at most 1/8 of it.
#define LARGE_WASTE_SHARE 8u
/// A granule holds at least this many blocks of medium size.
#define MEDIUM_SHARE 8u
/// A slab, in the unit of berth_pool_demand.
#define SLAB_PARTS (UINT64_C(1) << 20)

/// Where blocks of no bytes lie. Never read or written.
static _Alignas(BERTH_ALIGNMENT) unsigned char nowhere[BERTH_ALIGNMENT];

// A handle is 0 (nowhere), a slab's slot shifted left with the lowest bit set, or an extent's id
// shifted left.
static bool is_slot(uint64_t handle) { return (handle & 1u) != 0; }

static void* address(uint64_t start) { return (void*)(uintptr_t)start; }

void berth_pool_poison(const berth_pool* pool, uint64_t start, uint64_t size) {
    if (!pool->is_async) BERTH_POISON_REGION(address(start), size);
}

static uint64_t reclaim(void* self, uint64_t wanted_bytes) {
    berth_pool* pool = self;
    if (!berth_mutex_try_lock(pool->lock)) return 0;
    berth_pool_flush_slabs(pool);
    const uint64_t given = berth_pool_release_pages(pool, 0, wanted_bytes, false);
    berth_mutex_unlock(pool->lock);
    return given;
}

berth_status berth_pool_create(const berth_host* host,
                               berth_store* store,
                               berth_stream* stream,
                               const berth_pool_bypass* bypass,
                               berth_pool** out_pool) {
    *out_pool = NULL;
    const berth_device* device = berth_store_device(store);
    berth_pool* pool = berth_host_calloc(host, 1, sizeof *pool);
    if (pool == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for a pool");
    const berth_status status = berth_mutex_init(&pool->mutex);
    if (status != BERTH_OK) {
        berth_host_free(host, pool);
        return status;
    }
    pool->lock = &pool->mutex;
    pool->host = host;
    pool->store = store;
    pool->stream = stream;
    pool->granule_bytes = device->granule_bytes;
    berth_store_stats stats;
    berth_store_query_stats(store, &stats);
    pool->capacity_bytes = stats.capacity_bytes;
    pool->is_async = berth_device_is_async(device);
    pool->can_remap = (device->ops->caps & BERTH_DEVICE_CAP_REMAP) != 0;
    pool->has_bypass = bypass != NULL;
    if (bypass != NULL) pool->bypass = *bypass;
    berth_extents_init(&pool->extents, host);
    berth_slabs_init(&pool->slabs, host, pool->granule_bytes);
    pool->reclaimer = (berth_reclaimer){.self = pool, .reclaim = reclaim};
    berth_store_add_reclaimer(store, &pool->reclaimer);
    *out_pool = pool;
    return BERTH_OK;
}

void berth_pool_destroy(berth_pool* pool) {
    if (pool == NULL) return;
    berth_store_remove_reclaimer(pool->store, &pool->reclaimer);
    berth_mutex_lock(pool->lock);
    BERTH_CHECK(2, pool->blocks == 0);
    berth_pool_flush_slabs(pool);
    // Twice: what the device refused once it may accept now.
    berth_pool_release_pages(pool, 0, UINT64_MAX, true);
    berth_pool_release_pages(pool, 0, UINT64_MAX, true);
    berth_pool_release_regions(pool, false);
    berth_mutex_unlock(pool->lock);
    if (pool->mapped_bytes != 0)
        berth_log_line(BERTH_LOG_ERROR,
                       "%" PRIu64 " bytes of a pool could not be given back and are lost",
                       pool->mapped_bytes);
    berth_pool_region_vec_fini(&pool->regions, pool->host);
    berth_slabs_fini(&pool->slabs);
    berth_extents_fini(&pool->extents);
    berth_mutex_fini(&pool->mutex);
    berth_host_free(pool->host, pool);
}

berth_extent_id berth_pool_free_extent(berth_pool* pool, berth_extent_id id, uint64_t ticket) {
    const berth_extent* extent = berth_extents_at(&pool->extents, id);
    berth_pool_poison(pool, extent->start, extent->size);
    return berth_extents_set(&pool->extents, id, BERTH_EXTENT_FREE, ticket);
}

static void drop_slab(berth_pool* pool, berth_slab_id id) {
    const berth_extent_id extent = berth_slabs_at(&pool->slabs, id)->extent;
    berth_slabs_remove(&pool->slabs, id);
    berth_pool_free_extent(pool, extent, 0);
}

void berth_pool_flush_slabs(berth_pool* pool) {
    for (uint32_t i = 0; i < BERTH_SLAB_CLASSES && pool->slabs.empty_count > 0; i++) {
        for (;;) {
            const berth_slab_id id = berth_slabs_find_empty(&pool->slabs, i);
            if (id == 0) break;
            drop_slab(pool, id);
        }
    }
}

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

/// An extent of `size` bytes for a block or a slab. Unlocks.
static berth_status take_extent(berth_pool* pool,
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

/// Adds a slab of the class. Unlocks.
static berth_status add_slab(berth_pool* pool,
                             uint32_t size_class,
                             berth_reservation* reservation) {
    const uint64_t bytes = pool->slabs.classes[size_class].slab_bytes;
    berth_extent_id extent = 0;
    BERTH_TRY(take_extent(pool, bytes, bytes, reservation, &extent));
    const berth_status status = berth_slabs_prepare(&pool->slabs);
    if (status != BERTH_OK) {
        berth_pool_free_extent(pool, extent, 0);
        return status;
    }
    berth_slabs_add(
        &pool->slabs, size_class, berth_extents_at(&pool->extents, extent)->start, extent);
    return BERTH_OK;
}

static berth_status take_small(berth_pool* pool,
                               uint64_t size,
                               berth_reservation* reservation,
                               berth_block* out_block) {
    const uint32_t size_class = berth_slabs_class_of(size);
    if (pool->slabs.classes[size_class].head == 0)
        BERTH_TRY(add_slab(pool, size_class, reservation));
    uint64_t slot = 0;
    out_block->data = address(berth_slabs_take(&pool->slabs, size_class, &slot));
    out_block->handle = slot << 1 | 1u;
    return BERTH_OK;
}

static berth_status take_large(berth_pool* pool,
                               uint64_t size,
                               berth_reservation* reservation,
                               berth_block* out_block) {
    uint64_t bytes = berth_round_up(size, BERTH_ALIGNMENT);
    const uint64_t alignment = shape_block(pool, &bytes);
    berth_extent_id id = 0;
    BERTH_TRY(take_extent(pool, bytes, alignment, reservation, &id));
    out_block->data = address(berth_extents_at(&pool->extents, id)->start);
    out_block->handle = (uint64_t)id << 1;
    return BERTH_OK;
}

static berth_status take_bypass(const berth_pool* pool, uint64_t size, berth_block* out_block) {
    out_block->data =
        pool->bypass.alloc(pool->bypass.self, size == 0 ? 1 : (size_t)size, BERTH_ALIGNMENT);
    if (out_block->data != NULL) return BERTH_OK;
    return berth_fail(
        BERTH_ERR_OUT_OF_MEMORY, "the system's allocator has no %" PRIu64 " bytes", size);
}

static void count_take(berth_pool* pool, uint64_t size) {
    pool->takes++;
    pool->blocks++;
    pool->requested_bytes += size;
    if (pool->requested_bytes > pool->peak_requested_bytes)
        pool->peak_requested_bytes = pool->requested_bytes;
}

static void count_give(berth_pool* pool, uint64_t size) {
    BERTH_CHECK(1, pool->blocks > 0 && pool->requested_bytes >= size);
    pool->blocks--;
    pool->requested_bytes -= size;
}

/// The part of take under the lock. Unlocks.
static berth_status take_locked(berth_pool* pool,
                                uint64_t size,
                                berth_reservation* reservation,
                                berth_block* out_block) {
    if (pool->has_bypass) return BERTH_OK;
    if (size == 0) {
        out_block->data = nowhere;
        return BERTH_OK;
    }
    const berth_status status = size <= pool->slabs.max_bytes
                                    ? take_small(pool, size, reservation, out_block)
                                    : take_large(pool, size, reservation, out_block);
    if (status == BERTH_OK) BERTH_UNPOISON_REGION(out_block->data, size);
    return status;
}

berth_status berth_pool_take(berth_pool* pool,
                             uint64_t size,
                             berth_reservation* reservation,
                             berth_block* out_block) {
    *out_block = (berth_block){0};
    if (size > (uint64_t)INT64_MAX - pool->granule_bytes)
        return berth_fail(BERTH_ERR_OVERFLOW, "a block of %" PRIu64 " bytes", size);
    berth_block block = {.size_bytes = size};
    if (pool->has_bypass) BERTH_TRY(take_bypass(pool, size, &block));
    berth_mutex_lock(pool->lock);
    const berth_status status = take_locked(pool, size, reservation, &block);
    if (status == BERTH_OK) {
        count_take(pool, size);
        *out_block = block;
    }
    berth_mutex_unlock(pool->lock);
    return status;
}

/// Gives memory back to the system. Nobody else keeps the order of the stream for it.
static void give_bypass(const berth_pool* pool, const berth_block* block) {
    for (int i = 0; pool->is_async && i < WAIT_TRIES; i++) {
        if (berth_stream_synchronize(pool->stream) == BERTH_OK) break;
    }
    const size_t size = block->size_bytes == 0 ? 1 : (size_t)block->size_bytes;
    pool->bypass.free(pool->bypass.self, block->data, size);
}

static void give_slot(berth_pool* pool, const berth_block* block) {
    const uint64_t slot = block->handle >> 1;
    berth_pool_poison(
        pool, (uint64_t)(uintptr_t)block->data, berth_slabs_query_slot_bytes(&pool->slabs, slot));
    const berth_slab_id slab = berth_slabs_give(&pool->slabs, slot);
    if (berth_slabs_is_empty(&pool->slabs, slab) && !berth_slabs_is_last(&pool->slabs, slab))
        drop_slab(pool, slab);
}

void berth_pool_give(berth_pool* pool, const berth_block* block) {
    if (pool->has_bypass) give_bypass(pool, block);
    const uint64_t handle = block->handle;
    berth_mutex_lock(pool->lock);
    count_give(pool, block->size_bytes);
    if (is_slot(handle)) {
        give_slot(pool, block);
    } else if (handle != 0) {
        const berth_extent_id id = (berth_extent_id)(handle >> 1);
        BERTH_CHECK(1, berth_extents_at(&pool->extents, id)->state == BERTH_EXTENT_USED);
        berth_pool_free_extent(pool, id, 0);
    }
    berth_mutex_unlock(pool->lock);
}

uint64_t berth_pool_query_worst_growth(const berth_pool* pool, uint64_t size) {
    if (size == 0 || pool->has_bypass) return 0;
    uint64_t bytes = 0;
    return berth_try_round_up(size, pool->granule_bytes, &bytes) ? bytes : UINT64_MAX;
}

/// Adds a block that lies in an extent of its own.
static void demand_extent(const berth_pool* pool, berth_pool_demand* demand, uint64_t size) {
    const uint64_t bytes = berth_pool_query_worst_growth(pool, size);
    if (size > pool->granule_bytes / MEDIUM_SHARE) {
        demand->large_bytes = berth_add_saturated_u64(demand->large_bytes, bytes);
        ++demand->large_count;
        return;
    }
    demand->medium_bytes = berth_add_saturated_u64(demand->medium_bytes, bytes);
    ++demand->medium_count;
    if (size > demand->largest_medium) demand->largest_medium = size;
}

void berth_pool_demand_add(const berth_pool* pool, berth_pool_demand* demand, uint64_t size) {
    if (size == 0 || pool->has_bypass) return;
    if (size > pool->slabs.max_bytes) {
        demand_extent(pool, demand, size);
        return;
    }
    const uint32_t size_class = berth_slabs_class_of(size);
    ++demand->small_count;
    // where it is smaller than announced, more of them fill a slab
    demand->slab_parts += SLAB_PARTS / pool->slabs.classes[size_class].least_slots + 1;
    if (size_class > demand->largest_class) demand->largest_class = size_class;
}

/// What `count` stretches of at most `window` bytes and other blocks of `other_bytes` can map. A
/// stretch maps a granule only when every window of what was mapped before has something in it. A
/// stretch reaches into at most three windows (what is left behind it may belong to it), another
/// block into at most three that it does not fill.
static uint64_t packed_growth(const berth_pool* pool,
                              uint64_t count,
                              uint64_t window,
                              uint64_t other_count,
                              uint64_t other_bytes) {
    if (count == 0) return other_bytes;
    const uint64_t windows = 3 * (count - 1 + other_count);
    if (windows > (uint64_t)INT64_MAX / window) return UINT64_MAX;
    const uint64_t bytes = berth_round_down(windows * window, pool->granule_bytes);
    return berth_add_saturated_u64(bytes + pool->granule_bytes, other_bytes);
}

uint64_t berth_pool_demand_bytes(const berth_pool* pool, const berth_pool_demand* demand) {
    uint64_t slabs = 0;
    uint64_t window = 1;
    if (demand->small_count > 0) {
        // each class has at most one slab that is not full
        slabs = demand->slab_parts / SLAB_PARTS + demand->largest_class + 2;
        if (slabs > demand->small_count) slabs = demand->small_count;
        window = pool->slabs.classes[demand->largest_class].slab_bytes;
    }
    const uint64_t apart =
        packed_growth(pool,
                      slabs,
                      window,
                      demand->medium_count + demand->large_count,
                      berth_add_saturated_u64(demand->medium_bytes, demand->large_bytes));
    if (demand->largest_medium > window) window = demand->largest_medium;
    const uint64_t together = packed_growth(
        pool, slabs + demand->medium_count, window, demand->large_count, demand->large_bytes);
    return apart < together ? apart : together;
}

uint64_t berth_pool_trim(berth_pool* pool, uint64_t keep_bytes, bool may_block) {
    berth_mutex_lock(pool->lock);
    berth_pool_flush_slabs(pool);
    const uint64_t given = berth_pool_release_pages(pool, keep_bytes, UINT64_MAX, may_block);
    berth_mutex_unlock(pool->lock);
    BERTH_CHECK(3, berth_pool_is_valid(pool));
    return given;
}

void berth_pool_query_stats(const berth_pool* pool, berth_pool_stats* out_stats) {
    berth_mutex_lock(pool->lock);
    const bool mapped_less = pool->maps < pool->takes && !pool->has_bypass;
    *out_stats = (berth_pool_stats){
        .requested_bytes = pool->requested_bytes,
        .peak_requested_bytes = pool->peak_requested_bytes,
        .blocks = pool->blocks,
        .mapped_bytes = pool->mapped_bytes,
        .free_bytes = pool->extents.bytes[BERTH_EXTENT_FREE] + pool->slabs.slab_bytes -
                      pool->slabs.used_bytes,
        .largest_free_bytes = berth_extents_query_largest(&pool->extents),
        .takes = pool->takes,
        .reuses = mapped_less ? pool->takes - pool->maps : 0,
    };
    berth_mutex_unlock(pool->lock);
}

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

bool berth_pool_is_valid(const berth_pool* pool) {
    berth_mutex_lock(pool->lock);
    const uint64_t* bytes = pool->extents.bytes;
    const uint64_t sure = bytes[BERTH_EXTENT_FREE] + bytes[BERTH_EXTENT_USED];
    const bool valid =
        berth_extents_are_valid(&pool->extents, pool->granule_bytes) && are_slabs_placed(pool) &&
        are_regions_covered(pool) && berth_slabs_are_valid(&pool->slabs) &&
        pool->slabs.slab_bytes <= bytes[BERTH_EXTENT_USED] && sure <= pool->mapped_bytes &&
        pool->mapped_bytes <= sure + bytes[BERTH_EXTENT_BUSY] &&
        (pool->has_bypass || pool->requested_bytes <= bytes[BERTH_EXTENT_USED]);
    berth_mutex_unlock(pool->lock);
    return valid;
}
