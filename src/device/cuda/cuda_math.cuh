// SPDX-License-Identifier: Apache-2.0
// Functions of floats, as exact as their results' type is worth.
#ifndef BERTH_DEVICE_CUDA_MATH_CUH
#define BERTH_DEVICE_CUDA_MATH_CUH

#include "device/cuda/cuda_layer.cuh"

/// Where results stay f32 ..
struct exact_math {
    static constexpr bool is_exact = true;
    static MEMBER float exp(float x) { return expf(x); }
    static MEMBER float quotient(float a, float b) { return a / b; }
    static MEMBER float inverse_root(float x) { return 1.0f / sqrtf(x); }
};
/// .. and where they are rounded to a half type, which is so little memory an element that exact
/// functions would take longer than it.
struct quick_math {
    static constexpr bool is_exact = false;
    static MEMBER float exp(float x) { return quick_exp(x); }
    static MEMBER float quotient(float a, float b) { return a * quick_inverse(b); }
    static MEMBER float inverse_root(float x) { return quick_inverse_root(x); }
};

template <class T> struct math_choice { typedef exact_math type; };
template <> struct math_choice<f16> { typedef quick_math type; };
template <> struct math_choice<bf16> { typedef quick_math type; };
/// What elements of type T are computed with.
template <class T> using math_for = typename math_choice<T>::type;

#endif // BERTH_DEVICE_CUDA_MATH_CUH
