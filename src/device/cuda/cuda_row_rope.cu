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

/// The elements of V pairs: two packs, the first elements and the second ones of all pairs where
/// HALVES, else, as those of a pair are neighbours, one pack behind the other.
template <class T, int V, bool HALVES> struct held_pairs {
    pack<T, V> parts[2];

    /// Elements of the head from the first one to the pack `part` of the pairs from `pair` on.
    static MEMBER int64_t place(const berth_cuda_rope_args& args, int part, int64_t pair) {
        return HALVES ? part * args.half + pair : 2 * pair + part * V;
    }
    /// Element 0 or 1 of pair `i`.
    MEMBER T get(int i, int element) const {
        const int n = HALVES ? element * V + i : 2 * i + element;
        return parts[n / V].get(n % V);
    }
};

template <class T, int V, bool HALVES>
DEVICE held_pairs<T, V, HALVES> load_pairs(const berth_cuda_rope_args& args,
                                           const T* head,
                                           int64_t pair) {
    held_pairs<T, V, HALVES> held;
    held.parts[0] = load_pack<T, V>(head + held.place(args, 0, pair));
    held.parts[1] = load_pack<T, V>(head + held.place(args, 1, pair));
    return held;
}

/// Turns and writes them.
template <class T, int V, bool HALVES>
DEVICE void store_turned(const berth_cuda_rope_args& args,
                         const held_pairs<T, V, HALVES>& held,
                         T* head,
                         int64_t pair,
                         const float* sines,
                         const float* cosines) {
    T turned[2 * V];
    UNROLL
    for (int i = 0; i < V; ++i) {
        const float a = to_f32(held.get(i, 0)), b = to_f32(held.get(i, 1));
        turned[HALVES ? i : 2 * i] =
            from_f32<T>(fmaf(a, cosines[i], -rounded_product(b, sines[i])));
        turned[HALVES ? V + i : 2 * i + 1] =
            from_f32<T>(fmaf(b, cosines[i], rounded_product(a, sines[i])));
    }
    UNROLL
    for (int part = 0; part < 2; ++part) {
        pack<T, V> made;
        UNROLL
        for (int i = 0; i < V; ++i)
            made.put(i, turned[part * V + i]);
        store_pack(head + held.place(args, part, pair), made);
    }
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
        store_pack((T*)args.out + share.to + head * args.head_size + at,
                   load_pack<T, V>((const T*)args.x + share.from + head * args.strides[2] + at));
    }
}

/// Pairs [first, first + pairs) of all of the block's heads. What a thread takes next is asked for
/// before what it has is turned, and the first even before the turns are made, which takes as long
/// as memory does.
template <class T, int V, bool HALVES>
DEVICE void turn_heads(const berth_cuda_rope_args& args,
                       const rope_share& share,
                       int64_t first,
                       uint32_t pairs,
                       float* sines,
                       float* cosines) {
    const uint32_t units = pairs / V, all = units * (uint32_t)share.heads;
    const T* from = (const T*)args.x + share.from;
    T* to = (T*)args.out + share.to;
    uint32_t i = thread_index();
    held_pairs<T, V, HALVES> next = {};
    if (i < all)
        next = load_pairs<T, V, HALVES>(
            args, from + i / units * args.strides[2], first + i % units * V);
    for (uint32_t p = thread_index(); p < pairs; p += thread_count())
        make_turn(args, share.position, first + p, sines[p], cosines[p]);
    sync_block();
    while (i < all) {
        const held_pairs<T, V, HALVES> held = next;
        const int64_t head = i / units;
        const uint32_t at = i % units * V;
        i += thread_count();
        if (i < all)
            next = load_pairs<T, V, HALVES>(
                args, from + i / units * args.strides[2], first + i % units * V);
        store_turned(args, held, to + head * args.head_size, first + at, sines + at, cosines + at);
    }
}

template <class T, int V>
DEVICE void turn(const berth_cuda_rope_args& args, float* sines, float* cosines) {
    const rope_share share = share_of(args);
    for (int64_t first = 0; first < args.half; first += PAIRS) {
        const uint32_t pairs = (uint32_t)(args.half - first < PAIRS ? args.half - first : PAIRS);
        if (first > 0) sync_block(); // the last turns are done with
        if (args.halves)
            turn_heads<T, V, true>(args, share, first, pairs, sines, cosines);
        else
            turn_heads<T, V, false>(args, share, first, pairs, sines, cosines);
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
