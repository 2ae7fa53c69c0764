// SPDX-License-Identifier: Apache-2.0
// Checks and shape rules of creation.
#include <inttypes.h>
#include <math.h>

#include "base/op_params.h"
#include "ops/infer.h"

berth_status berth_infer_fill(berth_op_call* call) {
    const berth_fill_params* params = call->params;
    return berth_infer_set_new(&call->outputs[0], params->dtype, params->rank, params->dims);
}

berth_status berth_infer_arange(berth_op_call* call) {
    const berth_arange_params* params = call->params;
    if (params->dtype == BERTH_BOOL)
        return berth_infer_refuse_dtype(params->dtype, "any float or integer type");
    return berth_infer_set_new(&call->outputs[0], params->dtype, 1, &params->count);
}

berth_status berth_infer_random(berth_op_call* call) {
    const berth_random_params* params = call->params;
    const berth_dtype dtype = (berth_dtype)params->dtype;
    if (!berth_dtype_is_float(dtype)) return berth_infer_refuse_dtype(dtype, "f32, f16 or bf16");
    if (!isfinite(params->low) || !isfinite(params->high))
        return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                             "a distribution of %g and %g is not finite",
                             (double)params->low,
                             (double)params->high);
    return berth_infer_set_new(&call->outputs[0], dtype, params->rank, params->dims);
}

berth_status berth_infer_rand(berth_op_call* call) {
    const berth_random_params* params = call->params;
    if (params->low > params->high)
        return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                             "there is no number in [%g, %g)",
                             (double)params->low,
                             (double)params->high);
    return berth_infer_random(call);
}

berth_status berth_infer_randint(berth_op_call* call) {
    const berth_randint_params* params = call->params;
    if (!berth_dtype_is_integer(params->dtype))
        return berth_infer_refuse_dtype(params->dtype, "i32, i64, i8 or u8");
    if (params->low >= params->high)
        return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                             "there is no integer in [%" PRId64 ", %" PRId64 ")",
                             params->low,
                             params->high);
    if (params->low < berth_dtype_lowest(params->dtype) ||
        params->high - 1 > berth_dtype_highest(params->dtype))
        return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                             "[%" PRId64 ", %" PRId64 ") does not fit %s",
                             params->low,
                             params->high,
                             berth_dtype_info_of(params->dtype)->name);
    return berth_infer_set_new(&call->outputs[0], params->dtype, params->rank, params->dims);
}
