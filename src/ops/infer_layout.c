// SPDX-License-Identifier: Apache-2.0
// Checks and shape rules of ops that lay elements out anew.
#include <inttypes.h>

#include "base/checked.h"
#include "base/op_params.h"
#include "ops/infer.h"

/// All operands of one type and rank, equal but along one dimension.
berth_status berth_infer_cat(berth_op_call* call) {
    const berth_cat_params* params = call->params;
    const berth_view* first = &call->inputs[0];
    if (berth_dtype_info_of(first->dtype)->kind == BERTH_DTYPE_KIND_Q)
        return berth_infer_refuse_dtype(first->dtype, "any plain type");
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
