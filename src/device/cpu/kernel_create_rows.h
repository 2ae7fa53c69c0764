// SPDX-License-Identifier: Apache-2.0
// Rows of tensors that are made of nothing; included by the file of each instruction set.
#ifndef BERTH_DEVICE_CPU_KERNEL_CREATE_ROWS_H
#define BERTH_DEVICE_CPU_KERNEL_CREATE_ROWS_H

#include <math.h>

#include "device/cpu/kernel_basic_rows.h"
#include "device/cpu/kernel_random.h"

static void steps_f32_row(float* out, int64_t count, double start, double step, int64_t first) {
    const double from = (double)first;
    for (int32_t i = 0; i < (int32_t)count; ++i)
        out[i] = (float)(start + (from + (double)i) * step);
}

static void steps_i64_row(
    int64_t* out, int64_t count, int64_t start, int64_t step, int64_t low, int64_t high) {
    for (int64_t i = 0; i < count; ++i) {
        const int64_t value = start + i * step;
        const int64_t above = value > low ? value : low;
        out[i] = above < high ? above : high;
    }
}

static void random_bits_row(uint64_t* out, int64_t count, uint64_t key, int64_t first) {
    for (int64_t i = 0; i < count; ++i)
        out[i] = berth_random_bits(key, (uint64_t)(first + i));
}

static void random_uniform_row(
    float* restrict out, const uint64_t* restrict bits, int64_t count, double low, double high) {
    const float limit = (float)high;
    const float below = nextafterf(limit, (float)low);
    for (int64_t i = 0; i < count; ++i) {
        const double unit = (double)(int32_t)(bits[i] >> 40) * 0x1p-24; // 24 bits of the word
        const float value = (float)(low + unit * (high - low));
        out[i] = value < limit ? value : below;
    }
}

#endif // BERTH_DEVICE_CPU_KERNEL_CREATE_ROWS_H
