// SPDX-License-Identifier: Apache-2.0
// Checks and shape rules of the ops that models are made of.
#include <inttypes.h>
#include <math.h>

#include "base/error.h"
#include "base/op_params.h"
#include "ops/infer.h"
#include "tensor/shape.h"

berth_status berth_infer_matmul(berth_op_call* call) {
    const berth_view* a = &call->inputs[0];
    const berth_view* b = &call->inputs[1];
    BERTH_TRY(berth_infer_check_number(a));
    BERTH_TRY(berth_infer_check_number(b));
    if (a->dtype != b->dtype)
        return berth_infer_unsupported("both operands must have one type; cast one");
    if (a->rank < 1 || b->rank < 1)
        return berth_infer_invalid("both operands need at least one dimension");
    const int64_t inner_a = a->dims[a->rank - 1], inner_b = b->dims[b->rank > 1 ? b->rank - 2 : 0];
    if (inner_a != inner_b)
        return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                             "the inner dimensions differ: %" PRId64 " of a, %" PRId64 " of b",
                             inner_a,
                             inner_b);
    // a vector is a matrix of one row, or one column, which the result does not have
    berth_view* out = &call->outputs[0];
    const int32_t a_leading = a->rank > 2 ? a->rank - 2 : 0;
    const int32_t b_leading = b->rank > 2 ? b->rank - 2 : 0;
    if (!berth_shape_broadcast(a_leading, a->dims, b_leading, b->dims, &out->rank, out->dims))
        return berth_infer_invalid("the leading dimensions do not broadcast");
    out->dtype = a->dtype;
    if (a->rank > 1) out->dims[out->rank++] = a->dims[a->rank - 2];
    if (b->rank > 1) out->dims[out->rank++] = b->dims[b->rank - 1];
    return BERTH_OK;
}

static berth_status check_weight(const berth_view* weight, int64_t features) {
    if (berth_dtype_is_plain(weight->dtype) && !berth_dtype_is_float(weight->dtype))
        return berth_infer_unsupported("weight must be a float or a quantised type");
    if (weight->rank != 2) return berth_infer_invalid("weight must be [outputs, inputs]");
    if (weight->dims[1] != features)
        return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                             "weight is [outputs, inputs] and takes %" PRId64
                             " inputs, the last dimension of x is %" PRId64 "%s",
                             weight->dims[1],
                             features,
                             weight->dims[0] == features ? ": berth_transpose() weight" : "");
    if (!berth_infer_has_dense_rows(weight))
        return berth_infer_unsupported("the rows of weight must be contiguous");
    return BERTH_OK;
}

berth_status berth_infer_linear(berth_op_call* call) {
    const berth_view* x = &call->inputs[0];
    const berth_view* weight = &call->inputs[1];
    if (!berth_dtype_is_float(x->dtype))
        return berth_infer_unsupported("x must be f32, f16 or bf16");
    if (x->rank < 1) return berth_infer_invalid("x needs at least one dimension");
    if (!berth_infer_has_dense_rows(x))
        return berth_infer_unsupported("the last dimension of x must be contiguous");
    BERTH_TRY(check_weight(weight, x->dims[x->rank - 1]));
    if (call->input_count == 3) {
        const berth_view* bias = &call->inputs[2];
        if (bias->dtype != BERTH_F32 || bias->rank != 1 || bias->dims[0] != weight->dims[0])
            return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                                 "bias must be f32[%" PRId64 "], one for each output",
                                 weight->dims[0]);
        if (!berth_view_is_contiguous(bias))
            return berth_infer_unsupported("bias must be contiguous");
    }
    berth_infer_set_like(&call->outputs[0], x);
    call->outputs[0].dims[x->rank - 1] = weight->dims[0];
    return BERTH_OK;
}

/// One position a token; those of all batches, or of each.
static berth_status check_positions(const berth_view* positions, const berth_view* x) {
    const int32_t before = x->rank - 3; // batches
    const bool has_shape = (positions->rank == 1 && positions->dims[0] == x->dims[before]) ||
                           (before == 1 && positions->rank == 2 &&
                            positions->dims[0] == x->dims[0] && positions->dims[1] == x->dims[1]);
    if (!berth_infer_is_index(positions) || !has_shape)
        return berth_infer_invalid(
            before == 0 ? "positions must be i32 or i64 [tokens]"
                        : "positions must be i32 or i64 [tokens] or [batches, tokens]");
    if (!berth_infer_has_dense_rows(positions))
        return berth_infer_unsupported("the last dimension of positions must be contiguous");
    return BERTH_OK;
}

berth_status berth_infer_rope(berth_op_call* call) {
    const berth_view* x = &call->inputs[0];
    const berth_rope_params* params = call->params;
    if (!berth_dtype_is_float(x->dtype))
        return berth_infer_unsupported("x must be f32, f16 or bf16");
    if (x->rank != 3 && x->rank != 4)
        return berth_infer_invalid("x must be [tokens, heads, head size], or with a batch before");
    if (!berth_infer_has_dense_rows(x))
        return berth_infer_unsupported("the last dimension of x must be contiguous");
    BERTH_TRY(check_positions(&call->inputs[1], x));
    if (params->rotary_dims < 0 || params->rotary_dims % 2 != 0 ||
        params->rotary_dims > x->dims[x->rank - 1])
        return berth_infer_invalid("the rotated dimensions must be even and at most the head size");
    if (!(params->base > 0) || !isfinite(params->base) || !isfinite(params->position_scale))
        return berth_infer_invalid("base must be positive and finite, the position scale finite");
    if (call->input_count == 3) {
        const berth_view* divisors = &call->inputs[2];
        if (divisors->dtype != BERTH_F32 || divisors->rank != 1 ||
            divisors->dims[0] != params->rotary_dims / 2)
            return berth_infer_invalid("divisors must be f32 [rotated dimensions / 2]");
        if (!berth_view_is_contiguous(divisors))
            return berth_infer_unsupported("divisors must be contiguous");
    }
    berth_infer_set_like(&call->outputs[0], x);
    return BERTH_OK;
}

/// The mask broadcasts to [batches, heads, tokens, keys].
static berth_status check_mask(const berth_view* mask,
                               const int64_t* q,
                               const int64_t* k,
                               int32_t rank) {
    if (mask->dtype != BERTH_BOOL && !berth_dtype_is_float(mask->dtype))
        return berth_infer_unsupported("mask must be bool or a float type");
    const int64_t whole[4] = {rank == 4 ? q[-1] : 1, q[1], q[0], k[0]};
    if (mask->rank < 2 || mask->rank > rank)
        return berth_infer_invalid("mask must be [tokens, keys], with heads and batches before it");
    for (int32_t d = 0; d < mask->rank; ++d) {
        const int64_t wanted = whole[4 - mask->rank + d];
        if (mask->dims[d] != wanted && mask->dims[d] != 1)
            return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                                 "dimension %d of the mask must be %" PRId64 " or 1, not %" PRId64,
                                 (int)d,
                                 wanted,
                                 mask->dims[d]);
    }
    return BERTH_OK;
}

berth_status berth_infer_attention(berth_op_call* call) {
    const berth_view* q = &call->inputs[0];
    const berth_view* k = &call->inputs[1];
    const berth_view* v = &call->inputs[2];
    const berth_attention_params* params = call->params;
    if (!berth_dtype_is_float(q->dtype) || !berth_dtype_is_float(k->dtype) || k->dtype != v->dtype)
        return berth_infer_unsupported("q must be a float type, k and v one float type");
    if ((q->rank != 3 && q->rank != 4) || k->rank != q->rank || v->rank != q->rank)
        return berth_infer_invalid(
            "q, k and v must be [tokens, heads, head size], all with a batch before it or none");
    const int64_t* q_dims = q->dims + q->rank - 3;
    const int64_t* k_dims = k->dims + k->rank - 3;
    const int64_t* v_dims = v->dims + v->rank - 3;
    if (q->rank == 4 && (k->dims[0] != q->dims[0] || v->dims[0] != q->dims[0]))
        return berth_infer_invalid("q, k and v differ in batches");
    if (k_dims[0] != v_dims[0] || k_dims[1] != v_dims[1])
        return berth_infer_invalid("k and v differ in tokens or heads");
    if (k_dims[2] != q_dims[2]) return berth_infer_invalid("q and k differ in head size");
    if (k_dims[1] < 1 || q_dims[1] % k_dims[1] != 0)
        return berth_infer_invalid("the heads of q must be a multiple of those of k");
    if (!berth_infer_has_dense_rows(q) || !berth_infer_has_dense_rows(k) ||
        !berth_infer_has_dense_rows(v))
        return berth_infer_unsupported("the last dimensions must be contiguous");
    if (call->input_count == 4) BERTH_TRY(check_mask(&call->inputs[3], q_dims, k_dims, q->rank));
    if (params->query_offset < 0) return berth_infer_invalid("the query offset is negative");
    if (!isfinite(params->scale)) return berth_infer_invalid("the scale is not finite");
    berth_view* out = &call->outputs[0];
    berth_infer_set_like(out, q);
    out->dims[q->rank - 1] = v_dims[2];
    return BERTH_OK;
}

// --- Attention over blocks -----------------------------------------------------------------------

/// Key and value blocks: [blocks, keys, heads, head size].
static berth_status check_blocks(const berth_view* keys, const berth_view* values) {
    if ((!berth_dtype_is_float(keys->dtype) && keys->dtype != BERTH_Q8_0) ||
        keys->dtype != values->dtype)
        return berth_infer_unsupported("the blocks must be f32, f16, bf16 or q8_0, both the same");
    if (keys->rank != 4 || values->rank != 4)
        return berth_infer_invalid(
            "the blocks must be [blocks, keys of a block, heads, head size]");
    for (int32_t d = 0; d < 3; ++d)
        if (keys->dims[d] != values->dims[d])
            return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                                 "dimension %d is %" PRId64 " of the key blocks, %" PRId64
                                 " of the value blocks",
                                 (int)d,
                                 keys->dims[d],
                                 values->dims[d]);
    if (!berth_infer_has_dense_rows(keys) || !berth_infer_has_dense_rows(values))
        return berth_infer_unsupported("the last dimension of the blocks must be contiguous");
    return BERTH_OK;
}

/// Rows of new keys, or values, for `blocks`.
static berth_status check_new_rows(const berth_view* x, const berth_view* blocks) {
    if (!berth_dtype_is_float(x->dtype))
        return berth_infer_unsupported("new keys and values must be f32, f16 or bf16");
    if (x->rank != 3 || x->dims[1] != blocks->dims[2] || x->dims[2] != blocks->dims[3])
        return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                             "new keys and values must be [rows, %" PRId64 ", head size] as in the "
                             "blocks",
                             blocks->dims[2]);
    if (!berth_infer_has_dense_rows(x))
        return berth_infer_unsupported("the last dimension of new rows must be contiguous");
    return BERTH_OK;
}

/// Sizes that workspaces are computed from without a thought of overflow.
static berth_status check_sizes(const berth_view* q, const berth_view* keys, const berth_view* v) {
    const int64_t most = 65536;
    const int64_t sizes[] = {q->dims[1], q->dims[2], v->dims[3], keys->dims[1]};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
        if (sizes[i] > most)
            return berth_op_fail(BERTH_ERR_UNSUPPORTED,
                                 "%" PRId64 " heads, values of a head or keys of a block are more "
                                 "than %" PRId64,
                                 sizes[i],
                                 most);
    return BERTH_OK;
}

static berth_status check_tables(const berth_view* sequences,
                                 const berth_view* blocks,
                                 int64_t numbers) {
    if (sequences->dtype != BERTH_I32 || sequences->rank != 2 || sequences->dims[1] != numbers)
        return berth_op_fail(
            BERTH_ERR_INVALID_ARGUMENT, "sequences must be i32 [sequences, %" PRId64 "]", numbers);
    if (blocks->dtype != BERTH_I32 || blocks->rank != 1)
        return berth_infer_invalid("the table of blocks must be i32 [entries]");
    return BERTH_OK;
}

berth_status berth_infer_paged_attention(berth_op_call* call) {
    const berth_view* q = &call->inputs[0];
    const berth_view* keys = &call->inputs[1];
    const berth_view* values = &call->inputs[2];
    const berth_paged_attention_params* params = call->params;
    if (!berth_dtype_is_float(q->dtype))
        return berth_infer_unsupported("q must be f32, f16 or bf16");
    if (q->rank != 3) return berth_infer_invalid("q must be [tokens, heads, head size]");
    if (!berth_infer_has_dense_rows(q))
        return berth_infer_unsupported("the last dimension of q must be contiguous");
    BERTH_TRY(check_blocks(keys, values));
    if (keys->dims[3] != q->dims[2])
        return berth_infer_invalid("q and the key blocks differ in head size");
    if (keys->dims[2] < 1 || q->dims[1] % keys->dims[2] != 0)
        return berth_infer_invalid("the heads of q must be a multiple of those of the blocks");
    BERTH_TRY(check_sizes(q, keys, values));
    if (call->input_count == 6) return berth_infer_invalid("new keys need new values");
    const bool has_new = call->input_count == 7;
    BERTH_TRY(check_tables(&call->inputs[3], &call->inputs[4], has_new ? 6 : 4));
    if (has_new) {
        BERTH_TRY(check_new_rows(&call->inputs[5], keys));
        BERTH_TRY(check_new_rows(&call->inputs[6], values));
        if (call->inputs[5].dims[0] != call->inputs[6].dims[0])
            return berth_infer_invalid("new keys and values differ in rows");
    }
    if (!isfinite(params->scale)) return berth_infer_invalid("the scale is not finite");
    berth_view* out = &call->outputs[0];
    berth_infer_set_like(out, q);
    out->dims[2] = values->dims[3];
    return BERTH_OK;
}
