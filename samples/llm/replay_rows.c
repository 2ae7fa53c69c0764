// SPDX-License-Identifier: Apache-2.0
// Rows of a trace in the order of their coming.
#include "replay_rows.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/// A replay's clock goes this far, which is 285 years: what comes later comes then.
#define MOST_NS 9e18

berth_status llm_replay_rows_check(const llm_replay_rows* rows, llm_error* error) {
    const llm_request_trace* trace = rows->trace;
    if (rows->row_count == 0 || rows->first_row >= trace->row_count ||
        rows->row_count > trace->row_count - rows->first_row)
        return llm_fail(error,
                        BERTH_ERR_INVALID_ARGUMENT,
                        "%zu requests from number %zu on are asked for; the trace has %zu",
                        rows->row_count,
                        rows->first_row,
                        trace->row_count);
    if (rows->divide < 1 || rows->tenants < 1 || !(rows->speed >= 0.0))
        return llm_fail(error,
                        BERTH_ERR_INVALID_ARGUMENT,
                        "a divisor of %" PRId64 ", %u tenants and speed %g are asked for; there "
                        "must be a divisor and a tenant at least",
                        rows->divide,
                        (unsigned)rows->tenants,
                        rows->speed);
    if (rows->speed > 0.0 && trace->rows[rows->first_row].arrival_ms < 0.0)
        return llm_fail(error,
                        BERTH_ERR_INVALID_ARGUMENT,
                        "the trace does not say when its requests came, so that they have no "
                        "speed: only as fast as possible");
    return BERTH_OK;
}

static int by_arrival(const void* a, const void* b) {
    const llm_replay_arrival* left = a;
    const llm_replay_arrival* right = b;
    if (left->due_ns != right->due_ns) return left->due_ns < right->due_ns ? -1 : 1;
    return (left->row > right->row) - (left->row < right->row);
}

void llm_replay_rows_place(const llm_replay_rows* rows, llm_replay_arrival* out_arrivals) {
    const llm_trace_row* all = rows->trace->rows + rows->first_row;
    double first_ms = all[0].arrival_ms;
    for (size_t i = 0; i < rows->row_count; i++)
        first_ms = fmin(first_ms, all[i].arrival_ms);
    for (size_t i = 0; i < rows->row_count; i++) {
        out_arrivals[i] = (llm_replay_arrival){.row = rows->first_row + i};
        if (rows->speed > 0.0)
            out_arrivals[i].due_ns =
                (uint64_t)fmin((all[i].arrival_ms - first_ms) * 1e6 / rows->speed, MOST_NS);
    }
    qsort(out_arrivals, rows->row_count, sizeof *out_arrivals, by_arrival);
}

uint32_t llm_replay_rows_tenant(const llm_replay_rows* rows, size_t row) {
    const int64_t session = rows->trace->rows[row].session;
    return (uint32_t)((session >= 0 ? (uint64_t)session : (uint64_t)row) % rows->tenants);
}
