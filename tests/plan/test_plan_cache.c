// SPDX-License-Identifier: Apache-2.0
// The cache of plans: keys are compared in full, whatever their hashes (P3).
#include "kit/test.h"

#include "base/hash.h"
#include "plan/plan_cache.h"

/// Two keys of two values each that have one hash as plans of path 0: in XXH3 of 16 bytes with seed
/// 0 one of the two words that are multiplied is 0, and the sums beside the product are equal.
static const int64_t one_key[] = {0x6782737bea4239b9, (int64_t)0xaf56bc3b0996523bu};
static const int64_t other_key[] = {0x6682737bea4239b9, (int64_t)0xaf56bc3b0996523au};

static berth_plan* make_plan(void) {
    const berth_interval interval = {64, 0, 1};
    const uint64_t offset = 0;
    berth_relation* relation;
    assert_ok(berth_relation_create(berth_host_default(), &interval, 1, &offset, &relation));
    berth_plan* plan;
    assert_ok(berth_plan_create(berth_host_default(), relation, 64, 64, BERTH_PLAN_QUICK, &plan));
    return plan;
}

static void keys_of_one_hash_have_each_their_own_plan(void** state) {
    (void)state;
    assert_true(berth_hash64(one_key, sizeof one_key, BERTH_CACHE_PLAN) ==
                berth_hash64(other_key, sizeof other_key, BERTH_CACHE_PLAN));
    berth_plan_cache cache = {.host = berth_host_default(), .limit_bytes = 1 << 20};
    const berth_cache_key one = {BERTH_CACHE_PLAN, 0, 2, one_key};
    const berth_cache_key other = {BERTH_CACHE_PLAN, 0, 2, other_key};
    berth_plan* first = make_plan();
    assert_true(berth_plan_cache_insert_plan(&cache, &one, first, 1));
    assert_null(berth_plan_cache_find_plan(&cache, &other, true));
    berth_plan* second = make_plan();
    assert_true(berth_plan_cache_insert_plan(&cache, &other, second, 1));
    assert_ptr_equal(berth_plan_cache_find_plan(&cache, &one, true), first);
    assert_ptr_equal(berth_plan_cache_find_plan(&cache, &other, true), second);
    berth_plan_cache_fini(&cache);
}

static void path_and_length_belong_to_the_key(void** state) {
    (void)state;
    berth_plan_cache cache = {.host = berth_host_default(), .limit_bytes = 1 << 20};
    const berth_cache_key key = {BERTH_CACHE_PLAN, 0, 2, one_key};
    berth_plan* plan = make_plan();
    assert_true(berth_plan_cache_insert_plan(&cache, &key, plan, 1));
    const berth_cache_key of_other_path = {BERTH_CACHE_PLAN, 1, 2, one_key};
    const berth_cache_key shorter = {BERTH_CACHE_PLAN, 0, 1, one_key};
    assert_null(berth_plan_cache_find_plan(&cache, &of_other_path, true));
    assert_null(berth_plan_cache_find_plan(&cache, &shorter, true));
    assert_ptr_equal(berth_plan_cache_find_plan(&cache, &key, true), plan);
    berth_plan_cache_fini(&cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_one_hash_have_each_their_own_plan),
        cmocka_unit_test(path_and_length_belong_to_the_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
