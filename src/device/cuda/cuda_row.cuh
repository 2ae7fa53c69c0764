// SPDX-License-Identifier: Apache-2.0
// What kernels that go along rows share: elements of a row loaded 16 bytes at a time where they lie
// so, one by one else, always the same elements by the same thread; groups of threads that share a
// row.
#ifndef BERTH_DEVICE_CUDA_ROW_CUH
#define BERTH_DEVICE_CUDA_ROW_CUH

#include "device/cuda/cuda_access.cuh"
#include "device/cuda/cuda_walk.cuh"

/// Elements [r, r + V) of a row as f32; those from `size` on are `missing`. IS_DENSE: all rows are
/// vectors and nothing else, which spares registers.
template <class T, int V, bool IS_DENSE = false>
DEVICE void load_part(const T* row,
                      int64_t stride,
                      bool is_vector,
                      int64_t r,
                      int64_t size,
                      float missing,
                      float (&out)[V]) {
    if ((IS_DENSE || is_vector) && r + V <= size) {
        T values[V];
        load_dense<T, V>(row + r, values);
        UNROLL
        for (int i = 0; i < V; ++i)
            out[i] = to_f32(values[i]);
        return;
    }
    UNROLL
    for (int i = 0; i < V; ++i)
        out[i] = !IS_DENSE && r + i < size ? to_f32(row[(r + i) * stride]) : missing;
}

/// Elements [r, r + V) of a contiguous row, rounded; those from `size` on do not exist.
template <class T, int V, bool IS_DENSE = false>
DEVICE void store_part(T* row, bool is_vector, int64_t r, int64_t size, const float (&values)[V]) {
    if ((IS_DENSE || is_vector) && r + V <= size) {
        T rounded[V];
        UNROLL
        for (int i = 0; i < V; ++i)
            rounded[i] = from_f32<T>(values[i]);
        store_dense<T, V>(row + r, rounded);
        return;
    }
    UNROLL
    for (int i = 0; i < V; ++i)
        if (!IS_DENSE && r + i < size) row[r + i] = from_f32<T>(values[i]);
}

// --- Groups of threads that share a row ---------------------------------------------------------

/// `join` over the values of the `threads` that share a row: a warp, or the whole block. Every
/// thread of the block calls it.
template <class T, class Join>
DEVICE T row_reduce(uint32_t threads, T value, T identity, Join join) {
    if (threads == BERTH_CUDA_WARP) return warp_reduce(value, join);
    return block_reduce(value, identity, join);
}

struct add_floats {
    MEMBER float operator()(float a, float b) const { return a + b; }
};
struct add_doubles {
    MEMBER double operator()(double a, double b) const { return a + b; }
};
struct larger_float {
    MEMBER float operator()(float a, float b) const { return fmaxf(a, b); }
};

#endif // BERTH_DEVICE_CUDA_ROW_CUH
