// SPDX-License-Identifier: Apache-2.0
// The walk over a whole cache.
#include "kv/kv_internal.h"

/// Sequences of the cache that hold `block`, at the position that its record says.
static uint32_t count_holders(const berth_kv_cache* cache, uint32_t block) {
    const uint32_t position = cache->blocks.records[block].position;
    uint32_t holders = 0;
    for (const berth_kv_sequence* s = cache->first; s != NULL; s = s->next)
        holders += position < s->blocks.count && s->blocks.items[position] == block;
    return holders;
}

static bool sequence_is_valid(const berth_kv_sequence* sequence) {
    const berth_kv_cache* cache = sequence->cache;
    const uint32_t size = berth_kv_block_tokens(cache);
    if (sequence->is_parked) return sequence->blocks.count == 0 && sequence->published == 0;
    if (sequence->blocks.count != (sequence->tokens.count + size - 1) / size) return false;
    if (sequence->published > sequence->tokens.count / size) return false;
    for (size_t i = 0; i < sequence->blocks.count; ++i) {
        const uint32_t block = sequence->blocks.items[i];
        if (!berth_kv_blocks_is_taken(&cache->blocks, block)) return false;
        if (cache->blocks.records[block].position != i) return false;
        if (i < sequence->published && !berth_prefix_index_has(cache->index, block)) return false;
    }
    return true;
}

bool berth_kv_cache_is_valid(berth_kv_cache* cache) {
    if (!berth_kv_blocks_are_valid(&cache->blocks)) return false;
    uint64_t sequences = 0, parked = 0, copied_bytes = 0;
    for (const berth_kv_sequence* s = cache->first; s != NULL; s = s->next) {
        if (!sequence_is_valid(s)) return false;
        ++sequences;
        parked += s->is_parked;
        copied_bytes += s->copied_blocks * cache->layout.block_bytes;
    }
    uint64_t held_tokens = 0, cached_tokens = 0, cached = 0;
    for (uint32_t b = 0; b < cache->blocks.capacity; ++b) {
        if (!berth_kv_blocks_is_taken(&cache->blocks, b)) continue;
        const berth_kv_block* record = &cache->blocks.records[b];
        if (count_holders(cache, b) != record->refs ||
            record->tokens > berth_kv_block_tokens(cache))
            return false;
        const bool is_found = berth_prefix_index_has(cache->index, b);
        if (record->refs == 0 && !is_found) return false;
        if (is_found && berth_prefix_index_tokens(cache->index, b) > record->tokens) return false;
        *(record->refs > 0 ? &held_tokens : &cached_tokens) += record->tokens;
        cached += record->refs == 0;
    }
    return sequences == cache->sequences && parked == cache->parked_sequences &&
           copied_bytes == cache->parked_bytes && held_tokens == cache->held_tokens &&
           cached_tokens == cache->cached_tokens && cached == cache->cached_count &&
           berth_prefix_index_is_valid(cache->index);
}
