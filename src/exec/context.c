// SPDX-License-Identifier: Apache-2.0
// Contexts: creation, end, errors.
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "exec/alarm.h"
#include "exec/debugging.h"
#include "exec/decay.h"
#include "exec/plain_bytes.h"
#include "exec/pool_health.h"
#include "exec/quotas.h"
#include "exec/run.h"
#include "exec/scarcity.h"
#include "exec/upkeep.h"

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
    while (context->is_visited)
        berth_cond_wait(&runtime->decay.visit_ended, &runtime->lock);
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
    berth_upkeep_end(context);
    berth_scarcity_leave(context);
    berth_run_destroy(home->host, context->first_run);
    berth_plain_bytes_end(context);
    berth_arena_destroy(home->arena);
    berth_monitor_destroy(context->monitor);
    berth_guards_fini(&home->guards);
    berth_pool_destroy(home->pool);
    berth_store_remove_tenant(runtime->store, &context->tenant);
    berth_stream_destroy(home->stream);
    berth_home_fini(home);
    berth_host_free(home->host, context);
    berth_runtime_drop(runtime);
}

/// The home's last object is gone, and the context was released.
static void end(berth_home* home) {
    berth_context* context = berth_home_context(home);
    unlink_context(context);
    destroy(context);
}

static bool try_visit_home(void* home) { return berth_home_try_visit(home); }
static void end_visit_of_home(void* home) { berth_home_end_visit(home); }

static berth_status set_up(berth_context* context) {
    berth_runtime* runtime = context->runtime;
    berth_home* home = &context->home;
    BERTH_TRY(berth_stream_create(runtime->device, &home->stream));
    const bool is_system = runtime->mode == BERTH_MODE_SYSTEM;
    const berth_pool_config pool = {
        .host = home->host,
        .store = runtime->store,
        .tenant = &context->tenant,
        .stream = home->stream,
        .bypass = is_system ? &runtime->bypass : NULL,
        .guard = {.self = home, .try_lock = try_visit_home, .unlock = end_visit_of_home},
        .returns_at_once = runtime->keep == BERTH_KEEP_NONE,
    };
    BERTH_TRY(berth_pool_create(&pool, &home->pool));
    if (!is_system) BERTH_TRY(berth_context_watch(context));
    berth_upkeep_begin(context);
    berth_scarcity_join(context);
    berth_alarm_join(context);
    BERTH_TRY(berth_arena_create(
        home->host, runtime->store, &context->tenant, home->stream, &home->arena));
    return berth_quotas_join(context);
}

/// What is filled as BERTH_POISON says, and marked as sanitizers want: not on an asynchronous
/// device, where queued work may still touch what the host has given up already.
static void choose_poison(berth_context* context) {
    const berth_runtime* runtime = context->runtime;
    berth_home* home = &context->home;
    const berth_poison poison = runtime->poison;
    home->poisons = BERTH_POISONS && runtime->mode != BERTH_MODE_SYSTEM &&
                    !berth_device_is_async(runtime->device);
    home->fills_on_free = poison == BERTH_POISON_FREE || poison == BERTH_POISON_BOTH;
    home->fills_on_alloc = poison == BERTH_POISON_ALLOC || poison == BERTH_POISON_BOTH;
    home->is_watchful = home->poisons || home->fills_on_free || home->fills_on_alloc;
}

berth_status berth_context_create(berth_runtime* runtime, berth_context** out_context) {
    if (runtime == NULL || out_context == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a runtime and a place are needed");
    *out_context = NULL;
    BERTH_TRY(berth_fork_check(runtime->fork_generation));
    berth_context* context = berth_host_calloc(runtime->host, 1, sizeof *context);
    if (context == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for a context");
    berth_runtime_retain(runtime);
    context->runtime = runtime;
    berth_home* home = &context->home;
    home->host = runtime->host;
    home->fork_generation = runtime->fork_generation;
    home->on_empty = end;
    atomic_store(&home->refs, 1);
    berth_store_add_tenant(runtime->store, &context->tenant);
    const berth_status status = set_up(context);
    if (status != BERTH_OK) {
        destroy(context);
        return status;
    }
    choose_poison(context);
    berth_debugging_join(context);
    link_context(context);
    berth_decay_start(runtime);
    *out_context = context;
    return BERTH_OK;
}

void berth_context_release(berth_context* context) {
    if (context == NULL || berth_home_is_forked(&context->home)) return;
    if (!berth_home_lock(&context->home)) {
        berth_log_line(BERTH_LOG_ERROR, "a context is not released: %s", berth_last_error());
        return;
    }
    if (context->run != NULL)
        berth_log_line(BERTH_LOG_WARN,
                       "a context is released within step %.120s: is a berth_step_end() missing?",
                       berth_step_model_name(context->run->entry->model));
    while (context->run != NULL) {
        context->run->failed = true;
        berth_run_close(context, context->run);
    }
    berth_home_unlock(&context->home);
    berth_runtime* runtime = context->runtime;
    berth_runtime_retain(runtime);
    berth_home_close(&context->home);
    berth_alarm_tell(runtime);
    berth_runtime_drop(runtime);
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

/// Adds what there was no memory for: an op without operands is known by the shape of its result.
static void add_result(berth_text* text, const berth_op_call* call) {
    const berth_view* out = &call->outputs[0];
    if (out->dtype == BERTH_DTYPE_COUNT || out->rank < 0 || out->rank > BERTH_MAX_RANK) return;
    berth_text_add(text, " of ");
    berth_shape_write(text, out->dtype, out->rank, out->dims);
}

berth_status berth_context_fail(berth_context* context,
                                berth_status status,
                                const char* where,
                                const berth_op_call* call) {
    for (berth_run* run = context->run; run != NULL; run = run->parent) {
        run->failed = true;
        // the event that failed has not made all of its values: what comes next, if the error is
        // cleared inside the step, would take their numbers and so the places of others
        run->mode = BERTH_RUN_MODE_UNTRACKED;
    }
    if (context->error != BERTH_OK) return status;
    context->error = status;
    const uint32_t count = call != NULL ? call->input_count : 0;
    berth_text text = {.buffer = context->error_text, .size = sizeof context->error_text};
    berth_text_add(&text, "%s", where);
    for (uint32_t i = 0; i < count; ++i) {
        const berth_view* x = &call->inputs[i];
        berth_text_add(&text, i == 0 ? "(" : ", ");
        berth_shape_write(&text, x->dtype, x->rank, x->dims);
    }
    if (call != NULL && count == 0 && status == BERTH_ERR_OUT_OF_MEMORY) add_result(&text, call);
    const char* reason = berth_last_error();
    if (reason[0] == '\0') reason = berth_status_text(status);
    berth_text_add(&text, "%s: %s", count > 0 ? ")" : "", reason);
    return status;
}

void berth_context_clear_error(berth_context* context) {
    if (context == NULL || berth_home_is_forked(&context->home)) return;
    if (!berth_home_lock(&context->home)) return;
    context->error = BERTH_OK;
    context->error_text[0] = '\0';
    berth_home_unlock(&context->home);
}

berth_status berth_context_synchronize(berth_context* context) {
    if (context == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a context is needed");
    BERTH_TRY(berth_fork_check(context->home.fork_generation));
    return berth_stream_synchronize(context->home.stream);
}
