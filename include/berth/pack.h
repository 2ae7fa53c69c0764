// SPDX-License-Identifier: Apache-2.0
// The planner without tensors: lifetimes and sizes in, offsets out.
#ifndef BERTH_PACK_H
#define BERTH_PACK_H

#include <stdbool.h>

#include "berth/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A buffer: `size` bytes wanted during [start, end), in steps of any unit. Buffers whose lifetimes
/// only touch may share bytes. With start >= end or size 0 it needs none and its offset is 0.
typedef struct berth_interval {
    uint64_t size;  ///< bytes
    uint32_t start; ///< first moment at which it is wanted
    uint32_t end;   ///< first moment at which it is wanted no more
} berth_interval;

/// How much to try. NULL stands for a zeroed struct.
typedef struct berth_pack_options {
    /// Power of two that sizes are rounded up to, so that offsets are multiples of it. 0: 1.
    uint64_t alignment;
    /// Rounds of repair after the fixed orders, each about as costly as one order; a round that
    /// brings nothing is undone. 0: none.
    uint32_t repair_rounds;
} berth_pack_options;

/// What a packing came to, in bytes.
typedef struct berth_pack_result {
    uint64_t peak;        ///< highest offset + size
    uint64_t lower_bound; ///< largest sum of (aligned) sizes alive at one moment
    bool proved;          ///< peak == lower_bound: no packing needs less
} berth_pack_result;

/// Chooses an offset for each of `count` buffers so that no two with overlapping lifetimes share a
/// byte, and few bytes are needed in all. Tries a fixed list of greedy orders, the cheapest and
/// most cache-friendly first, and ends as soon as the lower bound is met.
///
/// `out_offsets` is [count], in bytes. The same input gives the same offsets everywhere.
/// Errors:  BERTH_ERR_INVALID_ARGUMENT (alignment no power of two, more than 2^31 - 1 buffers),
///          BERTH_ERR_OVERFLOW (the sizes' sum exceeds 2^62), BERTH_ERR_OUT_OF_MEMORY; then
///          `*out_result` is zero and the offsets are undefined.
/// Threads: any.
/// Cost:    near O(count * buffers alive at a time) for each order.
/// Source:  best fit in order of time as in Wilson et al. 1995, "Dynamic storage allocation: a
///          survey"; greedy by size with lowest or best gap as in Pisarchyk and Lee 2020,
///          arXiv:2001.03288; orders by area and duration as in Sekiyama et al. 2018,
///          arXiv:1804.10001.
BERTH_API BERTH_NODISCARD berth_status berth_pack(const berth_interval* intervals,
                                                  size_t count,
                                                  const berth_pack_options* options,
                                                  uint64_t* out_offsets,
                                                  berth_pack_result* out_result);

#ifdef __cplusplus
}
#endif

#endif // BERTH_PACK_H
