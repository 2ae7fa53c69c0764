// SPDX-License-Identifier: Apache-2.0
// The public ops that run kernels: parameters in, dispatch.
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "exec/exec_impl.h"

/// Ops without operands: the shape travels in the parameters, so it is checked before it is copied.
static bool check_new_shape(berth_context* ctx, const char* op, int32_t rank, const int64_t* dims) {
    if (ctx == NULL || berth_home_is_forked(&ctx->home)) return false;
    if (rank >= 0 && rank <= BERTH_MAX_RANK && (rank == 0 || dims != NULL)) return true;
    berth_home_lock(&ctx->home);
    berth_context_fail(ctx,
                       berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                                  "rank %d with its dimensions is needed, 0 .. %d",
                                  (int)rank,
                                  BERTH_MAX_RANK),
                       op,
                       NULL);
    berth_home_unlock(&ctx->home);
    return false;
}

berth_tensor* berth_full(
    berth_context* ctx, double value, berth_dtype dtype, int32_t rank, const int64_t* dims) {
    if (!check_new_shape(ctx, "full", rank, dims)) return NULL;
    berth_fill_params params = {.value = value, .dtype = dtype, .rank = rank};
    if (rank > 0) memcpy(params.dims, dims, (size_t)rank * sizeof *dims);
    return berth_dispatch(ctx, BERTH_OP_FILL, NULL, 0, &params, sizeof params);
}

berth_tensor* berth_zeros(berth_context* ctx,
                          berth_dtype dtype,
                          int32_t rank,
                          const int64_t* dims) {
    return berth_full(ctx, 0, dtype, rank, dims);
}

berth_tensor* berth_ones(berth_context* ctx, berth_dtype dtype, int32_t rank, const int64_t* dims) {
    return berth_full(ctx, 1, dtype, rank, dims);
}

berth_tensor* berth_arange(
    berth_context* ctx, double start, double stop, double step, berth_dtype dtype) {
    berth_arange_params params = {.start = start, .step = step, .dtype = dtype, .count = -1};
    const double count = ceil((stop - start) / step);
    // a count of -1 is refused by the checks with the other shapes that make no sense
    if (isfinite(start) && isfinite(step) && step != 0 && count < 9e18)
        params.count = count > 0 ? (int64_t)count : 0;
    return berth_dispatch(ctx, BERTH_OP_ARANGE, NULL, 0, &params, sizeof params);
}

static berth_tensor* dispatch_random(berth_context* ctx,
                                     berth_random_params params,
                                     berth_dtype dtype,
                                     int32_t rank,
                                     const int64_t* dims) {
    if (!check_new_shape(ctx, "random", rank, dims)) return NULL;
    params.dtype = dtype < BERTH_DTYPE_COUNT ? (uint8_t)dtype : UINT8_MAX;
    params.rank = (int16_t)rank;
    if (rank > 0) memcpy(params.dims, dims, (size_t)rank * sizeof *dims);
    return berth_dispatch(ctx, BERTH_OP_RANDOM, NULL, 0, &params, sizeof params);
}

berth_tensor* berth_rand(berth_context* ctx,
                         uint64_t seed,
                         float low,
                         float high,
                         berth_dtype dtype,
                         int32_t rank,
                         const int64_t* dims) {
    const berth_random_params params = {.seed = seed, .low = low, .high = high};
    return dispatch_random(ctx, params, dtype, rank, dims);
}

berth_tensor* berth_randn(berth_context* ctx,
                          uint64_t seed,
                          float mean,
                          float deviation,
                          berth_dtype dtype,
                          int32_t rank,
                          const int64_t* dims) {
    const berth_random_params params = {
        .seed = seed, .low = mean, .high = deviation, .normal = true};
    return dispatch_random(ctx, params, dtype, rank, dims);
}

static berth_tensor* dispatch_one(berth_context* ctx, berth_op_id op, berth_tensor* x) {
    berth_tensor* const operands[1] = {x};
    return berth_dispatch(ctx, op, operands, 1, NULL, 0);
}

static berth_tensor* dispatch_two(berth_context* ctx,
                                  berth_op_id op,
                                  berth_tensor* a,
                                  berth_tensor* b) {
    berth_tensor* const operands[2] = {a, b};
    return berth_dispatch(ctx, op, operands, 2, NULL, 0);
}

#define DEFINE_BINARY(name, ID)                                                                    \
    berth_tensor* berth_##name(berth_context* ctx, berth_tensor* a, berth_tensor* b) {             \
        return dispatch_two(ctx, BERTH_OP_##ID, a, b);                                             \
    }
DEFINE_BINARY(add, ADD)
DEFINE_BINARY(sub, SUB)
DEFINE_BINARY(mul, MUL)
DEFINE_BINARY(div, DIV)
DEFINE_BINARY(minimum, MINIMUM)
DEFINE_BINARY(maximum, MAXIMUM)
DEFINE_BINARY(matmul, MATMUL)

#define DEFINE_UNARY(name, ID)                                                                     \
    berth_tensor* berth_##name(berth_context* ctx, berth_tensor* x) {                              \
        return dispatch_one(ctx, BERTH_OP_##ID, x);                                                \
    }
DEFINE_UNARY(copy, COPY)
DEFINE_UNARY(neg, NEG)
DEFINE_UNARY(exp, EXP)
DEFINE_UNARY(sqrt, SQRT)
DEFINE_UNARY(tanh, TANH)
DEFINE_UNARY(sigmoid, SIGMOID)
DEFINE_UNARY(relu, RELU)
DEFINE_UNARY(silu, SILU)
DEFINE_UNARY(gelu, GELU)

berth_tensor* berth_affine(berth_context* ctx, berth_tensor* x, float scale, float shift) {
    const berth_affine_params params = {.scale = scale, .shift = shift};
    berth_tensor* const operands[1] = {x};
    return berth_dispatch(ctx, BERTH_OP_AFFINE, operands, 1, &params, sizeof params);
}

/// Makes a dimension that counts from the end count from the start. -1, which the checks refuse, if
/// it does not exist.
static int32_t normalize(const berth_tensor* tagged, int32_t dim) {
    const berth_tensor* x = berth_untag(tagged);
    if (x != NULL && !berth_shape_normalize_dim(x->rank, &dim)) return -1;
    return dim;
}

static berth_tensor* dispatch_reduce(
    berth_context* ctx, berth_op_id op, berth_tensor* x, int32_t dim, bool keepdim) {
    const berth_reduce_params params = {.dim = normalize(x, dim), .keepdim = keepdim};
    berth_tensor* const operands[1] = {x};
    return berth_dispatch(ctx, op, operands, 1, &params, sizeof params);
}

berth_tensor* berth_sum(berth_context* ctx, berth_tensor* x, int32_t dim, bool keepdim) {
    return dispatch_reduce(ctx, BERTH_OP_SUM, x, dim, keepdim);
}

berth_tensor* berth_mean(berth_context* ctx, berth_tensor* x, int32_t dim, bool keepdim) {
    return dispatch_reduce(ctx, BERTH_OP_MEAN, x, dim, keepdim);
}

berth_tensor* berth_max(berth_context* ctx, berth_tensor* x, int32_t dim, bool keepdim) {
    return dispatch_reduce(ctx, BERTH_OP_MAX, x, dim, keepdim);
}

berth_tensor* berth_argmax(berth_context* ctx, berth_tensor* x, int32_t dim, bool keepdim) {
    return dispatch_reduce(ctx, BERTH_OP_ARGMAX, x, dim, keepdim);
}

berth_tensor* berth_softmax(berth_context* ctx, berth_tensor* x, int32_t dim) {
    return dispatch_reduce(ctx, BERTH_OP_SOFTMAX, x, dim, true);
}

berth_tensor* berth_rms_norm(berth_context* ctx, berth_tensor* x, berth_tensor* weight, float eps) {
    const berth_rms_norm_params params = {.eps = eps};
    berth_tensor* const operands[2] = {x, weight};
    return berth_dispatch(ctx, BERTH_OP_RMS_NORM, operands, 2, &params, sizeof params);
}

berth_tensor* berth_linear(berth_context* ctx,
                           berth_tensor* x,
                           berth_tensor* weight,
                           berth_tensor* bias) {
    berth_tensor* const operands[3] = {x, weight, bias};
    return berth_dispatch(ctx, BERTH_OP_LINEAR, operands, bias == NULL ? 2 : 3, NULL, 0);
}

berth_tensor* berth_rope(berth_context* ctx,
                         berth_tensor* x,
                         berth_tensor* positions,
                         berth_tensor* divisors,
                         const berth_rope_options* options) {
    const berth_rope_options chosen = options != NULL ? *options : (berth_rope_options){0};
    const berth_tensor* plain = berth_untag(x);
    berth_rope_params params = {
        .base = chosen.base != 0 ? chosen.base : 10000.0,
        .position_scale = chosen.position_scale != 0 ? chosen.position_scale : 1.0,
        .rotary_dims = chosen.rotary_dims,
        .halves = chosen.halves,
    };
    if (params.rotary_dims == 0 && plain != NULL && plain->rank == 3 && plain->dims[2] <= INT32_MAX)
        params.rotary_dims = (int32_t)plain->dims[2];
    berth_tensor* const operands[3] = {x, positions, divisors};
    return berth_dispatch(
        ctx, BERTH_OP_ROPE, operands, divisors == NULL ? 2 : 3, &params, sizeof params);
}

berth_tensor* berth_attention(berth_context* ctx,
                              berth_tensor* q,
                              berth_tensor* k,
                              berth_tensor* v,
                              float scale,
                              bool causal,
                              int64_t query_offset) {
    const berth_tensor* plain = berth_untag(q);
    berth_attention_params params = {
        .scale = scale, .causal = causal, .query_offset = query_offset};
    if (scale == 0 && plain != NULL && plain->rank == 3 && plain->dims[2] > 0)
        params.scale = (float)(1.0 / sqrt((double)plain->dims[2]));
    berth_tensor* const operands[3] = {q, k, v};
    return berth_dispatch(ctx, BERTH_OP_ATTENTION, operands, 3, &params, sizeof params);
}

berth_tensor* berth_embedding(berth_context* ctx, berth_tensor* table, berth_tensor* ids) {
    return dispatch_two(ctx, BERTH_OP_EMBEDDING, table, ids);
}

berth_tensor* berth_index_copy(
    berth_context* ctx, berth_tensor* x, int32_t dim, berth_tensor* index, berth_tensor* src) {
    const berth_index_copy_params params = {.dim = normalize(x, dim)};
    berth_tensor* const operands[3] = {x, index, src};
    return berth_dispatch(ctx, BERTH_OP_INDEX_COPY, operands, 3, &params, sizeof params);
}

berth_tensor* berth_cat(berth_context* ctx,
                        berth_tensor* const* tensors,
                        size_t count,
                        int32_t dim) {
    if (ctx == NULL || berth_home_is_forked(&ctx->home)) return NULL;
    if (tensors == NULL || count < 1 || count > BERTH_OP_MAX_INPUTS) {
        berth_home_lock(&ctx->home);
        berth_context_fail(ctx,
                           berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                                      "1 to %d tensors can be joined, not %zu",
                                      BERTH_OP_MAX_INPUTS,
                                      count),
                           "cat",
                           NULL);
        if (tensors != NULL) berth_context_drop_moved(ctx, tensors, count);
        berth_home_unlock(&ctx->home);
        return NULL;
    }
    const berth_cat_params params = {.dim = normalize(tensors[0], dim)};
    return berth_dispatch(ctx, BERTH_OP_CAT, tensors, (uint32_t)count, &params, sizeof params);
}
