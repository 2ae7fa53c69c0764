// SPDX-License-Identifier: Apache-2.0
// Rows of rotary embedding; included by the file of each instruction set.
#ifndef BERTH_DEVICE_CPU_KERNEL_ROPE_ROWS_H
#define BERTH_DEVICE_CPU_KERNEL_ROPE_ROWS_H

#include <math.h>

#include "device/cpu/kernel_basic_rows.h"
#include "device/cpu/kernel_basic_simd.h"
#include "device/cpu/kernel_trig.h"

VF_INLINE void sincos_vector(vd angle, vh* out_sin, vh* out_cos) {
    vd sine, cosine;
    vd_sincos(angle, &sine, &cosine);
    *out_sin = __builtin_convertvector(sine, vh);
    *out_cos = __builtin_convertvector(cosine, vh);
}

static void sincos_row(const double* angle, float* out_sin, float* out_cos, int64_t count) {
    int64_t i = 0;
    vd x = {0};
    vh sine, cosine;
    for (; i + VD_LANES <= count; i += VD_LANES) {
        memcpy(&x, angle + i, sizeof x);
        sincos_vector(x, &sine, &cosine);
        memcpy(out_sin + i, &sine, sizeof sine);
        memcpy(out_cos + i, &cosine, sizeof cosine);
    }
    if (i < count) {
        memcpy(&x, angle + i, (size_t)(count - i) * sizeof *angle);
        sincos_vector(x, &sine, &cosine);
        memcpy(out_sin + i, &sine, (size_t)(count - i) * sizeof *out_sin);
        memcpy(out_cos + i, &cosine, (size_t)(count - i) * sizeof *out_cos);
    }
    for (i = 0; i < count; ++i) {
        if (fabs(angle[i]) <= VD_SINCOS_LIMIT) continue;
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

#endif // BERTH_DEVICE_CPU_KERNEL_ROPE_ROWS_H
