// SPDX-License-Identifier: Apache-2.0
// Functions on vectors of f32 that only rows of one operand need: logarithms, the Gaussian error
// linear units, rounding to integers, signs. S1 holds for all of them.
#ifndef BERTH_DEVICE_CPU_KERNEL_UNARY_SIMD_H
#define BERTH_DEVICE_CPU_KERNEL_UNARY_SIMD_H

#include "device/cpu/kernel_basic_simd.h"

VF_INLINE vf vf_copy_sign(vf magnitude, vf sign) {
    return (vf)((vi)magnitude | ((vi)sign & (vi)vf_set(-0.0f)));
}

/// -1, 0 or 1; 0 for NaN.
VF_INLINE vf vf_sign(vf x) {
    const vi one = (vi)vf_set(1.0f);
    return (vf)((vi)(x > 0.0f) & one) - (vf)((vi)(x < 0.0f) & one);
}

// --- Rounding ------------------------------------------------------------------------------------

/// To the nearest integer, halves to even; keeps the sign of 0.
VF_INLINE vf vf_round(vf x) {
#if defined(__AVX512F__)
    return (vf)_mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(__AVX2__)
    return (vf)_mm256_round_ps((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
    // what is at least 2^23 is whole; below, the sum with 2^23 has no room for a fraction
    const vf magnitude = vf_abs(x);
    const vf whole = (magnitude + 0x1p23f) - 0x1p23f;
    // the sum makes a NaN quiet, as the instructions above do
    return vf_select((vi)(magnitude < 0x1p23f), vf_copy_sign(whole, x), x + 0.0f);
#endif
}

/// To the next integer below.
VF_INLINE vf vf_floor(vf x) {
#if defined(__AVX512F__)
    return (vf)_mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
#elif defined(__AVX2__)
    return (vf)_mm256_round_ps((__m256)x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
#else
    const vf whole = vf_round(x);
    return whole - (vf)((vi)(whole > x) & (vi)vf_set(1.0f));
#endif
}

/// To the next integer above; what is above -1 becomes -0.
VF_INLINE vf vf_ceil(vf x) {
#if defined(__AVX512F__)
    return (vf)_mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
#elif defined(__AVX2__)
    return (vf)_mm256_round_ps((__m256)x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
#else
    const vf whole = vf_round(x);
    return vf_copy_sign(whole + (vf)((vi)(whole < x) & (vi)vf_set(1.0f)), x);
#endif
}

// --- Logarithms ----------------------------------------------------------------------------------

/// A positive number as 2^exponent times a mantissa of [sqrt(1/2), sqrt(2)).
typedef struct vf_parts {
    vf mantissa;
    vi exponent;
    vi exponent_bits; ///< the exponent, where that of an f32 lies
} vf_parts;

VF_INLINE vf_parts vf_split(vf x) {
    const vi bits = (vi)x & 0x7fffffff;
    const vi above = bits - 0x3f3504f3; // the bits of sqrt(1/2)
    vf_parts parts;
    parts.exponent_bits = above & (int32_t)0xff800000;
    parts.exponent = above >> 23;
    parts.mantissa = (vf)(bits - parts.exponent_bits);
    return parts;
}

/// ln(2^n (1 + f)) for 1 + f in [sqrt(1/2), sqrt(2)).
///
/// f - f^2 / 2 + f^3 p(f), p fitted to (ln(1 + f) - f + f^2 / 2) / f^3 at Chebyshev nodes; ln 2 in
/// two parts, the first of 9 bits, so that n times it is exact.
VF_INLINE vf vf_log_core(vf f, vi n) {
    const vf whole = __builtin_convertvector(n, vf);
    const vf z = f * f;
    vf p = vf_set(0x1.1d8ea6p-4f);
    p = p * f - 0x1.d635bcp-4f;
    p = p * f + 0x1.dea282p-4f;
    p = p * f - 0x1.fcf4c6p-4f;
    p = p * f + 0x1.23d21ap-3f;
    p = p * f - 0x1.555b4ap-3f;
    p = p * f + 0x1.999d5ap-3f;
    p = p * f - 0x1.fffffcp-3f;
    p = p * f + 0x1.555554p-2f;
    const vf low = (f * z * p + whole * -0x1.bd0106p-13f) - 0.5f * z;
    return (f + low) + whole * 0x1.63p-1f;
}

/// What the logarithm of `x` is where it is no finite number > 0; else `result`.
VF_INLINE vf vf_log_edges(vf x, vf result) {
    result = vf_select((vi)(x < INFINITY), result, x); // infinity, NaN
    result = vf_select((vi)(x == 0.0f), vf_set(-INFINITY), result);
    return vf_select((vi)(x < 0.0f), vf_set(NAN), result);
}

/// ln x: within 1.5 units in the last place, of subnormal x too; -infinity for 0, NaN below.
VF_INLINE vf vf_log(vf x) {
    const vi small = (vi)(x < 0x1p-126f);
    const vf_parts parts = vf_split(vf_select(small, x * 0x1p25f, x));
    return vf_log_edges(x, vf_log_core(parts.mantissa - 1.0f, parts.exponent - (small & 25)));
}

/// ln(1 + x): within 2 units in the last place; -infinity for -1, NaN below; keeps the sign of 0.
VF_INLINE vf vf_log1p(vf x) {
    const vf u = 1.0f + x;
    // what rounding 1 + x lost, exactly
    const vf lost = vf_select((vi)(x > 1.0f), 1.0f - (u - x), x - (u - 1.0f));
    const vf_parts parts = vf_split(u);
    const vf scaled = lost * (vf)(0x3f800000 - parts.exponent_bits);
    const vf f = (parts.mantissa - 1.0f) + vf_select((vi)(x < 0x1p25f), scaled, (vf){0});
    const vf result = vf_log_edges(u, vf_log_core(f, parts.exponent));
    return vf_select((vi)(x == 0.0f), x, result);
}

// --- The Gaussian error linear unit --------------------------------------------------------------

/// x Phi(x), Phi being the normal distribution: within 6 units in the last place; what is smaller
/// than 2^-126 may be off by 2^-148. NaN for -infinity, as its product with 0.
///
/// Phi(-t) = e^(-t^2 / 2) g / (t + 2) for t = |x|, g a polynomial in (t - 2) / (t + 2) fitted at
/// Chebyshev nodes of t <= 14.5; beyond, the result is 0. The square is taken in two parts, the
/// first of a t of 12 bits and so exact, as the exponential makes much of its error.
VF_INLINE vf vf_gelu(vf x) {
    const vf t = vf_smaller(vf_set(14.5f), vf_abs(x));
    const vf high = (vf)((vi)t & (int32_t)0xfffff000);
    const vf square_high = high * high * -0.5f;
    const vf square_low = (t - high) * (t + high) * -0.5f;
    const vf shifted = (square_high + square_low) * 0x1.715476p+0f + 0x1.8p+23f;
    const vf whole = shifted - 0x1.8p+23f;
    const vf r = ((square_high - whole * 0x1.62e4p-1f) - whole * 0x1.7f7d1cp-20f) + square_low;
    const vf power = vf_scaled_exp(r, (vi)shifted - 0x4b400000);

    const vf w = 1.0f / (t + 2.0f);
    const vf q = 1.0f - 4.0f * w;
    vf g = vf_set(-0x1.111acep-14f);
    g = g * q - 0x1.37516ap-13f;
    g = g * q + 0x1.15b318p-13f;
    g = g * q + 0x1.b5f3a8p-11f;
    g = g * q + 0x1.afea34p-11f;
    g = g * q - 0x1.ff666cp-10f;
    g = g * q - 0x1.b95ab2p-8f;
    g = g * q - 0x1.ecc0bap-12f;
    g = g * q + 0x1.2cce28p-5f;
    g = g * q + 0x1.d7d0fep-6f;
    g = g * q - 0x1.535bb2p-2f;
    g = g * q + 0x1.5845dcp-1f;
    // Phi(-t) is power times this; it may be subnormal where the result is not
    const vf part = g * w;
    return vf_select((vi)(x > 0.0f), x * (1.0f - power * part), x * part * power);
}

/// x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, as x / (1 + e^-2u), which keeps its digits
/// where tanh is near -1. The error of u, multiplied by u, is that of the result: some 1e-6 at -3.
VF_INLINE vf vf_gelu_tanh(vf x) {
    const vf doubled = x * (0x1.988454p+0f + 0x1.2444f2p-4f * (x * x));
    return x / (1.0f + vf_exp(-doubled));
}

#endif // BERTH_DEVICE_CPU_KERNEL_UNARY_SIMD_H
