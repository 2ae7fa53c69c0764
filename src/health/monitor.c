// SPDX-License-Identifier: Apache-2.0
// The monitor: reads a pool's figures under the pool's lock, feeds forecast and trigger, keeps a
// ring of samples.
#include "health/monitor.h"

#include <math.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/numbers.h"
#include "memory/pool_internal.h"

#define MILLION 1e6
/// What stays of rates at each sample.
#define RATE_DECAY 0.8
/// Takes that rates are given for.
#define RATE_TAKES 1000.0

struct berth_monitor {
    const berth_host* host;
    berth_pool* pool;
    berth_pool_watch watch;
    bool guides_placement;
    bool* wants;
    _Atomic int wanted; ///< berth_trigger_reason
    // what follows is guarded by the pool's lock
    berth_forecast forecast;
    berth_trigger trigger;
    uint64_t sample_count;
    berth_monitor_sample samples[BERTH_MONITOR_SAMPLES]; ///< ring, by sample_count
    double fi_peak;
    uint64_t last_takes, last_asked_bytes, last_used_bytes;
    double rate_takes, taken_bytes, given_bytes; ///< decaying sums
    double asked_bytes[BERTH_PLACEABLE_COUNT];   ///< by size, decaying
};

static double share(uint64_t part, uint64_t whole) {
    return whole == 0 ? 0 : 1 - (double)part / (double)whole;
}

/// The size of berth_placeable that requests of `size` bytes count for.
static berth_placeable placeable_of(uint64_t size) {
    if (size <= UINT64_C(64) << 10) return BERTH_PLACEABLE_64K;
    return size <= UINT64_C(1) << 20 ? BERTH_PLACEABLE_1M : BERTH_PLACEABLE_GRANULE;
}

/// The pool's index, weighted by the bytes lately asked for in blocks of each size.
static double weigh_fi(const berth_monitor* monitor) {
    const berth_extents* extents = &monitor->pool->extents;
    const uint64_t free_bytes = extents->bytes[BERTH_EXTENT_FREE];
    double sum = 0, weights = 0;
    for (int i = 0; i < BERTH_PLACEABLE_COUNT; i++) {
        sum += monitor->asked_bytes[i] * share(extents->placeable[i], free_bytes);
        weights += monitor->asked_bytes[i];
    }
    if (weights > 0) return sum / weights;
    return share(extents->placeable[BERTH_PLACEABLE_GRANULE], free_bytes);
}

static uint64_t largest_of(const berth_pool* pool) {
    const uint64_t largest = berth_extents_bound_largest(&pool->extents);
    const uint64_t free_bytes = pool->extents.bytes[BERTH_EXTENT_FREE];
    return largest < free_bytes ? largest : free_bytes;
}

static void follow_rates(berth_monitor* monitor) {
    const berth_pool* pool = monitor->pool;
    const uint64_t used = pool->extents.bytes[BERTH_EXTENT_USED];
    const double taken = (double)(pool->asked.bytes - monitor->last_asked_bytes);
    const double given = taken - ((double)used - (double)monitor->last_used_bytes);
    for (int i = 0; i < BERTH_PLACEABLE_COUNT; i++)
        monitor->asked_bytes[i] *= RATE_DECAY;
    monitor->rate_takes =
        RATE_DECAY * monitor->rate_takes + (double)(pool->takes - monitor->last_takes);
    monitor->taken_bytes = RATE_DECAY * monitor->taken_bytes + taken;
    monitor->given_bytes = RATE_DECAY * monitor->given_bytes + fmax(given, 0);
    monitor->last_takes = pool->takes;
    monitor->last_asked_bytes = pool->asked.bytes;
    monitor->last_used_bytes = used;
}

static berth_trigger_input trigger_input(const berth_monitor* monitor, uint64_t now_ns, double fi) {
    const berth_pool* pool = monitor->pool;
    const uint64_t* outcomes = pool->asked.outcomes;
    const berth_extents* extents = &pool->extents;
    uint64_t requests = 0;
    for (int i = 0; i < BERTH_POOL_OUTCOMES; i++)
        requests += outcomes[i];
    return (berth_trigger_input){
        .now_ns = now_ns,
        .fi = fi,
        .fi_predicted = monitor->forecast.fi_predicted,
        .is_expected = monitor->forecast.is_expected,
        .gain_bytes =
            extents->bytes[BERTH_EXTENT_FREE] - extents->placeable[BERTH_PLACEABLE_GRANULE],
        .granule_bytes = pool->granule_bytes,
        .requests = requests,
        .moved = outcomes[BERTH_POOL_MOVED] + outcomes[BERTH_POOL_SPREAD],
        .refused = outcomes[BERTH_POOL_REFUSED],
    };
}

static void look(berth_monitor* monitor, bool idle) {
    const berth_pool* pool = monitor->pool;
    const berth_extents* extents = &pool->extents;
    berth_forecast_input input = {
        .takes = pool->takes,
        .free_bytes = extents->bytes[BERTH_EXTENT_FREE],
        .largest_bytes = largest_of(pool),
        .spare_bytes = extents->placeable[BERTH_PLACEABLE_GRANULE],
        .room_bytes = berth_store_query_room(pool->account),
        .used_bytes = extents->bytes[BERTH_EXTENT_USED],
        .fi = weigh_fi(monitor),
    };
    berth_forecast_sample(&monitor->forecast, &input);
    follow_rates(monitor);
    if (input.fi > monitor->fi_peak) monitor->fi_peak = input.fi;
    const uint64_t now_ns = berth_clock_now_ns();
    monitor->samples[monitor->sample_count++ % BERTH_MONITOR_SAMPLES] = (berth_monitor_sample){
        .takes = input.takes,
        .time_ns = now_ns,
        .free_bytes = input.free_bytes,
        .largest_bytes = input.largest_bytes,
        .used_bytes = input.used_bytes,
        .fi = input.fi,
        .fi_predicted = monitor->forecast.fi_predicted,
        .probability = monitor->forecast.probability,
        .is_expected = monitor->forecast.is_expected,
    };
    const berth_trigger_input figures = trigger_input(monitor, now_ns, input.fi);
    const berth_trigger_reason reason = idle ? berth_trigger_idle(&monitor->trigger, &figures)
                                             : berth_trigger_update(&monitor->trigger, &figures);
    atomic_store_explicit(&monitor->wanted, (int)reason, memory_order_relaxed);
    if (reason != BERTH_TRIGGER_NONE && monitor->wants != NULL) *monitor->wants = true;
    if (monitor->guides_placement) monitor->pool->is_cautious = monitor->forecast.is_expected;
    monitor->watch.next_takes = pool->takes + berth_forecast_period(&monitor->forecast);
}

static void sample(void* self) { look(self, false); }

static void note(void* self, uint64_t site, uint64_t size_bytes, berth_pool_outcome outcome) {
    berth_monitor* monitor = self;
    const bool is_event = outcome == BERTH_POOL_MOVED || outcome == BERTH_POOL_REFUSED;
    monitor->asked_bytes[placeable_of(size_bytes)] += (double)size_bytes;
    berth_forecast_note(&monitor->forecast, site, size_bytes, monitor->pool->takes, is_event);
}

berth_status berth_monitor_create(const berth_monitor_config* config, berth_monitor** out_monitor) {
    *out_monitor = NULL;
    berth_monitor* monitor = berth_host_calloc(config->host, 1, sizeof *monitor);
    if (monitor == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for a monitor");
    monitor->host = config->host;
    monitor->pool = config->pool;
    monitor->wants = config->wants;
    monitor->guides_placement = config->guides_placement;
    berth_forecast_init(&monitor->forecast, config->horizon_takes);
    berth_trigger_init(&monitor->trigger, &config->trigger);
    monitor->watch = (berth_pool_watch){.self = monitor, .sample = sample, .note = note};
    berth_pool_set_watch(monitor->pool, &monitor->watch);
    *out_monitor = monitor;
    return BERTH_OK;
}

void berth_monitor_destroy(berth_monitor* monitor) {
    if (monitor == NULL) return;
    berth_pool_set_watch(monitor->pool, NULL);
    berth_host_free(monitor->host, monitor);
}

void berth_monitor_look(berth_monitor* monitor, bool idle) {
    berth_mutex_lock(monitor->pool->lock);
    look(monitor, idle);
    berth_mutex_unlock(monitor->pool->lock);
}

berth_trigger_reason berth_monitor_query_wanted(const berth_monitor* monitor) {
    return (berth_trigger_reason)atomic_load_explicit(&monitor->wanted, memory_order_relaxed);
}

void berth_monitor_finish_pass(berth_monitor* monitor, uint64_t gained_bytes) {
    berth_mutex_lock(monitor->pool->lock);
    berth_trigger_finish(&monitor->trigger, berth_clock_now_ns(), gained_bytes);
    atomic_store_explicit(&monitor->wanted, BERTH_TRIGGER_NONE, memory_order_relaxed);
    berth_mutex_unlock(monitor->pool->lock);
}

void berth_health_sums_init(berth_health_sums* sums) { *sums = (berth_health_sums){.calm = 1}; }

/// What has been counted since the pool began.
static void add_counts(const berth_monitor* monitor, berth_health_stats* stats) {
    const berth_pool_asked* asked = &monitor->pool->asked;
    const berth_forecast_record* record = &monitor->forecast.record;
    for (int i = 0; i < BERTH_POOL_OUTCOMES; i++)
        stats->requests += asked->outcomes[i];
    stats->found += asked->outcomes[BERTH_POOL_FOUND];
    stats->grew += asked->outcomes[BERTH_POOL_GREW];
    stats->spread += asked->outcomes[BERTH_POOL_SPREAD];
    stats->moved += asked->outcomes[BERTH_POOL_MOVED];
    stats->refused += asked->outcomes[BERTH_POOL_REFUSED];
    stats->full += asked->outcomes[BERTH_POOL_FULL];
    stats->shifted_bytes += asked->moved_bytes;
    stats->samples += monitor->sample_count;
    stats->true_positives += record->true_positives;
    stats->false_positives += record->false_positives;
    stats->false_negatives += record->false_negatives;
    stats->true_negatives += record->true_negatives;
#define ADD_WANTED(id, field, help) stats->field += monitor->trigger.counts[BERTH_TRIGGER_##id];
    BERTH_TRIGGER_MAP(ADD_WANTED)
#undef ADD_WANTED
}

/// `x` >= 0 as a number of bytes; what asks for absurd sizes has absurd rates.
static uint64_t whole(double x) { return x < 0x1p63 ? (uint64_t)x : INT64_MAX; }

static void add_bytes(const berth_monitor* monitor, berth_health_stats* stats) {
    const berth_pool* pool = monitor->pool;
    const berth_extents* extents = &pool->extents;
    const uint64_t largest = largest_of(pool);
    stats->requested_bytes += pool->requested_bytes;
    stats->reserved_bytes += extents->bytes[BERTH_EXTENT_USED];
    stats->free_bytes += extents->bytes[BERTH_EXTENT_FREE];
    if (largest > stats->largest_free_bytes) stats->largest_free_bytes = largest;
    stats->placeable_64k_bytes += extents->placeable[BERTH_PLACEABLE_64K];
    stats->placeable_1m_bytes += extents->placeable[BERTH_PLACEABLE_1M];
    stats->placeable_granule_bytes += extents->placeable[BERTH_PLACEABLE_GRANULE];
    if (monitor->rate_takes <= 0) return;
    const double scale = RATE_TAKES / monitor->rate_takes;
    stats->take_rate_bytes =
        berth_add_saturated_u64(stats->take_rate_bytes, whole(scale * monitor->taken_bytes));
    stats->give_rate_bytes =
        berth_add_saturated_u64(stats->give_rate_bytes, whole(scale * monitor->given_bytes));
}

void berth_monitor_add(const berth_monitor* monitor, berth_health_sums* sums) {
    const berth_pool* pool = monitor->pool;
    berth_mutex_lock(pool->lock);
    add_counts(monitor, &sums->stats);
    add_bytes(monitor, &sums->stats);
    const double free_bytes = (double)pool->extents.bytes[BERTH_EXTENT_FREE];
    sums->fi_free += weigh_fi(monitor) * free_bytes;
    sums->fi_predicted_free += monitor->forecast.fi_predicted * free_bytes;
    sums->calm *= 1 - monitor->forecast.probability;
    sums->stats.event_expected += monitor->forecast.is_expected ? 1 : 0;
    const uint64_t peak = (uint64_t)(MILLION * monitor->fi_peak);
    if (peak > sums->stats.fi_peak_ppm) sums->stats.fi_peak_ppm = peak;
    berth_mutex_unlock(pool->lock);
}

static uint64_t ppm(double x) { return (uint64_t)(MILLION * x + 0.5); }

static uint64_t ppm_without(uint64_t part, uint64_t whole) {
    return part >= whole ? 0 : ppm(share(part, whole));
}

static uint64_t ppm_of(uint64_t part, uint64_t other) {
    return part == 0 ? 0 : ppm((double)part / ((double)part + (double)other));
}

void berth_health_sums_finish(const berth_health_sums* sums, berth_health_stats* out_stats) {
    *out_stats = sums->stats;
    berth_health_stats* s = out_stats;
    s->internal_ppm = ppm_without(s->requested_bytes, s->reserved_bytes);
    s->external_ppm = ppm_without(s->largest_free_bytes, s->free_bytes);
    s->fi_64k_ppm = ppm_without(s->placeable_64k_bytes, s->free_bytes);
    s->fi_1m_ppm = ppm_without(s->placeable_1m_bytes, s->free_bytes);
    s->fi_granule_ppm = ppm_without(s->placeable_granule_bytes, s->free_bytes);
    const double free_bytes = (double)s->free_bytes;
    s->fi_ppm = free_bytes > 0 ? ppm(sums->fi_free / free_bytes) : 0;
    s->fi_predicted_ppm = free_bytes > 0 ? ppm(sums->fi_predicted_free / free_bytes) : 0;
    s->event_ppm = ppm(1 - sums->calm);
    s->precision_ppm = ppm_of(s->true_positives, s->false_positives);
    s->recall_ppm = ppm_of(s->true_positives, s->false_negatives);
}

uint32_t berth_monitor_query_samples(const berth_monitor* monitor,
                                     berth_monitor_sample* out_samples,
                                     uint32_t count) {
    berth_mutex_lock(monitor->pool->lock);
    uint64_t have = monitor->sample_count;
    if (have > BERTH_MONITOR_SAMPLES) have = BERTH_MONITOR_SAMPLES;
    if (have < count) count = (uint32_t)have;
    for (uint32_t i = 0; i < count; i++)
        out_samples[i] = monitor->samples[(monitor->sample_count - 1 - i) % BERTH_MONITOR_SAMPLES];
    berth_mutex_unlock(monitor->pool->lock);
    return count;
}
