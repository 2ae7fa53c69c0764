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

/// A buffer that may take another's place while that one still lives: the result of an op that
/// reads and writes the same bytes. A pair with an exclusive buffer is never in place. Lifetimes
/// overlap by one moment: `to` starts at the last moment of `from`. Then the two may have the same
/// offset; everything else about them stays as it is.
typedef struct berth_pack_in_place {
    uint32_t from; ///< index of the buffer that ends
    uint32_t to;   ///< index of the buffer that begins
} berth_pack_in_place;

/// A buffer without a place of its own in `fixed_offsets`.
#define BERTH_PACK_ANYWHERE UINT64_MAX

/// What is to be packed. Arrays are borrowed for the call; those that are NULL ask for nothing.
typedef struct berth_pack_problem {
    const berth_interval* intervals; ///< [count]
    size_t count;                    ///< buffers, at most 2^31 - 1
    /// Power of two that sizes are rounded up to, so that offsets are multiples of it. 0: 1.
    uint64_t alignment;
    const uint64_t* alignments; ///< [count] powers of two for offsets alone; 0: `alignment` does
    /// [count] offsets that are given, BERTH_PACK_ANYWHERE where one is wanted.
    const uint64_t* fixed_offsets;
    const bool* exclusive; ///< [count] true: shares its bytes with nobody, at any moment
    /// [in_place_count]; a buffer is `from` and `to` once at most
    const berth_pack_in_place* in_place;
    size_t in_place_count; ///< length of in_place
} berth_pack_problem;

/// How a search is getting on, in bytes and nanoseconds.
typedef struct berth_pack_progress {
    uint64_t peak;        ///< of the best packing so far
    uint64_t lower_bound; ///< no packing needs less
    uint64_t steps;       ///< search steps taken
    uint64_t cpu_ns;      ///< CPU time of the calling thread so far
} berth_pack_progress;

/// How much to try. NULL stands for a zeroed struct: the quick portfolio alone.
typedef struct berth_pack_options {
    /// CPU time of the calling thread that a search for better packings may take, kept within 10 %
    /// at any size; 0: no search unless budget_steps is given.
    uint64_t budget_ns;
    /// Steps that the search may take, the same everywhere for one input and seed; 0: no bound but
    /// budget_ns. With steps alone the result does not depend on the machine's speed.
    uint64_t budget_steps;
    uint64_t seed; ///< of the search's random choices
    /// Bytes that are enough: the search ends once the peak is no larger. 0: the fewest.
    uint64_t capacity;
    /// Called every few milliseconds of a search; false ends it with the best packing so far.
    bool (*on_progress)(void* user, const berth_pack_progress* progress);
    void* user; ///< handed to on_progress
} berth_pack_options;

/// What a packing came to, in bytes.
typedef struct berth_pack_result {
    uint64_t peak;        ///< highest offset + size
    uint64_t lower_bound; ///< no packing needs less; at least the most that is alive at one moment
    bool proved;          ///< peak == lower_bound
    /// Mean over all bytes placed of the bytes of buffers that start at or after the moment at
    /// which those very addresses were released, and before the moment at which they are used
    /// again; for addresses used for the first time it is the peak. Where no offsets are asked for,
    /// buffers that share with nobody are left out. What is small is still in cache.
    uint64_t reuse_distance;
    uint64_t steps; ///< search steps taken
} berth_pack_result;

/// Chooses an offset for each buffer so that no two with overlapping lifetimes share a byte, and
/// few bytes are needed in all. First a fixed list of greedy orders, the cheapest and most
/// cache-friendly first; then, with a budget, a search that ends at the lower bound, at a proof,
/// when its budget is spent, or when it is told to. Where offsets are given, aligned or shared in
/// place, the search proves no more than that the lower bound is met.
///
/// `out_offsets` is [count], in bytes. Among packings of equal peak the one with the smaller reuse
/// distance is preferred.
/// Errors:  BERTH_ERR_INVALID_ARGUMENT (an alignment that is no power of two, fixed offsets that
///          overlap or are misaligned, pairs that are none, more than 2^31 - 1 buffers),
///          BERTH_ERR_OVERFLOW (the sizes' sum or a fixed end exceeds 2^62),
///          BERTH_ERR_OUT_OF_MEMORY; then `*out_result` is zero and the offsets are undefined.
/// Threads: any.
/// Cost:    near O(count * log count) for the cheapest order, O(pairs of buffers alive together)
///          for each of the others, which the largest problems leave out, then the budget.
/// Source:  best fit in order of time as in Wilson et al. 1995, "Dynamic storage allocation: a
///          survey"; greedy by size with lowest or best gap as in Pisarchyk and Lee 2020,
///          arXiv:2001.03288; orders by area and duration as in Sekiyama et al. 2018,
///          arXiv:1804.10001.
BERTH_API BERTH_NODISCARD berth_status berth_pack(const berth_pack_problem* problem,
                                                  const berth_pack_options* options,
                                                  uint64_t* out_offsets,
                                                  berth_pack_result* out_result);

/// What is wrong with a packing, if anything.
typedef struct berth_pack_verdict {
    bool valid;     ///< nothing overlaps, everything is aligned, given offsets are kept
    uint32_t first; ///< if not: index of a buffer at fault
    /// The buffer that it overlaps, or `first` where it is misaligned, moved or too high.
    uint32_t second;
    uint64_t peak;        ///< highest offset + size
    uint64_t lower_bound; ///< the most that is alive at one moment
} berth_pack_verdict;

/// Checks `offsets` [count] with code that shares nothing with berth_pack().
/// Errors:  as berth_pack() for the problem itself, but sizes may sum to anything; then
///          `*out_verdict` is zero.
/// Threads: any.
/// Cost:    O(count * (log count + buffers alive at a time)).
BERTH_API BERTH_NODISCARD berth_status berth_pack_verify(const berth_pack_problem* problem,
                                                         const uint64_t* offsets,
                                                         berth_pack_verdict* out_verdict);

#ifdef __cplusplus
}
#endif

#endif // BERTH_PACK_H
