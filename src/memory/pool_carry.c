// SPDX-License-Identifier: Apache-2.0
// All extents of a run are still while it is carried: blocks by their owners, free memory as BUSY.
// Copies come before the remap, so that whatever fails leaves everything where it was.
#include "memory/pool_carry.h"

#include "base/error.h"
#include "base/numbers.h"
#include "memory/poison.h"

/// Extents that a run has at most.
#define MOST_EXTENTS 8u

// --- Finding ------------------------------------------------------------------------------------

static uint64_t end_of(const berth_extent* extent) { return extent->start + extent->size; }

static bool is_border(const berth_pool* pool, uint64_t address) {
    return address % pool->granule_bytes == 0;
}

/// Whether an extent may be carried as a whole, as far as can be told without asking.
static bool may_carry(const berth_extent* extent) {
    if (extent->state == BERTH_EXTENT_FREE) return true;
    return extent->state == BERTH_EXTENT_USED && (extent->slab != 0 || extent->movable != NULL);
}

bool berth_run_find_below(const berth_pool* pool,
                          berth_extent_id id,
                          uint64_t end,
                          berth_run* out_run) {
    uint64_t start = berth_extents_at(&pool->extents, id)->start;
    for (uint32_t i = 0; i < MOST_EXTENTS && !is_border(pool, start); i++) {
        id = berth_extents_at(&pool->extents, id)->before;
        const berth_extent* extent = berth_extents_at(&pool->extents, id);
        if (!may_carry(extent)) return false;
        const uint64_t border = berth_round_down(end_of(extent), pool->granule_bytes);
        const bool is_cut = extent->state == BERTH_EXTENT_FREE && border >= extent->start;
        start = is_cut ? border : extent->start;
    }
    *out_run = (berth_run){.first = id, .start = start, .size = end - start};
    return is_border(pool, start);
}

bool berth_run_find_above(const berth_pool* pool,
                          berth_extent_id id,
                          uint64_t start,
                          berth_run* out_run) {
    uint64_t end = end_of(berth_extents_at(&pool->extents, id));
    *out_run = (berth_run){.first = id, .start = start};
    for (uint32_t i = 0; i < MOST_EXTENTS && !is_border(pool, end); i++) {
        id = berth_extents_at(&pool->extents, id)->after;
        const berth_extent* extent = berth_extents_at(&pool->extents, id);
        if (!may_carry(extent)) return false;
        const uint64_t border = berth_round_up(extent->start, pool->granule_bytes);
        const bool is_cut = extent->state == BERTH_EXTENT_FREE && border <= end_of(extent);
        end = is_cut ? border : end_of(extent);
    }
    out_run->size = end - start;
    return is_border(pool, end);
}

berth_extent_id berth_run_query_last(const berth_pool* pool, const berth_run* run) {
    berth_extent_id id = run->first;
    while (end_of(berth_extents_at(&pool->extents, id)) < run->start + run->size)
        id = berth_extents_at(&pool->extents, id)->after;
    return id;
}

// --- Owners -------------------------------------------------------------------------------------

/// What to tell owners: ask for leave to move, or that it is done, or not done.
typedef enum message { ASK, MOVED, STAYS } message;

/// Tells the owner of one block; false if it refuses. `shift` is added to the address.
static bool tell(berth_movable* movable, message what, uint64_t shift) {
    if (what == ASK) return movable != NULL && movable->ops->can_move(movable);
    berth_block block = *movable->ops->block(movable);
    block.data = berth_pool_address((uint64_t)(uintptr_t)block.data + shift);
    movable->ops->move(movable, what == MOVED ? &block : NULL, 0);
    return true;
}

static bool is_slot_free(const berth_slab* slab, uint32_t slot) {
    return (slab->free_slots[slot / 64] >> (slot % 64) & 1u) != 0;
}

/// Tells the owners of the used slots of a slab; stops before the one that refuses, or after
/// `*count` of them. Returns whether all have been told; `*count` is how many.
static bool tell_slab(
    const berth_pool* pool, const berth_slab* slab, message what, uint64_t shift, uint64_t* count) {
    const uint32_t slots = pool->slabs.classes[slab->size_class].slot_count;
    const uint64_t most = *count;
    *count = 0;
    for (uint32_t i = 0; i < slots && *count < most; i++) {
        if (is_slot_free(slab, i)) continue;
        if (!tell(slab->movables[i], what, shift)) return false;
        ++*count;
    }
    return true;
}

/// Extents that are still, or are to be.
typedef struct stretch {
    berth_extent_id first;
    berth_extent_id last;
} stretch;

/// The extent after `id` in a stretch; 0 at its end.
static berth_extent_id next_in(const berth_pool* pool, const stretch* all, berth_extent_id id) {
    return id == all->last ? 0 : berth_extents_at(&pool->extents, id)->after;
}

/// Tells the first `*count` owners; returns whether none refused, in `*count` how many were told.
static bool tell_all(
    const berth_pool* pool, const stretch* all, message what, uint64_t shift, uint64_t* count) {
    const uint64_t most = *count;
    *count = 0;
    for (berth_extent_id id = all->first; id != 0 && *count < most; id = next_in(pool, all, id)) {
        const berth_extent* extent = berth_extents_at(&pool->extents, id);
        if (extent->state != BERTH_EXTENT_USED) continue;
        uint64_t told = most - *count;
        bool is_told = true;
        if (extent->slab != 0) {
            const berth_slab* slab = berth_slabs_at(&pool->slabs, extent->slab);
            is_told = tell_slab(pool, slab, what, shift, &told);
        } else {
            is_told = tell(extent->movable, what, shift);
            told = is_told ? 1 : 0;
        }
        *count += told;
        if (!is_told) return false;
    }
    return true;
}

// --- Keeping still ------------------------------------------------------------------------------

/// Makes what is BUSY in a stretch FREE again, where it joins what lies beside the stretch.
static void release_stretch(berth_pool* pool, stretch* all) {
    for (berth_extent_id id = all->first; id != 0;) {
        const berth_extent_id next = next_in(pool, all, id);
        if (berth_extents_at(&pool->extents, id)->state == BERTH_EXTENT_BUSY) {
            const berth_extent_id joined = berth_pool_free_extent(pool, id, 0);
            if (id == all->first) all->first = joined;
            if (id == all->last) all->last = joined;
        }
        id = next;
    }
}

/// Whether an extent is in [start, end), a USED one whole, and may be carried.
static bool is_of_run(const berth_extent* extent, uint64_t start, uint64_t end) {
    if (!may_carry(extent) || end_of(extent) <= start || extent->start >= end) return false;
    return extent->state == BERTH_EXTENT_FREE || (extent->start >= start && end_of(extent) <= end);
}

/// Makes what is FREE in a run BUSY, and cuts off what is not of it. False if something else is
/// there, is under way in it, or does not move. Needs two spare records.
static bool hold_run(berth_pool* pool, berth_run* run, stretch* out_all) {
    const uint64_t end = run->start + run->size;
    bool is_held = true;
    *out_all = (stretch){0};
    for (berth_extent_id id = run->first; is_held;) {
        const berth_extent extent = *berth_extents_at(&pool->extents, id);
        is_held = is_of_run(&extent, run->start, end);
        if (is_held && extent.state == BERTH_EXTENT_FREE) {
            const uint64_t low = extent.start > run->start ? extent.start : run->start;
            const uint64_t high = end_of(&extent) < end ? end_of(&extent) : end;
            id = berth_extents_take_out(
                &pool->extents, id, low, high - low, BERTH_EXTENT_BUSY, BERTH_LIFETIME_UNKNOWN);
        }
        if (!is_held) break;
        if (out_all->first == 0) out_all->first = id;
        out_all->last = id;
        if (end_of(berth_extents_at(&pool->extents, id)) >= end) break;
        id = berth_extents_at(&pool->extents, id)->after;
    }
    if (!is_held && out_all->first != 0) release_stretch(pool, out_all);
    if (out_all->first != 0) run->first = out_all->first;
    return is_held;
}

/// The parts of a run: [start, low) and [high, end) share granules with others.
typedef struct parts {
    uint64_t start, low, high, end;
} parts;

static parts cut_at(const berth_pool* pool, uint64_t start, uint64_t size) {
    parts p = {.start = start, .end = start + size};
    p.low = berth_round_up(start, pool->granule_bytes);
    p.high = berth_round_down(p.end, pool->granule_bytes);
    if (p.low >= p.high) p.low = p.high = p.end; // no whole granule
    return p;
}

static berth_extent_id take_part(berth_pool* pool,
                                 berth_extent_id id,
                                 uint64_t low,
                                 uint64_t high) {
    return berth_extents_take_out(
        &pool->extents, id, low, high - low, BERTH_EXTENT_BUSY, BERTH_LIFETIME_UNKNOWN);
}

/// Makes the target BUSY. Needs four spare records.
static berth_extent_id hold_target(berth_pool* pool, const parts* to, berth_extent_id hole) {
    if (to->low == to->high) return take_part(pool, hole, to->start, to->end);
    berth_extent_id id = take_part(pool, hole, to->low, to->high);
    if (to->start < to->low) {
        const berth_extent_id below = berth_extents_at(&pool->extents, id)->before;
        id = take_part(pool, below, to->start, to->low);
        berth_extents_join_after(&pool->extents, id);
    }
    if (to->high < to->end) {
        const berth_extent_id above = berth_extents_at(&pool->extents, id)->after;
        (void)take_part(pool, above, to->high, to->end);
        berth_extents_join_after(&pool->extents, id);
    }
    return id;
}

/// Gives up what is BUSY at [p->start, p->end) and has nothing in it: mapped at its ends, in whole
/// granules not. Needs two spare records.
static void release_target(berth_pool* pool, const parts* p, berth_extent_id busy) {
    if (p->low == p->high) {
        berth_pool_free_extent(pool, busy, 0);
        return;
    }
    const berth_extent_id middle = take_part(pool, busy, p->low, p->high);
    const berth_extent_id above =
        p->high < p->end ? berth_extents_at(&pool->extents, middle)->after : 0;
    berth_extents_set(&pool->extents, middle, BERTH_EXTENT_HOLE, 0);
    if (above != 0) berth_pool_free_extent(pool, above, 0);
    if (busy != middle) berth_pool_free_extent(pool, busy, 0);
}

// --- Carrying -----------------------------------------------------------------------------------

static bool copy_part(const berth_pool* pool, uint64_t to, uint64_t from, uint64_t end) {
    if (from == end) return true;
    const berth_status status = berth_stream_copy(pool->stream,
                                                  berth_pool_address(to),
                                                  berth_pool_address(from),
                                                  end - from,
                                                  BERTH_COPY_DEVICE_TO_DEVICE);
    return status == BERTH_OK;
}

static uint64_t offset_in(const berth_space* space, uint64_t start) {
    return start - (uint64_t)(uintptr_t)space->base;
}

static berth_space* space_of(const berth_pool* pool, berth_extent_id id) {
    return pool->regions.items[berth_extents_at(&pool->extents, id)->region].space;
}

/// True if no work that is enqueued can touch the pool's memory. Without the lock.
static bool is_idle(const berth_pool* pool, bool may_wait) {
    if (!pool->is_async) return true;
    if (may_wait) return berth_stream_synchronize(pool->stream) == BERTH_OK;
    uint64_t ticket = 0;
    return berth_stream_record(pool->stream, &ticket) == BERTH_OK &&
           berth_stream_query(pool->stream, ticket);
}

/// Copies the ends and remaps what is between them. Unlocks.
static bool transfer(berth_pool* pool,
                     const parts* from,
                     const parts* to,
                     berth_extent_id run,
                     berth_extent_id busy) {
    berth_space* source = space_of(pool, run);
    berth_space* space = space_of(pool, busy);
    const bool may_wait = pool->may_wait;
    berth_mutex_unlock(pool->lock);
    BERTH_UNPOISON_REGION(berth_pool_address(from->start), from->end - from->start);
    BERTH_UNPOISON_REGION(berth_pool_address(to->start), to->end - to->start);
    bool is_done = from->low == from->high || is_idle(pool, may_wait);
    is_done = is_done && copy_part(pool, to->start, from->start, from->low) &&
              copy_part(pool, to->high, from->high, from->end);
    if (is_done && from->low < from->high)
        is_done = berth_space_remap(source,
                                    offset_in(source, from->low),
                                    space,
                                    offset_in(space, to->low),
                                    from->high - from->low) == BERTH_OK;
    berth_mutex_lock(pool->lock);
    return is_done;
}

/// Puts slabs where their extents are now, and marks for sanitizers what nobody has.
static void settle(berth_pool* pool, const stretch* all) {
    for (berth_extent_id id = all->first; id != 0; id = next_in(pool, all, id)) {
        const berth_extent* extent = berth_extents_at(&pool->extents, id);
        if (extent->slab == 0) continue;
        berth_slab* slab = berth_slabs_at(&pool->slabs, extent->slab);
        slab->start = extent->start;
        const berth_slab_class* geometry = &pool->slabs.classes[slab->size_class];
        for (uint32_t i = 0; i < geometry->slot_count; i++)
            if (is_slot_free(slab, i))
                berth_pool_poison(
                    pool, slab->start + i * geometry->slot_bytes, geometry->slot_bytes);
    }
}

/// As berth_pool_carry, while what is free in the run is in transit.
static bool carry(berth_pool* pool,
                  berth_run* run,
                  uint64_t target,
                  berth_extent_id hole,
                  berth_move_count* count) {
    if (berth_extents_prepare(&pool->extents, 8) != BERTH_OK) return false;
    const parts from = cut_at(pool, run->start, run->size);
    const parts to = cut_at(pool, target, run->size);
    stretch all;
    if (!hold_run(pool, run, &all)) return false;
    uint64_t owners = UINT64_MAX;
    bool is_carried = tell_all(pool, &all, ASK, 0, &owners);
    if (is_carried) {
        const berth_extent_id busy = hold_target(pool, &to, hole);
        const berth_extent_id hidden[2] = {berth_extents_hide_spare(&pool->extents),
                                           berth_extents_hide_spare(&pool->extents)};
        is_carried = transfer(pool, &from, &to, all.first, busy);
        berth_extents_return_spare(&pool->extents, hidden[0]);
        berth_extents_return_spare(&pool->extents, hidden[1]);
        if (is_carried) {
            berth_extents_exchange(&pool->extents, all.first, all.last, busy);
            berth_pool_note_first(pool, all.first);
            berth_pool_note_first(pool, busy);
            count->moved_bytes += from.low - from.start + from.end - from.high;
            count->remapped_bytes += from.high - from.low;
            pool->remapped_bytes += from.high - from.low;
            run->start = target;
        }
        settle(pool, &all);
        release_target(pool, is_carried ? &from : &to, busy);
    }
    tell_all(pool, &all, is_carried ? MOVED : STAYS, target - from.start, &owners);
    release_stretch(pool, &all);
    run->first = all.first;
    return is_carried;
}

bool berth_pool_carry(berth_pool* pool,
                      berth_run* run,
                      uint64_t target,
                      berth_extent_id hole,
                      berth_move_count* count) {
    BERTH_CHECK(1, (target - run->start) % pool->granule_bytes == 0);
    berth_transit transit;
    berth_store_begin_transit(pool->account.store, &transit);
    const bool is_carried = carry(pool, run, target, hole, count);
    berth_store_end_transit(pool->account.store, &transit);
    return is_carried;
}
