// SPDX-License-Identifier: Apache-2.0
// Arguments of the kernels in cuda_index.cu.
#ifndef BERTH_DEVICE_CUDA_ARGS_INDEX_H
#define BERTH_DEVICE_CUDA_ARGS_INDEX_H

#include "device/cuda/cuda_walk.h"

#define BERTH_CUDA_KERNEL_MAP_INDEX(X)

#endif // BERTH_DEVICE_CUDA_ARGS_INDEX_H
