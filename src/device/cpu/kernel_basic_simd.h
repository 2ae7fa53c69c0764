// SPDX-License-Identifier: Apache-2.0
// Vectors of f32 as wide as the file that includes this is compiled for, and the functions on them
// that kernels share: exp, tanh, sums in a fixed order.
//
// S1: an element's result depends on its operands alone, not on its lane, the vector's width or the
//     number of elements: tails use the same arithmetic on padded vectors. Only vf_fma rounds
//     differently where there is no FMA, so kernels that use it differ between instruction sets.
// S2: reductions keep 16 partial results, element i in number i % 16, whatever the width.
#ifndef BERTH_DEVICE_CPU_KERNEL_BASIC_SIMD_H
#define BERTH_DEVICE_CPU_KERNEL_BASIC_SIMD_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define VF_LANES 16
#elif defined(__AVX2__)
#define VF_LANES 8
#else
#define VF_LANES 4
#endif

#define VF_PARTIALS 16
#define VF_PARTIAL_VECTORS (VF_PARTIALS / VF_LANES)
#define VF_INLINE static inline __attribute__((always_inline, unused))

/// Before a loop whose iterations each touch one element: its output may be one of its operands,
/// and it is still worth vectorising.
#if defined(__clang__)
#define VF_EACH_APART
#else
#define VF_EACH_APART _Pragma("GCC ivdep")
#endif

typedef float vf __attribute__((vector_size(VF_LANES * 4)));
typedef int32_t vi __attribute__((vector_size(VF_LANES * 4)));

/// Doubles as wide as a vf, and the half as many f32 that they are made of.
#define VD_LANES (VF_LANES / 2)
typedef double vd __attribute__((vector_size(VD_LANES * 8)));
typedef float vd_narrow __attribute__((vector_size(VD_LANES * 4)));

VF_INLINE vf vf_load(const float* at) {
    vf value;
    memcpy(&value, at, sizeof value);
    return value;
}

VF_INLINE void vf_store(float* at, vf value) { memcpy(at, &value, sizeof value); }

/// The first `count` (0 .. VF_LANES) elements at `at`, the rest 0.
VF_INLINE vf vf_load_part(const float* at, int64_t count) {
#if defined(__AVX512F__)
    const __mmask16 mask = (__mmask16)((1u << count) - 1u);
    return (vf)_mm512_maskz_loadu_ps(mask, at);
#else
    float lanes[VF_LANES] = {0};
    for (int64_t i = 0; i < count; ++i)
        lanes[i] = at[i];
    return vf_load(lanes);
#endif
}

VF_INLINE void vf_store_part(float* at, vf value, int64_t count) {
#if defined(__AVX512F__)
    const __mmask16 mask = (__mmask16)((1u << count) - 1u);
    _mm512_mask_storeu_ps(at, mask, (__m512)value);
#else
    float lanes[VF_LANES];
    vf_store(lanes, value);
    for (int64_t i = 0; i < count; ++i)
        at[i] = lanes[i];
#endif
}

/// `x` in every lane; the subtraction keeps the sign of -0.
VF_INLINE vf vf_set(float x) { return x - (vf){0}; }

VF_INLINE vf vf_select(vi mask, vf yes, vf no) { return (vf)(((vi)yes & mask) | ((vi)no & ~mask)); }

VF_INLINE vf vf_abs(vf x) { return (vf)((vi)x & 0x7fffffff); }

VF_INLINE vf vf_sqrt(vf x) {
#if defined(__AVX512F__)
    return (vf)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX2__)
    return (vf)_mm256_sqrt_ps((__m256)x);
#elif defined(__SSE2__)
    return (vf)_mm_sqrt_ps((__m128)x);
#else
    for (int32_t i = 0; i < VF_LANES; ++i)
        x[i] = sqrtf(x[i]);
    return x;
#endif
}

/// a * b + c, rounded once where the instruction set has FMA, else twice.
VF_INLINE vf vf_fma(vf a, vf b, vf c) {
#if defined(__AVX512F__)
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__)
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

/// a > b ? a : b, so b if either is NaN.
VF_INLINE vf vf_larger(vf a, vf b) {
#if defined(__AVX512F__)
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return vf_select((vi)(a > b), a, b);
#endif
}

/// a < b ? a : b, so b if either is NaN.
VF_INLINE vf vf_smaller(vf a, vf b) {
#if defined(__AVX512F__)
    return (vf)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (vf)_mm256_min_ps((__m256)a, (__m256)b);
#else
    return vf_select((vi)(a < b), a, b);
#endif
}

/// The larger, or the NaN if there is one.
VF_INLINE vf vf_max_nan(vf a, vf b) {
    // False where either is NaN; then a if it is the NaN, else b is it.
    return vf_select((vi)(a >= b) | (vi)(a != a), a, b);
}

/// The smaller, or the NaN if there is one.
VF_INLINE vf vf_min_nan(vf a, vf b) { return vf_select((vi)(a <= b) | (vi)(a != a), a, b); }

/// 2^n e^r for |r| <= ln 2 / 2, within 1.1 units in the last place, also where that is subnormal.
///
/// e^r by a polynomial that was fitted to (e^r - 1 - r) / r^2 at Chebyshev nodes.
VF_INLINE vf vf_scaled_exp(vf r, vi n) {
    vf p = vf_set(0x1.6d117cp-10f);
    p = p * r + 0x1.120be2p-7f;
    p = p * r + 0x1.555518p-5f;
    p = p * r + 0x1.5554dcp-3f;
    p = p * r + 0x1.0p-1f;
    p = p * (r * r) + r + 1.0f;
    // Two factors, as 2^n itself may be out of range where the result is not.
    const vi half = n >> 1;
    return p * (vf)((half + 127) << 23) * (vf)((n - half + 127) << 23);
}

/// e^x: within 1.1 units in the last place of the exact value, also where that is subnormal;
/// 0 below -104, infinite above 88.73, NaN for NaN.
VF_INLINE vf vf_exp(vf x) {
    x = vf_smaller(vf_set(89.0f), x);
    x = vf_larger(vf_set(-104.0f), x);
    // Adding 1.5 * 2^23 rounds to an integer, left in the low bits: n, the nearest to x / ln 2.
    const vf shifted = x * 0x1.715476p+0f + 0x1.8p+23f;
    const vi n = (vi)shifted - 0x4b400000;
    const vf whole = shifted - 0x1.8p+23f;
    // ln 2 in two parts; the first has 15 bits, so whole times it is exact.
    const vf r = (x - whole * 0x1.62e4p-1f) - whole * 0x1.7f7d1cp-20f;
    return vf_scaled_exp(r, n);
}

/// e^x for x <= 0 with fused products, so not the same bits everywhere: within 1.1 units in the
/// last place, 0 below -87, NaN for NaN.
VF_INLINE vf vf_exp_fused(vf x) {
    const vf shifted = vf_fma(x, vf_set(0x1.715476p+0f), vf_set(0x1.8p+23f));
    const vi n = (vi)shifted - 0x4b400000;
    const vf whole = shifted - 0x1.8p+23f;
    vf r = vf_fma(whole, vf_set(-0x1.62e4p-1f), x);
    r = vf_fma(whole, vf_set(-0x1.7f7d1cp-20f), r);
    vf p = vf_set(0x1.6d117cp-10f);
    p = vf_fma(p, r, vf_set(0x1.120be2p-7f));
    p = vf_fma(p, r, vf_set(0x1.555518p-5f));
    p = vf_fma(p, r, vf_set(0x1.5554dcp-3f));
    p = vf_fma(p, r, vf_set(0x1.0p-1f));
    p = vf_fma(p, r, vf_set(1.0f));
    p = vf_fma(p, r, vf_set(1.0f));
    const vf power = p * (vf)((n + 127) << 23);
    return vf_select((vi)(x < -87.0f), (vf){0}, power);
}

/// tanh x: within 2 units in the last place.
VF_INLINE vf vf_tanh(vf x) {
    const vf magnitude = vf_abs(x);
    const vf e = vf_exp(magnitude * -2.0f);
    const vf large = (1.0f - e) / (1.0f + e);
    // Near 0 that loses digits; there x + x^3 p(x^2), fitted to (tanh x / x - 1) / x^2.
    const vf z = x * x;
    vf p = vf_set(0x1.2c630ep-9f);
    p = p * z - 0x1.1162e0p-7f;
    p = p * z + 0x1.64a85cp-6f;
    p = p * z - 0x1.ba08b4p-5f;
    p = p * z + 0x1.1110e8p-3f;
    p = p * z - 0x1.555556p-2f;
    const vf small = x * z * p + x;
    const vf sign = (vf)((vi)x & (vi)vf_set(-0.0f));
    return (vf)((vi)vf_select((vi)(magnitude < 0.625f), small, large) | (vi)sign);
}

/// 1 / (1 + e^-x): within 2.5 units in the last place for |x| < 87.
VF_INLINE vf vf_sigmoid(vf x) { return 1.0f / (1.0f + vf_exp(-x)); }

// Lane i with lane i ^ distance, for the last steps of a reduction.
#if VF_LANES == 16
#define VF_SWAP_8(x)                                                                               \
    __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)
#define VF_SWAP_4(x)                                                                               \
    __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11)
#define VF_SWAP_2(x)                                                                               \
    __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13)
#define VF_SWAP_1(x)                                                                               \
    __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14)
#elif VF_LANES == 8
#define VF_SWAP_4(x) __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3)
#define VF_SWAP_2(x) __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5)
#define VF_SWAP_1(x) __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6)
#else
#define VF_SWAP_2(x) __builtin_shufflevector(x, x, 2, 3, 0, 1)
#define VF_SWAP_1(x) __builtin_shufflevector(x, x, 1, 0, 3, 2)
#endif

/// The sum of 16 partial sums: 8 apart first, then 4, 2, 1.
VF_INLINE float vf_sum(const vf partial[VF_PARTIAL_VECTORS]) {
#if VF_LANES == 16
    vf x = partial[0] + VF_SWAP_8(partial[0]);
    x = x + VF_SWAP_4(x);
#elif VF_LANES == 8
    vf x = partial[0] + partial[1];
    x = x + VF_SWAP_4(x);
#else
    vf x = (partial[0] + partial[2]) + (partial[1] + partial[3]);
#endif
    x = x + VF_SWAP_2(x);
    x = x + VF_SWAP_1(x);
    return x[0];
}

/// The largest of the partial results; any of the others if one is NaN.
VF_INLINE float vf_largest(const vf partial[VF_PARTIAL_VECTORS]) {
    vf x = partial[0];
    for (int32_t i = 1; i < VF_PARTIAL_VECTORS; ++i)
        x = vf_larger(x, partial[i]);
#if VF_LANES == 16
    x = vf_larger(x, VF_SWAP_8(x));
#endif
#if VF_LANES >= 8
    x = vf_larger(x, VF_SWAP_4(x));
#endif
    x = vf_larger(x, VF_SWAP_2(x));
    x = vf_larger(x, VF_SWAP_1(x));
    return x[0];
}

/// The largest of the partial results, or a NaN if there is one.
VF_INLINE float vf_max(const vf partial[VF_PARTIAL_VECTORS]) {
    vf x = partial[0];
    for (int32_t i = 1; i < VF_PARTIAL_VECTORS; ++i)
        x = vf_max_nan(x, partial[i]);
#if VF_LANES == 16
    x = vf_max_nan(x, VF_SWAP_8(x));
#endif
#if VF_LANES >= 8
    x = vf_max_nan(x, VF_SWAP_4(x));
#endif
    x = vf_max_nan(x, VF_SWAP_2(x));
    x = vf_max_nan(x, VF_SWAP_1(x));
    return x[0];
}

/// The least of the partial results, or a NaN if there is one.
VF_INLINE float vf_min(const vf partial[VF_PARTIAL_VECTORS]) {
    vf x = partial[0];
    for (int32_t i = 1; i < VF_PARTIAL_VECTORS; ++i)
        x = vf_min_nan(x, partial[i]);
#if VF_LANES == 16
    x = vf_min_nan(x, VF_SWAP_8(x));
#endif
#if VF_LANES >= 8
    x = vf_min_nan(x, VF_SWAP_4(x));
#endif
    x = vf_min_nan(x, VF_SWAP_2(x));
    x = vf_min_nan(x, VF_SWAP_1(x));
    return x[0];
}

#endif // BERTH_DEVICE_CPU_KERNEL_BASIC_SIMD_H
