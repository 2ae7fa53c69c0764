// SPDX-License-Identifier: Apache-2.0
// The rows of basic kernels for AVX2 and FMA.
#define BERTH_BASIC_ROWS berth_basic_rows_avx2
#include "device/cpu/kernel_basic_table.h"
