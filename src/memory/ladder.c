// SPDX-License-Identifier: Apache-2.0
// Climbing: places are asked rung by rung, without the store's lock, until nothing is missing.
#include "memory/ladder.h"

#include "memory/page_store_internal.h"

/// A place's id has its rung above so many bits of its number.
#define RUNG_SHIFT 48

static berth_reclaimer* first_after(const berth_store* store, uint64_t id) {
    berth_reclaimer* place = store->reclaimers;
    while (place != NULL && place->id <= id)
        place = place->next;
    return place;
}

/// Calls one reclaimer without the lock. Locked before and after.
static uint64_t call_place(berth_store* store,
                           berth_reclaimer* place,
                           const berth_tenant* climber,
                           uint64_t wanted) {
    berth_climber self = {.next = store->climbers, .at = place};
    store->climbers = &self;
    berth_mutex_unlock(store->lock);
    const uint64_t given = place->reclaim(place->self, climber, wanted);
    berth_mutex_lock(store->lock);
    berth_climber** link = &store->climbers;
    while (*link != &self)
        link = &(*link)->next;
    *link = self.next;
    berth_cond_broadcast(&store->place_left);
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

void berth_store_climb(berth_store* store, const berth_ask* ask, berth_climb* climb) {
    store->stats.reclaims++;
    uint64_t id = 0;
    for (;;) {
        const berth_lack lack = berth_store_query_lack(store, ask, climb->given_bytes);
        if (berth_lack_is_none(&lack)) return;
        berth_reclaimer* place = first_after(store, id);
        if (place == NULL) return;
        id = place->id;
        const uint64_t wanted = wanted_of(place, ask, &lack);
        if (wanted == 0) continue;
        const berth_rung rung = place->rung; // the place may be gone after the call
        const uint64_t given = call_place(store, place, ask->account.tenant, wanted);
        climb->given_bytes += given;
        climb->given_by_rung[rung] += given;
        climb->places_by_rung[rung]++;
    }
}

/// Whether any of the first `number` unmaps is still under way.
static bool is_unmapping(const berth_store* store, uint64_t number) {
    for (const berth_unmapping* at = store->unmappings; at != NULL; at = at->next) {
        if (at->number <= number) return true;
    }
    return false;
}

/// What is missing once other threads have given back what they are just giving back; they wait for
/// nobody who waits here. Locked before and after.
static berth_lack wait_for_unmaps(berth_store* store, const berth_ask* ask, uint64_t given_bytes) {
    const uint64_t begun = store->unmaps;
    berth_lack lack = berth_store_query_lack(store, ask, given_bytes);
    while (!berth_lack_is_none(&lack) && is_unmapping(store, begun)) {
        berth_cond_wait(&store->unmapped, store->lock);
        lack = berth_store_query_lack(store, ask, given_bytes);
    }
    return lack;
}

berth_status berth_store_find(berth_store* store, const berth_ask* ask) {
    berth_climb climb = {0};
    berth_lack lack = berth_store_query_lack(store, ask, 0);
    if (berth_lack_is_none(&lack)) return BERTH_OK;
    const bool is_possible = berth_store_is_possible(store, ask);
    if (is_possible) {
        berth_store_climb(store, ask, &climb);
        lack = wait_for_unmaps(store, ask, climb.given_bytes);
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
        berth_cond_wait(&store->place_left, store->lock);
    berth_mutex_unlock(store->lock);
}
