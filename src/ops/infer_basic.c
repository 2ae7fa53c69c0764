// SPDX-License-Identifier: Apache-2.0
// Checks and shape rules of creation, conversion, elementwise ops and reductions.
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/op_params.h"
#include "ops/infer.h"
#include "tensor/shape.h"

static const char* dtype_name(berth_dtype dtype) { return berth_dtype_info_of(dtype)->name; }

static bool is_number(berth_dtype dtype) {
    const berth_dtype_kind kind = berth_dtype_info_of(dtype)->kind;
    return kind != BERTH_DTYPE_KIND_Q && kind != BERTH_DTYPE_KIND_B;
}

/// Refuses an operand's type with a sentence that says what would do.
static berth_status refuse_dtype(berth_dtype dtype, const char* accepted) {
    return berth_op_fail(
        BERTH_ERR_UNSUPPORTED, "%s is not accepted here: %s", dtype_name(dtype), accepted);
}

static void set_shape(berth_view* out, berth_dtype dtype, int32_t rank, const int64_t* dims) {
    out->dtype = dtype;
    out->rank = rank;
    if (rank > 0) memcpy(out->dims, dims, (size_t)rank * sizeof *dims);
}

/// Rank and sizes of a new tensor; the byte count is checked by the caller of the rule.
static berth_status set_checked(berth_view* out,
                                berth_dtype dtype,
                                int64_t rank,
                                const int64_t* dims) {
    const berth_dtype_info* info = berth_dtype_query_info(dtype);
    if (info == NULL)
        return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT, "%d is no element type", (int)dtype);
    if (info->kind == BERTH_DTYPE_KIND_Q)
        return refuse_dtype(dtype, "quantised tensors come from memory only");
    if (rank < 0 || rank > BERTH_MAX_RANK)
        return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                             "rank %" PRId64 " is outside 0 .. %d",
                             rank,
                             BERTH_MAX_RANK);
    set_shape(out, dtype, (int32_t)rank, dims);
    return BERTH_OK;
}

berth_status berth_infer_fill(berth_op_call* call) {
    const berth_fill_params* params = call->params;
    return set_checked(&call->outputs[0], params->dtype, params->rank, params->dims);
}

berth_status berth_infer_arange(berth_op_call* call) {
    const berth_arange_params* params = call->params;
    if (params->dtype != BERTH_F32 && params->dtype != BERTH_I32 && params->dtype != BERTH_I64)
        return berth_op_fail(BERTH_ERR_UNSUPPORTED, "the type must be f32, i32 or i64");
    return set_checked(&call->outputs[0], params->dtype, 1, &params->count);
}

berth_status berth_infer_random(berth_op_call* call) {
    const berth_random_params* params = call->params;
    const berth_dtype dtype = (berth_dtype)params->dtype;
    if (berth_dtype_query_info(dtype) == NULL || !berth_dtype_is_float(dtype))
        return berth_op_fail(BERTH_ERR_UNSUPPORTED, "the type must be f32, f16 or bf16");
    if (!isfinite(params->low) || !isfinite(params->high))
        return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT, "the distribution is not finite");
    return set_checked(&call->outputs[0], dtype, params->rank, params->dims);
}

berth_status berth_infer_copy(berth_op_call* call) {
    berth_infer_set_like(&call->outputs[0], &call->inputs[0]);
    return BERTH_OK;
}

berth_status berth_infer_any_unary(berth_op_call* call) {
    if (berth_dtype_info_of(call->inputs[0].dtype)->kind == BERTH_DTYPE_KIND_Q)
        return refuse_dtype(call->inputs[0].dtype, "any plain type");
    return berth_infer_copy(call);
}

berth_status berth_infer_cast(berth_op_call* call) {
    const berth_cast_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    const berth_dtype_info* target = berth_dtype_query_info(params->dtype);
    if (target == NULL)
        return berth_op_fail(
            BERTH_ERR_INVALID_ARGUMENT, "%d is no element type", (int)params->dtype);
    if (target->kind == BERTH_DTYPE_KIND_Q)
        return refuse_dtype(params->dtype, "the target must be a plain type");
    if (berth_dtype_info_of(x->dtype)->kind == BERTH_DTYPE_KIND_Q &&
        !berth_dtype_is_float(params->dtype))
        return refuse_dtype(params->dtype, "a quantised tensor can be cast to f32, f16 or bf16");
    set_shape(&call->outputs[0], params->dtype, x->rank, x->dims);
    return BERTH_OK;
}

berth_status berth_infer_binary(berth_op_call* call) {
    const berth_view* a = &call->inputs[0];
    const berth_view* b = &call->inputs[1];
    if (!is_number(a->dtype)) return refuse_dtype(a->dtype, "f32, f16, bf16, i32, i64 or u8");
    if (a->dtype != b->dtype)
        return berth_op_fail(BERTH_ERR_UNSUPPORTED, "the operands must have one type; cast one");
    berth_view* out = &call->outputs[0];
    out->dtype = a->dtype;
    if (!berth_shape_broadcast(a->rank, a->dims, b->rank, b->dims, &out->rank, out->dims))
        return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT, "the shapes do not broadcast");
    return BERTH_OK;
}

static berth_status check_float(const berth_view* x) {
    if (!berth_dtype_is_float(x->dtype)) return refuse_dtype(x->dtype, "f32, f16 or bf16");
    return BERTH_OK;
}

berth_status berth_infer_div(berth_op_call* call) {
    const berth_status status = check_float(&call->inputs[0]);
    return status != BERTH_OK ? status : berth_infer_binary(call);
}

berth_status berth_infer_float_unary(berth_op_call* call) {
    const berth_status status = check_float(&call->inputs[0]);
    return status != BERTH_OK ? status : berth_infer_copy(call);
}

berth_status berth_infer_neg(berth_op_call* call) {
    const berth_dtype dtype = call->inputs[0].dtype;
    if (!berth_dtype_is_float(dtype) && dtype != BERTH_I32 && dtype != BERTH_I64)
        return refuse_dtype(dtype, "f32, f16, bf16, i32 or i64");
    return berth_infer_copy(call);
}

/// The shape of x without dimension `dim`, or with size 1 there.
static berth_status reduce(berth_op_call* call, berth_dtype out_dtype, bool refuse_empty) {
    const berth_reduce_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    if (params->dim < 0 || params->dim >= x->rank)
        return berth_op_fail(
            BERTH_ERR_INVALID_ARGUMENT, "there is no dimension %d to reduce", (int)params->dim);
    if (refuse_empty && x->dims[params->dim] == 0)
        return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT, "the reduced dimension is empty");
    berth_view* out = &call->outputs[0];
    out->dtype = out_dtype;
    out->rank = 0;
    for (int32_t i = 0; i < x->rank; ++i) {
        if (i != params->dim) {
            out->dims[out->rank++] = x->dims[i];
        } else if (params->keepdim) {
            out->dims[out->rank++] = 1;
        }
    }
    return BERTH_OK;
}

static berth_status check_summable(const berth_view* x) {
    if (!berth_dtype_is_float(x->dtype) && x->dtype != BERTH_I32 && x->dtype != BERTH_I64)
        return refuse_dtype(x->dtype, "f32, f16, bf16, i32 or i64");
    return BERTH_OK;
}

berth_status berth_infer_sum(berth_op_call* call) {
    const berth_status status = check_summable(&call->inputs[0]);
    return status != BERTH_OK ? status : reduce(call, call->inputs[0].dtype, false);
}

berth_status berth_infer_mean(berth_op_call* call) {
    const berth_status status = check_float(&call->inputs[0]);
    return status != BERTH_OK ? status : reduce(call, call->inputs[0].dtype, false);
}

berth_status berth_infer_max(berth_op_call* call) {
    const berth_status status = check_summable(&call->inputs[0]);
    return status != BERTH_OK ? status : reduce(call, call->inputs[0].dtype, true);
}

berth_status berth_infer_argmax(berth_op_call* call) {
    const berth_status status = check_summable(&call->inputs[0]);
    return status != BERTH_OK ? status : reduce(call, BERTH_I64, true);
}

berth_status berth_infer_softmax(berth_op_call* call) {
    const berth_reduce_params* params = call->params;
    const berth_status status = check_float(&call->inputs[0]);
    if (status != BERTH_OK) return status;
    if (params->dim < 0 || params->dim >= call->inputs[0].rank)
        return berth_op_fail(
            BERTH_ERR_INVALID_ARGUMENT, "there is no dimension %d", (int)params->dim);
    return berth_infer_copy(call);
}

/// All operands of one type and rank, equal but along one dimension.
berth_status berth_infer_cat(berth_op_call* call) {
    const berth_cat_params* params = call->params;
    const berth_view* first = &call->inputs[0];
    if (berth_dtype_info_of(first->dtype)->kind == BERTH_DTYPE_KIND_Q)
        return refuse_dtype(first->dtype, "any plain type");
    if (params->dim < 0 || params->dim >= first->rank)
        return berth_op_fail(
            BERTH_ERR_INVALID_ARGUMENT, "there is no dimension %d", (int)params->dim);
    berth_view* out = &call->outputs[0];
    berth_infer_set_like(out, first);
    for (uint32_t i = 1; i < call->input_count; ++i) {
        const berth_view* x = &call->inputs[i];
        if (x->dtype != first->dtype || x->rank != first->rank)
            return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                                 "operand %" PRIu32 " differs in type or rank from the first",
                                 i);
        for (int32_t d = 0; d < x->rank; ++d) {
            if (d != params->dim && x->dims[d] != first->dims[d])
                return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                                     "operand %" PRIu32 " differs in dimension %d from the first",
                                     i,
                                     (int)d);
        }
        if (!berth_add_i64(out->dims[params->dim], x->dims[params->dim], &out->dims[params->dim]))
            return berth_op_fail(BERTH_ERR_OVERFLOW, "the joined dimension does not fit 63 bits");
    }
    return BERTH_OK;
}
