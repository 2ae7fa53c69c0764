// SPDX-License-Identifier: Apache-2.0
// How fragmented the memory of the pool is, how fragmented it is expected to become, and how good
// these expectations have been.
#ifndef BERTH_HEALTH_H
#define BERTH_HEALTH_H

#include "berth/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

// clang-format off
/// Figures over the pool of one context, or of all of a runtime's contexts that are alive:
/// X(name, help). Shares and probabilities are in millionths. All are exact and of the moment of
/// the query, but for what says "expected", which is of the last sample, and
/// largest_free_bytes and external_ppm, which take the largest stretch for at most a 16th too
/// large. Free bytes in slabs and fronts, which only blocks of one size can use at once, count as
/// reserved.
#define BERTH_HEALTH_STATS_MAP(X)                                                                  \
    X(requested_bytes,    "asked of the pool by blocks that are out")                              \
    X(reserved_bytes,     "in their places, with what rounding and slabs add")                     \
    X(free_bytes,         "mapped for the pool, in no block and no slab")                          \
    X(largest_free_bytes, "largest stretch of it; an upper bound")                                 \
    X(placeable_64k_bytes, "of it, what blocks of 64 KiB could use without a move")                \
    X(placeable_1m_bytes, "..., blocks of 1 MiB")                                                  \
    X(placeable_granule_bytes, "..., blocks of one granule")                                       \
    X(internal_ppm,       "share of the reserved bytes that nobody asked for")                     \
    X(external_ppm,       "1 - largest stretch / free bytes")                                      \
    X(fi_64k_ppm,         "fragmentation index: 1 - placeable / free bytes, for 64 KiB")           \
    X(fi_1m_ppm,          "..., for 1 MiB")                                                        \
    X(fi_granule_ppm,     "..., for one granule")                                                  \
    X(fi_ppm,             "..., weighted by the sizes lately asked for")                           \
    X(fi_peak_ppm,        "the highest fi_ppm of a sample")                                        \
    X(fi_predicted_ppm,   "fi_ppm expected at the horizon (BERTH_FRAG_HORIZON)")                   \
    X(event_ppm,          "probability that, within the horizon, a request is expected to fail or" \
                          " need a move though enough is free")                                    \
    X(event_expected,     "pools of which that is expected")                                       \
    X(take_rate_bytes,    "bytes of places taken per 1000 allocations lately")                     \
    X(give_rate_bytes,    "bytes of places given back per 1000 allocations lately")                \
    X(requests,           "requests for places so far, slabs included")                            \
    X(found,              "of them, found in what was mapped")                                     \
    X(grew,               "..., met by more memory, as too little was free")                       \
    X(spread,             "..., met by more memory though enough was free")                        \
    X(moved,              "..., met by moving granules, enough being free")                        \
    X(refused,            "..., refused though enough was free")                                   \
    X(full,               "..., refused for want of memory")                                       \
    X(shifted_bytes,      "granules moved to other addresses so that requests fit")                \
    X(samples,            "samples taken")                                                         \
    X(true_positives,     "predictions of a failure or move that came true")                       \
    X(false_positives,    "predictions that did not")                                              \
    X(false_negatives,    "failures or moves that were not foretold")                              \
    X(true_negatives,     "times that nothing was foretold and nothing came")                      \
    X(precision_ppm,      "true_positives / all that was foretold")                                \
    X(recall_ppm,         "true_positives / all that came")                                        \
    X(wanted_for_fi,      "times compaction was wanted: the index was too high")                   \
    X(wanted_for_forecast, "...: a failure, a move or a high index was foretold")                  \
    X(wanted_for_moves,   "...: more and more requests needed moves")                              \
    X(wanted_for_failing, "...: a request failed though enough was free")                          \
    X(wanted_for_idle,    "...: the program was idle and there was something to gain")              \
    X(compact_slices,     "slices of compaction so far")                                           \
    X(compact_moved_bytes, "bytes of tensors that they moved")                                     \
    X(compact_moved_blocks, "tensors that they moved")                                             \
    X(compact_remapped_bytes, "bytes of granules that they gave other addresses")                  \
    X(compact_emptied_bytes, "granules that they emptied")                                         \
    X(compact_refused,    "granules that could not be emptied though that was tried")              \
    X(compact_p99_ns,     "time that 99 of 100 slices took at most, to a factor of two")           \
    X(compact_max_ns,     "time that the longest slice took")
// clang-format on

/// The figures of BERTH_HEALTH_STATS_MAP.
typedef struct berth_health_stats {
#define BERTH_HEALTH_STATS_FIELD(name, help) uint64_t name;
    BERTH_HEALTH_STATS_MAP(BERTH_HEALTH_STATS_FIELD)
#undef BERTH_HEALTH_STATS_FIELD
} berth_health_stats;

/// Writes the figures over all contexts of the runtime. All zero in BERTH_MODE=system.
/// Errors:  BERTH_ERR_INVALID_ARGUMENT, BERTH_ERR_FORKED; then `*out_stats` is zero.
/// Threads: any.
/// Cost:    the same however much the pools hold.
BERTH_API BERTH_NODISCARD berth_status berth_runtime_query_health(berth_runtime* runtime,
                                                                  berth_health_stats* out_stats);

/// Writes the figures of one context's pool.
/// Errors:  BERTH_ERR_INVALID_ARGUMENT, BERTH_ERR_FORKED; then `*out_stats` is zero.
/// Threads: any.
/// Cost:    the same however much the pool holds.
BERTH_API BERTH_NODISCARD berth_status berth_context_query_health(berth_context* context,
                                                                  berth_health_stats* out_stats);

#ifdef __cplusplus
}
#endif

#endif // BERTH_HEALTH_H
