// SPDX-License-Identifier: Apache-2.0
// The rows of sorting and selecting for any machine.
#define BERTH_SELECT_ROWS berth_select_rows_portable
#include "device/cpu/kernel_select_table.h"
