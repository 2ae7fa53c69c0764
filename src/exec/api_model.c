// SPDX-License-Identifier: Apache-2.0
// The public ops that models are made of.
#include <math.h>

#include "exec/api.h"
#include "exec/paged_attention.h"

berth_tensor* berth_matmul(berth_context* ctx, berth_tensor* a, berth_tensor* b) {
    return berth_api_dispatch_two(ctx, BERTH_OP_MATMUL, a, b);
}

#define ALL_ROWS UINT32_MAX // each operand must have rows without gaps

/// True if the elements of a row, along the last dimension, do not lie side by side.
static bool has_gaps(const berth_tensor* tagged) {
    const berth_tensor* x = berth_untag(tagged);
    if (x == NULL || x->rank == 0) return false;
    return x->dims[x->rank - 1] > 1 && x->strides[x->rank - 1] != 1;
}

/// Dispatches an op of whose operands those with a bit in `rows` must have rows without gaps: what
/// has some is copied. Moved operands end behind the op then, as one tensor may be several
/// operands.
static berth_tensor* dispatch_rows(berth_context* ctx,
                                   berth_op_id op,
                                   berth_tensor* const* operands,
                                   uint32_t count,
                                   uint32_t rows,
                                   const void* params,
                                   size_t params_bytes) {
    bool is_ready = true;
    for (uint32_t i = 0; i < count; ++i)
        is_ready = is_ready && ((rows >> i & 1u) == 0 || !has_gaps(operands[i]));
    if (is_ready || ctx == NULL || berth_home_is_forked(&ctx->home))
        return berth_dispatch(ctx, op, operands, count, params, params_bytes);
    berth_tensor* given[BERTH_OP_MAX_INPUTS];
    for (uint32_t i = 0; i < count; ++i) {
        given[i] = berth_untag(operands[i]);
        if ((rows >> i & 1u) != 0 && has_gaps(operands[i]))
            given[i] = berth_move(berth_copy(ctx, given[i]));
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
    return dispatch_rows(ctx, BERTH_OP_LINEAR, operands, count, ALL_ROWS, NULL, 0);
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
    return dispatch_rows(ctx, BERTH_OP_ROPE, operands, count, ALL_ROWS, &params, sizeof params);
}

/// The scale of scores: 0 means 1 / sqrt(head size).
static float scale_for(const berth_tensor* q, float scale) {
    const berth_tensor* plain = berth_untag(q);
    if (scale != 0 || plain == NULL || plain->rank < 3 || plain->dims[plain->rank - 1] <= 0)
        return scale;
    return (float)(1.0 / sqrt((double)plain->dims[plain->rank - 1]));
}

berth_tensor* berth_attention(berth_context* ctx,
                              berth_tensor* q,
                              berth_tensor* k,
                              berth_tensor* v,
                              berth_tensor* mask,
                              float scale,
                              bool causal,
                              int64_t query_offset) {
    berth_attention_params params = {
        .scale = scale_for(q, scale), .causal = causal, .query_offset = query_offset};
    berth_tensor* const operands[4] = {q, k, v, mask};
    const uint32_t count = mask == NULL ? 3 : 4;
    return dispatch_rows(ctx, BERTH_OP_ATTENTION, operands, count, 7u, &params, sizeof params);
}

// Blocks are never copied: they may be most of memory, and not all there.
enum { PAGED_ROWS = 1 << 0 | 1 << 5 | 1 << 6 }; // q, and new keys and values

berth_tensor* berth_paged_attention(berth_context* ctx,
                                    berth_tensor* q,
                                    berth_tensor* key_blocks,
                                    berth_tensor* value_blocks,
                                    berth_tensor* sequences,
                                    berth_tensor* blocks,
                                    float scale) {
    const berth_paged_attention_params params = {.scale = scale_for(q, scale)};
    berth_tensor* const operands[5] = {q, key_blocks, value_blocks, sequences, blocks};
    return dispatch_rows(
        ctx, BERTH_OP_PAGED_ATTENTION, operands, 5, PAGED_ROWS, &params, sizeof params);
}

berth_tensor* berth_dispatch_paged_attention(berth_context* ctx,
                                             berth_tensor* q,
                                             berth_tensor* k,
                                             berth_tensor* v,
                                             berth_tensor* key_blocks,
                                             berth_tensor* value_blocks,
                                             berth_tensor* sequences,
                                             berth_tensor* blocks,
                                             float scale) {
    const berth_paged_attention_params params = {.scale = scale_for(q, scale), .is_trusted = true};
    berth_tensor* const operands[7] = {q, key_blocks, value_blocks, sequences, blocks, k, v};
    const uint32_t count = k == NULL && v == NULL ? 5 : 7;
    return dispatch_rows(
        ctx, BERTH_OP_PAGED_ATTENTION, operands, count, PAGED_ROWS, &params, sizeof params);
}
