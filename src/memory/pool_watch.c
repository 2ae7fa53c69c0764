// SPDX-License-Identifier: Apache-2.0
// Sorts requests for extents by how they ended, and lets the pool's watch look.
#include "memory/pool_watch.h"

#include "memory/pool_internal.h"

void berth_pool_set_watch(berth_pool* pool, berth_pool_watch* watch) {
    berth_mutex_lock(pool->lock);
    pool->watch = watch;
    berth_mutex_unlock(pool->lock);
}

/// The outcome of a request that was not just found.
static berth_pool_outcome judge(const berth_pool* pool,
                                const berth_pool_footing* before,
                                uint64_t size,
                                berth_status status) {
    const bool was_enough = before->free_bytes >= size;
    if (status == BERTH_OK) {
        if (was_enough && berth_pool_query_shifted(pool) != before->shifted_bytes)
            return BERTH_POOL_MOVED;
        return was_enough ? BERTH_POOL_SPREAD : BERTH_POOL_GREW;
    }
    const uint64_t room = berth_store_query_room(pool->account);
    return was_enough || size - before->free_bytes <= room ? BERTH_POOL_REFUSED : BERTH_POOL_FULL;
}

void berth_pool_note_asked(berth_pool* pool,
                           const berth_pool_footing* before,
                           uint64_t site,
                           uint64_t size,
                           berth_status status) {
    berth_pool_asked* asked = &pool->asked;
    const bool is_found = status == BERTH_OK &&
                          berth_pool_query_shifted(pool) == before->shifted_bytes &&
                          pool->maps == before->maps;
    const berth_pool_outcome outcome =
        is_found ? BERTH_POOL_FOUND : judge(pool, before, size, status);
    asked->outcomes[outcome]++;
    asked->counts[berth_asked_class(size)]++;
    asked->bytes += size;
    berth_pool_watch* watch = pool->watch;
    if (watch == NULL) return;
    watch->note(watch->self, site, size, outcome);
    if (pool->takes >= watch->next_takes) watch->sample(watch->self);
}
