// SPDX-License-Identifier: Apache-2.0
// Conversions between plain types that need no half in between; included, with the other
// conversions, by the file of each instruction set.
//
// Written so that loops vectorise: no branch, and nothing that the hardware could trap on is
// converted.
#ifndef BERTH_DEVICE_CPU_KERNEL_CAST_ROWS_H
#define BERTH_DEVICE_CPU_KERNEL_CAST_ROWS_H

#include <math.h>
#include <stdint.h>

#include "device/cpu/kernel_convert.h"

#define CAST_ROW(name, from_type, to_type, expression)                                             \
    static void name(const void* source, void* target, int64_t count) {                            \
        const from_type* restrict from = source;                                                   \
        to_type* restrict to = target;                                                             \
        for (int64_t i = 0; i < count; ++i) {                                                      \
            const from_type x = from[i];                                                           \
            to[i] = (to_type)(expression);                                                         \
        }                                                                                          \
    }

/// `x` within [low, high], NaN as 0. High is less than 2^31.
static inline int32_t f32_within(float x, float low, float high) {
    const float number = x == x ? x : 0.0f;
    const float above = number > low ? number : low;
    return (int32_t)(above < high ? above : high);
}

static inline int32_t f32_as_i32(float x) {
    // the largest f32 below 2^31; what is larger saturates
    const int32_t whole = f32_within(x, -0x1p31f, 0x1.fffffep30f);
    return x >= 0x1p31f ? INT32_MAX : whole;
}

static inline int64_t f32_as_i64(float x) {
    const float number = x == x ? x : 0.0f;
    const float above = number > -0x1p63f ? number : -0x1p63f;
    const int64_t whole = (int64_t)(above < 0x1.fffffep62f ? above : 0x1.fffffep62f);
    return x >= 0x1p63f ? INT64_MAX : whole;
}

CAST_ROW(cast_f32_i32, float, int32_t, f32_as_i32(x))
CAST_ROW(cast_f32_i64, float, int64_t, f32_as_i64(x))
CAST_ROW(cast_f32_i8, float, int8_t, f32_within(x, INT8_MIN, INT8_MAX))
CAST_ROW(cast_f32_u8, float, uint8_t, f32_within(x, 0, UINT8_MAX))
CAST_ROW(cast_f32_bool, float, uint8_t, x != 0.0f)

CAST_ROW(cast_i32_f32, int32_t, float, x)
CAST_ROW(cast_i32_i64, int32_t, int64_t, x)
CAST_ROW(cast_i32_u8, int32_t, uint8_t, x)
CAST_ROW(cast_i32_bool, int32_t, uint8_t, x != 0)

CAST_ROW(cast_i64_f32, int64_t, float, x)
CAST_ROW(cast_i64_i32, int64_t, int32_t, x)
CAST_ROW(cast_i64_u8, int64_t, uint8_t, x)
CAST_ROW(cast_i64_bool, int64_t, uint8_t, x != 0)

CAST_ROW(cast_i8_f32, int8_t, float, x)
CAST_ROW(cast_i8_i32, int8_t, int32_t, x)
CAST_ROW(cast_i8_i64, int8_t, int64_t, x)

CAST_ROW(cast_u8_f32, uint8_t, float, x)
CAST_ROW(cast_u8_i32, uint8_t, int32_t, x)
CAST_ROW(cast_u8_i64, uint8_t, int64_t, x)
CAST_ROW(cast_u8_bool, uint8_t, uint8_t, x != 0)

// Wrapping keeps the low bits, so both types of one byte take the same ones; bool is a u8 of 0 or
// 1. What is missing is a copy, or goes through f32.
// clang-format off
#define CAST_TABLE                                                                                 \
    {                                                                                              \
        [BERTH_F32] = {[BERTH_I32] = cast_f32_i32, [BERTH_I64] = cast_f32_i64,                     \
                       [BERTH_I8] = cast_f32_i8, [BERTH_U8] = cast_f32_u8,                         \
                       [BERTH_BOOL] = cast_f32_bool},                                              \
        [BERTH_I32] = {[BERTH_F32] = cast_i32_f32, [BERTH_I64] = cast_i32_i64,                     \
                       [BERTH_I8] = cast_i32_u8, [BERTH_U8] = cast_i32_u8,                         \
                       [BERTH_BOOL] = cast_i32_bool},                                              \
        [BERTH_I64] = {[BERTH_F32] = cast_i64_f32, [BERTH_I32] = cast_i64_i32,                     \
                       [BERTH_I8] = cast_i64_u8, [BERTH_U8] = cast_i64_u8,                         \
                       [BERTH_BOOL] = cast_i64_bool},                                              \
        [BERTH_I8] = {[BERTH_F32] = cast_i8_f32, [BERTH_I32] = cast_i8_i32,                        \
                      [BERTH_I64] = cast_i8_i64, [BERTH_BOOL] = cast_u8_bool},                     \
        [BERTH_U8] = {[BERTH_F32] = cast_u8_f32, [BERTH_I32] = cast_u8_i32,                        \
                      [BERTH_I64] = cast_u8_i64, [BERTH_BOOL] = cast_u8_bool},                     \
        [BERTH_BOOL] = {[BERTH_F32] = cast_u8_f32, [BERTH_I32] = cast_u8_i32,                      \
                        [BERTH_I64] = cast_u8_i64},                                                \
    }
// clang-format on

#endif // BERTH_DEVICE_CPU_KERNEL_CAST_ROWS_H
