// SPDX-License-Identifier: Apache-2.0
// Contexts: creation, end, errors, and how much idle memory they keep.
#include "exec/context.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "exec/run.h"

enum {
    STEPS_BETWEEN_TRIMS = 16,
    TREND_SAMPLES = 32, ///< the weight of a sample is 1 / TREND_SAMPLES
    DEVIATIONS_KEPT = 2,
};

static void link_context(berth_context* context) {
    berth_runtime* runtime = context->runtime;
    berth_mutex_lock(&runtime->lock);
    context->next = runtime->first_context;
    if (context->next != NULL) context->next->previous = context;
    runtime->first_context = context;
    berth_mutex_unlock(&runtime->lock);
}

static void unlink_context(berth_context* context) {
    berth_runtime* runtime = context->runtime;
    berth_mutex_lock(&runtime->lock);
    if (context->previous != NULL) {
        context->previous->next = context->next;
    } else {
        runtime->first_context = context->next;
    }
    if (context->next != NULL) context->next->previous = context->previous;
    berth_mutex_unlock(&runtime->lock);
}

/// Frees a context of which nothing is out; it is in no list.
static void destroy(berth_context* context) {
    berth_runtime* runtime = context->runtime;
    berth_home* home = &context->home;
    berth_run_destroy(home->host, context->first_run);
    berth_arena_destroy(home->arena);
    berth_pool_destroy(home->pool);
    berth_stream_destroy(home->stream);
    berth_home_fini(home);
    berth_host_free(home->host, context);
    berth_runtime_release(runtime);
}

/// The home's last object is gone, and the context was released.
static void end(berth_home* home) {
    berth_context* context = berth_home_context(home);
    unlink_context(context);
    destroy(context);
}

static berth_status set_up(berth_context* context) {
    berth_runtime* runtime = context->runtime;
    berth_home* home = &context->home;
    BERTH_TRY(berth_stream_create(runtime->device, &home->stream));
    const bool is_system = runtime->mode == BERTH_MODE_SYSTEM;
    BERTH_TRY(berth_pool_create(home->host,
                                runtime->store,
                                home->stream,
                                is_system ? &runtime->bypass : NULL,
                                &home->pool));
    return berth_arena_create(home->host, runtime->store, home->stream, &home->arena);
}

berth_status berth_context_create(berth_runtime* runtime, berth_context** out_context) {
    if (runtime == NULL || out_context == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a runtime and a place are needed");
    *out_context = NULL;
    if (runtime->fork_generation != berth_fork_generation)
        return berth_fail(BERTH_ERR_FORKED, "%s", berth_status_text(BERTH_ERR_FORKED));
    berth_context* context = berth_host_calloc(runtime->host, 1, sizeof *context);
    if (context == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for a context");
    berth_runtime_retain(runtime);
    context->runtime = runtime;
    berth_home* home = &context->home;
    home->host = runtime->host;
    home->context = context;
    home->fork_generation = runtime->fork_generation;
    home->on_empty = end;
    atomic_store(&home->refs, 1);
    const berth_status status = set_up(context);
    if (status != BERTH_OK) {
        destroy(context);
        return status;
    }
    const bool is_async = berth_device_is_async(runtime->device);
#ifdef BERTH_HAS_ASAN
    // work that is still queued may touch what the host has given up already
    home->poisons = !is_async && runtime->mode != BERTH_MODE_SYSTEM;
#endif
    home->fills_on_free =
        !is_async && (runtime->poison == BERTH_POISON_FREE || runtime->poison == BERTH_POISON_BOTH);
    home->fills_on_alloc = !is_async && runtime->poison >= BERTH_POISON_ALLOC;
    home->is_watchful = home->poisons || home->fills_on_free;
    link_context(context);
    *out_context = context;
    return BERTH_OK;
}

void berth_context_release(berth_context* context) {
    if (context == NULL || berth_home_is_forked(&context->home)) return;
    berth_home_lock(&context->home);
    while (context->run != NULL) {
        context->run->failed = true;
        berth_run_close(context, context->run);
    }
    berth_home_unlock(&context->home);
    berth_home_close(&context->home);
}

berth_runtime* berth_context_runtime(const berth_context* context) {
    return context != NULL ? context->runtime : NULL;
}

berth_status berth_context_error(const berth_context* context) {
    if (context == NULL) return BERTH_ERR_INVALID_ARGUMENT;
    if (berth_home_is_forked(&context->home)) return BERTH_ERR_FORKED;
    return context->error;
}

const char* berth_context_error_text(const berth_context* context) {
    if (context == NULL) return "there is no context";
    if (berth_home_is_forked(&context->home)) return berth_status_text(BERTH_ERR_FORKED);
    return context->error == BERTH_OK ? "" : context->error_text;
}

void berth_context_clear_error(berth_context* context) {
    if (context == NULL || berth_home_is_forked(&context->home)) return;
    berth_home_lock(&context->home);
    context->error = BERTH_OK;
    context->error_text[0] = '\0';
    berth_home_unlock(&context->home);
}

berth_status berth_context_synchronize(berth_context* context) {
    if (context == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a context is needed");
    if (berth_home_is_forked(&context->home))
        return berth_fail(BERTH_ERR_FORKED, "%s", berth_status_text(BERTH_ERR_FORKED));
    return berth_stream_synchronize(context->home.stream);
}

static void follow(berth_use_trend* trend, uint64_t bytes) {
    const double weight = 1.0 / TREND_SAMPLES;
    const double delta = (double)bytes - trend->mean;
    trend->mean += weight * delta;
    trend->variance = (1.0 - weight) * (trend->variance + weight * delta * delta);
}

static uint64_t expected_use(const berth_use_trend* trend) {
    return (uint64_t)(trend->mean + DEVIATIONS_KEPT * sqrt(trend->variance));
}

/// BERTH_KEEP=auto: what recent use does not explain goes back, now and then.
static void keep_recent_use(berth_context* context) {
    berth_home* home = &context->home;
    berth_pool_stats pool;
    berth_pool_query_stats(home->pool, &pool);
    follow(&context->frame_trend, context->first_run->frame.size_bytes);
    follow(&context->pool_trend, pool.requested_bytes + context->first_run->pool_peak_bytes);
    if (++context->steps_since_trim < STEPS_BETWEEN_TRIMS) return;
    context->steps_since_trim = 0;
    berth_arena_trim(home->arena, expected_use(&context->frame_trend), false);
    const uint64_t used = pool.requested_bytes;
    const uint64_t expected = expected_use(&context->pool_trend);
    berth_pool_trim(home->pool, expected > used ? expected - used : 0, false);
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
        berth_pool_trim(home->pool, 0, true);
        break;
    case BERTH_KEEP_BYTES:
        berth_arena_trim(home->arena, context->runtime->keep_bytes, false);
        berth_pool_trim(home->pool, context->runtime->keep_bytes, false);
        break;
    }
}
