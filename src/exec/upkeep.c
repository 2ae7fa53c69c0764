// SPDX-License-Identifier: Apache-2.0
// When slices of compaction are made, and what they may cost.
#include "exec/upkeep.h"

#include "base/clock.h"
#include "base/error.h"
#include "berth/memory.h"
#include "exec/guests.h"
#include "exec/keep.h"

/// A pool is worth a look when so much of what is mapped lies free beside blocks: 1/32, and at
/// least two granules.
enum { WORTH_SHARE = 32, WORTH_GRANULES = 2 };

/// Hands what the compactor has counted to the runtime and to the context.
static void report(berth_context* context) {
    berth_runtime* runtime = context->runtime;
    berth_mutex_lock(&runtime->lock);
    berth_compact_stats_add(&runtime->compact_stats, &context->compactor.stats);
    berth_compact_stats_add(&context->compacted, &context->compactor.stats);
    berth_mutex_unlock(&runtime->lock);
    context->pass_bytes += context->compactor.stats.emptied_bytes;
    context->compactor.stats = (berth_compact_stats){0};
}

static bool may_compact(const berth_context* context) {
    const berth_runtime* runtime = context->runtime;
    return runtime->compact_mode != BERTH_COMPACT_OFF && runtime->mode != BERTH_MODE_SYSTEM;
}

/// One slice; true if there is more to be done.
static bool run_slice(berth_context* context, const berth_compact_budget* slice) {
    ++context->home.epoch; // no op has anybody's address
    if (context->runtime->compact_mode == BERTH_COMPACT_ALWAYS)
        berth_compactor_stir(&context->compactor, slice);
    return berth_compactor_tidy(&context->compactor, slice);
}

static bool is_worth_a_look(const berth_context* context) {
    berth_pool_stats pool;
    berth_pool_query_stats(context->home.pool, &pool);
    const uint64_t granule = context->home.stream->device->granule_bytes;
    uint64_t whole, beside;
    berth_pool_query_free(context->home.pool, &whole, &beside);
    return beside >= WORTH_GRANULES * granule && beside >= pool.mapped_bytes / WORTH_SHARE;
}

/// One slice while nobody uses the memory; true if there is more to be done.
static bool run_idle_slice(berth_context* context, const berth_compact_budget* slice) {
    if (run_slice(context, slice) || berth_guests_tidy(context, slice)) return true;
    return is_worth_a_look(context) && berth_compactor_press(&context->compactor, slice);
}

/// Whether memory is dear: what is free goes back at once.
static bool keeps_nothing(const berth_context* context) {
    return context->runtime->keep == BERTH_KEEP_NONE;
}

/// Tells the monitor that there is nothing left to be done.
static void end_pass(berth_context* context) {
    berth_monitor_finish_pass(context->monitor, context->pass_bytes);
    context->pass_bytes = 0;
}

void berth_upkeep_run_slice(berth_context* context) {
    const berth_compact_budget* slice = &context->runtime->compact_slice;
    const bool has_more =
        keeps_nothing(context) ? run_idle_slice(context, slice) : run_slice(context, slice);
    report(context);
    if (!has_more) end_pass(context);
    // what is begun is brought to its end: a plan that waits for long no longer fits
    context->wants_upkeep = has_more || context->runtime->compact_mode == BERTH_COMPACT_ALWAYS;
}

void berth_upkeep_at_step_end(berth_context* context) {
    if (!may_compact(context)) return;
    berth_monitor_look(context->monitor, false);
    if (context->wants_upkeep ||
        berth_monitor_query_wanted(context->monitor) != BERTH_TRIGGER_NONE ||
        (keeps_nothing(context) && is_worth_a_look(context)))
        berth_upkeep_run_slice(context);
}

void berth_upkeep_of_guests(berth_context* context) {
    if (context->runtime->compact_mode != BERTH_COMPACT_OFF)
        (void)berth_guests_tidy(context, &context->runtime->compact_slice);
    if (keeps_nothing(context)) (void)berth_guests_trim(context, 0, true);
}

bool berth_upkeep_in_visit(berth_context* context) {
    if (context->runtime->compact_mode == BERTH_COMPACT_OFF) return false;
    const berth_compact_budget* slice = &context->runtime->compact_slice;
    bool has_more = berth_guests_tidy(context, slice);
    if (!may_compact(context) || !is_worth_a_look(context)) return has_more;
    has_more = run_idle_slice(context, slice) || has_more;
    report(context);
    return has_more;
}

static uint64_t make_room(berth_context* context, uint64_t wanted_bytes, bool may_block) {
    const berth_compact_budget* slice = &context->runtime->compact_slice;
    const uint64_t given =
        berth_compactor_give_room(&context->compactor, slice, wanted_bytes, may_block);
    report(context);
    return given;
}

/// As a rung. The climbing context is in an op perhaps, whose operands stay.
static uint64_t climb(berth_context* context,
                      const berth_tenant* climber,
                      uint64_t wanted_bytes,
                      bool may_block) {
    if (climber == &context->tenant) return make_room(context, wanted_bytes, may_block);
    if (!berth_home_try_visit(&context->home)) return 0;
    ++context->home.epoch;
    const uint64_t given = make_room(context, wanted_bytes, may_block);
    berth_home_end_visit(&context->home);
    return given;
}

/// The rung of compaction; nothing there takes long to wait for where work is done at once.
static uint64_t compact(void* self, const berth_tenant* climber, uint64_t wanted_bytes) {
    berth_context* context = self;
    return climb(
        context, climber, wanted_bytes, !berth_device_is_async(context->home.stream->device));
}

/// The rung of waiting, after what the pool waits for.
static uint64_t compact_after_work(void* self, const berth_tenant* climber, uint64_t wanted_bytes) {
    return climb(self, climber, wanted_bytes, true);
}

void berth_upkeep_begin(berth_context* context) {
    const berth_runtime* runtime = context->runtime;
    berth_compactor_init(&context->compactor, context->home.host, context->home.pool);
    if (!may_compact(context)) return;
    berth_pool_allow_moves(context->home.pool);
    context->wants_upkeep = runtime->compact_mode == BERTH_COMPACT_ALWAYS;
    context->room_maker = (berth_reclaimer){.rung = BERTH_RUNG_COMPACTION,
                                            .tenant = &context->tenant,
                                            .owner = BERTH_OWNER_POOL,
                                            .self = context,
                                            .reclaim = compact};
    // before the first is in the list, where it is the store's
    context->patient_room_maker = context->room_maker;
    context->patient_room_maker.rung = BERTH_RUNG_WAIT;
    context->patient_room_maker.reclaim = compact_after_work;
    berth_store_add_reclaimer(runtime->store, &context->room_maker);
    if (berth_device_is_async(context->home.stream->device))
        berth_store_add_reclaimer(runtime->store, &context->patient_room_maker);
}

void berth_upkeep_end(berth_context* context) {
    if (context->room_maker.self != NULL) {
        berth_store_remove_reclaimer(context->runtime->store, &context->room_maker);
        berth_store_remove_reclaimer(context->runtime->store, &context->patient_room_maker);
    }
    berth_compactor_fini(&context->compactor);
}

/// Slices until the time is over; true if there is more to be done.
static bool run_slices(berth_context* context, uint64_t end_ns) {
    bool has_more = may_compact(context);
    for (uint64_t now; has_more && (now = berth_clock_now_ns()) < end_ns;) {
        berth_compact_budget slice = context->runtime->compact_slice;
        if (slice.ns > end_ns - now) slice.ns = end_ns - now;
        has_more = run_idle_slice(context, &slice);
    }
    return has_more;
}

berth_status berth_idle(berth_context* context, uint64_t budget_us, berth_idle_result* out_result) {
    berth_idle_result result = {0};
    if (out_result != NULL) *out_result = result;
    if (context == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a context is needed");
    BERTH_TRY(berth_fork_check(context->home.fork_generation));
    berth_home* home = &context->home;
    const uint64_t begin_ns = berth_clock_now_ns();
    const uint64_t most_us = (UINT64_MAX - begin_ns) / 1000;
    if (!berth_home_lock(home)) return BERTH_ERR_STATE;
    if (may_compact(context)) berth_monitor_look(context->monitor, true);
    result.has_more =
        run_slices(context, begin_ns + (budget_us < most_us ? budget_us : most_us) * 1000);
    result.moved_bytes = context->compactor.stats.moved_bytes;
    result.emptied_bytes = context->compactor.stats.emptied_bytes;
    report(context);
    if (may_compact(context) && !result.has_more) end_pass(context);
    result.released_bytes = berth_context_give_back(context);
    berth_home_unlock(home);
    if (out_result != NULL) *out_result = result;
    return BERTH_OK;
}
