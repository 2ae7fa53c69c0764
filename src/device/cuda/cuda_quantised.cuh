// SPDX-License-Identifier: Apache-2.0
// Values of quantised blocks as f32, with the CPU's bits: one rounding an operation.
#ifndef BERTH_DEVICE_CUDA_QUANTISED_CUH
#define BERTH_DEVICE_CUDA_QUANTISED_CUH

#include "device/cuda/cuda_layer.cuh"

namespace {

/// Values made at a time; they share scale and minimum.
constexpr int GROUP = 8;

DEVICE float load_half(const unsigned char* at) {
    return f16_to_f32((uint16_t)(at[0] | (uint32_t)at[1] << 8));
}

/// Four bits of value `value` of 32 in 16 bytes: first the lower halves.
DEVICE int nibble_of(const unsigned char* low, int value) {
    return value < 16 ? low[value] & 15 : low[value - 16] >> 4;
}

/// The same with bit `value` of the four bytes at `high` above.
DEVICE int five_bits_of(const unsigned char* low, const unsigned char* high, int value) {
    return nibble_of(low, value) | (high[value / 8] >> (value % 8) & 1) << 4;
}

// Each makes values first .. first + GROUP - 1 of a block.

DEVICE void q4_0_group(const unsigned char* block, int first, float* out) {
    const float scale = load_half(block);
    UNROLL
    for (int n = 0; n < GROUP; ++n)
        out[n] = (float)(nibble_of(block + 2, first + n) - 8) * scale;
}

DEVICE void q4_1_group(const unsigned char* block, int first, float* out) {
    const float scale = load_half(block), minimum = load_half(block + 2);
    UNROLL
    for (int n = 0; n < GROUP; ++n)
        out[n] = rounded_product((float)nibble_of(block + 4, first + n), scale) + minimum;
}

DEVICE void q5_0_group(const unsigned char* block, int first, float* out) {
    const float scale = load_half(block);
    UNROLL
    for (int n = 0; n < GROUP; ++n)
        out[n] = (float)(five_bits_of(block + 6, block + 2, first + n) - 16) * scale;
}

DEVICE void q5_1_group(const unsigned char* block, int first, float* out) {
    const float scale = load_half(block), minimum = load_half(block + 2);
    UNROLL
    for (int n = 0; n < GROUP; ++n) {
        const int value = five_bits_of(block + 8, block + 4, first + n);
        out[n] = rounded_product((float)value, scale) + minimum;
    }
}

DEVICE void q8_0_group(const unsigned char* block, int first, float* out) {
    const float scale = load_half(block);
    UNROLL
    for (int n = 0; n < GROUP; ++n)
        out[n] = (float)(int8_t)block[2 + first + n] * scale;
}

/// Scale and minimum of the 32 values around `first`, of 6 bits each in 12 bytes.
DEVICE void k_scales(const unsigned char* block, int first, float* out_scale, float* out_minimum) {
    const unsigned char* packed = block + 4;
    const int j = first / 32;
    int scale, minimum;
    if (j < 4) {
        scale = packed[j] & 63;
        minimum = packed[j + 4] & 63;
    } else {
        scale = (packed[j + 4] & 15) | packed[j - 4] >> 6 << 4;
        minimum = packed[j + 4] >> 4 | packed[j] >> 6 << 4;
    }
    *out_scale = (float)scale * load_half(block);
    *out_minimum = (float)minimum * load_half(block + 2);
}

DEVICE void q4_k_group(const unsigned char* block, int first, float* out) {
    float scale, minimum;
    k_scales(block, first, &scale, &minimum);
    const unsigned char* low = block + 16 + 32 * (first / 64) + first % 32;
    const int shift = first / 32 % 2 * 4;
    UNROLL
    for (int n = 0; n < GROUP; ++n)
        out[n] = rounded_product(scale, (float)(low[n] >> shift & 15)) - minimum;
}

DEVICE void q5_k_group(const unsigned char* block, int first, float* out) {
    float scale, minimum;
    k_scales(block, first, &scale, &minimum);
    const unsigned char* low = block + 48 + 32 * (first / 64) + first % 32;
    const unsigned char* high = block + 16 + first % 32;
    const int shift = first / 32 % 2 * 4, bit = first / 32;
    UNROLL
    for (int n = 0; n < GROUP; ++n) {
        const int value = (low[n] >> shift & 15) | (high[n] >> bit & 1) << 4;
        out[n] = rounded_product(scale, (float)value) - minimum;
    }
}

DEVICE void q6_k_group(const unsigned char* block, int first, float* out) {
    const int half = first / 128, quarter = first / 32 % 4;
    const unsigned char* low = block + 64 * half + 32 * (quarter % 2) + first % 32;
    const unsigned char* high = block + 128 + 32 * half + first % 32;
    const int shift = quarter / 2 * 4;
    const float scale = load_half(block + 208) * (float)(int8_t)block[192 + first / 16];
    UNROLL
    for (int n = 0; n < GROUP; ++n) {
        const int value = (low[n] >> shift & 15) | (high[n] >> 2 * quarter & 3) << 4;
        out[n] = scale * (float)(value - 32);
    }
}

/// Values first .. first + GROUP - 1 of a block of a quantised type; `first` is a multiple of
/// GROUP.
DEVICE void dequantise_group(berth_dtype dtype, const unsigned char* block, int first, float* out) {
    switch (dtype) {
    case BERTH_Q4_0:
        return q4_0_group(block, first, out);
    case BERTH_Q4_1:
        return q4_1_group(block, first, out);
    case BERTH_Q5_0:
        return q5_0_group(block, first, out);
    case BERTH_Q5_1:
        return q5_1_group(block, first, out);
    case BERTH_Q8_0:
        return q8_0_group(block, first, out);
    case BERTH_Q4_K:
        return q4_k_group(block, first, out);
    case BERTH_Q5_K:
        return q5_k_group(block, first, out);
    default:
        return q6_k_group(block, first, out);
    }
}

} // namespace

#endif // BERTH_DEVICE_CUDA_QUANTISED_CUH
