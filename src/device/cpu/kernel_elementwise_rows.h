// SPDX-License-Identifier: Apache-2.0
// Rows of two operands; included by the file of each instruction set.
#ifndef BERTH_DEVICE_CPU_KERNEL_ELEMENTWISE_ROWS_H
#define BERTH_DEVICE_CPU_KERNEL_ELEMENTWISE_ROWS_H

#include "device/cpu/kernel_basic_rows.h"
#include "device/cpu/kernel_basic_simd.h"

#define BINARY_F32_ROW(name, expression)                                                           \
    static void name##_f32(void* out, const void* left, const void* right, int64_t count) {        \
        float* to = out;                                                                           \
        const float* from_a = left;                                                                \
        const float* from_b = right;                                                               \
        int64_t i = 0;                                                                             \
        for (; i + VF_LANES <= count; i += VF_LANES) {                                             \
            const vf a = vf_load(from_a + i);                                                      \
            const vf b = vf_load(from_b + i);                                                      \
            vf_store(to + i, expression);                                                          \
        }                                                                                          \
        if (i < count) {                                                                           \
            const vf a = vf_load_part(from_a + i, count - i);                                      \
            const vf b = vf_load_part(from_b + i, count - i);                                      \
            vf_store_part(to + i, expression, count - i);                                          \
        }                                                                                          \
    }

BINARY_F32_ROW(add, a + b)
BINARY_F32_ROW(sub, a - b)
BINARY_F32_ROW(mul, (a * b))
BINARY_F32_ROW(div, a / b)
BINARY_F32_ROW(minimum, vf_min_nan(a, b))
BINARY_F32_ROW(maximum, vf_max_nan(a, b))

// Arithmetic in the unsigned type of the same width, or wider, so that it wraps.
#define BINARY_INT_ROW(name, type, wide, expression)                                               \
    static void name##_##type(void* out, const void* left, const void* right, int64_t count) {     \
        type* to = out;                                                                            \
        const type* from_a = left;                                                                 \
        const type* from_b = right;                                                                \
        for (int64_t i = 0; i < count; ++i) {                                                      \
            const wide a = (wide)from_a[i];                                                        \
            const wide b = (wide)from_b[i];                                                        \
            to[i] = (type)(expression);                                                            \
        }                                                                                          \
    }

#define BINARY_INT_ROWS(type, wide)                                                                \
    BINARY_INT_ROW(add, type, wide, a + b)                                                         \
    BINARY_INT_ROW(sub, type, wide, a - b)                                                         \
    BINARY_INT_ROW(mul, type, wide, (a * b))                                                       \
    BINARY_INT_ROW(minimum, type, type, a < b ? a : b)                                             \
    BINARY_INT_ROW(maximum, type, type, a > b ? a : b)

BINARY_INT_ROWS(int32_t, uint32_t)
BINARY_INT_ROWS(int64_t, uint64_t)
BINARY_INT_ROWS(uint8_t, uint32_t)

#endif // BERTH_DEVICE_CPU_KERNEL_ELEMENTWISE_ROWS_H
