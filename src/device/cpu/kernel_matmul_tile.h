// SPDX-License-Identifier: Apache-2.0
// Body of the MATMUL kernel's register tiles, compiled once for each instruction set. The including
// file defines MAX_VECTORS: how many times 16 columns fit the registers beside 6 rows.
#ifndef BERTH_DEVICE_CPU_KERNEL_MATMUL_TILE_H
#define BERTH_DEVICE_CPU_KERNEL_MATMUL_TILE_H

#include "device/cpu/kernel_matmul.h"
#include "device/cpu/kernel_matrix_lanes.h"

#define MAX_ROWS BERTH_MATMUL_TILE_ROWS

/// `rows` <= MAX_ROWS and `vectors` <= MAX_VECTORS are constants; from row `row` and column
/// `column` of the tile on.
LANES_INLINE void multiply(
    const int rows, const int vectors, const berth_matmul_tile* t, int64_t row, int64_t column) {
    const float* a = t->a + row * t->a_row;
    const float* b = t->b + column;
    float* out = t->sums + row * t->sums_stride + column;
    lanes sums[MAX_ROWS][MAX_VECTORS];
    LANES_UNROLL for (int r = 0; r < rows; r++) {
        LANES_UNROLL for (int v = 0; v < vectors; v++) {
            sums[r][v] =
                t->is_first ? lanes_zero() : lanes_load(out + r * t->sums_stride + v * LANES);
        }
    }
    for (int64_t i = 0; i < t->k; i++) {
        lanes weights[MAX_VECTORS];
        LANES_UNROLL for (int v = 0; v < vectors; v++) weights[v] = lanes_load(b + v * LANES);
        LANES_UNROLL for (int r = 0; r < rows; r++) {
            const lanes factor = lanes_set(a[r * t->a_row]);
            LANES_UNROLL for (int v = 0; v < vectors; v++) {
                sums[r][v] = lanes_fma(factor, weights[v], sums[r][v]);
            }
        }
        a += t->a_step;
        b += t->b_row;
    }
    LANES_UNROLL for (int r = 0; r < rows; r++) {
        LANES_UNROLL for (int v = 0; v < vectors; v++) {
            lanes_store(out + r * t->sums_stride + v * LANES, sums[r][v]);
        }
    }
}

#define DEFINE_MULTIPLY(rows)                                                                      \
    static void multiply_##rows(const berth_matmul_tile* t, int64_t row) {                         \
        int64_t column = 0;                                                                        \
        for (; column + (MAX_VECTORS - 1) * LANES < t->columns; column += MAX_VECTORS * LANES) {   \
            multiply(rows, MAX_VECTORS, t, row, column);                                           \
        }                                                                                          \
        for (; column < t->columns; column += LANES)                                               \
            multiply(rows, 1, t, row, column);                                                     \
    }
DEFINE_MULTIPLY(6)
DEFINE_MULTIPLY(4)
DEFINE_MULTIPLY(2)
DEFINE_MULTIPLY(1)

static void multiply_tile(const berth_matmul_tile* t) {
    int64_t row = 0;
    for (; row + 6 <= t->rows; row += 6)
        multiply_6(t, row);
    if (row + 4 <= t->rows) {
        multiply_4(t, row);
        row += 4;
    }
    if (row + 2 <= t->rows) {
        multiply_2(t, row);
        row += 2;
    }
    if (row < t->rows) multiply_1(t, row);
}

#endif // BERTH_DEVICE_CPU_KERNEL_MATMUL_TILE_H
