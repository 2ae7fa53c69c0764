// SPDX-License-Identifier: Apache-2.0
// Arguments of the kernels in cuda_sort.cu.
#ifndef BERTH_DEVICE_CUDA_ARGS_SORT_H
#define BERTH_DEVICE_CUDA_ARGS_SORT_H

#include "device/cuda/cuda_walk.h"

#define BERTH_CUDA_KERNEL_MAP_SORT(X)

#endif // BERTH_DEVICE_CUDA_ARGS_SORT_H
