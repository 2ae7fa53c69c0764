// SPDX-License-Identifier: Apache-2.0
// The independent checker of packings: shares no code with the solvers.
#ifndef BERTH_PLAN_VERIFY_H
#define BERTH_PLAN_VERIFY_H

#include "base/host.h"
#include "berth/pack.h"

/// What a packing is, found by the checker alone.
typedef struct berth_verify_result {
    bool valid; ///< no two buffers alive at one moment share a byte (P1), every offset is aligned
    uint32_t first;  ///< if two overlap: their indices
    uint32_t second; ///< likewise; equal to first if that one is misaligned or too large
    uint64_t peak;
    uint64_t lower_bound;
} berth_verify_result;

/// Checks `offsets` [count] for `intervals` [count], whose sizes are taken as they are; offsets are
/// multiples of `alignment`, a power of two.
/// Errors: BERTH_ERR_OUT_OF_MEMORY.
/// Cost:   O(count * (log count + buffers alive at a time)).
BERTH_NODISCARD berth_status berth_verify_packing(const berth_host* host,
                                                  const berth_interval* intervals,
                                                  size_t count,
                                                  uint64_t alignment,
                                                  const uint64_t* offsets,
                                                  berth_verify_result* out_result);

#endif // BERTH_PLAN_VERIFY_H
