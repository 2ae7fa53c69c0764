// SPDX-License-Identifier: Apache-2.0
// The table of element types, for callers that know that the type exists.
#ifndef BERTH_BASE_DTYPE_H
#define BERTH_BASE_DTYPE_H

#include "berth/dtype.h"

/// Indexed by berth_dtype.
extern const berth_dtype_info berth_dtype_infos[BERTH_DTYPE_COUNT];

static inline const berth_dtype_info* berth_dtype_info_of(berth_dtype dtype) {
    return &berth_dtype_infos[dtype];
}

static inline bool berth_dtype_is_float(berth_dtype dtype) {
    return berth_dtype_info_of(dtype)->kind == BERTH_DTYPE_KIND_F;
}

static inline bool berth_dtype_is_integer(berth_dtype dtype) {
    const berth_dtype_kind kind = berth_dtype_info_of(dtype)->kind;
    return kind == BERTH_DTYPE_KIND_I || kind == BERTH_DTYPE_KIND_U;
}

/// The largest value of an integer type.
static inline int64_t berth_dtype_highest(berth_dtype dtype) {
    const uint32_t sign_bits = berth_dtype_info_of(dtype)->kind == BERTH_DTYPE_KIND_I ? 1 : 0;
    return (int64_t)(UINT64_MAX >> (64 + sign_bits - 8 * berth_dtype_info_of(dtype)->block_bytes));
}

/// The smallest value of an integer type.
static inline int64_t berth_dtype_lowest(berth_dtype dtype) {
    const bool is_signed = berth_dtype_info_of(dtype)->kind == BERTH_DTYPE_KIND_I;
    return is_signed ? -berth_dtype_highest(dtype) - 1 : 0;
}

#endif // BERTH_BASE_DTYPE_H
