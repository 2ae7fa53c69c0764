// SPDX-License-Identifier: Apache-2.0
// The rows of sorting and selecting for AVX2.
#define BERTH_SELECT_ROWS berth_select_rows_avx2
#include "device/cpu/kernel_select_table.h"
