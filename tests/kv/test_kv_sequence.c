// SPDX-License-Identifier: Apache-2.0
// Sequences of a KV cache: what they hold, share, copy and leave behind.
#include <stdio.h>

#include "kv_kit.h"

static void a_sequence_takes_a_block_for_its_first_token(void** state) {
    (void)state;
    kv_kit kit;
    const berth_kv_options options = kv_kit_options();
    kv_kit_open(&kit, &options, 8);
    // 4 tokens x 2 heads x 64 values x 4 bytes, keys and values, 2 layers
    assert_int_equal(kit.layout.block_bytes, 4 * 2 * 64 * 4 * 2 * 2);
    assert_int_equal(kit.layout.token_bytes * 4, kit.layout.block_bytes);
    berth_kv_sequence* a = kv_kit_begin(&kit, "");
    assert_int_equal(berth_kv_sequence_growth(a, 1), 1);
    assert_ok(kv_kit_add(&kit, a, 0, 1));
    assert_int_equal(kv_kit_stats(&kit).held_blocks, 1);
    assert_int_equal(kv_kit_stats(&kit).wasted_tokens, 3);
    assert_int_equal(berth_kv_sequence_growth(a, 3), 0);
    assert_int_equal(berth_kv_sequence_growth(a, 4), 1);
    assert_ok(kv_kit_add(&kit, a, 1, 3));
    assert_int_equal(kv_kit_stats(&kit).held_blocks, 1);
    assert_int_equal(kv_kit_stats(&kit).wasted_tokens, 0);
    berth_kv_sequence_release(a);
    kv_kit_close(&kit);
}

static void whole_blocks_of_a_running_sequence_are_shared(void** state) {
    (void)state;
    kv_kit kit;
    const berth_kv_options options = kv_kit_options();
    kv_kit_open(&kit, &options, 8);
    berth_kv_sequence* a = kv_kit_begin(&kit, "m");
    assert_ok(kv_kit_add(&kit, a, 0, 11));
    berth_kv_match match;
    berth_kv_sequence* b = kv_kit_find(&kit, "m", 0, 11, &match);
    assert_int_equal(match.tokens, 8);
    assert_int_equal(match.shared_tokens, 8);
    assert_int_equal(kv_kit_stats(&kit).held_blocks, 3);
    assert_int_equal(berth_kv_sequence_own_blocks(a), 1);
    assert_int_equal(berth_kv_sequence_own_blocks(b), 0);
    berth_kv_sequence_release(a);
    berth_kv_sequence_release(b);
    kv_kit_close(&kit);
}

static void the_last_token_of_a_prompt_is_left_to_compute(void** state) {
    (void)state;
    kv_kit kit;
    const berth_kv_options options = kv_kit_options();
    kv_kit_open(&kit, &options, 8);
    berth_kv_sequence* a = kv_kit_begin(&kit, "m");
    assert_ok(kv_kit_add(&kit, a, 0, 8));
    berth_kv_sequence_release(a);
    berth_kv_match match;
    berth_kv_sequence* b = kv_kit_find(&kit, "m", 0, 8, &match);
    assert_int_equal(match.tokens, 7);
    assert_int_equal(match.shared_tokens, 4);
    assert_int_equal(match.copied_tokens, 3);
    assert_int_equal(match.miss, BERTH_KV_MISS_NONE);
    berth_kv_sequence_release(b);
    kv_kit_close(&kit);
}

static void the_begin_of_a_block_is_copied(void** state) {
    (void)state;
    kv_kit kit;
    const berth_kv_options options = kv_kit_options();
    kv_kit_open(&kit, &options, 8);
    berth_kv_sequence* a = kv_kit_begin(&kit, "m");
    assert_ok(kv_kit_add(&kit, a, 0, 6)); // a whole block, and the begin of one
    berth_kv_sequence_release(a);
    assert_int_equal(kv_kit_stats(&kit).cached_blocks, 2);
    assert_int_equal(kv_kit_stats(&kit).cached_tokens, 6);
    berth_kv_match match;
    berth_kv_sequence* b = kv_kit_find(&kit, "m", 0, 20, &match);
    assert_int_equal(match.shared_tokens, 4);
    assert_int_equal(match.copied_tokens, 2);
    assert_int_equal(kv_kit_stats(&kit).copied_blocks, 1);
    assert_int_equal(berth_kv_sequence_length(b), 6);
    berth_kv_sequence_release(b);
    kv_kit_close(&kit);
}

static void nothing_is_found_under_another_key(void** state) {
    (void)state;
    kv_kit kit;
    const berth_kv_options options = kv_kit_options();
    kv_kit_open(&kit, &options, 8);
    berth_kv_sequence* a = kv_kit_begin(&kit, "one");
    assert_ok(kv_kit_add(&kit, a, 0, 8));
    berth_kv_match match;
    berth_kv_sequence* b = kv_kit_find(&kit, "two", 0, 9, &match);
    assert_int_equal(match.tokens, 0);
    assert_int_equal(match.miss, BERTH_KV_MISS_OTHER_TENANT);
    assert_int_equal(kv_kit_stats(&kit).miss_other_tenant, 9);
    berth_kv_sequence_release(a);
    berth_kv_sequence_release(b);
    kv_kit_close(&kit);
}

// K1: what is not found is not cached.
static void private_sequences_neither_find_nor_leave_blocks(void** state) {
    (void)state;
    kv_kit kit;
    const berth_kv_options options = kv_kit_options();
    kv_kit_open(&kit, &options, 8);
    const berth_kv_sequence_options hidden = {.struct_size = sizeof hidden, .is_private = true};
    berth_kv_sequence* a;
    assert_ok(berth_kv_sequence_create(kit.cache, &hidden, &a));
    assert_ok(kv_kit_add(&kit, a, 0, 8));
    berth_kv_match match;
    berth_kv_sequence* b = kv_kit_find(&kit, "", 0, 8, &match);
    assert_int_equal(match.tokens, 0);
    assert_ok(kv_kit_add(&kit, b, 0, 8));
    berth_kv_sequence* c;
    assert_ok(berth_kv_sequence_create(kit.cache, &hidden, &c));
    assert_ok(berth_kv_sequence_match(c, (const int32_t[]){0, 1, 2, 3, 4}, 5, &match));
    assert_int_equal(match.tokens, 0);
    berth_kv_sequence_release(a);
    berth_kv_sequence_release(b);
    berth_kv_sequence_release(c);
    assert_int_equal(kv_kit_stats(&kit).cached_blocks, 2);
    kv_kit_close(&kit);
}

static void equal_blocks_that_two_sequences_compute_become_one(void** state) {
    (void)state;
    kv_kit kit;
    const berth_kv_options options = kv_kit_options();
    kv_kit_open(&kit, &options, 8);
    berth_kv_sequence* a = kv_kit_begin(&kit, "m");
    berth_kv_sequence* b = kv_kit_begin(&kit, "m");
    assert_ok(kv_kit_add(&kit, a, 0, 4));
    assert_ok(kv_kit_add(&kit, b, 0, 4));
    assert_int_equal(kv_kit_stats(&kit).held_blocks, 1);
    berth_kv_sequence_release(a);
    assert_int_equal(berth_kv_sequence_own_blocks(b), 1);
    berth_kv_sequence_release(b);
    kv_kit_close(&kit);
}

// K2, K3.
static void a_fork_shares_all_until_one_of_both_adds(void** state) {
    (void)state;
    kv_kit kit;
    const berth_kv_options options = kv_kit_options();
    kv_kit_open(&kit, &options, 8);
    berth_kv_sequence* a = kv_kit_begin(&kit, "m");
    assert_ok(kv_kit_add(&kit, a, 0, 6));
    berth_kv_sequence* b;
    assert_ok(berth_kv_sequence_fork(a, &b));
    assert_int_equal(kv_kit_stats(&kit).held_blocks, 2);
    assert_int_equal(berth_kv_sequence_growth(a, 1), 1);
    assert_ok(kv_kit_add(&kit, b, 100, 1));
    assert_int_equal(kv_kit_stats(&kit).held_blocks, 3);
    assert_int_equal(kv_kit_stats(&kit).copied_blocks, 1);
    assert_int_equal(berth_kv_sequence_growth(a, 1), 0);
    assert_ok(kv_kit_add(&kit, a, 200, 1));
    assert_int_equal(kv_kit_stats(&kit).copied_blocks, 1);
    assert_int_equal(berth_kv_sequence_tokens(a)[6], 200);
    assert_int_equal(berth_kv_sequence_tokens(b)[6], 100);
    berth_kv_sequence_release(a);
    berth_kv_sequence_release(b);
    kv_kit_close(&kit);
}

/// Adds `count` tokens to a sequence that the index does not know, and ends it.
static void fill_and_empty(kv_kit* kit, int64_t count) {
    const berth_kv_sequence_options hidden = {.struct_size = sizeof hidden, .is_private = true};
    berth_kv_sequence* filler;
    assert_ok(berth_kv_sequence_create(kit->cache, &hidden, &filler));
    assert_ok(kv_kit_add(kit, filler, 1000, count));
    berth_kv_sequence_release(filler);
}

// The parent's copy is unknown to the index when its fork finds an equal one.
static void an_equal_block_replaces_one_in_all_that_share_it(void** state) {
    (void)state;
    kv_kit kit;
    berth_kv_options options = kv_kit_options();
    options.park_bytes = 1 << 20;
    kv_kit_open(&kit, &options, 1);
    berth_kv_sequence* parent = kv_kit_begin(&kit, "m");
    assert_ok(kv_kit_add(&kit, parent, 0, 12));
    berth_kv_room room;
    assert_ok(berth_kv_cache_query_room(kit.cache, &room));
    const int64_t all = 3 + room.ready_blocks + room.cached_blocks + room.mappable_blocks;
    assert_ok(berth_kv_sequence_park(parent, BERTH_KV_PARK_HOST, NULL));
    fill_and_empty(&kit, all * 4);
    int64_t length;
    assert_ok(berth_kv_sequence_resume(parent, &length));
    assert_int_equal(length, 12);
    berth_kv_sequence* other = kv_kit_begin(&kit, "m");
    assert_ok(kv_kit_add(&kit, other, 0, 8));
    berth_kv_sequence* fork;
    assert_ok(berth_kv_sequence_fork(parent, &fork));
    assert_ok(kv_kit_add(&kit, fork, 100, 4));
    berth_kv_sequence_release(fork);
    berth_kv_sequence_release(other);
    assert_int_equal(kv_kit_stats(&kit).held_blocks, 3);
    assert_int_equal(kv_kit_stats(&kit).cached_blocks, 1);
    // what is said to be free can be had
    assert_ok(berth_kv_cache_query_room(kit.cache, &room));
    assert_int_equal(room.ready_blocks + room.cached_blocks + room.mappable_blocks, all - 3);
    fill_and_empty(&kit, (all - 3) * 4);
    berth_kv_sequence_release(parent);
    kv_kit_close(&kit);
}

// K3.
static void a_shortened_sequence_does_not_overwrite_what_is_cached(void** state) {
    (void)state;
    kv_kit kit;
    const berth_kv_options options = kv_kit_options();
    kv_kit_open(&kit, &options, 8);
    berth_kv_sequence* a = kv_kit_begin(&kit, "m");
    assert_ok(kv_kit_add(&kit, a, 0, 8));
    assert_ok(berth_kv_sequence_truncate(a, 6));
    assert_int_equal(berth_kv_sequence_length(a), 6);
    assert_ok(kv_kit_add(&kit, a, 100, 2));
    berth_kv_match match;
    berth_kv_sequence* b = kv_kit_find(&kit, "m", 0, 9, &match);
    assert_int_equal(match.shared_tokens, 8);
    assert_fails(berth_kv_sequence_truncate(a, 9), BERTH_ERR_INVALID_ARGUMENT, "to keep 9");
    berth_kv_sequence_release(a);
    berth_kv_sequence_release(b);
    kv_kit_close(&kit);
}

static void a_sequence_released_in_a_batch_ends_with_it(void** state) {
    (void)state;
    kv_kit kit;
    const berth_kv_options options = kv_kit_options();
    kv_kit_open(&kit, &options, 8);
    berth_kv_sequence* a = kv_kit_begin(&kit, "m");
    const int32_t tokens[] = {1, 2, 3, 4};
    const berth_kv_part part = {a, tokens, 4};
    berth_kv_batch* batch;
    assert_ok(berth_kv_batch_begin(kit.cache, &part, 1, &batch));
    berth_kv_sequence_release(a);
    assert_int_equal(kv_kit_stats(&kit).held_blocks, 1);
    assert_ok(berth_kv_batch_end(batch, true));
    assert_int_equal(kv_kit_stats(&kit).held_blocks, 0);
    assert_int_equal(kv_kit_stats(&kit).cached_tokens, 4);
    kv_kit_close(&kit);
}

static void sequences_outlive_their_cache_and_their_context(void** state) {
    (void)state;
    kv_kit kit;
    const berth_kv_options options = kv_kit_options();
    kv_kit_open(&kit, &options, 8);
    berth_kv_sequence* a = kv_kit_begin(&kit, "m");
    assert_ok(kv_kit_add(&kit, a, 0, 6));
    berth_kv_cache_release(kit.cache);
    assert_ok(berth_kv_sequence_truncate(a, 5));
    berth_context_release(kit.exec.ctx);
    assert_fails(berth_kv_sequence_truncate(a, 4), BERTH_ERR_STATE, "context");
    berth_kv_sequence_release(a);
    berth_runtime_release(kit.exec.runtime);
}

static void what_cannot_be_is_refused(void** state) {
    (void)state;
    kv_kit kit;
    const berth_kv_options options = kv_kit_options();
    kv_kit_open(&kit, &options, 8);
    berth_kv_sequence* a = kv_kit_begin(&kit, "m");
    berth_kv_match match;
    assert_fails(berth_kv_sequence_match(a, NULL, 3, &match), BERTH_ERR_INVALID_ARGUMENT, "3");
    assert_ok(kv_kit_add(&kit, a, 0, 6));
    assert_fails(berth_kv_sequence_match(a, (const int32_t[]){1}, 1, &match),
                 BERTH_ERR_STATE,
                 "6 tokens already");
    const berth_kv_sequence_options long_key = {
        .struct_size = sizeof long_key, .key = "k", .key_bytes = 257};
    berth_kv_sequence* b;
    assert_fails(berth_kv_sequence_create(kit.cache, &long_key, &b),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "257 bytes");
    assert_null(b);
    assert_fails(berth_kv_sequence_truncate(NULL, 0), BERTH_ERR_INVALID_ARGUMENT, "sequence");
    assert_int_equal(berth_kv_sequence_length(NULL), 0);
    berth_kv_sequence_release(NULL);
    berth_kv_sequence_release(a);
    kv_kit_close(&kit);
}

static void words_name_the_reasons_of_misses(void** state) {
    (void)state;
    assert_string_equal(berth_kv_miss_text(BERTH_KV_MISS_NONE), "none");
    assert_string_equal(berth_kv_miss_text(BERTH_KV_MISS_EVICTED), "evicted");
    assert_string_equal(berth_kv_miss_text(BERTH_KV_MISS_OTHER_TENANT), "other_tenant");
    assert_string_equal(berth_kv_miss_text(BERTH_KV_MISS_COUNT), "unknown");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sequence_takes_a_block_for_its_first_token),
        cmocka_unit_test(whole_blocks_of_a_running_sequence_are_shared),
        cmocka_unit_test(the_last_token_of_a_prompt_is_left_to_compute),
        cmocka_unit_test(the_begin_of_a_block_is_copied),
        cmocka_unit_test(nothing_is_found_under_another_key),
        cmocka_unit_test(private_sequences_neither_find_nor_leave_blocks),
        cmocka_unit_test(equal_blocks_that_two_sequences_compute_become_one),
        cmocka_unit_test(a_fork_shares_all_until_one_of_both_adds),
        cmocka_unit_test(an_equal_block_replaces_one_in_all_that_share_it),
        cmocka_unit_test(a_shortened_sequence_does_not_overwrite_what_is_cached),
        cmocka_unit_test(a_sequence_released_in_a_batch_ends_with_it),
        cmocka_unit_test(sequences_outlive_their_cache_and_their_context),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(words_name_the_reasons_of_misses),
    };
    return cmocka_run_group_tests_name("KV sequences", tests, NULL, NULL);
}
