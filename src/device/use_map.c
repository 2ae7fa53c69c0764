// SPDX-License-Identifier: Apache-2.0
// A sorted array: debugging pays a move of some kilobytes a use.
#include "device/use_map.h"

#include <string.h>

void berth_use_map_fini(berth_use_map* map) { berth_use_vec_fini(&map->uses, map->host); }

/// Index of the first stretch that ends behind `address`.
static size_t first_behind(const berth_use_map* map, uint64_t address) {
    size_t low = 0, high = map->uses.count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (map->uses.items[middle].end > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/// Index of the first stretch from `index` on that begins at `address` or behind it.
static size_t skip_overlapping(const berth_use_map* map, size_t index, uint64_t address) {
    while (index < map->uses.count && map->uses.items[index].begin < address)
        ++index;
    return index;
}

static void forget_until(berth_use_map* map, uint64_t moment) {
    size_t kept = 0;
    for (size_t i = 0; i < map->uses.count; ++i)
        if (map->uses.items[i].moment > moment) map->uses.items[kept++] = map->uses.items[i];
    map->uses.count = kept;
}

/// Room for two stretches more: what is done goes first, then the older half of the rest.
static bool make_room(berth_use_map* map, uint64_t done, uint64_t now) {
    while (map->uses.count + 2 > BERTH_USE_MAP_MAX) {
        forget_until(map, done);
        done += (now - done + 1) / 2;
    }
    return berth_use_vec_reserve(&map->uses, map->host, map->uses.count + 2) == BERTH_OK;
}

/// Puts `use` in the place of whatever lies in its stretch. There is room.
static void overwrite(berth_use_map* map, const berth_use* use) {
    berth_use* items = map->uses.items;
    const size_t first = first_behind(map, use->begin);
    const size_t last = skip_overlapping(map, first, use->end);
    berth_use with[3];
    size_t count = 0;
    if (first < last && items[first].begin < use->begin) {
        with[count] = items[first];
        with[count++].end = use->begin;
    }
    with[count++] = *use;
    if (first < last && items[last - 1].end > use->end) {
        with[count] = items[last - 1];
        with[count++].begin = use->end;
    }
    memmove(items + first + count, items + last, (map->uses.count - last) * sizeof *items);
    memcpy(items + first, with, count * sizeof *items);
    map->uses.count = map->uses.count + count - (last - first);
}

void berth_use_map_note(berth_use_map* map, berth_use use, uint64_t done) {
    if (make_room(map, done, use.moment)) overwrite(map, &use);
}

const berth_use* berth_use_map_find(const berth_use_map* map,
                                    uint64_t begin,
                                    uint64_t end,
                                    uint64_t after) {
    for (size_t i = first_behind(map, begin); i < map->uses.count; ++i) {
        const berth_use* use = &map->uses.items[i];
        if (use->begin >= end) return NULL;
        if (use->moment > after) return use;
    }
    return NULL;
}
