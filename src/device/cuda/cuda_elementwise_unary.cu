// SPDX-License-Identifier: Apache-2.0
// Functions of one operand: CAST AFFINE NEG .. GELU_TANH, LOGICAL_NOT ISNAN ISINF ISFINITE, CLAMP.
#include "device/cuda/cuda_elements.cuh"

namespace {

#define REAL(name, expression)                                                                     \
    struct name##_function {                                                                       \
        template <class Math> MEMBER float real(const element_args&, float x, float) const {       \
            return expression;                                                                     \
        }                                                                                          \
    };
#define NUMBER(name, expression, integer_expression)                                               \
    struct name##_function {                                                                       \
        template <class Math> MEMBER float real(const element_args&, float x, float) const {       \
            return expression;                                                                     \
        }                                                                                          \
        MEMBER int64_t whole(const element_args&, int64_t x, int64_t) const {                      \
            return integer_expression;                                                             \
        }                                                                                          \
    };
#define TEST(name, expression, integer_expression)                                                 \
    struct name##_function {                                                                       \
        template <class Math> MEMBER bool real(const element_args&, float x, float) const {        \
            return expression;                                                                     \
        }                                                                                          \
        MEMBER bool whole(const element_args&, [[maybe_unused]] int64_t x, int64_t) const {        \
            return integer_expression;                                                             \
        }                                                                                          \
    };

// --- Functions in f32 ---------------------------------------------------------------------------

/// e^(-t^2 / 2) for t of at most 14.5. For an exact result the square is taken in two parts, the
/// first of a t of 12 bits and so exact, as the exponential makes much of its error.
template <class Math> DEVICE float normal_power(float t) {
    if constexpr (Math::is_exact) {
        const float high = floorf(t * 256.0f) * 0x1p-8f;
        return expf(high * high * -0.5f) * expf((t - high) * (t + high) * -0.5f);
    }
    return Math::exp(t * t * -0.5f);
}

/// x Phi(x), Phi being the normal distribution, within a few units in the last place at either end;
/// NaN for -infinity, as its product with 0.
///
/// Phi(-t) = e^(-t^2 / 2) g / (t + 2) for t = |x|, g a polynomial in (t - 2) / (t + 2), as on the
/// CPU.
template <class Math> DEVICE float gelu(float x) {
    const float t = fminf(fabsf(x), 14.5f);
    const float power = normal_power<Math>(t);
    const float w = Math::quotient(1.0f, t + 2.0f);
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
template <class Math> DEVICE float gelu_tanh(float x) {
    const float doubled = x * (0x1.988454p+0f + 0x1.2444f2p-4f * (x * x));
    return Math::quotient(x, 1.0f + Math::exp(-doubled));
}

REAL(exp, expf(x))
REAL(log, logf(x))
REAL(log1p, log1pf(x))
REAL(sqrt, sqrtf(x))
REAL(rsqrt, Math::inverse_root(x))
REAL(reciprocal, 1.0f / x)
REAL(sin, sinf(x))
REAL(cos, cosf(x))
REAL(tanh, tanhf(x))
REAL(sigmoid, Math::quotient(1.0f, 1.0f + Math::exp(-x)))
REAL(silu, Math::quotient(x, 1.0f + Math::exp(-x)))
REAL(gelu, gelu<Math>(x))
REAL(gelu_tanh, gelu_tanh<Math>(x))

struct affine_function {
    template <class Math> MEMBER float real(const element_args& args, float x, float) const {
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
    template <class Math> MEMBER float real(const element_args& args, float x, float) const {
        return smaller(larger(x, args.real[0]), args.real[1]);
    }
    MEMBER int64_t whole(const element_args& args, int64_t x, int64_t) const {
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

#define KERNELS(name, vector_form, group_form)                                                     \
    KERNEL_OF(BERTH_CUDA_ELEMENT_THREADS, name, berth_cuda_element_args) { vector_form(args); }    \
    KERNEL_OF(BERTH_CUDA_ELEMENT_THREADS, name##_any, berth_cuda_element_args) { group_form(args); }
#define REAL_KERNELS(name, reads)                                                                  \
    KERNELS(name, (real_vectors<1, reads, name##_function>), (real_groups<1, name##_function>))
#define NUMBER_KERNELS(name, reads)                                                                \
    KERNELS(name, (number_vectors<1, reads, name##_function>), (any_groups<1, name##_function>))
#define TEST_KERNELS(name, reads)                                                                  \
    KERNELS(name, (test_vectors<1, reads, name##_function>), (any_groups<1, name##_function>))
#define DEFINE(Y, OP, name, KIND, reads) KIND##_KERNELS(name, reads)
BERTH_CUDA_UNARY_MAP(DEFINE, )

// Vectors of one float type to another; the output's are smaller or larger.
KERNEL_OF(BERTH_CUDA_ELEMENT_THREADS, cast, berth_cuda_element_args) {
    with_real(args.meeting, [&](auto from) {
        with_real(args.out_dtype, [&](auto to) {
            typedef decltype(from) From;
            typedef decltype(to) To;
            if constexpr (!are_same<From, To>)
                vectors<1, BERTH_CUDA_CAST_READS, From, To, cast_function>(args);
        });
    });
}

KERNEL_OF(BERTH_CUDA_ELEMENT_THREADS, cast_any, berth_cuda_element_args) {
    any_groups<1, cast_function>(args);
}
