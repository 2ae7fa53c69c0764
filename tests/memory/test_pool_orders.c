// SPDX-License-Identifier: Apache-2.0
// What a pool maps depends on what is asked of it, and hardly on the order; and what it has mapped
// stands in nobody's way, whatever it was used for before.
#include "memory_kit.h"

#include "memory/pool.h"

#define G KIT_GRANULE

enum { MOST = 3000, ORDERS = 8, GRANULES = 1024 };

/// A device of 64 MiB, and the sizes of one multiset of requests.
typedef struct orders_kit {
    memory_kit base;
    uint64_t sizes[MOST];
    berth_block blocks[MOST];
    size_t count;
    uint64_t sum;
} orders_kit;

static orders_kit* open_kit(bool can_remap) {
    orders_kit* kit = calloc(1, sizeof *kit);
    assert_non_null(kit);
    memory_kit_init(&kit->base,
                    &(berth_sim_options){.capacity_bytes = GRANULES * G,
                                         .granule_bytes = G,
                                         .no_remap = !can_remap});
    return kit;
}

static void close_kit(orders_kit* kit) {
    memory_kit_fini(&kit->base);
    free(kit);
}

static berth_pool* make_pool(const orders_kit* kit) {
    berth_pool* pool;
    const berth_pool_config config = {
        .host = kit->base.host, .store = kit->base.store, .stream = kit->base.stream};
    assert_ok(berth_pool_create(&config, &pool));
    return pool;
}

static void add_size(orders_kit* kit, uint64_t bytes) {
    assert_true(kit->count < MOST);
    kit->sizes[kit->count++] = bytes;
    kit->sum += bytes;
}

/// Small, medium and large blocks, each kind about a third of 24 MiB.
static void draw_sizes(orders_kit* kit, test_random* random) {
    const uint64_t share = UINT64_C(8) << 20;
    kit->count = 0;
    kit->sum = 0;
    while (kit->sum < share)
        add_size(kit, 1 + test_random_below(random, G / 8));
    while (kit->sum < 2 * share)
        add_size(kit, G / 8 + test_random_below(random, G));
    while (kit->sum < 3 * share)
        add_size(kit, G + test_random_below(random, 16 * G));
}

static int compare(const void* a, const void* b) {
    const uint64_t x = *(const uint64_t*)a, y = *(const uint64_t*)b;
    return x < y ? -1 : x > y ? 1 : 0;
}

/// Order 0 is ascending, 1 descending, all others random.
static void put_in_order(orders_kit* kit, int order, test_random* random) {
    qsort(kit->sizes, kit->count, sizeof kit->sizes[0], compare);
    for (size_t i = kit->count; order > 0 && i > 1; i--) {
        if (order == 1 && i <= kit->count / 2) break;
        const size_t j =
            order == 1 ? kit->count - i : (size_t)test_random_below(random, (uint64_t)i);
        const uint64_t swapped = kit->sizes[i - 1];
        kit->sizes[i - 1] = kit->sizes[j];
        kit->sizes[j] = swapped;
    }
}

static uint64_t take_range(orders_kit* kit, berth_pool* pool, size_t begin, size_t end) {
    for (size_t i = begin; i < end; i++)
        assert_ok(berth_pool_take(
            pool, &(berth_pool_request){.size_bytes = kit->sizes[i]}, &kit->blocks[i]));
    berth_pool_stats stats;
    berth_pool_query_stats(pool, &stats);
    return stats.mapped_bytes;
}

static void give_range(orders_kit* kit, berth_pool* pool, size_t begin, size_t end) {
    for (size_t i = begin; i < end; i++)
        berth_pool_give(pool, &kit->blocks[i]);
}

static void the_order_of_requests_changes_what_is_mapped_by_a_few_per_cent(void** state) {
    (void)state;
    for (int device = 0; device < 2; device++) {
        orders_kit* kit = open_kit(device == 0);
        test_random random = test_random_make((uint64_t)device);
        draw_sizes(kit, &random);
        uint64_t least = UINT64_MAX, most = 0;
        for (int order = 0; order < ORDERS; order++) {
            put_in_order(kit, order, &random);
            berth_pool* pool = make_pool(kit);
            const uint64_t mapped = take_range(kit, pool, 0, kit->count);
            if (mapped < least) least = mapped;
            if (mapped > most) most = mapped;
            give_range(kit, pool, 0, kit->count);
            berth_pool_destroy(pool);
        }
        if (most > least + least / 33)
            fail_msg("from %llu to %llu bytes are mapped for %llu",
                     (unsigned long long)least,
                     (unsigned long long)most,
                     (unsigned long long)kit->sum);
        assert_true(most <= kit->sum + kit->sum / 8);
        close_kit(kit);
    }
}

/// Takes the small half of the sizes, gives it back, and takes the large half; or the other way
/// round. Returns the most that was mapped.
static uint64_t mapped_by_halves(orders_kit* kit, bool small_first) {
    size_t middle = 0;
    for (uint64_t sum = 0; sum < kit->sum / 2; middle++)
        sum += kit->sizes[middle];
    berth_pool* pool = make_pool(kit);
    const size_t begin = small_first ? 0 : middle, end = small_first ? middle : kit->count;
    const uint64_t first = take_range(kit, pool, begin, end);
    give_range(kit, pool, begin, end);
    const size_t then = small_first ? middle : 0, last = small_first ? kit->count : middle;
    const uint64_t second = take_range(kit, pool, then, last);
    give_range(kit, pool, then, last);
    berth_pool_destroy(pool);
    return first > second ? first : second;
}

static void small_then_large_needs_what_large_then_small_does(void** state) {
    (void)state;
    orders_kit* kit = open_kit(true);
    test_random random = test_random_make(7);
    draw_sizes(kit, &random);
    put_in_order(kit, 0, &random);
    const uint64_t one = mapped_by_halves(kit, true), other = mapped_by_halves(kit, false);
    assert_true(one <= kit->sum / 2 + kit->sum / 12);
    assert_true(one <= other + other / 33 && other <= one + one / 33);
    close_kit(kit);
}

/// Takes and gives back at random, then gives all back, in a pool that keeps what it has mapped.
static void use(orders_kit* kit, berth_pool* pool, test_random* random) {
    bool is_out[MOST] = {false};
    for (size_t turn = 0; turn < 20000; turn++) {
        const size_t i = (size_t)test_random_below(random, kit->count);
        if (is_out[i])
            berth_pool_give(pool, &kit->blocks[i]);
        else
            assert_ok(berth_pool_take(
                pool, &(berth_pool_request){.size_bytes = kit->sizes[i]}, &kit->blocks[i]));
        is_out[i] = !is_out[i];
    }
    for (size_t i = 0; i < kit->count; i++)
        if (is_out[i]) berth_pool_give(pool, &kit->blocks[i]);
}

static void after_any_use_all_that_there_is_can_be_one_block(void** state) {
    (void)state;
    for (int device = 0; device < 2; device++) {
        orders_kit* kit = open_kit(device == 0);
        test_random random = test_random_make(11);
        draw_sizes(kit, &random);
        berth_pool* pool = make_pool(kit);
        for (int round = 0; round < 3; round++) {
            berth_block all;
            use(kit, pool, &random);
            assert_ok(
                berth_pool_take(pool, &(berth_pool_request){.size_bytes = GRANULES * G}, &all));
            assert_int_equal(memory_kit_stats(&kit->base).mapped_bytes, GRANULES * G);
            berth_pool_give(pool, &all);
        }
        berth_pool_destroy(pool);
        close_kit(kit);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_of_requests_changes_what_is_mapped_by_a_few_per_cent),
        cmocka_unit_test(small_then_large_needs_what_large_then_small_does),
        cmocka_unit_test(after_any_use_all_that_there_is_can_be_one_block),
    };
    return cmocka_run_group_tests_name("orders", tests, NULL, NULL);
}
