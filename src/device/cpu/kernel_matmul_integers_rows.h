// SPDX-License-Identifier: Apache-2.0
// Inner loops of MATMUL on integers, compiled once for each instruction set. The including file
// defines VECTOR_BYTES, the width of its registers, and TILE_VECTORS, how many of them stand beside
// each other in a tile of 4 rows.
//
// All is modulo 2^bits, so no sign and no order of additions matters.
#ifndef BERTH_DEVICE_CPU_KERNEL_MATMUL_INTEGERS_ROWS_H
#define BERTH_DEVICE_CPU_KERNEL_MATMUL_INTEGERS_ROWS_H

#include <string.h>

#include "device/cpu/kernel_matmul.h"

#define TILE_INLINE static inline __attribute__((always_inline))

/// Tiles of one type of lane; a constant number of rows melts into the caller.
#define DEFINE_TILE(lane, name)                                                                    \
    typedef lane name##_vector __attribute__((vector_size(VECTOR_BYTES)));                         \
                                                                                                   \
    TILE_INLINE void name##_multiply(                                                              \
        const int rows, const int vectors, const berth_integer_tile* t, int64_t row, int64_t at) { \
        const lane* a = (const lane*)t->a + row * t->k;                                            \
        const lane* b = (const lane*)t->b + at;                                                    \
        lane* out = (lane*)t->sums + row * BERTH_MATMUL_TILE_COLUMNS + at;                         \
        name##_vector sums[4][TILE_VECTORS];                                                       \
        for (int r = 0; r < rows; ++r)                                                             \
            memcpy(sums[r],                                                                        \
                   out + r * BERTH_MATMUL_TILE_COLUMNS,                                            \
                   (size_t)vectors * sizeof(name##_vector));                                       \
        for (int64_t i = 0; i < t->k; ++i) {                                                       \
            name##_vector weights[TILE_VECTORS];                                                   \
            memcpy(weights,                                                                        \
                   b + i * BERTH_MATMUL_TILE_COLUMNS,                                              \
                   (size_t)vectors * sizeof(name##_vector));                                       \
            for (int r = 0; r < rows; ++r) {                                                       \
                const name##_vector factor = a[r * t->k + i] - (name##_vector){0};                 \
                for (int v = 0; v < vectors; ++v)                                                  \
                    sums[r][v] += factor * weights[v];                                             \
            }                                                                                      \
        }                                                                                          \
        for (int r = 0; r < rows; ++r)                                                             \
            memcpy(out + r * BERTH_MATMUL_TILE_COLUMNS,                                            \
                   sums[r],                                                                        \
                   (size_t)vectors * sizeof(name##_vector));                                       \
    }                                                                                              \
                                                                                                   \
    static void name##_tile(const berth_integer_tile* t) {                                         \
        enum {                                                                                     \
            LANES = VECTOR_BYTES / sizeof(lane),                                                   \
            ALL = BERTH_MATMUL_TILE_COLUMNS / LANES,                                               \
            VECTORS = ALL < TILE_VECTORS ? ALL : TILE_VECTORS,                                     \
        };                                                                                         \
        for (int64_t at = 0; at < t->columns; at += VECTORS * LANES) {                             \
            int64_t row = 0;                                                                       \
            for (; row + 4 <= t->rows; row += 4)                                                   \
                name##_multiply(4, VECTORS, t, row, at);                                           \
            for (; row < t->rows; ++row)                                                           \
                name##_multiply(1, VECTORS, t, row, at);                                           \
        }                                                                                          \
    }
DEFINE_TILE(uint16_t, u16)
DEFINE_TILE(uint32_t, u32)
DEFINE_TILE(uint64_t, u64)

/// The sum of products of elements, in `sum`.
#define DEFINE_DOT(type, sum, name)                                                                \
    static uint64_t name##_dot(const void* a, const void* b, int64_t count) {                      \
        const type* x = a;                                                                         \
        const type* y = b;                                                                         \
        sum total = 0;                                                                             \
        for (int64_t i = 0; i < count; ++i)                                                        \
            total = (sum)(total + (sum)((sum)x[i] * (sum)y[i]));                                   \
        return total;                                                                              \
    }
DEFINE_DOT(uint8_t, uint16_t, u8)
DEFINE_DOT(uint32_t, uint32_t, u32)
DEFINE_DOT(uint64_t, uint64_t, u64)

#define INTEGER_ROWS                                                                               \
    { .tile = {u16_tile, u32_tile, u64_tile}, .dot = {u8_dot, u32_dot, u64_dot}, }

#endif // BERTH_DEVICE_CPU_KERNEL_MATMUL_INTEGERS_ROWS_H
