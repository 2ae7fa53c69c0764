// SPDX-License-Identifier: Apache-2.0
// The LINEAR kernel's work for AVX2.
#define LANES_AVX2
#include "device/cpu/kernel_linear_rows.h"

#define ROWS 2 ///< rows of x in registers: 2 x 6 accumulators of 16 registers
#define EIGHT 8

/// Half of the lanes of `rows` rows from `row` on, so that every accumulator is one register: the
/// halves meet only in the first addition of lanes_sum. `at` is 0 or EIGHT.
LANES_INLINE void half_tile(const int rows,
                            const berth_linear_tile* t,
                            int64_t row,
                            int64_t at,
                            __m256 sums[ROWS][PANEL_ROWS]) {
    const float* x = t->x + row * t->x_stride + at;
    const float* panel = t->panel + at;
    const float* kept = t->sums + row * PANEL_ROWS * LANES + at;
    LANES_UNROLL for (int r = 0; r < rows; r++) {
        LANES_UNROLL for (int c = 0; c < PANEL_ROWS; c++) {
            sums[r][c] = t->is_first ? _mm256_setzero_ps()
                                     : _mm256_loadu_ps(kept + (r * PANEL_ROWS + c) * LANES);
        }
    }
    for (int64_t i = 0; i < t->k; i += LANES) {
        __m256 a[ROWS];
        LANES_UNROLL for (int r = 0; r < rows; r++) a[r] = _mm256_loadu_ps(x + r * t->x_stride + i);
        LANES_UNROLL for (int c = 0; c < PANEL_ROWS; c++) {
            const __m256 b = _mm256_loadu_ps(panel + i * PANEL_ROWS + c * LANES);
            LANES_UNROLL for (int r = 0; r < rows; r++) {
                sums[r][c] = _mm256_fmadd_ps(a[r], b, sums[r][c]);
            }
        }
    }
}

LANES_INLINE void tile_rows(const int rows, const berth_linear_tile* t, int64_t row) {
    __m256 low[ROWS][PANEL_ROWS];
    __m256 high[ROWS][PANEL_ROWS];
    half_tile(rows, t, row, 0, low);
    half_tile(rows, t, row, EIGHT, high);
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < PANEL_ROWS && c < t->columns; c++) {
            const lanes sum = {low[r][c], high[r][c]};
            if (!t->is_last) {
                lanes_store(t->sums + ((row + r) * PANEL_ROWS + c) * LANES, sum);
                continue;
            }
            const float total = lanes_sum(sum);
            t->y[(row + r) * t->y_stride + c] = t->bias == NULL ? total : total + t->bias[c];
        }
    }
}

static void tile(const berth_linear_tile* t) {
    int64_t row = 0;
    for (; row + ROWS <= t->rows; row += ROWS)
        tile_rows(ROWS, t, row);
    if (row < t->rows) tile_rows(1, t, row);
}

DEFINE_LINEAR_ISA(berth_linear_isa_avx2, tile);
