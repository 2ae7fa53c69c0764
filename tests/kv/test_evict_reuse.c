// SPDX-License-Identifier: Apache-2.0
// Eviction by reuse: what it keeps, and where it is the order of last uses.
#include "kit/test.h"

#include "kit/random.h"
#include "kv/prefix_index.h"

#define SIZE 4
#define CAPACITY 512
#define MOST_BLOCKS 64

/// A cache of blocks that keeps prompts, over an index alone.
typedef struct cache {
    berth_prefix_index* index;
    berth_prefix_root roots[2]; ///< of the same key, by tenant
    uint32_t spare[MOST_BLOCKS + CAPACITY];
    uint32_t spare_count;
    uint64_t hits;
} cache;

static void cache_init(cache* c, berth_prefix_policy policy) {
    *c = (cache){0};
    assert_ok(berth_prefix_index_create(berth_host_default(), SIZE, policy, &c->index));
    assert_ok(berth_prefix_index_reserve(c->index, CAPACITY + MOST_BLOCKS));
    for (uint32_t t = 0; t < 2; ++t)
        assert_ok(berth_prefix_index_open_root(c->index, "model", 5, t, &c->roots[t]));
    while (c->spare_count < CAPACITY + MOST_BLOCKS) {
        c->spare[c->spare_count] = c->spare_count;
        ++c->spare_count;
    }
}

/// A prompt of `count` blocks, those of text `id`; returns how many were found.
static size_t serve(cache* c, uint32_t tenant, int32_t id, uint32_t count) {
    int32_t tokens[MOST_BLOCKS * SIZE];
    uint32_t blocks[MOST_BLOCKS];
    for (uint32_t i = 0; i < count * SIZE; ++i)
        tokens[i] = id * MOST_BLOCKS * SIZE + (int32_t)i;
    berth_prefix_match match;
    berth_prefix_index_match(
        c->index, c->roots[tenant], tokens, count * SIZE, count * SIZE, blocks, &match);
    for (uint32_t i = 0; i < count; ++i) {
        if (i >= match.blocks) {
            const uint32_t block = c->spare[--c->spare_count];
            blocks[i] = berth_prefix_index_insert(c->index,
                                                  c->roots[tenant],
                                                  i == 0 ? BERTH_PREFIX_NO_BLOCK : blocks[i - 1],
                                                  block,
                                                  tokens + i * SIZE,
                                                  SIZE);
            assert_int_equal(blocks[i], block);
        }
        berth_prefix_index_hold(c->index, blocks[i]);
    }
    for (uint32_t i = count; i-- > 0;)
        berth_prefix_index_unhold(c->index, blocks[i]);
    while (c->spare_count < MOST_BLOCKS)
        assert_true(berth_prefix_index_evict(c->index, &c->spare[c->spare_count++]));
    c->hits += match.blocks;
    return match.blocks;
}

static void cache_fini(cache* c) {
    assert_true(berth_prefix_index_is_valid(c->index));
    berth_prefix_index_destroy(c->index);
}

/// Hits of a stream in which prompts of 20 texts come back among those that come once.
static uint64_t hits_among_scans(berth_prefix_policy policy, uint32_t scan_tenant) {
    cache c;
    cache_init(&c, policy);
    test_random random = test_random_make(7);
    for (int32_t i = 0; i < 6000; ++i) {
        const bool comes_back = test_random_one_in(&random, 3);
        const int32_t text = comes_back ? (int32_t)test_random_below(&random, 20) : 1000 + i;
        (void)serve(&c, comes_back ? 0 : scan_tenant, text, 16);
    }
    const uint64_t hits = c.hits;
    cache_fini(&c);
    return hits;
}

static void prompts_that_come_once_do_not_push_out_what_comes_back(void** state) {
    (void)state;
    const uint64_t by_age = hits_among_scans(BERTH_PREFIX_LRU, 0);
    assert_true(hits_among_scans(BERTH_PREFIX_REUSE, 0) * 10 > by_age * 15);
}

static void a_tenant_that_floods_does_not_push_out_another_ones_prompts(void** state) {
    (void)state;
    const uint64_t by_age = hits_among_scans(BERTH_PREFIX_LRU, 1);
    assert_true(hits_among_scans(BERTH_PREFIX_REUSE, 1) * 10 > by_age * 15);
}

static void while_nothing_is_found_the_order_of_last_uses_decides(void** state) {
    (void)state;
    cache age, reuse;
    cache_init(&age, BERTH_PREFIX_LRU);
    cache_init(&reuse, BERTH_PREFIX_REUSE);
    for (int32_t i = 0; i < 400; ++i) {
        assert_int_equal(serve(&age, 0, i, 1 + (uint32_t)i % 20), 0);
        assert_int_equal(serve(&reuse, 0, i, 1 + (uint32_t)i % 20), 0);
        assert_int_equal(age.spare_count, reuse.spare_count);
        assert_memory_equal(age.spare, reuse.spare, age.spare_count * sizeof *age.spare);
    }
    cache_fini(&age);
    cache_fini(&reuse);
}

/// Prompts come back by their last use alone: nothing is to be learned.
static uint64_t hits_by_recency(berth_prefix_policy policy, uint64_t seed) {
    cache c;
    cache_init(&c, policy);
    test_random random = test_random_make(seed);
    int32_t recent[64], texts = 64;
    for (int32_t i = 0; i < 64; ++i)
        recent[i] = i;
    for (int i = 0; i < 8000; ++i) {
        uint32_t at =
            (uint32_t)(test_random_below(&random, 64) * test_random_below(&random, 64)) / 64;
        int32_t text = test_random_one_in(&random, 2) ? texts++ : recent[at];
        if (text != recent[at]) at = 63;
        memmove(recent + 1, recent, at * sizeof *recent);
        recent[0] = text;
        (void)serve(&c, 0, text, 4 + (uint32_t)text % 20);
    }
    const uint64_t hits = c.hits;
    cache_fini(&c);
    return hits;
}

static void where_nothing_is_to_be_learned_hardly_anything_is_lost(void** state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 3; ++seed) {
        const uint64_t by_age = hits_by_recency(BERTH_PREFIX_LRU, seed);
        assert_true(by_age > 10000);
        assert_true(hits_by_recency(BERTH_PREFIX_REUSE, seed) * 100 >= by_age * 99);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_that_come_once_do_not_push_out_what_comes_back),
        cmocka_unit_test(a_tenant_that_floods_does_not_push_out_another_ones_prompts),
        cmocka_unit_test(while_nothing_is_found_the_order_of_last_uses_decides),
        cmocka_unit_test(where_nothing_is_to_be_learned_hardly_anything_is_lost),
    };
    return cmocka_run_group_tests_name("evict_reuse", tests, NULL, NULL);
}
