// SPDX-License-Identifier: Apache-2.0
// The LINEAR kernel's work for any machine.
#include "device/cpu/kernel_linear_rows.h"

static void tile(const float* x,
                 int64_t x_stride,
                 int64_t rows,
                 const float* panel,
                 int64_t k,
                 const float* bias,
                 float* y,
                 int64_t y_stride,
                 int64_t columns) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < columns; c++) {
            lanes sum = lanes_zero();
            for (int64_t i = 0; i < k / LANES; i++) {
                const lanes weights = lanes_load(panel + (i * PANEL_ROWS + c) * LANES);
                sum = lanes_fma(lanes_load(x + r * x_stride + i * LANES), weights, sum);
            }
            const float total = lanes_sum(sum);
            y[r * y_stride + c] = bias == NULL ? total : total + bias[c];
        }
    }
}

DEFINE_LINEAR_ISA(berth_linear_isa_portable, tile);
