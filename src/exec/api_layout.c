// SPDX-License-Identifier: Apache-2.0
// The public ops that may return their operand itself.
#include "exec/view.h"

berth_tensor* berth_contiguous(berth_context* ctx, berth_tensor* x) {
    if (!berth_view_enter(ctx, "contiguous", x)) return NULL;
    if (berth_untag(x)->is_dense) return berth_view_finish_same(ctx, x);
    berth_tensor* copy = berth_dispatch_locked(ctx, BERTH_OP_COPY, &x, 1, NULL, 0);
    berth_home_unlock(&ctx->home);
    return copy;
}

berth_tensor* berth_cast(berth_context* ctx, berth_tensor* x, berth_dtype dtype) {
    if (!berth_view_enter(ctx, "cast", x)) return NULL;
    if (berth_untag(x)->dtype == (uint32_t)dtype) return berth_view_finish_same(ctx, x);
    const berth_cast_params params = {.dtype = dtype};
    berth_tensor* result = berth_dispatch_locked(ctx, BERTH_OP_CAST, &x, 1, &params, sizeof params);
    berth_home_unlock(&ctx->home);
    return result;
}
