// SPDX-License-Identifier: Apache-2.0
// Inside of the LINEAR kernel: what each instruction set provides to the one driver.
//
// The order of summation, chosen so that one row and many give the same bits (L1): lane l of 16
// adds up x[k] * w[k] for k = l, l + 16, l + 32, ... by fused multiply-add, starting from zero; at
// the end the halves of the lanes are added (8, 4, 2, 1), then the bias. It is the natural order
// for one row: quantised weights are decoded in registers, 16 neighbours of a row at a time. For
// many rows a register tile of whole lane accumulators pays for its final sums with some percent of
// the time (reading of weights stays contiguous, nothing is transposed). Keeping N in the lanes
// instead would spare those sums, but one row would then need the weights of 16 rows transposed in
// registers.
//
// L1: an output's bits depend on its row of x, its row of w, K and the bias alone.
// L2: weights are converted exactly as kernel_convert does.
#ifndef BERTH_DEVICE_CPU_KERNEL_LINEAR_H
#define BERTH_DEVICE_CPU_KERNEL_LINEAR_H

#include "berth/op.h"

#define BERTH_LINEAR_BLOCK 32     ///< K is rounded up to whole blocks, with zeros
#define BERTH_LINEAR_PANEL_ROWS 6 ///< rows of w that a panel holds side by side
#define BERTH_LINEAR_TILE_ROWS 4  ///< rows of x that a tile takes at most
#define BERTH_LINEAR_TILE_SUMS (16 * BERTH_LINEAR_TILE_ROWS * BERTH_LINEAR_PANEL_ROWS) ///< floats

/// Dot products of `rows` rows of w, `row_bytes` apart, with one row of x. `x` is
/// [k rounded up to a block], zero from k on. Writes out[rows].
typedef void (*berth_linear_dot_fn)(
    const uint8_t* w, int64_t row_bytes, int64_t rows, const float* x, int64_t k, float* out);

/// Decodes `rows` <= BERTH_LINEAR_PANEL_ROWS rows of w to a panel:
/// [k rounded up to a block / 16][BERTH_LINEAR_PANEL_ROWS][16] f32, zero where there is no weight.
typedef void (*berth_linear_pack_fn)(
    const uint8_t* w, int64_t row_bytes, int64_t rows, int64_t k, float* panel);

/// One tile: rows of x times a panel, over a stretch of K. With `is_first` the lanes start from
/// zero, else from `sums`; with `is_last` they are added up and the outputs written, else stored to
/// `sums`.
typedef struct berth_linear_tile {
    const float* x;     ///< first row of x, at the stretch
    int64_t x_stride;   ///< floats from row to row
    int64_t rows;       ///< 1 .. BERTH_LINEAR_TILE_ROWS
    const float* panel; ///< of the stretch
    int64_t k;          ///< length of the stretch, a multiple of the block
    float* sums;        ///< [BERTH_LINEAR_TILE_SUMS], unused if first and last
    bool is_first;
    bool is_last;
    const float* bias; ///< [columns] or NULL
    float* y;
    int64_t y_stride;
    int64_t columns; ///< 1 .. BERTH_LINEAR_PANEL_ROWS
} berth_linear_tile;

typedef void (*berth_linear_tile_fn)(const berth_linear_tile* tile);

/// One instruction set's part. `dot` and `pack` are indexed by berth_dtype; NULL for integers.
typedef struct berth_linear_isa {
    berth_linear_dot_fn dot[BERTH_DTYPE_COUNT];
    berth_linear_pack_fn pack[BERTH_DTYPE_COUNT];
    berth_linear_tile_fn tile;
} berth_linear_isa;

extern const berth_linear_isa berth_linear_isa_portable;
#if defined(__x86_64__)
extern const berth_linear_isa berth_linear_isa_avx2;
extern const berth_linear_isa berth_linear_isa_avx512;
#endif

/// The LINEAR kernel.
void berth_cpu_linear(const berth_op_call* call);

#endif // BERTH_DEVICE_CPU_KERNEL_LINEAR_H
