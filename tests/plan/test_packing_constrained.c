// SPDX-License-Identifier: Apache-2.0
// Packing with alignments, given offsets, buffers that share with nobody and pairs in place.
#include "kit/test.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/host.h"
#include "kit/failing_host.h"
#include "kit/random.h"
#include "plan/packing.h"
#include "plan/verify.h"
#include "plan/wishes_kit.h"

static berth_pack_result pack(const berth_pack_problem* problem, uint64_t* offsets) {
    berth_pack_result result;
    assert_ok(berth_pack(problem, NULL, offsets, &result));
    berth_pack_verdict verdict;
    assert_ok(berth_pack_verify(problem, offsets, &verdict));
    assert_true(verdict.valid);
    assert_int_equal(verdict.peak, result.peak);
    assert_true(verdict.lower_bound <= result.lower_bound);
    assert_true(result.lower_bound <= result.peak);
    assert_int_equal(result.proved, result.peak == result.lower_bound);
    return result;
}

static void tiny_problems_with_every_wish_are_close_to_the_optimum_and_bounds_are_true(
    void** state) {
    (void)state;
    test_random random = test_random_make(5);
    size_t optimal = 0;
    for (int round = 0; round < 400; round++) {
        test_wishes w;
        uint64_t offsets[TEST_WISHES_MOST], tried[TEST_WISHES_MOST];
        test_wishes_make(&random, &w, 5, 4);
        const berth_pack_result result = pack(&w.problem, offsets);
        assert_true(test_wishes_are_met(&w.problem, offsets, w.problem.count));
        if (result.lower_bound > 0)
            assert_false(test_wishes_fit(&w.problem, tried, 0, result.lower_bound - 1));
        optimal += !test_wishes_fit(&w.problem, tried, 0, result.peak - 1);
    }
    assert_true(optimal >= 370);
}

static void larger_problems_with_every_wish_are_packed_validly_and_the_same_each_time(
    void** state) {
    (void)state;
    test_random random = test_random_make(6);
    for (int round = 0; round < 300; round++) {
        test_wishes w;
        uint64_t offsets[TEST_WISHES_MOST], again[TEST_WISHES_MOST];
        test_wishes_make(
            &random, &w, 1 + (size_t)test_random_below(&random, TEST_WISHES_MOST), 100);
        const berth_pack_result first = pack(&w.problem, offsets);
        assert_true(test_wishes_are_met(&w.problem, offsets, w.problem.count));
        const berth_pack_result second = pack(&w.problem, again);
        assert_memory_equal(offsets, again, w.problem.count * sizeof *offsets);
        assert_memory_equal(&first, &second, sizeof first);
    }
}

static void the_checker_agrees_with_the_contract_on_random_offsets(void** state) {
    (void)state;
    test_random random = test_random_make(7);
    size_t valid = 0;
    for (int round = 0; round < 20000; round++) {
        test_wishes w;
        uint64_t offsets[TEST_WISHES_MOST];
        test_wishes_make(&random, &w, 4, 4);
        for (size_t i = 0; i < w.problem.count; i++)
            offsets[i] = test_random_below(&random, 12);
        berth_pack_verdict verdict;
        assert_ok(berth_pack_verify(&w.problem, offsets, &verdict));
        assert_int_equal(verdict.valid, test_wishes_are_met(&w.problem, offsets, w.problem.count));
        valid += verdict.valid;
    }
    assert_in_range(valid, 1000, 19000);
}

static void a_pair_in_place_needs_its_bytes_once(void** state) {
    (void)state;
    const berth_interval items[] = {{10, 0, 3}, {10, 2, 5}, {4, 4, 6}};
    const berth_pack_in_place pairs[] = {{0, 1}, {1, 2}};
    const berth_pack_problem problem = {
        .intervals = items, .count = 3, .in_place = pairs, .in_place_count = 2};
    uint64_t offsets[3];
    const berth_pack_result result = pack(&problem, offsets);
    assert_int_equal(result.peak, 10);
    assert_true(result.proved);
}

static void two_that_may_take_each_others_place_need_the_larger_of_them(void** state) {
    (void)state;
    static const berth_interval intervals[] = {{5, 0, 1}, {6, 0, 1}};
    static const berth_pack_in_place pairs[] = {{0, 1}, {1, 0}};
    const berth_pack_problem problem = {
        .intervals = intervals, .count = 2, .in_place = pairs, .in_place_count = 2};
    uint64_t offsets[2];
    berth_pack_result result;
    assert_ok(berth_pack(&problem, NULL, offsets, &result));
    assert_int_equal(result.peak, 6);
    assert_int_equal(result.lower_bound, 6);
    assert_true(result.proved);
}

static void a_buffer_that_shares_with_nobody_keeps_its_bytes_for_good(void** state) {
    (void)state;
    const berth_interval items[] = {{10, 0, 2}, {10, 2, 4}, {10, 4, 6}};
    const bool exclusive[] = {false, true, false};
    const berth_pack_problem problem = {.intervals = items, .count = 3, .exclusive = exclusive};
    uint64_t offsets[3];
    const berth_pack_result result = pack(&problem, offsets);
    assert_int_equal(result.peak, 20);
    assert_true(result.proved);
    assert_int_equal(offsets[0], offsets[2]);
}

static void given_offsets_are_kept_and_filled_around(void** state) {
    (void)state;
    const berth_interval items[] = {{8, 0, 4}, {8, 0, 4}, {8, 0, 4}};
    const uint64_t fixed[] = {BERTH_PACK_ANYWHERE, 8, BERTH_PACK_ANYWHERE};
    const berth_pack_problem problem = {.intervals = items, .count = 3, .fixed_offsets = fixed};
    uint64_t offsets[3];
    const berth_pack_result result = pack(&problem, offsets);
    assert_int_equal(result.peak, 24);
    assert_int_equal(offsets[1], 8);
}

static void sizes_over_4_gib_keep_their_own_alignment(void** state) {
    (void)state;
    const uint64_t big = (UINT64_C(5) << 30) + 1;
    const berth_interval items[] = {{big, 0, 4}, {big, 0, 4}, {big, 0, 4}};
    const uint64_t alignments[] = {1, UINT64_C(1) << 33, 4096};
    const berth_pack_problem problem = {.intervals = items, .count = 3, .alignments = alignments};
    uint64_t offsets[3];
    (void)pack(&problem, offsets);
    assert_int_equal(offsets[1] % alignments[1], 0);
    assert_int_equal(offsets[2] % alignments[2], 0);
}

static int by_first(const void* a, const void* b) {
    const uint64_t x = *(const uint64_t*)a;
    const uint64_t y = *(const uint64_t*)b;
    return (x > y) - (x < y);
}

/// Looking at each pair of them would take minutes.
static void a_hundred_thousand_aligned_buffers_that_all_meet_are_packed(void** state) {
    (void)state;
    enum { COUNT = 100000 };
    static berth_interval intervals[COUNT];
    static uint64_t alignments[COUNT], offsets[COUNT], places[COUNT][2];
    test_random random = test_random_make(11);
    uint64_t padded = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        intervals[i] = (berth_interval){1 + test_random_below(&random, 100000), 0, 9};
        alignments[i] = UINT64_C(1) << test_random_below(&random, 10);
        padded += berth_round_up(intervals[i].size, 512);
    }
    const berth_pack_problem problem = {
        .intervals = intervals, .count = COUNT, .alignments = alignments};
    berth_pack_result result;
    assert_ok(berth_pack(&problem, NULL, offsets, &result));
    assert_true(result.peak >= result.lower_bound && result.peak <= padded);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(offsets[i] % alignments[i], 0);
        places[i][0] = offsets[i];
        places[i][1] = offsets[i] + intervals[i].size;
    }
    qsort(places, COUNT, sizeof places[0], by_first);
    for (uint32_t i = 1; i < COUNT; i++)
        assert_true(places[i - 1][1] <= places[i][0]);
    assert_int_equal(places[COUNT - 1][1], result.peak);
}

static void wishes_that_cannot_be_met_are_named_errors(void** state) {
    (void)state;
    const berth_interval items[] = {{8, 0, 4}, {8, 3, 6}, {8, 5, 7}};
    uint64_t offsets[3];
    berth_pack_result result;
    const berth_pack_problem plain = {.intervals = items, .count = 3};
    berth_pack_problem problem = plain;
    const uint64_t odd[] = {0, 24, 0};
    problem.alignments = odd;
    assert_fails(berth_pack(&problem, NULL, offsets, &result), BERTH_ERR_INVALID_ARGUMENT, "24");
    problem = plain;
    const uint64_t overlapping[] = {0, 4, BERTH_PACK_ANYWHERE};
    problem.fixed_offsets = overlapping;
    assert_fails(
        berth_pack(&problem, NULL, offsets, &result), BERTH_ERR_INVALID_ARGUMENT, "overlap");
    const uint64_t high[] = {UINT64_C(1) << 62, 0, BERTH_PACK_ANYWHERE};
    problem.fixed_offsets = high;
    assert_fails(berth_pack(&problem, NULL, offsets, &result), BERTH_ERR_OVERFLOW, "2^62");
    problem.alignment = 16;
    problem.fixed_offsets = overlapping;
    assert_fails(
        berth_pack(&problem, NULL, offsets, &result), BERTH_ERR_INVALID_ARGUMENT, "multiple");
    static const struct {
        berth_pack_in_place pairs[2];
        size_t count;
        const char* text;
    } bad[] = {
        {{{0, 3}}, 1, "no such"},
        {{{1, 1}}, 1, "one"},
        {{{0, 2}}, 1, "last moment"},
        {{{0, 1}, {0, 1}}, 2, "earlier pair"},
    };
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        problem = plain;
        problem.in_place = bad[k].pairs;
        problem.in_place_count = bad[k].count;
        assert_fails(
            berth_pack(&problem, NULL, offsets, &result), BERTH_ERR_INVALID_ARGUMENT, bad[k].text);
        assert_int_equal(result.peak, 0);
        berth_pack_verdict verdict;
        const uint64_t stacked[] = {0, 8, 16};
        assert_int_equal(berth_pack_verify(&problem, stacked, &verdict),
                         BERTH_ERR_INVALID_ARGUMENT);
    }
}

static void every_failing_allocation_is_survived(void** state) {
    (void)state;
    failing_host failing;
    failing_host_init(&failing);
    berth_host* host;
    assert_ok(berth_host_create(&failing.allocator, &host));
    test_random random = test_random_make(8);
    for (int round = 0; round < 20; round++) {
        test_wishes w;
        uint64_t offsets[TEST_WISHES_MOST];
        test_wishes_make(&random, &w, TEST_WISHES_MOST, 100);
        bool failed = true;
        for (size_t nth = 1; failed; nth++) {
            berth_pack_result result;
            berth_pack_verdict verdict;
            failing_host_fail(&failing, nth, false);
            berth_status status = berth_packing_solve(host, &w.problem, NULL, offsets, &result);
            if (status == BERTH_OK)
                status = berth_verify_packing(host, &w.problem, offsets, &verdict);
            failed = failing_host_has_failed(&failing);
            if (status != BERTH_OK) assert_int_equal(status, BERTH_ERR_OUT_OF_MEMORY);
            if (status == BERTH_OK) assert_true(verdict.valid);
        }
    }
    failing_host_fail(&failing, 0, false);
    berth_host_destroy(host);
    assert_int_equal(failing.live_blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            tiny_problems_with_every_wish_are_close_to_the_optimum_and_bounds_are_true),
        cmocka_unit_test(larger_problems_with_every_wish_are_packed_validly_and_the_same_each_time),
        cmocka_unit_test(the_checker_agrees_with_the_contract_on_random_offsets),
        cmocka_unit_test(a_pair_in_place_needs_its_bytes_once),
        cmocka_unit_test(two_that_may_take_each_others_place_need_the_larger_of_them),
        cmocka_unit_test(a_buffer_that_shares_with_nobody_keeps_its_bytes_for_good),
        cmocka_unit_test(given_offsets_are_kept_and_filled_around),
        cmocka_unit_test(sizes_over_4_gib_keep_their_own_alignment),
        cmocka_unit_test(a_hundred_thousand_aligned_buffers_that_all_meet_are_packed),
        cmocka_unit_test(wishes_that_cannot_be_met_are_named_errors),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
