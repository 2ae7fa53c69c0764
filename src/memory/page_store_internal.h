// SPDX-License-Identifier: Apache-2.0
// The inside of the page store, shared by its files, and what the other parts of the memory layer
// need of it beyond its public face.
#ifndef BERTH_MEMORY_PAGE_STORE_INTERNAL_H
#define BERTH_MEMORY_PAGE_STORE_INTERNAL_H

#include "base/thread.h"
#include "memory/ladder.h"
#include "memory/page_ahead.h"

/// A request that climbs the ladder (L4 to L6); lives on its thread's stack.
typedef struct berth_climber {
    struct berth_climber* next; ///< the one that came after it
    uint64_t number;            ///< in the order of coming
    const struct berth_ask* ask;
    const berth_reclaimer* at;    ///< the place whose reclaim is running; NULL: none
    uint64_t claimed_bytes;       ///< of what is free and kept for nobody
    uint64_t claimed_owner_bytes; ///< of what its owner's quota leaves
    uint64_t eases;               ///< of the store's, those that are its own
    bool has_asked_all;           ///< waits for others
} berth_climber;

struct berth_store {
    berth_mutex* lock; ///< &mutex; a pointer so that queries can take it through a const store
    berth_mutex mutex;
    berth_cond eased; ///< a climber may go on: there is more, or one less to wait for
    const berth_host* host;
    berth_device* device;
    berth_reclaimer* reclaimers; ///< ascending rung, then id
    uint64_t next_id;
    berth_climber* climbers; ///< in the order of their coming
    uint64_t claimed_bytes;  ///< by all climbers
    uint64_t claimed_by_owner[BERTH_OWNER_COUNT];
    uint64_t eases; ///< times that memory has become free, or may have where it is asked for
    berth_store_stats stats;
    uint64_t tenant_count;
    berth_watermarks marks;
    uint64_t floor_bytes;    ///< so much stays mapped in all
    uint64_t leaving_bytes;  ///< on their way to the system
    uint64_t transit_count;  ///< begun so far
    berth_transit* transits; ///< under way, the latest first
    berth_page_ahead ahead;  ///< its own lock; what the books count as AHEAD is there
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
/// What `climber` (in the store's list, or one that has claimed nothing) is missing now, beside
/// what others have claimed; `given_bytes` are those that its climb has brought so far.
berth_lack berth_store_query_lack(const berth_store* store,
                                  const berth_climber* climber,
                                  uint64_t given_bytes);
/// Claims all that `climber` can use of what nobody else has claimed.
void berth_store_claim(berth_store* store, berth_climber* climber);
/// Gives the claims of `climber` up.
void berth_store_disclaim(berth_store* store, berth_climber* climber);
static inline bool berth_lack_is_none(const berth_lack* lack) {
    return (lack->capacity | lack->tenant | lack->owner | lack->system) == 0;
}
/// True if the request can be met whatever is given back.
bool berth_store_is_possible(const berth_store* store, const berth_ask* ask);

// ladder.c; the lock is held

/// Memory has become free, or may have where a reclaimer finds it: what this thread gives back as a
/// climber it claims at once (L4), and whoever waits looks again.
void berth_store_note_ease(berth_store* store);
/// Climbs until nothing is missing, for what the system is short of. The lock is let go of.
void berth_store_climb(berth_store* store, const berth_ask* ask, berth_climb* climb);
/// Makes sure that nothing is missing, climbing if something is. On BERTH_OK the lock is held
/// after, too, on failure it is not.
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
