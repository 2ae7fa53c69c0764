// SPDX-License-Identifier: Apache-2.0
// What blocks that are yet to be taken may make a pool map at most: for promises.
#include "base/checked.h"
#include "base/numbers.h"
#include "memory/pool_internal.h"

/// A granule holds at least this many blocks of medium size.
#define MEDIUM_SHARE 8u
/// A slab, in the unit of berth_pool_demand.
#define SLAB_PARTS (UINT64_C(1) << 20)

uint64_t berth_pool_query_worst_growth(const berth_pool* pool, uint64_t size) {
    if (size == 0 || pool->has_bypass) return 0;
    uint64_t bytes = 0;
    return berth_try_round_up(size, pool->granule_bytes, &bytes) ? bytes : UINT64_MAX;
}

/// Adds a block that lies in an extent of its own.
static void demand_extent(const berth_pool* pool, berth_pool_demand* demand, uint64_t size) {
    const uint64_t bytes = berth_pool_query_worst_growth(pool, size);
    if (size > pool->granule_bytes / MEDIUM_SHARE) {
        demand->large_bytes = berth_add_saturated_u64(demand->large_bytes, bytes);
        ++demand->large_count;
        return;
    }
    demand->medium_bytes = berth_add_saturated_u64(demand->medium_bytes, bytes);
    ++demand->medium_count;
    if (size > demand->largest_medium) demand->largest_medium = size;
}

void berth_pool_demand_add(const berth_pool* pool, berth_pool_demand* demand, uint64_t size) {
    if (size == 0 || pool->has_bypass) return;
    if (size > pool->slabs.max_bytes) {
        demand_extent(pool, demand, size);
        return;
    }
    const uint32_t size_class = berth_slabs_class_of(size);
    ++demand->small_count;
    // where it is smaller than announced, more of them fill a slab
    demand->slab_parts += SLAB_PARTS / pool->slabs.classes[size_class].least_slots + 1;
    if (size_class > demand->largest_class) demand->largest_class = size_class;
}

/// What `count` stretches of at most `window` bytes and other blocks of `other_bytes` can map. A
/// stretch maps a granule only when every window of what was mapped before has something in it. A
/// stretch reaches into at most three windows (what is left behind it may belong to it), another
/// block into at most three that it does not fill.
static uint64_t packed_growth(const berth_pool* pool,
                              uint64_t count,
                              uint64_t window,
                              uint64_t other_count,
                              uint64_t other_bytes) {
    if (count == 0) return other_bytes;
    const uint64_t windows = 3 * (count - 1 + other_count);
    if (windows > (uint64_t)INT64_MAX / window) return UINT64_MAX;
    const uint64_t bytes = berth_round_down(windows * window, pool->granule_bytes);
    return berth_add_saturated_u64(bytes + pool->granule_bytes, other_bytes);
}

uint64_t berth_pool_demand_bytes(const berth_pool* pool, const berth_pool_demand* demand) {
    uint64_t slabs = 0;
    uint64_t window = 1;
    if (demand->small_count > 0) {
        // each class has at most one slab that is not full
        slabs = demand->slab_parts / SLAB_PARTS + demand->largest_class + 2;
        if (slabs > demand->small_count) slabs = demand->small_count;
        window = pool->slabs.classes[demand->largest_class].slab_bytes;
    }
    const uint64_t apart =
        packed_growth(pool,
                      slabs,
                      window,
                      demand->medium_count + demand->large_count,
                      berth_add_saturated_u64(demand->medium_bytes, demand->large_bytes));
    if (demand->largest_medium > window) window = demand->largest_medium;
    const uint64_t together = packed_growth(
        pool, slabs + demand->medium_count, window, demand->large_count, demand->large_bytes);
    return apart < together ? apart : together;
}
