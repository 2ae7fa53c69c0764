// SPDX-License-Identifier: Apache-2.0
// The public ops on one operand.
#include "exec/api.h"

#define DEFINE_UNARY(name, ID)                                                                     \
    berth_tensor* berth_##name(berth_context* ctx, berth_tensor* x) {                              \
        return berth_api_dispatch_one(ctx, BERTH_OP_##ID, x);                                      \
    }
DEFINE_UNARY(neg, NEG)
DEFINE_UNARY(abs, ABS)
DEFINE_UNARY(sign, SIGN)
DEFINE_UNARY(relu, RELU)
DEFINE_UNARY(floor, FLOOR)
DEFINE_UNARY(ceil, CEIL)
DEFINE_UNARY(round, ROUND)
DEFINE_UNARY(exp, EXP)
DEFINE_UNARY(log, LOG)
DEFINE_UNARY(log1p, LOG1P)
DEFINE_UNARY(sqrt, SQRT)
DEFINE_UNARY(rsqrt, RSQRT)
DEFINE_UNARY(reciprocal, RECIPROCAL)
DEFINE_UNARY(sin, SIN)
DEFINE_UNARY(cos, COS)
DEFINE_UNARY(tanh, TANH)
DEFINE_UNARY(sigmoid, SIGMOID)
DEFINE_UNARY(silu, SILU)
DEFINE_UNARY(gelu, GELU)
DEFINE_UNARY(gelu_tanh, GELU_TANH)
DEFINE_UNARY(logical_not, LOGICAL_NOT)
DEFINE_UNARY(isnan, ISNAN)
DEFINE_UNARY(isinf, ISINF)
DEFINE_UNARY(isfinite, ISFINITE)

berth_tensor* berth_affine(berth_context* ctx, berth_tensor* x, float scale, float shift) {
    const berth_affine_params params = {.scale = scale, .shift = shift};
    return berth_dispatch(ctx, BERTH_OP_AFFINE, &x, 1, &params, sizeof params);
}
