// SPDX-License-Identifier: Apache-2.0
// What the launchers of reductions, softmax, norms, running sums and rope share.
#ifndef BERTH_DEVICE_CUDA_LAUNCH_ROW_H
#define BERTH_DEVICE_CUDA_LAUNCH_ROW_H

#include "device/cuda/cuda_launch.h"

static inline int64_t berth_cuda_magnitude(int64_t value) { return value < 0 ? -value : value; }

/// The least power of two >= `value`.
static inline int64_t berth_cuda_power_of_two(int64_t value) {
    int64_t power = 1;
    while (power < value)
        power *= 2;
    return power;
}

/// True if what is at `data` can be read 16 bytes at a time.
static inline bool berth_cuda_is_aligned(const void* data) { return (uintptr_t)data % 16 == 0; }

/// The walk over those dimensions of `view` that are in `mask`.
void berth_cuda_walk_dims(const berth_view* view, uint32_t mask, berth_cuda_walk* out_walk);

/// True if every element of the walk is at a multiple of `step` elements.
bool berth_cuda_walk_keeps(const berth_cuda_walk* walk, int64_t step);

/// Folds `x` over the dimensions in `mask` by `kernel` to `out`, whose type is `finish`'s matter
/// (berth_cuda_reduce_finish), with `scratch` of berth_cuda_reduce_scratch() bytes.
void berth_cuda_reduce(berth_cuda_kernel kernel,
                       const berth_view* x,
                       uint32_t mask,
                       uint32_t finish,
                       double correction,
                       void* out,
                       void* scratch);

/// Workspace of berth_cuda_reduce(), a multiple of 64 bytes.
uint64_t berth_cuda_reduce_scratch(const berth_view* x, uint32_t mask);

void berth_cuda_fill_reduce(berth_cuda_table* table);
void berth_cuda_fill_norm(berth_cuda_table* table); ///< and softmax
void berth_cuda_fill_running(berth_cuda_table* table);
void berth_cuda_fill_rope(berth_cuda_table* table);

#endif // BERTH_DEVICE_CUDA_LAUNCH_ROW_H
