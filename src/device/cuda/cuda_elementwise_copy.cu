// SPDX-License-Identifier: Apache-2.0
// COPY: words of any strides, and transpositions.
#include "device/cuda/cuda_elements.cuh"

namespace {

// --- Words --------------------------------------------------------------------------------------

template <class Word> DEVICE void copy_words(const berth_cuda_copy_args& args) {
    constexpr int READS = 4;
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

/// A tile's rows and columns of items, as berth_cuda_turn_side() has them.
template <class T> constexpr int side_of = sizeof(T) == 8 ? 32 : sizeof(T) == 1 ? 128 : 64;

/// Neighbours that a thread moves in one access: 4 or 8 bytes.
template <class T> constexpr int pack_of = side_of<T> / (int)BERTH_CUDA_WARP;

/// Packs that a thread has under way.
template <class T> constexpr int reads_of = sizeof(T) >= 4 ? 4 : 8;

/// Which tile of which matrix this is.
struct tile_place {
    int64_t from; ///< items, to the tile's first one
    int64_t out;
    int64_t rows; ///< of the tile that are there
    int64_t columns;
};

template <class T, class Index>
DEVICE tile_place find_tile_by(const berth_cuda_turn_args& args, Index tile) {
    const Index columns = (Index)args.column_tiles, rows = (Index)args.row_tiles;
    const Index rest = tile / columns, matrix = rest / rows;
    const int64_t column = (int64_t)(tile - rest * columns) * side_of<T>;
    const int64_t row = (int64_t)(rest - matrix * rows) * side_of<T>;
    const auto begin = walk_to<2>(args.matrices, (int64_t)matrix);
    tile_place place;
    place.from = begin.of[0] + row + column * args.column_stride;
    place.out = begin.of[1] + row * args.row_stride + column;
    place.rows = args.rows - row < side_of<T> ? args.rows - row : side_of<T>;
    place.columns = args.columns - column < side_of<T> ? args.columns - column : side_of<T>;
    return place;
}

template <class T> DEVICE tile_place find_tile(const berth_cuda_turn_args& args, int64_t tile) {
    if (args.is_small) return find_tile_by<T, uint32_t>(args, (uint32_t)tile);
    return find_tile_by<T, uint64_t>(args, (uint64_t)tile);
}

template <class T> DEVICE bool is_packed(const T* data, int64_t stride) {
    return (uintptr_t)data % (sizeof(T) * pack_of<T>) == 0 && stride % pack_of<T> == 0;
}

/// Pack items at `at`, of which `count` are there.
template <class T> DEVICE lanes<T, pack_of<T>> load_pack(const T* at, int64_t count, bool packed) {
    constexpr int PACK = pack_of<T>;
    if (packed && count >= PACK) return *(const lanes<T, PACK>*)at;
    lanes<T, PACK> made = {};
    UNROLL
    for (int p = 0; p < PACK; ++p)
        if (p < count) made.of[p] = at[p];
    return made;
}

template <class T>
DEVICE void store_pack(T* at, int64_t count, bool packed, const lanes<T, pack_of<T>>& pack) {
    constexpr int PACK = pack_of<T>;
    if (packed && count >= PACK) {
        *(lanes<T, PACK>*)at = pack;
        return;
    }
    UNROLL
    for (int p = 0; p < PACK; ++p)
        if (p < count) at[p] = pack.of[p];
}

constexpr int THREADS = 256;
constexpr int WARPS = THREADS / (int)BERTH_CUDA_WARP;

/// Columns of the output, whose items are neighbours in the input: a warp reads every WARPS-th, and
/// has several under way before it waits for the first.
template <class T>
DEVICE void read_tile(const berth_cuda_turn_args& args, const tile_place& place, T* shared) {
    constexpr int SIDE = side_of<T>, PITCH = SIDE + 1, PACK = pack_of<T>, READS = reads_of<T>;
    const int mine = (int)(thread_index() % BERTH_CUDA_WARP) * PACK;
    const T* from = (const T*)args.from + place.from;
    const bool packed = is_packed(from, args.column_stride);
    for (int warp = (int)(thread_index() / BERTH_CUDA_WARP); warp < SIDE; warp += WARPS * READS) {
        lanes<T, PACK> held[READS] = {};
        UNROLL
        for (int r = 0; r < READS; ++r) {
            const int column = warp + r * WARPS;
            if (column < place.columns)
                held[r] =
                    load_pack(from + column * args.column_stride + mine, place.rows - mine, packed);
        }
        UNROLL
        for (int r = 0; r < READS; ++r) {
            UNROLL
            for (int p = 0; p < PACK; ++p)
                shared[(warp + r * WARPS) * PITCH + mine + p] = held[r].of[p];
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
        lanes<T, PACK> pack;
        UNROLL
        for (int p = 0; p < PACK; ++p)
            pack.of[p] = shared[(mine + p) * PITCH + row];
        store_pack(out + row * args.row_stride + mine, place.columns - mine, packed, pack);
    }
}

/// One item more than the tile has in a shared row keeps a warp's accesses in different banks.
template <class T> DEVICE void turn_tiles(const berth_cuda_turn_args& args, T* shared) {
    const int64_t tiles = args.matrices.count * args.row_tiles * args.column_tiles;
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

KERNEL_OF(THREADS, copy, berth_cuda_copy_args) {
    if (args.word_bytes == 16)
        copy_words<words>(args);
    else if (args.word_bytes == 8)
        copy_words<uint64_t>(args);
    else if (args.word_bytes == 4)
        copy_words<uint32_t>(args);
    else if (args.word_bytes == 2)
        copy_words<uint16_t>(args);
    else
        copy_words<uint8_t>(args);
}

KERNEL_OF(THREADS, turn, berth_cuda_turn_args) {
    // the largest: 64 rows of 65 items of 4 bytes
    SHARED(uint64_t, shared, 64 * 65 * 4 / 8);
    if (args.item_bytes == 8)
        turn_tiles(args, shared);
    else if (args.item_bytes == 4)
        turn_tiles(args, (uint32_t*)shared);
    else if (args.item_bytes == 2)
        turn_tiles(args, (uint16_t*)shared);
    else
        turn_tiles(args, (uint8_t*)shared);
}
