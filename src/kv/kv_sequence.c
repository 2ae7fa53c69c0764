// SPDX-License-Identifier: Apache-2.0
// Sequences: which blocks they hold, what the index gets to know of them.
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "kv/kv_internal.h"

/// Begins a call on a sequence, of whose cache it takes the lock.
static berth_status enter(berth_kv_sequence* sequence) {
    if (sequence == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a sequence is needed");
    return berth_kv_enter(sequence->cache);
}

/// The same, for what changes its blocks.
static berth_status enter_to_change(berth_kv_sequence* sequence) {
    BERTH_TRY(enter(sequence));
    berth_status status = BERTH_OK;
    if (sequence->is_in_batch)
        status = berth_fail(BERTH_ERR_STATE, "the sequence is in an open batch");
    else if (sequence->is_parked)
        status = berth_fail(BERTH_ERR_STATE, "the sequence is parked");
    if (status != BERTH_OK) berth_kv_leave(sequence->cache);
    return status;
}

// --- Blocks of a sequence ------------------------------------------------------------------------

size_t berth_kv_drop_blocks(berth_kv_sequence* sequence, size_t keep, size_t* out_cached) {
    berth_kv_cache* cache = sequence->cache;
    size_t freed = 0, cached = 0;
    // the last first: so the end of a prompt counts as older than its begin
    while (sequence->blocks.count > keep) {
        const uint32_t block = sequence->blocks.items[--sequence->blocks.count];
        if (berth_kv_drop_block(cache, block))
            ++freed;
        else
            cached += cache->blocks.records[block].refs == 0;
    }
    if (sequence->published > keep) sequence->published = keep;
    if (out_cached != NULL) *out_cached = cached;
    return freed;
}

bool berth_kv_needs_copy(const berth_kv_sequence* sequence) {
    const berth_kv_cache* cache = sequence->cache;
    const size_t begun = sequence->tokens.count % berth_kv_block_tokens(cache);
    if (begun == 0) return false;
    const uint32_t block = sequence->blocks.items[sequence->blocks.count - 1];
    if (cache->blocks.records[block].refs > 1) return true;
    return berth_prefix_index_has(cache->index, block) &&
           berth_prefix_index_tokens(cache->index, block) > begun;
}

/// Has every sequence with the block `from` at `position` hold `to` in its place, which is equal.
/// All of them: what follows is known behind `to`, and whoever holds that holds `to` as well.
static void replace_block(berth_kv_cache* cache, size_t position, uint32_t from, uint32_t to) {
    uint32_t left = cache->blocks.records[from].refs;
    for (berth_kv_sequence* s = cache->first; s != NULL && left > 0; s = s->next) {
        if (position >= s->blocks.count || s->blocks.items[position] != from) continue;
        berth_kv_hold_block(cache, to);
        (void)berth_kv_drop_block(cache, from);
        s->blocks.items[position] = to;
        --left;
    }
}

/// Offers the sequence's block at `position`, with `count` tokens, to the index. False if it stays
/// unknown to it.
static bool publish_block(berth_kv_sequence* sequence, size_t position, uint32_t count) {
    berth_kv_cache* cache = sequence->cache;
    uint32_t* block = &sequence->blocks.items[position];
    if (berth_prefix_index_has(cache->index, *block))
        return berth_prefix_index_tokens(cache->index, *block) == count;
    const uint32_t parent = position > 0 ? sequence->blocks.items[position - 1] : BERTH_KV_NO_BLOCK;
    const int32_t* tokens = sequence->tokens.items + position * berth_kv_block_tokens(cache);
    const uint32_t equal =
        berth_prefix_index_insert(cache->index, sequence->root, parent, *block, tokens, count);
    if (equal == *block) return true;
    if (equal == BERTH_KV_NO_BLOCK) return false;
    // another sequence has computed the same tokens meanwhile: one copy will do
    replace_block(cache, position, *block, equal);
    return true;
}

void berth_kv_publish(berth_kv_sequence* sequence, bool last) {
    if (sequence->is_private || sequence->stays_unpublished) return;
    const uint32_t size = berth_kv_block_tokens(sequence->cache);
    const size_t whole = sequence->tokens.count / size;
    while (sequence->published < whole) {
        if (!publish_block(sequence, sequence->published, size)) {
            sequence->stays_unpublished = true;
            return;
        }
        ++sequence->published;
    }
    const uint32_t begun = (uint32_t)(sequence->tokens.count % size);
    if (last && begun > 0) (void)publish_block(sequence, whole, begun);
}

// --- Creation and end ----------------------------------------------------------------------------

static berth_status check_options(const berth_kv_sequence_options* options) {
    if (options->struct_size != sizeof *options)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "struct_size is %zu, not %zu",
                          options->struct_size,
                          sizeof *options);
    if (options->key_bytes > BERTH_PREFIX_MAX_KEY_BYTES)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "the key has %zu bytes, of which there may be %u",
                          options->key_bytes,
                          BERTH_PREFIX_MAX_KEY_BYTES);
    if (options->key == NULL && options->key_bytes > 0)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "the key is NULL");
    return BERTH_OK;
}

/// A sequence in the cache's list, without tokens; NULL without host memory.
static berth_kv_sequence* link_new(berth_kv_cache* cache) {
    berth_kv_sequence* sequence = berth_host_calloc(cache->blocks.host, 1, sizeof *sequence);
    if (sequence == NULL) return NULL;
    sequence->cache = cache;
    sequence->next = cache->first;
    if (cache->first != NULL) cache->first->previous = sequence;
    cache->first = sequence;
    ++cache->refs;
    ++cache->sequences;
    return sequence;
}

static void unlink_sequence(berth_kv_sequence* sequence) {
    berth_kv_cache* cache = sequence->cache;
    if (sequence->next != NULL) sequence->next->previous = sequence->previous;
    if (sequence->previous != NULL)
        sequence->previous->next = sequence->next;
    else
        cache->first = sequence->next;
    --cache->sequences;
}

static berth_status create(berth_kv_cache* cache,
                           const berth_kv_sequence_options* options,
                           berth_kv_sequence** out_sequence) {
    berth_prefix_root root = {0};
    if (!options->is_private)
        BERTH_TRY(berth_prefix_index_open_root(
            cache->index, options->key, options->key_bytes, options->tenant, &root));
    berth_kv_sequence* sequence = link_new(cache);
    if (sequence == NULL) {
        if (!options->is_private) berth_prefix_index_close_root(cache->index, root);
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for a sequence");
    }
    sequence->root = root;
    sequence->is_private = options->is_private;
    *out_sequence = sequence;
    return BERTH_OK;
}

berth_status berth_kv_sequence_create(berth_kv_cache* cache,
                                      const berth_kv_sequence_options* options,
                                      berth_kv_sequence** out_sequence) {
    static const berth_kv_sequence_options defaults = {.struct_size = sizeof defaults};
    if (out_sequence == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a place for the sequence is needed");
    *out_sequence = NULL;
    if (options == NULL) options = &defaults;
    BERTH_TRY(check_options(options));
    BERTH_TRY(berth_kv_enter(cache));
    const berth_status status = create(cache, options, out_sequence);
    berth_kv_leave(cache);
    return status;
}

void berth_kv_sequence_end(berth_kv_sequence* sequence) {
    berth_kv_cache* cache = sequence->cache;
    if (sequence->is_parked)
        --cache->parked_sequences;
    else
        berth_kv_publish(sequence, true);
    (void)berth_kv_drop_blocks(sequence, 0, NULL);
    berth_kv_drop_copy(sequence);
    if (!sequence->is_private) berth_prefix_index_close_root(cache->index, sequence->root);
    unlink_sequence(sequence);
    berth_kv_token_vec_fini(&sequence->tokens, cache->blocks.host);
    berth_kv_block_vec_fini(&sequence->blocks, cache->blocks.host);
    berth_host_free(cache->blocks.host, sequence);
}

void berth_kv_sequence_release(berth_kv_sequence* sequence) {
    if (sequence == NULL) return;
    berth_kv_cache* cache = sequence->cache;
    berth_home* home = &cache->context->home;
    if (berth_home_is_forked(home)) return;
    // in an out-of-memory callback this thread has the lock, and is in no call on the cache
    const bool has_locked = berth_home_lock(home);
    if (sequence->is_in_batch) {
        sequence->is_released = true;
        if (has_locked) berth_home_unlock(home);
        return;
    }
    berth_kv_sequence_end(sequence);
    berth_kv_cache_drop(cache, has_locked);
}

// --- Finding -------------------------------------------------------------------------------------

/// Copies the first `count` tokens of `source` to a block of the sequence's own, if there is room.
static bool copy_begun(berth_kv_sequence* sequence, uint32_t source, uint32_t count) {
    berth_kv_cache* cache = sequence->cache;
    berth_kv_hold_block(cache, source); // not to be evicted meanwhile
    bool is_copied = false;
    if (berth_kv_make_room(cache, 1) == BERTH_OK) {
        const uint32_t block = berth_kv_take_block(cache, sequence->blocks.count);
        is_copied = berth_kv_blocks_copy(&cache->blocks, source, block) == BERTH_OK;
        if (is_copied) {
            berth_kv_set_tokens(cache, block, count);
            sequence->blocks.items[sequence->blocks.count++] = block;
            ++cache->counted.copied_blocks;
        } else {
            (void)berth_kv_drop_block(cache, block);
        }
    }
    (void)berth_kv_drop_block(cache, source);
    return is_copied;
}

static void count_misses(berth_kv_cache* cache, berth_kv_miss miss, uint64_t tokens) {
    switch (miss) {
    case BERTH_KV_MISS_NONE_SHARED:
        cache->counted.miss_none_shared += tokens;
        break;
    case BERTH_KV_MISS_TOO_SHORT:
        cache->counted.miss_too_short += tokens;
        break;
    case BERTH_KV_MISS_EVICTED:
        cache->counted.miss_evicted += tokens;
        break;
    case BERTH_KV_MISS_OTHER_TENANT:
        cache->counted.miss_other_tenant += tokens;
        break;
    case BERTH_KV_MISS_NONE:
    case BERTH_KV_MISS_COUNT:
        break;
    }
}

berth_status berth_kv_find(berth_kv_sequence* sequence,
                           const int32_t* tokens,
                           size_t count,
                           size_t limit,
                           berth_kv_match* out_match) {
    berth_kv_cache* cache = sequence->cache;
    const uint32_t size = berth_kv_block_tokens(cache);
    *out_match = (berth_kv_match){.miss = BERTH_KV_MISS_NONE_SHARED};
    const size_t most = (size_t)cache->blocks.most * size;
    if (limit > most) limit = most;
    BERTH_TRY(berth_kv_token_vec_reserve(&sequence->tokens, cache->blocks.host, limit));
    BERTH_TRY(berth_kv_block_vec_reserve(&sequence->blocks, cache->blocks.host, limit / size + 1));
    sequence->tokens.count = 0;
    if (sequence->is_private) return BERTH_OK;
    berth_prefix_match found;
    berth_prefix_index_match(
        cache->index, sequence->root, tokens, count, limit, sequence->blocks.items, &found);
    for (size_t i = 0; i < found.blocks; ++i)
        berth_kv_hold_block(cache, sequence->blocks.items[i]);
    sequence->blocks.count = sequence->published = found.blocks;
    size_t length = found.blocks * size;
    if (found.partial_tokens > 0 && copy_begun(sequence, found.partial, found.partial_tokens))
        length += found.partial_tokens;
    // those that the sequence keeps from before it was parked are the same
    if (length > 0 && tokens != sequence->tokens.items)
        memcpy(sequence->tokens.items, tokens, length * sizeof *tokens);
    sequence->tokens.count = length;
    *out_match = (berth_kv_match){
        .tokens = (int64_t)length,
        .shared_tokens = (int64_t)(found.blocks * size),
        .copied_tokens = (int64_t)(length - found.blocks * size),
        .miss = found.miss,
    };
    return BERTH_OK;
}

berth_status berth_kv_sequence_match(berth_kv_sequence* sequence,
                                     const int32_t* tokens,
                                     int64_t count,
                                     berth_kv_match* out_match) {
    berth_kv_match unused;
    if (out_match == NULL) out_match = &unused;
    *out_match = (berth_kv_match){0};
    if (count < 1 || tokens == NULL)
        return berth_fail(
            BERTH_ERR_INVALID_ARGUMENT, "a prompt of %" PRId64 " tokens is looked up", count);
    BERTH_TRY(enter_to_change(sequence));
    berth_kv_cache* cache = sequence->cache;
    berth_status status = BERTH_OK;
    if (sequence->tokens.count > 0)
        status = berth_fail(
            BERTH_ERR_STATE, "the sequence has %zu tokens already", sequence->tokens.count);
    else if (cache->batch.is_open)
        status = berth_fail(BERTH_ERR_STATE, "a batch of the KV cache is open");
    else
        status = berth_kv_find(sequence, tokens, (size_t)count, (size_t)count - 1, out_match);
    if (status == BERTH_OK) {
        cache->counted.prompt_tokens += (uint64_t)count;
        cache->counted.hit_tokens += (uint64_t)out_match->tokens;
        cache->counted.shared_hit_tokens += (uint64_t)out_match->shared_tokens;
        count_misses(cache, out_match->miss, (uint64_t)(count - out_match->tokens));
    }
    berth_kv_leave(cache);
    return status;
}

// --- Changes -------------------------------------------------------------------------------------

static berth_status fork_sequence(berth_kv_sequence* sequence, berth_kv_sequence** out_sequence) {
    berth_kv_cache* cache = sequence->cache;
    const berth_host* host = cache->blocks.host;
    berth_kv_sequence* child = link_new(cache);
    berth_status status = child == NULL ? BERTH_ERR_OUT_OF_MEMORY : BERTH_OK;
    if (status == BERTH_OK)
        status = berth_kv_token_vec_reserve(&child->tokens, host, sequence->tokens.count);
    if (status == BERTH_OK)
        status = berth_kv_block_vec_reserve(&child->blocks, host, sequence->blocks.count);
    if (status != BERTH_OK) {
        if (child != NULL) {
            child->is_private = true; // it has no root
            berth_kv_sequence_end(child);
            --cache->refs;
        }
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for a sequence");
    }
    child->is_private = sequence->is_private;
    child->root = sequence->root;
    if (!child->is_private) berth_prefix_index_retain_root(cache->index, child->root);
    child->published = sequence->published;
    child->stays_unpublished = sequence->stays_unpublished;
    if (sequence->tokens.count > 0)
        memcpy(child->tokens.items,
               sequence->tokens.items,
               sequence->tokens.count * sizeof *child->tokens.items);
    child->tokens.count = sequence->tokens.count;
    for (size_t i = 0; i < sequence->blocks.count; ++i) {
        child->blocks.items[i] = sequence->blocks.items[i];
        berth_kv_hold_block(cache, child->blocks.items[i]);
    }
    child->blocks.count = sequence->blocks.count;
    *out_sequence = child;
    return BERTH_OK;
}

berth_status berth_kv_sequence_fork(berth_kv_sequence* sequence, berth_kv_sequence** out_sequence) {
    if (out_sequence == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a place for the sequence is needed");
    *out_sequence = NULL;
    BERTH_TRY(enter_to_change(sequence));
    const berth_status status = fork_sequence(sequence, out_sequence);
    berth_kv_leave(sequence->cache);
    return status;
}

static void shorten(berth_kv_sequence* sequence, size_t tokens) {
    berth_kv_cache* cache = sequence->cache;
    const uint32_t size = berth_kv_block_tokens(cache);
    if (tokens == sequence->tokens.count) return;
    (void)berth_kv_drop_blocks(sequence, (tokens + size - 1) / size, NULL);
    sequence->tokens.count = tokens;
    if (sequence->published > tokens / size) sequence->published = tokens / size;
    if (tokens % size == 0) return;
    const uint32_t last = sequence->blocks.items[sequence->blocks.count - 1];
    if (cache->blocks.records[last].refs == 1 && !berth_prefix_index_has(cache->index, last))
        berth_kv_set_tokens(cache, last, (uint32_t)(tokens % size));
}

berth_status berth_kv_sequence_truncate(berth_kv_sequence* sequence, int64_t tokens) {
    BERTH_TRY(enter_to_change(sequence));
    berth_status status = BERTH_OK;
    if (tokens < 0 || (uint64_t)tokens > sequence->tokens.count)
        status = berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                            "a sequence of %zu tokens is to keep %" PRId64,
                            sequence->tokens.count,
                            tokens);
    else
        shorten(sequence, (size_t)tokens);
    berth_kv_leave(sequence->cache);
    return status;
}

// --- Reads ---------------------------------------------------------------------------------------

int64_t berth_kv_sequence_length(const berth_kv_sequence* sequence) {
    return sequence == NULL ? 0 : (int64_t)sequence->tokens.count;
}

const int32_t* berth_kv_sequence_tokens(const berth_kv_sequence* sequence) {
    return sequence == NULL ? NULL : sequence->tokens.items;
}

int64_t berth_kv_sequence_own_blocks(const berth_kv_sequence* sequence) {
    if (sequence == NULL || berth_kv_enter(sequence->cache) != BERTH_OK) return 0;
    int64_t own = 0;
    for (size_t i = 0; i < sequence->blocks.count; ++i)
        own += sequence->cache->blocks.records[sequence->blocks.items[i]].refs == 1;
    berth_kv_leave(sequence->cache);
    return own;
}

int64_t berth_kv_sequence_growth(const berth_kv_sequence* sequence, int64_t count) {
    if (sequence == NULL || count <= 0 || berth_kv_enter(sequence->cache) != BERTH_OK) return 0;
    const uint64_t size = berth_kv_block_tokens(sequence->cache);
    const uint64_t after = sequence->tokens.count + (uint64_t)count;
    const uint64_t blocks = after / size + (after % size != 0);
    const bool is_whole = !sequence->is_parked && !sequence->is_in_batch;
    int64_t growth = blocks > INT64_MAX ? INT64_MAX : (int64_t)blocks;
    if (!sequence->is_parked) growth -= (int64_t)sequence->blocks.count;
    if (is_whole && berth_kv_needs_copy(sequence)) ++growth;
    berth_kv_leave(sequence->cache);
    return growth;
}
