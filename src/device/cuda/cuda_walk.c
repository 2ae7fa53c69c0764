// SPDX-License-Identifier: Apache-2.0
// Makes walks of views.
#include "device/cuda/cuda_walk.h"

#include "device/cuda/cuda_launch.h"

/// True if dimension `size` with `strides` continues the walk's last one for every operand.
static bool joins(const berth_cuda_walk* walk,
                  uint32_t operand_count,
                  int64_t size,
                  const int64_t* strides) {
    if (walk->rank == 0) return false;
    for (uint32_t i = 0; i < operand_count; ++i)
        if (walk->strides[i][walk->rank - 1] != strides[i] * size) return false;
    return true;
}

void berth_cuda_walk_make(const berth_view* shape,
                          uint32_t operand_count,
                          const berth_view* const* operands,
                          berth_cuda_walk* out_walk) {
    *out_walk = (berth_cuda_walk){.count = 1};
    for (int32_t d = 0; d < shape->rank; ++d) {
        const int64_t size = shape->dims[d];
        out_walk->count *= size;
        if (size == 1) continue;
        int64_t strides[BERTH_CUDA_WALK_OPERANDS];
        for (uint32_t i = 0; i < operand_count; ++i)
            strides[i] = berth_cuda_broadcast_stride(operands[i], shape->rank, d);
        if (joins(out_walk, operand_count, size, strides))
            out_walk->dims[out_walk->rank - 1] *= size;
        else
            out_walk->dims[out_walk->rank++] = size;
        for (uint32_t i = 0; i < operand_count; ++i)
            out_walk->strides[i][out_walk->rank - 1] = strides[i];
    }
    out_walk->is_small = out_walk->count < INT32_MAX;
}

bool berth_cuda_walk_is_dense(const berth_cuda_walk* walk, uint32_t operand) {
    return walk->rank == 0 || (walk->rank == 1 && walk->strides[operand][0] == 1);
}
