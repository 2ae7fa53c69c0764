// SPDX-License-Identifier: Apache-2.0
// Climbing: places are asked rung by rung, without the store's lock, until nothing is missing.
#include "memory/ladder.h"

#include "memory/page_store_internal.h"

/// A place's id has its rung above so many bits of its number.
#define RUNG_SHIFT 48
/// A request that others' doings may have hidden memory from asks again, so often in all.
#define MOST_PASSES 4

/// The climber whose place this thread is in; NULL: none.
static _Thread_local berth_climber* at_work;

static berth_reclaimer* first_after(const berth_store* store, uint64_t id) {
    berth_reclaimer* place = store->reclaimers;
    while (place != NULL && place->id <= id)
        place = place->next;
    return place;
}

void berth_store_note_ease(berth_store* store) {
    store->eases++;
    if (at_work != NULL && at_work->ask->account.store == store) {
        at_work->eases++;
        berth_store_claim(store, at_work);
    }
    berth_cond_broadcast(&store->eased);
}

/// Begins a climb. Locked.
static void join(berth_store* store, berth_climber* self) {
    self->number = ++store->stats.reclaims;
    berth_climber** link = &store->climbers;
    while (*link != NULL)
        link = &(*link)->next;
    *link = self;
}

/// Ends it; what was claimed is the caller's to book before it lets go of the lock, or for others.
static void leave(berth_store* store, berth_climber* self) {
    berth_store_disclaim(store, self);
    berth_climber** link = &store->climbers;
    while (*link != self)
        link = &(*link)->next;
    *link = self->next;
    berth_cond_broadcast(&store->eased);
}

/// Calls one reclaimer without the lock. Locked before and after.
static uint64_t call_place(berth_store* store,
                           berth_climber* self,
                           berth_reclaimer* place,
                           uint64_t wanted) {
    berth_climber* outer = at_work;
    at_work = self;
    self->at = place;
    berth_mutex_unlock(store->lock);
    const uint64_t given = place->reclaim(place->self, self->ask->account.tenant, wanted);
    berth_mutex_lock(store->lock);
    self->at = NULL;
    // while it was there others may not have seen all that the place holds
    if (given > 0) berth_store_note_ease(store);
    at_work = outer;
    return given;
}

/// What a place can do about a lack (L2).
static uint64_t wanted_of(const berth_reclaimer* place,
                          const berth_ask* ask,
                          const berth_lack* lack) {
    const berth_tenant* climber = ask->account.tenant;
    const berth_tenant* holder = place->tenant;
    uint64_t wanted = lack->capacity;
    // what a tenant gives up itself its larger share would keep back
    if (holder != NULL && holder == climber && ask->shared_bytes > 0) wanted = 0;
    if (holder != NULL && holder != climber) {
        const uint64_t used = holder->mapped_bytes + holder->reserved_bytes;
        const uint64_t above = used > holder->share_bytes ? used - holder->share_bytes : 0;
        if (wanted > above) wanted = above;
    }
    if (lack->system > wanted) wanted = lack->system;
    if (holder == climber && lack->tenant > wanted) wanted = lack->tenant;
    const bool is_owners = place->owner == ask->account.owner || place->owner == BERTH_OWNER_ANY;
    if (is_owners && lack->owner > wanted) wanted = lack->owner;
    return wanted;
}

/// Asks the places, each once, until nothing is missing; returns what is. Locked before and after.
static berth_lack ask_places(berth_store* store, berth_climber* self, berth_climb* climb) {
    for (uint64_t id = 0;;) {
        berth_store_claim(store, self);
        const berth_lack lack = berth_store_query_lack(store, self, climb->given_bytes);
        berth_reclaimer* place = first_after(store, id);
        if (berth_lack_is_none(&lack) || place == NULL) return lack;
        id = place->id;
        const uint64_t wanted = wanted_of(place, self->ask, &lack);
        if (wanted == 0) continue;
        const berth_rung rung = place->rung; // the place may be gone after the call
        const uint64_t given = call_place(store, self, place, wanted);
        climb->given_bytes += given;
        climb->given_by_rung[rung] += given;
        climb->places_by_rung[rung]++;
    }
}

void berth_store_climb(berth_store* store, const berth_ask* ask, berth_climb* climb) {
    berth_climber self = {.ask = ask};
    join(store, &self);
    (void)ask_places(store, &self, climb);
    leave(store, &self);
}

/// Whether somebody who came before may still let `self` have memory: one of the first `transits`,
/// a climber up to `number` that asks on, or one that came before `self` and goes first.
static bool has_hope(const berth_store* store,
                     const berth_climber* self,
                     uint64_t number,
                     uint64_t transits) {
    for (const berth_climber* at = store->climbers; at != NULL && at->number <= number;
         at = at->next) {
        if (at != self && (at->number < self->number || !at->has_asked_all)) return true;
    }
    for (const berth_transit* at = store->transits; at != NULL; at = at->next) {
        if (at->number <= transits) return true;
    }
    return false;
}

/// Deals out what `self` has claimed and what is free anew, to those first who came first; returns
/// what it lacks then. Locked.
static berth_lack deal(berth_store* store, berth_climber* self, uint64_t given_bytes) {
    berth_store_disclaim(store, self);
    for (berth_climber* at = store->climbers; at != self->next; at = at->next)
        berth_store_claim(store, at);
    return berth_store_query_lack(store, self, given_bytes);
}

/// Waits for what others are giving back, or have claimed and do not take; returns what is missing
/// then. Nobody waits in a circle: those on their way wait for no climber, of climbers those that
/// ask places wait for none that waits here, and those that wait here for earlier ones. A thread
/// that asks for memory within a reclaimer waits for nobody. Locked before and after.
static berth_lack wait_for_others(berth_store* store, berth_climber* self, uint64_t given_bytes) {
    const uint64_t number = store->stats.reclaims;
    const uint64_t transits = store->transit_count;
    self->has_asked_all = true;
    berth_lack lack = deal(store, self, given_bytes);
    berth_cond_broadcast(&store->eased);
    while (!berth_lack_is_none(&lack) && at_work == NULL &&
           has_hope(store, self, number, transits)) {
        berth_cond_wait(&store->eased, store->lock);
        lack = deal(store, self, given_bytes);
    }
    self->has_asked_all = false;
    return lack;
}

/// Climbs until nothing is missing, or nobody has made anything free meanwhile (L6); returns what
/// is missing. Locked before and after.
static berth_lack climb_for(berth_store* store, berth_climber* self, berth_climb* climb) {
    berth_lack lack = {0};
    uint64_t others = 0;
    join(store, self);
    for (uint32_t pass = 0; pass < MOST_PASSES; pass++) {
        if (pass > 0 && store->eases - self->eases == others) break;
        others = store->eases - self->eases;
        lack = ask_places(store, self, climb);
        if (!berth_lack_is_none(&lack)) lack = wait_for_others(store, self, climb->given_bytes);
        if (berth_lack_is_none(&lack)) break;
    }
    leave(store, self);
    return lack;
}

berth_status berth_store_find(berth_store* store, const berth_ask* ask) {
    berth_climb climb = {0};
    berth_climber self = {.ask = ask};
    berth_lack lack = berth_store_query_lack(store, &self, 0);
    if (berth_lack_is_none(&lack)) return BERTH_OK;
    const bool is_possible = berth_store_is_possible(store, ask);
    if (is_possible) {
        lack = climb_for(store, &self, &climb);
        if (berth_lack_is_none(&lack)) return BERTH_OK;
    }
    store->stats.failures++;
    berth_tenant_note_refusal(ask->account, ask->bytes, !is_possible, &lack);
    berth_store_note_use(store, ask->account.tenant);
    const berth_store_stats seen = store->stats;
    const berth_tenant tenant =
        ask->account.tenant != NULL ? *ask->account.tenant : (berth_tenant){0};
    berth_mutex_unlock(store->lock);
    return berth_store_report_shortage(
        &seen, ask->account.tenant != NULL ? &tenant : NULL, ask, &climb);
}

void berth_store_add_reclaimer(berth_store* store, berth_reclaimer* reclaimer) {
    berth_mutex_lock(store->lock);
    reclaimer->id = ((uint64_t)reclaimer->rung << RUNG_SHIFT) + ++store->next_id;
    berth_reclaimer** link = &store->reclaimers;
    while (*link != NULL && (*link)->id < reclaimer->id)
        link = &(*link)->next;
    reclaimer->next = *link;
    *link = reclaimer;
    berth_mutex_unlock(store->lock);
}

static bool is_being_called(const berth_store* store, const berth_reclaimer* reclaimer) {
    for (const berth_climber* at = store->climbers; at != NULL; at = at->next) {
        if (at->at == reclaimer) return true;
    }
    return false;
}

void berth_store_remove_reclaimer(berth_store* store, berth_reclaimer* reclaimer) {
    berth_mutex_lock(store->lock);
    berth_reclaimer** link = &store->reclaimers;
    while (*link != NULL && *link != reclaimer)
        link = &(*link)->next;
    if (*link != NULL) *link = reclaimer->next;
    while (is_being_called(store, reclaimer))
        berth_cond_wait(&store->eased, store->lock);
    berth_mutex_unlock(store->lock);
}
