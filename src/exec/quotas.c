// SPDX-License-Identifier: Apache-2.0
// Quotas and shares. The store keeps the books; what climbs its ladder for a context holds the
// context's lock.
#include "exec/quotas.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/numbers.h"
#include "base/options_value.h"
#include "berth/quota.h"
#include "exec/scarcity.h"
#include "memory/pool_survey.h"

_Static_assert(BERTH_UNLIMITED == BERTH_QUOTA_NONE && BERTH_UNLIMITED == BERTH_OPTION_UNLIMITED,
               "no quota is the same number everywhere");

static const berth_owner owners[BERTH_MEMORY_USE_COUNT] = {
    [BERTH_MEMORY_FRAMES] = BERTH_OWNER_FRAMES,
    [BERTH_MEMORY_POOL] = BERTH_OWNER_POOL,
    [BERTH_MEMORY_KV] = BERTH_OWNER_KV,
};
static const char* const use_names[BERTH_MEMORY_USE_COUNT] = {
    [BERTH_MEMORY_FRAMES] = "frames",
    [BERTH_MEMORY_POOL] = "pool",
    [BERTH_MEMORY_KV] = "kv",
};

// --- From the options ----------------------------------------------------------------------------

/// Reads an option's whole granules, a percentage being of the capacity.
static berth_status read_bytes(const berth_runtime* runtime,
                               const berth_options* options,
                               berth_option option,
                               uint64_t capacity,
                               uint64_t* out_bytes) {
    const uint64_t bytes = berth_options_bytes(options, option, capacity);
    const uint64_t granule = runtime->device->granule_bytes;
    *out_bytes = bytes == BERTH_UNLIMITED ? bytes : berth_round_down(bytes, granule);
    if (*out_bytes > 0 || bytes == 0) return BERTH_OK;
    return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                      "BERTH_%s is %" PRIu64 " bytes, less than one granule of the device, %" PRIu64
                      " bytes",
                      berth_option_query_info(option)->name,
                      bytes,
                      granule);
}

berth_status berth_quotas_start(berth_runtime* runtime, const berth_options* options) {
    berth_store_stats stats;
    berth_store_query_stats(runtime->store, &stats);
    const uint64_t capacity = stats.capacity_bytes;
    uint64_t frames, pool, kv, quota, share;
    BERTH_TRY(read_bytes(runtime, options, BERTH_OPTION_FRAMES_QUOTA, capacity, &frames));
    BERTH_TRY(read_bytes(runtime, options, BERTH_OPTION_POOL_QUOTA, capacity, &pool));
    BERTH_TRY(read_bytes(runtime, options, BERTH_OPTION_KV_QUOTA, capacity, &kv));
    BERTH_TRY(read_bytes(runtime, options, BERTH_OPTION_CONTEXT_QUOTA, capacity, &quota));
    BERTH_TRY(read_bytes(runtime, options, BERTH_OPTION_CONTEXT_SHARE, capacity, &share));
    const uint64_t most = quota < capacity ? quota : capacity;
    if (share > most)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "BERTH_CONTEXT_SHARE is %" PRIu64 " bytes, more than %s of %" PRIu64,
                          share,
                          quota < capacity ? "BERTH_CONTEXT_QUOTA" : "the capacity (BERTH_MEMORY)",
                          most);
    berth_store_set_owner_quota(runtime->store, BERTH_OWNER_FRAMES, frames);
    berth_store_set_owner_quota(runtime->store, BERTH_OWNER_POOL, pool);
    berth_store_set_owner_quota(runtime->store, BERTH_OWNER_KV, kv);
    runtime->context_quota_bytes = quota;
    runtime->context_share_bytes = share;
    return BERTH_OK;
}

/// Under the context's lock, as the ladder's places of the context rely on.
static berth_status set_share(berth_context* context, uint64_t bytes) {
    berth_store* store = context->runtime->store;
    const berth_status status = berth_store_set_tenant_share(store, &context->tenant, bytes);
    berth_scarcity_forget(context);
    return status;
}

berth_status berth_quotas_join(berth_context* context) {
    const berth_runtime* runtime = context->runtime;
    BERTH_TRY(berth_store_set_tenant_quota(
        runtime->store, &context->tenant, runtime->context_quota_bytes));
    if (runtime->context_share_bytes == 0) return BERTH_OK;
    if (!berth_home_lock(&context->home)) return BERTH_ERR_STATE;
    const berth_status status = set_share(context, runtime->context_share_bytes);
    berth_home_unlock(&context->home);
    return status == BERTH_OK ? status : berth_fail_prefix(status, "BERTH_CONTEXT_SHARE");
}

// --- The program's calls -------------------------------------------------------------------------

berth_status berth_context_set_quota(berth_context* context, uint64_t bytes) {
    if (context == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a context is needed");
    BERTH_TRY(berth_fork_check(context->home.fork_generation));
    return berth_store_set_tenant_quota(context->runtime->store, &context->tenant, bytes);
}

berth_status berth_context_set_share(berth_context* context, uint64_t bytes) {
    if (context == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a context is needed");
    BERTH_TRY(berth_fork_check(context->home.fork_generation));
    if (!berth_home_lock(&context->home)) return BERTH_ERR_STATE;
    const berth_status status = set_share(context, bytes);
    berth_home_unlock(&context->home);
    return status;
}

static berth_context_memory memory_of(const berth_context* context) {
    const berth_tenant tenant = berth_store_query_tenant(context->runtime->store, &context->tenant);
    return (berth_context_memory){
        .mapped_bytes = tenant.mapped_bytes,
        .promised_bytes = tenant.reserved_bytes,
        .quota_bytes = tenant.quota_bytes,
        .share_bytes = tenant.share_bytes,
        .refusals = tenant.refusals,
    };
}

berth_status berth_context_query_memory(berth_context* context, berth_context_memory* out_memory) {
    if (context == NULL || out_memory == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a context and a place are needed");
    *out_memory = (berth_context_memory){0};
    BERTH_TRY(berth_fork_check(context->home.fork_generation));
    *out_memory = memory_of(context);
    return BERTH_OK;
}

berth_status berth_context_query_room(berth_context* context, uint64_t* out_bytes) {
    if (out_bytes == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a place is needed");
    *out_bytes = 0;
    if (context == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a context is needed");
    BERTH_TRY(berth_fork_check(context->home.fork_generation));
    const berth_account account = {
        .store = context->runtime->store, .tenant = &context->tenant, .owner = BERTH_OWNER_FRAMES};
    berth_arena_stats arena;
    berth_arena_query_stats(context->home.arena, &arena);
    const uint64_t busy = arena.used_bytes + arena.held_bytes;
    uint64_t whole, beside;
    berth_pool_query_free(context->home.pool, &whole, &beside);
    *out_bytes = berth_store_query_room(account) + whole +
                 (arena.mapped_bytes > busy ? arena.mapped_bytes - busy : 0);
    return BERTH_OK;
}

static berth_status check_use(const berth_runtime* runtime, berth_memory_use use) {
    if (runtime == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a runtime is needed");
    if ((unsigned)use >= BERTH_MEMORY_USE_COUNT)
        return berth_fail(
            BERTH_ERR_INVALID_ARGUMENT, "there is no use of memory with number %d", (int)use);
    return berth_fork_check(runtime->fork_generation);
}

berth_status berth_runtime_set_quota(berth_runtime* runtime, berth_memory_use use, uint64_t bytes) {
    BERTH_TRY(check_use(runtime, use));
    berth_store_set_owner_quota(runtime->store, owners[use], bytes);
    return BERTH_OK;
}

static berth_use_memory memory_for(const berth_store_stats* stats, berth_memory_use use) {
    const berth_owner owner = owners[use];
    return (berth_use_memory){
        .mapped_bytes = stats->mapped_by_owner[owner],
        .promised_bytes = stats->reserved_by_owner[owner],
        .quota_bytes = stats->quota_by_owner[owner],
    };
}

berth_status berth_runtime_query_quota(berth_runtime* runtime,
                                       berth_memory_use use,
                                       berth_use_memory* out_memory) {
    if (out_memory == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a place is needed");
    *out_memory = (berth_use_memory){0};
    BERTH_TRY(check_use(runtime, use));
    berth_store_stats stats;
    berth_store_query_stats(runtime->store, &stats);
    *out_memory = memory_for(&stats, use);
    return BERTH_OK;
}

// --- The report ----------------------------------------------------------------------------------

static void add_quota(berth_text* text, uint64_t bytes) {
    if (bytes == BERTH_UNLIMITED)
        berth_text_add(text, "  %14s", "unlimited");
    else
        berth_text_add(text, "  %14" PRIu64, bytes);
}

static void add_uses(berth_text* text, const berth_store_stats* stats) {
    berth_text_add(text, "uses            mapped        promised           quota\n");
    for (unsigned i = 0; i < BERTH_MEMORY_USE_COUNT; i++) {
        const berth_use_memory use = memory_for(stats, (berth_memory_use)i);
        berth_text_add(text,
                       "  %-6s  %14" PRIu64 "  %14" PRIu64,
                       use_names[i],
                       use.mapped_bytes,
                       use.promised_bytes);
        add_quota(text, use.quota_bytes);
        berth_text_add(text, "\n");
    }
}

/// The contexts, the latest first.
static void add_contexts(berth_text* text, berth_runtime* runtime) {
    berth_text_add(text,
                   "contexts        mapped        promised           quota           share\n");
    size_t count = 0;
    berth_mutex_lock(&runtime->lock);
    for (const berth_context* c = runtime->first_context; c != NULL; c = c->next) {
        const berth_context_memory memory = memory_of(c);
        berth_text_add(text,
                       "  %-6zu  %14" PRIu64 "  %14" PRIu64,
                       ++count,
                       memory.mapped_bytes,
                       memory.promised_bytes);
        add_quota(text, memory.quota_bytes);
        berth_text_add(text, "  %14" PRIu64 "\n", memory.share_bytes);
    }
    berth_mutex_unlock(&runtime->lock);
}

void berth_quotas_write(berth_text* text, berth_runtime* runtime) {
    berth_store_stats stats;
    berth_store_query_stats(runtime->store, &stats);
    add_uses(text, &stats);
    add_contexts(text, runtime);
}
