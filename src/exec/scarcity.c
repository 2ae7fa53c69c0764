// SPDX-License-Identifier: Apache-2.0
// The last rungs: the releases that wait for a context's lock, the program's callback, the report.
#include "exec/scarcity.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file_writer.h"
#include "base/log.h"
#include "base/text.h"
#include "berth/debug.h"
#include "berth/health.h"
#include "berth/memory.h"

enum { DETAIL_BYTES = 1024, PPM_A_PERCENT = 10000 };

static uint64_t pool_free_bytes(const berth_context* context) {
    berth_pool_stats pool;
    berth_pool_query_stats(context->home.pool, &pool);
    return pool.free_bytes;
}

/// The rung of pending releases. Only the climbing thread has its context's lock; a context that
/// nobody has locked has none pending.
static uint64_t take_over(void* self, const berth_tenant* climber, uint64_t wanted_bytes) {
    berth_context* context = self;
    berth_home* home = &context->home;
    if (climber != &context->tenant || home->defers_releases ||
        atomic_load_explicit(&home->remote, memory_order_relaxed) == NULL)
        return 0;
    const uint64_t before = pool_free_bytes(context);
    berth_home_drain(home);
    berth_pool_flush_front(home->pool);
    const uint64_t after = pool_free_bytes(context);
    const uint64_t freed = after > before ? after - before : 0;
    // what lay free before is for the next rungs
    if (freed == 0) return 0;
    return berth_pool_release_idle(home->pool, 0, freed < wanted_bytes ? freed : wanted_bytes);
}

// --- The report ----------------------------------------------------------------------------------

static void add_mib(berth_text* text, const char* before, uint64_t bytes) {
    berth_text_add(text, "%s%.2f MiB", before, (double)bytes / (1024.0 * 1024.0));
}

/// Adds what would have helped of the limits that stood in the way. Returns what is written before
/// the next piece of advice.
static const char* add_limits(berth_text* text,
                              const berth_runtime* runtime,
                              const berth_tenant* tenant) {
    static const char* const quotas[BERTH_OWNER_COUNT + 1] = {
        [BERTH_OWNER_FRAMES] = "BERTH_FRAMES_QUOTA",
        [BERTH_OWNER_POOL] = "BERTH_POOL_QUOTA",
        [BERTH_OWNER_KV] = "BERTH_KV_QUOTA",
    };
    const char* before = "; what may help: ";
    uint64_t total = 0, available = 0;
    berth_store_stats stats;
    berth_store_query_stats(runtime->store, &stats);
    if (tenant->was_capacity_short &&
        berth_device_query_memory(runtime->device, &total, &available) == BERTH_OK &&
        stats.capacity_bytes + runtime->device->granule_bytes <= total) {
        berth_text_add(text, "%sa larger BERTH_MEMORY", before);
        add_mib(text, " (the device has ", total);
        berth_text_add(text, ")");
        before = ", ";
    }
    const uint64_t used = tenant->mapped_bytes + tenant->reserved_bytes;
    const uint64_t own = tenant->share_bytes > used ? tenant->share_bytes - used : 0;
    if (tenant->was_capacity_short && stats.shares_bytes > own) {
        berth_text_add(text, "%ssmaller shares of other contexts", before);
        before = ", ";
    }
    if (tenant->was_quota_short) {
        berth_text_add(text, "%sa larger quota of the context", before);
        before = ", ";
    }
    if (quotas[tenant->refused_owner] != NULL) {
        berth_text_add(text, "%sa larger %s", before, quotas[tenant->refused_owner]);
        before = ", ";
    }
    return before;
}

/// Adds what of the options, as they are, would have helped.
static void add_advice(berth_text* text, berth_context* context, const berth_tenant* tenant) {
    const berth_runtime* runtime = context->runtime;
    const char* before = add_limits(text, runtime, tenant);
    if (runtime->needs_huge_reserve) {
        berth_text_add(text, "%sBERTH_HUGE=madvise, which needs no reserve of the system", before);
        before = ", ";
    }
    if (runtime->compact_mode == BERTH_COMPACT_OFF &&
        pool_free_bytes(context) >= tenant->refused_bytes) {
        berth_text_add(text, "%sBERTH_COMPACT=auto", before);
        before = ", ";
    }
    if (runtime->mode == BERTH_MODE_POOL) {
        berth_text_add(text, "%sBERTH_MODE=auto, which plans steps", before);
        before = ", ";
    }
    if (runtime->guards) {
        berth_text_add(text, "%sBERTH_GUARD=0", before);
        before = ", ";
    }
    berth_text_add(text,
                   "%s%s",
                   before,
                   tenant->is_refusal_final ? "to ask for less: no release makes room for so much"
                                            : "to release tensors earlier");
}

/// Adds the state of the context's pool to this thread's detail text.
static void explain(berth_context* context, const berth_tenant* tenant) {
    char buffer[DETAIL_BYTES];
    berth_text text = {.buffer = buffer, .size = sizeof buffer};
    berth_rest rest = {0};
    berth_pool_stats pool;
    berth_health_stats health = {0};
    berth_text_add(&text, "%s", berth_last_error());
    berth_pool_query_stats(context->home.pool, &pool);
    berth_pool_add_rest(context->home.pool, 0, &rest);
    (void)!berth_context_query_health(context, &health);
    add_mib(&text, "; free in this context's pool ", pool.free_bytes);
    add_mib(&text, ", in one stretch ", pool.largest_free_bytes);
    add_mib(&text, ", waiting for work ", rest.in_flight_bytes);
    berth_text_add(&text, ", fragmentation index %" PRIu64 " %%", health.fi_ppm / PPM_A_PERCENT);
    add_advice(&text, context, tenant);
    (void)berth_fail(BERTH_ERR_OUT_OF_MEMORY, "%s", buffer);
}

// --- The snapshot --------------------------------------------------------------------------------

/// Writes all that is known to a file, after `what` was refused.
static berth_status write_snapshot(berth_runtime* runtime, const char* what, const char* path) {
    size_t bytes = 0;
    BERTH_TRY(berth_runtime_format_report(runtime, NULL, 0, &bytes));
    // steps that begin for the first time meanwhile are cut
    char* report = berth_host_alloc(runtime->host, bytes + 1);
    if (report == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for a report");
    berth_file_writer file;
    berth_status status = berth_runtime_format_report(runtime, report, bytes + 1, NULL);
    if (status == BERTH_OK)
        status = berth_file_writer_init(&file, runtime->host, &berth_file_ops_system, path);
    if (status == BERTH_OK) {
        const char* const parts[] = {what, "\n\n", report, "\n", runtime->configuration};
        for (size_t i = 0; i < sizeof parts / sizeof parts[0] && status == BERTH_OK; i++)
            status = berth_file_writer_add(&file, parts[i], strlen(parts[i]));
        status = berth_file_writer_finish(&file, status);
    }
    berth_host_free(runtime->host, report);
    return status;
}

/// BERTH_SNAPSHOT_ON_OOM: of the first refusal alone, as those after it often follow from it.
static void save_snapshot(berth_runtime* runtime, const char* what) {
    const char* path = runtime->snapshot_path;
    if (runtime->configuration == NULL || atomic_exchange(&runtime->has_snapshot, true)) return;
    if (write_snapshot(runtime, what, path) != BERTH_OK) {
        berth_log_line(BERTH_LOG_WARN, "BERTH_SNAPSHOT_ON_OOM: %s", berth_last_error());
        return;
    }
    berth_log_line(BERTH_LOG_WARN, "a request was refused: '%s' tells more", path);
    if (runtime->history_events == 0) return;
    char history[BERTH_OPTION_TEXT_BYTES + 16];
    snprintf(history, sizeof history, "%s.history", path);
    if (berth_runtime_save_history(runtime, history) != BERTH_OK)
        berth_log_line(BERTH_LOG_WARN, "BERTH_SNAPSHOT_ON_OOM: %s", berth_last_error());
}

// --- The callback --------------------------------------------------------------------------------

/// Calls the program; true if it says that there is more room.
static bool call_program(berth_context* context, const berth_tenant* tenant, uint32_t attempt) {
    berth_runtime* runtime = context->runtime;
    if (attempt > BERTH_SCARCITY_CALLS || berth_home_in_callback != NULL) return false;
    berth_mutex_lock(&runtime->lock);
    const berth_out_of_memory_callback callback = runtime->on_out_of_memory;
    void* self = runtime->on_out_of_memory_self;
    berth_mutex_unlock(&runtime->lock);
    if (callback == NULL) return false;
    const berth_shortage shortage = {
        .context = context,
        .call = context->home.doing,
        .wanted_bytes = tenant->refused_bytes,
        .attempt = attempt,
    };
    berth_dispatch_keep_operands(context);
    berth_home_in_callback = &context->home;
    const bool has_room = callback(self, &shortage);
    berth_home_in_callback = NULL;
    berth_home_drain(&context->home);
    return has_room;
}

static bool on_shortage(berth_home* home, uint32_t attempt) {
    berth_context* context = berth_home_context(home);
    const berth_tenant tenant = berth_store_query_tenant(context->runtime->store, &context->tenant);
    // it was host memory, or what the system's allocator has
    if (tenant.refusals == context->seen_refusals) return false;
    context->seen_refusals = tenant.refusals;
    char what[DETAIL_BYTES];
    snprintf(what, sizeof what, "%s", berth_last_error());
    if (!tenant.is_refusal_final && call_program(context, &tenant, attempt)) {
        berth_store_excuse_refusal(context->runtime->store, &context->tenant);
        context->seen_refusals = tenant.refusals - 1;
        return true;
    }
    (void)berth_fail(BERTH_ERR_OUT_OF_MEMORY, "%s", what);
    explain(context, &tenant);
    snprintf(what, sizeof what, "%s", berth_last_error());
    save_snapshot(context->runtime, what);
    (void)berth_fail(BERTH_ERR_OUT_OF_MEMORY, "%s", what);
    return false;
}

berth_status berth_runtime_set_out_of_memory_callback(berth_runtime* runtime,
                                                      berth_out_of_memory_callback callback,
                                                      void* self) {
    if (runtime == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a runtime is needed");
    BERTH_TRY(berth_fork_check(runtime->fork_generation));
    berth_mutex_lock(&runtime->lock);
    runtime->on_out_of_memory = callback;
    runtime->on_out_of_memory_self = self;
    berth_mutex_unlock(&runtime->lock);
    return BERTH_OK;
}

// --- Begin and end -------------------------------------------------------------------------------

/// What stands before the last slash of the snapshot's path must be a folder that can be written;
/// better said now than when memory is short.
void berth_scarcity_check_path(const berth_runtime* runtime) {
    if (runtime->configuration == NULL) return;
    char folder[sizeof runtime->snapshot_path];
    memcpy(folder, runtime->snapshot_path, sizeof folder);
    char* slash = strrchr(folder, '/');
    if (slash == NULL) return;
    slash[slash == folder] = '\0'; // of "/name" the slash stays
    if (access(folder, W_OK) != 0)
        berth_log_line(BERTH_LOG_WARN,
                       "BERTH_SNAPSHOT_ON_OOM: '%s' will not be written: %s",
                       runtime->snapshot_path,
                       strerror(errno));
}

berth_status berth_scarcity_start(berth_runtime* runtime, const berth_options* options) {
    const char* path = berth_options_text(options, BERTH_OPTION_SNAPSHOT_ON_OOM);
    if (strcmp(path, BERTH_OPTION_NO_FILE) == 0) return BERTH_OK;
    memcpy(runtime->snapshot_path, path, sizeof runtime->snapshot_path);
    const size_t size = berth_options_format(options, NULL, 0) + 1;
    runtime->configuration = berth_host_alloc(runtime->host, size);
    if (runtime->configuration == NULL)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for the configuration");
    berth_options_format(options, runtime->configuration, size);
    return BERTH_OK;
}

void berth_scarcity_stop(berth_runtime* runtime) {
    berth_host_free(runtime->host, runtime->configuration);
}

void berth_scarcity_join(berth_context* context) {
    context->home.on_shortage = on_shortage;
    context->release_place = (berth_reclaimer){.rung = BERTH_RUNG_PENDING,
                                               .tenant = &context->tenant,
                                               .owner = BERTH_OWNER_POOL,
                                               .self = context,
                                               .reclaim = take_over};
    berth_store_add_reclaimer(context->runtime->store, &context->release_place);
}

void berth_scarcity_forget(berth_context* context) {
    const berth_store* store = context->runtime->store;
    context->seen_refusals = berth_store_query_tenant(store, &context->tenant).refusals;
}

void berth_scarcity_leave(berth_context* context) {
    if (context->release_place.self != NULL)
        berth_store_remove_reclaimer(context->runtime->store, &context->release_place);
}
