// SPDX-License-Identifier: Apache-2.0
// Functions of one operand: CAST AFFINE NEG .. GELU_TANH, LOGICAL_NOT ISNAN ISINF ISFINITE, CLAMP.
#include "device/cuda/cuda_elements.cuh"

namespace {

#define REAL(name, expression)                                                                     \
    struct name##_function {                                                                       \
        DEVICE float real(const element_args&, float x, float) { return expression; }              \
    };
#define NUMBER(name, expression, integer_expression)                                               \
    struct name##_function {                                                                       \
        DEVICE float real(const element_args&, float x, float) { return expression; }              \
        DEVICE int64_t whole(const element_args&, int64_t x, int64_t) {                            \
            return integer_expression;                                                             \
        }                                                                                          \
    };
#define TEST(name, expression, integer_expression)                                                 \
    struct name##_function {                                                                       \
        DEVICE bool real(const element_args&, float x, float) { return expression; }               \
        DEVICE bool whole(const element_args&, [[maybe_unused]] int64_t x, int64_t) {              \
            return integer_expression;                                                             \
        }                                                                                          \
    };

// --- Functions in f32 ---------------------------------------------------------------------------

/// x Phi(x), Phi being the normal distribution, within a few units in the last place at either end;
/// NaN for -infinity, as its product with 0.
///
/// Phi(-t) = e^(-t^2 / 2) g / (t + 2) for t = |x|, g a polynomial in (t - 2) / (t + 2), as on the
/// CPU. The square is taken in two parts, the first of a t of 12 bits and so exact, as the
/// exponential makes much of its error.
DEVICE float gelu(float x) {
    const float t = fminf(fabsf(x), 14.5f);
    const float high = floorf(t * 256.0f) * 0x1p-8f;
    const float power = expf(high * high * -0.5f) * expf((t - high) * (t + high) * -0.5f);
    const float w = 1.0f / (t + 2.0f);
    const float q = 1.0f - 4.0f * w;
    float g = -0x1.111acep-14f;
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
    const float part = g * w;
    return x > 0.0f ? x * (1.0f - power * part) : x * part * power;
}

/// x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 as x / (1 + e^-2u), which keeps its digits
/// where tanh is near -1.
DEVICE float gelu_tanh(float x) {
    const float doubled = x * (0x1.988454p+0f + 0x1.2444f2p-4f * (x * x));
    return x / (1.0f + expf(-doubled));
}

REAL(exp, expf(x))
REAL(log, logf(x))
REAL(log1p, log1pf(x))
REAL(sqrt, sqrtf(x))
REAL(rsqrt, 1.0f / sqrtf(x))
REAL(reciprocal, 1.0f / x)
REAL(sin, sinf(x))
REAL(cos, cosf(x))
REAL(tanh, tanhf(x))
REAL(sigmoid, 1.0f / (1.0f + expf(-x)))
REAL(silu, x / (1.0f + expf(-x)))
REAL(gelu, gelu(x))
REAL(gelu_tanh, gelu_tanh(x))

struct affine_function {
    DEVICE float real(const element_args& args, float x, float) {
        return rounded_product(x, args.real[0]) + args.real[1];
    }
};

// --- Functions that keep a type -----------------------------------------------------------------

/// Negated as unsigned, which wraps.
DEVICE int64_t negated(int64_t x) { return (int64_t)(0 - (uint64_t)x); }

NUMBER(neg, -x, negated(x))
NUMBER(abs, fabsf(x), x < 0 ? negated(x) : x)
NUMBER(sign, (x > 0.0f ? 1.0f : 0.0f) - (x < 0.0f ? 1.0f : 0.0f), (x > 0) - (x < 0))
NUMBER(relu, 0.0f > x ? 0.0f : x, x > 0 ? x : 0) // keeps NaN
NUMBER(floor, floorf(x), x)
NUMBER(ceil, ceilf(x), x)
NUMBER(round, rintf(x), x)
NUMBER(cast, x, x)

/// The larger or smaller, or the NaN if there is one.
DEVICE float larger(float a, float b) { return a >= b || a != a ? a : b; }
DEVICE float smaller(float a, float b) { return a <= b || a != a ? a : b; }

struct clamp_function {
    DEVICE float real(const element_args& args, float x, float) {
        return smaller(larger(x, args.real[0]), args.real[1]);
    }
    DEVICE int64_t whole(const element_args& args, int64_t x, int64_t) {
        const int64_t raised = x < args.whole[0] ? args.whole[0] : x;
        return raised > args.whole[1] ? args.whole[1] : raised;
    }
};

// --- Questions ----------------------------------------------------------------------------------

TEST(logical_not, x == 0.0f, x == 0)
TEST(isnan, x != x, false)
TEST(isinf, fabsf(x) == HUGE_VALF, false)
TEST(isfinite, fabsf(x) < HUGE_VALF, true)

} // namespace

// --- Kernels ------------------------------------------------------------------------------------

#define THREADS 256

#define REAL_KERNELS(name, reads)                                                                  \
    KERNEL_OF(THREADS, name, berth_cuda_element_args) {                                            \
        real_vectors<1, reads, name##_function>(args);                                             \
    }                                                                                              \
    KERNEL_OF(THREADS, name##_any, berth_cuda_element_args) {                                      \
        real_elements<1, name##_function>(args);                                                   \
    }
#define NUMBER_KERNELS(name)                                                                       \
    KERNEL_OF(THREADS, name, berth_cuda_element_args) {                                            \
        number_vectors<1, 2, name##_function>(args);                                               \
    }                                                                                              \
    KERNEL_OF(THREADS, name##_any, berth_cuda_element_args) {                                      \
        any_elements<1, name##_function>(args);                                                    \
    }
#define TEST_KERNELS(name)                                                                         \
    KERNEL_OF(THREADS, name, berth_cuda_element_args) {                                            \
        test_vectors<1, 2, name##_function>(args);                                                 \
    }                                                                                              \
    KERNEL_OF(THREADS, name##_any, berth_cuda_element_args) {                                      \
        any_elements<1, name##_function>(args);                                                    \
    }

// Functions that take much computing have fewer reads under way: more threads fit instead.
REAL_KERNELS(exp, 2)
REAL_KERNELS(log, 1)
REAL_KERNELS(log1p, 1)
REAL_KERNELS(sqrt, 2)
REAL_KERNELS(rsqrt, 2)
REAL_KERNELS(reciprocal, 2)
REAL_KERNELS(sin, 1)
REAL_KERNELS(cos, 1)
REAL_KERNELS(tanh, 1)
REAL_KERNELS(sigmoid, 2)
REAL_KERNELS(silu, 2)
REAL_KERNELS(gelu, 1)
REAL_KERNELS(gelu_tanh, 2)
REAL_KERNELS(affine, 2)
NUMBER_KERNELS(neg)
NUMBER_KERNELS(abs)
NUMBER_KERNELS(sign)
NUMBER_KERNELS(relu)
NUMBER_KERNELS(floor)
NUMBER_KERNELS(ceil)
NUMBER_KERNELS(round)
NUMBER_KERNELS(clamp)
TEST_KERNELS(logical_not)
TEST_KERNELS(isnan)
TEST_KERNELS(isinf)
TEST_KERNELS(isfinite)

// Vectors of one float type to another; the output's are smaller or larger.
KERNEL_OF(THREADS, cast, berth_cuda_element_args) {
    const bool to_f16 = args.out_dtype == BERTH_F16, to_bf16 = args.out_dtype == BERTH_BF16;
    if (args.meeting == BERTH_F32 && to_f16)
        vectors<1, 2, float, f16, cast_function>(args);
    else if (args.meeting == BERTH_F32)
        vectors<1, 2, float, bf16, cast_function>(args);
    else if (args.meeting == BERTH_F16 && to_bf16)
        vectors<1, 2, f16, bf16, cast_function>(args);
    else if (args.meeting == BERTH_F16)
        vectors<1, 2, f16, float, cast_function>(args);
    else if (to_f16)
        vectors<1, 2, bf16, f16, cast_function>(args);
    else
        vectors<1, 2, bf16, float, cast_function>(args);
}

KERNEL_OF(THREADS, cast_any, berth_cuda_element_args) { any_elements<1, cast_function>(args); }
