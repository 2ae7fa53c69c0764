// SPDX-License-Identifier: Apache-2.0
// The one list of device kernels. Each takes one struct of arguments by value; the families'
// headers declare the structs and name the kernels, which the .cu files define.
#ifndef BERTH_DEVICE_CUDA_KERNELS_H
#define BERTH_DEVICE_CUDA_KERNELS_H

#include "device/cuda/cuda_args_elementwise.h"
#include "device/cuda/cuda_args_index.h"
#include "device/cuda/cuda_args_matrix.h"
#include "device/cuda/cuda_args_move.h"
#include "device/cuda/cuda_args_row.h"
#include "device/cuda/cuda_args_sort.h"

/// X(name, struct of arguments, is_cooperative). The kernel's symbol is berth_cuda_<name>. One that
/// is cooperative waits for other threads of its block (sync_block(), warp_*()).
#define BERTH_CUDA_KERNEL_MAP(X)                                                                   \
    BERTH_CUDA_KERNEL_MAP_ELEMENTWISE(X)                                                           \
    BERTH_CUDA_KERNEL_MAP_ROW(X)                                                                   \
    BERTH_CUDA_KERNEL_MAP_INDEX(X)                                                                 \
    BERTH_CUDA_KERNEL_MAP_MATRIX(X)                                                                \
    BERTH_CUDA_KERNEL_MAP_SORT(X)                                                                  \
    BERTH_CUDA_KERNEL_MAP_MOVE(X)

typedef enum berth_cuda_kernel {
#define BERTH_CUDA_KERNEL_ENUM(name, args, is_cooperative) BERTH_CUDA_KERNEL_##name,
    BERTH_CUDA_KERNEL_MAP(BERTH_CUDA_KERNEL_ENUM)
#undef BERTH_CUDA_KERNEL_ENUM
        BERTH_CUDA_KERNEL_COUNT
} berth_cuda_kernel;

#endif // BERTH_DEVICE_CUDA_KERNELS_H
