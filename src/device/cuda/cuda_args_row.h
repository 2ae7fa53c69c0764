// SPDX-License-Identifier: Apache-2.0
// Arguments of the kernels in cuda_row.cu.
#ifndef BERTH_DEVICE_CUDA_ARGS_ROW_H
#define BERTH_DEVICE_CUDA_ARGS_ROW_H

#include "device/cuda/cuda_walk.h"

#define BERTH_CUDA_KERNEL_MAP_ROW(X)

#endif // BERTH_DEVICE_CUDA_ARGS_ROW_H
