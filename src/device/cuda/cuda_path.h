// SPDX-License-Identifier: Apache-2.0
// Paths: row-major walks over operands whose elements are moved rather than computed. Unlike
// cuda_walk.h's, they have room for dimensions that are cut in two, count units of up to 16 bytes
// where neighbours stay together, and divide by multiplying. Plain C, for the host and for nvcc.
#ifndef BERTH_DEVICE_CUDA_PATH_H
#define BERTH_DEVICE_CUDA_PATH_H

#include "berth/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BERTH_CUDA_PATH_RANK (2 * BERTH_MAX_RANK)
#define BERTH_CUDA_PATH_OPERANDS 3
#define BERTH_CUDA_UNIT_BYTES 16

/// A number to divide by: i / size is (high half of i * factor, plus i) >> shift for i below 2^31.
typedef struct berth_cuda_divisor {
    int64_t size; ///< at least 1
    uint32_t factor;
    uint32_t shift;
} berth_cuda_divisor;

/// Step i of the path is at sum over d of index[d] * strides[operand][d] units of each operand,
/// where index is i's place in dims, the last one fastest.
typedef struct berth_cuda_path {
    int64_t count;
    int32_t rank;      ///< 0 (then count is 0 or 1) .. BERTH_CUDA_PATH_RANK
    uint32_t is_small; ///< 1: count, so every index, is below 2^31
    berth_cuda_divisor dims[BERTH_CUDA_PATH_RANK];
    int64_t strides[BERTH_CUDA_PATH_OPERANDS][BERTH_CUDA_PATH_RANK];
} berth_cuda_path;

/// `size` >= 1 to divide by.
berth_cuda_divisor berth_cuda_divisor_make(int64_t size);

/// The path of one step.
berth_cuda_path berth_cuda_path_make(void);

/// Adds a faster dimension, joined with the last one where that is right for all operands.
void berth_cuda_path_append(berth_cuda_path* path,
                            int64_t size,
                            const int64_t strides[BERTH_CUDA_PATH_OPERANDS]);

/// Makes units of the elements, of `item_bytes`, of the operands in the set `moved` (bit i for
/// operand i): as many as stay together in all of them, while the other operands stand still, and
/// as the bits of `places`, every address and every other step in bytes, allow. Returns a unit's
/// bytes, 1 .. BERTH_CUDA_UNIT_BYTES.
uint32_t berth_cuda_path_widen(berth_cuda_path* path,
                               uint32_t moved,
                               int64_t item_bytes,
                               uint64_t places);

/// Completes a path to which nothing more is added.
void berth_cuda_path_finish(berth_cuda_path* path);

#ifdef __cplusplus
}
#endif

#endif // BERTH_DEVICE_CUDA_PATH_H
