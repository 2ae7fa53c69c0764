// SPDX-License-Identifier: Apache-2.0
// The public ops that models are made of.
#include <math.h>

#include "exec/api.h"

berth_tensor* berth_matmul(berth_context* ctx, berth_tensor* a, berth_tensor* b) {
    return berth_api_dispatch_two(ctx, BERTH_OP_MATMUL, a, b);
}

/// A view whose last dimension is not contiguous becomes a copy; everything else stays.
static berth_tensor* with_dense_rows(berth_context* ctx, berth_tensor* x) {
    const berth_tensor* plain = berth_untag(x);
    if (ctx == NULL || plain == NULL || plain->rank == 0) return x;
    const int32_t last = plain->rank - 1;
    if (plain->dims[last] <= 1 || plain->strides[last] == 1) return x;
    berth_tensor* copy = berth_contiguous(ctx, x);
    return berth_move(copy);
}

berth_tensor* berth_linear(berth_context* ctx,
                           berth_tensor* x,
                           berth_tensor* weight,
                           berth_tensor* bias) {
    berth_tensor* const operands[3] = {
        with_dense_rows(ctx, x), with_dense_rows(ctx, weight), with_dense_rows(ctx, bias)};
    return berth_dispatch(ctx, BERTH_OP_LINEAR, operands, bias == NULL ? 2 : 3, NULL, 0);
}

berth_tensor* berth_rope(berth_context* ctx,
                         berth_tensor* x,
                         berth_tensor* positions,
                         berth_tensor* divisors,
                         const berth_rope_options* options) {
    const berth_rope_options chosen = options != NULL ? *options : (berth_rope_options){0};
    const berth_tensor* plain = berth_untag(x);
    berth_rope_params params = {
        .base = chosen.base != 0 ? chosen.base : 10000.0,
        .position_scale = chosen.position_scale != 0 ? chosen.position_scale : 1.0,
        .rotary_dims = chosen.rotary_dims,
        .halves = chosen.halves,
    };
    if (params.rotary_dims == 0 && plain != NULL && plain->rank == 3 && plain->dims[2] <= INT32_MAX)
        params.rotary_dims = (int32_t)plain->dims[2];
    berth_tensor* const operands[3] = {x, positions, divisors};
    return berth_dispatch(
        ctx, BERTH_OP_ROPE, operands, divisors == NULL ? 2 : 3, &params, sizeof params);
}

berth_tensor* berth_attention(berth_context* ctx,
                              berth_tensor* q,
                              berth_tensor* k,
                              berth_tensor* v,
                              berth_tensor* mask,
                              float scale,
                              bool causal,
                              int64_t query_offset) {
    const berth_tensor* plain = berth_untag(q);
    berth_attention_params params = {
        .scale = scale, .causal = causal, .query_offset = query_offset};
    if (scale == 0 && plain != NULL && plain->rank >= 3 && plain->dims[plain->rank - 1] > 0)
        params.scale = (float)(1.0 / sqrt((double)plain->dims[plain->rank - 1]));
    berth_tensor* const operands[4] = {
        with_dense_rows(ctx, q), with_dense_rows(ctx, k), with_dense_rows(ctx, v), mask};
    return berth_dispatch(
        ctx, BERTH_OP_ATTENTION, operands, mask == NULL ? 3 : 4, &params, sizeof params);
}
