// SPDX-License-Identifier: Apache-2.0
// Ranges of an arena: bits for granules, and the device calls that change them.
#include "memory/arena_range.h"

#include "base/checked.h"
#include "base/error.h"
#include "memory/page_store_internal.h"
#include "memory/poison.h"

static void set_bits(uint64_t* bits, uint64_t first, uint64_t count, bool value) {
    for (uint64_t i = first; i < first + count; i++) {
        const uint64_t bit = UINT64_C(1) << (i % 64);
        bits[i / 64] = value ? bits[i / 64] | bit : bits[i / 64] & ~bit;
    }
}

static bool has_bit(const uint64_t* bits, uint64_t i) {
    return (bits[i / 64] >> (i % 64) & 1u) != 0;
}

/// The first run of granules in [*first, end) whose bit in `bits` is `value`; its length, 0 if
/// none.
static uint64_t find_run(const uint64_t* bits, uint64_t* first, uint64_t end, bool value) {
    while (*first < end && has_bit(bits, *first) != value)
        ++*first;
    uint64_t count = 0;
    while (*first + count < end && has_bit(bits, *first + count) == value)
        count++;
    return count;
}

static void note_mapped(berth_arena_range* range, uint64_t first, uint64_t count) {
    set_bits(range->mapped, first, count, true);
    range->mapped_count += count;
    if (range->high < first + count) range->high = first + count;
    while (range->prefix < range->granules && has_bit(range->mapped, range->prefix))
        range->prefix++;
}

static void note_unmapped(berth_arena_range* range, uint64_t first, uint64_t count) {
    set_bits(range->mapped, first, count, false);
    range->mapped_count -= count;
    if (range->prefix > first) range->prefix = first;
    while (range->high > 0 && !has_bit(range->mapped, range->high - 1))
        range->high--;
}

berth_status berth_arena_range_create(const berth_host* host,
                                      berth_account account,
                                      berth_stream* stream,
                                      uint64_t need,
                                      berth_arena_range** out_range) {
    *out_range = NULL;
    const berth_device* device = berth_store_device(account.store);
    berth_arena_range* range = berth_host_calloc(host, 1, sizeof *range);
    if (range == NULL)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for a range of frames");
    range->account = account;
    range->stream = berth_device_is_async(device) ? stream : NULL;
    range->granule_bytes = device->granule_bytes;
    const uint64_t rounded = berth_round_up(need, device->granule_bytes);
    berth_status status = berth_store_reserve_space(account.store, rounded, &range->space);
    if (status != BERTH_OK) goto fail;
    range->granules = range->space->size_bytes / device->granule_bytes;
    const size_t words = (size_t)(range->granules + 63) / 64;
    status = BERTH_ERR_OUT_OF_MEMORY;
    range->mapped = berth_host_calloc(host, words, sizeof *range->mapped);
    range->fresh = berth_host_calloc(host, words, sizeof *range->fresh);
    if (range->mapped == NULL || range->fresh == NULL) {
        (void)berth_fail(status, "no host memory for a range of frames");
        goto fail;
    }
    *out_range = range;
    return BERTH_OK;
fail:
    berth_arena_range_destroy(host, range);
    return status;
}

void berth_arena_range_destroy(const berth_host* host, berth_arena_range* range) {
    if (range == NULL) return;
    if (range->mapped_count == 0) berth_space_release(range->space);
    berth_host_free(host, range->mapped);
    berth_host_free(host, range->fresh);
    berth_host_free(host, range);
}

bool berth_arena_range_is_mapped(const berth_arena_range* range, uint64_t granule) {
    return has_bit(range->mapped, granule);
}

uint64_t berth_arena_range_query_missing(const berth_arena_range* range,
                                         uint64_t start,
                                         uint64_t end) {
    uint64_t missing = 0;
    const uint64_t last = (end + range->granule_bytes - 1) / range->granule_bytes;
    for (uint64_t i = start / range->granule_bytes; start < end && i < last; i++) {
        if (i < range->prefix) {
            i = range->prefix - 1;
            continue;
        }
        if (i >= range->high) {
            missing += last - i;
            break;
        }
        if (!has_bit(range->mapped, i)) missing++;
    }
    return missing * range->granule_bytes;
}

static void unpoison(const berth_arena_range* range, uint64_t first, uint64_t count) {
    BERTH_UNPOISON_REGION(range->space->base + first * range->granule_bytes,
                          count * range->granule_bytes);
}

/// Undoes what the call under way has mapped below granule `end`.
static void undo_fresh(berth_arena_range* range,
                       uint64_t first,
                       uint64_t end,
                       berth_reservation* reservation,
                       const berth_reservation* promised) {
    for (uint64_t count; (count = find_run(range->fresh, &first, end, true)) > 0; first += count) {
        set_bits(range->fresh, first, count, false);
        const berth_status status = berth_store_unmap_into(range->account,
                                                           reservation,
                                                           promised,
                                                           range->space,
                                                           first * range->granule_bytes,
                                                           count * range->granule_bytes);
        // What cannot be given back stays mapped, in the books too: a later trim tries again.
        if (status == BERTH_OK) note_unmapped(range, first, count);
    }
}

berth_status berth_arena_range_map(berth_arena_range* range,
                                   uint64_t start,
                                   uint64_t end,
                                   berth_reservation* reservation,
                                   berth_mutex* lock) {
    berth_reservation promised = {0};
    if (reservation != NULL) promised = *reservation;
    const uint64_t first = start / range->granule_bytes;
    const uint64_t last = (end + range->granule_bytes - 1) / range->granule_bytes;
    uint64_t at = first;
    for (uint64_t count; (count = find_run(range->mapped, &at, last, false)) > 0; at += count) {
        berth_mutex_unlock(lock);
        const berth_status status = berth_store_map(range->account,
                                                    reservation,
                                                    range->space,
                                                    at * range->granule_bytes,
                                                    count * range->granule_bytes);
        berth_mutex_lock(lock);
        if (status != BERTH_OK) {
            undo_fresh(range, first, at, reservation, &promised);
            return status;
        }
        set_bits(range->fresh, at, count, true);
        note_mapped(range, at, count);
    }
    set_bits(range->fresh, first, last - first, false);
    return BERTH_OK;
}

/// Looks whether the ticket is done, waiting for it if `may_block`.
static void check_ticket(berth_arena_range* range, bool may_block) {
    if (range->ticket == 0) return;
    bool done = berth_stream_query(range->stream, range->ticket);
    if (!done && may_block) done = berth_stream_outwait(range->stream, range->ticket);
    if (!done) return;
    range->ticket = 0;
    if (range->passed > range->ticket_floor) range->passed = range->ticket_floor;
}

uint64_t berth_arena_range_settle(berth_arena_range* range, uint64_t from, bool may_block) {
    if (range->stream == NULL) return from;
    check_ticket(range, may_block);
    const bool useful = range->passed > from && range->high * range->granule_bytes > from;
    if (useful && range->ticket == 0) {
        if (berth_stream_record(range->stream, &range->ticket) != BERTH_OK) range->ticket = 0;
        range->ticket_floor = from;
        check_ticket(range, may_block);
    }
    return range->passed > from ? range->passed : from;
}

uint64_t berth_arena_range_unmap(berth_arena_range* range,
                                 uint64_t start,
                                 uint64_t end,
                                 uint64_t limit) {
    const uint64_t first = (start + range->granule_bytes - 1) / range->granule_bytes;
    uint64_t last = end / range->granule_bytes;
    if (last > range->high) last = range->high;
    uint64_t room = limit / range->granule_bytes + (limit % range->granule_bytes != 0);
    uint64_t given = 0;
    while (last > first && room > 0) {
        if (!has_bit(range->mapped, last - 1)) {
            last--;
            continue;
        }
        uint64_t count = 1;
        while (count < room && last - count > first && has_bit(range->mapped, last - count - 1))
            count++;
        last -= count;
        unpoison(range, last, count);
        const berth_status status = berth_store_unmap(range->account,
                                                      range->space,
                                                      last * range->granule_bytes,
                                                      count * range->granule_bytes);
        if (status != BERTH_OK) continue;
        note_unmapped(range, last, count);
        room -= count;
        given += count;
    }
    return given * range->granule_bytes;
}

void berth_arena_range_move(berth_arena_range* range,
                            uint64_t start,
                            uint64_t end,
                            berth_arena_range* target) {
    uint64_t at = (start + range->granule_bytes - 1) / range->granule_bytes;
    uint64_t last = end / range->granule_bytes;
    if (last > range->high) last = range->high;
    for (uint64_t count; at < last && (count = find_run(range->mapped, &at, last, true)) > 0;
         at += count) {
        const uint64_t room = target->granules - target->prefix;
        if (count > room) count = room;
        if (count == 0) return;
        unpoison(range, at, count); // a device that moves by copying reads it
        const berth_status status = berth_space_remap(range->space,
                                                      at * range->granule_bytes,
                                                      target->space,
                                                      target->prefix * range->granule_bytes,
                                                      count * range->granule_bytes);
        if (status != BERTH_OK) return;
        note_unmapped(range, at, count);
        note_mapped(target, target->prefix, count);
    }
}
