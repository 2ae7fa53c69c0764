// SPDX-License-Identifier: Apache-2.0
// A triangle of numbers.
#include "plan/path_tree.h"

#include <string.h>

#include "base/error.h"

/// Where the row of `rank` begins: it has `rank` numbers.
static size_t row_at(uint32_t rank) { return (size_t)rank * (rank - (size_t)1) / 2; }

void berth_path_tree_fini(berth_path_tree* tree, const berth_host* host) {
    berth_host_free(host, tree->shared);
    *tree = (berth_path_tree){.count = 0};
}

size_t berth_path_tree_query_bytes(const berth_path_tree* tree) {
    return row_at(tree->count) * sizeof *tree->shared;
}

berth_status berth_path_tree_reserve(berth_path_tree* tree, const berth_host* host) {
    const size_t wanted = row_at(tree->count + 1);
    if (wanted <= tree->capacity) return BERTH_OK;
    const size_t capacity = wanted * 2;
    uint32_t* grown = berth_host_realloc(host, tree->shared, capacity * sizeof *grown);
    if (grown == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory for a tree of paths");
    tree->shared = grown;
    tree->capacity = capacity;
    return BERTH_OK;
}

void berth_path_tree_append(berth_path_tree* tree, const uint32_t* shared) {
    if (tree->count > 0)
        memcpy(tree->shared + row_at(tree->count), shared, tree->count * sizeof *shared);
    tree->count++;
}

uint32_t berth_path_tree_shared(const berth_path_tree* tree, uint32_t a, uint32_t b) {
    return a > b ? tree->shared[row_at(a) + b] : tree->shared[row_at(b) + a];
}

void berth_path_tree_remove(berth_path_tree* tree, uint32_t rank) {
    size_t to = row_at(rank);
    for (uint32_t i = rank + 1; i < tree->count; i++)
        for (uint32_t j = 0; j < i; j++)
            if (j != rank) tree->shared[to++] = tree->shared[row_at(i) + j];
    tree->count--;
}

static void swap_with_next(berth_path_tree* tree, uint32_t rank) {
    uint32_t* upper = tree->shared + row_at(rank);
    uint32_t* lower = tree->shared + row_at(rank + 1);
    for (uint32_t j = 0; j < rank; j++) {
        const uint32_t held = upper[j];
        upper[j] = lower[j];
        lower[j] = held;
    }
    for (uint32_t i = rank + 2; i < tree->count; i++) {
        uint32_t* row = tree->shared + row_at(i);
        const uint32_t held = row[rank];
        row[rank] = row[rank + 1];
        row[rank + 1] = held;
    }
}

void berth_path_tree_promote(berth_path_tree* tree, uint32_t from, uint32_t to) {
    for (uint32_t rank = from; rank-- > to;)
        swap_with_next(tree, rank);
}
