// SPDX-License-Identifier: Apache-2.0
// Single values of half and bfloat16 to and from f32, without branches so that loops vectorise;
// single integers of any type.
#ifndef BERTH_DEVICE_CPU_KERNEL_CONVERT_SCALAR_H
#define BERTH_DEVICE_CPU_KERNEL_CONVERT_SCALAR_H

#include <stdint.h>
#include <string.h>

#include "berth/dtype.h"

static inline float berth_bits_to_f32(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t berth_f32_to_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/// Exact; a signalling NaN becomes quiet, as the hardware's conversion does.
static inline float berth_f16_to_f32(uint16_t half) {
    const uint32_t magnitude = half & 0x7fffu;
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    // From an integer, as a subnormal f32 could be flushed by the caller's floating-point mode.
    const uint32_t subnormal = berth_f32_to_bits((float)(int32_t)magnitude * 0x1p-24f);
    const uint32_t normal = (magnitude << 13) + (112u << 23);
    const uint32_t infinite = (magnitude << 13) | 0x7f800000u;
    const uint32_t quiet = magnitude > 0x7c00u ? 0x00400000u : 0u;
    const uint32_t finite = magnitude < 0x0400u ? subnormal : normal;
    return berth_bits_to_f32(sign | (magnitude >= 0x7c00u ? infinite | quiet : finite));
}

/// Rounds to nearest even; what is too large becomes infinite.
static inline uint16_t berth_f32_to_f16(float value) {
    const uint32_t bits = berth_f32_to_bits(value);
    const uint32_t magnitude = bits & 0x7fffffffu;
    const uint32_t sign = (bits >> 16) & 0x8000u;
    // Added to 0.5, the last place of the sum is the last place of a subnormal half.
    const float shifted = berth_bits_to_f32(magnitude) + 0.5f;
    const uint32_t subnormal = berth_f32_to_bits(shifted) - 0x3f000000u;
    const uint32_t odd = (magnitude >> 13) & 1u;
    const uint32_t normal = (magnitude + 0x0fffu + odd - (112u << 23)) >> 13;
    const uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x03ffu);
    const uint32_t special = magnitude > 0x7f800000u ? nan : 0x7c00u;
    const uint32_t finite = magnitude < 0x38800000u ? subnormal : normal;
    return (uint16_t)(sign | (magnitude >= 0x47800000u ? special : finite));
}

static inline float berth_bf16_to_f32(uint16_t bits) {
    return berth_bits_to_f32((uint32_t)bits << 16);
}

/// Rounds to nearest even; a NaN stays one, quiet.
static inline uint16_t berth_f32_to_bf16(float value) {
    const uint32_t bits = berth_f32_to_bits(value);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const uint32_t nan = (bits >> 16) | 0x0040u;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

/// The element at `at` of an integer type or bool.
static inline int64_t berth_integer_to_i64(berth_dtype dtype, const unsigned char* at) {
    int32_t narrow;
    int64_t wide;
    if (dtype == BERTH_I32) {
        memcpy(&narrow, at, sizeof narrow);
        return narrow;
    }
    if (dtype == BERTH_I64) {
        memcpy(&wide, at, sizeof wide);
        return wide;
    }
    return dtype == BERTH_I8 ? (int8_t)*at : *at;
}

#endif // BERTH_DEVICE_CPU_KERNEL_CONVERT_SCALAR_H
