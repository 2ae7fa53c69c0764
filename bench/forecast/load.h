// SPDX-License-Identifier: Apache-2.0
// What programs ask of the pool, endlessly, from a seed and a part of the recorded data.
#ifndef BERTH_BENCH_FORECAST_LOAD_H
#define BERTH_BENCH_FORECAST_LOAD_H

#include "forecast/stand.h"

/// Which half of the recorded requests a stretch uses.
typedef enum load_part { LOAD_FIRST_HALF, LOAD_SECOND_HALF } load_part;

typedef struct load {
    const char* name;
    /// Runs on `s` until there have been `takes` takes.
    void (*run)(const struct load* self, stand* s, load_part part, uint64_t seed, uint64_t takes);
    const char* file; ///< below data/; NULL: none
    uint64_t unit;    ///< bytes of a token's keys or values; or the divisor of recorded sizes
} load;

/// All loads; the last one has no name.
extern const load load_list[];

#endif // BERTH_BENCH_FORECAST_LOAD_H
