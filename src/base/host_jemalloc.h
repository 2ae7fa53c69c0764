// SPDX-License-Identifier: Apache-2.0
// The built-in host allocator over the library's own copy of jemalloc, where the build has one.
#ifndef BERTH_BASE_HOST_JEMALLOC_H
#define BERTH_BASE_HOST_JEMALLOC_H

#include <stddef.h>

#if BERTH_HOST_JEMALLOC

/// As berth_host_allocator's entries; `self` is not used. All blocks come from one arena that
/// nothing else uses.
void* berth_host_jemalloc_alloc(void* self, size_t size, size_t alignment);
void berth_host_jemalloc_free(void* self, void* block, size_t size, size_t alignment);

#endif

#endif // BERTH_BASE_HOST_JEMALLOC_H
