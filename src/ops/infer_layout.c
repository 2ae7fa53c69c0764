// SPDX-License-Identifier: Apache-2.0
// Checks and shape rules of ops that lay elements out anew.
#include <inttypes.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/op_params.h"
#include "ops/infer.h"
#include "ops/promote.h"

// --- Joining -------------------------------------------------------------------------------------

/// The first operand's shape with a dimension of size 1 before `dim`.
static berth_status insert_dim(berth_view* out, int32_t dim) {
    if (out->rank == BERTH_MAX_RANK)
        return berth_infer_invalid("the result has too many dimensions");
    for (int32_t d = out->rank++; d > dim; --d)
        out->dims[d] = out->dims[d - 1];
    out->dims[dim] = 1;
    return BERTH_OK;
}

/// The same sizes in all dimensions but the joined one.
static berth_status check_like_first(
    const berth_view* out, const berth_view* x, size_t number, int32_t dim, bool is_stack) {
    const int32_t inserted = is_stack ? 1 : 0;
    if (x->rank + inserted != out->rank)
        return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                             "operand %zu has %d dimensions, the first has %d",
                             number,
                             (int)x->rank,
                             (int)(out->rank - inserted));
    for (int32_t d = 0; d < x->rank; ++d) {
        const int64_t expected = out->dims[d >= dim ? d + inserted : d];
        if ((d == dim && !is_stack) || x->dims[d] == expected) continue;
        return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                             "dimension %d of operand %zu is %" PRId64 ", of the first %" PRId64,
                             (int)d,
                             number,
                             x->dims[d],
                             expected);
    }
    return BERTH_OK;
}

berth_status berth_infer_join(
    berth_view* out, const berth_view* x, size_t number, int32_t dim, bool is_stack) {
    BERTH_TRY(berth_infer_check_plain(x));
    if (number == 0) {
        BERTH_TRY(berth_infer_check_dim(dim, x->rank + (is_stack ? 1 : 0)));
        berth_infer_set_like(out, x);
        return is_stack ? insert_dim(out, dim) : BERTH_OK;
    }
    BERTH_TRY(check_like_first(out, x, number, dim, is_stack));
    out->dtype = berth_promote_dtypes(out->dtype, x->dtype);
    if (!berth_add_i64(out->dims[dim], is_stack ? 1 : x->dims[dim], &out->dims[dim]))
        return berth_op_fail(BERTH_ERR_OVERFLOW, "the joined dimension does not fit 63 bits");
    return BERTH_OK;
}

static berth_status infer_join(berth_op_call* call, bool is_stack) {
    const berth_join_params* params = call->params;
    berth_view* out = &call->outputs[0];
    for (uint32_t i = 0; i < call->input_count; ++i)
        BERTH_TRY(berth_infer_join(out, &call->inputs[i], i, params->dim, is_stack));
    if (params->total < 0) return BERTH_OK;
    out->dtype = params->dtype;
    out->dims[params->dim] = params->total;
    return BERTH_OK;
}

berth_status berth_infer_cat(berth_op_call* call) { return infer_join(call, false); }

berth_status berth_infer_stack(berth_op_call* call) { return infer_join(call, true); }

berth_status berth_infer_more(berth_op_call* call) {
    // who says that there is more has checked it all, to know the total
    berth_infer_set_like(&call->outputs[0], &call->inputs[0]);
    return BERTH_OK;
}

// --- One operand ---------------------------------------------------------------------------------

berth_status berth_infer_roll(berth_op_call* call) {
    const berth_roll_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    BERTH_TRY(berth_infer_check_plain(x));
    BERTH_TRY(berth_infer_check_dim(params->dim, x->rank));
    berth_infer_set_like(&call->outputs[0], x);
    return BERTH_OK;
}

berth_status berth_infer_repeat(berth_op_call* call) {
    const berth_repeat_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    berth_view* out = &call->outputs[0];
    BERTH_TRY(berth_infer_check_plain(x));
    const int32_t missing = params->rank - x->rank;
    if (missing < 0)
        return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                             "%d numbers of times for %d dimensions",
                             (int)params->rank,
                             (int)x->rank);
    out->dtype = x->dtype;
    out->rank = params->rank;
    for (int32_t d = 0; d < params->rank; ++d) {
        if (params->times[d] < 0)
            return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                                 "dimension %d cannot be repeated %" PRId64 " times",
                                 (int)d,
                                 params->times[d]);
        const int64_t size = d < missing ? 1 : x->dims[d - missing];
        if (!berth_mul_i64(size, params->times[d], &out->dims[d]))
            return berth_op_fail(BERTH_ERR_OVERFLOW, "dimension %d does not fit 63 bits", (int)d);
    }
    return BERTH_OK;
}

/// The padded size of a dimension.
static berth_status pad_size(int32_t dim, int64_t size, const int64_t pads[2], int64_t* out_size) {
    int64_t left = size; // once elements have been taken away
    for (int32_t side = 0; side < 2; ++side)
        if (pads[side] < 0 && !berth_add_i64(left, pads[side], &left)) left = -1;
    if (left < 0)
        return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                             "dimension %d of size %" PRId64 " cannot lose what %" PRId64
                             " and %" PRId64 " take away",
                             (int)dim,
                             size,
                             pads[0],
                             pads[1]);
    *out_size = left;
    for (int32_t side = 0; side < 2; ++side)
        if (pads[side] > 0 && !berth_add_i64(*out_size, pads[side], out_size))
            return berth_op_fail(
                BERTH_ERR_OVERFLOW, "padded dimension %d does not fit 63 bits", (int)dim);
    return BERTH_OK;
}

berth_status berth_infer_pad(berth_op_call* call) {
    const berth_pad_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    berth_view* out = &call->outputs[0];
    BERTH_TRY(berth_infer_check_plain(x));
    berth_infer_set_like(out, x);
    for (int32_t d = 0; d < x->rank; ++d)
        BERTH_TRY(pad_size(d, x->dims[d], params->pads[d], &out->dims[d]));
    return BERTH_OK;
}

berth_status berth_infer_triangle(berth_op_call* call) {
    const berth_view* x = &call->inputs[0];
    BERTH_TRY(berth_infer_check_plain(x));
    if (x->rank < 2) return berth_infer_invalid("a matrix has at least two dimensions");
    berth_infer_set_like(&call->outputs[0], x);
    return BERTH_OK;
}
