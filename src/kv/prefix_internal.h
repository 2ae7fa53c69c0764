// SPDX-License-Identifier: Apache-2.0
// The structs of a prefix index, and what a policy of eviction has to say.
#ifndef BERTH_KV_PREFIX_INTERNAL_H
#define BERTH_KV_PREFIX_INTERNAL_H

#include "base/vec.h"
#include "kv/prefix_index.h"

#define BERTH_PREFIX_NONE UINT32_MAX

/// What is known of a block; zeroed: nothing.
typedef struct berth_prefix_node {
    uint64_t content; ///< hash of its tokens and all before them, whatever the key
    uint64_t stamp;   ///< time of its last use
    uint32_t root;
    uint32_t tenant; ///< who made it known
    uint32_t parent;
    uint32_t first_child; ///< of a list from the one used last on
    uint32_t previous_sibling;
    uint32_t next_sibling;
    uint32_t next_in_bucket;
    uint32_t previous_same; ///< in the bucket of its content
    uint32_t next_same;
    uint32_t heap_at; ///< place among the evictable ones; NONE if it is not
    uint32_t depth;   ///< blocks before it
    uint32_t uses;    ///< hits so far, and those before it was evicted as far as is remembered
    uint32_t note;    ///< the policy's
    uint16_t tokens;  ///< 0: not known
    bool is_held;
} berth_prefix_node;

/// A block evicted lately.
typedef struct berth_prefix_ghost {
    uint64_t key; ///< berth_prefix_key; 0: none
    uint64_t stamp;
    uint32_t uses;
    uint32_t depth;
    uint32_t note;
    uint32_t next_in_bucket;
} berth_prefix_ghost;

/// An evictable block; the one with the least rank goes first.
typedef struct berth_prefix_rank {
    uint64_t rank;
    uint32_t block;
} berth_prefix_rank;

/// A key.
typedef struct berth_prefix_key_record {
    uint64_t salt; ///< its hash
    char* bytes;
    uint32_t byte_count;
    uint32_t opens;  ///< handles
    uint32_t blocks; ///< known under it; nobody has it and none is known: its place is free
    uint32_t first_child;
    uint32_t next_in_bucket; ///< or of the free places
} berth_prefix_key_record;

BERTH_VEC_DEFINE(berth_prefix_key_vec, berth_prefix_key_record);
BERTH_VEC_DEFINE(berth_prefix_bucket_vec, uint32_t);

/// Tables with an entry for each block, in one piece of memory.
typedef struct berth_prefix_tables {
    void* memory;
    size_t bytes;
    uint32_t capacity; ///< blocks
    uint32_t mask;     ///< of buckets
    berth_prefix_node* nodes;
    int32_t* tokens;            ///< [capacity, block_tokens]
    uint32_t* buckets;          ///< by berth_prefix_key
    uint32_t* same_buckets;     ///< by content
    berth_prefix_rank* heap;    ///< [heap_count] evictable blocks
    berth_prefix_ghost* ghosts; ///< [capacity], a ring
    uint32_t* ghost_buckets;
} berth_prefix_tables;

typedef struct berth_evict_policy berth_evict_policy;

struct berth_prefix_index {
    const berth_host* host;
    const berth_evict_policy* policy;
    uint32_t block_tokens;
    uint64_t clock; ///< uses so far
    berth_prefix_tables tables;
    uint32_t heap_count;
    uint32_t next_ghost;
    berth_prefix_key_vec keys;
    berth_prefix_bucket_vec key_buckets; ///< a power of two, at least as many as keys
    uint32_t free_key;
    uint64_t key_bytes;
    berth_prefix_stats counted; ///< those that events change
};

/// What decides who goes first. One static table for each policy.
struct berth_evict_policy {
    /// The rank of an evictable block. Asked when it becomes evictable, and when it is used then.
    uint64_t (*rank)(const berth_prefix_index* index, uint32_t block);
    /// A block has become known; `ghost` is what was remembered of it (NULL: nothing). Optional.
    void (*inserted)(berth_prefix_index* index, uint32_t block, const berth_prefix_ghost* ghost);
    /// A prompt has found the block; its stamp is still that of the use before. Optional.
    void (*hit)(berth_prefix_index* index, uint32_t block);
    /// The block of the least rank goes; `ghost` will be remembered of it. Optional.
    void (*evicted)(berth_prefix_index* index, uint32_t block, berth_prefix_ghost* ghost);
};

extern const berth_evict_policy berth_evict_lru;

static inline berth_prefix_node* berth_prefix_node_of(const berth_prefix_index* index,
                                                      uint32_t block) {
    return &index->tables.nodes[block];
}

static inline bool berth_prefix_is_known(const berth_prefix_index* index, uint32_t block) {
    return block < index->tables.capacity && index->tables.nodes[block].tokens > 0;
}

static inline int32_t* berth_prefix_tokens_of(const berth_prefix_index* index, uint32_t block) {
    return index->tables.tokens + (size_t)block * index->block_tokens;
}

/// What a block is found by: never 0.
static inline uint64_t berth_prefix_key(uint64_t content, uint64_t salt) {
    uint64_t x = content ^ (salt | 1u) * UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 32)) * UINT64_C(0xD6E8FEB86659FD93);
    x ^= x >> 32;
    return x == 0 ? 1 : x;
}

static inline uint64_t berth_prefix_node_key(const berth_prefix_index* index,
                                             const berth_prefix_node* node) {
    return berth_prefix_key(node->content, index->keys.items[node->root].salt);
}

// prefix_order.c: the evictable blocks, a heap.

/// Puts a block in. There is room.
void berth_prefix_order_add(berth_prefix_index* index, uint32_t block);
/// Takes a block out; does nothing if it is not in.
void berth_prefix_order_remove(berth_prefix_index* index, uint32_t block);
/// Asks the policy for the block's rank again; does nothing if it is not in.
void berth_prefix_order_update(berth_prefix_index* index, uint32_t block);
/// Everything lies where it should.
bool berth_prefix_order_is_valid(const berth_prefix_index* index);

// prefix_ghosts.c: what was evicted lately, as many as there are blocks.

/// Remembers `ghost`, and forgets the oldest one.
void berth_prefix_ghosts_add(berth_prefix_index* index, const berth_prefix_ghost* ghost);
/// The one with `key`; NULL if there is none.
berth_prefix_ghost* berth_prefix_ghosts_find(const berth_prefix_index* index, uint64_t key);
/// Forgets one.
void berth_prefix_ghosts_remove(berth_prefix_index* index, berth_prefix_ghost* ghost);
bool berth_prefix_ghosts_are_valid(const berth_prefix_index* index);

// prefix_roots.c: keys.

/// A block under the key is known no more.
void berth_prefix_key_drop_block(berth_prefix_index* index, uint32_t root);
void berth_prefix_keys_fini(berth_prefix_index* index);

static inline bool berth_prefix_key_is_used(const berth_prefix_index* index, uint32_t root) {
    if (root >= index->keys.count) return false;
    return index->keys.items[root].opens > 0 || index->keys.items[root].blocks > 0;
}

// prefix_tables.c: the arrays.

/// Puts a known block into the buckets that find it.
void berth_prefix_tables_link(berth_prefix_index* index, uint32_t block);
void berth_prefix_tables_unlink(berth_prefix_index* index, uint32_t block);

#endif // BERTH_KV_PREFIX_INTERNAL_H
