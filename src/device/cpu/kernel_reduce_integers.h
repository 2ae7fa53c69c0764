// SPDX-License-Identifier: Apache-2.0
// Rows of integers and of truth values that reduce; included by the file of each instruction set.
// Plain loops: compilers turn them into vectors.
#ifndef BERTH_DEVICE_CPU_KERNEL_REDUCE_INTEGERS_H
#define BERTH_DEVICE_CPU_KERNEL_REDUCE_INTEGERS_H

#include <stdbool.h>
#include <stdint.h>

/// Products of a row kept side by side, so that each multiplication need not wait for the last.
#define PRODUCT_LANES 8

/// `sum_type` holds the sum of BERTH_CHUNK elements, or wraps as i64 does.
#define INTEGER_SUM_ROWS(type, sum_type)                                                           \
    static int64_t sum_##type(const void* from, int64_t count) {                                   \
        const type* x = from;                                                                      \
        sum_type total = 0;                                                                        \
        for (int64_t i = 0; i < count; ++i)                                                        \
            total += (sum_type)x[i];                                                               \
        return (int64_t)total;                                                                     \
    }                                                                                              \
    static void sum_into_##type(int64_t* restrict acc, const void* restrict from, int64_t count) { \
        const type* x = from;                                                                      \
        for (int64_t i = 0; i < count; ++i)                                                        \
            acc[i] = (int64_t)((uint64_t)acc[i] + (uint64_t)(int64_t)x[i]);                        \
    }                                                                                              \
    static int64_t scan_##type(int64_t* out, const void* from, int64_t count, int64_t carry) {     \
        const type* x = from;                                                                      \
        uint64_t total = (uint64_t)carry;                                                          \
        for (int64_t i = 0; i < count; ++i) {                                                      \
            total += (uint64_t)(int64_t)x[i];                                                      \
            out[i] = (int64_t)total;                                                               \
        }                                                                                          \
        return (int64_t)total;                                                                     \
    }

#define INTEGER_PRODUCT_ROWS(type)                                                                 \
    static int64_t product_##type(const void* from, int64_t count) {                               \
        const type* x = from;                                                                      \
        uint64_t lanes[PRODUCT_LANES] = {1, 1, 1, 1, 1, 1, 1, 1};                                  \
        int64_t i = 0;                                                                             \
        for (; i + PRODUCT_LANES <= count; i += PRODUCT_LANES) {                                   \
            for (int64_t j = 0; j < PRODUCT_LANES; ++j)                                            \
                lanes[j] *= (uint64_t)(int64_t)x[i + j];                                           \
        }                                                                                          \
        for (; i < count; ++i)                                                                     \
            lanes[0] *= (uint64_t)(int64_t)x[i];                                                   \
        for (int64_t j = 1; j < PRODUCT_LANES; ++j)                                                \
            lanes[0] *= lanes[j];                                                                  \
        return (int64_t)lanes[0];                                                                  \
    }                                                                                              \
    static void product_into_##type(                                                               \
        int64_t* restrict acc, const void* restrict from, int64_t count) {                         \
        const type* x = from;                                                                      \
        for (int64_t i = 0; i < count; ++i)                                                        \
            acc[i] = (int64_t)((uint64_t)acc[i] * (uint64_t)(int64_t)x[i]);                        \
    }

/// `exceeds` is < or >: what makes an element replace the one kept.
#define INTEGER_EXTREME_ROWS(name, type, exceeds)                                                  \
    static int64_t name##_##type(const void* from, int64_t count) {                                \
        const type* x = from;                                                                      \
        type kept = x[0];                                                                          \
        for (int64_t i = 0; i < count; ++i)                                                        \
            kept = x[i] exceeds kept ? x[i] : kept;                                                \
        return (int64_t)kept;                                                                      \
    }                                                                                              \
    static void name##_into_##type(                                                                \
        int64_t* restrict acc, const void* restrict from, int64_t count) {                         \
        const type* x = from;                                                                      \
        for (int64_t i = 0; i < count; ++i)                                                        \
            acc[i] = (int64_t)x[i] exceeds acc[i] ? (int64_t)x[i] : acc[i];                        \
    }                                                                                              \
    static void find_##name##_into_##type(int64_t* restrict acc,                                   \
                                          int64_t* restrict where,                                 \
                                          const void* restrict from,                               \
                                          int64_t count,                                           \
                                          int64_t row) {                                           \
        const type* x = from;                                                                      \
        for (int64_t i = 0; i < count; ++i) {                                                      \
            const bool is_taken = (int64_t)x[i] exceeds acc[i];                                    \
            acc[i] = is_taken ? (int64_t)x[i] : acc[i];                                            \
            where[i] = is_taken ? row : where[i];                                                  \
        }                                                                                          \
    }

#define INTEGER_FIND_ROW(type)                                                                     \
    static int64_t find_##type(const void* from, int64_t count, int64_t value) {                   \
        const type* x = from;                                                                      \
        const type wanted = (type)value;                                                           \
        int64_t i = 0;                                                                             \
        for (; i + 64 <= count; i += 64) { /* the result is looked at once for many */             \
            type hits = 0;                                                                         \
            for (int64_t j = i; j < i + 64; ++j)                                                   \
                hits = (type)(hits | (type)(x[j] == wanted));                                      \
            if (hits != 0) break;                                                                  \
        }                                                                                          \
        for (; i < count; ++i)                                                                     \
            if (x[i] == wanted) return i;                                                          \
        return count;                                                                              \
    }

#define INTEGER_ROWS(type, sum_type)                                                               \
    INTEGER_SUM_ROWS(type, sum_type)                                                               \
    INTEGER_PRODUCT_ROWS(type)                                                                     \
    INTEGER_EXTREME_ROWS(largest, type, >)                                                         \
    INTEGER_EXTREME_ROWS(least, type, <)                                                           \
    INTEGER_FIND_ROW(type)

INTEGER_ROWS(int8_t, int32_t)
INTEGER_ROWS(uint8_t, uint32_t)
INTEGER_ROWS(int32_t, int64_t)
INTEGER_ROWS(int64_t, uint64_t)

#define TRUTH_ROWS(type)                                                                           \
    static bool any_##type(const void* from, int64_t count, uint64_t mask) {                       \
        const type* x = from;                                                                      \
        type bits = 0;                                                                             \
        for (int64_t i = 0; i < count; ++i)                                                        \
            bits = (type)(bits | x[i]);                                                            \
        return (bits & mask) != 0;                                                                 \
    }                                                                                              \
    static bool all_##type(const void* from, int64_t count, uint64_t mask) {                       \
        const type* x = from;                                                                      \
        const type bits = (type)mask;                                                              \
        type is_false = 0;                                                                         \
        for (int64_t i = 0; i < count; ++i)                                                        \
            is_false = (type)(is_false | (type)((x[i] & bits) == 0));                              \
        return is_false == 0;                                                                      \
    }                                                                                              \
    static void any_into_##type(                                                                   \
        int64_t* restrict acc, const void* restrict from, int64_t count, uint64_t mask) {          \
        const type* x = from;                                                                      \
        for (int64_t i = 0; i < count; ++i)                                                        \
            acc[i] |= (x[i] & (type)mask) != 0;                                                    \
    }                                                                                              \
    static void all_into_##type(                                                                   \
        int64_t* restrict acc, const void* restrict from, int64_t count, uint64_t mask) {          \
        const type* x = from;                                                                      \
        for (int64_t i = 0; i < count; ++i)                                                        \
            acc[i] &= (x[i] & (type)mask) != 0;                                                    \
    }

TRUTH_ROWS(uint8_t)
TRUTH_ROWS(uint16_t)
TRUTH_ROWS(uint32_t)
TRUTH_ROWS(uint64_t)

#endif // BERTH_DEVICE_CPU_KERNEL_REDUCE_INTEGERS_H
