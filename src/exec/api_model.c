// SPDX-License-Identifier: Apache-2.0
// The public ops that models are made of.
#include <math.h>

#include "exec/api.h"

berth_tensor* berth_matmul(berth_context* ctx, berth_tensor* a, berth_tensor* b) {
    return berth_api_dispatch_two(ctx, BERTH_OP_MATMUL, a, b);
}

/// True if the elements of a row, along the last dimension, do not lie side by side.
static bool has_gaps(const berth_tensor* tagged) {
    const berth_tensor* x = berth_untag(tagged);
    if (x == NULL || x->rank == 0) return false;
    return x->dims[x->rank - 1] > 1 && x->strides[x->rank - 1] != 1;
}

/// Dispatches an op whose first `rows` operands must have rows without gaps: what has some is
/// copied. Moved operands end behind the op then, as one tensor may be several operands.
static berth_tensor* dispatch_rows(berth_context* ctx,
                                   berth_op_id op,
                                   berth_tensor* const* operands,
                                   uint32_t count,
                                   uint32_t rows,
                                   const void* params,
                                   size_t params_bytes) {
    bool is_ready = true;
    for (uint32_t i = 0; i < rows; ++i)
        is_ready = is_ready && !has_gaps(operands[i]);
    if (is_ready || ctx == NULL || berth_home_is_forked(&ctx->home))
        return berth_dispatch(ctx, op, operands, count, params, params_bytes);
    berth_tensor* given[BERTH_OP_MAX_INPUTS];
    for (uint32_t i = 0; i < count; ++i) {
        given[i] = berth_untag(operands[i]);
        if (i < rows && has_gaps(operands[i])) given[i] = berth_move(berth_copy(ctx, given[i]));
    }
    berth_tensor* result = berth_dispatch(ctx, op, given, count, params, params_bytes);
    berth_context_consume_moved(ctx, operands, count);
    return result;
}

berth_tensor* berth_linear(berth_context* ctx,
                           berth_tensor* x,
                           berth_tensor* weight,
                           berth_tensor* bias) {
    berth_tensor* const operands[3] = {x, weight, bias};
    const uint32_t count = bias == NULL ? 2 : 3;
    return dispatch_rows(ctx, BERTH_OP_LINEAR, operands, count, count, NULL, 0);
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
    const int64_t size = plain != NULL && plain->rank > 0 ? plain->dims[plain->rank - 1] : 0;
    if (params.rotary_dims == 0 && size <= INT32_MAX) params.rotary_dims = (int32_t)size;
    berth_tensor* const operands[3] = {x, positions, divisors};
    const uint32_t count = divisors == NULL ? 2 : 3;
    return dispatch_rows(ctx, BERTH_OP_ROPE, operands, count, count, &params, sizeof params);
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
    const uint32_t count = mask == NULL ? 3 : 4;
    return dispatch_rows(ctx, BERTH_OP_ATTENTION, operands, count, 3, &params, sizeof params);
}
