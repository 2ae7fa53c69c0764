// SPDX-License-Identifier: Apache-2.0
// The packing portfolio and the independent checker.
#include "kit/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/host.h"
#include "kit/failing_host.h"
#include "kit/random.h"
#include "plan/packing_internal.h"
#include "plan/public_problems.h"
#include "plan/verify.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static berth_status pack(const berth_interval* items,
                         size_t count,
                         uint64_t alignment,
                         uint64_t* offsets,
                         berth_pack_result* result) {
    const berth_pack_problem problem = {.intervals = items, .count = count, .alignment = alignment};
    return berth_pack(&problem, NULL, offsets, result);
}

static berth_status verify(const berth_host* host,
                           const berth_interval* items,
                           size_t count,
                           uint64_t alignment,
                           const uint64_t* offsets,
                           berth_pack_verdict* verdict) {
    const berth_pack_problem problem = {.intervals = items, .count = count, .alignment = alignment};
    return berth_verify_packing(host, &problem, offsets, verdict);
}

static void random_problem(test_random* random, berth_interval* items, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const uint32_t start = (uint32_t)test_random_below(random, count + 4);
        items[i] = (berth_interval){1 + test_random_below(random, 40),
                                    start,
                                    start + 1 + (uint32_t)test_random_below(random, 12)};
    }
}

/// The packing is valid and the result says the truth.
static void check(const berth_interval* items,
                  size_t count,
                  const uint64_t* offsets,
                  const berth_pack_result* result) {
    berth_pack_verdict verified;
    assert_ok(verify(berth_host_default(), items, count, 1, offsets, &verified));
    assert_true(verified.valid);
    assert_int_equal(verified.peak, result->peak);
    assert_int_equal(verified.lower_bound, result->lower_bound);
    assert_int_equal(result->proved, result->peak == result->lower_bound);
}

// ---- A solver that tries every stacking: the truth for tiny problems.

typedef struct exhaustive {
    const berth_interval* items;
    size_t count;
    uint64_t offsets[8];
    bool placed[8];
    uint64_t best;
} exhaustive;

static bool meets(const berth_interval* a, const berth_interval* b) {
    return a->start < b->end && b->start < a->end;
}

/// In an optimal packing every item rests on the floor or on another; so placing items in some
/// order, each at the lowest place above any set of others, finds it.
static void exhaust(exhaustive* self, size_t placed, uint64_t peak) {
    if (peak >= self->best) return;
    if (placed == self->count) {
        self->best = peak;
        return;
    }
    for (size_t i = 0; i < self->count; i++) {
        if (self->placed[i]) continue;
        for (size_t below = 0; below <= self->count; below++) {
            uint64_t offset = 0;
            if (below < self->count) {
                if (!self->placed[below] || !meets(&self->items[below], &self->items[i])) continue;
                offset = self->offsets[below] + self->items[below].size;
            }
            const uint64_t top = offset + self->items[i].size;
            bool free = true;
            for (size_t k = 0; k < self->count && free; k++)
                if (self->placed[k] && meets(&self->items[k], &self->items[i]))
                    free =
                        top <= self->offsets[k] || self->offsets[k] + self->items[k].size <= offset;
            if (!free) continue;
            self->placed[i] = true;
            self->offsets[i] = offset;
            exhaust(self, placed + 1, top > peak ? top : peak);
            self->placed[i] = false;
        }
    }
}

static void tiny_problems_are_packed_close_to_the_optimum_and_proofs_are_true(void** state) {
    (void)state;
    test_random random = test_random_make(1);
    size_t optimal = 0;
    for (int round = 0; round < 150; round++) {
        berth_interval items[6];
        uint64_t offsets[6];
        random_problem(&random, items, COUNT(items));
        berth_pack_result result;
        assert_ok(pack(items, COUNT(items), 1, offsets, &result));
        check(items, COUNT(items), offsets, &result);
        exhaustive truth = {.items = items, .count = COUNT(items), .best = UINT64_MAX};
        exhaust(&truth, 0, 0);
        assert_true(result.peak >= truth.best);
        if (result.proved) assert_int_equal(result.peak, truth.best);
        optimal += result.peak == truth.best;
    }
    assert_true(optimal >= 145);
}

static void every_order_gives_a_valid_packing_and_the_portfolio_is_no_worse(void** state) {
    (void)state;
    test_random random = test_random_make(2);
    for (int round = 0; round < 60; round++) {
        berth_interval items[120];
        uint64_t offsets[COUNT(items)];
        const size_t count = 1 + (size_t)test_random_below(&random, COUNT(items));
        random_problem(&random, items, count);
        berth_pack_result best;
        assert_ok(pack(items, count, 1, offsets, &best));
        check(items, count, offsets, &best);
        for (int order = 0; order < BERTH_PACKING_ORDER_COUNT; order++) {
            berth_pack_result result;
            const berth_pack_problem problem = {.intervals = items, .count = count};
            assert_ok(berth_packing_solve_order(
                berth_host_default(), &problem, (berth_packing_order)order, offsets, &result));
            check(items, count, offsets, &result);
            assert_true(best.peak <= result.peak);
        }
    }
}

static void items_with_many_neighbours_are_packed_too(void** state) {
    (void)state;
    // One long item meets 400 short ones, more than are gathered one by one.
    berth_interval items[401];
    uint64_t offsets[COUNT(items)];
    for (uint32_t i = 0; i < 400; i++)
        items[i] = (berth_interval){64 + i % 7, i, i + 3};
    items[400] = (berth_interval){1, 0, 500};
    berth_pack_result result;
    assert_ok(pack(items, COUNT(items), 1, offsets, &result));
    check(items, COUNT(items), offsets, &result);
}

static void items_without_bytes_or_life_are_at_zero_and_cost_nothing(void** state) {
    (void)state;
    const berth_interval items[] = {{0, 0, 9}, {5, 3, 3}, {7, 4, 2}, {8, 0, 9}};
    uint64_t offsets[4] = {1, 1, 1, 1};
    berth_pack_result result;
    assert_ok(pack(items, COUNT(items), 1, offsets, &result));
    for (size_t i = 0; i < COUNT(items); i++)
        assert_int_equal(offsets[i], 0);
    assert_int_equal(result.peak, 8);
    assert_true(result.proved);
    assert_ok(pack(NULL, 0, 1, offsets, &result));
    assert_int_equal(result.peak, 0);
    assert_true(result.proved);
}

static void lifetimes_that_only_touch_share_bytes(void** state) {
    (void)state;
    const berth_interval items[] = {{10, 0, 4}, {10, 4, 8}};
    uint64_t offsets[2];
    berth_pack_result result;
    assert_ok(pack(items, 2, 1, offsets, &result));
    assert_int_equal(result.peak, 10);
}

static void sizes_are_rounded_to_the_alignment(void** state) {
    (void)state;
    const berth_interval items[] = {{1, 0, 2}, {65, 0, 2}, {64, 0, 2}};
    uint64_t offsets[3];
    berth_pack_result result;
    assert_ok(pack(items, 3, 64, offsets, &result));
    assert_int_equal(result.peak, 64 + 128 + 64);
    for (int i = 0; i < 3; i++)
        assert_int_equal(offsets[i] % 64, 0);
}

static void bad_alignment_and_absurd_sizes_are_named_errors(void** state) {
    (void)state;
    const berth_interval items[] = {{UINT64_C(1) << 61, 0, 2}, {(UINT64_C(1) << 61) + 1, 0, 2}};
    uint64_t offsets[2];
    berth_pack_result result;
    assert_fails(pack(items, 1, 48, offsets, &result), BERTH_ERR_INVALID_ARGUMENT, "48");
    assert_fails(pack(items, 2, 1, offsets, &result), BERTH_ERR_OVERFLOW, "2^62");
    assert_int_equal(result.peak, 0);
}

static void among_gaps_that_keep_the_bound_recently_released_bytes_are_reused(void** state) {
    (void)state;
    // Two equal holes open below a long-lived top item; the one released later is taken.
    const berth_interval items[] = {{10, 0, 2}, {10, 0, 9}, {10, 0, 4}, {10, 0, 9}, {10, 5, 7}};
    uint64_t offsets[5];
    berth_pack_result result;
    assert_ok(pack(items, COUNT(items), 1, offsets, &result));
    assert_true(result.proved);
    assert_int_equal(offsets[4], offsets[2]);
}

static void of_packings_with_equal_peaks_the_one_that_reuses_recent_bytes_is_kept(void** state) {
    (void)state;
    // The last may go where bytes were released before the fifth began, or after.
    const berth_interval items[] = {
        {10, 0, 2}, {10, 0, 9}, {10, 0, 4}, {10, 0, 9}, {10, 3, 9}, {10, 5, 7}};
    const uint64_t long_ago[] = {0, 10, 20, 30, 40, 0};
    const uint64_t just_now[] = {0, 10, 20, 30, 40, 20};
    const berth_pack_problem problem = {.intervals = items, .count = COUNT(items)};
    berth_packing_load load;
    assert_ok(berth_packing_load_init(&load, berth_host_default(), &problem));
    assert_int_equal(load.part_count, 1);
    berth_packer packer;
    berth_packer_init(&packer, &load, 0);
    const uint64_t* const attempts[] = {long_ago, just_now, long_ago};
    for (size_t k = 0; k < COUNT(attempts); k++) {
        memcpy(packer.offset, attempts[k], sizeof long_ago);
        berth_packer_keep(&packer, 50);
        assert_memory_equal(packer.best, k == 0 ? long_ago : just_now, sizeof long_ago);
    }
    berth_packer_fini(&packer);
    berth_packing_load_fini(&load);
}

static void the_reuse_distance_is_what_began_between_release_and_reuse(void** state) {
    (void)state;
    // The four go where the ten were, at once. Of the last ten, six are used again after four bytes
    // began elsewhere, and four are used for the first time, as are the first ten: the peak each.
    const berth_interval items[] = {{10, 0, 1}, {4, 1, 4}, {10, 2, 3}};
    uint64_t offsets[3];
    berth_pack_result result;
    assert_ok(pack(items, 3, 1, offsets, &result));
    assert_int_equal(offsets[1], 0);
    assert_int_equal(offsets[2], 4);
    assert_int_equal(result.reuse_distance, (10 * 14 + 4 * 0 + 6 * 4 + 4 * 14) / 24);
}

static void a_hundred_thousand_values_are_packed_in_every_way_that_is_linear(void** state) {
    (void)state;
    test_random random = test_random_make(9);
    const size_t count = 100000;
    berth_interval* items = calloc(count, sizeof *items);
    uint64_t* offsets = calloc(count, sizeof *offsets);
    assert_non_null(items);
    assert_non_null(offsets);
    for (size_t i = 0; i < count; i++)
        items[i] = (berth_interval){1 + test_random_below(&random, 1000),
                                    (uint32_t)i,
                                    (uint32_t)i + 1 + (uint32_t)test_random_below(&random, 600)};
    const berth_pack_problem problem = {.intervals = items, .count = count};
    static const berth_packing_order orders[] = {
        BERTH_PACKING_ONLINE_RECENT, BERTH_PACKING_ONLINE_BEST, BERTH_PACKING_REVERSE_BEST};
    for (size_t k = 0; k < COUNT(orders); k++) {
        berth_pack_result result;
        assert_ok(
            berth_packing_solve_order(berth_host_default(), &problem, orders[k], offsets, &result));
        check(items, count, offsets, &result);
    }
    free(items);
    free(offsets);
}

static void packing_without_memory_says_so_and_repeats_exactly_with_it(void** state) {
    (void)state;
    failing_host failing;
    failing_host_init(&failing);
    berth_host* host;
    assert_ok(berth_host_create(&failing.allocator, &host));
    test_random random = test_random_make(3);
    berth_interval items[50];
    uint64_t expected[COUNT(items)], offsets[COUNT(items)];
    random_problem(&random, items, COUNT(items));
    const berth_pack_problem problem = {.intervals = items, .count = COUNT(items)};
    berth_pack_result result, again;
    assert_ok(berth_packing_solve(host, &problem, NULL, expected, &result));
    failing_host_fail(&failing, 1, false);
    assert_int_equal(berth_packing_solve(host, &problem, NULL, offsets, &again),
                     BERTH_ERR_OUT_OF_MEMORY);
    // Without memory for the lists of neighbours it packs all the same, and alike.
    failing_host_fail(&failing, 2, false);
    assert_ok(berth_packing_solve(host, &problem, NULL, offsets, &again));
    assert_memory_equal(offsets, expected, sizeof offsets);
    failing_host_fail(&failing, 0, false);
    berth_host_destroy(host);
    assert_int_equal(failing.live_blocks, 0);
}

static void the_checker_finds_overlap_misalignment_and_wrapping(void** state) {
    (void)state;
    const berth_host* host = berth_host_default();
    const berth_interval items[] = {{10, 0, 5}, {10, 4, 8}, {10, 5, 9}};
    berth_pack_verdict result;
    const uint64_t overlapping[] = {0, 9, 20};
    assert_ok(verify(host, items, 3, 1, overlapping, &result));
    assert_false(result.valid);
    assert_int_equal(result.first, 0);
    assert_int_equal(result.second, 1);
    const uint64_t touching[] = {0, 10, 0};
    assert_ok(verify(host, items, 3, 1, touching, &result));
    assert_true(result.valid);
    assert_int_equal(result.peak, 20);
    assert_int_equal(result.lower_bound, 20);
    const uint64_t misaligned[] = {0, 10, 24};
    assert_ok(verify(host, items, 3, 8, misaligned, &result));
    assert_false(result.valid);
    assert_int_equal(result.first, result.second);
    const uint64_t wrapping[] = {UINT64_MAX - 3, 0, 0};
    assert_ok(verify(host, items, 3, 1, wrapping, &result));
    assert_false(result.valid);
}

// ---- Public benchmark problems.

static double ratio_of(const char* file, size_t expected) {
    static berth_interval items[30000];
    static uint64_t offsets[COUNT(items)];
    const size_t count = public_problem_load(file, items, COUNT(items));
    assert_int_equal(count, expected);
    berth_pack_result result;
    assert_ok(pack(items, count, 1, offsets, &result));
    check(items, count, offsets, &result);
    return (double)result.peak / (double)result.lower_bound;
}

static void public_problems_are_packed_no_worse_than_the_best_known_greedy_planners(void** state) {
    (void)state;
    // Bounds: no more than the best of the heuristics that peers ship.
    static const struct {
        const char* file;
        size_t count;
        double bound;
    } problems[] = {
        {"minimalloc/challenging/A.1048576.csv", 154, 1.151},
        {"minimalloc/challenging/B.1048576.csv", 170, 1.140},
        {"minimalloc/challenging/C.1048576.csv", 203, 1.193},
        {"minimalloc/challenging/D.1048576.csv", 213, 1.150},
        {"minimalloc/challenging/E.1048576.csv", 215, 1.150},
        {"minimalloc/challenging/F.1048576.csv", 296, 1.170},
        {"minimalloc/challenging/G.1048576.csv", 308, 1.170},
        {"minimalloc/challenging/H.1048576.csv", 316, 1.173},
        {"minimalloc/challenging/I.1048576.csv", 374, 1.230},
        {"minimalloc/challenging/J.1048576.csv", 409, 1.170},
        {"minimalloc/challenging/K.1048576.csv", 454, 1.190},
        {"packing-somas/resnet50.csv", 1042, 1.0003},
        {"packing-iopddl/G_1.csv", 816, 1.0},
        {"packing-iopddl/S_1.csv", 28526, 1.0139},
    };
    for (size_t i = 0; i < COUNT(problems); i++) {
        const double ratio = ratio_of(problems[i].file, problems[i].count);
        if (ratio > problems[i].bound)
            fail_msg("%s: %.4f is above %.4f", problems[i].file, ratio, problems[i].bound);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_problems_are_packed_close_to_the_optimum_and_proofs_are_true),
        cmocka_unit_test(every_order_gives_a_valid_packing_and_the_portfolio_is_no_worse),
        cmocka_unit_test(items_with_many_neighbours_are_packed_too),
        cmocka_unit_test(items_without_bytes_or_life_are_at_zero_and_cost_nothing),
        cmocka_unit_test(lifetimes_that_only_touch_share_bytes),
        cmocka_unit_test(sizes_are_rounded_to_the_alignment),
        cmocka_unit_test(bad_alignment_and_absurd_sizes_are_named_errors),
        cmocka_unit_test(among_gaps_that_keep_the_bound_recently_released_bytes_are_reused),
        cmocka_unit_test(of_packings_with_equal_peaks_the_one_that_reuses_recent_bytes_is_kept),
        cmocka_unit_test(the_reuse_distance_is_what_began_between_release_and_reuse),
        cmocka_unit_test(a_hundred_thousand_values_are_packed_in_every_way_that_is_linear),
        cmocka_unit_test(packing_without_memory_says_so_and_repeats_exactly_with_it),
        cmocka_unit_test(the_checker_finds_overlap_misalignment_and_wrapping),
        cmocka_unit_test(public_problems_are_packed_no_worse_than_the_best_known_greedy_planners),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
