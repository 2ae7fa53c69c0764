// SPDX-License-Identifier: Apache-2.0
// Checks and shape rules of ops on two operands, of where and clamp.
#include <inttypes.h>
#include <math.h>

#include "base/error.h"
#include "base/op_params.h"
#include "ops/infer.h"
#include "ops/promote.h"

static berth_status check_plain(const berth_op_call* call) {
    for (uint32_t i = 0; i < call->input_count; ++i)
        BERTH_TRY(berth_infer_check_plain(&call->inputs[i]));
    return BERTH_OK;
}

/// Gives output 0 the shape that operands `first` and `first` + 1 broadcast to.
static berth_status broadcast(berth_op_call* call, uint32_t first) {
    return berth_infer_broadcast(&call->inputs[first], &call->inputs[first + 1], &call->outputs[0]);
}

berth_status berth_infer_binary(berth_op_call* call) {
    BERTH_TRY(check_plain(call));
    call->outputs[0].dtype = berth_promote(&call->inputs[0], &call->inputs[1]);
    return broadcast(call, 0);
}

berth_status berth_infer_arithmetic(berth_op_call* call) {
    BERTH_TRY(berth_infer_binary(call));
    if (call->outputs[0].dtype == BERTH_BOOL)
        return berth_infer_refuse_dtype(BERTH_BOOL, "one operand must be of a number type");
    return BERTH_OK;
}

berth_status berth_infer_div(berth_op_call* call) {
    BERTH_TRY(berth_infer_binary(call));
    call->outputs[0].dtype = berth_promote_to_float(call->outputs[0].dtype);
    return BERTH_OK;
}

berth_status berth_infer_predicate(berth_op_call* call) {
    BERTH_TRY(check_plain(call));
    call->outputs[0].dtype = BERTH_BOOL;
    return broadcast(call, 0);
}

berth_status berth_infer_where(berth_op_call* call) {
    BERTH_TRY(check_plain(call));
    BERTH_TRY(broadcast(call, 1));
    const berth_view* condition = &call->inputs[0];
    berth_view* out = &call->outputs[0];
    const berth_view sides = *out;
    BERTH_TRY(berth_infer_broadcast(condition, &sides, out));
    out->dtype = berth_promote(&call->inputs[1], &call->inputs[2]);
    return BERTH_OK;
}

berth_status berth_infer_clamp(berth_op_call* call) {
    const berth_clamp_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    BERTH_TRY(berth_infer_check_number(x));
    if (!berth_dtype_is_float(x->dtype) && (isnan(params->low) || isnan(params->high)))
        return berth_infer_invalid("a bound of integers is NaN");
    berth_infer_set_like(&call->outputs[0], x);
    return BERTH_OK;
}

berth_status berth_infer_outer(berth_op_call* call) {
    BERTH_TRY(check_plain(call));
    for (uint32_t i = 0; i < 2; ++i)
        if (call->inputs[i].rank != 1)
            return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                                 "operand %" PRIu32 " has %d dimensions, 1 is needed",
                                 i,
                                 (int)call->inputs[i].rank);
    const int64_t dims[2] = {call->inputs[0].dims[0], call->inputs[1].dims[0]};
    const berth_dtype dtype = berth_promote(&call->inputs[0], &call->inputs[1]);
    berth_infer_set_shape(&call->outputs[0], dtype, 2, dims);
    return BERTH_OK;
}
