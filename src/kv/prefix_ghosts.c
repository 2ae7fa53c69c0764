// SPDX-License-Identifier: Apache-2.0
// What was evicted lately: a ring, found by key. A hash alone tells them, as nothing is shared for
// what they say.
#include "kv/prefix_internal.h"

static uint32_t* bucket_of(const berth_prefix_index* index, uint64_t key) {
    return &index->tables.ghost_buckets[key & index->tables.mask];
}

void berth_prefix_ghosts_remove(berth_prefix_index* index, berth_prefix_ghost* ghost) {
    const uint32_t at = (uint32_t)(ghost - index->tables.ghosts);
    uint32_t* link = bucket_of(index, ghost->key);
    while (*link != at)
        link = &index->tables.ghosts[*link].next_in_bucket;
    *link = ghost->next_in_bucket;
    *ghost = (berth_prefix_ghost){0};
}

berth_prefix_ghost* berth_prefix_ghosts_find(const berth_prefix_index* index, uint64_t key) {
    uint32_t at = *bucket_of(index, key);
    while (at != BERTH_PREFIX_NONE && index->tables.ghosts[at].key != key)
        at = index->tables.ghosts[at].next_in_bucket;
    return at == BERTH_PREFIX_NONE ? NULL : &index->tables.ghosts[at];
}

static void let_fade(berth_prefix_index* index, berth_prefix_ghost* ghost) {
    if (index->policy->faded != NULL) index->policy->faded(index, ghost);
    berth_prefix_ghosts_remove(index, ghost);
}

void berth_prefix_ghosts_add(berth_prefix_index* index, const berth_prefix_ghost* ghost) {
    berth_prefix_ghost* same = berth_prefix_ghosts_find(index, ghost->key);
    if (same != NULL) let_fade(index, same);
    const uint32_t at = index->next_ghost;
    index->next_ghost = (at + 1) % index->tables.ghost_capacity;
    berth_prefix_ghost* place = &index->tables.ghosts[at];
    if (place->key != 0) let_fade(index, place);
    *place = *ghost;
    uint32_t* link = bucket_of(index, ghost->key);
    place->next_in_bucket = *link;
    *link = at;
}

bool berth_prefix_ghosts_are_valid(const berth_prefix_index* index) {
    uint64_t chained = 0, remembered = 0;
    for (uint32_t i = 0; i < index->tables.ghost_capacity; ++i)
        remembered += index->tables.ghosts[i].key != 0;
    for (uint32_t b = 0; index->tables.capacity > 0 && b <= index->tables.mask; ++b) {
        uint32_t at = index->tables.ghost_buckets[b];
        for (; at != BERTH_PREFIX_NONE; at = index->tables.ghosts[at].next_in_bucket) {
            if (at >= index->tables.ghost_capacity || ++chained > remembered) return false;
            if ((index->tables.ghosts[at].key & index->tables.mask) != b) return false;
        }
    }
    return chained == remembered;
}
