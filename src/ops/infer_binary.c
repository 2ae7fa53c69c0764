// SPDX-License-Identifier: Apache-2.0
// Checks and shape rules of ops on two operands.
#include "ops/infer.h"
#include "tensor/shape.h"

static bool is_number(berth_dtype dtype) {
    const berth_dtype_kind kind = berth_dtype_info_of(dtype)->kind;
    return kind != BERTH_DTYPE_KIND_Q && kind != BERTH_DTYPE_KIND_B;
}

berth_status berth_infer_binary(berth_op_call* call) {
    const berth_view* a = &call->inputs[0];
    const berth_view* b = &call->inputs[1];
    if (!is_number(a->dtype))
        return berth_infer_refuse_dtype(a->dtype, "f32, f16, bf16, i32, i64 or u8");
    if (a->dtype != b->dtype)
        return berth_op_fail(BERTH_ERR_UNSUPPORTED, "the operands must have one type; cast one");
    berth_view* out = &call->outputs[0];
    out->dtype = a->dtype;
    if (!berth_shape_broadcast(a->rank, a->dims, b->rank, b->dims, &out->rank, out->dims))
        return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT, "the shapes do not broadcast");
    return BERTH_OK;
}

berth_status berth_infer_div(berth_op_call* call) {
    const berth_status status = berth_infer_check_float(&call->inputs[0]);
    return status != BERTH_OK ? status : berth_infer_binary(call);
}
