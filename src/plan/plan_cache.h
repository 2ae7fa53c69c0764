// SPDX-License-Identifier: Apache-2.0
// The plans and placements of one step, bounded in bytes and in number (P4). What is least worth
// keeping (cost of making it times its hits, which fade) goes first.
#ifndef BERTH_PLAN_PLAN_CACHE_H
#define BERTH_PLAN_PLAN_CACHE_H

#include "plan/plan.h"

typedef enum berth_cache_kind {
    BERTH_CACHE_PLAN,      ///< a plan, keyed by the upper ends of a bucket
    BERTH_CACHE_PLACEMENT, ///< a placement, keyed by the shape rounded up to the quantum
    BERTH_CACHE_SEED, ///< a packing in a file, not verified yet, keyed as the plan it may become
    BERTH_CACHE_KIND_COUNT,
} berth_cache_kind;

/// A key, compared in full (P3): what the path's symbols are, in order.
typedef struct berth_cache_key {
    berth_cache_kind kind;
    uint32_t path;
    uint32_t count;
    const int64_t* values; ///< [count]; copied on insertion
} berth_cache_key;

/// A packing that another process has made.
typedef struct berth_plan_seed {
    const unsigned char* offsets; ///< u64 [value_count], little-endian; borrowed from the file
    berth_plan_tier tier;
} berth_plan_seed;

typedef struct berth_cache_entry berth_cache_entry;

/// A plan, or a seed, as it is shown to berth_plan_cache_visit's caller.
typedef struct berth_cache_item {
    const int64_t* values; ///< [count] of its key
    uint32_t count;
    uint64_t cost;
    uint64_t hits;
    const berth_plan* plan;      ///< NULL for a seed
    const berth_plan_seed* seed; ///< NULL for a plan
} berth_cache_item;

/// A zeroed struct with a host is an empty cache.
typedef struct berth_plan_cache {
    const berth_host* host;
    berth_cache_entry** slots; ///< [slot_count], a power of two; chains
    size_t slot_count;
    size_t entry_count;
    uint64_t limit_bytes;
    uint64_t limit_entries; ///< 0: none but the bytes
    uint64_t bytes;
    uint64_t clock;
    size_t evicted_since_fade;
    size_t hand; ///< slot where the next eviction looks
    uint64_t live[BERTH_CACHE_KIND_COUNT];
    uint64_t evicted[BERTH_CACHE_KIND_COUNT]; ///< for want of room only
    /// [BERTH_CACHE_GHOSTS] hashes of plans that are gone, by hash, with the reason in the lowest
    /// bit; NULL until the first one goes.
    uint64_t* ghosts;
} berth_plan_cache;

/// Plans that are gone of which the cache knows why. The newest of one slot counts.
#define BERTH_CACHE_GHOSTS 512u

void berth_plan_cache_fini(berth_plan_cache* self);

/// The plan or placement at `key`, borrowed until the next insertion or drop; NULL: none.
/// With `count_hit` the entry is worth more, and so is the plan behind a placement.
berth_plan* berth_plan_cache_find_plan(berth_plan_cache* self,
                                       const berth_cache_key* key,
                                       bool count_hit);
berth_plan_placement* berth_plan_cache_find_placement(berth_plan_cache* self,
                                                      const berth_cache_key* key,
                                                      bool count_hit);

/// Keeps `plan` (then owned) or a reference to `placement`, evaluated from the plan at `plan_key`.
/// `cost` is the time it took, in any unit that is the same for all. False: no room or no memory;
/// then nothing is kept.
bool berth_plan_cache_insert_plan(berth_plan_cache* self,
                                  const berth_cache_key* key,
                                  berth_plan* plan,
                                  uint64_t cost);
bool berth_plan_cache_insert_placement(berth_plan_cache* self,
                                       const berth_cache_key* key,
                                       const berth_cache_key* plan_key,
                                       berth_plan_placement* placement,
                                       uint64_t cost);

/// Keeps `seed` for the plan at `key`, which took `cost` and was used `hits` times. Nothing happens
/// without room or memory.
void berth_plan_cache_insert_seed(berth_plan_cache* self,
                                  const berth_cache_key* key,
                                  const berth_plan_seed* seed,
                                  uint64_t cost,
                                  uint64_t hits);
/// The seed of the plan at `key`, borrowed as above; NULL: none.
const berth_plan_seed* berth_plan_cache_find_seed(berth_plan_cache* self,
                                                  const berth_cache_key* key);
/// Puts `plan`, made from the seed at `key`, in its place. With NULL the seed was no good, and is
/// dropped. False: the plan is not kept, as berth_plan_cache_insert_plan says.
bool berth_plan_cache_sprout(berth_plan_cache* self, const berth_cache_key* key, berth_plan* plan);

/// Shows each plan and seed of `path` to `visit`, which changes nothing.
void berth_plan_cache_visit(const berth_plan_cache* self,
                            uint32_t path,
                            void (*visit)(void* argument, const berth_cache_item* item),
                            void* argument);

/// Why there is no plan at `key`: BERTH_MISS_EVICTED, BERTH_MISS_MODEL_CHANGED, or as far as the
/// cache knows BERTH_MISS_NEW_BUCKET. It goes by a hash: good for statistics.
berth_miss berth_plan_cache_query_miss(const berth_plan_cache* self, const berth_cache_key* key);

/// The plan that `ticket` names, borrowed as above, and how often it was used; NULL: it has gone.
berth_plan* berth_plan_cache_redeem(const berth_plan_cache* self,
                                    berth_plan_ticket ticket,
                                    uint64_t* out_hits);

/// Gives the plan that `ticket` names, which is there, another relation (then owned) and drops the
/// placements evaluated from the one it had.
void berth_plan_cache_replace(berth_plan_cache* self,
                              berth_plan_ticket ticket,
                              berth_relation* relation,
                              uint64_t peak_bytes);

/// Drops what belongs to `path`, whose model has changed: its placements, and its plans too unless
/// `placements_only`.
void berth_plan_cache_drop(berth_plan_cache* self, uint32_t path, bool placements_only);

/// Sets the bound, evicting as needed.
void berth_plan_cache_set_limit(berth_plan_cache* self, uint64_t limit_bytes);

#endif // BERTH_PLAN_PLAN_CACHE_H
