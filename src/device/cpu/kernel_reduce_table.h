// SPDX-License-Identifier: Apache-2.0
// The table of rows that reduce. Each of the three files that include this is compiled for another
// instruction set and names its table by BERTH_REDUCE_ROWS.
#ifndef BERTH_DEVICE_CPU_KERNEL_REDUCE_TABLE_H
#define BERTH_DEVICE_CPU_KERNEL_REDUCE_TABLE_H

#include "device/cpu/kernel_basic_simd.h"
#include "device/cpu/kernel_reduce_integers.h"
#include "device/cpu/kernel_reduce_rows.h"

#define VD_PARTIAL_VECTORS (VF_PARTIALS / VD_LANES)

// --- In 16 partial results -----------------------------------------------------------------------

VF_INLINE void partials_load(vf to[VF_PARTIAL_VECTORS], const float* from) {
    for (int32_t v = 0; v < VF_PARTIAL_VECTORS; ++v)
        to[v] = vf_load(from + v * VF_LANES);
}

VF_INLINE void partials_store(float* to, const vf from[VF_PARTIAL_VECTORS]) {
    for (int32_t v = 0; v < VF_PARTIAL_VECTORS; ++v)
        vf_store(to + v * VF_LANES, from[v]);
}

/// A row that folds `from` into its partial results. `whole` folds the vector x into total[v]; of
/// the last vector only the lanes that exist are folded.
#define REDUCE_ROW(name, whole)                                                                    \
    static void name##_row(float partial[BERTH_PARTIALS], const float* from, int64_t count) {      \
        vf total[VF_PARTIAL_VECTORS];                                                              \
        partials_load(total, partial);                                                             \
        int64_t i = 0;                                                                             \
        for (; i + VF_PARTIALS <= count; i += VF_PARTIALS) {                                       \
            for (int32_t v = 0; v < VF_PARTIAL_VECTORS; ++v) {                                     \
                const vf x = vf_load(from + i + v * VF_LANES);                                     \
                total[v] = whole;                                                                  \
            }                                                                                      \
        }                                                                                          \
        partials_store(partial, total);                                                            \
        for (int32_t lane = 0; i < count; i += VF_LANES, lane += VF_LANES) {                       \
            const int64_t left = count - i < VF_LANES ? count - i : VF_LANES;                      \
            const vf x = vf_load_part(from + i, left);                                             \
            const int32_t v = lane / VF_LANES;                                                     \
            vf_store_part(partial + lane, whole, left);                                            \
        }                                                                                          \
    }

REDUCE_ROW(sum, total[v] + x)
REDUCE_ROW(sum_squares, total[v] + x * x)

/// Elements that a row of extremes takes at once: each comparison need not wait for the last.
#define EXTREME_WAYS 4

/// As REDUCE_ROW for an extreme, which does not depend on the order of its elements: `pick` takes
/// one of two vectors' lanes.
#define EXTREME_ROW(name, pick)                                                                    \
    static void name##_row(float partial[BERTH_PARTIALS], const float* from, int64_t count) {      \
        vf kept[EXTREME_WAYS][VF_PARTIAL_VECTORS];                                                 \
        for (int32_t way = 0; way < EXTREME_WAYS; ++way)                                           \
            partials_load(kept[way], partial);                                                     \
        int64_t i = 0;                                                                             \
        for (; i + EXTREME_WAYS * VF_PARTIALS <= count; i += EXTREME_WAYS * VF_PARTIALS) {         \
            for (int32_t way = 0; way < EXTREME_WAYS; ++way) {                                     \
                for (int32_t v = 0; v < VF_PARTIAL_VECTORS; ++v) {                                 \
                    const vf x = vf_load(from + i + way * VF_PARTIALS + v * VF_LANES);             \
                    kept[way][v] = pick(kept[way][v], x);                                          \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        for (int32_t v = 0; v < VF_PARTIAL_VECTORS; ++v)                                           \
            kept[0][v] = pick(pick(kept[0][v], kept[1][v]), pick(kept[2][v], kept[3][v]));         \
        partials_store(partial, kept[0]);                                                          \
        for (; i < count; i += VF_LANES) {                                                         \
            const int64_t left = count - i < VF_LANES ? count - i : VF_LANES;                      \
            const vf x = vf_load_part(from + i, left);                                             \
            vf_store_part(partial, pick(vf_load(partial), x), left);                               \
        }                                                                                          \
    }

EXTREME_ROW(largest, vf_max_nan)
EXTREME_ROW(least, vf_min_nan)

static void sum_exp_row(
    float partial[BERTH_PARTIALS], float* out, const float* from, int64_t count, float shift) {
    const vf shifts = vf_set(shift);
    vf total[VF_PARTIAL_VECTORS];
    partials_load(total, partial);
    int64_t i = 0;
    for (; i + VF_PARTIALS <= count; i += VF_PARTIALS) {
        for (int32_t v = 0; v < VF_PARTIAL_VECTORS; ++v) {
            const vf power = vf_exp(vf_load(from + i + v * VF_LANES) - shifts);
            vf_store(out + i + v * VF_LANES, power);
            total[v] += power;
        }
    }
    partials_store(partial, total);
    for (int32_t lane = 0; i < count; i += VF_LANES, lane += VF_LANES) {
        const int64_t left = count - i < VF_LANES ? count - i : VF_LANES;
        const vf power = vf_exp(vf_load_part(from + i, left) - shifts);
        vf_store_part(out + i, power, left);
        vf_store_part(partial + lane, total[lane / VF_LANES] + power, left);
    }
}

static float sum_partials(const float partial[BERTH_PARTIALS]) {
    vf total[VF_PARTIAL_VECTORS];
    partials_load(total, partial);
    return vf_sum(total);
}

static float largest_partial(const float partial[BERTH_PARTIALS]) {
    vf total[VF_PARTIAL_VECTORS];
    partials_load(total, partial);
    return vf_max(total);
}

static float least_partial(const float partial[BERTH_PARTIALS]) {
    vf total[VF_PARTIAL_VECTORS];
    partials_load(total, partial);
    return vf_min(total);
}

/// The sum of 16 partial sums, as sum_partials.
static double sum_doubles(const double partial[BERTH_PARTIALS]) {
    double sums[BERTH_PARTIALS / 2];
    for (int32_t i = 0; i < 8; ++i)
        sums[i] = partial[i] + partial[i + 8];
    for (int32_t i = 0; i < 4; ++i)
        sums[i] += sums[i + 4];
    return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

/// VD_LANES elements, widened.
VF_INLINE vd vd_load(const float* from) {
    vd_narrow narrow;
    memcpy(&narrow, from, sizeof narrow);
    return __builtin_convertvector(narrow, vd);
}

static void product_row(double partial[BERTH_PARTIALS], const float* from, int64_t count) {
    vd total[VD_PARTIAL_VECTORS];
    memcpy(total, partial, sizeof total);
    int64_t i = 0;
    for (; i + VF_PARTIALS <= count; i += VF_PARTIALS) {
        for (int32_t v = 0; v < VD_PARTIAL_VECTORS; ++v)
            total[v] *= vd_load(from + i + v * VD_LANES);
    }
    memcpy(partial, total, sizeof total);
    for (int32_t lane = 0; i < count; ++i, ++lane)
        partial[lane] *= (double)from[i];
}

static void deviate_row(double sums[BERTH_PARTIALS],
                        double squares[BERTH_PARTIALS],
                        const float* from,
                        int64_t count,
                        double shift) {
    vd sum[VD_PARTIAL_VECTORS];
    vd square[VD_PARTIAL_VECTORS];
    memcpy(sum, sums, sizeof sum);
    memcpy(square, squares, sizeof square);
    int64_t i = 0;
    for (; i + VF_PARTIALS <= count; i += VF_PARTIALS) {
        for (int32_t v = 0; v < VD_PARTIAL_VECTORS; ++v) {
            const vd d = vd_load(from + i + v * VD_LANES) - shift;
            sum[v] += d;
            square[v] += d * d;
        }
    }
    memcpy(sums, sum, sizeof sum);
    memcpy(squares, square, sizeof square);
    for (int32_t lane = 0; i < count; ++i, ++lane) {
        const double d = (double)from[i] - shift;
        sums[lane] += d;
        squares[lane] += d * d;
    }
}

/// Elements that are compared before the result is looked at.
#define FIND_STRIDE 64

static int64_t find_row(const float* from, int64_t count, float value) {
    const bool is_nan = value != value;
    int64_t i = 0;
    for (; i + FIND_STRIDE <= count && !is_nan; i += FIND_STRIDE) {
        int32_t hits = 0;
        for (int64_t j = i; j < i + FIND_STRIDE; ++j)
            hits |= from[j] == value;
        if (hits != 0) break;
    }
    for (; i < count; ++i)
        if (from[i] == value || (is_nan && from[i] != from[i])) return i;
    return count;
}

// --- Columns side by side ------------------------------------------------------------------------

static void product_into_row(double* restrict acc, const float* restrict from, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
        acc[i] *= (double)from[i];
}

static void deviate_into_row(double* restrict sums,
                             double* restrict squares,
                             const float* restrict from,
                             const float* restrict shifts,
                             int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        const double d = (double)from[i] - (double)shifts[i];
        sums[i] += d;
        squares[i] += d * d;
    }
}

#define FIND_INTO_ROW(name, exceeds)                                                               \
    static void name##_row(float* restrict acc,                                                    \
                           int32_t* restrict where,                                                \
                           const float* restrict from,                                             \
                           int64_t count,                                                          \
                           int32_t row) {                                                          \
        for (int64_t i = 0; i < count; ++i) {                                                      \
            const float x = from[i];                                                               \
            const bool is_taken = (exceeds) | ((x != x) & (acc[i] == acc[i]));                     \
            acc[i] = is_taken ? x : acc[i];                                                        \
            where[i] = is_taken ? row : where[i];                                                  \
        }                                                                                          \
    }

FIND_INTO_ROW(find_largest_into, x > acc[i])
FIND_INTO_ROW(find_least_into, x < acc[i])

// --- Running sums --------------------------------------------------------------------------------

/// Eight doubles on every instruction set: the grouping is part of the result.
typedef double scan_group __attribute__((vector_size(BERTH_SCAN_GROUP * 8)));
typedef float scan_narrow __attribute__((vector_size(BERTH_SCAN_GROUP * 4)));

/// The running sums of a group of `from`, of which only `count` elements exist, go to `out`.
VF_INLINE double scan_step(float* out, const float* from, size_t count, double carry) {
    const scan_group zero = {0};
    scan_narrow narrow = {0};
    memcpy(&narrow, from, count * sizeof *from);
    scan_group x = __builtin_convertvector(narrow, scan_group);
    x += __builtin_shufflevector(zero, x, 0, 8, 9, 10, 11, 12, 13, 14);
    x += __builtin_shufflevector(zero, x, 0, 1, 8, 9, 10, 11, 12, 13);
    x += __builtin_shufflevector(zero, x, 0, 1, 2, 3, 8, 9, 10, 11);
    x += carry;
    narrow = __builtin_convertvector(x, scan_narrow);
    memcpy(out, &narrow, count * sizeof *out);
    return x[BERTH_SCAN_GROUP - 1];
}

static double scan_row(float* out, const float* from, int64_t count, double carry) {
    int64_t i = 0;
    for (; i + BERTH_SCAN_GROUP <= count; i += BERTH_SCAN_GROUP)
        carry = scan_step(out + i, from + i, BERTH_SCAN_GROUP, carry);
    if (i < count) carry = scan_step(out + i, from + i, (size_t)(count - i), carry);
    return carry;
}

static void widen_row(double* restrict out, const float* restrict from, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
        out[i] = (double)from[i];
}

static void round_row(float* restrict out, const double* restrict from, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
        out[i] = (float)from[i];
}

static void add_doubles_row(double* restrict acc, const double* restrict from, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
        acc[i] += from[i];
}

// --- Shifted and scaled --------------------------------------------------------------------------

static void subtract_row(float* out, const float* from, int64_t count, float first, float second) {
    int64_t i = 0;
    for (; i + VF_LANES <= count; i += VF_LANES)
        vf_store(out + i, vf_load(from + i) - vf_set(first) - vf_set(second));
    if (i < count) {
        const vf x = vf_load_part(from + i, count - i);
        vf_store_part(out + i, x - vf_set(first) - vf_set(second), count - i);
    }
}

static void scale_by_row(
    float* out, const float* from, const float* weight, int64_t count, float scale) {
    const vf scales = vf_set(scale);
    int64_t i = 0;
    for (; i + VF_LANES <= count; i += VF_LANES) {
        vf_store(out + i, vf_load(from + i) * scales * vf_load(weight + i));
    }
    if (i < count) {
        const vf x = vf_load_part(from + i, count - i);
        const vf w = vf_load_part(weight + i, count - i);
        vf_store_part(out + i, x * scales * w, count - i);
    }
}

static void normalize_row(float* out,
                          const float* from,
                          const float* weight,
                          const float* bias,
                          int64_t count,
                          float first,
                          float second,
                          float scale) {
    int64_t i = 0;
    for (; i + VF_LANES <= count; i += VF_LANES) {
        const vf x = vf_load(from + i) - vf_set(first) - vf_set(second);
        vf_store(out + i, x * vf_set(scale) * vf_load(weight + i) + vf_load(bias + i));
    }
    if (i < count) {
        const int64_t left = count - i;
        const vf x = vf_load_part(from + i, left) - vf_set(first) - vf_set(second);
        const vf w = vf_load_part(weight + i, left);
        vf_store_part(out + i, x * vf_set(scale) * w + vf_load_part(bias + i, left), left);
    }
}

// --- The table -----------------------------------------------------------------------------------

#define INTEGER_TABLE(type)                                                                        \
    {                                                                                              \
        sum_##type, product_##type, largest_##type, least_##type, find_##type, scan_##type,        \
            sum_into_##type, product_into_##type, largest_into_##type, least_into_##type,          \
            find_largest_into_##type, find_least_into_##type,                                      \
    }

#define TRUTH_TABLE(type)                                                                          \
    { any_##type, all_##type, any_into_##type, all_into_##type }

const berth_reduce_rows BERTH_REDUCE_ROWS = {
    .sum = sum_row,
    .sum_squares = sum_squares_row,
    .largest = largest_row,
    .least = least_row,
    .sum_exp = sum_exp_row,
    .product = product_row,
    .deviate = deviate_row,
    .sum_partials = sum_partials,
    .sum_doubles = sum_doubles,
    .largest_partial = largest_partial,
    .least_partial = least_partial,
    .find = find_row,
    .product_into = product_into_row,
    .deviate_into = deviate_into_row,
    .find_largest_into = find_largest_into_row,
    .find_least_into = find_least_into_row,
    .scan = scan_row,
    .widen = widen_row,
    .round = round_row,
    .add_doubles = add_doubles_row,
    .subtract = subtract_row,
    .scale_by = scale_by_row,
    .normalize = normalize_row,
    .integers =
        {
            [BERTH_I32] = INTEGER_TABLE(int32_t),
            [BERTH_I64] = INTEGER_TABLE(int64_t),
            [BERTH_I8] = INTEGER_TABLE(int8_t),
            [BERTH_U8] = INTEGER_TABLE(uint8_t),
            [BERTH_BOOL] = INTEGER_TABLE(uint8_t),
        },
    .truths = {TRUTH_TABLE(uint8_t),
               TRUTH_TABLE(uint16_t),
               TRUTH_TABLE(uint32_t),
               TRUTH_TABLE(uint64_t)},
};

#endif // BERTH_DEVICE_CPU_KERNEL_REDUCE_TABLE_H
