// SPDX-License-Identifier: Apache-2.0
// Blocks that were given back while work of other streams may still use them. They stay out of
// reach until a poll finds that work done.
#include "memory/pool_internal.h"

/// A failed wait is tried again this often.
#define WAIT_TRIES 3

void berth_pool_wait_use(const berth_pool_use* use) {
    for (int i = 0; i < WAIT_TRIES; i++) {
        if (berth_stream_query(use->stream, use->ticket)) return;
        if (berth_stream_wait(use->stream, use->ticket) == BERTH_OK) return;
    }
}

bool berth_pool_pending_add(berth_pool* pool,
                            const berth_block* block,
                            const berth_pool_use* uses,
                            size_t use_count,
                            const berth_pool_use* own) {
    if (berth_pool_pending_vec_reserve(&pool->pending, pool->host, pool->pending.count + 1) !=
        BERTH_OK)
        return false;
    berth_pool_use* copy = berth_host_calloc(pool->host, use_count + 1, sizeof *copy);
    if (copy == NULL) return false;
    for (size_t i = 0; i < use_count; i++)
        copy[i] = uses[i];
    if (own != NULL) copy[use_count++] = *own;
    const berth_pool_pending entry = {.block = *block, .uses = copy, .use_count = use_count};
    return berth_pool_pending_vec_push(&pool->pending, pool->host, entry) == BERTH_OK;
}

/// Drops the uses that are done; true if none is left.
static bool is_done(berth_pool_pending* entry) {
    while (entry->use_count > 0) {
        const berth_pool_use* last = &entry->uses[entry->use_count - 1];
        if (!berth_stream_query(last->stream, last->ticket)) return false;
        entry->use_count--;
    }
    return true;
}

/// Takes the entry out of the list and gives its memory back. Unlocks (bypass only).
static void retire(berth_pool* pool, size_t index) {
    const berth_pool_pending entry = pool->pending.items[index];
    pool->pending.items[index] = pool->pending.items[--pool->pending.count];
    berth_host_free(pool->host, entry.uses);
    berth_pool_return_memory(pool, &entry.block);
}

size_t berth_pool_pending_poll(berth_pool* pool, size_t limit) {
    size_t retired = 0;
    for (size_t looked = pool->pending.count < limit ? pool->pending.count : limit; looked > 0;
         looked--) {
        if (pool->pending.count == 0) break;
        if (pool->pending_cursor >= pool->pending.count) pool->pending_cursor = 0;
        if (is_done(&pool->pending.items[pool->pending_cursor])) {
            retire(pool, pool->pending_cursor);
            retired++;
        } else {
            pool->pending_cursor++;
        }
    }
    return retired;
}

void berth_pool_pending_wait(berth_pool* pool) {
    for (size_t left = pool->pending.count; left > 0 && pool->pending.count > 0; left--) {
        // Out of the list first: nobody else may retire it while the lock is open.
        berth_pool_pending entry = pool->pending.items[--pool->pending.count];
        berth_mutex_unlock(pool->lock);
        for (size_t i = 0; i < entry.use_count; i++)
            berth_pool_wait_use(&entry.uses[i]);
        berth_host_free(pool->host, entry.uses);
        berth_mutex_lock(pool->lock);
        berth_pool_return_memory(pool, &entry.block);
    }
}
