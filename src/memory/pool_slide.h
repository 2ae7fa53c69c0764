// SPDX-License-Identifier: Apache-2.0
// Pushes neighbouring blocks of a pool together, so that the free memory between them joins and
// makes whole granules: for what emptying granules cannot do, as it finds no place for blocks that
// are larger than the free stretches. Nothing is needed elsewhere. All calls are made by the holder
// of the pool's guard, who takes and gives nothing between plan and the last step.
#ifndef BERTH_MEMORY_POOL_SLIDE_H
#define BERTH_MEMORY_POOL_SLIDE_H

#include "base/vec.h"
#include "memory/pool_move.h"

/// Blocks to be pushed down, one after the other, over the gap below the first one.
typedef struct berth_slide {
    berth_extent_id gap; ///< FREE; goes up as blocks come down
    uint32_t blocks;     ///< still to be pushed
    uint64_t start;      ///< of the gap, as planned
    uint64_t end;        ///< of the last block, or of the gap above it
    uint64_t move_bytes;
    uint64_t gain_bytes; ///< multiples of a granule
} berth_slide;

BERTH_VEC_DEFINE(berth_slide_vec, berth_slide);

/// Finds the slides that gain `bytes` together and move least for it, the cheapest first; returns
/// what those in `slides` gain, less than `bytes` if there are no more. If a slide `aligns`, what
/// it gains are whole granules; else it is as long as they, and a merge makes granules of it.
uint64_t berth_slides_plan(berth_pool* pool, uint64_t bytes, bool aligns, berth_slide_vec* slides);

/// Moves the granules of blocks that lie apart next to each other, so that slides reach over them:
/// addresses change, nothing is copied. Does nothing on devices that cannot remap, and while work
/// of the stream is pending; leaves where they are the granules of blocks that do not move.
void berth_pool_gather(berth_pool* pool, berth_move_count* count);

/// Bytes that the next step of the slide copies; 0 if there is none, or the pool has changed.
uint64_t berth_slide_query_next(const berth_pool* pool, const berth_slide* slide);
/// Pushes the next block, and counts it in `*count`. False if its owner or the device refuses: it
/// stays where it is.
bool berth_slide_step(berth_pool* pool, berth_slide* slide, berth_move_count* count);

#endif // BERTH_MEMORY_POOL_SLIDE_H
