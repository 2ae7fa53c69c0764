// SPDX-License-Identifier: Apache-2.0
// What the public ops share.
#include "exec/api.h"

#include "base/error.h"

berth_tensor* berth_api_refuse(berth_context* ctx,
                               berth_status status,
                               const char* op,
                               berth_tensor* const* operands,
                               size_t count) {
    const bool has_locked = berth_home_lock(&ctx->home);
    if (has_locked) berth_context_fail(ctx, status, op, NULL);
    if (operands != NULL) berth_context_drop_moved(ctx, operands, count);
    if (has_locked) berth_home_unlock(&ctx->home);
    return NULL;
}

int32_t berth_api_normalize_dim(const berth_tensor* tagged, int32_t least_rank, int32_t dim) {
    const berth_tensor* x = berth_untag(tagged);
    if (x == NULL) return dim;
    (void)berth_shape_normalize_dim(x->rank > least_rank ? x->rank : least_rank, &dim);
    return dim;
}
