// SPDX-License-Identifier: Apache-2.0
// Checks and shape rules of creation.
#include <math.h>

#include "base/op_params.h"
#include "ops/infer.h"

berth_status berth_infer_fill(berth_op_call* call) {
    const berth_fill_params* params = call->params;
    return berth_infer_set_new(&call->outputs[0], params->dtype, params->rank, params->dims);
}

berth_status berth_infer_arange(berth_op_call* call) {
    const berth_arange_params* params = call->params;
    if (params->dtype != BERTH_F32 && params->dtype != BERTH_I32 && params->dtype != BERTH_I64)
        return berth_op_fail(BERTH_ERR_UNSUPPORTED, "the type must be f32, i32 or i64");
    return berth_infer_set_new(&call->outputs[0], params->dtype, 1, &params->count);
}

berth_status berth_infer_random(berth_op_call* call) {
    const berth_random_params* params = call->params;
    const berth_dtype dtype = (berth_dtype)params->dtype;
    if (berth_dtype_query_info(dtype) == NULL || !berth_dtype_is_float(dtype))
        return berth_op_fail(BERTH_ERR_UNSUPPORTED, "the type must be f32, f16 or bf16");
    if (!isfinite(params->low) || !isfinite(params->high))
        return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT, "the distribution is not finite");
    return berth_infer_set_new(&call->outputs[0], dtype, params->rank, params->dims);
}
