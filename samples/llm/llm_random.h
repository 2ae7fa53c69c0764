// SPDX-License-Identifier: Apache-2.0
// The sample's random numbers: SplitMix64, one word of state, the same everywhere.
#ifndef BERTH_SAMPLES_LLM_RANDOM_H
#define BERTH_SAMPLES_LLM_RANDOM_H

#include <stdint.h>

/// Returns the next 64 random bits and advances the state; every start value is good.
/// Source: Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators".
static inline uint64_t llm_random_next(uint64_t* state) {
    *state += 0x9e3779b97f4a7c15u;
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

#endif // BERTH_SAMPLES_LLM_RANDOM_H
