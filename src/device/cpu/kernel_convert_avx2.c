// SPDX-License-Identifier: Apache-2.0
// Conversions for AVX2.
#define BERTH_CONVERT_ROWS berth_convert_rows_avx2
#include "device/cpu/kernel_convert_rows.h"
