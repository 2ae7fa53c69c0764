// SPDX-License-Identifier: Apache-2.0
// Elements of every type that products and attention read, as f32: plain ones one by one or in
// accesses of 16 bytes, quantised ones four neighbours at a time, bit for bit what CAST gives.
// Addresses of quantised blocks are even.
#ifndef BERTH_DEVICE_CUDA_WEIGHTS_CUH
#define BERTH_DEVICE_CUDA_WEIGHTS_CUH

#include "device/cuda/cuda_access.cuh"

/// Rounded after the product and after the sum, as the host does.
DEVICE float product_then_sum(float a, float b, float c) { return rounded_product(a, b) + c; }

DEVICE const unsigned char* bytes_at(const void* base, int64_t bytes) {
    return (const unsigned char*)base + bytes;
}

/// `N` elements side by side, aligned to 16 bytes or to all of them, whichever is less.
template <class T, int N> DEVICE void load_vector(const T* from, float (&to)[N]) {
    const auto some = load_pack<T, N>(from);
    UNROLL
    for (int i = 0; i < N; ++i)
        to[i] = to_f32(some.get(i));
}

/// The first `count` of `N` elements `step` apart, the rest 0; `is_vector`: step is 1, and whole
/// vectors are aligned.
template <class T, int N>
DEVICE void load_some(const T* from, int64_t step, bool is_vector, int64_t count, float (&to)[N]) {
    if (is_vector && count >= N) {
        load_vector(from, to);
        return;
    }
    UNROLL
    for (int i = 0; i < N; ++i)
        to[i] = i < count ? to_f32(from[i * step]) : 0.0f;
}

/// The same of a float type that is known when the kernel runs, from element `at` on.
template <int N>
DEVICE void load_floats(int32_t dtype,
                        const void* base,
                        int64_t at,
                        int64_t step,
                        bool is_vector,
                        int64_t count,
                        float (&to)[N]) {
    if (dtype == BERTH_F32)
        load_some((const float*)base + at, step, is_vector, count, to);
    else if (dtype == BERTH_F16)
        load_some((const f16*)base + at, step, is_vector, count, to);
    else
        load_some((const bf16*)base + at, step, is_vector, count, to);
}

DEVICE void store_float(int32_t dtype, void* base, int64_t at, float value) {
    if (dtype == BERTH_F32)
        ((float*)base)[at] = value;
    else if (dtype == BERTH_F16)
        ((f16*)base)[at] = from_f32<f16>(value);
    else
        ((bf16*)base)[at] = from_f32<bf16>(value);
}

// --- Quantised blocks ---------------------------------------------------------------------------

DEVICE uint32_t u16_at(const unsigned char* at) { return *(const uint16_t*)(const void*)at; }
DEVICE uint32_t u32_at(const unsigned char* at) { return u16_at(at) | u16_at(at + 2) << 16; }
DEVICE float half_at(const unsigned char* at) { return f16_to_f32((uint16_t)u16_at(at)); }
DEVICE uint32_t byte_of(uint32_t word, int i) { return word >> (8 * i) & 255u; }
DEVICE int32_t signed_byte(uint32_t byte) { return (int32_t)(byte ^ 128u) - 128; }

/// A row's values: `quad` reads those from k on, a multiple of 4. BLOCK values take BYTES bytes.
struct q4_0 {
    static constexpr int BLOCK = 32, BYTES = 18;
    static MEMBER void quad(const unsigned char* block, int32_t j, float* to) {
        const float scale = half_at(block);
        const uint32_t low = u32_at(block + 2 + j % 16) >> (j / 16 * 4);
        UNROLL
        for (int i = 0; i < 4; ++i)
            to[i] = (float)((int32_t)(byte_of(low, i) & 15u) - 8) * scale;
    }
};

struct q4_1 {
    static constexpr int BLOCK = 32, BYTES = 20;
    static MEMBER void quad(const unsigned char* block, int32_t j, float* to) {
        const float scale = half_at(block), minimum = half_at(block + 2);
        const uint32_t low = u32_at(block + 4 + j % 16) >> (j / 16 * 4);
        UNROLL
        for (int i = 0; i < 4; ++i)
            to[i] = product_then_sum((float)(byte_of(low, i) & 15u), scale, minimum);
    }
};

struct q5_0 {
    static constexpr int BLOCK = 32, BYTES = 22;
    static MEMBER void quad(const unsigned char* block, int32_t j, float* to) {
        const float scale = half_at(block);
        const uint32_t top = u32_at(block + 2) >> j;
        const uint32_t low = u32_at(block + 6 + j % 16) >> (j / 16 * 4);
        UNROLL
        for (int i = 0; i < 4; ++i) {
            const uint32_t value = (byte_of(low, i) & 15u) | (top >> i & 1u) << 4;
            to[i] = (float)((int32_t)value - 16) * scale;
        }
    }
};

struct q5_1 {
    static constexpr int BLOCK = 32, BYTES = 24;
    static MEMBER void quad(const unsigned char* block, int32_t j, float* to) {
        const float scale = half_at(block), minimum = half_at(block + 2);
        const uint32_t top = u32_at(block + 4) >> j;
        const uint32_t low = u32_at(block + 8 + j % 16) >> (j / 16 * 4);
        UNROLL
        for (int i = 0; i < 4; ++i) {
            const uint32_t value = (byte_of(low, i) & 15u) | (top >> i & 1u) << 4;
            to[i] = product_then_sum((float)value, scale, minimum);
        }
    }
};

struct q8_0 {
    static constexpr int BLOCK = 32, BYTES = 34;
    static MEMBER void quad(const unsigned char* block, int32_t j, float* to) {
        const float scale = half_at(block);
        const uint32_t four = u32_at(block + 2 + j);
        UNROLL
        for (int i = 0; i < 4; ++i)
            to[i] = (float)signed_byte(byte_of(four, i)) * scale;
    }
};

/// The scale and the minimum of sub-block `sub` of a block of q4_k or q5_k.
DEVICE void k_scales(const unsigned char* block, int32_t sub, float& scale, float& minimum) {
    const unsigned char* of = block + 4;
    uint32_t s, m;
    if (sub < 4) {
        s = of[sub] & 63u;
        m = of[sub + 4] & 63u;
    } else {
        s = (of[sub + 4] & 15u) | (uint32_t)(of[sub - 4] >> 6) << 4;
        m = (uint32_t)(of[sub + 4] >> 4) | (uint32_t)(of[sub] >> 6) << 4;
    }
    scale = (float)s * half_at(block);
    minimum = (float)m * half_at(block + 2);
}

struct q4_k {
    static constexpr int BLOCK = 256, BYTES = 144;
    static MEMBER void quad(const unsigned char* block, int32_t j, float* to) {
        const int32_t sub = j / 32;
        float scale, minimum;
        k_scales(block, sub, scale, minimum);
        const uint32_t low = u32_at(block + 16 + sub / 2 * 32 + j % 32) >> (sub % 2 * 4);
        UNROLL
        for (int i = 0; i < 4; ++i)
            to[i] = product_then_sum(scale, (float)(byte_of(low, i) & 15u), -minimum);
    }
};

struct q5_k {
    static constexpr int BLOCK = 256, BYTES = 176;
    static MEMBER void quad(const unsigned char* block, int32_t j, float* to) {
        const int32_t sub = j / 32;
        float scale, minimum;
        k_scales(block, sub, scale, minimum);
        const uint32_t high = u32_at(block + 16 + j % 32) >> sub;
        const uint32_t low = u32_at(block + 48 + sub / 2 * 32 + j % 32) >> (sub % 2 * 4);
        UNROLL
        for (int i = 0; i < 4; ++i) {
            const uint32_t value = (byte_of(low, i) & 15u) | (byte_of(high, i) & 1u) << 4;
            to[i] = product_then_sum(scale, (float)value, -minimum);
        }
    }
};

struct q6_k {
    static constexpr int BLOCK = 256, BYTES = 210;
    static MEMBER void quad(const unsigned char* block, int32_t j, float* to) {
        const int32_t half = j / 128, part = j % 128 / 32, at = j % 32;
        const float scale = half_at(block + 208) * (float)signed_byte(block[192 + j / 16]);
        const uint32_t low = u32_at(block + 64 * half + part % 2 * 32 + at) >> (part / 2 * 4);
        const uint32_t high = u32_at(block + 128 + 32 * half + at) >> (2 * part);
        UNROLL
        for (int i = 0; i < 4; ++i) {
            const uint32_t value = (byte_of(low, i) & 15u) | (byte_of(high, i) & 3u) << 4;
            to[i] = scale * (float)((int32_t)value - 32);
        }
    }
};

/// run(a value of the struct above) of a quantised type.
template <class Run> DEVICE void with_blocks(uint32_t dtype, Run run) {
    switch (dtype) {
    case BERTH_Q4_0:
        run(q4_0());
        break;
    case BERTH_Q4_1:
        run(q4_1());
        break;
    case BERTH_Q5_0:
        run(q5_0());
        break;
    case BERTH_Q5_1:
        run(q5_1());
        break;
    case BERTH_Q8_0:
        run(q8_0());
        break;
    case BERTH_Q4_K:
        run(q4_k());
        break;
    case BERTH_Q5_K:
        run(q5_k());
        break;
    default:
        run(q6_k());
        break;
    }
}

/// Values of a row of quantised blocks from k on, a multiple of 4 as N is; behind `depth`, which is
/// whole blocks, 0.
template <class Q, int N>
DEVICE void load_quantised(const unsigned char* row, int64_t k, int64_t depth, float (&to)[N]) {
    UNROLL
    for (int i = 0; i < N; i += 4) {
        if (k + i < depth) {
            const int64_t block = (k + i) / Q::BLOCK;
            Q::quad(row + block * Q::BYTES, (int32_t)(k + i - block * Q::BLOCK), to + i);
        } else {
            to[i] = to[i + 1] = to[i + 2] = to[i + 3] = 0.0f;
        }
    }
}

#endif // BERTH_DEVICE_CUDA_WEIGHTS_CUH
