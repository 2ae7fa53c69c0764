// SPDX-License-Identifier: Apache-2.0
// Arguments of the kernel in cuda_move.cu.
#ifndef BERTH_DEVICE_CUDA_ARGS_MOVE_H
#define BERTH_DEVICE_CUDA_ARGS_MOVE_H

#include <stdint.h>

/// Bytes moved to where they may overlap what they were; one block runs.
typedef struct berth_cuda_move_args {
    unsigned char* target;
    const unsigned char* source;
    uint64_t bytes;
} berth_cuda_move_args;

#define BERTH_CUDA_KERNEL_MAP_MOVE(X) X(move, berth_cuda_move_args, true)

#endif // BERTH_DEVICE_CUDA_ARGS_MOVE_H
