// SPDX-License-Identifier: Apache-2.0
// What the public ops share: parameters in, dispatch.
#ifndef BERTH_EXEC_API_H
#define BERTH_EXEC_API_H

#include "exec/exec_impl.h"

/// Makes a dimension that counts from the end count from the start. One that does not exist stays
/// what it is: the checks refuse it. A tensor of fewer than `least_rank` dimensions counts as
/// having so many.
int32_t berth_api_normalize_dim(const berth_tensor* tagged, int32_t least_rank, int32_t dim);

/// Keeps an error that an op found before it could be dispatched, and consumes what of `operands`
/// [count] (may be NULL) was moved; returns NULL. `ctx` is not NULL; the reason is the thread's
/// detail text. Not under the context's lock.
berth_tensor* berth_api_refuse(berth_context* ctx,
                               berth_status status,
                               const char* op,
                               berth_tensor* const* operands,
                               size_t count);

/// Runs an op without parameters on one operand, or on two.
static inline berth_tensor* berth_api_dispatch_one(berth_context* ctx,
                                                   berth_op_id op,
                                                   berth_tensor* x) {
    return berth_dispatch(ctx, op, &x, 1, NULL, 0);
}
static inline berth_tensor* berth_api_dispatch_two(berth_context* ctx,
                                                   berth_op_id op,
                                                   berth_tensor* a,
                                                   berth_tensor* b) {
    berth_tensor* const operands[2] = {a, b};
    return berth_dispatch(ctx, op, operands, 2, NULL, 0);
}

#endif // BERTH_EXEC_API_H
