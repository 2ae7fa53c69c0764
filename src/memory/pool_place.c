// SPDX-License-Identifier: Apache-2.0
// Where blocks that are too large for slabs go: an extent among what is mapped, or growth.
#include "base/checked.h"
#include "base/error.h"
#include "base/numbers.h"
#include "memory/pool_internal.h"
#include "memory/pool_join.h"

/// A remainder below 1/16 of the block, and too small for anything but a slab's work, stays with
/// the block.
#define USELESS_SHARE 16u
/// Free memory of fewer granules is no large hole.
#define LARGE_HOLE_GRANULES 4u
/// The window in which the largest request is remembered.
#define WINDOW_TAKES 1024u
/// A large hole is spared while no more than 1/32 of what is mapped is idle besides.
#define SPARE_SHARE 32u

/// What a place is looked for.
typedef struct wish {
    uint64_t size;
    uint64_t alignment;
    berth_lifetime lifetime;
    berth_reservation* reservation;
    uint64_t least_bytes; ///< what will do at any multiple of BERTH_ALIGNMENT; 0: nothing else
} wish;

/// Cuts a block out of the FREE extent `id`, whose first place for it is `start`, without leaving a
/// useless remainder.
static berth_extent_id carve(berth_pool* pool,
                             berth_extent_id id,
                             uint64_t start,
                             const wish* what) {
    const berth_extent* extent = berth_extents_at(&pool->extents, id);
    uint64_t size = what->size;
    const uint64_t rest = extent->start + extent->size - start - size;
    if (rest < size / USELESS_SHARE && rest < pool->slabs.max_bytes)
        size += rest;
    else if (!pool->is_cautious)
        start = berth_extents_choose_end(
            &pool->extents, id, what->lifetime, size, what->alignment, start);
    return berth_extents_take_out(
        &pool->extents, id, start, size, BERTH_EXTENT_USED, what->lifetime);
}

/// Remembers the largest of the requests for whole granules in this window of takes and the last.
static void note_largest(berth_pool* pool, uint64_t size) {
    if (pool->takes - pool->window_start >= WINDOW_TAKES) {
        const bool is_next = pool->takes - pool->window_start < 2 * WINDOW_TAKES;
        pool->largest_before = is_next ? pool->largest_now : 0;
        pool->largest_now = 0;
        pool->window_start = pool->takes;
    }
    if (size > pool->largest_now) pool->largest_now = size;
}

/// True if the block is one to be kept out of large holes. Where granules can be moved no hole is
/// worth the memory that that may cost; whoever was promised granules was not promised those.
static bool may_spoil(const berth_pool* pool, const wish* what) {
    return what->lifetime == BERTH_LIFETIME_LONG && what->reservation == NULL && !pool->can_remap;
}

/// True if a block that stays would cut up the FREE extent `id`, which is much larger and just what
/// requests of late have needed, though granules can be mapped for the block instead.
static bool would_spoil(const berth_pool* pool, berth_extent_id id, const wish* what) {
    const uint64_t hole = berth_extents_at(&pool->extents, id)->size;
    if (hole / pool->granule_bytes < LARGE_HOLE_GRANULES || hole < what->size + what->size / 2)
        return false;
    const uint64_t served =
        pool->largest_now > pool->largest_before ? pool->largest_now : pool->largest_before;
    if (served > hole || served <= hole - what->size) return false;
    const uint64_t idle = pool->extents.bytes[BERTH_EXTENT_FREE] - hole;
    if (idle > pool->mapped_bytes / SPARE_SHARE) return false;
    return berth_store_query_room(pool->account) >= berth_round_up(what->size, pool->granule_bytes);
}

static berth_extent_id find_mapped(const berth_pool* pool, const wish* what, uint64_t* out_start) {
    const berth_extents* extents = &pool->extents;
    if (pool->is_cautious)
        return berth_extents_find(extents, false, what->size, what->alignment, out_start);
    return berth_extents_find_among_like(
        extents, what->lifetime, what->size, what->alignment, out_start);
}

/// Makes free what only waits to be used again; false if there is nothing.
static bool loosen(berth_pool* pool) {
    const bool was_held = berth_pool_empty_front(pool);
    if (pool->slabs.empty_count == 0) return was_held;
    berth_pool_flush_slabs(pool);
    return true;
}

/// Finds a place among what is mapped; 0 if there is none, or if `*spares` and the best one would
/// spoil a large hole; `*spares` tells whether that is why. Needs two spare records.
static berth_extent_id take_mapped(berth_pool* pool, const wish* what, bool* spares) {
    uint64_t start = 0;
    berth_extent_id id = find_mapped(pool, what, &start);
    if (id == 0 && loosen(pool)) id = find_mapped(pool, what, &start);
    *spares = *spares && id != 0 && would_spoil(pool, id, what);
    if (id == 0 || *spares) return 0;
    return carve(pool, id, start, what);
}

/// Of the pool's tenant; 0 if there is none.
static uint64_t count_refusals(const berth_pool* pool) {
    const berth_account* account = &pool->account;
    if (account->tenant == NULL) return 0;
    return berth_store_query_tenant(account->store, account->tenant).refusals;
}

/// Bytes that the pool can still be given in whole granules.
static uint64_t room_of(const berth_pool* pool) { return berth_store_query_room(pool->account); }

/// Bytes that all there is besides blocks has in whole granules.
static uint64_t whole_room_of(const berth_pool* pool) {
    return pool->extents.placeable[BERTH_PLACEABLE_GRANULE] + room_of(pool);
}

/// Whether granules are lacking that a block would have to be given.
static bool is_short(const berth_pool* pool, const wish* what) {
    return whole_room_of(pool) < berth_round_up(what->size, pool->granule_bytes);
}

/// Bytes of granules that a block may have which is to lie over the ends of runs that are moved to
/// it; UINT64_MAX: none, it is to have granules of its own. Who was promised granules lacks none.
static uint64_t room_between(const berth_pool* pool, const wish* what) {
    if (!pool->may_move || !pool->can_remap || what->least_bytes == 0 || what->reservation != NULL)
        return UINT64_MAX;
    if (is_short(pool, what)) return whole_room_of(pool);
    // where nothing is kept that can be given back, a granule less is worth moves
    const uint64_t apart = berth_round_up(what->size, pool->granule_bytes);
    return pool->returns_at_once ? apart - pool->granule_bytes : UINT64_MAX;
}

/// Whether moves of blocks could make granules for all of a block, without what is free beside one.
static bool could_be_apart(const berth_pool* pool, const wish* what) {
    const uint64_t free_bytes = pool->extents.bytes[BERTH_EXTENT_FREE];
    return free_bytes + room_of(pool) >= berth_round_up(what->size, pool->granule_bytes);
}

/// As berth_pool_take_extent, which notes how it ended.
static berth_status find_extent(berth_pool* pool, const wish* what, berth_extent_id* out_id) {
    bool spares = may_spoil(pool, what);
    BERTH_TRY(berth_extents_prepare(&pool->extents, 2));
    *out_id = take_mapped(pool, what, &spares);
    if (*out_id != 0) return BERTH_OK;
    const uint64_t refusals = count_refusals(pool);
    berth_status status = BERTH_OK;
    bool extends = true;
    const uint64_t room = room_between(pool, what);
    if (room != UINT64_MAX) {
        status = berth_pool_join(pool, what->least_bytes, room, what->lifetime, out_id);
        if (*out_id != 0 || (status != BERTH_OK && status != BERTH_ERR_OUT_OF_MEMORY))
            return status;
        // what is extended does not move while room is made
        extends = !is_short(pool, what) || !could_be_apart(pool, what);
    }
    const berth_pool_growth growth = {.size = what->size,
                                      .alignment = what->alignment,
                                      .lifetime = what->lifetime,
                                      .extends = extends,
                                      .reservation = what->reservation};
    status = berth_pool_grow(pool, &growth, out_id);
    if (status != BERTH_ERR_OUT_OF_MEMORY) return status;
    // what was spared, or what the ladder has loosened without emptying a granule
    spares = false;
    BERTH_TRY(berth_extents_prepare(&pool->extents, 2));
    *out_id = take_mapped(pool, what, &spares);
    if (*out_id == 0) return status;
    if (count_refusals(pool) > refusals)
        berth_store_excuse_refusal(pool->account.store, pool->account.tenant);
    return BERTH_OK;
}

/// Finds an extent, and tells the watch how that ended.
static berth_status take_extent(berth_pool* pool,
                                uint64_t site,
                                const wish* what,
                                berth_extent_id* out_id) {
    if (!pool->can_remap) note_largest(pool, what->size);
    const berth_pool_footing before = berth_pool_stand(pool);
    const berth_status status = find_extent(pool, what, out_id);
    berth_pool_note_asked(pool, &before, site, what->size, status);
    return status;
}

berth_status berth_pool_take_extent(berth_pool* pool,
                                    uint64_t site,
                                    uint64_t size,
                                    uint64_t alignment,
                                    berth_lifetime lifetime,
                                    berth_reservation* reservation,
                                    berth_extent_id* out_id) {
    const wish what = {
        .size = size, .alignment = alignment, .lifetime = lifetime, .reservation = reservation};
    return take_extent(pool, site, &what, out_id);
}

berth_status berth_pool_take_large(berth_pool* pool,
                                   const berth_pool_request* request,
                                   const berth_life* known,
                                   berth_block* out_block) {
    uint64_t bytes = request->size_bytes;
    const uint64_t alignment = berth_pool_shape(pool, &bytes);
    const berth_life life = known->believed != BERTH_LIFETIME_UNKNOWN
                                ? *known
                                : berth_pool_expect_life(pool, request->site);
    const wish what = {.size = bytes,
                       .alignment = alignment,
                       .lifetime = life.believed,
                       .reservation = request->reservation,
                       .least_bytes = berth_round_up(request->size_bytes, BERTH_ALIGNMENT)};
    berth_extent_id id = 0;
    BERTH_TRY(take_extent(pool, request->site, &what, &id));
    berth_extent* extent = berth_extents_at(&pool->extents, id);
    extent->movable = request->movable;
    berth_pool_begin_life(pool, extent, &life, out_block);
    out_block->data = berth_pool_address(extent->start);
    out_block->handle = (uint64_t)id << 1;
    return BERTH_OK;
}
