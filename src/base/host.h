// SPDX-License-Identifier: Apache-2.0
// Base layer: what everything stands on. Knows nobody.
//
// B1: no size is believed before a checked helper has computed it.
// B2: a failed host allocation is reported, never fatal; state is as before.
//
// This header: memory on the host for Berth's own metadata (headers, traces, plans, tables).
#ifndef BERTH_BASE_HOST_H
#define BERTH_BASE_HOST_H

#include "berth/host.h"

/// An allocator with its counters. Thread-safe.
typedef struct berth_host berth_host;

/// Creates a host over `allocator` (copied), or over the built-in one if NULL: the library's own
/// jemalloc arena, or libc where the build says so.
/// Errors: BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status berth_host_create(const berth_host_allocator* allocator,
                                               berth_host** out_host);
/// Accepts NULL. Everything allocated from it has been freed.
void berth_host_destroy(berth_host* host);

/// The process-wide host over the built-in allocator, for callers without a runtime. Never NULL,
/// never destroyed.
const berth_host* berth_host_default(void);

/// `size` bytes, 16-byte aligned; NULL if there is no memory. Size 0 gives a pointer that can be
/// freed.
void* berth_host_alloc(const berth_host* host, size_t size);
/// count * size zeroed bytes (checked), 16-byte aligned; NULL on overflow or without memory.
void* berth_host_calloc(const berth_host* host, size_t count, size_t size);
/// As berth_host_alloc, aligned to `alignment`, a power of two.
void* berth_host_alloc_aligned(const berth_host* host, size_t size, size_t alignment);
/// Moves to a block of `new_size` bytes, keeping the common prefix; on NULL the old block stays.
void* berth_host_realloc(const berth_host* host, void* block, size_t new_size);
/// A copy of `text`; NULL without memory.
char* berth_host_strdup(const berth_host* host, const char* text);
/// Accepts NULL. (The size is kept beside the block.)
void berth_host_free(const berth_host* host, void* block);

/// Bytes asked for and not freed; exact.
uint64_t berth_host_query_live_bytes(const berth_host* host);
/// Calls of alloc so far; exact.
uint64_t berth_host_query_alloc_calls(const berth_host* host);

#endif // BERTH_BASE_HOST_H
