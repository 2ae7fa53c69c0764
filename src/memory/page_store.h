// SPDX-License-Identifier: Apache-2.0
// Memory layer: physical granules with owners, frames, and the pool for what no plan covers.
// Knows nothing of ops, tensors or traces.
//
// M1: the bytes mapped for all owners plus the bytes promised never exceed the capacity. What is
//     mapped ahead has no owner yet and counts as free.
//
// M2: a granule has exactly one owner and at most one tenant; the sum over owners is what is
//     populated.
//
// M3: a promise that was made can always be turned into mapped granules (unless the system itself
//     fails).
//
// M4: no address is unmapped while work enqueued on its stream before its release may be pending.
//
// M5: what a tenant has not used of its share is never mapped or promised for anybody else.
//
// This header: the page store, one for each device of a runtime. Thread-safe.
#ifndef BERTH_MEMORY_PAGE_STORE_H
#define BERTH_MEMORY_PAGE_STORE_H

#include "device/device.h"
#include "memory/watermarks.h"

#include <stdatomic.h>

// clang-format off
/// Who a granule belongs to: X(ID, name in reports).
#define BERTH_OWNER_MAP(X)        \
    X(FRAMES,   "frames")         \
    X(POOL,     "pool")           \
    X(KV,       "kv")             \
    X(WEIGHTS,  "weights")        \
    X(AHEAD,    "ahead of use")
// clang-format on

typedef enum berth_owner {
#define BERTH_OWNER_ENUM(id, name) BERTH_OWNER_##id,
    BERTH_OWNER_MAP(BERTH_OWNER_ENUM)
#undef BERTH_OWNER_ENUM
        BERTH_OWNER_COUNT
} berth_owner;

/// A quota that is none.
#define BERTH_QUOTA_NONE UINT64_MAX

typedef struct berth_store berth_store;

/// A context's books: what it uses, the most it may use, and what is kept for it. In the user's
/// memory, the store's to read and write.
typedef struct berth_tenant {
    uint64_t mapped_bytes;
    uint64_t reserved_bytes; ///< promised, not mapped
    uint64_t quota_bytes;    ///< mapped and promised bytes stay below; BERTH_QUOTA_NONE
    uint64_t share_bytes;    ///< nobody else gets what is missing up to here (M5)
    uint64_t refusals;       ///< requests of it that were refused
    uint64_t refused_bytes;  ///< of the last of them
    bool is_refusal_final;   ///< that one cannot be met whatever is given back
    // what stood in its way
    bool was_capacity_short;   ///< what others use, or is kept for them
    bool was_quota_short;      ///< its own quota
    berth_owner refused_owner; ///< that owner's quota; BERTH_OWNER_COUNT: none's
    /// Set when the tenant's use changes while a crossing of a watermark is to be told; NULL:
    /// nobody listens. The user's, who sets it before anything is mapped.
    _Atomic bool* bell;
} berth_tenant;

/// Who asks, and what for. `tenant` may be NULL: nobody's quota and nobody's share.
typedef struct berth_account {
    berth_store* store;
    berth_tenant* tenant;
    berth_owner owner;
} berth_account;

/// Granules promised to somebody and not mapped yet. Zeroed: none. Owned by one thread at a time;
/// all of it is one tenant's.
typedef struct berth_reservation {
    uint64_t bytes;                       ///< in all
    uint64_t by_owner[BERTH_OWNER_COUNT]; ///< of them, those counted against the owner's quota
    berth_tenant* tenant;
} berth_reservation;

typedef struct berth_store_stats {
    uint64_t capacity_bytes;
    uint64_t mapped_bytes; ///< exact, now
    uint64_t peak_mapped_bytes;
    uint64_t reserved_bytes;   ///< promised, not mapped
    uint64_t guaranteed_bytes; ///< the shares of all tenants
    uint64_t shares_bytes;     ///< of them, kept for tenants that use less
    uint64_t mapped_by_owner[BERTH_OWNER_COUNT];
    uint64_t reserved_by_owner[BERTH_OWNER_COUNT];
    uint64_t quota_by_owner[BERTH_OWNER_COUNT]; ///< BERTH_QUOTA_NONE: none
    uint64_t reclaims;                          ///< times the ladder was climbed
    uint64_t failures;                          ///< requests refused after it
    uint64_t rises;                             ///< times that use reached the high watermark
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

/// Begins the books of a tenant without quota and share. `tenant` stays the caller's until
/// berth_store_remove_tenant, before which everything of it is unmapped and unreserved (but for
/// what the device refused to take back).
void berth_store_add_tenant(berth_store* store, berth_tenant* tenant);
void berth_store_remove_tenant(berth_store* store, berth_tenant* tenant);

/// Bounds what a tenant maps and has promised from now on; what it has already, it keeps.
/// Errors: BERTH_ERR_INVALID_ARGUMENT if its share is larger; nothing changed.
BERTH_NODISCARD berth_status berth_store_set_tenant_quota(berth_store* store,
                                                          berth_tenant* tenant,
                                                          uint64_t bytes);
/// Keeps `bytes` (rounded up to granules) for a tenant, climbing the ladder for what it does not
/// have yet.
/// Errors: BERTH_ERR_INVALID_ARGUMENT above its quota, BERTH_ERR_OUT_OF_MEMORY with the numbers if
///         the shares of all would exceed the capacity, or with the report of a refusal; nothing
///         changed.
BERTH_NODISCARD berth_status berth_store_set_tenant_share(berth_store* store,
                                                          berth_tenant* tenant,
                                                          uint64_t bytes);
/// Bounds what is mapped and promised for an owner from now on, over all tenants.
void berth_store_set_owner_quota(berth_store* store, berth_owner owner, uint64_t bytes);

/// Watches the bytes that are mapped for somebody or promised: the high mark, above 0, and the low
/// one, below it. Before anything is mapped.
void berth_store_set_watermarks(berth_store* store, uint64_t high_bytes, uint64_t low_bytes);
/// As berth_watermarks_take.
size_t berth_store_take_crossings(berth_store* store,
                                  berth_crossing out_crossings[BERTH_CROSSINGS_MOST]);
/// What was taken has been told; true if there is more.
bool berth_store_end_telling(berth_store* store);

/// Promises `bytes` (rounded up to granules), climbing the ladder if needed; adds them to
/// `*reservation`.
/// Errors: BERTH_ERR_OUT_OF_MEMORY naming need, what stands in the way, mapped by owner, promised,
///         and what the ladder brought; nothing changed.
BERTH_NODISCARD berth_status berth_store_reserve(berth_account account,
                                                 uint64_t bytes,
                                                 berth_reservation* reservation);
/// Takes back what is left of the promise; `reservation` may be NULL.
void berth_store_unreserve(berth_store* store, berth_reservation* reservation);

/// Maps granules for the account; draws on `reservation` first (NULL: none; its owner's part before
/// others'), then on what is free, climbing the ladder if needed. All or nothing.
BERTH_NODISCARD berth_status berth_store_map(berth_account account,
                                             berth_reservation* reservation,
                                             berth_space* space,
                                             uint64_t offset,
                                             uint64_t size);
/// Gives mapped granules back to the system. A failure (reported once in the log) leaves them
/// mapped and accounted and returns the error.
BERTH_NODISCARD berth_status berth_store_unmap(berth_account account,
                                               berth_space* space,
                                               uint64_t offset,
                                               uint64_t size);

/// Idle memory that is being given back or moved; lives on the stack of whoever does that.
typedef struct berth_transit {
    struct berth_transit* next; ///< the store's
    uint64_t number;            ///< the store's
} berth_transit;

/// Tells that idle memory is about to be unmapped or moved, from the moment on that its owner's
/// books do not show it as idle any more: whoever is short of memory waits for the end, instead of
/// being refused. Between both calls the caller waits for the device and the locks of the store and
/// of its own books alone.
void berth_store_begin_transit(berth_store* store, berth_transit* transit);
/// Tells that it has been unmapped, or is idle where it is now.
void berth_store_end_transit(berth_store* store, berth_transit* transit);

/// The most bytes that the account could map now without the ladder; what those who climb it have
/// found is theirs.
uint64_t berth_store_query_room(berth_account account);
void berth_store_query_stats(const berth_store* store, berth_store_stats* out_stats);
/// A copy of the tenant's books, of one moment.
berth_tenant berth_store_query_tenant(const berth_store* store, const berth_tenant* tenant);
/// The last refusal of `tenant` has been made good: the request was met in another way, or is made
/// again. So a request is refused once, or not at all, however often it was tried.
void berth_store_excuse_refusal(berth_store* store, berth_tenant* tenant);

#endif // BERTH_MEMORY_PAGE_STORE_H
