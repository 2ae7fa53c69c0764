// SPDX-License-Identifier: Apache-2.0
// Frames as a stack in the current range. A push over mapped granules and a pop are a few
// comparisons under an uncontended lock; others take that lock only to reclaim idle granules.
#include "memory/arena.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/log.h"
#include "base/vec.h"
#include "memory/arena_range.h"
#include "memory/ladder.h"
#include "memory/page_store_internal.h"
#include "memory/poison.h"

#include <inttypes.h>
#include <string.h>

/// Offsets of a frame in the current range.
typedef struct stretch {
    uint64_t start;
    uint64_t end;
} stretch;

typedef struct hold {
    unsigned char* data;
    uint64_t size_bytes;
    berth_arena_range* range;
} hold;

BERTH_VEC_DEFINE(stretch_vec, stretch);
BERTH_VEC_DEFINE(hold_vec, hold); // ascending data
BERTH_VEC_DEFINE(range_vec, berth_arena_range*);

struct berth_arena {
    berth_mutex* lock; ///< &mutex; a pointer so that queries can take it through a const arena
    berth_mutex mutex;
    const berth_host* host;
    berth_account account;
    berth_stream* stream;
    uint64_t capacity_bytes; ///< the store's
    bool can_remap;
    bool has_guards;
    berth_reclaimer reclaimer;
    berth_reclaimer waiter; ///< the same after the stream's work, on asynchronous devices
    range_vec ranges;
    berth_arena_range* current; ///< NULL before the first push
    stretch_vec frames;
    hold_vec holds;
    uint64_t top;   ///< end of the top frame
    uint64_t floor; ///< reclaim spares what lies below, as it spares what lies below `top`
    uint64_t held_bytes;
};

static uint64_t offset_of(const berth_arena_range* range, const void* data) {
    return (uint64_t)((const unsigned char*)data - range->space->base);
}

static uint64_t end_of(const berth_arena_range* range) { return range->space->size_bytes; }

/// Index of the first hold at or above `data`.
static size_t find_hold(const berth_arena* arena, const unsigned char* data) {
    size_t low = 0, high = arena->holds.count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (arena->holds.items[middle].data < data)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/// Poisons [start, end) of the range but for what is held there.
static void poison_idle(const berth_arena* arena,
                        const berth_arena_range* range,
                        uint64_t start,
                        uint64_t end) {
    if (!BERTH_POISONS || range->stream != NULL) return; // enqueued work may still come to it
    BERTH_POISON_REGION(range->space->base + start, end - start);
    for (size_t i = 0; i < arena->holds.count; i++)
        BERTH_UNPOISON_REGION(arena->holds.items[i].data, arena->holds.items[i].size_bytes);
}

/// The stretches of `range` from `from` up that are not under holds, highest first. `*index` and
/// `*end` are the walk's: arena->holds.count and the range's end at first. False when there are no
/// more.
static bool next_gap(const berth_arena* arena,
                     const berth_arena_range* range,
                     uint64_t from,
                     size_t* index,
                     uint64_t* end,
                     stretch* out_gap) {
    while (*end > from) {
        uint64_t below = from, above = from;
        size_t i = *index;
        while (i > 0 && arena->holds.items[i - 1].range != range)
            i--;
        if (i > 0) {
            const hold* held = &arena->holds.items[i - 1];
            below = offset_of(range, held->data);
            above = below + held->size_bytes;
            i--;
        }
        const uint64_t start = above > from ? above : from;
        *out_gap = (stretch){start, *end};
        *index = i;
        *end = below < *end ? below : *end;
        if (out_gap->end > start) return true;
        if (i == 0 && below <= from) return false;
    }
    return false;
}

/// Gives back what is mapped from `from` up and not under holds, up to `limit` bytes.
static uint64_t sweep(
    berth_arena* arena, berth_arena_range* range, uint64_t from, uint64_t limit, bool may_block) {
    if (range->mapped_count == 0) return 0;
    from = berth_arena_range_settle(range, from, may_block);
    uint64_t given = 0, end = end_of(range);
    size_t index = arena->holds.count;
    for (stretch gap; given < limit && next_gap(arena, range, from, &index, &end, &gap);)
        given += berth_arena_range_unmap(range, gap.start, gap.end, limit - given);
    return given;
}

/// Releases old ranges without granules and holds.
static void release_ranges(berth_arena* arena) {
    for (size_t i = arena->ranges.count; i-- > 0;) {
        berth_arena_range* range = arena->ranges.items[i];
        if (range == arena->current || range->holds > 0 || range->mapped_count > 0) continue;
        arena->ranges.items[i] = arena->ranges.items[--arena->ranges.count];
        berth_arena_range_destroy(arena->host, range);
    }
}

static uint64_t sweep_old(berth_arena* arena, uint64_t limit, bool may_block) {
    uint64_t given = 0;
    for (size_t i = 0; i < arena->ranges.count && given < limit; i++) {
        berth_arena_range* range = arena->ranges.items[i];
        if (range != arena->current) given += sweep(arena, range, 0, limit - given, may_block);
    }
    if (arena->ranges.count > 1) release_ranges(arena);
    return given;
}

/// Lowest offset that neither frames nor reclaim's bans cover.
static uint64_t idle_from(const berth_arena* arena, uint64_t keep_bytes) {
    return arena->top > keep_bytes ? arena->top : keep_bytes;
}

uint64_t berth_arena_release_idle(berth_arena* arena, uint64_t keep_bytes, uint64_t limit_bytes) {
    berth_mutex_lock(arena->lock);
    berth_transit transit;
    berth_store_begin_transit(arena->account.store, &transit);
    uint64_t given = sweep_old(arena, limit_bytes, false);
    if (given < limit_bytes && arena->current != NULL) {
        const uint64_t spared = arena->floor > keep_bytes ? arena->floor : keep_bytes;
        given += sweep(arena, arena->current, idle_from(arena, spared), limit_bytes - given, false);
    }
    berth_store_end_transit(arena->account.store, &transit);
    berth_mutex_unlock(arena->lock);
    return given;
}

/// Whoever has the lock waits for nobody who climbs.
static uint64_t reclaim(void* self, const berth_tenant* climber, uint64_t wanted_bytes) {
    (void)climber;
    return berth_arena_release_idle(self, 0, wanted_bytes);
}

static uint64_t reclaim_after_work(void* self, const berth_tenant* climber, uint64_t wanted_bytes) {
    const berth_arena* arena = self;
    // one that cannot be waited for gives nothing back
    if (berth_stream_synchronize(arena->stream) != BERTH_OK) return 0;
    return reclaim(self, climber, wanted_bytes);
}

/// Takes the arena's places on the ladder.
static void join_ladder(berth_arena* arena, berth_tenant* tenant) {
    berth_store* store = arena->account.store;
    arena->reclaimer = (berth_reclaimer){.rung = BERTH_RUNG_FRAMES,
                                         .tenant = tenant,
                                         .owner = BERTH_OWNER_FRAMES,
                                         .self = arena,
                                         .reclaim = reclaim};
    // before the first is in the list, where it is the store's
    arena->waiter = arena->reclaimer;
    arena->waiter.rung = BERTH_RUNG_WAIT;
    arena->waiter.reclaim = reclaim_after_work;
    berth_store_add_reclaimer(store, &arena->reclaimer);
    if (berth_device_is_async(berth_store_device(store)))
        berth_store_add_reclaimer(store, &arena->waiter);
}

berth_status berth_arena_create(const berth_host* host,
                                berth_store* store,
                                berth_tenant* tenant,
                                berth_stream* stream,
                                berth_arena** out_arena) {
    *out_arena = NULL;
    berth_arena* arena = berth_host_calloc(host, 1, sizeof *arena);
    if (arena == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for an arena");
    const berth_status status = berth_mutex_init(&arena->mutex);
    if (status != BERTH_OK) {
        berth_host_free(host, arena);
        return status;
    }
    arena->lock = &arena->mutex;
    arena->host = host;
    arena->account = (berth_account){.store = store, .tenant = tenant, .owner = BERTH_OWNER_FRAMES};
    arena->stream = stream;
    berth_store_stats stats;
    berth_store_query_stats(store, &stats);
    arena->capacity_bytes = stats.capacity_bytes;
    arena->can_remap = (berth_store_device(store)->ops->caps & BERTH_DEVICE_CAP_REMAP) != 0;
    join_ladder(arena, tenant);
    *out_arena = arena;
    return BERTH_OK;
}

void berth_arena_destroy(berth_arena* arena) {
    if (arena == NULL) return;
    berth_store_remove_reclaimer(arena->account.store, &arena->reclaimer);
    if (berth_device_is_async(berth_store_device(arena->account.store)))
        berth_store_remove_reclaimer(arena->account.store, &arena->waiter);
    BERTH_CHECK(2, arena->frames.count == 0 && arena->holds.count == 0);
    // Twice: what the device refused once it may accept now.
    (void)berth_arena_trim(arena, 0, true);
    (void)berth_arena_trim(arena, 0, true);
    for (size_t i = 0; i < arena->ranges.count; i++) {
        berth_arena_range* range = arena->ranges.items[i];
        if (range->mapped_count > 0)
            berth_log_line(BERTH_LOG_ERROR,
                           "%" PRIu64 " bytes of frames could not be given back and are lost",
                           range->mapped_count * range->granule_bytes);
        berth_arena_range_destroy(arena->host, range);
    }
    range_vec_fini(&arena->ranges, arena->host);
    stretch_vec_fini(&arena->frames, arena->host);
    hold_vec_fini(&arena->holds, arena->host);
    berth_mutex_fini(&arena->mutex);
    berth_host_free(arena->host, arena);
}

/// True if the next push begins a fresh range.
static bool needs_fresh_range(const berth_arena* arena) {
    return arena->current == NULL || (arena->frames.count == 0 && arena->current->holds > 0);
}

void berth_arena_set_guards(berth_arena* arena) { arena->has_guards = true; }

/// Where a frame of `size` bytes goes that has nothing below it but what ends at `offset`.
static uint64_t place_above(const berth_arena* arena, uint64_t offset, uint64_t size) {
    if (!arena->has_guards) return berth_round_up(offset, BERTH_ALIGNMENT);
    const uint64_t granule = arena->current->granule_bytes;
    const uint64_t slack = berth_round_up(size, granule) - berth_round_up(size, BERTH_ALIGNMENT);
    return berth_round_up(offset, granule) + granule + slack;
}

/// Where a frame of `size` bytes goes: the lowest offset on top that meets no hold.
static uint64_t find_base(const berth_arena* arena, uint64_t size) {
    const berth_arena_range* range = arena->current;
    uint64_t base = place_above(arena, arena->top, size);
    if (range->holds == 0) return base;
    for (size_t i = 0; i < arena->holds.count; i++) {
        const hold* held = &arena->holds.items[i];
        if (held->range != range) continue;
        const uint64_t start = offset_of(range, held->data);
        const uint64_t end = start + held->size_bytes;
        if (start < base + size && base < end) base = place_above(arena, end, size);
    }
    return base;
}

/// The growth of push(size); `*out_end` is the offset up to which the current range would be used.
static uint64_t growth_of(const berth_arena* arena, uint64_t size, uint64_t* out_end) {
    *out_end = 0;
    if (needs_fresh_range(arena)) {
        uint64_t bytes = 0;
        const uint64_t granule = berth_store_device(arena->account.store)->granule_bytes;
        return berth_try_round_up(size, granule, &bytes) ? bytes : UINT64_MAX;
    }
    const uint64_t base = find_base(arena, size);
    *out_end = base + size;
    return berth_arena_range_query_missing(arena->current, base, base + size);
}

berth_status berth_arena_reserve(berth_arena* arena,
                                 uint64_t size_bytes,
                                 berth_reservation* reservation) {
    if (size_bytes > arena->capacity_bytes) return berth_store_refuse(arena->account, size_bytes);
    berth_mutex_lock(arena->lock);
    const uint64_t growth = growth_of(arena, size_bytes, &arena->floor);
    berth_mutex_unlock(arena->lock);
    const berth_status status = berth_store_reserve(arena->account, growth, reservation);
    if (status != BERTH_OK) berth_arena_cancel_reserve(arena);
    return status;
}

void berth_arena_cancel_reserve(berth_arena* arena) {
    berth_mutex_lock(arena->lock);
    arena->floor = 0;
    berth_mutex_unlock(arena->lock);
}

/// Moves the idle granules of `old` over, as far as no work is pending on them.
static void inherit(berth_arena* arena, berth_arena_range* old, berth_arena_range* fresh) {
    if (!arena->can_remap || arena->has_guards) return;
    const uint64_t from = berth_arena_range_settle(old, 0, false);
    uint64_t end = end_of(old);
    size_t index = arena->holds.count;
    for (stretch gap; next_gap(arena, old, from, &index, &end, &gap);)
        berth_arena_range_move(old, gap.start, gap.end, fresh);
}

/// Makes a fresh range the current one.
static berth_status begin_range(berth_arena* arena, uint64_t need) {
    berth_arena_range* fresh = NULL;
    BERTH_TRY(berth_arena_range_create(arena->host, arena->account, arena->stream, need, &fresh));
    const berth_status status = range_vec_push(&arena->ranges, arena->host, fresh);
    if (status != BERTH_OK) {
        berth_arena_range_destroy(arena->host, fresh);
        return status;
    }
    berth_arena_range* old = arena->current;
    arena->current = fresh;
    arena->floor = 0;
    if (old == NULL) return BERTH_OK;
    inherit(arena, old, fresh);
    sweep_old(arena, UINT64_MAX, false);
    return BERTH_OK;
}

/// Populates the place of a frame. Unlocks.
static berth_status populate(berth_arena* arena,
                             const stretch* place,
                             berth_reservation* reservation) {
    berth_arena_range* range = arena->current;
    arena->floor = place->end;
    if (place->end <= range->prefix * range->granule_bytes) return BERTH_OK;
    if (place->start == place->end) return BERTH_OK;
    if (place->end > end_of(range))
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY,
                          "a frame of %" PRIu64 " bytes does not fit into the addresses left",
                          place->end - place->start);
    return berth_arena_range_map(range, place->start, place->end, reservation, arena->lock);
}

/// The part of push under the lock. Unlocks.
static berth_status push_locked(berth_arena* arena,
                                uint64_t size,
                                berth_reservation* reservation,
                                berth_frame* out_frame) {
    const uint64_t guards =
        arena->has_guards ? 2 * berth_store_device(arena->account.store)->granule_bytes : 0;
    if (needs_fresh_range(arena)) BERTH_TRY(begin_range(arena, (size > 0 ? size : 1) + guards));
    const uint64_t base = find_base(arena, size);
    const stretch place = {base, base + size};
    if (arena->has_guards) sweep(arena, arena->current, place.end, UINT64_MAX, true);
    BERTH_TRY(stretch_vec_push(&arena->frames, arena->host, place));
    const berth_status status = populate(arena, &place, reservation);
    arena->floor = 0;
    if (status != BERTH_OK) {
        arena->frames.count--;
        return status;
    }
    arena->top = place.end;
    berth_arena_range_use(arena->current, place.end);
    out_frame->base = arena->current->space->base + base;
    out_frame->size_bytes = size;
    BERTH_UNPOISON_REGION(out_frame->base, size);
    return BERTH_OK;
}

berth_status berth_arena_push(berth_arena* arena,
                              uint64_t size_bytes,
                              berth_reservation* reservation,
                              berth_frame* out_frame) {
    *out_frame = (berth_frame){0};
    if (size_bytes > arena->capacity_bytes) return berth_store_refuse(arena->account, size_bytes);
    berth_mutex_lock(arena->lock);
    const berth_status status = push_locked(arena, size_bytes, reservation, out_frame);
    berth_mutex_unlock(arena->lock);
    return status;
}

void berth_arena_pop(berth_arena* arena, const berth_frame* frame) {
    berth_mutex_lock(arena->lock);
    BERTH_CHECK(1, arena->frames.count > 0);
    const stretch popped = arena->frames.items[--arena->frames.count];
    BERTH_CHECK(1, frame->base == arena->current->space->base + popped.start);
    BERTH_CHECK(1, frame->size_bytes == popped.end - popped.start);
    const size_t count = arena->frames.count;
    arena->top = count > 0 ? arena->frames.items[count - 1].end : 0;
    poison_idle(arena, arena->current, popped.start, popped.end);
    berth_mutex_unlock(arena->lock);
}

static berth_arena_range* find_range(const berth_arena* arena, const unsigned char* data) {
    for (size_t i = 0; i < arena->ranges.count; i++) {
        const berth_space* space = arena->ranges.items[i]->space;
        if (data >= space->base && data < space->base + space->size_bytes)
            return arena->ranges.items[i];
    }
    return NULL;
}

berth_status berth_arena_reserve_holds(berth_arena* arena, size_t count) {
    berth_mutex_lock(arena->lock);
    const berth_status status = hold_vec_reserve(&arena->holds, arena->host, count);
    berth_mutex_unlock(arena->lock);
    return status;
}

berth_status berth_arena_hold(berth_arena* arena, const void* data, uint64_t size_bytes) {
    BERTH_CHECK(1, size_bytes > 0); // an empty hold would share its address with another
    berth_mutex_lock(arena->lock);
    berth_arena_range* range = find_range(arena, data);
    BERTH_CHECK(1, range != NULL && offset_of(range, data) + size_bytes <= end_of(range));
    unsigned char* start = range->space->base + offset_of(range, data);
    const hold made = {.data = start, .size_bytes = size_bytes, .range = range};
    const size_t at = find_hold(arena, start);
    const berth_status status = hold_vec_push(&arena->holds, arena->host, made);
    if (status == BERTH_OK) {
        hold* items = arena->holds.items;
        memmove(&items[at + 1], &items[at], (arena->holds.count - 1 - at) * sizeof *items);
        items[at] = made;
        arena->held_bytes += size_bytes;
        range->holds++;
        BERTH_UNPOISON_REGION(start, size_bytes);
    }
    berth_mutex_unlock(arena->lock);
    return status;
}

void berth_arena_drop(berth_arena* arena, const void* data) {
    berth_mutex_lock(arena->lock);
    const size_t at = find_hold(arena, data);
    BERTH_CHECK(1, at < arena->holds.count && arena->holds.items[at].data == data);
    const hold dropped = arena->holds.items[at];
    hold* items = arena->holds.items;
    memmove(&items[at], &items[at + 1], (arena->holds.count - at - 1) * sizeof *items);
    arena->holds.count--;
    arena->held_bytes -= dropped.size_bytes;
    dropped.range->holds--;
    const uint64_t start = offset_of(dropped.range, data);
    const uint64_t end = start + dropped.size_bytes;
    berth_arena_range_use(dropped.range, end);
    const bool is_old = dropped.range != arena->current;
    if (is_old || start >= arena->top) poison_idle(arena, dropped.range, start, end);
    if (is_old) {
        sweep(arena, dropped.range, 0, UINT64_MAX, false);
        release_ranges(arena);
    }
    berth_mutex_unlock(arena->lock);
}

uint64_t berth_arena_trim(berth_arena* arena, uint64_t keep_bytes, bool may_block) {
    berth_mutex_lock(arena->lock);
    arena->floor = 0;
    uint64_t given = sweep_old(arena, UINT64_MAX, may_block);
    if (arena->current != NULL)
        given += sweep(arena, arena->current, idle_from(arena, keep_bytes), UINT64_MAX, may_block);
    berth_mutex_unlock(arena->lock);
    return given;
}

/// True if the stretch of `range` meets something held.
static bool is_held(const berth_arena* arena,
                    const berth_arena_range* range,
                    const stretch* granule) {
    if (range->holds == 0) return false;
    for (size_t i = 0; i < arena->holds.count; i++) {
        const hold* held = &arena->holds.items[i];
        if (held->range != range) continue;
        const uint64_t start = offset_of(range, held->data);
        if (start < granule->end && start + held->size_bytes > granule->start) return true;
    }
    return false;
}

/// Where `rest` counts one mapped granule.
static uint64_t* reason_of(const berth_arena* arena,
                           const berth_arena_range* range,
                           const stretch* granule,
                           uint64_t keep_bytes,
                           berth_rest* rest) {
    const bool is_current = range == arena->current;
    if (is_current && granule->start < arena->top) return &rest->in_use_bytes;
    if (is_held(arena, range, granule)) return &rest->held_bytes;
    if (is_current && granule->start < arena->floor) return &rest->busy_bytes;
    if (is_current && granule->start < keep_bytes) return &rest->kept_bytes;
    const bool is_pending = range->stream != NULL && range->passed > granule->start;
    return is_pending ? &rest->in_flight_bytes : &rest->refused_bytes;
}

void berth_arena_add_rest(const berth_arena* arena, uint64_t keep_bytes, berth_rest* rest) {
    berth_mutex_lock(arena->lock);
    for (size_t i = 0; i < arena->ranges.count; i++) {
        const berth_arena_range* range = arena->ranges.items[i];
        for (uint64_t at = 0; at < range->high; at++) {
            if (!berth_arena_range_is_mapped(range, at)) continue;
            const stretch granule = {at * range->granule_bytes, (at + 1) * range->granule_bytes};
            *reason_of(arena, range, &granule, keep_bytes, rest) += range->granule_bytes;
        }
    }
    berth_mutex_unlock(arena->lock);
}

void berth_arena_query_stats(const berth_arena* arena, berth_arena_stats* out_stats) {
    *out_stats = (berth_arena_stats){0};
    berth_mutex_lock(arena->lock);
    for (size_t i = 0; i < arena->ranges.count; i++) {
        const berth_arena_range* range = arena->ranges.items[i];
        out_stats->mapped_bytes += range->mapped_count * range->granule_bytes;
    }
    out_stats->used_bytes = arena->top;
    out_stats->held_bytes = arena->held_bytes;
    out_stats->ranges = arena->ranges.count;
    berth_mutex_unlock(arena->lock);
}
