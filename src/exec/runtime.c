// SPDX-License-Identifier: Apache-2.0
// The runtime: owns device, page store, kinds of step and options, and hands layers their parts.
#include "berth/runtime.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "berth/memory.h"
#include "device/cpu/cpu_device.h"
#include "device/cpu/cpu_system.h"
#include "device/cuda_open.h"
#include "device/dry/dry_device.h"
#include "device/order_check.h"
#include "device/sim/sim_device.h"
#include "exec/alarm.h"
#include "exec/bucket_settings.h"
#include "exec/debugging.h"
#include "exec/decay.h"
#include "exec/event_names.h"
#include "exec/exec_impl.h"
#include "exec/guests.h"
#include "exec/plan_saving.h"
#include "exec/quotas.h"
#include "exec/scarcity.h"
#include "exec/step_entry.h"
#include "exec/trace_saving.h"

enum { MAX_EXITS_IN_A_ROW = 8 };

_Static_assert((int)BERTH_HUGE_WORD_OFF == (int)BERTH_HUGE_OFF &&
                   (int)BERTH_HUGE_WORD_MADVISE == (int)BERTH_HUGE_MADVISE &&
                   (int)BERTH_HUGE_WORD_HUGETLB == (int)BERTH_HUGE_HUGETLB,
               "the option's words are the device's enum");

static void* libc_alloc(void* self, size_t size, size_t alignment) {
    (void)self;
    return aligned_alloc(alignment, (size_t)berth_round_up(size == 0 ? 1 : size, alignment));
}

static void libc_free(void* self, void* block, size_t size) {
    (void)self;
    (void)size;
    free(block);
}

static const berth_pool_bypass libc_bypass = {.alloc = libc_alloc, .free = libc_free};

static uint32_t count_threads(const berth_options* options) {
    const uint64_t threads = berth_options_u64(options, BERTH_OPTION_THREADS);
    if (threads > 0) return (uint32_t)threads;
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores > 0 ? (uint32_t)cores : 1;
}

/// As much memory as is asked for, and no less than the machine has, which per cent are of.
static berth_status create_dry_device(berth_runtime* runtime, const berth_options* options) {
    uint64_t total, available;
    BERTH_TRY(berth_cpu_query_memory(NULL, &total, &available));
    const uint64_t wanted = berth_options_bytes(options, BERTH_OPTION_MEMORY, total);
    const berth_dry_options dry = {
        .capacity_bytes = wanted != BERTH_OPTION_UNLIMITED && wanted > total ? wanted : total,
        .threads = count_threads(options),
    };
    return berth_dry_device_create(runtime->host, &dry, &runtime->device);
}

static berth_status create_cpu_device(berth_runtime* runtime, const berth_options* options) {
    berth_numa_choice numa;
    const berth_status status =
        berth_numa_parse(berth_options_text(options, BERTH_OPTION_NUMA), &numa);
    if (status != BERTH_OK) return berth_fail_prefix(status, "BERTH_NUMA");
    const berth_cpu_options cpu = {
        .threads = count_threads(options),
        .huge = (berth_huge_pages)berth_options_word(options, BERTH_OPTION_HUGE),
        .numa = numa,
    };
    runtime->needs_huge_reserve = cpu.huge == BERTH_HUGE_HUGETLB;
    return berth_cpu_device_create(runtime->host, &cpu, &runtime->device);
}

/// The text of an option that names a file; NULL for none.
static const char* file_option(const berth_options* options, berth_option option) {
    const char* text = berth_options_text(options, option);
    return strcmp(text, BERTH_OPTION_NO_FILE) == 0 ? NULL : text;
}

static berth_status create_cuda_device(berth_runtime* runtime, const berth_options* options) {
    const berth_cuda_options cuda = {
        .driver = berth_options_text(options, BERTH_OPTION_CUDA_DRIVER),
        .blas = file_option(options, BERTH_OPTION_CUDA_BLAS),
        .ordinal = (uint32_t)berth_options_u64(options, BERTH_OPTION_CUDA_ORDINAL),
        .is_blocking = berth_options_bool(options, BERTH_OPTION_LAUNCH_BLOCKING),
    };
    const char* module = file_option(options, BERTH_OPTION_CUDA_MODULE);
    const berth_status status = berth_cuda_open(runtime->host, module, &cuda, &runtime->device);
    return status == BERTH_OK ? status : berth_fail_prefix(status, "BERTH_DEVICE=cuda");
}

static berth_status create_device(berth_runtime* runtime, const berth_options* options) {
    switch ((berth_option_device)berth_options_word(options, BERTH_OPTION_DEVICE)) {
    case BERTH_DEVICE_WORD_SIM:
        return berth_sim_device_create(runtime->host, &(berth_sim_options){0}, &runtime->device);
    case BERTH_DEVICE_WORD_HIDDEN:
        return berth_sim_device_create(
            runtime->host, &(berth_sim_options){.is_hidden = true}, &runtime->device);
    case BERTH_DEVICE_WORD_DRY:
        return create_dry_device(runtime, options);
    case BERTH_DEVICE_WORD_CUDA:
        return create_cuda_device(runtime, options);
    case BERTH_DEVICE_WORD_CPU:
        break;
    }
    return create_cpu_device(runtime, options);
}

static void read_options(berth_runtime* runtime, const berth_options* options) {
    runtime->mode = (berth_mode)berth_options_word(options, BERTH_OPTION_MODE);
    runtime->keep = (berth_keep)berth_options_word(options, BERTH_OPTION_KEEP);
    runtime->keep_bytes = berth_options_u64(options, BERTH_OPTION_KEEP);
    const uint64_t decay_ms = berth_options_u64(options, BERTH_OPTION_DECAY_MS);
    if (!berth_mul_u64(decay_ms, 1000000, &runtime->decay_ns)) runtime->decay_ns = UINT64_MAX;
    runtime->poison = (berth_poison)berth_options_word(options, BERTH_OPTION_POISON);
    runtime->compact_mode = (berth_compact_mode)berth_options_word(options, BERTH_OPTION_COMPACT);
    runtime->compact_slice = (berth_compact_budget){
        .bytes = berth_options_u64(options, BERTH_OPTION_COMPACT_BUDGET_BYTES),
        .ns = berth_options_u64(options, BERTH_OPTION_COMPACT_BUDGET_US) * 1000,
    };
    runtime->batch_invariant = berth_options_bool(options, BERTH_OPTION_BATCH_INVARIANT);
    runtime->frag_horizon_takes = berth_options_u64(options, BERTH_OPTION_FRAG_HORIZON);
    runtime->trigger = (berth_trigger_config){
        .fi_threshold = berth_options_share(options, BERTH_OPTION_COMPACT_FI),
        .cooldown_ns = berth_options_u64(options, BERTH_OPTION_COMPACT_COOLDOWN_MS) * 1000000,
    };
    memcpy(runtime->buckets,
           berth_options_text(options, BERTH_OPTION_BUCKETS),
           sizeof runtime->buckets);
    runtime->policy = (berth_plan_policy){
        .buckets = runtime->buckets,
        .quantum = (uint32_t)berth_options_u64(options, BERTH_OPTION_PLAN_QUANTUM),
        .max_paths = (uint32_t)berth_options_u64(options, BERTH_OPTION_PATHS_MAX),
        // who asks for plans by name keeps getting them
        .max_exits = runtime->mode == BERTH_MODE_PLAN ? 0 : MAX_EXITS_IN_A_ROW,
        .max_events = (uint32_t)berth_options_u64(options, BERTH_OPTION_TRACE_MAX),
        .cache_bytes = berth_options_u64(options, BERTH_OPTION_PLAN_CACHE_BYTES),
        .cache_entries = berth_options_u64(options, BERTH_OPTION_PLAN_CACHE_ENTRIES),
        .now_ns = berth_clock_now_ns,
    };
    runtime->bypass = libc_bypass;
}

/// A bucket policy that cannot be read is refused now, not at the first step.
static berth_status check_buckets(const berth_runtime* runtime) {
    berth_step_model* model;
    const berth_status status =
        berth_step_model_create(runtime->host, "check", &runtime->policy, &model);
    if (status == BERTH_OK) berth_step_model_destroy(model);
    return status == BERTH_OK ? status : berth_fail_prefix(status, "BERTH_BUCKETS");
}

/// Memory of the process is of no use to a device that cannot reach it.
static berth_status check_mode(const berth_runtime* runtime) {
    if (runtime->mode != BERTH_MODE_SYSTEM || berth_device_takes_host_memory(runtime->device))
        return BERTH_OK;
    return berth_fail(BERTH_ERR_UNSUPPORTED,
                      "BERTH_MODE is system, whose memory is the process's own: device %s cannot "
                      "use that",
                      runtime->device->name);
}

static berth_status create_improver(berth_runtime* runtime, const berth_options* options) {
    const uint64_t budget_ns = berth_options_u64(options, BERTH_OPTION_PLAN_BUDGET_MS) * 1000000;
    if (budget_ns == 0) return BERTH_OK;
    BERTH_TRY(berth_improver_create(runtime->host, budget_ns, &runtime->improver));
    runtime->policy.improver = runtime->improver;
    return BERTH_OK;
}

static berth_status set_up(berth_runtime* runtime, const berth_options* options) {
    BERTH_TRY(berth_fork_watch());
    BERTH_TRY(berth_mutex_init(&runtime->lock));
    runtime->has_lock = true;
    BERTH_TRY(berth_decay_init(&runtime->decay));
    read_options(runtime, options);
    runtime->event_names = berth_runtime_event_names(runtime);
    BERTH_TRY(check_buckets(runtime));
    BERTH_TRY(create_improver(runtime, options));
    BERTH_TRY(create_device(runtime, options));
    BERTH_TRY(check_mode(runtime));
    if (berth_options_bool(options, BERTH_OPTION_CHECK_ORDER))
        BERTH_TRY(berth_order_check_start(runtime->device));
    uint64_t total, available;
    BERTH_TRY(berth_device_query_memory(runtime->device, &total, &available));
    const uint64_t capacity = berth_options_bytes(options, BERTH_OPTION_MEMORY, total);
    BERTH_TRY(berth_store_create(runtime->host, runtime->device, capacity, &runtime->store));
    BERTH_TRY(berth_quotas_start(runtime, options));
    BERTH_TRY(berth_alarm_start(runtime, options));
    const uint64_t ahead = berth_options_bytes(options, BERTH_OPTION_PREALLOC, total);
    const berth_status mapped = berth_store_map_ahead(runtime->store, ahead);
    if (mapped != BERTH_OK) return berth_fail_prefix(mapped, "BERTH_PREALLOC");
    const uint64_t pinned = berth_options_bytes(options, BERTH_OPTION_PINNED, total);
    BERTH_TRY(berth_pinned_create(runtime->host, runtime->device, pinned, &runtime->pinned));
    BERTH_TRY(berth_runtime_open_plans(runtime, options));
    BERTH_TRY(berth_debugging_start(runtime, options));
    BERTH_TRY(berth_scarcity_start(runtime, options));
    // last: a creation that is refused leaves the process's log as it was
    const berth_status logs = berth_log_configure(berth_options_text(options, BERTH_OPTION_LOG));
    if (logs != BERTH_OK) return berth_fail_prefix(logs, "BERTH_LOG");
    berth_scarcity_check_path(runtime);
    berth_plan_store_load(&runtime->plans);
    // a creation that is refused writes nothing at its end
    memcpy(runtime->trace_path,
           berth_options_text(options, BERTH_OPTION_TRACE_FILE),
           sizeof runtime->trace_path);
    return BERTH_OK;
}

static void destroy(berth_runtime* runtime) {
    if (runtime->fork_generation != berth_fork_generation) return;
    berth_host* host = runtime->host;
    berth_decay_stop(runtime);
    berth_improver_destroy(runtime->improver);
    berth_runtime_close_plans(runtime);
    berth_runtime_close_traces(runtime);
    berth_debugging_stop(runtime);
    berth_scarcity_stop(runtime);
    for (berth_step_entry* entry = runtime->first_step; entry != NULL;) {
        berth_step_entry* next = entry->next;
        berth_step_entry_destroy(host, entry);
        entry = next;
    }
    berth_plan_store_fini(&runtime->plans);
    berth_runtime_forget_step_names(runtime);
    berth_bucket_settings_forget(runtime);
    berth_runtime_destroy_ops(runtime);
    berth_pinned_destroy(runtime->pinned);
    berth_store_destroy(runtime->store);
    berth_device_destroy(runtime->device);
    berth_decay_fini(&runtime->decay);
    if (runtime->has_lock) berth_mutex_fini(&runtime->lock);
    berth_host_free(host, runtime);
    berth_host_destroy(host);
}

berth_status berth_runtime_create(const berth_runtime_options* options,
                                  berth_runtime** out_runtime) {
    if (out_runtime == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a place for the runtime is needed");
    *out_runtime = NULL;
    static const berth_runtime_options defaults = {.struct_size = sizeof defaults};
    if (options == NULL) options = &defaults;
    if (options->struct_size != sizeof *options)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "struct_size is %zu, not %zu",
                          options->struct_size,
                          sizeof *options);
    berth_host* host;
    BERTH_TRY(berth_host_create(options->host, &host));
    berth_options* values = berth_host_alloc(host, sizeof *values);
    berth_runtime* runtime = berth_host_calloc(host, 1, sizeof *runtime);
    berth_status status = BERTH_OK;
    if (values == NULL || runtime == NULL)
        status = berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for a runtime");
    if (status == BERTH_OK)
        status = berth_options_init(values, options->settings, options->setting_count);
    if (status != BERTH_OK) {
        berth_host_free(host, values);
        berth_host_free(host, runtime);
        berth_host_destroy(host);
        return status;
    }
    runtime->host = host;
    atomic_store(&runtime->refs, 1);
    runtime->fork_generation = berth_fork_generation;
    status = set_up(runtime, values);
    berth_host_free(host, values);
    if (status != BERTH_OK) {
        destroy(runtime);
        return status;
    }
    *out_runtime = runtime;
    return BERTH_OK;
}

void berth_runtime_retain(berth_runtime* runtime) {
    atomic_fetch_add_explicit(&runtime->refs, 1, memory_order_relaxed);
}

void berth_runtime_drop(berth_runtime* runtime) {
    if (atomic_fetch_sub_explicit(&runtime->refs, 1, memory_order_acq_rel) == 1) destroy(runtime);
}

void berth_runtime_release(berth_runtime* runtime) {
    if (runtime == NULL || runtime->fork_generation != berth_fork_generation) return;
    berth_debugging_report(runtime, "as the runtime is released");
    berth_runtime_drop(runtime);
}

berth_device_kind berth_runtime_device_kind(const berth_runtime* runtime) {
    return runtime != NULL ? runtime->device->kind : BERTH_DEVICE_KIND_COUNT;
}

void berth_runtime_set_bypass(berth_runtime* runtime, const berth_pool_bypass* bypass) {
    runtime->bypass = *bypass;
}

static void add_pools(berth_runtime* runtime, berth_memory_stats* stats) {
    berth_mutex_lock(&runtime->lock);
    for (berth_context* c = runtime->first_context; c != NULL; c = c->next) {
        berth_pool_stats pool;
        berth_pool_query_stats(c->home.pool, &pool);
        stats->requested_bytes += pool.requested_bytes;
        stats->requested_bytes +=
            atomic_load_explicit(&c->home.guards.large_bytes, memory_order_relaxed);
        if (pool.largest_free_bytes > stats->largest_free_bytes)
            stats->largest_free_bytes = pool.largest_free_bytes;
    }
    berth_mutex_unlock(&runtime->lock);
}

static void add_compaction(berth_runtime* runtime, berth_memory_stats* stats) {
    berth_mutex_lock(&runtime->lock);
    const berth_compact_stats* compact = &runtime->compact_stats;
    stats->compact_slices = compact->slices;
    stats->moved_bytes = compact->moved_bytes;
    stats->emptied_bytes = compact->emptied_bytes;
    stats->compact_p99_ns = berth_compact_query_slice_ns(compact, 990);
    stats->compact_max_ns = compact->longest_ns;
    berth_mutex_unlock(&runtime->lock);
}

berth_status berth_runtime_query_memory(berth_runtime* runtime, berth_memory_stats* out_stats) {
    if (runtime == NULL || out_stats == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a runtime and a place are needed");
    *out_stats = (berth_memory_stats){0};
    BERTH_TRY(berth_fork_check(runtime->fork_generation));
    berth_store_stats store;
    berth_store_query_stats(runtime->store, &store);
    *out_stats = (berth_memory_stats){
        .capacity_bytes = store.capacity_bytes,
        .mapped_bytes = store.mapped_bytes,
        .peak_mapped_bytes = store.peak_mapped_bytes,
        .reserved_bytes = store.reserved_bytes,
        .shares_bytes = store.guaranteed_bytes,
        .kept_bytes = store.shares_bytes,
        .frames_bytes = store.mapped_by_owner[BERTH_OWNER_FRAMES],
        .pool_bytes = store.mapped_by_owner[BERTH_OWNER_POOL],
        .kv_bytes = store.mapped_by_owner[BERTH_OWNER_KV],
        .weights_bytes = store.mapped_by_owner[BERTH_OWNER_WEIGHTS],
        .ahead_bytes = store.mapped_by_owner[BERTH_OWNER_AHEAD],
        .pinned_bytes = berth_pinned_query_bytes(runtime->pinned),
        .host_bytes = berth_host_query_live_bytes(runtime->host),
        .host_allocs = berth_host_query_alloc_calls(runtime->host),
        .reclaims = store.reclaims,
        .failures = store.failures,
        .alarms = store.rises,
    };
    if (runtime->audit != NULL)
        out_stats->guards_broken = berth_audit_query_damaged(runtime->audit);
    out_stats->order_refused = berth_order_check_query_refused(runtime->device);
    add_pools(runtime, out_stats);
    add_compaction(runtime, out_stats);
    return BERTH_OK;
}

size_t berth_runtime_query_step_count(berth_runtime* runtime) {
    if (runtime == NULL || runtime->fork_generation != berth_fork_generation) return 0;
    berth_mutex_lock(&runtime->lock);
    const size_t count = runtime->step_count;
    berth_mutex_unlock(&runtime->lock);
    return count;
}

berth_status berth_runtime_query_step(berth_runtime* runtime,
                                      size_t index,
                                      const char** out_name,
                                      berth_step_counters* out_counters) {
    if (runtime == NULL || out_name == NULL || out_counters == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a runtime and two places are needed");
    *out_name = NULL;
    *out_counters = (berth_step_counters){0};
    BERTH_TRY(berth_fork_check(runtime->fork_generation));
    berth_mutex_lock(&runtime->lock);
    berth_step_entry* entry = runtime->first_step;
    for (size_t i = 0; entry != NULL && i < index; ++i)
        entry = entry->next;
    berth_mutex_unlock(&runtime->lock);
    if (entry == NULL)
        return berth_fail(BERTH_ERR_NOT_FOUND, "there is no %zu-th kind of step", index);
    *out_name = berth_step_model_name(entry->model);
    berth_step_model_query_counters(entry->model, out_counters);
    return BERTH_OK;
}

/// The context after `context` (NULL: the first), pinned; unpins `context`. The lock is not held
/// meanwhile: an unpin may end a context, and that takes it off the list.
static berth_context* pin_next(berth_runtime* runtime, berth_context* context) {
    berth_mutex_lock(&runtime->lock);
    berth_context* next = context != NULL ? context->next : runtime->first_context;
    while (next != NULL && !berth_home_try_pin(&next->home))
        next = next->next;
    berth_mutex_unlock(&runtime->lock);
    if (context != NULL) berth_home_unpin(&context->home);
    return next;
}

/// Adds up a trim that found `before_bytes` mapped and left `rest` in pools and arenas.
static berth_trim_result sum_up(const berth_store_stats* now,
                                uint64_t before_bytes,
                                const berth_rest* rest) {
    berth_trim_result result = {
        .released_bytes = before_bytes > now->mapped_bytes ? before_bytes - now->mapped_bytes : 0,
        .in_use_bytes = rest->in_use_bytes + now->mapped_by_owner[BERTH_OWNER_WEIGHTS],
        .held_bytes = rest->held_bytes,
        .fragmented_bytes = rest->fragmented_bytes,
        .in_flight_bytes = rest->in_flight_bytes,
        .kept_bytes = rest->kept_bytes,
        .ahead_bytes = now->mapped_by_owner[BERTH_OWNER_AHEAD],
        .busy_bytes = rest->busy_bytes,
        .refused_bytes = rest->refused_bytes,
    };
    const uint64_t known = result.in_use_bytes + result.held_bytes + result.fragmented_bytes +
                           result.in_flight_bytes + result.kept_bytes + result.ahead_bytes +
                           result.busy_bytes + result.refused_bytes;
    // what contexts have that are just ending, or are mapping
    if (known < now->mapped_bytes) result.busy_bytes += now->mapped_bytes - known;
    return result;
}

/// Trims what guests of a context have that is in no op now; of one that is, nothing is known.
static void trim_guests(berth_context* context, uint64_t keep_bytes, berth_rest* rest) {
    if (!berth_home_try_visit(&context->home)) return;
    (void)berth_guests_trim(context, keep_bytes, false);
    berth_guests_add_rest(context, keep_bytes, rest);
    berth_home_end_visit(&context->home);
}

berth_status berth_trim(berth_runtime* runtime,
                        uint64_t keep_bytes,
                        berth_trim_result* out_result) {
    if (out_result != NULL) *out_result = (berth_trim_result){0};
    if (runtime == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a runtime is needed");
    BERTH_TRY(berth_fork_check(runtime->fork_generation));
    berth_store_stats stats;
    berth_store_query_stats(runtime->store, &stats);
    const uint64_t before_bytes = stats.mapped_bytes;
    berth_rest rest = {0};
    berth_decay_hold(runtime);
    for (berth_context* c = pin_next(runtime, NULL); c != NULL; c = pin_next(runtime, c)) {
        (void)berth_pool_trim(c->home.pool, keep_bytes, false);
        (void)berth_arena_release_idle(c->home.arena, keep_bytes, UINT64_MAX);
        trim_guests(c, keep_bytes, &rest);
        if (out_result == NULL) continue;
        berth_pool_add_rest(c->home.pool, keep_bytes, &rest);
        berth_arena_add_rest(c->home.arena, keep_bytes, &rest);
    }
    if (out_result != NULL) {
        berth_store_query_stats(runtime->store, &stats);
        *out_result = sum_up(&stats, before_bytes, &rest);
    }
    berth_decay_unhold(runtime);
    berth_alarm_tell(runtime);
    return BERTH_OK;
}

berth_status berth_pinned_alloc(berth_runtime* runtime, uint64_t bytes, void** out_data) {
    if (out_data == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a place is needed");
    *out_data = NULL;
    if (runtime == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a runtime is needed");
    BERTH_TRY(berth_fork_check(runtime->fork_generation));
    BERTH_TRY(berth_pinned_take(runtime->pinned, bytes, out_data));
    const berth_status status = berth_debugging_note(runtime, *out_data, bytes, "pinned_alloc");
    if (status == BERTH_OK) return BERTH_OK;
    (void)berth_pinned_give(runtime->pinned, *out_data);
    *out_data = NULL;
    return status;
}

void berth_pinned_free(berth_runtime* runtime, void* data) {
    if (runtime == NULL || data == NULL) return;
    if (runtime->fork_generation != berth_fork_generation) return;
    berth_debugging_forget(runtime, data);
    if (!berth_pinned_give(runtime->pinned, data))
        berth_log_line(
            BERTH_LOG_ERROR,
            "berth_pinned_free: %p is no pinned memory of this runtime that is still out",
            data);
}
