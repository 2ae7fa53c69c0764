// SPDX-License-Identifier: Apache-2.0
// One order of folding for every layout of an operand, so that an output's bits depend on its
// elements and their order alone:
//
//   an output's elements are cut into chunks, a chunk into vectors of 16 bytes; vector v goes to
//   accumulator v % lanes. A vector's elements are joined as a tree of neighbours, a lane's vectors
//   one after another, the lanes as a tree of neighbours, the chunks as if they were elements.
//
// Lines are folded by a thread a lane, columns by threads that take some neighbouring lanes each,
// one after another. How many lanes there are depends on the number of elements and their type.
#ifndef BERTH_DEVICE_CUDA_ROW_REDUCE_CUH
#define BERTH_DEVICE_CUDA_ROW_REDUCE_CUH

#include "device/cuda/cuda_row_fold.cuh"

/// The elements of one output.
template <class T> struct reduced_line {
    const T* first;
    const berth_cuda_walk* places;
    int64_t stride; ///< between neighbours, where one number tells it
    bool is_even;
    bool is_vector;
};

template <class T>
DEVICE reduced_line<T> line_of(const berth_cuda_reduce_args& args, int64_t output) {
    const int64_t first = walk_to<1>(args.kept, output).of[0];
    return reduced_line<T>{(const T*)args.x + first,
                           &args.reduced,
                           args.reduced.rank > 0 ? args.reduced.strides[0][0] : 0,
                           args.reduced.rank <= 1,
                           args.is_vector != 0};
}

/// Where element `r` of a line of several dimensions is. Called, as divisions make it long.
CALLED int64_t place_in_line(const berth_cuda_walk& places, int64_t r) {
    return walk_to<1>(places, r).of[0];
}

/// Elements [r, r + V) of an even line that has them all.
template <class T, int V>
DEVICE void load_line(const reduced_line<T>& line, int64_t r, T (&out)[V]) {
    const T* at = line.first + r * line.stride;
    UNROLL
    for (int i = 0; i < V; ++i)
        out[i] = at[i * line.stride];
}

template <class T> DEVICE T load_one(const reduced_line<T>& line, int64_t r) {
    return line.first[line.is_even ? r * line.stride : place_in_line(*line.places, r)];
}

/// Folds the parts as a tree of neighbours.
template <class Fold, int V>
DEVICE typename Fold::total join_vector(typename Fold::part (&parts)[V]) {
    UNROLL
    for (int step = 1; step < V; step *= 2)
        UNROLL
    for (int i = 0; i < V; i += 2 * step)
        parts[i] = Fold::join_parts(parts[i], parts[i + step]);
    return Fold::whole(parts[0]);
}

template <class Fold, int V>
DEVICE typename Fold::total fold_vector(const typename Fold::element (&x)[V],
                                        int64_t r,
                                        typename Fold::context context) {
    typename Fold::part parts[V];
    UNROLL
    for (int i = 0; i < V; ++i)
        parts[i] = Fold::one(x[i], r + i, context);
    return join_vector<Fold, V>(parts);
}

/// The same of any line, and of a vector that ends before element `end`.
template <class Fold, int V>
DEVICE typename Fold::total fold_short_vector(const reduced_line<typename Fold::element>& line,
                                              int64_t r,
                                              int64_t end,
                                              typename Fold::context context) {
    typename Fold::part parts[V];
    UNROLL
    for (int i = 0; i < V; ++i)
        parts[i] =
            r + i < end ? Fold::one(load_one(line, r + i), r + i, context) : Fold::nothing_part();
    return join_vector<Fold, V>(parts);
}

/// What lane `lane` of `lanes` folds of the elements [begin, end).
template <class Fold>
DEVICE typename Fold::total fold_lane(const reduced_line<typename Fold::element>& line,
                                      uint32_t lane,
                                      uint32_t lanes,
                                      int64_t begin,
                                      int64_t end,
                                      typename Fold::context context) {
    using T = typename Fold::element;
    constexpr int V = lanes_of<T>;
    constexpr int AT_ONCE = 4;            // vectors loaded before any is folded ..
    constexpr int APART = V < 16 ? 4 : 1; // .. and of elements that lie apart
    const int64_t step = (int64_t)lanes * V;
    typename Fold::total total = Fold::nothing();
    int64_t r = begin + (int64_t)lane * V;
    UNROLL_BY(1)
    for (; line.is_vector && r + (AT_ONCE - 1) * step + V <= end; r += AT_ONCE * step) {
        pack<T, V> held[AT_ONCE];
        UNROLL
        for (int k = 0; k < AT_ONCE; ++k)
            held[k] = load_pack<T, V>(line.first + r + k * step);
        UNROLL
        for (int k = 0; k < AT_ONCE; ++k) {
            T some[V];
            UNROLL
            for (int i = 0; i < V; ++i)
                some[i] = held[k].get(i);
            total = Fold::join(total, fold_vector<Fold, V>(some, r + k * step, context));
        }
    }
    UNROLL_BY(1)
    for (; line.is_even && r + (APART - 1) * step + V <= end; r += APART * step) {
        T held[APART][V];
        UNROLL
        for (int k = 0; k < APART; ++k)
            load_line<T, V>(line, r + k * step, held[k]);
        UNROLL
        for (int k = 0; k < APART; ++k)
            total = Fold::join(total, fold_vector<Fold, V>(held[k], r + k * step, context));
    }
    UNROLL_BY(1)
    for (; r < end; r += step)
        total = Fold::join(total, fold_short_vector<Fold, V>(line, r, end, context));
    return total;
}

/// The tree over a warp's lanes; right in lane 0.
template <class Fold> DEVICE typename Fold::total join_warp(typename Fold::total total) {
    UNROLL
    for (uint32_t mask = 1; mask < BERTH_CUDA_WARP; mask *= 2)
        total = Fold::join(total, across(total, mask));
    return total;
}

/// The tree over a block's lanes; right in thread 0.
template <class Fold> DEVICE typename Fold::total join_block(typename Fold::total total) {
    constexpr uint32_t WARPS = BERTH_CUDA_ROW_THREADS / BERTH_CUDA_WARP;
    SHARED(typename Fold::total, of_warps, WARPS);
    total = join_warp<Fold>(total);
    if (thread_index() % BERTH_CUDA_WARP == 0) of_warps[thread_index() / BERTH_CUDA_WARP] = total;
    sync_block();
    total = of_warps[thread_index() % WARPS];
    UNROLL
    for (uint32_t mask = 1; mask < WARPS; mask *= 2)
        total = Fold::join(total, across(total, mask));
    return total;
}

template <class Fold>
DEVICE typename Fold::context context_of(const berth_cuda_reduce_args& args,
                                         const reduced_line<typename Fold::element>& line) {
    return Fold::begin(args.size > 0 ? line.first : nullptr);
}

/// The first element after chunk `chunk`.
DEVICE int64_t chunk_end(const berth_cuda_reduce_args& args, int64_t chunk) {
    const int64_t end = (chunk + 1) * args.chunk;
    return end < args.size ? end : args.size;
}

/// The tree over lanes [first, first + count), one after another; count is a power of two <= 32.
template <class Fold>
DEVICE typename Fold::total fold_lanes(const berth_cuda_reduce_args& args,
                                       const reduced_line<typename Fold::element>& line,
                                       uint32_t first,
                                       uint32_t count,
                                       int64_t chunk) {
    const auto context = context_of<Fold>(args, line);
    const int64_t begin = chunk * args.chunk;
    const int64_t end = chunk_end(args, chunk);
    using total = typename Fold::total;
    // what has been joined of 1, 2, 4, 8, 16 lanes and waits for as many more
    total of_1 = Fold::nothing(), of_2 = of_1, of_4 = of_1, of_8 = of_1, of_16 = of_1;
    total joined = of_1;
    UNROLL_BY(1)
    for (uint32_t i = 0; i < count; ++i) {
        joined = fold_lane<Fold>(line, first + i, args.lanes, begin, end, context);
        total* const waiting[] = {&of_1, &of_2, &of_4, &of_8, &of_16};
        UNROLL
        for (uint32_t level = 0; level < 5; ++level) {
            if ((i >> level & 1) == 0) {
                *waiting[level] = joined;
                break;
            }
            joined = Fold::join(*waiting[level], joined);
        }
    }
    return joined;
}

/// The tree over what the `depth` threads of each of `width` columns fold; right in the first of a
/// column's threads, which have numbers `width` apart.
template <class Fold>
DEVICE typename Fold::total join_columns(typename Fold::total total,
                                         uint32_t width,
                                         uint32_t depth) {
    SHARED(typename Fold::total, joined, BERTH_CUDA_ROW_THREADS);
    const uint32_t level = thread_index() / width;
    for (uint32_t step = 1; step < depth; step *= 2) {
        joined[thread_index()] = total;
        sync_block();
        if (level % (2 * step) == 0)
            total = Fold::join(total, joined[thread_index() + step * width]);
        sync_block();
    }
    return total;
}

/// What one thread does of which output.
struct reduce_share {
    int64_t output;
    int64_t chunk;
    uint32_t lane; ///< the first
    uint32_t lanes;
};

DEVICE reduce_share share_of(const berth_cuda_reduce_args& args) {
    const int64_t block = (int64_t)(block_index() / (uint32_t)args.chunks);
    const int64_t chunk = (int64_t)(block_index() % (uint32_t)args.chunks);
    const uint32_t thread = thread_index();
    if (args.mode == BERTH_CUDA_REDUCE_WARPS)
        return reduce_share{grid_first() / BERTH_CUDA_WARP, 0, thread % BERTH_CUDA_WARP, 1};
    if (args.mode == BERTH_CUDA_REDUCE_BLOCKS) return reduce_share{block, chunk, thread, 1};
    const uint32_t width = BERTH_CUDA_ROW_THREADS / args.depth;
    return reduce_share{block * width + thread % width,
                        chunk,
                        thread / width * args.lanes_a_thread,
                        args.lanes_a_thread};
}

/// The results of an output's chunks, as a block's lanes hold them.
template <class Fold>
DEVICE typename Fold::total gather_chunks(const berth_cuda_reduce_args& args) {
    const auto* of_chunks =
        (const typename Fold::total*)args.partials + (int64_t)block_index() * args.chunks;
    typename Fold::total total = Fold::nothing();
    for (int64_t chunk = thread_index(); chunk < args.chunks; chunk += BERTH_CUDA_ROW_THREADS)
        total = Fold::join(total, of_chunks[chunk]);
    return total;
}

template <class Fold> DEVICE void reduce(const berth_cuda_reduce_args& args) {
    const bool is_merge = args.mode == BERTH_CUDA_REDUCE_MERGE;
    const reduce_share share =
        is_merge ? reduce_share{(int64_t)block_index(), 0, thread_index(), 1} : share_of(args);
    typename Fold::total total = Fold::nothing();
    if (is_merge) {
        total = gather_chunks<Fold>(args);
    } else if (share.output < args.outputs) {
        const auto line = line_of<typename Fold::element>(args, share.output);
        total = fold_lanes<Fold>(args, line, share.lane, share.lanes, share.chunk);
    }
    if (args.mode == BERTH_CUDA_REDUCE_WARPS)
        total = join_warp<Fold>(total);
    else if (args.mode == BERTH_CUDA_REDUCE_COLUMNS)
        total = join_columns<Fold>(total, BERTH_CUDA_ROW_THREADS / args.depth, args.depth);
    else
        total = join_block<Fold>(total);
    if (share.lane != 0 || share.output >= args.outputs) return;
    if (is_merge || args.chunks == 1)
        Fold::finish(args, share.output, total);
    else
        ((typename Fold::total*)args.partials)[share.output * args.chunks + share.chunk] = total;
}

#define REDUCE_FLOATS(name, Fold)                                                                  \
    KERNEL_OF(BERTH_CUDA_ROW_THREADS, name, berth_cuda_reduce_args) {                              \
        with_real(args.dtype, [&](auto x) { reduce<Fold<decltype(x)>>(args); });                   \
    }

#define REDUCE_INTEGERS(name, Fold)                                                                \
    KERNEL_OF(BERTH_CUDA_ROW_THREADS, name, berth_cuda_reduce_args) {                              \
        with_whole(args.dtype, [&](auto x) { reduce<Fold<decltype(x)>>(args); });                  \
    }

#endif // BERTH_DEVICE_CUDA_ROW_REDUCE_CUH
