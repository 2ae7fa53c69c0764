// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/cuda_path.h"

berth_cuda_divisor berth_cuda_divisor_make(int64_t size) {
    berth_cuda_divisor divisor = {.size = size};
    if (size > INT32_MAX) return divisor; // only ever divides by `size` itself
    while (INT64_C(1) << divisor.shift < size)
        ++divisor.shift;
    const uint64_t above = (UINT64_C(1) << divisor.shift) - (uint64_t)size;
    divisor.factor = (uint32_t)((above << 32) / (uint64_t)size + 1);
    return divisor;
}

berth_cuda_path berth_cuda_path_make(void) { return (berth_cuda_path){.count = 1}; }

void berth_cuda_path_append(berth_cuda_path* path,
                            int64_t size,
                            const int64_t strides[BERTH_CUDA_PATH_OPERANDS]) {
    path->count *= size;
    if (size == 1) return;
    bool joins = path->rank > 0;
    for (int32_t i = 0; i < BERTH_CUDA_PATH_OPERANDS && joins; ++i)
        joins = path->strides[i][path->rank - 1] == strides[i] * size;
    if (joins)
        path->dims[path->rank - 1].size *= size;
    else
        path->dims[path->rank++].size = size;
    for (int32_t i = 0; i < BERTH_CUDA_PATH_OPERANDS; ++i)
        path->strides[i][path->rank - 1] = strides[i];
}

uint32_t berth_cuda_path_widen(berth_cuda_path* path,
                               uint32_t moved,
                               int64_t item_bytes,
                               uint64_t places) {
    const int32_t last = path->rank - 1;
    if (path->count == 0 || last < 0) return (uint32_t)item_bytes;
    // whatever is a multiple of the unit, in bytes, has none of the bits below it
    const uint64_t item = (uint64_t)item_bytes;
    uint64_t bits = places | (uint64_t)path->dims[last].size * item | BERTH_CUDA_UNIT_BYTES;
    for (uint32_t i = 0; i < BERTH_CUDA_PATH_OPERANDS; ++i) {
        const bool is_moved = (moved >> i & 1) != 0;
        if (path->strides[i][last] != (is_moved ? 1 : 0)) return (uint32_t)item_bytes;
        for (int32_t d = 0; d < last && is_moved; ++d)
            bits |= (uint64_t)path->strides[i][d] * item;
    }
    const int64_t unit_bytes = (int64_t)(bits & (~bits + 1));
    const int64_t items = unit_bytes / item_bytes;
    if (items <= 1) return (uint32_t)item_bytes;
    path->count /= items;
    path->dims[last].size /= items;
    for (uint32_t i = 0; i < BERTH_CUDA_PATH_OPERANDS; ++i)
        for (int32_t d = 0; d < last && (moved >> i & 1) != 0; ++d)
            path->strides[i][d] /= items;
    return (uint32_t)unit_bytes;
}

void berth_cuda_path_finish(berth_cuda_path* path) {
    path->is_small = path->count < INT32_MAX;
    for (int32_t d = 0; d < path->rank && path->count > 0; ++d)
        path->dims[d] = berth_cuda_divisor_make(path->dims[d].size);
}
