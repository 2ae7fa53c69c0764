// SPDX-License-Identifier: Apache-2.0
// Plain bytes from a context's pool. They are no values: no step sees them.
#include "exec/plain_bytes.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "berth/memory.h"

static berth_block block_of(const berth_address_entry* entry) {
    // the pool's own address comes back without the const of a key
    return (berth_block){.data = (unsigned char*)(uintptr_t)entry->address,
                         .size_bytes = entry->size_bytes,
                         .handle = entry->handle};
}

static berth_status take(berth_context* context, uint64_t bytes, void** out_data) {
    berth_home* home = &context->home;
    berth_block block;
    home->doing = "alloc";
    BERTH_TRY(berth_address_map_reserve_one(&context->plain_bytes, home->host));
    // blocks without bytes may share an address
    BERTH_TRY(berth_home_take(home,
                              &(berth_pool_request){.size_bytes = bytes > 0 ? bytes : 1,
                                                    .site = berth_home_site(home, bytes)},
                              &block));
    if (home->fills_on_alloc)
        berth_home_fill(
            home, block.data, berth_home_asked_bytes(home, &block), BERTH_POISON_ALLOC_BYTE);
    if (berth_device_is_async(home->stream->device)) {
        // pending work may still write where the last owner was, and the host waits for no stream
        const berth_status status = berth_stream_synchronize(home->stream);
        if (status != BERTH_OK) {
            berth_home_give(home, &block);
            return status;
        }
    }
    berth_address_map_add(&context->plain_bytes,
                          (berth_address_entry){.address = block.data,
                                                .size_bytes = block.size_bytes,
                                                .handle = block.handle});
    *out_data = block.data;
    return BERTH_OK;
}

static void give(berth_context* context, const berth_address_entry* entry) {
    berth_home* home = &context->home;
    const berth_block block = block_of(entry);
    if (home->fills_on_free)
        berth_home_fill(
            home, block.data, berth_home_asked_bytes(home, &block), BERTH_POISON_FREE_BYTE);
    berth_home_give(home, &block);
}

void* berth_alloc(berth_context* context, uint64_t bytes) {
    if (context == NULL || berth_home_is_forked(&context->home)) return NULL;
    void* data = NULL;
    if (!berth_home_lock(&context->home)) return NULL;
    if (context->error == BERTH_OK) {
        const berth_status status = take(context, bytes, &data);
        if (status != BERTH_OK) berth_context_fail(context, status, "alloc", NULL);
    }
    berth_home_unlock(&context->home);
    return data;
}

void berth_free(berth_context* context, void* data) {
    if (context == NULL || data == NULL || berth_home_is_forked(&context->home)) return;
    berth_address_entry entry;
    // an out-of-memory callback gives back under the lock that its thread has
    const bool has_locked = berth_home_lock(&context->home);
    if (berth_address_map_remove(&context->plain_bytes, data, &entry)) {
        give(context, &entry);
    } else {
        const berth_status status = berth_fail(
            BERTH_ERR_INVALID_ARGUMENT,
            "%p is no address that berth_alloc() gave this context and that is still out",
            data);
        berth_context_fail(context, status, "free", NULL);
    }
    if (has_locked) berth_home_unlock(&context->home);
}

bool berth_plain_bytes_have(const berth_context* context, const void* data) {
    const berth_address_map* map = &context->plain_bytes;
    const uintptr_t at = (uintptr_t)data;
    for (size_t i = 0; map->count > 0 && i < map->capacity; ++i) {
        const uintptr_t begin = (uintptr_t)map->slots[i].address;
        if (begin != 0 && at >= begin && at - begin < map->slots[i].size_bytes) return true;
    }
    return false;
}

void berth_plain_bytes_end(berth_context* context) {
    berth_address_map* map = &context->plain_bytes;
    if (map->count > 0 && context->runtime->reports_leaks)
        berth_log_line(BERTH_LOG_WARN,
                       "leaks: %zu blocks of berth_alloc() are out at the end of their context",
                       map->count);
    for (size_t i = 0; i < map->capacity; ++i)
        if (map->slots[i].address != NULL) give(context, &map->slots[i]);
    berth_address_map_fini(map, context->home.host);
}
