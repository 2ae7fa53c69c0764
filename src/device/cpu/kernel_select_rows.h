// SPDX-License-Identifier: Apache-2.0
// Inner loops of sorting and selecting over contiguous rows, once for each instruction set.
#ifndef BERTH_DEVICE_CPU_KERNEL_SELECT_ROWS_H
#define BERTH_DEVICE_CPU_KERNEL_SELECT_ROWS_H

#include "base/dtype.h"

/// Items that one call of these functions takes, at most.
#define BERTH_SELECT_PIECE 1024

typedef struct berth_select_rows {
    /// key[i] of x[i]: keys are ordered as the values are, -0 like 0, every NaN above all else. For
    /// every plain type but i64.
    void (*keys[BERTH_PLAIN_DTYPES])(uint32_t* key, const void* x, int64_t count);
    void (*keys_i64)(uint64_t* key, const void* x, int64_t count);
    /// x[i] of key[i]: +0 and one NaN for all that shares their keys.
    void (*values[BERTH_PLAIN_DTYPES])(void* x, const uint32_t* key, int64_t count);
    void (*values_i64)(void* x, const uint64_t* key, int64_t count);
    /// flag[i] = key[i] < limit; returns how many are.
    int64_t (*below)(uint8_t* flag, const uint32_t* key, int64_t count, uint32_t limit);
    int64_t (*below_64)(uint8_t* flag, const uint64_t* key, int64_t count, uint64_t limit);
    /// flag[i] = x[i] != 0; returns how many are. For every plain type.
    int64_t (*nonzero[BERTH_PLAIN_DTYPES])(uint8_t* flag, const void* x, int64_t count);
    /// Packs the items of 1, 2, 4 or 8 bytes whose flag (0 or 1) is set; returns how many. `to` has
    /// room for `count`.
    int64_t (*pack[4])(void* to, const void* x, const uint8_t* flag, int64_t count);
    /// Packs the numbers i < `count` whose flag is set.
    int64_t (*positions)(uint32_t* to, const uint8_t* flag, int64_t count);
} berth_select_rows;

extern const berth_select_rows berth_select_rows_portable;
#if defined(__x86_64__)
extern const berth_select_rows berth_select_rows_avx2;
extern const berth_select_rows berth_select_rows_avx512;
#endif

/// The rows for berth_cpu_query_isa().
const berth_select_rows* berth_select_query_rows(void);

#endif // BERTH_DEVICE_CPU_KERNEL_SELECT_ROWS_H
