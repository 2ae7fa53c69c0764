// SPDX-License-Identifier: Apache-2.0
// Follows recent use and gives back what it does not explain.
#include "exec/keep.h"

#include <math.h>

enum {
    STEPS_BETWEEN_TRIMS = 16,
    TREND_SAMPLES = 32, ///< the weight of a sample is 1 / TREND_SAMPLES
    DEVIATIONS_KEPT = 2,
};

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
