// SPDX-License-Identifier: Apache-2.0
// How integers fold, in i64 that wraps, and how elements of any type fold to whether any or all of
// them are true.
#include <string.h>

#include "device/cpu/kernel_reduce.h"

#define TILE BERTH_REDUCE_TILE

// --- Integers ------------------------------------------------------------------------------------

static const berth_integer_rows* rows_of(const berth_reduced* from) {
    return &from->rows->integers[from->x.dtype];
}

/// Items [first, first + count) as they are.
static const void* items(const berth_reduced* from, int64_t first, int64_t count, void* buffer) {
    return berth_walk_as(&from->x, from->x.dtype, first, count, buffer);
}

/// Row `r` of a tile as it is.
static const void* tile_row(
    const berth_reduced* from, int64_t first, int64_t r, int64_t width, void* buffer) {
    return items(from, first + r * from->cut.inner_count, width, buffer);
}

/// The first row of a tile, widened: where extremes begin.
static void tile_begin(const berth_reduced* from, int64_t first, int64_t width, int64_t* out) {
    berth_walk_i64(&from->x, first, width, out);
}

static void tile_end(const int64_t* values, const int64_t* where, int64_t width, berth_fold* out) {
    for (int64_t c = 0; c < width; ++c)
        out[c] = (berth_fold){.integer = values[c], .where = where != NULL ? where[c] : 0};
}

/// A fold whose value is all: `begin` is what no row gives.
#define DEFINE_FOLD(name, row, begin)                                                              \
    static void name##_line(                                                                       \
        const berth_reduced* from, int64_t first, int64_t count, berth_fold* out) {                \
        int64_t buffer[BERTH_CHUNK];                                                               \
        const void* x = items(from, first, count, buffer);                                         \
        *out = (berth_fold){.integer = rows_of(from)->row(x, count)};                              \
    }                                                                                              \
    static void name##_tile(                                                                       \
        const berth_reduced* from, int64_t first, int64_t count, int64_t width, berth_fold* out) { \
        int64_t values[TILE];                                                                      \
        int64_t buffer[BERTH_CHUNK];                                                               \
        begin;                                                                                     \
        for (int64_t r = 0; r < count; ++r)                                                        \
            rows_of(from)->row##_into(values, tile_row(from, first, r, width, buffer), width);     \
        tile_end(values, NULL, width, out);                                                        \
    }

static void fill(int64_t* values, int64_t width, int64_t value) {
    for (int64_t c = 0; c < width; ++c)
        values[c] = value;
}

DEFINE_FOLD(sum, sum, fill(values, width, 0))
DEFINE_FOLD(prod, product, fill(values, width, 1))
DEFINE_FOLD(max, largest, tile_begin(from, first, width, values))
DEFINE_FOLD(min, least, tile_begin(from, first, width, values))

/// A fold that finds the place of an extreme. `exceeds` is < or >.
#define DEFINE_FIND(name, row, exceeds)                                                            \
    static void find_##name##_line(                                                                \
        const berth_reduced* from, int64_t first, int64_t count, berth_fold* out) {                \
        int64_t buffer[BERTH_CHUNK];                                                               \
        const void* x = items(from, first, count, buffer);                                         \
        const int64_t value = rows_of(from)->row(x, count);                                        \
        *out = (berth_fold){.integer = value, .where = rows_of(from)->find(x, count, value)};      \
    }                                                                                              \
    static void find_##name##_tile(                                                                \
        const berth_reduced* from, int64_t first, int64_t count, int64_t width, berth_fold* out) { \
        int64_t values[TILE];                                                                      \
        int64_t where[TILE];                                                                       \
        int64_t buffer[BERTH_CHUNK];                                                               \
        tile_begin(from, first, width, values);                                                    \
        fill(where, width, 0);                                                                     \
        for (int64_t r = 1; r < count; ++r)                                                        \
            rows_of(from)->find_##row##_into(                                                      \
                values, where, tile_row(from, first, r, width, buffer), width, r);                 \
        tile_end(values, where, width, out);                                                       \
    }                                                                                              \
    static void keep_##name(                                                                       \
        berth_fold* total, int64_t count, const berth_fold* block, int64_t block_count) {          \
        (void)count, (void)block_count;                                                            \
        if (block->integer exceeds total->integer) *total = *block;                                \
    }
DEFINE_FIND(max, largest, >)
DEFINE_FIND(min, least, <)

static void add_sums(berth_fold* total,
                     int64_t count,
                     const berth_fold* block,
                     int64_t block_count) {
    (void)count, (void)block_count;
    total->integer = (int64_t)((uint64_t)total->integer + (uint64_t)block->integer);
}

static void multiply_products(berth_fold* total,
                              int64_t count,
                              const berth_fold* block,
                              int64_t block_count) {
    (void)count, (void)block_count;
    total->integer = (int64_t)((uint64_t)total->integer * (uint64_t)block->integer);
}

static void finish_values(const berth_reduce_job* job,
                          const berth_fold* totals,
                          int64_t width,
                          void* out) {
    int64_t values[TILE];
    for (int64_t c = 0; c < width; ++c)
        values[c] = totals[c].integer;
    berth_store_i64(job->out_dtype, values, out, width);
}

const berth_reduction* berth_reduction_of_integers(berth_op_id op) {
    static const berth_reduction table[BERTH_OP_COUNT] = {
        [BERTH_OP_SUM] = {sum_line, sum_tile, add_sums, finish_values, {0}},
        [BERTH_OP_PROD] = {prod_line, prod_tile, multiply_products, finish_values, {.integer = 1}},
        [BERTH_OP_MAX] = {max_line, max_tile, keep_max, finish_values, {0}},
        [BERTH_OP_MIN] = {min_line, min_tile, keep_min, finish_values, {0}},
        [BERTH_OP_ARGMAX] =
            {find_max_line, find_max_tile, keep_max, berth_reduced_finish_places, {0}},
        [BERTH_OP_ARGMIN] =
            {find_min_line, find_min_tile, keep_min, berth_reduced_finish_places, {0}},
    };
    return &table[op];
}

// --- Truth ---------------------------------------------------------------------------------------

static const berth_truth_rows* truth_rows_of(const berth_reduced* from) {
    return &from->rows->truths[berth_width_of(from->x.item_bytes)];
}

static uint64_t truth_mask(const berth_reduced* from) { return berth_truth_mask(from->x.dtype); }

#define DEFINE_TRUTH(name, operation, nothing)                                                     \
    static void name##_line(                                                                       \
        const berth_reduced* from, int64_t first, int64_t count, berth_fold* out) {                \
        int64_t buffer[BERTH_CHUNK];                                                               \
        const void* x = items(from, first, count, buffer);                                         \
        *out = (berth_fold){.integer = truth_rows_of(from)->name(x, count, truth_mask(from))};     \
    }                                                                                              \
    static void name##_tile(                                                                       \
        const berth_reduced* from, int64_t first, int64_t count, int64_t width, berth_fold* out) { \
        int64_t values[TILE];                                                                      \
        int64_t buffer[BERTH_CHUNK];                                                               \
        const berth_truth_rows* rows = truth_rows_of(from);                                        \
        fill(values, width, nothing);                                                              \
        for (int64_t r = 0; r < count; ++r)                                                        \
            rows->name##_into(                                                                     \
                values, tile_row(from, first, r, width, buffer), width, truth_mask(from));         \
        tile_end(values, NULL, width, out);                                                        \
    }                                                                                              \
    static void join_##name(                                                                       \
        berth_fold* total, int64_t count, const berth_fold* block, int64_t block_count) {          \
        (void)count, (void)block_count;                                                            \
        total->integer operation block->integer;                                                   \
    }
DEFINE_TRUTH(any, |=, 0)
DEFINE_TRUTH(all, &=, 1)

const berth_reduction* berth_reduction_of_truths(berth_op_id op) {
    static const berth_reduction table[BERTH_OP_COUNT] = {
        [BERTH_OP_ANY] = {any_line, any_tile, join_any, finish_values, {0}},
        [BERTH_OP_ALL] = {all_line, all_tile, join_all, finish_values, {.integer = 1}},
    };
    return &table[op];
}
