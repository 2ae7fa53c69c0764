// SPDX-License-Identifier: Apache-2.0
// Products of few rows with a matrix of f32 whose columns lie side by side: each thread of a warp
// has a column, each warp a segment of the depth, and the segments' sums meet in shared memory.
#include "device/cuda/cuda_product.cuh"

namespace {

constexpr uint32_t THREADS = 256;
constexpr int WARPS = (int)(THREADS / BERTH_CUDA_WARP);
constexpr int MOST_ROWS = 8; // of a at a time
constexpr int AHEAD = 16;    // rows of b that are asked for before they are multiplied

constexpr int COLUMNS = (int)BERTH_CUDA_WARP; // of a block

/// Brings the segment of each warp of the rows of a into `to` [MOST_ROWS, WARPS, PRODUCT_SEGMENT].
DEVICE void bring_segments(const berth_cuda_product_args& args,
                           const int64_t* row_at,
                           int64_t rows,
                           int64_t round,
                           float* to) {
    const int within = (int)thread_index() * 4; // 256 threads bring four elements of the 8 segments
    UNROLL_BY(2)
    for (int m = 0; m < MOST_ROWS; ++m) {
        float some[4];
        load_a(args, row_at[m], m < rows, round + within, some);
        float* const at = to + m * WARPS * PRODUCT_SEGMENT + within;
        UNROLL
        for (int i = 0; i < 4; ++i)
            at[i] = some[i];
    }
}

static_assert(THREADS * 4 == WARPS * PRODUCT_SEGMENT, "the threads bring whole rows of segments");

/// AHEAD rows of this thread's column of b from k on, zeros behind the depth.
DEVICE void load_rows(const berth_cuda_product_args& args,
                      int64_t b_at,
                      bool is_there,
                      int64_t k,
                      float (&to)[AHEAD]) {
    UNROLL
    for (int i = 0; i < AHEAD; ++i) {
        const bool is_here = is_there && k + i < args.depth;
        to[i] = is_here ? ((const float*)args.b)[b_at + (k + i) * args.b_step] : 0.0f;
    }
}

/// Adds the products of AHEAD rows of b with all rows of a, whose segment begins at `a`.
DEVICE void multiply_rows(const float (&b)[AHEAD], const float* a, float (&sums)[MOST_ROWS]) {
    UNROLL
    for (int i = 0; i < AHEAD; i += 4) {
        UNROLL
        for (int m = 0; m < MOST_ROWS; ++m) {
            float some[4];
            load_vector(a + m * WARPS * PRODUCT_SEGMENT + i, some);
            UNROLL
            for (int e = 0; e < 4; ++e)
                sums[m] = fmaf(some[e], b[i + e], sums[m]);
        }
    }
}

/// Up to MOST_ROWS rows from row0 on times the columns of a block.
DEVICE void across(const berth_cuda_product_args& args,
                   int64_t row0,
                   int64_t column0,
                   int64_t batch) {
    typedef lanes<float, 4> four;
    SHARED(four, space, MOST_ROWS * WARPS * PRODUCT_SEGMENT / 4); // segments of a, then their sums
    SHARED(int64_t, row_at, MOST_ROWS);
    float* const shared = (float*)space;
    const int warp = (int)thread_index() / 32, lane = (int)thread_index() % 32;
    const batch_place place = place_of_batch(args, batch);
    const int64_t rows = args.rows - row0 < MOST_ROWS ? args.rows - row0 : MOST_ROWS;
    if (warp == 0 && lane < rows) row_at[lane] = place.a + row_of_a(args, row0 + lane);
    const int64_t column = column0 + lane;
    const bool is_there = column < args.columns;
    const int64_t b_at = place.b + (is_there ? column : 0);
    float total = 0.0f; // of row `warp`
    for (int64_t round = 0; round < args.depth; round += WARPS * PRODUCT_SEGMENT) {
        sync_block(); // the last round's sums have been read
        bring_segments(args, row_at, rows, round, shared);
        sync_block();
        float sums[MOST_ROWS] = {};
        for (int step = 0; step < PRODUCT_SEGMENT; step += AHEAD) {
            const int at = warp * PRODUCT_SEGMENT + step;
            float of_b[AHEAD];
            load_rows(args, b_at, is_there, round + at, of_b);
            multiply_rows(of_b, shared + at, sums);
        }
        sync_block();
        UNROLL
        for (int m = 0; m < MOST_ROWS; ++m)
            shared[(m * WARPS + warp) * COLUMNS + lane] = sums[m];
        sync_block();
        for (int s = 0; s < WARPS; ++s)
            total += shared[(warp * WARPS + s) * COLUMNS + lane];
    }
    if (warp < rows && is_there) store_product(args, place, row0 + warp, column, total);
    sync_block(); // before the next item's rows
}

static_assert(WARPS == MOST_ROWS, "each warp ends one row");

/// Items are [batch][columns' group][rows' group].
DEVICE void product_across(const berth_cuda_product_args& args) {
    const int64_t row_groups = (args.rows + MOST_ROWS - 1) / MOST_ROWS;
    const int64_t column_groups = (args.columns + COLUMNS - 1) / COLUMNS;
    const int64_t items = args.batches * row_groups * column_groups;
    for (int64_t item = block_index(); item < items; item += block_count())
        across(args,
               item % row_groups * MOST_ROWS,
               item / row_groups % column_groups * COLUMNS,
               item / row_groups / column_groups);
}

} // namespace

KERNEL_OF(256, product_across_f32, berth_cuda_product_args) { product_across(args); }
