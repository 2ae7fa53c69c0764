// SPDX-License-Identifier: Apache-2.0
// The books of page-locked memory; the device does the locking.
#include "memory/pinned.h"

#include <inttypes.h>
#include <unistd.h>

#include "base/address_map.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/thread.h"

struct berth_pinned {
    const berth_host* host;
    berth_device* device;
    uint64_t page_bytes;
    uint64_t cap_bytes;
    berth_mutex lock; ///< guards what follows
    uint64_t out_bytes;
    berth_address_map blocks;
};

berth_status berth_pinned_create(const berth_host* host,
                                 berth_device* device,
                                 uint64_t cap_bytes,
                                 berth_pinned** out_pinned) {
    *out_pinned = NULL;
    berth_pinned* made = berth_host_calloc(host, 1, sizeof *made);
    if (made == NULL)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for the books of pinned memory");
    const berth_status status = berth_mutex_init(&made->lock);
    if (status != BERTH_OK) {
        berth_host_free(host, made);
        return status;
    }
    const long page = sysconf(_SC_PAGESIZE);
    made->host = host;
    made->device = device;
    made->page_bytes = page > 0 ? (uint64_t)page : 4096;
    made->cap_bytes = cap_bytes;
    *out_pinned = made;
    return BERTH_OK;
}

static void unpin(berth_pinned* pinned, const berth_address_entry* block) {
    // the device's own address comes back without the const of a key
    berth_device_unpin(pinned->device, (void*)(uintptr_t)block->address, block->size_bytes);
    pinned->out_bytes -= block->size_bytes;
}

void berth_pinned_destroy(berth_pinned* pinned) {
    if (pinned == NULL) return;
    for (size_t i = 0; i < pinned->blocks.capacity; ++i)
        if (pinned->blocks.slots[i].address != NULL) unpin(pinned, &pinned->blocks.slots[i]);
    berth_address_map_fini(&pinned->blocks, pinned->host);
    berth_mutex_fini(&pinned->lock);
    berth_host_free(pinned->host, pinned);
}

static berth_status take_locked(berth_pinned* pinned, uint64_t size, void** out_data) {
    if (size > pinned->cap_bytes - pinned->out_bytes)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY,
                          "%" PRIu64 " bytes of pinned memory are asked for, %" PRIu64
                          " are in use, BERTH_PINNED allows %" PRIu64,
                          size,
                          pinned->out_bytes,
                          pinned->cap_bytes);
    BERTH_TRY(berth_address_map_reserve_one(&pinned->blocks, pinned->host));
    void* data;
    BERTH_TRY(berth_device_pin(pinned->device, size, &data));
    berth_address_map_add(&pinned->blocks,
                          (berth_address_entry){.address = data, .size_bytes = size});
    pinned->out_bytes += size;
    *out_data = data;
    return BERTH_OK;
}

berth_status berth_pinned_take(berth_pinned* pinned, uint64_t bytes, void** out_data) {
    *out_data = NULL;
    uint64_t size;
    if (!berth_try_round_up(bytes > 0 ? bytes : 1, pinned->page_bytes, &size))
        return berth_fail(BERTH_ERR_OVERFLOW, "%" PRIu64 " bytes do not fit whole pages", bytes);
    berth_mutex_lock(&pinned->lock);
    const berth_status status = take_locked(pinned, size, out_data);
    berth_mutex_unlock(&pinned->lock);
    return status;
}

bool berth_pinned_give(berth_pinned* pinned, const void* data) {
    berth_address_entry block;
    berth_mutex_lock(&pinned->lock);
    const bool is_ours = berth_address_map_remove(&pinned->blocks, data, &block);
    if (is_ours) unpin(pinned, &block);
    berth_mutex_unlock(&pinned->lock);
    return is_ours;
}

uint64_t berth_pinned_query_bytes(berth_pinned* pinned) {
    berth_mutex_lock(&pinned->lock);
    const uint64_t bytes = pinned->out_bytes;
    berth_mutex_unlock(&pinned->lock);
    return bytes;
}
