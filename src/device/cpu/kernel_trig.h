// SPDX-License-Identifier: Apache-2.0
// Sine and cosine on vectors of double, as wide as those of f32.
#ifndef BERTH_DEVICE_CPU_KERNEL_TRIG_H
#define BERTH_DEVICE_CPU_KERNEL_TRIG_H

#include "device/cpu/kernel_basic_simd.h"

#define VD_LANES (VF_LANES / 2)

typedef double vd __attribute__((vector_size(VD_LANES * 8)));
typedef uint64_t vq __attribute__((vector_size(VD_LANES * 8)));
typedef float vh __attribute__((vector_size(VD_LANES * 4)));

/// Angles up to this are reduced here, larger ones by libm: the quotient times the first part of
/// pi / 2 (31 bits) is exact below 2^22.
#define VD_SINCOS_LIMIT 4194304.0

/// Sine and cosine of angles below the limit, to some 1e-11.
///
/// The angle less its nearest multiple of pi / 2 (in three parts), then polynomials in r^2 fitted
/// at Chebyshev nodes of |r| <= pi / 4, exchanged and negated by the quadrant.
VF_INLINE void vd_sincos(vd angle, vd* out_sin, vd* out_cos) {
    const vd shifted = angle * 0x1.45f306dc9c883p-1 + 0x1.8p+52;
    const vq quadrant = (vq)shifted;
    const vd quotient = shifted - 0x1.8p+52;
    const vd r = ((angle - quotient * 0x1.921fb544p+0) - quotient * 0x1.0b4611a6p-34) -
                 quotient * 0x1.3198a2e037073p-69;
    const vd z = r * r;
    vd s = z * -0x1.aa262ee715b00p-26 + 0x1.71d9a549ac8fbp-19;
    s = s * z - 0x1.a019fd95094bep-13;
    s = s * z + 0x1.1111110fd1496p-7;
    s = s * z - 0x1.5555555555161p-3;
    s = r * (s * z + 1.0); // keeps the sign of 0
    vd c = z * 0x1.1c808728603bbp-29 - 0x1.27e25ca05d2bep-22;
    c = c * z + 0x1.a019ff501e5c1p-16;
    c = c * z - 0x1.6c16c16b5fdb7p-10;
    c = c * z + 0x1.5555555555434p-5;
    c = c * z * z - z * 0.5 + 1.0;
    const vq odd = -(quadrant & 1);
    const vq sine = ((vq)c & odd) | ((vq)s & ~odd);
    const vq cosine = ((vq)s & odd) | ((vq)c & ~odd);
    *out_sin = (vd)(sine ^ (quadrant & 2) << 62);
    *out_cos = (vd)(cosine ^ ((quadrant + 1) & 2) << 62);
}

/// The sine of an angle less `quotient` times pi, its sign turned once for each of `turns`: one
/// polynomial for |r| <= pi / 2, fitted at Chebyshev nodes to some 1e-10. Half the work of both.
VF_INLINE vd vd_sin_reduced(vd angle, vd quotient, vq turns) {
    const vd r = ((angle - quotient * 0x1.921fb544p+1) - quotient * 0x1.0b4611a4p-33) -
                 quotient * 0x1.13198a2e03707p-64;
    const vd z = r * r;
    vd p = z * -0x1.9db160d0baed4p-26 + 0x1.71968de079b19p-19;
    p = p * z - 0x1.a01905a717122p-13;
    p = p * z + 0x1.11110fda8ff95p-7;
    p = p * z - 0x1.555555546033dp-3;
    return (vd)((vq)(r * (p * z + 1.0)) ^ turns << 63); // a product keeps the sign of 0
}

VF_INLINE vd vd_sin(vd angle) {
    const vd shifted = angle * 0x1.45f306dc9c883p-2 + 0x1.8p+52;
    return vd_sin_reduced(angle, shifted - 0x1.8p+52, (vq)shifted);
}

/// The sine a quarter turn ahead.
VF_INLINE vd vd_cos(vd angle) {
    const vd shifted = (angle * 0x1.45f306dc9c883p-2 - 0.5) + 0x1.8p+52;
    return vd_sin_reduced(angle, (shifted - 0x1.8p+52) + 0.5, (vq)shifted + 1);
}

#endif // BERTH_DEVICE_CPU_KERNEL_TRIG_H
