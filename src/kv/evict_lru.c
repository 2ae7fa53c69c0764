// SPDX-License-Identifier: Apache-2.0
// Least recently used: the evictable block whose last use is longest ago.
#include "kv/prefix_internal.h"

static uint32_t choose(berth_prefix_index* index) { return index->tables.heap[0].block; }

const berth_evict_policy berth_evict_by_age = {.ghosts_per_block = 1, .choose = choose};
