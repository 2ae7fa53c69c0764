// SPDX-License-Identifier: Apache-2.0
// CUMSUM. Floats add up in double, integers in 64 bits that wrap, along a hierarchy that depends on
// their place alone: items of a thread, threads of a warp, warps of a block, chunks, at each level
// one after another. Lines are added up by all threads of a block, columns each by one thread that
// keeps the same sums.
#include "device/cuda/cuda_row.cuh"

namespace {

constexpr int ITEMS = BERTH_CUDA_RUNNING_ITEMS;
constexpr int64_t CHUNK = BERTH_CUDA_RUNNING_CHUNK;
constexpr uint32_t WARPS = BERTH_CUDA_ROW_THREADS / BERTH_CUDA_WARP;

template <class T> struct running {
    using sum = uint64_t;
    using result = uint64_t;
    static MEMBER sum widen(T x) { return (uint64_t)(int64_t)x; }
    static MEMBER result round(sum x) { return x; }
};
template <class T> struct running_floats {
    using sum = double;
    using result = T;
    static MEMBER sum widen(T x) { return (double)to_f32(x); }
    static MEMBER result round(sum x) { return from_f32<T>((float)x); }
};
template <> struct running<float> : running_floats<float> {};
template <> struct running<f16> : running_floats<f16> {};
template <> struct running<bf16> : running_floats<bf16> {};

/// Items [r, r + ITEMS) of a line, added up one after another; missing ones are 0.
template <class T>
DEVICE void add_items(const T* x,
                      int64_t stride,
                      bool is_vector,
                      int64_t r,
                      int64_t size,
                      typename running<T>::sum (&sums)[ITEMS]) {
    if (is_vector && r + ITEMS <= size) {
        T held[ITEMS];
        load_dense<T, ITEMS>(x + r, held);
        UNROLL
        for (int i = 0; i < ITEMS; ++i)
            sums[i] = running<T>::widen(held[i]);
    } else {
        UNROLL
        for (int i = 0; i < ITEMS; ++i)
            sums[i] =
                r + i < size ? running<T>::widen(x[(r + i) * stride]) : (typename running<T>::sum)0;
    }
    UNROLL
    for (int i = 1; i < ITEMS; ++i)
        sums[i] += sums[i - 1];
}

/// The sum of what the threads of the warp before this one have, one after another. `of_lanes` has
/// room for a warp's values: all threads of a warp read the same one at a time, which takes a
/// fraction of what it takes to hand each around.
template <class Sum> DEVICE Sum sum_before(Sum value, Sum* of_lanes) {
    const uint32_t lane = thread_index() % BERTH_CUDA_WARP;
    of_lanes[lane] = value;
    sync_warp();
    Sum before = 0;
    UNROLL
    for (uint32_t i = 0; i + 1 < BERTH_CUDA_WARP; ++i) {
        const Sum of_lane = of_lanes[i];
        if (i < lane) before += of_lane;
    }
    return before;
}

/// Where output `output` begins in its tensor [outer, size, inner].
DEVICE int64_t output_first(const berth_cuda_running_args& args, int64_t output) {
    return output / args.inner * args.size * args.inner + output % args.inner;
}

/// `room` is for a sum of every thread.
template <class T> DEVICE void run_line(const berth_cuda_running_args& args, uint64_t* room) {
    using sum = typename running<T>::sum;
    using result = typename running<T>::result;
    SHARED(sum, of_warps, WARPS);
    sum* of_lanes = (sum*)room;
    const int64_t output = block_index() / args.chunks;
    const int64_t chunk = block_index() % args.chunks;
    const int64_t r = chunk * CHUNK + (int64_t)thread_index() * ITEMS;
    const uint32_t warp = thread_index() / BERTH_CUDA_WARP;
    const T* x = (const T*)args.x + walk_to<1>(args.kept, output).of[0];
    sum sums[ITEMS];
    add_items<T>(x, args.stride, args.is_vector != 0, r, args.size, sums);
    const sum before = sum_before(sums[ITEMS - 1], of_lanes + warp * BERTH_CUDA_WARP);
    if (thread_index() % BERTH_CUDA_WARP == BERTH_CUDA_WARP - 1)
        of_warps[warp] = before + sums[ITEMS - 1];
    sync_block();
    sum before_warp = 0;
    for (uint32_t i = 0; i < (args.is_total ? WARPS : warp); ++i)
        before_warp += of_warps[i];
    sum* carries = (sum*)args.carries;
    if (args.is_total) {
        if (thread_index() == 0) carries[output * args.chunks + chunk] = before_warp;
        return;
    }
    const sum carry = carries != nullptr ? carries[output * args.chunks + chunk] : (sum)0;
    result rounded[ITEMS];
    UNROLL
    for (int i = 0; i < ITEMS; ++i)
        rounded[i] = running<T>::round(carry + (before_warp + (before + sums[i])));
    result* out = (result*)args.out + output_first(args, output);
    if (args.is_vector_to && r + ITEMS <= args.size) {
        store_dense<result, ITEMS>(out + r, rounded);
        return;
    }
    UNROLL
    for (int i = 0; i < ITEMS; ++i)
        if (r + i < args.size) out[(r + i) * args.inner] = rounded[i];
}

/// One chunk of one column by this thread: what run_line() has in many.
template <class T> DEVICE void run_column(const berth_cuda_running_args& args) {
    using sum = typename running<T>::sum;
    using result = typename running<T>::result;
    const int64_t item = grid_first(); // neighbours take neighbouring columns
    const int64_t output = item % args.outputs;
    const int64_t chunk = item / args.outputs;
    if (chunk >= args.chunks) return;
    const T* x = (const T*)args.x + walk_to<1>(args.kept, output).of[0];
    result* out = (result*)args.out + output_first(args, output);
    sum* carries = (sum*)args.carries;
    const bool has_carry = carries != nullptr && !args.is_total;
    const sum carry = has_carry ? carries[output * args.chunks + chunk] : (sum)0;
    const int64_t end = (chunk + 1) * CHUNK < args.size ? (chunk + 1) * CHUNK : args.size;
    constexpr int64_t OF_WARP = (int64_t)ITEMS * BERTH_CUDA_WARP;
    sum before_warp = 0, before = 0;
    for (int64_t r = chunk * CHUNK; r < end; r += ITEMS) {
        if (r % OF_WARP == 0) {
            before_warp += before;
            before = 0;
        }
        sum sums[ITEMS];
        add_items<T>(x, args.stride, false, r, args.size, sums);
        UNROLL
        for (int i = 0; i < ITEMS; ++i)
            if (!args.is_total && r + i < args.size)
                out[(r + i) * args.inner] =
                    running<T>::round(carry + (before_warp + (before + sums[i])));
        before += sums[ITEMS - 1];
    }
    if (args.is_total) carries[output * args.chunks + chunk] = before_warp + before;
}

/// The chunks' sums of an output become the sums of the chunks before each.
template <class Sum> DEVICE void run_carries(const berth_cuda_running_args& args) {
    const int64_t output = grid_first();
    if (output >= args.outputs) return;
    Sum* carries = (Sum*)args.carries + output * args.chunks;
    Sum before = 0;
    UNROLL_BY(8)
    for (int64_t chunk = 0; chunk < args.chunks; ++chunk) {
        const Sum of_chunk = carries[chunk];
        carries[chunk] = before;
        before += of_chunk;
    }
}

} // namespace

KERNEL_OF(BERTH_CUDA_ROW_THREADS, running_lines, berth_cuda_running_args) {
    SHARED(uint64_t, room, BERTH_CUDA_ROW_THREADS);
    with_plain(args.dtype, [&](auto x) { run_line<decltype(x)>(args, room); });
}

KERNEL_OF(BERTH_CUDA_ROW_THREADS, running_columns, berth_cuda_running_args) {
    with_plain(args.dtype, [&](auto x) { run_column<decltype(x)>(args); });
}

KERNEL_OF(BERTH_CUDA_ROW_THREADS, running_carries, berth_cuda_running_args) {
    if (args.dtype == BERTH_F32 || args.dtype == BERTH_F16 || args.dtype == BERTH_BF16)
        run_carries<double>(args);
    else
        run_carries<uint64_t>(args);
}
