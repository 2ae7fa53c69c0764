// SPDX-License-Identifier: Apache-2.0
// Buckets: which values of a symbol share a plan.
#ifndef BERTH_PLAN_BUCKET_H
#define BERTH_PLAN_BUCKET_H

#include <stdint.h>

#include "berth/status.h"

#define BERTH_BUCKET_LIST_MAX 64u

typedef enum berth_bucket_kind {
    BERTH_BUCKET_GEOMETRIC, ///< each octave (2^e, 2^(e+1)] in `number` equal parts, at least 1 wide
    BERTH_BUCKET_LINEAR,    ///< multiples of `number`
    BERTH_BUCKET_LIST,      ///< the bounds of `list`; octaves beyond the last
    BERTH_BUCKET_ADAPTIVE,  ///< at most `number` bounds, learned (plan/bucket_adaptive.h)
} berth_bucket_kind;

typedef struct berth_bucket_policy {
    berth_bucket_kind kind;
    int64_t number;
    uint32_t list_count;
    int64_t list[BERTH_BUCKET_LIST_MAX]; ///< ascending
} berth_bucket_policy;

/// Values lo < s <= hi.
typedef struct berth_bucket {
    int64_t lo;
    int64_t hi;
} berth_bucket;

/// Reads "geometric:N" (N 1 to 4096), "pow2", "linear:N", "list:a,b,..." (ascending, > 0) or
/// "adaptive:N" (N 1 to BERTH_BUCKET_LIST_MAX).
/// Errors: BERTH_ERR_INVALID_ARGUMENT naming what is accepted.
BERTH_NODISCARD berth_status berth_bucket_policy_parse(berth_bucket_policy* out_policy,
                                                       const char* text);

/// The bucket of `value` >= 0. Zero has its own. An adaptive policy that has learned nothing is
/// geometric:4.
berth_bucket berth_bucket_of(const berth_bucket_policy* policy, int64_t value);

/// The stretch of `value`'s octave in `steps` equal parts that holds it; 0 steps: the value alone.
berth_bucket berth_bucket_quantum(uint32_t steps, int64_t value);

#endif // BERTH_PLAN_BUCKET_H
