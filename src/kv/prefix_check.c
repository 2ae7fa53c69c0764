// SPDX-License-Identifier: Apache-2.0
// The whole-structure walk of a prefix index.
#include "base/hash.h"
#include "kv/evict_reuse.h"

static uint32_t first_child(const berth_prefix_index* index, uint32_t root, uint32_t parent) {
    if (parent == BERTH_PREFIX_NO_BLOCK) return index->keys.items[root].first_child;
    return index->tables.nodes[parent].first_child;
}

/// X1: what a block follows is whole, and under the same key.
static bool is_placed(const berth_prefix_index* index, const berth_prefix_node* node) {
    if (node->tokens > index->block_tokens) return false;
    if (node->tokens < index->block_tokens && node->first_child != BERTH_PREFIX_NONE) return false;
    if (!berth_prefix_key_is_used(index, node->root)) return false;
    if (node->parent == BERTH_PREFIX_NO_BLOCK) return node->depth == 0;
    if (!berth_prefix_is_known(index, node->parent)) return false;
    const berth_prefix_node* above = &index->tables.nodes[node->parent];
    return above->tokens == index->block_tokens && above->root == node->root &&
           above->depth + 1 == node->depth;
}

static bool is_hashed(const berth_prefix_index* index, uint32_t block) {
    const berth_prefix_node* node = &index->tables.nodes[block];
    const bool is_first = node->parent == BERTH_PREFIX_NO_BLOCK;
    const uint64_t before = is_first ? 0 : index->tables.nodes[node->parent].content;
    const int32_t* tokens = berth_prefix_tokens_of(index, block);
    return node->content == berth_hash64(tokens, node->tokens * sizeof *tokens, before);
}

/// Its neighbours in the list of what follows its parent know it.
static bool is_among_siblings(const berth_prefix_index* index, uint32_t block) {
    const berth_prefix_node* nodes = index->tables.nodes;
    const uint32_t previous = nodes[block].previous_sibling, next = nodes[block].next_sibling;
    if (next != BERTH_PREFIX_NONE &&
        (nodes[next].previous_sibling != block || nodes[next].parent != nodes[block].parent))
        return false;
    if (previous != BERTH_PREFIX_NONE) return nodes[previous].next_sibling == block;
    return first_child(index, nodes[block].root, nodes[block].parent) == block;
}

/// X3.
static bool is_ordered(const berth_prefix_index* index, uint32_t block) {
    const berth_prefix_node* node = &index->tables.nodes[block];
    const bool is_evictable = !node->is_held && node->first_child == BERTH_PREFIX_NONE;
    if (!is_evictable) return node->heap_at == BERTH_PREFIX_NONE;
    return node->heap_at < index->heap_count && index->tables.heap[node->heap_at].block == block;
}

/// Every block in the buckets is known and lies where it is looked for; returns how many there are,
/// in both kinds of buckets; UINT64_MAX if one is wrong.
static uint64_t count_in_buckets(const berth_prefix_index* index) {
    const berth_prefix_tables* tables = &index->tables;
    uint64_t count = 0;
    for (uint32_t b = 0; tables->capacity > 0 && b <= tables->mask; ++b) {
        for (uint32_t at = tables->buckets[b]; at != BERTH_PREFIX_NONE; ++count) {
            if (!berth_prefix_is_known(index, at) || count > tables->capacity) return UINT64_MAX;
            const berth_prefix_node* node = &tables->nodes[at];
            if ((berth_prefix_node_key(index, node) & tables->mask) != b) return UINT64_MAX;
            at = node->next_in_bucket;
        }
    }
    for (uint32_t b = 0; tables->capacity > 0 && b <= tables->mask; ++b) {
        uint32_t previous = BERTH_PREFIX_NONE;
        for (uint32_t at = tables->same_buckets[b]; at != BERTH_PREFIX_NONE; ++count) {
            if (!berth_prefix_is_known(index, at) || count > tables->capacity * UINT64_C(2))
                return UINT64_MAX;
            const berth_prefix_node* node = &tables->nodes[at];
            if ((node->content & tables->mask) != b || node->previous_same != previous)
                return UINT64_MAX;
            previous = at;
            at = node->next_same;
        }
    }
    return count;
}

static bool keys_are_valid(const berth_prefix_index* index) {
    uint64_t used = 0, blocks = 0, bytes = 0;
    for (uint32_t i = 0; i < index->keys.count; ++i) {
        if (!berth_prefix_key_is_used(index, i)) continue;
        ++used;
        blocks += index->keys.items[i].blocks;
        bytes += index->keys.items[i].byte_count;
    }
    return used == index->counted.roots && blocks == index->counted.known_blocks &&
           bytes == index->key_bytes;
}

bool berth_prefix_index_is_valid(const berth_prefix_index* index) {
    uint64_t known = 0, held = 0, evictable = 0;
    for (uint32_t b = 0; b < index->tables.capacity; ++b) {
        const berth_prefix_node* node = &index->tables.nodes[b];
        if (node->tokens == 0) continue;
        if (!is_placed(index, node) || !is_hashed(index, b) || !is_among_siblings(index, b) ||
            !is_ordered(index, b))
            return false;
        ++known;
        held += node->is_held;
        evictable += node->heap_at != BERTH_PREFIX_NONE;
    }
    return known == index->counted.known_blocks && held == index->counted.held_blocks &&
           evictable == index->heap_count && count_in_buckets(index) == 2 * known &&
           keys_are_valid(index) && berth_prefix_order_is_valid(index) &&
           berth_prefix_ghosts_are_valid(index) &&
           (index->reuse == NULL || berth_evict_reuse_is_valid(index));
}
