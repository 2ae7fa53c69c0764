// SPDX-License-Identifier: Apache-2.0
// Following the walks of cuda_walk.h.
#ifndef BERTH_DEVICE_CUDA_WALK_CUH
#define BERTH_DEVICE_CUDA_WALK_CUH

#include "device/cuda/cuda_layer.cuh"
#include "device/cuda/cuda_walk.h"

/// Divides `index`, below 2^31; it becomes what is left.
DEVICE uint32_t divide(const berth_cuda_divisor& by, uint32_t& index) {
    const uint32_t high = (uint32_t)((uint64_t)index * by.factor >> 32);
    const uint32_t whole = (high + index) >> by.shift;
    index -= whole * (uint32_t)by.size;
    return whole;
}

/// The same for any index >= 0.
DEVICE int64_t divide_any(const berth_cuda_divisor& by, bool is_small, int64_t& index) {
    if (is_small) {
        uint32_t rest = (uint32_t)index;
        const uint32_t whole = divide(by, rest);
        index = rest;
        return whole;
    }
    const int64_t whole = index / by.size;
    index -= whole * by.size;
    return whole;
}

/// Where a step is in each of N operands, in units.
template <int N> struct walk_place { int64_t of[N]; };

template <int N>
DEVICE void add_place(const berth_cuda_walk& walk, walk_place<N>& place, int32_t dim, int64_t at) {
    UNROLL
    for (int i = 0; i < N; ++i)
        place.of[i] += at * walk.strides[i][dim];
}

/// Where step `step` of a walk is that is small, or has one dimension at most.
template <int N> DEVICE walk_place<N> walk_near(const berth_cuda_walk& walk, int64_t step) {
    walk_place<N> place;
    UNROLL
    for (int i = 0; i < N; ++i)
        place.of[i] = 0;
    UNROLL_BY(1)
    for (int32_t d = walk.rank - 1; d > 0; --d) {
        uint32_t at = (uint32_t)step;
        step = divide(walk.dims[d], at);
        add_place(walk, place, d, at);
    }
    // what is left is the place in the first dimension: nothing to divide
    if (walk.rank > 0) add_place(walk, place, 0, step);
    return place;
}

/// The same of any walk.
template <int N> DEVICE walk_place<N> walk_to(const berth_cuda_walk& walk, int64_t step) {
    walk_place<N> place;
    UNROLL
    for (int i = 0; i < N; ++i)
        place.of[i] = 0;
    UNROLL_BY(1)
    for (int32_t d = walk.rank - 1; d > 0; --d) {
        int64_t at = step;
        step = divide_any(walk.dims[d], walk.is_small != 0, at);
        add_place(walk, place, d, at);
    }
    if (walk.rank > 0) add_place(walk, place, 0, step);
    return place;
}

#endif // BERTH_DEVICE_CUDA_WALK_CUH
