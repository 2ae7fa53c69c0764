// SPDX-License-Identifier: Apache-2.0
// Conversions for AVX-512.
#define BERTH_CONVERT_ROWS berth_convert_rows_avx512
#include "device/cpu/kernel_convert_rows.h"
