// SPDX-License-Identifier: Apache-2.0
// Rows of functions of one operand; included by the file of each instruction set.
#ifndef BERTH_DEVICE_CPU_KERNEL_UNARY_ROWS_H
#define BERTH_DEVICE_CPU_KERNEL_UNARY_ROWS_H

#include "device/cpu/kernel_basic_rows.h"
#include "device/cpu/kernel_basic_simd.h"

#define UNARY_ROW(name, expression)                                                                \
    static void name##_row(float* out, const float* from, int64_t count) {                         \
        int64_t i = 0;                                                                             \
        for (; i + VF_LANES <= count; i += VF_LANES) {                                             \
            const vf x = vf_load(from + i);                                                        \
            vf_store(out + i, expression);                                                         \
        }                                                                                          \
        if (i < count) {                                                                           \
            const vf x = vf_load_part(from + i, count - i);                                        \
            vf_store_part(out + i, expression, count - i);                                         \
        }                                                                                          \
    }

/// x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, as x / (1 + e^-2u), which keeps its digits
/// where tanh is near -1. The error of u, multiplied by u, is that of the result: some 1e-6 at -3.
VF_INLINE vf vf_gelu_tanh(vf x) {
    const vf doubled = x * (0x1.988454p+0f + 0x1.2444f2p-4f * (x * x));
    return x / (1.0f + vf_exp(-doubled));
}

UNARY_ROW(neg, -x)
UNARY_ROW(exp, vf_exp(x))
UNARY_ROW(sqrt, vf_sqrt(x))
UNARY_ROW(tanh, vf_tanh(x))
UNARY_ROW(sigmoid, vf_sigmoid(x))
UNARY_ROW(relu, vf_larger((vf){0}, x))
UNARY_ROW(silu, x / (1.0f + vf_exp(-x)))
UNARY_ROW(gelu_tanh, vf_gelu_tanh(x))

static void affine_row(float* out, const float* from, int64_t count, float scale, float shift) {
    const vf scales = vf_set(scale);
    const vf shifts = vf_set(shift);
    int64_t i = 0;
    for (; i + VF_LANES <= count; i += VF_LANES) {
        vf_store(out + i, vf_load(from + i) * scales + shifts);
    }
    if (i < count) {
        const vf x = vf_load_part(from + i, count - i);
        vf_store_part(out + i, x * scales + shifts, count - i);
    }
}

#endif // BERTH_DEVICE_CPU_KERNEL_UNARY_ROWS_H
