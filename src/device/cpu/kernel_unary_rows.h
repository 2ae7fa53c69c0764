// SPDX-License-Identifier: Apache-2.0
// Rows of functions of one operand; included by the file of each instruction set.
#ifndef BERTH_DEVICE_CPU_KERNEL_UNARY_ROWS_H
#define BERTH_DEVICE_CPU_KERNEL_UNARY_ROWS_H

#include "device/cpu/kernel_basic_rows.h"
#include "device/cpu/kernel_trig.h"
#include "device/cpu/kernel_unary_simd.h"

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

UNARY_ROW(neg, -x)
UNARY_ROW(abs, vf_abs(x))
UNARY_ROW(sign, vf_sign(x))
UNARY_ROW(relu, vf_larger((vf){0}, x))
UNARY_ROW(floor, vf_floor(x))
UNARY_ROW(ceil, vf_ceil(x))
UNARY_ROW(round, vf_round(x))
UNARY_ROW(exp, vf_exp(x))
UNARY_ROW(log, vf_log(x))
UNARY_ROW(log1p, vf_log1p(x))
UNARY_ROW(sqrt, vf_sqrt(x))
UNARY_ROW(rsqrt, 1.0f / vf_sqrt(x))
UNARY_ROW(reciprocal, 1.0f / x)
UNARY_ROW(tanh, vf_tanh(x))
UNARY_ROW(sigmoid, vf_sigmoid(x))
UNARY_ROW(silu, x / (1.0f + vf_exp(-x)))
UNARY_ROW(gelu, vf_gelu(x))
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

// A stretch goes through memory of its own, as `out` may be `from`.
#define STRETCH 256

VF_INLINE vh trig_vector(vh x, bool is_sine) {
    const vd angle = __builtin_convertvector(x, vd);
    return __builtin_convertvector(is_sine ? vd_sin(angle) : vd_cos(angle), vh);
}

/// sin or cos of angles, those beyond the limit without regard to that.
VF_INLINE void trig_stretch(float* out, const float* from, int64_t count, bool is_sine) {
    int64_t i = 0;
    vh x = {0};
    for (; i + VD_LANES <= count; i += VD_LANES) {
        memcpy(&x, from + i, sizeof x);
        const vh result = trig_vector(x, is_sine);
        memcpy(out + i, &result, sizeof result);
    }
    if (i < count) {
        memcpy(&x, from + i, (size_t)(count - i) * sizeof *from);
        const vh result = trig_vector(x, is_sine);
        memcpy(out + i, &result, (size_t)(count - i) * sizeof *out);
    }
}

#define TRIG_ROW(name, is_sine)                                                                    \
    static void name##_row(float* out, const float* from, int64_t count) {                         \
        for (int64_t at = 0; at < count; at += STRETCH) {                                          \
            const int64_t n = count - at < STRETCH ? count - at : STRETCH;                         \
            float stretch[STRETCH];                                                                \
            trig_stretch(stretch, from + at, n, is_sine);                                          \
            int32_t large = 0;                                                                     \
            for (int64_t i = 0; i < n; ++i)                                                        \
                large |= !(fabsf(from[at + i]) <= (float)VD_SINCOS_LIMIT);                         \
            for (int64_t i = 0; large != 0 && i < n; ++i) {                                        \
                const double x = (double)from[at + i];                                             \
                if (!(fabs(x) <= VD_SINCOS_LIMIT)) stretch[i] = (float)name(x);                    \
            }                                                                                      \
            memcpy(out + at, stretch, (size_t)n * sizeof *stretch);                                \
        }                                                                                          \
    }

TRIG_ROW(sin, true)
TRIG_ROW(cos, false)

// --- Integers ------------------------------------------------------------------------------------

// Vectors of the type as wide as those of f32; u is x in unsigned arithmetic, which wraps.
#define INT_ROW(name, type, unsigned_type, expression)                                             \
    static void name##_##type(void* out, const void* from, int64_t count) {                        \
        typedef type signed_vector __attribute__((vector_size(VF_LANES * 4)));                     \
        typedef unsigned_type vector __attribute__((vector_size(VF_LANES * 4)));                   \
        const int64_t lanes = (int64_t)(sizeof(vector) / sizeof(type));                            \
        const type* source = from;                                                                 \
        type* target = out;                                                                        \
        for (int64_t i = 0; i < count; i += lanes) {                                               \
            const bool is_whole = count - i >= lanes;                                              \
            const size_t rest = is_whole ? 0 : (size_t)(count - i) * sizeof(type);                 \
            signed_vector x = {0};                                                                 \
            if (is_whole)                                                                          \
                memcpy(&x, source + i, sizeof x);                                                  \
            else                                                                                   \
                memcpy(&x, source + i, rest);                                                      \
            const vector u __attribute__((unused)) = (vector)x;                                    \
            const vector result = expression;                                                      \
            if (is_whole)                                                                          \
                memcpy(target + i, &result, sizeof result);                                        \
            else                                                                                   \
                memcpy(target + i, &result, rest);                                                 \
        }                                                                                          \
    }

// A comparison gives -1 where it holds.
#define SIGNED_ROWS(type, unsigned_type)                                                           \
    INT_ROW(neg, type, unsigned_type, -u)                                                          \
    INT_ROW(abs, type, unsigned_type, (u ^ (vector)(x < 0)) - (vector)(x < 0))                     \
    INT_ROW(sign, type, unsigned_type, (vector)(x < 0) - (vector)(x > 0))                          \
    INT_ROW(relu, type, unsigned_type, u&(vector)(x > 0))

SIGNED_ROWS(int8_t, uint8_t)
SIGNED_ROWS(int32_t, uint32_t)
SIGNED_ROWS(int64_t, uint64_t)
INT_ROW(neg, uint8_t, uint8_t, -u)
INT_ROW(sign, uint8_t, uint8_t, -(vector)(x != 0))

// --- Questions -----------------------------------------------------------------------------------

#define TEST_ROW(name, type, comparison)                                                           \
    static void name##_##type(                                                                     \
        uint8_t* out, const void* source, int64_t count, uint64_t mask, uint64_t value) {          \
        const type* from = source;                                                                 \
        const type kept = (type)mask;                                                              \
        const type other = (type)value;                                                            \
        for (int64_t at = 0; at < count; at += STRETCH) {                                          \
            const int64_t n = count - at < STRETCH ? count - at : STRETCH;                         \
            uint8_t stretch[STRETCH];                                                              \
            for (int64_t i = 0; i < n; ++i)                                                        \
                stretch[i] = (type)(from[at + i] & kept) comparison other;                         \
            memcpy(out + at, stretch, (size_t)n);                                                  \
        }                                                                                          \
    }

TEST_ROW(is_equal, uint8_t, ==)
TEST_ROW(is_equal, uint16_t, ==)
TEST_ROW(is_equal, uint32_t, ==)
TEST_ROW(is_equal, uint64_t, ==)
TEST_ROW(is_above, uint16_t, >)
TEST_ROW(is_above, uint32_t, >)
TEST_ROW(is_below, uint16_t, <)
TEST_ROW(is_below, uint32_t, <)

#endif // BERTH_DEVICE_CPU_KERNEL_UNARY_ROWS_H
