// SPDX-License-Identifier: Apache-2.0
// What kernels that follow indices share.
#ifndef BERTH_DEVICE_CPU_KERNEL_INDEX_H
#define BERTH_DEVICE_CPU_KERNEL_INDEX_H

#include <string.h>

#include "device/cpu/kernel_joint.h"

/// The index at `at`, i32 or i64.
static inline int64_t berth_index_load(berth_dtype dtype, const unsigned char* at) {
    int32_t narrow;
    int64_t wide;
    if (dtype == BERTH_I32) {
        memcpy(&narrow, at, sizeof narrow);
        return narrow;
    }
    memcpy(&wide, at, sizeof wide);
    return wide;
}

#endif // BERTH_DEVICE_CPU_KERNEL_INDEX_H
