// SPDX-License-Identifier: Apache-2.0
// Rows of ops on two operands, of clamp and where; included by the file of each instruction set.
#ifndef BERTH_DEVICE_CPU_KERNEL_BINARY_ROWS_H
#define BERTH_DEVICE_CPU_KERNEL_BINARY_ROWS_H

#include "device/cpu/kernel_basic_rows.h"
#include "device/cpu/kernel_basic_simd.h"

// --- Arithmetic ----------------------------------------------------------------------------------

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

/// A row called `name`: a and b are elements of `type`, taken as `wide`.
#define BINARY_ROW(name, type, wide, expression)                                                   \
    static void name(void* out, const void* left, const void* right, int64_t count) {              \
        type* to = out;                                                                            \
        const type* from_a = left;                                                                 \
        const type* from_b = right;                                                                \
        VF_EACH_APART                                                                              \
        for (int64_t i = 0; i < count; ++i) {                                                      \
            const wide a = (wide)from_a[i];                                                        \
            const wide b = (wide)from_b[i];                                                        \
            to[i] = (type)(expression);                                                            \
        }                                                                                          \
    }

// In the unsigned type of the same width, or wider, so that it wraps.
#define BINARY_INT_ROWS(type, wide)                                                                \
    BINARY_ROW(add_##type, type, wide, a + b)                                                      \
    BINARY_ROW(sub_##type, type, wide, a - b)                                                      \
    BINARY_ROW(mul_##type, type, wide, (a * b))                                                    \
    BINARY_ROW(minimum_##type, type, type, a < b ? a : b)                                          \
    BINARY_ROW(maximum_##type, type, type, a > b ? a : b)

BINARY_INT_ROWS(int32_t, uint32_t)
BINARY_INT_ROWS(int64_t, uint64_t)
BINARY_INT_ROWS(int8_t, uint32_t)
BINARY_INT_ROWS(uint8_t, uint32_t)

// Whatever is not 0 is true, and 1 in the result.
BINARY_ROW(and_bool, uint8_t, uint8_t, (a != 0) & (b != 0))
BINARY_ROW(or_bool, uint8_t, uint8_t, (a | b) != 0)

// --- Comparisons ---------------------------------------------------------------------------------

/// Of elements wider than the result, which is therefore no operand.
#define COMPARE_ROW(name, type, sign)                                                              \
    static void name(void* out, const void* left, const void* right, int64_t count) {              \
        uint8_t* restrict to = out;                                                                \
        const type* restrict a = left;                                                             \
        const type* restrict b = right;                                                            \
        for (int64_t i = 0; i < count; ++i)                                                        \
            to[i] = a[i] sign b[i];                                                                \
    }

#define COMPARE_ROWS(name, sign)                                                                   \
    COMPARE_ROW(name##_f32, float, sign)                                                           \
    COMPARE_ROW(name##_int32_t, int32_t, sign)                                                     \
    COMPARE_ROW(name##_int64_t, int64_t, sign)                                                     \
    BINARY_ROW(name##_int8_t, int8_t, int8_t, a sign b)                                            \
    BINARY_ROW(name##_uint8_t, uint8_t, uint8_t, a sign b)                                         \
    BINARY_ROW(name##_bool, uint8_t, uint8_t, (a != 0) sign(b != 0))

COMPARE_ROWS(eq, ==)
COMPARE_ROWS(ne, !=)
COMPARE_ROWS(lt, <)
COMPARE_ROWS(le, <=)

// --- Clamp and where -----------------------------------------------------------------------------

static void clamp_f32(void* out, const void* x, int64_t count, const void* low, const void* high) {
    float* to = out;
    const float* from = x;
    const vf least = vf_set(*(const float*)low);
    const vf most = vf_set(*(const float*)high);
    int64_t i = 0;
    for (; i + VF_LANES <= count; i += VF_LANES)
        vf_store(to + i, vf_min_nan(vf_max_nan(vf_load(from + i), least), most));
    if (i < count) {
        const vf part = vf_load_part(from + i, count - i);
        vf_store_part(to + i, vf_min_nan(vf_max_nan(part, least), most), count - i);
    }
}

#define CLAMP_ROW(type)                                                                            \
    static void clamp_##type(                                                                      \
        void* out, const void* x, int64_t count, const void* low, const void* high) {              \
        type* to = out;                                                                            \
        const type* from = x;                                                                      \
        const type least = *(const type*)low;                                                      \
        const type most = *(const type*)high;                                                      \
        VF_EACH_APART                                                                              \
        for (int64_t i = 0; i < count; ++i) {                                                      \
            const type raised = from[i] < least ? least : from[i];                                 \
            to[i] = raised > most ? most : raised;                                                 \
        }                                                                                          \
    }

CLAMP_ROW(int32_t)
CLAMP_ROW(int64_t)
CLAMP_ROW(int8_t)
CLAMP_ROW(uint8_t)

#define SELECT_ROW(bytes, type)                                                                    \
    static void select_##bytes(                                                                    \
        void* out, const uint8_t* condition, const void* left, const void* right, int64_t count) { \
        type* to = out;                                                                            \
        const type* a = left;                                                                      \
        const type* b = right;                                                                     \
        VF_EACH_APART                                                                              \
        for (int64_t i = 0; i < count; ++i) {                                                      \
            const type yes = a[i];                                                                 \
            const type no = b[i];                                                                  \
            to[i] = condition[i] != 0 ? yes : no;                                                  \
        }                                                                                          \
    }

SELECT_ROW(1, uint8_t)
SELECT_ROW(2, uint16_t)
SELECT_ROW(4, uint32_t)
SELECT_ROW(8, uint64_t)

#endif // BERTH_DEVICE_CPU_KERNEL_BINARY_ROWS_H
