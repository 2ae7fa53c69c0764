// SPDX-License-Identifier: Apache-2.0
// The checker of packings: every rule of a problem is kept, or the buffers at fault are named.
#include "kit/test.h"
#include "plan/verify.h"

static berth_pack_verdict verify(const berth_pack_problem* problem, const uint64_t* offsets) {
    berth_pack_verdict verdict;
    assert_ok(berth_pack_verify(problem, offsets, &verdict));
    return verdict;
}

static void offsets_are_multiples_of_the_alignment(void** state) {
    (void)state;
    const berth_interval items[] = {{10, 0, 5}, {20, 2, 6}};
    const berth_pack_problem problem = {.intervals = items, .count = 2, .alignment = 16};
    berth_pack_verdict verdict = verify(&problem, (const uint64_t[]){0, 16});
    assert_true(verdict.valid);
    assert_int_equal(verdict.peak, 36);
    assert_int_equal(verdict.lower_bound, 30);
    verdict = verify(&problem, (const uint64_t[]){8, 32});
    assert_false(verdict.valid);
    assert_int_equal(verdict.first, 0);
    assert_int_equal(verdict.second, 0);
    assert_false(verify(&problem, (const uint64_t[]){16, 0}).valid);
    assert_false(verify(&problem, (const uint64_t[]){0, UINT64_MAX - 15}).valid);
}

static void alignments_of_their_own_are_kept(void** state) {
    (void)state;
    const berth_interval items[] = {{10, 0, 5}, {20, 2, 6}};
    const uint64_t alignments[] = {0, 64};
    const berth_pack_problem problem = {.intervals = items, .count = 2, .alignments = alignments};
    assert_true(verify(&problem, (const uint64_t[]){3, 64}).valid);
    assert_int_equal(verify(&problem, (const uint64_t[]){0, 32}).first, 1);
}

static void given_offsets_are_kept(void** state) {
    (void)state;
    const berth_interval items[] = {{10, 0, 5}, {20, 2, 6}, {0, 0, 9}};
    const uint64_t given[] = {BERTH_PACK_ANYWHERE, 100, 7};
    const berth_pack_problem problem = {.intervals = items, .count = 3, .fixed_offsets = given};
    assert_true(verify(&problem, (const uint64_t[]){0, 100, 0}).valid);
    const berth_pack_verdict verdict = verify(&problem, (const uint64_t[]){0, 101, 0});
    assert_false(verdict.valid);
    assert_int_equal(verdict.first, 1);
    assert_int_equal(verdict.second, 1);
}

static void exclusive_bytes_are_shared_at_no_moment(void** state) {
    (void)state;
    const berth_interval items[] = {{10, 0, 2}, {10, 4, 6}, {10, 8, 9}};
    const bool exclusive[] = {false, true, false};
    berth_pack_problem problem = {.intervals = items, .count = 3};
    assert_true(verify(&problem, (const uint64_t[]){0, 0, 0}).valid);
    problem.exclusive = exclusive;
    assert_false(verify(&problem, (const uint64_t[]){0, 0, 10}).valid);
    assert_false(verify(&problem, (const uint64_t[]){10, 0, 0}).valid);
    const berth_pack_verdict verdict = verify(&problem, (const uint64_t[]){10, 0, 10});
    assert_true(verdict.valid);
    assert_int_equal(verdict.lower_bound, 20);
}

static void a_pair_in_place_shares_its_place_and_no_other(void** state) {
    (void)state;
    const berth_interval items[] = {{10, 0, 3}, {16, 2, 6}, {5, 2, 4}};
    const berth_pack_in_place pairs[] = {{0, 1}};
    berth_pack_problem problem = {
        .intervals = items, .count = 3, .in_place = pairs, .in_place_count = 1};
    berth_pack_verdict verdict = verify(&problem, (const uint64_t[]){0, 0, 16});
    assert_true(verdict.valid);
    assert_int_equal(verdict.peak, 21);
    assert_int_equal(verdict.lower_bound, 21);
    assert_true(verify(&problem, (const uint64_t[]){0, 10, 26}).valid);
    assert_false(verify(&problem, (const uint64_t[]){0, 5, 21}).valid);
    assert_false(verify(&problem, (const uint64_t[]){0, 0, 8}).valid);
    const bool exclusive[] = {true, false, false};
    problem.exclusive = exclusive;
    assert_false(verify(&problem, (const uint64_t[]){0, 0, 16}).valid);
    problem = (berth_pack_problem){.intervals = items, .count = 3};
    assert_false(verify(&problem, (const uint64_t[]){0, 0, 16}).valid);
}

static void problems_that_are_none_are_refused(void** state) {
    (void)state;
    const berth_interval items[] = {{10, 0, 3}, {16, 1, 6}};
    const uint64_t offsets[] = {0, 10};
    const uint64_t alignments[] = {0, 6};
    const berth_pack_in_place pairs[] = {{0, 1}, {0, 7}};
    const berth_status bad = BERTH_ERR_INVALID_ARGUMENT;
    berth_pack_verdict verdict;
    berth_pack_problem problem = {.intervals = items, .count = 2, .alignment = 3};
    assert_fails(berth_pack_verify(&problem, offsets, &verdict), bad, "no power of two");
    assert_false(verdict.valid);
    problem = (berth_pack_problem){.intervals = items, .count = 2, .alignments = alignments};
    assert_fails(berth_pack_verify(&problem, offsets, &verdict), bad, "no power of two");
    problem = (berth_pack_problem){.intervals = items, .count = 2, .in_place = pairs};
    for (problem.in_place_count = 1; problem.in_place_count <= 2; problem.in_place_count++)
        assert_fails(berth_pack_verify(&problem, offsets, &verdict), bad, "in place");
    problem.in_place = NULL;
    assert_int_equal(berth_pack_verify(&problem, offsets, &verdict), bad);
    assert_int_equal(berth_pack_verify(NULL, offsets, &verdict), bad);
    assert_int_equal(berth_pack_verify(&problem, NULL, &verdict), bad);
    assert_int_equal(berth_pack_verify(&problem, offsets, NULL), bad);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offsets_are_multiples_of_the_alignment),
        cmocka_unit_test(alignments_of_their_own_are_kept),
        cmocka_unit_test(given_offsets_are_kept),
        cmocka_unit_test(exclusive_bytes_are_shared_at_no_moment),
        cmocka_unit_test(a_pair_in_place_shares_its_place_and_no_other),
        cmocka_unit_test(problems_that_are_none_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
