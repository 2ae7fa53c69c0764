// SPDX-License-Identifier: Apache-2.0
// Sine and cosine, written so that loops over them vectorise.
#ifndef BERTH_DEVICE_CPU_KERNEL_TRIG_H
#define BERTH_DEVICE_CPU_KERNEL_TRIG_H

#include <stdint.h>
#include <string.h>

/// Angles up to this are reduced here, larger ones by libm: the quotient times the first part of
/// pi / 2 (31 bits) is exact below 2^22.
#define BERTH_SINCOS_LIMIT 4194304.0

/// Sine and cosine of an angle below the limit, to some 1e-11 in double, then rounded.
///
/// The angle less its nearest multiple of pi / 2 (in three parts), then polynomials in r^2 fitted
/// at Chebyshev nodes of |r| <= pi / 4, exchanged and negated by the quadrant.
static inline void berth_sincos(double angle, float* out_sin, float* out_cos) {
    const double shifted = angle * 0x1.45f306dc9c883p-1 + 0x1.8p+52;
    uint64_t quadrant;
    memcpy(&quadrant, &shifted, sizeof quadrant);
    const double quotient = shifted - 0x1.8p+52;
    const double r = ((angle - quotient * 0x1.921fb544p+0) - quotient * 0x1.0b4611a6p-34) -
                     quotient * 0x1.3198a2e037073p-69;
    const double z = r * r;
    double s = -0x1.aa262ee715b00p-26;
    s = s * z + 0x1.71d9a549ac8fbp-19;
    s = s * z - 0x1.a019fd95094bep-13;
    s = s * z + 0x1.1111110fd1496p-7;
    s = s * z - 0x1.5555555555161p-3;
    s = r * (s * z + 1.0); // keeps the sign of 0
    double c = 0x1.1c808728603bbp-29;
    c = c * z - 0x1.27e25ca05d2bep-22;
    c = c * z + 0x1.a019ff501e5c1p-16;
    c = c * z - 0x1.6c16c16b5fdb7p-10;
    c = c * z + 0x1.5555555555434p-5;
    c = c * z * z - z * 0.5 + 1.0;
    const double sine = (quadrant & 1) != 0 ? c : s;
    const double cosine = (quadrant & 1) != 0 ? s : c;
    *out_sin = (float)((quadrant & 2) != 0 ? -sine : sine);
    *out_cos = (float)(((quadrant + 1) & 2) != 0 ? -cosine : cosine);
}

#endif // BERTH_DEVICE_CPU_KERNEL_TRIG_H
