// SPDX-License-Identifier: Apache-2.0
// What the public ops share.
#include "exec/api.h"

#include "base/error.h"

berth_tensor* berth_api_refuse(berth_context* ctx,
                               berth_status status,
                               const char* op,
                               berth_tensor* const* operands,
                               size_t count) {
    berth_home_lock(&ctx->home);
    berth_context_fail(ctx, status, op, NULL);
    if (operands != NULL) berth_context_drop_moved(ctx, operands, count);
    berth_home_unlock(&ctx->home);
    return NULL;
}

bool berth_api_check_new_shape(berth_context* ctx,
                               const char* op,
                               int32_t rank,
                               const int64_t* dims) {
    if (ctx == NULL || berth_home_is_forked(&ctx->home)) return false;
    if (rank >= 0 && rank <= BERTH_MAX_RANK && (rank == 0 || dims != NULL)) return true;
    berth_api_refuse(ctx,
                     berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                                "rank %d with its dimensions is needed, 0 .. %d",
                                (int)rank,
                                BERTH_MAX_RANK),
                     op,
                     NULL,
                     0);
    return false;
}

int32_t berth_api_normalize_dim(const berth_tensor* tagged, int32_t dim) {
    const berth_tensor* x = berth_untag(tagged);
    if (x != NULL) (void)berth_shape_normalize_dim(x->rank, &dim);
    return dim;
}
