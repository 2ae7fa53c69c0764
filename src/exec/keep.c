// SPDX-License-Identifier: Apache-2.0
// The policy: recent use is expected to go on, what it does not explain ages and goes back in small
// parts.
#include "exec/keep.h"

#include "base/clock.h"
#include "exec/decay.h"
#include "exec/guests.h"
#include "exec/upkeep.h"

/// Bytes that are to stay mapped: of frames in all, of the pool idle.
typedef struct kept {
    uint64_t frames_bytes;
    uint64_t pool_bytes;
    bool is_settled; ///< stays the same until memory is used again
} kept;

bool berth_keep_is_ageing(const berth_runtime* runtime) {
    const bool fits = runtime->keep == BERTH_KEEP_AUTO || runtime->keep == BERTH_KEEP_BYTES;
    return fits && runtime->mode != BERTH_MODE_SYSTEM && runtime->decay_ns > 0 &&
           runtime->decay_ns != UINT64_MAX;
}

static uint64_t current_epoch(const berth_runtime* runtime) {
    return berth_clock_now_ns() / berth_decay_epoch_ns(runtime);
}

static uint64_t less(uint64_t bytes, uint64_t used) { return bytes > used ? bytes - used : 0; }

/// Notes what has been in use since the last time; `frame_bytes` are those of a step that ended.
static void note_use(berth_context* context, uint64_t epoch, uint64_t frame_bytes) {
    berth_arena_stats arena;
    berth_arena_query_stats(context->home.arena, &arena);
    if (frame_bytes < arena.used_bytes) frame_bytes = arena.used_bytes;
    berth_use_window_note(&context->frame_use, epoch, frame_bytes, arena.used_bytes);
    uint64_t peak_bytes, pool_bytes;
    berth_pool_sample_use(context->home.pool, &peak_bytes, &pool_bytes);
    berth_use_window_note(&context->pool_use, epoch, peak_bytes, pool_bytes);
}

static kept decide(const berth_context* context, uint64_t epoch) {
    const berth_runtime* runtime = context->runtime;
    const uint64_t floor = runtime->keep == BERTH_KEEP_BYTES ? runtime->keep_bytes : 0;
    const uint64_t frames = berth_use_window_expect(&context->frame_use, epoch);
    const uint64_t pool = berth_use_window_expect(&context->pool_use, epoch);
    const uint64_t idle = less(pool, context->pool_use.level_bytes);
    return (kept){
        .frames_bytes = frames > floor ? frames : floor,
        .pool_bytes = idle > floor ? idle : floor,
        .is_settled = idle == 0 && frames == context->frame_use.level_bytes,
    };
}

/// Trims a pool whose guard is held.
static void trim_pool(berth_pool* pool, uint64_t keep_bytes, bool may_block) {
    berth_pool_flush_front(pool);
    berth_pool_trim(pool, keep_bytes, may_block);
}

/// BERTH_KEEP=auto at a step's end.
static void keep_recent_use(berth_context* context) {
    const berth_runtime* runtime = context->runtime;
    if (runtime->decay_ns == UINT64_MAX) return;
    kept keep = {0};
    if (runtime->decay_ns > 0) {
        const uint64_t epoch = current_epoch(runtime);
        note_use(context, epoch, context->first_run->frame.size_bytes);
        if (runtime->decay.has_thread || context->aged_epoch == epoch) return;
        context->aged_epoch = epoch;
        keep = decide(context, epoch);
        bool unused;
        (void)berth_guests_age(context, epoch, 0, UINT64_MAX, &unused);
    } else {
        (void)berth_guests_trim(context, 0, false);
    }
    berth_arena_trim(context->home.arena, keep.frames_bytes, false);
    trim_pool(context->home.pool, keep.pool_bytes, false);
}

void berth_context_keep(berth_context* context) {
    berth_home* home = &context->home;
    switch (context->runtime->keep) {
    case BERTH_KEEP_ALL:
        break;
    case BERTH_KEEP_AUTO:
        keep_recent_use(context);
        break;
    case BERTH_KEEP_NONE:
        berth_arena_trim(home->arena, 0, true);
        trim_pool(home->pool, 0, true);
        (void)berth_guests_trim(context, 0, true);
        break;
    case BERTH_KEEP_BYTES:
        berth_arena_trim(home->arena, context->runtime->keep_bytes, false);
        trim_pool(home->pool, context->runtime->keep_bytes, false);
        (void)berth_guests_trim(context, context->runtime->keep_bytes, false);
        break;
    }
}

uint64_t berth_context_give_back(berth_context* context) {
    const berth_runtime* runtime = context->runtime;
    const bool is_kept = runtime->decay_ns == UINT64_MAX && runtime->keep == BERTH_KEEP_AUTO;
    if (runtime->keep == BERTH_KEEP_ALL || is_kept) return 0;
    const uint64_t floor = runtime->keep == BERTH_KEEP_BYTES ? runtime->keep_bytes : 0;
    kept keep = {.frames_bytes = floor, .pool_bytes = floor};
    uint64_t given;
    if (berth_keep_is_ageing(runtime)) {
        const uint64_t epoch = current_epoch(runtime);
        note_use(context, epoch, 0);
        keep = decide(context, epoch);
        bool unused;
        given = berth_guests_age(context, epoch, floor, UINT64_MAX, &unused);
    } else {
        given = berth_guests_trim(context, floor, false);
    }
    given += berth_arena_trim(context->home.arena, keep.frames_bytes, false);
    return given + berth_pool_trim(context->home.pool, keep.pool_bytes, false);
}

/// True if no block was taken or given since the last time.
static bool is_quiet(berth_context* context) {
    berth_pool_stats pool;
    berth_pool_query_stats(context->home.pool, &pool);
    const bool quiet = pool.takes == context->quiet_takes && pool.blocks == context->quiet_blocks;
    context->quiet_takes = pool.takes;
    context->quiet_blocks = pool.blocks;
    return quiet;
}

/// What a visit has found and done.
typedef struct visit {
    kept keep;
    uint64_t given_bytes; ///< by guests
    bool gathers;         ///< there is more to be moved together
} visit;

static void look_after(berth_context* context, uint64_t limit_bytes, visit* out_visit) {
    const berth_runtime* runtime = context->runtime;
    const uint64_t epoch = current_epoch(runtime);
    berth_pool_flush_front(context->home.pool);
    note_use(context, epoch, 0);
    const uint64_t floor = runtime->keep == BERTH_KEEP_BYTES ? runtime->keep_bytes : 0;
    bool are_settled;
    out_visit->keep = decide(context, epoch);
    out_visit->gathers = is_quiet(context) && berth_upkeep_in_visit(context);
    out_visit->given_bytes = berth_guests_age(context, epoch, floor, limit_bytes, &are_settled);
    out_visit->keep.is_settled = out_visit->keep.is_settled && are_settled;
}

/// Looks after a context that nobody uses; false if somebody does.
static bool try_look_after(berth_context* context, uint64_t limit_bytes, visit* out_visit) {
    berth_store* store = context->runtime->store;
    berth_transit transit; // a climber that finds the context visited is to wait for the end of it
    berth_store_begin_transit(store, &transit);
    const bool is_in = berth_home_try_visit(&context->home);
    if (is_in) {
        look_after(context, limit_bytes, out_visit);
        berth_home_end_visit(&context->home);
    }
    berth_store_end_transit(store, &transit);
    return is_in;
}

berth_keep_outlook berth_context_age(berth_context* context, uint64_t limit_bytes) {
    berth_home* home = &context->home;
    visit seen;
    // whoever is in an op now comes to a step's end, or is idle at another time
    if (!try_look_after(context, limit_bytes, &seen)) return BERTH_KEEP_AGEING;
    uint64_t given = seen.given_bytes;
    if (given < limit_bytes)
        given += berth_arena_release_idle(home->arena, seen.keep.frames_bytes, limit_bytes - given);
    if (given < limit_bytes)
        given += berth_pool_release_idle(home->pool, seen.keep.pool_bytes, limit_bytes - given);
    if (given >= limit_bytes || seen.gathers) return BERTH_KEEP_MORE;
    if (!seen.keep.is_settled || given > 0) return BERTH_KEEP_AGEING;
    berth_home_shed_objects(home);
    return BERTH_KEEP_SETTLED;
}
