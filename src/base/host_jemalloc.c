// SPDX-License-Identifier: Apache-2.0
// Calls into the private copy of jemalloc, whose symbols the build prefixes with berth_je_.
#include "base/host_jemalloc.h"

#if BERTH_HOST_JEMALLOC

#include <pthread.h>
#include <stdint.h>

void* berth_je_mallocx(size_t size, int flags);
void berth_je_sdallocx(void* block, size_t size, int flags);
int berth_je_mallctl(
    const char* name, void* old_value, size_t* old_bytes, void* new_value, size_t new_bytes);

// The flags' encoding is jemalloc's ABI: log2 of the alignment, thread cache, arena + 1.
#define FLAG_NO_CACHE (1 << 8)
#define FLAG_ARENA(index) ((int)(index) + 1) << 20

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int base_flags;

static void create_arena(void) {
    unsigned arena;
    size_t bytes = sizeof arena;
    // Without an arena of our own (no memory), the copy's automatic ones serve as well.
    if (berth_je_mallctl("arenas.create", &arena, &bytes, NULL, 0) == 0)
        base_flags = FLAG_NO_CACHE | FLAG_ARENA(arena);
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
