// SPDX-License-Identifier: Apache-2.0
// The public ops on two operands, where and clamp.
#include "exec/api.h"
#include "ops/promote.h"

#define DEFINE_BINARY(name, ID)                                                                    \
    berth_tensor* berth_##name(berth_context* ctx, berth_tensor* a, berth_tensor* b) {             \
        return berth_api_dispatch_two(ctx, BERTH_OP_##ID, a, b);                                   \
    }
DEFINE_BINARY(add, ADD)
DEFINE_BINARY(sub, SUB)
DEFINE_BINARY(mul, MUL)
DEFINE_BINARY(div, DIV)
DEFINE_BINARY(minimum, MINIMUM)
DEFINE_BINARY(maximum, MAXIMUM)
DEFINE_BINARY(remainder, REMAINDER)
DEFINE_BINARY(pow, POW)
DEFINE_BINARY(logical_and, LOGICAL_AND)
DEFINE_BINARY(logical_or, LOGICAL_OR)
DEFINE_BINARY(logical_xor, LOGICAL_XOR)
DEFINE_BINARY(outer, OUTER)

static berth_tensor* compare(berth_context* ctx,
                             berth_op_id op,
                             berth_tensor* left,
                             berth_tensor* right) {
    const berth_tensor* a = berth_untag(left);
    const berth_tensor* b = berth_untag(right);
    berth_compare_params params = {.dtype = BERTH_F32};
    if (a != NULL && b != NULL) // the checks refuse quantised types before this is looked at
        params.dtype =
            berth_promote_operands((berth_dtype)a->dtype, a->rank, (berth_dtype)b->dtype, b->rank);
    berth_tensor* const operands[2] = {left, right};
    return berth_dispatch(ctx, op, operands, 2, &params, sizeof params);
}

#define DEFINE_COMPARE(name, ID)                                                                   \
    berth_tensor* berth_##name(berth_context* ctx, berth_tensor* a, berth_tensor* b) {             \
        return compare(ctx, BERTH_OP_##ID, a, b);                                                  \
    }
DEFINE_COMPARE(eq, EQ)
DEFINE_COMPARE(ne, NE)
DEFINE_COMPARE(lt, LT)
DEFINE_COMPARE(le, LE)
DEFINE_COMPARE(gt, GT)
DEFINE_COMPARE(ge, GE)

berth_tensor* berth_where(berth_context* ctx,
                          berth_tensor* condition,
                          berth_tensor* a,
                          berth_tensor* b) {
    berth_tensor* const operands[3] = {condition, a, b};
    return berth_dispatch(ctx, BERTH_OP_WHERE, operands, 3, NULL, 0);
}

berth_tensor* berth_clamp(berth_context* ctx, berth_tensor* x, double low, double high) {
    const berth_clamp_params params = {.low = low, .high = high};
    return berth_dispatch(ctx, BERTH_OP_CLAMP, &x, 1, &params, sizeof params);
}
