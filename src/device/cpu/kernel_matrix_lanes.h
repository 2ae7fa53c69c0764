// SPDX-License-Identifier: Apache-2.0
// Sixteen f32 lanes, the unit in which the matrix kernels add up, written for one instruction set:
// the including file defines LANES_AVX512, LANES_AVX2 or neither, and is compiled accordingly.
//
// X1: every operation gives the same bits on every instruction set. Multiply-add rounds once, also
//     in the portable form, and lanes_sum adds halves: lane i to lane i + 8, then 4, 2, 1.
#ifndef BERTH_DEVICE_CPU_KERNEL_MATRIX_LANES_H
#define BERTH_DEVICE_CPU_KERNEL_MATRIX_LANES_H

#include <stdint.h>
#include <string.h>

#if defined(LANES_AVX512) || defined(LANES_AVX2)
#include <immintrin.h>
#endif

#include "device/cpu/kernel_convert_scalar.h"

#define LANES 16

#if defined(__clang__)
#define LANES_UNROLL _Pragma("clang loop unroll(full)")
#else
#define LANES_UNROLL _Pragma("GCC unroll 32")
#endif

/// For functions that take a constant count or another function: they must melt into their caller.
#define LANES_INLINE static inline __attribute__((always_inline))

#if defined(LANES_AVX512)

typedef __m512 lanes;
typedef __m512i lane_ints;

LANES_INLINE lanes lanes_zero(void) { return _mm512_setzero_ps(); }
LANES_INLINE lanes lanes_set(float value) { return _mm512_set1_ps(value); }
LANES_INLINE lanes lanes_load(const float* from) { return _mm512_loadu_ps(from); }
LANES_INLINE void lanes_store(float* to, lanes a) { _mm512_storeu_ps(to, a); }
LANES_INLINE lanes lanes_mul(lanes a, lanes b) { return _mm512_mul_ps(a, b); }
LANES_INLINE lanes lanes_fma(lanes a, lanes b, lanes c) { return _mm512_fmadd_ps(a, b, c); }

LANES_INLINE float lanes_sum(lanes a) {
    const __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a), 1));
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a), high);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

LANES_INLINE lanes lanes_from_f16(const uint8_t* from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)(const void*)from));
}

LANES_INLINE lanes lanes_from_bf16(const uint8_t* from) {
    const __m256i bits = _mm256_loadu_si256((const __m256i*)(const void*)from);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

LANES_INLINE lane_ints lane_ints_u8(const uint8_t* from) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)(const void*)from));
}

LANES_INLINE lane_ints lane_ints_i8(const uint8_t* from) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)(const void*)from));
}

LANES_INLINE lane_ints lane_ints_and(lane_ints a, int mask) {
    return _mm512_and_si512(a, _mm512_set1_epi32(mask));
}

LANES_INLINE lane_ints lane_ints_or(lane_ints a, lane_ints b) { return _mm512_or_si512(a, b); }

LANES_INLINE lane_ints lane_ints_add(lane_ints a, int value) {
    return _mm512_add_epi32(a, _mm512_set1_epi32(value));
}

LANES_INLINE lane_ints lane_ints_right(lane_ints a, int bits) {
    return _mm512_srl_epi32(a, _mm_cvtsi32_si128(bits));
}

LANES_INLINE lane_ints lane_ints_left(lane_ints a, int bits) {
    return _mm512_sll_epi32(a, _mm_cvtsi32_si128(bits));
}

/// 16 in the lanes whose bit is set, else 0.
LANES_INLINE lane_ints lane_ints_sixteens(uint16_t bits) {
    return _mm512_maskz_set1_epi32((__mmask16)bits, 16);
}

LANES_INLINE lanes lanes_from_ints(lane_ints a) { return _mm512_cvtepi32_ps(a); }

#elif defined(LANES_AVX2)

typedef struct lanes {
    __m256 low;
    __m256 high;
} lanes;

typedef struct lane_ints {
    __m256i low;
    __m256i high;
} lane_ints;

LANES_INLINE lanes lanes_zero(void) { return (lanes){_mm256_setzero_ps(), _mm256_setzero_ps()}; }

LANES_INLINE lanes lanes_set(float value) {
    return (lanes){_mm256_set1_ps(value), _mm256_set1_ps(value)};
}

LANES_INLINE lanes lanes_load(const float* from) {
    return (lanes){_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)};
}

LANES_INLINE void lanes_store(float* to, lanes a) {
    _mm256_storeu_ps(to, a.low);
    _mm256_storeu_ps(to + 8, a.high);
}

LANES_INLINE lanes lanes_mul(lanes a, lanes b) {
    return (lanes){_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}

LANES_INLINE lanes lanes_fma(lanes a, lanes b, lanes c) {
    return (lanes){_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}

LANES_INLINE float lanes_sum(lanes a) {
    const __m256 eight = _mm256_add_ps(a.low, a.high);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

LANES_INLINE __m128i load_128(const uint8_t* from) {
    return _mm_loadu_si128((const __m128i*)(const void*)from);
}

LANES_INLINE __m128i load_64(const uint8_t* from) {
    return _mm_loadl_epi64((const __m128i*)(const void*)from);
}

LANES_INLINE lanes lanes_from_f16(const uint8_t* from) {
    return (lanes){_mm256_cvtph_ps(load_128(from)), _mm256_cvtph_ps(load_128(from + 16))};
}

LANES_INLINE __m256 eight_from_bf16(const uint8_t* from) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_128(from)), 16));
}

LANES_INLINE lanes lanes_from_bf16(const uint8_t* from) {
    return (lanes){eight_from_bf16(from), eight_from_bf16(from + 16)};
}

LANES_INLINE lane_ints lane_ints_u8(const uint8_t* from) {
    return (lane_ints){_mm256_cvtepu8_epi32(load_64(from)),
                       _mm256_cvtepu8_epi32(load_64(from + 8))};
}

LANES_INLINE lane_ints lane_ints_i8(const uint8_t* from) {
    return (lane_ints){_mm256_cvtepi8_epi32(load_64(from)),
                       _mm256_cvtepi8_epi32(load_64(from + 8))};
}

LANES_INLINE lane_ints lane_ints_and(lane_ints a, int mask) {
    const __m256i all = _mm256_set1_epi32(mask);
    return (lane_ints){_mm256_and_si256(a.low, all), _mm256_and_si256(a.high, all)};
}

LANES_INLINE lane_ints lane_ints_or(lane_ints a, lane_ints b) {
    return (lane_ints){_mm256_or_si256(a.low, b.low), _mm256_or_si256(a.high, b.high)};
}

LANES_INLINE lane_ints lane_ints_add(lane_ints a, int value) {
    const __m256i all = _mm256_set1_epi32(value);
    return (lane_ints){_mm256_add_epi32(a.low, all), _mm256_add_epi32(a.high, all)};
}

LANES_INLINE lane_ints lane_ints_right(lane_ints a, int bits) {
    const __m128i count = _mm_cvtsi32_si128(bits);
    return (lane_ints){_mm256_srl_epi32(a.low, count), _mm256_srl_epi32(a.high, count)};
}

LANES_INLINE lane_ints lane_ints_left(lane_ints a, int bits) {
    const __m128i count = _mm_cvtsi32_si128(bits);
    return (lane_ints){_mm256_sll_epi32(a.low, count), _mm256_sll_epi32(a.high, count)};
}

LANES_INLINE lane_ints lane_ints_sixteens(uint16_t bits) {
    const __m256i low = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256i high = _mm256_slli_epi32(low, 8);
    const __m256i all = _mm256_set1_epi32(bits);
    const __m256i sixteen = _mm256_set1_epi32(16);
    return (lane_ints){
        _mm256_and_si256(_mm256_cmpeq_epi32(_mm256_and_si256(all, low), low), sixteen),
        _mm256_and_si256(_mm256_cmpeq_epi32(_mm256_and_si256(all, high), high), sixteen)};
}

LANES_INLINE lanes lanes_from_ints(lane_ints a) {
    return (lanes){_mm256_cvtepi32_ps(a.low), _mm256_cvtepi32_ps(a.high)};
}

#else

typedef struct lanes {
    float at[LANES];
} lanes;

typedef struct lane_ints {
    int32_t at[LANES];
} lane_ints;

#define EACH_LANE for (int i = 0; i < LANES; i++)

LANES_INLINE lanes lanes_set(float value) {
    lanes r;
    EACH_LANE r.at[i] = value;
    return r;
}

LANES_INLINE lanes lanes_zero(void) { return lanes_set(0.0f); }

LANES_INLINE lanes lanes_load(const float* from) {
    lanes r;
    EACH_LANE r.at[i] = from[i];
    return r;
}

LANES_INLINE void lanes_store(float* to, lanes a) { EACH_LANE to[i] = a.at[i]; }

LANES_INLINE lanes lanes_mul(lanes a, lanes b) {
    EACH_LANE a.at[i] *= b.at[i];
    return a;
}

LANES_INLINE lanes lanes_fma(lanes a, lanes b, lanes c) {
    EACH_LANE c.at[i] = __builtin_fmaf(a.at[i], b.at[i], c.at[i]);
    return c;
}

LANES_INLINE float lanes_sum(lanes a) {
    for (int half = LANES / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; i++)
            a.at[i] += a.at[i + half];
    }
    return a.at[0];
}

LANES_INLINE uint16_t load_u16(const uint8_t* from) {
    uint16_t bits;
    memcpy(&bits, from, sizeof bits);
    return bits;
}

LANES_INLINE lanes lanes_from_f16(const uint8_t* from) {
    lanes r;
    EACH_LANE r.at[i] = berth_f16_to_f32(load_u16(from + 2 * i));
    return r;
}

LANES_INLINE lanes lanes_from_bf16(const uint8_t* from) {
    lanes r;
    EACH_LANE r.at[i] = berth_bf16_to_f32(load_u16(from + 2 * i));
    return r;
}

LANES_INLINE lane_ints lane_ints_u8(const uint8_t* from) {
    lane_ints r;
    EACH_LANE r.at[i] = from[i];
    return r;
}

LANES_INLINE lane_ints lane_ints_i8(const uint8_t* from) {
    lane_ints r;
    EACH_LANE r.at[i] = (int8_t)from[i];
    return r;
}

LANES_INLINE lane_ints lane_ints_and(lane_ints a, int mask) {
    EACH_LANE a.at[i] &= mask;
    return a;
}

LANES_INLINE lane_ints lane_ints_or(lane_ints a, lane_ints b) {
    EACH_LANE a.at[i] |= b.at[i];
    return a;
}

LANES_INLINE lane_ints lane_ints_add(lane_ints a, int value) {
    EACH_LANE a.at[i] += value;
    return a;
}

/// For lanes that are not negative.
LANES_INLINE lane_ints lane_ints_right(lane_ints a, int bits) {
    EACH_LANE a.at[i] >>= bits;
    return a;
}

LANES_INLINE lane_ints lane_ints_left(lane_ints a, int bits) {
    EACH_LANE a.at[i] <<= bits;
    return a;
}

LANES_INLINE lane_ints lane_ints_sixteens(uint16_t bits) {
    lane_ints r;
    EACH_LANE r.at[i] = (bits >> i & 1) << 4;
    return r;
}

LANES_INLINE lanes lanes_from_ints(lane_ints a) {
    lanes r;
    EACH_LANE r.at[i] = (float)a.at[i];
    return r;
}

#endif

/// Neighbours in a row: 16 values and the 16 that follow.
typedef struct lane_pair {
    lanes first;
    lanes second;
} lane_pair;

/// The f16 at `from`, in every lane.
LANES_INLINE lanes lanes_set_f16(const uint8_t* from) {
    uint16_t bits;
    memcpy(&bits, from, sizeof bits);
#if defined(LANES_AVX512) || defined(LANES_AVX2)
    return lanes_set(_cvtsh_ss(bits));
#else
    return lanes_set(berth_f16_to_f32(bits));
#endif
}

/// The two f16 at `from`, each in every lane.
LANES_INLINE lane_pair lanes_set_two_f16(const uint8_t* from) {
#if defined(LANES_AVX512)
    int both;
    memcpy(&both, from, sizeof both);
    const __m512 alternating = _mm512_cvtph_ps(_mm256_set1_epi32(both));
    return (lane_pair){_mm512_moveldup_ps(alternating), _mm512_movehdup_ps(alternating)};
#else
    return (lane_pair){lanes_set_f16(from), lanes_set_f16(from + 2)};
#endif
}

/// (v + base) * scale + offset for the 16 lower nibbles v at `from`, and for the 16 upper ones. The
/// products must be exact: whether they are rounded is not said.
LANES_INLINE lane_pair lanes_from_nibbles(const uint8_t* from,
                                          int base,
                                          lanes scale,
                                          lanes offset) {
    const lane_ints bytes = lane_ints_u8(from);
#if defined(LANES_AVX512)
    // All sixteen results, looked up by the lowest four bits of each lane.
    const __m512i values = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512 based = lanes_from_ints(lane_ints_add(values, base));
    const __m512 table = _mm512_fmadd_ps(based, scale, offset);
    return (lane_pair){_mm512_permutexvar_ps(bytes, table),
                       _mm512_permutexvar_ps(_mm512_srli_epi32(bytes, 4), table)};
#else
    const lane_ints low = lane_ints_add(lane_ints_and(bytes, 15), base);
    const lane_ints high = lane_ints_add(lane_ints_right(bytes, 4), base);
    return (lane_pair){lanes_fma(lanes_from_ints(low), scale, offset),
                       lanes_fma(lanes_from_ints(high), scale, offset)};
#endif
}

#endif // BERTH_DEVICE_CPU_KERNEL_MATRIX_LANES_H
