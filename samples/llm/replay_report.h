// SPDX-License-Identifier: Apache-2.0
// What came of a replay, as text and as JSON.
#ifndef BERTH_SAMPLES_LLM_REPLAY_REPORT_H
#define BERTH_SAMPLES_LLM_REPLAY_REPORT_H

#include "replay.h"

#include <stdio.h>

/// Share of prompt tokens that were found in the cache.
double llm_replay_hit_ratio(const llm_replay_report* report);

/// Share of the bytes allocated in steps that plans placed.
double llm_replay_coverage(const llm_replay_report* report);

/// Share of the room in blocks that requests held which held no token, over all steps.
double llm_replay_waste(const llm_replay_report* report);

/// Answer tokens a second of the replay's clock.
double llm_replay_speed(const llm_replay_report* report);

/// A row of a table of times.
typedef struct llm_replay_times_row {
    const char* label;
    const llm_replay_times* times;
} llm_replay_times_row;

/// Prints `rows` [count] as a table.
void llm_replay_times_print(FILE* out, const llm_replay_times_row* rows, size_t count);

/// Writes times as a further member, `name`, of a JSON object.
void llm_replay_times_write_json(FILE* out, const char* name, const llm_replay_times* times);

/// Prints a report.
void llm_replay_report_print(FILE* out, const llm_replay_report* report);

/// Prints the most telling numbers of `count` replays beside each other, named by `modes`.
void llm_replay_report_print_compared(FILE* out,
                                      const llm_replay_report* reports,
                                      const char* const* modes,
                                      size_t count);

/// Writes `count` reports as one JSON object, {"modes": [...]}, each with the name of its mode.
void llm_replay_report_write_json(FILE* out,
                                  const llm_replay_report* reports,
                                  const char* const* modes,
                                  size_t count);

#endif // BERTH_SAMPLES_LLM_REPLAY_REPORT_H
