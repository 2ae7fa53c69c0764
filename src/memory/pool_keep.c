// SPDX-License-Identifier: Apache-2.0
// The pool that keeps nothing: idle granules go back as soon as there are more of them than the
// next takes will want.
#include "memory/pool_internal.h"

/// So much of what is in use may lie idle in whole granules: a 64th, so that takes and gives in
/// turns do not map and unmap each time, and what is kept is hardly seen.
#define IDLE_SHARE 64u

void berth_pool_note_promise(berth_pool* pool, const berth_reservation* reservation) {
    if (reservation == NULL || reservation->bytes == 0 || pool->is_promised) return;
    pool->is_promised = true;
    pool->spare_bytes = pool->extents.placeable[BERTH_PLACEABLE_GRANULE];
}

void berth_pool_return_excess(berth_pool* pool) {
    if (!pool->returns_at_once || pool->is_promised) return;
    const uint64_t whole = pool->extents.placeable[BERTH_PLACEABLE_GRANULE];
    if (pool->pending_bytes > whole) pool->pending_bytes = whole;
    const uint64_t used = pool->extents.bytes[BERTH_EXTENT_USED];
    if (whole - pool->pending_bytes <= used / IDLE_SHARE) return;
    (void)berth_pool_release_pages(pool, 0, UINT64_MAX, false);
    pool->pending_bytes = pool->extents.placeable[BERTH_PLACEABLE_GRANULE];
}
