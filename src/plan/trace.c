// SPDX-License-Identifier: Apache-2.0
// The record of one run.
#include "plan/trace.h"

#include "base/checked.h"

void berth_trace_clear(berth_trace* trace) {
    trace->events.count = 0;
    trace->values.count = 0;
    trace->dims.count = 0;
}

void berth_trace_fini(berth_trace* trace, const berth_host* host) {
    berth_trace_event_vec_fini(&trace->events, host);
    berth_trace_value_vec_fini(&trace->values, host);
    berth_trace_dim_vec_fini(&trace->dims, host);
}

uint64_t berth_trace_bytes(berth_dtype dtype, uint32_t rank, const int64_t* dims) {
    const berth_dtype_info* info = berth_dtype_query_info(dtype);
    if (info == NULL) return UINT64_MAX;
    uint64_t blocks = 1;
    bool fits = true;
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] < 0) return UINT64_MAX;
        uint64_t dim = (uint64_t)dims[i];
        if (dim == 0) return 0;
        if (i + 1 == rank) dim = dim / info->block_values + (dim % info->block_values != 0);
        fits = fits && berth_mul_u64(blocks, dim, &blocks);
    }
    uint64_t bytes = 0;
    fits = fits && berth_mul_u64(blocks, info->block_bytes, &bytes) &&
           berth_try_round_up(bytes, BERTH_PLAN_ALIGNMENT, &bytes);
    return fits ? bytes : UINT64_MAX;
}
