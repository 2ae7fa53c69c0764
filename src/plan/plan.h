// SPDX-License-Identifier: Apache-2.0
// Plans: the relation of a path at a bucket's corner, and placements, a plan evaluated at a shape.
#ifndef BERTH_PLAN_PLAN_H
#define BERTH_PLAN_PLAN_H

#include "plan/path.h"
#include "plan/relation.h"
#include "plan/size_model.h"

/// How much has been tried to make a plan tight.
typedef enum berth_plan_tier {
    BERTH_PLAN_QUICK,    ///< made at first need, by the quick portfolio
    BERTH_PLAN_IMPROVED, ///< a search has found a better one than the portfolio
    BERTH_PLAN_AT_LIMIT, ///< proved, or searched for as long as it may be
} berth_plan_tier;

/// A plan that a search did not settle is searched for once more when it was used this many times
/// as often.
#define BERTH_PLAN_HOTTER 16u

/// What serves a path in one bucket.
typedef struct berth_plan {
    berth_relation* relation;   ///< owned
    uint64_t peak_bytes;        ///< of the frame at the bucket's corner
    uint64_t lower_bound_bytes; ///< of any frame there
    uint64_t serial;            ///< of this plan in the process, never 0
    berth_plan_tier tier;
    uint32_t searches;  ///< for a better one
    uint64_t search_at; ///< uses from which the next is worth its time; UINT64_MAX: none ever
} berth_plan;

/// Names a plan in its cache; no other plan ever has the same.
typedef struct berth_plan_ticket {
    uint64_t hash;
    uint64_t serial; ///< 0: names none
} berth_plan_ticket;

/// Makes a plan that owns `relation`, also if it fails.
/// Errors: BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status berth_plan_create(const berth_host* host,
                                               berth_relation* relation,
                                               uint64_t peak_bytes,
                                               uint64_t lower_bound_bytes,
                                               berth_plan_tier tier,
                                               berth_plan** out_plan);
/// Gives the plan another serial: its relation has changed.
void berth_plan_renumber(berth_plan* plan);
/// Accepts NULL.
void berth_plan_destroy(berth_plan* plan, const berth_host* host);

/// Bytes of host memory it takes.
size_t berth_plan_query_bytes(const berth_plan* plan);

/// True if no frame at the corner could be smaller.
static inline bool berth_plan_is_proved(const berth_plan* plan) {
    return plan->peak_bytes <= plan->lower_bound_bytes;
}

/// A placement with what the planner keeps beside it. Immutable but for the count.
typedef struct berth_plan_placement {
    berth_placement shown;       ///< first member: what replays see
    berth_path_version* version; ///< retained
    uint32_t refs;               ///< guarded by the step model's lock
    uint64_t serial;             ///< of this placement in the process, never 0
    uint64_t plan_serial;        ///< of the plan that it was made from
    bool is_branch;              ///< was placed around another one
    berth_size_promise promise;
    berth_plan_ticket plan; ///< that it was evaluated from; guarded by the step model's lock
    size_t bytes;           ///< of the block
    berth_place places[];
} berth_plan_placement;

/// What a path that leaves another one takes from it: the places of all values made before the
/// fork. Zeroed: nothing.
typedef struct berth_plan_base {
    const berth_placement* placement; ///< of the other path at the same shape, borrowed
    uint32_t events;                  ///< shared with it
    uint32_t values;                  ///< made by them
} berth_plan_base;

/// Arrays that planning and evaluating need, kept from call to call. A zeroed struct is empty.
typedef struct berth_plan_workspace {
    const berth_host* host;
    size_t value_capacity;
    size_t event_capacity;
    berth_plan_base base;      ///< of the path at hand, borrowed for each call
    bool exceeds_base;         ///< `base` has fewer bytes for some value than were asked for
    berth_interval* intervals; ///< [value_capacity]
    uint64_t* sizes;           ///< [value_capacity] sizes of all values
    uint64_t* frame_sizes;     ///< [value_capacity] 0 for values planned for the pool
    uint64_t* pack_sizes;      ///< [value_capacity] 0 too for values dead before the fork
    uint64_t* given;           ///< [value_capacity] offsets that `base` gives
    uint64_t* offsets;         ///< [value_capacity]
    uint64_t* other_offsets;   ///< [value_capacity]
    uint64_t* tops;            ///< [value_capacity]
    uint64_t* live;            ///< [event_capacity + 1]
    uint64_t* pool;            ///< [event_capacity + 1]
} berth_plan_workspace;

/// Makes room for `path`.
/// Errors: BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status berth_plan_workspace_reserve(berth_plan_workspace* self,
                                                          const berth_path* path);
void berth_plan_workspace_fini(berth_plan_workspace* self);

/// Packs the values of `path` at `self->sizes` (the bucket's corner), around those that
/// `self->base` has placed (their sizes are the base's), and makes the plan, verified.
/// Errors: BERTH_ERR_OUT_OF_MEMORY, BERTH_ERR_OVERFLOW when the sizes are too large to plan,
///         BERTH_ERR_STATE if the base's path does not cover this one (berth_path_covers).
BERTH_NODISCARD berth_status berth_plan_make(berth_plan_workspace* self,
                                             const berth_path* path,
                                             berth_plan** out_plan);

/// The frame of `plan` at `self->sizes`: writes its sizes to `out_sizes` [path->value_count] (0 for
/// values planned for the pool), its offsets to `self->offsets`, and its bytes. False if the plan
/// says nothing about some value there or the sizes are too large.
bool berth_plan_measure(berth_plan_workspace* self,
                        const berth_path* path,
                        const berth_plan* plan,
                        uint64_t* out_sizes,
                        uint64_t* out_frame_bytes);

/// Makes the plan whose packing at `self->sizes` is `self->offsets`, wherever that comes from: it
/// is verified first. Values planned for the pool need no offset.
/// Errors: BERTH_ERR_INVALID_ARGUMENT if two values would overlap or the packing is far from tight,
///         BERTH_ERR_OUT_OF_MEMORY, BERTH_ERR_OVERFLOW.
BERTH_NODISCARD berth_status berth_plan_adopt(berth_plan_workspace* self,
                                              const berth_path* path,
                                              berth_plan_tier tier,
                                              berth_plan** out_plan);

/// Evaluates `plan` at `self->sizes`, around what `self->base` has placed. Where it needs clearly
/// more than the lower bound, this shape alone is packed afresh and the better is taken; likewise
/// where the plan has put a value under one of the base's that lies lower at this shape.
/// `*out_placement` has one reference.
/// Errors: as berth_plan_make.
BERTH_NODISCARD berth_status berth_plan_place(berth_plan_workspace* self,
                                              berth_path_version* version,
                                              const berth_plan* plan,
                                              berth_size_answer answer,
                                              berth_plan_placement** out_placement);

/// Drops a reference. Accepts NULL.
void berth_plan_placement_release(berth_plan_placement* placement, const berth_host* host);

#endif // BERTH_PLAN_PLAN_H
