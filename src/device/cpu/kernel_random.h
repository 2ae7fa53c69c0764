// SPDX-License-Identifier: Apache-2.0
// The counter-based generator of random numbers: element i of a tensor depends on its seed and i
// alone.
#ifndef BERTH_DEVICE_CPU_KERNEL_RANDOM_H
#define BERTH_DEVICE_CPU_KERNEL_RANDOM_H

#include <stdint.h>

/// 2^64 over the golden ratio: SplitMix64's step (Steele, Lea, Flood 2014).
#define BERTH_RANDOM_STEP UINT64_C(0x9e3779b97f4a7c15)

/// Spreads every bit over the word: SplitMix64's multiply-xorshift finaliser.
static inline uint64_t berth_random_mix(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/// The state that a seed begins with, mixed so that neighbouring seeds do not give shifted
/// sequences.
static inline uint64_t berth_random_key(uint64_t seed) {
    return berth_random_mix(seed + BERTH_RANDOM_STEP);
}

/// 64 random bits for element `index`: SplitMix64's output number index + 1.
static inline uint64_t berth_random_bits(uint64_t key, uint64_t index) {
    return berth_random_mix(key + (index + 1) * BERTH_RANDOM_STEP);
}

#endif // BERTH_DEVICE_CPU_KERNEL_RANDOM_H
