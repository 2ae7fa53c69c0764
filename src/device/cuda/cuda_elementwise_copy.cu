// SPDX-License-Identifier: Apache-2.0
// COPY: words of any strides, and transpositions.
#include "device/cuda/cuda_elements.cuh"

namespace {

// --- Words --------------------------------------------------------------------------------------

template <class Word> DEVICE void copy_words(const berth_cuda_copy_args& args) {
    constexpr int READS = BERTH_CUDA_COPY_READS;
    const Word* from = (const Word*)args.from;
    Word* out = (Word*)args.out;
    const int64_t last = args.walk.count - 1;
    const int64_t a_round = (int64_t)thread_count() * READS;
    const int64_t step = block_count() * a_round;
    for (int64_t first = block_index() * a_round + thread_index(); first <= last; first += step) {
        Word held[READS];
        UNROLL
        for (int r = 0; r < READS; ++r) {
            // a thread behind the end reads the last word too, and drops it
            const int64_t at = first + (int64_t)r * thread_count();
            held[r] = from[walk_to<1>(args.walk, at < last ? at : last).of[0]];
        }
        UNROLL
        for (int r = 0; r < READS; ++r) {
            const int64_t at = first + (int64_t)r * thread_count();
            if (at <= last) out[at] = held[r];
        }
    }
}

// --- Transpositions -----------------------------------------------------------------------------

/// A tile's rows and columns of items, as BERTH_CUDA_TURN_SIDE has them.
template <class T> constexpr int side_of = BERTH_CUDA_TURN_SIDE(sizeof(T));

/// Neighbours that a thread moves in one access: 4 or 8 bytes.
template <class T> constexpr int pack_of = side_of<T> / (int)BERTH_CUDA_WARP;

/// Which tile of which matrix this is.
struct tile_place {
    int64_t from; ///< items, to the tile's first one
    int64_t out;
    int64_t rows; ///< of the tile that are there
    int64_t columns;
};

template <class T> DEVICE tile_place find_tile(const berth_cuda_turn_args& args, int64_t tile) {
    constexpr int64_t SIDE = side_of<T>;
    int64_t column = tile;
    int64_t row = divide_any(args.column_tiles, args.is_small, column);
    const int64_t matrix = divide_any(args.row_tiles, args.is_small, row);
    column *= SIDE;
    row *= SIDE;
    const auto begin = walk_to<2>(args.matrices, matrix);
    tile_place place;
    place.from = begin.of[0] + row + column * args.column_stride;
    place.out = begin.of[1] + row * args.row_stride + column;
    place.rows = args.rows - row < SIDE ? args.rows - row : SIDE;
    place.columns = args.columns - column < SIDE ? args.columns - column : SIDE;
    return place;
}

template <class T> DEVICE bool is_packed(const T* data, int64_t stride) {
    return (uintptr_t)data % (sizeof(T) * pack_of<T>) == 0 && stride % pack_of<T> == 0;
}

/// The pack at `at`, of which `count` items are there.
template <class T> DEVICE pack<T, pack_of<T>> load_items(const T* at, int64_t count, bool packed) {
    constexpr int PACK = pack_of<T>;
    if (packed && count >= PACK) return load_pack<T, PACK>(at);
    pack<T, PACK> made;
    UNROLL
    for (int p = 0; p < PACK; ++p)
        made.put(p, p < count ? at[p] : (T)0);
    return made;
}

template <class T>
DEVICE void store_items(T* at, int64_t count, bool packed, const pack<T, pack_of<T>>& from) {
    constexpr int PACK = pack_of<T>;
    if (packed && count >= PACK) {
        store_pack(at, from);
        return;
    }
    UNROLL
    for (int p = 0; p < PACK; ++p)
        if (p < count) at[p] = from.get(p);
}

constexpr int WARPS = BERTH_CUDA_ELEMENT_THREADS / (int)BERTH_CUDA_WARP;

/// Packs that a thread has under way.
template <class T> constexpr int reads_of = side_of<T> < 8 * WARPS ? side_of<T> / WARPS : 8;

/// Columns of the output, whose items are neighbours in the input: a warp reads every WARPS-th, and
/// has several under way before it waits for the first.
template <class T>
DEVICE void read_tile(const berth_cuda_turn_args& args, const tile_place& place, T* shared) {
    constexpr int SIDE = side_of<T>, PITCH = SIDE + 1, PACK = pack_of<T>, READS = reads_of<T>;
    const int mine = (int)(thread_index() % BERTH_CUDA_WARP) * PACK;
    const T* from = (const T*)args.from + place.from;
    const bool packed = is_packed(from, args.column_stride);
    for (int warp = (int)(thread_index() / BERTH_CUDA_WARP); warp < SIDE; warp += WARPS * READS) {
        pack<T, PACK> held[READS] = {};
        UNROLL
        for (int r = 0; r < READS; ++r) {
            const int column = warp + r * WARPS;
            if (column < place.columns)
                held[r] = load_items(
                    from + column * args.column_stride + mine, place.rows - mine, packed);
        }
        UNROLL
        for (int r = 0; r < READS; ++r) {
            UNROLL
            for (int p = 0; p < PACK; ++p)
                shared[(warp + r * WARPS) * PITCH + mine + p] = held[r].get(p);
        }
    }
}

/// Rows of the output, each by a warp.
template <class T>
DEVICE void write_tile(const berth_cuda_turn_args& args, const tile_place& place, const T* shared) {
    constexpr int PITCH = side_of<T> + 1, PACK = pack_of<T>;
    const int mine = (int)(thread_index() % BERTH_CUDA_WARP) * PACK;
    T* out = (T*)args.out + place.out;
    const bool packed = is_packed(out, args.row_stride);
    for (int row = (int)(thread_index() / BERTH_CUDA_WARP); row < place.rows; row += WARPS) {
        pack<T, PACK> held;
        UNROLL
        for (int p = 0; p < PACK; ++p)
            held.put(p, shared[(mine + p) * PITCH + row]);
        store_items(out + row * args.row_stride + mine, place.columns - mine, packed, held);
    }
}

/// One item more than the tile has in a shared row keeps a warp's accesses in different banks.
template <class T> DEVICE void turn_tiles(const berth_cuda_turn_args& args, T* shared) {
    const int64_t tiles = args.matrices.count * args.row_tiles.size * args.column_tiles.size;
    for (int64_t tile = block_index(); tile < tiles; tile += block_count()) {
        const tile_place place = find_tile<T>(args, tile);
        read_tile(args, place, shared);
        sync_block();
        write_tile(args, place, shared);
        sync_block();
    }
}

} // namespace

// --- Kernels ------------------------------------------------------------------------------------

KERNEL_OF(BERTH_CUDA_ELEMENT_THREADS, copy, berth_cuda_copy_args) {
    with_unit(args.word_bytes, [&](auto word) { copy_words<decltype(word)>(args); });
}

KERNEL_OF(BERTH_CUDA_ELEMENT_THREADS, turn, berth_cuda_turn_args) {
    // the largest: 64 rows of 65 items of 4 bytes
    SHARED(uint64_t, shared, 64 * 65 * 4 / 8);
    with_item(args.item_bytes, [&](auto item) { turn_tiles(args, (decltype(item)*)shared); });
}
