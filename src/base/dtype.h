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

#endif // BERTH_BASE_DTYPE_H
