// SPDX-License-Identifier: Apache-2.0
// Slabs: classes, slots, lists.
#include "test.h"

#include "failing_host.h"
#include "memory/slabs.h"
#include "random.h"

#define GRANULE (UINT64_C(2) << 20)
#define BASE (UINT64_C(1) << 32)

typedef struct kit {
    failing_host failing;
    berth_host* host;
    berth_slabs slabs;
} kit;

static kit fixture;

static int setup(void** state) {
    failing_host_init(&fixture.failing);
    assert_ok(berth_host_create(&fixture.failing.allocator, &fixture.host));
    berth_slabs_init(&fixture.slabs, fixture.host, GRANULE);
    *state = &fixture;
    return 0;
}

static int teardown(void** state) {
    kit* k = *state;
    assert_true(berth_slabs_are_valid(&k->slabs));
    berth_slabs_fini(&k->slabs);
    berth_host_destroy(k->host);
    assert_int_equal(k->failing.live_blocks, 0);
    return 0;
}

static berth_slab_id add(kit* k, uint32_t size_class, uint64_t start) {
    assert_ok(berth_slabs_prepare(&k->slabs, size_class));
    return berth_slabs_add(&k->slabs, size_class, start, 1);
}

static void every_size_has_the_smallest_class_that_holds_it(void** state) {
    kit* k = *state;
    assert_int_equal(k->slabs.max_bytes, 16384);
    for (uint64_t size = 1; size <= k->slabs.max_bytes; size++) {
        const uint32_t c = berth_slabs_class_of(size);
        assert_true(c < BERTH_SLAB_CLASSES);
        const uint64_t slot = k->slabs.classes[c].slot_bytes;
        assert_true(slot >= size && slot % 64 == 0);
        if (c > 0) assert_true(k->slabs.classes[c - 1].slot_bytes < size);
        // C1
        if (size < 512)
            assert_true(slot - size < 64);
        else
            assert_true((slot - size) * 8 <= size);
    }
}

static void slabs_are_powers_of_two_with_little_left_over(void** state) {
    const kit* k = *state;
    for (uint32_t i = 0; i < BERTH_SLAB_CLASSES; i++) {
        const berth_slab_class* c = &k->slabs.classes[i];
        assert_int_equal(c->slab_bytes & (c->slab_bytes - 1), 0);
        assert_true(c->slot_count >= 8 && c->slot_count <= BERTH_SLAB_SLOTS);
        const uint64_t used = c->slot_count * c->slot_bytes;
        assert_true(used <= c->slab_bytes && c->slab_bytes - used <= c->slab_bytes / 8);
    }
}

static void tiny_granules_still_have_a_class(void** state) {
    const kit* k = *state;
    berth_slabs tiny;
    berth_slabs_init(&tiny, k->host, 4096);
    assert_int_equal(tiny.max_bytes, 64);
    assert_int_equal(tiny.classes[0].slab_bytes, 4096);
    assert_int_equal(tiny.classes[0].slot_count, 64);
    berth_slabs_fini(&tiny);
}

static void a_full_slab_leaves_the_list_and_comes_back(void** state) {
    kit* k = *state;
    const uint32_t c = berth_slabs_class_of(2000);
    const uint32_t slots = k->slabs.classes[c].slot_count;
    const berth_slab_id slab = add(k, c, BASE);
    assert_true(berth_slabs_is_empty(&k->slabs, slab));
    assert_int_equal(berth_slabs_find_empty(&k->slabs, c), slab);
    uint64_t handles[BERTH_SLAB_SLOTS];
    for (uint32_t i = 0; i < slots; i++) {
        const uint64_t address = berth_slabs_take(&k->slabs, c, NULL, &handles[i]);
        assert_int_equal(address, BASE + i * k->slabs.classes[c].slot_bytes);
        assert_int_equal(berth_slabs_query_slot_bytes(&k->slabs, handles[i]),
                         k->slabs.classes[c].slot_bytes);
        assert_true(berth_slabs_are_valid(&k->slabs));
    }
    assert_int_equal(k->slabs.classes[c].head, 0); // C2
    assert_int_equal(k->slabs.empty_count, 0);
    assert_int_equal(berth_slabs_give(&k->slabs, handles[3]), slab);
    assert_int_equal(k->slabs.classes[c].head, slab);
    assert_true(berth_slabs_is_last(&k->slabs, slab));
    assert_true(berth_slabs_are_valid(&k->slabs));
    for (uint32_t i = 0; i < slots; i++) {
        if (i != 3) berth_slabs_give(&k->slabs, handles[i]);
    }
    assert_true(berth_slabs_is_empty(&k->slabs, slab));
    berth_slabs_remove(&k->slabs, slab);
    assert_int_equal(k->slabs.slab_bytes, 0);
    assert_int_equal(berth_slabs_find_empty(&k->slabs, c), 0);
}

static void records_of_removed_slabs_are_used_again(void** state) {
    kit* k = *state;
    for (uint32_t i = 0; i < 100; i++)
        berth_slabs_remove(&k->slabs, add(k, i % 48, BASE));
    assert_int_equal(k->slabs.records.count, 2);
    failing_host_fail(&k->failing, 1, true);
    assert_ok(berth_slabs_prepare(&k->slabs, 99 % 48));
    failing_host_fail(&k->failing, 0, false);
}

static void preparing_without_memory_is_refused(void** state) {
    kit* k = *state;
    failing_host_fail(&k->failing, 1, true);
    assert_int_equal(berth_slabs_prepare(&k->slabs, 0), BERTH_ERR_OUT_OF_MEMORY);
    failing_host_fail(&k->failing, 0, false);
}

static void random_takes_never_give_a_slot_twice(void** state) {
    kit* k = *state;
    enum { MANY = 600 };
    test_random random = test_random_make(9);
    const uint32_t c = 0;
    uint64_t handles[MANY];
    bool taken[3 * BERTH_SLAB_SLOTS] = {false};
    size_t count = 0;
    for (uint64_t i = 0; i < 3; i++)
        add(k, c, BASE + i * k->slabs.classes[c].slab_bytes);
    for (int i = 0; i < 20000; i++) {
        const bool full = k->slabs.classes[c].head == 0;
        if (full || count == MANY || (count > 0 && test_random_one_in(&random, 2))) {
            const size_t at = test_random_below(&random, count);
            const berth_slab* slab =
                berth_slabs_at(&k->slabs, (berth_slab_id)(handles[at] / BERTH_SLAB_SLOTS));
            const uint64_t address = slab->start + handles[at] % BERTH_SLAB_SLOTS * 64;
            taken[(address - BASE) / 64] = false;
            berth_slabs_give(&k->slabs, handles[at]);
            handles[at] = handles[--count];
        } else {
            const uint64_t place =
                (berth_slabs_take(&k->slabs, c, NULL, &handles[count]) - BASE) / 64;
            assert_false(taken[place]);
            taken[place] = true;
            count++;
        }
        if (i % 1000 == 0) assert_true(berth_slabs_are_valid(&k->slabs));
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(every_size_has_the_smallest_class_that_holds_it),
        TEST(slabs_are_powers_of_two_with_little_left_over),
        TEST(tiny_granules_still_have_a_class),
        TEST(a_full_slab_leaves_the_list_and_comes_back),
        TEST(records_of_removed_slabs_are_used_again),
        TEST(preparing_without_memory_is_refused),
        TEST(random_takes_never_give_a_slot_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
