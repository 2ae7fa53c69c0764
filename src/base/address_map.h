// SPDX-License-Identifier: Apache-2.0
// What is known of blocks that users give back by their address alone.
#ifndef BERTH_BASE_ADDRESS_MAP_H
#define BERTH_BASE_ADDRESS_MAP_H

#include <stdbool.h>

#include "base/host.h"

/// A block by its address.
typedef struct berth_address_entry {
    const void* address; ///< NULL: the slot is free
    uint64_t size_bytes;
    uint64_t handle; ///< its allocator's
} berth_address_entry;

/// A hash table, at most half full. Zeroed: empty. Not thread-safe.
typedef struct berth_address_map {
    berth_address_entry* slots; ///< [capacity]
    size_t capacity;            ///< 0 or a power of two
    size_t count;
} berth_address_map;

/// Makes room for one entry more.
/// Errors: BERTH_ERR_OUT_OF_MEMORY; unchanged then.
BERTH_NODISCARD berth_status berth_address_map_reserve_one(berth_address_map* map,
                                                           const berth_host* host);
/// Adds an entry, for which room was reserved, with an address that is in no other.
void berth_address_map_add(berth_address_map* map, berth_address_entry entry);
/// Takes out the entry with exactly this address; false if there is none.
bool berth_address_map_remove(berth_address_map* map,
                              const void* address,
                              berth_address_entry* out_entry);
/// Frees the table; what the entries name is left alone.
void berth_address_map_fini(berth_address_map* map, const berth_host* host);

#endif // BERTH_BASE_ADDRESS_MAP_H
