// SPDX-License-Identifier: Apache-2.0
// Numbers that come as double in an op's parameters, as elements.
#ifndef BERTH_DEVICE_CUDA_LAUNCH_VALUE_H
#define BERTH_DEVICE_CUDA_LAUNCH_VALUE_H

#include "base/dtype.h"

/// `value` toward zero, within what the integer type holds; NaN is 0.
int64_t berth_cuda_value_to_whole(berth_dtype dtype, double value);

/// Writes `value` at `item`, which has room for 8 bytes, as FILL converts it to the plain type.
void berth_cuda_value_store(berth_dtype dtype, double value, void* item);

#endif // BERTH_DEVICE_CUDA_LAUNCH_VALUE_H
