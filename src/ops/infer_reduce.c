// SPDX-License-Identifier: Apache-2.0
// Checks and shape rules of reductions and norms.
#include <math.h>

#include "base/dims.h"
#include "base/error.h"
#include "base/op_params.h"
#include "ops/infer.h"

/// Checks that the dimensions named exist, once each; `*out_mask` gets their bits.
static berth_status check_dims(const berth_view* x, const berth_dims* dims, uint32_t* out_mask) {
    if (dims->count < 0 || dims->count > BERTH_MAX_RANK)
        return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                             "%d dimensions are named, 0 .. %d can be",
                             (int)dims->count,
                             BERTH_MAX_RANK);
    uint32_t mask = 0;
    for (int32_t i = 0; i < dims->count; ++i) {
        const uint32_t bit = berth_dim_bit(x->rank, dims->dims[i]);
        if (bit == 0)
            return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                                 "there is no dimension %d among %d",
                                 (int)dims->dims[i],
                                 (int)x->rank);
        if ((mask & bit) != 0)
            return berth_op_fail(
                BERTH_ERR_INVALID_ARGUMENT, "dimension %d is named twice", (int)dims->dims[i]);
        mask |= bit;
    }
    *out_mask = berth_dims_mask(dims, x->rank);
    return BERTH_OK;
}

/// The shape of x without the dimensions named, or with size 1 there.
static berth_status reduce(berth_op_call* call, berth_dtype out_dtype) {
    const berth_reduce_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    berth_view* out = &call->outputs[0];
    uint32_t mask;
    BERTH_TRY(check_dims(x, &params->dims, &mask));
    out->dtype = out_dtype;
    out->rank = 0;
    for (int32_t d = 0; d < x->rank; ++d) {
        if ((mask >> d & 1u) == 0)
            out->dims[out->rank++] = x->dims[d];
        else if (params->keepdim)
            out->dims[out->rank++] = 1;
    }
    return BERTH_OK;
}

/// As reduce; an output that no element would give is refused.
static berth_status reduce_something(berth_op_call* call, berth_dtype out_dtype) {
    const berth_view* x = &call->inputs[0];
    const berth_view* out = &call->outputs[0];
    BERTH_TRY(reduce(call, out_dtype));
    if (berth_shape_count(out->rank, out->dims) == 0) return BERTH_OK;
    for (int32_t d = 0; d < x->rank; ++d)
        if (x->dims[d] == 0)
            return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                                 "dimension %d is empty: there is no element to take",
                                 (int)d);
    return BERTH_OK;
}

static berth_dtype sum_dtype(const berth_view* x) {
    return berth_dtype_is_float(x->dtype) ? x->dtype : BERTH_I64;
}

berth_status berth_infer_sum(berth_op_call* call) {
    BERTH_TRY(berth_infer_check_plain(&call->inputs[0]));
    return reduce(call, sum_dtype(&call->inputs[0]));
}

berth_status berth_infer_mean(berth_op_call* call) {
    BERTH_TRY(berth_infer_check_float(&call->inputs[0]));
    return reduce(call, call->inputs[0].dtype);
}

berth_status berth_infer_var(berth_op_call* call) {
    const berth_reduce_params* params = call->params;
    if (!isfinite(params->correction))
        return berth_op_fail(
            BERTH_ERR_INVALID_ARGUMENT, "correction %g is not finite", params->correction);
    return berth_infer_mean(call);
}

berth_status berth_infer_extreme(berth_op_call* call) {
    BERTH_TRY(berth_infer_check_plain(&call->inputs[0]));
    return reduce_something(call, call->inputs[0].dtype);
}

berth_status berth_infer_place(berth_op_call* call) {
    BERTH_TRY(berth_infer_check_plain(&call->inputs[0]));
    return reduce_something(call, BERTH_I64);
}

berth_status berth_infer_truth(berth_op_call* call) {
    BERTH_TRY(berth_infer_check_plain(&call->inputs[0]));
    return reduce(call, BERTH_BOOL);
}

berth_status berth_infer_softmax(berth_op_call* call) {
    const berth_reduce_params* params = call->params;
    uint32_t mask;
    BERTH_TRY(berth_infer_check_float(&call->inputs[0]));
    BERTH_TRY(check_dims(&call->inputs[0], &params->dims, &mask));
    return berth_infer_copy(call);
}

berth_status berth_infer_cumsum(berth_op_call* call) {
    const berth_reduce_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    uint32_t mask;
    BERTH_TRY(berth_infer_check_plain(x));
    BERTH_TRY(check_dims(x, &params->dims, &mask));
    berth_infer_set_shape(&call->outputs[0], sum_dtype(x), x->rank, x->dims);
    return BERTH_OK;
}

/// Checks operand `index`, which is called `name`: [E] of floats for x [..., E].
static berth_status check_columns(const berth_op_call* call, uint32_t index, const char* name) {
    const berth_view* x = &call->inputs[0];
    const berth_view* columns = &call->inputs[index];
    if (!berth_dtype_is_float(columns->dtype))
        return berth_op_fail(BERTH_ERR_UNSUPPORTED, "%s must be f32, f16 or bf16", name);
    if (columns->rank != 1 || columns->dims[0] != x->dims[x->rank - 1])
        return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                             "%s must have one dimension, as long as the last of x",
                             name);
    return BERTH_OK;
}

static berth_status norm(berth_op_call* call, bool has_weight, bool has_bias) {
    const berth_view* x = &call->inputs[0];
    const berth_norm_params* params = call->params;
    if (!berth_dtype_is_float(x->dtype))
        return berth_infer_unsupported("x must be f32, f16 or bf16");
    if (x->rank < 1) return berth_infer_invalid("x needs at least one dimension");
    if (has_weight) BERTH_TRY(check_columns(call, 1, "weight"));
    if (has_bias) BERTH_TRY(check_columns(call, has_weight ? 2 : 1, "bias"));
    if (!(params->eps >= 0) || !isfinite(params->eps))
        return berth_infer_invalid("eps must be finite and >= 0");
    return berth_infer_copy(call);
}

berth_status berth_infer_rms_norm(berth_op_call* call) {
    const berth_norm_params* params = call->params;
    return norm(call, params->has_weight, false);
}

berth_status berth_infer_layer_norm(berth_op_call* call) {
    const berth_norm_params* params = call->params;
    return norm(call, params->has_weight, params->has_bias);
}
