// SPDX-License-Identifier: Apache-2.0
// Checks and shape rules of reductions.
#include <math.h>

#include "base/op_params.h"
#include "ops/infer.h"

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
        return berth_infer_refuse_dtype(x->dtype, "f32, f16, bf16, i32 or i64");
    return BERTH_OK;
}

berth_status berth_infer_sum(berth_op_call* call) {
    const berth_status status = check_summable(&call->inputs[0]);
    return status != BERTH_OK ? status : reduce(call, call->inputs[0].dtype, false);
}

berth_status berth_infer_mean(berth_op_call* call) {
    const berth_status status = berth_infer_check_float(&call->inputs[0]);
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
    const berth_status status = berth_infer_check_float(&call->inputs[0]);
    if (status != BERTH_OK) return status;
    if (params->dim < 0 || params->dim >= call->inputs[0].rank)
        return berth_op_fail(
            BERTH_ERR_INVALID_ARGUMENT, "there is no dimension %d", (int)params->dim);
    return berth_infer_copy(call);
}

berth_status berth_infer_rms_norm(berth_op_call* call) {
    const berth_view* x = &call->inputs[0];
    const berth_view* weight = &call->inputs[1];
    const berth_rms_norm_params* params = call->params;
    if (!berth_dtype_is_float(x->dtype))
        return berth_infer_unsupported("x must be f32, f16 or bf16");
    if (x->rank < 1) return berth_infer_invalid("x needs at least one dimension");
    if (!berth_infer_has_dense_rows(x))
        return berth_infer_unsupported("the last dimension of x must be contiguous");
    if (weight->rank != 1 || weight->dims[0] != x->dims[x->rank - 1])
        return berth_infer_invalid("weight must have one dimension, as long as the last of x");
    if (weight->dtype != BERTH_F32 && weight->dtype != x->dtype)
        return berth_infer_unsupported("weight must be f32 or have x's type");
    if (!berth_infer_is_dense(weight)) return berth_infer_unsupported("weight must be contiguous");
    if (!(params->eps >= 0) || !isfinite(params->eps))
        return berth_infer_invalid("eps must be finite and >= 0");
    berth_infer_set_like(&call->outputs[0], x);
    return BERTH_OK;
}
