// SPDX-License-Identifier: Apache-2.0
// The moves that empty a granule. All places are found before anything is copied, so that nothing
// is moved in vain.
#include "memory/pool_move.h"

#include "base/error.h"
#include "base/numbers.h"
#include "memory/poison.h"
#include "memory/pool_internal.h"

/// Free extents looked at for one place.
#define PLACE_STEPS 256u
/// Slabs of a class looked at for one slot.
#define SLAB_STEPS 64u

static uint64_t slot_handle(berth_slab_id slab, uint32_t slot) {
    return (uint64_t)slab * BERTH_SLAB_SLOTS + slot;
}

static uint32_t slot_count(const berth_pool* pool, const berth_slab* slab) {
    return pool->slabs.classes[slab->size_class].slot_count;
}

static uint64_t slot_bytes(const berth_pool* pool, const berth_slab* slab) {
    return pool->slabs.classes[slab->size_class].slot_bytes;
}

static bool is_used(const berth_slab* slab, uint32_t slot) {
    return (slab->free_slots[slot / 64] >> (slot % 64) & 1u) == 0;
}

// --- What has to move ---------------------------------------------------------------------------

static bool may_move(berth_movable* movable) {
    if (movable == NULL || !movable->ops->can_move(movable)) return false;
    movable->ops->move(movable, NULL, 0);
    return true;
}

static bool may_slab_move(const berth_pool* pool, const berth_slab* slab) {
    for (uint32_t i = 0; i < slot_count(pool, slab); i++)
        if (is_used(slab, i) && !may_move(slab->movables[i])) return false;
    return true;
}

/// The lowest extent in the mover's granule, [start, end); 0 if the survey does not know any more
/// what is there: the addresses may belong to another region by now.
static berth_extent_id find_lowest(const berth_mover* mover, uint64_t start, uint64_t end) {
    const berth_pool* pool = mover->pool;
    const berth_granule_view* view = &mover->survey->granules.items[mover->granule];
    berth_extent_id hint = view->any;
    if (hint == 0 || hint >= pool->extents.record_count) return 0;
    const berth_extent* extent = berth_extents_at(&pool->extents, hint);
    if (extent->state == BERTH_EXTENT_SPARE || extent->start >= end ||
        extent->start + extent->size <= start ||
        berth_survey_find(mover->survey, extent->region, start) != view)
        return 0;
    while (extent->start > start && extent->before != 0) {
        hint = extent->before;
        extent = berth_extents_at(&pool->extents, hint);
    }
    return hint;
}

/// Writes down what lies in [start, end); false if some of it does not move.
static bool collect(berth_mover* mover, uint64_t start, uint64_t end) {
    const berth_pool* pool = mover->pool;
    berth_extent_id id = find_lowest(mover, start, end);
    while (id != 0) {
        const berth_extent* extent = berth_extents_at(&pool->extents, id);
        if (extent->start >= end) break;
        berth_move_step step = {.from = id, .bytes = extent->size};
        id = extent->after;
        if (extent->state == BERTH_EXTENT_FREE) continue;
        if (extent->state != BERTH_EXTENT_USED) return false;
        if (extent->slab != 0) {
            const berth_slab* slab = berth_slabs_at(&pool->slabs, extent->slab);
            if (!may_slab_move(pool, slab)) return false;
            step.bytes = (slot_count(pool, slab) - slab->free_count) * slot_bytes(pool, slab);
        } else if (!may_move(extent->movable)) {
            return false;
        }
        if (step.bytes > mover->largest_bytes) mover->largest_bytes = step.bytes;
        if (berth_move_step_vec_push(&mover->steps, pool->host, step) != BERTH_OK) return false;
    }
    return mover->steps.count > 0;
}

// --- Where to -----------------------------------------------------------------------------------

static bool is_victim(const berth_survey* survey, uint32_t region, uint64_t address) {
    const berth_granule_view* view = berth_survey_find(survey, region, address);
    return view != NULL && view->is_victim;
}

/// The part [*start, *end) of a free extent at its lower or upper end that is no whole granule and
/// in no victim (P1); empty if there is none.
static void find_edge(const berth_survey* survey,
                      const berth_extent* extent,
                      bool upper,
                      uint64_t* start,
                      uint64_t* end) {
    const uint64_t granule = survey->granule_bytes;
    const uint64_t up = berth_round_up(extent->start, granule);
    const uint64_t down = berth_round_down(extent->start + extent->size, granule);
    *start = extent->start;
    *end = extent->start + extent->size;
    if (up > down) { // inside of one granule
        if (upper || is_victim(survey, extent->region, *start)) *end = *start;
        return;
    }
    const bool is_lower_victim = is_victim(survey, extent->region, *start);
    const bool is_upper_victim = is_victim(survey, extent->region, *end - 1);
    if (up == down && !is_lower_victim && !is_upper_victim) { // over one border
        if (upper) *end = *start;
        return;
    }
    if (upper)
        *start = is_upper_victim ? *end : down;
    else
        *end = is_lower_victim ? *start : up;
}

/// Finds `size` bytes at a multiple of `alignment` where P1 allows; 0 if there are none near.
static berth_extent_id find_place(const berth_mover* mover,
                                  uint64_t size,
                                  uint64_t alignment,
                                  uint64_t* out_start) {
    const berth_extents* extents = &mover->pool->extents;
    berth_extent_id id = 0;
    for (uint32_t i = 0; i < PLACE_STEPS; i++) {
        id = berth_extents_walk_free(extents, id, size, false);
        if (id == 0) return 0;
        for (int upper = 0; upper < 2; upper++) {
            uint64_t start, end;
            find_edge(mover->survey, berth_extents_at(extents, id), upper != 0, &start, &end);
            start = berth_round_up(start, alignment);
            if (start > end || end - start < size) continue;
            *out_start = start;
            return id;
        }
    }
    return 0;
}

/// A slab of the class of `from` with a free slot, another one and in no victim; the first ones are
/// preferred. 0: none. With `wanted` > 1: only if such slabs have so many together.
static berth_slab_id find_room(const berth_mover* mover, berth_slab_id from, uint32_t wanted) {
    const berth_pool* pool = mover->pool;
    const uint32_t size_class = berth_slabs_at(&pool->slabs, from)->size_class;
    berth_slab_id found = 0;
    uint32_t room = 0;
    berth_slab_id id = pool->slabs.classes[size_class].head;
    for (uint32_t i = 0; i < SLAB_STEPS && id != 0 && room < wanted; i++) {
        const berth_slab* slab = berth_slabs_at(&pool->slabs, id);
        const berth_extent* extent = berth_extents_at(&pool->extents, slab->extent);
        // what the slab's extent has beyond its slots may lie over a border
        const uint64_t last = extent->start + extent->size - 1;
        if (id != from && !is_victim(mover->survey, extent->region, extent->start) &&
            !is_victim(mover->survey, extent->region, last)) {
            if (found == 0) found = id;
            room += slab->free_count;
        }
        id = slab->after;
    }
    return room >= wanted ? found : 0;
}

static bool take_place(berth_mover* mover, berth_move_step* step, uint64_t size, uint64_t align) {
    berth_pool* pool = mover->pool;
    if (berth_extents_prepare(&pool->extents, 2) != BERTH_OK) return false;
    uint64_t start = 0;
    const berth_extent_id id = find_place(mover, size, align, &start);
    if (id == 0) return false;
    const uint8_t lifetime = berth_extents_at(&pool->extents, step->from)->lifetime;
    step->to = berth_extents_take_out(
        &pool->extents, id, start, size, BERTH_EXTENT_USED, (berth_lifetime)lifetime);
    return true;
}

/// Finds places for all steps; false if one has none.
static bool take_places(berth_mover* mover) {
    const berth_pool* pool = mover->pool;
    uint32_t claimed[BERTH_SLAB_CLASSES] = {0}; // slots that earlier steps will fill
    for (size_t i = 0; i < mover->steps.count; i++) {
        berth_move_step* step = &mover->steps.items[i];
        const berth_extent* extent = berth_extents_at(&pool->extents, step->from);
        if (extent->slab == 0) {
            if (!take_place(mover, step, extent->size, BERTH_ALIGNMENT)) return false;
            continue;
        }
        const berth_slab* slab = berth_slabs_at(&pool->slabs, extent->slab);
        uint32_t* claim = &claimed[slab->size_class];
        const uint32_t used = slot_count(pool, slab) - slab->free_count;
        if (find_room(mover, extent->slab, *claim + used) != 0) {
            *claim += used;
            continue;
        }
        const uint64_t bytes = pool->slabs.classes[slab->size_class].slab_bytes;
        if (!take_place(mover, step, bytes, bytes)) return false;
    }
    return true;
}

static void give_places(berth_mover* mover) {
    const size_t count = mover->steps.count;
    berth_granule_view* view = &mover->survey->granules.items[mover->granule];
    // what is still there tells where to look next time
    if (mover->next < count) view->any = mover->steps.items[mover->next].from;
    for (size_t i = mover->next; i < count; i++) {
        const berth_extent_id to = mover->steps.items[i].to;
        if (to != 0) berth_pool_free_extent(mover->pool, to, 0);
    }
    mover->steps.count = mover->next = 0;
}

berth_mover_answer berth_mover_begin(berth_mover* mover,
                                     berth_pool* pool,
                                     berth_survey* survey,
                                     size_t index) {
    mover->pool = pool;
    mover->survey = survey;
    mover->granule = index;
    mover->steps.count = mover->next = 0;
    mover->largest_bytes = 0;
    const uint64_t start = berth_survey_address(survey, index);
    berth_mover_answer answer = BERTH_MOVER_STUCK;
    berth_mutex_lock(pool->lock);
    berth_pool_put_in_order(pool, true);
    if (collect(mover, start, start + survey->granule_bytes))
        answer = take_places(mover) ? BERTH_MOVER_READY : BERTH_MOVER_NO_PLACE;
    if (answer != BERTH_MOVER_READY) give_places(mover);
    berth_mutex_unlock(pool->lock);
    return answer;
}

uint64_t berth_mover_query_next(const berth_mover* mover) {
    return mover->next < mover->steps.count ? mover->steps.items[mover->next].bytes : 0;
}

void berth_mover_end(berth_mover* mover) {
    if (mover->pool == NULL) return;
    berth_mutex_lock(mover->pool->lock);
    give_places(mover);
    berth_mutex_unlock(mover->pool->lock);
}

void berth_mover_fini(berth_mover* mover, const berth_host* host) {
    berth_move_step_vec_fini(&mover->steps, host);
}

// --- Moving -------------------------------------------------------------------------------------

/// Enqueues the copy of a block to address `to`. Unlocks.
static bool copy_block(berth_pool* pool, const berth_block* block, uint64_t to) {
    berth_mutex_unlock(pool->lock);
    BERTH_UNPOISON_REGION(berth_pool_address(to), block->size_bytes);
    const berth_status status = berth_stream_copy(pool->stream,
                                                  berth_pool_address(to),
                                                  block->data,
                                                  block->size_bytes,
                                                  BERTH_COPY_DEVICE_TO_DEVICE);
    berth_mutex_lock(pool->lock);
    return status == BERTH_OK;
}

static berth_block block_at(const berth_block* old, uint64_t address, uint64_t handle) {
    berth_block block = *old;
    block.data = berth_pool_address(address);
    block.handle = handle;
    return block;
}

/// Moves the block on extent `from` to the empty one `to`. Unlocks.
static bool move_block(berth_pool* pool,
                       berth_extent_id from,
                       berth_extent_id to,
                       berth_move_count* count) {
    berth_movable* movable = berth_extents_at(&pool->extents, from)->movable;
    if (!movable->ops->can_move(movable)) return false;
    const berth_block old = *movable->ops->block(movable);
    BERTH_CHECK(1, old.handle == (uint64_t)from << 1);
    const uint64_t target = berth_extents_at(&pool->extents, to)->start;
    if (!copy_block(pool, &old, target)) {
        movable->ops->move(movable, NULL, 0);
        return false;
    }
    const berth_block block = block_at(&old, target, (uint64_t)to << 1);
    movable->ops->move(movable, &block, old.size_bytes);
    berth_extents_at(&pool->extents, to)->movable = movable;
    berth_pool_move_life(pool, from, to);
    berth_pool_free_extent(pool, from, 0);
    count->moved_bytes += old.size_bytes;
    count->blocks++;
    return true;
}

/// Moves the block in slot `slot` of slab `from` to some slot of slab `to`. Unlocks.
static bool move_slot(berth_pool* pool,
                      berth_slab_id from,
                      uint32_t slot,
                      berth_slab_id to,
                      berth_move_count* count) {
    berth_movable* movable = berth_slabs_at(&pool->slabs, from)->movables[slot];
    if (!movable->ops->can_move(movable)) return false;
    const berth_block old = *movable->ops->block(movable);
    BERTH_CHECK(1, old.handle == (slot_handle(from, slot) << 1 | 1u));
    uint64_t handle = 0;
    const uint64_t target = berth_slabs_take_from(&pool->slabs, to, movable, &handle);
    const bool is_moved = copy_block(pool, &old, target);
    const berth_block block = block_at(&old, target, handle << 1 | 1u);
    const berth_block* left = is_moved ? &old : &block;
    movable->ops->move(movable, is_moved ? &block : NULL, old.size_bytes);
    berth_pool_poison(pool,
                      (uint64_t)(uintptr_t)left->data,
                      slot_bytes(pool, berth_slabs_at(&pool->slabs, from)));
    berth_slabs_give(&pool->slabs, left->handle >> 1);
    if (!is_moved) return false;
    count->moved_bytes += old.size_bytes;
    count->blocks++;
    return true;
}

/// Lets the blocks of the slab `from` join other slabs of its class. Unlocks.
static bool join_slabs(berth_mover* mover, berth_slab_id from, berth_move_count* count) {
    berth_pool* pool = mover->pool;
    const uint32_t size_class = berth_slabs_at(&pool->slabs, from)->size_class;
    const uint32_t slots = pool->slabs.classes[size_class].slot_count;
    for (uint32_t i = 0; i < slots; i++) {
        if (!is_used(berth_slabs_at(&pool->slabs, from), i)) continue;
        const berth_slab_id to = find_room(mover, from, 1);
        if (to == 0 || !move_slot(pool, from, i, to, count)) return false;
    }
    berth_pool_drop_slab(pool, from);
    return true;
}

/// Tells the owners of the slots [0, end) of a slab where these are now: at `start`, or (0) where
/// they were.
static void tell_owners(const berth_pool* pool,
                        const berth_slab* slab,
                        uint32_t end,
                        uint64_t start) {
    for (uint32_t i = 0; i < end; i++) {
        if (!is_used(slab, i)) continue;
        berth_movable* movable = slab->movables[i];
        const berth_block old = *movable->ops->block(movable);
        const berth_block block = block_at(&old, start + i * slot_bytes(pool, slab), old.handle);
        movable->ops->move(movable, start != 0 ? &block : NULL, old.size_bytes);
    }
}

/// Copies the used slots of slab `id`, all kept still, to `start`. Unlocks.
static bool copy_slots(berth_pool* pool,
                       berth_slab_id id,
                       uint64_t start,
                       berth_move_count* count) {
    const uint32_t slots = slot_count(pool, berth_slabs_at(&pool->slabs, id));
    for (uint32_t i = 0; i < slots; i++) {
        const berth_slab* slab = berth_slabs_at(&pool->slabs, id);
        if (!is_used(slab, i)) continue;
        const berth_block block = *slab->movables[i]->ops->block(slab->movables[i]);
        if (!copy_block(pool, &block, start + i * slot_bytes(pool, slab))) return false;
        count->moved_bytes += block.size_bytes;
        count->blocks++;
    }
    return true;
}

/// Moves the slab on extent `from` as it is to the empty extent `to`. Unlocks.
static bool move_slab(berth_pool* pool,
                      berth_extent_id from,
                      berth_extent_id to,
                      berth_move_count* count) {
    const berth_slab_id id = berth_extents_at(&pool->extents, from)->slab;
    berth_slab* slab = berth_slabs_at(&pool->slabs, id);
    const uint32_t slots = slot_count(pool, slab);
    for (uint32_t i = 0; i < slots; i++) {
        if (!is_used(slab, i) || slab->movables[i]->ops->can_move(slab->movables[i])) continue;
        tell_owners(pool, slab, i, 0);
        return false;
    }
    const uint64_t start = berth_extents_at(&pool->extents, to)->start;
    berth_move_count copied = {0};
    const bool is_copied = copy_slots(pool, id, start, &copied);
    slab = berth_slabs_at(&pool->slabs, id);
    tell_owners(pool, slab, slots, is_copied ? start : 0);
    if (!is_copied) return false;
    slab->start = start;
    slab->extent = to;
    berth_extents_at(&pool->extents, to)->slab = id;
    berth_pool_free_extent(pool, from, 0);
    count->moved_bytes += copied.moved_bytes;
    count->blocks += copied.blocks;
    return true;
}

static bool do_step(berth_mover* mover, const berth_move_step* step, berth_move_count* count) {
    berth_pool* pool = mover->pool;
    const berth_slab_id slab = berth_extents_at(&pool->extents, step->from)->slab;
    if (step->to == 0) return join_slabs(mover, slab, count);
    if (slab != 0) return move_slab(pool, step->from, step->to, count);
    return move_block(pool, step->from, step->to, count);
}

bool berth_mover_step(berth_mover* mover, berth_move_count* count) {
    berth_mutex_lock(mover->pool->lock);
    const bool is_done = do_step(mover, &mover->steps.items[mover->next], count);
    if (is_done) mover->next++;
    berth_mutex_unlock(mover->pool->lock);
    return is_done;
}

// --- Moving for its own sake --------------------------------------------------------------------

static void stir_block(berth_pool* pool, berth_extent_id id, berth_move_count* count) {
    if (berth_extents_prepare(&pool->extents, 2) != BERTH_OK) return;
    const berth_extent extent = *berth_extents_at(&pool->extents, id);
    const bool is_whole = extent.start % pool->granule_bytes == 0;
    const uint64_t alignment = is_whole ? pool->granule_bytes : BERTH_ALIGNMENT;
    uint64_t start = 0;
    const berth_extent_id hole =
        berth_extents_find(&pool->extents, false, extent.size, alignment, &start);
    if (hole == 0) return;
    const berth_extent_id to = berth_extents_take_out(&pool->extents,
                                                      hole,
                                                      start,
                                                      extent.size,
                                                      BERTH_EXTENT_USED,
                                                      (berth_lifetime)extent.lifetime);
    if (!move_block(pool, id, to, count)) berth_pool_free_extent(pool, to, 0);
}

static void stir_slab(berth_pool* pool, berth_slab_id id, berth_move_count* count) {
    const uint32_t slots = slot_count(pool, berth_slabs_at(&pool->slabs, id));
    for (uint32_t i = 0; i < slots; i++) {
        const berth_slab* slab = berth_slabs_at(&pool->slabs, id);
        const berth_slab_id to = pool->slabs.classes[slab->size_class].head;
        if (to == 0) return;
        if (is_used(slab, i) && slab->movables[i] != NULL) move_slot(pool, id, i, to, count);
    }
}

void berth_pool_stir(berth_pool* pool,
                     size_t* record,
                     uint64_t limit_bytes,
                     berth_move_count* count) {
    const uint64_t end = count->moved_bytes + limit_bytes;
    berth_mutex_lock(pool->lock);
    berth_pool_put_in_order(pool, true);
    for (size_t left = pool->extents.record_count; left > 0 && count->moved_bytes < end; left--) {
        if (++*record >= pool->extents.record_count) *record = 1;
        if (*record >= pool->extents.record_count) break;
        const berth_extent* extent = berth_extents_at(&pool->extents, (berth_extent_id)*record);
        if (extent->state != BERTH_EXTENT_USED) continue;
        if (extent->slab != 0)
            stir_slab(pool, extent->slab, count);
        else if (extent->movable != NULL)
            stir_block(pool, (berth_extent_id)*record, count);
    }
    berth_pool_flush_slabs(pool);
    berth_mutex_unlock(pool->lock);
}
