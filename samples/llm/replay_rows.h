// SPDX-License-Identifier: Apache-2.0
// Which requests of a trace are replayed, when each comes, and whose it is.
#ifndef BERTH_SAMPLES_LLM_REPLAY_ROWS_H
#define BERTH_SAMPLES_LLM_REPLAY_ROWS_H

#include "request_trace.h"

/// What is asked for of a trace.
typedef struct llm_replay_rows {
    const llm_request_trace* trace; ///< borrowed
    size_t first_row;
    size_t row_count; ///< from there
    int64_t divide;   ///< by which lengths are divided
    double speed;     ///< 1: the trace's; 0: as fast as requests are taken
    uint32_t tenants; ///< requests, or sessions, go to so many in turn
} llm_replay_rows;

/// A request that comes.
typedef struct llm_replay_arrival {
    uint64_t due_ns; ///< since the first one; 0 for all that come as fast as they are taken
    size_t row;      ///< of the trace
} llm_replay_arrival;

/// Finds what cannot be replayed.
/// Errors: BERTH_ERR_INVALID_ARGUMENT names it.
BERTH_NODISCARD berth_status llm_replay_rows_check(const llm_replay_rows* rows, llm_error* error);

/// Says when each request comes, in that order. `out_arrivals` is [row_count].
void llm_replay_rows_place(const llm_replay_rows* rows, llm_replay_arrival* out_arrivals);

/// Whose the request in row `row` of the trace is: a number below `tenants`.
uint32_t llm_replay_rows_tenant(const llm_replay_rows* rows, size_t row);

#endif // BERTH_SAMPLES_LLM_REPLAY_ROWS_H
