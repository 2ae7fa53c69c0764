// SPDX-License-Identifier: Apache-2.0
// Which cached block holds which tokens: a tree for each key, found again by its tokens. Knows
// blocks by their numbers only, neither their memory nor who holds them.
//
// X1: a known block holds the tokens that follow all blocks above it, under one key; a block with
//     fewer tokens than a block has is a leaf.
//
// X2: a hash finds candidates; only tokens, compared in full, and the same block above make a hit.
//
// X3: a block is evictable exactly while it is known, not held, and a leaf; it goes before whatever
//     it follows.
//
// X4: what the index takes of host memory is bounded by the blocks that it has room for, and by the
//     keys that are open or have known blocks.
//
// Used by one thread at a time.
#ifndef BERTH_KV_PREFIX_INDEX_H
#define BERTH_KV_PREFIX_INDEX_H

#include <stdbool.h>

#include "base/host.h"
#include "berth/kv_miss.h"

/// No block: above the first one of a prompt, or an answer.
#define BERTH_PREFIX_NO_BLOCK UINT32_MAX
/// Most tokens of a block.
#define BERTH_PREFIX_MAX_BLOCK_TOKENS 1024u
/// Most blocks.
#define BERTH_PREFIX_MAX_BLOCKS (1u << 28)
/// Most bytes of a key.
#define BERTH_PREFIX_MAX_KEY_BYTES 256u

/// Tokens of cached blocks.
typedef struct berth_prefix_index berth_prefix_index;

/// An open key.
typedef struct berth_prefix_root {
    uint32_t id;     ///< names the key
    uint32_t tenant; ///< who opened it: whose blocks are those that it makes known
} berth_prefix_root;

/// What goes first when there is no room.
typedef enum berth_prefix_policy {
    BERTH_PREFIX_REUSE, ///< by observed reuse, depth and tenant
    BERTH_PREFIX_LRU,   ///< the block whose last use is longest ago
} berth_prefix_policy;

/// What a prompt had in common with what is known.
typedef struct berth_prefix_match {
    size_t blocks;           ///< whole ones, from the begin of the prompt on
    uint32_t partial;        ///< the block that begins as the prompt goes on; or NO_BLOCK
    uint32_t partial_tokens; ///< tokens of it that agree
    berth_kv_miss miss;      ///< why the next token was not found
} berth_prefix_match;

// clang-format off
/// Counters of an index: X(name, help). Exact, of the moment of the query.
#define BERTH_PREFIX_STATS_MAP(X)                                                                  \
    X(known_blocks,       "known now")                                                             \
    X(held_blocks,        "of them, held")                                                         \
    X(evictable_blocks,   "of them, that may go next: neither held nor above another")             \
    X(roots,              "keys that are open or have known blocks")                               \
    X(lookups,            "prompts looked up so far")                                              \
    X(lookup_tokens,      "their tokens, as far as they might have been found")                    \
    X(hit_tokens,         "of them, found")                                                        \
    X(partial_hit_tokens, "of them, at the begin of a block that goes on differently")             \
    X(miss_none_shared,   "tokens not found: nothing known goes on like this")                     \
    X(miss_too_short,     "...: less than a block")                                                \
    X(miss_evicted,       "...: evicted lately; by hash only")                                     \
    X(miss_other_tenant,  "...: known under another key")                                          \
    X(inserted,           "blocks that became known")                                              \
    X(equal,              "blocks offered whose tokens were known already")                        \
    X(refused,            "blocks offered that follow nothing known")                              \
    X(evicted,            "blocks evicted")                                                        \
    X(evicted_uses,       "hits that they had had")                                                \
    X(bytes,              "host memory of the index")
// clang-format on

/// The counters of BERTH_PREFIX_STATS_MAP.
typedef struct berth_prefix_stats {
#define BERTH_PREFIX_STATS_FIELD(name, help) uint64_t name; ///< help
    BERTH_PREFIX_STATS_MAP(BERTH_PREFIX_STATS_FIELD)
#undef BERTH_PREFIX_STATS_FIELD
} berth_prefix_stats;

/// Makes an empty index over blocks of `block_tokens` tokens, with room for none.
/// Errors: BERTH_ERR_INVALID_ARGUMENT for a size of 0 or more than 1,024, or no policy;
///         BERTH_ERR_OUT_OF_MEMORY; then `*out_index` is NULL.
BERTH_NODISCARD berth_status berth_prefix_index_create(const berth_host* host,
                                                       uint32_t block_tokens,
                                                       berth_prefix_policy policy,
                                                       berth_prefix_index** out_index);
/// Accepts NULL; keys need not be closed.
void berth_prefix_index_destroy(berth_prefix_index* index);

/// Makes room for the blocks 0 to `block_capacity` - 1. Besides create and open_root the only call
/// that allocates.
/// Errors: BERTH_ERR_OUT_OF_MEMORY, BERTH_ERR_INVALID_ARGUMENT for more than 2^28; unchanged then.
/// Cost:   O(block_capacity) when it grows.
BERTH_NODISCARD berth_status berth_prefix_index_reserve(berth_prefix_index* index,
                                                        uint32_t block_capacity);

/// Host memory that the index takes; exact but for the allocator's own.
uint64_t berth_prefix_index_bytes(const berth_prefix_index* index);

/// Opens a key of `key_bytes` bytes (0 to 256; `key` NULL if 0) for `tenant`. Tenants with the same
/// key share blocks; a tenant's salt in the key keeps them apart.
/// Ownership: the caller closes `*out_root`. The key stays while it is open or a block under it is
///            known.
/// Errors:    BERTH_ERR_INVALID_ARGUMENT, BERTH_ERR_OUT_OF_MEMORY; unchanged then.
BERTH_NODISCARD berth_status berth_prefix_index_open_root(berth_prefix_index* index,
                                                          const void* key,
                                                          size_t key_bytes,
                                                          uint32_t tenant,
                                                          berth_prefix_root* out_root);
/// Opens a key once more that is open.
void berth_prefix_index_retain_root(berth_prefix_index* index, berth_prefix_root root);
void berth_prefix_index_close_root(berth_prefix_index* index, berth_prefix_root root);

/// Looks up the first `limit` of `count` tokens: the blocks that hold them, as many whole ones as
/// follow each other, to `out_blocks` [limit / block_tokens]; then, of the block that would be
/// next, the one that shares the most tokens within `limit`. This is a use of all of them, of the
/// last block first. Of the blocks that may be next the 64 used last are looked at. Cost: O(limit).
/// Allocates nothing.
void berth_prefix_index_match(berth_prefix_index* index,
                              berth_prefix_root root,
                              const int32_t* tokens,
                              size_t count,
                              size_t limit,
                              uint32_t* out_blocks,
                              berth_prefix_match* out_match);

/// Makes known that `block` (below the capacity, not known) holds `tokens` [count] (1 to
/// block_tokens), which follow `parent`, a whole block; NO_BLOCK: they begin a prompt. It is held
/// from then on. Returns `block`; or, if a block with these tokens is known there, that one's
/// number, which counts as a use; or NO_BLOCK if it is refused: the parent is not known, not whole
/// or under another key, or a number makes no sense. Cost: O(count). Allocates nothing.
uint32_t berth_prefix_index_insert(berth_prefix_index* index,
                                   berth_prefix_root root,
                                   uint32_t parent,
                                   uint32_t block,
                                   const int32_t* tokens,
                                   uint32_t count);

bool berth_prefix_index_has(const berth_prefix_index* index, uint32_t block);
/// Tokens of a block; 0 if it is not known.
uint32_t berth_prefix_index_tokens(const berth_prefix_index* index, uint32_t block);

/// Somebody uses the block: it is not evicted. Does nothing if it is held or not known.
void berth_prefix_index_hold(berth_prefix_index* index, uint32_t block);
/// Nobody uses the block any more: it may be evicted once it is a leaf. A use, so that a prompt's
/// blocks are to be let go from the last one to the first. Does nothing if it is not held.
void berth_prefix_index_unhold(berth_prefix_index* index, uint32_t block);

/// Forgets the block that the policy gives up first, and remembers that it did. False, and
/// NO_BLOCK, if there is none. Cost: O(log n).
bool berth_prefix_index_evict(berth_prefix_index* index, uint32_t* out_block);
/// Forgets a block, held or not, that no known block follows, without calling it evicted. Does
/// nothing if it is not known.
void berth_prefix_index_remove(berth_prefix_index* index, uint32_t block);
/// The block `from` has the number `to` from now on, which is not known and below the capacity.
/// Cost: O(log n + block_tokens + blocks that follow it).
void berth_prefix_index_move(berth_prefix_index* index, uint32_t from, uint32_t to);

/// Fills in the counters.
void berth_prefix_index_query_stats(const berth_prefix_index* index, berth_prefix_stats* out_stats);

/// Walks over everything: X1 to X3, hashes and counts. For tests.
bool berth_prefix_index_is_valid(const berth_prefix_index* index);

#endif // BERTH_KV_PREFIX_INDEX_H
