// SPDX-License-Identifier: Apache-2.0
// Tenants of the page store: quotas, shares, what they leave to whom, and watermarks on what all
// use together. Every answer takes a few additions: what the tenants' shares keep back is summed up
// as their use changes.
#include "memory/page_store_internal.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/numbers.h"

#include <inttypes.h>

static uint64_t missing(uint64_t wanted, uint64_t there) {
    return wanted > there ? wanted - there : 0;
}

static uint64_t used_by(const berth_tenant* tenant) {
    return tenant->mapped_bytes + tenant->reserved_bytes;
}

/// What is kept for a tenant that uses less than its share.
static uint64_t kept_for(const berth_tenant* tenant) {
    return tenant == NULL ? 0 : missing(tenant->share_bytes, used_by(tenant));
}

uint64_t berth_store_free_bytes(const berth_store_stats* stats) {
    return stats->capacity_bytes - stats->mapped_bytes - stats->reserved_bytes +
           stats->mapped_by_owner[BERTH_OWNER_AHEAD];
}

/// What is free, kept for nobody, and claimed by nobody but `climber` (NULL: nobody).
static uint64_t common_for(const berth_store* store, const berth_climber* climber) {
    const uint64_t own = climber != NULL ? climber->claimed_bytes : 0;
    const uint64_t taken = store->stats.shares_bytes + store->claimed_bytes - own;
    BERTH_CHECK(2, taken <= berth_store_free_bytes(&store->stats));
    return berth_store_free_bytes(&store->stats) - taken;
}

/// The same of what an owner has and is promised: of its quota so much is used.
static uint64_t owned_for(const berth_store* store,
                          berth_owner owner,
                          const berth_climber* climber) {
    const uint64_t own = climber != NULL ? climber->claimed_owner_bytes : 0;
    return store->stats.mapped_by_owner[owner] + store->stats.reserved_by_owner[owner] +
           store->claimed_by_owner[owner] - own;
}

/// What a request needs of what is kept for nobody.
static uint64_t common_need(const berth_ask* ask) {
    const uint64_t need = missing(ask->new_bytes, kept_for(ask->account.tenant));
    return need > ask->shared_bytes ? need : ask->shared_bytes;
}

void berth_tenant_change(berth_store* store,
                         berth_tenant* tenant,
                         uint64_t mapped,
                         uint64_t unmapped,
                         uint64_t promised,
                         uint64_t unpromised) {
    if (tenant == NULL) return;
    BERTH_CHECK(2, tenant->mapped_bytes + mapped >= unmapped);
    BERTH_CHECK(2, tenant->reserved_bytes + promised >= unpromised);
    store->stats.shares_bytes -= kept_for(tenant);
    tenant->mapped_bytes += mapped - unmapped;
    tenant->reserved_bytes += promised - unpromised;
    store->stats.shares_bytes += kept_for(tenant);
}

void berth_store_note_use(berth_store* store, berth_tenant* tenant) {
    if (store->marks.high_bytes == 0) return;
    berth_watermarks_note(&store->marks,
                          store->stats.capacity_bytes - berth_store_free_bytes(&store->stats));
    if (berth_watermarks_has_news(&store->marks) && tenant != NULL && tenant->bell != NULL)
        atomic_store_explicit(tenant->bell, true, memory_order_relaxed);
}

void berth_tenant_note_refusal(berth_account account,
                               uint64_t bytes,
                               bool is_final,
                               const berth_lack* lack) {
    berth_tenant* tenant = account.tenant;
    if (tenant == NULL) return;
    tenant->refusals++;
    tenant->refused_bytes = bytes;
    tenant->is_refusal_final = is_final;
    tenant->was_capacity_short = lack->capacity > 0;
    tenant->was_quota_short = lack->tenant > 0;
    tenant->refused_owner = lack->owner > 0 ? account.owner : BERTH_OWNER_COUNT;
}

void berth_store_set_watermarks(berth_store* store, uint64_t high_bytes, uint64_t low_bytes) {
    BERTH_CHECK(1, low_bytes < high_bytes);
    store->marks = (berth_watermarks){.high_bytes = high_bytes, .low_bytes = low_bytes};
}

size_t berth_store_take_crossings(berth_store* store,
                                  berth_crossing out_crossings[BERTH_CROSSINGS_MOST]) {
    berth_mutex_lock(store->lock);
    const size_t count = berth_watermarks_take(&store->marks, out_crossings);
    berth_mutex_unlock(store->lock);
    return count;
}

bool berth_store_end_telling(berth_store* store) {
    berth_mutex_lock(store->lock);
    berth_watermarks_end_telling(&store->marks);
    const bool has_news = berth_watermarks_has_news(&store->marks);
    berth_mutex_unlock(store->lock);
    return has_news;
}

berth_lack berth_store_query_lack(const berth_store* store,
                                  const berth_climber* climber,
                                  uint64_t given_bytes) {
    const berth_ask* ask = climber->ask;
    const berth_tenant* tenant = ask->account.tenant;
    const berth_owner owner = ask->account.owner;
    berth_lack lack = {
        .capacity = missing(common_need(ask), common_for(store, climber)),
        .system = missing(ask->system_bytes, given_bytes),
    };
    if (tenant != NULL)
        lack.tenant =
            missing(berth_add_saturated_u64(used_by(tenant), ask->new_bytes), tenant->quota_bytes);
    const uint64_t owned = owned_for(store, owner, climber);
    lack.owner = missing(berth_add_saturated_u64(owned, ask->owner_bytes),
                         store->stats.quota_by_owner[owner]);
    // a quota that was lowered below what is used stands in nobody's way who wants nothing
    if (ask->new_bytes == 0) lack.tenant = 0;
    if (ask->owner_bytes == 0) lack.owner = 0;
    return lack;
}

static void set_claims(berth_store* store, berth_climber* climber, uint64_t bytes, uint64_t owned) {
    const berth_owner owner = climber->ask->account.owner;
    store->claimed_bytes += bytes - climber->claimed_bytes;
    store->claimed_by_owner[owner] += owned - climber->claimed_owner_bytes;
    climber->claimed_bytes = bytes;
    climber->claimed_owner_bytes = owned;
}

void berth_store_claim(berth_store* store, berth_climber* climber) {
    const berth_ask* ask = climber->ask;
    const berth_lack lack = berth_store_query_lack(store, climber, 0);
    // a quota that was lowered may lack more than what is asked for
    set_claims(
        store, climber, common_need(ask) - lack.capacity, missing(ask->owner_bytes, lack.owner));
}

void berth_store_disclaim(berth_store* store, berth_climber* climber) {
    set_claims(store, climber, 0, 0);
}

bool berth_store_is_possible(const berth_store* store, const berth_ask* ask) {
    const berth_tenant* tenant = ask->account.tenant;
    return ask->new_bytes <= store->stats.capacity_bytes &&
           ask->shared_bytes <= store->stats.capacity_bytes &&
           (tenant == NULL || ask->new_bytes <= tenant->quota_bytes) &&
           ask->owner_bytes <= store->stats.quota_by_owner[ask->account.owner];
}

void berth_store_add_tenant(berth_store* store, berth_tenant* tenant) {
    *tenant = (berth_tenant){.quota_bytes = BERTH_QUOTA_NONE};
    berth_mutex_lock(store->lock);
    store->tenant_count++;
    berth_mutex_unlock(store->lock);
}

static void change_share(berth_store* store, berth_tenant* tenant, uint64_t share) {
    store->stats.shares_bytes -= kept_for(tenant);
    store->stats.guaranteed_bytes += share - tenant->share_bytes;
    tenant->share_bytes = share;
    store->stats.shares_bytes += kept_for(tenant);
    BERTH_CHECK(2, store->stats.shares_bytes <= berth_store_free_bytes(&store->stats));
}

/// What is to be kept back beyond what is, if `tenant` gets `share`.
static uint64_t growth_of(const berth_tenant* tenant, uint64_t share) {
    return missing(missing(share, used_by(tenant)), kept_for(tenant));
}

void berth_store_remove_tenant(berth_store* store, berth_tenant* tenant) {
    berth_mutex_lock(store->lock);
    BERTH_CHECK(2, tenant->reserved_bytes == 0);
    change_share(store, tenant, 0);
    store->tenant_count--;
    berth_mutex_unlock(store->lock);
}

berth_status berth_store_set_tenant_quota(berth_store* store,
                                          berth_tenant* tenant,
                                          uint64_t bytes) {
    berth_mutex_lock(store->lock);
    const uint64_t share = tenant->share_bytes;
    if (bytes >= share) tenant->quota_bytes = bytes;
    berth_mutex_unlock(store->lock);
    if (bytes >= share) return BERTH_OK;
    return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                      "a quota of %" PRIu64 " bytes is below the context's share of %" PRIu64,
                      bytes,
                      share);
}

/// What is wrong with a share in itself. The lock is held.
static berth_status check_share(const berth_store* store,
                                const berth_tenant* tenant,
                                uint64_t share) {
    if (share > tenant->quota_bytes)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "a share of %" PRIu64 " bytes is above the context's quota of %" PRIu64,
                          share,
                          tenant->quota_bytes);
    const uint64_t others = store->stats.guaranteed_bytes - tenant->share_bytes;
    if (share <= store->stats.capacity_bytes - others) return BERTH_OK;
    return berth_fail(BERTH_ERR_OUT_OF_MEMORY,
                      "a share of %" PRIu64 " bytes and those of other contexts, %" PRIu64
                      ", are more than the capacity (BERTH_MEMORY) of %" PRIu64,
                      share,
                      others,
                      store->stats.capacity_bytes);
}

berth_status berth_store_set_tenant_share(berth_store* store,
                                          berth_tenant* tenant,
                                          uint64_t bytes) {
    uint64_t share;
    if (!berth_try_round_up(bytes, store->device->granule_bytes, &share))
        share = bytes; // more than any capacity
    berth_ask ask = {.account = {.store = store, .tenant = tenant, .owner = BERTH_OWNER_POOL}};
    berth_mutex_lock(store->lock);
    berth_status status = check_share(store, tenant, share);
    // while the ladder is climbed without the lock the tenant's own memory may go back: the share
    // must then keep as much more, until nothing more goes
    for (uint64_t more = growth_of(tenant, share); status == BERTH_OK && more > ask.shared_bytes;
         more = growth_of(tenant, share)) {
        ask.bytes = ask.shared_bytes = more;
        BERTH_TRY(berth_store_find(store, &ask));
        status = check_share(store, tenant, share);
    }
    if (status == BERTH_OK) change_share(store, tenant, share);
    berth_mutex_unlock(store->lock);
    return status;
}

void berth_store_set_owner_quota(berth_store* store, berth_owner owner, uint64_t bytes) {
    berth_mutex_lock(store->lock);
    store->stats.quota_by_owner[owner] = bytes;
    berth_mutex_unlock(store->lock);
}

uint64_t berth_store_query_room(berth_account account) {
    berth_store* store = account.store;
    berth_mutex_lock(store->lock);
    const berth_tenant* tenant = account.tenant;
    uint64_t room = common_for(store, NULL) + kept_for(tenant);
    if (tenant != NULL) {
        const uint64_t left = missing(tenant->quota_bytes, used_by(tenant));
        if (left < room) room = left;
    }
    const uint64_t owned = owned_for(store, account.owner, NULL);
    const uint64_t left = missing(store->stats.quota_by_owner[account.owner], owned);
    if (left < room) room = left;
    berth_mutex_unlock(store->lock);
    return berth_round_down(room, store->device->granule_bytes);
}

berth_tenant berth_store_query_tenant(const berth_store* store, const berth_tenant* tenant) {
    berth_mutex_lock(store->lock);
    const berth_tenant copy = *tenant;
    berth_mutex_unlock(store->lock);
    return copy;
}
