// SPDX-License-Identifier: Apache-2.0
// A context's arena: frames of running steps, stacked in reserved space over populated granules.
// Used under its context's lock; reclaim may come from other threads.
#ifndef BERTH_MEMORY_ARENA_H
#define BERTH_MEMORY_ARENA_H

#include "memory/page_store.h"
#include "memory/rest.h"

typedef struct berth_arena berth_arena;

/// A running step's stretch. Frames are popped in the reverse order of their pushes.
typedef struct berth_frame {
    unsigned char* base; ///< aligned to BERTH_ALIGNMENT at least
    uint64_t size_bytes;
} berth_frame;

typedef struct berth_arena_stats {
    uint64_t mapped_bytes; ///< old ranges included
    uint64_t used_bytes;   ///< up to the top frame's end
    uint64_t held_bytes;   ///< under holds
    uint64_t ranges;       ///< virtual ranges, the current one included
} berth_arena_stats;

/// The stream is the one whose work touches the frames, the tenant (may be NULL) the one that they
/// are counted for; all borrowed.
BERTH_NODISCARD berth_status berth_arena_create(const berth_host* host,
                                                berth_store* store,
                                                berth_tenant* tenant,
                                                berth_stream* stream,
                                                berth_arena** out_arena);
/// Accepts NULL. No frame is pushed and nothing is held.
void berth_arena_destroy(berth_arena* arena);

/// From now on a frame ends where its granules do, and what lies next to them is not mapped
/// (BERTH_GUARD): whoever goes on beyond a frame faults. Before the first push. A push then gives
/// back what is mapped above, and waits for work that may use it.
void berth_arena_set_guards(berth_arena* arena);

/// Promises what push(size) would have to map, and from then until the next push, trim or cancel
/// keeps reclaim off the idle granules that push would use. Without it the ladder that the promise
/// climbs may take those first. Errors: BERTH_ERR_OUT_OF_MEMORY; nothing promised.
BERTH_NODISCARD berth_status berth_arena_reserve(berth_arena* arena,
                                                 uint64_t size_bytes,
                                                 berth_reservation* reservation);

/// The push that was promised will not come: reclaim may have those granules. The reservation is
/// its owner's to take back.
void berth_arena_cancel_reserve(berth_arena* arena);

/// Puts a frame of `size_bytes` on top and populates its granules, drawing on `reservation` (may be
/// NULL). With no frame pushed and something held in the current range, a fresh range is begun: the
/// old one keeps only the granules under held bytes. On top of other frames it is placed between
/// what is held there. A size of 0 gives a valid empty frame.
/// Errors: BERTH_ERR_OUT_OF_MEMORY, BERTH_ERR_DEVICE; nothing changed.
BERTH_NODISCARD berth_status berth_arena_push(berth_arena* arena,
                                              uint64_t size_bytes,
                                              berth_reservation* reservation,
                                              berth_frame* out_frame);
/// Takes the top frame off. Its granules stay mapped (see trim).
void berth_arena_pop(berth_arena* arena, const berth_frame* frame);

/// Makes room for `count` holds in all: as long as there are no more, hold cannot fail.
BERTH_NODISCARD berth_status berth_arena_reserve_holds(berth_arena* arena, size_t count);

/// Marks [data, data + size) of a frame, size > 0, as held beyond the frame's end; until dropped
/// its granules stay mapped at their address. Survives pops. Fails only for want of host memory.
BERTH_NODISCARD berth_status berth_arena_hold(berth_arena* arena,
                                              const void* data,
                                              uint64_t size_bytes);
/// Ends a hold made with the same `data`. Old ranges without holds are given back.
void berth_arena_drop(berth_arena* arena, const void* data);

/// Gives back mapped granules above max(keep_bytes, the top frame's end) of the current range and
/// all that old ranges can spare; on an asynchronous device only once the stream has passed (waits
/// if `may_block`, else leaves it to a later call). Returns the bytes given back.
uint64_t berth_arena_trim(berth_arena* arena, uint64_t keep_bytes, bool may_block);

/// As trim, for threads that do not have the context's lock: up to `limit_bytes`, and not what a
/// push that is promised will use. Waits for no work but what another thread's trim waits for.
uint64_t berth_arena_release_idle(berth_arena* arena, uint64_t keep_bytes, uint64_t limit_bytes);

/// Adds to `rest` why granules are still mapped after `keep_bytes` were to be kept.
/// Cost: O(granules).
void berth_arena_add_rest(const berth_arena* arena, uint64_t keep_bytes, berth_rest* rest);

void berth_arena_query_stats(const berth_arena* arena, berth_arena_stats* out_stats);

#endif // BERTH_MEMORY_ARENA_H
