// SPDX-License-Identifier: Apache-2.0
// Least recently used: the rank of a block is the time of its last use.
#include "kv/prefix_internal.h"

static uint64_t rank(const berth_prefix_index* index, uint32_t block) {
    return berth_prefix_node_of(index, block)->stamp;
}

const berth_evict_policy berth_evict_lru = {.rank = rank};
