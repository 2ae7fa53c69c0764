// SPDX-License-Identifier: Apache-2.0
// Reserve, populate, give back and move granules with mmap and its relatives.
#include "device/cpu/cpu_memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/log.h"
#include "base/raw_memory.h"
#include "device/cpu/cpu_system.h"

// Newer than the oldest headers this compiles with.
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MAP_HUGE_2MB
#define MAP_HUGE_2MB (21 << 26)
#endif

#define GRANULE BERTH_CPU_GRANULE_BYTES
#define PAGE_BYTES 4096u            // the smallest that any page has
#define SYSTEM_MARGIN (32ull << 20) // left to the rest of the machine when memory is short

typedef enum granule_state {
    CLOSED,
    OPEN,
    // Populated by moved page tables. The kernel joins such a mapping with no other one, and it
    // needs replacing when it is closed.
    MOVED,
} granule_state;

typedef struct berth_cpu_space {
    berth_space space;
    berth_cpu_memory* memory;
    struct berth_cpu_space* before; // in the memory's list
    struct berth_cpu_space* after;
    unsigned char* reserved; // what mmap returned; `space.base` is aligned inside it
    size_t reserved_bytes;
    unsigned char states[]; // granule_state of each granule
} cpu_space;

static cpu_space* cpu_space_of(berth_space* space) { return (cpu_space*)space; }

static berth_status no_memory(const char* what, uint64_t size, int error) {
    return berth_fail(BERTH_ERR_OUT_OF_MEMORY,
                      "%s of %llu bytes failed: %s",
                      what,
                      (unsigned long long)size,
                      strerror(error));
}

// --- Books --------------------------------------------------------------------------------------

static void set_states(cpu_space* space, uint64_t offset, uint64_t size, granule_state state) {
    memset(space->states + offset / GRANULE, (int)state, size / GRANULE);
}

static bool states_are(const cpu_space* space, uint64_t offset, uint64_t size, bool open) {
    for (uint64_t i = offset / GRANULE; i < (offset + size) / GRANULE; i++) {
        if ((space->states[i] != CLOSED) != open) return false;
    }
    return true;
}

/// Takes the mappings that a change may add into account. Which neighbours the kernel joins cannot
/// be known from here, so the count is of the worst case until it is taken again.
static berth_status add_mappings(berth_cpu_memory* memory, uint64_t added) {
    if (memory->mapping_count + added > memory->mapping_limit)
        memory->mapping_count = berth_cpu_count_mappings(NULL);
    if (memory->mapping_count + added > memory->mapping_limit)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY,
                          "the process has %llu mappings, half of what vm.max_map_count allows",
                          (unsigned long long)memory->mapping_count);
    memory->mapping_count += added;
    return BERTH_OK;
}

// --- Populating ---------------------------------------------------------------------------------

berth_status berth_cpu_memory_query(const berth_cpu_memory* memory,
                                    uint64_t* out_total,
                                    uint64_t* out_available) {
    BERTH_TRY(berth_cpu_query_memory(NULL, out_total, out_available));
    if (!memory->numa.is_strict) return BERTH_OK;
    uint64_t total, available;
    BERTH_TRY(berth_cpu_query_node_memory(NULL, memory->numa.node, &total, &available));
    if (total < *out_total) *out_total = total;
    if (available < *out_available) *out_available = available;
    return BERTH_OK;
}

/// Refuses what the system does not have: populating more than a control group allows kills the
/// process. Reading the system's files costs as much as a granule, so their answer is used for a
/// while.
static berth_status check_system_memory(berth_cpu_memory* memory, uint64_t size) {
    if (size <= memory->unwatched_bytes) {
        memory->unwatched_bytes -= size;
        return BERTH_OK;
    }
    uint64_t total, available;
    if (berth_cpu_memory_query(memory, &total, &available) != BERTH_OK) return BERTH_OK;
    if (available < SYSTEM_MARGIN || available - SYSTEM_MARGIN < size)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY,
                          "%llu bytes are needed, the system has %llu left",
                          (unsigned long long)size,
                          (unsigned long long)available);
    memory->unwatched_bytes = (available - SYSTEM_MARGIN - size) / 8;
    return BERTH_OK;
}

/// Sees to it that what is populated in a range from now on lies where it should.
static berth_status place_range(const berth_cpu_memory* memory, unsigned char* base, size_t size) {
    const berth_numa* numa = &memory->numa;
    if (!numa->is_placing) return BERTH_OK;
    const int error = memory->calls->place(base, size, numa->mode, numa->nodes);
    if (error == 0) return BERTH_OK;
    if (numa->is_strict)
        return berth_fail(BERTH_ERR_DEVICE,
                          "binding %llu bytes to memory node %u failed: %s",
                          (unsigned long long)size,
                          (unsigned)numa->node,
                          strerror(error));
    berth_log_once(BERTH_LOG_WARN,
                   "memory lies where the system puts it, not as BERTH_NUMA says: %s",
                   strerror(error));
    return BERTH_OK;
}

static int huge_flags(const berth_cpu_memory* memory) {
    return memory->huge == BERTH_HUGE_HUGETLB ? MAP_HUGETLB | MAP_HUGE_2MB : 0;
}

static void advise_huge(const berth_cpu_memory* memory, unsigned char* base, size_t size) {
    if (memory->huge == BERTH_HUGE_HUGETLB) return;
    const int advice = memory->huge == BERTH_HUGE_OFF ? MADV_NOHUGEPAGE : MADV_HUGEPAGE;
    (void)memory->calls->advise(base, size, advice);
}

/// Puts a fresh mapping without access in place of a range.
static int replace_mapping(const berth_cpu_memory* memory, unsigned char* base, size_t size) {
    void* at = base;
    const int error = memory->calls->reserve(&at, size, huge_flags(memory));
    if (error != 0) return error;
    advise_huge(memory, base, size);
    // where it must not fail it is tried again before anything is populated
    (void)!place_range(memory, base, size);
    return 0;
}

/// Takes the memory of [base, base + size) back and the access away. Without a mapping to spare,
/// the access stays; what is given back is given back. On an error nothing is.
static int close_granules(const berth_cpu_memory* memory,
                          unsigned char* base,
                          size_t size,
                          bool moved) {
    if (moved && replace_mapping(memory, base, size) == 0) return 0;
    const int error = memory->calls->advise(base, size, MADV_DONTNEED);
    if (error == 0) {
        (void)memory->calls->protect(base, size, PROT_NONE);
        return 0;
    }
    // what the process has locked (mlockall) goes with its mapping only
    return moved ? error : replace_mapping(memory, base, size);
}

static berth_status populate(const berth_cpu_memory* memory, unsigned char* base, size_t size) {
    if (memory->numa.is_strict) BERTH_TRY(place_range(memory, base, size));
    int error = memory->calls->protect(base, size, PROT_READ | PROT_WRITE);
    if (error != 0) {
        (void)memory->calls->protect(base, size, PROT_NONE); // a part may be open
        return no_memory("opening a range", size, error);
    }
    do {
        error = memory->calls->advise(base, size, MADV_POPULATE_WRITE);
    } while (error == EINTR || error == EAGAIN);
    if (error == EINVAL && memory->huge != BERTH_HUGE_HUGETLB) { // an older kernel
        berth_raw_fill(base, 0, size);
        return BERTH_OK;
    }
    if (error == 0) return BERTH_OK;
    (void)close_granules(memory, base, size, false);
    return no_memory("populating a range", size, error);
}

// --- Entries ------------------------------------------------------------------------------------

/// True if the kernel moves page tables and leaves the source mapped, tried on one page.
static bool try_moving_pages(const berth_cpu_calls* calls) {
    const long page = sysconf(_SC_PAGESIZE);
    if (page <= 0) return false;
    const size_t size = (size_t)page;
    void* at = NULL;
    if (calls->reserve(&at, 2 * size, 0) != 0) return false;
    unsigned char* pair = at;
    bool works = false;
    if (calls->protect(pair, 2 * size, PROT_READ | PROT_WRITE) == 0) {
        pair[0] = 1;
        works = calls->move(pair, size, pair + size) == 0 && pair[size] == 1;
    }
    (void)calls->unmap(pair, 2 * size);
    return works;
}

berth_status berth_cpu_memory_init(berth_cpu_memory* memory,
                                   berth_huge_pages huge,
                                   const berth_numa* numa) {
    const berth_cpu_calls* calls = &berth_cpu_system_calls;
    *memory = (berth_cpu_memory){
        .calls = calls,
        .huge = huge,
        .numa = *numa,
        // With small pages a move is slower than a copy once the memory is touched again; pages of
        // the huge page reserve cannot be moved this way.
        .can_move_pages = huge == BERTH_HUGE_MADVISE && try_moving_pages(calls),
        .mapping_limit = berth_cpu_query_mapping_limit(NULL) / 2,
        .mapping_count = berth_cpu_count_mappings(NULL),
    };
    return berth_mutex_init(&memory->lock);
}

void berth_cpu_memory_fini(berth_cpu_memory* memory) { berth_mutex_fini(&memory->lock); }

/// Gives all parts of a range one common ancestor of page bookkeeping, so that the kernel joins
/// neighbours again after they were opened and closed apart. The page that is touched for it lies
/// in the slack behind the range: where it has been, no huge page can be populated. Failing costs
/// only mappings, but for taking the access away again.
static int share_page_bookkeeping(const berth_cpu_calls* calls, unsigned char* base, size_t size) {
    if (calls->protect(base, size + PAGE_BYTES, PROT_READ | PROT_WRITE) != 0) return 0;
    (void)calls->advise(base + size, PAGE_BYTES, MADV_POPULATE_WRITE);
    (void)calls->advise(base + size, PAGE_BYTES, MADV_DONTNEED);
    return calls->protect(base, size + PAGE_BYTES, PROT_NONE);
}

static berth_status prepare_space(const berth_cpu_memory* memory,
                                  unsigned char* base,
                                  size_t size) {
    if (memory->huge != BERTH_HUGE_HUGETLB) {
        const int error = share_page_bookkeeping(memory->calls, base, size);
        if (error != 0) return no_memory("closing addresses", size, error);
        advise_huge(memory, base, size);
    }
    return place_range(memory, base, size);
}

static berth_status reserve_addresses(const berth_cpu_memory* memory,
                                      cpu_space* space,
                                      uint64_t size) {
    uint64_t with_slack;
    if (!berth_add_u64(size, GRANULE, &with_slack) || with_slack > SIZE_MAX / 2)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY,
                          "%llu bytes of addresses cannot be reserved",
                          (unsigned long long)size);
    void* at = NULL;
    const int error = memory->calls->reserve(&at, (size_t)with_slack, huge_flags(memory));
    if (error != 0) return no_memory("reserving addresses", with_slack, error);
    space->reserved = at;
    space->reserved_bytes = (size_t)with_slack;
    const uintptr_t misaligned = (uintptr_t)at & (GRANULE - 1);
    space->space.base = space->reserved + (misaligned == 0 ? 0 : GRANULE - misaligned);
    const berth_status status = prepare_space(memory, space->space.base, (size_t)size);
    if (status != BERTH_OK) (void)memory->calls->unmap(at, (size_t)with_slack);
    return status;
}

static void link_space(cpu_space* space) {
    berth_cpu_memory* memory = space->memory;
    berth_mutex_lock(&memory->lock);
    space->after = memory->first_space;
    if (space->after != NULL) space->after->before = space;
    memory->first_space = space;
    berth_mutex_unlock(&memory->lock);
}

static void unlink_space(cpu_space* space) {
    berth_cpu_memory* memory = space->memory;
    berth_mutex_lock(&memory->lock);
    if (space->before != NULL) {
        space->before->after = space->after;
    } else {
        memory->first_space = space->after;
    }
    if (space->after != NULL) space->after->before = space->before;
    berth_mutex_unlock(&memory->lock);
}

void berth_cpu_visit_spaces(berth_cpu_memory* memory, berth_cpu_visit visit, void* argument) {
    berth_mutex_lock(&memory->lock);
    for (const cpu_space* space = memory->first_space; space != NULL; space = space->after)
        visit(&space->space, argument);
    berth_mutex_unlock(&memory->lock);
}

berth_status berth_cpu_space_reserve(berth_cpu_memory* memory,
                                     berth_device* device,
                                     uint64_t size,
                                     berth_space** out_space) {
    const uint64_t granules = size / GRANULE;
    cpu_space* made = berth_host_calloc(device->host, 1, sizeof *made + granules);
    if (made == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory for a space");
    made->space = (berth_space){.device = device, .size_bytes = size};
    made->memory = memory;

    berth_mutex_lock(&memory->lock);
    berth_status status = add_mappings(memory, 3); // the space and the slack around it
    berth_mutex_unlock(&memory->lock);
    if (status == BERTH_OK) status = reserve_addresses(memory, made, size);
    if (status != BERTH_OK) {
        berth_host_free(device->host, made);
        return status;
    }
    link_space(made);
    *out_space = &made->space;
    return BERTH_OK;
}

void berth_cpu_space_release(berth_space* space) {
    cpu_space* released = cpu_space_of(space);
    BERTH_CHECK(2, states_are(released, 0, space->size_bytes, false));
    unlink_space(released);
    (void)released->memory->calls->unmap(released->reserved, released->reserved_bytes);
    berth_host_free(space->device->host, released);
}

/// Takes granules into the books before they are opened, so that others see what is to come.
static berth_status open_books(berth_cpu_memory* memory,
                               cpu_space* space,
                               uint64_t offset,
                               uint64_t size) {
    berth_mutex_lock(&memory->lock);
    BERTH_CHECK(2, states_are(space, offset, size, false));
    berth_status status = add_mappings(memory, 2);
    if (status == BERTH_OK) status = check_system_memory(memory, size);
    if (status == BERTH_OK) set_states(space, offset, size, OPEN);
    berth_mutex_unlock(&memory->lock);
    return status;
}

static void set_states_locked(berth_cpu_memory* memory,
                              cpu_space* space,
                              uint64_t offset,
                              uint64_t size,
                              granule_state state) {
    berth_mutex_lock(&memory->lock);
    set_states(space, offset, size, state);
    berth_mutex_unlock(&memory->lock);
}

berth_status berth_cpu_space_map(berth_cpu_memory* memory,
                                 berth_space* space,
                                 uint64_t offset,
                                 uint64_t size) {
    cpu_space* target = cpu_space_of(space);
    BERTH_TRY(open_books(memory, target, offset, size));
    const berth_status status = populate(memory, space->base + offset, (size_t)size);
    if (status != BERTH_OK) set_states_locked(memory, target, offset, size, CLOSED);
    return status;
}

static berth_status not_closed(uint64_t size, int error) {
    return berth_fail(BERTH_ERR_DEVICE,
                      "giving %llu bytes back failed: %s",
                      (unsigned long long)size,
                      strerror(error));
}

static bool has_moved(const cpu_space* space, uint64_t offset, uint64_t size) {
    return memchr(space->states + offset / GRANULE, MOVED, size / GRANULE) != NULL;
}

berth_status berth_cpu_space_unmap(berth_cpu_memory* memory,
                                   berth_space* space,
                                   uint64_t offset,
                                   uint64_t size) {
    cpu_space* source = cpu_space_of(space);
    berth_mutex_lock(&memory->lock);
    BERTH_CHECK(2, states_are(source, offset, size, true));
    memory->mapping_count += 2; // memory is given back whatever the limit of ours says
    const bool moved = has_moved(source, offset, size);
    berth_mutex_unlock(&memory->lock);
    const int error = close_granules(memory, space->base + offset, (size_t)size, moved);
    if (error != 0) return not_closed(size, error);
    set_states_locked(memory, source, offset, size, CLOSED);
    return BERTH_OK;
}

/// Moves the page tables of granules one by one, as many as will; returns the bytes moved. The
/// sources stay open, without memory.
static uint64_t move_pages(const berth_cpu_memory* memory,
                           unsigned char* from,
                           unsigned char* to,
                           uint64_t size) {
    uint64_t moved = 0;
    while (moved < size && memory->calls->move(from + moved, GRANULE, to + moved) == 0)
        moved += GRANULE;
    return moved;
}

/// A remap under way: the first `moved` bytes by page tables, the rest by a copy.
typedef struct transfer {
    cpu_space* source;
    cpu_space* target;
    uint64_t from;
    uint64_t to;
    uint64_t size;
    uint64_t moved;
} transfer;

/// Takes back a transfer that failed: what was moved goes back the same way, for which the mappings
/// are there; of what was copied the source still has all.
static void undo(berth_cpu_memory* memory, const transfer* t) {
    unsigned char* to_base = t->target->space.base + t->to;
    const uint64_t back = move_pages(memory, to_base, t->source->space.base + t->from, t->moved);
    BERTH_CHECK(1, back == t->moved);
    if (t->moved > 0) (void)close_granules(memory, to_base, (size_t)t->moved, true);
    berth_mutex_lock(&memory->lock);
    set_states(t->target, t->to, t->size, CLOSED);
    set_states(t->source, t->from, t->moved, MOVED);
    berth_mutex_unlock(&memory->lock);
}

/// Copies what was not moved, and closes the source.
static berth_status finish(berth_cpu_memory* memory, const transfer* t, bool source_moved) {
    unsigned char* from_base = t->source->space.base + t->from;
    unsigned char* to_base = t->target->space.base + t->to;
    const size_t rest = (size_t)(t->size - t->moved);
    if (rest > 0) {
        BERTH_TRY(populate(memory, to_base + t->moved, rest));
        berth_raw_copy(to_base + t->moved, from_base + t->moved, rest);
    }
    const int error = close_granules(memory, from_base, (size_t)t->size, source_moved);
    if (error == 0 || rest == 0) return BERTH_OK; // where all was moved nothing is there
    (void)close_granules(memory, to_base + t->moved, rest, false);
    return not_closed(t->size, error);
}

berth_status berth_cpu_space_remap(berth_cpu_memory* memory,
                                   berth_space* from_space,
                                   uint64_t from,
                                   berth_space* to_space,
                                   uint64_t to,
                                   uint64_t size) {
    transfer t = {.source = cpu_space_of(from_space),
                  .target = cpu_space_of(to_space),
                  .from = from,
                  .to = to,
                  .size = size};
    berth_mutex_lock(&memory->lock);
    BERTH_CHECK(2, states_are(t.source, from, size, true) && states_are(t.target, to, size, false));
    berth_status status = add_mappings(memory, size / GRANULE + 4);
    if (status == BERTH_OK) set_states(t.target, to, size, MOVED);
    const bool source_moved = has_moved(t.source, from, size);
    berth_mutex_unlock(&memory->lock);
    if (status != BERTH_OK) return status;

    if (memory->can_move_pages)
        t.moved = move_pages(memory, from_space->base + from, to_space->base + to, size);
    status = finish(memory, &t, source_moved);
    if (status != BERTH_OK) {
        undo(memory, &t);
        return status;
    }
    berth_mutex_lock(&memory->lock);
    set_states(t.target, to + t.moved, size - t.moved, OPEN);
    set_states(t.source, from, size, CLOSED);
    berth_mutex_unlock(&memory->lock);
    return BERTH_OK;
}

// --- Pinned memory ------------------------------------------------------------------------------

/// Says why the system refused to lock, with the limit that it most often is.
static berth_status no_lock(uint64_t size, int error) {
    struct rlimit limit;
    char text[32] = "unlimited";
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        (void)snprintf(text, sizeof text, "%llu bytes", (unsigned long long)limit.rlim_cur);
    return berth_fail(BERTH_ERR_OUT_OF_MEMORY,
                      "locking %llu bytes failed: %s; RLIMIT_MEMLOCK (ulimit -l) is %s",
                      (unsigned long long)size,
                      strerror(error),
                      text);
}

berth_status berth_cpu_pin(berth_cpu_memory* memory, uint64_t size, void** out_data) {
    berth_mutex_lock(&memory->lock);
    berth_status status = add_mappings(memory, 1);
    if (status == BERTH_OK) status = check_system_memory(memory, size);
    berth_mutex_unlock(&memory->lock);
    if (status != BERTH_OK) return status;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    void* at = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (at == MAP_FAILED) return no_memory("mapping", size, errno);
    if (mlock(at, (size_t)size) != 0) { // populates as well
        status = no_lock(size, errno);
        (void)munmap(at, (size_t)size);
        return status;
    }
    *out_data = at;
    return BERTH_OK;
}

void berth_cpu_unpin(void* data, uint64_t size) { (void)munmap(data, (size_t)size); }
