// SPDX-License-Identifier: Apache-2.0
// The rows of basic kernels for AVX-512.
#define BERTH_BASIC_ROWS berth_basic_rows_avx512
#include "device/cpu/kernel_basic_table.h"
