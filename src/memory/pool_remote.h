// SPDX-License-Identifier: Apache-2.0
// Blocks that threads without the pool's guard have given back: a ring that any thread writes and
// the holder of the guard reads. The blocks' own memory is not touched, as a host may not be able
// to.
#ifndef BERTH_MEMORY_POOL_REMOTE_H
#define BERTH_MEMORY_POOL_REMOTE_H

#include "memory/pool.h"

#include <stdatomic.h>

#define BERTH_REMOTE_CELLS 256u ///< a power of two

typedef struct berth_remote_cell {
    /// The number of the block that may be written here, less the cell's own; one more once it is.
    _Atomic uint64_t turn;
    berth_block block;
} berth_remote_cell;

typedef struct berth_remote {
    _Atomic(berth_remote_cell*) cells; ///< [BERTH_REMOTE_CELLS]; NULL before the first block
    _Atomic uint64_t end;              ///< blocks that have found a place so far
    _Atomic uint64_t begin;            ///< blocks that the holder has taken out
    // Guarded by the pool's lock: what was given back under it and is not yet in the holder's
    // counts.
    uint64_t settled_blocks;
    uint64_t settled_bytes;
} berth_remote;

/// True if nothing is to be taken over. The holder of the guard, under the pool's lock.
static inline bool berth_remote_is_empty(const berth_remote* remote) {
    return atomic_load_explicit(&remote->begin, memory_order_relaxed) ==
               atomic_load_explicit(&remote->end, memory_order_relaxed) &&
           remote->settled_blocks == 0;
}

void berth_remote_fini(berth_remote* remote, const berth_host* host);

#endif // BERTH_MEMORY_POOL_REMOTE_H
