// SPDX-License-Identifier: Apache-2.0
// Rows of powers and remainders; included by the file of each instruction set. Those of f32 compute
// in double, so that what they round is nearly exact.
#ifndef BERTH_DEVICE_CPU_KERNEL_POWER_ROWS_H
#define BERTH_DEVICE_CPU_KERNEL_POWER_ROWS_H

#include "device/cpu/kernel_binary_rows.h"

/// The bits of doubles.
typedef int64_t vl __attribute__((vector_size(VD_LANES * 8)));
typedef uint64_t vu __attribute__((vector_size(VD_LANES * 8)));

/// The lower half of `x` (index 0), or the upper (1), as double.
VF_INLINE vd vd_half_of(vf x, int index) {
    vd_narrow half;
    memcpy(&half, (const char*)&x + (size_t)index * sizeof half, sizeof half);
    return __builtin_convertvector(half, vd);
}

/// Both halves rounded to f32.
VF_INLINE vf vd_join(vd low, vd high) {
    const vd_narrow halves[2] = {__builtin_convertvector(low, vd_narrow),
                                 __builtin_convertvector(high, vd_narrow)};
    vf joined;
    memcpy(&joined, halves, sizeof joined);
    return joined;
}

VF_INLINE vd vd_set(double x) { return x - (vd){0}; }

VF_INLINE vd vd_select(vl mask, vd yes, vd no) { return (vd)(((vl)yes & mask) | ((vl)no & ~mask)); }

/// True if a lane of `mask`, each all ones or 0, is set.
VF_INLINE bool vl_any(vl mask) {
#if defined(__AVX512F__)
    return _mm512_test_epi64_mask((__m512i)mask, (__m512i)mask) != 0;
#elif defined(__AVX2__)
    return _mm256_movemask_pd((__m256d)mask) != 0;
#elif defined(__SSE2__)
    return _mm_movemask_pd((__m128d)mask) != 0;
#else
    bool any = false;
    for (int32_t i = 0; i < VD_LANES; ++i)
        any = any || mask[i] != 0;
    return any;
#endif
}

// --- Powers --------------------------------------------------------------------------------------

/// x^y for positive finite x: 2^(y log2 x) in double, with an error below 2^-27 of the result.
///
/// x = 2^k m with m in [sqrt(1/2), sqrt(2)); log2 m = s p(s^2), s = (m - 1) / (m + 1); both
/// polynomials were fitted at Chebyshev nodes.
VF_INLINE vd vd_power(vd x, vd y) {
    // the difference of the bits of 1 and of sqrt(1/2)
    const vl shifted = (vl)x + 0x00095f619980c433;
    const vl exponent = shifted & 0x7ff0000000000000;
    const vd m = (vd)((vl)x - exponent + 0x3ff0000000000000);
    // under the bits of 2^52 an integer counts ones
    const vl counted = (vl)((vu)exponent >> 52) | 0x4330000000000000;
    const vd k = (vd)counted - (0x1.0p+52 + 1023.0);
    const vd s = (m - 1.0) / (m + 1.0);
    const vd z = s * s;
    vd p = vd_set(0x1.5ce39e0f72792p-2);
    p = p * z + 0x1.a58dceca72ce8p-2;
    p = p * z + 0x1.27777f461993ep-1;
    p = p * z + 0x1.ec709d13c0821p-1;
    p = p * z + 0x1.71547652bed13p+1;
    vd t = y * (k + s * p);
    t = vd_select((vl)(t < -300.0), vd_set(-300.0), t);
    t = vd_select((vl)(t > 300.0), vd_set(300.0), t);
    // Adding 1.5 * 2^52 rounds to an integer, left in the low bits.
    const vd whole = t + 0x1.8p+52;
    const vd r = t - (whole - 0x1.8p+52);
    vd e = vd_set(0x1.4413896e1ad27p-13);
    e = e * r + 0x1.5f0890162a90ap-10;
    e = e * r + 0x1.3b2a53045179ap-7;
    e = e * r + 0x1.c6af6cdbbdcc7p-5;
    e = e * r + 0x1.ebfbe00e63baep-3;
    e = e * r + 0x1.62e4302fc626ep-1;
    e = e * r + 1.0;
    return e * (vd)(((vl)whole - 0x4338000000000000 + 1023) << 52);
}

/// All ones where x >= 0 is an integer, or infinite.
VF_INLINE vi vf_is_whole(vf x) {
    return (vi)(x >= 0x1.0p+23f) | (vi)((x + 0x1.0p+23f) - 0x1.0p+23f == x);
}

/// x^y: within 0.6 units in the last place, with the special cases of C's pow.
VF_INLINE vf vf_power(vf x, vf y) {
    const vf size = vf_abs(x);
    const vf rate = vf_abs(y);
    const vd low = vd_power(vd_half_of(size, 0), vd_half_of(y, 0));
    const vd high = vd_power(vd_half_of(size, 1), vd_half_of(y, 1));
    vf power = vd_join(low, high);
    const vf infinite = vf_set(INFINITY);
    const vi is_infinite = (vi)(size == infinite);
    const vi is_edge = is_infinite | (vi)(size == 0.0f);
    const vf edge = vf_select(is_infinite ^ (vi)(y < 0.0f), infinite, (vf){0});
    power = vf_select(is_edge, edge, power);
    const vi is_odd = vf_is_whole(rate) & ~vf_is_whole(rate * 0.5f);
    const vi sign = (vi)vf_set(-0.0f);
    power = (vf)((vi)power | ((vi)x & sign & is_odd));
    const vi has_no_root = (vi)(x < 0.0f) & ~is_infinite & ~vf_is_whole(rate);
    power = vf_select(has_no_root, vf_set(NAN), power);
    power = vf_select((vi)(x != x) | (vi)(y != y), x + y, power);
    const vi is_one =
        (vi)(x == 1.0f) | (vi)(y == 0.0f) | ((vi)(size == 1.0f) & (vi)(rate == infinite));
    return vf_select(is_one, vf_set(1.0f), power);
}

BINARY_F32_ROW(pow, vf_power(a, b))

/// Integers that are raised side by side.
#define POWER_BLOCK 32

/// Repeated squaring; `wide` holds products, `real` any element. A negative exponent gives the
/// whole part of the fraction: 0 unless the base is 1 or -1.
#define POWER_ROW(type, wide, real)                                                                \
    static void pow_##type(void* out, const void* left, const void* right, int64_t count) {        \
        for (int64_t at = 0; at < count; at += POWER_BLOCK) {                                      \
            const int64_t n = count - at < POWER_BLOCK ? count - at : POWER_BLOCK;                 \
            type a[POWER_BLOCK] = {0};                                                             \
            type b[POWER_BLOCK] = {0};                                                             \
            memcpy(a, (const type*)left + at, (size_t)n * sizeof(type));                           \
            memcpy(b, (const type*)right + at, (size_t)n * sizeof(type));                          \
            wide base[POWER_BLOCK];                                                                \
            wide rest[POWER_BLOCK];                                                                \
            wide power[POWER_BLOCK];                                                               \
            for (int32_t i = 0; i < POWER_BLOCK; ++i) {                                            \
                const real exponent = b[i];                                                        \
                base[i] = (wide)a[i];                                                              \
                rest[i] = exponent < 0 ? 0 : (wide)exponent;                                       \
                power[i] = 1;                                                                      \
            }                                                                                      \
            for (wide any = 1; any != 0;) {                                                        \
                any = 0;                                                                           \
                for (int32_t i = 0; i < POWER_BLOCK; ++i) {                                        \
                    power[i] *= (rest[i] & 1) != 0 ? base[i] : 1;                                  \
                    base[i] *= base[i];                                                            \
                    rest[i] >>= 1;                                                                 \
                    any |= rest[i];                                                                \
                }                                                                                  \
            }                                                                                      \
            for (int32_t i = 0; i < POWER_BLOCK; ++i) {                                            \
                const real exponent = b[i];                                                        \
                const real root = a[i];                                                            \
                const real turned = (exponent & 1) != 0 ? root : 1;                                \
                const real fraction = root == 1 || root == -1 ? turned : 0;                        \
                a[i] = exponent < 0 ? (type)fraction : (type)power[i];                             \
            }                                                                                      \
            memcpy((type*)out + at, a, (size_t)n * sizeof(type));                                  \
        }                                                                                          \
    }

POWER_ROW(int32_t, uint32_t, int32_t)
POWER_ROW(int64_t, uint64_t, int64_t)
POWER_ROW(int8_t, uint32_t, int32_t)
POWER_ROW(uint8_t, uint32_t, int32_t)

// --- Remainders ----------------------------------------------------------------------------------

/// a - n b, exact, for an integer n near a / b; NaN where the remainder is. What is in `far` was
/// too large for that.
VF_INLINE vd vd_nearest_remainder(vd a, vd b, vl* far) {
    const vd quotient = a / b;
    const vd size = (vd)((vl)quotient & 0x7fffffffffffffff);
    // n has 28 bits and b 24, so n b is exact; the difference has no more bits than a or b
    *far = (vl)(size >= 0x1.0p+28) & (vl)(size < (double)INFINITY);
    const vd n = (quotient + 0x1.8p+52) - 0x1.8p+52;
    return a - n * b;
}

/// The remainder with the divisor's sign of what fmod gives for a and b, rounded once.
VF_INLINE vf vf_remainder_of(vf mod, vf a, vf b) {
    const vi sign = (vi)vf_set(-0.0f);
    const vi is_turned = ((vi)(mod < 0.0f) ^ (vi)(b < 0.0f)) & (vi)(mod != 0.0f);
    const vf zero = (vf)((vi)a & sign);
    return vf_select((vi)(mod == 0.0f), zero, vf_select(is_turned, mod + b, mod));
}

/// Lane by lane, where the quotient is too large for double.
static __attribute__((noinline)) vf vf_far_remainder(vf a, vf b) {
    vf mod = a;
    for (int32_t i = 0; i < VF_LANES; ++i)
        mod[i] = fmodf(a[i], b[i]);
    return vf_remainder_of(mod, a, b);
}

VF_INLINE vf vf_remainder(vf a, vf b) {
    vl far_low;
    vl far_high;
    const vd low = vd_nearest_remainder(vd_half_of(a, 0), vd_half_of(b, 0), &far_low);
    const vd high = vd_nearest_remainder(vd_half_of(a, 1), vd_half_of(b, 1), &far_high);
    if (vl_any(far_low | far_high)) return vf_far_remainder(a, b);
    // what is smaller than b in size stays as it is, though b be infinite
    const vf near = vf_select((vi)(vf_abs(a) < vf_abs(b)), a, vd_join(low, high));
    return vf_remainder_of(near, a, b);
}

BINARY_F32_ROW(remainder, vf_remainder(a, b))

/// Integers as `wide`, their quotient in `real`, of which the whole part is exact. A divisor of 0,
/// which has none, or of -1, where it may overflow, counts as 1: the remainder is 0.
#define REMAINDER_ROW(type, wide, real)                                                            \
    static void remainder_##type(void* out, const void* left, const void* right, int64_t count) {  \
        type* to = out;                                                                            \
        const type* from_a = left;                                                                 \
        const type* from_b = right;                                                                \
        VF_EACH_APART                                                                              \
        for (int64_t i = 0; i < count; ++i) { /* without branches */                               \
            const wide a = from_a[i];                                                              \
            const wide divisor = from_b[i];                                                        \
            const wide is_trivial = -(wide)((divisor == 0) | (divisor == -1));                     \
            const wide b = (divisor & ~is_trivial) | (1 & is_trivial);                             \
            const wide rest = a - (wide)((real)a / (real)b) * b;                                   \
            const wide is_turned = -(wide)((rest != 0) & ((rest ^ b) < 0));                        \
            to[i] = (type)(rest + (b & is_turned));                                                \
        }                                                                                          \
    }

REMAINDER_ROW(int32_t, int32_t, double)
REMAINDER_ROW(int64_t, int64_t, int64_t)
REMAINDER_ROW(int8_t, int32_t, float)
REMAINDER_ROW(uint8_t, int32_t, float)

#endif // BERTH_DEVICE_CPU_KERNEL_POWER_ROWS_H
