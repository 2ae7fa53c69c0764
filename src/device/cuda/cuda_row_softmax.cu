// SPDX-License-Identifier: Apache-2.0
// SOFTMAX and LOG_SOFTMAX. Rows along the last dimension are read once and kept in registers by the
// threads that share them. Elsewhere, and for rows longer than a block keeps, a reduction gives the
// largest element and the sum of powers (FINISH_POWERS), from which the elements follow.
#include "device/cuda/cuda_row.cuh"

namespace {

/// Rows of at most VECTORS vectors a thread. What is missing behind a row's end is -infinity, whose
/// power is 0.
template <class T, int VECTORS, bool IS_DENSE>
DEVICE void softmax_kept_by(const berth_cuda_softmax_args& args) {
    typedef math_for<T> math;
    constexpr int V = lanes_of<T>;
    const row_share share = share_row<V>(args.row_bits, args.rows, args.size);
    const T* x = (const T*)args.x + (share.size > 0 ? walk_to<1>(args.kept, share.row).of[0] : 0);
    float held[VECTORS][V];
    if constexpr (IS_DENSE) {
        pack<T, V> packed[VECTORS];
        load_row(x, share, -INFINITY, packed);
        UNROLL
        for (int k = 0; k < VECTORS; ++k)
            to_floats(packed[k], held[k]);
    } else {
        UNROLL
        for (int k = 0; k < VECTORS; ++k)
            load_part<T, V>(x,
                            args.stride,
                            args.is_vector != 0,
                            share.first + k * share.step,
                            share.size,
                            -INFINITY,
                            held[k]);
    }
    float largest = -INFINITY;
    UNROLL
    for (int k = 0; k < VECTORS; ++k) {
        UNROLL
        for (int i = 0; i < V; ++i)
            largest = fmaxf(largest, held[k][i]); // a NaN is seen in the sum
    }
    largest = row_reduce(args.row_bits, largest, -INFINITY, larger_float());
    float sum = 0.0f;
    UNROLL
    for (int k = 0; k < VECTORS; ++k) {
        UNROLL
        for (int i = 0; i < V; ++i) {
            const float shifted = held[k][i] - largest;
            const float power = math::exp(shifted);
            sum += power;
            held[k][i] = args.is_log ? shifted : power;
        }
    }
    sum = row_reduce(args.row_bits, sum, 0.0f, add_floats());
    const float factor = args.is_log ? 1.0f : 1.0f / sum, added = args.is_log ? -logf(sum) : 0.0f;
    T* out = (T*)args.out + share.row * args.size;
    UNROLL
    for (int k = 0; k < VECTORS; ++k) {
        const int32_t r = share.first + k * share.step;
        if (IS_DENSE && r >= share.size) continue;
        UNROLL
        for (int i = 0; i < V; ++i)
            held[k][i] = fmaf(held[k][i], factor, added);
        store_part<T, V>(
            out, IS_DENSE || args.is_vector_to != 0, r, IS_DENSE ? r + V : share.size, held[k]);
    }
}

template <class T, int VECTORS> DEVICE void softmax_kept(const berth_cuda_softmax_args& args) {
    if (args.is_dense)
        softmax_kept_by<T, VECTORS, true>(args);
    else
        softmax_kept_by<T, VECTORS, false>(args);
}

/// What makes elements of the output of what x - largest is.
struct applied_powers {
    float largest;
    float last; ///< 1 / sum, or log(sum)
};

DEVICE applied_powers powers_at(const berth_cuda_softmax_apply_args& args, int64_t pair) {
    const float* of = args.powers + 2 * pair;
    return applied_powers{of[0], args.is_log ? logf(of[1]) : 1.0f / of[1]};
}

template <class Math>
DEVICE float apply_powers(const berth_cuda_softmax_apply_args& args,
                          const applied_powers& of,
                          float x) {
    const float shifted = x - of.largest;
    return args.is_log ? shifted - of.last : Math::exp(shifted) * of.last;
}

/// The number of item `at`'s pair of powers.
DEVICE int64_t pair_of(const berth_cuda_softmax_apply_args& args, int64_t at) {
    const bool is_small = args.walk.is_small != 0;
    int64_t inner = at;
    int64_t place = divide_any(args.inner, is_small, inner);
    const int64_t outer = divide_any(args.size, is_small, place);
    return outer * args.inner.size + inner;
}

/// Items one by one, several of them under way.
template <class T> DEVICE void apply_items(const berth_cuda_softmax_apply_args& args) {
    typedef math_for<T> math;
    constexpr int READS = 4;
    const T* x = (const T*)args.x;
    T* out = (T*)args.out;
    const int64_t last = args.count - 1, step = grid_step();
    for (int64_t first = grid_first(); first <= last; first += READS * step) {
        T held[READS];
        applied_powers of[READS];
        UNROLL
        for (int r = 0; r < READS; ++r) {
            // a thread behind the end reads the last item too, and drops it
            const int64_t at = first + r * step < last ? first + r * step : last;
            held[r] = x[args.is_vector ? at : walk_to<1>(args.walk, at).of[0]];
            of[r] = powers_at(args, pair_of(args, at));
        }
        UNROLL
        for (int r = 0; r < READS; ++r)
            if (first + r * step <= last)
                out[first + r * step] =
                    from_f32<T>(apply_powers<math>(args, of[r], to_f32(held[r])));
    }
}

/// Whole vectors of rows.
template <class T> DEVICE void apply_vectors(const berth_cuda_softmax_apply_args& args) {
    typedef math_for<T> math;
    constexpr int V = lanes_of<T>, READS = BERTH_CUDA_ROW_VECTORS;
    const T* x = (const T*)args.x;
    T* out = (T*)args.out;
    const int64_t last = args.count / V - 1, step = grid_step();
    for (int64_t first = grid_first(); first <= last; first += READS * step) {
        pack<T, V> held[READS];
        applied_powers of[READS];
        UNROLL
        for (int r = 0; r < READS; ++r) {
            // a thread behind the end reads the last vector too, and drops it
            const int64_t at = (first + r * step < last ? first + r * step : last) * V;
            held[r] = load_pack<T, V>(x + at);
            int64_t place = at;
            of[r] = powers_at(args, divide_any(args.size, args.walk.is_small != 0, place));
        }
        UNROLL
        for (int r = 0; r < READS; ++r) {
            pack<T, V> made;
            UNROLL
            for (int i = 0; i < V; ++i)
                made.put(i, from_f32<T>(apply_powers<math>(args, of[r], to_f32(held[r].get(i)))));
            if (first + r * step <= last) store_pack(out + (first + r * step) * V, made);
        }
    }
}

template <class T> DEVICE void apply(const berth_cuda_softmax_apply_args& args) {
    if (args.is_row)
        apply_vectors<T>(args);
    else
        apply_items<T>(args);
}

template <class T> constexpr int long_vectors = BERTH_CUDA_ROW_KEPT / lanes_of<T>;

} // namespace

KERNEL_OF(BERTH_CUDA_ROW_MOST_THREADS, softmax_short, berth_cuda_softmax_args) {
    with_real(args.dtype, [&](auto x) { softmax_kept<decltype(x), BERTH_CUDA_ROW_VECTORS>(args); });
}

KERNEL_OF(BERTH_CUDA_ROW_MOST_THREADS, softmax_long, berth_cuda_softmax_args) {
    with_real(args.dtype,
              [&](auto x) { softmax_kept<decltype(x), long_vectors<decltype(x)>>(args); });
}

KERNEL_OF(BERTH_CUDA_ROW_THREADS, softmax_apply, berth_cuda_softmax_apply_args) {
    with_real(args.dtype, [&](auto x) { apply<decltype(x)>(args); });
}
