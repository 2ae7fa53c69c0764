// SPDX-License-Identifier: Apache-2.0
// What lies in each granule of a pool, for whoever wants to empty some. Collected over several
// calls, each of which looks at a bounded part of the pool, which may change in between: a survey
// says where to look, the pool itself what is there.
#ifndef BERTH_MEMORY_POOL_SURVEY_H
#define BERTH_MEMORY_POOL_SURVEY_H

#include "base/vec.h"
#include "memory/extents.h"
#include "memory/pool.h"

/// A granule as the survey found it.
typedef struct berth_granule_view {
    uint64_t live_bytes; ///< of it that blocks occupy, slots of slabs among them
    uint64_t move_bytes; ///< all bytes of the blocks that reach into it
    uint64_t last_use;   ///< the latest of its blocks; of a slab one block is asked
    berth_extent_id any; ///< one of the USED extents in it; 0: none
    bool is_stuck;       ///< something in it does not move
    bool is_victim;      ///< is to be emptied: nothing is moved into it
} berth_granule_view;

BERTH_VEC_DEFINE(berth_granule_view_vec, berth_granule_view);

/// The granules of one of the pool's regions: [first, first + count) of the survey's.
typedef struct berth_survey_region {
    uint64_t base; ///< address; 0: the region is not there
    size_t first;
    size_t count;
} berth_survey_region;

BERTH_VEC_DEFINE(berth_survey_region_vec, berth_survey_region);

/// Zeroed: nothing surveyed.
typedef struct berth_survey {
    berth_granule_view_vec granules;
    berth_survey_region_vec regions; ///< as the pool numbers them
    uint64_t granule_bytes;
    uint64_t newest_use; ///< the latest use seen
    size_t next_record;  ///< the extents before it have been looked at
} berth_survey;

/// Begins anew. Called, as all below, by the holder of the pool's guard.
/// Errors: BERTH_ERR_OUT_OF_MEMORY (host memory); the survey is empty then.
BERTH_NODISCARD berth_status berth_survey_begin(berth_survey* survey, berth_pool* pool);
/// Looks at up to `limit` extents more; true when all have been looked at.
bool berth_survey_continue(berth_survey* survey, berth_pool* pool, size_t limit);
void berth_survey_fini(berth_survey* survey, const berth_host* host);

/// Free bytes: in whole granules, and beside blocks, of which granules could be made. Any thread.
void berth_pool_query_free(const berth_pool* pool, uint64_t* out_whole, uint64_t* out_beside);
/// Counts up with every take, give and growth of the pool.
uint64_t berth_pool_query_changes(const berth_pool* pool);

/// Address of granule `index`.
uint64_t berth_survey_address(const berth_survey* survey, size_t index);
/// The granule of `region` that `address` is in; NULL if it was not there at the survey's begin.
berth_granule_view* berth_survey_find(const berth_survey* survey,
                                      uint32_t region,
                                      uint64_t address);

#endif // BERTH_MEMORY_POOL_SURVEY_H
