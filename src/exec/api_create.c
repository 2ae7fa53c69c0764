// SPDX-License-Identifier: Apache-2.0
// The public ops that make tensors of nothing.
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "exec/api.h"
#include "exec/run.h"

static berth_status measure(berth_dtype dtype,
                            int32_t rank,
                            const int64_t* dims,
                            uint64_t* out_bytes) {
    if (rank > 0 && dims == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "the dimensions are missing");
    const berth_dtype_info* info = berth_dtype_query_info(dtype);
    if (info != NULL && info->kind == BERTH_DTYPE_KIND_Q)
        return berth_fail(BERTH_ERR_UNSUPPORTED,
                          "%s is not accepted here: quantised tensors come from memory only",
                          info->name);
    return berth_shape_measure(dtype, rank, dims, NULL, out_bytes);
}

/// The shape travels in the parameters, so it is checked before it is copied, and under the name of
/// the function that was called. False if that must return NULL.
static bool check_new(
    berth_context* ctx, const char* op, berth_dtype dtype, int32_t rank, const int64_t* dims) {
    if (ctx == NULL || berth_home_is_forked(&ctx->home)) return false;
    const berth_status status = measure(dtype, rank, dims, NULL);
    if (status == BERTH_OK) return true;
    berth_api_refuse(ctx, status, op, NULL, 0);
    return false;
}

static void copy_dims(int64_t* to, int32_t rank, const int64_t* dims) {
    if (rank > 0) memcpy(to, dims, (size_t)rank * sizeof *dims);
}

// --- Without a kernel ----------------------------------------------------------------------------

/// A new tensor of undefined content: an event of its own.
static berth_status make_empty(berth_context* ctx,
                               berth_dtype dtype,
                               int32_t rank,
                               const int64_t* dims,
                               berth_tensor** out_tensor) {
    berth_view shape = {.dtype = dtype, .rank = rank};
    uint64_t bytes;
    *out_tensor = NULL;
    BERTH_TRY(measure(dtype, rank, dims, &bytes));
    copy_dims(shape.dims, rank, dims);
    berth_shape_dense_strides(dtype, rank, shape.dims, shape.strides);
    ctx->home.doing = "empty";
    if (ctx->run != NULL)
        berth_run_begin_event(
            ctx, ctx->run, BERTH_EVENT_ALLOC, 1, (uint32_t)rank | (uint32_t)dtype << 8);
    return berth_context_new_tensor(ctx, &shape, bytes, 0, out_tensor);
}

berth_tensor* berth_empty(berth_context* ctx,
                          berth_dtype dtype,
                          int32_t rank,
                          const int64_t* dims) {
    if (ctx == NULL || berth_home_is_forked(&ctx->home)) return NULL;
    berth_tensor* tensor = NULL;
    if (!berth_home_lock(&ctx->home)) return NULL;
    if (ctx->error == BERTH_OK) {
        const berth_status status = make_empty(ctx, dtype, rank, dims, &tensor);
        if (status != BERTH_OK) berth_context_fail(ctx, status, "empty", NULL);
    }
    berth_home_unlock(&ctx->home);
    return tensor;
}

/// A new tensor that holds what lies at `data`; none if it fails.
static berth_status make_from_data(berth_context* ctx,
                                   const void* data,
                                   berth_dtype dtype,
                                   int32_t rank,
                                   const int64_t* dims,
                                   berth_tensor** out_tensor) {
    uint64_t bytes;
    *out_tensor = NULL;
    BERTH_TRY(measure(dtype, rank, dims, &bytes));
    if (data == NULL && bytes > 0)
        return berth_fail(
            BERTH_ERR_INVALID_ARGUMENT, "the data of %" PRIu64 " bytes is NULL", bytes);
    berth_tensor* tensor;
    BERTH_TRY(make_empty(ctx, dtype, rank, dims, &tensor));
    berth_stream* stream = ctx->home.stream;
    berth_status status = BERTH_OK;
    if (bytes > 0)
        status = berth_stream_copy(
            stream, berth_tensor_data(tensor), data, bytes, BERTH_COPY_HOST_TO_DEVICE);
    if (bytes > 0 && status == BERTH_OK) status = berth_stream_drain(stream);
    if (status == BERTH_OK)
        *out_tensor = tensor;
    else
        berth_tensor_drop(tensor, &ctx->home);
    return status;
}

berth_tensor* berth_from_data(
    berth_context* ctx, const void* data, berth_dtype dtype, int32_t rank, const int64_t* dims) {
    if (ctx == NULL || berth_home_is_forked(&ctx->home)) return NULL;
    berth_tensor* tensor = NULL;
    if (!berth_home_lock(&ctx->home)) return NULL;
    if (ctx->error == BERTH_OK) {
        const berth_status status = make_from_data(ctx, data, dtype, rank, dims, &tensor);
        if (status != BERTH_OK) berth_context_fail(ctx, status, "from_data", NULL);
    }
    berth_home_unlock(&ctx->home);
    return tensor;
}

// --- Constants -----------------------------------------------------------------------------------

static berth_tensor* dispatch_fill(berth_context* ctx,
                                   const char* op,
                                   double value,
                                   berth_dtype dtype,
                                   int32_t rank,
                                   const int64_t* dims) {
    if (!check_new(ctx, op, dtype, rank, dims)) return NULL;
    berth_fill_params params = {.value = value, .dtype = dtype, .rank = rank};
    copy_dims(params.dims, rank, dims);
    return berth_dispatch(ctx, BERTH_OP_FILL, NULL, 0, &params, sizeof params);
}

berth_tensor* berth_full(
    berth_context* ctx, double value, berth_dtype dtype, int32_t rank, const int64_t* dims) {
    return dispatch_fill(ctx, "full", value, dtype, rank, dims);
}

berth_tensor* berth_zeros(berth_context* ctx,
                          berth_dtype dtype,
                          int32_t rank,
                          const int64_t* dims) {
    return dispatch_fill(ctx, "zeros", 0, dtype, rank, dims);
}

berth_tensor* berth_ones(berth_context* ctx, berth_dtype dtype, int32_t rank, const int64_t* dims) {
    return dispatch_fill(ctx, "ones", 1, dtype, rank, dims);
}

berth_tensor* berth_scalar(berth_context* ctx, double value, berth_dtype dtype) {
    return dispatch_fill(ctx, "scalar", value, dtype, 0, NULL);
}

// --- Sequences -----------------------------------------------------------------------------------

/// The number of elements of a sequence.
static berth_status count_steps(double start, double stop, double step, int64_t* out_count) {
    const double count = ceil((stop - start) / step);
    *out_count = 0;
    if (!isfinite(start) || !isfinite(stop) || !isfinite(step) || step == 0)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "from %g to %g by %g: all must be finite, the step not 0",
                          start,
                          stop,
                          step);
    if (!(count < 0x1p63))
        return berth_fail(BERTH_ERR_OVERFLOW, "the number of elements does not fit 63 bits");
    if (count > 0) *out_count = (int64_t)count;
    return BERTH_OK;
}

berth_tensor* berth_arange(
    berth_context* ctx, double start, double stop, double step, berth_dtype dtype) {
    if (ctx == NULL || berth_home_is_forked(&ctx->home)) return NULL;
    berth_arange_params params = {.start = start, .step = step, .dtype = dtype};
    const berth_status status = count_steps(start, stop, step, &params.count);
    if (status != BERTH_OK) return berth_api_refuse(ctx, status, "arange", NULL, 0);
    return berth_dispatch(ctx, BERTH_OP_ARANGE, NULL, 0, &params, sizeof params);
}

// --- Random numbers ------------------------------------------------------------------------------

berth_tensor* berth_rand(berth_context* ctx,
                         uint64_t seed,
                         float low,
                         float high,
                         berth_dtype dtype,
                         int32_t rank,
                         const int64_t* dims) {
    if (!check_new(ctx, "rand", dtype, rank, dims)) return NULL;
    berth_random_params params = {
        .seed = seed, .low = low, .high = high, .dtype = (uint8_t)dtype, .rank = (int16_t)rank};
    copy_dims(params.dims, rank, dims);
    return berth_dispatch(ctx, BERTH_OP_RAND, NULL, 0, &params, sizeof params);
}

berth_tensor* berth_randn(berth_context* ctx,
                          uint64_t seed,
                          float mean,
                          float deviation,
                          berth_dtype dtype,
                          int32_t rank,
                          const int64_t* dims) {
    if (!check_new(ctx, "randn", dtype, rank, dims)) return NULL;
    berth_random_params params = {.seed = seed,
                                  .low = mean,
                                  .high = deviation,
                                  .dtype = (uint8_t)dtype,
                                  .rank = (int16_t)rank};
    copy_dims(params.dims, rank, dims);
    return berth_dispatch(ctx, BERTH_OP_RANDN, NULL, 0, &params, sizeof params);
}

berth_tensor* berth_randint(berth_context* ctx,
                            uint64_t seed,
                            int64_t low,
                            int64_t high,
                            berth_dtype dtype,
                            int32_t rank,
                            const int64_t* dims) {
    if (!check_new(ctx, "randint", dtype, rank, dims)) return NULL;
    berth_randint_params params = {
        .seed = seed, .low = low, .high = high, .dtype = dtype, .rank = rank};
    copy_dims(params.dims, rank, dims);
    return berth_dispatch(ctx, BERTH_OP_RANDINT, NULL, 0, &params, sizeof params);
}
