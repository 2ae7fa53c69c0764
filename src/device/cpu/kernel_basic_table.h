// SPDX-License-Identifier: Apache-2.0
// The table of rows. Each of the three files that include this is compiled for another instruction
// set and names its table by BERTH_BASIC_ROWS.
#ifndef BERTH_DEVICE_CPU_KERNEL_BASIC_TABLE_H
#define BERTH_DEVICE_CPU_KERNEL_BASIC_TABLE_H

#include "device/cpu/kernel_attention_rows.h"
#include "device/cpu/kernel_binary_rows.h"
#include "device/cpu/kernel_create_rows.h"
#include "device/cpu/kernel_power_rows.h"
#include "device/cpu/kernel_rope_rows.h"
#include "device/cpu/kernel_unary_rows.h"

#define BINARY_INT_TABLE(type)                                                                     \
    {                                                                                              \
        [BERTH_BINARY_ADD] = add_##type, [BERTH_BINARY_SUB] = sub_##type,                          \
        [BERTH_BINARY_MUL] = mul_##type, [BERTH_BINARY_MINIMUM] = minimum_##type,                  \
        [BERTH_BINARY_MAXIMUM] = maximum_##type, [BERTH_BINARY_REMAINDER] = remainder_##type,      \
        [BERTH_BINARY_POW] = pow_##type,                                                           \
    }

#define COMPARE_TABLE(name)                                                                        \
    {                                                                                              \
        [BERTH_F32] = name##_f32, [BERTH_I32] = name##_int32_t, [BERTH_I64] = name##_int64_t,      \
        [BERTH_I8] = name##_int8_t, [BERTH_U8] = name##_uint8_t, [BERTH_BOOL] = name##_bool,       \
    }

const berth_basic_rows BERTH_BASIC_ROWS = {
    .binary_f32 =
        {
            add_f32,
            sub_f32,
            mul_f32,
            div_f32,
            minimum_f32,
            maximum_f32,
            remainder_f32,
            pow_f32,
        },
    .binary_i32 = BINARY_INT_TABLE(int32_t),
    .binary_i64 = BINARY_INT_TABLE(int64_t),
    .binary_i8 = BINARY_INT_TABLE(int8_t),
    .binary_u8 = BINARY_INT_TABLE(uint8_t),
    .binary_bool =
        {
            [BERTH_BINARY_ADD] = or_bool,
            [BERTH_BINARY_MUL] = and_bool,
            [BERTH_BINARY_MINIMUM] = and_bool,
            [BERTH_BINARY_MAXIMUM] = or_bool,
        },
    .compare =
        {
            [BERTH_COMPARE_EQ] = COMPARE_TABLE(eq),
            [BERTH_COMPARE_NE] = COMPARE_TABLE(ne),
            [BERTH_COMPARE_LT] = COMPARE_TABLE(lt),
            [BERTH_COMPARE_LE] = COMPARE_TABLE(le),
        },
    .clamp =
        {
            [BERTH_F32] = clamp_f32,
            [BERTH_I32] = clamp_int32_t,
            [BERTH_I64] = clamp_int64_t,
            [BERTH_I8] = clamp_int8_t,
            [BERTH_U8] = clamp_uint8_t,
        },
    .select = {select_1, select_2, select_4, select_8},
    .unary = {neg_row, abs_row,  sign_row,    relu_row, floor_row, ceil_row,       round_row,
              exp_row, log_row,  log1p_row,   sqrt_row, rsqrt_row, reciprocal_row, sin_row,
              cos_row, tanh_row, sigmoid_row, silu_row, gelu_row,  gelu_tanh_row},
    .unary_int =
        {
            [BERTH_UNARY_NEG] =
                {
                    [BERTH_I32] = neg_int32_t,
                    [BERTH_I64] = neg_int64_t,
                    [BERTH_I8] = neg_int8_t,
                    [BERTH_U8] = neg_uint8_t,
                },
            [BERTH_UNARY_ABS] =
                {
                    [BERTH_I32] = abs_int32_t,
                    [BERTH_I64] = abs_int64_t,
                    [BERTH_I8] = abs_int8_t,
                },
            [BERTH_UNARY_SIGN] =
                {
                    [BERTH_I32] = sign_int32_t,
                    [BERTH_I64] = sign_int64_t,
                    [BERTH_I8] = sign_int8_t,
                    [BERTH_U8] = sign_uint8_t,
                },
            [BERTH_UNARY_RELU] =
                {
                    [BERTH_I32] = relu_int32_t,
                    [BERTH_I64] = relu_int64_t,
                    [BERTH_I8] = relu_int8_t,
                },
        },
    .is_equal = {is_equal_uint8_t, is_equal_uint16_t, is_equal_uint32_t, is_equal_uint64_t},
    .is_above = {[1] = is_above_uint16_t, [2] = is_above_uint32_t},
    .is_below = {[1] = is_below_uint16_t, [2] = is_below_uint32_t},
    .affine = affine_row,
    .steps_f32 = steps_f32_row,
    .steps_i64 = steps_i64_row,
    .random_bits = random_bits_row,
    .random_uniform = random_uniform_row,
    .sincos = sincos_row,
    .rotate_pairs = rotate_pairs_row,
    .rotate_halves = rotate_halves_row,
    .transpose_tile =
        {
            [BERTH_F32] = transpose_tile_f32,
            [BERTH_F16] = transpose_tile_f16,
            [BERTH_BF16] = transpose_tile_bf16,
        },
    .widen_tile =
        {
            [BERTH_F32] = widen_tile_f32,
            [BERTH_F16] = widen_tile_f16,
            [BERTH_BF16] = widen_tile_bf16,
        },
    .attend = attend_row,
    .attend_merge = attend_merge_row,
    .multiply_add = multiply_add_rows,
};

#endif // BERTH_DEVICE_CPU_KERNEL_BASIC_TABLE_H
