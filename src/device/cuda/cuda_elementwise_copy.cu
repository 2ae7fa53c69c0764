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

/// A tile's rows and columns of items: 128 bytes a row, or more.
template <class T> constexpr int side_of = sizeof(T) >= 4 ? 32 : 128 / (int)sizeof(T);

/// Neighbours that a thread moves in one access: 4 bytes or more.
template <class T> constexpr int pack_of = side_of<T> / (int)BERTH_CUDA_WARP;

/// Which tile of which matrix this is.
struct tile_place {
    int64_t from; ///< items, to the tile's first one
    int64_t out;
    int64_t rows; ///< of the tile that are there
    int64_t columns;
};

template <class T> DEVICE tile_place find_tile(const berth_cuda_turn_args& args, int64_t tile) {
    const int64_t side = side_of<T>;
    const int64_t column = tile % args.column_tiles * side;
    const int64_t rest = tile / args.column_tiles;
    const int64_t row = rest % args.row_tiles * side;
    const auto matrix = walk_to<2>(args.matrices, rest / args.row_tiles);
    tile_place place;
    place.from = matrix.of[0] + row + column * args.column_stride;
    place.out = matrix.of[1] + row * args.row_stride + column;
    place.rows = args.rows - row < side ? args.rows - row : side;
    place.columns = args.columns - column < side ? args.columns - column : side;
    return place;
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

/// A warp reads a column of the output, whose items are neighbours in the input, and writes a row.
/// One item more than the tile has in a shared row keeps a warp's accesses in different banks.
template <class T> DEVICE void turn_tiles(const berth_cuda_turn_args& args, T* shared) {
    constexpr int SIDE = side_of<T>, PITCH = SIDE + 1, PACK = pack_of<T>;
    const int warps = (int)(thread_count() / BERTH_CUDA_WARP);
    const int warp = (int)(thread_index() / BERTH_CUDA_WARP);
    const int mine = (int)(thread_index() % BERTH_CUDA_WARP) * PACK;
    const int64_t tiles = args.matrices.count * args.row_tiles * args.column_tiles;
    for (int64_t tile = block_index(); tile < tiles; tile += block_count()) {
        const tile_place place = find_tile<T>(args, tile);
        const T* from = (const T*)args.from + place.from;
        T* out = (T*)args.out + place.out;
        const bool reads_packs = is_packed(from, args.column_stride);
        const bool writes_packs = is_packed(out, args.row_stride);
        for (int column = warp; column < place.columns; column += warps) {
            const T* at = from + column * args.column_stride + mine;
            const auto pack = load_pack(at, place.rows - mine, reads_packs);
            UNROLL
            for (int p = 0; p < PACK; ++p)
                shared[column * PITCH + mine + p] = pack.of[p];
        }
        sync_block();
        for (int row = warp; row < place.rows; row += warps) {
            lanes<T, PACK> pack;
            UNROLL
            for (int p = 0; p < PACK; ++p)
                pack.of[p] = shared[(mine + p) * PITCH + row];
            store_pack(
                out + row * args.row_stride + mine, place.columns - mine, writes_packs, pack);
        }
        sync_block();
    }
}

} // namespace

// --- Kernels ------------------------------------------------------------------------------------

#define THREADS 256

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
    // the largest: 128 x 129 items of a byte
    SHARED(uint64_t, shared, 128 * 129 / 8);
    if (args.item_bytes == 8)
        turn_tiles(args, shared);
    else if (args.item_bytes == 4)
        turn_tiles(args, (uint32_t*)shared);
    else if (args.item_bytes == 2)
        turn_tiles(args, (uint16_t*)shared);
    else
        turn_tiles(args, (uint8_t*)shared);
}
