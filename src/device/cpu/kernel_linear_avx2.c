// SPDX-License-Identifier: Apache-2.0
// The LINEAR kernel's work for AVX2.
#define LANES_AVX2
#include "device/cpu/kernel_linear_rows.h"

#define ROWS 2 ///< rows of x in registers: 2 x 6 accumulators of 16 registers
#define EIGHT 8

/// Half of the lanes, so that every accumulator is one register: the halves meet only in the first
/// addition of lanes_sum.
LANES_INLINE void half_tile(const int rows,
                            const float* x,
                            int64_t x_stride,
                            const float* panel,
                            int64_t k,
                            __m256 sums[ROWS][PANEL_ROWS]) {
    LANES_UNROLL for (int r = 0; r < rows; r++) {
        LANES_UNROLL for (int c = 0; c < PANEL_ROWS; c++) sums[r][c] = _mm256_setzero_ps();
    }
    for (int64_t i = 0; i < k; i += LANES) {
        __m256 a[ROWS];
        LANES_UNROLL for (int r = 0; r < rows; r++) a[r] = _mm256_loadu_ps(x + r * x_stride + i);
        LANES_UNROLL for (int c = 0; c < PANEL_ROWS; c++) {
            const __m256 b = _mm256_loadu_ps(panel + i * PANEL_ROWS + c * LANES);
            LANES_UNROLL for (int r = 0; r < rows; r++) {
                sums[r][c] = _mm256_fmadd_ps(a[r], b, sums[r][c]);
            }
        }
    }
}

LANES_INLINE void tile_rows(const int rows,
                            const float* x,
                            int64_t x_stride,
                            const float* panel,
                            int64_t k,
                            const float* bias,
                            float* y,
                            int64_t y_stride,
                            int64_t columns) {
    __m256 low[ROWS][PANEL_ROWS];
    __m256 high[ROWS][PANEL_ROWS];
    half_tile(rows, x, x_stride, panel, k, low);
    half_tile(rows, x + EIGHT, x_stride, panel + EIGHT, k, high);
    for (int r = 0; r < rows; r++) {
        for (int64_t c = 0; c < columns; c++) {
            const float total = lanes_sum((lanes){low[r][c], high[r][c]});
            y[r * y_stride + c] = bias == NULL ? total : total + bias[c];
        }
    }
}

static void tile(const float* x,
                 int64_t x_stride,
                 int64_t rows,
                 const float* panel,
                 int64_t k,
                 const float* bias,
                 float* y,
                 int64_t y_stride,
                 int64_t columns) {
    int64_t r = 0;
    for (; r + ROWS <= rows; r += ROWS) {
        tile_rows(
            ROWS, x + r * x_stride, x_stride, panel, k, bias, y + r * y_stride, y_stride, columns);
    }
    if (r < rows) {
        tile_rows(
            1, x + r * x_stride, x_stride, panel, k, bias, y + r * y_stride, y_stride, columns);
    }
}

DEFINE_LINEAR_ISA(berth_linear_isa_avx2, tile);
