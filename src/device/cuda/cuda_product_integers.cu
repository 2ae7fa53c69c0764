// SPDX-License-Identifier: Apache-2.0
// Products of integers, which wrap: the low bits of an unsigned sum are those of a signed one.
#include "device/cuda/cuda_product.cuh"

namespace {

constexpr int TILE = 16; // rows and columns of a block, and of the depth at a time

/// The element of an operand at `at`, or 0 where it is not there.
template <class T> DEVICE T element(const void* base, bool is_there, int64_t at) {
    return is_there ? ((const T*)base)[at] : (T)0;
}

template <class T, class Sum>
DEVICE void tile_of(const berth_cuda_product_args& args,
                    int64_t row0,
                    int64_t column0,
                    const batch_place& place) {
    SHARED(T, of_a, TILE * (TILE + 1));
    SHARED(T, of_b, TILE * (TILE + 1));
    const int x = (int)thread_index() % TILE, y = (int)thread_index() / TILE;
    const int64_t row = row0 + y, column = column0 + x;
    const bool has_row = row < args.rows, has_column = column < args.columns;
    const int64_t a_at = has_row ? place.a + row_of_a(args, row) : 0;
    const int64_t b_at = place.b + column * args.b_column;
    Sum sum = 0;
    for (int64_t k0 = 0; k0 < args.depth; k0 += TILE) {
        const bool a_is_there = has_row && k0 + x < args.depth;
        const bool b_is_there = has_column && k0 + y < args.depth;
        sync_block(); // the last step has been read
        of_a[y * (TILE + 1) + x] = element<T>(args.a, a_is_there, a_at + (k0 + x) * args.a_step);
        of_b[y * (TILE + 1) + x] = element<T>(args.b, b_is_there, b_at + (k0 + y) * args.b_step);
        sync_block();
        UNROLL
        for (int k = 0; k < TILE; ++k)
            sum += (Sum)of_a[y * (TILE + 1) + k] * (Sum)of_b[k * (TILE + 1) + x];
    }
    if (has_row && has_column)
        ((T*)args.out)[place.out + row * args.out_row + column * args.out_column] = (T)sum;
}

/// T has the operands' bytes, Sum at least those of an int.
template <class T, class Sum> DEVICE void product_integers(const berth_cuda_product_args& args) {
    const int64_t row_tiles = (args.rows + TILE - 1) / TILE;
    const int64_t column_tiles = (args.columns + TILE - 1) / TILE;
    const int64_t items = args.batches * row_tiles * column_tiles;
    for (int64_t item = block_index(); item < items; item += block_count())
        tile_of<T, Sum>(args,
                        item % row_tiles * TILE,
                        item / row_tiles % column_tiles * TILE,
                        place_of_batch(args, item / row_tiles / column_tiles));
}

} // namespace

KERNEL_OF(256, product_integers_8, berth_cuda_product_args) {
    product_integers<uint8_t, uint32_t>(args);
}
KERNEL_OF(256, product_integers_32, berth_cuda_product_args) {
    product_integers<uint32_t, uint32_t>(args);
}
KERNEL_OF(256, product_integers_64, berth_cuda_product_args) {
    product_integers<uint64_t, uint64_t>(args);
}
