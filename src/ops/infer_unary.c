// SPDX-License-Identifier: Apache-2.0
// Checks and shape rules of ops on one operand.
#include "base/error.h"
#include "base/op_params.h"
#include "ops/infer.h"
#include "ops/promote.h"

berth_status berth_infer_copy(berth_op_call* call) {
    berth_infer_set_like(&call->outputs[0], &call->inputs[0]);
    return BERTH_OK;
}

static berth_status check_plain(const berth_view* x) {
    if (!berth_dtype_is_plain(x->dtype))
        return berth_infer_refuse_dtype(x->dtype, "any plain type");
    return BERTH_OK;
}

berth_status berth_infer_any_unary(berth_op_call* call) {
    const berth_status status = check_plain(&call->inputs[0]);
    return status != BERTH_OK ? status : berth_infer_copy(call);
}

berth_status berth_infer_cast(berth_op_call* call) {
    const berth_cast_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    const berth_dtype_info* target = berth_dtype_query_info(params->dtype);
    if (target == NULL)
        return berth_op_fail(
            BERTH_ERR_INVALID_ARGUMENT, "%d is no element type", (int)params->dtype);
    if (target->kind == BERTH_DTYPE_KIND_Q)
        return berth_infer_refuse_dtype(params->dtype, "the target must be a plain type");
    if (berth_dtype_info_of(x->dtype)->kind == BERTH_DTYPE_KIND_Q &&
        !berth_dtype_is_float(params->dtype))
        return berth_infer_refuse_dtype(params->dtype,
                                        "a quantised tensor can be cast to f32, f16 or bf16");
    berth_infer_set_shape(&call->outputs[0], params->dtype, x->rank, x->dims);
    return BERTH_OK;
}

berth_status berth_infer_float_unary(berth_op_call* call) {
    BERTH_TRY(berth_infer_any_unary(call));
    call->outputs[0].dtype = berth_promote_to_float(call->inputs[0].dtype);
    return BERTH_OK;
}

berth_status berth_infer_number(berth_op_call* call) {
    const berth_dtype dtype = call->inputs[0].dtype;
    if (!berth_dtype_is_plain(dtype) || dtype == BERTH_BOOL)
        return berth_infer_refuse_dtype(dtype, "any float or integer type");
    return berth_infer_copy(call);
}

berth_status berth_infer_test(berth_op_call* call) {
    BERTH_TRY(berth_infer_any_unary(call));
    call->outputs[0].dtype = BERTH_BOOL;
    return BERTH_OK;
}
