// SPDX-License-Identifier: Apache-2.0
// Inside of the MATMUL kernel: what each instruction set provides to the one driver.
//
// The columns of b stand in the lanes; each output adds up a[k] * b[k] for k = 0, 1, 2, ... by
// fused multiply-add in one lane, starting from zero. Partial sums may be stored as f32 and taken
// up again between stretches of K, as that changes no bit.
//
// Y1: an output's bits depend on its row of a, its column of b and K alone.
#ifndef BERTH_DEVICE_CPU_KERNEL_MATMUL_H
#define BERTH_DEVICE_CPU_KERNEL_MATMUL_H

#include "berth/op.h"

#define BERTH_MATMUL_TILE_ROWS 6     ///< rows of a that a tile takes at most
#define BERTH_MATMUL_TILE_COLUMNS 64 ///< columns of b that a tile takes at most

/// One tile: adds to, or with `is_first` sets, sums[r * sums_stride + c] for `rows` rows of a and
/// `columns` columns of b over k products. Row r of a is at a + r * a_row, its elements a_step
/// apart; row i of b is at b + i * b_row, of columns rounded up to 16 readable floats. As many
/// floats are written for each row of the sums.
typedef struct berth_matmul_tile {
    const float* a;
    int64_t a_row;
    int64_t a_step;
    const float* b;
    int64_t b_row;
    float* sums;
    int64_t sums_stride;
    int64_t rows;
    int64_t columns;
    int64_t k;
    bool is_first;
} berth_matmul_tile;

typedef void (*berth_matmul_tile_fn)(const berth_matmul_tile* tile);

extern const berth_matmul_tile_fn berth_matmul_tile_portable;
#if defined(__x86_64__)
extern const berth_matmul_tile_fn berth_matmul_tile_avx2;
extern const berth_matmul_tile_fn berth_matmul_tile_avx512;
#endif

/// A tile of integers in lanes of twice their width for bytes, of their own for others: adds to
/// sums [rows, BERTH_MATMUL_TILE_COLUMNS] a [rows, k] times b [k, BERTH_MATMUL_TILE_COLUMNS], of
/// which `columns` columns count.
typedef struct berth_integer_tile {
    const void* a;
    const void* b;
    void* sums;
    int64_t rows;
    int64_t columns;
    int64_t k;
} berth_integer_tile;

/// Inner loops on integers, [0] bytes, [1] i32, [2] i64.
typedef struct berth_matmul_integer_rows {
    void (*tile[3])(const berth_integer_tile* tile);
    /// The sum of products of `count` elements; its low bits, as many as they have, are right.
    uint64_t (*dot[3])(const void* a, const void* b, int64_t count);
} berth_matmul_integer_rows;

extern const berth_matmul_integer_rows berth_matmul_integer_rows_portable;
#if defined(__x86_64__)
extern const berth_matmul_integer_rows berth_matmul_integer_rows_avx2;
extern const berth_matmul_integer_rows berth_matmul_integer_rows_avx512;
#endif

/// The operands and the result with two dimensions at least: a vector on the left is a row, one on
/// the right a column. The strides of `out` are not filled in.
void berth_matmul_operands(const berth_op_call* call,
                           berth_view* a,
                           berth_view* b,
                           berth_view* out);

/// Address of the matrix of product `batch`, counted over the leading dimensions of `out`, in an
/// operand that broadcasts to them.
const unsigned char* berth_matmul_matrix_at(const berth_view* x,
                                            const berth_view* out,
                                            int64_t batch);

/// Makes a product of one column one of one row, with the same bits: out^T = b^T a^T.
void berth_matmul_turn_column(berth_view* a, berth_view* b, berth_view* out);

/// MATMUL of integers, which wrap, and its workspace.
void berth_cpu_matmul_integers(const berth_op_call* call);
uint64_t berth_cpu_matmul_integers_scratch(const berth_op_call* call);

/// The MATMUL kernel.
void berth_cpu_matmul(const berth_op_call* call);

#endif // BERTH_DEVICE_CPU_KERNEL_MATMUL_H
