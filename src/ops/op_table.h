// SPDX-License-Identifier: Apache-2.0
// Ops layer: one row for each op. Knows nothing of plans, storages or contexts.
//
// O1: a shape rule depends on shapes, types and parameters, never on data.
// O2: what a kernel gets has passed the checks: kernels test nothing.
#ifndef BERTH_OPS_OP_TABLE_H
#define BERTH_OPS_OP_TABLE_H

#include "base/op_map.h"
#include "base/op_params.h"
#include "berth/op.h"

/// The built-in ops, indexed by berth_op_id.
extern const berth_op_desc berth_op_table[BERTH_OP_COUNT];

// Checks and shape rules, by family (infer_*.c).
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

#endif // BERTH_OPS_OP_TABLE_H
