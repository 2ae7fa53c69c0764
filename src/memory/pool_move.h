// SPDX-License-Identifier: Apache-2.0
// Empties a granule of a pool: finds places for all that lies in it among what is mapped, then
// moves one block or slab after the other. All calls are made by the holder of the pool's guard,
// who takes and gives nothing between begin and end; nothing here makes the pool grow.
//
// P1: a move never takes from what is free in whole granules, and never goes into a victim.
// P2: a block whose owner refuses stays, and so does all that shares its granule.
#ifndef BERTH_MEMORY_POOL_MOVE_H
#define BERTH_MEMORY_POOL_MOVE_H

#include "memory/pool_survey.h"

/// One thing to be moved, and where to.
typedef struct berth_move_step {
    berth_extent_id from;
    berth_extent_id to; ///< USED and empty; 0: the slots of a slab join other slabs of its class
    uint64_t bytes;     ///< to be copied at most
} berth_move_step;

BERTH_VEC_DEFINE(berth_move_step_vec, berth_move_step);

/// What has been moved.
typedef struct berth_move_count {
    uint64_t moved_bytes;    ///< by copies
    uint64_t remapped_bytes; ///< that only have other addresses
    uint64_t blocks;
} berth_move_count;

/// The moves that empty one granule. Zeroed: none.
typedef struct berth_mover {
    berth_pool* pool;
    berth_survey* survey; ///< borrowed
    size_t granule;       ///< of the survey
    berth_move_step_vec steps;
    size_t next;            ///< the step to be done next
    uint64_t largest_bytes; ///< that a step copies
} berth_mover;

typedef enum berth_mover_answer {
    BERTH_MOVER_READY,
    BERTH_MOVER_STUCK,    ///< something does not move, or there is nothing any more
    BERTH_MOVER_NO_PLACE, ///< something has no place elsewhere
} berth_mover_answer;

/// Finds places for what lies in granule `index` of the survey, a victim. Nothing has changed if
/// it is not READY.
berth_mover_answer berth_mover_begin(berth_mover* mover,
                                     berth_pool* pool,
                                     berth_survey* survey,
                                     size_t index);
/// Bytes that the next step copies at most; 0 after the last one.
uint64_t berth_mover_query_next(const berth_mover* mover);
/// Does the next step, and counts it in `*count`. False if an owner refuses or the device fails:
/// that step has changed nothing (of slots that join other slabs some may have moved).
bool berth_mover_step(berth_mover* mover, berth_move_count* count);
/// Gives up the places of steps that have not been done; where there are some, they can be begun
/// again.
void berth_mover_end(berth_mover* mover);
void berth_mover_fini(berth_mover* mover, const berth_host* host);

/// Moves up to `limit_bytes` of whatever moves to some other place though nothing is gained, going
/// on after extent number `*record`, which wraps: for tests of those who own blocks.
void berth_pool_stir(berth_pool* pool,
                     size_t* record,
                     uint64_t limit_bytes,
                     berth_move_count* count);

#endif // BERTH_MEMORY_POOL_MOVE_H
