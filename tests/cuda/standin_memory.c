// SPDX-License-Identifier: Apache-2.0
// Device memory of the stand-in: one file in memory that all allocations are stretches of, mapped
// wherever the driver is told to; so one allocation can be at two addresses.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "standin_internal.h"

#define FRESH_BYTE 0xA5
#define PINNED_FRESH_BYTE 0x5A

typedef struct allocation {
    uint64_t offset; // in the file
    uint64_t size;
    uint64_t mappings;
    bool is_released;
    struct allocation* next;
} allocation;

typedef struct mapping {
    unsigned char* address;
    uint64_t size;
    allocation* of;
    bool is_accessible;
    struct mapping* next;
} mapping;

typedef struct reservation {
    unsigned char* whole; // what mmap returned; `base` is aligned inside it
    size_t whole_bytes;
    unsigned char* base;
    uint64_t size;
    mapping** units; // [size / granularity]: what is mapped there
    struct reservation* next;
} reservation;

typedef struct pinned {
    void* data;
    size_t size;
    struct pinned* next;
} pinned;

static int file = -1;
static unsigned char* window; // on the whole file, for the driver's own copies
static allocation* allocations;
static mapping* mappings;
static reservation* reservations;
static pinned* pins;
static bool is_open;

static uint64_t unit(void) { return standin_options()->granularity_bytes; }

// --- Reservations -------------------------------------------------------------------------------

static reservation* find_reservation(cu_address address, uint64_t size) {
    const unsigned char* at = (const unsigned char*)(uintptr_t)address;
    for (reservation* each = reservations; each != NULL; each = each->next)
        if (at >= each->base && size <= each->size &&
            (uint64_t)(at - each->base) <= each->size - size)
            return each;
    return NULL;
}

static mapping** units_of(const reservation* range, cu_address address) {
    return range->units + ((unsigned char*)(uintptr_t)address - range->base) / (ptrdiff_t)unit();
}

static bool is_aligned(uint64_t number) { return number % unit() == 0; }

cu_result cuMemAddressReserve(cu_address* out_address,
                              size_t size,
                              size_t alignment,
                              cu_address address,
                              unsigned long long flags) {
    STANDIN_BEGIN(mem_address_reserve);
    STANDIN_REFUSE_UNLESS(size > 0 && is_aligned(size) && is_aligned(alignment) && address == 0 &&
                              flags == 0,
                          CU_ERROR_INVALID_VALUE);
    const size_t align = alignment > unit() ? alignment : (size_t)unit();
    STANDIN_REFUSE_UNLESS(size < SIZE_MAX / 4, CU_ERROR_OUT_OF_MEMORY);
    reservation* made = calloc(1, sizeof *made);
    mapping** units = calloc(size / unit(), sizeof *units);
    void* whole = made == NULL || units == NULL ? MAP_FAILED
                                                : mmap(NULL,
                                                       size + align,
                                                       PROT_NONE,
                                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                                                       -1,
                                                       0);
    if (whole == MAP_FAILED) {
        free(made);
        free(units);
        return standin_end(CU_ERROR_OUT_OF_MEMORY);
    }
    unsigned char* at = whole;
    *made = (reservation){
        .whole = whole,
        .whole_bytes = size + align,
        .base = at + (align - (uintptr_t)at % align) % align,
        .size = size,
        .units = units,
        .next = reservations,
    };
    reservations = made;
    *out_address = (cu_address)(uintptr_t)made->base;
    return standin_end(CU_SUCCESS);
}

static bool has_mappings(const reservation* range) {
    for (uint64_t i = 0; i < range->size / unit(); i++)
        if (range->units[i] != NULL) return true;
    return false;
}

cu_result cuMemAddressFree(cu_address address, size_t size) {
    STANDIN_BEGIN(mem_address_free);
    reservation** link = &reservations;
    while (*link != NULL && (cu_address)(uintptr_t)(*link)->base != address)
        link = &(*link)->next;
    STANDIN_REFUSE_UNLESS(*link != NULL && (*link)->size == size, CU_ERROR_INVALID_VALUE);
    STANDIN_REFUSE_UNLESS(!has_mappings(*link), CU_ERROR_INVALID_VALUE);
    reservation* gone = *link;
    *link = gone->next;
    (void)munmap(gone->whole, gone->whole_bytes);
    free(gone->units);
    free(gone);
    return standin_end(CU_SUCCESS);
}

// --- Physical memory ----------------------------------------------------------------------------

static bool open_file(void) {
    if (file >= 0) return true;
    file = memfd_create("stand-in", MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, (off_t)STANDIN_MOST_BYTES) == 0) {
        void* const mapped = mmap(
            NULL, STANDIN_MOST_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
        window = mapped == MAP_FAILED ? NULL : mapped;
    }
    if (window != NULL) return true;
    if (file >= 0) (void)close(file);
    file = -1;
    return false;
}

static uint64_t allocated_bytes(void) {
    uint64_t sum = 0;
    for (const allocation* each = allocations; each != NULL; each = each->next)
        sum += each->size;
    return sum;
}

/// The list is in ascending order of offsets: the first gap that is large enough.
static allocation** find_gap(uint64_t size, uint64_t* out_offset) {
    allocation** link = &allocations;
    *out_offset = 0;
    while (*link != NULL && (*link)->offset - *out_offset < size) {
        *out_offset = (*link)->offset + (*link)->size;
        link = &(*link)->next;
    }
    return link;
}

/// Fills a fresh stretch with bytes that nobody should rely on.
static bool fill_fresh(uint64_t offset, uint64_t size) {
    static unsigned char bytes[64u << 10];
    memset(bytes, FRESH_BYTE, sizeof bytes);
    while (size > 0) {
        const size_t length = size < sizeof bytes ? (size_t)size : sizeof bytes;
        if (pwrite(file, bytes, length, (off_t)offset) != (ssize_t)length) return false;
        offset += length;
        size -= length;
    }
    return true;
}

static bool is_right_kind(const cu_allocation* kind) {
    return kind->type == CU_ALLOCATION_PINNED && kind->requested_handle_types == 0 &&
           kind->location.type == CU_LOCATION_DEVICE && kind->location.id >= 0 &&
           kind->location.id < standin_options()->device_count;
}

cu_result cuMemGetAllocationGranularity(size_t* out_bytes, const cu_allocation* kind, int option) {
    STANDIN_BEGIN(mem_get_granularity);
    STANDIN_REFUSE_UNLESS(is_right_kind(kind) && (option == 0 || option == 1),
                          CU_ERROR_INVALID_VALUE);
    *out_bytes = (size_t)unit();
    return standin_end(CU_SUCCESS);
}

cu_result cuMemGetInfo_v2(size_t* out_free, size_t* out_total) {
    STANDIN_BEGIN(mem_get_info);
    STANDIN_REFUSE_UNLESS(standin_has_context(), CU_ERROR_INVALID_VALUE);
    *out_total = (size_t)standin_options()->capacity_bytes;
    *out_free = *out_total - (size_t)allocated_bytes();
    return standin_end(CU_SUCCESS);
}

cu_result cuMemCreate(cu_handle* out_handle,
                      size_t size,
                      const cu_allocation* kind,
                      unsigned long long flags) {
    STANDIN_BEGIN(mem_create);
    STANDIN_REFUSE_UNLESS(is_right_kind(kind) && size > 0 && is_aligned(size) && flags == 0,
                          CU_ERROR_INVALID_VALUE);
    STANDIN_REFUSE_UNLESS(size <= standin_options()->capacity_bytes - allocated_bytes(),
                          CU_ERROR_OUT_OF_MEMORY);
    allocation* made = calloc(1, sizeof *made);
    STANDIN_REFUSE_UNLESS(made != NULL, CU_ERROR_OUT_OF_MEMORY);
    allocation** link = find_gap(size, &made->offset);
    if (!open_file() || !fill_fresh(made->offset, size)) {
        free(made);
        return standin_end(CU_ERROR_OUT_OF_MEMORY);
    }
    made->size = size;
    made->next = *link;
    *link = made;
    *out_handle = (cu_handle)(uintptr_t)made;
    return standin_end(CU_SUCCESS);
}

static allocation** find_allocation(cu_handle handle) {
    allocation** link = &allocations;
    while (*link != NULL && (cu_handle)(uintptr_t)*link != handle)
        link = &(*link)->next;
    return link;
}

static void end_if_unused(allocation* gone) {
    if (gone->mappings > 0 || !gone->is_released) return;
    (void)fallocate(
        file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)gone->offset, (off_t)gone->size);
    *find_allocation((cu_handle)(uintptr_t)gone) = gone->next;
    free(gone);
}

cu_result cuMemRelease(cu_handle handle) {
    STANDIN_BEGIN(mem_release);
    allocation* released = *find_allocation(handle);
    STANDIN_REFUSE_UNLESS(released != NULL && !released->is_released, CU_ERROR_INVALID_VALUE);
    released->is_released = true;
    end_if_unused(released);
    return standin_end(CU_SUCCESS);
}

// --- Mappings -----------------------------------------------------------------------------------

static bool is_visible(void) { return is_open || !standin_options()->is_hidden; }

static int protection(const mapping* of) {
    return of->is_accessible && is_visible() ? PROT_READ | PROT_WRITE : PROT_NONE;
}

/// Neighbours with the same rights take one call.
static void protect_all(void) {
    for (const mapping* first = mappings; first != NULL;) {
        const mapping* last = first;
        while (last->next != NULL && last->next->address == last->address + last->size &&
               last->next->is_accessible == first->is_accessible)
            last = last->next;
        const size_t size = (size_t)(last->address + last->size - first->address);
        if (first->is_accessible && mprotect(first->address, size, protection(first)) != 0)
            standin_violate("the stand-in itself could not change rights of memory");
        first = last->next;
    }
}

void standin_memory_open(void) {
    if (is_open) return;
    is_open = true;
    if (standin_options()->is_hidden) protect_all();
}

void standin_memory_close(void) {
    if (!is_open) return;
    is_open = false;
    if (standin_options()->is_hidden) protect_all();
}

void standin_memory_apply_hiding(void) { protect_all(); }

/// The list is in ascending order of addresses.
static void insert_mapping(mapping* made) {
    mapping** link = &mappings;
    while (*link != NULL && (*link)->address < made->address)
        link = &(*link)->next;
    made->next = *link;
    *link = made;
}

static void mark_units(const reservation* range, const mapping* of, mapping* value) {
    mapping** units = units_of(range, (cu_address)(uintptr_t)of->address);
    for (uint64_t i = 0; i < of->size / unit(); i++)
        units[i] = value;
}

static bool is_free(const reservation* range, cu_address address, uint64_t size) {
    mapping** units = units_of(range, address);
    for (uint64_t i = 0; i < size / unit(); i++)
        if (units[i] != NULL) return false;
    return true;
}

cu_result cuMemMap(
    cu_address address, size_t size, size_t offset, cu_handle handle, unsigned long long flags) {
    STANDIN_BEGIN(mem_map);
    const reservation* range = find_reservation(address, size);
    allocation* of = *find_allocation(handle);
    STANDIN_REFUSE_UNLESS(range != NULL && of != NULL && !of->is_released && size > 0 &&
                              is_aligned(size) && is_aligned(address) && offset == 0 &&
                              size == of->size && flags == 0,
                          CU_ERROR_INVALID_VALUE);
    STANDIN_REFUSE_UNLESS(is_free(range, address, size), CU_ERROR_INVALID_VALUE);
    mapping* made = calloc(1, sizeof *made);
    STANDIN_REFUSE_UNLESS(made != NULL, CU_ERROR_OUT_OF_MEMORY);
    made->address = (unsigned char*)(uintptr_t)address;
    if (mmap(made->address, size, PROT_NONE, MAP_SHARED | MAP_FIXED, file, (off_t)of->offset) ==
        MAP_FAILED) {
        free(made);
        return standin_end(CU_ERROR_OUT_OF_MEMORY);
    }
    made->size = size;
    made->of = of;
    of->mappings++;
    insert_mapping(made);
    mark_units(range, made, made);
    return standin_end(CU_SUCCESS);
}

/// The mappings at [address, address + size) are whole ones, without a hole between them.
static bool is_whole(const reservation* range, cu_address address, uint64_t size) {
    mapping** units = units_of(range, address);
    unsigned char* at = (unsigned char*)(uintptr_t)address;
    unsigned char* end = at + size;
    while (at < end) {
        const mapping* of = *units;
        if (of == NULL || of->address != at || of->size > (uint64_t)(end - at)) return false;
        at += of->size;
        units += of->size / unit();
    }
    return true;
}

static void remove_mapping(const reservation* range, mapping* gone) {
    mapping** link = &mappings;
    while (*link != gone)
        link = &(*link)->next;
    *link = gone->next;
    mark_units(range, gone, NULL);
    if (mmap(gone->address,
             (size_t)gone->size,
             PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
             -1,
             0) == MAP_FAILED)
        standin_violate("the stand-in itself could not take a mapping down");
    gone->of->mappings--;
    end_if_unused(gone->of);
    free(gone);
}

cu_result cuMemUnmap(cu_address address, size_t size) {
    STANDIN_BEGIN(mem_unmap);
    const reservation* range = find_reservation(address, size);
    STANDIN_REFUSE_UNLESS(range != NULL && is_aligned(address) && is_aligned(size) && size > 0 &&
                              is_whole(range, address, size),
                          CU_ERROR_INVALID_VALUE);
    mapping** units = units_of(range, address);
    for (uint64_t i = 0; i < size / unit(); i++)
        if (units[i] != NULL) remove_mapping(range, units[i]);
    return standin_end(CU_SUCCESS);
}

cu_result cuMemSetAccess(cu_address address, size_t size, const cu_access* access, size_t count) {
    STANDIN_BEGIN(mem_set_access);
    const reservation* range = find_reservation(address, size);
    STANDIN_REFUSE_UNLESS(range != NULL && is_aligned(address) && is_aligned(size) && size > 0 &&
                              count == 1 && access->location.type == CU_LOCATION_DEVICE &&
                              access->flags == CU_ACCESS_READ_WRITE &&
                              is_whole(range, address, size),
                          CU_ERROR_INVALID_VALUE);
    mapping** units = units_of(range, address);
    for (uint64_t i = 0; i < size / unit(); i++) {
        if (units[i]->is_accessible) continue;
        units[i]->is_accessible = true;
        if (mprotect(units[i]->address, (size_t)units[i]->size, protection(units[i])) != 0)
            standin_violate("the stand-in itself could not change rights of memory");
    }
    return standin_end(CU_SUCCESS);
}

bool standin_memory_is_usable(cu_address address, uint64_t size) {
    const reservation* range = find_reservation(address, size);
    if (range == NULL) return false;
    const uint64_t first = (address - (cu_address)(uintptr_t)range->base) / unit();
    const uint64_t last = (address + size - 1 - (cu_address)(uintptr_t)range->base) / unit();
    for (uint64_t i = first; i <= last; i++)
        if (range->units[i] == NULL || !range->units[i]->is_accessible) return false;
    return true;
}

/// How many bytes from `address` on lie one after another in the file, at most `size`, and where.
static uint64_t find_stretch(cu_address address, uint64_t size, unsigned char** out_at) {
    const reservation* range = find_reservation(address, size);
    const mapping* of = *units_of(range, address);
    const uint64_t inside = address - (cu_address)(uintptr_t)of->address;
    *out_at = window + of->of->offset + inside;
    return of->size - inside < size ? of->size - inside : size;
}

void standin_memory_copy(const standin_copy* copied) {
    for (uint64_t done = 0, length; done < copied->size; done += length) {
        unsigned char* target = (unsigned char*)copied->target + done;
        unsigned char* source = NULL;
        length = copied->size - done;
        if (copied->is_target_device)
            length = find_stretch((cu_address)(uintptr_t)target, length, &target);
        if (copied->is_source_device)
            length = find_stretch((cu_address)(uintptr_t)copied->source + done, length, &source);
        memmove(target,
                source != NULL ? source : (const unsigned char*)copied->source + done,
                (size_t)length);
    }
}

// --- Pinned memory of the host ------------------------------------------------------------------

cu_result cuMemHostAlloc(void** out_data, size_t size, unsigned flags) {
    STANDIN_BEGIN(mem_host_alloc);
    STANDIN_REFUSE_UNLESS(standin_has_context() && size > 0 && (flags & ~7u) == 0,
                          CU_ERROR_INVALID_VALUE);
    pinned* made = size < SIZE_MAX / 4 ? malloc(sizeof *made) : NULL;
    void* data = made == NULL
                     ? MAP_FAILED
                     : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) {
        free(made);
        return standin_end(CU_ERROR_OUT_OF_MEMORY);
    }
    memset(data, PINNED_FRESH_BYTE, size);
    *made = (pinned){.data = data, .size = size, .next = pins};
    pins = made;
    *out_data = data;
    return standin_end(CU_SUCCESS);
}

cu_result cuMemFreeHost(void* data) {
    STANDIN_BEGIN(mem_free_host);
    pinned** link = &pins;
    while (*link != NULL && (*link)->data != data)
        link = &(*link)->next;
    STANDIN_REFUSE_UNLESS(*link != NULL, CU_ERROR_INVALID_VALUE);
    pinned* gone = *link;
    *link = gone->next;
    (void)munmap(gone->data, gone->size);
    free(gone);
    return standin_end(CU_SUCCESS);
}

void standin_memory_count(standin_live* live) {
    for (const allocation* each = allocations; each != NULL; each = each->next)
        live->allocations++;
    for (const mapping* each = mappings; each != NULL; each = each->next) {
        live->mappings++;
        live->mapped_bytes += each->size;
    }
    for (const reservation* each = reservations; each != NULL; each = each->next)
        live->reserved_ranges++;
    for (const pinned* each = pins; each != NULL; each = each->next) {
        live->pinned_blocks++;
        live->pinned_bytes += each->size;
    }
}
