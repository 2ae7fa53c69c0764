// SPDX-License-Identifier: Apache-2.0
// The rows that reduce for AVX-512.
#define BERTH_REDUCE_ROWS berth_reduce_rows_avx512
#include "device/cpu/kernel_reduce_table.h"
