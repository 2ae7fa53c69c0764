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

berth_status berth_infer_any_unary(berth_op_call* call) {
    BERTH_TRY(berth_infer_check_plain(&call->inputs[0]));
    return berth_infer_copy(call);
}

berth_status berth_infer_cast(berth_op_call* call) {
    const berth_cast_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    if (berth_dtype_query_info(params->dtype) == NULL)
        return berth_op_fail(
            BERTH_ERR_INVALID_ARGUMENT, "%d is no element type", (int)params->dtype);
    if (!berth_dtype_is_plain(params->dtype))
        return berth_infer_refuse_dtype(params->dtype, "the target must be a plain type");
    if (!berth_dtype_is_plain(x->dtype) && !berth_dtype_is_float(params->dtype))
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
    BERTH_TRY(berth_infer_check_number(&call->inputs[0]));
    return berth_infer_copy(call);
}

berth_status berth_infer_test(berth_op_call* call) {
    BERTH_TRY(berth_infer_any_unary(call));
    call->outputs[0].dtype = BERTH_BOOL;
    return BERTH_OK;
}
