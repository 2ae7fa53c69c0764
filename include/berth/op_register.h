// SPDX-License-Identifier: Apache-2.0
// Ops of your own: described by the same struct as the built-in ones, planned and replayed like
// them.
#ifndef BERTH_OP_REGISTER_H
#define BERTH_OP_REGISTER_H

#include "berth/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/// An op that has been registered with a runtime.
typedef struct berth_op berth_op;

/// Registers an op: name, checks and shape rule, in-place rule, workspace, a kernel for the
/// runtime's kind of device.
///
/// `desc` is copied, its name too; its functions are called by any thread that applies the op.
/// Ownership: `*out_op` belongs to the runtime and lives as long.
/// Errors:    BERTH_ERR_INVALID_ARGUMENT if the description makes no sense, or the name is taken by
///            a built-in or another registered op; BERTH_ERR_UNSUPPORTED without a kernel for the
///            device; BERTH_ERR_OUT_OF_MEMORY, BERTH_ERR_FORKED. Then `*out_op` is NULL.
/// Threads:   any.
BERTH_API BERTH_NODISCARD berth_status berth_op_register(berth_runtime* runtime,
                                                         const berth_op_desc* desc,
                                                         const berth_op** out_op);

/// Runs a registered op, as the built-in ones are run: operands borrowed or handed over by
/// berth_move(), the error kept in the context.
///
/// `operands` [operand_count]; `params` [params_bytes], at most BERTH_OP_PARAM_BYTES, is copied and
/// reaches checks and kernel as call->params; `out_more` [output count - 1] receives results 1 and
/// up, and may be NULL for an op with one result.
/// Returns result 0; NULL, with all others NULL, after an error.
BERTH_API berth_tensor* berth_apply(berth_context* ctx,
                                    const berth_op* op,
                                    berth_tensor* const* operands,
                                    size_t operand_count,
                                    const void* params,
                                    size_t params_bytes,
                                    berth_tensor** out_more);

#ifdef __cplusplus
}
#endif

#endif // BERTH_OP_REGISTER_H
