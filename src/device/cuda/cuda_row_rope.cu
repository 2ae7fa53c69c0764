// SPDX-License-Identifier: Apache-2.0
// ROPE. A block takes some heads of one token: its threads make the turns of the token's pairs, in
// double, and keep them as f32 for all those heads.
#include "device/cuda/cuda_row.cuh"

namespace {

constexpr int64_t PAIRS = BERTH_CUDA_ROPE_PAIRS;

/// What one block works on.
struct rope_share {
    double position;
    int64_t from; ///< of the first head in x
    int64_t to;   ///< and in the output
    int64_t heads;
};

DEVICE double position_at(const berth_cuda_rope_args& args, int64_t at) {
    return args.is_position_i32 ? (double)((const int32_t*)args.positions)[at]
                                : (double)((const int64_t*)args.positions)[at];
}

DEVICE rope_share share_of(const berth_cuda_rope_args& args) {
    const int64_t split = block_index() % args.splits;
    const int64_t row = block_index() / args.splits;
    const int64_t token = row % args.tokens, batch = row / args.tokens;
    const int64_t head = split * args.heads_a_block;
    const int64_t left = args.heads - head;
    const int64_t place = batch * args.position_strides[0] + token * args.position_strides[1];
    return rope_share{position_at(args, place) * args.position_scale,
                      batch * args.strides[0] + token * args.strides[1] + head * args.strides[2],
                      (row * args.heads + head) * args.head_size,
                      left < args.heads_a_block ? left : args.heads_a_block};
}

/// The sine and the cosine of pair `pair`'s angle.
DEVICE void make_turn(const berth_cuda_rope_args& args,
                      double position,
                      int64_t pair,
                      float& out_sine,
                      float& out_cosine) {
    double rate = exp2(-((double)pair / (double)args.half) * args.log2_base);
    if (args.divisors != nullptr) rate /= (double)args.divisors[pair];
    double sine, cosine;
    sincos(position * rate, &sine, &cosine);
    out_sine = (float)sine;
    out_cosine = (float)cosine;
}

/// Where the elements of V pairs from `pair` on are: neighbours, or in two stretches.
template <class T, int V>
DEVICE void load_pairs(
    const berth_cuda_rope_args& args, const T* head, int64_t pair, T (&low)[V], T (&high)[V]) {
    if (args.halves) {
        load_dense<T, V>(head + pair, low);
        load_dense<T, V>(head + args.half + pair, high);
        return;
    }
    T both[2 * V];
    load_dense<T, 2 * V>(head + 2 * pair, both);
    UNROLL
    for (int i = 0; i < V; ++i) {
        low[i] = both[2 * i];
        high[i] = both[2 * i + 1];
    }
}

template <class T, int V>
DEVICE void store_pairs(const berth_cuda_rope_args& args,
                        T* head,
                        int64_t pair,
                        const T (&low)[V],
                        const T (&high)[V]) {
    if (args.halves) {
        store_dense<T, V>(head + pair, low);
        store_dense<T, V>(head + args.half + pair, high);
        return;
    }
    T both[2 * V];
    UNROLL
    for (int i = 0; i < V; ++i) {
        both[2 * i] = low[i];
        both[2 * i + 1] = high[i];
    }
    store_dense<T, 2 * V>(head + 2 * pair, both);
}

template <class T, int V>
DEVICE void turn_pairs(const berth_cuda_rope_args& args,
                       const T* from,
                       T* to,
                       int64_t pair,
                       const float* sines,
                       const float* cosines) {
    T low[V], high[V];
    load_pairs<T, V>(args, from, pair, low, high);
    UNROLL
    for (int i = 0; i < V; ++i) {
        const float a = to_f32(low[i]), b = to_f32(high[i]);
        low[i] = from_f32<T>(fmaf(a, cosines[i], -rounded_product(b, sines[i])));
        high[i] = from_f32<T>(fmaf(b, cosines[i], rounded_product(a, sines[i])));
    }
    store_pairs<T, V>(args, to, pair, low, high);
}

/// Copies what is not turned, unless it is in place.
template <class T, int V>
DEVICE void copy_rest(const berth_cuda_rope_args& args, const rope_share& share) {
    const int64_t skip = 2 * args.half;
    const uint32_t units = (uint32_t)((args.head_size - skip) / V);
    const uint32_t all = units * (uint32_t)share.heads;
    if (args.x == args.out) return;
    for (uint32_t i = thread_index(); i < all; i += thread_count()) {
        const int64_t head = i / units;
        const int64_t at = skip + (int64_t)(i % units) * V;
        T held[V];
        load_dense<T, V>((const T*)args.x + share.from + head * args.strides[2] + at, held);
        store_dense<T, V>((T*)args.out + share.to + head * args.head_size + at, held);
    }
}

template <class T, int V>
DEVICE void turn(const berth_cuda_rope_args& args, float* sines, float* cosines) {
    const rope_share share = share_of(args);
    for (int64_t first = 0; first < args.half; first += PAIRS) {
        const uint32_t pairs = (uint32_t)(args.half - first < PAIRS ? args.half - first : PAIRS);
        if (first > 0) sync_block(); // the last turns are done with
        for (uint32_t i = thread_index(); i < pairs; i += thread_count())
            make_turn(args, share.position, first + i, sines[i], cosines[i]);
        sync_block();
        const uint32_t units = pairs / V;
        const uint32_t all = units * (uint32_t)share.heads;
        for (uint32_t i = thread_index(); i < all; i += thread_count()) {
            const int64_t head = i / units;
            const uint32_t at = i % units * V;
            turn_pairs<T, V>(args,
                             (const T*)args.x + share.from + head * args.strides[2],
                             (T*)args.out + share.to + head * args.head_size,
                             first + at,
                             sines + at,
                             cosines + at);
        }
    }
    copy_rest<T, V>(args, share);
}

template <class T>
DEVICE void turn_by_width(const berth_cuda_rope_args& args, float* sines, float* cosines) {
    if (args.is_vector)
        turn<T, lanes_of<T>>(args, sines, cosines);
    else
        turn<T, 1>(args, sines, cosines);
}

} // namespace

KERNEL_OF(BERTH_CUDA_ROW_THREADS, rope, berth_cuda_rope_args) {
    SHARED(float, sines, PAIRS); // of the whole block's pairs, whichever type the elements have
    SHARED(float, cosines, PAIRS);
    with_real(args.dtype, [&](auto x) { turn_by_width<decltype(x)>(args, sines, cosines); });
}
