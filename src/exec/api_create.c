// SPDX-License-Identifier: Apache-2.0
// The public ops that make tensors of nothing.
#include <math.h>
#include <string.h>

#include "exec/api.h"

berth_tensor* berth_full(
    berth_context* ctx, double value, berth_dtype dtype, int32_t rank, const int64_t* dims) {
    if (!berth_api_check_new_shape(ctx, "full", rank, dims)) return NULL;
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
    if (!berth_api_check_new_shape(ctx, "random", rank, dims)) return NULL;
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
