// SPDX-License-Identifier: Apache-2.0
// The MATMUL kernel's tiles for AVX-512: 6 rows by 4 registers of 16 columns.
#define LANES_AVX512
#define MAX_VECTORS 4
#include "device/cpu/kernel_matmul_tile.h"

const berth_matmul_tile_fn berth_matmul_tile_avx512 = multiply_tile;
