// SPDX-License-Identifier: Apache-2.0
// The pool's face: small blocks from slabs, all others from extents by best fit, large ones on
// whole granules. Common takes and gives are a few loads and stores in the front.
#include "memory/pool.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/log.h"
#include "base/numbers.h"
#include "memory/poison.h"
#include "memory/pool_internal.h"

#include <inttypes.h>

/// Keeps what is rare out of the common path, which then needs no registers to be saved.
#define NOT_INLINED __attribute__((noinline))

/// A failed wait is tried again this often; then the device is believed dead.
#define WAIT_TRIES 3

/// Where blocks of no bytes lie. Never read or written.
static _Alignas(BERTH_ALIGNMENT) unsigned char nowhere[BERTH_ALIGNMENT];

void berth_pool_poison(const berth_pool* pool, uint64_t start, uint64_t size) {
    if (!pool->is_async) BERTH_POISON_REGION(berth_pool_address(start), size);
}

/// Mapped bytes in no block.
static uint64_t idle_bytes(const berth_pool* pool) {
    return pool->extents.bytes[BERTH_EXTENT_FREE] + pool->slabs.slab_bytes -
           pool->slabs.used_bytes + berth_front_query_bytes(&pool->front);
}

void berth_pool_put_in_order(berth_pool* pool, bool is_holder) {
    if (is_holder) {
        (void)berth_pool_drain_remote(pool);
        (void)berth_pool_empty_front(pool);
    }
    berth_pool_flush_slabs(pool);
}

uint64_t berth_pool_release_idle(berth_pool* pool, uint64_t keep_bytes, uint64_t limit_bytes) {
    const bool is_holder = berth_pool_try_enter(pool);
    berth_mutex_lock(pool->lock);
    const bool has_some = idle_bytes(pool) > keep_bytes;
    if (has_some) berth_pool_put_in_order(pool, is_holder);
    if (is_holder) berth_pool_leave(pool);
    uint64_t given = 0;
    if (has_some) given = berth_pool_release_pages(pool, keep_bytes, limit_bytes, false);
    berth_mutex_unlock(pool->lock);
    return given;
}

static bool is_climbers(const berth_pool* pool, const berth_tenant* climber) {
    return climber != NULL && climber == pool->account.tenant;
}

/// Gives back what is idle for the pool's own tenant, to which it is not lost while somebody has
/// the lock: such threads wait for nobody who climbs.
static uint64_t release_for_own(berth_pool* pool, uint64_t wanted_bytes) {
    berth_mutex_lock(pool->lock);
    berth_pool_put_in_order(pool, false);
    const uint64_t given = berth_pool_release_pages(pool, 0, wanted_bytes, false);
    berth_mutex_unlock(pool->lock);
    return given;
}

static uint64_t reclaim(void* self, const berth_tenant* climber, uint64_t wanted_bytes) {
    berth_pool* pool = self;
    const uint64_t given = is_climbers(pool, climber)
                               ? release_for_own(pool, wanted_bytes)
                               : berth_pool_release_idle(pool, 0, wanted_bytes);
    if (given == 0) return 0;
    berth_mutex_lock(pool->lock);
    pool->asked.reclaimed_bytes += given;
    berth_mutex_unlock(pool->lock);
    return given;
}

/// Empties the front, and gives granules back for what was in it.
static uint64_t reclaim_front(void* self, const berth_tenant* climber, uint64_t wanted_bytes) {
    berth_pool* pool = self;
    const bool is_own = is_climbers(pool, climber);
    if (!is_own && !berth_pool_try_enter(pool)) return 0;
    berth_mutex_lock(pool->lock);
    (void)berth_pool_drain_remote(pool);
    uint64_t bytes = berth_front_query_bytes(&pool->front);
    (void)berth_pool_empty_front(pool);
    berth_mutex_unlock(pool->lock);
    if (!is_own) berth_pool_leave(pool);
    bytes = berth_round_up(bytes, pool->granule_bytes);
    return bytes > 0 ? reclaim(self, climber, bytes < wanted_bytes ? bytes : wanted_bytes) : 0;
}

static uint64_t reclaim_after_work(void* self, const berth_tenant* climber, uint64_t wanted_bytes) {
    const berth_pool* pool = self;
    // one that cannot be waited for gives nothing back
    if (berth_stream_synchronize(pool->stream) != BERTH_OK) return 0;
    return reclaim(self, climber, wanted_bytes);
}

/// Takes the pool's places on the ladder.
static void join_ladder(berth_pool* pool, berth_tenant* tenant) {
    berth_store* store = pool->account.store;
    pool->reclaimer = (berth_reclaimer){.rung = BERTH_RUNG_TRIM,
                                        .tenant = tenant,
                                        .owner = BERTH_OWNER_POOL,
                                        .self = pool,
                                        .reclaim = reclaim};
    // before the first is in the list, where it is the store's
    pool->waiter = pool->reclaimer;
    pool->waiter.rung = BERTH_RUNG_WAIT;
    pool->waiter.reclaim = reclaim_after_work;
    pool->flusher = pool->reclaimer;
    pool->flusher.rung = BERTH_RUNG_FRONTS;
    pool->flusher.reclaim = reclaim_front;
    berth_store_add_reclaimer(store, &pool->flusher);
    berth_store_add_reclaimer(store, &pool->reclaimer);
    if (pool->is_async) berth_store_add_reclaimer(store, &pool->waiter);
}

/// What a pool knows of its store and device from the beginning on.
static void describe(berth_pool* pool, const berth_pool_config* config) {
    const berth_device* device = berth_store_device(config->store);
    berth_store_stats stats;
    berth_store_query_stats(config->store, &stats);
    pool->host = config->host;
    pool->account = (berth_account){
        .store = config->store, .tenant = config->tenant, .owner = BERTH_OWNER_POOL};
    pool->stream = config->stream;
    pool->guard = config->guard;
    pool->granule_bytes = device->granule_bytes;
    pool->capacity_bytes = stats.capacity_bytes;
    pool->is_async = berth_device_is_async(device);
    pool->can_remap = (device->ops->caps & BERTH_DEVICE_CAP_REMAP) != 0;
    pool->returns_at_once = config->returns_at_once;
    pool->has_bypass = config->bypass != NULL;
    if (pool->has_bypass) pool->bypass = *config->bypass;
}

berth_status berth_pool_create(const berth_pool_config* config, berth_pool** out_pool) {
    *out_pool = NULL;
    const berth_host* host = config->host;
    berth_pool* pool = berth_host_calloc(host, 1, sizeof *pool);
    if (pool == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for a pool");
    describe(pool, config);
    berth_extents_init(&pool->extents, host, pool->granule_bytes);
    berth_slabs_init(&pool->slabs, host, pool->granule_bytes);
    if (!pool->has_bypass)
        berth_front_init(&pool->front, pool->granule_bytes, pool->capacity_bytes);
    berth_status status = berth_sites_init(&pool->sites, host);
    if (status != BERTH_OK) goto fail;
    status = berth_mutex_init(&pool->mutex);
    if (status != BERTH_OK) goto fail;
    pool->lock = &pool->mutex;
    join_ladder(pool, config->tenant);
    *out_pool = pool;
    return BERTH_OK;
fail:
    berth_sites_fini(&pool->sites);
    berth_host_free(host, pool);
    return status;
}

void berth_pool_destroy(berth_pool* pool) {
    if (pool == NULL) return;
    berth_store_remove_reclaimer(pool->account.store, &pool->flusher);
    berth_store_remove_reclaimer(pool->account.store, &pool->reclaimer);
    if (pool->is_async) berth_store_remove_reclaimer(pool->account.store, &pool->waiter);
    berth_mutex_lock(pool->lock);
    (void)berth_pool_drain_remote(pool);
    BERTH_CHECK(2, pool->takes == pool->gives);
    (void)berth_pool_empty_front(pool);
    berth_pool_flush_slabs(pool);
    pool->is_promised = false;
    // Twice: what the device refused once it may accept now.
    berth_pool_release_pages(pool, 0, UINT64_MAX, true);
    berth_pool_release_pages(pool, 0, UINT64_MAX, true);
    berth_pool_release_regions(pool, false);
    berth_mutex_unlock(pool->lock);
    if (pool->mapped_bytes != 0)
        berth_log_line(BERTH_LOG_ERROR,
                       "%" PRIu64 " bytes of a pool could not be given back and are lost",
                       pool->mapped_bytes);
    berth_remote_fini(&pool->remote, pool->host);
    berth_front_fini(&pool->front, pool->host);
    berth_pool_region_vec_fini(&pool->regions, pool->host);
    berth_edge_vec_fini(&pool->tails, pool->host);
    berth_edge_vec_fini(&pool->heads, pool->host);
    berth_slabs_fini(&pool->slabs);
    berth_extents_fini(&pool->extents);
    berth_sites_fini(&pool->sites);
    berth_mutex_fini(&pool->mutex);
    berth_host_free(pool->host, pool);
}

void berth_pool_allow_moves(berth_pool* pool) {
    berth_mutex_lock(pool->lock);
    pool->may_move = true;
    berth_mutex_unlock(pool->lock);
}

bool berth_pool_wait(const berth_pool* pool) {
    return !pool->is_async || berth_stream_synchronize(pool->stream) == BERTH_OK;
}

void berth_pool_set_waiting(berth_pool* pool, bool waiting) {
    berth_mutex_lock(pool->lock);
    pool->may_wait = waiting;
    berth_mutex_unlock(pool->lock);
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

static inline void count_take(berth_pool* pool, uint64_t size) {
    const uint64_t requested =
        atomic_load_explicit(&pool->requested_bytes, memory_order_relaxed) + size;
    berth_pool_count(&pool->takes, 1);
    atomic_store_explicit(&pool->requested_bytes, requested, memory_order_relaxed);
    if (requested > atomic_load_explicit(&pool->peak_requested_bytes, memory_order_relaxed))
        atomic_store_explicit(&pool->peak_requested_bytes, requested, memory_order_relaxed);
}

static inline uint32_t count_of_takes(const berth_pool* pool) {
    return (uint32_t)atomic_load_explicit(&pool->takes, memory_order_relaxed);
}

/// Takes a small block from the front; false if it has none that fits. Nothing is counted.
static inline bool take_ready_slot(berth_pool* pool,
                                   const berth_pool_request* request,
                                   berth_block* block) {
    const uint64_t bytes = request->size_bytes;
    if (bytes - 1 >= pool->slabs.max_bytes) return false; // also for 0 bytes
    berth_front_slot slot;
    const uint32_t c = berth_slabs_class_of(bytes);
    const uint64_t slot_bytes = pool->slabs.classes[c].slot_bytes;
    if (!berth_front_take_slot(&pool->front, c, slot_bytes, &slot)) return false;
    if (request->movable != NULL)
        berth_slabs_note(&pool->slabs, slot.handle >> 1, request->movable);
    *block = (berth_block){.data = slot.data,
                           .size_bytes = bytes,
                           .handle = slot.handle,
                           .born = count_of_takes(pool)};
    return true;
}

/// As take_ready_slot, a block with an extent of its own. `life` is unknown or what was believed a
/// moment ago, and then what is believed if there may be such a block.
static bool take_ready_extent(berth_pool* pool,
                              const berth_pool_request* request,
                              berth_life* life,
                              berth_block* block) {
    uint64_t bytes = request->size_bytes;
    if (bytes - 1 >= pool->front.largest_bytes || bytes <= pool->slabs.max_bytes) return false;
    (void)berth_pool_shape(pool, &bytes);
    if (life->believed == BERTH_LIFETIME_UNKNOWN)
        *life = berth_pool_expect_life_in_front(pool, request->site);
    berth_front_extent ready;
    if (!berth_front_take_extent(&pool->front, bytes, life->believed, &ready)) return false;
    berth_extent* extent = berth_extents_at(&pool->extents, ready.id);
    extent->movable = request->movable;
    berth_pool_begin_life(pool, extent, life, block);
    block->data = ready.data;
    block->size_bytes = request->size_bytes;
    block->handle = (uint64_t)ready.id << 1;
    return true;
}

/// The part of take under the lock. Unlocks.
static berth_status take_locked(berth_pool* pool,
                                const berth_pool_request* request,
                                const berth_life* life,
                                berth_block* out_block) {
    const uint64_t size = request->size_bytes;
    if (pool->has_bypass) return BERTH_OK;
    berth_pool_note_promise(pool, request->reservation);
    if (size == 0) {
        out_block->data = nowhere;
        return BERTH_OK;
    }
    const berth_status status = size <= pool->slabs.max_bytes
                                    ? berth_pool_take_small(pool, request, out_block)
                                    : berth_pool_take_large(pool, request, life, out_block);
    if (status == BERTH_OK) BERTH_UNPOISON_REGION(out_block->data, size);
    return status;
}

/// Takes a block that the front does not have.
NOT_INLINED static berth_status take_slowly(berth_pool* pool,
                                            const berth_pool_request* request,
                                            berth_life* life,
                                            berth_block* out_block) {
    const uint64_t size = request->size_bytes;
    *out_block = (berth_block){0};
    if (size > (uint64_t)INT64_MAX - pool->granule_bytes)
        return berth_fail(BERTH_ERR_OVERFLOW, "a block of %" PRIu64 " bytes", size);
    if (pool->has_bypass) BERTH_TRY(take_bypass(pool, size, out_block));
    out_block->size_bytes = size;
    out_block->born = count_of_takes(pool);
    berth_mutex_lock(pool->lock);
    berth_status status = BERTH_OK;
    if (berth_pool_drain_remote(pool) && (take_ready_slot(pool, request, out_block) ||
                                          take_ready_extent(pool, request, life, out_block)))
        BERTH_UNPOISON_REGION(out_block->data, size);
    else
        status = take_locked(pool, request, life, out_block);
    if (status == BERTH_OK) {
        count_take(pool, size);
        const uint64_t used = pool->extents.bytes[BERTH_EXTENT_USED];
        if (used > pool->recent_peak_bytes) pool->recent_peak_bytes = used;
    } else {
        *out_block = (berth_block){0};
    }
    berth_mutex_unlock(pool->lock);
    if (status == BERTH_ERR_OUT_OF_MEMORY) // what was asked of the store are granules
        return berth_fail_prefix(status, "a block of %" PRIu64 " bytes", size);
    return status;
}

/// Takes a block for which no slot is ready.
NOT_INLINED static berth_status take_other(berth_pool* pool,
                                           const berth_pool_request* request,
                                           berth_block* out_block) {
    berth_life life = {.believed = BERTH_LIFETIME_UNKNOWN};
    if (!take_ready_extent(pool, request, &life, out_block))
        return take_slowly(pool, request, &life, out_block);
    count_take(pool, request->size_bytes);
    BERTH_UNPOISON_REGION(out_block->data, request->size_bytes);
    return BERTH_OK;
}

berth_status berth_pool_take(berth_pool* pool,
                             const berth_pool_request* request,
                             berth_block* out_block) {
    if (!take_ready_slot(pool, request, out_block)) return take_other(pool, request, out_block);
    count_take(pool, request->size_bytes);
    BERTH_UNPOISON_REGION(out_block->data, request->size_bytes);
    return BERTH_OK;
}

void berth_pool_give_bypass(const berth_pool* pool, const berth_block* block) {
    for (int i = 0; pool->is_async && i < WAIT_TRIES; i++) {
        if (berth_stream_synchronize(pool->stream) == BERTH_OK) break;
    }
    const size_t size = block->size_bytes == 0 ? 1 : (size_t)block->size_bytes;
    pool->bypass.free(pool->bypass.self, block->data, size);
}

void berth_pool_return_block(berth_pool* pool, const berth_block* block) {
    const uint64_t handle = block->handle;
    const uint64_t start = (uint64_t)(uintptr_t)block->data;
    if (berth_pool_is_slot(handle)) {
        berth_pool_poison(pool, start, berth_slabs_query_slot_bytes(&pool->slabs, handle >> 1));
        berth_pool_return_slot(pool, handle);
    } else if (handle != 0) {
        const berth_extent_id id = (berth_extent_id)(handle >> 1);
        const berth_extent* extent = berth_extents_at(&pool->extents, id);
        BERTH_CHECK(1, extent->state == BERTH_EXTENT_USED);
        berth_pool_free_extent(pool, id, 0);
    }
}

/// Gives a slot to the front; false if that has no room for it.
static inline bool give_slot_to_front(berth_pool* pool, const berth_block* block) {
    const uint64_t handle = block->handle;
    const berth_slab* slab = berth_slabs_of(&pool->slabs, handle >> 1);
    const berth_front_slot slot = {.data = block->data, .handle = handle};
    const uint64_t bytes = pool->slabs.classes[slab->size_class].slot_bytes;
    if (!berth_front_give_slot(&pool->front, slab->size_class, bytes, slot)) return false;
    slab->movables[(handle >> 1) % BERTH_SLAB_SLOTS] = NULL;
    berth_pool_poison(pool, (uint64_t)(uintptr_t)block->data, bytes);
    return true;
}

static bool give_extent_to_front(berth_pool* pool, const berth_block* block) {
    uint64_t bytes = block->size_bytes;
    if (bytes - 1 >= pool->front.largest_bytes) return false;
    (void)berth_pool_shape(pool, &bytes);
    const berth_extent_id id = (berth_extent_id)(block->handle >> 1);
    berth_extent* extent = berth_extents_at(&pool->extents, id);
    BERTH_CHECK(1, extent->state == BERTH_EXTENT_USED);
    const berth_front_extent entry = {
        .bytes = bytes, .data = block->data, .id = id, .lifetime = extent->lifetime};
    if (!berth_front_give_extent(&pool->front, &entry)) return false;
    extent->movable = NULL;
    berth_pool_poison(pool, (uint64_t)(uintptr_t)block->data, bytes);
    return true;
}

bool berth_pool_give_to_front(berth_pool* pool, const berth_block* block) {
    return berth_pool_is_slot(block->handle) ? give_slot_to_front(pool, block)
                                             : give_extent_to_front(pool, block);
}

/// Gives a block back for which the front has no room as it is.
NOT_INLINED static void give_slowly(berth_pool* pool, const berth_block* block) {
    if (pool->has_bypass) {
        berth_pool_give_bypass(pool, block);
        return;
    }
    berth_mutex_lock(pool->lock);
    (void)berth_pool_drain_remote(pool);
    if (berth_pool_is_slot(block->handle))
        berth_pool_make_room_for_slot(pool,
                                      berth_slabs_of(&pool->slabs, block->handle >> 1)->size_class);
    else if (block->size_bytes - 1 < pool->front.largest_bytes)
        berth_pool_flush_front_extents(pool);
    if (!berth_pool_give_to_front(pool, block)) berth_pool_return_block(pool, block);
    berth_pool_return_excess(pool);
    berth_mutex_unlock(pool->lock);
}

/// Gives a block back that is no slot.
NOT_INLINED static void give_other(berth_pool* pool, const berth_block* block) {
    berth_pool_count_give(pool, block);
    if (!give_extent_to_front(pool, block)) give_slowly(pool, block);
}

void berth_pool_give(berth_pool* pool, const berth_block* block) {
    if (berth_pool_is_slot(block->handle)) {
        berth_pool_count_gives(pool, 1, block->size_bytes);
        if (!give_slot_to_front(pool, block)) give_slowly(pool, block);
    } else {
        give_other(pool, block);
    }
}

uint64_t berth_pool_trim(berth_pool* pool, uint64_t keep_bytes, bool may_block) {
    const bool is_holder = berth_pool_try_enter(pool);
    berth_mutex_lock(pool->lock);
    berth_pool_put_in_order(pool, is_holder);
    if (is_holder) berth_pool_leave(pool);
    const uint64_t given = berth_pool_release_pages(pool, keep_bytes, UINT64_MAX, may_block);
    BERTH_CHECK(3, berth_pool_are_books_right(pool));
    berth_mutex_unlock(pool->lock);
    return given;
}

void berth_pool_sample_use(berth_pool* pool, uint64_t* out_peak_bytes, uint64_t* out_bytes) {
    berth_mutex_lock(pool->lock);
    *out_bytes = pool->extents.bytes[BERTH_EXTENT_USED] - berth_front_query_bytes(&pool->front);
    *out_peak_bytes = pool->recent_peak_bytes;
    pool->recent_peak_bytes = *out_bytes;
    berth_mutex_unlock(pool->lock);
}

void berth_pool_query_stats(const berth_pool* pool, berth_pool_stats* out_stats) {
    berth_mutex_lock(pool->lock);
    const uint64_t takes = pool->takes;
    const bool mapped_less = pool->maps < takes && !pool->has_bypass;
    *out_stats = (berth_pool_stats){
        .requested_bytes = pool->requested_bytes - pool->remote.settled_bytes,
        .peak_requested_bytes = pool->peak_requested_bytes,
        .blocks = takes - pool->gives - pool->remote.settled_blocks,
        .mapped_bytes = pool->mapped_bytes,
        .free_bytes = idle_bytes(pool),
        .largest_free_bytes = berth_extents_query_largest(&pool->extents),
        .takes = takes,
        .reuses = mapped_less ? takes - pool->maps : 0,
        .predictions = atomic_load_explicit(&pool->sites.predictions, memory_order_relaxed),
        .remapped_bytes = pool->remapped_bytes,
        .right_predictions = atomic_load_explicit(&pool->sites.right, memory_order_relaxed),
        .wrong_predictions = atomic_load_explicit(&pool->sites.wrong, memory_order_relaxed),
    };
    berth_mutex_unlock(pool->lock);
}
