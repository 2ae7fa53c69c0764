// SPDX-License-Identifier: Apache-2.0
// Health layer: how fragmented pools are, how fragmented they will be, and what is done about it.
// Knows pools and what may be moved in them, no ops and no tensors.
//
// H1 and H2 are in health/compactor.h.
//
// H3: a monitor costs what takes from a front or a slab nothing, and those that need an extent a
//     few stores; all else happens once in a period of takes, under the pool's lock, in time that
//     does not depend on how much is in the pool.
//
// H4: every prediction is held against what came within its horizon, and counted.
//
// This header: the monitor of one pool.
#ifndef BERTH_HEALTH_MONITOR_H
#define BERTH_HEALTH_MONITOR_H

#include "berth/health.h"
#include "health/forecast.h"
#include "health/trigger.h"

#define BERTH_MONITOR_SAMPLES 64u ///< kept

typedef struct berth_monitor berth_monitor;

/// What a monitor is made of. All pointers are borrowed and outlive it.
typedef struct berth_monitor_config {
    const berth_host* host;
    berth_pool* pool;
    uint64_t horizon_takes; ///< > 0
    berth_trigger_config trigger;
    bool* wants;           ///< set by samples while compaction is wanted; borrowed; may be NULL
    bool guides_placement; ///< places are chosen with more care while the event is expected
} berth_monitor_config;

/// A pool at one moment.
typedef struct berth_monitor_sample {
    uint64_t takes;
    uint64_t time_ns;
    uint64_t free_bytes;
    uint64_t largest_bytes; ///< an upper bound, at most a 16th too large
    uint64_t used_bytes;    ///< in extents of blocks and slabs
    double fi;
    double fi_predicted; ///< a horizon later
    double probability;  ///< of a failure or a move within the horizon
    bool is_expected;    ///< that is over the threshold
} berth_monitor_sample;

/// Sums from which the figures of one pool or of several follow.
typedef struct berth_health_sums {
    berth_health_stats stats; ///< its counters and bytes; no shares yet
    double fi_free;           ///< indices times free bytes
    double fi_predicted_free;
    double calm; ///< probability that nothing happens
} berth_health_sums;

/// Watches the pool from now on.
/// Errors: BERTH_ERR_OUT_OF_MEMORY (host memory).
BERTH_NODISCARD berth_status berth_monitor_create(const berth_monitor_config* config,
                                                  berth_monitor** out_monitor);
/// Accepts NULL. Before the pool ends.
void berth_monitor_destroy(berth_monitor* monitor);

/// Takes a sample now, besides those that the pool's takes bring about, and asks the trigger, with
/// `idle` as in berth_trigger_idle.
void berth_monitor_look(berth_monitor* monitor, bool idle);
/// Why compaction is wanted, as of the last sample. One load.
berth_trigger_reason berth_monitor_query_wanted(const berth_monitor* monitor);
/// A pass of compaction has come to its end.
void berth_monitor_finish_pass(berth_monitor* monitor, uint64_t gained_bytes);

/// Adds the pool's figures as of now. `sums` began as berth_health_sums_init leaves it.
void berth_monitor_add(const berth_monitor* monitor, berth_health_sums* sums);
void berth_health_sums_init(berth_health_sums* sums);
/// Works the shares out.
void berth_health_sums_finish(const berth_health_sums* sums, berth_health_stats* out_stats);

/// Writes up to `count` samples, the latest first; returns how many there were.
uint32_t berth_monitor_query_samples(const berth_monitor* monitor,
                                     berth_monitor_sample* out_samples,
                                     uint32_t count);

#endif // BERTH_HEALTH_MONITOR_H
