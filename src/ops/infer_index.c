// SPDX-License-Identifier: Apache-2.0
// Checks and shape rules of ops that join tensors and follow indices.
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

berth_status berth_infer_embedding(berth_op_call* call) {
    const berth_view* table = &call->inputs[0];
    const berth_view* ids = &call->inputs[1];
    const berth_dtype_kind kind = berth_dtype_info_of(table->dtype)->kind;
    if (kind != BERTH_DTYPE_KIND_F && kind != BERTH_DTYPE_KIND_Q)
        return berth_infer_unsupported("the table must be a float or a quantised type");
    if (table->rank != 2) return berth_infer_invalid("the table must be [rows, row length]");
    if (!berth_infer_has_dense_rows(table))
        return berth_infer_unsupported("the rows of the table must be contiguous");
    if (!berth_infer_is_index(ids)) return berth_infer_unsupported("ids must be i32 or i64");
    if (!berth_infer_is_dense(ids)) return berth_infer_unsupported("ids must be contiguous");
    if (ids->rank + 1 > BERTH_MAX_RANK)
        return berth_infer_invalid("the result has too many dimensions");
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
        return berth_infer_unsupported("x must have a plain type");
    if (params->dim < 0 || params->dim >= x->rank)
        return berth_op_fail(
            BERTH_ERR_INVALID_ARGUMENT, "there is no dimension %d", (int)params->dim);
    if (!berth_infer_is_index(index) || index->rank != 1)
        return berth_infer_invalid("index must be i32 or i64 [n]");
    if (!berth_infer_is_dense(index)) return berth_infer_unsupported("index must be contiguous");
    if (source->dtype != x->dtype || source->rank != x->rank)
        return berth_infer_invalid("x and the source differ in type or rank");
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
