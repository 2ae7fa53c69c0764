// SPDX-License-Identifier: Apache-2.0
// What kernels that go along rows share: elements of a row loaded 16 bytes at a time where they lie
// so, one by one else, always the same elements by the same thread; threads that share a row.
#ifndef BERTH_DEVICE_CUDA_ROW_CUH
#define BERTH_DEVICE_CUDA_ROW_CUH

#include "device/cuda/cuda_access.cuh"
#include "device/cuda/cuda_math.cuh"
#include "device/cuda/cuda_walk.cuh"

template <class T, int V> DEVICE void to_floats(const pack<T, V>& from, float (&to)[V]) {
    UNROLL
    for (int i = 0; i < V; ++i)
        to[i] = to_f32(from.get(i));
}

/// Elements [r, r + V) of a row as f32; those from `size` on are `missing`.
template <class T, int V>
DEVICE void load_part(const T* row,
                      int64_t stride,
                      bool is_vector,
                      int64_t r,
                      int64_t size,
                      float missing,
                      float (&out)[V]) {
    if (is_vector && r + V <= size) {
        to_floats(load_pack<T, V>(row + r), out);
        return;
    }
    UNROLL
    for (int i = 0; i < V; ++i)
        out[i] = r + i < size ? to_f32(row[(r + i) * stride]) : missing;
}

/// Elements [r, r + V) of a contiguous row, rounded; those from `size` on do not exist.
template <class T, int V>
DEVICE void store_part(T* row, bool is_vector, int64_t r, int64_t size, const float (&values)[V]) {
    pack<T, V> rounded;
    UNROLL
    for (int i = 0; i < V; ++i)
        rounded.put(i, from_f32<T>(values[i]));
    if (is_vector && r + V <= size) {
        store_pack(row + r, rounded);
        return;
    }
    UNROLL
    for (int i = 0; i < V; ++i)
        if (r + i < size) row[r + i] = rounded.get(i);
}

// --- Threads that share a row -------------------------------------------------------------------

/// What a thread has of a row of at most 2^31 elements that 2^bits threads share: a warp, or the
/// whole block.
struct row_share {
    int64_t row;
    int32_t first; ///< its first vector begins at this element
    int32_t step;  ///< elements from one of its vectors to the next
    int32_t size;  ///< elements of the row; 0: there is no such row
};

template <int V> DEVICE row_share share_row(uint32_t bits, int64_t rows, int64_t size) {
    row_share share;
    share.row = grid_first() >> bits;
    share.first = (int32_t)(thread_index() & ((1u << bits) - 1u)) * V;
    share.step = V << bits;
    share.size = share.row < rows ? (int32_t)size : 0;
    return share;
}

/// This thread's vectors of a row that is whole vectors, all of which are under way before any is
/// used; where there is none, `missing`, which every type has. Kept as they lie in memory: halves
/// need half the registers.
template <class T, int VECTORS, int V>
DEVICE void load_row(const T* row,
                     const row_share& share,
                     float missing,
                     pack<T, V> (&out)[VECTORS]) {
    UNROLL
    for (int k = 0; k < VECTORS; ++k) {
        const int32_t r = share.first + k * share.step;
        out[k] = repeat_pack<T, V>(from_f32<T>(missing));
        if (r < share.size) out[k] = load_pack<T, V>(row + r);
    }
}

/// `join` over the values of the 2^bits threads that share a row. Every thread of the block calls
/// it.
template <class T, class Join> DEVICE T row_reduce(uint32_t bits, T value, T identity, Join join) {
    if ((1u << bits) == BERTH_CUDA_WARP) return warp_reduce(value, join);
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
