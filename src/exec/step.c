// SPDX-License-Identifier: Apache-2.0
// Steps: begin with admission, end with survivors moved out, estimates.
#include <stdio.h>

#include "base/log.h"
#include "exec/keep.h"
#include "exec/run.h"
#include "exec/step_entry.h"
#include "exec/upkeep.h"

/// Steps nest as deep as their code does: a step within so many is rather one that is never ended.
enum { SUSPICIOUS_DEPTH = 32 };

/// The next run object, kept from earlier steps at this depth if there was one.
static berth_run* prepare_run(berth_context* context) {
    berth_run** link = context->run != NULL ? &context->run->child : &context->first_run;
    if (*link == NULL) {
        berth_run* run = berth_host_calloc(context->home.host, 1, sizeof *run);
        if (run == NULL) return NULL;
        run->host = context->home.host;
        run->parent = context->run;
        run->depth = context->run != NULL ? context->run->depth + 1 : 0;
        run->max_events = context->runtime->policy.max_events;
        *link = run;
    }
    return *link;
}

/// What the pool may have to map for the values that one placement leaves to it.
static uint64_t placement_growth(const berth_home* home, const berth_placement* placement) {
    const berth_pool* pool = home->pool;
    const berth_path* path = placement->path;
    berth_pool_demand demand = {0};
    for (uint32_t i = 0; i < path->escaping_count; ++i)
        berth_pool_demand_add(
            pool, &demand, placement->places[path->escaping[i]].bytes + home->guard_bytes);
    return berth_pool_demand_bytes(pool, &demand);
}

/// What a path without a placement may take: it may leave the others at any event, and lives in the
/// pool from there. An eighth is what size classes may waste.
static uint64_t other_paths_bytes(const berth_outlook* outlook) {
    return outlook->has_other_paths ? outlook->frame_bytes + outlook->frame_bytes / 8 : 0;
}

/// What the pool may have to map for the values that the plans leave to it.
static uint64_t pool_growth(const berth_context* context,
                            const berth_run* run,
                            const berth_outlook* outlook) {
    const berth_pool* pool = context->home.pool;
    uint64_t most = 0;
    for (uint32_t i = 0; i < run->branches.count; ++i) {
        const uint64_t growth = placement_growth(&context->home, run->branches.items[i].placement);
        if (growth > most) most = growth;
    }
    if (!outlook->has_other_paths) return most;
    berth_pool_demand demand = {0};
    berth_pool_demand_add(pool, &demand, other_paths_bytes(outlook));
    const uint64_t other = berth_pool_demand_bytes(pool, &demand);
    return other > UINT64_MAX - most ? UINT64_MAX : most + other;
}

/// Looks for the frame's place in the parent's frame. The begin of a nested step is an event of its
/// parent's.
static berth_status place_in_parent(berth_context* context, berth_run* run, uint64_t frame_bytes) {
    run->frame_temporary = (berth_temporary){0};
    run->frame_is_inner = false;
    if (run->parent == NULL) return BERTH_OK;
    berth_run_begin_event(context, run->parent, BERTH_EVENT_STEP, 1, run->entry->tag);
    BERTH_TRY(berth_temporary_take(
        context, run->parent, frame_bytes, BERTH_VALUE_FRAME, &run->frame_temporary));
    if (run->frame_temporary.data == NULL) return BERTH_OK;
    run->frame = (berth_frame){.base = run->frame_temporary.data, .size_bytes = frame_bytes};
    run->frame_is_inner = true;
    return BERTH_OK;
}

/// Promises `frame_bytes` for the frame and `rest` for the pool, and populates the frame; or
/// nothing.
static berth_status promise(berth_context* context,
                            berth_run* run,
                            uint64_t frame_bytes,
                            uint64_t rest) {
    berth_arena* arena = context->home.arena;
    berth_store* store = context->runtime->store;
    const berth_account pool = {
        .store = store, .tenant = &context->tenant, .owner = BERTH_OWNER_POOL};
    berth_status status = BERTH_OK;
    if (!run->frame_is_inner) status = berth_arena_reserve(arena, frame_bytes, &run->reservation);
    if (status == BERTH_OK && rest > 0) status = berth_store_reserve(pool, rest, &run->reservation);
    if (status == BERTH_OK && !run->frame_is_inner)
        status = berth_arena_push(arena, frame_bytes, &run->reservation, &run->frame);
    if (status == BERTH_OK) return BERTH_OK;
    berth_arena_cancel_reserve(arena);
    berth_store_unreserve(store, &run->reservation);
    return status;
}

/// Promises all that the run is known to need, or refuses it whole; then populates the frame.
static berth_status admit(berth_context* context, berth_run* run, const berth_outlook* outlook) {
    const uint64_t extra = context->extra_bytes;
    const uint64_t frame_bytes = outlook->frame_bytes; // the largest: the run may change paths
    BERTH_TRY(place_in_parent(context, run, frame_bytes));
    uint64_t rest;
    if (!berth_add_u64(pool_growth(context, run, outlook), extra, &rest) || rest > INT64_MAX)
        rest = INT64_MAX; // more than any device has
    uint32_t attempt = 0;
    berth_status status;
    do {
        status = promise(context, run, frame_bytes, rest);
    } while (status != BERTH_OK && berth_home_may_retry(&context->home, status, &attempt));
    return status;
}

static berth_status open_run(berth_context* context, berth_run* run, const berth_outlook* outlook) {
    run->reservation = (berth_reservation){0};
    BERTH_TRY(berth_run_start(context, run, outlook->expected));
    const berth_status status = admit(context, run, outlook);
    if (status != BERTH_OK) {
        if (run->parent != NULL) berth_temporary_give(context, &run->frame_temporary);
        return status;
    }
    if (context->home.poisons && run->frame.size_bytes > 0)
        BERTH_POISON_REGION(run->frame.base, run->frame.size_bytes);
    return BERTH_OK;
}

static berth_status begin_locked(berth_context* context, const berth_step_desc* desc) {
    if (context->error != BERTH_OK)
        return berth_fail(
            BERTH_ERR_STATE, "an earlier error sticks in the context: %s", context->error_text);
    berth_step_entry* entry;
    BERTH_TRY(berth_step_entry_find(context, desc, true, &entry));
    berth_run* run = prepare_run(context);
    if (run == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for a step");
    run->entry = entry;
    BERTH_TRY(berth_step_entry_bind(entry, desc, context->home.host, &run->bindings));
    const berth_shape_key key = {.bindings = run->bindings.items, .count = run->bindings.count};
    berth_outlook outlook = {0};
    run->branches.count = 0;
    if (context->runtime->mode == BERTH_MODE_AUTO || context->runtime->mode == BERTH_MODE_PLAN)
        BERTH_TRY(berth_step_model_begin(entry->model, &key, &run->branches, &outlook));
    run->miss = outlook.miss;
    const berth_status status = open_run(context, run, &outlook);
    if (status != BERTH_OK) {
        berth_step_model_abandon(entry->model, &run->branches);
        return status;
    }
    context->extra_bytes = 0;
    // nothing is written down of a step that is not planned
    if (outlook.miss == BERTH_MISS_CHURN) run->mode = BERTH_RUN_MODE_UNTRACKED;
    context->run = run;
    if (run->depth == SUSPICIOUS_DEPTH)
        berth_log_line(BERTH_LOG_WARN,
                       "step %.120s is within %d open steps: is a berth_step_end() missing?",
                       desc->name,
                       SUSPICIOUS_DEPTH);
    return BERTH_OK;
}

berth_status berth_step_begin(berth_context* context, const berth_step_desc* desc) {
    if (context == NULL || desc == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a context and a description are needed");
    BERTH_TRY(berth_fork_check(context->home.fork_generation));
    if (!berth_home_lock(&context->home)) return BERTH_ERR_STATE;
    context->home.doing = "step_begin";
    const berth_status status = begin_locked(context, desc);
    if (status != BERTH_OK) {
        char where[160];
        snprintf(where, sizeof where, "step %.120s", desc->name != NULL ? desc->name : "?");
        berth_context_fail(context, status, where, NULL);
        (void)berth_fail_prefix(status, "%s", where);
    }
    berth_home_unlock(&context->home);
    return status;
}

berth_status berth_step_end(berth_context* context) {
    if (context == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a context is needed");
    BERTH_TRY(berth_fork_check(context->home.fork_generation));
    if (!berth_home_lock(&context->home)) return BERTH_ERR_STATE;
    berth_run* run = context->run;
    berth_status status = BERTH_OK;
    if (run == NULL) {
        status = berth_fail(BERTH_ERR_STATE, "no step is open");
    } else {
        if (run->failed && context->error != BERTH_OK)
            status = berth_fail(context->error, "%s", context->error_text);
        berth_run_close(context, run);
        berth_upkeep_at_step_end(context);
        if (context->run == NULL) berth_context_keep(context);
    }
    berth_home_unlock(&context->home);
    return status;
}

/// A nested frame that has been given back is poisoned whole; what was held in it lives on.
static void unpoison_held(const berth_home* home, const berth_frame* frame) {
    for (size_t i = 0; i < home->overdue.count; ++i) {
        const berth_overdue* held = &home->overdue.items[i];
        if (held->begin >= frame->base && held->end <= frame->base + frame->size_bytes)
            BERTH_UNPOISON_REGION(held->begin, (size_t)(held->end - held->begin));
    }
}

void berth_run_close(berth_context* context, berth_run* run) {
    berth_run_finish(context, run);
    if (context->home.poisons && run->frame.size_bytes > 0)
        BERTH_UNPOISON_REGION(run->frame.base, run->frame.size_bytes);
    if (!run->frame_is_inner) berth_arena_pop(context->home.arena, &run->frame);
    if (run->parent != NULL) berth_temporary_give(context, &run->frame_temporary);
    if (run->frame_is_inner && context->home.poisons) unpoison_held(&context->home, &run->frame);
    berth_store_unreserve(context->runtime->store, &run->reservation);
    context->run = run->parent;
    if (context->run == NULL) berth_pool_note_step(context->home.pool);
}

berth_status berth_step_estimate(berth_context* context,
                                 const berth_step_desc* desc,
                                 berth_step_estimate_result* out_result) {
    if (context == NULL || desc == NULL || out_result == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "a context, a description and a place for the result are needed");
    *out_result = (berth_step_estimate_result){.kind = BERTH_ESTIMATE_UNKNOWN};
    BERTH_TRY(berth_fork_check(context->home.fork_generation));
    const berth_host* host = context->runtime->host;
    berth_binding_vec bindings = {0};
    berth_step_entry* entry;
    if (!berth_home_lock(&context->home)) return BERTH_ERR_STATE;
    berth_status status = berth_step_entry_find(context, desc, false, &entry);
    berth_home_unlock(&context->home);
    if (status != BERTH_OK || entry == NULL) return status;
    status = berth_step_entry_bind(entry, desc, host, &bindings);
    berth_outlook outlook = {0};
    const berth_shape_key key = {.bindings = bindings.items, .count = bindings.count};
    if (status == BERTH_OK) status = berth_step_model_estimate(entry->model, &key, &outlook);
    berth_binding_vec_fini(&bindings, host);
    if (status != BERTH_OK) return status;
    out_result->kind = outlook.kind;
    out_result->bytes = outlook.frame_bytes + outlook.pool_bytes + other_paths_bytes(&outlook);
    return BERTH_OK;
}

/// Makes the pool map what the values that `placement` leaves to it will take together.
static berth_status warm_pool(berth_context* context, const berth_placement* placement) {
    berth_home* home = &context->home;
    const uint32_t values = placement->path->value_count;
    if (placement->escaping_bytes == 0) return BERTH_OK;
    berth_block* blocks = berth_host_calloc(home->host, values, sizeof *blocks);
    if (blocks == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory to warm a step");
    berth_status status = BERTH_OK;
    uint32_t taken = 0;
    for (uint32_t v = 0; v < values && status == BERTH_OK; ++v) {
        if (placement->places[v].offset != BERTH_PLACE_POOL) continue;
        status = berth_pool_take(home->pool,
                                 &(berth_pool_request){.size_bytes = placement->places[v].bytes},
                                 &blocks[taken]);
        taken += status == BERTH_OK;
    }
    while (taken > 0)
        berth_pool_give(home->pool, &blocks[--taken]);
    berth_host_free(home->host, blocks);
    return status;
}

/// Maps what a run with this outlook will use: the frame of its largest path, and the pool's part.
static berth_status warm_memory(berth_context* context,
                                const berth_outlook* outlook,
                                const berth_branches* branches) {
    berth_frame frame;
    BERTH_TRY(berth_arena_push(context->home.arena, outlook->frame_bytes, NULL, &frame));
    berth_status status = BERTH_OK;
    for (uint32_t i = 0; i < branches->count && status == BERTH_OK; ++i)
        status = warm_pool(context, branches->items[i].placement);
    berth_arena_pop(context->home.arena, &frame);
    return status;
}

static berth_status warm_locked(berth_context* context, const berth_step_desc* desc) {
    berth_step_entry* entry;
    BERTH_TRY(berth_step_entry_find(context, desc, false, &entry));
    if (entry == NULL) return BERTH_OK;
    berth_binding_vec bindings = {0};
    berth_status status = berth_step_entry_bind(entry, desc, context->home.host, &bindings);
    berth_outlook outlook = {0};
    berth_branches branches = {.count = 0};
    const berth_shape_key key = {.bindings = bindings.items, .count = bindings.count};
    if (status == BERTH_OK)
        status = berth_step_model_begin(entry->model, &key, &branches, &outlook);
    berth_binding_vec_fini(&bindings, context->home.host);
    if (status != BERTH_OK || outlook.placement == NULL) return status;
    uint32_t attempt = 0;
    do {
        status = warm_memory(context, &outlook, &branches);
    } while (status != BERTH_OK && berth_home_may_retry(&context->home, status, &attempt));
    berth_step_model_abandon(entry->model, &branches);
    return status;
}

berth_status berth_step_warm(berth_context* context, const berth_step_desc* desc) {
    if (context == NULL || desc == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a context and a description are needed");
    BERTH_TRY(berth_fork_check(context->home.fork_generation));
    if (!berth_home_lock(&context->home)) return BERTH_ERR_STATE;
    context->home.doing = "step_warm";
    const berth_status status = warm_locked(context, desc);
    berth_home_unlock(&context->home);
    if (status == BERTH_OK) return BERTH_OK;
    return berth_fail_prefix(status, "step %.120s", desc->name != NULL ? desc->name : "?");
}

void berth_step_reserve_extra(berth_context* context, uint64_t bytes) {
    if (context == NULL || berth_home_is_forked(&context->home)) return;
    if (!berth_home_lock(&context->home)) return;
    if (!berth_add_u64(context->extra_bytes, bytes, &context->extra_bytes))
        context->extra_bytes = UINT64_MAX;
    berth_home_unlock(&context->home);
}

void berth_step_cancel_extra(berth_context* context) {
    if (context == NULL || berth_home_is_forked(&context->home)) return;
    if (!berth_home_lock(&context->home)) return;
    context->extra_bytes = 0;
    berth_home_unlock(&context->home);
}
