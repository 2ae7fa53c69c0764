// SPDX-License-Identifier: Apache-2.0
// The MATMUL kernel's tiles for any machine.
#define MAX_VECTORS 1
#include "device/cpu/kernel_matmul_tile.h"

const berth_matmul_tile_fn berth_matmul_tile_portable = multiply_tile;
