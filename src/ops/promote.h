// SPDX-License-Identifier: Apache-2.0
// Type promotion: the type that operands of several types are converted to before they meet.
//
// Types are of three categories: bool, below the integers (u8, i8, i32, i64), below the floats
// (f16, bf16, f32). Of two categories the higher one's type wins. Within one, two different floats
// give f32; two different integers give i64 if one of them is that, else i32.
#ifndef BERTH_OPS_PROMOTE_H
#define BERTH_OPS_PROMOTE_H

#include "base/dtype.h"

/// The type that values of two plain types are converted to.
berth_dtype berth_promote_dtypes(berth_dtype a, berth_dtype b);

/// The type that two operands of plain types are converted to: an operand without dimensions counts
/// beside one with dimensions only if its type is of a higher category.
berth_dtype berth_promote_operands(berth_dtype a, int32_t rank_a, berth_dtype b, int32_t rank_b);
static inline berth_dtype berth_promote(const berth_view* a, const berth_view* b) {
    if (a->dtype == b->dtype) return a->dtype;
    return berth_promote_operands(a->dtype, a->rank, b->dtype, b->rank);
}

/// The type that functions of real numbers compute in: f32 for integers and bool, else the type
/// itself.
static inline berth_dtype berth_promote_to_float(berth_dtype dtype) {
    return berth_dtype_is_float(dtype) ? dtype : BERTH_F32;
}

#endif // BERTH_OPS_PROMOTE_H
