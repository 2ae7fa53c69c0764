// SPDX-License-Identifier: Apache-2.0
// What is known of one step (by name): the symbols seen, the paths it takes, the size models
// learned from its runs, and the plans made for buckets of shapes. Thread-safe: contexts share it.
#ifndef BERTH_PLAN_STEP_MODEL_H
#define BERTH_PLAN_STEP_MODEL_H

#include "base/byte_stream.h"
#include "berth/stats.h"
#include "plan/event_names.h"
#include "plan/trace.h"

/// A declared dimension or integer of one run.
typedef struct berth_binding {
    const char* name; ///< "tokens.0" or an integer's name; borrowed for the call
    int64_t value;
} berth_binding;

/// All bindings of one run; names and their order are fixed by the first run of a step.
typedef struct berth_shape_key {
    const berth_binding* bindings;
    size_t count;
} berth_shape_key;

/// One value of a placement.
typedef struct berth_place {
    /// From the frame's base; BERTH_PLACE_POOL: planned for the pool (escaping, observed).
    uint64_t offset;
    uint64_t bytes; ///< planned size; a larger request must not be placed here
} berth_place;
#define BERTH_PLACE_POOL UINT64_MAX

/// What a replay needs of a path, whatever the shape. Immutable.
typedef struct berth_path {
    const berth_trace_event* events; ///< [event_count]
    /// [value_count]; dims_at indexes a dims array laid out like every run's.
    const berth_trace_value* values;
    uint32_t event_count;
    uint32_t value_count;
    uint32_t dim_count;
    uint32_t id; ///< within its step
    /// Values whose planned death is event e: expired[expired_at[e] .. expired_at[e + 1]). Values
    /// planned to escape are not in it.
    const uint32_t* expired_at; ///< [event_count + 1]
    const uint32_t* expired;
    const uint32_t* escaping; ///< [escaping_count] values planned to escape, ascending
    uint32_t escaping_count;
} berth_path;

/// Values made by the first `events` events of `path`.
static inline uint32_t berth_path_values_before(const berth_path* path, uint32_t events) {
    return events < path->event_count ? path->events[events].first_value : path->value_count;
}

/// A plan evaluated at one shape. Immutable; retained while a replay uses it.
typedef struct berth_placement {
    const berth_path* path;
    const berth_place* places;  ///< [path->value_count]
    uint64_t frame_bytes;       ///< highest offset + size
    uint64_t escaping_bytes;    ///< sum over values planned for the pool
    uint64_t peak_bytes;        ///< by the design's definition, at the planned sizes
    uint64_t lower_bound_bytes; ///< likewise
    uint64_t sum_bytes;         ///< every value, nothing shared
    uint64_t corner_bytes;      ///< the frame that the largest shape of the bucket needs
    bool learn; ///< more than one hypothesis is left: the run's dims are wanted at its end
} berth_placement;

/// Why no plan was ready for a run. Names reasons, decides nothing.
typedef enum berth_miss {
    BERTH_MISS_NONE,          ///< one was
    BERTH_MISS_NEW_STEP,      ///< no path of the step is known yet
    BERTH_MISS_NEW_PATH,      ///< no known path has been seen to apply, or a new one was taken
    BERTH_MISS_NEW_BUCKET,    ///< nothing was planned for the bucket before
    BERTH_MISS_EVICTED,       ///< what was planned for it had to make room
    BERTH_MISS_MODEL_CHANGED, ///< sizes or deaths have been learned anew since
    BERTH_MISS_CHURN,         ///< the step is no longer planned
    BERTH_MISS_COUNT,
} berth_miss;

/// Paths that one run may change between.
#define BERTH_BRANCHES_MAX 64u
#define BERTH_BRANCH_NONE UINT32_MAX

/// A path that a run may take, placed. It leaves another one, at a fork: until then both have the
/// same events, values and places.
typedef struct berth_branch {
    const berth_placement* placement;
    uint32_t parent; ///< index of the branch that it leaves, below its own; BERTH_BRANCH_NONE
    uint32_t fork;   ///< events that it shares with `parent`, the most that it shares with any
                     ///< branch before it
} berth_branch;

/// All that one run may take: a tree, parents first. The caller's memory; placements in it are
/// retained.
typedef struct berth_branches {
    uint32_t count;
    berth_branch items[BERTH_BRANCHES_MAX];
} berth_branches;

/// Leading events that branches `a` and `b` share.
static inline uint32_t berth_branches_shared(const berth_branches* branches,
                                             uint32_t a,
                                             uint32_t b) {
    uint32_t shared = UINT32_MAX;
    while (a != b) {
        const berth_branch* later = &branches->items[a > b ? a : b];
        if (later->parent == BERTH_BRANCH_NONE) return 0;
        if (later->fork < shared) shared = later->fork;
        if (a > b)
            a = later->parent;
        else
            b = later->parent;
    }
    return shared;
}

/// The answer to "what will this run need?".
typedef struct berth_outlook {
    berth_estimate_kind kind;
    uint64_t frame_bytes;             ///< the largest over known paths
    uint64_t pool_bytes;              ///< likewise: sum of values planned for the pool
    const berth_placement* placement; ///< of the path expected: branch `expected`'s; NULL: record
    uint32_t expected;
    bool has_other_paths; ///< a known path that may be taken is not among the branches
    bool made_plan;       ///< a plan was made for this call
    berth_miss miss;      ///< why the expected path had no plan ready
    uint64_t plan_ns;     ///< time this call spent planning or evaluating
} berth_outlook;

#define BERTH_BINDINGS_MAX 64u ///< declared dimensions and integers of a step

typedef enum berth_run_result {
    BERTH_RUN_HIT,       ///< replayed, every value placed as planned
    BERTH_RUN_PARTIAL,   ///< replayed to the end, but some value was not placed (too large, overlap
                         ///< with an overdue one)
    BERTH_RUN_EXIT,      ///< a guard failed; the trace holds the whole new path
    BERTH_RUN_RECORDED,  ///< no placement was given
    BERTH_RUN_DISCARDED, ///< an error happened, or the trace grew beyond its limit: nothing is
                         ///< learned
} berth_run_result;

/// How a run went, for learning and for statistics.
typedef struct berth_run_report {
    berth_run_result result;
    berth_miss miss;                  ///< as given by begin
    const berth_placement* placement; ///< of the branch that the run was on last; may be NULL
    berth_branches* branches; ///< as given by begin; released and emptied by end; may be NULL
    bool switched;            ///< changed from one branch to another
    /// The run as it was, whole: for EXIT, RECORDED and PARTIAL; for HIT NULL, or the run as it was
    /// if the placement wants to learn or a death was late. Its content may be taken (the trace
    /// is then empty).
    berth_trace* trace;
    uint64_t placed_bytes;      ///< bytes placed by the plan
    uint64_t allocated_bytes;   ///< bytes of all values of the run
    uint64_t peak_bytes;        ///< of the run, by the design's definition
    uint64_t lower_bound_bytes; ///< of the run
    uint64_t pool_peak_bytes;   ///< most bytes the step's values asked of the pool at one time
} berth_run_report;

/// Policies, the same for all steps of a runtime.
typedef struct berth_plan_policy {
    const char* buckets; ///< "geometric:4", "pow2", "linear:N", "list:a,b,...", "adaptive:N";
                         ///< borrowed for create
    uint32_t quantum;    ///< memo steps an octave; 0: exact shapes only
    uint32_t max_paths;  ///< paths kept for a step
    /// This many side exits in a row end the planning of a step, and churn pauses it; 0: neither.
    uint32_t max_exits;
    uint32_t max_events;    ///< longer runs are not recorded
    uint64_t cache_bytes;   ///< for the plans, models and memo of this step
    uint64_t cache_entries; ///< plans and placements of this step; 0: bounded in bytes only
    struct berth_improver* improver; ///< borrowed, outlived by the model; NULL: plans stay as made
    /// Clock for plan_ns, or NULL for none.
    uint64_t (*now_ns)(void);
} berth_plan_policy;

typedef struct berth_step_model berth_step_model;

/// Errors: BERTH_ERR_INVALID_ARGUMENT for a bucket policy that cannot be read;
///         BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status berth_step_model_create(const berth_host* host,
                                                     const char* name,
                                                     const berth_plan_policy* policy,
                                                     berth_step_model** out_model);
/// Accepts NULL. All placements have been released, and the improver is gone.
void berth_step_model_destroy(berth_step_model* model);

struct berth_plan_file;

/// Lets the model take in, when it is first asked about a run, what `file` has about a step of its
/// name. Before any other call. Both are borrowed and outlive the model. The lock of the model is
/// held when names are asked for.
void berth_step_model_set_source(berth_step_model* model,
                                 const struct berth_plan_file* file,
                                 const berth_event_names* names);

/// Writes what is known of the step as a section of a plan file, for other processes. Paths with
/// events that have no name are left out. False: there is nothing to be written; check
/// out->failed too.
bool berth_step_model_export(berth_step_model* model,
                             const berth_event_names* names,
                             berth_byte_writer* out);

const char* berth_step_model_name(const berth_step_model* model);

/// Sets the buckets of the symbol called `symbol`, or with NULL of all symbols that have none set
/// by name. Plans made so far are dropped.
/// Errors: BERTH_ERR_INVALID_ARGUMENT for a policy that cannot be read, and for a symbol that the
///         step is known not to declare; BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status berth_step_model_set_buckets(berth_step_model* model,
                                                          const char* symbol,
                                                          const char* policy);

/// The same before any other call, without the model's lock.
BERTH_NODISCARD berth_status berth_step_model_init_buckets(berth_step_model* model,
                                                           const char* symbol,
                                                           const char* policy);

/// Prepares a run at `key`: plans and evaluates as needed, all paths that apply, so that the run
/// may change between them without moving anything. Running out of host memory is no error: the
/// outlook is then UNKNOWN without a placement. Without a placement `out_branches` is empty.
/// Errors: BERTH_ERR_INVALID_ARGUMENT when the names differ from the first run's, or a value is
///         negative.
BERTH_NODISCARD berth_status berth_step_model_begin(berth_step_model* model,
                                                    const berth_shape_key* key,
                                                    berth_branches* out_branches,
                                                    berth_outlook* out_outlook);

/// As begin, without a placement and without any effect that later calls could see.
BERTH_NODISCARD berth_status berth_step_model_estimate(berth_step_model* model,
                                                       const berth_shape_key* key,
                                                       berth_outlook* out_outlook);

/// Ends a run begun at `key`: learns, counts, releases the branches. Cannot fail: what cannot be
/// kept is dropped.
void berth_step_model_end(berth_step_model* model,
                          const berth_shape_key* key,
                          berth_run_report* report);

/// Gives branches back without a run (a refused begin).
void berth_step_model_abandon(berth_step_model* model, berth_branches* branches);

void berth_step_model_query_counters(berth_step_model* model, berth_step_counters* out_counters);

/// Checks a placement against its path with code that shares nothing with the solvers: P1,
/// alignment, frame_bytes, peak and lower bound.
bool berth_placement_is_valid(const berth_placement* placement);

#endif // BERTH_PLAN_STEP_MODEL_H
