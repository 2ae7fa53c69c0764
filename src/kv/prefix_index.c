// SPDX-License-Identifier: Apache-2.0
// The tree of known blocks: finding, adding, forgetting, renaming.
#include "kv/prefix_index.h"

#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "kv/evict_reuse.h"

/// Blocks that may be next that are looked at for one that begins alike.
enum { MOST_CANDIDATES = 64 };

berth_status berth_prefix_index_create(const berth_host* host,
                                       uint32_t block_tokens,
                                       berth_prefix_policy policy,
                                       berth_prefix_index** out_index) {
    static const berth_evict_policy* const policies[] = {
        [BERTH_PREFIX_REUSE] = &berth_evict_by_reuse,
        [BERTH_PREFIX_LRU] = &berth_evict_by_age,
    };
    *out_index = NULL;
    if (block_tokens == 0 || block_tokens > BERTH_PREFIX_MAX_BLOCK_TOKENS)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "an index of blocks of %u tokens; they may have 1 to %u",
                          block_tokens,
                          BERTH_PREFIX_MAX_BLOCK_TOKENS);
    if ((size_t)policy >= sizeof policies / sizeof *policies)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "%d is no policy of eviction", (int)policy);
    berth_prefix_index* index = berth_host_calloc(host, 1, sizeof *index);
    if (index == NULL)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for a prefix index");
    index->host = host;
    index->policy = policies[policy];
    index->block_tokens = block_tokens;
    index->free_key = BERTH_PREFIX_NONE;
    if (policy == BERTH_PREFIX_REUSE && !berth_evict_reuse_open(index)) {
        berth_host_free(host, index);
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for a prefix index");
    }
    *out_index = index;
    return BERTH_OK;
}

void berth_prefix_index_destroy(berth_prefix_index* index) {
    if (index == NULL) return;
    berth_prefix_keys_fini(index);
    berth_host_free(index->host, index->reuse);
    berth_host_free(index->host, index->tables.memory);
    berth_host_free(index->host, index);
}

uint64_t berth_prefix_index_bytes(const berth_prefix_index* index) {
    return sizeof *index + (index->reuse == NULL ? 0 : sizeof *index->reuse) + index->tables.bytes +
           index->key_bytes + index->keys.capacity * sizeof *index->keys.items +
           index->key_buckets.capacity * sizeof *index->key_buckets.items;
}

// --- The tree ------------------------------------------------------------------------------------

/// The head of the list of blocks that follow `parent` under a key.
static uint32_t* children_of(const berth_prefix_index* index, uint32_t root, uint32_t parent) {
    if (parent == BERTH_PREFIX_NO_BLOCK) return &index->keys.items[root].first_child;
    return &berth_prefix_node_of(index, parent)->first_child;
}

static void link_child(berth_prefix_index* index, uint32_t block) {
    berth_prefix_node* node = berth_prefix_node_of(index, block);
    uint32_t* head = children_of(index, node->root, node->parent);
    node->previous_sibling = BERTH_PREFIX_NONE;
    node->next_sibling = *head;
    if (*head != BERTH_PREFIX_NONE) berth_prefix_node_of(index, *head)->previous_sibling = block;
    *head = block;
}

static void unlink_child(berth_prefix_index* index, uint32_t block) {
    const berth_prefix_node* node = berth_prefix_node_of(index, block);
    if (node->next_sibling != BERTH_PREFIX_NONE)
        berth_prefix_node_of(index, node->next_sibling)->previous_sibling = node->previous_sibling;
    if (node->previous_sibling != BERTH_PREFIX_NONE)
        berth_prefix_node_of(index, node->previous_sibling)->next_sibling = node->next_sibling;
    else
        *children_of(index, node->root, node->parent) = node->next_sibling;
}

/// Lets the block be evicted if it may be (X3).
static void offer(berth_prefix_index* index, uint32_t block) {
    const berth_prefix_node* node = berth_prefix_node_of(index, block);
    if (!node->is_held && node->first_child == BERTH_PREFIX_NONE &&
        node->heap_at == BERTH_PREFIX_NONE)
        berth_prefix_order_add(index, block);
}

/// The block with these tokens behind `parent` (X2).
static uint32_t find(const berth_prefix_index* index,
                     uint32_t root,
                     uint32_t parent,
                     uint64_t content,
                     const int32_t* tokens,
                     uint32_t count) {
    if (index->tables.capacity == 0) return BERTH_PREFIX_NO_BLOCK;
    const uint64_t key = berth_prefix_key(content, index->keys.items[root].salt);
    uint32_t at = index->tables.buckets[key & index->tables.mask];
    for (; at != BERTH_PREFIX_NO_BLOCK; at = index->tables.nodes[at].next_in_bucket) {
        const berth_prefix_node* node = berth_prefix_node_of(index, at);
        if (node->content == content && node->root == root && node->parent == parent &&
            node->tokens == count &&
            memcmp(berth_prefix_tokens_of(index, at), tokens, count * sizeof *tokens) == 0)
            break;
    }
    return at;
}

static uint64_t hash_tokens(const int32_t* tokens, uint32_t count, uint64_t before) {
    return berth_hash64(tokens, count * sizeof *tokens, before);
}

/// A prompt, or an equal block, has found this one.
static void hit(berth_prefix_index* index, uint32_t block) {
    berth_prefix_node* node = berth_prefix_node_of(index, block);
    if (node->uses < UINT32_MAX) ++node->uses;
    berth_prefix_order_remove(index, block);
    if (index->policy->found != NULL) index->policy->found(index, block);
    node->stamp = ++index->clock;
    if (node->previous_sibling != BERTH_PREFIX_NONE) {
        unlink_child(index, block);
        link_child(index, block);
    }
    offer(index, block);
}

// --- Looking up ----------------------------------------------------------------------------------

/// A prompt that is being looked up.
typedef struct lookup {
    uint32_t root;
    const int32_t* rest; ///< the tokens not found so far
    size_t rest_count;
    size_t rest_limit; ///< of them, those that may be found
    uint32_t last;     ///< the last block found
    uint64_t content;
} lookup;

static size_t find_whole_blocks(const berth_prefix_index* index, lookup* look, uint32_t* out) {
    const uint32_t size = index->block_tokens;
    size_t found = 0;
    while (look->rest_limit >= size) {
        const uint64_t content = hash_tokens(look->rest, size, look->content);
        const uint32_t block = find(index, look->root, look->last, content, look->rest, size);
        if (block == BERTH_PREFIX_NO_BLOCK) break;
        out[found++] = look->last = block;
        look->content = content;
        look->rest += size;
        look->rest_count -= size;
        look->rest_limit -= size;
    }
    return found;
}

static uint32_t count_common(const int32_t* a, const int32_t* b, size_t most) {
    uint32_t common = 0;
    while (common < most && a[common] == b[common])
        ++common;
    return common;
}

static void find_begun_block(const berth_prefix_index* index,
                             const lookup* look,
                             berth_prefix_match* match) {
    uint32_t at = *children_of(index, look->root, look->last);
    for (int i = 0; at != BERTH_PREFIX_NONE && i < MOST_CANDIDATES; ++i) {
        const berth_prefix_node* node = berth_prefix_node_of(index, at);
        const size_t most = node->tokens < look->rest_limit ? node->tokens : look->rest_limit;
        const uint32_t common = count_common(berth_prefix_tokens_of(index, at), look->rest, most);
        if (common > match->partial_tokens) {
            match->partial = at;
            match->partial_tokens = common;
        }
        at = node->next_sibling;
    }
}

/// True if another key has a block with this content. Looks at a bounded number.
static bool is_known_elsewhere(const berth_prefix_index* index,
                               const lookup* look,
                               uint64_t content) {
    uint32_t at = index->tables.same_buckets[content & index->tables.mask];
    for (int i = 0; at != BERTH_PREFIX_NONE && i < MOST_CANDIDATES; ++i) {
        const berth_prefix_node* node = berth_prefix_node_of(index, at);
        if (node->content == content && node->root != look->root &&
            node->tokens == index->block_tokens &&
            memcmp(berth_prefix_tokens_of(index, at),
                   look->rest,
                   index->block_tokens * sizeof *look->rest) == 0)
            return true;
        at = node->next_same;
    }
    return false;
}

static berth_kv_miss explain(const berth_prefix_index* index,
                             const lookup* look,
                             uint32_t partial_tokens) {
    if (look->rest_limit == partial_tokens) return BERTH_KV_MISS_NONE;
    if (look->rest_count < index->block_tokens) return BERTH_KV_MISS_TOO_SHORT;
    if (index->tables.capacity == 0) return BERTH_KV_MISS_NONE_SHARED;
    const uint64_t content = hash_tokens(look->rest, index->block_tokens, look->content);
    const uint64_t key = berth_prefix_key(content, index->keys.items[look->root].salt);
    if (berth_prefix_ghosts_find(index, key) != NULL) return BERTH_KV_MISS_EVICTED;
    if (is_known_elsewhere(index, look, content)) return BERTH_KV_MISS_OTHER_TENANT;
    return BERTH_KV_MISS_NONE_SHARED;
}

static void count_lookup(berth_prefix_index* index,
                         const berth_prefix_match* match,
                         size_t limit,
                         size_t missed) {
    berth_prefix_stats* counted = &index->counted;
    ++counted->lookups;
    counted->lookup_tokens += limit;
    counted->hit_tokens += limit - missed;
    counted->partial_hit_tokens += match->partial_tokens;
    switch (match->miss) {
    case BERTH_KV_MISS_NONE_SHARED:
        counted->miss_none_shared += missed;
        break;
    case BERTH_KV_MISS_TOO_SHORT:
        counted->miss_too_short += missed;
        break;
    case BERTH_KV_MISS_EVICTED:
        counted->miss_evicted += missed;
        break;
    case BERTH_KV_MISS_OTHER_TENANT:
        counted->miss_other_tenant += missed;
        break;
    case BERTH_KV_MISS_NONE:
    case BERTH_KV_MISS_COUNT:
        break;
    }
}

void berth_prefix_index_match(berth_prefix_index* index,
                              berth_prefix_root root,
                              const int32_t* tokens,
                              size_t count,
                              size_t limit,
                              uint32_t* out_blocks,
                              berth_prefix_match* out_match) {
    BERTH_CHECK(1, berth_prefix_key_is_used(index, root.id));
    if (limit > count) limit = count;
    *out_match = (berth_prefix_match){.partial = BERTH_PREFIX_NO_BLOCK};
    if (index->policy->asked != NULL) index->policy->asked(index);
    lookup look = {root.id, tokens, count, limit, BERTH_PREFIX_NO_BLOCK, 0};
    out_match->blocks = find_whole_blocks(index, &look, out_blocks);
    find_begun_block(index, &look, out_match);
    out_match->miss = explain(index, &look, out_match->partial_tokens);
    count_lookup(index, out_match, limit, look.rest_limit - out_match->partial_tokens);
    if (out_match->partial_tokens > 0) hit(index, out_match->partial);
    for (size_t i = out_match->blocks; i > 0; --i)
        hit(index, out_blocks[i - 1]);
}

// --- Adding --------------------------------------------------------------------------------------

static bool may_insert(const berth_prefix_index* index,
                       uint32_t root,
                       uint32_t parent,
                       uint32_t block,
                       uint32_t count) {
    if (!berth_prefix_key_is_used(index, root)) return false;
    if (block >= index->tables.capacity || index->tables.nodes[block].tokens > 0) return false;
    if (count == 0 || count > index->block_tokens) return false;
    if (parent == BERTH_PREFIX_NO_BLOCK) return true;
    return berth_prefix_is_known(index, parent) &&
           berth_prefix_node_of(index, parent)->tokens == index->block_tokens &&
           berth_prefix_node_of(index, parent)->root == root;
}

static void add(berth_prefix_index* index, uint32_t block, const int32_t* tokens) {
    berth_prefix_node* node = berth_prefix_node_of(index, block);
    memcpy(berth_prefix_tokens_of(index, block), tokens, node->tokens * sizeof *tokens);
    if (node->parent != BERTH_PREFIX_NO_BLOCK) berth_prefix_order_remove(index, node->parent);
    link_child(index, block);
    berth_prefix_tables_link(index, block);
    ++index->keys.items[node->root].blocks;
    ++index->counted.known_blocks;
    ++index->counted.held_blocks;
    ++index->counted.inserted;
    berth_prefix_ghost* ghost = berth_prefix_ghosts_find(index, berth_prefix_node_key(index, node));
    if (ghost != NULL) node->uses = ghost->uses + (ghost->uses < UINT32_MAX);
    if (index->policy->inserted != NULL) index->policy->inserted(index, block, ghost);
    if (ghost != NULL) berth_prefix_ghosts_remove(index, ghost);
}

uint32_t berth_prefix_index_insert(berth_prefix_index* index,
                                   berth_prefix_root root,
                                   uint32_t parent,
                                   uint32_t block,
                                   const int32_t* tokens,
                                   uint32_t count) {
    if (!may_insert(index, root.id, parent, block, count)) {
        ++index->counted.refused;
        return BERTH_PREFIX_NO_BLOCK;
    }
    const berth_prefix_node* above =
        parent == BERTH_PREFIX_NO_BLOCK ? NULL : berth_prefix_node_of(index, parent);
    const uint64_t content = hash_tokens(tokens, count, above == NULL ? 0 : above->content);
    const uint32_t equal = find(index, root.id, parent, content, tokens, count);
    if (equal != BERTH_PREFIX_NO_BLOCK) {
        ++index->counted.equal;
        hit(index, equal);
        return equal;
    }
    *berth_prefix_node_of(index, block) =
        (berth_prefix_node){.content = content,
                            .stamp = ++index->clock,
                            .root = root.id,
                            .tenant = root.tenant,
                            .parent = parent,
                            .first_child = BERTH_PREFIX_NONE,
                            .heap_at = BERTH_PREFIX_NONE,
                            .depth = above == NULL ? 0 : above->depth + 1,
                            .tokens = (uint16_t)count,
                            .is_held = true};
    add(index, block, tokens);
    return block;
}

bool berth_prefix_index_has(const berth_prefix_index* index, uint32_t block) {
    return berth_prefix_is_known(index, block);
}

uint32_t berth_prefix_index_tokens(const berth_prefix_index* index, uint32_t block) {
    return berth_prefix_is_known(index, block) ? berth_prefix_node_of(index, block)->tokens : 0;
}

void berth_prefix_index_hold(berth_prefix_index* index, uint32_t block) {
    if (!berth_prefix_is_known(index, block)) return;
    berth_prefix_node* node = berth_prefix_node_of(index, block);
    if (node->is_held) return;
    node->is_held = true;
    ++index->counted.held_blocks;
    berth_prefix_order_remove(index, block);
    if (index->policy->left != NULL) index->policy->left(index, block);
}

void berth_prefix_index_unhold(berth_prefix_index* index, uint32_t block) {
    if (!berth_prefix_is_known(index, block)) return;
    berth_prefix_node* node = berth_prefix_node_of(index, block);
    if (!node->is_held) return;
    node->is_held = false;
    node->stamp = ++index->clock;
    --index->counted.held_blocks;
    if (index->policy->unheld != NULL) index->policy->unheld(index, block);
    offer(index, block);
}

// --- Forgetting and renaming ---------------------------------------------------------------------

static void forget(berth_prefix_index* index, uint32_t block) {
    berth_prefix_node* node = berth_prefix_node_of(index, block);
    const uint32_t parent = node->parent, root = node->root;
    berth_prefix_order_remove(index, block);
    berth_prefix_tables_unlink(index, block);
    unlink_child(index, block);
    --index->counted.known_blocks;
    if (node->is_held) --index->counted.held_blocks;
    *node = (berth_prefix_node){0};
    if (parent != BERTH_PREFIX_NO_BLOCK) offer(index, parent);
    berth_prefix_key_drop_block(index, root);
}

bool berth_prefix_index_evict(berth_prefix_index* index, uint32_t* out_block) {
    *out_block = BERTH_PREFIX_NO_BLOCK;
    if (index->heap_count == 0) return false;
    const uint32_t block = index->policy->choose(index);
    const berth_prefix_node* node = berth_prefix_node_of(index, block);
    berth_prefix_ghost ghost = {.key = berth_prefix_node_key(index, node),
                                .stamp = node->stamp,
                                .uses = node->uses,
                                .note = node->note};
    berth_prefix_ghosts_add(index, &ghost);
    ++index->counted.evicted;
    index->counted.evicted_uses += node->uses;
    forget(index, block);
    *out_block = block;
    return true;
}

void berth_prefix_index_remove(berth_prefix_index* index, uint32_t block) {
    if (!berth_prefix_is_known(index, block)) return;
    BERTH_CHECK(1, berth_prefix_node_of(index, block)->first_child == BERTH_PREFIX_NONE);
    berth_prefix_order_remove(index, block);
    if (index->policy->left != NULL) index->policy->left(index, block);
    forget(index, block);
}

void berth_prefix_index_move(berth_prefix_index* index, uint32_t from, uint32_t to) {
    if (from == to || !berth_prefix_is_known(index, from)) return;
    BERTH_CHECK(1, to < index->tables.capacity && !berth_prefix_is_known(index, to));
    berth_prefix_node* node = berth_prefix_node_of(index, from);
    berth_prefix_node* moved = berth_prefix_node_of(index, to);
    const bool is_evictable = node->heap_at != BERTH_PREFIX_NONE;
    berth_prefix_order_remove(index, from);
    berth_prefix_tables_unlink(index, from);
    *moved = *node;
    *node = (berth_prefix_node){0};
    memcpy(berth_prefix_tokens_of(index, to),
           berth_prefix_tokens_of(index, from),
           moved->tokens * sizeof(int32_t));
    berth_prefix_tables_link(index, to);
    if (is_evictable) berth_prefix_order_add(index, to);
    if (moved->next_sibling != BERTH_PREFIX_NONE)
        berth_prefix_node_of(index, moved->next_sibling)->previous_sibling = to;
    if (moved->previous_sibling != BERTH_PREFIX_NONE)
        berth_prefix_node_of(index, moved->previous_sibling)->next_sibling = to;
    else
        *children_of(index, moved->root, moved->parent) = to;
    for (uint32_t at = moved->first_child; at != BERTH_PREFIX_NONE;
         at = berth_prefix_node_of(index, at)->next_sibling)
        berth_prefix_node_of(index, at)->parent = to;
}

void berth_prefix_index_query_stats(const berth_prefix_index* index,
                                    berth_prefix_stats* out_stats) {
    *out_stats = index->counted;
    out_stats->evictable_blocks = index->heap_count;
    out_stats->bytes = berth_prefix_index_bytes(index);
}
