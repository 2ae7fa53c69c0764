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

/// Where blocks of no bytes lie. Never read or written.
static _Alignas(BERTH_ALIGNMENT) unsigned char nowhere[BERTH_ALIGNMENT];

void berth_pool_poison(const berth_pool* pool, uint64_t start, uint64_t size) {
    if (!pool->is_async) BERTH_POISON_REGION(berth_pool_address(start), size);
}

/// Mapped bytes in no block.
static uint64_t idle_bytes(const berth_pool* pool) {
    return pool->extents.bytes[BERTH_EXTENT_FREE] + pool->slabs.slab_bytes - pool->slabs.used_bytes;
}

static uint64_t release_idle(berth_pool* pool, uint64_t keep_bytes, uint64_t limit_bytes) {
    if (idle_bytes(pool) <= keep_bytes) return 0;
    berth_pool_flush_slabs(pool);
    return berth_pool_release_pages(pool, keep_bytes, limit_bytes, false);
}

uint64_t berth_pool_release_idle(berth_pool* pool, uint64_t keep_bytes, uint64_t limit_bytes) {
    if (!berth_mutex_try_lock(pool->lock)) return 0;
    const uint64_t given = release_idle(pool, keep_bytes, limit_bytes);
    berth_mutex_unlock(pool->lock);
    return given;
}

static uint64_t reclaim(void* self, const berth_tenant* climber, uint64_t wanted_bytes) {
    (void)climber;
    berth_pool* pool = self;
    if (!berth_mutex_try_lock(pool->lock)) return 0;
    const uint64_t given = release_idle(pool, 0, wanted_bytes);
    pool->asked.reclaimed_bytes += given;
    berth_mutex_unlock(pool->lock);
    return given;
}

berth_status berth_pool_create(const berth_pool_config* config, berth_pool** out_pool) {
    *out_pool = NULL;
    const berth_host* host = config->host;
    berth_store* store = config->store;
    const berth_device* device = berth_store_device(store);
    berth_pool* pool = berth_host_calloc(host, 1, sizeof *pool);
    if (pool == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for a pool");
    berth_status status = berth_sites_init(&pool->sites, host);
    if (status == BERTH_OK) status = berth_mutex_init(&pool->mutex);
    if (status != BERTH_OK) {
        berth_sites_fini(&pool->sites);
        berth_host_free(host, pool);
        return status;
    }
    pool->lock = &pool->mutex;
    pool->host = host;
    pool->account =
        (berth_account){.store = store, .tenant = config->tenant, .owner = BERTH_OWNER_POOL};
    pool->stream = config->stream;
    pool->guard = config->guard;
    pool->granule_bytes = device->granule_bytes;
    berth_store_stats stats;
    berth_store_query_stats(store, &stats);
    pool->capacity_bytes = stats.capacity_bytes;
    pool->is_async = berth_device_is_async(device);
    pool->can_remap = (device->ops->caps & BERTH_DEVICE_CAP_REMAP) != 0;
    pool->has_bypass = config->bypass != NULL;
    if (pool->has_bypass) pool->bypass = *config->bypass;
    berth_extents_init(&pool->extents, host, pool->granule_bytes);
    berth_slabs_init(&pool->slabs, host, pool->granule_bytes);
    pool->reclaimer = (berth_reclaimer){.rung = BERTH_RUNG_TRIM,
                                        .tenant = config->tenant,
                                        .owner = BERTH_OWNER_POOL,
                                        .self = pool,
                                        .reclaim = reclaim};
    berth_store_add_reclaimer(store, &pool->reclaimer);
    *out_pool = pool;
    return BERTH_OK;
}

void berth_pool_destroy(berth_pool* pool) {
    if (pool == NULL) return;
    berth_store_remove_reclaimer(pool->account.store, &pool->reclaimer);
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
    berth_sites_fini(&pool->sites);
    berth_mutex_fini(&pool->mutex);
    berth_host_free(pool->host, pool);
}

berth_extent_id berth_pool_free_extent(berth_pool* pool, berth_extent_id id, uint64_t ticket) {
    const berth_extent* extent = berth_extents_at(&pool->extents, id);
    berth_pool_poison(pool, extent->start, extent->size);
    return berth_extents_set(&pool->extents, id, BERTH_EXTENT_FREE, ticket);
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
    const uint64_t used = pool->extents.bytes[BERTH_EXTENT_USED];
    if (used > pool->recent_peak_bytes) pool->recent_peak_bytes = used;
}

static void count_give(berth_pool* pool, uint64_t size) {
    BERTH_CHECK(1, pool->blocks > 0 && pool->requested_bytes >= size);
    pool->blocks--;
    pool->requested_bytes -= size;
}

/// The part of take under the lock. Unlocks.
static berth_status take_locked(berth_pool* pool,
                                const berth_pool_request* request,
                                berth_block* out_block) {
    const uint64_t size = request->size_bytes;
    if (pool->has_bypass) return BERTH_OK;
    if (size == 0) {
        out_block->data = nowhere;
        return BERTH_OK;
    }
    const berth_status status = size <= pool->slabs.max_bytes
                                    ? berth_pool_take_small(pool, request, out_block)
                                    : berth_pool_take_large(pool, request, out_block);
    if (status == BERTH_OK) BERTH_UNPOISON_REGION(out_block->data, size);
    return status;
}

berth_status berth_pool_take(berth_pool* pool,
                             const berth_pool_request* request,
                             berth_block* out_block) {
    const uint64_t size = request->size_bytes;
    *out_block = (berth_block){0};
    if (size > (uint64_t)INT64_MAX - pool->granule_bytes)
        return berth_fail(BERTH_ERR_OVERFLOW, "a block of %" PRIu64 " bytes", size);
    berth_block block = {.size_bytes = size};
    if (pool->has_bypass) BERTH_TRY(take_bypass(pool, size, &block));
    berth_mutex_lock(pool->lock);
    const berth_status status = take_locked(pool, request, &block);
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

void berth_pool_give(berth_pool* pool, const berth_block* block) {
    if (pool->has_bypass) give_bypass(pool, block);
    const uint64_t handle = block->handle;
    berth_mutex_lock(pool->lock);
    count_give(pool, block->size_bytes);
    if (berth_pool_is_slot(handle)) {
        berth_pool_give_slot(pool, block);
    } else if (handle != 0) {
        const berth_extent_id id = (berth_extent_id)(handle >> 1);
        berth_extent* extent = berth_extents_at(&pool->extents, id);
        BERTH_CHECK(1, extent->state == BERTH_EXTENT_USED);
        berth_pool_end_life(pool, extent);
        berth_pool_free_extent(pool, id, 0);
    }
    berth_mutex_unlock(pool->lock);
}

uint64_t berth_pool_trim(berth_pool* pool, uint64_t keep_bytes, bool may_block) {
    berth_mutex_lock(pool->lock);
    berth_pool_flush_slabs(pool);
    const uint64_t given = berth_pool_release_pages(pool, keep_bytes, UINT64_MAX, may_block);
    berth_mutex_unlock(pool->lock);
    BERTH_CHECK(3, berth_pool_is_valid(pool));
    return given;
}

void berth_pool_sample_use(berth_pool* pool, uint64_t* out_peak_bytes, uint64_t* out_bytes) {
    berth_mutex_lock(pool->lock);
    *out_bytes = pool->extents.bytes[BERTH_EXTENT_USED];
    *out_peak_bytes = pool->recent_peak_bytes;
    pool->recent_peak_bytes = *out_bytes;
    berth_mutex_unlock(pool->lock);
}

void berth_pool_query_stats(const berth_pool* pool, berth_pool_stats* out_stats) {
    berth_mutex_lock(pool->lock);
    const bool mapped_less = pool->maps < pool->takes && !pool->has_bypass;
    *out_stats = (berth_pool_stats){
        .requested_bytes = pool->requested_bytes,
        .peak_requested_bytes = pool->peak_requested_bytes,
        .blocks = pool->blocks,
        .mapped_bytes = pool->mapped_bytes,
        .free_bytes = idle_bytes(pool),
        .largest_free_bytes = berth_extents_query_largest(&pool->extents),
        .takes = pool->takes,
        .reuses = mapped_less ? pool->takes - pool->maps : 0,
        .predictions = pool->sites.predictions,
        .right_predictions = pool->sites.right,
        .wrong_predictions = pool->sites.wrong,
    };
    berth_mutex_unlock(pool->lock);
}
