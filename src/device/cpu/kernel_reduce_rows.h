// SPDX-License-Identifier: Apache-2.0
// Rows that reduce; included by the file of each instruction set.
#ifndef BERTH_DEVICE_CPU_KERNEL_REDUCE_ROWS_H
#define BERTH_DEVICE_CPU_KERNEL_REDUCE_ROWS_H

#include "device/cpu/kernel_basic_rows.h"
#include "device/cpu/kernel_basic_simd.h"

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
REDUCE_ROW(max, vf_max_nan(total[v], x))

static void sum_exp_row(
    float partial[BERTH_PARTIALS], float* out, const float* from, int64_t count, float shift) {
    const vf shifts = vf_set(shift);
    int64_t i = 0;
    for (; i + VF_LANES <= count; i += VF_LANES) {
        vf_store(out + i, vf_exp(vf_load(from + i) - shifts));
    }
    if (i < count) {
        const vf x = vf_load_part(from + i, count - i);
        vf_store_part(out + i, vf_exp(x - shifts), count - i);
    }
    sum_row(partial, out, count);
}

static float sum_partials(const float partial[BERTH_PARTIALS]) {
    vf total[VF_PARTIAL_VECTORS];
    partials_load(total, partial);
    return vf_sum(total);
}

static float max_partials(const float partial[BERTH_PARTIALS]) {
    vf total[VF_PARTIAL_VECTORS];
    partials_load(total, partial);
    return vf_max(total);
}

#endif // BERTH_DEVICE_CPU_KERNEL_REDUCE_ROWS_H
