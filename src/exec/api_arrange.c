// SPDX-License-Identifier: Apache-2.0
// The public ops that lay elements out anew.
#include <string.h>

#include "base/error.h"
#include "exec/api.h"
#include "ops/infer.h"

berth_tensor* berth_copy(berth_context* ctx, berth_tensor* x) {
    return berth_api_dispatch_one(ctx, BERTH_OP_COPY, x);
}

// --- Joining -------------------------------------------------------------------------------------

/// How many of `operands` [i + 1] are operand i, moved.
static uint32_t count_moves(berth_tensor* const* operands, size_t i) {
    uint32_t count = 0;
    for (size_t j = 0; j <= i; ++j)
        count += operands[j] == operands[i];
    return count;
}

/// Checks all the tensors, and finds type and size of the whole.
static berth_status measure_joined(berth_tensor* const* tensors,
                                   size_t count,
                                   bool is_stack,
                                   berth_join_params* params) {
    berth_view out = {0}, view;
    for (size_t i = 0; i < count; ++i) {
        const berth_tensor* x = berth_untag(tensors[i]);
        if (x == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "operand %zu is NULL", i);
        if (berth_is_moved(tensors[i]) &&
            count_moves(tensors, i) > atomic_load_explicit(&x->refs, memory_order_acquire))
            return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                              "operand %zu is moved more often than it is referenced",
                              i);
        berth_infer_set_shape(&view, (berth_dtype)x->dtype, x->rank, x->dims);
        BERTH_TRY(berth_infer_join(&out, &view, i, params->dim, is_stack));
    }
    params->dtype = out.dtype;
    params->total = out.dims[params->dim];
    return BERTH_OK;
}

/// Places that a tensor takes along the joined dimension.
static int64_t places(const berth_tensor* x, const berth_join_params* params, bool is_stack) {
    return is_stack ? 1 : x->dims[params->dim];
}

/// More tensors than one op takes: the first ones in a result that has room for all, into which the
/// others are put group by group. Operands are borrowed; their references end at the end.
static berth_tensor* join_groups(berth_context* ctx,
                                 berth_tensor* const* tensors,
                                 size_t count,
                                 bool is_stack,
                                 berth_join_params params) {
    const berth_status status = measure_joined(tensors, count, is_stack, &params);
    if (status != BERTH_OK)
        return berth_api_refuse(ctx, status, is_stack ? "stack" : "cat", tensors, count);
    berth_op_id op = is_stack ? BERTH_OP_STACK : BERTH_OP_CAT;
    berth_tensor* out = NULL;
    for (size_t at = 0; at < count && (at == 0 || out != NULL);) {
        berth_tensor* group[BERTH_OP_MAX_INPUTS] = {berth_move(out)};
        uint32_t size = at > 0 ? 1 : 0;
        int64_t end = params.begin;
        for (; at < count && size < BERTH_OP_MAX_INPUTS; ++at) {
            group[size] = berth_untag(tensors[at]);
            end += places(group[size++], &params, is_stack);
        }
        out = berth_dispatch(ctx, op, group, size, &params, sizeof params);
        params.begin = end;
        op = is_stack ? BERTH_OP_STACK_MORE : BERTH_OP_CAT_MORE;
    }
    berth_context_consume_moved(ctx, tensors, count);
    return out;
}

static berth_tensor* join(
    berth_context* ctx, berth_tensor* const* tensors, size_t count, int32_t dim, bool is_stack) {
    if (ctx == NULL || berth_home_is_forked(&ctx->home)) return NULL;
    if (tensors == NULL || count < 1)
        return berth_api_refuse(ctx,
                                berth_fail(BERTH_ERR_INVALID_ARGUMENT, "there are no tensors"),
                                is_stack ? "stack" : "cat",
                                NULL,
                                0);
    berth_join_params params = {.dim = dim, .total = -1};
    const berth_tensor* first = berth_untag(tensors[0]);
    if (first != NULL) (void)berth_shape_normalize_dim(first->rank + is_stack, &params.dim);
    if (count > BERTH_OP_MAX_INPUTS) return join_groups(ctx, tensors, count, is_stack, params);
    const berth_op_id op = is_stack ? BERTH_OP_STACK : BERTH_OP_CAT;
    return berth_dispatch(ctx, op, tensors, (uint32_t)count, &params, sizeof params);
}

berth_tensor* berth_cat(berth_context* ctx,
                        berth_tensor* const* tensors,
                        size_t count,
                        int32_t dim) {
    return join(ctx, tensors, count, dim, false);
}

berth_tensor* berth_stack(berth_context* ctx,
                          berth_tensor* const* tensors,
                          size_t count,
                          int32_t dim) {
    return join(ctx, tensors, count, dim, true);
}

// --- One operand ---------------------------------------------------------------------------------

berth_tensor* berth_roll(berth_context* ctx, berth_tensor* x, int64_t shift, int32_t dim) {
    const berth_roll_params params = {.shift = shift, .dim = berth_api_normalize_dim(x, 0, dim)};
    return berth_dispatch(ctx, BERTH_OP_ROLL, &x, 1, &params, sizeof params);
}

berth_tensor* berth_repeat(berth_context* ctx,
                           berth_tensor* x,
                           int32_t rank,
                           const int64_t* times) {
    if (ctx == NULL || berth_home_is_forked(&ctx->home)) return NULL;
    if (rank < 0 || rank > BERTH_MAX_RANK || (rank > 0 && times == NULL))
        return berth_api_refuse(ctx,
                                berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                                           "rank %d with its numbers of times is needed, 0 .. %d",
                                           (int)rank,
                                           BERTH_MAX_RANK),
                                "repeat",
                                &x,
                                1);
    berth_repeat_params params = {.rank = rank};
    if (rank > 0) memcpy(params.times, times, (size_t)rank * sizeof *times);
    return berth_dispatch(ctx, BERTH_OP_REPEAT, &x, 1, &params, sizeof params);
}

berth_tensor* berth_pad(
    berth_context* ctx, berth_tensor* x, int32_t pad_count, const int64_t* pads, double value) {
    if (ctx == NULL || berth_home_is_forked(&ctx->home)) return NULL;
    const berth_tensor* plain = berth_untag(x);
    const int32_t rank = plain != NULL ? plain->rank : 0;
    berth_pad_params params = {.value = value};
    if (plain != NULL && (pad_count < 0 || pad_count % 2 != 0 || pad_count > 2 * rank ||
                          (pad_count > 0 && pads == NULL)))
        return berth_api_refuse(ctx,
                                berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                                           "%d pads: pairs for up to %d dimensions are needed",
                                           (int)pad_count,
                                           (int)rank),
                                "pad",
                                &x,
                                1);
    for (int32_t i = 0; plain != NULL && i < pad_count; ++i)
        params.pads[rank - 1 - i / 2][i % 2] = pads[i];
    return berth_dispatch(ctx, BERTH_OP_PAD, &x, 1, &params, sizeof params);
}

berth_tensor* berth_tril(berth_context* ctx, berth_tensor* x, int64_t diagonal) {
    const berth_triangle_params params = {.diagonal = diagonal};
    return berth_dispatch(ctx, BERTH_OP_TRIL, &x, 1, &params, sizeof params);
}

berth_tensor* berth_triu(berth_context* ctx, berth_tensor* x, int64_t diagonal) {
    const berth_triangle_params params = {.diagonal = diagonal};
    return berth_dispatch(ctx, BERTH_OP_TRIU, &x, 1, &params, sizeof params);
}
