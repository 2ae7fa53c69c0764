// SPDX-License-Identifier: Apache-2.0
// The public ops that models are made of.
#include <math.h>

#include "exec/api.h"

berth_tensor* berth_matmul(berth_context* ctx, berth_tensor* a, berth_tensor* b) {
    return berth_api_dispatch_two(ctx, BERTH_OP_MATMUL, a, b);
}

/// Whether the elements of the last dimension lie one after another.
static bool has_dense_rows(const berth_tensor* x) {
    return x->rank == 0 || x->dims[x->rank - 1] <= 1 || x->strides[x->rank - 1] == 1;
}

/// An op on `operands` [count] that wants the rows of the first three contiguous: others become
/// copies. The references that were moved end with the op, since an operand may be there twice.
static berth_tensor* dispatch_rows(berth_context* ctx,
                                   berth_op_id op,
                                   berth_tensor* const* operands,
                                   uint32_t count,
                                   const void* params,
                                   size_t params_bytes) {
    if (ctx == NULL || berth_home_is_forked(&ctx->home)) return NULL;
    berth_tensor* rows[4];
    berth_tensor* replaced[4] = {NULL};
    bool replaces = false;
    for (uint32_t i = 0; i < count; ++i) {
        berth_tensor* x = berth_untag(operands[i]);
        rows[i] = operands[i];
        if (i >= 3 || x == NULL || has_dense_rows(x)) continue;
        rows[i] = berth_move(berth_contiguous(ctx, x));
        replaced[i] = operands[i];
        replaces = true;
    }
    berth_tensor* result = berth_dispatch(ctx, op, rows, count, params, params_bytes);
    if (!replaces) return result;
    berth_home_lock(&ctx->home);
    berth_context_drop_moved(ctx, replaced, count);
    berth_home_unlock(&ctx->home);
    return result;
}

berth_tensor* berth_linear(berth_context* ctx,
                           berth_tensor* x,
                           berth_tensor* weight,
                           berth_tensor* bias) {
    berth_tensor* const operands[3] = {x, weight, bias};
    return dispatch_rows(ctx, BERTH_OP_LINEAR, operands, bias == NULL ? 2 : 3, NULL, 0);
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
    return dispatch_rows(
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
    berth_tensor* const operands[4] = {q, k, v, mask};
    return dispatch_rows(
        ctx, BERTH_OP_ATTENTION, operands, mask == NULL ? 3 : 4, &params, sizeof params);
}
