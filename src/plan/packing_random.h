// SPDX-License-Identifier: Apache-2.0
// The searches' random choices: the same everywhere for one seed.
#ifndef BERTH_PLAN_PACKING_RANDOM_H
#define BERTH_PLAN_PACKING_RANDOM_H

#include <stdint.h>

/// Source: SplitMix64, Steele, Lea and Flood 2014, "Fast splittable pseudorandom number
/// generators".
static inline uint64_t berth_packing_random(uint64_t* state) {
    uint64_t x = *state += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

/// A number in [0, bound), bound > 0.
static inline uint64_t berth_packing_random_below(uint64_t* state, uint64_t bound) {
    return berth_packing_random(state) % bound;
}

#endif // BERTH_PLAN_PACKING_RANDOM_H
