// SPDX-License-Identifier: Apache-2.0
// Checks and shape rules of sorting, and of ops whose sizes depend on data.
#include <inttypes.h>

#include "base/error.h"
#include "base/op_params.h"
#include "ops/infer.h"

/// A scalar counts as one dimension of size 1.
static berth_status check_sortable(const berth_view* x, int32_t dim) {
    BERTH_TRY(berth_infer_check_dim(dim, x->rank > 0 ? x->rank : 1));
    return berth_infer_check_plain(x);
}

/// Gives output `index`, if it is asked for, i64 and the shape of `shape`.
static void set_indices(berth_op_call* call, uint32_t index, const berth_view* shape) {
    if (index < call->output_count)
        berth_infer_set_shape(&call->outputs[index], BERTH_I64, shape->rank, shape->dims);
}

berth_status berth_infer_sort(berth_op_call* call) {
    const berth_sort_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    BERTH_TRY(check_sortable(x, params->dim));
    berth_infer_set_like(&call->outputs[0], x);
    set_indices(call, 1, x);
    return BERTH_OK;
}

berth_status berth_infer_argsort(berth_op_call* call) {
    const berth_sort_params* params = call->params;
    BERTH_TRY(check_sortable(&call->inputs[0], params->dim));
    set_indices(call, 0, &call->inputs[0]);
    return BERTH_OK;
}

berth_status berth_infer_topk(berth_op_call* call) {
    const berth_topk_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    BERTH_TRY(check_sortable(x, params->dim));
    const int64_t size = x->rank > 0 ? x->dims[params->dim] : 1;
    if (params->k < 0 || params->k > size)
        return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                             "k is %" PRId64 ", of %" PRId64 " elements along dimension %d",
                             params->k,
                             size,
                             (int)params->dim);
    if (x->rank == 0 && params->k != 1) return berth_infer_invalid("k of a scalar must be 1");
    berth_view* out = &call->outputs[0];
    berth_infer_set_like(out, x);
    if (x->rank > 0) out->dims[params->dim] = params->k;
    set_indices(call, 1, out);
    return BERTH_OK;
}

berth_status berth_infer_nonzero(berth_op_call* call) {
    const berth_view* x = &call->inputs[0];
    const int64_t dims[2] = {BERTH_DIM_COUNTED, x->rank};
    berth_infer_set_shape(&call->outputs[0], BERTH_I64, 2, dims);
    return berth_infer_check_plain(x);
}

berth_status berth_infer_masked_select(berth_op_call* call) {
    const berth_view* x = &call->inputs[0];
    const berth_view* mask = &call->inputs[1];
    BERTH_TRY(berth_infer_check_plain(x));
    if (mask->dtype != BERTH_BOOL)
        return berth_infer_refuse_dtype(mask->dtype, "mask must be bool");
    berth_view shape = {.dtype = x->dtype};
    if (!berth_shape_broadcast(x->rank, x->dims, mask->rank, mask->dims, &shape.rank, shape.dims))
        return berth_infer_invalid("the shapes of x and mask do not broadcast");
    const int64_t dims[1] = {BERTH_DIM_COUNTED};
    berth_infer_set_shape(&call->outputs[0], x->dtype, 1, dims);
    return berth_shape_measure(shape.dtype, shape.rank, shape.dims, NULL, NULL);
}

berth_status berth_infer_unique(berth_op_call* call) {
    const berth_unique_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    const int64_t dims[1] = {BERTH_DIM_COUNTED};
    const berth_view counted = {.rank = 1, .dims = {BERTH_DIM_COUNTED}};
    berth_infer_set_shape(&call->outputs[0], x->dtype, 1, dims);
    if (params->with_inverse) set_indices(call, 1, x);
    if (params->with_counts) set_indices(call, params->with_inverse ? 2 : 1, &counted);
    return berth_infer_check_plain(x);
}
