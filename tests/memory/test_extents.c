// SPDX-License-Identifier: Apache-2.0
// Extents: cutting, joining, finding by size, against a naive look at all of them.
#include "test.h"

#include "failing_host.h"
#include "memory/extents.h"
#include "random.h"

#define UNIT UINT64_C(64)
#define GRANULE UINT64_C(4096)
#define BASE (UINT64_C(1) << 32)
#define REGION (GRANULE * 256)

typedef struct kit {
    failing_host failing;
    berth_host* host;
    berth_extents extents;
    berth_extent_id region;
} kit;

static kit fixture;

static int setup(void** state) {
    failing_host_init(&fixture.failing);
    assert_ok(berth_host_create(&fixture.failing.allocator, &fixture.host));
    berth_extents_init(&fixture.extents, fixture.host, GRANULE);
    assert_ok(berth_extents_prepare(&fixture.extents, 8));
    fixture.region = berth_extents_add_region(&fixture.extents, BASE, REGION, 0);
    *state = &fixture;
    return 0;
}

static int teardown(void** state) {
    kit* k = *state;
    assert_true(berth_extents_are_valid(&k->extents));
    berth_extents_fini(&k->extents);
    berth_host_destroy(k->host);
    assert_int_equal(k->failing.live_blocks, 0);
    return 0;
}

/// Makes [start, start + size) FREE.
static berth_extent_id map(kit* k, uint64_t start, uint64_t size) {
    berth_extent_id id = 0;
    for (size_t i = 1; i < k->extents.record_count && id == 0; i++) {
        const berth_extent* e = berth_extents_at(&k->extents, (berth_extent_id)i);
        if (e->state == BERTH_EXTENT_HOLE && e->start <= start &&
            start + size <= e->start + e->size)
            id = (berth_extent_id)i;
    }
    assert_int_not_equal(id, 0);
    assert_ok(berth_extents_prepare(&k->extents, 2));
    id = berth_extents_take_out(
        &k->extents, id, start, size, BERTH_EXTENT_BUSY, BERTH_LIFETIME_UNKNOWN);
    return berth_extents_set(&k->extents, id, BERTH_EXTENT_FREE, 0);
}

static void a_region_begins_as_one_hole(void** state) {
    kit* k = *state;
    uint64_t start = 0;
    assert_int_equal(berth_extents_find(&k->extents, true, REGION, GRANULE, &start), k->region);
    assert_int_equal(start, BASE);
    assert_int_equal(berth_extents_find(&k->extents, true, REGION + GRANULE, GRANULE, &start), 0);
    assert_int_equal(berth_extents_find(&k->extents, false, UNIT, UNIT, &start), 0);
    assert_int_equal(berth_extents_query_largest(&k->extents), 0);
    assert_int_equal(k->extents.bytes[BERTH_EXTENT_HOLE], REGION);
}

static void giving_back_the_middle_joins_both_neighbours(void** state) {
    kit* k = *state;
    berth_extent_id all = map(k, BASE, 16 * GRANULE);
    const berth_extent_id left = berth_extents_take_out(
        &k->extents, all, BASE, 1024, BERTH_EXTENT_USED, BERTH_LIFETIME_MEDIUM);
    const berth_extent_id middle =
        berth_extents_take_out(&k->extents,
                               berth_extents_at(&k->extents, left)->after,
                               BASE + 1024,
                               2048,
                               BERTH_EXTENT_USED,
                               BERTH_LIFETIME_MEDIUM);
    assert_int_equal(k->extents.bytes[BERTH_EXTENT_USED], 3072);
    assert_int_equal(berth_extents_set(&k->extents, left, BERTH_EXTENT_FREE, 0), left);
    assert_int_equal(berth_extents_set(&k->extents, middle, BERTH_EXTENT_FREE, 0), left);
    assert_int_equal(berth_extents_at(&k->extents, left)->size, 16 * GRANULE);
    assert_int_equal(berth_extents_query_largest(&k->extents), 16 * GRANULE);
}

static void joined_extents_remember_the_later_ticket_or_that_one_is_missing(void** state) {
    kit* k = *state;
    berth_extent_id parts[4];
    berth_extent_id rest = map(k, BASE, 4 * GRANULE);
    for (uint64_t i = 0; i < 4; i++) {
        parts[i] = berth_extents_take_out(&k->extents,
                                          rest,
                                          BASE + i * GRANULE,
                                          GRANULE,
                                          BERTH_EXTENT_USED,
                                          BERTH_LIFETIME_MEDIUM);
        rest = berth_extents_at(&k->extents, parts[i])->after;
    }
    berth_extents_set(&k->extents, parts[0], BERTH_EXTENT_FREE, 5);
    berth_extents_set(&k->extents, parts[1], BERTH_EXTENT_FREE, 9);
    assert_int_equal(berth_extents_at(&k->extents, parts[0])->ticket, 9);
    berth_extents_set(&k->extents, parts[2], BERTH_EXTENT_FREE, 7);
    assert_int_equal(berth_extents_at(&k->extents, parts[0])->ticket, 9);
    berth_extents_set(&k->extents, parts[3], BERTH_EXTENT_FREE, 0);
    assert_int_equal(berth_extents_at(&k->extents, parts[0])->ticket, 0);
}

static void aligned_places_are_found_inside_larger_extents(void** state) {
    kit* k = *state;
    const berth_extent_id all = map(k, BASE, 8 * GRANULE);
    berth_extents_take_out(&k->extents, all, BASE, UNIT, BERTH_EXTENT_USED, BERTH_LIFETIME_MEDIUM);
    uint64_t start = 0;
    assert_int_not_equal(berth_extents_find(&k->extents, false, GRANULE, GRANULE, &start), 0);
    assert_int_equal(start, BASE + GRANULE);
    assert_int_not_equal(berth_extents_find(&k->extents, false, 7 * GRANULE, GRANULE, &start), 0);
    assert_int_equal(berth_extents_find(&k->extents, false, 7 * GRANULE + UNIT, GRANULE, &start),
                     0);
    assert_int_not_equal(berth_extents_find(&k->extents, false, 7 * GRANULE + UNIT, UNIT, &start),
                         0);
}

static void a_lone_extent_in_which_no_aligned_place_fits_is_passed_over(void** state) {
    kit* k = *state;
    // alone in the first bin that is large enough, but it begins a unit behind a granule
    const berth_extent_id small = map(k, BASE, 2 * GRANULE);
    berth_extents_take_out(
        &k->extents, small, BASE, UNIT, BERTH_EXTENT_USED, BERTH_LIFETIME_MEDIUM);
    const berth_extent_id large = map(k, BASE + 8 * GRANULE, 8 * GRANULE);
    uint64_t start = 0;
    const uint64_t size = GRANULE + UNIT;
    assert_int_equal(berth_extents_find(&k->extents, false, size, GRANULE, &start), large);
    assert_int_equal(start, BASE + 8 * GRANULE);
    assert_int_not_equal(berth_extents_find(&k->extents, false, size, UNIT, &start), large);
    assert_int_equal(start, BASE + UNIT);
}

static void a_walk_passes_every_free_extent_in_order_of_bins(void** state) {
    kit* k = *state;
    uint64_t sum = 0, last = UINT64_MAX;
    for (uint64_t i = 0; i < 20; i++)
        map(k, BASE + i * 8 * GRANULE, (1 + i % 5) * GRANULE);
    size_t count = 0;
    for (berth_extent_id id = 0;
         (id = berth_extents_walk_free(&k->extents, id, 2 * GRANULE, true)) != 0;
         count++) {
        const uint64_t size = berth_extents_at(&k->extents, id)->size;
        assert_true(size <= last && size >= 2 * GRANULE);
        last = size;
        sum += size;
    }
    assert_int_equal(count, 16);
    assert_int_equal(sum, 4 * (2 + 3 + 4 + 5) * GRANULE);
    count = 0;
    for (berth_extent_id id = 0;
         (id = berth_extents_walk_free(&k->extents, id, 2 * GRANULE, false)) != 0;
         count++) {
        const uint64_t size = berth_extents_at(&k->extents, id)->size;
        assert_true(size >= last);
        last = size;
    }
    assert_int_equal(count, 16);
}

static void placeable_bytes_count_whole_blocks_only(void** state) {
    kit* k = *state;
    const uint64_t* placeable = k->extents.placeable;
    const berth_extent_id all = map(k, BASE, 2 * GRANULE);
    assert_int_equal(placeable[BERTH_PLACEABLE_GRANULE], 2 * GRANULE);
    assert_int_equal(placeable[BERTH_PLACEABLE_64K], 0);
    // The first granule is not whole any more; the second one is.
    berth_extents_take_out(&k->extents, all, BASE, UNIT, BERTH_EXTENT_USED, BERTH_LIFETIME_MEDIUM);
    assert_int_equal(placeable[BERTH_PLACEABLE_GRANULE], GRANULE);
    map(k, BASE + 16 * GRANULE, 40 * GRANULE);
    assert_int_equal(placeable[BERTH_PLACEABLE_64K], 128 << 10);
    assert_int_equal(k->extents.free_count, 2);
}

/// A block of `lifetime` in the FREE extent `id` at `start`.
static berth_extent_id place(
    kit* k, berth_extent_id id, uint64_t start, uint64_t size, berth_lifetime lifetime) {
    assert_ok(berth_extents_prepare(&k->extents, 2));
    return berth_extents_take_out(&k->extents, id, start, size, BERTH_EXTENT_USED, lifetime);
}

static berth_lifetime lifetime_of(const kit* k, berth_extent_id id) {
    return (berth_lifetime)berth_extents_at(&k->extents, id)->lifetime;
}

static void what_is_free_belongs_to_its_longest_lived_neighbour_in_the_granule(void** state) {
    kit* k = *state;
    const berth_extent_id all = map(k, BASE, 4 * GRANULE);
    // short at the beginning, long in the middle of the second granule
    const berth_extent_id low = place(k, all, BASE, UNIT, BERTH_LIFETIME_SHORT);
    berth_extent_id rest = berth_extents_at(&k->extents, low)->after;
    assert_int_equal(lifetime_of(k, rest), BERTH_LIFETIME_UNKNOWN);
    const berth_extent_id middle = place(k, rest, BASE + GRANULE + 1024, 1024, BERTH_LIFETIME_LONG);
    const berth_extent_id between = berth_extents_at(&k->extents, low)->after;
    const berth_extent_id above = berth_extents_at(&k->extents, middle)->after;
    assert_int_equal(lifetime_of(k, between), BERTH_LIFETIME_LONG);
    // two granules are whole above
    assert_int_equal(lifetime_of(k, above), BERTH_LIFETIME_UNKNOWN);
    // a block that turns out to live less long lets what is free around it go
    berth_extents_set_lifetime(&k->extents, middle, BERTH_LIFETIME_MEDIUM);
    assert_int_equal(lifetime_of(k, between), BERTH_LIFETIME_MEDIUM);
    assert_true(berth_extents_are_valid(&k->extents));
    // without it all is joined and nobody's again
    rest = berth_extents_set(&k->extents, middle, BERTH_EXTENT_FREE, 0);
    assert_int_equal(lifetime_of(k, rest), BERTH_LIFETIME_UNKNOWN);
    assert_int_equal(berth_extents_at(&k->extents, rest)->size, 4 * GRANULE - UNIT);
}

static void a_neighbour_beyond_a_border_of_granules_does_not_count(void** state) {
    kit* k = *state;
    const berth_extent_id all = map(k, BASE, 3 * GRANULE);
    const berth_extent_id low = place(k, all, BASE, GRANULE, BERTH_LIFETIME_LONG);
    const berth_extent_id rest = berth_extents_at(&k->extents, low)->after;
    const berth_extent_id high =
        place(k, rest, BASE + 2 * GRANULE - 1024, 1024, BERTH_LIFETIME_SHORT);
    assert_int_equal(lifetime_of(k, berth_extents_at(&k->extents, high)->before),
                     BERTH_LIFETIME_SHORT);
}

static void what_became_free_beside_growth_belongs_to_the_block_that_it_ends_in(void** state) {
    kit* k = *state;
    const berth_extent_id all = map(k, BASE, GRANULE);
    const berth_extent_id low = place(k, all, BASE, 1024, BERTH_LIFETIME_SHORT);
    const berth_extent_id rest = berth_extents_at(&k->extents, low)->after;
    const berth_extent_id grows = berth_extents_take_out(
        &k->extents, rest, BASE + 1024, 1024, BERTH_EXTENT_BUSY, BERTH_LIFETIME_UNKNOWN);
    // its neighbours come back meanwhile
    berth_extents_set(&k->extents, low, BERTH_EXTENT_FREE, 0);
    assert_int_equal(lifetime_of(k, low), BERTH_LIFETIME_UNKNOWN);
    assert_int_equal(
        berth_extents_take_out(
            &k->extents, grows, BASE + 1024, 1024, BERTH_EXTENT_USED, BERTH_LIFETIME_LONG),
        grows);
    assert_int_equal(lifetime_of(k, low), BERTH_LIFETIME_LONG);
    const berth_extent_id high = berth_extents_at(&k->extents, grows)->after;
    assert_int_equal(lifetime_of(k, high), BERTH_LIFETIME_LONG);
    assert_true(berth_extents_are_valid(&k->extents));
}

static void a_block_is_put_next_to_its_like(void** state) {
    kit* k = *state;
    const berth_extent_id all = map(k, BASE, 8 * GRANULE);
    const berth_extent_id low = place(k, all, BASE, UNIT, BERTH_LIFETIME_SHORT);
    berth_extent_id rest = berth_extents_at(&k->extents, low)->after;
    const uint64_t end = BASE + 8 * GRANULE, first = BASE + UNIT;
    // the other end is on a border: nobody lives in that granule
    assert_int_equal(
        berth_extents_choose_end(&k->extents, rest, BERTH_LIFETIME_SHORT, UNIT, UNIT, first),
        first);
    assert_int_equal(
        berth_extents_choose_end(&k->extents, rest, BERTH_LIFETIME_LONG, UNIT, UNIT, first),
        end - UNIT);
    place(k, rest, end - UNIT, UNIT, BERTH_LIFETIME_LONG);
    rest = berth_extents_at(&k->extents, low)->after;
    assert_int_equal(
        berth_extents_choose_end(&k->extents, rest, BERTH_LIFETIME_LONG, UNIT, UNIT, first),
        end - 2 * UNIT);
    // others at both ends: a granule of its own
    assert_int_equal(
        berth_extents_choose_end(&k->extents, rest, BERTH_LIFETIME_MEDIUM, UNIT, UNIT, first),
        BASE + GRANULE);
    assert_int_equal(berth_extents_choose_end(
                         &k->extents, rest, BERTH_LIFETIME_MEDIUM, 7 * GRANULE, UNIT, first),
                     first);
}

static void an_empty_region_can_be_forgotten(void** state) {
    kit* k = *state;
    const berth_extent_id mapped = map(k, BASE + GRANULE, GRANULE);
    berth_extents_set(&k->extents, mapped, BERTH_EXTENT_HOLE, 0);
    assert_int_equal(berth_extents_at(&k->extents, k->region)->size, REGION);
    berth_extents_remove_region(&k->extents, k->region);
    assert_int_equal(k->extents.bytes[BERTH_EXTENT_HOLE], 0);
}

static void preparing_without_memory_leaves_everything_usable(void** state) {
    kit* k = *state;
    failing_host_fail(&k->failing, 1, true);
    assert_int_equal(berth_extents_prepare(&k->extents, 100000), BERTH_ERR_OUT_OF_MEMORY);
    failing_host_fail(&k->failing, 0, false);
    assert_true(berth_extents_are_valid(&k->extents));
    assert_ok(berth_extents_prepare(&k->extents, 1000));
}

/// How little a block of `lifetime` suits into a FREE extent: best among those that live as long or
/// longer, then in whole granules, then with others, the longest-lived first.
static uint32_t naive_rank(const kit* k, const berth_extent* e, berth_lifetime lifetime) {
    const uint64_t end = e->start + e->size;
    if ((e->start + GRANULE - 1) / GRANULE < end / GRANULE) return 1;
    uint32_t longest = 0;
    if (e->start % GRANULE != 0) longest = berth_extents_at(&k->extents, e->before)->lifetime;
    if (end % GRANULE != 0 && berth_extents_at(&k->extents, e->after)->lifetime > longest)
        longest = berth_extents_at(&k->extents, e->after)->lifetime;
    return longest >= (uint32_t)lifetime ? 0 : 2 + BERTH_LIFETIME_COUNT - longest;
}

/// The size of the best place for a block: the least rank (if its lifetime is known), then the
/// least size. 0 if there is none.
static uint64_t naive_best(const kit* k, uint64_t size, berth_lifetime lifetime, uint32_t* rank) {
    uint64_t best = 0;
    for (uint32_t i = 1; i < k->extents.record_count; i++) {
        const berth_extent* e = berth_extents_at(&k->extents, i);
        if (e->state != BERTH_EXTENT_FREE || e->size < size) continue;
        const uint32_t its_rank =
            lifetime == BERTH_LIFETIME_UNKNOWN ? 0 : naive_rank(k, e, lifetime);
        if (best != 0 && (its_rank > *rank || (its_rank == *rank && e->size >= best))) continue;
        best = e->size;
        *rank = its_rank;
    }
    return best;
}

/// Bytes that blocks of `size` can use: each is put down at the first place left, until none fits.
static uint64_t naive_placeable(const kit* k, uint64_t size) {
    const uint64_t alignment = size % GRANULE == 0 ? GRANULE : UNIT;
    uint64_t sum = 0;
    for (size_t i = 1; i < k->extents.record_count; i++) {
        const berth_extent* e = berth_extents_at(&k->extents, (berth_extent_id)i);
        if (e->state != BERTH_EXTENT_FREE) continue;
        uint64_t at = (e->start + alignment - 1) / alignment * alignment;
        for (; at + size <= e->start + e->size; at += size)
            sum += size;
    }
    return sum;
}

static void check_figures(const kit* k) {
    uint64_t count = 0;
    for (size_t i = 1; i < k->extents.record_count; i++)
        count += berth_extents_at(&k->extents, (berth_extent_id)i)->state == BERTH_EXTENT_FREE;
    assert_int_equal(k->extents.free_count, count);
    const uint64_t* placeable = k->extents.placeable;
    assert_int_equal(placeable[BERTH_PLACEABLE_GRANULE], naive_placeable(k, GRANULE));
    assert_int_equal(placeable[BERTH_PLACEABLE_64K], naive_placeable(k, 64 << 10));
    assert_int_equal(placeable[BERTH_PLACEABLE_1M], naive_placeable(k, 1 << 20));
    const uint64_t largest = berth_extents_query_largest(&k->extents);
    const uint64_t bound = berth_extents_bound_largest(&k->extents);
    assert_true(bound >= largest && bound <= largest + largest / 16);
}

static berth_lifetime random_lifetime(test_random* random) {
    return (berth_lifetime)(BERTH_LIFETIME_SHORT + test_random_below(random, 3));
}

/// Looks for a place, now and then whatever the lifetime, and compares it with the naive choice.
static berth_extent_id find_as_naively(
    kit* k, test_random* random, uint64_t size, berth_lifetime lifetime, uint64_t* out_start) {
    const bool anywhere = test_random_one_in(random, 4);
    uint32_t rank = 0;
    const uint64_t best = naive_best(k, size, anywhere ? BERTH_LIFETIME_UNKNOWN : lifetime, &rank);
    const berth_extent_id id =
        anywhere ? berth_extents_find(&k->extents, false, size, UNIT, out_start)
                 : berth_extents_find_among_like(&k->extents, lifetime, size, UNIT, out_start);
    assert_int_equal(id != 0, best != 0);
    if (id == 0) return 0;
    const berth_extent* found = berth_extents_at(&k->extents, id);
    assert_true(found->size <= best + best / 16 + UNIT);
    if (!anywhere) assert_int_equal(naive_rank(k, found, lifetime), rank);
    *out_start = berth_extents_choose_end(&k->extents, id, lifetime, size, UNIT, *out_start);
    return id;
}

static void random_cuts_and_joins_stay_valid_and_near_the_best_place(void** state) {
    kit* k = *state;
    enum { MANY = 300 };
    test_random random = test_random_make(3);
    berth_extent_id used[MANY];
    size_t count = 0;
    map(k, BASE, REGION);
    for (int i = 0; i < 20000; i++) {
        if (count == MANY || (count > 0 && test_random_one_in(&random, 2))) {
            const size_t at = test_random_below(&random, count);
            berth_extents_set(&k->extents, used[at], BERTH_EXTENT_FREE, 0);
            used[at] = used[--count];
        } else {
            const uint64_t size = UNIT * (1 + test_random_below(&random, 100));
            uint64_t start = 0;
            const berth_lifetime lifetime = random_lifetime(&random);
            const berth_extent_id id = find_as_naively(k, &random, size, lifetime, &start);
            if (id == 0) continue;
            used[count++] = place(k, id, start, size, lifetime);
            if (test_random_one_in(&random, 8))
                berth_extents_set_lifetime(&k->extents, used[count - 1], random_lifetime(&random));
        }
        if (i % 500 == 0) assert_true(berth_extents_are_valid(&k->extents));
        if (i % 100 == 0) check_figures(k);
    }
    while (count > 0)
        berth_extents_set(&k->extents, used[--count], BERTH_EXTENT_FREE, 0);
    assert_int_equal(berth_extents_query_largest(&k->extents), REGION);
}

static void a_fit_hidden_behind_many_others_is_found(void** state) {
    kit* k = *state;
    // All extents share a bin; only the first one made, last in the bin, is large enough.
    const uint64_t size = 100 * UNIT;
    berth_extent_id rest = map(k, BASE, REGION);
    uint64_t at = BASE;
    berth_extent_id parts[80];
    for (size_t i = 0; i < 80; i++) {
        const uint64_t bytes = i == 0 ? size + UNIT : size;
        parts[i] = berth_extents_take_out(
            &k->extents, rest, at, bytes, BERTH_EXTENT_USED, BERTH_LIFETIME_MEDIUM);
        assert_ok(berth_extents_prepare(&k->extents, 4));
        rest = berth_extents_at(&k->extents, parts[i])->after;
        const berth_extent_id wall = berth_extents_take_out(
            &k->extents, rest, at + bytes, UNIT, BERTH_EXTENT_USED, BERTH_LIFETIME_MEDIUM);
        rest = berth_extents_at(&k->extents, wall)->after;
        at += bytes + UNIT;
    }
    berth_extents_take_out(
        &k->extents, rest, at, BASE + REGION - at, BERTH_EXTENT_USED, BERTH_LIFETIME_MEDIUM);
    for (size_t i = 0; i < 80; i++)
        berth_extents_set(&k->extents, parts[i], BERTH_EXTENT_FREE, 0);
    uint64_t start = 0;
    assert_int_equal(berth_extents_find(&k->extents, false, size + UNIT, UNIT, &start), parts[0]);
    assert_int_equal(start, BASE);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_region_begins_as_one_hole),
        TEST(giving_back_the_middle_joins_both_neighbours),
        TEST(joined_extents_remember_the_later_ticket_or_that_one_is_missing),
        TEST(aligned_places_are_found_inside_larger_extents),
        TEST(a_lone_extent_in_which_no_aligned_place_fits_is_passed_over),
        TEST(a_walk_passes_every_free_extent_in_order_of_bins),
        TEST(placeable_bytes_count_whole_blocks_only),
        TEST(what_is_free_belongs_to_its_longest_lived_neighbour_in_the_granule),
        TEST(a_neighbour_beyond_a_border_of_granules_does_not_count),
        TEST(what_became_free_beside_growth_belongs_to_the_block_that_it_ends_in),
        TEST(a_block_is_put_next_to_its_like),
        TEST(an_empty_region_can_be_forgotten),
        TEST(preparing_without_memory_leaves_everything_usable),
        TEST(random_cuts_and_joins_stay_valid_and_near_the_best_place),
        TEST(a_fit_hidden_behind_many_others_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
