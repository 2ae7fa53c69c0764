// SPDX-License-Identifier: Apache-2.0
// How far a GPU's result may be from the CPU's.
#ifndef BERTH_TESTS_GPU_TOLERANCE_H
#define BERTH_TESTS_GPU_TOLERANCE_H

#include "base/op_map.h"
#include "berth/op.h"

/// What the results of one call are compared by.
typedef struct gpu_tolerance {
    double relative; ///< of the expected number
    double absolute;
} gpu_tolerance;

/// What is allowed of output 0 and the others of `call`, whose operands lie in the host's memory.
/// Both 0: the numbers must be equal.
gpu_tolerance gpu_tolerance_of(berth_op_id op, const berth_op_call* call);

/// The difference of `found` from `expected`, numbers of type `dtype`, as a share of what is
/// allowed: at most 1 if it is fine.
double gpu_tolerance_share(gpu_tolerance allowed, berth_dtype dtype, double expected, double found);

#endif // BERTH_TESTS_GPU_TOLERANCE_H
