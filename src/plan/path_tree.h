// SPDX-License-Identifier: Apache-2.0
// The tree that a step's paths form: how many leading events each two of them share. Of three
// paths, two numbers are equal and the third is no smaller, so it is a tree whichever come first.
#ifndef BERTH_PLAN_PATH_TREE_H
#define BERTH_PLAN_PATH_TREE_H

#include "base/host.h"
#include "berth/status.h"

/// Paths by their rank, 0 .. count - 1: lower ones are planned first, the others around them. A
/// zeroed struct is empty.
typedef struct berth_path_tree {
    uint32_t* shared; ///< a row for each path: with all before it
    size_t capacity;  ///< of `shared`
    uint32_t count;
} berth_path_tree;

void berth_path_tree_fini(berth_path_tree* tree, const berth_host* host);

/// Bytes of the numbers in use.
size_t berth_path_tree_query_bytes(const berth_path_tree* tree);

/// Makes room for one more path.
/// Errors: BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status berth_path_tree_reserve(berth_path_tree* tree, const berth_host* host);

/// Adds a path behind all others. There is room; `shared` [count] tells the events that it shares
/// with each of them.
void berth_path_tree_append(berth_path_tree* tree, const uint32_t* shared);

/// Takes path `rank` out; those behind it move up.
void berth_path_tree_remove(berth_path_tree* tree, uint32_t rank);

/// Leading events that two different paths share.
uint32_t berth_path_tree_shared(const berth_path_tree* tree, uint32_t a, uint32_t b);

/// Moves path `from` up to rank `to` <= from; those between move down by one.
void berth_path_tree_promote(berth_path_tree* tree, uint32_t from, uint32_t to);

#endif // BERTH_PLAN_PATH_TREE_H
