// SPDX-License-Identifier: Apache-2.0
// The inside of a step model, shared by its files: step_model.c (life, keys, the calls),
// step_outlook.c (what a run will need, over all its paths), step_prepare.c (the placement of one
// path), step_learn.c (what a run has shown), step_churn.c (whether planning is worth its cost),
// step_improve.c (what the improver is given and gives back), plan_export.c and plan_import.c (to
// and from plan files), trace_export.c (to trace files).
#ifndef BERTH_PLAN_STEP_MODEL_IMPL_H
#define BERTH_PLAN_STEP_MODEL_IMPL_H

#include "base/thread.h"
#include "plan/churn.h"
#include "plan/improver.h"
#include "plan/path_tree.h"
#include "plan/plan.h"
#include "plan/plan_cache.h"
#include "plan/plan_file.h"
#include "plan/step_model.h"
#include "plan/symbol_buckets.h"

#define BERTH_SEEN_WORDS 128u

/// A path of a step with what was learned on it.
typedef struct berth_known_path {
    uint32_t id;
    berth_path_version* version;
    berth_size_model sizes;
    uint64_t last_taken; ///< by the model's clock of runs
    bool learning;       ///< placements ask for the sizes of runs that would tell hypotheses apart
    bool want_next;      ///< the next run's sizes are wanted in any case
    uint32_t quiet_runs;
    uint32_t partial_runs;  ///< replays in a row that did not place everything
    uint64_t relearn_after; ///< by the model's clock
    uint64_t relearn_gap;
} berth_known_path;

struct berth_step_model {
    const berth_host* host;
    char* name;
    berth_mutex lock; ///< guards all below
    bool lock_made;
    berth_plan_policy policy;
    berth_symbol_buckets buckets;
    char** binding_names; ///< [binding_count] fixed by the first run that is learned
    uint32_t binding_count;
    bool names_known;
    bool ended; ///< planning ended: too many side exits in a row, or churn
    uint32_t exits_in_row;
    uint32_t next_path_id;
    uint64_t clock;          ///< runs that ended
    berth_known_path* paths; ///< [policy.max_paths], by their rank in the tree
    uint32_t path_count;
    berth_path_tree tree;
    uint64_t promote_after; ///< by `clock`
    uint64_t promote_gap;
    bool told_full; ///< said that there are more paths than may be known
    bool is_short;  ///< paths in use had to go for want of cache, and that was said
    bool unshared;  ///< for want of memory, paths do not agree on the deaths of what they share
    berth_plan_cache cache;
    berth_plan_workspace workspace;
    berth_step_counters counters;
    berth_churn churn;
    /// [binding_count][BERTH_SEEN_WORDS] buckets seen since windows are bad, by hash; or NULL.
    uint64_t (*seen)[BERTH_SEEN_WORDS];
    uint32_t fresh[BERTH_BINDINGS_MAX]; ///< of these, new ones
    uint64_t seen_runs;
    bool told_undeclared;        ///< a size without a symbol was told of
    const berth_plan_file* file; ///< borrowed; NULL: there is nothing (more) to take in
    const berth_event_names* names;
    berth_improver_tray tray;
};

/// Where a shape lies: the quantum box around it inside its bucket, and both keys.
typedef struct berth_shape_box {
    int64_t lo[BERTH_BINDINGS_MAX];
    int64_t hi[BERTH_BINDINGS_MAX];
    int64_t bucket_lo[BERTH_BINDINGS_MAX];
    int64_t bucket_hi[BERTH_BINDINGS_MAX];
    int64_t placement_key[BERTH_BINDINGS_MAX + 1]; ///< by symbol, then the base's serial
    int64_t plan_key[BERTH_BINDINGS_MAX + 1];      ///< likewise
} berth_shape_box;

/// Finds the box of `values` [binding_count] on `path`. Needs the lock.
void berth_step_model_find_box(const berth_step_model* model,
                               const berth_known_path* path,
                               const int64_t* values,
                               berth_shape_box* box);

/// A way to ask: begin plans and remembers, estimate leaves no trace.
typedef struct berth_plan_inquiry {
    bool remember;
    bool made_plan;
    bool evaluated;
    berth_plan_cache scratch; ///< what is made and not kept, until the answer is complete
    berth_miss miss;          ///< why the path asked about first had no plan
    uint64_t plan_ns;         ///< a memo hit does not look at the clock
} berth_plan_inquiry;

/// The branches of one shape while they are being placed.
typedef struct berth_branch_set {
    berth_branches* branches; ///< parents come first
    berth_known_path* paths[BERTH_BRANCHES_MAX];
} berth_branch_set;

/// Fills outlook and branches at `values` [binding_count]: UNKNOWN and none if nothing applies or
/// memory runs out. Needs the lock.
void berth_step_model_look_out(berth_step_model* model,
                               const int64_t* values,
                               berth_plan_inquiry* inquiry,
                               berth_branches* out_branches,
                               berth_outlook* out);

/// The placement of a branch at `values`, retained, around what its parent has placed there; NULL
/// without memory or if a size does not fit. All but its own placement is known of the branch.
berth_plan_placement* berth_step_model_place(berth_step_model* model,
                                             const berth_branch_set* set,
                                             uint32_t branch,
                                             const int64_t* values,
                                             berth_plan_inquiry* inquiry);

/// Releases all placements and empties the branches. Needs the lock.
void berth_step_model_release(berth_step_model* model, berth_branches* branches);

/// Drops the placements of path `at` and of those that may hang on it, and the plans too unless
/// `placements_only`.
void berth_step_model_drop_plans(berth_step_model* model, uint32_t at, bool placements_only);

/// Learns from the end of a run and counts it. Needs the lock.
void berth_step_model_take_report(berth_step_model* model,
                                  const berth_shape_key* key,
                                  const int64_t* values,
                                  const berth_run_report* report);

/// The key of the plan for the bucket of `box`, which it borrows, of a path that leaves no other.
berth_cache_key berth_step_model_plan_key(const berth_known_path* path, const berth_shape_box* box);

/// Learns a whole run: its trace, at `values` of the bindings that `key` names. Returns the path it
/// took, or NULL if that is not kept. Needs the lock.
berth_known_path* berth_step_model_learn_run(berth_step_model* model,
                                             const berth_shape_key* key,
                                             const int64_t* values,
                                             const berth_trace* trace);

/// Keeps models and plans within the bound (P4): models first, the rest is for plans.
void berth_step_model_settle_bytes(berth_step_model* model);

/// Takes in what the file has about the step, if its bindings are those of `key`. Needs the lock.
void berth_step_model_take_in(berth_step_model* model, const berth_shape_key* key);

/// The plan of `path` at `key` that a seed gives, verified at the corner's sizes in the workspace;
/// NULL: none. With `remember` it takes the seed's place; else, or without room, `*out_owned`: the
/// caller destroys it.
berth_plan* berth_step_model_sprout(berth_step_model* model,
                                    const berth_known_path* path,
                                    const berth_cache_key* key,
                                    bool remember,
                                    bool* out_owned);

/// The path with `id`; NULL: it is not known any more.
berth_known_path* berth_step_model_find_path(berth_step_model* model, uint32_t id);

/// Takes what the improver has found for this step: a better plan is used from now on. Needs the
/// lock.
void berth_step_model_take_improvement(berth_step_model* model);

/// Offers the improver the plan of a replay at `values` that has ended. Needs the lock.
void berth_step_model_offer_plan(berth_step_model* model,
                                 const int64_t* values,
                                 const berth_plan_placement* placement);

/// Fixes names and order of the bindings by the first run. False without memory.
bool berth_step_model_learn_names(berth_step_model* model, const berth_shape_key* key);

/// Learns from the runs of `path` again, until they are quiet. False if that is too soon.
bool berth_step_model_resume_learning(const berth_step_model* model, berth_known_path* path);

/// Tells once of a size that the path's latest run contradicted.
void berth_step_model_note_undeclared(berth_step_model* model, const berth_known_path* path);

/// Judges whether planning is worth its cost, and ends it if not. `path` is the one taken, or NULL.
void berth_step_model_watch_churn(berth_step_model* model,
                                  const berth_known_path* path,
                                  const int64_t* values,
                                  berth_miss miss,
                                  const berth_run_report* report);

/// Ends planning: all paths are forgotten.
void berth_step_model_end_planning(berth_step_model* model);

/// Forgets path `at`, with its plans. Replays under way keep their version.
void berth_step_model_forget_path(berth_step_model* model, uint32_t at);

/// Host memory of all paths and their size models.
uint64_t berth_step_model_path_bytes(const berth_step_model* model);

/// The planner's own record of a placement that was handed out, its first member.
static inline berth_plan_placement* berth_placement_own(const berth_placement* placement) {
    return (berth_plan_placement*)(uintptr_t)placement;
}

/// The time by the policy's clock; 0 without one.
static inline uint64_t berth_step_model_now(const berth_step_model* model) {
    return model->policy.now_ns != NULL ? model->policy.now_ns() : 0;
}

#endif // BERTH_PLAN_STEP_MODEL_IMPL_H
