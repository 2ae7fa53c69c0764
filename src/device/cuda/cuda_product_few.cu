// SPDX-License-Identifier: Apache-2.0
// Products of few rows, whose time is that of reading b once: all threads of a block load b at the
// same time, each its own segment of the depth of its own column, and the segments' sums meet in
// shared memory. One row has a kernel with more threads in flight; more go in groups of up to 8,
// each of which reads b again, from the cache.
#include "device/cuda/cuda_product.cuh"

namespace {

constexpr uint32_t THREADS = 256;
constexpr int MOST_ROWS = 8; // of a at a time
constexpr int STEP = 32; // of each segment at a time: 64 bytes of halves, or a block of quantised

// --- Columns along the depth --------------------------------------------------------------------

constexpr int COLUMNS = 8; // of a block: 8 threads side by side have one segment of 8 columns
constexpr int SEGMENTS = (int)THREADS / COLUMNS;
constexpr int PITCH = STEP + 4; // so that the segments' rows of a lie in different banks
constexpr int SUMS_PITCH = COLUMNS + 1;

/// Brings the step of every segment of M rows of a into `to` [M, SEGMENTS, PITCH].
template <int M>
DEVICE void bring_rows(const berth_cuda_product_args& args,
                       const int64_t* row_at,
                       int64_t rows,
                       int64_t round,
                       int step,
                       float* to) {
    const int segment = (int)thread_index() / 8, within = (int)thread_index() % 8 * 4;
    const int64_t k = round + segment * PRODUCT_SEGMENT + step + within;
    UNROLL_BY(2)
    for (int m = 0; m < M; ++m) {
        float some[4];
        load_a(args, row_at[m], m < rows, k, some);
        float* const at = to + (m * SEGMENTS + segment) * PITCH + within;
        UNROLL
        for (int i = 0; i < 4; ++i)
            at[i] = some[i];
    }
}

/// Adds the products of this thread's step of b with M rows of a, `pitch` floats apart.
template <int M>
DEVICE void multiply_step(const float (&b)[STEP], const float* a, int pitch, float (&sums)[M]) {
    UNROLL
    for (int i = 0; i < STEP; i += 4) {
        UNROLL
        for (int m = 0; m < M; ++m) {
            float some[4];
            load_vector(a + m * pitch + i, some);
            UNROLL
            for (int e = 0; e < 4; ++e)
                sums[m] = fmaf(some[e], b[i + e], sums[m]);
        }
    }
}

/// Adds `count` segments' sums, `step` apart, to a total, in ascending order.
DEVICE float add_segments(float total, const float* sums, int step, int count) {
    for (int s = 0; s < count; ++s)
        total += sums[s * step];
    return total;
}

/// M rows from row0 on times a group of columns.
template <class B, int M>
DEVICE void few_of(const berth_cuda_product_args& args,
                   int64_t row0,
                   int64_t column0,
                   int64_t batch) {
    typedef lanes<float, 4> four;
    SHARED(four, a_tile, M * SEGMENTS * PITCH / 4);
    SHARED(float, all_sums, M* SEGMENTS* SUMS_PITCH);
    SHARED(int64_t, row_at, M);
    const int column = (int)thread_index() % COLUMNS, segment = (int)thread_index() / COLUMNS;
    const batch_place place = place_of_batch(args, batch);
    const int64_t rows = args.rows - row0 < M ? args.rows - row0 : M;
    if (segment < rows && column == 0) row_at[segment] = place.a + row_of_a(args, row0 + segment);
    const bool is_there = column0 + column < args.columns;
    const int64_t b_at = is_there ? place.b + (column0 + column) * args.b_column : 0;
    const unsigned char* const b = bytes_at(args.b, b_at * columns_of<B>::BYTES);
    const float* const of_a = (const float*)a_tile + segment * PITCH;
    float total = 0.0f;
    for (int64_t round = 0; round < args.depth; round += SEGMENTS * PRODUCT_SEGMENT) {
        float sums[M] = {};
        for (int step = 0; step < PRODUCT_SEGMENT; step += STEP) {
            const int64_t k = round + segment * PRODUCT_SEGMENT + step;
            float of_b[STEP] = {};
            if (is_there && k < args.depth) columns_of<B>::load(args, b, k, of_b);
            sync_block(); // those of the step before have been read
            bring_rows<M>(args, row_at, rows, round, step, (float*)a_tile);
            sync_block();
            multiply_step<M>(of_b, of_a, SEGMENTS * PITCH, sums);
        }
        UNROLL
        for (int m = 0; m < M; ++m)
            all_sums[(m * SEGMENTS + segment) * SUMS_PITCH + column] = sums[m];
        sync_block();
        if (segment < M)
            total = add_segments(
                total, all_sums + segment * SEGMENTS * SUMS_PITCH + column, SUMS_PITCH, SEGMENTS);
    }
    if (segment < rows && is_there)
        store_product(args, place, row0 + segment, column0 + column, total);
    sync_block(); // before the next item's sums
}

/// Items are [batch][columns' group][rows' group].
template <class B, int M> DEVICE void few_groups(const berth_cuda_product_args& args) {
    const int64_t row_groups = (args.rows + M - 1) / M;
    const int64_t column_groups = (args.columns + COLUMNS - 1) / COLUMNS;
    const int64_t items = args.batches * row_groups * column_groups;
    for (int64_t item = block_index(); item < items; item += block_count())
        few_of<B, M>(args,
                     item % row_groups * M,
                     item / row_groups % column_groups * COLUMNS,
                     item / row_groups / column_groups);
}

} // namespace

#define PRODUCT_FEW(name, type)                                                                    \
    KERNEL_OF(256, product_one_##name, berth_cuda_product_args) { few_groups<type, 1>(args); }     \
    KERNEL_OF(256, product_few_##name, berth_cuda_product_args) {                                  \
        few_groups<type, MOST_ROWS>(args);                                                         \
    }

PRODUCT_FEW(f32, float)
PRODUCT_FEW(f16, f16)
PRODUCT_FEW(bf16, bf16)
PRODUCT_FEW(q4_0, q4_0)
PRODUCT_FEW(q4_1, q4_1)
PRODUCT_FEW(q5_0, q5_0)
PRODUCT_FEW(q5_1, q5_1)
PRODUCT_FEW(q8_0, q8_0)
PRODUCT_FEW(q4_k, q4_k)
PRODUCT_FEW(q5_k, q5_k)
PRODUCT_FEW(q6_k, q6_k)
