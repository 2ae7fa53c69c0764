// SPDX-License-Identifier: Apache-2.0
// The arrays of a prefix index: one piece of memory, made anew when it grows; and the buckets that
// find a block by its key, and blocks with the same tokens under other keys.
#include <string.h>

#include "base/carve.h"
#include "base/error.h"
#include "kv/prefix_internal.h"

/// Lays the tables out in `memory`; NULL: measures them.
static size_t lay_out(berth_prefix_tables* tables, uint32_t block_tokens, char* memory) {
    const size_t capacity = tables->capacity, buckets = (size_t)tables->mask + 1;
    size_t total = 0;
    tables->nodes = berth_carve(memory, &total, capacity, sizeof *tables->nodes);
    tables->tokens = berth_carve(memory, &total, capacity * block_tokens, sizeof *tables->tokens);
    tables->heap = berth_carve(memory, &total, capacity, sizeof *tables->heap);
    tables->ghosts = berth_carve(memory, &total, tables->ghost_capacity, sizeof *tables->ghosts);
    tables->buckets = berth_carve(memory, &total, buckets, sizeof *tables->buckets);
    tables->same_buckets = berth_carve(memory, &total, buckets, sizeof *tables->same_buckets);
    tables->ghost_buckets = berth_carve(memory, &total, buckets, sizeof *tables->ghost_buckets);
    return total;
}

static uint32_t mask_for(uint32_t capacity) {
    uint32_t mask = 15;
    while (mask < capacity - 1)
        mask = mask * 2 + 1;
    return mask;
}

void berth_prefix_tables_link(berth_prefix_index* index, uint32_t block) {
    berth_prefix_tables* tables = &index->tables;
    berth_prefix_node* node = &tables->nodes[block];
    uint32_t* bucket = &tables->buckets[berth_prefix_node_key(index, node) & tables->mask];
    node->next_in_bucket = *bucket;
    *bucket = block;
    uint32_t* same = &tables->same_buckets[node->content & tables->mask];
    node->previous_same = BERTH_PREFIX_NONE;
    node->next_same = *same;
    if (*same != BERTH_PREFIX_NONE) tables->nodes[*same].previous_same = block;
    *same = block;
}

void berth_prefix_tables_unlink(berth_prefix_index* index, uint32_t block) {
    berth_prefix_tables* tables = &index->tables;
    const berth_prefix_node* node = &tables->nodes[block];
    uint32_t* link = &tables->buckets[berth_prefix_node_key(index, node) & tables->mask];
    while (*link != block)
        link = &tables->nodes[*link].next_in_bucket;
    *link = node->next_in_bucket;
    if (node->next_same != BERTH_PREFIX_NONE)
        tables->nodes[node->next_same].previous_same = node->previous_same;
    if (node->previous_same != BERTH_PREFIX_NONE)
        tables->nodes[node->previous_same].next_same = node->next_same;
    else
        tables->same_buckets[node->content & tables->mask] = node->next_same;
}

/// Copies what the smaller tables have; buckets and ghosts are put in anew.
static void refill(berth_prefix_index* index, const berth_prefix_tables* old) {
    const size_t row = index->block_tokens * sizeof *old->tokens;
    memcpy(index->tables.nodes, old->nodes, old->capacity * sizeof *old->nodes);
    memcpy(index->tables.tokens, old->tokens, old->capacity * row);
    memcpy(index->tables.heap, old->heap, index->heap_count * sizeof *old->heap);
    for (uint32_t b = 0; b < old->capacity; ++b)
        if (old->nodes[b].tokens > 0) berth_prefix_tables_link(index, b);
    const uint32_t first = index->next_ghost;
    index->next_ghost = 0;
    for (uint32_t i = 0; i < old->ghost_capacity; ++i) {
        const berth_prefix_ghost* ghost = &old->ghosts[(first + i) % old->ghost_capacity];
        if (ghost->key != 0) berth_prefix_ghosts_add(index, ghost);
    }
}

berth_status berth_prefix_index_reserve(berth_prefix_index* index, uint32_t block_capacity) {
    if (block_capacity <= index->tables.capacity) return BERTH_OK;
    if (block_capacity > BERTH_PREFIX_MAX_BLOCKS)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "an index of %u blocks; it may have up to %u",
                          block_capacity,
                          BERTH_PREFIX_MAX_BLOCKS);
    berth_prefix_tables grown = {
        .capacity = block_capacity,
        .ghost_capacity = block_capacity * index->policy->ghosts_per_block,
        .mask = mask_for(block_capacity),
    };
    grown.bytes = lay_out(&grown, index->block_tokens, NULL);
    grown.memory = berth_host_calloc(index->host, 1, grown.bytes);
    if (grown.memory == NULL)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY,
                          "no host memory (%zu bytes) to index %u blocks",
                          grown.bytes,
                          block_capacity);
    (void)lay_out(&grown, index->block_tokens, grown.memory);
    const size_t bucket_bytes = ((size_t)grown.mask + 1) * sizeof *grown.buckets;
    memset(grown.buckets, 0xFF, bucket_bytes);
    memset(grown.same_buckets, 0xFF, bucket_bytes);
    memset(grown.ghost_buckets, 0xFF, bucket_bytes);
    const berth_prefix_tables old = index->tables;
    index->tables = grown;
    if (old.capacity > 0) refill(index, &old);
    berth_host_free(index->host, old.memory);
    return BERTH_OK;
}
