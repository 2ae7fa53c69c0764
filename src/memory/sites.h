// SPDX-License-Identifier: Apache-2.0
// How long values live, learned for each site: the place in a program that asks for them, named by
// 64 opaque bits that are compared in full. A table of fixed size; the least valuable sites make
// room. Not thread-safe.
//
// L1: a site's number is never the number of another site, also after it has been evicted.
// L2: a lifetime is predicted only where at least two of the last observations, and three quarters
//     of them, agree.
#ifndef BERTH_MEMORY_SITES_H
#define BERTH_MEMORY_SITES_H

#include "base/host.h"

#include <stdatomic.h>
#include <stdbool.h>

/// How long a block lives, as far as placement can make use of it.
typedef enum berth_lifetime {
    BERTH_LIFETIME_UNKNOWN, ///< not known; of free memory: nobody's
    BERTH_LIFETIME_SHORT,
    BERTH_LIFETIME_MEDIUM,
    BERTH_LIFETIME_LONG,
    BERTH_LIFETIME_COUNT
} berth_lifetime;

/// The lifetime of a block that lived (or has lived so far) for `takes` takes of its pool and over
/// `steps` ends of steps.
static inline berth_lifetime berth_lifetime_of(uint32_t takes, uint32_t steps) {
    const uint32_t short_takes = 64, medium_takes = 2048, medium_steps = 1;
    if (takes >= medium_takes || steps > medium_steps) return BERTH_LIFETIME_LONG;
    return takes < short_takes && steps == 0 ? BERTH_LIFETIME_SHORT : BERTH_LIFETIME_MEDIUM;
}

#define BERTH_SITES 1024u    ///< sites known at most
#define BERTH_SITES_A_SET 8u ///< a site's name decides among how many it may stand
#define BERTH_SITE_SETS (BERTH_SITES / BERTH_SITES_A_SET)

typedef struct berth_site {
    uint64_t name;
    uint32_t turn;                      ///< how many sites have stood here; 0: none yet
    uint8_t worth;                      ///< uses, halved now and then
    uint8_t believed;                   ///< the lifetime predicted for its next block
    uint8_t seen[BERTH_LIFETIME_COUNT]; ///< the last observations, weighted
} berth_site;

typedef struct berth_sites {
    const berth_host* host; ///< borrowed
    berth_site* sites;      ///< [BERTH_SITES]
    // Written by one thread at a time, read by any.
    _Atomic uint64_t predictions;     ///< blocks for which a lifetime was predicted
    _Atomic uint64_t right;           ///< of them, that lived as predicted
    _Atomic uint64_t wrong;           ///< that did not, or have already lived longer
    uint8_t evicted[BERTH_SITE_SETS]; ///< sites forgotten of each set, modulo 2^8
    uint64_t evictions;               ///< sites forgotten for others
} berth_sites;

/// Errors: BERTH_ERR_OUT_OF_MEMORY (host memory).
BERTH_NODISCARD berth_status berth_sites_init(berth_sites* sites, const berth_host* host);
void berth_sites_fini(berth_sites* sites);

/// The number of the site called `name`, which is known from now on, and the lifetime predicted for
/// a block of it that is taken now. A `name` of 0 gives 0 and predicts nothing.
uint32_t berth_sites_predict(berth_sites* sites, uint64_t name, berth_lifetime* out_lifetime);
/// Tells that a block of the site `number` lived like `seen`, or does so already. `predicted` is
/// what was predicted for it, or unknown if nothing was or that has been judged. A site that was
/// evicted meanwhile learns nothing.
void berth_sites_learn(berth_sites* sites,
                       uint32_t number,
                       berth_lifetime predicted,
                       berth_lifetime seen);

#endif // BERTH_MEMORY_SITES_H
