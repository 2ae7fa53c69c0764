// SPDX-License-Identifier: Apache-2.0
// Seeded random numbers for tests: the same on every machine.
#ifndef BERTH_TEST_RANDOM_H
#define BERTH_TEST_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

typedef struct test_random {
    uint64_t state;
} test_random;

static inline test_random test_random_make(uint64_t seed) { return (test_random){seed}; }

/// 64 random bits (the splitmix64 sequence).
static inline uint64_t test_random_u64(test_random* random) {
    uint64_t x = random->state += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/// A number in [0, bound), bound > 0.
static inline uint64_t test_random_below(test_random* random, uint64_t bound) {
    return test_random_u64(random) % bound;
}

/// A number in [low, high].
static inline int64_t test_random_between(test_random* random, int64_t low, int64_t high) {
    return low + (int64_t)test_random_below(random, (uint64_t)(high - low) + 1);
}

/// True in one of `n` cases.
static inline bool test_random_one_in(test_random* random, uint64_t n) {
    return test_random_below(random, n) == 0;
}

/// A number in [0, 1).
static inline double test_random_unit(test_random* random) {
    return (double)(test_random_u64(random) >> 11) * 0x1p-53;
}

#endif // BERTH_TEST_RANDOM_H
