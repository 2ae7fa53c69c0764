// SPDX-License-Identifier: Apache-2.0
// KV layer: a paged cache of keys and values, and the index that finds blocks by their tokens.
// Knows nothing of models, requests or HTTP.
//
// K1: a block has one number, one place and one state: held by sequences, cached (held by none,
//     found by the index), or free.
//
// K2: a sequence's block at position p holds keys and values of its tokens [p * block_tokens, ...);
//     all sequences that hold a block hold it at the same position, for the same tokens.
//
// K3: a block that two sequences hold, or that the index finds, is never written to where it has
//     tokens.
//
// K4: while a batch is open no held block gets another number.
//
// K5: the memory of the layer is mapped for the owner KV; granules that no block lies in can be
//     given back at any time.
//
// This header: the blocks themselves, in one range of addresses over granules of the page store.
// Used under the lock of its home.
#ifndef BERTH_KV_KV_BLOCKS_H
#define BERTH_KV_KV_BLOCKS_H

#include "memory/page_store.h"
#include "tensor/tensor_impl.h"

#define BERTH_KV_NO_BLOCK UINT32_MAX

/// What is known of a block that is not free.
typedef struct berth_kv_block {
    uint32_t refs;     ///< sequences that hold it; 0: it is cached
    uint32_t position; ///< in each of them
    uint32_t tokens;   ///< that it holds
} berth_kv_block;

typedef struct berth_kv_blocks {
    const berth_host* host;
    berth_home* home; ///< whose stream works on them; borrowed
    berth_account account;
    berth_space* space;
    uint64_t block_bytes;
    uint64_t granule_bytes;
    uint32_t most;        ///< blocks that the limit allows
    uint32_t capacity;    ///< blocks that the tables have room for
    uint32_t ready_count; ///< free blocks whose memory is mapped
    uint32_t taken_count;
    uint32_t first_ready; ///< no ready block is below
    uint32_t end_taken;   ///< no taken block is from here up
    uint64_t* ready;      ///< a bit for each block
    uint64_t* taken;
    berth_kv_block* records; ///< [capacity]
    uint64_t granules;       ///< of the space that blocks may lie in
    uint64_t mapped_granules;
    uint64_t idle_granules;  ///< of them, those without a taken block
    uint64_t first_unmapped; ///< the lowest one; all below are mapped
    uint64_t end_mapped;     ///< none from here up is mapped
    uint64_t* mapped;        ///< a bit for each granule
    uint32_t* users;         ///< taken blocks that touch each granule
    uint64_t* idle_since;    ///< of each granule, in counts of `idlings`
    uint64_t idlings;
    // Asynchronous devices: work on granules that were idle at `ticket_idlings` is done when
    // `ticket` is (0: no ticket).
    uint64_t ticket;
    uint64_t ticket_idlings;
} berth_kv_blocks;

/// `blocks` is zeroed. Reserves addresses for as many blocks as lie in `max_bytes`; maps nothing.
/// Errors: BERTH_ERR_OUT_OF_MEMORY, and those of the device; fini all the same.
BERTH_NODISCARD berth_status berth_kv_blocks_init(berth_kv_blocks* blocks,
                                                  berth_home* home,
                                                  berth_account account,
                                                  uint64_t block_bytes,
                                                  uint64_t max_bytes);
/// Waits for work on them, unmaps all and frees the tables. Accepts a zeroed struct.
void berth_kv_blocks_fini(berth_kv_blocks* blocks);

static inline unsigned char* berth_kv_blocks_data(const berth_kv_blocks* blocks, uint32_t block) {
    return blocks->space->base + block * blocks->block_bytes;
}

static inline bool berth_kv_blocks_is_taken(const berth_kv_blocks* blocks, uint32_t block) {
    return block < blocks->capacity && (blocks->taken[block / 64] >> (block % 64) & 1u) != 0;
}

/// Free blocks for which there is memory that nobody has; a lower bound.
uint64_t berth_kv_blocks_query_mappable(const berth_kv_blocks* blocks);

/// Maps memory until `count` blocks are ready; draws on `reservation` (NULL: none) first, then
/// climbs the ladder.
/// Errors: BERTH_ERR_OUT_OF_MEMORY, those of the device; what was mapped before is ready.
BERTH_NODISCARD berth_status berth_kv_blocks_prepare(berth_kv_blocks* blocks,
                                                     uint64_t count,
                                                     berth_reservation* reservation);

/// Takes the lowest ready block, of which there is one. Its record is zeroed.
uint32_t berth_kv_blocks_take(berth_kv_blocks* blocks);
/// Makes a block free; it stays mapped.
void berth_kv_blocks_give(berth_kv_blocks* blocks, uint32_t block);

/// Enqueues the copy of a block's content. Errors: those of the device.
BERTH_NODISCARD berth_status berth_kv_blocks_copy(berth_kv_blocks* blocks,
                                                  uint32_t from,
                                                  uint32_t to);

/// The highest taken block below `end`; BERTH_KV_NO_BLOCK if there is none.
uint32_t berth_kv_blocks_last_taken(const berth_kv_blocks* blocks, uint32_t end);
/// The ready block that would be taken next; BERTH_KV_NO_BLOCK if there is none.
uint32_t berth_kv_blocks_next_ready(berth_kv_blocks* blocks);

/// Granules beyond what the taken blocks would lie in if they were packed.
uint64_t berth_kv_blocks_query_spare(const berth_kv_blocks* blocks);

/// Gives granules back that no block lies in, the upper ones first, until `keep_bytes` or less are
/// mapped or `limit_bytes` have been given; on an asynchronous device only those that no pending
/// work may use, waiting for it if `may_block`. Returns the bytes given.
uint64_t berth_kv_blocks_release(berth_kv_blocks* blocks,
                                 uint64_t keep_bytes,
                                 uint64_t limit_bytes,
                                 bool may_block);

/// Walks over everything: K1 and the counts. For tests.
bool berth_kv_blocks_are_valid(const berth_kv_blocks* blocks);

#endif // BERTH_KV_KV_BLOCKS_H
