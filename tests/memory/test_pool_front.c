// SPDX-License-Identifier: Apache-2.0
// The front of a pool, and blocks that come back from other threads.
#include "memory_kit.h"

#include <stdatomic.h>

#include "base/checked.h"
#include "memory/pool_internal.h"

#define G (UINT64_C(2) << 20)
#define CAPACITY (128 * G)

typedef struct front_kit {
    memory_kit base;
    berth_mutex guard;
    berth_pool* pool;
} front_kit;

static berth_pool* make_pool(const memory_kit* kit, berth_mutex* guard) {
    berth_pool* pool = NULL;
    assert_ok(berth_pool_create(&(berth_pool_config){.host = kit->host,
                                                     .store = kit->store,
                                                     .stream = kit->stream,
                                                     .guard = memory_kit_guard(guard)},
                                &pool));
    return pool;
}

static int setup(void** state) {
    front_kit* kit = calloc(1, sizeof *kit);
    const berth_sim_options options = {.capacity_bytes = CAPACITY, .granule_bytes = G};
    memory_kit_init(&kit->base, &options);
    assert_ok(berth_mutex_init(&kit->guard));
    kit->pool = make_pool(&kit->base, &kit->guard);
    *state = kit;
    return 0;
}

static int teardown(void** state) {
    front_kit* kit = *state;
    berth_pool_destroy(kit->pool);
    berth_mutex_fini(&kit->guard);
    memory_kit_fini(&kit->base);
    free(kit);
    return 0;
}

static berth_pool_stats stats_of(const front_kit* kit) {
    berth_pool_stats stats;
    berth_pool_query_stats(kit->pool, &stats);
    assert_true(berth_pool_is_valid(kit->pool));
    return stats;
}

static berth_block take_for(front_kit* kit, uint64_t size, berth_movable* movable) {
    berth_block block;
    const berth_pool_request request = {.size_bytes = size, .movable = movable};
    assert_ok(berth_pool_take(kit->pool, &request, &block));
    return block;
}

static berth_block take(front_kit* kit, uint64_t size) { return take_for(kit, size, NULL); }

static uint64_t front_bytes(const front_kit* kit) {
    return berth_front_query_bytes(&kit->pool->front);
}

static const uint64_t front_sizes[] = {1, 64, 300, 512, 2000, 16000, 20000, 100000, 1000000};
enum { FRONT_SIZES = sizeof front_sizes / sizeof front_sizes[0] };

static void what_was_given_back_is_taken_again_without_the_lock(void** state) {
    front_kit* kit = *state;
    for (size_t i = 0; i < FRONT_SIZES; i++) {
        berth_block block = take(kit, front_sizes[i]);
        const berth_block first = block;
        berth_pool_give(kit->pool, &block);
        berth_mutex_lock(kit->pool->lock); // who wants it now waits for good
        for (int n = 0; n < 100; n++) {
            block = take(kit, front_sizes[i]);
            assert_ptr_equal(block.data, first.data);
            assert_int_equal(block.size_bytes, front_sizes[i]);
            berth_pool_give(kit->pool, &block);
        }
        berth_mutex_unlock(kit->pool->lock);
    }
    assert_int_equal(stats_of(kit).takes, FRONT_SIZES * 101);
    assert_int_equal(stats_of(kit).blocks, 0);
}

static void a_steady_program_makes_no_call_to_the_device_or_for_host_memory(void** state) {
    front_kit* kit = *state;
    enum { KEPT = 64 };
    berth_block blocks[KEPT] = {{0}};
    test_random random = test_random_make(3);
    uint64_t calls = 0, allocs = 0, mapped = 0;
    for (int i = 0; i < 20000; i++) {
        if (i == 10000) {
            calls = berth_sim_query_all_calls(kit->base.device);
            allocs = berth_host_query_alloc_calls(kit->base.host);
            mapped = stats_of(kit).mapped_bytes;
        }
        const size_t at = test_random_below(&random, KEPT);
        if (blocks[at].data != NULL) berth_pool_give(kit->pool, &blocks[at]);
        // the same sizes at the same places over and over
        blocks[at] = take(kit, UINT64_C(70) << (at % 15));
    }
    assert_int_equal(berth_sim_query_all_calls(kit->base.device), calls);
    assert_int_equal(berth_host_query_alloc_calls(kit->base.host), allocs);
    assert_int_equal(stats_of(kit).mapped_bytes, mapped);
    for (size_t i = 0; i < KEPT; i++)
        if (blocks[i].data != NULL) berth_pool_give(kit->pool, &blocks[i]);
}

static void a_front_holds_a_small_share_and_counts_as_free(void** state) {
    front_kit* kit = *state;
    enum { MANY = 300 };
    berth_block blocks[MANY];
    uint64_t most = 0;
    for (uint64_t size = 40; size < 2 * G; size = size * 3 / 2) {
        const size_t count = size < G / 16 ? MANY : 30;
        for (size_t i = 0; i < count; i++)
            blocks[i] = take(kit, size);
        for (size_t i = 0; i < count; i++)
            berth_pool_give(kit->pool, &blocks[i]);
        if (front_bytes(kit) > most) most = front_bytes(kit);
        const berth_pool_stats stats = stats_of(kit);
        assert_true(stats.free_bytes <= stats.mapped_bytes);
        assert_true(stats.mapped_bytes - stats.free_bytes <= stats.mapped_bytes / 8);
    }
    assert_true(most > G / 2);
    assert_true(most <= CAPACITY / 64 && most <= 2 * G);
}

static void flushing_lets_neighbours_join(void** state) {
    front_kit* kit = *state;
    berth_block blocks[8];
    for (size_t i = 0; i < 8; i++)
        blocks[i] = take(kit, G / 8);
    const uint64_t before = stats_of(kit).largest_free_bytes;
    for (size_t i = 0; i < 8; i++)
        berth_pool_give(kit->pool, &blocks[i]);
    berth_pool_flush_front(kit->pool);
    assert_int_equal(front_bytes(kit), 0);
    assert_true(before < G);
    assert_int_equal(stats_of(kit).largest_free_bytes, stats_of(kit).mapped_bytes);
    assert_int_equal(stats_of(kit).free_bytes, stats_of(kit).mapped_bytes);
}

static void a_flush_finds_extents_of_all_sizes(void** state) {
    front_kit* kit = *state;
    enum { COUNT = BERTH_FRONT_EXTENTS };
    berth_block blocks[COUNT];
    for (uint64_t round = 0; round < 8; round++) {
        // another size each, so that they lie in many chains, and some in one
        for (uint64_t i = 0; i < COUNT; i++)
            blocks[i] = take(kit, 17000 + round * 1000 + i * BERTH_ALIGNMENT);
        for (size_t i = 0; i < COUNT; i++)
            berth_pool_give(kit->pool, &blocks[i]);
        // chains that are empty again
        for (uint64_t i = 0; i < COUNT; i += 2)
            blocks[i] = take(kit, 17000 + round * 1000 + i * BERTH_ALIGNMENT);
        assert_true(front_bytes(kit) > 0);
        assert_true(berth_pool_is_valid(kit->pool));
        berth_pool_flush_front(kit->pool);
        assert_int_equal(front_bytes(kit), 0);
        for (size_t i = 0; i < COUNT; i += 2)
            berth_pool_give(kit->pool, &blocks[i]);
    }
    berth_pool_flush_front(kit->pool);
    assert_int_equal(stats_of(kit).largest_free_bytes, stats_of(kit).mapped_bytes);
}

static void nothing_is_mapped_while_something_in_the_front_fits(void** state) {
    front_kit* kit = *state;
    berth_block blocks[8];
    for (size_t i = 0; i < 8; i++)
        blocks[i] = take(kit, G / 8);
    assert_int_equal(stats_of(kit).mapped_bytes, G);
    for (size_t i = 0; i < 8; i++)
        berth_pool_give(kit->pool, &blocks[i]);
    assert_true(front_bytes(kit) >= G / 2);
    berth_reservation promise = {0};
    assert_ok(
        berth_store_reserve(memory_kit_account(&kit->base, BERTH_OWNER_POOL), 4 * G, &promise));
    berth_block whole;
    const berth_pool_request request = {.size_bytes = G, .reservation = &promise};
    assert_ok(berth_pool_take(kit->pool, &request, &whole));
    assert_int_equal(promise.bytes, 4 * G);
    assert_int_equal(stats_of(kit).mapped_bytes, G);
    berth_pool_give(kit->pool, &whole);
    berth_store_unreserve(kit->base.store, &promise);
}

static void slots_in_a_front_do_not_keep_slabs(void** state) {
    front_kit* kit = *state;
    berth_block block = take(kit, 100);
    berth_pool_give(kit->pool, &block);
    assert_true(front_bytes(kit) > 0);
    assert_int_equal(berth_pool_trim(kit->pool, 0, true), G);
    assert_int_equal(stats_of(kit).mapped_bytes, 0);
}

static void only_who_gets_the_guard_takes_from_the_front(void** state) {
    front_kit* kit = *state;
    berth_mutex guard;
    assert_ok(berth_mutex_init(&guard));
    berth_pool* other = make_pool(&kit->base, &guard);
    berth_block block = take(kit, 1000), all;
    berth_pool_give(kit->pool, &block);
    const uint64_t held = front_bytes(kit);
    const berth_pool_request request = {.size_bytes = CAPACITY};
    berth_mutex_lock(&kit->guard);
    assert_int_equal(berth_pool_trim(kit->pool, 0, false), 0);
    assert_int_equal(berth_pool_take(other, &request, &all), BERTH_ERR_OUT_OF_MEMORY);
    assert_int_equal(front_bytes(kit), held);
    berth_mutex_unlock(&kit->guard);
    assert_ok(berth_pool_take(other, &request, &all));
    assert_int_equal(front_bytes(kit), 0);
    berth_pool_give(other, &all);
    berth_pool_destroy(other);
    berth_mutex_fini(&guard);
}

static berth_movable* noted_for(const front_kit* kit, const berth_block* block) {
    const uint64_t handle = block->handle >> 1;
    if (!berth_pool_is_slot(block->handle))
        return berth_extents_at(&kit->pool->extents, (berth_extent_id)handle)->movable;
    return berth_slabs_of(&kit->pool->slabs, handle)->movables[handle % BERTH_SLAB_SLOTS];
}

static void who_can_follow_a_move_is_noted_exactly(void** state) {
    front_kit* kit = *state;
    berth_movable owner = {.ops = NULL};
    for (size_t i = 0; i < FRONT_SIZES; i++) {
        for (int round = 0; round < 3; round++) {
            berth_block block = take_for(kit, front_sizes[i], &owner);
            assert_ptr_equal(noted_for(kit, &block), &owner);
            berth_pool_give(kit->pool, &block);
            assert_null(noted_for(kit, &block));
            block = take(kit, front_sizes[i]);
            assert_null(noted_for(kit, &block));
            berth_pool_give(kit->pool, &block);
        }
    }
}

// ---- Blocks that come back from other threads.

static void a_block_from_another_thread_is_taken_over_at_the_next_look(void** state) {
    front_kit* kit = *state;
    berth_block blocks[3] = {take(kit, 100), take(kit, 50000), take(kit, 0)};
    for (size_t i = 0; i < 3; i++)
        berth_pool_give_remote(kit->pool, &blocks[i]);
    assert_int_equal(stats_of(kit).blocks, 3);
    assert_int_equal(stats_of(kit).requested_bytes, 50100);
    berth_pool_flush_front(kit->pool);
    assert_int_equal(stats_of(kit).blocks, 0);
    assert_int_equal(stats_of(kit).requested_bytes, 0);
    assert_int_equal(stats_of(kit).free_bytes, stats_of(kit).mapped_bytes);
}

static void more_blocks_from_other_threads_than_the_ring_holds_all_come_back(void** state) {
    front_kit* kit = *state;
    enum { MANY = 3 * BERTH_REMOTE_CELLS };
    berth_block blocks[MANY];
    uint64_t bytes = 0;
    for (int held = 0; held < 2; held++) {
        for (size_t i = 0; i < MANY; i++) {
            blocks[i] = take(kit, 1 + i * 40);
            bytes += blocks[i].size_bytes;
        }
        assert_int_equal(stats_of(kit).requested_bytes, bytes);
        if (held == 1) berth_mutex_lock(&kit->guard);
        for (size_t i = 0; i < MANY; i++)
            berth_pool_give_remote(kit->pool, &blocks[i]);
        if (held == 1) berth_mutex_unlock(&kit->guard);
        // what found no place is free already
        assert_true(stats_of(kit).blocks <= BERTH_REMOTE_CELLS);
        berth_pool_flush_front(kit->pool);
        assert_int_equal(stats_of(kit).requested_bytes, 0);
        assert_int_equal(stats_of(kit).blocks, 0);
        bytes = 0;
    }
}

static void without_host_memory_for_the_ring_blocks_still_come_back(void** state) {
    front_kit* kit = *state;
    for (int held = 0; held < 2; held++) {
        berth_block block = take(kit, 700);
        failing_host_fail(&kit->base.failing, 1, true);
        if (held == 1) berth_mutex_lock(&kit->guard);
        berth_pool_give_remote(kit->pool, &block);
        if (held == 1) berth_mutex_unlock(&kit->guard);
        failing_host_fail(&kit->base.failing, 0, false);
        assert_int_equal(stats_of(kit).blocks, 0);
        assert_int_equal(stats_of(kit).requested_bytes, 0);
    }
}

static void* system_alloc(void* self, size_t size, size_t alignment) {
    ++*(int*)self;
    return aligned_alloc(alignment, berth_round_up(size, alignment));
}

static void system_free(void* self, void* block, size_t size) {
    (void)size;
    --*(int*)self;
    free(block);
}

static void a_bypass_gets_blocks_of_other_threads_back(void** state) {
    front_kit* kit = *state;
    int out = 0;
    const berth_pool_bypass bypass = {.self = &out, .alloc = system_alloc, .free = system_free};
    berth_pool* pool = NULL;
    assert_ok(berth_pool_create(&(berth_pool_config){.host = kit->base.host,
                                                     .store = kit->base.store,
                                                     .stream = kit->base.stream,
                                                     .bypass = &bypass,
                                                     .guard = memory_kit_guard(&kit->guard)},
                                &pool));
    berth_block block;
    assert_ok(berth_pool_take(pool, &(berth_pool_request){.size_bytes = 1000}, &block));
    assert_int_equal(out, 1);
    berth_pool_give_remote(pool, &block);
    assert_int_equal(out, 0);
    berth_pool_stats stats;
    berth_pool_query_stats(pool, &stats);
    assert_int_equal(stats.blocks, 0);
    assert_int_equal(stats.requested_bytes, 0);
    berth_pool_destroy(pool);
}

// ---- Threads.

#define RELEASERS 4
#define MAILBOX 32 ///< blocks under way to one releaser

/// One slot each for blocks that a releaser has not given back yet; empty ones have no data.
typedef struct releaser {
    front_kit* kit;
    berth_thread thread;
    berth_block blocks[MAILBOX];
    _Atomic uint32_t sent;
    _Atomic uint32_t done;
    _Atomic bool is_over;
} releaser;

static unsigned char mark_of(const berth_block* block) {
    return (unsigned char)(block->size_bytes * 31 + block->born);
}

static void check_content(const berth_block* block) {
    for (uint64_t at = 0; at < block->size_bytes; at += at < 64 ? 1 : 509)
        if (block->data[at] != mark_of(block)) abort();
}

static void release_what_is_sent(void* argument) {
    releaser* r = argument;
    for (uint32_t done = 0;;) {
        if (done == atomic_load_explicit(&r->sent, memory_order_acquire)) {
            if (atomic_load(&r->is_over) && done == atomic_load(&r->sent)) return;
            sched_yield();
            continue;
        }
        const berth_block block = r->blocks[done % MAILBOX];
        check_content(&block);
        atomic_store_explicit(&r->done, ++done, memory_order_release);
        berth_pool_give_remote(r->kit->pool, &block);
        if (done % 97 == 0) berth_pool_trim(r->kit->pool, G, false);
        if (done % 53 == 0) {
            berth_pool_stats stats;
            berth_pool_query_stats(r->kit->pool, &stats);
            if (stats.mapped_bytes < stats.requested_bytes) abort();
        }
    }
}

/// Leaves the block to a releaser; false if its mailbox is full.
static bool send(releaser* r, const berth_block* block) {
    const uint32_t sent = atomic_load_explicit(&r->sent, memory_order_relaxed);
    if (sent - atomic_load_explicit(&r->done, memory_order_acquire) == MAILBOX) return false;
    r->blocks[sent % MAILBOX] = *block;
    atomic_store_explicit(&r->sent, sent + 1, memory_order_release);
    return true;
}

/// Takes blocks of mixed sizes, the guard held for a few calls at a time, and lets others release
/// most of them.
static void take_and_send(front_kit* kit, releaser* releasers, int count) {
    test_random random = test_random_make(77);
    for (int i = 0; i < count;) {
        berth_mutex_lock(&kit->guard);
        for (int n = 0; n < 16 && i < count; n++, i++) {
            const uint64_t octave = test_random_below(&random, 18);
            berth_block block = take(kit, test_random_below(&random, UINT64_C(2) << octave));
            memset(block.data, mark_of(&block), block.size_bytes);
            if (!send(&releasers[test_random_below(&random, RELEASERS)], &block)) {
                check_content(&block);
                berth_pool_give(kit->pool, &block);
            }
        }
        berth_mutex_unlock(&kit->guard);
        if (i % 64 == 0) sched_yield();
    }
}

static void threads_give_blocks_back_that_another_one_took(void** state) {
    front_kit* kit = *state;
    releaser* releasers = calloc(RELEASERS, sizeof *releasers);
    for (size_t i = 0; i < RELEASERS; i++) {
        releasers[i].kit = kit;
        assert_ok(berth_thread_start(
            &releasers[i].thread, "releaser", release_what_is_sent, &releasers[i]));
    }
    take_and_send(kit, releasers, 30000);
    uint64_t sent = 0;
    for (size_t i = 0; i < RELEASERS; i++) {
        atomic_store(&releasers[i].is_over, true);
        berth_thread_join(&releasers[i].thread);
        sent += releasers[i].sent;
    }
    assert_true(sent > 1000);
    berth_pool_flush_front(kit->pool);
    // a slab that stays may have a remainder with it
    assert_int_equal(berth_pool_trim(kit->pool, UINT64_MAX, true), 0);
    const berth_pool_stats stats = stats_of(kit);
    assert_int_equal(stats.blocks, 0);
    assert_int_equal(stats.requested_bytes, 0);
    assert_int_equal(stats.takes, 30000);
    assert_int_equal(stats.free_bytes, stats.mapped_bytes);
    memory_kit_check_books(&kit->base);
    free(releasers);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(what_was_given_back_is_taken_again_without_the_lock),
        TEST(a_steady_program_makes_no_call_to_the_device_or_for_host_memory),
        TEST(a_front_holds_a_small_share_and_counts_as_free),
        TEST(flushing_lets_neighbours_join),
        TEST(a_flush_finds_extents_of_all_sizes),
        TEST(nothing_is_mapped_while_something_in_the_front_fits),
        TEST(slots_in_a_front_do_not_keep_slabs),
        TEST(only_who_gets_the_guard_takes_from_the_front),
        TEST(who_can_follow_a_move_is_noted_exactly),
        TEST(a_block_from_another_thread_is_taken_over_at_the_next_look),
        TEST(more_blocks_from_other_threads_than_the_ring_holds_all_come_back),
        TEST(without_host_memory_for_the_ring_blocks_still_come_back),
        TEST(a_bypass_gets_blocks_of_other_threads_back),
        TEST(threads_give_blocks_back_that_another_one_took),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
