// SPDX-License-Identifier: Apache-2.0
// Sharing a device: the most that a context, frames or the pool may have of its memory, and the
// least that is kept for a context whatever others ask for.
#ifndef BERTH_QUOTA_H
#define BERTH_QUOTA_H

#include "berth/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A quota that is none.
#define BERTH_UNLIMITED UINT64_MAX

/// What memory of a device is mapped for.
typedef enum berth_memory_use {
    BERTH_MEMORY_FRAMES,    ///< frames of steps
    BERTH_MEMORY_POOL,      ///< what no plan covers
    BERTH_MEMORY_KV,        ///< caches of keys and values
    BERTH_MEMORY_USE_COUNT, ///< number of uses
} berth_memory_use;

// clang-format off
/// Memory of one context, in bytes of whole granules: X(name, help). All exact, of one moment.
/// All zero, but for quota_bytes, in BERTH_MODE=system.
#define BERTH_CONTEXT_MEMORY_MAP(X)                                                                \
    X(mapped_bytes,   "mapped for it")                                                             \
    X(promised_bytes, "promised to its running steps, not mapped yet")                             \
    X(quota_bytes,    "most that both may be together; BERTH_UNLIMITED if there is no quota")      \
    X(share_bytes,    "kept for it, whatever other contexts ask for")                              \
    X(refusals,       "requests of it for memory that were refused so far")
// clang-format on

/// The numbers of BERTH_CONTEXT_MEMORY_MAP.
typedef struct berth_context_memory {
#define BERTH_CONTEXT_MEMORY_FIELD(name, help) uint64_t name;
    BERTH_CONTEXT_MEMORY_MAP(BERTH_CONTEXT_MEMORY_FIELD)
#undef BERTH_CONTEXT_MEMORY_FIELD
} berth_context_memory;

/// What is mapped for a use over all contexts, in bytes. All exact, of one moment.
typedef struct berth_use_memory {
    uint64_t mapped_bytes;   ///< mapped for it
    uint64_t promised_bytes; ///< promised to running steps, not mapped yet
    uint64_t quota_bytes;    ///< most that both may be together; BERTH_UNLIMITED: no quota
} berth_use_memory;

/// Bounds what is mapped for `context` and promised to its steps together from now on, its idle
/// memory included; BERTH_UNLIMITED takes the bound away. What it has already it keeps: below that,
/// nothing more is mapped for it until it has fallen below the quota again, of which berth_trim()
/// gives back what is idle. A new context starts with BERTH_CONTEXT_QUOTA. A request that does not
/// fit is first looked for in the context's own idle memory, then refused, the text naming quota
/// and use. Memory is mapped in granules (2 MiB on the CPU device): a quota below one, such as 0,
/// stops all growth, which the option does not accept.
/// Errors:  BERTH_ERR_INVALID_ARGUMENT if its share is larger, BERTH_ERR_FORKED; nothing changed.
/// Threads: any.
BERTH_API BERTH_NODISCARD berth_status berth_context_set_quota(berth_context* context,
                                                               uint64_t bytes);

/// Keeps `bytes`, rounded up to granules, of the device's memory for `context`: what it does not
/// have of them yet nobody else gets. Other contexts' idle memory is given back for that. It is
/// part of the quota; 0 gives the share up. A new context starts with BERTH_CONTEXT_SHARE.
/// Errors:  BERTH_ERR_INVALID_ARGUMENT above the context's quota; BERTH_ERR_OUT_OF_MEMORY, with the
///          numbers, if all contexts' shares would be more than the capacity, or others use too
///          much of it now; BERTH_ERR_STATE in an out-of-memory callback about this context;
///          BERTH_ERR_FORKED; nothing changed.
/// Threads: any; waits for the call that another thread has under way on the context.
BERTH_API BERTH_NODISCARD berth_status berth_context_set_share(berth_context* context,
                                                               uint64_t bytes);

/// Writes what a context has and may have.
/// Errors:  BERTH_ERR_INVALID_ARGUMENT, BERTH_ERR_FORKED; then `*out_memory` is zero.
/// Threads: any.
BERTH_API BERTH_NODISCARD berth_status berth_context_query_memory(berth_context* context,
                                                                  berth_context_memory* out_memory);

/// Tells in `*out_bytes` how much a step that begins now in `context` could be promised: memory of
/// the device that nobody has, and what lies idle in the context's frames and pool; a lower bound,
/// as other contexts may give back what they have idle. Cached blocks of its KV caches are not in
/// it. Of this moment; O(1).
/// Errors:  BERTH_ERR_INVALID_ARGUMENT, BERTH_ERR_FORKED; then it is 0.
/// Threads: any.
BERTH_API BERTH_NODISCARD berth_status berth_context_query_room(berth_context* context,
                                                                uint64_t* out_bytes);

/// Bounds what is mapped for a use and promised for it from now on, over all contexts of the
/// runtime: as berth_context_set_quota() otherwise. A runtime starts with BERTH_FRAMES_QUOTA,
/// BERTH_POOL_QUOTA and BERTH_KV_QUOTA.
/// Errors:  BERTH_ERR_INVALID_ARGUMENT, BERTH_ERR_FORKED; nothing changed.
/// Threads: any.
BERTH_API BERTH_NODISCARD berth_status berth_runtime_set_quota(berth_runtime* runtime,
                                                               berth_memory_use use,
                                                               uint64_t bytes);

/// Writes what is mapped for a use and may be.
/// Errors:  BERTH_ERR_INVALID_ARGUMENT, BERTH_ERR_FORKED; then `*out_memory` is zero.
/// Threads: any.
BERTH_API BERTH_NODISCARD berth_status berth_runtime_query_quota(berth_runtime* runtime,
                                                                 berth_memory_use use,
                                                                 berth_use_memory* out_memory);

#ifdef __cplusplus
}
#endif

#endif // BERTH_QUOTA_H
