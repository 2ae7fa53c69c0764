// SPDX-License-Identifier: Apache-2.0
// The allocator for Berth's own metadata, which the user may replace.
#ifndef BERTH_HOST_H
#define BERTH_HOST_H

#include "berth/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Memory for Berth's own headers, traces, plans and tables (never for tensors). Both functions are
/// called from any thread and must not call Berth.
typedef struct berth_host_allocator {
    void* self; ///< passed through
    /// Returns `size` > 0 bytes aligned to `alignment` (a power of two), or NULL.
    void* (*alloc)(void* self, size_t size, size_t alignment);
    /// Takes back what alloc returned, with the same size and alignment; never NULL.
    void (*free)(void* self, void* block, size_t size, size_t alignment);
} berth_host_allocator;

#ifdef __cplusplus
}
#endif

#endif // BERTH_HOST_H
