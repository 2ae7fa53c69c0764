// SPDX-License-Identifier: Apache-2.0
// Sums and products that stay at the nearest number there is where they do not fit, and divisors.
#ifndef BERTH_BASE_NUMBERS_H
#define BERTH_BASE_NUMBERS_H

#include "base/checked.h"

static inline uint64_t berth_add_saturated_u64(uint64_t a, uint64_t b) {
    uint64_t sum;
    return berth_add_u64(a, b, &sum) ? sum : UINT64_MAX;
}
static inline uint64_t berth_mul_saturated_u64(uint64_t a, uint64_t b) {
    uint64_t product;
    return berth_mul_u64(a, b, &product) ? product : UINT64_MAX;
}
static inline int64_t berth_add_saturated_i64(int64_t a, int64_t b) {
    int64_t sum;
    if (berth_add_i64(a, b, &sum)) return sum;
    return a > 0 ? INT64_MAX : INT64_MIN;
}
static inline int64_t berth_mul_saturated_i64(int64_t a, int64_t b) {
    int64_t product;
    if (berth_mul_i64(a, b, &product)) return product;
    return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
}

/// The largest number that divides both; of 0 and another one the other.
static inline uint64_t berth_common_divisor(uint64_t a, uint64_t b) {
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

#endif // BERTH_BASE_NUMBERS_H
