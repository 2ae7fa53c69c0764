// SPDX-License-Identifier: Apache-2.0
// The matrix products' rows of the CPU kernel table. Both kernels look up their instruction set at
// each call.
#include "device/cpu/kernel_matrix.h"

#include "device/cpu/cpu_kernels.h"
#include "device/cpu/kernel_linear.h"
#include "device/cpu/kernel_matmul.h"

void berth_cpu_fill_matrix_kernels(berth_kernel* table) {
    table[BERTH_OP_MATMUL] = berth_cpu_matmul;
    table[BERTH_OP_LINEAR] = berth_cpu_linear;
}
