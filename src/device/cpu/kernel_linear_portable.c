// SPDX-License-Identifier: Apache-2.0
// The LINEAR kernel's work for any machine.
#include "device/cpu/kernel_linear_rows.h"

static void tile(const berth_linear_tile* t) {
    for (int64_t r = 0; r < t->rows; r++) {
        for (int64_t c = 0; c < t->columns; c++) {
            const int64_t at = (r * PANEL_ROWS + c) * LANES;
            lanes sum = t->is_first ? lanes_zero() : lanes_load(t->sums + at);
            for (int64_t i = 0; i < t->k / LANES; i++) {
                const lanes weights = lanes_load(t->panel + (i * PANEL_ROWS + c) * LANES);
                sum = lanes_fma(lanes_load(t->x + r * t->x_stride + i * LANES), weights, sum);
            }
            if (!t->is_last) {
                lanes_store(t->sums + at, sum);
                continue;
            }
            const float total = lanes_sum(sum);
            t->y[r * t->y_stride + c] = t->bias == NULL ? total : total + t->bias[c];
        }
    }
}

DEFINE_LINEAR_ISA(berth_linear_isa_portable, tile);
