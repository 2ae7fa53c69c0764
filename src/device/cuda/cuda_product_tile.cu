// SPDX-License-Identifier: Apache-2.0
// Products of many rows: each block makes a tile of out, 128 rows by 64 columns, from stretches of
// both operands that its threads bring into shared memory as f32. While one stretch is multiplied
// the next is on its way to registers.
#include "device/cuda/cuda_product.cuh"

namespace {

constexpr uint32_t THREADS = 256;
constexpr int ROWS = 128, COLUMNS = 64;
constexpr int STEP = 16; // of the depth, in shared memory at a time
constexpr int OWN_ROWS = 8, OWN_COLUMNS = 4;
// Four more than needed, so that threads that write along the depth meet different banks.
constexpr int A_PITCH = ROWS + 4, B_PITCH = COLUMNS + 4;
constexpr int A_FLOATS = STEP * A_PITCH, B_FLOATS = STEP * B_PITCH;

static_assert(THREADS * OWN_ROWS * OWN_COLUMNS == ROWS * COLUMNS, "each thread has its outputs");
static_assert(PRODUCT_SEGMENT % STEP == 0, "a segment is whole steps");

/// What a thread brings from each operand, and where to.
struct carrier {
    int64_t a_at; ///< element of a
    int64_t b_at; ///< element or block of b
    int a_row, a_step;
    int b_column, b_step;
    int a_rows;    ///< rows of the tile that are there, from a_row on
    int b_columns; ///< the same of columns
};

/// The place of this thread's elements in a tile's stretch of a: 8 along the depth, or across it.
DEVICE void find_a(const berth_cuda_product_args& args,
                   const batch_place& place,
                   int64_t row0,
                   carrier& own) {
    const int t = (int)thread_index();
    const bool is_across = args.a_form == BERTH_CUDA_FORM_ACROSS;
    own.a_row = is_across ? t % 16 * 8 : t / 2;
    own.a_step = is_across ? t / 16 : t % 2 * 8;
    const int64_t left = args.rows - row0 - own.a_row;
    own.a_rows = left <= 0 ? 0 : left > 8 ? 8 : (int)left;
    own.a_at = own.a_rows > 0 ? place.a + row_of_a(args, row0 + own.a_row) : 0;
}

template <class B>
DEVICE void find_b(const berth_cuda_product_args& args,
                   const batch_place& place,
                   int64_t column0,
                   carrier& own) {
    const int t = (int)thread_index();
    const bool is_across = args.b_form == BERTH_CUDA_FORM_ACROSS;
    own.b_column = is_across ? t % 16 * 4 : t / 4;
    own.b_step = is_across ? t / 16 : t % 4 * 4;
    const int64_t left = args.columns - column0 - own.b_column;
    own.b_columns = left <= 0 ? 0 : left > 4 ? 4 : (int)left;
    own.b_at = place.b + (column0 + own.b_column) * args.b_column;
}

DEVICE void fetch_a(const berth_cuda_product_args& args,
                    const carrier& own,
                    int64_t k0,
                    float (&to)[8]) {
    const int64_t k = k0 + own.a_step;
    if (args.a_form != BERTH_CUDA_FORM_ACROSS) {
        load_a(args, own.a_at, own.a_rows > 0, k, to);
        return;
    }
    load_floats(args.dtype,
                args.a,
                own.a_at + k * args.a_step,
                1,
                true,
                k < args.depth ? own.a_rows : 0,
                to);
}

template <class B>
DEVICE void fetch_b(const berth_cuda_product_args& args,
                    const carrier& own,
                    int64_t k0,
                    float (&to)[4]) {
    const int64_t k = k0 + own.b_step;
    if (own.b_columns == 0 || k >= args.depth) {
        UNROLL
        for (int i = 0; i < 4; ++i)
            to[i] = 0.0f;
        return;
    }
    columns_of<B>::load(args, bytes_at(args.b, own.b_at * columns_of<B>::BYTES), k, to);
}

/// The same of b whose columns lie side by side; only plain types do.
template <class B>
DEVICE void fetch_b_across(const berth_cuda_product_args& args,
                           const carrier& own,
                           int64_t k0,
                           float (&to)[4]) {
    const int64_t k = k0 + own.b_step;
    const int64_t count = k < args.depth ? own.b_columns : 0;
    load_some((const B*)args.b + own.b_at + k * args.b_step, 1, true, count, to);
}

/// Writes what was fetched into the stretch's place: [STEP, A_PITCH] or [STEP, B_PITCH].
template <int N, int PITCH>
DEVICE void put(const float (&from)[N], float* to, int place, int step, bool is_across) {
    UNROLL
    for (int i = 0; i < N; ++i) {
        const int along = (step + i) * PITCH + place, across = step * PITCH + place + i;
        to[is_across ? across : along] = from[i];
    }
}

/// Adds a stretch's products to this thread's sums.
DEVICE void multiply(const float* a, const float* b, float (&sums)[OWN_ROWS][OWN_COLUMNS]) {
    const int row = (int)thread_index() / 16 * OWN_ROWS;
    const int column = (int)thread_index() % 16 * OWN_COLUMNS;
    UNROLL
    for (int k = 0; k < STEP; ++k) {
        float of_a[OWN_ROWS], of_b[OWN_COLUMNS];
        load_vector(a + k * A_PITCH + row, of_a);
        load_vector(b + k * B_PITCH + column, of_b);
        UNROLL
        for (int r = 0; r < OWN_ROWS; ++r) {
            UNROLL
            for (int c = 0; c < OWN_COLUMNS; ++c)
                sums[r][c] = fmaf(of_a[r], of_b[c], sums[r][c]);
        }
    }
}

/// Takes the sums of a segment over into the totals.
DEVICE void end_segment(float (&sums)[OWN_ROWS][OWN_COLUMNS],
                        float (&totals)[OWN_ROWS][OWN_COLUMNS]) {
    UNROLL
    for (int r = 0; r < OWN_ROWS; ++r) {
        UNROLL
        for (int c = 0; c < OWN_COLUMNS; ++c) {
            totals[r][c] += sums[r][c];
            sums[r][c] = 0.0f;
        }
    }
}

DEVICE void store_tile(const berth_cuda_product_args& args,
                       const batch_place& place,
                       int64_t row0,
                       int64_t column0,
                       const float (&totals)[OWN_ROWS][OWN_COLUMNS]) {
    const int64_t row = row0 + thread_index() / 16 * OWN_ROWS;
    const int64_t column = column0 + thread_index() % 16 * OWN_COLUMNS;
    UNROLL
    for (int r = 0; r < OWN_ROWS; ++r) {
        UNROLL
        for (int c = 0; c < OWN_COLUMNS; ++c) {
            if (row + r < args.rows && column + c < args.columns)
                store_product(args, place, row + r, column + c, totals[r][c]);
        }
    }
}

/// Fetches both operands' stretch at k0 for this thread.
template <class B, bool MAY_LIE_ACROSS>
DEVICE void fetch(const berth_cuda_product_args& args,
                  const carrier& own,
                  int64_t k0,
                  float (&of_a)[8],
                  float (&of_b)[4]) {
    fetch_a(args, own, k0, of_a);
    if constexpr (MAY_LIE_ACROSS) {
        if (args.b_form == BERTH_CUDA_FORM_ACROSS) {
            fetch_b_across<B>(args, own, k0, of_b);
            return;
        }
    }
    fetch_b<B>(args, own, k0, of_b);
}

/// One tile of one product of the batch: [batch][column tile][row tile].
template <class B, bool MAY_LIE_ACROSS>
DEVICE void product_tile(const berth_cuda_product_args& args, int64_t item) {
    typedef lanes<float, 4> four;
    SHARED(four, a_tiles, 2 * A_FLOATS / 4);
    SHARED(four, b_tiles, 2 * B_FLOATS / 4);
    float* const a_space = (float*)a_tiles;
    float* const b_space = (float*)b_tiles;
    const int64_t row_tiles = (args.rows + ROWS - 1) / ROWS;
    const int64_t column_tiles = (args.columns + COLUMNS - 1) / COLUMNS;
    const int64_t row0 = item % row_tiles * ROWS;
    const int64_t column0 = item / row_tiles % column_tiles * COLUMNS;
    const batch_place place = place_of_batch(args, item / row_tiles / column_tiles);
    const bool a_is_across = args.a_form == BERTH_CUDA_FORM_ACROSS;
    const bool b_is_across = MAY_LIE_ACROSS && args.b_form == BERTH_CUDA_FORM_ACROSS;
    carrier own;
    find_a(args, place, row0, own);
    find_b<B>(args, place, column0, own);
    float sums[OWN_ROWS][OWN_COLUMNS] = {}, totals[OWN_ROWS][OWN_COLUMNS] = {};
    float of_a[8] = {}, of_b[4] = {};
    int turn = 0;
    if (args.depth > 0) fetch<B, MAY_LIE_ACROSS>(args, own, 0, of_a, of_b);
    for (int64_t k0 = 0; k0 < args.depth; k0 += STEP) {
        float* const a = a_space + turn * A_FLOATS;
        float* const b = b_space + turn * B_FLOATS;
        put<8, A_PITCH>(of_a, a, own.a_row, own.a_step, a_is_across);
        put<4, B_PITCH>(of_b, b, own.b_column, own.b_step, b_is_across);
        sync_block(); // also: whoever still reads the other stretch has put this one in place
        if (k0 + STEP < args.depth) fetch<B, MAY_LIE_ACROSS>(args, own, k0 + STEP, of_a, of_b);
        multiply(a, b, sums);
        if ((k0 + STEP) % PRODUCT_SEGMENT == 0) end_segment(sums, totals);
        turn ^= 1;
    }
    end_segment(sums, totals);
    store_tile(args, place, row0, column0, totals);
    sync_block(); // before the next tile's first stretch
}

template <class B, bool MAY_LIE_ACROSS>
DEVICE void product_tiles(const berth_cuda_product_args& args) {
    const int64_t row_tiles = (args.rows + ROWS - 1) / ROWS;
    const int64_t column_tiles = (args.columns + COLUMNS - 1) / COLUMNS;
    const int64_t items = args.batches * row_tiles * column_tiles;
    for (int64_t item = block_index(); item < items; item += block_count())
        product_tile<B, MAY_LIE_ACROSS>(args, item);
}

} // namespace

#define PRODUCT_TILE(name, type, may_lie_across)                                                   \
    KERNEL_OF(256, product_tile_##name, berth_cuda_product_args) {                                 \
        product_tiles<type, may_lie_across>(args);                                                 \
    }

PRODUCT_TILE(f32, float, true)
PRODUCT_TILE(f16, f16, false)
PRODUCT_TILE(bf16, bf16, false)
PRODUCT_TILE(q4_0, q4_0, false)
PRODUCT_TILE(q4_1, q4_1, false)
PRODUCT_TILE(q5_0, q5_0, false)
PRODUCT_TILE(q5_1, q5_1, false)
PRODUCT_TILE(q8_0, q8_0, false)
PRODUCT_TILE(q4_k, q4_k, false)
PRODUCT_TILE(q5_k, q5_k, false)
PRODUCT_TILE(q6_k, q6_k, false)
