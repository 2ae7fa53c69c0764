// SPDX-License-Identifier: Apache-2.0
// Incremental compaction of one pool: which granules to empty, in what order, and how much of it
// at a time. Knows owners of blocks by their berth_movable alone. All calls are made by the holder
// of the pool's guard.
//
// H1: a slice copies no more than its bytes and, after the first thing that it copies, begins
//     nothing that it expects to end after its time; what alone is too much for any slice is moved
//     only to make room for a request.
// H2: a granule is begun only when all of its blocks have a place; so a compact pool is left
//     alone, and slices come to an end when nobody takes or gives.
#ifndef BERTH_HEALTH_COMPACTOR_H
#define BERTH_HEALTH_COMPACTOR_H

#include "memory/pool_move.h"
#include "memory/pool_slide.h"

#define BERTH_COMPACT_BUCKETS 40u

/// What one slice may spend.
typedef struct berth_compact_budget {
    uint64_t bytes; ///< copied
    uint64_t ns;
} berth_compact_budget;

/// What compaction has done. All exact.
typedef struct berth_compact_stats {
    uint64_t slices;      ///< that looked at or moved anything
    uint64_t moved_bytes; ///< copied
    uint64_t moved_blocks;
    uint64_t remapped_bytes; ///< of granules that got other addresses with what lies in them
    uint64_t emptied_bytes;  ///< of granules that nothing is left in
    uint64_t refused;        ///< granules that could not be emptied though that was tried
    uint64_t longest_ns;     ///< the longest slice
    /// Slices by time: bucket i counts those of less than 2^i nanoseconds, and not less than half.
    uint64_t slices_by_time[BERTH_COMPACT_BUCKETS];
} berth_compact_stats;

typedef enum berth_compact_stage {
    BERTH_COMPACT_IDLE,
    BERTH_COMPACT_SURVEY, ///< looking at what lies where
    BERTH_COMPACT_EMPTY,  ///< emptying victims, one after the other
} berth_compact_stage;

/// A granule that may be emptied.
typedef struct berth_compact_victim {
    size_t granule;      ///< of the survey
    uint64_t move_bytes; ///< as surveyed
    uint64_t score;      ///< what moving that costs
} berth_compact_victim;

BERTH_VEC_DEFINE(berth_compact_victim_vec, berth_compact_victim);

/// Zeroed but for `host` and `pool`: nothing begun.
typedef struct berth_compactor {
    const berth_host* host; ///< borrowed
    berth_pool* pool;       ///< borrowed
    berth_compact_stage stage;
    berth_survey survey;
    berth_compact_victim_vec candidates; ///< the cheapest first
    size_t victim_count;                 ///< of them
    size_t next_victim;
    uint64_t planned_bytes; ///< that emptying the victims copies
    uint64_t wanted_bytes;  ///< of granules to empty; UINT64_MAX: as many as pay
    uint64_t emptied_bytes; ///< of them, since the survey
    uint64_t settled_at;    ///< the pool's changes when nothing was left to be done
    bool is_settled;
    bool is_thorough;     ///< this round: granules that are nearly full are emptied, too
    uint64_t thorough_at; ///< the pool's changes when such a round found nothing
    bool is_thorough_done;
    uint64_t pressed_at; ///< the pool's changes when nothing could be pushed together
    bool is_pressed;
    berth_mover mover;
    berth_slide_vec slides;
    size_t stirred;      ///< where berth_compactor_stir() goes on
    uint64_t ns_per_mib; ///< what copying takes; learned
    berth_compact_stats stats;
} berth_compactor;

void berth_compactor_init(berth_compactor* compactor, const berth_host* host, berth_pool* pool);
void berth_compactor_fini(berth_compactor* compactor);

/// One slice of making the pool compact. True if there is more to be done.
bool berth_compactor_tidy(berth_compactor* compactor, const berth_compact_budget* slice);

/// One slice of emptying granules that are nearly full, and of pushing blocks together that have
/// no place elsewhere: copies more for what it gains, for times when nobody uses the memory. True
/// if there is more to be done.
bool berth_compactor_press(berth_compactor* compactor, const berth_compact_budget* slice);

/// Empties granules of `bytes`, in as many slices as it takes; returns the bytes emptied. The
/// cheapest way first: ends of runs are laid into one granule, or what lies in a granule goes
/// elsewhere; at last, if it `may_block`, neighbours are pushed together. Then it waits for the
/// device, too, before granules that this works on get other addresses; without that, what the
/// device still works on counts as emptied. Moves nothing if there is not so much free memory.
uint64_t berth_compactor_make_room(berth_compactor* compactor,
                                   const berth_compact_budget* slice,
                                   uint64_t bytes,
                                   bool may_block);

/// What a place on the ladder does that wants `wanted_bytes`: makes room for as much as does not
/// lie idle already, and gives it back; returns the bytes given.
uint64_t berth_compactor_give_room(berth_compactor* compactor,
                                   const berth_compact_budget* slice,
                                   uint64_t wanted_bytes,
                                   bool may_block);

/// One slice of moving blocks though nothing is gained: for tests of who owns blocks.
void berth_compactor_stir(berth_compactor* compactor, const berth_compact_budget* slice);

/// An upper bound of the time that `per_mille` of the slices took, exact to a factor of two.
uint64_t berth_compact_query_slice_ns(const berth_compact_stats* stats, uint32_t per_mille);
/// Adds `more` to `stats`.
void berth_compact_stats_add(berth_compact_stats* stats, const berth_compact_stats* more);

#endif // BERTH_HEALTH_COMPACTOR_H
