// SPDX-License-Identifier: Apache-2.0
// Queries of the figures that monitors keep.
#include "exec/pool_health.h"

#include "base/error.h"
#include "berth/health.h"

enum { P99_PER_MILLE = 990 };

berth_status berth_context_watch(berth_context* context) {
    const berth_runtime* runtime = context->runtime;
    const berth_monitor_config config = {
        .host = context->home.host,
        .pool = context->home.pool,
        .horizon_takes = runtime->frag_horizon_takes,
        .trigger = runtime->trigger,
        .wants = runtime->compact_mode != BERTH_COMPACT_OFF ? &context->wants_upkeep : NULL,
        .guides_placement = true,
    };
    return berth_monitor_create(&config, &context->monitor);
}

/// Adds what compaction has done.
static void add_compaction(const berth_compact_stats* compacted, berth_health_stats* stats) {
    stats->compact_slices = compacted->slices;
    stats->compact_moved_bytes = compacted->moved_bytes;
    stats->compact_moved_blocks = compacted->moved_blocks;
    stats->compact_remapped_bytes = compacted->remapped_bytes;
    stats->compact_emptied_bytes = compacted->emptied_bytes;
    stats->compact_refused = compacted->refused;
    stats->compact_p99_ns = berth_compact_query_slice_ns(compacted, P99_PER_MILLE);
    stats->compact_max_ns = compacted->longest_ns;
}

berth_status berth_runtime_query_health(berth_runtime* runtime, berth_health_stats* out_stats) {
    if (runtime == NULL || out_stats == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a runtime and a place are needed");
    *out_stats = (berth_health_stats){0};
    BERTH_TRY(berth_fork_check(runtime->fork_generation));
    berth_health_sums sums;
    berth_health_sums_init(&sums);
    berth_compact_stats compacted = {0};
    berth_mutex_lock(&runtime->lock);
    for (const berth_context* c = runtime->first_context; c != NULL; c = c->next) {
        if (c->monitor != NULL) berth_monitor_add(c->monitor, &sums);
        berth_compact_stats_add(&compacted, &c->compacted);
    }
    berth_mutex_unlock(&runtime->lock);
    berth_health_sums_finish(&sums, out_stats);
    add_compaction(&compacted, out_stats);
    return BERTH_OK;
}

berth_status berth_context_query_health(berth_context* context, berth_health_stats* out_stats) {
    if (context == NULL || out_stats == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a context and a place are needed");
    *out_stats = (berth_health_stats){0};
    BERTH_TRY(berth_fork_check(context->home.fork_generation));
    berth_health_sums sums;
    berth_health_sums_init(&sums);
    if (context->monitor != NULL) berth_monitor_add(context->monitor, &sums);
    berth_health_sums_finish(&sums, out_stats);
    berth_mutex_lock(&context->runtime->lock);
    add_compaction(&context->compacted, out_stats);
    berth_mutex_unlock(&context->runtime->lock);
    return BERTH_OK;
}
