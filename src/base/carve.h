// SPDX-License-Identifier: Apache-2.0
// Several arrays in one block of memory: laid out twice, first to measure it, then for good.
#ifndef BERTH_BASE_CARVE_H
#define BERTH_BASE_CARVE_H

#include "base/checked.h"

/// The place of the next `count` items of `bytes` bytes each in `block`, which `*total` bytes have
/// been carved from so far; NULL while it is measured (`block` is NULL). Good for any type.
static inline void* berth_carve(char* block, size_t* total, size_t count, size_t bytes) {
    char* at = block == NULL ? NULL : block + *total;
    *total += berth_round_up(count * bytes, 16);
    return at;
}

#endif // BERTH_BASE_CARVE_H
