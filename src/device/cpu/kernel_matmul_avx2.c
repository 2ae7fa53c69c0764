// SPDX-License-Identifier: Apache-2.0
// The MATMUL kernel's tiles for AVX2: 6 rows by 2 registers of 8 columns.
#define LANES_AVX2
#define VECTOR_BYTES 32
#define TILE_VECTORS 2
#define MAX_VECTORS 1
#include "device/cpu/kernel_matmul_integers_rows.h"
#include "device/cpu/kernel_matmul_tile.h"

const berth_matmul_tile_fn berth_matmul_tile_avx2 = multiply_tile;
const berth_matmul_integer_rows berth_matmul_integer_rows_avx2 = INTEGER_ROWS;
