// SPDX-License-Identifier: Apache-2.0
// Arenas: the stack of frames, what they map, what is held, what is given back and when.
#include "memory_kit.h"

#include "base/thread.h"
#include "memory/arena.h"

#define G KIT_GRANULE

typedef struct arena_kit {
    memory_kit base;
    berth_arena* arena;
} arena_kit;

static int setup(void** state) {
    arena_kit* kit = calloc(1, sizeof *kit);
    const berth_sim_options options = memory_kit_options();
    memory_kit_init(&kit->base, &options);
    assert_ok(
        berth_arena_create(kit->base.host, kit->base.store, NULL, kit->base.stream, &kit->arena));
    *state = kit;
    return 0;
}

static int teardown(void** state) {
    arena_kit* kit = *state;
    berth_arena_destroy(kit->arena);
    memory_kit_fini(&kit->base);
    free(kit);
    return 0;
}

static berth_arena_stats stats_of(const arena_kit* kit) {
    berth_arena_stats stats;
    berth_arena_query_stats(kit->arena, &stats);
    assert_int_equal(memory_kit_stats(&kit->base).mapped_by_owner[BERTH_OWNER_FRAMES],
                     stats.mapped_bytes);
    memory_kit_check_books(&kit->base);
    return stats;
}

static berth_frame push(arena_kit* kit, uint64_t size) {
    berth_frame frame;
    assert_ok(berth_arena_push(kit->arena, size, NULL, &frame));
    assert_non_null(frame.base);
    assert_int_equal((uintptr_t)frame.base % BERTH_ALIGNMENT, 0);
    assert_int_equal(frame.size_bytes, size);
    memset(frame.base, 0x5A, size);
    return frame;
}

static void synchronize(arena_kit* kit) { assert_ok(berth_stream_synchronize(kit->base.stream)); }

static void frames_stack_and_pop_in_reverse(void** state) {
    arena_kit* kit = *state;
    berth_frame outer = push(kit, 2 * G + 100);
    berth_frame inner = push(kit, G);
    berth_frame third = push(kit, 10);
    assert_true(inner.base >= outer.base + outer.size_bytes);
    assert_true(third.base >= inner.base + inner.size_bytes);
    assert_true(stats_of(kit).used_bytes >= 3 * G + 110);
    assert_int_equal(stats_of(kit).mapped_bytes, 4 * G);
    berth_arena_pop(kit->arena, &third);
    berth_arena_pop(kit->arena, &inner);
    berth_frame again = push(kit, 2 * G);
    assert_ptr_equal(again.base, inner.base);
    assert_int_equal(stats_of(kit).mapped_bytes, 5 * G);
    berth_arena_pop(kit->arena, &again);
    berth_arena_pop(kit->arena, &outer);
    assert_int_equal(stats_of(kit).used_bytes, 0);
    assert_int_equal(stats_of(kit).ranges, 1);
}

/// Bytes that reserve promises for a push of `size`.
static uint64_t promise_for(arena_kit* kit, uint64_t size) {
    berth_reservation promise = {0};
    assert_ok(berth_arena_reserve(kit->arena, size, &promise));
    const uint64_t bytes = promise.bytes;
    berth_store_unreserve(kit->base.store, &promise);
    return bytes;
}

static void a_promise_is_what_the_push_maps(void** state) {
    arena_kit* kit = *state;
    assert_int_equal(promise_for(kit, 0), 0);
    assert_int_equal(promise_for(kit, 1), G);
    berth_reservation none = {0};
    assert_int_equal(berth_arena_reserve(kit->arena, UINT64_MAX, &none), BERTH_ERR_OUT_OF_MEMORY);
    assert_int_equal(none.bytes, 0);
    assert_int_equal(promise_for(kit, 3 * G + 1), 4 * G);
    berth_frame frame = push(kit, 3 * G + 1);
    assert_int_equal(stats_of(kit).mapped_bytes, 4 * G);
    assert_int_equal(promise_for(kit, G - 64), 0);
    assert_int_equal(promise_for(kit, G), G);
    berth_arena_pop(kit->arena, &frame);
    assert_int_equal(promise_for(kit, 4 * G), 0);
    assert_int_equal(promise_for(kit, 4 * G + 1), G);
}

static void a_replayed_step_calls_nothing_below(void** state) {
    arena_kit* kit = *state;
    berth_frame frame = push(kit, 5 * G);
    berth_arena_pop(kit->arena, &frame);
    const uint64_t device_calls = berth_sim_query_all_calls(kit->base.device);
    const uint64_t host_calls = berth_host_query_alloc_calls(kit->base.host);
    unsigned char* base = frame.base;
    for (int i = 0; i < 100; i++) {
        assert_ok(berth_arena_push(kit->arena, 5 * G, NULL, &frame));
        assert_ptr_equal(frame.base, base);
        berth_arena_pop(kit->arena, &frame);
    }
    assert_int_equal(berth_sim_query_all_calls(kit->base.device), device_calls);
    assert_int_equal(berth_host_query_alloc_calls(kit->base.host), host_calls);
}

static void an_empty_frame_is_valid_and_maps_nothing(void** state) {
    arena_kit* kit = *state;
    berth_frame empty = push(kit, 0);
    berth_frame above = push(kit, 100);
    assert_ptr_equal(above.base, empty.base);
    berth_arena_pop(kit->arena, &above);
    berth_arena_pop(kit->arena, &empty);
    assert_int_equal(stats_of(kit).mapped_bytes, G);
}

static void a_push_draws_on_its_reservation(void** state) {
    arena_kit* kit = *state;
    berth_reservation mine = {0}, rest = {0};
    assert_ok(berth_arena_reserve(kit->arena, 10 * G, &mine));
    assert_int_equal(mine.bytes, 10 * G);
    assert_ok(berth_store_reserve(
        memory_kit_account(&kit->base, BERTH_OWNER_POOL), KIT_CAPACITY - 10 * G, &rest));
    berth_frame frame;
    assert_ok(berth_arena_push(kit->arena, 10 * G, &mine, &frame));
    assert_int_equal(mine.bytes, 0);
    berth_arena_pop(kit->arena, &frame);
    berth_store_unreserve(kit->base.store, &rest);
}

static void idle_granules_a_reserved_push_counts_on_are_not_reclaimed(void** state) {
    arena_kit* kit = *state;
    berth_frame frame = push(kit, KIT_CAPACITY / 2);
    berth_arena_pop(kit->arena, &frame);
    synchronize(kit);
    // Needs nothing new: all of it is idle here. The ladder must not take it now.
    berth_reservation mine = {0}, other = {0};
    assert_ok(berth_arena_reserve(kit->arena, KIT_CAPACITY / 2, &mine));
    assert_int_equal(mine.bytes, 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(berth_store_reserve(memory_kit_account(&kit->base, BERTH_OWNER_POOL),
                                             KIT_CAPACITY,
                                             &other),
                         BERTH_ERR_OUT_OF_MEMORY);
    assert_ok(berth_store_reserve(
        memory_kit_account(&kit->base, BERTH_OWNER_POOL), KIT_CAPACITY / 2, &other));
    assert_ok(berth_arena_push(kit->arena, KIT_CAPACITY / 2, &mine, &frame));
    berth_arena_pop(kit->arena, &frame);
    berth_store_unreserve(kit->base.store, &other);
    // After the push it may.
    synchronize(kit);
    if (berth_store_reserve(
            memory_kit_account(&kit->base, BERTH_OWNER_POOL), KIT_CAPACITY, &other) != BERTH_OK) {
        synchronize(kit); // the first climb has issued the ticket
        assert_ok(berth_store_reserve(
            memory_kit_account(&kit->base, BERTH_OWNER_POOL), KIT_CAPACITY, &other));
    }
    assert_int_equal(stats_of(kit).mapped_bytes, 0);
    berth_store_unreserve(kit->base.store, &other);
}

static void a_refused_reservation_promises_nothing(void** state) {
    arena_kit* kit = *state;
    berth_reservation mine = {0};
    assert_fails(berth_arena_reserve(kit->arena, KIT_CAPACITY + 1, &mine),
                 BERTH_ERR_OUT_OF_MEMORY,
                 "capacity");
    assert_int_equal(mine.bytes, 0);
    berth_reservation all = {0};
    assert_ok(berth_store_reserve(
        memory_kit_account(&kit->base, BERTH_OWNER_POOL), KIT_CAPACITY - G, &all));
    assert_int_equal(berth_arena_reserve(kit->arena, 2 * G, &mine), BERTH_ERR_OUT_OF_MEMORY);
    assert_int_equal(mine.bytes, 0);
    berth_store_unreserve(kit->base.store, &all);
}

static void a_push_that_cannot_be_mapped_changes_nothing(void** state) {
    arena_kit* kit = *state;
    berth_frame none = {.size_bytes = 1}, outer = push(kit, G);
    assert_fails(berth_arena_push(kit->arena, KIT_CAPACITY * 4, NULL, &none),
                 BERTH_ERR_OUT_OF_MEMORY,
                 "frames 64.00 KiB");
    assert_null(none.base);
    berth_reservation mine = {0};
    assert_ok(berth_store_reserve(memory_kit_account(&kit->base, BERTH_OWNER_POOL), 3 * G, &mine));
    berth_sim_fail(kit->base.device, BERTH_SIM_MAP, 1);
    assert_int_equal(berth_arena_push(kit->arena, 2 * G, &mine, &none), BERTH_ERR_OUT_OF_MEMORY);
    assert_int_equal(mine.bytes, 3 * G);
    assert_int_equal(stats_of(kit).mapped_bytes, G);
    assert_int_equal(stats_of(kit).used_bytes, G);
    berth_store_unreserve(kit->base.store, &mine);
    berth_frame inner = push(kit, 2 * G);
    berth_arena_pop(kit->arena, &inner);
    berth_arena_pop(kit->arena, &outer);
}

static void a_push_over_several_gaps_is_undone_as_a_whole(void** state) {
    arena_kit* kit = *state;
    // Holds split the idle granules of the current range: two gaps remain after the trim.
    berth_frame outer = push(kit, 10);
    berth_frame inner = push(kit, 8 * G);
    unsigned char* data = inner.base + 4 * G;
    assert_ok(berth_arena_hold(kit->arena, data, 64));
    berth_arena_pop(kit->arena, &inner);
    berth_arena_trim(kit->arena, 0, true);
    assert_int_equal(stats_of(kit).mapped_bytes, 2 * G);
    berth_arena_drop(kit->arena, data);
    berth_reservation mine = {0};
    assert_ok(berth_store_reserve(memory_kit_account(&kit->base, BERTH_OWNER_POOL), 8 * G, &mine));
    berth_sim_fail(kit->base.device, BERTH_SIM_MAP, 2);
    berth_frame none;
    assert_int_equal(berth_arena_push(kit->arena, 8 * G, &mine, &none), BERTH_ERR_OUT_OF_MEMORY);
    assert_int_equal(mine.bytes, 8 * G);
    assert_int_equal(stats_of(kit).mapped_bytes, 2 * G);
    berth_store_unreserve(kit->base.store, &mine);
    inner = push(kit, 8 * G);
    berth_arena_pop(kit->arena, &inner);
    berth_arena_pop(kit->arena, &outer);
}

static void held_bytes_stay_while_the_next_step_begins_on_a_fresh_range(void** state) {
    arena_kit* kit = *state;
    berth_frame frame = push(kit, 6 * G);
    unsigned char* data = frame.base + 3 * G + 128;
    memset(data, 0x77, 1000);
    assert_ok(berth_arena_hold(kit->arena, data, 1000));
    berth_arena_pop(kit->arena, &frame);
    synchronize(kit);
    assert_int_equal(stats_of(kit).held_bytes, 1000);

    berth_frame next = push(kit, 6 * G);
    assert_true(data < next.base || data >= next.base + next.size_bytes);
    assert_int_equal(data[0], 0x77);
    assert_int_equal(data[999], 0x77);
    assert_int_equal(stats_of(kit).ranges, 2);
    berth_arena_pop(kit->arena, &next);
    berth_arena_trim(kit->arena, UINT64_MAX, true);
    // Of the old range only the granule under the held bytes is left.
    assert_true(stats_of(kit).mapped_bytes <= 7 * G);
    assert_int_equal(data[999], 0x77);
    berth_arena_drop(kit->arena, data);
    berth_arena_trim(kit->arena, UINT64_MAX, true);
    assert_int_equal(stats_of(kit).ranges, 1);
    assert_int_equal(stats_of(kit).held_bytes, 0);
    // The current range has nothing held: the next step stays where it is.
    berth_frame last = push(kit, 6 * G);
    assert_ptr_equal(last.base, next.base);
    berth_arena_pop(kit->arena, &last);
}

static void a_fresh_range_inherits_the_idle_granules(void** state) {
    arena_kit* kit = *state;
    berth_frame frame = push(kit, 8 * G);
    assert_ok(berth_arena_hold(kit->arena, frame.base, 10));
    berth_arena_pop(kit->arena, &frame);
    // Let a ticket pass, so that the granules are known to be idle.
    berth_arena_trim(kit->arena, 8 * G, true);
    berth_reservation rest = {0};
    assert_ok(berth_store_reserve(
        memory_kit_account(&kit->base, BERTH_OWNER_POOL), KIT_CAPACITY - 9 * G, &rest));
    const uint64_t maps = berth_sim_query_calls(kit->base.device, BERTH_SIM_MAP);
    berth_frame next;
    berth_status status = berth_arena_push(kit->arena, 8 * G, NULL, &next);
    if (status != BERTH_OK) {
        synchronize(kit);
        status = berth_arena_push(kit->arena, 8 * G, NULL, &next);
    }
    assert_int_equal(status, BERTH_OK);
    assert_true(berth_sim_query_calls(kit->base.device, BERTH_SIM_MAP) <= maps + 2);
    assert_int_equal(stats_of(kit).mapped_bytes, 9 * G);
    berth_store_unreserve(kit->base.store, &rest);
    berth_arena_pop(kit->arena, &next);
    berth_arena_drop(kit->arena, frame.base);
}

static void room_for_holds_made_before_is_enough_without_host_memory(void** state) {
    arena_kit* kit = *state;
    assert_ok(berth_arena_reserve_holds(kit->arena, 50));
    berth_frame frame = push(kit, G);
    failing_host_fail(&kit->base.failing, 1, true);
    for (uint64_t i = 50; i-- > 0;)
        assert_ok(berth_arena_hold(kit->arena, frame.base + i * 64, 64));
    assert_int_equal(berth_arena_reserve_holds(kit->arena, 10000), BERTH_ERR_OUT_OF_MEMORY);
    failing_host_fail(&kit->base.failing, 0, false);
    assert_int_equal(stats_of(kit).held_bytes, 50 * 64);
    for (uint64_t i = 0; i < 50; i++)
        berth_arena_drop(kit->arena, frame.base + i * 64);
    berth_arena_pop(kit->arena, &frame);
}

static void frames_on_top_of_others_keep_clear_of_what_is_held(void** state) {
    arena_kit* kit = *state;
    berth_frame outer = push(kit, G);
    berth_frame inner = push(kit, 4 * G);
    unsigned char* data = inner.base + G;
    memset(data, 0x77, G);
    assert_ok(berth_arena_hold(kit->arena, data, G));
    berth_arena_pop(kit->arena, &inner);
    berth_frame small = push(kit, G); // fits below what is held
    assert_ptr_equal(small.base, inner.base);
    berth_frame large = push(kit, 3 * G);
    assert_true(large.base >= data + G);
    assert_int_equal(data[0], 0x77);
    assert_int_equal(data[G - 1], 0x77);
    berth_arena_pop(kit->arena, &large);
    berth_arena_pop(kit->arena, &small);
    berth_arena_pop(kit->arena, &outer);
    berth_arena_drop(kit->arena, data);
}

static void trim_spares_frames_holds_and_what_is_to_be_kept(void** state) {
    arena_kit* kit = *state;
    berth_frame outer = push(kit, 2 * G);
    berth_frame inner = push(kit, 10 * G);
    assert_ok(berth_arena_hold(kit->arena, inner.base + 7 * G, 100));
    berth_arena_pop(kit->arena, &inner);
    assert_int_equal(berth_arena_trim(kit->arena, 6 * G, true), 5 * G);
    assert_int_equal(stats_of(kit).mapped_bytes, 7 * G);
    assert_int_equal(berth_arena_trim(kit->arena, 0, true), 4 * G);
    assert_int_equal(stats_of(kit).mapped_bytes, 3 * G);
    assert_int_equal(inner.base[7 * G + 99], 0x5A);
    assert_int_equal(outer.base[2 * G - 1], 0x5A);
    berth_arena_drop(kit->arena, inner.base + 7 * G);
    berth_arena_pop(kit->arena, &outer);
    assert_int_equal(berth_arena_trim(kit->arena, 0, true), 3 * G);
}

/// Pops a frame of four granules that a pending write still comes to.
static void pop_under_work(arena_kit* kit, const berth_frame* frame) {
    static unsigned char source[4 * KIT_GRANULE];
    memory_kit_enqueue_write(kit->base.stream, frame->base, source, sizeof source);
    berth_arena_pop(kit->arena, frame);
}

static void nothing_is_unmapped_under_work_that_is_pending(void** state) {
    arena_kit* kit = *state;
    berth_frame frame = push(kit, 4 * G);
    pop_under_work(kit, &frame);
    // M4: unmapped now, the write would crash when it runs.
    assert_int_equal(berth_arena_trim(kit->arena, 0, false), 0);
    assert_int_equal(stats_of(kit).mapped_bytes, 4 * G);
    synchronize(kit);
    assert_int_equal(berth_arena_trim(kit->arena, 0, false), 4 * G);
}

static void a_ticket_says_nothing_of_work_enqueued_after_it(void** state) {
    arena_kit* kit = *state;
    berth_frame frame = push(kit, 4 * G);
    pop_under_work(kit, &frame);
    assert_int_equal(berth_arena_trim(kit->arena, 0, false), 0); // issues a ticket
    uint64_t ticket = 0;
    assert_ok(berth_stream_record(kit->base.stream, &ticket));
    assert_ok(berth_arena_push(kit->arena, 4 * G, NULL, &frame));
    pop_under_work(kit, &frame);
    assert_ok(berth_stream_wait(kit->base.stream, ticket)); // the old one is done now
    assert_int_equal(berth_arena_trim(kit->arena, 0, false), 0);
    assert_int_equal(berth_arena_trim(kit->arena, 0, true), 4 * G);
}

static void work_on_held_bytes_is_waited_for_after_the_drop(void** state) {
    arena_kit* kit = *state;
    static unsigned char source[KIT_GRANULE];
    berth_frame frame = push(kit, 4 * G);
    assert_ok(berth_arena_hold(kit->arena, frame.base, G));
    berth_arena_pop(kit->arena, &frame);
    berth_arena_trim(kit->arena, 0, true);
    berth_frame next = push(kit, G);
    memory_kit_enqueue_write(kit->base.stream, frame.base, source, sizeof source);
    berth_arena_drop(kit->arena, frame.base);
    assert_int_equal(stats_of(kit).ranges, 2);
    synchronize(kit);
    berth_arena_trim(kit->arena, 0, true);
    assert_int_equal(stats_of(kit).ranges, 1);
    berth_arena_pop(kit->arena, &next);
}

static void a_shortage_takes_the_idle_granules_of_an_arena(void** state) {
    arena_kit* kit = *state;
    berth_frame outer = push(kit, 4 * G);
    berth_frame inner = push(kit, KIT_CAPACITY - 4 * G);
    memory_kit_enqueue_write(kit->base.stream, inner.base, inner.base + 64, 64);
    berth_arena_pop(kit->arena, &inner);
    berth_reservation mine = {0};
    // The rung of frames issues a ticket, that of pending work waits for it.
    assert_ok(berth_store_reserve(memory_kit_account(&kit->base, BERTH_OWNER_POOL), 10 * G, &mine));
    assert_int_equal(stats_of(kit).mapped_bytes, KIT_CAPACITY - 10 * G);
    assert_int_equal(outer.base[4 * G - 1], 0x5A);
    berth_store_unreserve(kit->base.store, &mine);
    berth_arena_pop(kit->arena, &outer);
}

static void an_unmap_that_fails_leaves_the_granules_usable(void** state) {
    arena_kit* kit = *state;
    berth_frame frame = push(kit, 4 * G);
    berth_arena_pop(kit->arena, &frame);
    berth_sim_fail(kit->base.device, BERTH_SIM_UNMAP, 1);
    assert_int_equal(berth_arena_trim(kit->arena, 0, true), 0);
    assert_int_equal(stats_of(kit).mapped_bytes, 4 * G);
    assert_int_equal(promise_for(kit, 4 * G), 0);
    frame = push(kit, 4 * G);
    berth_arena_pop(kit->arena, &frame);
    assert_int_equal(berth_arena_trim(kit->arena, 0, true), 4 * G);
}

/// A few nested steps with holds; false if something was refused.
static bool program(memory_kit* kit, berth_arena* arena) {
    bool all = true;
    for (int round = 0; round < 3; round++) {
        berth_reservation promise = {0};
        berth_frame outer, inner;
        all = berth_arena_reserve(arena, 5 * G, &promise) == BERTH_OK && all;
        if (berth_arena_push(arena, 5 * G, &promise, &outer) == BERTH_OK) {
            unsigned char* kept = NULL;
            if (berth_arena_push(arena, 7 * G, &promise, &inner) == BERTH_OK) {
                memset(inner.base, round, 7 * G);
                if (berth_arena_hold(arena, inner.base + 2 * G, 100) == BERTH_OK)
                    kept = inner.base + 2 * G;
                berth_arena_pop(arena, &inner);
            } else {
                all = false;
            }
            berth_arena_pop(arena, &outer);
            if (berth_arena_push(arena, 3 * G, &promise, &outer) == BERTH_OK) {
                memset(outer.base, 9, 3 * G);
                berth_arena_pop(arena, &outer);
            } else {
                all = false;
            }
            if (kept != NULL) {
                assert_int_equal(kept[99], round);
                berth_arena_drop(arena, kept);
            } else {
                all = false;
            }
        } else {
            all = false;
        }
        berth_store_unreserve(kit->store, &promise);
        berth_arena_trim(arena, G, round == 1);
    }
    return all;
}

static bool survives(memory_kit* kit, size_t nth, bool host_fails) {
    berth_arena* arena = NULL;
    const uint64_t calls = berth_sim_query_all_calls(kit->device);
    if (host_fails)
        failing_host_fail(&kit->failing, nth, false);
    else
        berth_sim_fail_any(kit->device, nth);
    if (berth_arena_create(kit->host, kit->store, NULL, kit->stream, &arena) == BERTH_OK)
        (void)program(kit, arena);
    const bool done = host_fails ? !failing_host_has_failed(&kit->failing)
                                 : berth_sim_query_all_calls(kit->device) - calls < nth;
    failing_host_fail(&kit->failing, 0, false);
    berth_sim_fail_any(kit->device, 0);
    if (arena == NULL)
        assert_ok(berth_arena_create(kit->host, kit->store, NULL, kit->stream, &arena));
    memory_kit_check_books(kit);
    assert_true(program(kit, arena));
    berth_arena_destroy(arena);
    assert_int_equal(memory_kit_stats(kit).mapped_by_owner[BERTH_OWNER_FRAMES], 0);
    memory_kit_check_books(kit);
    return done;
}

static void whatever_call_of_the_device_fails_nothing_is_lost(void** state) {
    arena_kit* kit = *state;
    size_t nth = 1;
    while (!survives(&kit->base, nth, false))
        nth++;
    assert_true(nth > 15);
}

static void whatever_allocation_on_the_host_fails_nothing_is_lost(void** state) {
    arena_kit* kit = *state;
    size_t nth = 1;
    while (!survives(&kit->base, nth, true))
        nth++;
    assert_true(nth > 5);
}

static void press(void* argument) {
    memory_kit* kit = argument;
    for (int i = 0; i < 2000; i++) {
        berth_reservation mine = {0};
        if (berth_store_reserve(memory_kit_account(kit, BERTH_OWNER_POOL),
                                KIT_CAPACITY - 20 * G,
                                &mine) == BERTH_OK)
            berth_store_unreserve(kit->store, &mine);
    }
}

static void another_thread_may_reclaim_while_steps_run(void** state) {
    arena_kit* kit = *state;
    berth_thread thread;
    assert_ok(berth_thread_start(&thread, "press", press, &kit->base));
    test_random random = test_random_make(1);
    unsigned char* kept = NULL;
    for (int i = 0; i < 3000; i++) {
        berth_frame outer, inner;
        const uint64_t size = (1 + test_random_below(&random, 8)) * G;
        if (berth_arena_push(kit->arena, size, NULL, &outer) != BERTH_OK) continue;
        memset(outer.base, 1, size);
        if (berth_arena_push(kit->arena, size, NULL, &inner) == BERTH_OK) {
            memset(inner.base, 2, size);
            if (kept == NULL && test_random_one_in(&random, 20)) {
                kept = inner.base + size - 64;
                assert_ok(berth_arena_hold(kit->arena, kept, 64));
            }
            berth_arena_pop(kit->arena, &inner);
        }
        assert_int_equal(outer.base[size - 1], 1);
        berth_arena_pop(kit->arena, &outer);
        if (kept != NULL && test_random_one_in(&random, 10)) {
            assert_int_equal(kept[63], 2);
            berth_arena_drop(kit->arena, kept);
            kept = NULL;
        }
        synchronize(kit);
    }
    if (kept != NULL) berth_arena_drop(kit->arena, kept);
    berth_thread_join(&thread);
    memory_kit_check_books(&kit->base);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(frames_stack_and_pop_in_reverse),
        TEST(a_promise_is_what_the_push_maps),
        TEST(a_replayed_step_calls_nothing_below),
        TEST(an_empty_frame_is_valid_and_maps_nothing),
        TEST(a_push_draws_on_its_reservation),
        TEST(idle_granules_a_reserved_push_counts_on_are_not_reclaimed),
        TEST(a_refused_reservation_promises_nothing),
        TEST(a_push_that_cannot_be_mapped_changes_nothing),
        TEST(a_push_over_several_gaps_is_undone_as_a_whole),
        TEST(held_bytes_stay_while_the_next_step_begins_on_a_fresh_range),
        TEST(a_fresh_range_inherits_the_idle_granules),
        TEST(room_for_holds_made_before_is_enough_without_host_memory),
        TEST(frames_on_top_of_others_keep_clear_of_what_is_held),
        TEST(trim_spares_frames_holds_and_what_is_to_be_kept),
        TEST(nothing_is_unmapped_under_work_that_is_pending),
        TEST(a_ticket_says_nothing_of_work_enqueued_after_it),
        TEST(work_on_held_bytes_is_waited_for_after_the_drop),
        TEST(a_shortage_takes_the_idle_granules_of_an_arena),
        TEST(an_unmap_that_fails_leaves_the_granules_usable),
        TEST(whatever_call_of_the_device_fails_nothing_is_lost),
        TEST(whatever_allocation_on_the_host_fails_nothing_is_lost),
        TEST(another_thread_may_reclaim_while_steps_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
