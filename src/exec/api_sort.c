// SPDX-License-Identifier: Apache-2.0
// The public ops that sort, and those whose results are as long as the data says.
#include "exec/api.h"

/// A scalar has a dimension 0 here.
static int32_t normalize_dim(const berth_tensor* tagged, int32_t dim) {
    return berth_api_normalize_dim(tagged, 1, dim);
}

/// An op on x that gives values, and indices where there is a place for them.
static berth_tensor* dispatch_pair(berth_context* ctx,
                                   berth_op_id op,
                                   berth_tensor* x,
                                   const void* params,
                                   size_t params_bytes,
                                   berth_tensor** out_indices) {
    berth_tensor* results[2] = {NULL, NULL};
    const uint32_t count = out_indices != NULL ? 2 : 1;
    berth_dispatch_many(ctx, op, &x, 1, params, params_bytes, results, count);
    if (out_indices != NULL) *out_indices = results[1];
    return results[0];
}

berth_tensor* berth_sort(
    berth_context* ctx, berth_tensor* x, int32_t dim, bool descending, berth_tensor** out_indices) {
    const berth_sort_params params = {.dim = normalize_dim(x, dim), .descending = descending};
    return dispatch_pair(ctx, BERTH_OP_SORT, x, &params, sizeof params, out_indices);
}

berth_tensor* berth_argsort(berth_context* ctx, berth_tensor* x, int32_t dim, bool descending) {
    const berth_sort_params params = {.dim = normalize_dim(x, dim), .descending = descending};
    return berth_dispatch(ctx, BERTH_OP_ARGSORT, &x, 1, &params, sizeof params);
}

berth_tensor* berth_topk(berth_context* ctx,
                         berth_tensor* x,
                         int64_t k,
                         int32_t dim,
                         bool largest,
                         berth_tensor** out_indices) {
    const berth_topk_params params = {.k = k, .dim = normalize_dim(x, dim), .largest = largest};
    return dispatch_pair(ctx, BERTH_OP_TOPK, x, &params, sizeof params, out_indices);
}

berth_tensor* berth_nonzero(berth_context* ctx, berth_tensor* x) {
    return berth_api_dispatch_one(ctx, BERTH_OP_NONZERO, x);
}

berth_tensor* berth_masked_select(berth_context* ctx, berth_tensor* x, berth_tensor* mask) {
    return berth_api_dispatch_two(ctx, BERTH_OP_MASKED_SELECT, x, mask);
}

berth_tensor* berth_unique(berth_context* ctx,
                           berth_tensor* x,
                           berth_tensor** out_inverse,
                           berth_tensor** out_counts) {
    const berth_unique_params params = {.with_inverse = out_inverse != NULL,
                                        .with_counts = out_counts != NULL};
    berth_tensor* results[3] = {NULL, NULL, NULL};
    const uint32_t count = 1u + params.with_inverse + params.with_counts;
    berth_dispatch_many(ctx, BERTH_OP_UNIQUE, &x, 1, &params, sizeof params, results, count);
    if (out_inverse != NULL) *out_inverse = results[1];
    if (out_counts != NULL) *out_counts = results[count - 1];
    return results[0];
}
