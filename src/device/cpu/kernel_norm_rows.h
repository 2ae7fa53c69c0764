// SPDX-License-Identifier: Apache-2.0
// Rows of RMS norm and of rotary embedding; included by the file of each instruction set.
#ifndef BERTH_DEVICE_CPU_KERNEL_NORM_ROWS_H
#define BERTH_DEVICE_CPU_KERNEL_NORM_ROWS_H

#include <math.h>

#include "device/cpu/kernel_basic_rows.h"
#include "device/cpu/kernel_basic_simd.h"

static void scale_by_row(
    float* out, const float* from, const float* weight, int64_t count, float scale) {
    const vf scales = vf_set(scale);
    int64_t i = 0;
    for (; i + VF_LANES <= count; i += VF_LANES) {
        vf_store(out + i, vf_load(from + i) * scales * vf_load(weight + i));
    }
    if (i < count) {
        const vf x = vf_load_part(from + i, count - i);
        const vf w = vf_load_part(weight + i, count - i);
        vf_store_part(out + i, x * scales * w, count - i);
    }
}

/// Angles up to this are reduced here, larger ones by libm: the quotient times the first part of
/// pi / 2 (31 bits) is exact below 2^22.
#define SINCOS_LIMIT 4194304.0

/// Sine and cosine of an angle below the limit, to some 1e-11 in double, then rounded.
///
/// The angle less its nearest multiple of pi / 2 (in three parts), then polynomials in r^2 fitted
/// at Chebyshev nodes of |r| <= pi / 4, exchanged and negated by the quadrant.
static inline void sincos_one(double angle, float* out_sin, float* out_cos) {
    const double shifted = angle * 0x1.45f306dc9c883p-1 + 0x1.8p+52;
    uint64_t quadrant;
    memcpy(&quadrant, &shifted, sizeof quadrant);
    const double quotient = shifted - 0x1.8p+52;
    const double r = ((angle - quotient * 0x1.921fb544p+0) - quotient * 0x1.0b4611a6p-34) -
                     quotient * 0x1.898cc51701b84p-64;
    const double z = r * r;
    double s = -0x1.aa262ee715b00p-26;
    s = s * z + 0x1.71d9a549ac8fbp-19;
    s = s * z - 0x1.a019fd95094bep-13;
    s = s * z + 0x1.1111110fd1496p-7;
    s = s * z - 0x1.5555555555161p-3;
    s = s * z * r + r;
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

static void sincos_row(const double* restrict angle,
                       float* restrict out_sin,
                       float* restrict out_cos,
                       int64_t count) {
    for (int64_t i = 0; i < count; ++i)
        sincos_one(angle[i], out_sin + i, out_cos + i);
    for (int64_t i = 0; i < count; ++i) {
        if (fabs(angle[i]) <= SINCOS_LIMIT) continue;
        out_sin[i] = (float)sin(angle[i]);
        out_cos[i] = (float)cos(angle[i]);
    }
}

static void rotate_pairs_row(
    float* out, const float* from, const float* cosines, const float* sines, int64_t count) {
    int64_t i = 0;
    for (; i + VF_LANES <= count; i += VF_LANES) {
        const vf x = vf_load(from + i);
        vf_store(out + i, x * vf_load(cosines + i) + VF_SWAP_1(x) * vf_load(sines + i));
    }
    if (i < count) {
        const vf x = vf_load_part(from + i, count - i);
        const vf c = vf_load_part(cosines + i, count - i);
        const vf s = vf_load_part(sines + i, count - i);
        vf_store_part(out + i, x * c + VF_SWAP_1(x) * s, count - i);
    }
}

static void rotate_halves_row(
    float* out, const float* from, const float* cosines, const float* sines, int64_t count) {
    int64_t i = 0;
    for (; i + VF_LANES <= count; i += VF_LANES) {
        const vf a = vf_load(from + i);
        const vf b = vf_load(from + count + i);
        const vf c = vf_load(cosines + i);
        const vf s = vf_load(sines + i);
        vf_store(out + i, a * c - b * s);
        vf_store(out + count + i, b * c + a * s);
    }
    if (i < count) {
        const vf a = vf_load_part(from + i, count - i);
        const vf b = vf_load_part(from + count + i, count - i);
        const vf c = vf_load_part(cosines + i, count - i);
        const vf s = vf_load_part(sines + i, count - i);
        vf_store_part(out + i, a * c - b * s, count - i);
        vf_store_part(out + count + i, b * c + a * s, count - i);
    }
}

#endif // BERTH_DEVICE_CPU_KERNEL_NORM_ROWS_H
