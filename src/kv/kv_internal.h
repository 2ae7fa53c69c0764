// SPDX-License-Identifier: Apache-2.0
// The structs of a cache, its sequences and its batch.
#ifndef BERTH_KV_KV_INTERNAL_H
#define BERTH_KV_KV_INTERNAL_H

#include "berth/kv.h"
#include "exec/exec_impl.h"
#include "exec/guest.h"
#include "kv/kv_blocks.h"
#include "kv/prefix_index.h"

// the index is asked with the numbers of blocks as they are
_Static_assert(BERTH_KV_NO_BLOCK == BERTH_PREFIX_NO_BLOCK, "one number stands for no block");

BERTH_VEC_DEFINE(berth_kv_block_vec, uint32_t);
BERTH_VEC_DEFINE(berth_kv_token_vec, int32_t);

struct berth_kv_sequence {
    berth_kv_cache* cache;
    berth_kv_sequence* next; ///< the cache's list
    berth_kv_sequence* previous;
    berth_prefix_root root; ///< unless it is private
    bool is_private;        ///< neither finds nor leaves blocks
    bool is_in_batch;
    bool is_released; ///< in a batch: ends with it
    bool is_parked;
    /// Blocks from the begin on that the index finds; no more are offered to it if it has refused
    /// one.
    size_t published;
    bool stays_unpublished;
    berth_kv_token_vec tokens; ///< `count` of them computed, or before it was parked; then new ones
    berth_kv_block_vec blocks; ///< for all tokens
    void* copy; ///< parked: keys and values of blocks from the begin on, in host memory
    size_t copied_blocks;
};

/// Arrays of a batch, in one piece of host memory that is kept for the next.
struct berth_kv_batch {
    berth_kv_cache* cache;
    bool is_open;
    bool is_uploaded;
    berth_kv_tables tables;
    berth_kv_sequence** sequences; ///< [tables.sequences]
    size_t* old_tokens;            ///< of each, before
    size_t* old_blocks;
    int32_t* numbers; ///< all arrays of i32, of which `tables` has some
    int32_t* token_starts;
    int32_t* block_starts;
    int32_t* last_block_tokens;
    int32_t* lengths;
    int32_t* positions;
    int32_t* block_indices;
    int32_t* ids;          ///< [T]
    int32_t* last_rows;    ///< [S]
    int32_t* rows;         ///< [S, 6], the queries are all tokens
    int32_t* last_queries; ///< [S, 6], the queries are the last ones
    size_t number_capacity;
    size_t sequence_capacity;
    berth_kv_tensors tensors;
    berth_tensor* row_tensor;
    berth_tensor* last_query_tensor;
    berth_tensor* block_tensor;
    uint64_t ticket; ///< asynchronous devices: before it the last batch's arrays are read
};

struct berth_kv_cache {
    uint32_t refs;          ///< the caller's, and one for each sequence
    berth_context* context; ///< its home is pinned
    berth_kv_options options;
    berth_kv_layout layout;
    berth_kv_blocks blocks;
    berth_prefix_index* index;
    berth_tensor** keys; ///< [layers], windows on the blocks
    berth_tensor** values;
    berth_kv_sequence* first;
    berth_kv_batch batch;
    bool is_busy; ///< in a change that a place on the ladder must not disturb
    berth_reclaimer evictor;
    berth_reclaimer patient_evictor; ///< after the stream's work
    berth_guest guest;
    berth_use_window use;
    double recompute_ns;   ///< a token; 0: not known
    double copy_ns;        ///< a byte, between device and host
    uint32_t cached_count; ///< blocks that no sequence holds
    uint64_t held_tokens;
    uint64_t cached_tokens;
    uint64_t sequences;
    uint64_t parked_sequences;
    uint64_t parked_bytes;
    berth_kv_stats counted; ///< only the counters that events change
};

/// Begins a call on a cache: takes its context's lock.
/// Errors: BERTH_ERR_INVALID_ARGUMENT for NULL, BERTH_ERR_FORKED, BERTH_ERR_STATE if its context
///         has ended, or within an out-of-memory callback of it.
BERTH_NODISCARD berth_status berth_kv_enter(berth_kv_cache* cache);
void berth_kv_leave(berth_kv_cache* cache);

static inline uint32_t berth_kv_block_tokens(const berth_kv_cache* cache) {
    return (uint32_t)cache->layout.block_tokens;
}

// Under the lock:

/// Gives the caller's reference back, or that of a sequence or batch, which may end the cache, and
/// then the lock, if it `has_locked`.
void berth_kv_cache_drop(berth_kv_cache* cache, bool has_locked);

/// Makes `count` free blocks, which berth_kv_blocks_take then has: those that are free, then memory
/// of the device, then cached blocks. All or nothing, but that cached blocks may be gone.
/// Errors: BERTH_ERR_OUT_OF_MEMORY with the numbers.
BERTH_NODISCARD berth_status berth_kv_make_room(berth_kv_cache* cache, uint64_t count);

/// A free block, held by one sequence at `position`. There is one.
uint32_t berth_kv_take_block(berth_kv_cache* cache, size_t position);
/// One more sequence holds the block at its position.
void berth_kv_hold_block(berth_kv_cache* cache, uint32_t block);
/// One sequence less holds it: the last one leaves it cached, if the index finds it, or free.
/// Returns true if it is free now.
bool berth_kv_drop_block(berth_kv_cache* cache, uint32_t block);
/// Notes how many tokens a held block has.
void berth_kv_set_tokens(berth_kv_cache* cache, uint32_t block, uint32_t tokens);

/// Lets go of the blocks from `keep` on, the last first; returns how many are free now, and in
/// `*out_cached` (may be NULL) how many are cached.
size_t berth_kv_drop_blocks(berth_kv_sequence* sequence, size_t keep, size_t* out_cached);

/// Whether adding to the sequence needs a copy of its begun last block.
bool berth_kv_needs_copy(const berth_kv_sequence* sequence);
/// Offers whole blocks that are computed to the index; with `last`, the begun one too.
void berth_kv_publish(berth_kv_sequence* sequence, bool last);

/// Puts what the index finds of `tokens` [count] into a sequence without blocks, `limit` tokens at
/// most.
/// Errors: BERTH_ERR_OUT_OF_MEMORY (host memory).
BERTH_NODISCARD berth_status berth_kv_find(berth_kv_sequence* sequence,
                                           const int32_t* tokens,
                                           size_t count,
                                           size_t limit,
                                           berth_kv_match* out_match);

/// Ends a sequence that is in no batch; the cache stays.
void berth_kv_sequence_end(berth_kv_sequence* sequence);
/// Frees the host copy of a parked sequence.
void berth_kv_drop_copy(berth_kv_sequence* sequence);

/// Frees the arrays of a batch that is not open.
void berth_kv_batch_fini(berth_kv_cache* cache);

/// Walks over everything: K1 to K3, the books. For tests.
bool berth_kv_cache_is_valid(berth_kv_cache* cache);

#endif // BERTH_KV_KV_INTERNAL_H
