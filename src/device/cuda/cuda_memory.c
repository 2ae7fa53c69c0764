// SPDX-License-Identifier: Apache-2.0
// Granules, spaces and pinned memory over the driver's virtual memory management. Every call is all
// or nothing; where the driver refuses even to go back, the device is lost.
#include "device/cuda/cuda_memory.h"

#include <unistd.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/log.h"

#define MIN_GRANULE 4096u
/// Left to the driver for kernels and workspaces that it loads at their first use: a part of the
/// device, and no more than this.
#define DRIVER_SHARE 64u
#define DRIVER_RESERVE (256ull << 20)

/// The driver never makes a handle of this value: it would be refused.
#define NO_HANDLE ((cu_handle)0)

typedef struct cuda_space {
    berth_space space;
    struct cuda_space* next; // of the device's
    struct cuda_space* previous;
    cu_handle handles[]; // for each granule; NO_HANDLE where none is mapped
} cuda_space;

/// A stretch of granules of one space.
typedef struct granules {
    cuda_space* space;
    uint64_t first;
    uint64_t count;
} granules;

static granules granules_of(berth_space* space, uint64_t offset, uint64_t size) {
    const uint64_t granule = space->device->granule_bytes;
    return (granules){(cuda_space*)space, offset / granule, size / granule};
}

static cu_address address_of(const granules* range, uint64_t i) {
    const berth_space* space = &range->space->space;
    return (cu_address)(uintptr_t)space->base + (range->first + i) * space->device->granule_bytes;
}

static cu_handle* handle_of(const granules* range, uint64_t i) {
    return &range->space->handles[range->first + i];
}

static bool are_mapped(const granules* range, bool mapped) {
    for (uint64_t i = 0; i < range->count; i++) {
        if ((*handle_of(range, i) != NO_HANDLE) != mapped) return false;
    }
    return true;
}

static cu_result set_access(cuda_device* cuda, const granules* range) {
    const uint64_t bytes = range->count * cuda->device.granule_bytes;
    return cuda->driver.mem_set_access(address_of(range, 0), (size_t)bytes, &cuda->access, 1);
}

static cu_result map_one(cuda_device* cuda, const granules* range, uint64_t i, cu_handle handle) {
    const size_t granule = (size_t)cuda->device.granule_bytes;
    return cuda->driver.mem_map(address_of(range, i), granule, 0, handle, 0);
}

/// Takes down the mappings of the first `count` granules; goes on past failures and returns the
/// first.
static cu_result unmap_first(cuda_device* cuda, const granules* range, uint64_t count) {
    cu_result first = CU_SUCCESS;
    for (uint64_t i = 0; i < count; i++) {
        const cu_result result =
            cuda->driver.mem_unmap(address_of(range, i), (size_t)cuda->device.granule_bytes);
        if (first == CU_SUCCESS) first = result;
    }
    return first;
}

/// Gives physical memory back that is mapped nowhere; a driver that refuses twice means it.
static cu_result release(cuda_device* cuda, cu_handle handle) {
    const cu_result result = cuda->driver.mem_release(handle);
    return result == CU_SUCCESS ? result : cuda->driver.mem_release(handle);
}

/// Gives the physical memory of granules back that are not mapped any more.
static cu_result release_first(cuda_device* cuda, const granules* range, uint64_t count) {
    cu_result first = CU_SUCCESS;
    for (uint64_t i = 0; i < count; i++) {
        const cu_result result = release(cuda, *handle_of(range, i));
        if (first == CU_SUCCESS) first = result;
        *handle_of(range, i) = NO_HANDLE;
    }
    return first;
}

/// What was half done could not be taken back: the books are not true any more.
static void lose_way_back(cuda_device* cuda, cu_result result, const char* what) {
    char reason[BERTH_CUDA_REASON_BYTES / 2];
    berth_cuda_driver_explain(&cuda->driver, result, reason, sizeof reason);
    (void)!berth_cuda_lose(cuda, "%s could not be taken back: %s", what, reason);
}

// --- Set-up -------------------------------------------------------------------------------------

berth_status berth_cuda_memory_init(cuda_device* cuda) {
    const cu_location here = {.type = CU_LOCATION_DEVICE, .id = cuda->handle};
    cuda->allocation = (cu_allocation){.type = CU_ALLOCATION_PINNED, .location = here};
    cuda->access = (cu_access){.location = here, .flags = CU_ACCESS_READ_WRITE};
    size_t granule = 0;
    const cu_result result =
        cuda->driver.mem_get_granularity(&granule, &cuda->allocation, CU_GRANULARITY_RECOMMENDED);
    BERTH_TRY(berth_cuda_judge(cuda, result, "cuMemGetAllocationGranularity"));
    if (!berth_is_power_of_two(granule) || granule < MIN_GRANULE)
        return berth_fail(BERTH_ERR_DEVICE,
                          "the device's memory comes in pieces of %zu bytes, which is no power of "
                          "two of at least %u",
                          granule,
                          MIN_GRANULE);
    cuda->device.granule_bytes = granule;
    return BERTH_OK;
}

/// Other programs may hold memory of the device, so what may be used in all is what is free and
/// what is mapped already.
berth_status berth_cuda_query_memory(berth_device* self,
                                     uint64_t* out_total,
                                     uint64_t* out_available) {
    cuda_device* cuda = cuda_device_of(self);
    BERTH_TRY(berth_cuda_enter(cuda));
    const uint64_t mapped = atomic_load(&cuda->mapped_bytes);
    size_t free_bytes = 0, all_bytes = 0;
    const cu_result result = cuda->driver.mem_get_info(&free_bytes, &all_bytes);
    berth_cuda_leave(cuda);
    BERTH_TRY(berth_cuda_judge(cuda, result, "cuMemGetInfo"));
    uint64_t reserve = (uint64_t)all_bytes / DRIVER_SHARE;
    if (reserve > DRIVER_RESERVE) reserve = DRIVER_RESERVE;
    const uint64_t usable = free_bytes > reserve ? free_bytes - reserve : 0;
    *out_available = usable - usable % self->granule_bytes;
    *out_total = *out_available + mapped;
    return BERTH_OK;
}

// --- Spaces -------------------------------------------------------------------------------------

static berth_status no_addresses(uint64_t size) {
    return berth_fail_prefix(BERTH_ERR_OUT_OF_MEMORY,
                             "%llu bytes of addresses cannot be reserved",
                             (unsigned long long)size);
}

static berth_status reserve(cuda_device* cuda, uint64_t size, cu_address* out_address) {
    BERTH_TRY(berth_cuda_enter(cuda));
    const cu_result result = cuda->driver.mem_address_reserve(
        out_address, (size_t)size, (size_t)cuda->device.granule_bytes, 0, 0);
    berth_cuda_leave(cuda);
    return berth_cuda_judge(cuda, result, "cuMemAddressReserve");
}

static void link_space(cuda_device* cuda, cuda_space* made) {
    berth_mutex_lock(&cuda->lock);
    made->next = cuda->spaces;
    if (made->next != NULL) made->next->previous = made;
    cuda->spaces = made;
    berth_mutex_unlock(&cuda->lock);
}

static void unlink_space(cuda_device* cuda, cuda_space* gone) {
    berth_mutex_lock(&cuda->lock);
    if (gone->next != NULL) gone->next->previous = gone->previous;
    if (gone->previous != NULL)
        gone->previous->next = gone->next;
    else
        cuda->spaces = gone->next;
    berth_mutex_unlock(&cuda->lock);
}

berth_status berth_cuda_space_reserve(berth_device* self, uint64_t size, berth_space** out_space) {
    cuda_device* cuda = cuda_device_of(self);
    const uint64_t count = size / self->granule_bytes;
    if (size > SIZE_MAX / 2 || count > (SIZE_MAX / 2 - sizeof(cuda_space)) / sizeof(cu_handle)) {
        (void)!berth_fail(BERTH_ERR_OUT_OF_MEMORY, "there are not so many");
        return no_addresses(size);
    }
    cuda_space* made =
        berth_host_calloc(self->host, 1, sizeof *made + (size_t)count * sizeof(cu_handle));
    if (made == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory for a space");
    cu_address address = 0;
    const berth_status status = reserve(cuda, size, &address);
    if (status != BERTH_OK) {
        berth_host_free(self->host, made);
        return status == BERTH_ERR_OUT_OF_MEMORY ? no_addresses(size) : status;
    }
    made->space = (berth_space){
        .device = self,
        .base = (unsigned char*)(uintptr_t)address,
        .size_bytes = size,
    };
    link_space(cuda, made);
    *out_space = &made->space;
    return BERTH_OK;
}

/// What a lost device still has mapped: the driver takes back what it can, if it can be asked.
static void forget_granules(cuda_device* cuda, const granules* range, bool is_entered) {
    for (uint64_t i = 0; i < range->count; i++) {
        if (*handle_of(range, i) == NO_HANDLE) continue;
        const granules one = {range->space, range->first + i, 1};
        if (is_entered) {
            (void)unmap_first(cuda, &one, 1);
            (void)release_first(cuda, &one, 1);
        }
        *handle_of(range, i) = NO_HANDLE;
        atomic_fetch_sub(&cuda->mapped_bytes, cuda->device.granule_bytes);
    }
}

/// Gives the addresses back; a driver that refuses twice keeps them.
static void release_addresses(cuda_device* cuda, const berth_space* space) {
    const cu_address address = (cu_address)(uintptr_t)space->base;
    const size_t size = (size_t)space->size_bytes;
    if (cuda->driver.mem_address_free(address, size) == CU_SUCCESS) return;
    const cu_result result = cuda->driver.mem_address_free(address, size);
    if (result == CU_SUCCESS || berth_cuda_is_lost(cuda)) return;
    char reason[BERTH_CUDA_REASON_BYTES];
    berth_cuda_driver_explain(&cuda->driver, result, reason, sizeof reason);
    berth_log_line(
        BERTH_LOG_ERROR, "%zu bytes of the device's addresses stay reserved: %s", size, reason);
}

void berth_cuda_space_release(berth_device* self, berth_space* space) {
    cuda_device* cuda = cuda_device_of(self);
    const granules all = granules_of(space, 0, space->size_bytes);
    unlink_space(cuda, (cuda_space*)space);
    if (berth_cuda_enter_to_release(cuda)) {
        BERTH_CHECK(1, are_mapped(&all, false) || berth_cuda_is_lost(cuda));
        forget_granules(cuda, &all, true);
        release_addresses(cuda, space);
        berth_cuda_leave(cuda);
    }
    berth_host_free(self->host, (cuda_space*)space);
}

void berth_cuda_memory_fini(cuda_device* cuda, bool is_entered) {
    const uint64_t kept = atomic_load(&cuda->mapped_bytes);
    if (kept > 0 && !berth_cuda_is_lost(cuda))
        berth_log_line(
            BERTH_LOG_ERROR,
            "%llu bytes that the driver has refused to unmap are given up with the device",
            (unsigned long long)kept);
    while (cuda->spaces != NULL) {
        cuda_space* gone = cuda->spaces;
        const granules all = granules_of(&gone->space, 0, gone->space.size_bytes);
        unlink_space(cuda, gone);
        forget_granules(cuda, &all, is_entered);
        if (is_entered) release_addresses(cuda, &gone->space);
        berth_host_free(cuda->device.host, gone);
    }
}

// --- Granules -----------------------------------------------------------------------------------

/// Makes granule `i` and maps it; nothing is left of a failure.
static berth_status make_granule(cuda_device* cuda, const granules* range, uint64_t i) {
    const size_t granule = (size_t)cuda->device.granule_bytes;
    cu_handle handle = NO_HANDLE;
    cu_result result = cuda->driver.mem_create(&handle, granule, &cuda->allocation, 0);
    BERTH_TRY(berth_cuda_judge(cuda, result, "cuMemCreate"));
    if (handle == NO_HANDLE)
        return berth_cuda_lose(cuda, "cuMemCreate made an allocation without a handle");
    result = map_one(cuda, range, i, handle);
    if (result == CU_SUCCESS) {
        *handle_of(range, i) = handle;
        return BERTH_OK;
    }
    const berth_status status = berth_cuda_judge(cuda, result, "cuMemMap");
    const cu_result released = release(cuda, handle);
    if (released != CU_SUCCESS) lose_way_back(cuda, released, "the making of a granule");
    return status;
}

/// Takes back the first `count` granules of a mapping that failed.
static void undo_map(cuda_device* cuda, const granules* range, uint64_t count) {
    const cu_result unmapped = unmap_first(cuda, range, count);
    const cu_result released = release_first(cuda, range, count);
    if (unmapped != CU_SUCCESS || released != CU_SUCCESS)
        lose_way_back(cuda, unmapped != CU_SUCCESS ? unmapped : released, "a mapping");
}

static berth_status map_granules(cuda_device* cuda, const granules* range) {
    uint64_t made = 0;
    berth_status status = BERTH_OK;
    while (made < range->count && status == BERTH_OK) {
        status = make_granule(cuda, range, made);
        if (status == BERTH_OK) made++;
    }
    if (status == BERTH_OK)
        status = berth_cuda_judge(cuda, set_access(cuda, range), "cuMemSetAccess");
    if (status != BERTH_OK) undo_map(cuda, range, made);
    return status;
}

berth_status berth_cuda_map(berth_device* self,
                            berth_space* space,
                            uint64_t offset,
                            uint64_t size) {
    cuda_device* cuda = cuda_device_of(self);
    const granules range = granules_of(space, offset, size);
    BERTH_TRY(berth_cuda_enter(cuda));
    BERTH_CHECK(1, are_mapped(&range, false));
    const berth_status status = map_granules(cuda, &range);
    berth_cuda_leave(cuda);
    if (status != BERTH_OK) return status;
    atomic_fetch_add(&cuda->mapped_bytes, size);
    return BERTH_OK;
}

/// Maps the first `count` granules again where they were.
static void undo_unmap(cuda_device* cuda, const granules* range, uint64_t count) {
    cu_result first = CU_SUCCESS;
    for (uint64_t i = 0; i < count && first == CU_SUCCESS; i++)
        first = map_one(cuda, range, i, *handle_of(range, i));
    const granules mapped = {range->space, range->first, count};
    if (first == CU_SUCCESS && count > 0) first = set_access(cuda, &mapped);
    if (first != CU_SUCCESS) lose_way_back(cuda, first, "the unmapping of granules");
}

/// Takes down every mapping of the range and keeps the memory, or leaves all as they are.
static berth_status take_down(cuda_device* cuda, const granules* range) {
    const size_t granule = (size_t)cuda->device.granule_bytes;
    for (uint64_t i = 0; i < range->count; i++) {
        const cu_result result = cuda->driver.mem_unmap(address_of(range, i), granule);
        if (result == CU_SUCCESS) continue;
        const berth_status status = berth_cuda_judge(cuda, result, "cuMemUnmap");
        undo_unmap(cuda, range, i);
        return status;
    }
    return BERTH_OK;
}

static berth_status unmap_granules(cuda_device* cuda, const granules* range) {
    BERTH_TRY(take_down(cuda, range));
    const cu_result released = release_first(cuda, range, range->count);
    // the addresses are free, but the system does not have the memory again
    if (released != CU_SUCCESS) lose_way_back(cuda, released, "memory");
    return BERTH_OK;
}

/// Succeeds, so that whoever owns the memory can end.
static berth_status unmap_lost(cuda_device* cuda, const granules* range) {
    BERTH_TRY(berth_fork_check(cuda->fork_generation));
    const bool is_entered = berth_cuda_enter_to_release(cuda);
    forget_granules(cuda, range, is_entered);
    if (is_entered) berth_cuda_leave(cuda);
    return BERTH_OK;
}

berth_status berth_cuda_unmap(berth_device* self,
                              berth_space* space,
                              uint64_t offset,
                              uint64_t size) {
    cuda_device* cuda = cuda_device_of(self);
    const granules range = granules_of(space, offset, size);
    const berth_status entered = berth_cuda_enter(cuda);
    if (berth_cuda_is_lost(cuda) && entered != BERTH_OK) return unmap_lost(cuda, &range);
    BERTH_TRY(entered);
    BERTH_CHECK(1, are_mapped(&range, true));
    const berth_status status = unmap_granules(cuda, &range);
    berth_cuda_leave(cuda);
    if (status == BERTH_OK)
        atomic_fetch_sub(&cuda->mapped_bytes, size);
    else
        atomic_store(&cuda->has_refused, true);
    return status;
}

/// Maps the granules of `from` at `to` as well.
static berth_status map_twice(cuda_device* cuda, const granules* from, const granules* to) {
    cu_result result = CU_SUCCESS;
    uint64_t mapped = 0;
    while (mapped < to->count && result == CU_SUCCESS) {
        result = map_one(cuda, to, mapped, *handle_of(from, mapped));
        if (result == CU_SUCCESS) mapped++;
    }
    const char* what = mapped < to->count ? "cuMemMap" : "cuMemSetAccess";
    if (result == CU_SUCCESS) result = set_access(cuda, to);
    if (result == CU_SUCCESS) return BERTH_OK;
    const berth_status status = berth_cuda_judge(cuda, result, what);
    const cu_result undone = unmap_first(cuda, to, mapped);
    if (undone != CU_SUCCESS) lose_way_back(cuda, undone, "a remapping");
    return status;
}

static berth_status remap_granules(cuda_device* cuda, const granules* from, const granules* to) {
    BERTH_TRY(map_twice(cuda, from, to));
    const berth_status status = take_down(cuda, from);
    if (status != BERTH_OK) {
        const cu_result undone = unmap_first(cuda, to, to->count);
        if (undone != CU_SUCCESS) lose_way_back(cuda, undone, "a remapping");
        return status;
    }
    for (uint64_t i = 0; i < to->count; i++) {
        *handle_of(to, i) = *handle_of(from, i);
        *handle_of(from, i) = NO_HANDLE;
    }
    return BERTH_OK;
}

berth_status berth_cuda_remap(berth_device* self,
                              berth_space* from_space,
                              uint64_t from,
                              berth_space* to_space,
                              uint64_t to,
                              uint64_t size) {
    cuda_device* cuda = cuda_device_of(self);
    const granules source = granules_of(from_space, from, size);
    const granules target = granules_of(to_space, to, size);
    BERTH_TRY(berth_cuda_enter(cuda));
    BERTH_CHECK(1, are_mapped(&source, true) && are_mapped(&target, false));
    const berth_status status = remap_granules(cuda, &source, &target);
    berth_cuda_leave(cuda);
    return status;
}

// --- Pinned memory ------------------------------------------------------------------------------

static uint64_t whole_pages(uint64_t size) {
    const long page = sysconf(_SC_PAGESIZE);
    return berth_round_up(size, page > 0 ? (uint64_t)page : 4096);
}

berth_status berth_cuda_pin(berth_device* self, uint64_t size, void** out_data) {
    cuda_device* cuda = cuda_device_of(self);
    if (size > SIZE_MAX / 2)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY,
                          "%llu bytes of host memory cannot be pinned",
                          (unsigned long long)size);
    BERTH_TRY(berth_cuda_enter(cuda));
    void* data = NULL;
    const cu_result result =
        cuda->driver.mem_host_alloc(&data, (size_t)whole_pages(size), CU_HOST_ALLOC_IS_PORTABLE);
    berth_cuda_leave(cuda);
    BERTH_TRY(berth_cuda_judge(cuda, result, "cuMemHostAlloc"));
    atomic_fetch_add(&cuda->pinned_bytes, size);
    *out_data = data;
    return BERTH_OK;
}

void berth_cuda_unpin(berth_device* self, void* data, uint64_t size) {
    cuda_device* cuda = cuda_device_of(self);
    if (!berth_cuda_enter_to_release(cuda)) return;
    cu_result result = cuda->driver.mem_free_host(data);
    if (result != CU_SUCCESS) result = cuda->driver.mem_free_host(data);
    berth_cuda_leave(cuda);
    atomic_fetch_sub(&cuda->pinned_bytes, size);
    if (result == CU_SUCCESS || berth_cuda_is_lost(cuda)) return;
    (void)!berth_cuda_judge(cuda, result, "cuMemFreeHost");
    berth_log_line(BERTH_LOG_ERROR,
                   "%llu bytes of pinned memory stay out: the driver does not take them back",
                   (unsigned long long)size);
}
