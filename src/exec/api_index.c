// SPDX-License-Identifier: Apache-2.0
// The public ops that follow indices.
#include "exec/api.h"

berth_tensor* berth_embedding(berth_context* ctx, berth_tensor* table, berth_tensor* ids) {
    return berth_api_dispatch_two(ctx, BERTH_OP_EMBEDDING, table, ids);
}

static berth_tensor* dispatch_along(berth_context* ctx,
                                    berth_op_id op,
                                    berth_tensor* const* operands,
                                    uint32_t count,
                                    int32_t dim) {
    const berth_index_params params = {.dim = berth_api_normalize_dim(operands[0], 0, dim)};
    return berth_dispatch(ctx, op, operands, count, &params, sizeof params);
}

#define DEFINE_READ(name, ID)                                                                      \
    berth_tensor* berth_##name(                                                                    \
        berth_context* ctx, berth_tensor* x, int32_t dim, berth_tensor* index) {                   \
        return dispatch_along(ctx, BERTH_OP_##ID, (berth_tensor* [2]){x, index}, 2, dim);          \
    }
DEFINE_READ(gather, GATHER)
DEFINE_READ(take_along, TAKE_ALONG)
DEFINE_READ(index_select, INDEX_SELECT)

#define DEFINE_WRITE(name, ID)                                                                     \
    berth_tensor* berth_##name(berth_context* ctx,                                                 \
                               berth_tensor* x,                                                    \
                               int32_t dim,                                                        \
                               berth_tensor* index,                                                \
                               berth_tensor* src) {                                                \
        return dispatch_along(ctx, BERTH_OP_##ID, (berth_tensor* [3]){x, index, src}, 3, dim);     \
    }
DEFINE_WRITE(index_copy, INDEX_COPY)
DEFINE_WRITE(scatter, SCATTER)
DEFINE_WRITE(scatter_add, SCATTER_ADD)
