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

template <class T, int V>
DEVICE void load_columns_of(
    const berth_cuda_columns& columns, int64_t r, int64_t size, float missing, float (&out)[V]) {
    load_part<T, V>(
        (const T*)columns.data, columns.stride, columns.is_vector != 0, r, size, missing, out);
}

/// Columns [r, r + V); `missing` where there are none.
template <int V>
DEVICE void load_columns(
    const berth_cuda_columns& columns, int64_t r, int64_t size, float missing, float (&out)[V]) {
    if (columns.data == nullptr) {
        UNROLL
        for (int i = 0; i < V; ++i)
            out[i] = missing;
    } else {
        with_real(columns.dtype, [&](auto type) {
            load_columns_of<decltype(type), V>(columns, r, size, missing, out);
        });
    }
}

/// Writes elements [r, r + V) of a row, from `x`.
template <class T, int V>
DEVICE void store_normed(
    const berth_cuda_norm_args& args, T* out, int64_t r, const row_norm& norm, float (&x)[V]) {
    float of_columns[V];
    load_columns<V>(args.weight, r, args.size, 1.0f, of_columns);
    UNROLL
    for (int i = 0; i < V; ++i) {
        const float centred = (x[i] - norm.mean) - norm.rest;
        x[i] = rounded_product(rounded_product(centred, norm.scale), of_columns[i]);
    }
    if (args.bias.data != nullptr) { // after the weights, which took registers
        load_columns<V>(args.bias, r, args.size, 0.0f, of_columns);
        UNROLL
        for (int i = 0; i < V; ++i)
            x[i] += of_columns[i];
    }
    store_part<T, V>(out, args.is_vector_to != 0, r, args.size, x);
}

/// The mean of a row, of whose elements this thread's add up to `sum`.
DEVICE row_norm centre(const berth_cuda_norm_args& args, double sum) {
    if (!args.is_layer) return row_norm{0.0f, 0.0f, 0.0f};
    const double mean = row_reduce(args.row_bits, sum, 0.0, add_doubles()) / (double)args.size;
    const float rounded = (float)mean;
    return row_norm{rounded, (float)(mean - (double)rounded), 0.0f};
}

DEVICE float scale_of(const berth_cuda_norm_args& args, float squares) {
    const double all = row_reduce(args.row_bits, (double)squares, 0.0, add_doubles());
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

/// Rows of at most BERTH_CUDA_ROW_VECTORS vectors a thread, whatever they and the columns are like.
template <class T> DEVICE void norm_kept(const berth_cuda_norm_args& args) {
    constexpr int V = lanes_of<T>, VECTORS = BERTH_CUDA_ROW_VECTORS;
    const row_share share = share_row<V>(args.row_bits, args.rows, args.size);
    const T* x = (const T*)args.x + (share.size > 0 ? walk_to<1>(args.kept, share.row).of[0] : 0);
    float held[VECTORS][V];
    double sum = 0.0;
    UNROLL
    for (int k = 0; k < VECTORS; ++k)
        load_part<T, V>(x,
                        args.stride,
                        args.is_vector != 0,
                        share.first + k * share.step,
                        share.size,
                        0.0f,
                        held[k]);
    UNROLL
    for (int k = 0; k < VECTORS; ++k)
        if (args.is_layer) sum += sum_of<V>(held[k]);
    row_norm norm = centre(args, sum);
    float squares = 0.0f;
    UNROLL
    for (int k = 0; k < VECTORS; ++k)
        squares = add_squares<V>(squares, norm, held[k], share.first + k * share.step, share.size);
    norm.scale = scale_of(args, squares);
    T* out = (T*)args.out + share.row * args.size;
    UNROLL
    for (int k = 0; k < VECTORS; ++k)
        if (share.first + k * share.step < share.size)
            store_normed<T, V>(args, out, share.first + k * share.step, norm, held[k]);
}

/// A vector of columns, which are of type W; `missing` where there are none.
template <class W, int V>
DEVICE pack<W, V> dense_columns(const berth_cuda_columns& columns, int32_t r, float missing) {
    if (columns.data != nullptr) return load_pack<W, V>((const W*)columns.data + r);
    return repeat_pack<W, V>(from_f32<W>(missing));
}

/// Writes the elements from r on of a row and columns that are whole vectors, from `x`.
template <class T, class W, int V>
DEVICE void store_dense_normed(const berth_cuda_norm_args& args,
                               T* out,
                               int32_t r,
                               const row_norm& norm,
                               const pack<T, V>& x) {
    const auto weights = dense_columns<W, V>(args.weight, r, 1.0f);
    const auto biases = dense_columns<W, V>(args.bias, r, 0.0f);
    pack<T, V> made;
    UNROLL
    for (int i = 0; i < V; ++i) {
        const float centred = (to_f32(x.get(i)) - norm.mean) - norm.rest;
        const float scaled = rounded_product(centred, norm.scale);
        float value = rounded_product(scaled, to_f32(weights.get(i)));
        if (args.bias.data != nullptr) value += to_f32(biases.get(i)); // else -0 stays
        made.put(i, from_f32<T>(value));
    }
    store_pack(out + r, made);
}

/// Rows of at most VECTORS vectors a thread that are whole vectors, as the columns are.
template <class T, int VECTORS> DEVICE void norm_dense_kept(const berth_cuda_norm_args& args) {
    constexpr int V = lanes_of<T>;
    const row_share share = share_row<V>(args.row_bits, args.rows, args.size);
    const T* x = (const T*)args.x + (share.size > 0 ? walk_to<1>(args.kept, share.row).of[0] : 0);
    pack<T, V> held[VECTORS];
    load_row(x, share, 0.0f, held);
    float some[V];
    double sum = 0.0;
    UNROLL
    for (int k = 0; k < VECTORS; ++k) {
        if (!args.is_layer) continue;
        to_floats(held[k], some);
        sum += sum_of<V>(some);
    }
    row_norm norm = centre(args, sum);
    float squares = 0.0f;
    UNROLL
    for (int k = 0; k < VECTORS; ++k) {
        if (share.first + k * share.step >= share.size) continue;
        to_floats(held[k], some);
        squares = add_squares<V>(squares, norm, some, 0, V);
    }
    norm.scale = scale_of(args, squares);
    T* out = (T*)args.out + share.row * args.size;
    with_real(args.weight.dtype, [&](auto type) {
        UNROLL
        for (int k = 0; k < VECTORS; ++k) {
            const int32_t r = share.first + k * share.step;
            if (r < share.size)
                store_dense_normed<T, decltype(type), V>(args, out, r, norm, held[k]);
        }
    });
}

/// A row of any length by a block.
template <class T> DEVICE void norm_again(const berth_cuda_norm_args& args) {
    constexpr int V = lanes_of<T>;
    const int64_t row = block_index();
    const int64_t first = (int64_t)thread_index() * V;
    const int64_t step = (int64_t)thread_count() * V;
    const T* x = (const T*)args.x + walk_to<1>(args.kept, row).of[0];
    const bool is_vector = args.is_vector != 0;
    float held[V];
    double sum = 0.0;
    UNROLL_BY(4)
    for (int64_t r = first; r < (args.is_layer ? args.size : 0); r += step) {
        load_part<T, V>(x, args.stride, is_vector, r, args.size, 0.0f, held);
        sum += sum_of<V>(held);
    }
    row_norm norm = centre(args, sum);
    double squares = 0.0;
    UNROLL_BY(4)
    for (int64_t r = first; r < args.size; r += step) {
        load_part<T, V>(x, args.stride, is_vector, r, args.size, 0.0f, held);
        squares += (double)add_squares<V>(0.0f, norm, held, r, args.size);
    }
    norm.scale = scale_of(args, (float)squares);
    T* out = (T*)args.out + row * args.size;
    UNROLL_BY(2)
    for (int64_t r = first; r < args.size; r += step) {
        load_part<T, V>(x, args.stride, is_vector, r, args.size, 0.0f, held);
        store_normed<T, V>(args, out, r, norm, held);
    }
}

template <class T> constexpr int wide_vectors = BERTH_CUDA_ROW_KEPT / lanes_of<T>;

} // namespace

// One kernel each, as every one needs other registers, for which none of them should wait.
KERNEL_OF(BERTH_CUDA_ROW_MOST_THREADS, norm_dense, berth_cuda_norm_args) {
    with_real(args.dtype,
              [&](auto x) { norm_dense_kept<decltype(x), BERTH_CUDA_ROW_VECTORS>(args); });
}

KERNEL_OF(BERTH_CUDA_ROW_MOST_THREADS, norm_wide, berth_cuda_norm_args) {
    with_real(args.dtype,
              [&](auto x) { norm_dense_kept<decltype(x), wide_vectors<decltype(x)>>(args); });
}

KERNEL_OF(BERTH_CUDA_ROW_MOST_THREADS, norm_short, berth_cuda_norm_args) {
    with_real(args.dtype, [&](auto x) { norm_kept<decltype(x)>(args); });
}

KERNEL_OF(BERTH_CUDA_ROW_MOST_THREADS, norm_long, berth_cuda_norm_args) {
    with_real(args.dtype, [&](auto x) { norm_again<decltype(x)>(args); });
}
