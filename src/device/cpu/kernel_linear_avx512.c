// SPDX-License-Identifier: Apache-2.0
// The LINEAR kernel's work for AVX-512: a register tile of 4 x 6 accumulators of 16 lanes.
#define LANES_AVX512
#include "device/cpu/kernel_linear_rows.h"

#define ROWS BERTH_LINEAR_TILE_ROWS
#define SUMS (ROWS * PANEL_ROWS)

/// Of each 256 bits: the lower half of `a` plus its upper half, then the same of `b`.
LANES_INLINE __m512 fold_to_8(__m512 a, __m512 b) {
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
}

/// Of each 128 bits: the even quarters of `a` and `b` plus the odd ones.
LANES_INLINE __m512 fold_to_4(__m512 a, __m512 b) {
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}

LANES_INLINE __m512 fold_to_2(__m512 a, __m512 b) {
    const __m512d c = _mm512_castps_pd(a);
    const __m512d d = _mm512_castps_pd(b);
    return _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(c, d)),
                         _mm512_castpd_ps(_mm512_unpackhi_pd(c, d)));
}

LANES_INLINE __m512 fold_to_1(__m512 a, __m512 b) {
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
}

/// lanes_sum of 16 accumulators at once: lane i of the result is that of sums[i].
LANES_INLINE __m512 sum_16(const __m512* sums) {
    __m512 fours[4];
    LANES_UNROLL for (int i = 0; i < 4; i++) {
        fours[i] = fold_to_4(fold_to_8(sums[i], sums[i + 4]), fold_to_8(sums[i + 8], sums[i + 12]));
    }
    return fold_to_1(fold_to_2(fours[0], fours[1]), fold_to_2(fours[2], fours[3]));
}

/// As sum_16 for 8 accumulators; the upper lanes repeat the lower ones.
LANES_INLINE __m512 sum_8(const __m512* sums) {
    __m512 fours[4];
    LANES_UNROLL for (int i = 0; i < 4; i++) {
        const __m512 eights = fold_to_8(sums[i], sums[i + 4]);
        fours[i] = fold_to_4(eights, eights);
    }
    return fold_to_1(fold_to_2(fours[0], fours[1]), fold_to_2(fours[2], fours[3]));
}

/// Writes the rows of the tile: row r is totals [r * PANEL_ROWS, (r + 1) * PANEL_ROWS).
LANES_INLINE void put_rows(const int rows, const __m512* sums, const berth_linear_tile* t) {
    const __mmask16 mask = (__mmask16)((1u << t->columns) - 1u);
    const __m512 first = sum_16(sums);
    const __m512 second = sum_8(sums + 16);
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    LANES_UNROLL for (int r = 0; r < rows; r++) {
        const __m512i at = _mm512_add_epi32(lane, _mm512_set1_epi32(r * PANEL_ROWS));
        __m512 row = _mm512_permutex2var_ps(first, at, second);
        if (t->bias != NULL) row = _mm512_add_ps(row, _mm512_maskz_loadu_ps(mask, t->bias));
        _mm512_mask_storeu_ps(t->y + r * t->y_stride, mask, row);
    }
}

LANES_INLINE void multiply(const int rows, const berth_linear_tile* t, __m512* sums) {
    const float* x = t->x;
    const float* panel = t->panel;
    const int64_t x_stride = t->x_stride;
    for (int64_t i = 0; i < t->k; i += LANES) {
        __m512 a[ROWS];
        LANES_UNROLL for (int r = 0; r < rows; r++) a[r] = _mm512_loadu_ps(x + r * x_stride + i);
        LANES_UNROLL for (int c = 0; c < PANEL_ROWS; c++) {
            __m512 b = _mm512_loadu_ps(panel + i * PANEL_ROWS + c * LANES);
            __asm__("" : "+v"(b)); // one load, not one in each multiply-add
            LANES_UNROLL for (int r = 0; r < rows; r++) {
                sums[r * PANEL_ROWS + c] = _mm512_fmadd_ps(a[r], b, sums[r * PANEL_ROWS + c]);
            }
        }
    }
}

LANES_INLINE void tile_rows(const int rows, const berth_linear_tile* t) {
    __m512 sums[SUMS];
    LANES_UNROLL for (int i = 0; i < SUMS; i++) sums[i] = _mm512_setzero_ps();
    if (!t->is_first) {
        LANES_UNROLL for (int i = 0; i < rows * PANEL_ROWS; i++) {
            sums[i] = _mm512_loadu_ps(t->sums + i * LANES);
        }
    }
    multiply(rows, t, sums);
    if (t->is_last) {
        put_rows(rows, sums, t);
        return;
    }
    LANES_UNROLL for (int i = 0; i < rows * PANEL_ROWS; i++) {
        _mm512_storeu_ps(t->sums + i * LANES, sums[i]);
    }
}

static void tile(const berth_linear_tile* t) {
    switch (t->rows) {
    case 4:
        tile_rows(4, t);
        break;
    case 3:
        tile_rows(3, t);
        break;
    case 2:
        tile_rows(2, t);
        break;
    default:
        tile_rows(1, t);
        break;
    }
}

DEFINE_LINEAR_ISA(berth_linear_isa_avx512, tile);
