// SPDX-License-Identifier: Apache-2.0
// Drives the pool, logs, scores.
#include "forecast/stand.h"

#include <math.h>
#include <stdlib.h>

#include "device/sim/sim_device.h"
#include "health/monitor.h"
#include "kit/fail.h"
#include "memory/pool_internal.h"

typedef struct moment {
    uint64_t takes;
    bool is_event; ///< else a prediction
    bool said;
    double fi;
    double fi_predicted;
} moment;

struct stand {
    uint64_t horizon;
    berth_device* device;
    berth_stream* stream;
    berth_store* store;
    berth_pool* pool;
    berth_monitor* monitor;
    berth_block* blocks; ///< [block_count]; data is NULL where there is none
    uint32_t* spare;     ///< [spare_count] of their numbers
    uint32_t block_count, spare_count;
    uint64_t live;
    uint64_t events;
    uint64_t sample_takes; ///< of the last sample seen
    moment* log;           ///< [log_count], in order
    size_t log_count, log_room;
};

static void check(berth_status status) {
    if (status != BERTH_OK) bench_fail("stand");
}

static void* grow(void* memory, size_t bytes) {
    memory = realloc(memory, bytes);
    if (memory == NULL) bench_fail_for("stand", "no memory");
    return memory;
}

stand* stand_create(uint64_t horizon_takes, bool no_remap) {
    const berth_host* host = berth_host_default();
    stand* s = grow(NULL, sizeof *s);
    *s = (stand){.horizon = horizon_takes, .sample_takes = UINT64_MAX};
    const berth_sim_options options = {
        .capacity_bytes = STAND_CAPACITY, .granule_bytes = STAND_GRANULE, .no_remap = no_remap};
    check(berth_sim_device_create(host, &options, &s->device));
    check(berth_stream_create(s->device, &s->stream));
    check(berth_store_create(host, s->device, UINT64_MAX, &s->store));
    const berth_pool_config pool = {.host = host, .store = s->store, .stream = s->stream};
    check(berth_pool_create(&pool, &s->pool));
    const berth_monitor_config monitor = {
        .host = host,
        .pool = s->pool,
        .horizon_takes = horizon_takes,
        .trigger = {.fi_threshold = 2},
    };
    check(berth_monitor_create(&monitor, &s->monitor));
    return s;
}

void stand_destroy(stand* s) {
    for (uint32_t i = 0; i < s->block_count; i++) {
        if (s->blocks[i].data != NULL) berth_pool_give(s->pool, &s->blocks[i]);
    }
    berth_monitor_destroy(s->monitor);
    berth_pool_destroy(s->pool);
    berth_store_destroy(s->store);
    berth_stream_destroy(s->stream);
    berth_device_destroy(s->device);
    free(s->blocks);
    free(s->spare);
    free(s->log);
    free(s);
}

static void add_moment(stand* s, moment m) {
    if (s->log_count == s->log_room) {
        s->log_room = 2 * s->log_room + 1024;
        s->log = grow(s->log, s->log_room * sizeof *s->log);
    }
    s->log[s->log_count++] = m;
}

/// Writes down what the last request has brought: first its event, as the monitor learns of it
/// before it looks.
static void write_log(stand* s, uint64_t takes_before) {
    const uint64_t* outcomes = s->pool->asked.outcomes;
    const uint64_t events = outcomes[BERTH_POOL_MOVED] + outcomes[BERTH_POOL_REFUSED];
    if (events != s->events) add_moment(s, (moment){.takes = takes_before, .is_event = true});
    s->events = events;
    berth_monitor_sample sample;
    if (berth_monitor_query_samples(s->monitor, &sample, 1) == 0) return;
    if (sample.takes == s->sample_takes) return;
    s->sample_takes = sample.takes;
    add_moment(s,
               (moment){.takes = sample.takes,
                        .said = sample.is_expected,
                        .fi = sample.fi,
                        .fi_predicted = sample.fi_predicted});
}

uint32_t stand_take(stand* s, uint64_t bytes, uint64_t site) {
    const uint64_t takes_before = s->pool->takes;
    const berth_pool_request request = {.size_bytes = bytes, .site = site};
    berth_block block;
    const berth_status status = berth_pool_take(s->pool, &request, &block);
    if (status != BERTH_OK && status != BERTH_ERR_OUT_OF_MEMORY) bench_fail("take");
    write_log(s, takes_before);
    if (status != BERTH_OK) return STAND_NONE;
    if (s->spare_count == 0) {
        const uint32_t more = s->block_count + 1024;
        s->blocks = grow(s->blocks, more * sizeof *s->blocks);
        s->spare = grow(s->spare, more * sizeof *s->spare);
        for (uint32_t i = more; i-- > s->block_count;) {
            s->blocks[i] = (berth_block){0};
            s->spare[s->spare_count++] = i;
        }
        s->block_count = more;
    }
    const uint32_t at = s->spare[--s->spare_count];
    s->blocks[at] = block;
    s->live += bytes;
    return at;
}

void stand_give(stand* s, uint32_t block) {
    if (block == STAND_NONE) return;
    s->live -= s->blocks[block].size_bytes;
    berth_pool_give(s->pool, &s->blocks[block]);
    s->blocks[block].data = NULL;
    s->spare[s->spare_count++] = block;
}

uint64_t stand_live(const stand* s) { return s->live; }
uint64_t stand_takes(const stand* s) { return s->pool->takes; }

/// The index at the first sample a horizon after the moment `from`; NULL if there is none.
static const moment* horizon_later(const stand* s, size_t from) {
    for (size_t i = from + 1; i < s->log_count; i++) {
        const moment* m = &s->log[i];
        if (!m->is_event && m->takes >= s->log[from].takes + s->horizon) return m;
    }
    return NULL;
}

static bool has_event(const stand* s, size_t from) {
    for (size_t i = from + 1; i < s->log_count; i++) {
        if (s->log[i].takes > s->log[from].takes + s->horizon) return false;
        if (s->log[i].is_event) return true;
    }
    return false;
}

static bool had_event(const stand* s, size_t from) {
    for (size_t i = from; i-- > 0;) {
        if (s->log[i].takes + s->horizon < s->log[from].takes) return false;
        if (s->log[i].is_event) return true;
    }
    return false;
}

void stand_add_score(const stand* s, uint64_t first_takes, stand_score* score) {
    const uint64_t end = s->pool->takes;
    for (size_t i = 0; i < s->log_count; i++) {
        const moment* m = &s->log[i];
        if (m->takes < first_takes || m->takes + s->horizon >= end) continue;
        if (m->is_event) {
            score->events++;
            continue;
        }
        const bool came = has_event(s, i);
        const bool said[STAND_PREDICTORS] = {[STAND_FORECAST] = m->said,
                                             [STAND_ALWAYS] = true,
                                             [STAND_NEVER] = false,
                                             [STAND_LAST] = had_event(s, i)};
        score->predictions++;
        score->positives += came;
        for (int k = 0; k < STAND_PREDICTORS; k++) {
            score->alarms[k] += said[k];
            score->hits[k] += said[k] && came;
        }
        const moment* later = horizon_later(s, i);
        if (later == NULL) continue;
        score->fi_count++;
        score->fi_error += fabs(later->fi - m->fi_predicted);
        score->fi_still_error += fabs(later->fi - m->fi);
    }
}

static double ratio(uint64_t part, uint64_t whole) {
    return whole == 0 ? 0 : (double)part / (double)whole;
}

double stand_precision(const stand_score* score, stand_predictor predictor) {
    return ratio(score->hits[predictor], score->alarms[predictor]);
}

double stand_recall(const stand_score* score, stand_predictor predictor) {
    return ratio(score->hits[predictor], score->positives);
}

double stand_f1(const stand_score* score, stand_predictor predictor) {
    return ratio(2 * score->hits[predictor], score->alarms[predictor] + score->positives);
}
