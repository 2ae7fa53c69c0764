// SPDX-License-Identifier: Apache-2.0
// The calls into the system by which memory is reserved, opened, populated, moved and placed, in
// one table, so that tests can count them and let them fail.
#ifndef BERTH_DEVICE_CPU_CALLS_H
#define BERTH_DEVICE_CPU_CALLS_H

#include <stddef.h>
#include <stdint.h>

/// Each returns 0 or an errno.
typedef struct berth_cpu_calls {
    /// mmap without access, anonymous and private; `*at` NULL: anywhere, else right there instead
    /// of what is mapped. `flags` are added.
    int (*reserve)(void** at, size_t size, int flags);
    int (*unmap)(void* base, size_t size);
    int (*protect)(void* base, size_t size, int protection);
    int (*advise)(void* base, size_t size, int advice);
    /// mremap to `to` that leaves the source mapped, without memory.
    int (*move)(void* from, size_t size, void* to);
    /// mbind of pages that are populated from now on: an MPOL_ mode, and nodes as bits.
    int (*place)(void* base, size_t size, int mode, uint64_t nodes);
} berth_cpu_calls;

/// Those of the system.
extern const berth_cpu_calls berth_cpu_system_calls;

#endif // BERTH_DEVICE_CPU_CALLS_H
