// SPDX-License-Identifier: Apache-2.0
// Bucket policies: what is read, which values share a bucket.
#include "kit/test.h"

#include <stdio.h>

#include "plan/bucket.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static void assert_bucket(const char* policy, int64_t value, int64_t lo, int64_t hi) {
    berth_bucket_policy parsed;
    assert_ok(berth_bucket_policy_parse(&parsed, policy));
    const berth_bucket bucket = berth_bucket_of(&parsed, value);
    assert_int_equal(bucket.lo, lo);
    assert_int_equal(bucket.hi, hi);
}

static void geometric_buckets_cut_each_octave_in_equal_parts(void** state) {
    (void)state;
    assert_bucket("geometric:4", 65, 64, 80);
    assert_bucket("geometric:4", 80, 64, 80);
    assert_bucket("geometric:4", 81, 80, 96);
    assert_bucket("geometric:4", 128, 112, 128);
    assert_bucket("geometric:4", 3, 2, 3);
    assert_bucket("geometric:4", 1, 0, 1);
    assert_bucket("geometric:3", 128, 127, 128); // what a part too many leaves
}

static void powers_of_two_are_whole_octaves(void** state) {
    (void)state;
    assert_bucket("pow2", 65, 64, 128);
    assert_bucket("pow2", 64, 32, 64);
    assert_bucket("geometric:1", 65, 64, 128);
}

static void linear_buckets_end_at_multiples(void** state) {
    (void)state;
    assert_bucket("linear:100", 1, 0, 100);
    assert_bucket("linear:100", 100, 0, 100);
    assert_bucket("linear:100", 101, 100, 200);
}

static void listed_buckets_end_at_the_bounds_and_octaves_follow(void** state) {
    (void)state;
    assert_bucket("list:16,100,500", 16, 0, 16);
    assert_bucket("list:16,100,500", 17, 16, 100);
    assert_bucket("list:16,100,500", 501, 500, 512);
    assert_bucket("list:16,100,500", 513, 512, 1024);
}

static void zero_has_a_bucket_of_its_own(void** state) {
    (void)state;
    assert_bucket("geometric:4", 0, -1, 0);
    assert_bucket("linear:10", 0, -1, 0);
    assert_bucket("list:5", 0, -1, 0);
}

static void every_value_lies_in_its_bucket_and_its_quantum(void** state) {
    (void)state;
    static const char* const policies[] = {
        "geometric:4", "geometric:5", "geometric:64", "pow2", "linear:7", "list:3,9,1000"};
    static const int64_t extremes[] = {
        INT64_MAX, INT64_MAX - 1, INT64_C(1) << 61, (INT64_C(1) << 61) + 1, INT64_C(1) << 40};
    for (size_t p = 0; p < COUNT(policies); p++) {
        berth_bucket_policy policy;
        assert_ok(berth_bucket_policy_parse(&policy, policies[p]));
        for (int64_t i = 0; i < 3000 + (int64_t)COUNT(extremes); i++) {
            const int64_t value = i < 3000 ? i : extremes[i - 3000];
            const berth_bucket bucket = berth_bucket_of(&policy, value);
            assert_true(bucket.lo < value && value <= bucket.hi);
            // All values of a bucket name the same one.
            assert_int_equal(berth_bucket_of(&policy, bucket.hi).lo, bucket.lo);
            assert_int_equal(berth_bucket_of(&policy, bucket.lo + 1).hi, bucket.hi);
            const berth_bucket quantum = berth_bucket_quantum(64, value);
            assert_true(quantum.lo < value && value <= quantum.hi);
        }
    }
}

static void the_quantum_is_a_share_of_the_octave_and_at_least_one(void** state) {
    (void)state;
    assert_int_equal(berth_bucket_quantum(64, 100).hi, 100);
    assert_int_equal(berth_bucket_quantum(64, 1025).hi, 1040);
    assert_int_equal(berth_bucket_quantum(64, 1025).lo, 1024);
    assert_int_equal(berth_bucket_quantum(0, 1025).lo, 1024);
    assert_int_equal(berth_bucket_quantum(0, 1025).hi, 1025);
    assert_int_equal(berth_bucket_quantum(64, 0).hi, 0);
}

static void policies_that_cannot_be_read_are_refused_by_name(void** state) {
    (void)state;
    static const char* const bad[] = {"",
                                      "geometric",
                                      "geometric:",
                                      "geometric:0",
                                      "geometric:-1",
                                      "geometric:4x",
                                      "geometric: 4",
                                      "geometric:99999",
                                      "pow2:1",
                                      "pow3",
                                      "linear:0",
                                      "linear:",
                                      "linear:99999999999999999999",
                                      "list:",
                                      "list:a",
                                      "list:3,3",
                                      "list:9,3",
                                      "list:1,,2",
                                      "list:1,",
                                      "list:1;2"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        berth_bucket_policy policy;
        assert_fails(
            berth_bucket_policy_parse(&policy, bad[i]), BERTH_ERR_INVALID_ARGUMENT, "geometric:N");
        assert_fails(
            berth_bucket_policy_parse(&policy, bad[i]), BERTH_ERR_INVALID_ARGUMENT, bad[i]);
    }
    berth_bucket_policy policy;
    assert_int_equal(berth_bucket_policy_parse(&policy, NULL), BERTH_ERR_INVALID_ARGUMENT);
    char list[1024] = "list:1";
    for (int i = 2; i <= (int)BERTH_BUCKET_LIST_MAX + 1; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), ",%d", i);
    assert_fails(berth_bucket_policy_parse(&policy, list), BERTH_ERR_INVALID_ARGUMENT, "too long");
}

static void an_adaptive_policy_that_learned_nothing_is_geometric(void** state) {
    (void)state;
    assert_bucket("adaptive:8", 65, 64, 80);
    berth_bucket_policy policy;
    assert_fails(berth_bucket_policy_parse(&policy, "adaptive:0"),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "has a bad number");
    assert_fails(berth_bucket_policy_parse(&policy, "adaptive:65"),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "adaptive:N (N from 1 to 64)");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(geometric_buckets_cut_each_octave_in_equal_parts),
        cmocka_unit_test(powers_of_two_are_whole_octaves),
        cmocka_unit_test(linear_buckets_end_at_multiples),
        cmocka_unit_test(listed_buckets_end_at_the_bounds_and_octaves_follow),
        cmocka_unit_test(zero_has_a_bucket_of_its_own),
        cmocka_unit_test(every_value_lies_in_its_bucket_and_its_quantum),
        cmocka_unit_test(the_quantum_is_a_share_of_the_octave_and_at_least_one),
        cmocka_unit_test(policies_that_cannot_be_read_are_refused_by_name),
        cmocka_unit_test(an_adaptive_policy_that_learned_nothing_is_geometric),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
