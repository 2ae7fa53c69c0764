// SPDX-License-Identifier: Apache-2.0
// How recently released the bytes are that a packing uses again: a sweep over time with a map of
// addresses, each stretch of which knows when it is released.
#include <string.h>

#include "plan/packing_internal.h"

__extension__ typedef unsigned __int128 wide;

#define LEVELS 6 // of 6 bits: more than twice as many ranks as there can be items
#define NEVER UINT64_MAX

/// A set of ranks, in levels of bits each of which says which words of the one below have members.
typedef struct rank_set {
    uint64_t* level[LEVELS];
} rank_set;

static void set_init(rank_set* set, uint64_t* words, uint32_t ranks) {
    for (int l = 0; l < LEVELS; l++) {
        ranks = ranks / 64 + 1;
        set->level[l] = words;
        memset(words, 0, ranks * sizeof *words);
        words += ranks;
    }
}

static void set_add(rank_set* set, uint32_t rank) {
    for (int l = 0; l < LEVELS; l++, rank /= 64)
        set->level[l][rank / 64] |= UINT64_C(1) << (rank % 64);
}

static void set_remove(rank_set* set, uint32_t rank) {
    for (int l = 0; l < LEVELS; l++, rank /= 64)
        if ((set->level[l][rank / 64] &= ~(UINT64_C(1) << (rank % 64))) != 0) return;
}

static uint32_t highest_bit(uint64_t word) { return 63u - (uint32_t)__builtin_clzll(word); }

/// The largest member that is at most `rank`; 0 always is a member.
static uint32_t set_at_most(const rank_set* set, uint32_t rank) {
    int l = 0;
    uint64_t word;
    for (;; l++, rank = rank / 64 - 1) {
        word = set->level[l][rank / 64] & (~UINT64_C(0) >> (63 - rank % 64));
        if (word != 0) break;
    }
    rank = rank / 64 * 64 + highest_bit(word);
    for (; l > 0; l--)
        rank = rank * 64 + highest_bit(set->level[l - 1][rank]);
    return rank;
}

/// The map: a stretch begins at each rank in `starts` and reaches to the next one.
typedef struct address_map {
    berth_sort_entry* at;      ///< [ranks] key: address; item: rank at which the stretch ends
    berth_sort_entry* release; ///< [ranks] key: bytes begun before its release
    rank_set starts;
    uint32_t* low;    ///< [count] ranks of the items' offsets
    uint32_t* high;   ///< [count] and of their ends
    uint64_t* before; ///< [count + 1] bytes of the items that start before item i
} address_map;

/// Ranks of all offsets and ends.
static void map_init(address_map* map, berth_packer* self, const uint64_t* offsets) {
    const uint32_t n = self->count;
    *map = (address_map){.at = self->entries,
                         .release = self->entries_swap,
                         .low = self->swap,
                         .high = self->placed,
                         .before = self->live_high};
    map->before[0] = 0;
    for (uint32_t i = 0; i < n; i++) {
        map->at[2 * i] = (berth_sort_entry){offsets[i], 2 * i};
        map->at[2 * i + 1] = (berth_sort_entry){offsets[i] + self->size[i], 2 * i + 1};
        map->before[i + 1] = map->before[i] + self->size[i];
    }
    berth_sort_entries(map->at, map->release, 2 * (size_t)n);
    uint32_t ranks = 0;
    for (uint32_t k = 0; k < 2 * n; k++) {
        const berth_sort_entry entry = map->at[k];
        if (ranks == 0 || map->at[ranks - 1].key != entry.key) map->at[ranks++].key = entry.key;
        (entry.item % 2 == 0 ? map->low : map->high)[entry.item / 2] = ranks - 1;
    }
    set_init(&map->starts, self->live_low, ranks);
    set_add(&map->starts, 0);
    map->at[0].item = ranks - 1;
    map->release[0].key = NEVER;
}

/// Lets a stretch begin at `rank`.
static void map_split(address_map* map, uint32_t rank) {
    const uint32_t within = set_at_most(&map->starts, rank);
    if (within == rank) return;
    map->at[rank].item = map->at[within].item;
    map->at[within].item = rank;
    map->release[rank].key = map->release[within].key;
    set_add(&map->starts, rank);
}

/// Joins the stretches of item `i` into one, released at its end; its bytes times their distances.
static wide map_use(address_map* map, uint32_t i, uint64_t now, uint64_t release, uint64_t peak) {
    const uint32_t low = map->low[i];
    const uint32_t high = map->high[i];
    map_split(map, low);
    map_split(map, high);
    wide sum = 0;
    for (uint32_t at = low; at != high;) {
        const uint32_t next = map->at[at].item;
        const uint64_t released = map->release[at].key;
        const uint64_t distance = released == NEVER ? peak : now > released ? now - released : 0;
        sum += (wide)(map->at[next].key - map->at[at].key) * distance;
        if (at != low) set_remove(&map->starts, at);
        at = next;
    }
    map->at[low].item = high;
    map->release[low].key = release;
    return sum;
}

/// Items that start before `moment`, searched upwards from `from`.
static uint32_t count_before(const berth_packer* self, uint32_t from, uint32_t moment) {
    uint32_t low = from, step = 1;
    for (; self->count - low > step && self->start[low + step] < moment; step *= 2)
        low += step;
    uint32_t high = self->count - low > step ? low + step : self->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (self->start[middle] < moment)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint64_t berth_packer_reuse_distance(berth_packer* self, const uint64_t* offsets, uint64_t peak) {
    if (self->count == 0) return 0;
    address_map map;
    map_init(&map, self, offsets);
    wide sum = 0;
    uint64_t now = 0;
    for (uint32_t i = 0; i < self->count; i++) {
        if (i > 0 && self->start[i] != self->start[i - 1]) now = map.before[i];
        const uint64_t release = map.before[count_before(self, i, self->end[i])];
        sum += map_use(&map, i, now, release, peak);
    }
    return (uint64_t)(sum / map.before[self->count]);
}

berth_status berth_packing_reuse_distance(const berth_host* host,
                                          const berth_pack_problem* problem,
                                          const uint64_t* offsets,
                                          uint64_t peak,
                                          uint64_t* out_bytes) {
    berth_packing_load load;
    const berth_status status = berth_packing_load_init(&load, host, problem);
    *out_bytes = 0;
    if (status == BERTH_OK) {
        berth_packer whole = load.whole;
        for (uint32_t i = 0; i < whole.count; i++)
            whole.best[i] = offsets[whole.source[i]];
        *out_bytes = berth_packer_reuse_distance(&whole, whole.best, peak);
    }
    berth_packing_load_fini(&load);
    return status;
}
