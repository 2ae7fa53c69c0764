// SPDX-License-Identifier: Apache-2.0
// Sets of dimensions as bits.
#ifndef BERTH_BASE_DIMS_H
#define BERTH_BASE_DIMS_H

#include "berth/dims.h"

/// The bit of dimension `dim`, which may count from the end, among `rank`; 0 if there is none such.
/// A tensor of rank 0 counts as having one dimension, as in PyTorch.
static inline uint32_t berth_dim_bit(int32_t rank, int32_t dim) {
    const int32_t count = rank > 0 ? rank : 1;
    if (dim < -count || dim >= count) return 0;
    return UINT32_C(1) << (dim < 0 ? dim + count : dim);
}

/// The bits of `dims`, all of which exist; of all `rank` dimensions if none is named.
static inline uint32_t berth_dims_mask(const berth_dims* dims, int32_t rank) {
    if (dims->count == 0) return (UINT32_C(1) << rank) - 1;
    uint32_t mask = 0;
    for (int32_t i = 0; i < dims->count; ++i)
        mask |= berth_dim_bit(rank, dims->dims[i]);
    return mask;
}

#endif // BERTH_BASE_DIMS_H
