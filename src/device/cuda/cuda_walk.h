// SPDX-License-Identifier: Apache-2.0
// Walks: row-major ways over strided operands, as kernels take them. Few dimensions, those that lie
// one after another joined; units of up to 16 bytes where neighbours stay together; divisions that
// are multiplications. Plain C, for the host and for nvcc (cuda_walk.cuh follows them).
#ifndef BERTH_DEVICE_CUDA_WALK_H
#define BERTH_DEVICE_CUDA_WALK_H

#include "berth/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BERTH_CUDA_WALK_RANK (2 * BERTH_MAX_RANK) ///< room for dimensions that are cut in two
#define BERTH_CUDA_WALK_OPERANDS 3
#define BERTH_CUDA_UNIT_BYTES 16

/// A number to divide by: i / size is (high half of i * factor, plus i) >> shift for i below 2^31.
typedef struct berth_cuda_divisor {
    int64_t size; ///< at least 1
    uint32_t factor;
    uint32_t shift;
} berth_cuda_divisor;

/// Step i of the walk is at sum over d of index[d] * strides[operand][d] units of each operand,
/// where index is i's place in dims, the last one fastest. A unit is an element, unless it is said
/// to be something else.
typedef struct berth_cuda_walk {
    int64_t count;     ///< steps
    int32_t rank;      ///< 0 (then count is 0 or 1) .. BERTH_CUDA_WALK_RANK
    uint32_t is_small; ///< 1: count, so every index, is below 2^31
    berth_cuda_divisor dims[BERTH_CUDA_WALK_RANK];
    int64_t strides[BERTH_CUDA_WALK_OPERANDS][BERTH_CUDA_WALK_RANK];
} berth_cuda_walk;

/// `size` >= 1 to divide by.
berth_cuda_divisor berth_cuda_divisor_make(int64_t size);

/// A walk of one step.
berth_cuda_walk berth_cuda_walk_begin(void);

/// Adds a faster dimension, joined with the last one where that is right for all operands;
/// dimensions of size 1 are dropped.
void berth_cuda_walk_append(berth_cuda_walk* walk,
                            int64_t size,
                            const int64_t strides[BERTH_CUDA_WALK_OPERANDS]);

/// Makes units of the elements, of `item_bytes`, of the operands in the set `moved` (bit i for
/// operand i): as many as stay together in all of them, while the other operands stand still, and
/// as the bits of `places`, every address and every other step in bytes, allow. Returns a unit's
/// bytes, 1 .. BERTH_CUDA_UNIT_BYTES.
uint32_t berth_cuda_walk_widen(berth_cuda_walk* walk,
                               uint32_t moved,
                               int64_t item_bytes,
                               uint64_t places);

/// Completes a walk whose count and sizes are what they stay; again, after they have changed.
void berth_cuda_walk_finish(berth_cuda_walk* walk);

/// The whole walk over `shape`'s dimensions of `operands` [operand_count], each of which broadcasts
/// to it (dimensions matched from the last, those of size 1 repeated).
void berth_cuda_walk_make(const berth_view* shape,
                          uint32_t operand_count,
                          const berth_view* const* operands,
                          berth_cuda_walk* out_walk);

/// True if operand's elements lie one after another, so that element i is at i.
bool berth_cuda_walk_is_dense(const berth_cuda_walk* walk, uint32_t operand);

#ifdef __cplusplus
}
#endif

#endif // BERTH_DEVICE_CUDA_WALK_H
