// SPDX-License-Identifier: Apache-2.0
// The public ops that may return their operand itself, and the allocation without an op.
#include "base/error.h"
#include "exec/run.h"
#include "exec/view.h"

berth_tensor* berth_contiguous(berth_context* ctx, berth_tensor* x) {
    if (!berth_view_enter(ctx, "contiguous", x)) return NULL;
    if (berth_untag(x)->is_dense) return berth_view_finish_same(ctx, x);
    berth_tensor* const operands[1] = {x};
    berth_tensor* copy = berth_dispatch_locked(ctx, BERTH_OP_COPY, operands, 1, NULL, 0);
    berth_home_unlock(&ctx->home);
    return copy;
}

berth_tensor* berth_cast(berth_context* ctx, berth_tensor* x, berth_dtype dtype) {
    if (!berth_view_enter(ctx, "cast", x)) return NULL;
    if (berth_untag(x)->dtype == (uint32_t)dtype) return berth_view_finish_same(ctx, x);
    const berth_cast_params params = {.dtype = dtype};
    berth_tensor* const operands[1] = {x};
    berth_tensor* result =
        berth_dispatch_locked(ctx, BERTH_OP_CAST, operands, 1, &params, sizeof params);
    berth_home_unlock(&ctx->home);
    return result;
}

/// A new tensor of undefined content: an event of its own.
static berth_status make_empty(berth_context* ctx,
                               berth_view* shape,
                               const int64_t* dims,
                               berth_tensor** out_tensor) {
    *out_tensor = NULL;
    uint64_t bytes;
    BERTH_TRY(berth_shape_measure(shape->dtype, shape->rank, dims, NULL, &bytes));
    if (berth_dtype_query_info(shape->dtype)->block_values > 1)
        return berth_fail(BERTH_ERR_UNSUPPORTED, "quantised tensors come from memory only");
    for (int32_t i = 0; i < shape->rank; ++i)
        shape->dims[i] = dims[i];
    berth_shape_dense_strides(shape->dtype, shape->rank, shape->dims, shape->strides);
    if (ctx->run != NULL)
        berth_run_begin_event(ctx,
                              ctx->run,
                              BERTH_EVENT_ALLOC,
                              1,
                              (uint32_t)shape->rank | (uint32_t)shape->dtype << 8);
    return berth_context_new_tensor(ctx, shape, bytes, 0, out_tensor);
}

berth_tensor* berth_empty(berth_context* ctx,
                          berth_dtype dtype,
                          int32_t rank,
                          const int64_t* dims) {
    if (ctx == NULL || berth_home_is_forked(&ctx->home)) return NULL;
    berth_view shape = {.dtype = dtype, .rank = rank};
    berth_tensor* tensor = NULL;
    berth_home_lock(&ctx->home);
    if (ctx->error == BERTH_OK) {
        const berth_status status =
            rank > 0 && dims == NULL
                ? berth_fail(BERTH_ERR_INVALID_ARGUMENT, "the dimensions are missing")
                : make_empty(ctx, &shape, dims, &tensor);
        if (status != BERTH_OK) berth_context_fail(ctx, status, "empty", NULL);
    }
    berth_home_unlock(&ctx->home);
    return tensor;
}
