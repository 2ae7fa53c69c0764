// SPDX-License-Identifier: Apache-2.0
// Pairing heaps by last use, whose links lie in the nodes: any number of heaps, and no memory of
// their own.
//
// Source: Fredman, Sedgewick, Sleator, Tarjan 1986, "The pairing heap".
#include "kv/prefix_internal.h"

/// The heap of two heaps without neighbours; either may be NONE.
static uint32_t join(berth_prefix_node* nodes, uint32_t a, uint32_t b) {
    if (a == BERTH_PREFIX_NONE) return b;
    if (b == BERTH_PREFIX_NONE) return a;
    const bool swap = nodes[b].stamp < nodes[a].stamp;
    const uint32_t above = swap ? b : a, below = swap ? a : b;
    const uint32_t first = nodes[above].first_younger;
    nodes[below].next_younger = first;
    nodes[below].previous_younger = above;
    if (first != BERTH_PREFIX_NONE) nodes[first].previous_younger = below;
    nodes[above].first_younger = below;
    return above;
}

static void let_stand_alone(berth_prefix_node* node) {
    node->next_younger = BERTH_PREFIX_NONE;
    node->previous_younger = BERTH_PREFIX_NONE;
}

/// Joins the heaps of a list: pairs from the left, then these from the right.
static uint32_t join_list(berth_prefix_node* nodes, uint32_t first) {
    uint32_t pairs = BERTH_PREFIX_NONE;
    while (first != BERTH_PREFIX_NONE) {
        const uint32_t a = first, b = nodes[a].next_younger;
        first = b == BERTH_PREFIX_NONE ? BERTH_PREFIX_NONE : nodes[b].next_younger;
        let_stand_alone(&nodes[a]);
        if (b != BERTH_PREFIX_NONE) let_stand_alone(&nodes[b]);
        const uint32_t pair = join(nodes, a, b);
        nodes[pair].next_younger = pairs;
        pairs = pair;
    }
    uint32_t heap = BERTH_PREFIX_NONE;
    while (pairs != BERTH_PREFIX_NONE) {
        const uint32_t next = nodes[pairs].next_younger;
        let_stand_alone(&nodes[pairs]);
        heap = join(nodes, heap, pairs);
        pairs = next;
    }
    return heap;
}

void berth_prefix_class_add(berth_prefix_index* index, uint32_t* heap, uint32_t block) {
    berth_prefix_node* nodes = index->tables.nodes;
    let_stand_alone(&nodes[block]);
    nodes[block].first_younger = BERTH_PREFIX_NONE;
    *heap = join(nodes, *heap, block);
}

void berth_prefix_class_remove(berth_prefix_index* index, uint32_t* heap, uint32_t block) {
    berth_prefix_node* nodes = index->tables.nodes;
    const uint32_t below = join_list(nodes, nodes[block].first_younger);
    if (*heap == block) {
        *heap = below;
        return;
    }
    const uint32_t next = nodes[block].next_younger, previous = nodes[block].previous_younger;
    if (nodes[previous].first_younger == block)
        nodes[previous].first_younger = next;
    else
        nodes[previous].next_younger = next;
    if (next != BERTH_PREFIX_NONE) nodes[next].previous_younger = previous;
    *heap = join(nodes, *heap, below);
}
