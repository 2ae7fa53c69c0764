// SPDX-License-Identifier: Apache-2.0
// Arguments of the kernels in cuda_elementwise.cu.
#ifndef BERTH_DEVICE_CUDA_ARGS_ELEMENTWISE_H
#define BERTH_DEVICE_CUDA_ARGS_ELEMENTWISE_H

#include "device/cuda/cuda_walk.h"

#define BERTH_CUDA_KERNEL_MAP_ELEMENTWISE(X)

#endif // BERTH_DEVICE_CUDA_ARGS_ELEMENTWISE_H
