// SPDX-License-Identifier: Apache-2.0
// A pool on a simulated device of fixed capacity under its monitor, with a log of its own: what was
// foretold when, and what came. Nothing compacts, so that what is foretold does come.
#ifndef BERTH_BENCH_FORECAST_STAND_H
#define BERTH_BENCH_FORECAST_STAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STAND_CAPACITY (UINT64_C(64) << 20)
#define STAND_GRANULE (UINT64_C(64) << 10)
#define STAND_NONE UINT32_MAX

/// The predictors that are compared.
typedef enum stand_predictor {
    STAND_FORECAST,
    STAND_ALWAYS,
    STAND_NEVER,
    STAND_LAST, ///< the event will come if it came in the last horizon
    STAND_PREDICTORS
} stand_predictor;

typedef struct stand_score {
    uint64_t events;    ///< requests that failed or needed a move though enough was free
    uint64_t positives; ///< predictions asked for that an event followed
    uint64_t predictions;
    uint64_t hits[STAND_PREDICTORS];   ///< said, and came
    uint64_t alarms[STAND_PREDICTORS]; ///< said
    double fi_error;       ///< sum over predictions of |index foretold - index a horizon later|
    double fi_still_error; ///< the same for the index staying what it is
    uint64_t fi_count;
} stand_score;

typedef struct stand stand;

stand* stand_create(uint64_t horizon_takes, bool no_remap);
void stand_destroy(stand* s);

/// Takes a block; STAND_NONE if the pool refuses.
uint32_t stand_take(stand* s, uint64_t bytes, uint64_t site);
void stand_give(stand* s, uint32_t block);
/// Bytes of blocks that are out.
uint64_t stand_live(const stand* s);
uint64_t stand_takes(const stand* s);

/// Adds the scores of all predictions made after `first_takes` takes and resolved by now.
void stand_add_score(const stand* s, uint64_t first_takes, stand_score* score);

double stand_precision(const stand_score* score, stand_predictor predictor);
double stand_recall(const stand_score* score, stand_predictor predictor);
double stand_f1(const stand_score* score, stand_predictor predictor);

#endif // BERTH_BENCH_FORECAST_STAND_H
