// SPDX-License-Identifier: Apache-2.0
// Blocks: bits for what is free and what is mapped, and the granules under them.
#include "kv/kv_blocks.h"

#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "memory/page_store_internal.h"
#include "memory/poison.h"

enum { LEAST_CAPACITY = 256 };

static bool has_bit(const uint64_t* bits, uint64_t i) {
    return (bits[i / 64] >> (i % 64) & 1) != 0;
}

static void set_bit(uint64_t* bits, uint64_t i) { bits[i / 64] |= UINT64_C(1) << (i % 64); }

static void clear_bit(uint64_t* bits, uint64_t i) { bits[i / 64] &= ~(UINT64_C(1) << (i % 64)); }

static uint64_t first_granule(const berth_kv_blocks* blocks, uint64_t block) {
    return block * blocks->block_bytes / blocks->granule_bytes;
}

static uint64_t last_granule(const berth_kv_blocks* blocks, uint64_t block) {
    return ((block + 1) * blocks->block_bytes - 1) / blocks->granule_bytes;
}

/// The blocks that touch granules [first, end): [*out_first, *out_end).
static void blocks_over(const berth_kv_blocks* blocks,
                        uint64_t first,
                        uint64_t end,
                        uint64_t* out_first,
                        uint64_t* out_end) {
    *out_first = first * blocks->granule_bytes / blocks->block_bytes;
    *out_end = (end * blocks->granule_bytes - 1) / blocks->block_bytes + 1;
    if (*out_end > blocks->most) *out_end = blocks->most;
}

// --- Tables --------------------------------------------------------------------------------------

/// As realloc for an array of which the new part is zeroed.
static bool grow(
    const berth_host* host, void* array_address, size_t old_count, size_t new_count, size_t size) {
    void** array = array_address;
    size_t bytes;
    if (!berth_mul_size(new_count, size, &bytes)) return false;
    unsigned char* larger = berth_host_realloc(host, *array, bytes);
    if (larger == NULL) return false;
    memset(larger + old_count * size, 0, bytes - old_count * size);
    *array = larger;
    return true;
}

/// Makes room in the tables for blocks below `end`.
static berth_status reserve_records(berth_kv_blocks* blocks, uint64_t end) {
    if (end <= blocks->capacity) return BERTH_OK;
    uint64_t capacity = blocks->capacity * UINT64_C(2);
    if (capacity < LEAST_CAPACITY) capacity = LEAST_CAPACITY;
    if (capacity < end) capacity = end;
    capacity = (capacity + 63) / 64 * 64;
    const size_t old_words = blocks->capacity / 64, words = (size_t)(capacity / 64);
    if (!grow(blocks->host, &blocks->ready, old_words, words, sizeof *blocks->ready) ||
        !grow(blocks->host, &blocks->taken, old_words, words, sizeof *blocks->taken) ||
        !grow(blocks->host,
              &blocks->records,
              blocks->capacity,
              (size_t)capacity,
              sizeof *blocks->records))
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for the tables of KV blocks");
    blocks->capacity = (uint32_t)capacity;
    return BERTH_OK;
}

berth_status berth_kv_blocks_init(berth_kv_blocks* blocks,
                                  berth_home* home,
                                  berth_account account,
                                  uint64_t block_bytes,
                                  uint64_t max_bytes) {
    const uint64_t granule = home->stream->device->granule_bytes;
    *blocks = (berth_kv_blocks){
        .host = home->host,
        .home = home,
        .account = account,
        .block_bytes = block_bytes,
        .granule_bytes = granule,
        .granules = max_bytes / granule,
    };
    const uint64_t most = blocks->granules * granule / block_bytes;
    // numbers of blocks fit into i32 in tables, and one is none
    blocks->most = most < INT32_MAX ? (uint32_t)most : INT32_MAX;
    const uint64_t space_granules = blocks->granules > 0 ? blocks->granules : 1;
    BERTH_TRY(berth_store_reserve_space(account.store, space_granules * granule, &blocks->space));
    const size_t granules = (size_t)blocks->granules;
    blocks->mapped = berth_host_calloc(home->host, granules / 64 + 1, sizeof *blocks->mapped);
    blocks->users = berth_host_calloc(home->host, granules + 1, sizeof *blocks->users);
    blocks->idle_since = berth_host_calloc(home->host, granules + 1, sizeof *blocks->idle_since);
    if (blocks->mapped == NULL || blocks->users == NULL || blocks->idle_since == NULL)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for the tables of granules");
    return BERTH_OK;
}

void berth_kv_blocks_fini(berth_kv_blocks* blocks) {
    if (blocks->host == NULL) return;
    if (blocks->space != NULL && blocks->mapped_granules > 0) {
        // granules that the device refuses to take back are lost with their addresses
        (void)!berth_stream_drain(blocks->home->stream);
        for (uint64_t g = 0; g < blocks->end_mapped; ++g)
            blocks->users[g] = 0;
        blocks->idle_granules = blocks->mapped_granules;
        (void)berth_kv_blocks_release(blocks, 0, UINT64_MAX, true);
    }
    if (blocks->mapped_granules == 0) berth_space_release(blocks->space);
    berth_host_free(blocks->host, blocks->ready);
    berth_host_free(blocks->host, blocks->taken);
    berth_host_free(blocks->host, blocks->records);
    berth_host_free(blocks->host, blocks->mapped);
    berth_host_free(blocks->host, blocks->users);
    berth_host_free(blocks->host, blocks->idle_since);
    *blocks = (berth_kv_blocks){0};
}

// --- Mapping -------------------------------------------------------------------------------------

static bool is_mapped(const berth_kv_blocks* blocks, uint64_t block) {
    const uint64_t last = last_granule(blocks, block);
    for (uint64_t g = first_granule(blocks, block); g <= last; ++g)
        if (!has_bit(blocks->mapped, g)) return false;
    return true;
}

static void note_mapped(berth_kv_blocks* blocks, uint64_t first, uint64_t count) {
    for (uint64_t g = first; g < first + count; ++g) {
        set_bit(blocks->mapped, g);
        blocks->idle_since[g] = blocks->idlings;
    }
    blocks->mapped_granules += count;
    blocks->idle_granules += count;
    while (blocks->first_unmapped < blocks->granules &&
           has_bit(blocks->mapped, blocks->first_unmapped))
        ++blocks->first_unmapped;
    if (blocks->end_mapped < first + count) blocks->end_mapped = first + count;
    uint64_t at, end;
    blocks_over(blocks, first, first + count, &at, &end);
    for (; at < end; ++at) {
        if (!is_mapped(blocks, at)) continue;
        set_bit(blocks->ready, at);
        ++blocks->ready_count;
        if (at < blocks->first_ready) blocks->first_ready = (uint32_t)at;
    }
    if (blocks->home->poisons)
        BERTH_POISON_REGION(blocks->space->base + first * blocks->granule_bytes,
                            count * blocks->granule_bytes);
}

static void note_unmapped(berth_kv_blocks* blocks, uint64_t first, uint64_t count) {
    uint64_t at, end;
    blocks_over(blocks, first, first + count, &at, &end);
    for (; at < end && at < blocks->capacity; ++at) {
        if (!has_bit(blocks->ready, at)) continue;
        clear_bit(blocks->ready, at);
        --blocks->ready_count;
    }
    for (uint64_t g = first; g < first + count; ++g)
        clear_bit(blocks->mapped, g);
    blocks->mapped_granules -= count;
    blocks->idle_granules -= count;
    if (first < blocks->first_unmapped) blocks->first_unmapped = first;
    while (blocks->end_mapped > 0 && !has_bit(blocks->mapped, blocks->end_mapped - 1))
        --blocks->end_mapped;
}

uint64_t berth_kv_blocks_query_mappable(const berth_kv_blocks* blocks) {
    const uint64_t left = blocks->granules - blocks->mapped_granules;
    const uint64_t room = berth_store_query_room(blocks->account) / blocks->granule_bytes;
    // the begin of the block that reaches into the first granule is mapped already
    const uint64_t begun = blocks->first_unmapped * blocks->granule_bytes % blocks->block_bytes;
    const uint64_t bytes = (left < room ? left : room) * blocks->granule_bytes;
    const uint64_t count = (begun + bytes) / blocks->block_bytes;
    const uint64_t free = blocks->most - blocks->taken_count - blocks->ready_count;
    return count < free ? count : free;
}

/// The lowest run of unmapped granules, no longer than what `missing` more blocks take; 0 if there
/// is none. It begins at `first_unmapped`.
static uint64_t find_unmapped(const berth_kv_blocks* blocks, uint64_t missing) {
    const uint64_t first = blocks->first_unmapped;
    const uint64_t block = first * blocks->granule_bytes / blocks->block_bytes;
    const uint64_t most = last_granule(blocks, block + missing - 1) + 1 - first;
    uint64_t count = 0;
    while (count < most && first + count < blocks->granules &&
           !has_bit(blocks->mapped, first + count))
        ++count;
    return count;
}

berth_status berth_kv_blocks_prepare(berth_kv_blocks* blocks,
                                     uint64_t count,
                                     berth_reservation* reservation) {
    while (blocks->ready_count < count) {
        const uint64_t first = blocks->first_unmapped;
        const uint64_t run = find_unmapped(blocks, count - blocks->ready_count);
        if (run == 0)
            return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "the KV cache has reached its limit");
        uint64_t begin, end;
        blocks_over(blocks, first, first + run, &begin, &end);
        BERTH_TRY(reserve_records(blocks, end));
        BERTH_TRY(berth_store_map(blocks->account,
                                  reservation,
                                  blocks->space,
                                  first * blocks->granule_bytes,
                                  run * blocks->granule_bytes));
        note_mapped(blocks, first, run);
    }
    return BERTH_OK;
}

// --- Taking and giving ---------------------------------------------------------------------------

uint32_t berth_kv_blocks_next_ready(berth_kv_blocks* blocks) {
    if (blocks->ready_count == 0) return BERTH_KV_NO_BLOCK;
    size_t word = blocks->first_ready / 64;
    while (blocks->ready[word] == 0)
        ++word;
    blocks->first_ready = (uint32_t)(word * 64 + (unsigned)__builtin_ctzll(blocks->ready[word]));
    return blocks->first_ready;
}

static void begin_use(berth_kv_blocks* blocks, uint64_t block) {
    for (uint64_t g = first_granule(blocks, block); g <= last_granule(blocks, block); ++g)
        if (blocks->users[g]++ == 0) --blocks->idle_granules;
}

static void end_use(berth_kv_blocks* blocks, uint64_t block) {
    for (uint64_t g = first_granule(blocks, block); g <= last_granule(blocks, block); ++g) {
        if (--blocks->users[g] > 0) continue;
        ++blocks->idle_granules;
        blocks->idle_since[g] = ++blocks->idlings;
    }
}

uint32_t berth_kv_blocks_take(berth_kv_blocks* blocks) {
    const uint32_t block = berth_kv_blocks_next_ready(blocks);
    clear_bit(blocks->ready, block);
    --blocks->ready_count;
    set_bit(blocks->taken, block);
    ++blocks->taken_count;
    if (block >= blocks->end_taken) blocks->end_taken = block + 1;
    begin_use(blocks, block);
    blocks->records[block] = (berth_kv_block){0};
    unsigned char* data = berth_kv_blocks_data(blocks, block);
    if (blocks->home->poisons) BERTH_UNPOISON_REGION(data, blocks->block_bytes);
    if (blocks->home->fills_on_alloc)
        berth_home_fill(blocks->home, data, blocks->block_bytes, BERTH_POISON_ALLOC_BYTE);
    return block;
}

void berth_kv_blocks_give(berth_kv_blocks* blocks, uint32_t block) {
    unsigned char* data = berth_kv_blocks_data(blocks, block);
    if (blocks->home->fills_on_free)
        berth_home_fill(blocks->home, data, blocks->block_bytes, BERTH_POISON_FREE_BYTE);
    if (blocks->home->poisons) BERTH_POISON_REGION(data, blocks->block_bytes);
    end_use(blocks, block);
    clear_bit(blocks->taken, block);
    --blocks->taken_count;
    set_bit(blocks->ready, block);
    ++blocks->ready_count;
    if (block < blocks->first_ready) blocks->first_ready = block;
    if (block + 1 == blocks->end_taken) {
        const uint32_t last = berth_kv_blocks_last_taken(blocks, block);
        blocks->end_taken = last == BERTH_KV_NO_BLOCK ? 0 : last + 1;
    }
}

berth_status berth_kv_blocks_copy(berth_kv_blocks* blocks, uint32_t from, uint32_t to) {
    return berth_stream_copy(blocks->home->stream,
                             berth_kv_blocks_data(blocks, to),
                             berth_kv_blocks_data(blocks, from),
                             blocks->block_bytes,
                             BERTH_COPY_DEVICE_TO_DEVICE);
}

uint32_t berth_kv_blocks_last_taken(const berth_kv_blocks* blocks, uint32_t end) {
    if (end > blocks->end_taken) end = blocks->end_taken;
    while (end > 0) {
        const size_t word = (end - 1) / 64;
        uint64_t bits = blocks->taken[word];
        if (end % 64 != 0) bits &= (UINT64_C(1) << (end % 64)) - 1;
        if (bits != 0) return (uint32_t)(word * 64 + 63 - (unsigned)__builtin_clzll(bits));
        end = (uint32_t)(word * 64);
    }
    return BERTH_KV_NO_BLOCK;
}

uint64_t berth_kv_blocks_query_spare(const berth_kv_blocks* blocks) {
    const uint64_t bytes = blocks->taken_count * blocks->block_bytes;
    return blocks->mapped_granules - (bytes + blocks->granule_bytes - 1) / blocks->granule_bytes;
}

// --- Giving back ---------------------------------------------------------------------------------

/// The granules that no pending work can touch: those that have been idle since this many idlings.
static uint64_t settle(berth_kv_blocks* blocks, bool may_block) {
    berth_stream* stream = blocks->home->stream;
    if (!berth_device_is_async(stream->device)) return blocks->idlings;
    if (blocks->ticket == 0 || may_block) {
        blocks->ticket_idlings = blocks->idlings;
        if (berth_stream_record(stream, &blocks->ticket) != BERTH_OK) blocks->ticket = 0;
    }
    if (blocks->ticket == 0) return 0;
    bool is_done = berth_stream_query(stream, blocks->ticket);
    if (!is_done && may_block) is_done = berth_stream_outwait(stream, blocks->ticket);
    if (!is_done) return 0;
    blocks->ticket = 0;
    return blocks->ticket_idlings;
}

static bool may_release(const berth_kv_blocks* blocks, uint64_t granule, uint64_t settled) {
    return has_bit(blocks->mapped, granule) && blocks->users[granule] == 0 &&
           blocks->idle_since[granule] <= settled;
}

/// The highest run of granules below `end` that may be given back, `most` at most; its length.
static uint64_t find_idle(const berth_kv_blocks* blocks,
                          uint64_t end,
                          uint64_t most,
                          uint64_t settled,
                          uint64_t* out_first) {
    while (end > 0 && !may_release(blocks, end - 1, settled))
        --end;
    uint64_t count = 0;
    while (count < most && count < end && may_release(blocks, end - count - 1, settled))
        ++count;
    *out_first = end - count;
    return count;
}

uint64_t berth_kv_blocks_release(berth_kv_blocks* blocks,
                                 uint64_t keep_bytes,
                                 uint64_t limit_bytes,
                                 bool may_block) {
    const uint64_t granule = blocks->granule_bytes;
    const uint64_t keep = keep_bytes / granule;
    if (blocks->idle_granules == 0 || blocks->mapped_granules <= keep || limit_bytes == 0) return 0;
    uint64_t most = blocks->mapped_granules - keep;
    const uint64_t limit = limit_bytes / granule + (limit_bytes % granule != 0);
    if (most > limit) most = limit;
    const uint64_t settled = settle(blocks, may_block);
    // whoever is short of memory waits for the end of this, as our lock keeps it from asking us
    berth_transit transit;
    berth_store_begin_transit(blocks->account.store, &transit);
    uint64_t given = 0, at = blocks->end_mapped, first;
    for (uint64_t count; given < most; at = first) {
        count = find_idle(blocks, at, most - given, settled, &first);
        if (count == 0) break;
        BERTH_UNPOISON_REGION(blocks->space->base + first * granule, count * granule);
        if (berth_store_unmap(blocks->account, blocks->space, first * granule, count * granule) !=
            BERTH_OK)
            continue;
        note_unmapped(blocks, first, count);
        given += count;
    }
    berth_store_end_transit(blocks->account.store, &transit);
    return given * granule;
}

bool berth_kv_blocks_are_valid(const berth_kv_blocks* blocks) {
    uint64_t ready = 0, taken = 0, mapped = 0, idle = 0;
    for (uint64_t b = 0; b < blocks->capacity; ++b) {
        const bool is_ready = has_bit(blocks->ready, b), is_taken = has_bit(blocks->taken, b);
        if (b >= blocks->most && (is_ready || is_taken)) return false;
        if (b >= blocks->most) break;
        const bool has_memory =
            b < blocks->most && last_granule(blocks, b) < blocks->granules && is_mapped(blocks, b);
        if ((is_ready && is_taken) || (is_ready || is_taken) != has_memory) return false;
        if (is_ready && b < blocks->first_ready) return false;
        if (is_taken && b >= blocks->end_taken) return false;
        ready += is_ready;
        taken += is_taken;
    }
    for (uint64_t g = 0; g < blocks->granules; ++g) {
        uint64_t at, end, users = 0;
        blocks_over(blocks, g, g + 1, &at, &end);
        for (; at < end; ++at)
            users += berth_kv_blocks_is_taken(blocks, (uint32_t)at);
        const bool has_memory = has_bit(blocks->mapped, g);
        if (users != blocks->users[g] || (has_memory && g >= blocks->end_mapped) ||
            (has_memory ? g == blocks->first_unmapped : g < blocks->first_unmapped))
            return false;
        mapped += has_memory;
        idle += has_memory && users == 0;
    }
    return ready == blocks->ready_count && taken == blocks->taken_count &&
           mapped == blocks->mapped_granules && idle == blocks->idle_granules;
}
