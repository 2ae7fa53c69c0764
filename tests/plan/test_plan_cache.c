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

static berth_cache_key key_of(const int64_t* value) {
    return (berth_cache_key){BERTH_CACHE_PLAN, 0, 1, value};
}

/// Keeps a plan at `value` that took `cost`. The cache has room for it.
static void keep_plan(berth_plan_cache* cache, int64_t value, uint64_t cost) {
    const berth_cache_key key = key_of(&value);
    assert_true(berth_plan_cache_insert_plan(cache, &key, make_plan(), cost));
}

static berth_plan* find_plan(berth_plan_cache* cache, int64_t value) {
    const berth_cache_key key = key_of(&value);
    return berth_plan_cache_find_plan(cache, &key, true);
}

static berth_miss miss_at(const berth_plan_cache* cache, int64_t value) {
    const berth_cache_key key = key_of(&value);
    return berth_plan_cache_query_miss(cache, &key);
}

static void no_more_entries_are_kept_than_asked_for(void** state) {
    (void)state;
    for (uint64_t limit = 1; limit <= 3; limit++) {
        berth_plan_cache cache = {
            .host = berth_host_default(), .limit_bytes = 1 << 20, .limit_entries = limit};
        for (int64_t value = 0; value < 20; value++) {
            keep_plan(&cache, value, 1);
            assert_true(cache.entry_count <= limit);
            assert_non_null(find_plan(&cache, value)); // the newest is always there
        }
        assert_int_equal(cache.live[BERTH_CACHE_PLAN], limit);
        assert_int_equal(cache.evicted[BERTH_CACHE_PLAN], 20 - limit);
        berth_plan_cache_fini(&cache);
    }
}

static void what_was_dear_and_is_used_stays(void** state) {
    (void)state;
    berth_plan_cache cache = {
        .host = berth_host_default(), .limit_bytes = 1 << 20, .limit_entries = 3};
    keep_plan(&cache, 1, 10); // dear
    keep_plan(&cache, 2, 2);  // cheap, but used
    for (int i = 0; i < 9; i++)
        assert_non_null(find_plan(&cache, 2));
    for (int64_t value = 3; value < 6; value++)
        keep_plan(&cache, value, 2);
    assert_non_null(find_plan(&cache, 1));
    assert_non_null(find_plan(&cache, 2));
    assert_null(find_plan(&cache, 3));
    berth_plan_cache_fini(&cache);
}

static void a_plan_that_is_gone_leaves_the_reason(void** state) {
    (void)state;
    berth_plan_cache cache = {
        .host = berth_host_default(), .limit_bytes = 1 << 20, .limit_entries = 2};
    assert_int_equal(miss_at(&cache, 1), BERTH_MISS_NEW_BUCKET);
    for (int64_t value = 1; value <= 4; value++)
        keep_plan(&cache, value, 1);
    assert_int_equal(miss_at(&cache, 1), BERTH_MISS_EVICTED);
    assert_int_equal(miss_at(&cache, 2), BERTH_MISS_EVICTED);
    berth_plan_cache_drop(&cache, 0, true); // placements only
    assert_non_null(find_plan(&cache, 3));
    berth_plan_cache_drop(&cache, 0, false);
    assert_int_equal(miss_at(&cache, 3), BERTH_MISS_MODEL_CHANGED);
    assert_int_equal(miss_at(&cache, 4), BERTH_MISS_MODEL_CHANGED);
    assert_int_equal(miss_at(&cache, 5), BERTH_MISS_NEW_BUCKET);
    // the latest reason counts, and a full table forgets
    for (int64_t value = 3; value < 3 + 20 * BERTH_CACHE_GHOSTS; value++)
        keep_plan(&cache, value, 1);
    size_t known = 0;
    for (int64_t value = 3; value < 3 + 20 * BERTH_CACHE_GHOSTS; value++)
        known += miss_at(&cache, value) == BERTH_MISS_EVICTED;
    assert_in_range(known, BERTH_CACHE_GHOSTS / 2, BERTH_CACHE_GHOSTS);
    berth_plan_cache_fini(&cache);
}

static void count_item(void* argument, const berth_cache_item* item) {
    size_t* counts = argument;
    counts[item->plan != NULL ? 0 : 1]++;
    assert_true((item->plan != NULL) != (item->seed != NULL));
    assert_int_equal(item->count, 1);
}

static void a_seed_becomes_the_plan_at_its_key_with_its_worth(void** state) {
    (void)state;
    berth_plan_cache cache = {
        .host = berth_host_default(), .limit_bytes = 1 << 20, .limit_entries = 3};
    static const unsigned char offsets[8];
    const berth_plan_seed seed = {offsets, BERTH_PLAN_IMPROVED};
    const int64_t one = 1, two = 2;
    const berth_cache_key key = key_of(&one);
    const berth_cache_key bad_key = key_of(&two);
    assert_null(berth_plan_cache_find_seed(&cache, &key));
    berth_plan_cache_insert_seed(&cache, &key, &seed, 10, 100);
    berth_plan_cache_insert_seed(&cache, &bad_key, &seed, 1, 0);
    assert_null(find_plan(&cache, 1)); // no plan yet
    assert_int_equal(berth_plan_cache_find_seed(&cache, &key)->tier, BERTH_PLAN_IMPROVED);
    assert_false(berth_plan_cache_sprout(&cache, &bad_key, NULL));
    assert_null(berth_plan_cache_find_seed(&cache, &bad_key));
    assert_true(berth_plan_cache_sprout(&cache, &key, make_plan()));
    assert_null(berth_plan_cache_find_seed(&cache, &key));
    berth_plan_cache_insert_seed(&cache, &bad_key, &seed, 1, 0);
    size_t counts[2] = {0};
    berth_plan_cache_visit(&cache, 0, count_item, counts);
    assert_int_equal(counts[0], 1);
    assert_int_equal(counts[1], 1);
    for (int64_t value = 3; value < 20; value++)
        keep_plan(&cache, value, 2);
    assert_non_null(find_plan(&cache, 1)); // 10 x 100 is worth more
    berth_plan_cache_insert_seed(&cache, &bad_key, &seed, 1000, 1000);
    berth_plan_cache_drop(&cache, 0, false);
    assert_null(berth_plan_cache_find_seed(&cache, &bad_key));
    assert_int_equal(cache.entry_count, 0);
    assert_int_equal(cache.bytes, 0);
    berth_plan_cache_fini(&cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_one_hash_have_each_their_own_plan),
        cmocka_unit_test(path_and_length_belong_to_the_key),
        cmocka_unit_test(no_more_entries_are_kept_than_asked_for),
        cmocka_unit_test(what_was_dear_and_is_used_stays),
        cmocka_unit_test(a_plan_that_is_gone_leaves_the_reason),
        cmocka_unit_test(a_seed_becomes_the_plan_at_its_key_with_its_worth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
