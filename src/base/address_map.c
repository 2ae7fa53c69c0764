// SPDX-License-Identifier: Apache-2.0
// Linear probing; a removal closes the gap that it leaves, so there are no tombstones.
#include "base/address_map.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/hash.h"

enum { FIRST_CAPACITY = 16 };

/// The slot where the search for `address` begins.
static size_t home_of(const berth_address_map* map, const void* address) {
    return (size_t)berth_hash64(&address, sizeof address, 0) & (map->capacity - 1);
}

/// The slot of `address`, or the free one where it would be. There is a free slot.
static size_t find(const berth_address_map* map, const void* address) {
    size_t at = home_of(map, address);
    while (map->slots[at].address != NULL && map->slots[at].address != address)
        at = (at + 1) & (map->capacity - 1);
    return at;
}

berth_status berth_address_map_reserve_one(berth_address_map* map, const berth_host* host) {
    if ((map->count + 1) * 2 <= map->capacity) return BERTH_OK;
    berth_address_map grown = {.capacity = FIRST_CAPACITY, .count = map->count};
    if (map->capacity > 0 && !berth_mul_size(map->capacity, 2, &grown.capacity))
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "too many blocks are out");
    grown.slots = berth_host_calloc(host, grown.capacity, sizeof *grown.slots);
    if (grown.slots == NULL)
        return berth_fail(
            BERTH_ERR_OUT_OF_MEMORY, "no host memory to remember %zu blocks", map->count + 1);
    for (size_t i = 0; i < map->capacity; ++i) {
        const berth_address_entry* entry = &map->slots[i];
        if (entry->address != NULL) grown.slots[find(&grown, entry->address)] = *entry;
    }
    berth_host_free(host, map->slots);
    *map = grown;
    return BERTH_OK;
}

void berth_address_map_add(berth_address_map* map, berth_address_entry entry) {
    BERTH_CHECK(1, entry.address != NULL && (map->count + 1) * 2 <= map->capacity);
    const size_t at = find(map, entry.address);
    BERTH_CHECK(1, map->slots[at].address == NULL);
    map->slots[at] = entry;
    ++map->count;
}

bool berth_address_map_remove(berth_address_map* map,
                              const void* address,
                              berth_address_entry* out_entry) {
    *out_entry = (berth_address_entry){0};
    if (address == NULL || map->count == 0) return false;
    const size_t mask = map->capacity - 1;
    size_t gap = find(map, address);
    if (map->slots[gap].address == NULL) return false;
    *out_entry = map->slots[gap];
    // what stands behind the gap moves into it unless its search begins after the gap
    for (size_t at = (gap + 1) & mask; map->slots[at].address != NULL; at = (at + 1) & mask) {
        const size_t home = home_of(map, map->slots[at].address);
        if (((at - home) & mask) < ((at - gap) & mask)) continue;
        map->slots[gap] = map->slots[at];
        gap = at;
    }
    map->slots[gap] = (berth_address_entry){0};
    --map->count;
    return true;
}

void berth_address_map_fini(berth_address_map* map, const berth_host* host) {
    berth_host_free(host, map->slots);
    *map = (berth_address_map){0};
}
