// SPDX-License-Identifier: Apache-2.0
// Lines by copies on the context's stream, so that they work on every device.
#include "memory/guards.h"

#include <inttypes.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/log.h"
#include "berth/debug.h"
#include "memory/page_store_internal.h"

// clang-format off
#define EIGHT                                                                                      \
    BERTH_GUARD_BYTE, BERTH_GUARD_BYTE, BERTH_GUARD_BYTE, BERTH_GUARD_BYTE,                        \
    BERTH_GUARD_BYTE, BERTH_GUARD_BYTE, BERTH_GUARD_BYTE, BERTH_GUARD_BYTE
/// What enqueued copies read: it stays.
static const unsigned char pattern[BERTH_GUARD_LINE_BYTES] = {
    EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT
};
// clang-format on

void berth_guards_init(berth_guards* guards,
                       const berth_host* host,
                       berth_account account,
                       berth_stream* stream,
                       bool lines_only) {
    guards->host = host;
    guards->account = account;
    guards->stream = stream;
    guards->granule_bytes = stream->device->granule_bytes;
    guards->lines_only = lines_only;
}

// --- Lines ---------------------------------------------------------------------------------------

/// A large block's line ends where its granules do.
static uint64_t line_bytes(uint64_t size, bool is_large) {
    return is_large ? berth_round_up(size, BERTH_ALIGNMENT) - size : BERTH_GUARD_LINE_BYTES;
}

berth_status berth_guards_draw(const berth_guards* guards,
                               unsigned char* data,
                               uint64_t size,
                               bool is_large) {
    return berth_stream_copy(guards->stream,
                             data + size,
                             pattern,
                             line_bytes(size, is_large),
                             BERTH_COPY_HOST_TO_DEVICE);
}

berth_guard_damage berth_guards_look(const berth_guards* guards,
                                     const unsigned char* data,
                                     uint64_t size,
                                     bool is_large) {
    unsigned char seen[BERTH_GUARD_LINE_BYTES];
    berth_guard_damage damage = {0};
    if (!berth_device_has_data(guards->stream->device)) return damage; // nobody can write there
    const uint64_t bytes = line_bytes(size, is_large);
    const berth_status copied =
        berth_stream_copy(guards->stream, seen, data + size, bytes, BERTH_COPY_DEVICE_TO_HOST);
    // also after a failure nothing may come to `seen` any more
    if (berth_stream_drain(guards->stream) != BERTH_OK || copied != BERTH_OK) return damage;
    for (uint64_t i = bytes; i-- > 0;) {
        if (seen[i] == BERTH_GUARD_BYTE) continue;
        ++damage.bytes;
        damage.first = i;
        damage.value = seen[i];
    }
    return damage;
}

// --- Addresses of their own ----------------------------------------------------------------------

bool berth_guards_is_large(const berth_guards* guards, uint64_t size) {
    return !guards->lines_only && size >= guards->granule_bytes;
}

/// Gives the memory of a space back, and its addresses. False if the device refuses.
static bool drop_space(const berth_guards* guards, const berth_guarded_rest* rest) {
    if (berth_store_unmap(
            guards->account, rest->space, guards->granule_bytes, rest->mapped_bytes) != BERTH_OK)
        return false;
    berth_space_release(rest->space);
    return true;
}

/// Tries once more what was refused.
static void drop_rests(berth_guards* guards) {
    if (guards->rests.count == 0 || !berth_stream_come_to_rest(guards->stream)) return;
    for (size_t i = guards->rests.count; i-- > 0;)
        if (drop_space(guards, &guards->rests.items[i]))
            guards->rests.items[i] = guards->rests.items[--guards->rests.count];
}

void berth_guards_fini(berth_guards* guards) {
    if (guards->host == NULL) return;
    BERTH_CHECK(2, guards->spaces.count == 0);
    drop_rests(guards);
    if (guards->rests.count > 0)
        berth_log_line(BERTH_LOG_ERROR,
                       "%zu guarded blocks could not be given back and are lost",
                       guards->rests.count);
    berth_address_map_fini(&guards->spaces, guards->host);
    berth_guarded_rest_vec_fini(&guards->rests, guards->host);
}

berth_status berth_guards_take(berth_guards* guards,
                               uint64_t size,
                               berth_reservation* reservation,
                               berth_block* out_block) {
    const uint64_t granule = guards->granule_bytes;
    *out_block = (berth_block){0};
    if (size > (uint64_t)INT64_MAX - 4 * granule)
        return berth_fail(BERTH_ERR_OVERFLOW, "a block of %" PRIu64 " bytes", size);
    const uint64_t bytes = berth_round_up(size, granule);
    berth_store_stats stats;
    berth_store_query_stats(guards->account.store, &stats);
    if (bytes > stats.capacity_bytes) return berth_store_refuse(guards->account, size);
    drop_rests(guards);
    // giving back cannot fail: every block that is out may become a rest
    BERTH_TRY(berth_guarded_rest_vec_reserve(
        &guards->rests, guards->host, guards->rests.count + guards->spaces.count + 1));
    BERTH_TRY(berth_address_map_reserve_one(&guards->spaces, guards->host));
    berth_space* space = NULL;
    BERTH_TRY(berth_space_reserve(
        berth_store_device(guards->account.store), bytes + 2 * granule, &space));
    const berth_status status =
        berth_store_map(guards->account, reservation, space, granule, bytes);
    if (status != BERTH_OK) {
        berth_space_release(space);
        return status;
    }
    out_block->data = space->base + granule + bytes - berth_round_up(size, BERTH_ALIGNMENT);
    out_block->size_bytes = size;
    out_block->handle = BERTH_GUARDED_HANDLE;
    berth_address_map_add(&guards->spaces,
                          (berth_address_entry){.address = out_block->data,
                                                .size_bytes = bytes,
                                                .handle = (uint64_t)(uintptr_t)space});
    atomic_fetch_add_explicit(&guards->large_bytes, size, memory_order_relaxed);
    return BERTH_OK;
}

void berth_guards_give(berth_guards* guards, const berth_block* block) {
    berth_address_entry entry;
    const bool is_known = berth_address_map_remove(&guards->spaces, block->data, &entry);
    BERTH_CHECK(1, is_known);
    atomic_fetch_sub_explicit(&guards->large_bytes, block->size_bytes, memory_order_relaxed);
    const berth_guarded_rest rest = {(berth_space*)(uintptr_t)entry.handle, entry.size_bytes};
    if (berth_stream_come_to_rest(guards->stream) && drop_space(guards, &rest)) return;
    BERTH_CHECK(1, guards->rests.count < guards->rests.capacity);
    guards->rests.items[guards->rests.count++] = rest;
}
