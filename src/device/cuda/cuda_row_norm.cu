// SPDX-License-Identifier: Apache-2.0
// RMS_NORM and LAYER_NORM. A row is read once and kept in registers by the threads that share it: a
// warp, or a block for longer ones. Rows longer than a block keeps are read again.
#include "device/cuda/cuda_row.cuh"

namespace {

/// What makes a row's mean 0 (if that is asked for) and its mean square 1.
struct row_norm {
    float mean;
    float rest; ///< of the mean, what its f32 leaves out
    float scale;
};

template <class T, int V, bool IS_DENSE>
DEVICE void load_columns_of(
    const berth_cuda_columns& columns, int64_t r, int64_t size, float missing, float (&out)[V]) {
    load_part<T, V, IS_DENSE>(
        (const T*)columns.data, columns.stride, columns.is_vector != 0, r, size, missing, out);
}

/// Columns [r, r + V); `missing` where there are none.
template <int V, bool IS_DENSE>
DEVICE void load_columns(
    const berth_cuda_columns& columns, int64_t r, int64_t size, float missing, float (&out)[V]) {
    if (columns.data == nullptr) {
        UNROLL
        for (int i = 0; i < V; ++i)
            out[i] = missing;
    } else {
        with_real(columns.dtype, [&](auto type) {
            load_columns_of<decltype(type), V, IS_DENSE>(columns, r, size, missing, out);
        });
    }
}

/// Writes elements [r, r + V) of a row, from `x`.
template <class T, int V, bool IS_DENSE>
DEVICE void store_normed(
    const berth_cuda_norm_args& args, T* out, int64_t r, const row_norm& norm, float (&x)[V]) {
    float of_columns[V];
    load_columns<V, IS_DENSE>(args.weight, r, args.size, 1.0f, of_columns);
    UNROLL
    for (int i = 0; i < V; ++i) {
        const float centred = (x[i] - norm.mean) - norm.rest;
        x[i] = rounded_product(rounded_product(centred, norm.scale), of_columns[i]);
    }
    if (args.bias.data != nullptr) { // after the weights, which took registers
        load_columns<V, IS_DENSE>(args.bias, r, args.size, 0.0f, of_columns);
        UNROLL
        for (int i = 0; i < V; ++i)
            x[i] += of_columns[i];
    }
    store_part<T, V, IS_DENSE>(out, args.is_vector_to != 0, r, args.size, x);
}

/// The mean of a row, of whose elements this thread's add up to `sum`.
DEVICE row_norm centre(const berth_cuda_norm_args& args, double sum) {
    if (!args.is_layer) return row_norm{0.0f, 0.0f, 0.0f};
    const double mean = row_reduce(args.row_threads, sum, 0.0, add_doubles()) / (double)args.size;
    const float rounded = (float)mean;
    return row_norm{rounded, (float)(mean - (double)rounded), 0.0f};
}

DEVICE float scale_of(const berth_cuda_norm_args& args, float squares) {
    const double all = row_reduce(args.row_threads, (double)squares, 0.0, add_doubles());
    return (float)(1.0 / sqrt(all / (double)args.size + (double)args.eps));
}

template <int V> DEVICE double sum_of(const float (&x)[V]) {
    double sum = 0.0;
    UNROLL
    for (int i = 0; i < V; ++i)
        sum += (double)x[i];
    return sum;
}

/// Adds the squares of elements [r, r + V), of those that exist, less their mean.
template <int V>
DEVICE float add_squares(
    float squares, const row_norm& norm, const float (&x)[V], int64_t r, int64_t size) {
    UNROLL
    for (int i = 0; i < V; ++i) {
        const float centred = (x[i] - norm.mean) - norm.rest;
        squares = r + i < size ? fmaf(centred, centred, squares) : squares;
    }
    return squares;
}

/// Rows of at most BERTH_CUDA_ROW_VECTORS vectors a thread.
template <class T, bool IS_DENSE> DEVICE void norm_kept(const berth_cuda_norm_args& args) {
    constexpr int V = lanes_of<T>, VECTORS = BERTH_CUDA_ROW_VECTORS;
    const int64_t row = grid_first() / args.row_threads;
    const int64_t first = (int64_t)(thread_index() % args.row_threads) * V;
    const int64_t step = (int64_t)args.row_threads * V;
    const int64_t size = row < args.rows ? args.size : 0;
    const T* x = (const T*)args.x + (row < args.rows ? walk_to<1>(args.kept, row).of[0] : 0);
    float held[VECTORS][V];
    double sum = 0.0;
    UNROLL
    for (int k = 0; k < VECTORS; ++k)
        load_part<T, V, IS_DENSE>(
            x, args.stride, args.is_vector != 0, first + k * step, size, 0.0f, held[k]);
    UNROLL
    for (int k = 0; k < VECTORS; ++k)
        if (args.is_layer) sum += sum_of<V>(held[k]);
    row_norm norm = centre(args, sum);
    float squares = 0.0f;
    UNROLL
    for (int k = 0; k < VECTORS; ++k)
        squares = add_squares<V>(squares, norm, held[k], first + k * step, size);
    norm.scale = scale_of(args, squares);
    T* out = (T*)args.out + row * args.size;
    UNROLL
    for (int k = 0; k < VECTORS; ++k)
        if (first + k * step < size)
            store_normed<T, V, IS_DENSE>(args, out, first + k * step, norm, held[k]);
}

/// A row of any length by a block.
template <class T, bool IS_DENSE> DEVICE void norm_again_by(const berth_cuda_norm_args& args) {
    constexpr int V = lanes_of<T>;
    const int64_t row = block_index();
    const int64_t first = (int64_t)thread_index() * V;
    const int64_t step = (int64_t)args.row_threads * V;
    const T* x = (const T*)args.x + walk_to<1>(args.kept, row).of[0];
    const bool is_vector = args.is_vector != 0;
    float held[V];
    double sum = 0.0;
    for (int64_t r = first; args.is_layer && r < args.size; r += step) {
        load_part<T, V, IS_DENSE>(x, args.stride, is_vector, r, args.size, 0.0f, held);
        sum += sum_of<V>(held);
    }
    row_norm norm = centre(args, sum);
    double squares = 0.0;
    for (int64_t r = first; r < args.size; r += step) {
        load_part<T, V, IS_DENSE>(x, args.stride, is_vector, r, args.size, 0.0f, held);
        squares += (double)add_squares<V>(0.0f, norm, held, r, args.size);
    }
    norm.scale = scale_of(args, (float)squares);
    T* out = (T*)args.out + row * args.size;
    for (int64_t r = first; r < args.size; r += step) {
        load_part<T, V, IS_DENSE>(x, args.stride, is_vector, r, args.size, 0.0f, held);
        store_normed<T, V, IS_DENSE>(args, out, r, norm, held);
    }
}

template <class T> DEVICE void norm_again(const berth_cuda_norm_args& args) {
    if (args.is_dense)
        norm_again_by<T, true>(args);
    else
        norm_again_by<T, false>(args);
}

} // namespace

// Two kernels, as the second needs registers that the first should not wait for.
KERNEL_OF(1024, norm_dense, berth_cuda_norm_args) {
    with_real(args.dtype, [&](auto x) { norm_kept<decltype(x), true>(args); });
}

KERNEL_OF(1024, norm_short, berth_cuda_norm_args) {
    with_real(args.dtype, [&](auto x) { norm_kept<decltype(x), false>(args); });
}

KERNEL_OF(1024, norm_long, berth_cuda_norm_args) {
    with_real(args.dtype, [&](auto x) { norm_again<decltype(x)>(args); });
}
