// SPDX-License-Identifier: Apache-2.0
// Host metadata memory: a counted front over the user's allocator or a built-in one.
#include "base/host.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/host_jemalloc.h"

#define MIN_ALIGNMENT 16u

typedef struct counters {
    atomic_uint_least64_t live_bytes;
    atomic_uint_least64_t alloc_calls;
} counters;

struct berth_host {
    berth_host_allocator allocator;
    counters* counts; // apart, so that allocating leaves the host itself const
};

typedef struct owned_host {
    berth_host host;
    counters counts;
} owned_host;

// What stands directly before every block, so that free needs no size. A block of alignment A
// begins max(A, 16) bytes into what the allocator returned.
typedef struct header {
    size_t size;      // bytes asked for
    size_t alignment; // of the whole, at least 16
} header;
_Static_assert(sizeof(header) == MIN_ALIGNMENT, "the header keeps blocks aligned");

#if !BERTH_HOST_JEMALLOC

static void* builtin_alloc(void* self, size_t size, size_t alignment) {
    (void)self;
    void* block = NULL;
    return posix_memalign(&block, alignment, size) == 0 ? block : NULL;
}

static void builtin_free(void* self, void* block, size_t size, size_t alignment) {
    (void)self;
    (void)size;
    (void)alignment;
    free(block);
}

static const berth_host_allocator builtin = {NULL, builtin_alloc, builtin_free};

#else

static const berth_host_allocator builtin = {
    NULL, berth_host_jemalloc_alloc, berth_host_jemalloc_free};

#endif

berth_status berth_host_create(const berth_host_allocator* allocator, berth_host** out_host) {
    *out_host = NULL;
    if (allocator == NULL) allocator = &builtin;
    if (allocator->alloc == NULL || allocator->free == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a host allocator needs alloc and free");
    owned_host* made = allocator->alloc(allocator->self, sizeof *made, MIN_ALIGNMENT);
    if (made == NULL)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory for the host allocator's counters");
    made->host.allocator = *allocator;
    made->host.counts = &made->counts;
    atomic_init(&made->counts.live_bytes, 0);
    atomic_init(&made->counts.alloc_calls, 0);
    *out_host = &made->host;
    return BERTH_OK;
}

void berth_host_destroy(berth_host* host) {
    if (host == NULL) return;
    BERTH_CHECK(2, berth_host_query_live_bytes(host) == 0);
    const berth_host_allocator allocator = host->allocator;
    allocator.free(allocator.self, host, sizeof(owned_host), MIN_ALIGNMENT);
}

const berth_host* berth_host_default(void) {
    static counters counts;
    static const berth_host host = {{NULL, NULL, NULL}, &counts};
    return &host;
}

// The default host is a constant, made before `builtin` could be copied into it.
static const berth_host_allocator* allocator_of(const berth_host* host) {
    return host->allocator.alloc == NULL ? &builtin : &host->allocator;
}

static header* header_of(void* block) { return (header*)block - 1; }

void* berth_host_alloc_aligned(const berth_host* host, size_t size, size_t alignment) {
    BERTH_CHECK(1, berth_is_power_of_two(alignment));
    if (alignment < MIN_ALIGNMENT) alignment = MIN_ALIGNMENT;
    size_t total;
    if (!berth_add_size(size, alignment, &total) || total > PTRDIFF_MAX) return NULL;
    const berth_host_allocator* allocator = allocator_of(host);
    atomic_fetch_add_explicit(&host->counts->alloc_calls, 1, memory_order_relaxed);
    unsigned char* whole = allocator->alloc(allocator->self, total, alignment);
    if (whole == NULL) return NULL;
    void* block = whole + alignment;
    *header_of(block) = (header){size, alignment};
    atomic_fetch_add_explicit(&host->counts->live_bytes, size, memory_order_relaxed);
    return block;
}

void* berth_host_alloc(const berth_host* host, size_t size) {
    return berth_host_alloc_aligned(host, size, MIN_ALIGNMENT);
}

void* berth_host_calloc(const berth_host* host, size_t count, size_t size) {
    size_t bytes;
    if (!berth_mul_size(count, size, &bytes)) return NULL;
    void* block = berth_host_alloc(host, bytes);
    if (block != NULL) memset(block, 0, bytes);
    return block;
}

void* berth_host_realloc(const berth_host* host, void* block, size_t new_size) {
    if (block == NULL) return berth_host_alloc(host, new_size);
    const header old = *header_of(block);
    void* moved = berth_host_alloc_aligned(host, new_size, old.alignment);
    if (moved == NULL) return NULL;
    memcpy(moved, block, old.size < new_size ? old.size : new_size);
    berth_host_free(host, block);
    return moved;
}

char* berth_host_strdup(const berth_host* host, const char* text) {
    const size_t bytes = strlen(text) + 1;
    char* copy = berth_host_alloc(host, bytes);
    if (copy != NULL) memcpy(copy, text, bytes);
    return copy;
}

void berth_host_free(const berth_host* host, void* block) {
    if (block == NULL) return;
    const header found = *header_of(block);
    const berth_host_allocator* allocator = allocator_of(host);
    atomic_fetch_sub_explicit(&host->counts->live_bytes, found.size, memory_order_relaxed);
    allocator->free(allocator->self,
                    (unsigned char*)block - found.alignment,
                    found.size + found.alignment,
                    found.alignment);
}

uint64_t berth_host_query_live_bytes(const berth_host* host) {
    return atomic_load_explicit(&host->counts->live_bytes, memory_order_relaxed);
}

uint64_t berth_host_query_alloc_calls(const berth_host* host) {
    return atomic_load_explicit(&host->counts->alloc_calls, memory_order_relaxed);
}
