// SPDX-License-Identifier: Apache-2.0
// The inside of the page store, shared by its files, and what the other parts of the memory layer
// need of it beyond its public face.
#ifndef BERTH_MEMORY_PAGE_STORE_INTERNAL_H
#define BERTH_MEMORY_PAGE_STORE_INTERNAL_H

#include "base/thread.h"
#include "memory/ladder.h"
#include "memory/page_ahead.h"

/// A thread that climbs the ladder; lives on its stack.
typedef struct berth_climber {
    struct berth_climber* next;
    const berth_reclaimer* at; ///< the place whose reclaim is running
} berth_climber;

struct berth_store {
    berth_mutex* lock; ///< &mutex; a pointer so that queries can take it through a const store
    berth_mutex mutex;
    berth_cond place_left; ///< a reclaim call has returned
    berth_cond unmapped;   ///< an unmap has ended
    const berth_host* host;
    berth_device* device;
    berth_reclaimer* reclaimers; ///< ascending rung, then id
    uint64_t next_id;
    berth_climber* climbers;
    berth_store_stats stats;
    uint64_t tenant_count;
    berth_watermarks marks;
    uint64_t floor_bytes;        ///< so much stays mapped in all
    uint64_t leaving_bytes;      ///< on their way to the system
    uint64_t unmaps;             ///< begun so far
    berth_unmapping* unmappings; ///< under way, the latest first
    berth_page_ahead ahead;      ///< its own lock; what the books count as AHEAD is there
};

/// One request that may have to climb.
typedef struct berth_ask {
    berth_account account;
    uint64_t bytes;        ///< to be met, a multiple of the granule
    uint64_t new_bytes;    ///< of them, those that no promise covers
    uint64_t owner_bytes;  ///< of them, those that count against the owner's quota
    uint64_t shared_bytes; ///< wanted of what is kept for nobody (to enlarge a share)
    uint64_t system_bytes; ///< the system is short of
} berth_ask;

/// What one climb brought, for the report.
typedef struct berth_climb {
    uint64_t given_bytes;
    uint64_t given_by_rung[BERTH_RUNG_COUNT];
    uint32_t places_by_rung[BERTH_RUNG_COUNT]; ///< asked
} berth_climb;

/// What stands in the way of a request, in bytes that are missing.
typedef struct berth_lack {
    uint64_t capacity;
    uint64_t tenant; ///< by its quota
    uint64_t owner;  ///< by the quota of its owner
    uint64_t system;
} berth_lack;

// page_quota.c; the lock is held

/// Bytes that are mapped for nobody and promised to nobody.
uint64_t berth_store_free_bytes(const berth_store_stats* stats);
/// Those that `tenant` (may be NULL) may take.
uint64_t berth_store_free_for(const berth_store_stats* stats, const berth_tenant* tenant);
/// Changes what a tenant (may be NULL) uses.
void berth_tenant_change(berth_store* store,
                         berth_tenant* tenant,
                         uint64_t mapped,
                         uint64_t unmapped,
                         uint64_t promised,
                         uint64_t unpromised);
/// Notes the use after a change of a tenant's (may be NULL), and rings if there is news.
void berth_store_note_use(berth_store* store, berth_tenant* tenant);
/// Notes a refusal, a final one if it cannot be met whatever is given back, of the account's tenant
/// (may be NULL), and what was missing.
void berth_tenant_note_refusal(berth_account account,
                               uint64_t bytes,
                               bool is_final,
                               const berth_lack* lack);
/// What is missing now; `given_bytes` are those that a climb has brought so far.
berth_lack berth_store_query_lack(const berth_store* store,
                                  const berth_ask* ask,
                                  uint64_t given_bytes);
static inline bool berth_lack_is_none(const berth_lack* lack) {
    return (lack->capacity | lack->tenant | lack->owner | lack->system) == 0;
}
/// True if the request can be met whatever is given back.
bool berth_store_is_possible(const berth_store* store, const berth_ask* ask);

// ladder.c

/// Climbs until nothing is missing. The lock is held before and after.
void berth_store_climb(berth_store* store, const berth_ask* ask, berth_climb* climb);
/// Makes sure that nothing is missing, climbing if something is. The lock is held before; on
/// BERTH_OK after, too, on failure it is not.
BERTH_NODISCARD berth_status berth_store_find(berth_store* store, const berth_ask* ask);

// shortage.c

/// Sets the error text of a refusal and returns its status; the lock is not held.
berth_status berth_store_report_shortage(const berth_store_stats* stats,
                                         const berth_tenant* tenant,
                                         const berth_ask* ask,
                                         const berth_climb* climb);
/// Refuses a request that is larger than the capacity: BERTH_ERR_OUT_OF_MEMORY.
berth_status berth_store_refuse(berth_account account, uint64_t bytes);

// page_store.c

/// As berth_store_unmap, but the bytes go back into `reservation` (may be NULL) until it holds what
/// `limit` does; only the rest becomes free for others. So a failed sequence of maps can be undone
/// without losing its promise.
BERTH_NODISCARD berth_status berth_store_unmap_into(berth_account account,
                                                    berth_reservation* reservation,
                                                    const berth_reservation* limit,
                                                    berth_space* space,
                                                    uint64_t offset,
                                                    uint64_t size);

/// Reserves addresses for at least `need` bytes, a multiple of the granule, and for twice the
/// capacity if the system lets us: addresses cost nothing, running out of them does.
BERTH_NODISCARD berth_status berth_store_reserve_space(const berth_store* store,
                                                       uint64_t need,
                                                       berth_space** out_space);

#endif // BERTH_MEMORY_PAGE_STORE_INTERNAL_H
