// SPDX-License-Identifier: Apache-2.0
// Lists in a call: a shape, BERTH_SHAPE(2, 3), and several dimensions of a tensor by their numbers,
// BERTH_DIMS(0, -1) or BERTH_ALL_DIMS.
#ifndef BERTH_DIMS_H
#define BERTH_DIMS_H

#include "berth/dtype.h"

#ifdef __cplusplus
#include <initializer_list>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/// Numbers of dimensions, in an order that matters to some ops. Negative ones count from the end.
typedef struct berth_dims {
    int32_t count;                ///< 0 .. BERTH_MAX_RANK
    int32_t dims[BERTH_MAX_RANK]; ///< entries from count up are undefined
} berth_dims;

/// Picks the ninth of its arguments; only for BERTH_DIMS_COUNT.
#define BERTH_DIMS_PICK(a, b, c, d, e, f, g, h, count, ...) count
/// The number of its arguments, 1 .. BERTH_MAX_RANK; only for the lists.
#define BERTH_DIMS_COUNT(...) BERTH_DIMS_PICK(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0)

#ifdef __cplusplus
/// The two arguments `rank, dims` of a shape with one to eight dimensions, counted by the compiler:
/// berth_zeros(ctx, BERTH_F32, BERTH_SHAPE(2, 3)). The sizes live as long as the call.
#define BERTH_SHAPE(...)                                                                           \
    BERTH_DIMS_COUNT(__VA_ARGS__), (std::initializer_list<int64_t>{__VA_ARGS__}).begin()
/// One to eight dimensions: berth_mean(ctx, x, BERTH_DIMS(0, -1), false).
#define BERTH_DIMS(...) (berth_dims{BERTH_DIMS_COUNT(__VA_ARGS__), {__VA_ARGS__}})
/// No dimension named: all of them, for the ops that say so.
#define BERTH_ALL_DIMS (berth_dims{0, {0}})
#else
/// The two arguments `rank, dims` of a shape with one to eight dimensions, counted by the compiler:
/// berth_zeros(ctx, BERTH_F32, BERTH_SHAPE(2, 3)). The sizes live as long as the block around it.
#define BERTH_SHAPE(...)                                                                           \
    BERTH_DIMS_COUNT(__VA_ARGS__), (const int64_t[]) { __VA_ARGS__ }
/// One to eight dimensions: berth_mean(ctx, x, BERTH_DIMS(0, -1), false).
#define BERTH_DIMS(...) ((berth_dims){BERTH_DIMS_COUNT(__VA_ARGS__), {__VA_ARGS__}})
/// No dimension named: all of them, for the ops that say so.
#define BERTH_ALL_DIMS ((berth_dims){0, {0}})
#endif

#ifdef __cplusplus
}
#endif

#endif // BERTH_DIMS_H
