// SPDX-License-Identifier: Apache-2.0
// Passes over the contexts. One that is being visited is marked, and its end waits for the visit's;
// it is not pinned, so that no context, and no runtime, ever ends in the thread.
#include "exec/decay.h"

#include "base/error.h"
#include "base/log.h"
#include "exec/keep.h"

enum {
    EPOCHS_SETTLED = 8, ///< between passes while nothing ages
    EPOCHS_A_DECAY = BERTH_USE_EPOCHS + EPOCHS_SETTLED,
};

#define LEAST_EPOCH_NS UINT64_C(1000000)
#define PART_BYTES (UINT64_C(16) << 20) ///< of one context, given back at a time
/// A visit that takes longer has called a program that waits for whoever waits here, perhaps.
#define HOLD_WAIT_NS UINT64_C(1000000000)
#define PART_PAUSE_NS UINT64_C(1000000) ///< after it, so that whoever waits comes first

uint64_t berth_decay_epoch_ns(const berth_runtime* runtime) {
    const uint64_t epoch = runtime->decay_ns / EPOCHS_A_DECAY;
    return epoch > LEAST_EPOCH_NS ? epoch : LEAST_EPOCH_NS;
}

berth_status berth_decay_init(berth_decay* decay) {
    BERTH_TRY(berth_cond_init(&decay->wake));
    decay->has_wake = true;
    BERTH_TRY(berth_cond_init(&decay->visit_ended));
    decay->has_visit_ended = true;
    return BERTH_OK;
}

void berth_decay_fini(berth_decay* decay) {
    if (decay->has_wake) berth_cond_fini(&decay->wake);
    if (decay->has_visit_ended) berth_cond_fini(&decay->visit_ended);
}

/// The runtime that this thread's pass is of; NULL outside of passes. What is called in a pass may
/// call back into the program, and that berth_trim.
static _Thread_local const berth_runtime* passing;

/// The context after `context` (NULL: the first), marked as visited; unmarks `context`.
static berth_context* visit_next(berth_runtime* runtime, berth_context* context) {
    berth_decay* decay = &runtime->decay;
    berth_mutex_lock(&runtime->lock);
    berth_context* next = context != NULL ? context->next : runtime->first_context;
    if (context != NULL) {
        context->is_visited = false;
        --decay->visits;
        berth_cond_broadcast(&decay->visit_ended);
    }
    if (next != NULL && decay->holds > 0) {
        decay->was_held = true;
        next = NULL;
    }
    if (next != NULL) {
        next->is_visited = true;
        ++decay->visits;
    }
    berth_mutex_unlock(&runtime->lock);
    return next;
}

/// True if contexts have been left out since the last time.
static bool was_held(berth_runtime* runtime) {
    berth_mutex_lock(&runtime->lock);
    const bool held = runtime->decay.was_held;
    runtime->decay.was_held = false;
    berth_mutex_unlock(&runtime->lock);
    return held;
}

uint64_t berth_decay_pass(berth_runtime* runtime) {
    berth_keep_outlook outlook = BERTH_KEEP_SETTLED;
    passing = runtime;
    for (berth_context* c = visit_next(runtime, NULL); c != NULL; c = visit_next(runtime, c)) {
        const berth_keep_outlook its = berth_context_age(c, PART_BYTES);
        if (its > outlook) outlook = its;
    }
    passing = NULL;
    if (was_held(runtime) && outlook == BERTH_KEEP_SETTLED) outlook = BERTH_KEEP_AGEING;
    const uint64_t epoch = berth_decay_epoch_ns(runtime);
    if (outlook == BERTH_KEEP_MORE) return PART_PAUSE_NS;
    return outlook == BERTH_KEEP_AGEING ? epoch : EPOCHS_SETTLED * epoch;
}

void berth_decay_hold(berth_runtime* runtime) {
    berth_decay* decay = &runtime->decay;
    const uint32_t own = passing == runtime ? 1 : 0;
    berth_mutex_lock(&runtime->lock);
    ++decay->holds;
    while (decay->visits > own &&
           berth_cond_wait_for(&decay->visit_ended, &runtime->lock, HOLD_WAIT_NS)) {
    }
    berth_mutex_unlock(&runtime->lock);
}

void berth_decay_unhold(berth_runtime* runtime) {
    berth_mutex_lock(&runtime->lock);
    --runtime->decay.holds;
    berth_mutex_unlock(&runtime->lock);
}

/// Does not stand back: it holds locks, for some microseconds, that others may come to want.
static void run_thread(void* opaque) {
    berth_runtime* runtime = opaque;
    berth_decay* decay = &runtime->decay;
    uint64_t pause_ns = berth_decay_epoch_ns(runtime);
    berth_mutex_lock(&runtime->lock);
    while (!decay->is_ending) {
        (void)berth_cond_wait_for(&decay->wake, &runtime->lock, pause_ns);
        if (decay->is_ending) break;
        berth_mutex_unlock(&runtime->lock);
        pause_ns = berth_decay_pass(runtime);
        berth_mutex_lock(&runtime->lock);
    }
    berth_mutex_unlock(&runtime->lock);
}

void berth_decay_start(berth_runtime* runtime) {
    berth_decay* decay = &runtime->decay;
    // a simulated device stands still between calls; tests drive its passes
    if (!berth_keep_is_ageing(runtime) || runtime->device->kind == BERTH_DEVICE_SIM) return;
    berth_mutex_lock(&runtime->lock);
    const bool starts = !decay->has_thread && !decay->was_tried;
    decay->was_tried = true;
    berth_status status = BERTH_OK;
    if (starts) status = berth_thread_start(&decay->thread, "berth-decay", run_thread, runtime);
    if (starts) decay->has_thread = status == BERTH_OK;
    berth_mutex_unlock(&runtime->lock);
    if (status != BERTH_OK)
        berth_log_line(BERTH_LOG_WARN,
                       "idle memory ages at steps' ends only, there is no thread for it: %s",
                       berth_last_error());
}

void berth_decay_stop(berth_runtime* runtime) {
    berth_decay* decay = &runtime->decay;
    if (!decay->has_thread) return;
    berth_mutex_lock(&runtime->lock);
    decay->is_ending = true;
    berth_cond_signal(&decay->wake);
    berth_mutex_unlock(&runtime->lock);
    berth_thread_join(&decay->thread);
    decay->has_thread = false;
}
