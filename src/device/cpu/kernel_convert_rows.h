// SPDX-License-Identifier: Apache-2.0
// The conversions themselves. Each of the three files that include this is compiled for another
// instruction set and names its table by BERTH_CONVERT_ROWS.
#ifndef BERTH_DEVICE_CPU_KERNEL_CONVERT_ROWS_H
#define BERTH_DEVICE_CPU_KERNEL_CONVERT_ROWS_H

#include <string.h>

#if defined(__F16C__) && defined(__AVX2__)
#include <immintrin.h>
#endif

#include "device/cpu/kernel_cast_rows.h"
#include "device/cpu/kernel_convert.h"
#include "device/cpu/kernel_convert_scalar.h"

static inline uint16_t load_u16(const uint8_t* at) {
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static inline float load_half(const uint8_t* at) { return berth_f16_to_f32(load_u16(at)); }

static void f32_to_f32(const void* src, float* dst, int64_t values) {
    if (values > 0) memcpy(dst, src, (size_t)values * sizeof *dst);
}

static void f32_from_f32(const float* src, void* dst, int64_t values) {
    if (values > 0) memcpy(dst, src, (size_t)values * sizeof *src);
}

static void f16_to_f32(const void* src, float* restrict dst, int64_t values) {
    const uint16_t* restrict from = src;
    int64_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= values; i += 16) {
        const __m256i half = _mm256_loadu_si256((const void*)(from + i));
        _mm512_storeu_ps(dst + i, _mm512_cvtph_ps(half));
    }
#elif defined(__F16C__) && defined(__AVX2__)
    for (; i + 8 <= values; i += 8) {
        const __m128i half = _mm_loadu_si128((const void*)(from + i));
        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(half));
    }
#endif
    for (; i < values; ++i)
        dst[i] = berth_f16_to_f32(from[i]);
}

static void f16_from_f32(const float* restrict src, void* dst, int64_t values) {
    uint16_t* restrict to = dst;
    int64_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= values; i += 16) {
        const __m512 wide = _mm512_loadu_ps(src + i);
        _mm256_storeu_si256((void*)(to + i), _mm512_cvtps_ph(wide, _MM_FROUND_TO_NEAREST_INT));
    }
#elif defined(__F16C__) && defined(__AVX2__)
    for (; i + 8 <= values; i += 8) {
        const __m256 wide = _mm256_loadu_ps(src + i);
        _mm_storeu_si128((void*)(to + i), _mm256_cvtps_ph(wide, _MM_FROUND_TO_NEAREST_INT));
    }
#endif
    for (; i < values; ++i)
        to[i] = berth_f32_to_f16(src[i]);
}

static void bf16_to_f32(const void* src, float* restrict dst, int64_t values) {
    const uint16_t* restrict from = src;
    for (int64_t i = 0; i < values; ++i)
        dst[i] = berth_bf16_to_f32(from[i]);
}

static void bf16_from_f32(const float* restrict src, void* dst, int64_t values) {
    uint16_t* restrict to = dst;
    for (int64_t i = 0; i < values; ++i)
        to[i] = berth_f32_to_bf16(src[i]);
}

static void q4_0_to_f32(const void* src, float* restrict dst, int64_t values) {
    const uint8_t* restrict block = src;
    for (int64_t i = 0; i < values; i += 32, block += 18, dst += 32) {
        const float scale = load_half(block);
        for (int32_t j = 0; j < 16; ++j) {
            dst[j] = (float)((block[2 + j] & 15) - 8) * scale;
            dst[j + 16] = (float)((block[2 + j] >> 4) - 8) * scale;
        }
    }
}

static void q4_1_to_f32(const void* src, float* restrict dst, int64_t values) {
    const uint8_t* restrict block = src;
    for (int64_t i = 0; i < values; i += 32, block += 20, dst += 32) {
        const float scale = load_half(block);
        const float minimum = load_half(block + 2);
        for (int32_t j = 0; j < 16; ++j) {
            dst[j] = (float)(block[4 + j] & 15) * scale + minimum;
            dst[j + 16] = (float)(block[4 + j] >> 4) * scale + minimum;
        }
    }
}

/// The 5-bit values of a block: nibbles at `low`, bit i of the word at `high` on top of value i.
static inline void five_bits(const uint8_t* low, const uint8_t* high, int32_t* restrict out) {
    uint32_t top;
    memcpy(&top, high, sizeof top);
    for (int32_t j = 0; j < 16; ++j) {
        out[j] = (int32_t)((low[j] & 15u) | ((top >> j & 1u) << 4));
        out[j + 16] = (int32_t)((uint32_t)(low[j] >> 4) | ((top >> (j + 16) & 1u) << 4));
    }
}

static void q5_0_to_f32(const void* src, float* restrict dst, int64_t values) {
    const uint8_t* restrict block = src;
    for (int64_t i = 0; i < values; i += 32, block += 22, dst += 32) {
        int32_t v[32];
        five_bits(block + 6, block + 2, v);
        const float scale = load_half(block);
        for (int32_t j = 0; j < 32; ++j)
            dst[j] = (float)(v[j] - 16) * scale;
    }
}

static void q5_1_to_f32(const void* src, float* restrict dst, int64_t values) {
    const uint8_t* restrict block = src;
    for (int64_t i = 0; i < values; i += 32, block += 24, dst += 32) {
        int32_t v[32];
        five_bits(block + 8, block + 4, v);
        const float scale = load_half(block);
        const float minimum = load_half(block + 2);
        for (int32_t j = 0; j < 32; ++j)
            dst[j] = (float)v[j] * scale + minimum;
    }
}

static void q8_0_to_f32(const void* src, float* restrict dst, int64_t values) {
    const uint8_t* restrict block = src;
    for (int64_t i = 0; i < values; i += 32, block += 34, dst += 32) {
        const float scale = load_half(block);
        for (int32_t j = 0; j < 32; ++j)
            dst[j] = (float)(int8_t)block[2 + j] * scale;
    }
}

/// The scale is the largest magnitude over 127, rounded to a half; values are rounded to its
/// nearest multiples. Where the scale is too small for a half they are 0, and where a value is not
/// finite or the scale too large, the whole block is NaN.
static void q8_0_from_f32(const float* src, void* dst, int64_t values) {
    uint8_t* block = dst;
    for (int64_t i = 0; i < values; i += 32, block += 34, src += 32) {
        float largest = 0.0f, zero = 0.0f;
        for (int32_t j = 0; j < 32; ++j) {
            const float magnitude = berth_bits_to_f32(berth_f32_to_bits(src[j]) & 0x7fffffffu);
            largest = magnitude > largest ? magnitude : largest;
            zero += src[j] * 0.0f; // NaN where the value is not finite
        }
        uint16_t half = berth_f32_to_f16(largest / 127.0f);
        if (zero != zero || half >= 0x7c00u) half = 0x7e00u;
        memcpy(block, &half, sizeof half);
        const float scale = half == 0 || half == 0x7e00u ? 0.0f : 1.0f / berth_f16_to_f32(half);
        for (int32_t j = 0; j < 32; ++j) {
            float value = scale == 0.0f ? 0.0f : src[j] * scale;
            value = value > 127.0f ? 127.0f : value < -127.0f ? -127.0f : value;
            // in a number so large the last place counts ones
            const float rounded = (value + 12582912.0f) - 12582912.0f;
            block[2 + j] = (uint8_t)(int8_t)rounded;
        }
    }
}

/// The 6-bit scale and minimum of sub-block `j` of a Q4_K or Q5_K block.
static inline void k_scale(const uint8_t* sc, int32_t j, float* out_scale, float* out_minimum) {
    uint32_t scale;
    uint32_t minimum;
    if (j < 4) {
        scale = sc[j] & 63u;
        minimum = sc[j + 4] & 63u;
    } else {
        scale = (sc[j + 4] & 15u) | (uint32_t)(sc[j - 4] >> 6) << 4;
        minimum = (uint32_t)(sc[j + 4] >> 4) | (uint32_t)(sc[j] >> 6) << 4;
    }
    *out_scale = (float)scale;
    *out_minimum = (float)minimum;
}

static void q4_k_to_f32(const void* src, float* restrict dst, int64_t values) {
    const uint8_t* restrict block = src;
    for (int64_t i = 0; i < values; i += 256, block += 144) {
        const float scale = load_half(block);
        const float minimum = load_half(block + 2);
        for (int32_t j = 0; j < 8; ++j, dst += 32) {
            const uint8_t* restrict low = block + 16 + 32 * (j / 2);
            const int32_t shift = 4 * (j & 1);
            float s, n;
            k_scale(block + 4, j, &s, &n);
            s *= scale;
            n *= minimum;
            for (int32_t l = 0; l < 32; ++l)
                dst[l] = s * (float)(low[l] >> shift & 15) - n;
        }
    }
}

static void q5_k_to_f32(const void* src, float* restrict dst, int64_t values) {
    const uint8_t* restrict block = src;
    for (int64_t i = 0; i < values; i += 256, block += 176) {
        const float scale = load_half(block);
        const float minimum = load_half(block + 2);
        const uint8_t* restrict high = block + 16;
        for (int32_t j = 0; j < 8; ++j, dst += 32) {
            const uint8_t* restrict low = block + 48 + 32 * (j / 2);
            const int32_t shift = 4 * (j & 1);
            float s, n;
            k_scale(block + 4, j, &s, &n);
            s *= scale;
            n *= minimum;
            for (int32_t l = 0; l < 32; ++l) {
                const int32_t v = (low[l] >> shift & 15) | (high[l] >> j & 1) << 4;
                dst[l] = s * (float)v - n;
            }
        }
    }
}

static void q6_k_to_f32(const void* src, float* restrict dst, int64_t values) {
    const uint8_t* restrict block = src;
    for (int64_t i = 0; i < values; i += 256, block += 210) {
        const float scale = load_half(block + 208);
        for (int32_t g = 0; g < 16; ++g, dst += 16) { // g: the 16 values that share a scale
            const int32_t half = g / 8;
            const int32_t k = g % 8 / 2;
            const int32_t at = 16 * (g & 1);
            const uint8_t* restrict low = block + 64 * half + 32 * (k & 1) + at;
            const uint8_t* restrict high = block + 128 + 32 * half + at;
            const int32_t shift = k >= 2 ? 4 : 0;
            const float s = scale * (float)(int8_t)block[192 + g];
            for (int32_t l = 0; l < 16; ++l) {
                const int32_t v = (low[l] >> shift & 15) | (high[l] >> 2 * k & 3) << 4;
                dst[l] = s * (float)(v - 32);
            }
        }
    }
}

const berth_convert_rows BERTH_CONVERT_ROWS = {
    .to_f32 =
        {
            [BERTH_F32] = f32_to_f32,
            [BERTH_F16] = f16_to_f32,
            [BERTH_BF16] = bf16_to_f32,
            [BERTH_Q4_0] = q4_0_to_f32,
            [BERTH_Q4_1] = q4_1_to_f32,
            [BERTH_Q5_0] = q5_0_to_f32,
            [BERTH_Q5_1] = q5_1_to_f32,
            [BERTH_Q8_0] = q8_0_to_f32,
            [BERTH_Q4_K] = q4_k_to_f32,
            [BERTH_Q5_K] = q5_k_to_f32,
            [BERTH_Q6_K] = q6_k_to_f32,
        },
    .from_f32 =
        {
            [BERTH_F32] = f32_from_f32,
            [BERTH_F16] = f16_from_f32,
            [BERTH_BF16] = bf16_from_f32,
            [BERTH_Q8_0] = q8_0_from_f32,
        },
    .cast = CAST_TABLE,
};

#endif // BERTH_DEVICE_CPU_KERNEL_CONVERT_ROWS_H
