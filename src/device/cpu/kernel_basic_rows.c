// SPDX-License-Identifier: Apache-2.0
// The rows of basic kernels for any instruction set.
#define BERTH_BASIC_ROWS berth_basic_rows_portable
#include "device/cpu/kernel_basic_table.h"
