// SPDX-License-Identifier: Apache-2.0
// Chains of ops, for the clock and for the instruction counter.
#include "dispatch/chain.h"

#include "exec/exec_impl.h"

__attribute__((noinline)) berth_tensor* bench_chain_fresh(berth_context* ctx,
                                                          berth_tensor* x,
                                                          int64_t ops) {
    for (int64_t i = 0; i < ops; ++i) {
        berth_tensor* const operands[1] = {x};
        berth_tensor* y = berth_dispatch(ctx, BERTH_OP_NOOP, operands, 1, NULL, 0);
        berth_release(x);
        x = y;
    }
    return x;
}

__attribute__((noinline)) berth_tensor* bench_chain_in_place(berth_context* ctx,
                                                             berth_tensor* x,
                                                             int64_t ops) {
    for (int64_t i = 0; i < ops; ++i) {
        berth_tensor* const operands[1] = {berth_move(x)};
        x = berth_dispatch(ctx, BERTH_OP_NOOP, operands, 1, NULL, 0);
    }
    return x;
}
