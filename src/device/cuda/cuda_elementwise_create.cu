// SPDX-License-Identifier: Apache-2.0
// Tensors made from nothing: FILL ARANGE RAND RANDN RANDINT, with the CPU's numbers; and quantised
// blocks made floats.
#include "device/cuda/cuda_elements.cuh"
#include "device/cuda/cuda_weights.cuh"

namespace {

typedef berth_cuda_create_args create_args;

// --- Numbers ------------------------------------------------------------------------------------

/// SplitMix64's step and finaliser, as kernel_random.h has them for the CPU.
constexpr uint64_t RANDOM_STEP = UINT64_C(0x9e3779b97f4a7c15);

DEVICE uint64_t random_mix(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/// 64 random bits for an element.
DEVICE uint64_t random_bits(const create_args& args, int64_t index) {
    return random_mix(args.key + ((uint64_t)index + 1) * RANDOM_STEP);
}

/// 24 bits of the word in [low, high). What rounding takes to `high` or beyond is the number below.
DEVICE float random_uniform(const create_args& args, int64_t index) {
    const double unit = (double)(random_bits(args, index) >> 40) * 0x1p-24;
    const float value = (float)(args.first + rounded_product(unit, args.second - args.first));
    const float narrow = value < args.limit ? value : args.below;
    return narrow < args.most ? narrow : args.most;
}

/// Box and Muller's method, from 32 bits each for radius and angle; one of its two results.
DEVICE float random_normal(const create_args& args, int64_t index) {
    const uint64_t bits = random_bits(args, index);
    const double unit = ((double)(bits >> 32) + 1.0) * 0x1p-32; // (0, 1]
    const double turn = (double)(bits & 0xffffffffu) * 0x1p-32;
    const double radius = sqrt(-2.0 * log(unit));
    const double scaled = rounded_product(args.second, radius);
    return (float)(args.first + rounded_product(scaled, cos(turn * 6.283185307179586)));
}

/// One of 0 .. span - 1, by Lemire's method (2019): the high half of bits * span, but for the few
/// bits of which one result would have more than another; they are drawn anew.
DEVICE uint64_t random_below(uint64_t bits, uint64_t span) {
    if (bits * span < span) {
        const uint64_t excess = (0 - span) % span; // 2^64 mod span
        while (bits * span < excess)
            bits = random_mix(bits + RANDOM_STEP);
    }
    return high_product(bits, span);
}

DEVICE double step_value(const create_args& args, int64_t index) {
    return args.first + rounded_product((double)index, args.second);
}

/// Toward zero, within the integer type; NaN is 0.
DEVICE int64_t whole_of_double(berth_dtype dtype, double x) {
    if (x != x) return 0;
    const int64_t whole = x >= 0x1p63 ? INT64_MAX : x <= -0x1p63 ? INT64_MIN : (int64_t)x;
    return whole_within(dtype, whole);
}

// --- Quantised blocks ---------------------------------------------------------------------------

/// Values that a thread makes at a time.
constexpr int EACH = 8;

/// Neighbours in a block are neighbours in a warp.
template <class Blocks> DEVICE void dequantise_blocks(const berth_cuda_dequantise_args& args) {
    constexpr int GROUPS = Blocks::BLOCK / EACH;
    const int64_t count = args.walk.count * GROUPS;
    for (int64_t i = grid_first(); i < count; i += grid_step()) {
        const int64_t at = walk_to<1>(args.walk, i / GROUPS).of[0];
        const unsigned char* block = args.from + at * Blocks::BYTES;
        const int32_t first = (int32_t)(i % GROUPS) * EACH;
        float values[EACH];
        Blocks::quad(block, first, values);
        Blocks::quad(block, first + 4, values + 4);
        with_real(args.out_dtype, [&](auto type) {
            typedef decltype(type) T;
            T made[EACH];
            UNROLL
            for (int n = 0; n < EACH; ++n)
                made[n] = from_f32<T>(values[n]);
            store_dense((T*)args.out + i * EACH, made);
        });
    }
}

} // namespace

// --- Kernels ------------------------------------------------------------------------------------

KERNEL_OF(BERTH_CUDA_ELEMENT_THREADS, fill, berth_cuda_fill_args) {
    typedef pack<uint64_t, 2> wide;
    const uintptr_t low_bits = (uintptr_t)args.out;
    if (low_bits % sizeof(wide) != 0) {
        with_item(args.item_bytes, [&](auto item) {
            typedef decltype(item) Item;
            const int64_t count = (int64_t)(args.bytes / sizeof(Item));
            for (int64_t i = grid_first(); i < count; i += grid_step())
                ((Item*)args.out)[i] = (Item)args.pattern;
        });
        return;
    }
    const wide pattern = repeat_pack<uint64_t, 2>(args.pattern);
    const int64_t count = (int64_t)(args.bytes / sizeof pattern);
    for (int64_t i = grid_first(); i < count; i += grid_step())
        store_pack((uint64_t*)args.out + 2 * i, pattern);
    const uint64_t tail = (uint64_t)count * sizeof pattern + (uint64_t)grid_first();
    if (tail < args.bytes) ((uint8_t*)args.out)[tail] = (uint8_t)(args.pattern >> (tail % 8 * 8));
}

KERNEL_OF(BERTH_CUDA_ELEMENT_THREADS, arange, berth_cuda_create_args) {
    const berth_dtype dtype = (berth_dtype)args.dtype;
    for (int64_t i = grid_first(); i < args.count; i += grid_step()) {
        const double value = step_value(args, i);
        if (is_real_type(dtype))
            store(args.out, dtype, i, (float)value);
        else
            store(args.out, dtype, i, whole_of_double(dtype, value));
    }
}

KERNEL_OF(BERTH_CUDA_ELEMENT_THREADS, rand, berth_cuda_create_args) {
    for (int64_t i = grid_first(); i < args.count; i += grid_step())
        store(args.out, (berth_dtype)args.dtype, i, random_uniform(args, i));
}

KERNEL_OF(BERTH_CUDA_ELEMENT_THREADS, randn, berth_cuda_create_args) {
    for (int64_t i = grid_first(); i < args.count; i += grid_step())
        store(args.out, (berth_dtype)args.dtype, i, random_normal(args, i));
}

KERNEL_OF(BERTH_CUDA_ELEMENT_THREADS, randint, berth_cuda_create_args) {
    for (int64_t i = grid_first(); i < args.count; i += grid_step()) {
        const uint64_t above = random_below(random_bits(args, i), args.span);
        store(args.out, (berth_dtype)args.dtype, i, (int64_t)(args.low + above));
    }
}

KERNEL_OF(BERTH_CUDA_ELEMENT_THREADS, dequantise, berth_cuda_dequantise_args) {
    with_blocks(args.dtype, [&](auto blocks) { dequantise_blocks<decltype(blocks)>(args); });
}
