// SPDX-License-Identifier: Apache-2.0
// The rows that reduce for any instruction set.
#define BERTH_REDUCE_ROWS berth_reduce_rows_portable
#include "device/cpu/kernel_reduce_table.h"
