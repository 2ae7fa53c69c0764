// SPDX-License-Identifier: Apache-2.0
// The pool, line by line of its contract.
#include "memory_kit.h"

#include "kit/random.h"
#include "memory/pool.h"

#define G KIT_GRANULE
#define SMALL_MAX (G / 128)

typedef struct pool_kit {
    memory_kit base;
    berth_pool* pool;
} pool_kit;

static int setup(void** state) {
    pool_kit* kit = calloc(1, sizeof *kit);
    const berth_sim_options options = memory_kit_options();
    memory_kit_init(&kit->base, &options);
    assert_ok(berth_pool_create(&(berth_pool_config){.host = kit->base.host,
                                                     .store = kit->base.store,
                                                     .stream = kit->base.stream},
                                &kit->pool));
    *state = kit;
    return 0;
}

static int teardown(void** state) {
    pool_kit* kit = *state;
    berth_pool_destroy(kit->pool);
    memory_kit_fini(&kit->base);
    free(kit);
    return 0;
}

static berth_pool_stats stats_of(const pool_kit* kit) {
    berth_pool_stats stats;
    berth_pool_query_stats(kit->pool, &stats);
    assert_true(berth_pool_is_valid(kit->pool));
    assert_int_equal(memory_kit_stats(&kit->base).mapped_by_owner[BERTH_OWNER_POOL],
                     stats.mapped_bytes);
    memory_kit_check_books(&kit->base);
    return stats;
}

static berth_block take(pool_kit* kit, uint64_t size) {
    berth_block block;
    assert_ok(berth_pool_take(kit->pool, &(berth_pool_request){.size_bytes = size}, &block));
    assert_non_null(block.data);
    assert_int_equal((uintptr_t)block.data % BERTH_ALIGNMENT, 0);
    assert_int_equal(block.size_bytes, size);
    memset(block.data, 0x5A, size);
    return block;
}

static void blocks_of_every_size_can_be_taken_written_and_given_back(void** state) {
    pool_kit* kit = *state;
    for (uint64_t size = 1; size <= KIT_CAPACITY; size = size * 5 / 4 + 1) {
        berth_block block = take(kit, size);
        assert_int_equal(stats_of(kit).requested_bytes, size);
        berth_pool_give(kit->pool, &block);
    }
    const berth_pool_stats stats = stats_of(kit);
    assert_int_equal(stats.requested_bytes, 0);
    assert_int_equal(stats.blocks, 0);
    assert_int_equal(stats.free_bytes, stats.mapped_bytes);
    assert_true(stats.peak_requested_bytes > KIT_CAPACITY * 3 / 4);
}

static void a_block_of_no_bytes_has_an_address_and_costs_nothing(void** state) {
    pool_kit* kit = *state;
    berth_block block = take(kit, 0);
    assert_int_equal(stats_of(kit).mapped_bytes, 0);
    assert_int_equal(stats_of(kit).blocks, 1);
    assert_int_equal(berth_pool_query_worst_growth(kit->pool, 0), 0);
    berth_pool_give(kit->pool, &block);
    assert_int_equal(stats_of(kit).blocks, 0);
}

static void a_block_given_back_is_taken_again_at_once(void** state) {
    pool_kit* kit = *state;
    const uint64_t sizes[] = {64, SMALL_MAX, 10000, 3 * G, 20 * G};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        berth_block first = take(kit, sizes[i]);
        berth_pool_give(kit->pool, &first);
        const uint64_t mapped = stats_of(kit).mapped_bytes;
        const uint64_t reuses = stats_of(kit).reuses;
        berth_block second = take(kit, sizes[i]);
        assert_ptr_equal(second.data, first.data);
        assert_int_equal(stats_of(kit).mapped_bytes, mapped);
        assert_int_equal(stats_of(kit).reuses, reuses + 1);
        berth_pool_give(kit->pool, &second);
    }
}

static void the_whole_capacity_can_be_one_block(void** state) {
    pool_kit* kit = *state;
    berth_block block = take(kit, KIT_CAPACITY);
    berth_pool_give(kit->pool, &block);
    berth_block parts[8];
    for (size_t i = 0; i < 8; i++)
        parts[i] = take(kit, KIT_CAPACITY / 8);
    for (size_t i = 0; i < 8; i++)
        berth_pool_give(kit->pool, &parts[i]);
    block = take(kit, KIT_CAPACITY);
    berth_pool_give(kit->pool, &block);
}

static void what_one_kind_of_size_gives_back_any_other_can_take(void** state) {
    pool_kit* kit = *state;
    enum { MANY = 4000 };
    static berth_block blocks[MANY];
    size_t count = 0;
    while (count < MANY && berth_pool_take(kit->pool,
                                           &(berth_pool_request){.size_bytes = SMALL_MAX},
                                           &blocks[count]) == BERTH_OK)
        count++;
    const uint64_t mapped = stats_of(kit).mapped_bytes;
    assert_true(mapped >= count * SMALL_MAX);
    for (size_t i = 0; i < count; i++)
        berth_pool_give(kit->pool, &blocks[i]);
    // Large, then medium, out of the slabs' granules.
    berth_block large = take(kit, mapped);
    assert_int_equal(stats_of(kit).mapped_bytes, mapped);
    berth_pool_give(kit->pool, &large);
    uint64_t taken = 0;
    for (count = 0; taken + 3000 <= mapped && count < MANY; count++, taken += 3008)
        blocks[count] = take(kit, 3000);
    assert_int_equal(stats_of(kit).mapped_bytes, mapped);
    for (size_t i = 0; i < count; i++)
        berth_pool_give(kit->pool, &blocks[i]);
}

static void scattered_free_granules_serve_a_large_block_without_more_memory(void** state) {
    pool_kit* kit = *state;
    berth_block blocks[32];
    for (size_t i = 0; i < 32; i++)
        blocks[i] = take(kit, 2 * G);
    for (size_t i = 0; i < 32; i += 2)
        berth_pool_give(kit->pool, &blocks[i]);
    const uint64_t mapped = stats_of(kit).mapped_bytes;
    assert_int_equal(mapped, KIT_CAPACITY);
    berth_block large;
    assert_ok(berth_pool_take(kit->pool, &(berth_pool_request){.size_bytes = 32 * G}, &large));
    memset(large.data, 1, 32 * G);
    assert_int_equal(stats_of(kit).mapped_bytes, mapped);
    assert_true(berth_sim_query_calls(kit->base.device, BERTH_SIM_REMAP) > 0);
    for (size_t i = 1; i < 32; i += 2) {
        for (uint64_t at = 0; at < 2 * G; at += 512)
            assert_int_equal(blocks[i].data[at], 0x5A);
        berth_pool_give(kit->pool, &blocks[i]);
    }
    berth_pool_give(kit->pool, &large);
}

static void rounding_wastes_at_most_an_eighth(void** state) {
    pool_kit* kit = *state;
    for (uint64_t size = 1; size < 40 * G; size += 1 + size / 7) {
        berth_block block = take(kit, size);
        const berth_pool_stats stats = stats_of(kit);
        // Slabs and extents hold exactly one block now.
        const uint64_t waste = stats.mapped_bytes - stats.free_bytes - size;
        if (size < 8 * BERTH_ALIGNMENT)
            assert_true(waste < BERTH_ALIGNMENT);
        else
            assert_true(waste <= size / 8);
        berth_pool_give(kit->pool, &block);
    }
}

static void a_size_beyond_reason_is_an_overflow(void** state) {
    pool_kit* kit = *state;
    berth_block block = {.size_bytes = 1};
    assert_int_equal(
        berth_pool_take(kit->pool, &(berth_pool_request){.size_bytes = UINT64_MAX}, &block),
        BERTH_ERR_OVERFLOW);
    assert_null(block.data);
    assert_int_equal(block.size_bytes, 0);
    assert_fails(
        berth_pool_take(kit->pool, &(berth_pool_request){.size_bytes = UINT64_C(1) << 60}, &block),
        BERTH_ERR_OUT_OF_MEMORY,
        "capacity");
    assert_int_equal(stats_of(kit).takes, 0);
}

static void a_full_pool_refuses_and_recovers(void** state) {
    pool_kit* kit = *state;
    berth_block half = take(kit, KIT_CAPACITY / 2);
    berth_block rest = take(kit, KIT_CAPACITY / 2);
    berth_block none;
    const uint64_t sizes[] = {1, 10000, G, KIT_CAPACITY};
    for (size_t i = 0; i < 4; i++) {
        assert_fails(
            berth_pool_take(kit->pool, &(berth_pool_request){.size_bytes = sizes[i]}, &none),
            BERTH_ERR_OUT_OF_MEMORY,
            "pool 4.00 MiB");
        assert_null(none.data);
    }
    assert_int_equal(stats_of(kit).blocks, 2);
    berth_pool_give(kit->pool, &half);
    for (size_t i = 0; i < 3; i++) {
        berth_block block = take(kit, sizes[i]);
        berth_pool_give(kit->pool, &block);
    }
    berth_pool_give(kit->pool, &rest);
}

static void growth_draws_on_the_reservation(void** state) {
    pool_kit* kit = *state;
    berth_reservation mine = {0};
    assert_ok(berth_store_reserve(memory_kit_account(&kit->base, BERTH_OWNER_POOL), 10 * G, &mine));
    berth_block block, other;
    assert_ok(berth_pool_take(
        kit->pool, &(berth_pool_request){.size_bytes = 4 * G, .reservation = &mine}, &block));
    assert_int_equal(mine.bytes, 6 * G);
    berth_reservation rest = {0};
    assert_ok(berth_store_reserve(
        memory_kit_account(&kit->base, BERTH_OWNER_POOL), KIT_CAPACITY - 10 * G, &rest));
    assert_ok(berth_pool_take(
        kit->pool, &(berth_pool_request){.size_bytes = 100, .reservation = &mine}, &other));
    assert_int_equal(mine.bytes, 5 * G);
    berth_pool_give(kit->pool, &other);
    berth_pool_give(kit->pool, &block);
    berth_store_unreserve(kit->base.store, &mine);
    berth_store_unreserve(kit->base.store, &rest);
}

static void trim_gives_back_all_but_what_is_to_be_kept(void** state) {
    pool_kit* kit = *state;
    berth_block live = take(kit, 3000);
    berth_block idle = take(kit, 20 * G);
    berth_pool_give(kit->pool, &idle);
    const uint64_t mapped = stats_of(kit).mapped_bytes;
    assert_int_equal(berth_pool_trim(kit->pool, UINT64_MAX, true), 0);
    const uint64_t given = berth_pool_trim(kit->pool, 5 * G, true);
    assert_true(given >= 15 * G && given <= 16 * G);
    assert_int_equal(stats_of(kit).mapped_bytes, mapped - given);
    assert_true(stats_of(kit).free_bytes >= 5 * G);
    berth_pool_trim(kit->pool, 0, true);
    assert_int_equal(stats_of(kit).mapped_bytes, G);
    assert_int_equal(live.data[2999], 0x5A);
    berth_pool_give(kit->pool, &live);
    assert_int_equal(berth_pool_trim(kit->pool, 0, true), G);
    assert_int_equal(stats_of(kit).mapped_bytes, 0);
}

/// Gives a block of four granules back that a pending write of `stream` still comes to.
static void give_under_work(pool_kit* kit, berth_stream* stream) {
    static unsigned char source[4 * KIT_GRANULE];
    berth_block block;
    assert_ok(
        berth_pool_take(kit->pool, &(berth_pool_request){.size_bytes = sizeof source}, &block));
    memory_kit_enqueue_write(stream, block.data, source, sizeof source);
    if (stream != kit->base.stream) memory_kit_order_streams(kit->base.stream, stream);
    berth_pool_give(kit->pool, &block);
}

static void nothing_is_unmapped_under_work_that_is_pending(void** state) {
    pool_kit* kit = *state; // the device runs nothing before it is waited for
    give_under_work(kit, kit->base.stream);
    // M4: unmapped now, the write would crash when it runs.
    assert_int_equal(berth_pool_trim(kit->pool, 0, false), 0);
    assert_int_equal(stats_of(kit).mapped_bytes, 4 * G);
    assert_ok(berth_stream_synchronize(kit->base.stream));
    assert_int_equal(berth_pool_trim(kit->pool, 0, false), 4 * G);
}

static void a_trim_that_may_block_waits_for_the_work(void** state) {
    pool_kit* kit = *state;
    give_under_work(kit, kit->base.stream);
    assert_int_equal(berth_pool_trim(kit->pool, 0, true), 4 * G);
}

static void later_work_of_the_same_stream_takes_a_block_at_once(void** state) {
    pool_kit* kit = *state;
    unsigned char ones[256], twos[256];
    memset(ones, 1, sizeof ones);
    memset(twos, 2, sizeof twos);
    berth_block first, second;
    assert_ok(berth_pool_take(kit->pool, &(berth_pool_request){.size_bytes = 256}, &first));
    memory_kit_enqueue_write(kit->base.stream, first.data, ones, 256);
    berth_pool_give(kit->pool, &first);
    assert_ok(berth_pool_take(kit->pool, &(berth_pool_request){.size_bytes = 256}, &second));
    assert_ptr_equal(second.data, first.data);
    memory_kit_enqueue_write(kit->base.stream, second.data, twos, 256);
    assert_ok(berth_stream_synchronize(kit->base.stream));
    assert_memory_equal(second.data, twos, 256);
    berth_pool_give(kit->pool, &second);
}

static void nothing_is_unmapped_under_work_that_the_stream_waits_for(void** state) {
    pool_kit* kit = *state;
    berth_stream* other = NULL;
    assert_ok(berth_stream_create(kit->base.device, &other));
    give_under_work(kit, other);
    assert_int_equal(berth_pool_trim(kit->pool, 0, false), 0);
    assert_int_equal(stats_of(kit).mapped_bytes, 4 * G);
    assert_int_equal(berth_pool_trim(kit->pool, 0, true), 4 * G);
    berth_stream_destroy(other);
}

static void a_shortage_waits_for_work_that_keeps_granules_in_place(void** state) {
    pool_kit* kit = *state;
    static unsigned char source[2 * KIT_GRANULE];
    berth_block blocks[32], large;
    for (size_t i = 0; i < 32; i++) {
        assert_ok(
            berth_pool_take(kit->pool, &(berth_pool_request){.size_bytes = 2 * G}, &blocks[i]));
        memory_kit_enqueue_write(kit->base.stream, blocks[i].data, source, 2 * G);
    }
    for (size_t i = 0; i < 32; i += 2)
        berth_pool_give(kit->pool, &blocks[i]);
    uint64_t ticket = 0;
    assert_ok(berth_stream_record(kit->base.stream, &ticket));
    assert_ok(berth_pool_take(kit->pool, &(berth_pool_request){.size_bytes = 32 * G}, &large));
    assert_true(berth_stream_query(kit->base.stream, ticket));
    assert_int_equal(stats_of(kit).mapped_bytes, KIT_CAPACITY);
    for (size_t i = 1; i < 32; i += 2)
        berth_pool_give(kit->pool, &blocks[i]);
    berth_pool_give(kit->pool, &large);
}

static void destroying_waits_for_the_streams_work(void** state) {
    pool_kit* kit = *state;
    unsigned char source[3000] = {0};
    berth_pool* pool = NULL;
    assert_ok(berth_pool_create(&(berth_pool_config){.host = kit->base.host,
                                                     .store = kit->base.store,
                                                     .stream = kit->base.stream},
                                &pool));
    berth_block block;
    assert_ok(berth_pool_take(pool, &(berth_pool_request){.size_bytes = 3000}, &block));
    memory_kit_enqueue_write(kit->base.stream, block.data, source, 3000);
    uint64_t ticket = 0;
    assert_ok(berth_stream_record(kit->base.stream, &ticket));
    berth_pool_give(pool, &block);
    berth_pool_destroy(pool);
    assert_true(berth_stream_query(kit->base.stream, ticket));
    berth_pool_destroy(NULL);
}

static void idle_memory_of_one_pool_is_there_for_another(void** state) {
    pool_kit* kit = *state;
    berth_pool* other = NULL;
    assert_ok(berth_pool_create(&(berth_pool_config){.host = kit->base.host,
                                                     .store = kit->base.store,
                                                     .stream = kit->base.stream},
                                &other));
    berth_block block = take(kit, KIT_CAPACITY), next;
    berth_pool_give(kit->pool, &block);
    assert_ok(berth_pool_take(other, &(berth_pool_request){.size_bytes = KIT_CAPACITY}, &next));
    berth_pool_stats stats;
    berth_pool_query_stats(kit->pool, &stats);
    assert_int_equal(stats.mapped_bytes, 0);
    berth_pool_give(other, &next);
    berth_pool_destroy(other);
}

static void fault_in_giving_memory_back_leaves_it_usable(void** state) {
    pool_kit* kit = *state;
    berth_block block = take(kit, 8 * G);
    berth_pool_give(kit->pool, &block);
    berth_sim_fail(kit->base.device, BERTH_SIM_UNMAP, 1);
    assert_int_equal(berth_pool_trim(kit->pool, 0, true), 0);
    assert_int_equal(stats_of(kit).mapped_bytes, 8 * G);
    berth_block next = take(kit, 8 * G);
    assert_ptr_equal(next.data, block.data);
    berth_pool_give(kit->pool, &next);
    assert_int_equal(berth_pool_trim(kit->pool, 0, true), 8 * G);
}

typedef struct counting {
    uint64_t live;
    uint64_t allocs;
    bool refuse;
    berth_stream* stream; ///< must have passed `ticket` when a block is freed; may be NULL
    uint64_t ticket;
} counting;

static void* counting_alloc(void* self, size_t size, size_t alignment) {
    counting* c = self;
    if (c->refuse) return NULL;
    c->live++;
    c->allocs++;
    void* block = NULL;
    return posix_memalign(&block, alignment, size) == 0 ? block : NULL;
}

static void counting_free(void* self, void* block, size_t size) {
    counting* c = self;
    assert_true(size > 0);
    if (c->stream != NULL) assert_true(berth_stream_query(c->stream, c->ticket));
    c->live--;
    free(block);
}

static void a_bypass_forwards_everything_and_counts(void** state) {
    pool_kit* kit = *state;
    counting c = {0};
    const berth_pool_bypass bypass = {.self = &c, .alloc = counting_alloc, .free = counting_free};
    berth_pool* pool = NULL;
    assert_ok(berth_pool_create(&(berth_pool_config){.host = kit->base.host,
                                                     .store = kit->base.store,
                                                     .stream = kit->base.stream,
                                                     .bypass = &bypass},
                                &pool));
    berth_block blocks[3];
    for (size_t i = 0; i < 3; i++) {
        assert_ok(berth_pool_take(pool, &(berth_pool_request){.size_bytes = i * 1000}, &blocks[i]));
        assert_non_null(blocks[i].data);
        memset(blocks[i].data, 1, i * 1000);
    }
    berth_pool_stats stats;
    berth_pool_query_stats(pool, &stats);
    assert_int_equal(stats.requested_bytes, 3000);
    assert_int_equal(stats.blocks, 3);
    assert_int_equal(stats.mapped_bytes, 0);
    assert_int_equal(stats.reuses, 0);
    assert_int_equal(c.live, 3);
    assert_int_equal(berth_pool_query_worst_growth(pool, 1 << 20), 0);
    // A write that is pending when the block is given back: the system has it only afterwards.
    unsigned char source[2000] = {7};
    memory_kit_enqueue_write(kit->base.stream, blocks[2].data, source, 2000);
    c.stream = kit->base.stream;
    assert_ok(berth_stream_record(kit->base.stream, &c.ticket));
    berth_pool_give(pool, &blocks[2]);
    berth_pool_give(pool, &blocks[1]);
    berth_pool_give(pool, &blocks[0]);
    assert_int_equal(c.live, 0);
    assert_int_equal(berth_pool_trim(pool, 0, false), 0);
    c.refuse = true;
    berth_block none;
    assert_int_equal(berth_pool_take(pool, &(berth_pool_request){.size_bytes = 10}, &none),
                     BERTH_ERR_OUT_OF_MEMORY);
    assert_null(none.data);
    berth_pool_destroy(pool);
}

static void many_blocks_are_not_promised_a_granule_each(void** state) {
    const pool_kit* kit = *state;
    berth_pool_demand demand = {0};
    berth_pool_demand_add(kit->pool, &demand, 0);
    assert_int_equal(berth_pool_demand_bytes(kit->pool, &demand), 0);
    berth_pool_demand_add(kit->pool, &demand, 64);
    assert_int_equal(berth_pool_demand_bytes(kit->pool, &demand), G);
    for (int i = 1; i < 10000; i++)
        berth_pool_demand_add(kit->pool, &demand, 64);
    const uint64_t small = berth_pool_demand_bytes(kit->pool, &demand);
    assert_true(small >= 10000 * 64 && small <= 10000 * 64 * 4);
    demand = (berth_pool_demand){0};
    for (int i = 0; i < 100; i++)
        berth_pool_demand_add(kit->pool, &demand, 2 * SMALL_MAX);
    assert_true(berth_pool_demand_bytes(kit->pool, &demand) <= 100 * 2 * SMALL_MAX * 3 + G);
    berth_pool_demand_add(kit->pool, &demand, UINT64_MAX);
    assert_int_equal(berth_pool_demand_bytes(kit->pool, &demand), UINT64_MAX);
}

/// Takes blocks of at most the sizes that were promised for, and gives some back in between.
static void take_as_promised(pool_kit* kit, uint64_t seed, uint64_t largest) {
    enum { COUNT = 300 };
    test_random random = test_random_make(seed);
    uint64_t sizes[COUNT];
    berth_block blocks[COUNT];
    berth_pool_demand demand = {0};
    for (int i = 0; i < COUNT; i++) {
        const uint64_t most = i % 50 == 0 ? largest : SMALL_MAX;
        sizes[i] = test_random_below(&random, most) + 1;
        berth_pool_demand_add(kit->pool, &demand, sizes[i]);
    }
    const uint64_t before = stats_of(kit).mapped_bytes;
    size_t out = 0;
    for (int i = 0; i < COUNT; i++) {
        const uint64_t less = i % 3 == 0 ? test_random_below(&random, sizes[i]) : 0;
        blocks[out++] = take(kit, sizes[i] - less);
        if (!test_random_one_in(&random, 4)) continue;
        const uint64_t at = test_random_below(&random, out);
        berth_pool_give(kit->pool, &blocks[at]);
        blocks[at] = blocks[--out];
    }
    const uint64_t after = stats_of(kit).mapped_bytes;
    assert_true(after - before <= berth_pool_demand_bytes(kit->pool, &demand));
    while (out > 0)
        berth_pool_give(kit->pool, &blocks[--out]);
    (void)berth_pool_trim(kit->pool, 0, true);
}

static void blocks_of_every_mix_map_no_more_than_was_promised(void** state) {
    pool_kit* kit = *state;
    for (uint64_t seed = 1; seed <= 60; seed++)
        take_as_promised(kit, seed, seed % 2 == 0 ? SMALL_MAX * 4 : G);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(blocks_of_every_size_can_be_taken_written_and_given_back),
        TEST(a_block_of_no_bytes_has_an_address_and_costs_nothing),
        TEST(a_block_given_back_is_taken_again_at_once),
        TEST(the_whole_capacity_can_be_one_block),
        TEST(what_one_kind_of_size_gives_back_any_other_can_take),
        TEST(scattered_free_granules_serve_a_large_block_without_more_memory),
        TEST(rounding_wastes_at_most_an_eighth),
        TEST(a_size_beyond_reason_is_an_overflow),
        TEST(many_blocks_are_not_promised_a_granule_each),
        TEST(blocks_of_every_mix_map_no_more_than_was_promised),
        TEST(a_full_pool_refuses_and_recovers),
        TEST(growth_draws_on_the_reservation),
        TEST(trim_gives_back_all_but_what_is_to_be_kept),
        TEST(nothing_is_unmapped_under_work_that_is_pending),
        TEST(a_trim_that_may_block_waits_for_the_work),
        TEST(later_work_of_the_same_stream_takes_a_block_at_once),
        TEST(nothing_is_unmapped_under_work_that_the_stream_waits_for),
        TEST(a_shortage_waits_for_work_that_keeps_granules_in_place),
        TEST(destroying_waits_for_the_streams_work),
        TEST(idle_memory_of_one_pool_is_there_for_another),
        TEST(fault_in_giving_memory_back_leaves_it_usable),
        TEST(a_bypass_forwards_everything_and_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
