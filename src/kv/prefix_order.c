// SPDX-License-Identifier: Apache-2.0
// A binary heap of the evictable blocks, the oldest on top. Nodes know their places.
#include "kv/prefix_internal.h"

static void put(berth_prefix_index* index, uint32_t at, berth_prefix_rank entry) {
    index->tables.heap[at] = entry;
    index->tables.nodes[entry.block].heap_at = at;
}

static void sift_up(berth_prefix_index* index, uint32_t at, berth_prefix_rank entry) {
    const berth_prefix_rank* heap = index->tables.heap;
    while (at > 0 && heap[(at - 1) / 2].stamp > entry.stamp) {
        put(index, at, heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    put(index, at, entry);
}

static void sift_down(berth_prefix_index* index, uint32_t at, berth_prefix_rank entry) {
    const berth_prefix_rank* heap = index->tables.heap;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= index->heap_count) break;
        if (child + 1 < index->heap_count && heap[child + 1].stamp < heap[child].stamp) ++child;
        if (heap[child].stamp >= entry.stamp) break;
        put(index, at, heap[child]);
        at = child;
    }
    put(index, at, entry);
}

/// Puts `entry` where it belongs, coming from place `at`.
static void settle(berth_prefix_index* index, uint32_t at, berth_prefix_rank entry) {
    if (at > 0 && index->tables.heap[(at - 1) / 2].stamp > entry.stamp)
        sift_up(index, at, entry);
    else
        sift_down(index, at, entry);
}

void berth_prefix_order_add(berth_prefix_index* index, uint32_t block) {
    const berth_prefix_rank entry = {.stamp = index->tables.nodes[block].stamp, .block = block};
    sift_up(index, index->heap_count++, entry);
    if (index->policy->offered != NULL) index->policy->offered(index, block);
}

void berth_prefix_order_remove(berth_prefix_index* index, uint32_t block) {
    const uint32_t at = index->tables.nodes[block].heap_at;
    if (at == BERTH_PREFIX_NONE) return;
    if (index->policy->withdrawn != NULL) index->policy->withdrawn(index, block);
    index->tables.nodes[block].heap_at = BERTH_PREFIX_NONE;
    const berth_prefix_rank last = index->tables.heap[--index->heap_count];
    if (at < index->heap_count) settle(index, at, last);
}

bool berth_prefix_order_is_valid(const berth_prefix_index* index) {
    const berth_prefix_rank* heap = index->tables.heap;
    for (uint32_t at = 0; at < index->heap_count; ++at) {
        if (!berth_prefix_is_known(index, heap[at].block)) return false;
        if (index->tables.nodes[heap[at].block].heap_at != at) return false;
        if (at > 0 && heap[(at - 1) / 2].stamp > heap[at].stamp) return false;
    }
    return true;
}
