// SPDX-License-Identifier: Apache-2.0
// Radix sort.
#include "plan/sort.h"

#include <stdbool.h>
#include <string.h>

static bool is_sorted(const berth_sort_entry* entries, size_t count, uint64_t* out_differing) {
    bool sorted = true;
    uint64_t differing = 0;
    for (size_t i = 1; i < count; i++) {
        sorted = sorted && entries[i - 1].key <= entries[i].key;
        differing |= entries[i].key ^ entries[0].key;
    }
    *out_differing = differing;
    return sorted;
}

static void sort_digit(const berth_sort_entry* from,
                       berth_sort_entry* to,
                       size_t count,
                       unsigned shift) {
    size_t at[257] = {0};
    for (size_t i = 0; i < count; i++)
        at[((from[i].key >> shift) & 0xFF) + 1]++;
    for (unsigned digit = 0; digit < 256; digit++)
        at[digit + 1] += at[digit];
    for (size_t i = 0; i < count; i++)
        to[at[(from[i].key >> shift) & 0xFF]++] = from[i];
}

void berth_sort_entries(berth_sort_entry* entries, berth_sort_entry* scratch, size_t count) {
    uint64_t differing;
    if (is_sorted(entries, count, &differing)) return;
    berth_sort_entry* from = entries;
    berth_sort_entry* to = scratch;
    for (unsigned shift = 0; shift < 64; shift += 8) {
        if (((differing >> shift) & 0xFF) == 0) continue;
        sort_digit(from, to, count, shift);
        berth_sort_entry* swap = from;
        from = to;
        to = swap;
    }
    if (from != entries) memcpy(entries, from, count * sizeof *entries);
}
