// SPDX-License-Identifier: Apache-2.0
// How a pool grows and shrinks by granules. Growth first moves whole granules that lie free where
// the request does not fit (where the device can), so that fragmentation of addresses costs no
// memory.
#include "memory/pool_internal.h"

#include "base/checked.h"
#include "base/error.h"
#include "memory/page_store_internal.h"
#include "memory/poison.h"

/// Free extents looked at as a beginning that only has to be lengthened.
#define EXTENSION_STEPS 16u

/// Addresses of FREE and HOLE extents are compared and handed to the device, never followed here.
static const void* address(uint64_t start) { return (const void*)(uintptr_t)start; }

static berth_space* space_of(const berth_pool* pool, const berth_extent* extent) {
    return pool->regions.items[extent->region].space;
}

static uint64_t offset_in(const berth_space* space, uint64_t start) {
    return start - (uint64_t)(uintptr_t)space->base;
}

/// How a request will be met: `part` (may be 0) is mapped and free, `hole` next to it is to be
/// mapped; `above` (may be 0), beyond that, is mapped and free, too.
typedef struct growth {
    berth_extent_id part;
    berth_extent_id hole;
    berth_extent_id above;
    uint64_t map_start;
    uint64_t map_bytes;
    uint64_t start; ///< of the block
    uint64_t size;
    berth_lifetime lifetime;
} growth;

/// Considers lengthening the FREE extent `id` upwards; takes it if that maps less than `best`.
static void consider_up(
    const berth_pool* pool, berth_extent_id id, uint64_t size, uint64_t alignment, growth* best) {
    const berth_extent* part = berth_extents_at(&pool->extents, id);
    if (part->after == 0) return;
    const berth_extent* hole = berth_extents_at(&pool->extents, part->after);
    if (hole->state != BERTH_EXTENT_HOLE) return;
    const uint64_t start = berth_round_up(part->start, alignment);
    if (start >= hole->start) return;
    const uint64_t map_bytes = berth_round_up(start + size - hole->start, pool->granule_bytes);
    if (map_bytes > hole->size || map_bytes > best->map_bytes) return;
    *best = (growth){.part = id,
                     .hole = part->after,
                     .map_start = hole->start,
                     .map_bytes = map_bytes,
                     .start = start,
                     .size = size};
}

/// As consider_up, downwards: the block begins with the new granules.
static void consider_down(const berth_pool* pool, berth_extent_id id, uint64_t size, growth* best) {
    const berth_extent* part = berth_extents_at(&pool->extents, id);
    if (part->before == 0 || part->size >= size) return;
    const berth_extent* hole = berth_extents_at(&pool->extents, part->before);
    if (hole->state != BERTH_EXTENT_HOLE) return;
    const uint64_t map_bytes = berth_round_up(size - part->size, pool->granule_bytes);
    if (map_bytes > hole->size || map_bytes >= best->map_bytes) return;
    const uint64_t start = part->start - map_bytes;
    *best = (growth){.part = id,
                     .hole = part->before,
                     .map_start = start,
                     .map_bytes = map_bytes,
                     .start = start,
                     .size = size};
}

static void consider_extensions(const berth_pool* pool,
                                uint64_t size,
                                uint64_t alignment,
                                growth* best) {
    berth_extent_id id = 0;
    for (uint32_t i = 0; i < EXTENSION_STEPS; i++) {
        id = berth_extents_walk_free(&pool->extents, id, BERTH_ALIGNMENT, true);
        if (id == 0) break;
        consider_up(pool, id, size, alignment, best);
        consider_down(pool, id, size, best);
    }
}

/// An entry of the list of regions without a space.
static berth_status find_region_entry(berth_pool* pool, uint32_t* out_index) {
    for (size_t i = 0; i < pool->regions.count; i++) {
        *out_index = (uint32_t)i;
        if (pool->regions.items[i].space == NULL) return BERTH_OK;
    }
    *out_index = (uint32_t)pool->regions.count;
    return berth_pool_region_vec_push(&pool->regions, pool->host, (berth_pool_region){NULL, 0});
}

berth_status berth_pool_add_region(berth_pool* pool, uint64_t need) {
    uint32_t index = 0;
    BERTH_TRY(find_region_entry(pool, &index));
    berth_space* space = NULL;
    BERTH_TRY(berth_store_reserve_space(pool->account.store, need, &space));
    pool->regions.items[index] = (berth_pool_region){
        .space = space,
        .first = berth_extents_add_region(
            &pool->extents, (uint64_t)(uintptr_t)space->base, space->size_bytes, index),
    };
    return BERTH_OK;
}

void berth_pool_release_regions(berth_pool* pool, bool keep_one) {
    for (size_t i = 0; i < pool->regions.count; i++) {
        berth_pool_region* region = &pool->regions.items[i];
        if (region->space == NULL) continue;
        const berth_extent* first = berth_extents_at(&pool->extents, region->first);
        const bool empty = first->state == BERTH_EXTENT_HOLE && first->after == 0;
        if (empty && !keep_one) {
            berth_extents_remove_region(&pool->extents, region->first);
            berth_space_release(region->space);
            region->space = NULL;
        }
        if (empty) keep_one = false;
    }
}

/// Decides where the block will lie and marks the stretches involved as BUSY.
static berth_status begin_growth(berth_pool* pool,
                                 const berth_pool_growth* wanted,
                                 growth* out_growth) {
    const uint64_t fresh_bytes = berth_round_up(wanted->size, pool->granule_bytes);
    growth best = {.map_bytes = fresh_bytes, .size = wanted->size};
    if (wanted->extends) consider_extensions(pool, wanted->size, wanted->alignment, &best);
    if (best.hole == 0) {
        const uint64_t granule = pool->granule_bytes;
        best.hole = berth_extents_find(&pool->extents, true, fresh_bytes, granule, &best.map_start);
        if (best.hole == 0) {
            BERTH_TRY(berth_pool_add_region(pool, fresh_bytes));
            best.hole =
                berth_extents_find(&pool->extents, true, fresh_bytes, granule, &best.map_start);
        }
        best.start = best.map_start;
    }
    if (best.part != 0) berth_extents_set(&pool->extents, best.part, BERTH_EXTENT_BUSY, 0);
    best.hole = berth_extents_take_out(&pool->extents,
                                       best.hole,
                                       best.map_start,
                                       best.map_bytes,
                                       BERTH_EXTENT_BUSY,
                                       BERTH_LIFETIME_UNKNOWN);
    best.lifetime = wanted->lifetime;
    *out_growth = best;
    return BERTH_OK;
}

/// True when no work enqueued so far can touch the FREE extent any more; issues the ticket that
/// will tell if there is none.
static bool has_passed(berth_pool* pool, berth_extent_id id) {
    if (!pool->is_async) return true;
    berth_extent* extent = berth_extents_at(&pool->extents, id);
    if (extent->ticket == 0 && berth_stream_record(pool->stream, &extent->ticket) != BERTH_OK) {
        extent->ticket = 0;
        return false;
    }
    return berth_stream_query(pool->stream, extent->ticket);
}

/// The stretch of whole granules inside an extent; false if there is none.
static bool whole_granules(const berth_pool* pool,
                           const berth_extent* extent,
                           uint64_t* out_start,
                           uint64_t* out_size) {
    const uint64_t start = berth_round_up(extent->start, pool->granule_bytes);
    const uint64_t end = berth_round_down(extent->start + extent->size, pool->granule_bytes);
    *out_start = start;
    *out_size = end > start ? end - start : 0;
    return end > start;
}

/// Takes up to `limit` bytes of idle whole granules, upper end first, out of some FREE extent that
/// walk `visit` has not passed over, as a BUSY one; 0 if there is none.
static berth_extent_id take_granules(
    berth_pool* pool, uint64_t limit, uint64_t visit, bool down, bool wait) {
    berth_extent_id id = 0;
    if (berth_extents_prepare(&pool->extents, 2) != BERTH_OK) return 0;
    for (;;) {
        id = berth_extents_walk_free(&pool->extents, id, pool->granule_bytes, down);
        if (id == 0) return 0;
        berth_extent* extent = berth_extents_at(&pool->extents, id);
        if (extent->visit >= visit) continue;
        uint64_t start = 0, size = 0;
        const bool passed = has_passed(pool, id) || (wait && extent->ticket != 0);
        if (!passed || !whole_granules(pool, extent, &start, &size)) {
            extent->visit = visit;
            continue;
        }
        if (size > limit) {
            start += size - limit;
            size = limit;
        }
        return berth_extents_take_out(
            &pool->extents, id, start, size, BERTH_EXTENT_BUSY, BERTH_LIFETIME_UNKNOWN);
    }
}

/// Moves free granules from elsewhere into the hole of `plan`; returns the bytes filled, from its
/// start. Unlocks.
static uint64_t fill_by_moving(berth_pool* pool, const growth* plan) {
    uint64_t filled = 0;
    if (!pool->can_remap) return 0;
    berth_space* target = space_of(pool, berth_extents_at(&pool->extents, plan->hole));
    const uint64_t visit = ++pool->visit;
    while (filled < plan->map_bytes) {
        const berth_extent_id id =
            take_granules(pool, plan->map_bytes - filled, visit, false, false);
        if (id == 0) break;
        const berth_extent donor = *berth_extents_at(&pool->extents, id);
        berth_space* source = space_of(pool, &donor);
        berth_mutex_unlock(pool->lock);
        // A device that moves by copying may read it.
        BERTH_UNPOISON_REGION(address(donor.start), donor.size);
        const berth_status status = berth_space_remap(source,
                                                      offset_in(source, donor.start),
                                                      target,
                                                      offset_in(target, plan->map_start + filled),
                                                      donor.size);
        berth_mutex_lock(pool->lock);
        if (status != BERTH_OK) {
            berth_pool_free_extent(pool, id, donor.ticket);
            break;
        }
        berth_extents_set(&pool->extents, id, BERTH_EXTENT_HOLE, 0);
        filled += donor.size;
        pool->asked.moved_bytes += donor.size;
    }
    return filled;
}

/// Undoes begin_growth, but for `filled` bytes of the hole that hold granules now. Uses a spare
/// record.
static void abandon_growth(berth_pool* pool, const growth* plan, uint64_t filled) {
    berth_extent_id hole = plan->hole;
    if (filled > 0) {
        const berth_extent_id mapped = berth_extents_take_out(&pool->extents,
                                                              hole,
                                                              plan->map_start,
                                                              filled,
                                                              BERTH_EXTENT_BUSY,
                                                              BERTH_LIFETIME_UNKNOWN);
        hole = filled < plan->map_bytes ? berth_extents_at(&pool->extents, mapped)->after : 0;
        berth_pool_free_extent(pool, mapped, 0);
    }
    if (hole != 0) berth_extents_set(&pool->extents, hole, BERTH_EXTENT_HOLE, 0);
    if (plan->part != 0) berth_pool_free_extent(pool, plan->part, 0);
    if (plan->above != 0) berth_pool_free_extent(pool, plan->above, 0);
}

/// Joins the mapped stretches of `plan` and cuts the block out. Uses two spare records.
static berth_extent_id finish_growth(berth_pool* pool, const growth* plan) {
    berth_extent_id whole = plan->hole;
    if (plan->part != 0) {
        const bool up = plan->map_start > berth_extents_at(&pool->extents, plan->part)->start;
        whole = up ? plan->part : plan->hole;
        berth_extents_join_after(&pool->extents, whole);
    }
    if (plan->above != 0) berth_extents_join_after(&pool->extents, whole);
    const berth_extent joined = *berth_extents_at(&pool->extents, whole);
    berth_pool_poison(pool, joined.start, joined.size);
    const berth_extent_id block = berth_extents_take_out(
        &pool->extents, whole, plan->start, plan->size, BERTH_EXTENT_USED, plan->lifetime);
    const berth_extent_id after = berth_extents_at(&pool->extents, block)->after;
    if (plan->start + plan->size < joined.start + joined.size)
        berth_pool_free_extent(pool, after, 0);
    if (plan->start > joined.start) berth_pool_free_extent(pool, whole, 0);
    return block;
}

/// Maps what `plan` lacks; `*out_id` is the block then. Uses four spare records, two of which stay
/// hidden until the end. Unlocks.
static berth_status run_growth(berth_pool* pool,
                               const growth* plan,
                               berth_reservation* reservation,
                               berth_extent_id* out_id) {
    const berth_extent_id hidden[2] = {berth_extents_hide_spare(&pool->extents),
                                       berth_extents_hide_spare(&pool->extents)};
    berth_space* space = space_of(pool, berth_extents_at(&pool->extents, plan->hole));
    const uint64_t filled = fill_by_moving(pool, plan);
    const uint64_t missing = plan->map_bytes - filled;
    berth_status status = BERTH_OK;
    if (missing > 0) {
        const uint64_t promised = reservation != NULL ? reservation->bytes : 0;
        const uint64_t beyond = missing > promised ? missing - promised : 0;
        pool->spare_bytes += beyond; // before it is mapped as much may go back for it
        berth_mutex_unlock(pool->lock);
        status = berth_store_map(
            pool->account, reservation, space, offset_in(space, plan->map_start + filled), missing);
        berth_mutex_lock(pool->lock);
        if (status == BERTH_OK) {
            pool->mapped_bytes += missing;
            pool->maps++;
        } else {
            pool->spare_bytes -= beyond < pool->spare_bytes ? beyond : pool->spare_bytes;
        }
    }
    berth_extents_return_spare(&pool->extents, hidden[0]);
    berth_extents_return_spare(&pool->extents, hidden[1]);
    if (status == BERTH_OK)
        *out_id = finish_growth(pool, plan);
    else
        abandon_growth(pool, plan, filled);
    return status;
}

berth_status berth_pool_grow(berth_pool* pool,
                             const berth_pool_growth* wanted,
                             berth_extent_id* out_id) {
    *out_id = 0;
    growth plan;
    if (wanted->size > pool->capacity_bytes) return berth_store_refuse(pool->account, wanted->size);
    // One for a region, two around the hole, two that stay hidden until the end.
    BERTH_TRY(berth_extents_prepare(&pool->extents, 5));
    BERTH_TRY(begin_growth(pool, wanted, &plan));
    return run_growth(pool, &plan, wanted->reservation, out_id);
}

berth_status berth_pool_fill_gap(berth_pool* pool,
                                 const berth_pool_gap* gap,
                                 uint64_t size,
                                 berth_lifetime lifetime,
                                 berth_extent_id* out_id) {
    *out_id = 0;
    // two around the hole, two that stay hidden until the end
    BERTH_TRY(berth_extents_prepare(&pool->extents, 4));
    growth plan = {.part = gap->lower != 0 ? gap->lower : gap->upper,
                   .above = gap->lower != 0 ? gap->upper : 0,
                   .map_start = gap->start,
                   .map_bytes = gap->size,
                   .start = gap->start,
                   .size = size,
                   .lifetime = lifetime};
    if (gap->lower != 0) plan.start = berth_extents_at(&pool->extents, gap->lower)->start;
    plan.hole = gap->lower != 0 ? berth_extents_at(&pool->extents, gap->lower)->after
                                : berth_extents_at(&pool->extents, gap->upper)->before;
    if (plan.part != 0) berth_extents_set(&pool->extents, plan.part, BERTH_EXTENT_BUSY, 0);
    if (plan.above != 0) berth_extents_set(&pool->extents, plan.above, BERTH_EXTENT_BUSY, 0);
    plan.hole = berth_extents_take_out(&pool->extents,
                                       plan.hole,
                                       plan.map_start,
                                       plan.map_bytes,
                                       BERTH_EXTENT_BUSY,
                                       BERTH_LIFETIME_UNKNOWN);
    return run_growth(pool, &plan, NULL, out_id);
}

/// Unmaps the BUSY extent `id`, waiting for its ticket first. Unlocks.
static bool unmap_extent(berth_pool* pool, berth_extent_id id, uint64_t visit) {
    const berth_extent extent = *berth_extents_at(&pool->extents, id);
    berth_space* space = space_of(pool, &extent);
    berth_transit transit;
    berth_store_begin_transit(pool->account.store, &transit);
    berth_mutex_unlock(pool->lock);
    berth_status status = BERTH_OK;
    if (pool->is_async && !berth_stream_outwait(pool->stream, extent.ticket))
        status = BERTH_ERR_DEVICE;
    if (status == BERTH_OK) {
        BERTH_UNPOISON_REGION(address(extent.start), extent.size);
        status =
            berth_store_unmap(pool->account, space, offset_in(space, extent.start), extent.size);
    }
    berth_store_end_transit(pool->account.store, &transit);
    berth_mutex_lock(pool->lock);
    if (status == BERTH_OK) {
        pool->mapped_bytes -= extent.size;
        berth_extents_set(&pool->extents, id, BERTH_EXTENT_HOLE, 0);
        return true;
    }
    id = berth_pool_free_extent(pool, id, extent.ticket);
    berth_extents_at(&pool->extents, id)->visit = visit;
    return false;
}

/// Bytes of whole granules that may go back while so much is to be kept.
static uint64_t room_to_give(const berth_pool* pool, uint64_t keep_bytes) {
    const uint64_t idle = pool->extents.bytes[BERTH_EXTENT_FREE];
    if (idle <= keep_bytes) return 0;
    const uint64_t room = berth_round_down(idle - keep_bytes, pool->granule_bytes);
    return pool->is_promised && room > pool->spare_bytes ? pool->spare_bytes : room;
}

uint64_t berth_pool_release_pages(berth_pool* pool,
                                  uint64_t keep_bytes,
                                  uint64_t limit_bytes,
                                  bool may_block) {
    uint64_t given = 0;
    const uint64_t visit = ++pool->visit;
    while (given < limit_bytes) {
        uint64_t room = room_to_give(pool, keep_bytes);
        uint64_t wanted = 0;
        if (berth_try_round_up(limit_bytes - given, pool->granule_bytes, &wanted) && wanted < room)
            room = wanted;
        if (room == 0) break;
        const berth_extent_id id = take_granules(pool, room, visit, true, may_block);
        if (id == 0) break;
        const uint64_t size = berth_extents_at(&pool->extents, id)->size;
        if (pool->is_promised) pool->spare_bytes -= size;
        if (unmap_extent(pool, id, visit))
            given += size;
        else
            pool->spare_bytes += size;
    }
    berth_pool_release_regions(pool, true);
    return given;
}

/// Bytes of whole granules in a FREE extent that no work keeps from being given back.
static uint64_t ready_bytes(const berth_pool* pool, const berth_extent* extent, berth_rest* rest) {
    uint64_t start = 0, size = 0;
    (void)whole_granules(pool, extent, &start, &size);
    rest->fragmented_bytes += extent->size - size;
    const bool is_pending = pool->is_async && (extent->ticket == 0 ||
                                               !berth_stream_query(pool->stream, extent->ticket));
    if (is_pending) rest->in_flight_bytes += size;
    return is_pending ? 0 : size;
}

void berth_pool_add_rest(const berth_pool* pool, uint64_t keep_bytes, berth_rest* rest) {
    berth_mutex_lock(pool->lock);
    const uint64_t free = pool->extents.bytes[BERTH_EXTENT_FREE];
    const uint64_t used = pool->extents.bytes[BERTH_EXTENT_USED];
    const uint64_t free_slots = pool->slabs.slab_bytes - pool->slabs.used_bytes;
    // still full only if the guard's holder was at work
    const uint64_t front = berth_front_query_bytes(&pool->front);
    uint64_t ready = 0;
    for (berth_extent_id id = 0;;) {
        id = berth_extents_walk_free(&pool->extents, id, BERTH_ALIGNMENT, false);
        if (id == 0) break;
        ready += ready_bytes(pool, berth_extents_at(&pool->extents, id), rest);
    }
    // keeping counts in whole granules of all that is free: what is left above it was refused
    const uint64_t excess = room_to_give(pool, keep_bytes);
    const uint64_t refused = ready < excess ? ready : excess;
    rest->refused_bytes += refused;
    rest->kept_bytes += ready - refused;
    rest->fragmented_bytes += free_slots;
    rest->in_use_bytes += used - free_slots - front;
    rest->busy_bytes += front;
    if (pool->mapped_bytes > free + used) rest->busy_bytes += pool->mapped_bytes - free - used;
    berth_mutex_unlock(pool->lock);
}
