// SPDX-License-Identifier: Apache-2.0
// SOFTMAX and LOG_SOFTMAX. Rows along the last dimension are read once and kept in registers by the
// threads that share them. Elsewhere, and for rows longer than a block keeps, a reduction gives the
// largest element and the sum of powers (FINISH_POWERS), from which the elements follow.
#include "device/cuda/cuda_row.cuh"

namespace {

/// Rows of at most VECTORS vectors a thread.
template <class T, int VECTORS, bool IS_DENSE>
DEVICE void softmax_kept_by(const berth_cuda_softmax_args& args) {
    constexpr int V = lanes_of<T>;
    const int64_t row = grid_first() / args.row_threads;
    const int64_t first = (int64_t)(thread_index() % args.row_threads) * V;
    const int64_t step = (int64_t)args.row_threads * V;
    const int64_t size = row < args.rows ? args.size : 0;
    const T* x = (const T*)args.x + (row < args.rows ? walk_to<1>(args.kept, row).of[0] : 0);
    float held[VECTORS][V];
    float largest = -INFINITY;
    UNROLL
    for (int k = 0; k < VECTORS; ++k)
        load_part<T, V, IS_DENSE>(
            x, args.stride, args.is_vector != 0, first + k * step, size, -INFINITY, held[k]);
    UNROLL
    for (int k = 0; k < VECTORS; ++k)
        UNROLL
    for (int i = 0; i < V; ++i)
        largest = fmaxf(largest, held[k][i]); // a NaN is seen in the sum
    largest = row_reduce(args.row_threads, largest, -INFINITY, larger_float());
    float sum = 0.0f;
    UNROLL
    for (int k = 0; k < VECTORS; ++k) {
        UNROLL
        for (int i = 0; i < V; ++i) {
            if (first + k * step + i >= size) continue;
            const float shifted = held[k][i] - largest;
            const float power = expf(shifted);
            sum += power;
            held[k][i] = args.is_log ? shifted : power;
        }
    }
    sum = row_reduce(args.row_threads, sum, 0.0f, add_floats());
    const float last = args.is_log ? logf(sum) : 1.0f / sum;
    T* out = (T*)args.out + row * args.size;
    UNROLL
    for (int k = 0; k < VECTORS; ++k) {
        UNROLL
        for (int i = 0; i < V; ++i)
            held[k][i] = args.is_log ? held[k][i] - last : held[k][i] * last;
        store_part<T, V, IS_DENSE>(out, args.is_vector_to != 0, first + k * step, size, held[k]);
    }
}

template <class T, int VECTORS> DEVICE void softmax_kept(const berth_cuda_softmax_args& args) {
    if (args.is_dense)
        softmax_kept_by<T, VECTORS, true>(args);
    else
        softmax_kept_by<T, VECTORS, false>(args);
}

/// The element `x` of the output that item `at` belongs to.
template <class Index>
DEVICE float apply_powers(const berth_cuda_softmax_apply_args& args, Index at, float x) {
    const Index inner = (Index)args.inner;
    const Index outer = at / (inner * (Index)args.size);
    const float* of = args.powers + 2 * (outer * inner + at % inner);
    const float shifted = x - of[0];
    return args.is_log ? shifted - logf(of[1]) : expf(shifted) / of[1];
}

/// Items [at, at + V).
template <class T, class Index>
DEVICE void apply_at(const berth_cuda_softmax_apply_args& args, int64_t at) {
    constexpr int V = lanes_of<T>;
    const T* x = (const T*)args.x;
    T* out = (T*)args.out;
    float held[V];
    const bool is_dense = args.is_vector && at + V <= args.count;
    if (is_dense) load_part<T, V>(x, 1, true, at, args.count, 0.0f, held);
    UNROLL
    for (int i = 0; i < V; ++i) {
        if (at + i >= args.count) continue;
        if (!is_dense) held[i] = to_f32(x[walk_to<1>(args.walk, at + i).of[0]]);
        held[i] = apply_powers<Index>(args, (Index)(at + i), held[i]);
    }
    store_part<T, V>(out, args.is_vector != 0, at, args.count, held);
}

template <class T> DEVICE void apply(const berth_cuda_softmax_apply_args& args) {
    constexpr int V = lanes_of<T>;
    for (int64_t at = grid_first() * V; at < args.count; at += grid_step() * V) {
        if (args.walk.is_small)
            apply_at<T, uint32_t>(args, at);
        else
            apply_at<T, uint64_t>(args, at);
    }
}

template <class T> constexpr int long_vectors = BERTH_CUDA_ROW_KEPT / lanes_of<T>;

} // namespace

KERNEL_OF(1024, softmax_short, berth_cuda_softmax_args) {
    with_real(args.dtype, [&](auto x) { softmax_kept<decltype(x), BERTH_CUDA_ROW_VECTORS>(args); });
}

KERNEL_OF(1024, softmax_long, berth_cuda_softmax_args) {
    with_real(args.dtype,
              [&](auto x) { softmax_kept<decltype(x), long_vectors<decltype(x)>>(args); });
}

KERNEL_OF(BERTH_CUDA_ROW_THREADS, softmax_apply, berth_cuda_softmax_apply_args) {
    with_real(args.dtype, [&](auto x) { apply<decltype(x)>(args); });
}
