// SPDX-License-Identifier: Apache-2.0
// A block may be longer than the gap that it moves over: devices copy between ranges that overlap
// as if they did not.
#include "memory/pool_slide.h"

#include "base/error.h"
#include "base/numbers.h"
#include "memory/poison.h"
#include "memory/pool_internal.h"

#include <stdlib.h>

/// Extents that one slide reaches over.
#define MOST_EXTENTS 2048u
/// A slide that gains something is not sought beyond so many times what the best so far moves.
#define FURTHER_SHARE 2u

static uint64_t whole_bytes(const berth_pool* pool, uint64_t start, uint64_t end) {
    const uint64_t first = berth_round_up(start, pool->granule_bytes);
    const uint64_t last = berth_round_down(end, pool->granule_bytes);
    return last > first ? last - first : 0;
}

/// What a slide gains of a free stretch.
static uint64_t usable_bytes(const berth_pool* pool, bool aligns, uint64_t start, uint64_t end) {
    if (!aligns) return berth_round_down(end - start, pool->granule_bytes);
    return whole_bytes(pool, start, end);
}

// --- Planning -----------------------------------------------------------------------------------

/// Whether a block may be pushed over a gap.
static bool may_push(const berth_extent* extent) {
    berth_movable* movable = extent->movable;
    if (extent->slab != 0 || movable == NULL) return false;
    if (!movable->ops->can_move(movable)) return false;
    movable->ops->move(movable, NULL, 0);
    return true;
}

/// Whether `a` moves less for a byte gained than `b`.
static bool is_cheaper(const berth_slide* a, const berth_slide* b) {
    // in 64 KiB, so that nothing overflows
    return (a->move_bytes >> 16) * (b->gain_bytes >> 12) <
           (b->move_bytes >> 16) * (a->gain_bytes >> 12);
}

/// The best slide that begins with the gap `id`; its gain is 0 if there is none.
static berth_slide find_slide(const berth_pool* pool, bool aligns, berth_extent_id id) {
    const berth_extent* gap = berth_extents_at(&pool->extents, id);
    berth_slide now = {.gap = id, .start = gap->start, .end = gap->start + gap->size};
    berth_slide best = {.gap = id};
    uint64_t gap_bytes = gap->size;
    uint64_t whole = whole_bytes(pool, now.start, now.end); // already, in what will be joined
    berth_extent_id next = gap->after;
    for (uint32_t i = 0; i < MOST_EXTENTS && next != 0; i++) {
        const berth_extent* extent = berth_extents_at(&pool->extents, next);
        now.end = extent->start + extent->size;
        if (extent->state == BERTH_EXTENT_FREE) {
            gap_bytes += extent->size;
            whole += whole_bytes(pool, extent->start, now.end);
        } else if (extent->state == BERTH_EXTENT_USED && may_push(extent)) {
            now.move_bytes += extent->size;
            now.blocks++;
        } else {
            break;
        }
        next = extent->after;
        const uint64_t joined = usable_bytes(pool, aligns, now.end - gap_bytes, now.end);
        now.gain_bytes = joined > whole ? joined - whole : 0;
        if (best.gain_bytes > 0 && now.move_bytes / FURTHER_SHARE > best.move_bytes) break;
        if (now.gain_bytes == 0) continue;
        if (best.gain_bytes == 0 || is_cheaper(&now, &best)) best = now;
    }
    return best;
}

/// Adds the best slide of each gap; false without host memory.
static bool find_slides(const berth_pool* pool, bool aligns, berth_slide_vec* slides) {
    for (size_t i = 0; i < pool->regions.count; i++) {
        if (pool->regions.items[i].space == NULL) continue;
        berth_extent_id id = pool->regions.items[i].first;
        for (; id != 0; id = berth_extents_at(&pool->extents, id)->after) {
            if (berth_extents_at(&pool->extents, id)->state != BERTH_EXTENT_FREE) continue;
            const berth_slide slide = find_slide(pool, aligns, id);
            if (slide.gain_bytes == 0) continue;
            if (berth_slide_vec_push(slides, pool->host, slide) != BERTH_OK) return false;
        }
    }
    return true;
}

static int by_cost(const void* a, const void* b) {
    const berth_slide* left = a;
    const berth_slide* right = b;
    if (is_cheaper(left, right)) return -1;
    if (is_cheaper(right, left)) return 1;
    return left->start < right->start ? -1 : left->start > right->start;
}

static bool overlaps(const berth_slide* a, const berth_slide* b) {
    return a->start < b->end && b->start < a->end;
}

/// Keeps the cheapest slides that do not overlap, as many as gain `bytes`; returns their gain.
static uint64_t choose_slides(berth_slide_vec* slides, uint64_t bytes) {
    size_t kept = 0;
    uint64_t gain = 0;
    for (size_t i = 0; i < slides->count && gain < bytes; i++) {
        const berth_slide slide = slides->items[i];
        bool is_free = true;
        for (size_t k = 0; k < kept && is_free; k++)
            is_free = !overlaps(&slides->items[k], &slide);
        if (!is_free) continue;
        slides->items[kept++] = slide;
        gain += slide.gain_bytes;
    }
    slides->count = kept;
    return gain;
}

uint64_t berth_slides_plan(berth_pool* pool, uint64_t bytes, bool aligns, berth_slide_vec* slides) {
    slides->count = 0;
    berth_mutex_lock(pool->lock);
    berth_pool_put_in_order(pool, true);
    const bool is_found = find_slides(pool, aligns, slides);
    berth_mutex_unlock(pool->lock);
    if (!is_found) slides->count = 0;
    if (slides->count == 0) return 0;
    qsort(slides->items, slides->count, sizeof *slides->items, by_cost);
    return choose_slides(slides, bytes);
}

// --- Pushing ------------------------------------------------------------------------------------

/// The block that comes next; 0 if the slide is at its end or the pool has changed.
static berth_extent_id next_block(const berth_pool* pool, const berth_slide* slide) {
    if (slide->blocks == 0) return 0;
    const berth_extent* gap = berth_extents_at(&pool->extents, slide->gap);
    if (gap->state != BERTH_EXTENT_FREE || gap->after == 0) return 0;
    const berth_extent* block = berth_extents_at(&pool->extents, gap->after);
    const bool may_be = block->state == BERTH_EXTENT_USED && block->slab == 0;
    return may_be && block->movable != NULL ? gap->after : 0;
}

uint64_t berth_slide_query_next(const berth_pool* pool, const berth_slide* slide) {
    berth_mutex_lock(pool->lock);
    const berth_extent_id id = next_block(pool, slide);
    const uint64_t bytes = id == 0 ? 0 : berth_extents_at(&pool->extents, id)->size;
    berth_mutex_unlock(pool->lock);
    return bytes;
}

/// Enqueues the copy of `size` bytes from `from` down by `distance`. Without the lock.
static bool copy_down(berth_pool* pool, unsigned char* from, uint64_t size, uint64_t distance) {
    unsigned char* to = from - distance;
    BERTH_UNPOISON_REGION(to, size);
    const berth_status status =
        berth_stream_copy(pool->stream, to, from, size, BERTH_COPY_DEVICE_TO_DEVICE);
    return status == BERTH_OK;
}

/// Pushes block `id`, kept still by its owner, over the gap below it. Unlocks.
static bool push(berth_pool* pool, berth_extent_id gap, berth_extent_id id, uint64_t* moved) {
    berth_movable* movable = berth_extents_at(&pool->extents, id)->movable;
    berth_block block = *movable->ops->block(movable);
    const uint64_t distance = berth_extents_at(&pool->extents, gap)->size;
    berth_transit transit;
    berth_store_begin_transit(pool->account.store, &transit);
    berth_extents_set(&pool->extents, gap, BERTH_EXTENT_BUSY, 0);
    berth_mutex_unlock(pool->lock);
    const bool is_copied = copy_down(pool, block.data, block.size_bytes, distance);
    berth_mutex_lock(pool->lock);
    if (is_copied) {
        berth_extents_swap_after(&pool->extents, gap);
        berth_pool_note_first(pool, id);
        block.data -= distance;
        *moved += block.size_bytes;
    }
    const uint64_t left = distance < block.size_bytes ? distance : block.size_bytes;
    movable->ops->move(movable, is_copied ? &block : NULL, left);
    berth_pool_free_extent(pool, gap, 0);
    berth_store_end_transit(pool->account.store, &transit);
    return is_copied;
}

bool berth_slide_step(berth_pool* pool, berth_slide* slide, berth_move_count* count) {
    berth_mutex_lock(pool->lock);
    const berth_extent_id id = next_block(pool, slide);
    bool is_done = false;
    if (id != 0) {
        berth_movable* movable = berth_extents_at(&pool->extents, id)->movable;
        if (movable->ops->can_move(movable))
            is_done = push(pool, slide->gap, id, &count->moved_bytes);
    }
    berth_mutex_unlock(pool->lock);
    if (!is_done) return false;
    slide->blocks--;
    count->blocks++;
    return true;
}
