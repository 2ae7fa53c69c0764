// SPDX-License-Identifier: Apache-2.0
// Buckets whose bounds follow the values that are seen: those that would have wasted least on the
// values of late, that is the least sum of (bound - value).
#ifndef BERTH_PLAN_BUCKET_ADAPTIVE_H
#define BERTH_PLAN_BUCKET_ADAPTIVE_H

#include <stdbool.h>

#include "plan/bucket.h"

/// Values that the histogram tells apart.
#define BERTH_BUCKET_POINTS 128u

/// What was seen of one symbol, and the bounds made of it. Zeroed but for `limit` it is ready.
typedef struct berth_bucket_adaptive {
    uint32_t limit; ///< bounds at most: 1 .. BERTH_BUCKET_LIST_MAX
    uint32_t point_count;
    int64_t points[BERTH_BUCKET_POINTS];   ///< ascending; a merged point is the larger of the two
    double weights[BERTH_BUCKET_POINTS];   ///< how often they were seen, fading
    double unit;                           ///< weight of the next value: it grows, so others fade
    int64_t bounds[BERTH_BUCKET_LIST_MAX]; ///< ascending
    uint32_t bound_count;
    uint32_t unreviewed;   ///< values since the bounds were looked at
    uint32_t beyond;       ///< of these, above the last bound
    uint32_t review_after; ///< values from one review to the next: doubles
} berth_bucket_adaptive;

/// Takes a value >= 0 into account. Returns true if bounds have moved.
/// Cost: a search among the points; a review now and then, ever more seldom.
bool berth_bucket_adaptive_observe(berth_bucket_adaptive* self, int64_t value);

/// Takes over a bound that another process has learned, if there is room for it. What is seen here
/// is looked at later then.
void berth_bucket_adaptive_recall(berth_bucket_adaptive* self, int64_t bound);

/// The bucket of `value` >= 0: up to the next bound, beyond all of them a quarter of an octave.
/// Zero has its own.
berth_bucket berth_bucket_adaptive_find(const berth_bucket_adaptive* self, int64_t value);

#endif // BERTH_PLAN_BUCKET_ADAPTIVE_H
