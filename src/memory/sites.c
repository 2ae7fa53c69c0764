// SPDX-License-Identifier: Apache-2.0
// The table of sites: sets of a few places each, as in a processor's cache.
#include "memory/sites.h"

#include "base/error.h"

#include <string.h>

/// Low bits of a site's number: its place. Those above are its turn there.
#define PLACE_BITS 10u
#define TURN_MASK (UINT32_MAX >> PLACE_BITS)
#define WORTH_LIMIT 255u
/// Evictions from a set after which the worth of all in it is halved.
#define EVICTIONS_A_HALVING 32u
/// Observations of one kind that a site remembers.
#define SEEN_LIMIT 32u
/// L2.
#define LEAST_SEEN 2u

_Static_assert(BERTH_SITES == 1u << PLACE_BITS, "a site's place fills the low bits of its number");

berth_status berth_sites_init(berth_sites* sites, const berth_host* host) {
    *sites = (berth_sites){.host = host};
    sites->sites = berth_host_calloc(host, BERTH_SITES, sizeof *sites->sites);
    if (sites->sites != NULL) return BERTH_OK;
    return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for the lifetimes of a pool");
}

void berth_sites_fini(berth_sites* sites) { berth_host_free(sites->host, sites->sites); }

/// Names are somebody's hashes, maybe poor ones.
static berth_site* set_of(const berth_sites* sites, uint64_t name) {
    const uint64_t mixed = (name ^ name >> 32) * UINT64_C(0x9E3779B97F4A7C15);
    return &sites->sites[(mixed >> 32) % BERTH_SITE_SETS * BERTH_SITES_A_SET];
}

/// An empty place of the set, or that whose site is worth least. Those that stay lose half of their
/// worth now and then, so that a site of yesterday goes at last, and a flood of new ones displaces
/// mostly itself.
static berth_site* evict(berth_sites* sites, berth_site* set) {
    berth_site* least = set;
    for (uint32_t i = 0; i < BERTH_SITES_A_SET; i++) {
        if (set[i].turn == 0) return &set[i];
        if (set[i].worth < least->worth) least = &set[i];
    }
    sites->evictions++;
    uint8_t* evicted = &sites->evicted[(uint32_t)(set - sites->sites) / BERTH_SITES_A_SET];
    if (++*evicted % EVICTIONS_A_HALVING == 0) {
        for (uint32_t i = 0; i < BERTH_SITES_A_SET; i++)
            set[i].worth /= 2;
    }
    return least;
}

static berth_site* find(berth_sites* sites, uint64_t name) {
    berth_site* set = set_of(sites, name);
    for (uint32_t i = 0; i < BERTH_SITES_A_SET; i++) {
        if (set[i].name != name) continue;
        if (set[i].worth < WORTH_LIMIT) set[i].worth++;
        return &set[i];
    }
    berth_site* site = evict(sites, set);
    // 22 bits of turns: a block would have to outlive four million sites of this place
    const uint32_t turn = site->turn % TURN_MASK + 1;
    *site = (berth_site){.name = name, .turn = turn};
    return site;
}

/// L2.
static berth_lifetime belief(const berth_site* site) {
    uint32_t best = BERTH_LIFETIME_SHORT, all = 0;
    for (uint32_t i = BERTH_LIFETIME_SHORT; i < BERTH_LIFETIME_COUNT; i++) {
        all += site->seen[i];
        if (site->seen[i] > site->seen[best]) best = i;
    }
    const bool agree = site->seen[best] >= LEAST_SEEN && site->seen[best] * 4u >= all * 3u;
    return agree ? (berth_lifetime)best : BERTH_LIFETIME_UNKNOWN;
}

uint32_t berth_sites_predict(berth_sites* sites, uint64_t name, berth_lifetime* out_lifetime) {
    *out_lifetime = BERTH_LIFETIME_UNKNOWN;
    if (name == 0) return 0;
    const berth_site* site = find(sites, name);
    *out_lifetime = (berth_lifetime)site->believed;
    return site->turn << PLACE_BITS | (uint32_t)(site - sites->sites);
}

/// Remembers one more observation; older ones fade.
static void observe(berth_site* site, berth_lifetime seen) {
    if (++site->seen[seen] >= SEEN_LIMIT) {
        for (uint32_t i = BERTH_LIFETIME_SHORT; i < BERTH_LIFETIME_COUNT; i++)
            site->seen[i] /= 2;
    }
    // what agrees does not shake a belief
    if (site->believed != seen) site->believed = (uint8_t)belief(site);
}

/// Adds one without a locked instruction.
static void count(_Atomic uint64_t* number) {
    const uint64_t now = atomic_load_explicit(number, memory_order_relaxed) + 1;
    atomic_store_explicit(number, now, memory_order_relaxed);
}

void berth_sites_learn(berth_sites* sites,
                       uint32_t number,
                       berth_lifetime predicted,
                       berth_lifetime seen) {
    if (number == 0) return;
    const bool was_wrong = predicted != BERTH_LIFETIME_UNKNOWN && predicted != seen;
    if (predicted == seen) count(&sites->right);
    if (was_wrong) count(&sites->wrong);
    berth_site* site = &sites->sites[number % BERTH_SITES];
    if (site->turn != number >> PLACE_BITS) return;
    // a site that changes its ways is believed less at once, not after as many blocks as before
    if (was_wrong) site->seen[predicted] /= 2;
    observe(site, seen);
}
