// SPDX-License-Identifier: Apache-2.0
// Checks and shape rules of ops that follow indices.
#include <inttypes.h>

#include "base/error.h"
#include "base/op_params.h"
#include "ops/infer.h"

/// x is of a plain type and has the dimension, the index is one.
static berth_status check_indexed(const berth_op_call* call) {
    const berth_index_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    if (!berth_dtype_is_plain(x->dtype))
        return berth_infer_refuse_dtype(x->dtype, "x must have a plain type");
    if (!berth_infer_is_index(&call->inputs[1]))
        return berth_infer_refuse_dtype(call->inputs[1].dtype, "the index must be i32 or i64");
    return berth_infer_check_dim(params->dim, x->rank);
}

/// The index has as many dimensions as x.
static berth_status check_same_rank(const berth_op_call* call) {
    if (call->inputs[0].rank == call->inputs[1].rank) return BERTH_OK;
    return berth_infer_invalid("the index must have as many dimensions as x");
}

static berth_status refuse_size(const char* what, int32_t dim, const char* how, int64_t size) {
    return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                         "dimension %d of the %s must be %s%" PRId64,
                         (int)dim,
                         what,
                         how,
                         size);
}

berth_status berth_infer_embedding(berth_op_call* call) {
    const berth_view* table = &call->inputs[0];
    const berth_view* ids = &call->inputs[1];
    if (table->rank != 2) return berth_infer_invalid("the table must be [rows, row length]");
    if (!berth_dtype_is_plain(table->dtype) && !berth_infer_has_dense_rows(table))
        return berth_infer_unsupported("the rows of a quantised table must be contiguous");
    if (!berth_infer_is_index(ids))
        return berth_infer_refuse_dtype(ids->dtype, "ids must be i32 or i64");
    if (ids->rank + 1 > BERTH_MAX_RANK)
        return berth_infer_invalid("the result has too many dimensions");
    berth_view* out = &call->outputs[0];
    berth_infer_set_like(out, ids);
    out->dtype = berth_dtype_is_plain(table->dtype) ? table->dtype : BERTH_F32;
    out->dims[out->rank++] = table->dims[1];
    return BERTH_OK;
}

berth_status berth_infer_gather(berth_op_call* call) {
    const berth_index_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    const berth_view* index = &call->inputs[1];
    BERTH_TRY(check_indexed(call));
    BERTH_TRY(check_same_rank(call));
    for (int32_t d = 0; d < x->rank; ++d)
        if (d != params->dim && index->dims[d] > x->dims[d])
            return refuse_size("index", d, "at most ", x->dims[d]);
    berth_infer_set_shape(&call->outputs[0], x->dtype, x->rank, index->dims);
    return BERTH_OK;
}

berth_status berth_infer_take_along(berth_op_call* call) {
    const berth_index_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    const berth_view* index = &call->inputs[1];
    berth_view* out = &call->outputs[0];
    BERTH_TRY(check_indexed(call));
    BERTH_TRY(check_same_rank(call));
    berth_infer_set_shape(out, x->dtype, x->rank, index->dims);
    for (int32_t d = 0; d < x->rank; ++d) {
        if (d == params->dim || x->dims[d] == 1) continue;
        if (index->dims[d] != x->dims[d] && index->dims[d] != 1)
            return refuse_size("index", d, "1 or ", x->dims[d]);
        out->dims[d] = x->dims[d];
    }
    return BERTH_OK;
}

berth_status berth_infer_index_select(berth_op_call* call) {
    const berth_index_params* params = call->params;
    const berth_view* index = &call->inputs[1];
    BERTH_TRY(check_indexed(call));
    if (index->rank != 1) return berth_infer_invalid("the index must be [n]");
    berth_infer_set_like(&call->outputs[0], &call->inputs[0]);
    call->outputs[0].dims[params->dim] = index->dims[0];
    return BERTH_OK;
}

/// The source of an update has x's type and as many dimensions.
static berth_status check_source(const berth_op_call* call) {
    const berth_view* x = &call->inputs[0];
    const berth_view* source = &call->inputs[2];
    if (source->dtype != x->dtype)
        return berth_infer_unsupported("x and the source must have one type; cast one");
    if (source->rank != x->rank)
        return berth_infer_invalid("the source must have as many dimensions as x");
    return BERTH_OK;
}

berth_status berth_infer_index_copy(berth_op_call* call) {
    const berth_index_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    const berth_view* index = &call->inputs[1];
    BERTH_TRY(check_indexed(call));
    if (index->rank != 1) return berth_infer_invalid("the index must be [n]");
    BERTH_TRY(check_source(call));
    for (int32_t d = 0; d < x->rank; ++d) {
        const int64_t expected = d == params->dim ? index->dims[0] : x->dims[d];
        if (call->inputs[2].dims[d] != expected) return refuse_size("source", d, "", expected);
    }
    berth_infer_set_like(&call->outputs[0], x);
    return BERTH_OK;
}

berth_status berth_infer_scatter(berth_op_call* call) {
    const berth_index_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    const berth_view* index = &call->inputs[1];
    const berth_view* source = &call->inputs[2];
    BERTH_TRY(check_indexed(call));
    BERTH_TRY(check_same_rank(call));
    BERTH_TRY(check_source(call));
    for (int32_t d = 0; d < x->rank; ++d) {
        if (d != params->dim && index->dims[d] > x->dims[d])
            return refuse_size("index", d, "at most ", x->dims[d]);
        if (index->dims[d] > source->dims[d])
            return refuse_size("source", d, "at least ", index->dims[d]);
    }
    berth_infer_set_like(&call->outputs[0], x);
    return BERTH_OK;
}
