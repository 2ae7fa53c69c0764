// SPDX-License-Identifier: Apache-2.0
// Recording and replaying one run of a step.
#include "exec/run.h"

#include "exec/debugging.h"
#include "exec/scarcity.h"

_Static_assert(BERTH_PLAN_ALIGNMENT == BERTH_ALIGNMENT, "planned offsets suit every device");

enum { FIRST_SLOTS = 64 };

/// Room for values 0 .. wanted - 1 in the ledger.
static berth_status reserve_slots(const berth_host* host, berth_run* run, uint32_t wanted) {
    if (wanted <= run->slot_capacity) return BERTH_OK;
    uint32_t capacity = run->slot_capacity == 0 ? FIRST_SLOTS : run->slot_capacity;
    while (capacity < wanted)
        capacity *= 2;
    berth_storage** slots =
        berth_host_realloc(host, run->ledger.slots, capacity * sizeof *run->ledger.slots);
    if (slots == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for a trace");
    run->ledger.slots = slots;
    uint32_t* deaths =
        berth_host_realloc(host, run->ledger.deaths, capacity * sizeof *run->ledger.deaths);
    if (deaths == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for a trace");
    run->ledger.deaths = deaths;
    for (uint32_t i = run->slot_capacity; i < capacity; ++i)
        run->ledger.slots[i] = NULL;
    run->slot_capacity = capacity;
    return BERTH_OK;
}

/// Copies events and values of the path up to where the run is; dims are in the log already.
static berth_status copy_prefix(const berth_host* host, berth_run* run) {
    berth_trace* trace = &run->trace;
    const berth_path* path = run->path;
    BERTH_TRY(berth_trace_event_vec_reserve(&trace->events, host, run->next_event + 1));
    BERTH_TRY(berth_trace_value_vec_reserve(&trace->values, host, run->next_value + 1));
    memcpy(trace->events.items, path->events, run->next_event * sizeof *path->events);
    memcpy(trace->values.items, path->values, run->next_value * sizeof *path->values);
    trace->dims.count = (size_t)(run->log - trace->dims.items);
    trace->events.count = run->next_event;
    trace->values.count = run->next_value;
    uint32_t dims_at = 0;
    for (uint32_t v = 0; v < run->next_value; ++v) {
        berth_trace_value* value = &trace->values.items[v];
        value->flags &= (uint16_t)~BERTH_VALUE_ESCAPES;
        value->dims_at = dims_at;
        dims_at += value->rank;
    }
    return BERTH_OK;
}

/// From here on nothing of the run is written down.
static void stop_tracking(berth_run* run) { run->mode = BERTH_RUN_MODE_UNTRACKED; }

void berth_run_side_exit(berth_run* run) {
    run->exited = true;
    run->mode = BERTH_RUN_MODE_RECORD;
    if (copy_prefix(run->host, run) != BERTH_OK) stop_tracking(run);
}

void berth_run_record_event(berth_run* run, uint32_t kind, uint32_t value_count, uint32_t tag) {
    const uint32_t e = run->next_event;
    const berth_trace_event event = {
        .kind = kind,
        .first_value = run->next_value,
        .value_count = (uint16_t)value_count,
        .tag = tag,
    };
    if (e >= run->max_events ||
        berth_trace_event_vec_push(&run->trace.events, run->host, event) != BERTH_OK) {
        stop_tracking(run);
        return;
    }
    run->ledger.event = e;
    run->next_event = e + 1;
}

static bool add_overdue(berth_home* home, berth_storage* storage) {
    // what the pool or its owner holds is in nobody's way
    if (storage->kind != BERTH_STORAGE_FRAME || storage->is_overdue) return true;
    const berth_overdue entry = {
        .begin = storage->data,
        .end = storage->data + storage->rounded_bytes,
        .storage = storage,
    };
    if (berth_overdue_vec_push(&home->overdue, home->host, entry) != BERTH_OK) return false;
    storage->is_overdue = true;
    storage->is_special = true;
    return true;
}

static void note_late(berth_run* run, uint32_t event) {
    if (run->late) return;
    run->late = true;
    run->late_since = event;
}

bool berth_run_add_overdue(berth_context* context,
                           berth_run* run,
                           const uint32_t* value,
                           const uint32_t* end) {
    note_late(run, run->next_event);
    for (; value != end; ++value) {
        berth_storage* storage = run->ledger.slots[*value];
        if (storage != NULL && !add_overdue(&context->home, storage)) return false;
    }
    return true;
}

/// Judges what is alive by the deaths of the path that the run has changed to. False without host
/// memory.
static bool judge_again(berth_context* context, berth_run* run, uint32_t event) {
    const berth_trace_value* values = run->path->values;
    uint32_t left = run->ledger.live_count;
    for (uint32_t v = 0; v < run->next_value && left > 0; ++v) {
        berth_storage* storage = run->ledger.slots[v];
        if (storage == NULL) continue;
        --left;
        const bool is_late =
            values[v].death < event && (values[v].flags & BERTH_VALUE_ESCAPES) == 0;
        if (is_late) note_late(run, event);
        if (is_late && !add_overdue(&context->home, storage)) return false;
        if (!is_late && storage->is_overdue) berth_overdue_remove(&context->home, storage);
    }
    return true;
}

/// Goes on with branch `to` at event `event`, as if the run had been on it from the start.
static bool take_branch(berth_context* context, berth_run* run, uint32_t to, uint32_t event) {
    run->branch = to;
    run->placement = run->branches.items[to].placement;
    run->path = run->placement->path;
    run->places = run->placement->places;
    run->next_expired = run->path->expired + run->path->expired_at[event];
    run->switched = true;
    // what the other path has missed just now is no concern of this one
    if (run->late && run->late_since == event) run->late = false;
    return judge_again(context, run, event);
}

/// True if branch `to` shares the events before the next one with the run's, and no more.
static bool parts_here(const berth_run* run, uint32_t to) {
    return to != run->branch &&
           berth_branches_shared(&run->branches, run->branch, to) == run->next_event;
}

bool berth_run_switch(
    berth_context* context, berth_run* run, uint32_t kind, uint32_t value_count, uint32_t tag) {
    const uint32_t e = run->next_event;
    for (uint32_t to = 0; to < run->branches.count; ++to) {
        const berth_path* path = run->branches.items[to].placement->path;
        if (e >= path->event_count || !parts_here(run, to)) continue;
        const berth_trace_event* event = &path->events[e];
        if (event->kind != kind || event->value_count != value_count || event->tag != tag) continue;
        if (!take_branch(context, run, to, e)) return false;
        run->ledger.event = e;
        run->next_event = e + 1;
        return true;
    }
    return false;
}

/// The run ends before its path does: looks for a known path that ends here.
static bool switch_to_end(berth_context* context, berth_run* run) {
    for (uint32_t to = 0; to < run->branches.count; ++to)
        if (run->branches.items[to].placement->path->event_count == run->next_event &&
            parts_here(run, to))
            return take_branch(context, run, to, run->next_event);
    return false;
}

/// Writes one value down; the run becomes untracked if it cannot be.
static void record_value(
    berth_run* run, uint32_t flags, uint8_t dtype, int32_t rank, const int64_t* dims) {
    berth_trace* trace = &run->trace;
    const berth_trace_value value = {
        .birth = run->ledger.event,
        .death = run->ledger.event,
        .dims_at = (uint32_t)trace->dims.count,
        .rank = (uint8_t)rank,
        .dtype = dtype,
        .flags = (uint16_t)flags,
    };
    if (reserve_slots(run->host, run, run->next_value + 1) != BERTH_OK ||
        berth_trace_dim_vec_reserve(&trace->dims, run->host, trace->dims.count + (size_t)rank) !=
            BERTH_OK ||
        berth_trace_value_vec_push(&trace->values, run->host, value) != BERTH_OK) {
        stop_tracking(run);
        return;
    }
    for (int32_t i = 0; i < rank; ++i)
        trace->dims.items[trace->dims.count + (size_t)i] = dims[i];
    trace->dims.count += (size_t)rank;
}

static void note_outside(berth_run* run) {
    const uint64_t outside = run->ledger.pool_bytes + run->apart_bytes;
    if (outside > run->outside_peak_bytes) run->outside_peak_bytes = outside;
}

static void count_pool_bytes(berth_run* run, uint64_t rounded_bytes) {
    run->unplaced_bytes += rounded_bytes;
    run->ledger.pool_bytes += rounded_bytes;
    if (run->ledger.pool_bytes > run->pool_peak_bytes)
        run->pool_peak_bytes = run->ledger.pool_bytes;
    note_outside(run);
}

/// The site of the value that is to be taken from the pool next; of `run`, if it is in one.
static uint64_t next_site(const berth_context* context, const berth_run* run, uint64_t bytes) {
    if (run == NULL || run->mode == BERTH_RUN_MODE_UNTRACKED)
        return berth_home_site(&context->home, bytes);
    return berth_run_site(run, run->ledger.event, run->next_value);
}

berth_status berth_run_place_in_pool(berth_context* context,
                                     berth_run* run,
                                     berth_storage* storage,
                                     const berth_view* shape,
                                     uint32_t flags) {
    const uint64_t site = next_site(context, run, storage->size_bytes);
    BERTH_TRY(berth_storage_take_from_pool(&context->home, storage, site, &run->reservation));
    if (run->mode == BERTH_RUN_MODE_RECORD)
        record_value(run, flags, (uint8_t)shape->dtype, shape->rank, shape->dims);
    if (run->mode == BERTH_RUN_MODE_UNTRACKED) return BERTH_OK;
    storage->ledger = &run->ledger;
    storage->value = run->next_value;
    run->ledger.slots[run->next_value++] = storage;
    ++run->ledger.live_count;
    berth_run_count_value(run, storage->rounded_bytes);
    count_pool_bytes(run, storage->rounded_bytes);
    return BERTH_OK;
}

/// What debugging does with a temporary's bytes before they are used. The values in a nested frame
/// are filled one by one.
static void open_temporary(berth_home* home, const berth_temporary* temporary) {
    if (temporary->data == NULL) return;
    if (home->poisons) BERTH_UNPOISON_REGION(temporary->data, temporary->size_bytes);
    if (home->fills_on_alloc && temporary->is_scratch)
        berth_home_fill(home, temporary->data, temporary->size_bytes, BERTH_POISON_ALLOC_BYTE);
}

/// And afterwards.
static void close_temporary(berth_home* home, const berth_temporary* temporary) {
    if (temporary->data == NULL) return;
    if (home->fills_on_free && temporary->is_scratch)
        berth_home_fill(home, temporary->data, temporary->size_bytes, BERTH_POISON_FREE_BYTE);
    if (home->poisons && !temporary->is_from_pool)
        BERTH_POISON_REGION(temporary->data, temporary->rounded_bytes);
}

berth_status berth_temporary_take(
    berth_context* context, berth_run* run, uint64_t bytes, uint32_t flags, berth_temporary* out) {
    *out = (berth_temporary){.size_bytes = bytes};
    if (!berth_try_round_up(bytes, BERTH_ALIGNMENT, &out->rounded_bytes) || bytes > INT64_MAX)
        return berth_fail(BERTH_ERR_OVERFLOW, "the workspace does not fit 63 bits");
    const bool is_replay = run != NULL && run->mode == BERTH_RUN_MODE_REPLAY;
    if (is_replay)
        out->data =
            berth_run_planned_address(&context->home, run, run->next_value, out->rounded_bytes);
    if (out->data == NULL && (flags & BERTH_VALUE_FRAME) == 0) {
        BERTH_TRY(berth_home_take(
            &context->home,
            &(berth_pool_request){.size_bytes = bytes,
                                  .site = next_site(context, run, bytes),
                                  .reservation = run != NULL ? &run->reservation : NULL},
            &out->block));
        out->data = out->block.data;
        out->is_from_pool = true;
    }
    out->is_scratch = (flags & BERTH_VALUE_FRAME) == 0;
    if (context->home.is_watchful) open_temporary(&context->home, out);
    if (run == NULL) return BERTH_OK;
    const int64_t dim = (int64_t)bytes;
    if (is_replay) *run->log++ = dim;
    if (run->mode == BERTH_RUN_MODE_RECORD) record_value(run, flags, BERTH_U8, 1, &dim);
    if (run->mode == BERTH_RUN_MODE_UNTRACKED) return BERTH_OK;
    out->run = run;
    run->ledger.slots[run->next_value] = NULL;
    run->ledger.deaths[run->next_value++] = run->ledger.event;
    berth_run_count_value(run, out->rounded_bytes);
    if (out->is_from_pool) {
        count_pool_bytes(run, out->rounded_bytes);
    } else if (out->data == NULL) {
        run->unplaced_bytes += out->rounded_bytes;
        run->apart_bytes = out->rounded_bytes;
        note_outside(run);
    }
    return BERTH_OK;
}

void berth_temporary_give(berth_context* context, berth_temporary* temporary) {
    if (temporary->run != NULL) {
        temporary->run->ledger.live_bytes -= temporary->rounded_bytes;
        if (temporary->is_from_pool) temporary->run->ledger.pool_bytes -= temporary->rounded_bytes;
        if (temporary->data == NULL) temporary->run->apart_bytes = 0;
    }
    if (context->home.is_watchful) close_temporary(&context->home, temporary);
    if (temporary->is_from_pool) berth_home_give(&context->home, &temporary->block);
}

/// The most values that a branch of the run has.
static uint32_t most_values(const berth_run* run) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < run->branches.count; ++i) {
        const berth_path* path = run->branches.items[i].placement->path;
        if (path->value_count > most) most = path->value_count;
    }
    return most;
}

/// Room for every value of the open steps to outlive its frame: the end of a step must not fail.
static berth_status reserve_holds(berth_context* context, const berth_run* run) {
    size_t wanted = context->home.overdue.count;
    for (const berth_run* open = run; open != NULL; open = open->parent)
        if (open->path != NULL) wanted += most_values(open);
    BERTH_TRY(berth_overdue_vec_reserve(&context->home.overdue, context->home.host, wanted));
    return berth_arena_reserve_holds(context->home.arena, wanted);
}

berth_status berth_run_start(berth_context* context, berth_run* run, uint32_t expected) {
    const berth_placement* placement =
        run->branches.count > 0 ? run->branches.items[expected].placement : NULL;
    berth_trace_clear(&run->trace);
    run->host = context->home.host;
    run->branch = expected;
    run->placement = placement;
    run->path = placement != NULL ? placement->path : NULL;
    run->mode = placement != NULL ? BERTH_RUN_MODE_REPLAY : BERTH_RUN_MODE_RECORD;
    run->exited = run->switched = run->missed = run->late = run->failed = false;
    run->next_event = run->next_value = 0;
    run->ledger.event = 0;
    run->ledger.live_count = 0;
    run->ledger.live_bytes = run->ledger.pool_bytes = 0;
    run->lower_bound_bytes = run->pool_peak_bytes = 0;
    run->apart_bytes = run->outside_peak_bytes = 0;
    run->allocated_bytes = run->unplaced_bytes = 0;
    run->next_expired = placement != NULL ? placement->path->expired : NULL;
    if (placement == NULL) return BERTH_OK;
    BERTH_TRY(reserve_holds(context, run));
    // guards do not look at every rank: the log has room for any
    const uint32_t values = most_values(run);
    const size_t most_dims = (size_t)values * BERTH_MAX_RANK;
    BERTH_TRY(berth_trace_dim_vec_reserve(&run->trace.dims, run->host, most_dims + 1));
    run->log = run->trace.dims.items;
    run->places = placement->places;
    return reserve_slots(run->host, run, values);
}

/// The end of a step cannot fail: what there is no memory to note is not listed.
static void note_held(berth_home* home, const berth_storage* storage) {
    berth_audit_site site;
    home->where(home, &site);
    (void)!berth_audit_note_take(
        home->audit, BERTH_AUDIT_BESIDE, storage->data, storage->size_bytes, &site);
}

/// Takes `storage` out of the frame that ends: to the pool, or held where it is.
static void evacuate(berth_context* context, berth_run* run, berth_storage* storage) {
    const uint32_t birth = run->path->values[storage->value].birth;
    berth_home* home = &context->home;
    if (storage->is_overdue) berth_overdue_remove(home, storage);
    if (storage->size_bytes == 0) {
        // nothing to keep, and a hold would share its address with another
        storage->kind = BERTH_STORAGE_FOREIGN;
        storage->is_special = true;
        storage->deleter = NULL;
        return;
    }
    berth_storage_lock(storage);
    const bool may_move = atomic_load_explicit(&storage->marks, memory_order_acquire) == 0;
    berth_block block;
    if (may_move && berth_home_try_take(
                        home,
                        &(berth_pool_request){.size_bytes = storage->size_bytes,
                                              .site = berth_run_site(run, birth, storage->value),
                                              .movable = &storage->movable,
                                              .reservation = &run->reservation},
                        &block) == BERTH_OK) {
        if (berth_stream_copy(home->stream,
                              block.data,
                              storage->data,
                              storage->size_bytes,
                              BERTH_COPY_DEVICE_TO_DEVICE) == BERTH_OK) {
            if (home->fills_on_free)
                berth_home_fill(home, storage->data, storage->size_bytes, BERTH_POISON_FREE_BYTE);
            if (home->poisons) BERTH_POISON_REGION(storage->data, storage->rounded_bytes);
            storage->kind = BERTH_STORAGE_POOL;
            storage->is_special = true;
            storage->block = block;
            storage->data = block.data;
            berth_storage_unlock(storage);
            return;
        }
        berth_home_give(home, &block);
    }
    if (may_move) berth_scarcity_forget(context); // it is in nobody's way where it is
    storage->kind = BERTH_STORAGE_HELD;
    storage->is_special = true;
    berth_storage_unlock(storage);
    // room for both was made at the step's begin
    BERTH_CHECK(1, home->overdue.count < home->overdue.capacity);
    home->overdue.items[home->overdue.count++] = (berth_overdue){
        .begin = storage->data,
        .end = storage->data + storage->rounded_bytes,
        .storage = storage,
    };
    storage->is_overdue = true;
    const berth_status held = berth_arena_hold(home->arena, storage->data, storage->rounded_bytes);
    BERTH_CHECK(1, held == BERTH_OK);
    if (home->audit != NULL) note_held(home, storage);
}

/// Whoever asks what takes memory now is told what made the value: it takes it once more.
static void name_survivor(berth_context* context, berth_run* run, uint32_t value) {
    const uint32_t event = run->path->values[value].birth;
    context->home.doing =
        berth_debugging_event_name(context->runtime, run->path->events[event].kind);
    run->ledger.event = event;
}

/// Empties the ledger; what lived in the frame lives on elsewhere.
static void detach_survivors(berth_context* context, berth_run* run) {
    context->home.defers_releases = true;
    for (uint32_t v = 0; v < run->next_value && run->ledger.live_count > 0; ++v) {
        berth_storage* storage = run->ledger.slots[v];
        if (storage == NULL) continue;
        storage->ledger = NULL;
        run->ledger.slots[v] = NULL;
        --run->ledger.live_count;
        if (storage->kind != BERTH_STORAGE_FRAME) continue;
        if (context->home.audit != NULL) name_survivor(context, run, v);
        evacuate(context, run, storage);
    }
    context->home.defers_releases = false;
}

/// Writes deaths and escapes into the trace's values.
static void finish_trace(berth_run* run) {
    for (uint32_t v = 0; v < run->next_value; ++v) {
        berth_trace_value* value = &run->trace.values.items[v];
        if ((value->flags & (BERTH_VALUE_SCRATCH | BERTH_VALUE_FRAME)) != 0) {
            value->death = value->birth;
        } else if (run->ledger.slots[v] != NULL) {
            value->death = run->next_event - 1;
            value->flags |= BERTH_VALUE_ESCAPES;
        } else {
            value->death = run->ledger.deaths[v];
        }
    }
}

/// The run's trace, made whole where something is to be learned from it; NULL if not, or without
/// host memory.
static berth_trace* trace_to_learn(berth_run* run, berth_run_result result) {
    if (result == BERTH_RUN_DISCARDED || run->mode == BERTH_RUN_MODE_UNTRACKED) return NULL;
    const bool is_replay = result == BERTH_RUN_HIT || result == BERTH_RUN_PARTIAL;
    if (is_replay) {
        if (!run->late && !run->missed && !run->placement->learn) return NULL;
        if (copy_prefix(run->host, run) != BERTH_OK) return NULL;
    }
    finish_trace(run);
    return &run->trace;
}

static berth_run_result judge(berth_run* run) {
    const bool is_lost = run->mode == BERTH_RUN_MODE_UNTRACKED && run->miss != BERTH_MISS_CHURN;
    if (run->failed || is_lost) return BERTH_RUN_DISCARDED;
    if (run->placement == NULL) return BERTH_RUN_RECORDED;
    if (run->exited) return BERTH_RUN_EXIT;
    return run->missed ? BERTH_RUN_PARTIAL : BERTH_RUN_HIT;
}

void berth_run_finish(berth_context* context, berth_run* run) {
    if (!run->failed && run->mode == BERTH_RUN_MODE_REPLAY &&
        run->next_event != run->path->event_count && !switch_to_end(context, run))
        berth_run_side_exit(run);
    const berth_run_result result = judge(run);
    if (run->mode == BERTH_RUN_MODE_REPLAY && run->ledger.live_count > 0) {
        for (uint32_t v = 0; v < run->next_value && !run->late; ++v)
            run->late = run->ledger.slots[v] != NULL &&
                        (run->path->values[v].flags & BERTH_VALUE_ESCAPES) == 0;
    }
    berth_trace* trace = trace_to_learn(run, result);
    detach_survivors(context, run);

    uint64_t peak = run->lower_bound_bytes;
    if (result == BERTH_RUN_HIT && !run->late) {
        peak = run->placement->peak_bytes;
    } else if (run->placement != NULL) {
        // what lives longer than planned may stand above what the plan has alive
        peak = run->placement->frame_bytes + run->outside_peak_bytes;
    }
    berth_run_report report = {
        .result = result,
        .miss = run->miss,
        .placement = run->placement,
        .branches = &run->branches,
        .switched = run->switched,
        .trace =
            context->runtime->mode == BERTH_MODE_POOL || context->runtime->mode == BERTH_MODE_SYSTEM
                ? NULL
                : trace,
        .placed_bytes = run->allocated_bytes - run->unplaced_bytes,
        .allocated_bytes = run->allocated_bytes,
        .peak_bytes = peak,
        .lower_bound_bytes = run->lower_bound_bytes,
        .pool_peak_bytes = run->pool_peak_bytes,
    };
    const berth_shape_key key = {.bindings = run->bindings.items, .count = run->bindings.count};
    berth_step_model_end(run->entry->model, &key, &report);
    run->placement = NULL;
    run->path = NULL;
}

void berth_run_destroy(const berth_host* host, berth_run* run) {
    while (run != NULL) {
        berth_run* child = run->child;
        berth_trace_fini(&run->trace, host);
        berth_binding_vec_fini(&run->bindings, host);
        berth_host_free(host, run->ledger.slots);
        berth_host_free(host, run->ledger.deaths);
        berth_host_free(host, run);
        run = child;
    }
}
