// SPDX-License-Identifier: Apache-2.0
// An open step: recording, replaying, and the guards between them. All under the context's lock.
#ifndef BERTH_EXEC_RUN_H
#define BERTH_EXEC_RUN_H

#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "exec/exec_impl.h"
#include "memory/poison.h"

/// The event cannot follow the trace: goes on from the pool and writes down the new path.
void berth_run_side_exit(berth_run* run);

/// The event about to begin is not the one that the path has next: looks for a known path that
/// shares all events so far and goes on with it. Moves nothing, as they share the places too. False
/// if there is none, or no host memory.
bool berth_run_switch(
    berth_context* context, berth_run* run, uint32_t kind, uint32_t value_count, uint32_t tag);

/// Writes an event down; on any failure the run becomes untracked.
void berth_run_record_event(berth_run* run, uint32_t kind, uint32_t value_count, uint32_t tag);

/// Puts those of [value, end) that outlived their planned death on the home's list. False without
/// host memory: then the run must leave its trace.
bool berth_run_add_overdue(berth_context* context,
                           berth_run* run,
                           const uint32_t* value,
                           const uint32_t* end);

/// The pool's site of value `value` of the run, which its event `event` makes.
static inline uint64_t berth_run_site(const berth_run* run, uint32_t event, uint32_t value) {
    return berth_site_mix((uint64_t)run->entry->tag << 32 | event, value);
}

/// Serves a value from the pool: recorded with `flags` (berth_value_flags), or not placed by its
/// plan.
BERTH_NODISCARD berth_status berth_run_place_in_pool(berth_context* context,
                                                     berth_run* run,
                                                     berth_storage* storage,
                                                     const berth_view* shape,
                                                     uint32_t flags);

/// Looks whether [begin, begin + bytes) is clear of stretches whose values live on.
static inline bool berth_overdue_is_clear(const berth_home* home,
                                          const unsigned char* begin,
                                          uint64_t bytes) {
    for (size_t i = 0; i < home->overdue.count; ++i) {
        const berth_overdue* entry = &home->overdue.items[i];
        if (begin < entry->end && entry->begin < begin + bytes) return false;
    }
    return true;
}

/// Begins an event that will make `value_count` values. `tag` is compared as part of its identity.
static inline void berth_run_begin_event(
    berth_context* context, berth_run* run, uint32_t kind, uint32_t value_count, uint32_t tag) {
    if (run->mode == BERTH_RUN_MODE_REPLAY) {
        const berth_path* path = run->path;
        const uint32_t e = run->next_event;
        const berth_trace_event* expected = &path->events[e];
        // what was to be dead by now: planned deaths before this event, in their order
        const uint32_t* value = run->next_expired;
        const uint32_t* end = path->expired + path->expired_at[e];
        bool is_late = false;
        for (const uint32_t* v = value; v != end; ++v)
            is_late |= run->ledger.slots[*v] != NULL;
        run->next_expired = end;
        const bool is_clear = !is_late || berth_run_add_overdue(context, run, value, end);
        if (is_clear && e < path->event_count && expected->kind == kind &&
            expected->value_count == value_count && expected->tag == tag) {
            run->ledger.event = e;
            run->next_event = e + 1;
            return;
        }
        if (is_clear && berth_run_switch(context, run, kind, value_count, tag)) return;
        berth_run_side_exit(run);
    }
    if (run->mode == BERTH_RUN_MODE_RECORD) berth_run_record_event(run, kind, value_count, tag);
}

/// Counts a value that has been placed, wherever.
static inline void berth_run_count_value(berth_run* run, uint64_t rounded_bytes) {
    run->ledger.live_bytes += rounded_bytes;
    run->allocated_bytes += rounded_bytes;
    if (run->ledger.live_bytes > run->lower_bound_bytes)
        run->lower_bound_bytes = run->ledger.live_bytes;
}

/// Address of value `value` as planned; NULL if `rounded_bytes` do not fit or somebody lives there.
static inline unsigned char* berth_run_planned_address(const berth_home* home,
                                                       berth_run* run,
                                                       uint32_t value,
                                                       uint64_t rounded_bytes) {
    const berth_place* place = &run->places[value];
    if (place->offset == BERTH_PLACE_POOL) {
        if (rounded_bytes > place->bytes) run->missed = true;
        return NULL;
    }
    unsigned char* data = run->frame.base + place->offset;
    if (rounded_bytes > place->bytes ||
        (home->overdue.count != 0 && !berth_overdue_is_clear(home, data, rounded_bytes))) {
        run->missed = true;
        return NULL;
    }
    return data;
}

/// Gives `storage`, whose size_bytes and rounded_bytes are set, its memory.
BERTH_NODISCARD static inline berth_status berth_run_place(berth_context* context,
                                                           berth_run* run,
                                                           berth_storage* storage,
                                                           const berth_view* shape,
                                                           uint32_t flags) {
    if (run->mode != BERTH_RUN_MODE_REPLAY)
        return berth_run_place_in_pool(context, run, storage, shape, flags);
    const uint32_t value = run->next_value;
    unsigned char* data =
        berth_run_planned_address(&context->home, run, value, storage->rounded_bytes);
    if (data == NULL) return berth_run_place_in_pool(context, run, storage, shape, flags);
    if (context->home.poisons) BERTH_UNPOISON_REGION(data, storage->size_bytes);
    storage->data = data;
    storage->kind = BERTH_STORAGE_FRAME;
    storage->is_special = context->home.is_watchful;
    storage->ledger = &run->ledger;
    storage->value = value;
    run->ledger.slots[value] = storage;
    ++run->ledger.live_count;
    run->next_value = value + 1;
    berth_run_count_value(run, storage->rounded_bytes);
    return BERTH_OK;
}

/// A dense tensor on a new storage of undefined content, of `shape` and its `bytes`; inside an
/// event that has been begun. `flags` is 0, or BERTH_VALUE_DATA for a size that depends on data.
BERTH_NODISCARD static inline berth_status berth_context_new_tensor(berth_context* context,
                                                                    const berth_view* shape,
                                                                    uint64_t bytes,
                                                                    uint32_t flags,
                                                                    berth_tensor** out_tensor) {
    berth_home* home = &context->home;
    berth_tensor* tensor = berth_tensor_new_on_storage(home);
    if (tensor == NULL) return BERTH_ERR_OUT_OF_MEMORY;
    berth_storage* storage = tensor->storage;
    storage->size_bytes = bytes;
    storage->rounded_bytes = berth_round_up(bytes, BERTH_ALIGNMENT);
    berth_run* run = context->run;
    const berth_status status =
        run != NULL
            ? berth_run_place(context, run, storage, shape, flags)
            : berth_storage_take_from_pool(home, storage, berth_home_site(home, bytes), NULL);
    if (status != BERTH_OK) {
        berth_tensor_discard(home, tensor);
        berth_storage_discard(home, storage);
        return status;
    }
    if (home->fills_on_alloc) berth_home_fill(home, storage->data, bytes, BERTH_POISON_ALLOC_BYTE);
    tensor->dtype = (uint8_t)shape->dtype;
    tensor->rank = (uint8_t)shape->rank;
    tensor->is_dense = true;
    // the dims of a replayed value are written down in the same pass: the log has room for them
    int64_t* log = tensor->dims;
    if (run != NULL && run->mode == BERTH_RUN_MODE_REPLAY) {
        log = run->log;
        run->log = log + shape->rank;
    }
    for (int32_t i = 0; i < shape->rank; ++i) {
        log[i] = shape->dims[i];
        tensor->dims[i] = shape->dims[i];
        tensor->strides[i] = shape->strides[i];
    }
    *out_tensor = tensor;
    return BERTH_OK;
}

/// Places `bytes` of scratch, or (flag BERTH_VALUE_FRAME) looks for a nested frame's planned place:
/// then `out->data` is NULL if there is none. `run` may be NULL.
BERTH_NODISCARD berth_status berth_temporary_take(
    berth_context* context, berth_run* run, uint64_t bytes, uint32_t flags, berth_temporary* out);
/// Gives it back; nothing if it was never taken.
void berth_temporary_give(berth_context* context, berth_temporary* temporary);

/// Prepares `run`, whose branches are set, for values: mode, log and slots. It begins on branch
/// `expected`, if there are any.
/// Errors: BERTH_ERR_OUT_OF_MEMORY (host memory alone).
BERTH_NODISCARD berth_status berth_run_start(berth_context* context,
                                             berth_run* run,
                                             uint32_t expected);

/// Moves what is still alive out of the frame (or marks it held), detaches every storage from the
/// ledger, and tells the model how the run went. The frame may be popped afterwards.
void berth_run_finish(berth_context* context, berth_run* run);

/// Ends `run`, the innermost open step: finish, frame, promise.
void berth_run_close(berth_context* context, berth_run* run);

void berth_run_destroy(const berth_host* host, berth_run* run); ///< accepts NULL; with its children

#endif // BERTH_EXEC_RUN_H
