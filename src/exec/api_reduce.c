// SPDX-License-Identifier: Apache-2.0
// The public reductions and norms.
#include "exec/api.h"

static berth_tensor* dispatch_reduce(berth_context* ctx,
                                     berth_op_id op,
                                     berth_tensor* x,
                                     berth_dims dims,
                                     bool keepdim,
                                     double correction) {
    const berth_reduce_params params = {.dims = dims, .keepdim = keepdim, .correction = correction};
    return berth_dispatch(ctx, op, &x, 1, &params, sizeof params);
}

#define DEFINE_REDUCTION(name, ID)                                                                 \
    berth_tensor* berth_##name(                                                                    \
        berth_context* ctx, berth_tensor* x, berth_dims dims, bool keepdim) {                      \
        return dispatch_reduce(ctx, BERTH_OP_##ID, x, dims, keepdim, 0);                           \
    }
DEFINE_REDUCTION(sum, SUM)
DEFINE_REDUCTION(mean, MEAN)
DEFINE_REDUCTION(prod, PROD)
DEFINE_REDUCTION(max, MAX)
DEFINE_REDUCTION(min, MIN)
DEFINE_REDUCTION(logsumexp, LOGSUMEXP)
DEFINE_REDUCTION(any, ANY)
DEFINE_REDUCTION(all, ALL)

berth_tensor* berth_var(
    berth_context* ctx, berth_tensor* x, berth_dims dims, double correction, bool keepdim) {
    return dispatch_reduce(ctx, BERTH_OP_VAR, x, dims, keepdim, correction);
}

berth_tensor* berth_argmax(berth_context* ctx, berth_tensor* x, int32_t dim, bool keepdim) {
    return dispatch_reduce(ctx, BERTH_OP_ARGMAX, x, BERTH_DIMS(dim), keepdim, 0);
}

berth_tensor* berth_argmin(berth_context* ctx, berth_tensor* x, int32_t dim, bool keepdim) {
    return dispatch_reduce(ctx, BERTH_OP_ARGMIN, x, BERTH_DIMS(dim), keepdim, 0);
}

#define DEFINE_ALONG(name, ID)                                                                     \
    berth_tensor* berth_##name(berth_context* ctx, berth_tensor* x, int32_t dim) {                 \
        return dispatch_reduce(ctx, BERTH_OP_##ID, x, BERTH_DIMS(dim), true, 0);                   \
    }
DEFINE_ALONG(softmax, SOFTMAX)
DEFINE_ALONG(log_softmax, LOG_SOFTMAX)
DEFINE_ALONG(cumsum, CUMSUM)

berth_tensor* berth_layer_norm(
    berth_context* ctx, berth_tensor* x, berth_tensor* weight, berth_tensor* bias, float eps) {
    const berth_norm_params params = {
        .eps = eps, .has_weight = weight != NULL, .has_bias = bias != NULL};
    berth_tensor* operands[3] = {x};
    uint32_t count = 1;
    if (weight != NULL) operands[count++] = weight;
    if (bias != NULL) operands[count++] = bias;
    return berth_dispatch(ctx, BERTH_OP_LAYER_NORM, operands, count, &params, sizeof params);
}

berth_tensor* berth_rms_norm(berth_context* ctx, berth_tensor* x, berth_tensor* weight, float eps) {
    const berth_norm_params params = {.eps = eps, .has_weight = weight != NULL};
    berth_tensor* const operands[2] = {x, weight};
    return berth_dispatch(
        ctx, BERTH_OP_RMS_NORM, operands, weight != NULL ? 2 : 1, &params, sizeof params);
}
