// SPDX-License-Identifier: Apache-2.0
// Surveys go through the records of extents in their own order, not that of addresses: a number
// stays a place to go on from whatever happens to the extents.
#include "memory/pool_survey.h"

#include "base/error.h"
#include "base/numbers.h"
#include "memory/pool_internal.h"

#include <string.h>

void berth_survey_fini(berth_survey* survey, const berth_host* host) {
    berth_granule_view_vec_fini(&survey->granules, host);
    berth_survey_region_vec_fini(&survey->regions, host);
    survey->next_record = 0;
}

/// Enters the pool's regions; returns the granules that they have.
static berth_status enter_regions(berth_survey* survey, const berth_pool* pool) {
    size_t granules = 0;
    for (size_t i = 0; i < pool->regions.count; i++) {
        berth_survey_region region = {.first = granules};
        const berth_space* space = pool->regions.items[i].space;
        if (space != NULL) {
            region.base = (uint64_t)(uintptr_t)space->base;
            region.count = (size_t)(space->size_bytes / pool->granule_bytes);
        }
        granules += region.count;
        BERTH_TRY(berth_survey_region_vec_push(&survey->regions, pool->host, region));
    }
    BERTH_TRY(berth_granule_view_vec_reserve(&survey->granules, pool->host, granules));
    survey->granules.count = granules;
    return BERTH_OK;
}

berth_status berth_survey_begin(berth_survey* survey, berth_pool* pool) {
    survey->granule_bytes = pool->granule_bytes;
    survey->newest_use = 0;
    survey->next_record = 1;
    survey->regions.count = survey->granules.count = 0;
    berth_mutex_lock(pool->lock);
    berth_pool_put_in_order(pool, true);
    const berth_status status = enter_regions(survey, pool);
    berth_mutex_unlock(pool->lock);
    if (status != BERTH_OK) {
        berth_survey_fini(survey, pool->host);
        return status;
    }
    const size_t count = survey->granules.count;
    if (count > 0) memset(survey->granules.items, 0, count * sizeof *survey->granules.items);
    return BERTH_OK;
}

/// Looks for the blocks of a slab; false if one of them does not move.
static bool look_at_slab(const berth_pool* pool, berth_slab_id id, uint64_t* last_use) {
    const berth_slab* slab = berth_slabs_at(&pool->slabs, id);
    const uint32_t count = pool->slabs.classes[slab->size_class].slot_count;
    const berth_movable* some = NULL;
    for (uint32_t i = 0; i < count; i++) {
        if ((slab->free_slots[i / 64] >> (i % 64) & 1u) != 0) continue;
        some = slab->movables[i];
        if (some == NULL) return false;
    }
    if (some != NULL) *last_use = some->ops->last_use(some);
    return true;
}

static bool look_at_block(const berth_extent* extent, uint64_t* last_use) {
    const berth_movable* movable = extent->movable;
    if (movable == NULL || extent->state != BERTH_EXTENT_USED) return false;
    *last_use = movable->ops->last_use(movable);
    return true;
}

/// Bytes of the slots of a slab that are used.
static uint64_t used_bytes(const berth_pool* pool, berth_slab_id id) {
    const berth_slab* slab = berth_slabs_at(&pool->slabs, id);
    const berth_slab_class* geometry = &pool->slabs.classes[slab->size_class];
    return (geometry->slot_count - slab->free_count) * geometry->slot_bytes;
}

/// Adds what extent `id` occupies to the granules that it reaches into.
static void add_extent(berth_survey* survey, const berth_pool* pool, berth_extent_id id) {
    const berth_extent* extent = berth_extents_at(&pool->extents, id);
    uint64_t last_use = 0;
    const bool moves = extent->slab != 0 ? look_at_slab(pool, extent->slab, &last_use)
                                         : look_at_block(extent, &last_use);
    if (last_use > survey->newest_use) survey->newest_use = last_use;
    const uint64_t granule = survey->granule_bytes;
    const uint64_t end = extent->start + extent->size;
    for (uint64_t at = berth_round_down(extent->start, granule); at < end; at += granule) {
        berth_granule_view* view = berth_survey_find(survey, extent->region, at);
        if (view == NULL) return;
        const uint64_t low = at > extent->start ? at : extent->start;
        const uint64_t high = at + granule < end ? at + granule : end;
        view->live_bytes += extent->slab != 0 ? used_bytes(pool, extent->slab) : high - low;
        view->move_bytes += extent->slab != 0 ? used_bytes(pool, extent->slab) : extent->size;
        view->is_stuck |= !moves;
        view->any = id;
        if (last_use > view->last_use) view->last_use = last_use;
    }
}

bool berth_survey_continue(berth_survey* survey, berth_pool* pool, size_t limit) {
    berth_mutex_lock(pool->lock);
    const size_t count = pool->extents.record_count;
    size_t end = survey->next_record + limit;
    if (end > count) end = count;
    for (size_t i = survey->next_record; i < end; i++) {
        const berth_extent_state state =
            berth_extents_at(&pool->extents, (berth_extent_id)i)->state;
        if (state == BERTH_EXTENT_USED || state == BERTH_EXTENT_BUSY)
            add_extent(survey, pool, (berth_extent_id)i);
    }
    if (end > survey->next_record) survey->next_record = end;
    berth_mutex_unlock(pool->lock);
    return end >= count;
}

void berth_pool_query_free(const berth_pool* pool, uint64_t* out_whole, uint64_t* out_beside) {
    berth_mutex_lock(pool->lock);
    *out_whole = pool->extents.placeable[BERTH_PLACEABLE_GRANULE];
    *out_beside = pool->extents.bytes[BERTH_EXTENT_FREE] - *out_whole + pool->slabs.slab_bytes -
                  pool->slabs.used_bytes;
    berth_mutex_unlock(pool->lock);
}

uint64_t berth_pool_query_changes(const berth_pool* pool) {
    return pool->takes + pool->gives + pool->maps;
}

uint64_t berth_survey_address(const berth_survey* survey, size_t index) {
    size_t r = 0;
    while (index >= survey->regions.items[r].first + survey->regions.items[r].count)
        r++;
    const berth_survey_region* region = &survey->regions.items[r];
    return region->base + (index - region->first) * survey->granule_bytes;
}

berth_granule_view* berth_survey_find(const berth_survey* survey,
                                      uint32_t region,
                                      uint64_t address) {
    if (region >= survey->regions.count) return NULL;
    const berth_survey_region* known = &survey->regions.items[region];
    if (address < known->base) return NULL;
    const uint64_t index = (address - known->base) / survey->granule_bytes;
    return index < known->count ? &survey->granules.items[known->first + index] : NULL;
}
