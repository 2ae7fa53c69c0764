// SPDX-License-Identifier: Apache-2.0
// The table of blocks by address, against a plain list.
#include "base/address_map.h"

#include "kit/failing_host.h"
#include "kit/random.h"
#include "kit/test.h"

enum { ADDRESSES = 400, STEPS = 40000 };

static const void* address_of(size_t index) { return (const void*)(uintptr_t)(64 * (index + 1)); }

static void add(berth_address_map* map, const berth_host* host, size_t index, uint64_t size) {
    assert_ok(berth_address_map_reserve_one(map, host));
    berth_address_map_add(
        map,
        (berth_address_entry){.address = address_of(index), .size_bytes = size, .handle = index});
}

static void entries_are_found_by_their_address_whatever_came_and_went(void** state) {
    (void)state;
    const berth_host* host = berth_host_default();
    berth_address_map map = {0};
    uint64_t sizes[ADDRESSES] = {0}; // 0: is not in the map
    size_t count = 0;
    test_random random = test_random_make(5);
    for (int step = 0; step < STEPS; ++step) {
        const size_t i = test_random_below(&random, ADDRESSES);
        // it fills and empties by turns
        const bool fills =
            step / 2000 % 2 == 0 ? !test_random_one_in(&random, 3) : test_random_one_in(&random, 3);
        berth_address_entry entry;
        if (fills && sizes[i] == 0) {
            sizes[i] = 1 + test_random_below(&random, 1000);
            add(&map, host, i, sizes[i]);
            ++count;
        } else if (!fills) {
            assert_int_equal(berth_address_map_remove(&map, address_of(i), &entry), sizes[i] != 0);
            assert_int_equal(entry.size_bytes, sizes[i]);
            if (sizes[i] == 0) continue;
            assert_ptr_equal(entry.address, address_of(i));
            assert_int_equal(entry.handle, i);
            sizes[i] = 0;
            --count;
        }
        assert_int_equal(map.count, count);
        assert_true(map.count * 2 <= map.capacity);
    }
    for (size_t i = 0; i < ADDRESSES; ++i) {
        berth_address_entry entry;
        assert_int_equal(berth_address_map_remove(&map, address_of(i), &entry), sizes[i] != 0);
    }
    assert_int_equal(map.count, 0);
    berth_address_map_fini(&map, host);
}

static void an_empty_map_has_nothing(void** state) {
    (void)state;
    berth_address_map map = {0};
    berth_address_entry entry = {.size_bytes = 7};
    assert_false(berth_address_map_remove(&map, address_of(0), &entry));
    assert_int_equal(entry.size_bytes, 0);
    assert_false(berth_address_map_remove(&map, NULL, &entry));
    berth_address_map_fini(&map, berth_host_default());
}

static void without_memory_to_grow_a_map_keeps_what_it_has(void** state) {
    (void)state;
    failing_host failing;
    failing_host_init(&failing);
    berth_host* host;
    assert_ok(berth_host_create(&failing.allocator, &host));
    berth_address_map map = {0};
    for (size_t i = 0; i < 8; ++i)
        add(&map, host, i, i + 1);
    failing_host_fail(&failing, 1, true);
    assert_fails(
        berth_address_map_reserve_one(&map, host), BERTH_ERR_OUT_OF_MEMORY, "remember 9 blocks");
    failing_host_fail(&failing, 0, false);
    for (size_t i = 0; i < 8; ++i) {
        berth_address_entry entry;
        assert_true(berth_address_map_remove(&map, address_of(i), &entry));
        assert_int_equal(entry.size_bytes, i + 1);
    }
    berth_address_map_fini(&map, host);
    berth_host_destroy(host);
    assert_int_equal(atomic_load(&failing.live_blocks), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_found_by_their_address_whatever_came_and_went),
        cmocka_unit_test(an_empty_map_has_nothing),
        cmocka_unit_test(without_memory_to_grow_a_map_keeps_what_it_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
