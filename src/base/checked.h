// SPDX-License-Identifier: Apache-2.0
// Arithmetic on sizes that says when it does not fit.
#ifndef BERTH_BASE_CHECKED_H
#define BERTH_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// Each returns false, leaving `*out` undefined, if the result does not fit.
static inline bool berth_add_u64(uint64_t a, uint64_t b, uint64_t* out) {
    return !__builtin_add_overflow(a, b, out);
}
static inline bool berth_mul_u64(uint64_t a, uint64_t b, uint64_t* out) {
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool berth_add_i64(int64_t a, int64_t b, int64_t* out) {
    return !__builtin_add_overflow(a, b, out);
}
static inline bool berth_sub_i64(int64_t a, int64_t b, int64_t* out) {
    return !__builtin_sub_overflow(a, b, out);
}
static inline bool berth_mul_i64(int64_t a, int64_t b, int64_t* out) {
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool berth_mul_size(size_t a, size_t b, size_t* out) {
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool berth_add_size(size_t a, size_t b, size_t* out) {
    return !__builtin_add_overflow(a, b, out);
}

/// True for 1, 2, 4, ...
static inline bool berth_is_power_of_two(uint64_t x) { return x != 0 && (x & (x - 1)) == 0; }

/// `x` rounded up to a multiple of `unit`, a power of two; the caller knows that it fits.
static inline uint64_t berth_round_up(uint64_t x, uint64_t unit) {
    return (x + unit - 1) & ~(unit - 1);
}
static inline uint64_t berth_round_down(uint64_t x, uint64_t unit) { return x & ~(unit - 1); }

/// As berth_round_up, false if it does not fit.
static inline bool berth_try_round_up(uint64_t x, uint64_t unit, uint64_t* out) {
    if (!berth_add_u64(x, unit - 1, out)) return false;
    *out &= ~(unit - 1);
    return true;
}

#endif // BERTH_BASE_CHECKED_H
