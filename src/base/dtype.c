// SPDX-License-Identifier: Apache-2.0
// The table of element types.
#include "base/dtype.h"

const berth_dtype_info berth_dtype_infos[BERTH_DTYPE_COUNT] = {
#define DTYPE_INFO(name, text, block_values, block_bytes, kind)                                    \
    [BERTH_##name] = {text, block_values, block_bytes, BERTH_DTYPE_KIND_##kind},
    BERTH_DTYPE_MAP(DTYPE_INFO)
#undef DTYPE_INFO
};

const berth_dtype_info* berth_dtype_query_info(berth_dtype dtype) {
    return (unsigned)dtype < BERTH_DTYPE_COUNT ? &berth_dtype_infos[dtype] : NULL;
}

int64_t berth_view_count(const berth_view* view) {
    if (view == NULL) return 0;
    int64_t count = 1;
    for (int32_t d = 0; d < view->rank; ++d)
        count *= view->dims[d];
    return count;
}
