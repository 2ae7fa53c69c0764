// SPDX-License-Identifier: Apache-2.0
// Decides when compaction is wanted. A plain state machine that is told figures and the time.
//
// It begins to want compaction when the fragmentation index, measured or foretold, is over the
// threshold, when an event is foretold, when a rising share of large requests needs moves, or when
// a request failed though enough is free; it goes on wanting until the index is well below the
// threshold (hysteresis), until there is nothing to gain, or until a pass brought nothing. Then it
// rests for the cool-down, twice as long after each pass that brought nothing. A failing request
// waits for no cool-down.
#ifndef BERTH_HEALTH_TRIGGER_H
#define BERTH_HEALTH_TRIGGER_H

#include <stdbool.h>
#include <stdint.h>

// clang-format off
/// Why compaction is wanted: X(ID, field of the statistics, help).
#define BERTH_TRIGGER_MAP(X)                                                                       \
    X(FI,       wanted_for_fi,       "times compaction was wanted: the index was too high")        \
    X(FORECAST, wanted_for_forecast, "...: a failure or a move was foretold, or a high index")     \
    X(MOVES,    wanted_for_moves,    "...: more and more large requests needed moves")             \
    X(FAILING,  wanted_for_failing,  "...: a request failed though enough was free")               \
    X(IDLE,     wanted_for_idle,     "...: the program was idle and there was something to gain")
// clang-format on

/// A reason, or none.
typedef enum berth_trigger_reason {
    BERTH_TRIGGER_NONE,
#define BERTH_TRIGGER_ENUM(id, field, help) BERTH_TRIGGER_##id,
    BERTH_TRIGGER_MAP(BERTH_TRIGGER_ENUM)
#undef BERTH_TRIGGER_ENUM
        BERTH_TRIGGER_COUNT
} berth_trigger_reason;

typedef struct berth_trigger_config {
    double fi_threshold; ///< 0 to 1; over 1: never because of the index
    uint64_t cooldown_ns;
} berth_trigger_config;

/// What a trigger decides by.
typedef struct berth_trigger_input {
    uint64_t now_ns;
    double fi;
    double fi_predicted;
    bool is_expected;       ///< the forecast's event
    uint64_t gain_bytes;    ///< free bytes that whole granules could be made of
    uint64_t granule_bytes; ///< less than one is no gain
    uint64_t requests;      ///< for extents so far
    uint64_t moved;   ///< of them, needed a move, or were granted memory though enough was free
    uint64_t refused; ///< of them, failed though enough was free
} berth_trigger_input;

typedef struct berth_trigger {
    berth_trigger_config config;
    berth_trigger_reason reason; ///< why compaction is wanted now
    uint64_t counts[BERTH_TRIGGER_COUNT];
    uint64_t ready_ns;  ///< the cool-down's end
    uint32_t fruitless; ///< passes in a row that brought nothing
    uint64_t last_requests, last_moved, last_refused;
    double moved_share; ///< of late
    double usual_share; ///< over a longer time
} berth_trigger;

void berth_trigger_init(berth_trigger* trigger, const berth_trigger_config* config);
/// Takes in new figures; returns why compaction is wanted.
berth_trigger_reason berth_trigger_update(berth_trigger* trigger, const berth_trigger_input* input);
/// The program says that it is idle: compaction is wanted if there is anything to gain, whatever
/// the thresholds.
berth_trigger_reason berth_trigger_idle(berth_trigger* trigger, const berth_trigger_input* input);
/// A pass of compaction has come to its end; `gained_bytes` is what it brought in whole granules.
void berth_trigger_finish(berth_trigger* trigger, uint64_t now_ns, uint64_t gained_bytes);

#endif // BERTH_HEALTH_TRIGGER_H
