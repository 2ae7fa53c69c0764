// SPDX-License-Identifier: Apache-2.0
// The structs of a prefix index, and what a policy of eviction has to say.
#ifndef BERTH_KV_PREFIX_INTERNAL_H
#define BERTH_KV_PREFIX_INTERNAL_H

#include "base/vec.h"
#include "kv/prefix_index.h"

/// No block, key or evicted block: the end of a list.
#define BERTH_PREFIX_NONE BERTH_PREFIX_NO_BLOCK

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
    uint32_t first_younger;    ///< prefix_classes.c: the list of those below it in a heap
    uint32_t next_younger;     ///< in such a list
    uint32_t previous_younger; ///< in such a list; of its first one, the one above
    uint16_t tokens;           ///< 0: not known
    bool is_held;
} berth_prefix_node;

/// A block evicted lately.
typedef struct berth_prefix_ghost {
    uint64_t key; ///< berth_prefix_key; 0: none
    uint64_t stamp;
    uint32_t uses;
    uint32_t note;
    uint32_t next_in_bucket;
} berth_prefix_ghost;

/// An evictable block and the time of its last use.
typedef struct berth_prefix_rank {
    uint64_t stamp;
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
    berth_prefix_ghost* ghosts; ///< [ghost_capacity], a ring
    uint32_t ghost_capacity;
    uint32_t* ghost_buckets;
} berth_prefix_tables;

typedef struct berth_evict_policy berth_evict_policy;

/// What the policy by reuse has learned; see evict_reuse.h.
typedef struct berth_evict_reuse berth_evict_reuse;

struct berth_prefix_index {
    const berth_host* host;
    const berth_evict_policy* policy;
    berth_evict_reuse* reuse; ///< NULL with another policy
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

/// What decides who goes first. One static table for each policy; all but the first two entries are
/// optional.
struct berth_evict_policy {
    uint32_t ghosts_per_block; ///< blocks to be remembered when evicted, for each there is room for
    /// The evictable block that goes next. There is one.
    uint32_t (*choose)(berth_prefix_index* index);
    /// A prompt is about to be looked up.
    void (*asked)(berth_prefix_index* index);
    /// A prompt has found the block; its stamp is still that of the use before.
    void (*found)(berth_prefix_index* index, uint32_t block);
    /// A block has become known; `ghost` is what was remembered of it, NULL: nothing.
    void (*inserted)(berth_prefix_index* index, uint32_t block, const berth_prefix_ghost* ghost);
    /// Somebody holds the block from now on, or it is forgotten without being evicted.
    void (*left)(berth_prefix_index* index, uint32_t block);
    /// Nobody holds the block any more; its stamp is that of now.
    void (*unheld)(berth_prefix_index* index, uint32_t block);
    /// The block is evictable from now on, or no more.
    void (*offered)(berth_prefix_index* index, uint32_t block);
    void (*withdrawn)(berth_prefix_index* index, uint32_t block);
    /// What was remembered of a block gives way to newer ones.
    void (*faded)(berth_prefix_index* index, const berth_prefix_ghost* ghost);
};

extern const berth_evict_policy berth_evict_by_age;
extern const berth_evict_policy berth_evict_by_reuse;

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

// prefix_order.c: the evictable blocks, a heap by their last use.

/// Puts a block in. There is room.
void berth_prefix_order_add(berth_prefix_index* index, uint32_t block);
/// Takes a block out; does nothing if it is not in.
void berth_prefix_order_remove(berth_prefix_index* index, uint32_t block);
/// Everything lies where it should.
bool berth_prefix_order_is_valid(const berth_prefix_index* index);

// prefix_classes.c: heaps by last use of blocks of one kind. A heap is named by its oldest block,
// NONE: it is empty.

/// Puts a block in, whose links are its own.
void berth_prefix_class_add(berth_prefix_index* index, uint32_t* heap, uint32_t block);
/// Takes a block out that is in.
void berth_prefix_class_remove(berth_prefix_index* index, uint32_t* heap, uint32_t block);

// prefix_ghosts.c: what was evicted lately.

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
