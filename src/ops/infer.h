// SPDX-License-Identifier: Apache-2.0
// The checks and shape rules of the op table, and what they share. Each is a berth_op_desc's infer:
// it writes dtype, rank and dims of the outputs, or refuses the operands by berth_op_fail().
#ifndef BERTH_OPS_INFER_H
#define BERTH_OPS_INFER_H

#include <string.h>

#include "base/dtype.h"
#include "berth/op.h"

berth_status berth_infer_fill(berth_op_call* call);
berth_status berth_infer_arange(berth_op_call* call);
berth_status berth_infer_random(berth_op_call* call);
berth_status berth_infer_copy(berth_op_call* call);
berth_status berth_infer_cast(berth_op_call* call);
berth_status berth_infer_binary(berth_op_call* call);
berth_status berth_infer_div(berth_op_call* call);
berth_status berth_infer_float_unary(berth_op_call* call);
berth_status berth_infer_neg(berth_op_call* call);
berth_status berth_infer_any_unary(berth_op_call* call);
berth_status berth_infer_sum(berth_op_call* call);
berth_status berth_infer_mean(berth_op_call* call);
berth_status berth_infer_max(berth_op_call* call);
berth_status berth_infer_argmax(berth_op_call* call);
berth_status berth_infer_softmax(berth_op_call* call);
berth_status berth_infer_rms_norm(berth_op_call* call);
berth_status berth_infer_matmul(berth_op_call* call);
berth_status berth_infer_linear(berth_op_call* call);
berth_status berth_infer_rope(berth_op_call* call);
berth_status berth_infer_attention(berth_op_call* call);
berth_status berth_infer_embedding(berth_op_call* call);
berth_status berth_infer_index_copy(berth_op_call* call);
berth_status berth_infer_cat(berth_op_call* call);

/// Gives `out` the dtype and shape of `in`.
static inline void berth_infer_set_like(berth_view* out, const berth_view* in) {
    out->dtype = in->dtype;
    out->rank = in->rank;
    memcpy(out->dims, in->dims, (size_t)in->rank * sizeof in->dims[0]);
}

#endif // BERTH_OPS_INFER_H
