// SPDX-License-Identifier: Apache-2.0
// The reuse pool: serves every value that no plan places. One for each context, so that a released
// block can be taken again at once by later work of the same stream.
//
// Who may call: take, give, flush_front and is_valid are for the holder of the pool's guard; all
// others for any thread.
#ifndef BERTH_MEMORY_POOL_H
#define BERTH_MEMORY_POOL_H

#include "memory/movable.h"
#include "memory/page_store.h"
#include "memory/rest.h"

typedef struct berth_pool berth_pool;

/// What a pool is told of a block before it chooses its place.
typedef struct berth_pool_request {
    uint64_t size_bytes;
    /// Names the place in the program that asks: blocks of one site live about equally long.
    /// 0: unknown.
    uint64_t site;
    berth_movable* movable;         ///< the block's owner, if it can follow a move; may be NULL
    berth_reservation* reservation; ///< granules to be mapped are drawn from it first; may be NULL
} berth_pool_request;

/// Memory taken from a pool: `data` is aligned to BERTH_ALIGNMENT; never NULL, also for 0 bytes.
typedef struct berth_block {
    unsigned char* data;
    uint64_t size_bytes; ///< as asked for
    uint64_t handle;     ///< the pool's
    uint32_t site;       ///< the pool's number of the request's site; 0: not to be learned from
    uint32_t born;       ///< takes of the pool before this one, modulo 2^32
} berth_block;

/// Bypass of everything: each block comes straight from this pair (host-accessible devices only).
typedef struct berth_pool_bypass {
    void* self;
    void* (*alloc)(void* self, size_t size, size_t alignment);
    void (*free)(void* self, void* block, size_t size);
} berth_pool_bypass;

typedef struct berth_pool_stats {
    uint64_t requested_bytes; ///< asked for by blocks that are out now; exact
    uint64_t peak_requested_bytes;
    uint64_t blocks;       ///< out now, or given back by another thread and not taken over yet
    uint64_t mapped_bytes; ///< granules held
    uint64_t free_bytes;   ///< mapped, in no block; also what is ready in the front
    uint64_t largest_free_bytes; ///< in one stretch; the front is left out
    uint64_t remapped_bytes; ///< of granules that have got other addresses with what lies in them
    uint64_t takes;
    uint64_t reuses;            ///< takes that mapped nothing
    uint64_t predictions;       ///< blocks whose lifetime was predicted
    uint64_t right_predictions; ///< of them, that lived as long as predicted
    uint64_t wrong_predictions; ///< that did not, or have already lived longer
} berth_pool_stats;

/// The lock that whoever takes and gives holds (a context's). Other threads try it where they want
/// what only its holder may touch. A guard without functions is always free: a pool of one thread.
typedef struct berth_pool_guard {
    void* self;
    bool (*try_lock)(void* self);
    void (*unlock)(void* self);
} berth_pool_guard;

/// What a pool is made of. All pointers are borrowed and outlive it.
typedef struct berth_pool_config {
    const berth_host* host;
    berth_store* store;
    berth_tenant* tenant;            ///< that the pool's granules are counted for; may be NULL
    berth_stream* stream;            ///< the one that uses the blocks
    const berth_pool_bypass* bypass; ///< NULL: the pool proper; else copied
    berth_pool_guard guard;
    bool returns_at_once; ///< gives give idle granules back, without waiting for a trim
} berth_pool_config;

/// Errors: BERTH_ERR_OUT_OF_MEMORY (host memory).
BERTH_NODISCARD berth_status berth_pool_create(const berth_pool_config* config,
                                               berth_pool** out_pool);
/// Accepts NULL. All blocks have been given back. Waits for the stream's work.
void berth_pool_destroy(berth_pool* pool);

/// Takes a block. May block before it refuses: the ladder's last rung waits for work that keeps
/// free granules from being given back. Errors: BERTH_ERR_OUT_OF_MEMORY, BERTH_ERR_OVERFLOW;
/// `*out_block` zeroed, nothing changed.
BERTH_NODISCARD berth_status berth_pool_take(berth_pool* pool,
                                             const berth_pool_request* request,
                                             berth_block* out_block);
/// Gives a block back; later work of the pool's stream may use it at once. Whoever lets another
/// stream use a block makes the pool's stream wait for that use first (berth_stream_wait_stream).
/// Cannot fail. On an asynchronous device a bypass gets the memory only when the stream has run,
/// which is waited for.
void berth_pool_give(berth_pool* pool, const berth_block* block);
/// As give, for a thread that does not hold the guard; the pool has one, and nobody can move the
/// block. The holder takes it over when it next looks beyond its front. Never waits for a holder.
void berth_pool_give_remote(berth_pool* pool, const berth_block* block);

/// Puts what is ready in the front back among what is free, where it joins its neighbours: before
/// the holder of the guard trims, or moves blocks.
void berth_pool_flush_front(berth_pool* pool);

/// Tells that an outermost step has ended: lifetimes are counted in takes and in steps.
void berth_pool_note_step(berth_pool* pool);
/// While `cautious`, as long as fragmentation is forecast, blocks go where they fit best, whatever
/// lives there.
void berth_pool_set_cautious(berth_pool* pool, bool cautious);

/// Lets takes move other blocks, whose owners agree, where that finds a place for a block which
/// would have none. The guard's holder.
void berth_pool_allow_moves(berth_pool* pool);

/// Waits for the stream's work, so that what it has moved can be given back. False if that fails.
bool berth_pool_wait(const berth_pool* pool);
/// While `waiting`, moves of granules wait for work that may touch them instead of being left out.
void berth_pool_set_waiting(berth_pool* pool, bool waiting);

/// The most bytes of granules that one take(size) can map, whatever the state of the pool.
uint64_t berth_pool_query_worst_growth(const berth_pool* pool, uint64_t size);

/// What several blocks may make a pool map. Zeroed: nothing yet.
typedef struct berth_pool_demand {
    uint64_t large_bytes; ///< whole granules of large blocks
    uint64_t large_count;
    uint64_t medium_bytes; ///< of blocks too large for slabs that a granule holds several of: the
                           ///< granules that they would need each alone
    uint64_t medium_count;
    uint64_t largest_medium;
    uint64_t small_count;   ///< blocks in slabs
    uint64_t slab_parts;    ///< slabs that they fill, in 2^-20ths
    uint32_t largest_class; ///< of them
} berth_pool_demand;

/// Adds one block of at most `size` bytes.
void berth_pool_demand_add(const berth_pool* pool, berth_pool_demand* demand, uint64_t size);
/// The most bytes of granules that takes of these blocks can map in whatever order, also where some
/// are given back in between. UINT64_MAX if it does not fit.
uint64_t berth_pool_demand_bytes(const berth_pool* pool, const berth_pool_demand* demand);

/// Gives idle granules back until `keep_bytes` of free mapped memory are left; on an asynchronous
/// device only those whose last use the stream has passed (waits if `may_block`). Returns the bytes
/// given back.
uint64_t berth_pool_trim(berth_pool* pool, uint64_t keep_bytes, bool may_block);

/// As trim, up to `limit_bytes`, and without waiting for pending work or for the guard's holder:
/// what only that may touch stays. The caller holds no lock of a pool.
uint64_t berth_pool_release_idle(berth_pool* pool, uint64_t keep_bytes, uint64_t limit_bytes);

/// Bytes in blocks and slabs, with all rounding: the most at one time since the last call, and now.
void berth_pool_sample_use(berth_pool* pool, uint64_t* out_peak_bytes, uint64_t* out_bytes);

/// Adds to `rest` why memory is still mapped after `keep_bytes` of it were to be kept idle.
/// Cost: O(free stretches).
void berth_pool_add_rest(const berth_pool* pool, uint64_t keep_bytes, berth_rest* rest);

void berth_pool_query_stats(const berth_pool* pool, berth_pool_stats* out_stats);

/// Walks the whole structure: books balance, nothing overlaps. For assertions of tier 3 and tests.
bool berth_pool_is_valid(const berth_pool* pool);

#endif // BERTH_MEMORY_POOL_H
