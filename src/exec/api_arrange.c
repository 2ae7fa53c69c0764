// SPDX-License-Identifier: Apache-2.0
// The public ops that lay elements out anew.
#include "base/error.h"
#include "exec/api.h"

berth_tensor* berth_copy(berth_context* ctx, berth_tensor* x) {
    return berth_api_dispatch_one(ctx, BERTH_OP_COPY, x);
}

berth_tensor* berth_cat(berth_context* ctx,
                        berth_tensor* const* tensors,
                        size_t count,
                        int32_t dim) {
    if (ctx == NULL || berth_home_is_forked(&ctx->home)) return NULL;
    if (tensors == NULL || count < 1 || count > BERTH_OP_MAX_INPUTS) {
        return berth_api_refuse(ctx,
                                berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                                           "1 to %d tensors can be joined, not %zu",
                                           BERTH_OP_MAX_INPUTS,
                                           count),
                                "cat",
                                tensors,
                                count);
    }
    const berth_cat_params params = {.dim = berth_api_normalize_dim(tensors[0], dim)};
    return berth_dispatch(ctx, BERTH_OP_CAT, tensors, (uint32_t)count, &params, sizeof params);
}
