// SPDX-License-Identifier: Apache-2.0
// Memory layer: physical granules with owners, frames, and the pool for what no plan covers.
// Knows nothing of ops, tensors or traces.
//
// M1: the bytes mapped for all owners plus the bytes promised never exceed the capacity. What is
//     mapped ahead has no owner yet and counts as free.
//
// M2: a granule has exactly one owner; the sum over owners is what is populated.
//
// M3: a promise that was made can always be turned into mapped granules (unless the system itself
//     fails).
//
// M4: no address is unmapped while work enqueued on its stream before its release may be pending.
//
// This header: the page store, one for each device of a runtime. Thread-safe.
#ifndef BERTH_MEMORY_PAGE_STORE_H
#define BERTH_MEMORY_PAGE_STORE_H

#include "device/device.h"

// clang-format off
/// Who a granule belongs to: X(ID, name in reports).
#define BERTH_OWNER_MAP(X)        \
    X(FRAMES,   "frames")         \
    X(POOL,     "pool")           \
    X(KV,       "kv")             \
    X(WEIGHTS,  "weights")        \
    X(OVERHEAD, "overhead")       \
    X(AHEAD,    "ahead of use")
// clang-format on

typedef enum berth_owner {
#define BERTH_OWNER_ENUM(id, name) BERTH_OWNER_##id,
    BERTH_OWNER_MAP(BERTH_OWNER_ENUM)
#undef BERTH_OWNER_ENUM
        BERTH_OWNER_COUNT
} berth_owner;

typedef struct berth_store berth_store;

/// Granules promised to somebody and not mapped yet. Zeroed: none. Owned by one thread at a time.
typedef struct berth_reservation {
    uint64_t bytes;
} berth_reservation;

/// A way to get granules back when the store runs short. `reclaim` gives back what it can without
/// blocking on a lock or on pending work, up to `wanted_bytes`, through berth_store_unmap, and
/// returns how much. It is called without the store's lock, from any thread.
typedef struct berth_reclaimer {
    struct berth_reclaimer* next; ///< the store's
    uint64_t id;                  ///< the store's
    void* self;
    uint64_t (*reclaim)(void* self, uint64_t wanted_bytes);
} berth_reclaimer;

typedef struct berth_store_stats {
    uint64_t capacity_bytes;
    uint64_t mapped_bytes; ///< exact, now
    uint64_t peak_mapped_bytes;
    uint64_t reserved_bytes; ///< promised, not mapped
    uint64_t mapped_by_owner[BERTH_OWNER_COUNT];
    uint64_t reclaims; ///< times the ladder was climbed
    uint64_t failures; ///< requests refused after it
} berth_store_stats;

/// `capacity_bytes` is cut to what the device has; UINT64_MAX means just that.
BERTH_NODISCARD berth_status berth_store_create(const berth_host* host,
                                                berth_device* device,
                                                uint64_t capacity_bytes,
                                                berth_store** out_store);
/// Accepts NULL. Nothing is mapped through it any more but what is mapped ahead.
void berth_store_destroy(berth_store* store);

berth_device* berth_store_device(const berth_store* store);

/// Maps `bytes` (rounded up to granules) ahead: the next maps take them instead of memory of the
/// system, and from then on unmap gives nothing to the system that would leave less than `bytes`
/// mapped in all, but keeps it for later maps. Once, before anything else is mapped; 0 does
/// nothing.
/// Errors: BERTH_ERR_OUT_OF_MEMORY with the numbers, BERTH_ERR_UNSUPPORTED on a device that cannot
///         move granules, BERTH_ERR_DEVICE; nothing changed.
BERTH_NODISCARD berth_status berth_store_map_ahead(berth_store* store, uint64_t bytes);

/// Promises `bytes` (rounded up to granules), climbing the ladder of reclaimers if needed; adds
/// them to `*reservation`.
/// Errors: BERTH_ERR_OUT_OF_MEMORY naming need, capacity, mapped by owner, promised; nothing
///         changed.
BERTH_NODISCARD berth_status berth_store_reserve(berth_store* store,
                                                 uint64_t bytes,
                                                 berth_reservation* reservation);
/// Takes back what is left of the promise; `reservation` may be NULL.
void berth_store_unreserve(berth_store* store, berth_reservation* reservation);

/// Maps granules for `owner`; draws on `reservation` first (NULL: none), then on what is free,
/// climbing the ladder if needed. All or nothing.
BERTH_NODISCARD berth_status berth_store_map(berth_store* store,
                                             berth_owner owner,
                                             berth_reservation* reservation,
                                             berth_space* space,
                                             uint64_t offset,
                                             uint64_t size);
/// Gives mapped granules back to the system. A failure (reported once in the log) leaves them
/// mapped and accounted and returns the error.
BERTH_NODISCARD berth_status berth_store_unmap(
    berth_store* store, berth_owner owner, berth_space* space, uint64_t offset, uint64_t size);

/// `reclaimer` stays the caller's; it is called until removed. Remove waits until no call is under
/// way.
void berth_store_add_reclaimer(berth_store* store, berth_reclaimer* reclaimer);
void berth_store_remove_reclaimer(berth_store* store, berth_reclaimer* reclaimer);

void berth_store_query_stats(const berth_store* store, berth_store_stats* out_stats);

#endif // BERTH_MEMORY_PAGE_STORE_H
