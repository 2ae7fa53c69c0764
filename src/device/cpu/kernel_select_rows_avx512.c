// SPDX-License-Identifier: Apache-2.0
// The rows of sorting and selecting for AVX-512.
#define BERTH_SELECT_ROWS berth_select_rows_avx512
#include "device/cpu/kernel_select_table.h"
