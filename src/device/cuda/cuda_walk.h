// SPDX-License-Identifier: Apache-2.0
// Row-major walks over strided operands, as kernels take them: few dimensions, those that lie one
// after another joined. Plain C, for the host and for nvcc.
#ifndef BERTH_DEVICE_CUDA_WALK_H
#define BERTH_DEVICE_CUDA_WALK_H

#include "berth/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BERTH_CUDA_WALK_OPERANDS 4

/// Element i of the walk is at sum over d of index[d] * strides[operand][d] elements, where index
/// is i's place in dims, the last one fastest.
typedef struct berth_cuda_walk {
    int64_t count;     ///< elements in all
    int32_t rank;      ///< 0 (then count is 0 or 1) .. BERTH_MAX_RANK
    uint32_t is_small; ///< 1: count, so every index, is below 2^31
    int64_t dims[BERTH_MAX_RANK];
    int64_t strides[BERTH_CUDA_WALK_OPERANDS][BERTH_MAX_RANK]; ///< in elements
} berth_cuda_walk;

/// The walk over `shape`'s dimensions of `operands` [operand_count], each of which broadcasts to it
/// (dimensions matched from the last, those of size 1 repeated). Dimensions of size 1 are dropped,
/// and neighbours joined where that is right for every operand.
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
