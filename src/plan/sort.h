// SPDX-License-Identifier: Apache-2.0
// Stable sorting of numbered items by 64-bit keys, in time linear in their number.
#ifndef BERTH_PLAN_SORT_H
#define BERTH_PLAN_SORT_H

#include <stddef.h>
#include <stdint.h>

typedef struct berth_sort_entry {
    uint64_t key;
    uint32_t item;
} berth_sort_entry;

/// Sorts `entries` by ascending key, equal keys in the order given. `scratch` is [count] too.
/// Source: least significant digit radix sort; digits that all keys share are skipped.
void berth_sort_entries(berth_sort_entry* entries, berth_sort_entry* scratch, size_t count);

#endif // BERTH_PLAN_SORT_H
