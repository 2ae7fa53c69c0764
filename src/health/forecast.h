// SPDX-License-Identifier: Apache-2.0
// Foretells, for one pool, how fragmented it will be and whether within the next H takes a request
// will fail or need a move though enough is free. A plain struct that is told what was seen; it
// knows no pool and no clock. Not thread-safe.
//
// How: such a request is larger than the largest stretch and no larger than all that is free. How
// many of that kind to expect follows from what came after the same requests earlier (programs
// repeat themselves), from the sizes lately asked for, and from the stretches lately seen; a
// logistic model weighs that against what has happened lately. Each prediction is held against what
// came, which is counted and teaches the model.
#ifndef BERTH_HEALTH_FORECAST_H
#define BERTH_HEALTH_FORECAST_H

#include "health/echo.h"
#include "memory/pool_watch.h"

#define BERTH_FORECAST_FEATURES 14u
#define BERTH_FORECAST_SAMPLES 4u ///< predictions in one horizon

/// How predictions turned out, since the beginning.
typedef struct berth_forecast_record {
    uint64_t true_positives;  ///< said, and came
    uint64_t false_positives; ///< said, and did not come
    uint64_t false_negatives; ///< came without having been said
    uint64_t true_negatives;
} berth_forecast_record;

/// What a pool looks like when a prediction is made.
typedef struct berth_forecast_input {
    uint64_t takes;         ///< of the pool so far: the forecast's clock
    uint64_t free_bytes;    ///< mapped, in no block
    uint64_t largest_bytes; ///< the largest stretch of them
    uint64_t spare_bytes;   ///< of them, whole granules
    uint64_t room_bytes;    ///< what could be mapped beyond
    uint64_t used_bytes;
    double fi; ///< 0 to 1
} berth_forecast_input;

/// One prediction until its horizon has passed.
typedef struct berth_forecast_pending {
    uint64_t takes;
    double features[BERTH_FORECAST_FEATURES];
    double probability;
    bool was_said;
    bool has_come;
} berth_forecast_pending;

typedef struct berth_forecast {
    uint64_t horizon_takes;
    // what is foretold now
    double probability; ///< of the event
    bool is_expected;   ///< the probability is over the threshold
    double fi_predicted;

    double threshold;
    double weights[BERTH_FORECAST_FEATURES];
    double squares[BERTH_FORECAST_FEATURES]; ///< sums of squared gradients
    berth_forecast_record record;
    double recent[3]; ///< true positives, false positives, false negatives, decaying

    uint64_t sample_count;
    uint64_t last_takes;
    /// Requests by class, each counted for `unit`, which grows instead of the others decaying.
    float asked[BERTH_ASKED_CLASSES];
    float unit;
    double asked_takes; ///< the takes they stand for, in the same units
    uint64_t events;
    uint64_t last_event_takes;
    double event_rate; ///< events a horizon, decaying
    uint64_t sampled_events;
    double fi_level, fi_slope;
    uint64_t past_largest[BERTH_FORECAST_SAMPLES]; ///< ring, by sample_count
    uint64_t past_free[BERTH_FORECAST_SAMPLES];
    berth_forecast_pending pending[2 * BERTH_FORECAST_SAMPLES]; ///< ring, oldest at `first`
    uint32_t first, pending_count;
    berth_echo echo;
} berth_forecast;

/// `horizon_takes` > 0.
void berth_forecast_init(berth_forecast* forecast, uint64_t horizon_takes);
/// The takes between two samples.
uint64_t berth_forecast_period(const berth_forecast* forecast);
/// Every request. It was made when there had been `takes`; `is_event`: it failed or needed a move
/// though enough was free.
void berth_forecast_note(
    berth_forecast* forecast, uint64_t site, uint64_t size_bytes, uint64_t takes, bool is_event);
/// Resolves what has come due, learns from it, and predicts anew.
void berth_forecast_sample(berth_forecast* forecast, const berth_forecast_input* input);

/// Requests of the last horizons that a stretch of `size` bytes is too small for, per horizon; of
/// them only those of at most `limit` bytes.
double berth_forecast_query_demand(const berth_forecast* forecast, uint64_t size, uint64_t limit);

#endif // BERTH_HEALTH_FORECAST_H
