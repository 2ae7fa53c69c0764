// SPDX-License-Identifier: Apache-2.0
// A thread that uses a pool at random and knows what must be in every block: for endurance tests.
// Several of them, each with a pool of its own, share a device and its page store.
#ifndef BERTH_TEST_POOL_WORKER_H
#define BERTH_TEST_POOL_WORKER_H

#include <stdio.h>
#include <stdlib.h>

#include "base/thread.h"
#include "device/device.h"
#include "failing_host.h"
#include "health/compactor.h"
#include "memory/arena.h"
#include "memory/ladder.h"
#include "memory/pool.h"
#include "random.h"

/// Ends the program, with the place, where a condition does not hold.
#define POOL_REQUIRE(condition)                                                                    \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#define POOL_WORKER_SLOTS 192u
#define POOL_WORKER_PARCELS 32u

/// One block and what the worker knows of it.
typedef struct pool_slot {
    berth_movable movable;
    struct pool_worker* worker;
    berth_block block; ///< data is NULL where there is none
    uint32_t mark;     ///< which bytes are in it
    bool can_follow;   ///< the pool was told that it may move
    bool is_pinned;
    bool is_asked; ///< leave to move was given, the move has not come
    uint64_t last_use;
} pool_slot;

typedef struct pool_worker pool_worker;

/// A block that does not move, on its way to the thread that gives it back.
typedef struct pool_parcel {
    berth_block block;
    uint32_t mark;
} pool_parcel;

/// What all workers share, and what may go wrong.
typedef struct pool_workshop {
    const berth_host* host;
    failing_host* failing;
    berth_device* device;
    berth_store* store;
    uint64_t largest_bytes; ///< of a block
    bool is_sim;
    bool may_fail; ///< faults strike now and then
    pool_worker* workers;
    size_t worker_count;
    // of whoever tells of crossings of the store's watermarks
    bool was_rise; ///< the last one
    uint64_t crossings;
} pool_workshop;

struct pool_worker {
    pool_workshop* shop;
    test_random random;
    berth_tenant tenant;
    berth_compactor compactor;
    berth_reclaimer room_maker; ///< the rung of compaction
    berth_stream* stream;
    berth_stream* other; ///< reads blocks now and then
    berth_pool* pool;
    berth_arena* arena; ///< used by its worker alone
    berth_mutex guard;  ///< of the pool
    pool_slot slots[POOL_WORKER_SLOTS];
    bool is_dense;       ///< nearly all blocks move, many are about as large as granules
    unsigned char* held; ///< a byte of a frame that is over
    /// Blocks of this pool that another worker is to check and give back.
    pool_parcel parcels[POOL_WORKER_PARCELS];
    size_t parcel_count;
    berth_mutex parcel_lock;
    unsigned char* sink; ///< [largest_bytes], where reads go
    // of the current round, and in all
    uint64_t requested_bytes;
    uint64_t blocks;
    uint64_t ops, refusals, moves;
};

void pool_worker_init(pool_worker* worker, pool_workshop* shop, uint64_t seed);
/// Everything has been given back (pool_worker_settle).
void pool_worker_fini(pool_worker* worker);

/// `count` random operations.
void pool_worker_run(pool_worker* worker, uint64_t count);

/// Compares the pool's books with the worker's; nobody else is at work.
void pool_worker_check(pool_worker* worker);

/// Checks and gives back all that is out; nothing stays mapped. Nobody else is at work.
void pool_worker_settle(pool_worker* worker);

#endif // BERTH_TEST_POOL_WORKER_H
