// SPDX-License-Identifier: Apache-2.0
// How floats fold: every element as f32, element r of a block in partial result r % 16, those added
// (or multiplied) 8, 4, 2, 1 apart, the blocks' results merged in double.
#include <math.h>
#include <string.h>

#include "device/cpu/kernel_reduce.h"

#define TILE BERTH_REDUCE_TILE

typedef double double_partials[BERTH_PARTIALS][TILE];

static int64_t used_partials(int64_t count) { return berth_min_i64(count, BERTH_PARTIALS); }

static void finish_values(const berth_reduce_job* job,
                          const berth_fold* totals,
                          int64_t width,
                          void* out) {
    float values[TILE];
    for (int64_t c = 0; c < width; ++c)
        values[c] = (float)totals[c].value;
    berth_store_f32(job->out_dtype, values, out, width);
}

void berth_reduced_finish_places(const berth_reduce_job* job,
                                 const berth_fold* totals,
                                 int64_t width,
                                 void* out) {
    (void)job;
    int64_t* places = out;
    for (int64_t c = 0; c < width; ++c)
        places[c] = totals[c].where;
}

// --- Sums ----------------------------------------------------------------------------------------

void berth_reduced_add(const berth_reduced* from,
                       berth_tile_partials partial,
                       int64_t r,
                       const float* x,
                       int64_t width) {
    float* sums = partial[r % BERTH_PARTIALS];
    if (r < BERTH_PARTIALS)
        memcpy(sums, x, (size_t)width * sizeof *x);
    else
        from->basic->binary_f32[BERTH_BINARY_ADD](sums, sums, x, width);
}

void berth_reduced_collapse(const berth_reduced* from,
                            berth_tile_partials partial,
                            int64_t count,
                            int64_t width) {
    const berth_binary_fn add = from->basic->binary_f32[BERTH_BINARY_ADD];
    int64_t used = used_partials(count);
    for (int64_t step = BERTH_PARTIALS / 2; step > 0; step /= 2) {
        for (int64_t i = 0; i + step < used; ++i)
            add(partial[i], partial[i], partial[i + step], width);
        used = berth_min_i64(used, step);
    }
    // a line begins at 0 and does not end as -0
    for (int64_t c = 0; c < width; ++c)
        partial[0][c] += 0.0f;
}

static void sum_line(const berth_reduced* from, int64_t first, int64_t count, berth_fold* out) {
    float buffer[BERTH_CHUNK];
    float partial[BERTH_PARTIALS] = {0};
    from->rows->sum(partial, berth_walk_f32(&from->x, first, count, buffer), count);
    *out = (berth_fold){.value = (double)from->rows->sum_partials(partial)};
}

static void sum_tile(
    const berth_reduced* from, int64_t first, int64_t count, int64_t width, berth_fold* out) {
    berth_tile_partials partial;
    float buffer[BERTH_CHUNK];
    for (int64_t r = 0; r < count; ++r)
        berth_reduced_add(
            from, partial, r, berth_reduced_row(from, first, r, width, buffer), width);
    berth_reduced_collapse(from, partial, count, width);
    for (int64_t c = 0; c < width; ++c)
        out[c] = (berth_fold){.value = (double)partial[0][c]};
}

static void add_sums(berth_fold* total,
                     int64_t count,
                     const berth_fold* block,
                     int64_t block_count) {
    (void)count, (void)block_count;
    total->value += block->value;
}

static void finish_means(const berth_reduce_job* job,
                         const berth_fold* totals,
                         int64_t width,
                         void* out) {
    float values[TILE];
    for (int64_t c = 0; c < width; ++c)
        values[c] = (float)(totals[c].value / (double)job->from.cut.size);
    berth_store_f32(job->out_dtype, values, out, width);
}

// --- Products ------------------------------------------------------------------------------------

static void prod_line(const berth_reduced* from, int64_t first, int64_t count, berth_fold* out) {
    float buffer[BERTH_CHUNK];
    double partial[BERTH_PARTIALS];
    for (int32_t i = 0; i < BERTH_PARTIALS; ++i)
        partial[i] = 1.0;
    from->rows->product(partial, berth_walk_f32(&from->x, first, count, buffer), count);
    for (int32_t step = BERTH_PARTIALS / 2; step > 0; step /= 2)
        for (int32_t i = 0; i < step; ++i)
            partial[i] *= partial[i + step];
    *out = (berth_fold){.value = partial[0]};
}

static void prod_tile(
    const berth_reduced* from, int64_t first, int64_t count, int64_t width, berth_fold* out) {
    double_partials partial;
    float buffer[BERTH_CHUNK];
    for (int64_t r = 0; r < count; ++r) {
        const float* x = berth_reduced_row(from, first, r, width, buffer);
        if (r < BERTH_PARTIALS)
            from->rows->widen(partial[r], x, width);
        else
            from->rows->product_into(partial[r % BERTH_PARTIALS], x, width);
    }
    int64_t used = used_partials(count);
    for (int64_t step = BERTH_PARTIALS / 2; step > 0; step /= 2) {
        for (int64_t i = 0; i + step < used; ++i)
            for (int64_t c = 0; c < width; ++c)
                partial[i][c] *= partial[i + step][c];
        used = berth_min_i64(used, step);
    }
    for (int64_t c = 0; c < width; ++c)
        out[c] = (berth_fold){.value = partial[0][c]};
}

static void multiply_products(berth_fold* total,
                              int64_t count,
                              const berth_fold* block,
                              int64_t block_count) {
    (void)count, (void)block_count;
    total->value *= block->value;
}

// --- Extremes ------------------------------------------------------------------------------------

static float extreme(const berth_reduced* from, const float* x, int64_t count, bool is_least) {
    const berth_reduce_rows* rows = from->rows;
    float partial[BERTH_PARTIALS];
    for (int32_t i = 0; i < BERTH_PARTIALS; ++i)
        partial[i] = is_least ? INFINITY : -INFINITY;
    (is_least ? rows->least : rows->largest)(partial, x, count);
    return (is_least ? rows->least_partial : rows->largest_partial)(partial);
}

float berth_reduced_extreme(const berth_reduced* from,
                            int64_t first,
                            int64_t count,
                            bool is_least) {
    float buffer[BERTH_CHUNK];
    return extreme(from, berth_walk_f32(&from->x, first, count, buffer), count, is_least);
}

void berth_reduced_tile_extreme(const berth_reduced* from,
                                int64_t first,
                                int64_t count,
                                int64_t width,
                                bool is_least,
                                float* out) {
    const berth_binary_fn fold =
        from->basic->binary_f32[is_least ? BERTH_BINARY_MINIMUM : BERTH_BINARY_MAXIMUM];
    float buffer[BERTH_CHUNK];
    for (int64_t c = 0; c < width; ++c)
        out[c] = is_least ? INFINITY : -INFINITY;
    for (int64_t r = 0; r < count; ++r)
        fold(out, out, berth_reduced_row(from, first, r, width, buffer), width);
}

/// True if `value` takes the place of `kept`, which came before it.
static bool is_taken(double value, double kept, bool is_least) {
    if (isnan(value)) return !isnan(kept);
    return is_least ? value < kept : value > kept;
}

static void find_in_line(
    const berth_reduced* from, int64_t first, int64_t count, bool is_least, berth_fold* out) {
    float buffer[BERTH_CHUNK];
    const float* x = berth_walk_f32(&from->x, first, count, buffer);
    const float value = extreme(from, x, count, is_least);
    *out = (berth_fold){.value = (double)value, .where = from->rows->find(x, count, value)};
}

static void find_in_tile(const berth_reduced* from,
                         int64_t first,
                         int64_t count,
                         int64_t width,
                         bool is_least,
                         berth_fold* out) {
    float values[TILE];
    int32_t where[TILE] = {0};
    float buffer[BERTH_CHUNK];
    memcpy(
        values, berth_reduced_row(from, first, 0, width, buffer), (size_t)width * sizeof values[0]);
    for (int64_t r = 1; r < count; ++r) {
        const float* x = berth_reduced_row(from, first, r, width, buffer);
        (is_least ? from->rows->find_least_into
                  : from->rows->find_largest_into)(values, where, x, width, (int32_t)r);
    }
    for (int64_t c = 0; c < width; ++c)
        out[c] = (berth_fold){.value = (double)values[c], .where = where[c]};
}

/// The functions of both extremes: their value alone, and with its place.
#define DEFINE_EXTREME(name, is_least)                                                             \
    static void name##_line(                                                                       \
        const berth_reduced* from, int64_t first, int64_t count, berth_fold* out) {                \
        *out = (berth_fold){.value = (double)berth_reduced_extreme(from, first, count, is_least)}; \
    }                                                                                              \
    static void name##_tile(                                                                       \
        const berth_reduced* from, int64_t first, int64_t count, int64_t width, berth_fold* out) { \
        float values[TILE];                                                                        \
        berth_reduced_tile_extreme(from, first, count, width, is_least, values);                   \
        for (int64_t c = 0; c < width; ++c)                                                        \
            out[c] = (berth_fold){.value = (double)values[c]};                                     \
    }                                                                                              \
    static void find_##name##_line(                                                                \
        const berth_reduced* from, int64_t first, int64_t count, berth_fold* out) {                \
        find_in_line(from, first, count, is_least, out);                                           \
    }                                                                                              \
    static void find_##name##_tile(                                                                \
        const berth_reduced* from, int64_t first, int64_t count, int64_t width, berth_fold* out) { \
        find_in_tile(from, first, count, width, is_least, out);                                    \
    }                                                                                              \
    static void keep_##name(                                                                       \
        berth_fold* total, int64_t count, const berth_fold* block, int64_t block_count) {          \
        (void)count, (void)block_count;                                                            \
        if (is_taken(block->value, total->value, is_least)) *total = *block;                       \
    }
DEFINE_EXTREME(max, false)
DEFINE_EXTREME(min, true)

// --- Variances -----------------------------------------------------------------------------------

/// The mean and the squared deviations from it of `count` elements, of whose deviations from
/// `shift` the sum and the sum of squares are known.
static berth_fold spread(double shift, double sum, double squares, int64_t count) {
    const double mean = sum / (double)count;
    return (berth_fold){.value = shift + mean, .second = squares - sum * mean};
}

// In double, from the first element: what is lost by cancellation is far below an f32's last place.
static void var_line(const berth_reduced* from, int64_t first, int64_t count, berth_fold* out) {
    float buffer[BERTH_CHUNK];
    double sums[BERTH_PARTIALS] = {0};
    double squares[BERTH_PARTIALS] = {0};
    const float* x = berth_walk_f32(&from->x, first, count, buffer);
    from->rows->deviate(sums, squares, x, count, (double)x[0]);
    const berth_reduce_rows* rows = from->rows;
    *out = spread((double)x[0], rows->sum_doubles(sums), rows->sum_doubles(squares), count);
}

static void var_tile(
    const berth_reduced* from, int64_t first, int64_t count, int64_t width, berth_fold* out) {
    double_partials sums;
    double_partials squares;
    float buffer[BERTH_CHUNK];
    float shifts[TILE];
    int64_t used = used_partials(count);
    for (int64_t i = 0; i < used; ++i) {
        memset(sums[i], 0, (size_t)width * sizeof sums[i][0]);
        memset(squares[i], 0, (size_t)width * sizeof squares[i][0]);
    }
    memcpy(
        shifts, berth_reduced_row(from, first, 0, width, buffer), (size_t)width * sizeof shifts[0]);
    for (int64_t r = 0; r < count; ++r) {
        const float* x = berth_reduced_row(from, first, r, width, buffer);
        const int64_t i = r % BERTH_PARTIALS;
        from->rows->deviate_into(sums[i], squares[i], x, shifts, width);
    }
    for (int64_t step = BERTH_PARTIALS / 2; step > 0; step /= 2) {
        for (int64_t i = 0; i + step < used; ++i) {
            from->rows->add_doubles(sums[i], sums[i + step], width);
            from->rows->add_doubles(squares[i], squares[i + step], width);
        }
        used = berth_min_i64(used, step);
    }
    for (int64_t c = 0; c < width; ++c)
        out[c] = spread((double)shifts[c], sums[0][c], squares[0][c], count);
}

/// Source: Chan, Golub and LeVeque 1979, updating formulae for sample variances.
static void join_spreads(berth_fold* total,
                         int64_t count,
                         const berth_fold* block,
                         int64_t block_count) {
    const double part = (double)block_count / ((double)count + (double)block_count);
    const double distance = block->value - total->value;
    total->value += distance * part;
    total->second += block->second + distance * distance * part * (double)count;
}

static void finish_variances(const berth_reduce_job* job,
                             const berth_fold* totals,
                             int64_t width,
                             void* out) {
    const double divisor = fmax(0.0, (double)job->from.cut.size - job->correction);
    float values[TILE];
    for (int64_t c = 0; c < width; ++c)
        values[c] = (float)(totals[c].second / divisor);
    berth_store_f32(job->out_dtype, values, out, width);
}

// --- Logarithms of sums of powers ----------------------------------------------------------------

/// What is subtracted from elements of which `largest` is the largest: infinite or NaN, it would
/// make NaN of those that have a power.
static float shift_of(float largest) { return isfinite(largest) ? largest : 0.0f; }

static void lse_line(const berth_reduced* from, int64_t first, int64_t count, berth_fold* out) {
    float buffer[BERTH_CHUNK];
    float powers[BERTH_CHUNK];
    float partial[BERTH_PARTIALS] = {0};
    const float* x = berth_walk_f32(&from->x, first, count, buffer);
    const float shift = shift_of(extreme(from, x, count, false));
    from->rows->sum_exp(partial, powers, x, count, shift);
    *out =
        (berth_fold){.value = (double)shift, .second = (double)from->rows->sum_partials(partial)};
}

static void lse_tile(
    const berth_reduced* from, int64_t first, int64_t count, int64_t width, berth_fold* out) {
    berth_tile_partials partial;
    float shifts[TILE];
    float buffer[BERTH_CHUNK];
    float powers[TILE];
    berth_reduced_tile_extreme(from, first, count, width, false, shifts);
    for (int64_t c = 0; c < width; ++c)
        shifts[c] = shift_of(shifts[c]);
    for (int64_t r = 0; r < count; ++r) {
        const float* x = berth_reduced_row(from, first, r, width, buffer);
        from->basic->binary_f32[BERTH_BINARY_SUB](powers, x, shifts, width);
        from->basic->unary[BERTH_UNARY_EXP](powers, powers, width);
        berth_reduced_add(from, partial, r, powers, width);
    }
    berth_reduced_collapse(from, partial, count, width);
    for (int64_t c = 0; c < width; ++c)
        out[c] = (berth_fold){.value = (double)shifts[c], .second = (double)partial[0][c]};
}

static void join_powers(berth_fold* total,
                        int64_t count,
                        const berth_fold* block,
                        int64_t block_count) {
    (void)count, (void)block_count;
    if (!isfinite(total->second) || !isfinite(block->second)) {
        total->second += block->second;
    } else if (total->second == 0) { // nothing but -infinity so far: its shift means nothing
        *total = *block;
    } else if (block->second != 0) {
        const double shift = fmax(total->value, block->value);
        total->second =
            total->second * exp(total->value - shift) + block->second * exp(block->value - shift);
        total->value = shift;
    }
}

static void finish_logarithms(const berth_reduce_job* job,
                              const berth_fold* totals,
                              int64_t width,
                              void* out) {
    float values[TILE];
    for (int64_t c = 0; c < width; ++c)
        values[c] = (float)(log(totals[c].second) + totals[c].value);
    berth_store_f32(job->out_dtype, values, out, width);
}

// --- The table -----------------------------------------------------------------------------------

const berth_reduction* berth_reduction_of_floats(berth_op_id op) {
    static const berth_reduction table[BERTH_OP_COUNT] = {
        [BERTH_OP_SUM] = {sum_line, sum_tile, add_sums, finish_values, {0}},
        [BERTH_OP_MEAN] = {sum_line, sum_tile, add_sums, finish_means, {0}},
        [BERTH_OP_PROD] = {prod_line, prod_tile, multiply_products, finish_values, {.value = 1}},
        [BERTH_OP_MAX] = {max_line, max_tile, keep_max, finish_values, {0}},
        [BERTH_OP_MIN] = {min_line, min_tile, keep_min, finish_values, {0}},
        [BERTH_OP_ARGMAX] =
            {find_max_line, find_max_tile, keep_max, berth_reduced_finish_places, {0}},
        [BERTH_OP_ARGMIN] =
            {find_min_line, find_min_tile, keep_min, berth_reduced_finish_places, {0}},
        [BERTH_OP_VAR] = {var_line, var_tile, join_spreads, finish_variances, {0}},
        [BERTH_OP_LOGSUMEXP] = {lse_line, lse_tile, join_powers, finish_logarithms, {0}},
    };
    return &table[op];
}
