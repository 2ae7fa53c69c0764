// SPDX-License-Identifier: Apache-2.0
// Calls into the private copy of jemalloc, whose symbols the build prefixes with berth_je_.
//
// What is learned and planned grows by small blocks for as long as new shapes come. The arena takes
// its memory in stretches that are populated at once, so that a run does not stop for page faults:
// the first one stays for good, what is large goes back to the system when it is freed.
#include "base/host_jemalloc.h"

#if BERTH_HOST_JEMALLOC

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

void* berth_je_mallocx(size_t size, int flags);
void berth_je_sdallocx(void* block, size_t size, int flags);
int berth_je_mallctl(
    const char* name, void* old_value, size_t* old_bytes, void* new_value, size_t new_bytes);

// The flags' encoding is jemalloc's ABI: log2 of the alignment, thread cache, arena + 1.
#define FLAG_NO_CACHE (1 << 8)
#define FLAG_ARENA(index) ((int)(index) + 1) << 20

#define FIRST_BYTES ((size_t)4 << 20)  ///< populated before anything is asked for, and kept
#define FILL_BYTES ((size_t)4 << 20)   ///< larger stretches are populated where they are touched
#define RETURN_BYTES ((size_t)2 << 20) ///< freed stretches from here on go back to the system

/// jemalloc's extent_hooks_t. Entries that are NULL count as refusals.
typedef struct hooks {
    void* (*alloc)(struct hooks*, void*, size_t, size_t, bool*, bool*, unsigned);
    bool (*dalloc)(struct hooks*, void*, size_t, bool, unsigned);
    void (*destroy)(struct hooks*, void*, size_t, bool, unsigned);
    bool (*commit)(struct hooks*, void*, size_t, size_t, size_t, unsigned);
    bool (*decommit)(struct hooks*, void*, size_t, size_t, size_t, unsigned);
    bool (*purge_lazy)(struct hooks*, void*, size_t, size_t, size_t, unsigned);
    bool (*purge_forced)(struct hooks*, void*, size_t, size_t, size_t, unsigned);
    bool (*split)(struct hooks*, void*, size_t, size_t, size_t, bool, unsigned);
    bool (*merge)(struct hooks*, void*, size_t, void*, size_t, bool, unsigned);
} hooks;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int base_flags;
static bool is_filling; ///< the first stretch is being populated
static uintptr_t first_begin;
static uintptr_t first_end;

/// Maps `size` bytes at a multiple of `alignment`, a power of two; NULL without memory.
static unsigned char* map_aligned(size_t size, size_t alignment) {
    if (size > SIZE_MAX - alignment) return NULL;
    const size_t whole = size + alignment;
    unsigned char* at =
        mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return NULL;
    const size_t before = (alignment - ((uintptr_t)at & (alignment - 1))) & (alignment - 1);
    if (before > 0) (void)munmap(at, before);
    if (before < alignment) (void)munmap(at + before + size, alignment - before);
    return at + before;
}

static bool is_in_first(const void* data) {
    return (uintptr_t)data >= first_begin && (uintptr_t)data < first_end;
}

static void* alloc_extent(hooks* self,
                          void* wanted,
                          size_t size,
                          size_t alignment,
                          bool* zero,
                          bool* commit,
                          unsigned arena) {
    (void)self;
    (void)arena;
    if (wanted != NULL) return NULL; // jemalloc takes another place then
    unsigned char* at = map_aligned(size, alignment);
    if (at == NULL) return NULL;
    // on kernels that cannot, faults come one by one
    if (size <= FILL_BYTES || is_filling) (void)madvise(at, size, MADV_POPULATE_WRITE);
    if (is_filling) {
        first_begin = (uintptr_t)at;
        first_end = (uintptr_t)at + size;
    }
    *zero = true;
    *commit = true;
    return at;
}

/// Gives a freed stretch back; true for those that are kept.
static bool purge_extent(
    hooks* self, void* data, size_t size, size_t offset, size_t length, unsigned arena) {
    (void)self;
    (void)size;
    (void)arena;
    if (length < RETURN_BYTES || is_in_first(data)) return true;
    return madvise((unsigned char*)data + offset, length, MADV_DONTNEED) != 0;
}

static bool split_extent(hooks* self,
                         void* data,
                         size_t size,
                         size_t size_a,
                         size_t size_b,
                         bool committed,
                         unsigned arena) {
    (void)self;
    (void)data;
    (void)size;
    (void)size_a;
    (void)size_b;
    (void)committed;
    (void)arena;
    return false; // any part of a mapping can stand alone
}

static bool merge_extents(
    hooks* self, void* a, size_t size_a, void* b, size_t size_b, bool committed, unsigned arena) {
    (void)self;
    (void)size_a;
    (void)size_b;
    (void)committed;
    (void)arena;
    return is_in_first(a) != is_in_first(b); // refused: the one stays, the other may go
}

static hooks our_hooks = {.alloc = alloc_extent,
                          .purge_forced = purge_extent,
                          .split = split_extent,
                          .merge = merge_extents};

/// Sets arena.INDEX.`name`; without it the arena is less frugal, not wrong.
static void set_arena(unsigned arena, const char* name, const void* value, size_t bytes) {
    char path[64];
    (void)snprintf(path, sizeof path, "arena.%u.%s", arena, name);
    (void)berth_je_mallctl(path, NULL, NULL, (void*)(uintptr_t)value, bytes);
}

static void create_arena(void) {
    unsigned arena;
    size_t bytes = sizeof arena;
    hooks* const ours = &our_hooks;
    // Without an arena of our own (no memory), the copy's automatic ones serve as well.
    if (berth_je_mallctl("arenas.create", &arena, &bytes, (void*)(uintptr_t)&ours, sizeof ours) !=
        0)
        return;
    base_flags = FLAG_NO_CACHE | FLAG_ARENA(arena);
    // What is freed is purged at once, where it is at all: then it can be cut and joined as needed.
    const ptrdiff_t no_delay = 0;
    const size_t growth = FILL_BYTES;
    set_arena(arena, "dirty_decay_ms", &no_delay, sizeof no_delay);
    set_arena(arena, "muzzy_decay_ms", &no_delay, sizeof no_delay);
    set_arena(arena, "retain_grow_limit", &growth, sizeof growth);
    is_filling = true;
    void* first = berth_je_mallocx(FIRST_BYTES, base_flags);
    is_filling = false;
    if (first != NULL) berth_je_sdallocx(first, FIRST_BYTES, base_flags);
}

static int flags_for(size_t alignment) {
    (void)pthread_once(&once, create_arena);
    return base_flags | __builtin_ctzll((uint64_t)alignment);
}

void* berth_host_jemalloc_alloc(void* self, size_t size, size_t alignment) {
    (void)self;
    return berth_je_mallocx(size, flags_for(alignment));
}

void berth_host_jemalloc_free(void* self, void* block, size_t size, size_t alignment) {
    (void)self;
    berth_je_sdallocx(block, size, flags_for(alignment));
}

#else

typedef int berth_host_jemalloc_absent; // a translation unit is never empty

#endif
