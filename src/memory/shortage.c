// SPDX-License-Identifier: Apache-2.0
// What a refusal says: the numbers, what stands in the way, and what the ladder brought.
#include "memory/page_store_internal.h"

#include "base/error.h"
#include "base/text.h"

#include <inttypes.h>

#define NAME(id, name) name,
static const char* const owner_names[BERTH_OWNER_COUNT] = {BERTH_OWNER_MAP(NAME)};
static const char* const rung_names[BERTH_RUNG_COUNT] = {BERTH_RUNG_MAP(NAME)};
#undef NAME

/// Adds "2.00 MiB".
static void add_size(berth_text* text, uint64_t bytes) {
    static const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024.0 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024.0;
        unit++;
    }
    berth_text_add(text, unit == 0 ? "%.0f %s" : "%.2f %s", value, units[unit]);
}

static void add_named(berth_text* text, const char* before, uint64_t bytes) {
    berth_text_add(text, "%s ", before);
    add_size(text, bytes);
}

/// Adds ": frames 2.00 MiB, pool 4.00 MiB of a quota of 8.00 MiB" for the owners that hold
/// something.
static void add_owners(berth_text* text, const berth_store_stats* stats) {
    const char* before = ":";
    for (int owner = 0; owner < BERTH_OWNER_COUNT; owner++) {
        if (stats->mapped_by_owner[owner] == 0) continue;
        berth_text_add(text, "%s ", before);
        add_named(text, owner_names[owner], stats->mapped_by_owner[owner]);
        const uint64_t quota = stats->quota_by_owner[owner];
        if (quota != BERTH_QUOTA_NONE) add_named(text, " of a quota of", quota);
        before = ",";
    }
}

/// Adds the quota of the request's owner if it stands in the way.
static void add_owner_limit(berth_text* text,
                            const berth_store_stats* stats,
                            const berth_ask* ask) {
    const berth_owner owner = ask->account.owner;
    const uint64_t owned = stats->mapped_by_owner[owner] + stats->reserved_by_owner[owner];
    const uint64_t quota = stats->quota_by_owner[owner];
    if (quota == BERTH_QUOTA_NONE || (owned <= quota && ask->owner_bytes <= quota - owned)) return;
    berth_text_add(text, ", quota of %s ", owner_names[owner]);
    add_size(text, quota);
}

/// Adds what a tenant may have and does, its quota first if that stands in the way.
static void add_tenant(berth_text* text, const berth_tenant* tenant, const berth_ask* ask) {
    const uint64_t quota = tenant->quota_bytes;
    const uint64_t used = tenant->mapped_bytes + tenant->reserved_bytes;
    if (quota != BERTH_QUOTA_NONE && (used > quota || ask->new_bytes > quota - used)) {
        add_named(text, ", quota of this context", quota);
        add_named(text, ", of which it uses", used);
    } else if (quota != BERTH_QUOTA_NONE || tenant->share_bytes > 0) {
        add_named(text, ", used by this context", used);
        if (quota != BERTH_QUOTA_NONE) add_named(text, " of a quota of", quota);
    }
    if (tenant->share_bytes > 0) add_named(text, ", its share", tenant->share_bytes);
}

static void add_rungs(berth_text* text, const berth_climb* climb) {
    const char* before = "; asked for idle memory: ";
    for (int rung = 0; rung < BERTH_RUNG_COUNT; rung++) {
        if (climb->places_by_rung[rung] == 0) continue;
        berth_text_add(text, "%s%s gave ", before, rung_names[rung]);
        add_size(text, climb->given_by_rung[rung]);
        before = ", ";
    }
}

berth_status berth_store_report_shortage(const berth_store_stats* stats,
                                         const berth_tenant* tenant,
                                         const berth_ask* ask,
                                         const berth_climb* climb) {
    char buffer[640];
    berth_text text = {.buffer = buffer, .size = sizeof buffer};
    add_size(&text, ask->bytes);
    berth_text_add(&text, " needed (%" PRIu64 " bytes)", ask->bytes);
    add_named(&text, ", capacity", stats->capacity_bytes);
    berth_text_add(&text, " (BERTH_MEMORY)");
    add_named(&text, ", mapped", stats->mapped_bytes);
    add_owners(&text, stats);
    add_named(&text, ", promised", stats->reserved_bytes);
    add_named(&text, ", unused", berth_store_free_bytes(stats));
    add_owner_limit(&text, stats, ask);
    if (tenant != NULL) add_tenant(&text, tenant, ask);
    if (stats->shares_bytes > 0) add_named(&text, ", kept for contexts", stats->shares_bytes);
    add_rungs(&text, climb);
    return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "%s", buffer);
}

berth_status berth_store_refuse(berth_account account, uint64_t bytes) {
    berth_store* store = account.store;
    const berth_ask ask = {.account = account, .bytes = bytes};
    const berth_climb climb = {0};
    berth_mutex_lock(store->lock);
    store->stats.failures++;
    berth_tenant_note_refusal(account, bytes, true, &(berth_lack){.capacity = bytes});
    const berth_store_stats seen = store->stats;
    berth_mutex_unlock(store->lock);
    return berth_store_report_shortage(&seen, NULL, &ask, &climb);
}

void berth_store_excuse_refusal(berth_store* store, berth_tenant* tenant) {
    berth_mutex_lock(store->lock);
    BERTH_CHECK(1, tenant->refusals > 0 && store->stats.failures > 0);
    tenant->refusals--;
    store->stats.failures--;
    berth_mutex_unlock(store->lock);
}
