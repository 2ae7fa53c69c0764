// SPDX-License-Identifier: Apache-2.0
// Calls of the CPU device's memory into the system: each may fail at any time, which changes
// nothing or is made up for, and each is made where it should be.
#include "test.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <sys/mman.h>

#include "base/log.h"
#include "device/cpu/cpu_memory.h"
#include "device/cpu/cpu_system.h"
#include "random.h"

#define GRANULE ((uint64_t)BERTH_CPU_GRANULE_BYTES)
enum { GRANULES = 12, CHURN_ROUNDS = 3000 };

/// The calls that fail: the `fail_at`-th from now on (0: none), of any kind but unmap, which the
/// library may not do without.
static uint64_t calls_made;
static uint64_t fail_at;
static uint64_t places_made;
static int place_error;
static struct {
    int mode;
    uint64_t nodes;
    bool was_empty; ///< nothing of the range was populated yet
} last_place;

static bool fails(void) { return ++calls_made == fail_at; }

static int reserve(void** at, size_t size, int flags) {
    return fails() ? ENOMEM : berth_cpu_system_calls.reserve(at, size, flags);
}
static int protect(void* base, size_t size, int protection) {
    return fails() ? ENOMEM : berth_cpu_system_calls.protect(base, size, protection);
}
static int advise(void* base, size_t size, int advice) {
    return fails() ? ENOMEM : berth_cpu_system_calls.advise(base, size, advice);
}
static int move(void* from, size_t size, void* to) {
    return fails() ? ENOMEM : berth_cpu_system_calls.move(from, size, to);
}

static uint64_t resident_bytes(const unsigned char* base, uint64_t size) {
    static unsigned char pages[GRANULES * (BERTH_CPU_GRANULE_BYTES / 4096)];
    assert_true(size / 4096 <= sizeof pages);
    assert_int_equal(mincore((void*)(uintptr_t)base, size, pages), 0);
    uint64_t count = 0;
    for (uint64_t i = 0; i < size / 4096; i++)
        count += pages[i] & 1u;
    return count * 4096;
}

/// A machine with two nodes, made up: nothing is placed really.
static int place(void* base, size_t size, int mode, uint64_t nodes) {
    places_made++;
    last_place.mode = mode;
    last_place.nodes = nodes;
    last_place.was_empty =
        size > GRANULES * GRANULE || resident_bytes((const unsigned char*)base, size) == 0;
    return place_error;
}

static const berth_cpu_calls counted_calls = {.reserve = reserve,
                                              .unmap = NULL,
                                              .protect = protect,
                                              .advise = advise,
                                              .move = move,
                                              .place = place};
static berth_cpu_calls calls;

typedef struct fixture {
    berth_cpu_memory memory;
    berth_device device; // as far as spaces look at it
} fixture;

static int set_up_with(void** state, const berth_numa* numa) {
    static fixture f;
    f = (fixture){.device = {.host = berth_host_default(), .granule_bytes = GRANULE}};
    *state = &f;
    calls_made = fail_at = places_made = 0;
    place_error = 0;
    calls = counted_calls;
    calls.unmap = berth_cpu_system_calls.unmap;
    if (berth_cpu_memory_init(&f.memory, BERTH_HUGE_MADVISE, numa) != BERTH_OK) return 1;
    f.memory.calls = &calls;
    return 0;
}

static int set_up(void** state) { return set_up_with(state, &(berth_numa){.is_placing = false}); }
static int set_up_interleaved(void** state) {
    return set_up_with(state,
                       &(berth_numa){.is_placing = true, .mode = MPOL_INTERLEAVE, .nodes = 3});
}
static int set_up_bound(void** state) {
    return set_up_with(
        state,
        &(berth_numa){
            .is_placing = true, .is_strict = true, .mode = MPOL_BIND, .nodes = 1, .node = 0});
}

static int tear_down(void** state) {
    berth_cpu_memory_fini(&((fixture*)*state)->memory);
    return 0;
}

static void reserve_space(fixture* f, berth_space** out_space) {
    assert_ok(berth_cpu_space_reserve(&f->memory, &f->device, GRANULES * GRANULE, out_space));
}

static void fill(unsigned char* base, uint64_t size, unsigned seed) {
    for (uint64_t i = 0; i < size; i += 4096)
        base[i] = (unsigned char)(seed + (i >> 12) * 7);
}

static void expect_fill(const unsigned char* base, uint64_t size, unsigned seed) {
    for (uint64_t i = 0; i < size; i += 4096)
        assert_int_equal(base[i], (unsigned char)(seed + (i >> 12) * 7));
}

static void a_reservation_that_fails_leaves_nothing(void** state) {
    fixture* f = *state;
    berth_space* first; // once, so that what comes with the first use of the host is there
    reserve_space(f, &first);
    berth_cpu_space_release(first);
    const uint64_t before = berth_cpu_count_mappings(NULL);
    for (uint64_t nth = 1;; nth++) {
        berth_space* space = NULL;
        calls_made = 0;
        fail_at = nth;
        const berth_status status =
            berth_cpu_space_reserve(&f->memory, &f->device, GRANULES * GRANULE, &space);
        const bool was_last = calls_made < nth;
        fail_at = 0;
        if (status == BERTH_OK) {
            assert_ok(berth_cpu_space_map(&f->memory, space, 0, GRANULE)); // it works all the same
            assert_ok(berth_cpu_space_unmap(&f->memory, space, 0, GRANULE));
            berth_cpu_space_release(space);
        } else {
            assert_null(space);
        }
        assert_true(berth_cpu_count_mappings(NULL) <= before + 1);
        if (was_last) return;
    }
}

static void a_map_that_fails_populates_nothing(void** state) {
    fixture* f = *state;
    berth_space* space;
    reserve_space(f, &space);
    for (uint64_t nth = 1;; nth++) {
        calls_made = 0;
        fail_at = nth;
        const berth_status status = berth_cpu_space_map(&f->memory, space, GRANULE, 4 * GRANULE);
        const bool was_last = calls_made < nth;
        fail_at = 0;
        const uint64_t there = resident_bytes(space->base, GRANULES * GRANULE);
        assert_int_equal(there, status == BERTH_OK ? 4 * GRANULE : 0);
        if (status == BERTH_OK)
            assert_ok(berth_cpu_space_unmap(&f->memory, space, GRANULE, 4 * GRANULE));
        if (was_last) break;
    }
    berth_cpu_space_release(space);
}

static void an_unmap_that_fails_keeps_memory_in_the_books(void** state) {
    fixture* f = *state;
    berth_space* space;
    reserve_space(f, &space);
    for (uint64_t nth = 1;; nth++) {
        assert_ok(berth_cpu_space_map(&f->memory, space, 0, 2 * GRANULE));
        fill(space->base, 2 * GRANULE, (unsigned)nth);
        calls_made = 0;
        fail_at = nth;
        const berth_status status = berth_cpu_space_unmap(&f->memory, space, 0, 2 * GRANULE);
        const bool was_last = calls_made < nth;
        fail_at = 0;
        const uint64_t there = resident_bytes(space->base, 2 * GRANULE);
        assert_int_equal(there, status == BERTH_OK ? 0 : 2 * GRANULE);
        if (status != BERTH_OK) {
            expect_fill(space->base, 2 * GRANULE, (unsigned)nth);
            assert_ok(berth_cpu_space_unmap(&f->memory, space, 0, 2 * GRANULE));
        }
        if (was_last) break;
    }
    berth_cpu_space_release(space);
}

/// Moves `size` bytes with the nth call failing, for all n; afterwards the content is in one place,
/// and only there is memory.
static void check_remaps(fixture* f, uint64_t size) {
    berth_space *a, *b;
    reserve_space(f, &a);
    reserve_space(f, &b);
    assert_ok(berth_cpu_space_map(&f->memory, a, 0, size));
    for (uint64_t nth = 1;; nth++) {
        fill(a->base, size, (unsigned)nth);
        calls_made = 0;
        fail_at = nth;
        const berth_status status = berth_cpu_space_remap(&f->memory, a, 0, b, 2 * GRANULE, size);
        const bool was_last = calls_made < nth;
        fail_at = 0;
        const uint64_t in_a = resident_bytes(a->base, GRANULES * GRANULE);
        const uint64_t in_b = resident_bytes(b->base, GRANULES * GRANULE);
        assert_int_equal(in_a, status == BERTH_OK ? 0 : size);
        assert_int_equal(in_b, status == BERTH_OK ? size : 0);
        if (status == BERTH_OK) {
            expect_fill(b->base + 2 * GRANULE, size, (unsigned)nth);
            assert_ok(berth_cpu_space_remap(&f->memory, b, 2 * GRANULE, a, 0, size));
        }
        expect_fill(a->base, size, (unsigned)nth);
        if (was_last) break;
    }
    assert_ok(berth_cpu_space_unmap(&f->memory, a, 0, size));
    berth_cpu_space_release(a);
    berth_cpu_space_release(b);
}

static void a_remap_that_fails_leaves_all_where_it_was(void** state) {
    fixture* f = *state;
    check_remaps(f, 3 * GRANULE);
    f->memory.can_move_pages = false;
    check_remaps(f, 3 * GRANULE);
}

static void locked_memory_is_given_back_too(void** state) {
    fixture* f = *state;
    berth_space* space;
    reserve_space(f, &space);
    assert_ok(berth_cpu_space_map(&f->memory, space, 0, GRANULE));
    if (mlock(space->base, GRANULE) != 0) {
        printf("skipped: no memory can be locked here\n");
        assert_ok(berth_cpu_space_unmap(&f->memory, space, 0, GRANULE));
        berth_cpu_space_release(space);
        skip();
    }
    assert_ok(berth_cpu_space_unmap(&f->memory, space, 0, GRANULE));
    assert_int_equal(resident_bytes(space->base, GRANULE), 0);
    berth_cpu_space_release(space);
}

/// Mappings of the process in a space.
static uint64_t count_mappings(const berth_space* space) {
    FILE* file = fopen("/proc/self/maps", "r");
    assert_non_null(file);
    uint64_t count = 0;
    unsigned long long begin;
    char line[512];
    while (fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "%llx-", &begin) != 1) continue;
        const uint64_t base = (uint64_t)(uintptr_t)space->base;
        count += begin >= base && begin < base + space->size_bytes;
    }
    (void)fclose(file);
    return count;
}

static void mappings_do_not_grow_with_use(void** state) {
    fixture* f = *state;
    test_random random = test_random_make(49);
    berth_space* space;
    bool open[GRANULES] = {false};
    reserve_space(f, &space);
    for (int round = 0; round < CHURN_ROUNDS; round++) {
        const uint64_t at = test_random_below(&random, GRANULES);
        const uint64_t to = test_random_below(&random, GRANULES);
        if (!open[at]) {
            assert_ok(berth_cpu_space_map(&f->memory, space, at * GRANULE, GRANULE));
        } else if (!open[to]) {
            assert_ok(berth_cpu_space_remap(
                &f->memory, space, at * GRANULE, space, to * GRANULE, GRANULE));
            open[to] = true;
        } else {
            assert_ok(berth_cpu_space_unmap(&f->memory, space, at * GRANULE, GRANULE));
        }
        open[at] = !open[at];
        if (round % 100 == 0) assert_true(count_mappings(space) <= GRANULES);
    }
    for (uint64_t i = 0; i < GRANULES; i++) {
        if (open[i]) assert_ok(berth_cpu_space_unmap(&f->memory, space, i * GRANULE, GRANULE));
    }
    assert_in_range(count_mappings(space), 1, 3); // what is closed is joined, but for a few
    berth_cpu_space_release(space);
}

static void a_space_is_placed_before_anything_is_populated(void** state) {
    fixture* f = *state;
    berth_space* space;
    reserve_space(f, &space);
    assert_int_equal(places_made, 1);
    assert_true(last_place.mode == MPOL_INTERLEAVE && last_place.nodes == 3);
    assert_ok(berth_cpu_space_map(&f->memory, space, 0, 2 * GRANULE));
    assert_int_equal(places_made, 1); // the range remembers
    assert_ok(berth_cpu_space_remap(&f->memory, space, 0, space, 4 * GRANULE, GRANULE));
    assert_ok(berth_cpu_space_unmap(&f->memory, space, 4 * GRANULE, GRANULE));
    if (f->memory.can_move_pages) assert_int_equal(places_made, 2); // a fresh mapping does not
    assert_true(last_place.was_empty);
    assert_ok(berth_cpu_space_unmap(&f->memory, space, GRANULE, GRANULE));
    berth_cpu_space_release(space);
}

static void failing_to_interleave_costs_only_the_placement(void** state) {
    fixture* f = *state;
    berth_space* space;
    place_error = EPERM;
    assert_ok(berth_log_configure("off"));
    reserve_space(f, &space);
    assert_ok(berth_cpu_space_map(&f->memory, space, 0, GRANULE));
    assert_ok(berth_cpu_space_unmap(&f->memory, space, 0, GRANULE));
    berth_cpu_space_release(space);
    assert_ok(berth_log_configure("warn"));
}

static void failing_to_bind_is_an_error_that_leaves_nothing(void** state) {
    fixture* f = *state;
    berth_space* space = NULL;
    const uint64_t before = berth_cpu_count_mappings(NULL);
    place_error = EPERM;
    assert_fails(berth_cpu_space_reserve(&f->memory, &f->device, GRANULES * GRANULE, &space),
                 BERTH_ERR_DEVICE,
                 "node 0");
    assert_null(space);
    assert_true(berth_cpu_count_mappings(NULL) <= before);
    place_error = 0;
    reserve_space(f, &space);
    place_error = EPERM;
    assert_fails(
        berth_cpu_space_map(&f->memory, space, 0, GRANULE), BERTH_ERR_DEVICE, "memory node 0");
    assert_int_equal(resident_bytes(space->base, GRANULE), 0);
    place_error = 0;
    assert_ok(berth_cpu_space_map(&f->memory, space, 0, GRANULE));
    assert_ok(berth_cpu_space_unmap(&f->memory, space, 0, GRANULE));
    berth_cpu_space_release(space);
}

static void bound_memory_is_bounded_by_its_node(void** state) {
    fixture* f = *state;
    uint64_t total, available, node_total, node_available;
    assert_ok(berth_cpu_query_node_memory(NULL, 0, &node_total, &node_available));
    assert_ok(berth_cpu_memory_query(&f->memory, &total, &available));
    assert_true(total <= node_total);
}

static void without_nodes_to_choose_from_nothing_is_placed(void** state) {
    fixture* f = *state;
    berth_space* space;
    reserve_space(f, &space);
    assert_ok(berth_cpu_space_map(&f->memory, space, 0, GRANULE));
    assert_ok(berth_cpu_space_unmap(&f->memory, space, 0, GRANULE));
    berth_cpu_space_release(space);
    assert_int_equal(places_made, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define TEST_WITH(set_up, name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_reservation_that_fails_leaves_nothing),
        TEST(a_map_that_fails_populates_nothing),
        TEST(an_unmap_that_fails_keeps_memory_in_the_books),
        TEST(a_remap_that_fails_leaves_all_where_it_was),
        TEST(locked_memory_is_given_back_too),
        TEST(mappings_do_not_grow_with_use),
        TEST(without_nodes_to_choose_from_nothing_is_placed),
        TEST_WITH(set_up_interleaved, a_space_is_placed_before_anything_is_populated),
        TEST_WITH(set_up_interleaved, failing_to_interleave_costs_only_the_placement),
        TEST_WITH(set_up_bound, failing_to_bind_is_an_error_that_leaves_nothing),
        TEST_WITH(set_up_bound, bound_memory_is_bounded_by_its_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
