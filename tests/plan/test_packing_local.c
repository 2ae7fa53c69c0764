// SPDX-License-Identifier: Apache-2.0
// Packing with wishes and a budget: against the truth for tiny problems, and when it is stopped.
#include "kit/test.h"

#include <stdlib.h>

#include "base/host.h"
#include "kit/failing_host.h"
#include "plan/packing.h"
#include "plan/verify.h"
#include "plan/wishes_kit.h"

#define MANY 100000u

static berth_pack_result pack(const berth_pack_problem* problem,
                              const berth_pack_options* options,
                              uint64_t* offsets) {
    berth_pack_result result;
    assert_ok(berth_pack(problem, options, offsets, &result));
    berth_pack_verdict verdict;
    assert_ok(berth_pack_verify(problem, offsets, &verdict));
    assert_true(verdict.valid);
    assert_int_equal(verdict.peak, result.peak);
    assert_true(result.lower_bound <= result.peak);
    assert_int_equal(result.proved, result.peak == result.lower_bound);
    return result;
}

static void tiny_problems_with_every_wish_are_packed_to_the_optimum(void** state) {
    (void)state;
    test_random random = test_random_make(21);
    size_t optimal = 0;
    for (uint64_t round = 0; round < 300; round++) {
        test_wishes w;
        uint64_t offsets[TEST_WISHES_MOST], tried[TEST_WISHES_MOST];
        test_wishes_make(&random, &w, 5, 4);
        const berth_pack_options options = {.budget_steps = 20000, .seed = round};
        const berth_pack_result result = pack(&w.problem, &options, offsets);
        assert_true(test_wishes_are_met(&w.problem, offsets, w.problem.count));
        if (result.lower_bound > 0)
            assert_false(test_wishes_fit(&w.problem, tried, 0, result.lower_bound - 1));
        optimal += !test_wishes_fit(&w.problem, tried, 0, result.peak - 1);
    }
    assert_true(optimal >= 299);
}

static void a_budget_makes_packings_better_and_none_worse(void** state) {
    (void)state;
    test_random random = test_random_make(22);
    size_t better = 0;
    for (uint64_t round = 0; round < 60; round++) {
        test_wishes w;
        uint64_t offsets[TEST_WISHES_MOST];
        test_wishes_make(&random, &w, TEST_WISHES_MOST, 100);
        const berth_pack_options options = {.budget_steps = 60000, .seed = round};
        const berth_pack_result quick = pack(&w.problem, NULL, offsets);
        const berth_pack_result searched = pack(&w.problem, &options, offsets);
        assert_true(searched.peak <= quick.peak);
        assert_true(searched.steps < 62000);
        better += searched.peak < quick.peak;
    }
    assert_true(better >= 30);
}

static void a_search_by_steps_and_seed_repeats_exactly(void** state) {
    (void)state;
    test_random random = test_random_make(23);
    for (uint64_t round = 0; round < 20; round++) {
        test_wishes w;
        uint64_t offsets[TEST_WISHES_MOST], again[TEST_WISHES_MOST];
        test_wishes_make(&random, &w, TEST_WISHES_MOST, 100);
        const berth_pack_options options = {.budget_steps = 20000, .seed = round};
        const berth_pack_result first = pack(&w.problem, &options, offsets);
        const berth_pack_result second = pack(&w.problem, &options, again);
        assert_memory_equal(offsets, again, sizeof offsets);
        assert_int_equal(first.steps, second.steps);
        assert_int_equal(first.reuse_distance, second.reuse_distance);
    }
}

/// A problem with aligned and given offsets that greedy rules get wrong.
static void make_hard(test_wishes* self, bool given) {
    test_random random = test_random_make(24);
    *self = (test_wishes){.problem = {.count = TEST_WISHES_MOST}};
    test_wishes_make_items(&random, self, TEST_WISHES_MOST, 100);
    for (size_t i = 0; i < TEST_WISHES_MOST; i++) {
        self->alignments[i] = UINT64_C(1) << test_random_below(&random, 5);
        self->fixed[i] = i == 0 && given ? 16 : BERTH_PACK_ANYWHERE;
        self->items[i].end += 20;
    }
    self->problem.intervals = self->items;
    self->problem.alignments = self->alignments;
    self->problem.fixed_offsets = self->fixed;
    self->problem.in_place_count = 0;
}

static bool refuse(void* user, const berth_pack_progress* progress) {
    unsigned* calls = user;
    assert_true(progress->lower_bound <= progress->peak);
    ++*calls;
    return false;
}

static void a_search_ends_with_a_valid_packing_when_it_is_told_to(void** state) {
    (void)state;
    for (int given = 0; given < 2; given++) {
        test_wishes w;
        uint64_t offsets[TEST_WISHES_MOST];
        make_hard(&w, given == 1);
        unsigned calls = 0;
        const berth_pack_options options = {
            .budget_ns = UINT64_C(3600000000000), .on_progress = refuse, .user = &calls};
        (void)pack(&w.problem, &options, offsets);
        assert_int_equal(calls, 1);
    }
}

static void a_search_ends_at_the_capacity_that_is_enough(void** state) {
    (void)state;
    test_wishes w;
    uint64_t offsets[TEST_WISHES_MOST];
    make_hard(&w, true);
    const uint64_t quick = pack(&w.problem, NULL, offsets).peak;
    const berth_pack_options options = {.budget_steps = 4000000, .capacity = quick - 1};
    const berth_pack_result result = pack(&w.problem, &options, offsets);
    assert_true(result.peak < quick);
    assert_true(result.steps < 4000000);
}

static void a_budget_is_kept_where_one_pass_over_all_buffers_is_too_long(void** state) {
    (void)state;
    berth_interval* items = calloc(MANY, sizeof *items);
    uint64_t* alignments = calloc(MANY, sizeof *alignments);
    uint64_t* offsets = calloc(MANY, sizeof *offsets);
    assert_non_null(items);
    assert_non_null(alignments);
    assert_non_null(offsets);
    test_random random = test_random_make(25);
    for (uint32_t i = 0; i < MANY; i++) {
        const uint32_t start = (uint32_t)test_random_below(&random, MANY);
        items[i] = (berth_interval){1 + test_random_below(&random, 900), start, start + 1 + i % 16};
        alignments[i] = UINT64_C(1) << test_random_below(&random, 4);
    }
    const berth_pack_problem problem = {
        .intervals = items, .count = MANY, .alignments = alignments};
    const berth_pack_options options = {.budget_steps = 30000};
    const berth_pack_result result = pack(&problem, &options, offsets);
    assert_in_range(result.steps, 30000, 33000);
    free(items);
    free(alignments);
    free(offsets);
}

static void a_search_without_memory_leaves_the_best_packing_so_far(void** state) {
    (void)state;
    failing_host failing;
    failing_host_init(&failing);
    berth_host* host;
    assert_ok(berth_host_create(&failing.allocator, &host));
    test_random random = test_random_make(26);
    for (int round = 0; round < 6; round++) {
        test_wishes w;
        uint64_t offsets[TEST_WISHES_MOST];
        test_wishes_make(&random, &w, TEST_WISHES_MOST, 100);
        const berth_pack_options options = {.budget_steps = 3000};
        bool failed = true;
        for (size_t nth = 1; failed; nth++) {
            failing_host_fail(&failing, nth, false);
            berth_pack_result result;
            const berth_status status =
                berth_packing_solve(host, &w.problem, &options, offsets, &result);
            failed = failing_host_has_failed(&failing);
            if (status != BERTH_OK) {
                assert_int_equal(status, BERTH_ERR_OUT_OF_MEMORY);
                continue;
            }
            berth_pack_verdict verdict;
            assert_ok(berth_pack_verify(&w.problem, offsets, &verdict));
            assert_true(verdict.valid);
            assert_int_equal(verdict.peak, result.peak);
        }
    }
    failing_host_fail(&failing, 0, false);
    berth_host_destroy(host);
    assert_int_equal(failing.live_blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_problems_with_every_wish_are_packed_to_the_optimum),
        cmocka_unit_test(a_budget_makes_packings_better_and_none_worse),
        cmocka_unit_test(a_search_by_steps_and_seed_repeats_exactly),
        cmocka_unit_test(a_search_ends_with_a_valid_packing_when_it_is_told_to),
        cmocka_unit_test(a_search_ends_at_the_capacity_that_is_enough),
        cmocka_unit_test(a_budget_is_kept_where_one_pass_over_all_buffers_is_too_long),
        cmocka_unit_test(a_search_without_memory_leaves_the_best_packing_so_far),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
