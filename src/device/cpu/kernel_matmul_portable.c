// SPDX-License-Identifier: Apache-2.0
// The MATMUL kernel's tiles for any machine.
#define VECTOR_BYTES 16
#define TILE_VECTORS 2
#define MAX_VECTORS 1
#include "device/cpu/kernel_matmul_integers_rows.h"
#include "device/cpu/kernel_matmul_tile.h"

const berth_matmul_tile_fn berth_matmul_tile_portable = multiply_tile;
const berth_matmul_integer_rows berth_matmul_integer_rows_portable = INTEGER_ROWS;
