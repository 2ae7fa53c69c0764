// SPDX-License-Identifier: Apache-2.0
// The MATMUL kernel's tiles for AVX-512: 6 rows by 4 registers of 16 columns.
#define LANES_AVX512
#define VECTOR_BYTES 64
#define TILE_VECTORS 4
#define MAX_VECTORS 4
#include "device/cpu/kernel_matmul_integers_rows.h"
#include "device/cpu/kernel_matmul_tile.h"

const berth_matmul_tile_fn berth_matmul_tile_avx512 = multiply_tile;
const berth_matmul_integer_rows berth_matmul_integer_rows_avx512 = INTEGER_ROWS;
