// SPDX-License-Identifier: Apache-2.0
// What the memory layer's tests stand on: a simulated device with a store, over a host allocator
// that can be made to fail and that tells of leaks.
#ifndef BERTH_TEST_MEMORY_KIT_H
#define BERTH_TEST_MEMORY_KIT_H

#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/thread.h"
#include "device/sim/sim_device.h"
#include "failing_host.h"
#include "memory/page_store.h"
#include "memory/pool.h"
#include "random.h"

#define KIT_GRANULE (UINT64_C(64) << 10)
#define KIT_GRANULES UINT64_C(64)
#define KIT_CAPACITY (KIT_GRANULE * KIT_GRANULES)

typedef struct memory_kit {
    failing_host failing;
    berth_host* host;
    berth_device* device;
    berth_stream* stream;
    berth_store* store;
} memory_kit;

static inline void memory_kit_init(memory_kit* kit, const berth_sim_options* options) {
    failing_host_init(&kit->failing);
    assert_ok(berth_host_create(&kit->failing.allocator, &kit->host));
    assert_ok(berth_sim_device_create(kit->host, options, &kit->device));
    assert_ok(berth_stream_create(kit->device, &kit->stream));
    assert_ok(berth_store_create(kit->host, kit->device, UINT64_MAX, &kit->store));
}

/// Fails if anything is still mapped, promised or allocated.
static inline void memory_kit_fini(memory_kit* kit) {
    berth_store_stats stats;
    berth_store_query_stats(kit->store, &stats);
    assert_int_equal(stats.mapped_bytes, 0);
    assert_int_equal(stats.reserved_bytes, 0);
    for (int owner = 0; owner < BERTH_OWNER_COUNT; owner++)
        assert_int_equal(stats.mapped_by_owner[owner], 0);
    assert_int_equal(berth_sim_query_mapped_bytes(kit->device), 0);
    berth_store_destroy(kit->store);
    berth_stream_destroy(kit->stream);
    berth_device_destroy(kit->device);
    berth_host_destroy(kit->host);
    assert_int_equal(kit->failing.live_blocks, 0);
    assert_false(kit->failing.mismatch);
}

static inline berth_sim_options memory_kit_options(void) {
    return (berth_sim_options){
        .capacity_bytes = KIT_CAPACITY, .granule_bytes = KIT_GRANULE, .seed = 0};
}

/// As cmocka's setup and teardown, with nothing but the kit as state.
static inline int memory_kit_setup(void** state) {
    memory_kit* kit = calloc(1, sizeof *kit);
    const berth_sim_options options = memory_kit_options();
    memory_kit_init(kit, &options);
    *state = kit;
    return 0;
}

static inline int memory_kit_teardown(void** state) {
    memory_kit_fini(*state);
    free(*state);
    return 0;
}

static inline berth_store_stats memory_kit_stats(const memory_kit* kit) {
    berth_store_stats stats;
    berth_store_query_stats(kit->store, &stats);
    return stats;
}

/// An account of no tenant.
static inline berth_account memory_kit_account(const memory_kit* kit, berth_owner owner) {
    return (berth_account){.store = kit->store, .owner = owner};
}

/// M1, M2, and that the books say what the device says (outside of calls).
static inline void memory_kit_check_books(const memory_kit* kit) {
    const berth_store_stats stats = memory_kit_stats(kit);
    uint64_t sum = 0;
    for (int owner = 0; owner < BERTH_OWNER_COUNT; owner++)
        sum += stats.mapped_by_owner[owner];
    assert_int_equal(sum, stats.mapped_bytes);
    assert_true(stats.mapped_bytes + stats.reserved_bytes <= stats.capacity_bytes);
    assert_int_equal(stats.mapped_bytes, berth_sim_query_mapped_bytes(kit->device));
}

/// A pool's guard over a mutex, for pools that several threads use.
static inline bool memory_kit_try_lock(void* mutex) { return berth_mutex_try_lock(mutex); }
static inline void memory_kit_unlock(void* mutex) { berth_mutex_unlock(mutex); }
static inline berth_pool_guard memory_kit_guard(berth_mutex* mutex) {
    return (berth_pool_guard){
        .self = mutex, .try_lock = memory_kit_try_lock, .unlock = memory_kit_unlock};
}

/// Enqueues a write of `size` bytes of `value` from host memory, which must live until it has run.
static inline void memory_kit_enqueue_write(berth_stream* stream,
                                            void* target,
                                            const void* source,
                                            uint64_t size) {
    assert_ok(berth_stream_copy(stream, target, source, size, BERTH_COPY_HOST_TO_DEVICE));
}

/// Lets later work of `stream` begin only after what `other` has been given so far.
static inline void memory_kit_order_streams(berth_stream* stream, berth_stream* other) {
    uint64_t ticket = 0;
    assert_ok(berth_stream_record(other, &ticket));
    assert_ok(berth_stream_wait_stream(stream, other, ticket));
}

#endif // BERTH_TEST_MEMORY_KIT_H
