// SPDX-License-Identifier: Apache-2.0
// The ladder: what is tried, in one order for every path, before a request for memory is refused.
//
// L1: rungs are climbed from the lowest on, each place on a rung is asked once in a pass, and only
//     as long as the request is not met.
//
// L2: nobody is asked who cannot help: another tenant not for what it has within its own share,
//     and where a quota stands in the way only those whose bytes it counts.
//
// L3: no lock of the memory layer is held while a rung is called.
//
// L4: what is free when a request begins to climb, and what its own calls give back, it claims: no
//     other request is met with that until this one is met or refused.
//
// L5: a request is refused only after all has ended that was under way when it had asked its last
//     place: idle memory in transit, and other climbs; what later ones had claimed until then went
//     to the earlier one.
//
// L6: it asks in passes until nobody else has made memory free during one (a few at most): who was
//     asked while another thread kept its idle memory from sight, or before it had any, is asked
//     again.
//
// So threads whose needs fit together are refused nothing: a place that gave all that was wanted of
// it has met the request (L4), one that gave less has left its owner no more than that uses, which
// grows to its need at the most. When all have been asked, all but the needs of others is free or
// claimed for needs.
#ifndef BERTH_MEMORY_LADDER_H
#define BERTH_MEMORY_LADDER_H

#include "memory/page_store.h"

// clang-format off
/// The rungs, lowest first: X(ID, name in reports).
#define BERTH_RUNG_MAP(X)                \
    X(PENDING,    "pending releases")    \
    X(FRONTS,     "fronts")              \
    X(FRAMES,     "idle frames")         \
    X(COMPACTION, "compaction")          \
    X(TRIM,       "idle pool memory")    \
    X(CACHED,     "cached KV blocks")    \
    X(WAIT,       "pending work")
// clang-format on

typedef enum berth_rung {
#define BERTH_RUNG_ENUM(id, name) BERTH_RUNG_##id,
    BERTH_RUNG_MAP(BERTH_RUNG_ENUM)
#undef BERTH_RUNG_ENUM
        BERTH_RUNG_COUNT
} berth_rung;

/// Gives back what it holds of any owner's bytes.
#define BERTH_OWNER_ANY BERTH_OWNER_COUNT

/// A place to get granules from when the store runs short.
typedef struct berth_reclaimer {
    struct berth_reclaimer* next; ///< the store's
    uint64_t id;                  ///< the store's
    berth_rung rung;
    berth_tenant* tenant; ///< whose memory it gives back; NULL: nobody's
    berth_owner owner;    ///< whose, or BERTH_OWNER_ANY
    void* self;
    /// Gives back what it can, up to `wanted_bytes`, through berth_store_unmap, and returns how
    /// much. Blocks on no lock but those whose holders wait for nobody who climbs, and on
    /// pending work only on the rung WAIT. Called without the store's lock, from any thread; the
    /// guard of `climber`'s pool is that thread's (NULL: no tenant asks).
    uint64_t (*reclaim)(void* self, const berth_tenant* climber, uint64_t wanted_bytes);
} berth_reclaimer;

/// `reclaimer` stays the caller's; it is called until removed. Remove waits until no call is under
/// way.
void berth_store_add_reclaimer(berth_store* store, berth_reclaimer* reclaimer);
void berth_store_remove_reclaimer(berth_store* store, berth_reclaimer* reclaimer);

#endif // BERTH_MEMORY_LADDER_H
