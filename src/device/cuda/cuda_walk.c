// SPDX-License-Identifier: Apache-2.0
// Makes walks.
#include "device/cuda/cuda_walk.h"

#include "device/cuda/cuda_launch.h"

berth_cuda_divisor berth_cuda_divisor_make(int64_t size) {
    berth_cuda_divisor divisor = {.size = size};
    if (size > INT32_MAX) return divisor; // only ever divides by `size` itself
    while (INT64_C(1) << divisor.shift < size)
        ++divisor.shift;
    const uint64_t above = (UINT64_C(1) << divisor.shift) - (uint64_t)size;
    divisor.factor = (uint32_t)((above << 32) / (uint64_t)size + 1);
    return divisor;
}

berth_cuda_walk berth_cuda_walk_begin(void) { return (berth_cuda_walk){.count = 1}; }

void berth_cuda_walk_append(berth_cuda_walk* walk,
                            int64_t size,
                            const int64_t strides[BERTH_CUDA_WALK_OPERANDS]) {
    walk->count *= size;
    if (size == 1) return;
    bool joins = walk->rank > 0;
    for (int32_t i = 0; i < BERTH_CUDA_WALK_OPERANDS && joins; ++i)
        joins = walk->strides[i][walk->rank - 1] == strides[i] * size;
    if (joins)
        walk->dims[walk->rank - 1].size *= size;
    else
        walk->dims[walk->rank++].size = size;
    for (int32_t i = 0; i < BERTH_CUDA_WALK_OPERANDS; ++i)
        walk->strides[i][walk->rank - 1] = strides[i];
}

uint32_t berth_cuda_walk_widen(berth_cuda_walk* walk,
                               uint32_t moved,
                               int64_t item_bytes,
                               uint64_t places) {
    const int32_t last = walk->rank - 1;
    if (walk->count == 0 || last < 0) return (uint32_t)item_bytes;
    // whatever is a multiple of the unit, in bytes, has none of the bits below it
    const uint64_t item = (uint64_t)item_bytes;
    uint64_t bits = places | (uint64_t)walk->dims[last].size * item | BERTH_CUDA_UNIT_BYTES;
    for (uint32_t i = 0; i < BERTH_CUDA_WALK_OPERANDS; ++i) {
        const bool is_moved = (moved >> i & 1) != 0;
        if (walk->strides[i][last] != (is_moved ? 1 : 0)) return (uint32_t)item_bytes;
        for (int32_t d = 0; d < last && is_moved; ++d)
            bits |= (uint64_t)walk->strides[i][d] * item;
    }
    const int64_t unit_bytes = (int64_t)(bits & (~bits + 1));
    const int64_t items = unit_bytes / item_bytes;
    if (items <= 1) return (uint32_t)item_bytes;
    walk->count /= items;
    walk->dims[last].size /= items;
    for (uint32_t i = 0; i < BERTH_CUDA_WALK_OPERANDS; ++i)
        for (int32_t d = 0; d < last && (moved >> i & 1) != 0; ++d)
            walk->strides[i][d] /= items;
    return (uint32_t)unit_bytes;
}

void berth_cuda_walk_finish(berth_cuda_walk* walk) {
    walk->is_small = walk->count < INT32_MAX;
    for (int32_t d = 0; d < walk->rank && walk->count > 0; ++d)
        walk->dims[d] = berth_cuda_divisor_make(walk->dims[d].size);
}

void berth_cuda_walk_make(const berth_view* shape,
                          uint32_t operand_count,
                          const berth_view* const* operands,
                          berth_cuda_walk* out_walk) {
    *out_walk = berth_cuda_walk_begin();
    for (int32_t d = 0; d < shape->rank; ++d) {
        int64_t strides[BERTH_CUDA_WALK_OPERANDS] = {0};
        for (uint32_t i = 0; i < operand_count; ++i)
            strides[i] = berth_cuda_broadcast_stride(operands[i], shape->rank, d);
        berth_cuda_walk_append(out_walk, shape->dims[d], strides);
    }
    berth_cuda_walk_finish(out_walk);
}

bool berth_cuda_walk_is_dense(const berth_cuda_walk* walk, uint32_t operand) {
    return walk->rank == 0 || (walk->rank == 1 && walk->strides[operand][0] == 1);
}
