// SPDX-License-Identifier: Apache-2.0
// Room for blocks: where it comes from, who may ask for it back, and how blocks are packed.
#ifndef BERTH_KV_KV_ROOM_H
#define BERTH_KV_KV_ROOM_H

#include "kv/kv_internal.h"

/// Makes the index of a cache whose blocks are there.
BERTH_NODISCARD berth_status berth_kv_open_index(berth_kv_cache* cache);

/// From now on the cache gives memory back when others need it, and is packed at safe points.
void berth_kv_join_upkeep(berth_kv_cache* cache);
void berth_kv_leave_upkeep(berth_kv_cache* cache);

#endif // BERTH_KV_KV_ROOM_H
