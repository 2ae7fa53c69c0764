// SPDX-License-Identifier: Apache-2.0
// Checks and shape rules of the ops that models are made of.
#include <inttypes.h>
#include <math.h>

#include "base/op_params.h"
#include "ops/infer.h"
#include "tensor/shape.h"

static bool is_index(const berth_view* x) { return x->dtype == BERTH_I32 || x->dtype == BERTH_I64; }

static berth_status invalid(const char* text) {
    return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT, "%s", text);
}

static berth_status unsupported(const char* text) {
    return berth_op_fail(BERTH_ERR_UNSUPPORTED, "%s", text);
}

/// True if the elements of each row, along the last dimension, lie side by side.
static bool has_dense_rows(const berth_view* x) {
    return x->rank == 0 || x->dims[x->rank - 1] <= 1 || x->strides[x->rank - 1] == 1;
}

static bool is_dense(const berth_view* x) {
    return berth_shape_is_dense(x->dtype, x->rank, x->dims, x->strides);
}

berth_status berth_infer_rms_norm(berth_op_call* call) {
    const berth_view* x = &call->inputs[0];
    const berth_view* weight = &call->inputs[1];
    const berth_rms_norm_params* params = call->params;
    if (!berth_dtype_is_float(x->dtype)) return unsupported("x must be f32, f16 or bf16");
    if (x->rank < 1) return invalid("x needs at least one dimension");
    if (!has_dense_rows(x)) return unsupported("the last dimension of x must be contiguous");
    if (weight->rank != 1 || weight->dims[0] != x->dims[x->rank - 1])
        return invalid("weight must have one dimension, as long as the last of x");
    if (weight->dtype != BERTH_F32 && weight->dtype != x->dtype)
        return unsupported("weight must be f32 or have x's type");
    if (!is_dense(weight)) return unsupported("weight must be contiguous");
    if (!(params->eps >= 0) || !isfinite(params->eps))
        return invalid("eps must be finite and >= 0");
    berth_infer_set_like(&call->outputs[0], x);
    return BERTH_OK;
}

berth_status berth_infer_matmul(berth_op_call* call) {
    const berth_view* a = &call->inputs[0];
    const berth_view* b = &call->inputs[1];
    if (!berth_dtype_is_float(a->dtype) || a->dtype != b->dtype)
        return unsupported("both operands must have one type of f32, f16 and bf16");
    if (a->rank < 2 || b->rank < 2) return invalid("both operands need at least two dimensions");
    if (a->dims[a->rank - 1] != b->dims[b->rank - 2]) return invalid("the inner dimensions differ");
    berth_view* out = &call->outputs[0];
    if (!berth_shape_broadcast(a->rank - 2, a->dims, b->rank - 2, b->dims, &out->rank, out->dims))
        return invalid("the leading dimensions do not broadcast");
    out->dtype = a->dtype;
    out->dims[out->rank++] = a->dims[a->rank - 2];
    out->dims[out->rank++] = b->dims[b->rank - 1];
    return BERTH_OK;
}

berth_status berth_infer_linear(berth_op_call* call) {
    const berth_view* x = &call->inputs[0];
    const berth_view* weight = &call->inputs[1];
    if (!berth_dtype_is_float(x->dtype)) return unsupported("x must be f32, f16 or bf16");
    if (x->rank < 1) return invalid("x needs at least one dimension");
    if (!has_dense_rows(x)) return unsupported("the last dimension of x must be contiguous");
    const berth_dtype_kind kind = berth_dtype_info_of(weight->dtype)->kind;
    if (kind != BERTH_DTYPE_KIND_F && kind != BERTH_DTYPE_KIND_Q)
        return unsupported("weight must be a float or a quantised type");
    if (weight->rank != 2) return invalid("weight must be [outputs, inputs]");
    if (weight->dims[1] != x->dims[x->rank - 1])
        return invalid("the last dimensions of x and weight differ");
    if (!has_dense_rows(weight)) return unsupported("the rows of weight must be contiguous");
    if (call->input_count == 3) {
        const berth_view* bias = &call->inputs[2];
        if (bias->dtype != BERTH_F32 || bias->rank != 1 || bias->dims[0] != weight->dims[0])
            return invalid("bias must be f32 [outputs]");
        if (!is_dense(bias)) return unsupported("bias must be contiguous");
    }
    berth_infer_set_like(&call->outputs[0], x);
    call->outputs[0].dims[x->rank - 1] = weight->dims[0];
    return BERTH_OK;
}

berth_status berth_infer_rope(berth_op_call* call) {
    const berth_view* x = &call->inputs[0];
    const berth_view* positions = &call->inputs[1];
    const berth_rope_params* params = call->params;
    if (!berth_dtype_is_float(x->dtype)) return unsupported("x must be f32, f16 or bf16");
    if (x->rank != 3) return invalid("x must be [tokens, heads, head size]");
    if (!has_dense_rows(x)) return unsupported("the last dimension of x must be contiguous");
    if (!is_index(positions) || positions->rank != 1 || positions->dims[0] != x->dims[0])
        return invalid("positions must be i32 or i64 [tokens]");
    if (!is_dense(positions)) return unsupported("positions must be contiguous");
    if (params->rotary_dims < 0 || params->rotary_dims % 2 != 0 || params->rotary_dims > x->dims[2])
        return invalid("the rotated dimensions must be even and at most the head size");
    if (!(params->base > 0) || !isfinite(params->base) || !isfinite(params->position_scale))
        return invalid("base must be positive and finite, the position scale finite");
    if (call->input_count == 3) {
        const berth_view* divisors = &call->inputs[2];
        if (divisors->dtype != BERTH_F32 || divisors->rank != 1 ||
            divisors->dims[0] != params->rotary_dims / 2)
            return invalid("divisors must be f32 [rotated dimensions / 2]");
        if (!is_dense(divisors)) return unsupported("divisors must be contiguous");
    }
    berth_infer_set_like(&call->outputs[0], x);
    return BERTH_OK;
}

berth_status berth_infer_attention(berth_op_call* call) {
    const berth_view* q = &call->inputs[0];
    const berth_view* k = &call->inputs[1];
    const berth_view* v = &call->inputs[2];
    const berth_attention_params* params = call->params;
    if (!berth_dtype_is_float(q->dtype) || !berth_dtype_is_float(k->dtype) || k->dtype != v->dtype)
        return unsupported("q must be a float type, k and v one float type");
    if (q->rank != 3 || k->rank != 3 || v->rank != 3)
        return invalid("q, k and v must be [tokens, heads, head size]");
    if (k->dims[0] != v->dims[0] || k->dims[1] != v->dims[1])
        return invalid("k and v differ in tokens or heads");
    if (k->dims[2] != q->dims[2]) return invalid("q and k differ in head size");
    if (k->dims[1] < 1 || q->dims[1] % k->dims[1] != 0)
        return invalid("the heads of q must be a multiple of those of k");
    if (!has_dense_rows(q) || !has_dense_rows(k) || !has_dense_rows(v))
        return unsupported("the last dimensions must be contiguous");
    if (params->query_offset < 0) return invalid("the query offset is negative");
    if (!isfinite(params->scale)) return invalid("the scale is not finite");
    berth_view* out = &call->outputs[0];
    berth_infer_set_like(out, q);
    out->dims[2] = v->dims[2];
    return BERTH_OK;
}

berth_status berth_infer_embedding(berth_op_call* call) {
    const berth_view* table = &call->inputs[0];
    const berth_view* ids = &call->inputs[1];
    const berth_dtype_kind kind = berth_dtype_info_of(table->dtype)->kind;
    if (kind != BERTH_DTYPE_KIND_F && kind != BERTH_DTYPE_KIND_Q)
        return unsupported("the table must be a float or a quantised type");
    if (table->rank != 2) return invalid("the table must be [rows, row length]");
    if (!has_dense_rows(table)) return unsupported("the rows of the table must be contiguous");
    if (!is_index(ids)) return unsupported("ids must be i32 or i64");
    if (!is_dense(ids)) return unsupported("ids must be contiguous");
    if (ids->rank + 1 > BERTH_MAX_RANK) return invalid("the result has too many dimensions");
    berth_view* out = &call->outputs[0];
    berth_infer_set_like(out, ids);
    out->dtype = kind == BERTH_DTYPE_KIND_Q ? BERTH_F32 : table->dtype;
    out->dims[out->rank++] = table->dims[1];
    return BERTH_OK;
}

berth_status berth_infer_index_copy(berth_op_call* call) {
    const berth_view* x = &call->inputs[0];
    const berth_view* index = &call->inputs[1];
    const berth_view* source = &call->inputs[2];
    const berth_index_copy_params* params = call->params;
    if (berth_dtype_info_of(x->dtype)->kind == BERTH_DTYPE_KIND_Q)
        return unsupported("x must have a plain type");
    if (params->dim < 0 || params->dim >= x->rank)
        return berth_op_fail(
            BERTH_ERR_INVALID_ARGUMENT, "there is no dimension %d", (int)params->dim);
    if (!is_index(index) || index->rank != 1) return invalid("index must be i32 or i64 [n]");
    if (!is_dense(index)) return unsupported("index must be contiguous");
    if (source->dtype != x->dtype || source->rank != x->rank)
        return invalid("x and the source differ in type or rank");
    for (int32_t d = 0; d < x->rank; ++d) {
        const int64_t expected = d == params->dim ? index->dims[0] : x->dims[d];
        if (source->dims[d] != expected)
            return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                                 "dimension %d of the source must be %" PRId64,
                                 (int)d,
                                 expected);
    }
    berth_infer_set_like(&call->outputs[0], x);
    return BERTH_OK;
}
