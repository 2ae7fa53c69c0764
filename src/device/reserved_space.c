// SPDX-License-Identifier: Apache-2.0
// One mapping without access for each space, and a flag for each granule.
#include "device/reserved_space.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/error.h"

typedef struct reserved_space {
    berth_space space;
    unsigned char* reserved; // what mmap returned; `space.base` is aligned inside it
    size_t reserved_bytes;
    bool mapped[]; // for each granule
} reserved_space;

static berth_status no_addresses(uint64_t size, const char* why) {
    return berth_fail(BERTH_ERR_OUT_OF_MEMORY,
                      "%llu bytes of addresses cannot be reserved: %s",
                      (unsigned long long)size,
                      why);
}

berth_status berth_reserved_space_create(berth_device* device,
                                         uint64_t size,
                                         berth_space** out_space) {
    const uint64_t granule = device->granule_bytes;
    uint64_t with_slack;
    if (!berth_add_u64(size, granule, &with_slack) || with_slack > SIZE_MAX / 2)
        return no_addresses(size, "there are not so many");
    reserved_space* made = berth_host_calloc(device->host, 1, sizeof *made + size / granule);
    if (made == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory for a space");
    unsigned char* at = mmap(
        NULL, (size_t)with_slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        const int error = errno;
        berth_host_free(device->host, made);
        return no_addresses(size, strerror(error));
    }
    made->reserved = at;
    made->reserved_bytes = (size_t)with_slack;
    const uint64_t misaligned = (uintptr_t)at & (granule - 1);
    made->space = (berth_space){
        .device = device,
        .base = at + (misaligned == 0 ? 0 : granule - misaligned),
        .size_bytes = size,
    };
    *out_space = &made->space;
    return BERTH_OK;
}

void berth_reserved_space_destroy(berth_space* space) {
    reserved_space* released = (reserved_space*)space;
    BERTH_CHECK(1, berth_reserved_space_is(space, 0, space->size_bytes, false));
    (void)munmap(released->reserved, released->reserved_bytes);
    berth_host_free(space->device->host, released);
}

bool berth_reserved_space_is(const berth_space* space,
                             uint64_t offset,
                             uint64_t size,
                             bool mapped) {
    const reserved_space* looked_at = (const reserved_space*)space;
    const uint64_t granule = space->device->granule_bytes;
    for (uint64_t i = offset / granule; i < (offset + size) / granule; i++) {
        if (looked_at->mapped[i] != mapped) return false;
    }
    return true;
}

void berth_reserved_space_mark(berth_space* space, uint64_t offset, uint64_t size, bool mapped) {
    reserved_space* marked = (reserved_space*)space;
    const uint64_t granule = space->device->granule_bytes;
    memset(marked->mapped + offset / granule, mapped, size / granule);
}

bool berth_reserved_space_protect(berth_space* space, bool is_open) {
    const reserved_space* changed = (const reserved_space*)space;
    const uint64_t granule = space->device->granule_bytes;
    const uint64_t count = space->size_bytes / granule;
    for (uint64_t i = 0; i < count;) {
        uint64_t end = i;
        while (end < count && changed->mapped[end])
            ++end;
        const size_t bytes = (size_t)((end - i) * granule);
        const int access = is_open ? PROT_READ | PROT_WRITE : PROT_NONE;
        if (end > i && mprotect(space->base + i * granule, bytes, access) != 0) return false;
        i = end > i ? end : i + 1;
    }
    return true;
}
