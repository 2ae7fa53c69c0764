// SPDX-License-Identifier: Apache-2.0
// A bounded ring with a turn for each cell: writers agree on places by one compare-and-swap.
// Source: Vyukov's bounded queue of several producers.
#include "memory/pool_remote.h"

#include "base/error.h"
#include "memory/pool_internal.h"

void berth_remote_fini(berth_remote* remote, const berth_host* host) {
    berth_host_free(host, atomic_load_explicit(&remote->cells, memory_order_relaxed));
    atomic_store_explicit(&remote->cells, NULL, memory_order_relaxed);
}

/// The cells, made by whoever needs them first; NULL without host memory.
static berth_remote_cell* cells_of(berth_remote* remote, const berth_host* host) {
    berth_remote_cell* cells = atomic_load_explicit(&remote->cells, memory_order_acquire);
    if (cells != NULL) return cells;
    berth_remote_cell* made = berth_host_calloc(host, BERTH_REMOTE_CELLS, sizeof *made);
    if (made == NULL) return NULL;
    if (atomic_compare_exchange_strong_explicit(
            &remote->cells, &cells, made, memory_order_acq_rel, memory_order_acquire))
        return made;
    berth_host_free(host, made);
    return cells;
}

/// Leaves a block to the holder; false if there is no room. Any thread, without a lock.
static inline bool push(berth_remote* remote, const berth_host* host, const berth_block* block) {
    berth_remote_cell* cells = cells_of(remote, host);
    if (cells == NULL) return false;
    uint64_t number = atomic_load_explicit(&remote->end, memory_order_relaxed);
    for (;;) {
        const uint64_t place = number % BERTH_REMOTE_CELLS;
        berth_remote_cell* cell = &cells[place];
        const uint64_t turn = place + atomic_load_explicit(&cell->turn, memory_order_acquire);
        if (turn < number) return false; // the block written here a round ago is still there
        if (turn > number) {
            number = atomic_load_explicit(&remote->end, memory_order_relaxed);
        } else if (atomic_compare_exchange_weak_explicit(&remote->end,
                                                         &number,
                                                         number + 1,
                                                         memory_order_release,
                                                         memory_order_relaxed)) {
            cell->block = *block;
            atomic_store_explicit(&cell->turn, number + 1 - place, memory_order_release);
            return true;
        }
    }
}

/// Takes the oldest block out; false if there is none. The holder of the guard.
static inline bool pop(berth_remote* remote, berth_block* out_block) {
    const uint64_t number = atomic_load_explicit(&remote->begin, memory_order_relaxed);
    if (number == atomic_load_explicit(&remote->end, memory_order_acquire)) return false;
    berth_remote_cell* cells = atomic_load_explicit(&remote->cells, memory_order_acquire);
    const uint64_t place = number % BERTH_REMOTE_CELLS;
    berth_remote_cell* cell = &cells[place];
    // its writer may have been stopped in the middle
    const uint64_t turn = place + atomic_load_explicit(&cell->turn, memory_order_acquire);
    if (turn != number + 1) return false;
    *out_block = cell->block;
    atomic_store_explicit(&cell->turn, number + BERTH_REMOTE_CELLS - place, memory_order_release);
    atomic_store_explicit(&remote->begin, number + 1, memory_order_relaxed);
    return true;
}

bool berth_pool_take_over_remote(berth_pool* pool) {
    berth_remote* remote = &pool->remote;
    uint64_t blocks = 0, bytes = 0;
    berth_block block;
    while (pop(remote, &block)) {
        berth_pool_end_life_of(pool, &block);
        if (!berth_pool_give_to_front(pool, &block)) berth_pool_return_block(pool, &block);
        bytes += block.size_bytes;
        blocks++;
    }
    berth_pool_count_gives(pool, blocks + remote->settled_blocks, bytes + remote->settled_bytes);
    remote->settled_blocks = 0;
    remote->settled_bytes = 0;
    return blocks > 0;
}

void berth_pool_give_remote(berth_pool* pool, const berth_block* block) {
    if (!pool->has_bypass && push(&pool->remote, pool->host, block)) return;
    if (!pool->has_bypass && berth_pool_try_enter(pool)) {
        berth_mutex_lock(pool->lock);
        (void)berth_pool_drain_remote(pool);
        berth_pool_count_give(pool, block);
        berth_pool_return_block(pool, block);
        berth_mutex_unlock(pool->lock);
        berth_pool_leave(pool);
        return;
    }
    if (pool->has_bypass) berth_pool_give_bypass(pool, block);
    berth_mutex_lock(pool->lock);
    if (!pool->has_bypass) berth_pool_return_block(pool, block);
    pool->remote.settled_blocks++;
    pool->remote.settled_bytes += block->size_bytes;
    berth_mutex_unlock(pool->lock);
}
