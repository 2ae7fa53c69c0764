// SPDX-License-Identifier: Apache-2.0
// Converts op parameters to elements on the host, as the CPU converts elements.
#include "device/cuda/cuda_launch_value.h"

#include <math.h>
#include <string.h>

#include "device/cpu/kernel_convert_scalar.h"

int64_t berth_cuda_value_to_whole(berth_dtype dtype, double value) {
    const int64_t low = berth_dtype_lowest(dtype), high = berth_dtype_highest(dtype);
    if (isnan(value)) return 0;
    if (value <= (double)low) return low;
    if (value >= (double)high) return high; // (double)INT64_MAX is 2^63, which is too large
    return (int64_t)value;
}

void berth_cuda_value_store(berth_dtype dtype, double value, void* item) {
    const float narrow = (float)value;
    if (dtype == BERTH_F32) {
        memcpy(item, &narrow, sizeof narrow);
    } else if (berth_dtype_is_half(dtype)) {
        const bool is_f16 = dtype == BERTH_F16;
        const uint16_t half = is_f16 ? berth_f32_to_f16(narrow) : berth_f32_to_bf16(narrow);
        memcpy(item, &half, sizeof half);
    } else if (dtype == BERTH_BOOL) {
        *(uint8_t*)item = value != 0.0;
    } else {
        const int64_t whole = berth_cuda_value_to_whole(dtype, value);
        memcpy(item, &whole, (size_t)berth_dtype_bytes(dtype)); // the low bytes come first
    }
}
