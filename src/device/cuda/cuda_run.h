// SPDX-License-Identifier: Apache-2.0
// The op that this thread is launching: what the functions of cuda_launch.h stand on.
#ifndef BERTH_DEVICE_CUDA_RUN_H
#define BERTH_DEVICE_CUDA_RUN_H

#include "device/cuda/cuda_internal.h"

/// Begins: what is run from now on goes to `stream` of `cuda`, whose context is current.
void berth_cuda_run_begin(cuda_device* cuda, cu_stream stream);
/// Ends it; returns what went wrong first.
BERTH_NODISCARD berth_status berth_cuda_run_end(void);

#endif // BERTH_DEVICE_CUDA_RUN_H
