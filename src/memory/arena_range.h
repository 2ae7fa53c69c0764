// SPDX-License-Identifier: Apache-2.0
// One range of reserved addresses of an arena: which granules are mapped, and above which offset
// all work has passed. Its owner's lock is held throughout, but where a function says "unlocks".
#ifndef BERTH_MEMORY_ARENA_RANGE_H
#define BERTH_MEMORY_ARENA_RANGE_H

#include "base/thread.h"
#include "memory/page_store.h"

typedef struct berth_arena_range {
    berth_account account; ///< of its frames
    berth_stream* stream;  ///< borrowed; NULL on a synchronous device
    berth_space* space;
    uint64_t* mapped; ///< a bit for each granule
    uint64_t* fresh;  ///< those mapped by the call under way
    uint64_t granule_bytes;
    uint64_t granules;
    uint64_t mapped_count;
    uint64_t prefix; ///< granules mapped from the start on without a gap
    uint64_t high;   ///< no granule from here up is mapped
    uint64_t holds;

    // Asynchronous devices: all work on offsets >= passed is done; on those >= ticket_floor it is
    // done when `ticket` is (0: no ticket).
    uint64_t passed;
    uint64_t ticket;
    uint64_t ticket_floor;
} berth_arena_range;

/// A range of at least `need` bytes, nothing mapped.
BERTH_NODISCARD berth_status berth_arena_range_create(const berth_host* host,
                                                      berth_account account,
                                                      berth_stream* stream,
                                                      uint64_t need,
                                                      berth_arena_range** out_range);
/// Accepts NULL. What is still mapped is lost with its addresses.
void berth_arena_range_destroy(const berth_host* host, berth_arena_range* range);

/// Work up to offset `end` may have been enqueued.
static inline void berth_arena_range_use(berth_arena_range* range, uint64_t end) {
    if (range->passed < end) range->passed = end;
    if (range->ticket_floor < end) range->ticket_floor = end;
}

bool berth_arena_range_is_mapped(const berth_arena_range* range, uint64_t granule);

/// Bytes of [start, end), widened to granules, that are not mapped.
uint64_t berth_arena_range_query_missing(const berth_arena_range* range,
                                         uint64_t start,
                                         uint64_t end);
/// Maps them, or nothing; the reservation is restored on failure. Unlocks `lock` around device
/// calls.
BERTH_NODISCARD berth_status berth_arena_range_map(berth_arena_range* range,
                                                   uint64_t start,
                                                   uint64_t end,
                                                   berth_reservation* reservation,
                                                   berth_mutex* lock);
/// The lowest offset >= `from` above which no pending work can touch anything; waits for it to be
/// `from` if `may_block`.
uint64_t berth_arena_range_settle(berth_arena_range* range, uint64_t from, bool may_block);
/// Gives back the mapped granules inside [start, end), upper ones first, up to `limit` bytes;
/// returns the bytes given back.
uint64_t berth_arena_range_unmap(berth_arena_range* range,
                                 uint64_t start,
                                 uint64_t end,
                                 uint64_t limit);
/// Moves the mapped granules inside [start, end) to the unmapped end of `target`'s prefix, as far
/// as the device can.
void berth_arena_range_move(berth_arena_range* range,
                            uint64_t start,
                            uint64_t end,
                            berth_arena_range* target);

#endif // BERTH_MEMORY_ARENA_RANGE_H
