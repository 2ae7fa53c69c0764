// SPDX-License-Identifier: Apache-2.0
// The prefix index: what is found and why not, who goes first, renaming, growing, keys.
#include "test.h"

#include "base/host.h"
#include "failing_host.h"
#include "kv/prefix_internal.h"

enum { SIZE = 4, BLOCKS = 64, MOST_FOUND = 16 };

typedef struct kit {
    failing_host failing;
    berth_host* host;
    berth_prefix_index* index;
    berth_prefix_root root;
    uint32_t found[MOST_FOUND];
    berth_prefix_match match;
} kit;

static kit fixture;

static int setup(void** state) {
    kit* k = &fixture;
    *k = (kit){0};
    failing_host_init(&k->failing);
    assert_ok(berth_host_create(&k->failing.allocator, &k->host));
    assert_ok(berth_prefix_index_create(k->host, SIZE, BERTH_PREFIX_LRU, &k->index));
    assert_ok(berth_prefix_index_reserve(k->index, BLOCKS));
    assert_ok(berth_prefix_index_open_root(k->index, "model", 5, 1, &k->root));
    *state = k;
    return 0;
}

static int teardown(void** state) {
    kit* k = *state;
    assert_true(berth_prefix_index_is_valid(k->index));
    berth_prefix_index_destroy(k->index);
    berth_host_destroy(k->host);
    assert_int_equal(k->failing.live_blocks, 0);
    return 0;
}

/// Looks `count` letters up, one token each.
static size_t look(kit* k, berth_prefix_root root, const char* text, size_t limit) {
    int32_t tokens[MOST_FOUND * SIZE];
    const size_t count = strlen(text);
    for (size_t i = 0; i < count; ++i)
        tokens[i] = text[i];
    berth_prefix_index_match(k->index, root, tokens, count, limit, k->found, &k->match);
    assert_true(berth_prefix_index_is_valid(k->index));
    return k->match.blocks;
}

static size_t find(kit* k, const char* text) { return look(k, k->root, text, SIZE_MAX); }

static uint32_t put(
    kit* k, berth_prefix_root root, uint32_t parent, uint32_t block, const char* text) {
    int32_t tokens[SIZE + 1];
    const size_t count = strlen(text);
    for (size_t i = 0; i < count; ++i)
        tokens[i] = text[i];
    const uint32_t known =
        berth_prefix_index_insert(k->index, root, parent, block, tokens, (uint32_t)count);
    assert_true(berth_prefix_index_is_valid(k->index));
    return known;
}

/// A whole prompt in the blocks from `first` on, which are let go from the end.
static void add_prompt(kit* k, berth_prefix_root root, uint32_t first, const char* text) {
    const size_t count = strlen(text);
    uint32_t parent = BERTH_PREFIX_NO_BLOCK, end = first;
    for (size_t at = 0; at < count; at += SIZE) {
        char part[SIZE + 1] = {0};
        memcpy(part, text + at, count - at < SIZE ? count - at : SIZE);
        assert_int_equal(put(k, root, parent, end, part), end);
        parent = end++;
    }
    while (end > first)
        berth_prefix_index_unhold(k->index, --end);
}

static uint32_t evict(kit* k) {
    uint32_t block = 0;
    const bool is_evicted = berth_prefix_index_evict(k->index, &block);
    assert_int_equal(is_evicted, block != BERTH_PREFIX_NO_BLOCK);
    assert_true(berth_prefix_index_is_valid(k->index));
    return block;
}

static berth_prefix_stats stats(const kit* k) {
    berth_prefix_stats all;
    berth_prefix_index_query_stats(k->index, &all);
    return all;
}

static void a_prompt_finds_the_whole_blocks_that_begin_alike(void** state) {
    kit* k = *state;
    add_prompt(k, k->root, 10, "abcdefghijkl");
    assert_int_equal(find(k, "abcdefghXXXXYYYY"), 2);
    assert_int_equal(k->found[0], 10);
    assert_int_equal(k->found[1], 11);
    assert_int_equal(k->match.partial_tokens, 0);
    assert_int_equal(k->match.miss, BERTH_KV_MISS_NONE_SHARED);
    assert_int_equal(find(k, "abcdefghijkl"), 3);
    assert_int_equal(k->match.miss, BERTH_KV_MISS_NONE);
    assert_int_equal(find(k, "Xbcdefgh"), 0);
}

static void tokens_in_the_middle_are_not_found_without_those_before(void** state) {
    kit* k = *state;
    add_prompt(k, k->root, 0, "abcdefgh");
    assert_int_equal(find(k, "efgh"), 0);
    add_prompt(k, k->root, 4, "ABCDefgh");
    assert_int_equal(find(k, "ABCDefgh"), 2);
    assert_int_equal(k->found[1], 5);
    assert_int_equal(find(k, "abcdefgh"), 2);
    assert_int_equal(k->found[1], 1);
}

static void of_the_next_block_the_longest_begin_is_found(void** state) {
    kit* k = *state;
    add_prompt(k, k->root, 0, "abcdeXXX");
    add_prompt(k, k->root, 2, "wxyz");
    assert_int_equal(put(k, k->root, 0, 4, "efg"), 4);
    assert_int_equal(put(k, k->root, 0, 5, "efXX"), 5);
    assert_int_equal(find(k, "abcdefghij"), 1);
    assert_int_equal(k->match.partial, 4);
    assert_int_equal(k->match.partial_tokens, 3);
    assert_int_equal(find(k, "wxY"), 0);
    assert_int_equal(k->match.partial, 2);
    assert_int_equal(k->match.partial_tokens, 2);
    assert_int_equal(k->match.miss, BERTH_KV_MISS_TOO_SHORT);
}

static void nothing_beyond_the_limit_is_found(void** state) {
    kit* k = *state;
    add_prompt(k, k->root, 0, "abcdefgh");
    assert_int_equal(look(k, k->root, "abcdefgh", 7), 1);
    assert_int_equal(k->match.partial, 1);
    assert_int_equal(k->match.partial_tokens, 3);
    assert_int_equal(k->match.miss, BERTH_KV_MISS_NONE);
    assert_int_equal(look(k, k->root, "abcdefgh", 4), 1);
    assert_int_equal(k->match.partial_tokens, 0);
    assert_int_equal(look(k, k->root, "abcdefgh", 0), 0);
    assert_int_equal(k->match.miss, BERTH_KV_MISS_NONE);
    assert_int_equal(stats(k).lookup_tokens, 11);
    assert_int_equal(stats(k).hit_tokens, 11);
    assert_int_equal(stats(k).partial_hit_tokens, 3);
}

static void a_block_that_is_known_already_is_not_known_twice(void** state) {
    kit* k = *state;
    add_prompt(k, k->root, 0, "abcdefg");
    assert_int_equal(put(k, k->root, BERTH_PREFIX_NO_BLOCK, 9, "abcd"), 0);
    assert_int_equal(put(k, k->root, 0, 9, "efg"), 1);
    assert_false(berth_prefix_index_has(k->index, 9));
    // a begun one is never equal to a longer one
    assert_int_equal(put(k, k->root, 0, 9, "efgh"), 9);
    assert_int_equal(put(k, k->root, 0, 8, "ef"), 8);
    assert_int_equal(stats(k).equal, 2);
    assert_int_equal(berth_prefix_index_tokens(k->index, 9), 4);
    assert_int_equal(berth_prefix_index_tokens(k->index, 8), 2);
    assert_int_equal(berth_prefix_index_tokens(k->index, 7), 0);
}

// X1.
static void a_block_that_follows_nothing_known_is_refused(void** state) {
    kit* k = *state;
    const uint32_t none = BERTH_PREFIX_NO_BLOCK;
    berth_prefix_root other;
    assert_ok(berth_prefix_index_open_root(k->index, "other", 5, 1, &other));
    add_prompt(k, k->root, 0, "abcdef");
    assert_int_equal(put(k, k->root, 7, 9, "abcd"), none);      // parent not known
    assert_int_equal(put(k, k->root, 1, 9, "abcd"), none);      // parent begun
    assert_int_equal(put(k, other, 0, 9, "abcd"), none);        // parent under another key
    assert_int_equal(put(k, k->root, none, 0, "wxyz"), none);   // known as something else
    assert_int_equal(put(k, k->root, none, BLOCKS, "w"), none); // beyond the capacity
    assert_int_equal(put(k, k->root, none, 9, ""), none);
    assert_int_equal(put(k, k->root, none, 9, "abcde"), none);
    assert_int_equal(put(k, (berth_prefix_root){.id = 77}, none, 9, "abcd"), none);
    assert_int_equal(stats(k).refused, 8);
    assert_int_equal(stats(k).known_blocks, 2);
}

static void other_keys_share_nothing_but_are_named_as_the_reason(void** state) {
    kit* k = *state;
    berth_prefix_root other;
    assert_ok(berth_prefix_index_open_root(k->index, "modeL", 5, 2, &other));
    assert_int_not_equal(other.id, k->root.id);
    add_prompt(k, k->root, 0, "abcdefgh");
    assert_int_equal(look(k, other, "abcdefgh", SIZE_MAX), 0);
    assert_int_equal(k->match.partial_tokens, 0);
    assert_int_equal(k->match.miss, BERTH_KV_MISS_OTHER_TENANT);
    add_prompt(k, other, 8, "abcd");
    assert_int_equal(look(k, other, "abcdefgh", SIZE_MAX), 1);
    assert_int_equal(k->found[0], 8);
    assert_int_equal(k->match.miss, BERTH_KV_MISS_OTHER_TENANT);
    assert_int_equal(look(k, other, "abcdXXXX", SIZE_MAX), 1);
    assert_int_equal(k->match.miss, BERTH_KV_MISS_NONE_SHARED);
    assert_int_equal(stats(k).miss_other_tenant, 12);
    assert_int_equal(stats(k).miss_none_shared, 4);
    berth_prefix_index_close_root(k->index, other);
}

static void what_was_evicted_is_named_as_the_reason_until_it_is_back(void** state) {
    kit* k = *state;
    add_prompt(k, k->root, 0, "abcdefgh");
    assert_int_equal(evict(k), 1);
    assert_int_equal(find(k, "abcdefgh"), 1);
    assert_int_equal(k->match.miss, BERTH_KV_MISS_EVICTED);
    assert_int_equal(stats(k).miss_evicted, 4);
    assert_int_equal(put(k, k->root, 0, 5, "efgh"), 5);
    berth_prefix_index_remove(k->index, 5); // not for want of room
    assert_int_equal(find(k, "abcdefgh"), 1);
    assert_int_equal(k->match.miss, BERTH_KV_MISS_NONE_SHARED);
}

static void the_end_of_the_prompt_used_last_goes_last_but_before_its_begin(void** state) {
    kit* k = *state;
    add_prompt(k, k->root, 0, "abcdefgh");
    add_prompt(k, k->root, 2, "ABCDEFGH");
    add_prompt(k, k->root, 4, "klmn");
    assert_int_equal(find(k, "abcdefgh"), 2); // a use
    assert_int_equal(evict(k), 3);
    assert_int_equal(evict(k), 2);
    assert_int_equal(evict(k), 4);
    assert_int_equal(evict(k), 1);
    assert_int_equal(evict(k), 0);
    assert_int_equal(evict(k), BERTH_PREFIX_NO_BLOCK);
    assert_int_equal(stats(k).evicted, 5);
    assert_int_equal(stats(k).evicted_uses, 2);
}

// X3.
static void what_is_held_or_above_another_block_is_not_evicted(void** state) {
    kit* k = *state;
    add_prompt(k, k->root, 0, "abcdefgh");
    berth_prefix_index_hold(k->index, 1);
    berth_prefix_index_hold(k->index, 1);
    assert_int_equal(evict(k), BERTH_PREFIX_NO_BLOCK);
    assert_int_equal(stats(k).held_blocks, 1);
    berth_prefix_index_unhold(k->index, 1);
    berth_prefix_index_unhold(k->index, 1);
    berth_prefix_index_hold(k->index, 0);
    assert_int_equal(stats(k).evictable_blocks, 1);
    assert_int_equal(evict(k), 1);
    assert_int_equal(evict(k), BERTH_PREFIX_NO_BLOCK);
    // a block that comes behind it keeps it
    berth_prefix_index_unhold(k->index, 0);
    assert_int_equal(put(k, k->root, 0, 6, "EFGH"), 6);
    assert_int_equal(evict(k), BERTH_PREFIX_NO_BLOCK);
    berth_prefix_index_remove(k->index, 6);
    assert_int_equal(evict(k), 0);
}

static void a_moved_block_is_found_by_its_new_number(void** state) {
    kit* k = *state;
    add_prompt(k, k->root, 0, "abcdefghijkl");
    add_prompt(k, k->root, 4, "ABCD");
    assert_int_equal(put(k, k->root, 1, 5, "IJ"), 5);
    berth_prefix_index_move(k->index, 1, 40);
    berth_prefix_index_move(k->index, 0, 41);
    berth_prefix_index_move(k->index, 2, 42);
    berth_prefix_index_move(k->index, 9, 43); // not known
    berth_prefix_index_move(k->index, 4, 4);
    assert_false(berth_prefix_index_has(k->index, 43));
    assert_int_equal(find(k, "abcdefghijkl"), 3);
    assert_int_equal(k->found[0], 41);
    assert_int_equal(k->found[1], 40);
    assert_int_equal(k->found[2], 42);
    assert_false(berth_prefix_index_has(k->index, 0));
    assert_int_equal(evict(k), 4);
    assert_int_equal(evict(k), 42);
    assert_int_equal(evict(k), BERTH_PREFIX_NO_BLOCK); // 5 is held
}

static void growing_keeps_blocks_their_order_and_what_was_evicted(void** state) {
    kit* k = *state;
    add_prompt(k, k->root, 60, "abcdefghijklmnop");
    add_prompt(k, k->root, 0, "ABCDEFGH");
    assert_int_equal(evict(k), 63);
    const uint64_t before = berth_prefix_index_bytes(k->index);
    assert_ok(berth_prefix_index_reserve(k->index, BLOCKS / 2));
    assert_int_equal(berth_prefix_index_bytes(k->index), before);
    assert_ok(berth_prefix_index_reserve(k->index, 1000));
    assert_true(berth_prefix_index_bytes(k->index) > before);
    assert_int_equal(find(k, "ABCDEFGH"), 2);
    assert_int_equal(find(k, "abcdefghijklmnop"), 3);
    assert_int_equal(k->match.miss, BERTH_KV_MISS_EVICTED);
    assert_int_equal(put(k, k->root, 62, 999, "mnop"), 999);
    assert_int_equal(evict(k), 1);
    assert_int_equal(evict(k), 0);
    assert_int_equal(evict(k), BERTH_PREFIX_NO_BLOCK); // 999 is held
}

// X4.
static void no_more_is_remembered_of_evicted_blocks_than_there_are_blocks(void** state) {
    kit* k = *state;
    for (char c = 'A'; c < 'A' + 2; ++c) {
        const char text[] = {c, 'x', 'y', 'z', '\0'};
        add_prompt(k, k->root, 0, text);
        assert_int_equal(evict(k), 0);
    }
    for (int i = 0; i < BLOCKS - 1; ++i) {
        const int32_t tokens[SIZE] = {1000 + i, 1, 2, 3};
        assert_int_equal(
            berth_prefix_index_insert(k->index, k->root, BERTH_PREFIX_NO_BLOCK, 0, tokens, SIZE),
            0);
        berth_prefix_index_unhold(k->index, 0);
        assert_int_equal(evict(k), 0);
    }
    assert_int_equal(find(k, "Bxyz"), 0);
    assert_int_equal(k->match.miss, BERTH_KV_MISS_EVICTED);
    assert_int_equal(find(k, "Axyz"), 0);
    assert_int_equal(k->match.miss, BERTH_KV_MISS_NONE_SHARED);
}

// X4.
static void equal_keys_are_one_and_unused_ones_are_forgotten(void** state) {
    kit* k = *state;
    berth_prefix_root same, other;
    assert_ok(berth_prefix_index_open_root(k->index, "model", 5, 9, &same));
    assert_int_equal(same.id, k->root.id);
    berth_prefix_index_close_root(k->index, same);
    assert_ok(berth_prefix_index_open_root(k->index, NULL, 0, 0, &other));
    add_prompt(k, other, 0, "abcd");
    berth_prefix_index_retain_root(k->index, other);
    berth_prefix_index_close_root(k->index, other);
    berth_prefix_index_close_root(k->index, other);
    assert_int_equal(stats(k).roots, 2); // it has a known block
    assert_ok(berth_prefix_index_open_root(k->index, NULL, 0, 0, &same));
    assert_int_equal(same.id, other.id);
    assert_int_equal(look(k, same, "abcd", SIZE_MAX), 1);
    berth_prefix_index_close_root(k->index, same);
    assert_int_equal(evict(k), 0);
    assert_int_equal(stats(k).roots, 1);
    const uint64_t bytes = berth_prefix_index_bytes(k->index);
    for (uint32_t i = 0; i < 1000; ++i) {
        assert_ok(berth_prefix_index_open_root(k->index, &i, sizeof i, i, &other));
        berth_prefix_index_close_root(k->index, other);
    }
    assert_int_equal(berth_prefix_index_bytes(k->index), bytes);
}

static void many_keys_are_told_apart(void** state) {
    kit* k = *state;
    berth_prefix_root roots[100], again;
    for (uint32_t i = 0; i < 100; ++i) {
        assert_ok(berth_prefix_index_open_root(k->index, &i, sizeof i, i, &roots[i]));
        if (i < BLOCKS) add_prompt(k, roots[i], i, "abcd");
    }
    for (uint32_t i = 0; i < 100; ++i) {
        assert_ok(berth_prefix_index_open_root(k->index, &i, sizeof i, i, &again));
        assert_int_equal(again.id, roots[i].id);
        assert_int_equal(look(k, again, "abcd", SIZE_MAX), i < BLOCKS);
        if (i < BLOCKS) assert_int_equal(k->found[0], i);
        berth_prefix_index_close_root(k->index, again);
        berth_prefix_index_close_root(k->index, roots[i]);
    }
}

/// Gives a known block another hash, as if two texts had the same one.
static void forge_hash(kit* k, uint32_t block, uint64_t content) {
    berth_prefix_tables_unlink(k->index, block);
    berth_prefix_node_of(k->index, block)->content = content;
    berth_prefix_tables_link(k->index, block);
}

static size_t find_forged(kit* k, berth_prefix_root root, const char* text) {
    int32_t tokens[MOST_FOUND * SIZE];
    const size_t count = strlen(text);
    for (size_t i = 0; i < count; ++i)
        tokens[i] = text[i];
    berth_prefix_index_match(k->index, root, tokens, count, count, k->found, &k->match);
    return k->match.blocks;
}

// X2.
static void equal_hashes_of_other_tokens_or_places_are_no_hit(void** state) {
    kit* k = *state;
    add_prompt(k, k->root, 0, "abcdefgh");
    add_prompt(k, k->root, 4, "ABCDefghij");
    const uint64_t first = berth_prefix_node_of(k->index, 0)->content;
    const uint64_t second = berth_prefix_node_of(k->index, 1)->content;
    const uint64_t other = berth_prefix_node_of(k->index, 5)->content;
    berth_prefix_index_remove(k->index, 1);
    // the same tokens behind another block
    forge_hash(k, 5, second);
    assert_int_equal(find_forged(k, k->root, "abcdefgh"), 1);
    assert_int_equal(k->match.partial_tokens, 0);
    forge_hash(k, 5, other);
    // other tokens at the same place
    const uint64_t begun = berth_prefix_node_of(k->index, 4)->content;
    berth_prefix_index_remove(k->index, 0);
    forge_hash(k, 4, first);
    assert_int_equal(find_forged(k, k->root, "abcdefgh"), 0);
    forge_hash(k, 4, begun);
    assert_int_equal(find(k, "ABCDefghij"), 2);
    assert_int_equal(k->match.partial, 6);
}

static void an_equal_hash_under_another_key_is_not_called_the_same_tokens(void** state) {
    kit* k = *state;
    berth_prefix_root other;
    assert_ok(berth_prefix_index_open_root(k->index, "other", 5, 1, &other));
    add_prompt(k, k->root, 0, "abcd");
    add_prompt(k, k->root, 1, "wxyz");
    const uint64_t known = berth_prefix_node_of(k->index, 0)->content;
    const uint64_t forged = berth_prefix_node_of(k->index, 1)->content;
    berth_prefix_index_remove(k->index, 0);
    forge_hash(k, 1, known);
    assert_int_equal(find_forged(k, other, "abcd"), 0);
    assert_int_equal(k->match.miss, BERTH_KV_MISS_NONE_SHARED);
    forge_hash(k, 1, forged);
    berth_prefix_index_close_root(k->index, other);
}

static void absurd_sizes_are_refused_with_their_numbers(void** state) {
    kit* k = *state;
    berth_prefix_index* index = k->index;
    berth_prefix_root root;
    const char key[300] = {0};
    assert_fails(berth_prefix_index_create(k->host, 0, BERTH_PREFIX_LRU, &index),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "1 to 1024");
    assert_null(index);
    assert_fails(berth_prefix_index_create(k->host, 1025, BERTH_PREFIX_LRU, &index),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "1025");
    assert_fails(berth_prefix_index_create(k->host, 1, (berth_prefix_policy)7, &index),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "7");
    assert_fails(berth_prefix_index_open_root(k->index, key, sizeof key, 0, &root),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "300");
    assert_fails(berth_prefix_index_open_root(k->index, NULL, 3, 0, &root),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "NULL");
    assert_fails(
        berth_prefix_index_reserve(k->index, UINT32_MAX), BERTH_ERR_INVALID_ARGUMENT, "4294967295");
    berth_prefix_index_destroy(NULL);
}

static void an_index_without_room_finds_nothing(void** state) {
    kit* k = *state;
    berth_prefix_index* index;
    berth_prefix_root root;
    berth_prefix_match match;
    uint32_t block;
    const int32_t tokens[SIZE] = {1, 2, 3, 4};
    assert_ok(berth_prefix_index_create(k->host, SIZE, BERTH_PREFIX_REUSE, &index));
    assert_ok(berth_prefix_index_open_root(index, "m", 1, 0, &root));
    berth_prefix_index_match(index, root, tokens, SIZE, SIZE, &block, &match);
    assert_int_equal(match.blocks, 0);
    assert_int_equal(match.miss, BERTH_KV_MISS_NONE_SHARED);
    assert_int_equal(berth_prefix_index_insert(index, root, BERTH_PREFIX_NO_BLOCK, 0, tokens, SIZE),
                     BERTH_PREFIX_NO_BLOCK);
    assert_false(berth_prefix_index_evict(index, &block));
    assert_true(berth_prefix_index_is_valid(index));
    berth_prefix_index_destroy(index);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_prompt_finds_the_whole_blocks_that_begin_alike, setup, teardown),
        cmocka_unit_test_setup_teardown(
            tokens_in_the_middle_are_not_found_without_those_before, setup, teardown),
        cmocka_unit_test_setup_teardown(
            of_the_next_block_the_longest_begin_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_beyond_the_limit_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_block_that_is_known_already_is_not_known_twice, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_block_that_follows_nothing_known_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(
            other_keys_share_nothing_but_are_named_as_the_reason, setup, teardown),
        cmocka_unit_test_setup_teardown(
            what_was_evicted_is_named_as_the_reason_until_it_is_back, setup, teardown),
        cmocka_unit_test_setup_teardown(
            the_end_of_the_prompt_used_last_goes_last_but_before_its_begin, setup, teardown),
        cmocka_unit_test_setup_teardown(
            what_is_held_or_above_another_block_is_not_evicted, setup, teardown),
        cmocka_unit_test_setup_teardown(a_moved_block_is_found_by_its_new_number, setup, teardown),
        cmocka_unit_test_setup_teardown(
            growing_keeps_blocks_their_order_and_what_was_evicted, setup, teardown),
        cmocka_unit_test_setup_teardown(
            no_more_is_remembered_of_evicted_blocks_than_there_are_blocks, setup, teardown),
        cmocka_unit_test_setup_teardown(
            equal_keys_are_one_and_unused_ones_are_forgotten, setup, teardown),
        cmocka_unit_test_setup_teardown(many_keys_are_told_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(
            equal_hashes_of_other_tokens_or_places_are_no_hit, setup, teardown),
        cmocka_unit_test_setup_teardown(
            an_equal_hash_under_another_key_is_not_called_the_same_tokens, setup, teardown),
        cmocka_unit_test_setup_teardown(
            absurd_sizes_are_refused_with_their_numbers, setup, teardown),
        cmocka_unit_test_setup_teardown(an_index_without_room_finds_nothing, setup, teardown),
    };
    return cmocka_run_group_tests_name("prefix_index", tests, NULL, NULL);
}
