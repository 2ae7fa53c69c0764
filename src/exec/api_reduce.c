// SPDX-License-Identifier: Apache-2.0
// The public reductions and norms.
#include "exec/api.h"

static berth_tensor* dispatch_reduce(
    berth_context* ctx, berth_op_id op, berth_tensor* x, int32_t dim, bool keepdim) {
    const berth_reduce_params params = {.dim = berth_api_normalize_dim(x, dim), .keepdim = keepdim};
    berth_tensor* const operands[1] = {x};
    return berth_dispatch(ctx, op, operands, 1, &params, sizeof params);
}

berth_tensor* berth_sum(berth_context* ctx, berth_tensor* x, int32_t dim, bool keepdim) {
    return dispatch_reduce(ctx, BERTH_OP_SUM, x, dim, keepdim);
}

berth_tensor* berth_mean(berth_context* ctx, berth_tensor* x, int32_t dim, bool keepdim) {
    return dispatch_reduce(ctx, BERTH_OP_MEAN, x, dim, keepdim);
}

berth_tensor* berth_max(berth_context* ctx, berth_tensor* x, int32_t dim, bool keepdim) {
    return dispatch_reduce(ctx, BERTH_OP_MAX, x, dim, keepdim);
}

berth_tensor* berth_argmax(berth_context* ctx, berth_tensor* x, int32_t dim, bool keepdim) {
    return dispatch_reduce(ctx, BERTH_OP_ARGMAX, x, dim, keepdim);
}

berth_tensor* berth_softmax(berth_context* ctx, berth_tensor* x, int32_t dim) {
    return dispatch_reduce(ctx, BERTH_OP_SOFTMAX, x, dim, true);
}

berth_tensor* berth_rms_norm(berth_context* ctx, berth_tensor* x, berth_tensor* weight, float eps) {
    const berth_rms_norm_params params = {.eps = eps};
    berth_tensor* const operands[2] = {x, weight};
    return berth_dispatch(ctx, BERTH_OP_RMS_NORM, operands, 2, &params, sizeof params);
}
