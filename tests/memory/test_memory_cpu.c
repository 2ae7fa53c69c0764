// SPDX-License-Identifier: Apache-2.0
// The memory layer over real memory: a synchronous device, where idle granules flow between owners
// at once and sanitizers watch what is free.
#include "memory_kit.h"

#include "device/cpu/cpu_device.h"
#include "memory/arena.h"
#include "memory/poison.h"
#include "memory/pool.h"

#define CAPACITY (UINT64_C(96) << 20)

typedef struct cpu_kit {
    berth_device* device;
    berth_stream* stream;
    berth_store* store;
    berth_pool* pool;
    berth_arena* arena;
    uint64_t granule;
} cpu_kit;

static cpu_kit fixture;

static int setup(void** state) {
    cpu_kit* kit = &fixture;
    const berth_host* host = berth_host_default();
    const berth_cpu_options options = {.threads = 1, .huge = BERTH_HUGE_MADVISE};
    assert_ok(berth_cpu_device_create(host, &options, &kit->device));
    assert_ok(berth_stream_create(kit->device, &kit->stream));
    assert_ok(berth_store_create(host, kit->device, CAPACITY, &kit->store));
    assert_ok(berth_pool_create(
        &(berth_pool_config){.host = host, .store = kit->store, .stream = kit->stream},
        &kit->pool));
    assert_ok(berth_arena_create(host, kit->store, NULL, kit->stream, &kit->arena));
    kit->granule = kit->device->granule_bytes;
    *state = kit;
    return 0;
}

static int teardown(void** state) {
    cpu_kit* kit = *state;
    berth_store_stats stats;
    berth_arena_destroy(kit->arena);
    berth_pool_destroy(kit->pool);
    berth_store_query_stats(kit->store, &stats);
    assert_int_equal(stats.mapped_bytes, 0);
    berth_store_destroy(kit->store);
    berth_stream_destroy(kit->stream);
    berth_device_destroy(kit->device);
    return 0;
}

static uint64_t mapped(const cpu_kit* kit) {
    berth_store_stats stats;
    berth_store_query_stats(kit->store, &stats);
    return stats.mapped_bytes;
}

static bool is_poisoned(const void* data) {
#ifdef BERTH_HAS_ASAN
    return __asan_address_is_poisoned(data) != 0;
#else
    (void)data;
    return true;
#endif
}

static bool is_open(const void* data) { return !BERTH_POISONS || !is_poisoned(data); }

static void free_memory_of_the_pool_is_out_of_bounds(void** state) {
    cpu_kit* kit = *state;
    const uint64_t sizes[] = {100, 5000, 100000, 3 << 20, 20 << 20};
    for (size_t n = 0; n < 10; n++) {
        const size_t i = n / 2; // the second time from the front
        berth_block block;
        assert_ok(
            berth_pool_take(kit->pool, &(berth_pool_request){.size_bytes = sizes[i]}, &block));
        memset(block.data, 1, sizes[i]);
        assert_true(is_open(block.data) && is_open(block.data + sizes[i] - 1));
        if (sizes[i] % 64 != 0) assert_true(is_poisoned(block.data + sizes[i]));
        berth_pool_give(kit->pool, &block);
        assert_true(is_poisoned(block.data) && is_poisoned(block.data + sizes[i] - 1));
    }
}

static void a_popped_frame_is_out_of_bounds_but_for_what_is_held(void** state) {
    cpu_kit* kit = *state;
    berth_frame frame;
    assert_ok(berth_arena_push(kit->arena, 10000, NULL, &frame));
    memset(frame.base, 7, 10000);
    assert_ok(berth_arena_hold(kit->arena, frame.base + 4096, 128));
    berth_arena_pop(kit->arena, &frame);
    assert_true(is_poisoned(frame.base) && is_poisoned(frame.base + 9999));
    assert_true(is_open(frame.base + 4096));
    assert_int_equal(frame.base[4096], 7);
    berth_frame next; // inherits granules, on another range
    assert_ok(berth_arena_push(kit->arena, 8 << 20, NULL, &next));
    memset(next.base, 8, 8 << 20);
    assert_int_equal(frame.base[4096 + 127], 7);
    berth_arena_pop(kit->arena, &next);
    berth_arena_drop(kit->arena, frame.base + 4096);
    berth_arena_stats stats;
    berth_arena_query_stats(kit->arena, &stats);
    assert_int_equal(stats.ranges, 1);
}

static void an_old_range_gives_its_granules_to_the_fresh_one(void** state) {
    cpu_kit* kit = *state;
    berth_frame frame;
    assert_ok(berth_arena_push(kit->arena, 16 * kit->granule, NULL, &frame));
    memset(frame.base, 7, 16 * kit->granule);
    assert_ok(berth_arena_hold(kit->arena, frame.base + 5 * kit->granule, 64));
    berth_arena_pop(kit->arena, &frame);
    berth_frame next;
    assert_ok(berth_arena_push(kit->arena, 15 * kit->granule, NULL, &next));
    memset(next.base, 8, 15 * kit->granule);
    assert_int_equal(mapped(kit), 16 * kit->granule);
    assert_int_equal(frame.base[5 * kit->granule + 63], 7);
    berth_arena_pop(kit->arena, &next);
    berth_arena_drop(kit->arena, frame.base + 5 * kit->granule);
    assert_int_equal(mapped(kit), 15 * kit->granule);
}

static void frames_and_blocks_lend_each_other_idle_memory(void** state) {
    cpu_kit* kit = *state;
    const uint64_t most = CAPACITY - 4 * kit->granule;
    for (int i = 0; i < 3; i++) {
        berth_block block;
        assert_ok(berth_pool_take(kit->pool, &(berth_pool_request){.size_bytes = most}, &block));
        memset(block.data, 1, most);
        berth_pool_give(kit->pool, &block);
        berth_frame frame;
        assert_ok(berth_arena_push(kit->arena, most, NULL, &frame));
        memset(frame.base, 2, most);
        berth_arena_pop(kit->arena, &frame);
    }
    assert_true(mapped(kit) <= CAPACITY);
}

static void scattered_granules_move_together_with_what_lies_between_untouched(void** state) {
    cpu_kit* kit = *state;
    enum { COUNT = 20 };
    berth_block blocks[COUNT], large;
    for (size_t i = 0; i < COUNT; i++) {
        assert_ok(berth_pool_take(
            kit->pool, &(berth_pool_request){.size_bytes = 2 * kit->granule}, &blocks[i]));
        memset(blocks[i].data, (int)i, 2 * kit->granule);
    }
    for (size_t i = 0; i < COUNT; i += 2)
        berth_pool_give(kit->pool, &blocks[i]);
    const uint64_t before = mapped(kit);
    assert_ok(
        berth_pool_take(kit->pool, &(berth_pool_request){.size_bytes = 20 * kit->granule}, &large));
    memset(large.data, 0x99, 20 * kit->granule);
    assert_int_equal(mapped(kit), before);
    for (size_t i = 1; i < COUNT; i += 2) {
        for (uint64_t at = 0; at < 2 * kit->granule; at += 4096)
            assert_int_equal(blocks[i].data[at], i);
        berth_pool_give(kit->pool, &blocks[i]);
    }
    berth_pool_give(kit->pool, &large);
    assert_true(berth_pool_is_valid(kit->pool));
}

static void random_use_keeps_every_content(void** state) {
    cpu_kit* kit = *state;
    enum { KEPT = 60 };
    test_random random = test_random_make(4);
    berth_block kept[KEPT] = {{0}};
    for (int i = 0; i < 6000; i++) {
        const size_t at = test_random_below(&random, KEPT);
        berth_block* block = &kept[at];
        if (block->data != NULL) {
            for (uint64_t k = 0; k < block->size_bytes; k += 509)
                assert_int_equal(block->data[k], at);
            berth_pool_give(kit->pool, block);
            block->data = NULL;
        } else {
            const uint64_t size =
                test_random_below(&random, (UINT64_C(1) << test_random_below(&random, 23)) + 1);
            if (berth_pool_take(kit->pool, &(berth_pool_request){.size_bytes = size}, block) ==
                BERTH_OK)
                memset(block->data, (int)at, size);
        }
        if (i % 1000 == 0) berth_pool_trim(kit->pool, CAPACITY / 8, true);
        if (i % 100 == 0) assert_true(berth_pool_is_valid(kit->pool));
    }
    for (size_t i = 0; i < KEPT; i++) {
        if (kept[i].data != NULL) berth_pool_give(kit->pool, &kept[i]);
    }
    berth_pool_trim(kit->pool, 0, true);
    assert_int_equal(mapped(kit), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(free_memory_of_the_pool_is_out_of_bounds),
        TEST(a_popped_frame_is_out_of_bounds_but_for_what_is_held),
        TEST(an_old_range_gives_its_granules_to_the_fresh_one),
        TEST(frames_and_blocks_lend_each_other_idle_memory),
        TEST(scattered_granules_move_together_with_what_lies_between_untouched),
        TEST(random_use_keeps_every_content),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
