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

/// Types that are not block-quantised come first: tables of them are so long.
#define BERTH_PLAIN_DTYPES (BERTH_BOOL + 1)
_Static_assert((int)BERTH_PLAIN_DTYPES == (int)BERTH_Q4_0, "plain types come first");

static inline bool berth_dtype_is_plain(berth_dtype dtype) {
    return berth_dtype_info_of(dtype)->kind != BERTH_DTYPE_KIND_Q;
}

/// Bytes of an element, or of a block of a quantised type.
static inline int64_t berth_dtype_bytes(berth_dtype dtype) {
    return berth_dtype_info_of(dtype)->block_bytes;
}

static inline bool berth_dtype_is_float(berth_dtype dtype) {
    return berth_dtype_info_of(dtype)->kind == BERTH_DTYPE_KIND_F;
}

/// True for f16 and bf16, which are computed in f32.
static inline bool berth_dtype_is_half(berth_dtype dtype) {
    return dtype == BERTH_F16 || dtype == BERTH_BF16;
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
