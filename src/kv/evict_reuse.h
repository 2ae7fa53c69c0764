// SPDX-License-Identifier: Apache-2.0
// Eviction by reuse: the block goes that is least likely to be found soon, as learned from blocks
// like it.
//
// A block is of a class by what is known of it when it is let go: how often it has been found, how
// deep it lies, whether it ended its prompt, and whether its tenant's blocks are found less than
// others'. Time goes by in epochs, sixteen of them for as many uses as there are blocks. Counted
// are, for each class and age, the blocks alive and those found again; blocks evicted lately count,
// too, so that what comes back too late is seen. That gives the chance to be found at an age, as
// it is shared by classes found as often, and the factor by which a class differs from that. What
// was seen in few requests weighs little.
//
// Two things keep this from being worse than the order of last uses. A block goes before an older
// one only if the older one is worth clearly more. And it is known what the order of last uses
// would have found: from the number of blocks used since, whatever became of them. If that is more,
// it decides again for a while, which doubles each time.
//
// All counts fade, so that what is learned follows the load; memory and work are bounded.
#ifndef BERTH_KV_EVICT_REUSE_H
#define BERTH_KV_EVICT_REUSE_H

#include "kv/prefix_internal.h"

enum {
    BERTH_EVICT_USES = 4,   ///< never found, once, two or three times, more often
    BERTH_EVICT_DEPTHS = 8, ///< 0, 1, 2 and 3, 4 to 7, ...
    BERTH_EVICT_KINDS = 32, ///< classes with the same uses
    BERTH_EVICT_CLASSES = 128,
    BERTH_EVICT_AGES = 80,   ///< in epochs; the last one stands for all older ones
    BERTH_EVICT_TURN = 16,   ///< epochs of as many uses as there are blocks
    BERTH_EVICT_TENANTS = 64 ///< tenants told apart, by their hash
};

/// The note of a block that is not counted: held since it was found or became known.
#define BERTH_EVICT_UNSEEN UINT32_MAX

/// A tenant's blocks, or all of them, fading.
typedef struct berth_evict_tenant {
    double found;
    double let_go;
} berth_evict_tenant;

/// What this policy found or missed that the order of last uses would not have; fading.
typedef struct berth_evict_contest {
    double gained; ///< blocks
    double lost;
    double spread; ///< squares of requests' differences
    bool is_open;  ///< this policy decides, not the order of last uses
    uint64_t retry_at;
    uint64_t pause; ///< until the next try
} berth_evict_contest;

/// Blocks of the prompt that is being served.
typedef struct berth_evict_prompt {
    uint32_t found; ///< again, in time or too late
    uint32_t gained;
    uint32_t lost;
} berth_evict_prompt;

struct berth_evict_reuse {
    uint32_t oldest[BERTH_EVICT_CLASSES];                  ///< heaps of evictable blocks
    uint32_t alive[BERTH_EVICT_CLASSES][BERTH_EVICT_AGES]; ///< by epoch of use, as a ring
    uint32_t old[BERTH_EVICT_CLASSES];                     ///< those of epochs before
    float value[BERTH_EVICT_CLASSES][BERTH_EVICT_AGES];    ///< chance to be found soon
    double found[BERTH_EVICT_CLASSES];
    double expected[BERTH_EVICT_CLASSES]; ///< to be found, if all classes were alike
    double found_at[BERTH_EVICT_USES][BERTH_EVICT_AGES];
    double alive_at[BERTH_EVICT_USES][BERTH_EVICT_AGES]; ///< blocks times epochs
    double found_blocks;
    double finding_prompts; ///< requests in which they were found
    uint32_t epoch;
    uint64_t epoch_began; ///< all times: of the index's clock
    uint64_t lru_age;     ///< the order of last uses would have evicted what is older
    berth_evict_tenant tenants[BERTH_EVICT_TENANTS];
    berth_evict_tenant all_tenants;
    berth_evict_contest contest;
    berth_evict_prompt prompt;
};

/// Gives `index` its state; false if there is no memory.
bool berth_evict_reuse_open(berth_prefix_index* index);

/// Ends an epoch of `ticks`: learns from what was seen. `blocks` are those that are not held.
void berth_evict_learn(berth_evict_reuse* state, uint64_t ticks, double blocks);

/// Every counted block is counted once, and every evictable one lies in its class. For tests.
bool berth_evict_reuse_is_valid(const berth_prefix_index* index);

#endif // BERTH_KV_EVICT_REUSE_H
