// SPDX-License-Identifier: Apache-2.0
// A cache: what it is made of, its end, who holds which block, statistics.
#include <inttypes.h>

#include "base/error.h"
#include "exec/foreign.h"
#include "exec/guests.h"
#include "kv/kv_room.h"

enum { MOST_LAYERS = 4096, MOST_HEADS = 65536, MOST_DIMS = 65536 };
enum { DEFAULT_BLOCK_TOKENS = 16 };

/// Nanoseconds that copying a byte takes, before it has been measured.
static const double first_copy_ns = 0.25;

const char* berth_kv_miss_text(berth_kv_miss miss) {
    static const char* const words[] = {
#define WORD(id, word, help) [BERTH_KV_MISS_##id] = word,
        BERTH_KV_MISS_MAP(WORD)
#undef WORD
    };
    return (unsigned)miss < BERTH_KV_MISS_COUNT ? words[miss] : "unknown";
}

// --- Entering ------------------------------------------------------------------------------------

berth_status berth_kv_enter(berth_kv_cache* cache) {
    if (cache == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a cache is needed");
    berth_home* home = &cache->context->home;
    BERTH_TRY(berth_fork_check(home->fork_generation));
    if (!berth_home_lock(home)) return BERTH_ERR_STATE;
    if (!home->is_closed) return BERTH_OK;
    berth_home_unlock(home);
    return berth_fail(BERTH_ERR_STATE, "the context of the KV cache has ended");
}

void berth_kv_leave(berth_kv_cache* cache) { berth_home_unlock(&cache->context->home); }

// --- Layout --------------------------------------------------------------------------------------

static berth_status check_number(const char* name, int64_t value, int64_t most) {
    if (value >= 1 && value <= most) return BERTH_OK;
    return berth_fail(
        BERTH_ERR_INVALID_ARGUMENT, "%s is %" PRId64 ", not 1 to %" PRId64, name, value, most);
}

static berth_status check_options(const berth_kv_options* options) {
    if (options->struct_size != sizeof *options)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "struct_size is %zu, not %zu",
                          options->struct_size,
                          sizeof *options);
    BERTH_TRY(check_number("layers", options->layers, MOST_LAYERS));
    BERTH_TRY(check_number("kv_heads", options->kv_heads, MOST_HEADS));
    BERTH_TRY(check_number("key_dims", options->key_dims, MOST_DIMS));
    BERTH_TRY(check_number("value_dims", options->value_dims, MOST_DIMS));
    BERTH_TRY(check_number("block_tokens", options->block_tokens, BERTH_PREFIX_MAX_BLOCK_TOKENS));
    if (options->eviction != BERTH_KV_EVICT_REUSE && options->eviction != BERTH_KV_EVICT_LRU)
        return berth_fail(
            BERTH_ERR_INVALID_ARGUMENT, "eviction is %d, no policy", (int)options->eviction);
    if (options->dtype != BERTH_F32 && options->dtype != BERTH_F16 &&
        options->dtype != BERTH_BF16 && options->dtype != BERTH_Q8_0)
        return berth_fail(BERTH_ERR_UNSUPPORTED, "keys and values are f32, f16, bf16 or q8_0");
    const int64_t unit = berth_dtype_info_of(options->dtype)->block_values;
    if (options->key_dims % unit != 0 || options->value_dims % unit != 0)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "heads of %" PRId64 " and %" PRId64 " values are no whole blocks of %s, "
                          "%" PRId64 " values each",
                          options->key_dims,
                          options->value_dims,
                          berth_dtype_info_of(options->dtype)->name,
                          unit);
    return BERTH_OK;
}

/// A common multiple of the alignment and of the bytes that strides count in.
static uint64_t block_unit(const berth_dtype_info* info) {
    uint64_t unit = BERTH_ALIGNMENT;
    while (unit % info->block_bytes != 0)
        unit += BERTH_ALIGNMENT;
    return unit;
}

/// The limits of the options keep these products below 2^58.
static berth_kv_layout lay_out(const berth_kv_options* options) {
    const berth_dtype_info* info = berth_dtype_info_of(options->dtype);
    const uint64_t rows = (uint64_t)(options->block_tokens * options->kv_heads);
    const uint64_t keys =
        rows * (uint64_t)options->key_dims / info->block_values * info->block_bytes;
    const uint64_t values =
        rows * (uint64_t)options->value_dims / info->block_values * info->block_bytes;
    const uint64_t unit = block_unit(info);
    const uint64_t bytes = (keys + values) * (uint64_t)options->layers;
    return (berth_kv_layout){
        .block_tokens = options->block_tokens,
        .token_bytes = bytes / (uint64_t)options->block_tokens,
        .block_bytes = (bytes + unit - 1) / unit * unit,
        .key_bytes = keys,
        .value_bytes = values,
    };
}

// --- Tensors on the blocks -----------------------------------------------------------------------

/// The window [blocks, block_tokens, heads, dims] on one layer's keys or values.
static berth_status open_window(berth_kv_cache* cache,
                                uint64_t offset,
                                int64_t head_dims,
                                berth_tensor** out_tensor) {
    const berth_dtype_info* info = berth_dtype_info_of(cache->options.dtype);
    const int64_t row = head_dims / info->block_values, heads = cache->options.kv_heads;
    const int64_t dims[4] = {
        cache->layout.max_blocks, cache->options.block_tokens, heads, head_dims};
    const int64_t strides[4] = {
        (int64_t)(cache->layout.block_bytes / info->block_bytes), heads * row, row, 1};
    const berth_foreign foreign = {
        .data = cache->blocks.space->base + offset,
        .limit_bytes = cache->blocks.space->size_bytes - offset,
        .dtype = cache->options.dtype,
        .rank = 4,
        .dims = dims,
        .strides = strides,
    };
    return berth_foreign_adopt(cache->context, &foreign, out_tensor);
}

static berth_status open_windows(berth_kv_cache* cache) {
    const size_t layers = (size_t)cache->options.layers;
    const berth_host* host = cache->blocks.host;
    cache->keys = berth_host_calloc(host, layers, sizeof *cache->keys);
    cache->values = berth_host_calloc(host, layers, sizeof *cache->values);
    if (cache->keys == NULL || cache->values == NULL)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for the layers of a KV cache");
    const uint64_t layer_bytes = cache->layout.key_bytes + cache->layout.value_bytes;
    for (size_t i = 0; i < layers; ++i) {
        const uint64_t at = i * layer_bytes;
        BERTH_TRY(open_window(cache, at, cache->options.key_dims, &cache->keys[i]));
        BERTH_TRY(open_window(
            cache, at + cache->layout.key_bytes, cache->options.value_dims, &cache->values[i]));
    }
    return BERTH_OK;
}

static void close_windows(berth_kv_cache* cache) {
    const bool has_tables = cache->keys != NULL && cache->values != NULL;
    for (int64_t i = 0; has_tables && i < cache->options.layers; ++i) {
        if (cache->keys[i] != NULL) berth_tensor_drop(cache->keys[i], &cache->context->home);
        if (cache->values[i] != NULL) berth_tensor_drop(cache->values[i], &cache->context->home);
    }
    berth_host_free(cache->context->home.host, cache->keys);
    berth_host_free(cache->context->home.host, cache->values);
}

// --- Creation and end ----------------------------------------------------------------------------

static berth_status set_up(berth_kv_cache* cache) {
    berth_context* context = cache->context;
    const berth_account account = {
        .store = context->runtime->store, .tenant = &context->tenant, .owner = BERTH_OWNER_KV};
    berth_store_stats store;
    berth_store_query_stats(account.store, &store);
    uint64_t most = cache->options.max_bytes;
    if (most == 0 || most > store.capacity_bytes) most = store.capacity_bytes;
    BERTH_TRY(berth_kv_blocks_init(
        &cache->blocks, &context->home, account, cache->layout.block_bytes, most));
    cache->layout.max_blocks = cache->blocks.most;
    cache->layout.granule_bytes = cache->blocks.granule_bytes;
    if (cache->blocks.most == 0)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "one block of the KV cache has %" PRIu64 " bytes, of which there may be "
                          "%" PRIu64 " in whole granules",
                          cache->layout.block_bytes,
                          cache->blocks.granules * cache->blocks.granule_bytes);
    BERTH_TRY(berth_kv_open_index(cache));
    BERTH_TRY(open_windows(cache));
    berth_kv_join_upkeep(cache);
    return BERTH_OK;
}

/// Under the lock of the home, which is pinned beyond.
static void tear_down(berth_kv_cache* cache) {
    berth_kv_leave_upkeep(cache);
    close_windows(cache);
    berth_kv_batch_fini(cache);
    berth_prefix_index_destroy(cache->index);
    berth_kv_blocks_fini(&cache->blocks);
}

/// Takes the lock off, unless it is of somebody further up in this thread.
static void end(berth_kv_cache* cache, bool has_locked) {
    berth_home* home = &cache->context->home;
    tear_down(cache);
    berth_host_free(home->host, cache);
    if (has_locked) berth_home_unlock(home);
    // somebody further up is in a call on the context: this is not its last pin
    berth_home_unpin(home);
}

berth_status berth_kv_cache_create(berth_context* context,
                                   const berth_kv_options* options,
                                   berth_kv_cache** out_cache) {
    if (out_cache == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a place for the cache is needed");
    *out_cache = NULL;
    if (context == NULL || options == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a context and options are needed");
    BERTH_TRY(berth_fork_check(context->home.fork_generation));
    berth_kv_options chosen = *options;
    if (chosen.value_dims == 0) chosen.value_dims = chosen.key_dims;
    if (chosen.block_tokens == 0) chosen.block_tokens = DEFAULT_BLOCK_TOKENS;
    BERTH_TRY(check_options(&chosen));
    if (!berth_home_lock(&context->home)) return BERTH_ERR_STATE;
    berth_kv_cache* cache = berth_host_calloc(context->home.host, 1, sizeof *cache);
    if (cache == NULL) {
        berth_home_unlock(&context->home);
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for a KV cache");
    }
    *cache = (berth_kv_cache){.refs = 1,
                              .context = context,
                              .options = chosen,
                              .layout = lay_out(&chosen),
                              .copy_ns = first_copy_ns};
    berth_home_pin(&context->home);
    const berth_status status = set_up(cache);
    if (status != BERTH_OK) {
        end(cache, true);
        return status;
    }
    berth_home_unlock(&context->home);
    *out_cache = cache;
    return BERTH_OK;
}

void berth_kv_cache_drop(berth_kv_cache* cache, bool has_locked) {
    if (--cache->refs == 0)
        end(cache, has_locked);
    else if (has_locked)
        berth_kv_leave(cache);
}

void berth_kv_cache_release(berth_kv_cache* cache) {
    if (cache == NULL || berth_home_is_forked(&cache->context->home)) return;
    // in an out-of-memory callback this thread has the lock, and is in no call on the cache
    berth_kv_cache_drop(cache, berth_home_lock(&cache->context->home));
}

void berth_kv_cache_layout(const berth_kv_cache* cache, berth_kv_layout* out_layout) {
    if (out_layout == NULL) return;
    *out_layout = cache == NULL ? (berth_kv_layout){0} : cache->layout;
}

void* berth_kv_cache_base(const berth_kv_cache* cache) {
    return cache == NULL ? NULL : cache->blocks.space->base;
}

void berth_kv_cache_set_recompute_cost(berth_kv_cache* cache, double ns_per_token) {
    if (cache != NULL) cache->recompute_ns = ns_per_token > 0 ? ns_per_token : 0;
}

// --- Who holds a block ---------------------------------------------------------------------------

uint32_t berth_kv_take_block(berth_kv_cache* cache, size_t position) {
    const uint32_t block = berth_kv_blocks_take(&cache->blocks);
    cache->blocks.records[block] = (berth_kv_block){.refs = 1, .position = (uint32_t)position};
    return block;
}

void berth_kv_hold_block(berth_kv_cache* cache, uint32_t block) {
    berth_kv_block* record = &cache->blocks.records[block];
    if (record->refs++ > 0) return;
    --cache->cached_count;
    cache->cached_tokens -= record->tokens;
    cache->held_tokens += record->tokens;
    berth_prefix_index_hold(cache->index, block);
}

bool berth_kv_drop_block(berth_kv_cache* cache, uint32_t block) {
    berth_kv_block* record = &cache->blocks.records[block];
    if (--record->refs > 0) return false;
    cache->held_tokens -= record->tokens;
    if (berth_prefix_index_has(cache->index, block)) {
        // the index may find fewer tokens than its last sequence had added
        record->tokens = berth_prefix_index_tokens(cache->index, block);
        cache->cached_tokens += record->tokens;
        ++cache->cached_count;
        berth_prefix_index_unhold(cache->index, block);
        return false;
    }
    berth_kv_blocks_give(&cache->blocks, block);
    return true;
}

void berth_kv_set_tokens(berth_kv_cache* cache, uint32_t block, uint32_t tokens) {
    berth_kv_block* record = &cache->blocks.records[block];
    cache->held_tokens += tokens;
    cache->held_tokens -= record->tokens;
    record->tokens = tokens;
}

// --- Statistics ----------------------------------------------------------------------------------

static uint64_t metadata_bytes(const berth_kv_cache* cache) {
    const berth_kv_blocks* blocks = &cache->blocks;
    uint64_t bytes =
        sizeof *cache + blocks->capacity * (sizeof *blocks->records + 1) +
        blocks->granules * (sizeof *blocks->users + sizeof *blocks->idle_since) +
        blocks->granules / 8 + cache->batch.number_capacity * sizeof *cache->batch.numbers +
        cache->batch.sequence_capacity * (sizeof *cache->batch.sequences + 2 * sizeof(size_t)) +
        (size_t)cache->options.layers * 2 * sizeof *cache->keys +
        berth_prefix_index_bytes(cache->index);
    for (const berth_kv_sequence* s = cache->first; s != NULL; s = s->next)
        bytes += sizeof *s + s->tokens.capacity * sizeof *s->tokens.items +
                 s->blocks.capacity * sizeof *s->blocks.items;
    return bytes;
}

static void fill_stats(const berth_kv_cache* cache, berth_kv_stats* stats) {
    const berth_kv_blocks* blocks = &cache->blocks;
    const uint64_t held = blocks->taken_count - cache->cached_count;
    *stats = cache->counted;
    stats->block_bytes = cache->layout.block_bytes;
    stats->mapped_bytes = blocks->mapped_granules * blocks->granule_bytes;
    stats->held_blocks = held;
    stats->cached_blocks = cache->cached_count;
    stats->free_blocks = blocks->ready_count;
    stats->held_tokens = cache->held_tokens;
    stats->cached_tokens = cache->cached_tokens;
    stats->wasted_tokens = held * berth_kv_block_tokens(cache) - cache->held_tokens;
    stats->sequences = cache->sequences;
    stats->parked_sequences = cache->parked_sequences;
    stats->parked_bytes = cache->parked_bytes;
    stats->metadata_bytes = metadata_bytes(cache);
}

void berth_kv_cache_query_stats(const berth_kv_cache* cache, berth_kv_stats* out_stats) {
    if (out_stats == NULL) return;
    *out_stats = (berth_kv_stats){0};
    if (cache == NULL || berth_home_is_forked(&cache->context->home)) return;
    // a callback's thread has the lock: the numbers are those between two steps of its own call
    const bool has_locked = berth_home_lock(&cache->context->home);
    fill_stats(cache, out_stats);
    if (has_locked) berth_home_unlock(&cache->context->home);
}
