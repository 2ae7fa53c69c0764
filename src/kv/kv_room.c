// SPDX-License-Identifier: Apache-2.0
// Room for blocks. Free ones first, then memory of the device, then what is cached; others who are
// short of memory get what is idle, then what is cached, packed so that whole granules come free.
#include "kv/kv_room.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/error.h"
#include "exec/guests.h"

/// Spare granules that are worth a look: 1/16 of what is mapped, and at least two.
enum { WORTH_SHARE = 16, WORTH_GRANULES = 2 };

berth_status berth_kv_open_index(berth_kv_cache* cache) {
    const berth_prefix_policy policy =
        cache->options.eviction == BERTH_KV_EVICT_LRU ? BERTH_PREFIX_LRU : BERTH_PREFIX_REUSE;
    return berth_prefix_index_create(
        cache->blocks.host, berth_kv_block_tokens(cache), policy, &cache->index);
}

// --- Evicting ------------------------------------------------------------------------------------

/// Gives up the least valuable cached block; false if there is none.
static bool evict_one(berth_kv_cache* cache) {
    uint32_t block;
    if (!berth_prefix_index_evict(cache->index, &block)) return false;
    cache->cached_tokens -= cache->blocks.records[block].tokens;
    --cache->cached_count;
    ++cache->counted.evicted_blocks;
    berth_kv_blocks_give(&cache->blocks, block);
    return true;
}

/// Gives up cached blocks until `count` are free in all or none is cached.
static void evict(berth_kv_cache* cache, uint64_t count) {
    while (cache->blocks.ready_count < count && evict_one(cache)) {
    }
}

// --- Making room ---------------------------------------------------------------------------------

static berth_status refuse(berth_kv_cache* cache, uint64_t count) {
    const berth_kv_blocks* blocks = &cache->blocks;
    const uint64_t mapped_bytes = blocks->mapped_granules * blocks->granule_bytes;
    ++cache->counted.refusals;
    return berth_fail(BERTH_ERR_OUT_OF_MEMORY,
                      "%" PRIu64 " blocks of %" PRIu64
                      " bytes are needed for KV; there are %" PRIu32 " free, %" PRIu32
                      " cached, and memory for %" PRIu64 " (%" PRIu64 " bytes of at most %" PRIu64
                      " are mapped, %" PRIu32 " blocks are held)",
                      count,
                      blocks->block_bytes,
                      blocks->ready_count,
                      cache->cached_count,
                      berth_kv_blocks_query_mappable(blocks),
                      mapped_bytes,
                      blocks->granules * blocks->granule_bytes,
                      blocks->taken_count - cache->cached_count);
}

/// Maps what the device has to spare, up to `count` blocks in all. What cannot be mapped is not
/// missed here.
static void map_spare(berth_kv_cache* cache, uint64_t count) {
    const uint64_t mappable = berth_kv_blocks_query_mappable(&cache->blocks);
    const uint64_t ready = cache->blocks.ready_count;
    const uint64_t wanted = count - ready < mappable ? count : ready + mappable;
    if (wanted > ready) (void)!berth_kv_blocks_prepare(&cache->blocks, wanted, NULL);
}

static berth_status make_room(berth_kv_cache* cache, uint64_t count) {
    berth_kv_blocks* blocks = &cache->blocks;
    if (blocks->ready_count >= count) return BERTH_OK;
    if (count > (uint64_t)blocks->most - (blocks->taken_count - cache->cached_count))
        return refuse(cache, count);
    map_spare(cache, count);
    if (blocks->ready_count >= count) return BERTH_OK;
    // where cached blocks alone do not do: only with what others have idle
    if (blocks->ready_count + (uint64_t)cache->cached_count < count &&
        berth_kv_blocks_prepare(blocks, count - cache->cached_count, NULL) != BERTH_OK)
        return refuse(cache, count);
    evict(cache, count);
    // cached blocks that the index has before held ones stay: others' idle memory in their place
    if (berth_kv_blocks_prepare(blocks, count, NULL) != BERTH_OK) return refuse(cache, count);
    return BERTH_OK;
}

berth_status berth_kv_make_room(berth_kv_cache* cache, uint64_t count) {
    cache->is_busy = true;
    berth_status status = make_room(cache, count);
    if (status == BERTH_OK)
        status = berth_prefix_index_reserve(cache->index, cache->blocks.capacity);
    cache->is_busy = false;
    return status;
}

berth_status berth_kv_cache_query_room(berth_kv_cache* cache, berth_kv_room* out_room) {
    if (out_room == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a place for the room is needed");
    *out_room = (berth_kv_room){0};
    BERTH_TRY(berth_kv_enter(cache));
    *out_room = (berth_kv_room){
        .ready_blocks = cache->blocks.ready_count,
        .cached_blocks = cache->cached_count,
        .mappable_blocks = (int64_t)berth_kv_blocks_query_mappable(&cache->blocks),
    };
    berth_kv_leave(cache);
    return BERTH_OK;
}

// --- Packing -------------------------------------------------------------------------------------

/// Sequences call the block by its new number.
static void rename_block(berth_kv_cache* cache, uint32_t from, uint32_t to) {
    const berth_kv_block* record = &cache->blocks.records[to];
    uint32_t left = record->refs;
    for (berth_kv_sequence* s = cache->first; s != NULL && left > 0; s = s->next) {
        if (record->position >= s->blocks.count || s->blocks.items[record->position] != from)
            continue;
        s->blocks.items[record->position] = to;
        --left;
    }
}

/// Moves `from` to the lowest free place. False if the device refuses.
static bool move_block(berth_kv_cache* cache, uint32_t from) {
    berth_kv_blocks* blocks = &cache->blocks;
    const uint32_t to = berth_kv_blocks_take(blocks);
    if (berth_kv_blocks_copy(blocks, from, to) != BERTH_OK) {
        berth_kv_blocks_give(blocks, to);
        return false;
    }
    blocks->records[to] = blocks->records[from];
    if (berth_prefix_index_has(cache->index, from)) berth_prefix_index_move(cache->index, from, to);
    rename_block(cache, from, to);
    berth_kv_blocks_give(blocks, from);
    ++cache->counted.moved_blocks;
    return true;
}

static bool may_move(const berth_kv_cache* cache, uint32_t block) {
    return !cache->batch.is_open || cache->blocks.records[block].refs == 0;
}

/// One slice of moving blocks to where lower ones are free (K4: but held ones of an open batch);
/// true if there is more to be done.
static bool pack(berth_kv_cache* cache, const berth_compact_budget* slice) {
    berth_kv_blocks* blocks = &cache->blocks;
    const uint64_t end_ns = berth_clock_now_ns() + slice->ns;
    uint64_t moved_bytes = 0;
    uint32_t from = berth_kv_blocks_last_taken(blocks, UINT32_MAX);
    for (; from != BERTH_KV_NO_BLOCK; from = berth_kv_blocks_last_taken(blocks, from)) {
        const uint32_t to = berth_kv_blocks_next_ready(blocks);
        if (to == BERTH_KV_NO_BLOCK || to > from) return false;
        if (!may_move(cache, from)) continue;
        if (!move_block(cache, from)) return false;
        moved_bytes += blocks->block_bytes;
        if (moved_bytes >= slice->bytes || berth_clock_now_ns() >= end_ns) return true;
    }
    return false;
}

// --- The ladder ----------------------------------------------------------------------------------

/// Frees granules of at least `wanted_bytes` as far as cached blocks allow.
static uint64_t give_up(berth_kv_cache* cache, uint64_t wanted_bytes, bool may_block) {
    static const berth_compact_budget whole = {.bytes = UINT64_MAX, .ns = UINT64_MAX / 2};
    berth_kv_blocks* blocks = &cache->blocks;
    uint64_t given = berth_kv_blocks_release(blocks, 0, wanted_bytes, may_block);
    if (given >= wanted_bytes) return given;
    const uint64_t granules =
        (wanted_bytes - given + blocks->granule_bytes - 1) / blocks->granule_bytes;
    while (berth_kv_blocks_query_spare(blocks) < granules && evict_one(cache)) {
    }
    if (berth_kv_blocks_query_spare(blocks) > blocks->idle_granules) (void)pack(cache, &whole);
    return given + berth_kv_blocks_release(blocks, 0, wanted_bytes - given, may_block);
}

static uint64_t reclaim(berth_kv_cache* cache,
                        const berth_tenant* climber,
                        uint64_t wanted_bytes,
                        bool may_block) {
    berth_home* home = &cache->context->home;
    const bool is_own = climber == &cache->context->tenant;
    if (!is_own && !berth_home_try_visit(home)) return 0;
    const uint64_t given = cache->is_busy ? 0 : give_up(cache, wanted_bytes, may_block);
    if (!is_own) berth_home_end_visit(home);
    return given;
}

static uint64_t reclaim_now(void* self, const berth_tenant* climber, uint64_t wanted_bytes) {
    berth_kv_cache* cache = self;
    const bool is_async = berth_device_is_async(cache->context->home.stream->device);
    return reclaim(cache, climber, wanted_bytes, !is_async);
}

static uint64_t reclaim_after_work(void* self, const berth_tenant* climber, uint64_t wanted_bytes) {
    return reclaim(self, climber, wanted_bytes, true);
}

// --- Upkeep --------------------------------------------------------------------------------------

static berth_kv_cache* cache_of(berth_guest* guest) {
    return (berth_kv_cache*)(void*)((char*)guest - offsetof(berth_kv_cache, guest));
}

static bool is_worth_a_look(const berth_kv_blocks* blocks) {
    const uint64_t spare = berth_kv_blocks_query_spare(blocks);
    return spare > blocks->idle_granules && spare >= WORTH_GRANULES &&
           spare >= blocks->mapped_granules / WORTH_SHARE;
}

static bool tidy(berth_guest* self, const berth_compact_budget* slice) {
    berth_kv_cache* cache = cache_of(self);
    if (cache->is_busy) return false;
    const bool is_forced = cache->context->runtime->compact_mode == BERTH_COMPACT_ALWAYS;
    if (!is_forced && !is_worth_a_look(&cache->blocks)) return false;
    return pack(cache, slice) && is_worth_a_look(&cache->blocks);
}

static uint64_t used_bytes(const berth_kv_blocks* blocks) {
    return (blocks->mapped_granules - blocks->idle_granules) * blocks->granule_bytes;
}

static uint64_t age(berth_guest* self,
                    uint64_t epoch,
                    uint64_t floor_bytes,
                    uint64_t limit_bytes,
                    bool* out_is_settled) {
    berth_kv_cache* cache = cache_of(self);
    *out_is_settled = false;
    if (cache->is_busy) return 0;
    const uint64_t used = used_bytes(&cache->blocks);
    berth_use_window_note(&cache->use, epoch, used, used);
    uint64_t keep = berth_use_window_expect(&cache->use, epoch);
    *out_is_settled = keep == used;
    if (keep < used + floor_bytes) keep = used + floor_bytes;
    return berth_kv_blocks_release(&cache->blocks, keep, limit_bytes, false);
}

static uint64_t trim(berth_guest* self, uint64_t keep_bytes, bool may_block) {
    berth_kv_cache* cache = cache_of(self);
    if (cache->is_busy) return 0;
    const uint64_t used = used_bytes(&cache->blocks);
    const uint64_t keep = keep_bytes < UINT64_MAX - used ? used + keep_bytes : UINT64_MAX;
    return berth_kv_blocks_release(&cache->blocks, keep, UINT64_MAX, may_block);
}

/// Bytes of taken blocks in granules that cannot be given back count as used, whatever is free
/// beside them as fragmented; idle granules as kept, or as waiting for work.
static void add_rest(const berth_guest* self, uint64_t keep_bytes, berth_rest* rest) {
    const berth_kv_cache* cache =
        (const berth_kv_cache*)(const void*)((const char*)self - offsetof(berth_kv_cache, guest));
    const berth_kv_blocks* blocks = &cache->blocks;
    const uint64_t idle = blocks->idle_granules * blocks->granule_bytes;
    const uint64_t used = blocks->taken_count * blocks->block_bytes;
    const uint64_t kept = idle < keep_bytes ? idle : keep_bytes;
    rest->in_use_bytes += used;
    rest->fragmented_bytes += used_bytes(blocks) - used;
    rest->kept_bytes += kept;
    if (berth_device_is_async(cache->context->home.stream->device))
        rest->in_flight_bytes += idle - kept;
    else
        rest->refused_bytes += idle - kept;
}

static const berth_guest_ops guest_ops = {
    .tidy = tidy,
    .age = age,
    .trim = trim,
    .add_rest = add_rest,
};

void berth_kv_join_upkeep(berth_kv_cache* cache) {
    berth_context* context = cache->context;
    cache->guest.ops = &guest_ops;
    berth_guests_join(context, &cache->guest);
    cache->evictor = (berth_reclaimer){.rung = BERTH_RUNG_CACHED,
                                       .tenant = &context->tenant,
                                       .owner = BERTH_OWNER_KV,
                                       .self = cache,
                                       .reclaim = reclaim_now};
    // before the first is in the list, where it is the store's
    cache->patient_evictor = cache->evictor;
    cache->patient_evictor.rung = BERTH_RUNG_WAIT;
    cache->patient_evictor.reclaim = reclaim_after_work;
    berth_store_add_reclaimer(context->runtime->store, &cache->evictor);
    if (berth_device_is_async(context->home.stream->device))
        berth_store_add_reclaimer(context->runtime->store, &cache->patient_evictor);
}

void berth_kv_leave_upkeep(berth_kv_cache* cache) {
    if (cache->guest.ops == NULL) return;
    berth_context* context = cache->context;
    berth_store_remove_reclaimer(context->runtime->store, &cache->evictor);
    if (berth_device_is_async(context->home.stream->device))
        berth_store_remove_reclaimer(context->runtime->store, &cache->patient_evictor);
    berth_guests_leave(context, &cache->guest);
}

berth_status berth_kv_cache_trim(berth_kv_cache* cache,
                                 uint64_t keep_bytes,
                                 uint64_t* out_released_bytes) {
    if (out_released_bytes != NULL) *out_released_bytes = 0;
    BERTH_TRY(berth_kv_enter(cache));
    berth_kv_blocks* blocks = &cache->blocks;
    if (cache->batch.is_open) {
        berth_kv_leave(cache);
        return berth_fail(BERTH_ERR_STATE, "a batch of the KV cache is open");
    }
    const uint64_t mapped = blocks->mapped_granules * blocks->granule_bytes;
    const uint64_t excess = mapped > keep_bytes ? mapped - keep_bytes : 0;
    const uint64_t given = give_up(cache, excess, true);
    if (out_released_bytes != NULL) *out_released_bytes = given;
    berth_kv_leave(cache);
    return BERTH_OK;
}
