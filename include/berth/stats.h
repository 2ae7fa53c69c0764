// SPDX-License-Identifier: Apache-2.0
// Numbers that Berth keeps about memory and steps. One list each makes the struct and its text.
#ifndef BERTH_STATS_H
#define BERTH_STATS_H

#include "berth/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/// How sure an answer about a step's memory is. Only EXACT and BOUND promise that an admitted step
/// cannot run out.
typedef enum berth_estimate_kind {
    BERTH_ESTIMATE_UNKNOWN,  ///< not seen often enough
    BERTH_ESTIMATE_OBSERVED, ///< some size fits no form, or a path may be taken whose sizes are not
                             ///< known here: the largest seen, with a margin
    BERTH_ESTIMATE_BOUND,    ///< several paths (or a form bounded over its bucket): the largest
    BERTH_ESTIMATE_EXACT,    ///< every size is a form of known symbols, one path
} berth_estimate_kind;

/// The word for `kind`, such as "exact"; "unknown" for what is none.
BERTH_API const char* berth_estimate_text(berth_estimate_kind kind);

// clang-format off
/// Counters of a kind of step since the runtime began: X(name, help). All exact, of the moment of
/// the query.
#define BERTH_STEP_STATS_MAP(X)                                                                \
    X(runs,              "runs that ended without an error")                                   \
    X(hits,              "replays with every value placed as planned")                         \
    X(partial,           "replays to the end with some value from the pool")                   \
    X(recorded,          "runs recorded without a plan")                                       \
    X(side_exits,        "replays that left their trace")                                      \
    X(switches,          "replays that changed from one known path to another")                \
    X(plans,             "plans made")                                                         \
    X(plans_restored,    "plans of other processes, verified and taken over")                    \
    X(plans_evicted,     "plans dropped for want of cache")                                    \
    X(miss_new_step,     "runs without a plan ready: no path of the step was known yet")       \
    X(miss_new_path,     "...: no known path was known to apply, or the run took a new one")   \
    X(miss_new_bucket,   "...: nothing had been planned for the bucket")                       \
    X(miss_evicted,      "...: its plan had made room for others")                             \
    X(miss_model_changed, "...: sizes or deaths had been learned anew since it was planned")   \
    X(miss_churn,        "...: the step is no longer planned")                                 \
    X(churned,           "times planning paused: sizes or buckets did not settle")             \
    X(undeclared,        "sizes that differed between runs with equal inputs and integers")    \
    X(plans_live,        "plans in the cache")                                                 \
    X(plan_bytes,        "bytes of plans, models and traces")                                  \
    X(paths,             "paths known")                                                        \
    X(evaluations,       "shapes evaluated")                                                   \
    X(memo_hits,         "runs that took their offsets from the memo")                         \
    X(plan_ns,           "nanoseconds spent planning and evaluating")                          \
    X(improved,          "plans made tighter in the background")                               \
    X(improve_tried,     "plans searched for a tighter one")                                   \
    X(improve_saved_bytes, "bytes that the frames of improved plans need less, together")      \
    X(improve_ns,        "nanoseconds of CPU time that these searches took")                                     \
    X(placed_bytes,      "bytes placed by plans")                                              \
    X(allocated_bytes,   "bytes of all values")                                                \
    X(frame_bytes,       "largest frame")                                                      \
    X(frame_sum_bytes,   "sum over hits of their frames")                                        \
    X(corner_sum_bytes,  "sum over hits of the frames that the largest shapes of their buckets need") \
    X(peak_bytes,        "largest peak of a run, its symbols rounded up by BERTH_PLAN_QUANTUM") \
    X(lower_bound_bytes, "lower bound of the run with the largest peak")                       \
    X(sum_bytes,         "bytes without any sharing, of the run with the largest peak")        \
    X(pool_bytes,        "most bytes asked of the pool at one time")                           \
    X(ratio_sum_ppm,     "sum over replays of peak / lower bound, in millionths")              \
    X(ratio_runs,        "replays that ratio_sum_ppm counts")                                  \
    X(ratio_max_ppm,     "largest peak / lower bound of a replay, in millionths")
// clang-format on

/// The counters of BERTH_STEP_STATS_MAP.
typedef struct berth_step_counters {
#define BERTH_STEP_STATS_FIELD(name, help) uint64_t name;
    BERTH_STEP_STATS_MAP(BERTH_STEP_STATS_FIELD)
#undef BERTH_STEP_STATS_FIELD
} berth_step_counters;

// clang-format off
/// Memory of a runtime's device, in bytes: X(name, help). All exact, of the moment of the query.
#define BERTH_MEMORY_STATS_MAP(X)                                                              \
    X(capacity_bytes,      "most that may be mapped")                                          \
    X(mapped_bytes,        "physical memory mapped")                                           \
    X(peak_mapped_bytes,   "most that was mapped at one time")                                 \
    X(reserved_bytes,      "promised to running steps, not mapped yet")                        \
    X(shares_bytes,        "shares of all contexts, as set (berth/quota.h)")                   \
    X(kept_bytes,          "of them, what is kept for contexts that use less")                 \
    X(frames_bytes,        "mapped for frames of steps")                                       \
    X(pool_bytes,          "mapped for the pool")                                              \
    X(kv_bytes,            "mapped for KV caches")                                             \
    X(weights_bytes,       "weights read into memory")                                         \
    X(ahead_bytes,         "mapped ahead of use (BERTH_PREALLOC), free for frames and pool")   \
    X(pinned_bytes,        "host memory locked for transfers, apart from what is mapped")      \
    X(requested_bytes,     "asked of the pool by blocks that are out")                         \
    X(largest_free_bytes,  "largest free block of a pool")                                     \
    X(host_bytes,          "host memory for Berth's own metadata")                             \
    X(host_allocs,         "allocations of it so far")                                         \
    X(reclaims,            "times memory was short and idle memory was looked for")            \
    X(failures,            "requests refused after that, each once")                           \
    X(alarms,              "times that memory in use reached BERTH_HIGH_WATERMARK")            \
    X(compact_slices,      "slices of compaction so far")                                      \
    X(moved_bytes,         "bytes of tensors that they moved")                                 \
    X(emptied_bytes,       "granules that they emptied")                                       \
    X(compact_p99_ns,      "time that 99 of 100 slices took at most, to a factor of two")      \
    X(compact_max_ns,      "time that the longest slice took")                                     \
    X(guards_broken,       "blocks found written behind their end (BERTH_GUARD)")              \
    X(order_refused,       "uses of bytes that no wait allowed (BERTH_CHECK_ORDER)")
// clang-format on

/// The numbers of BERTH_MEMORY_STATS_MAP.
typedef struct berth_memory_stats {
#define BERTH_MEMORY_STATS_FIELD(name, help) uint64_t name;
    BERTH_MEMORY_STATS_MAP(BERTH_MEMORY_STATS_FIELD)
#undef BERTH_MEMORY_STATS_FIELD
} berth_memory_stats;

// clang-format off
/// What became of the memory that was mapped when berth_trim() was called, in bytes:
/// X(name, help). Together they are all of it, as long as no other thread maps or releases memory
/// meanwhile.
#define BERTH_TRIM_MAP(X)                                                                      \
    X(released_bytes,   "given back to the system")                                            \
    X(in_use_bytes,     "under live values and frames of open steps, with their rounding")     \
    X(held_bytes,       "in memory of frames that holds values which outlived their step")     \
    X(fragmented_bytes, "free, but in granules that live values lie in as well")               \
    X(in_flight_bytes,  "free, but work that has not run yet may still use it")                \
    X(kept_bytes,       "idle and kept, as was asked for")                                     \
    X(ahead_bytes,      "kept for BERTH_PREALLOC")                                             \
    X(busy_bytes,       "being mapped, moved or about to be used by another thread")           \
    X(refused_bytes,    "idle, but the system did not take it back (see the log)")
// clang-format on

/// The numbers of BERTH_TRIM_MAP.
typedef struct berth_trim_result {
#define BERTH_TRIM_FIELD(name, help) uint64_t name;
    BERTH_TRIM_MAP(BERTH_TRIM_FIELD)
#undef BERTH_TRIM_FIELD
} berth_trim_result;

#ifdef __cplusplus
}
#endif

#endif // BERTH_STATS_H
