// SPDX-License-Identifier: Apache-2.0
// Type promotion.
#include "ops/promote.h"

/// 0 for bool, 1 for integers, 2 for floats.
static int category_of(berth_dtype dtype) {
    if (berth_dtype_is_float(dtype)) return 2;
    return dtype == BERTH_BOOL ? 0 : 1;
}

berth_dtype berth_promote_dtypes(berth_dtype a, berth_dtype b) {
    if (a == b) return a;
    const int category_a = category_of(a);
    const int category_b = category_of(b);
    if (category_a != category_b) return category_a > category_b ? a : b;
    if (category_a == 2) return BERTH_F32;
    return a == BERTH_I64 || b == BERTH_I64 ? BERTH_I64 : BERTH_I32;
}

berth_dtype berth_promote_operands(berth_dtype a, int32_t rank_a, berth_dtype b, int32_t rank_b) {
    if ((rank_a == 0) == (rank_b == 0)) return berth_promote_dtypes(a, b);
    const berth_dtype with_dims = rank_a > 0 ? a : b;
    const berth_dtype without = rank_a > 0 ? b : a;
    return category_of(without) > category_of(with_dims) ? without : with_dims;
}
