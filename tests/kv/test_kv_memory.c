// SPDX-License-Identifier: Apache-2.0
// Memory of a KV cache: one budget with everything else, given up when others need it, packed when
// it has holes, refused with the numbers when there is none.
#include <stdio.h>

#include "kv_kit.h"

enum { GRANULE = 65536 }; // 8 blocks

static uint64_t mapped(kv_kit* kit) { return kv_kit_stats(kit).mapped_bytes; }

static void blocks_are_mapped_as_they_are_needed(void** state) {
    (void)state;
    kv_kit kit;
    const berth_kv_options options = kv_kit_options();
    kv_kit_open(&kit, &options, 8);
    assert_int_equal(kit.layout.block_bytes * 8, GRANULE);
    assert_int_equal(mapped(&kit), 0);
    berth_kv_sequence* a = kv_kit_begin(&kit, "m");
    assert_ok(kv_kit_add(&kit, a, 0, 4 * 9));
    assert_int_equal(mapped(&kit), 2 * GRANULE);
    berth_memory_stats memory;
    assert_ok(berth_runtime_query_memory(kit.exec.runtime, &memory));
    assert_int_equal(memory.kv_bytes, 2 * GRANULE);
    berth_kv_sequence_release(a);
    kv_kit_close(&kit);
}

static void a_batch_without_room_is_refused_with_the_numbers(void** state) {
    (void)state;
    kv_kit kit;
    berth_kv_options options = kv_kit_options();
    options.max_bytes = 2 * GRANULE; // 16 blocks
    kv_kit_open(&kit, &options, 8);
    assert_int_equal(kit.layout.max_blocks, 16);
    berth_kv_sequence* a = kv_kit_begin(&kit, "m");
    berth_kv_sequence* b = kv_kit_begin(&kit, "n");
    assert_ok(kv_kit_add(&kit, a, 0, 4 * 10));
    assert_fails(kv_kit_add(&kit, b, 0, 4 * 7), BERTH_ERR_OUT_OF_MEMORY, "7 blocks of 8192 bytes");
    assert_non_null(strstr(berth_last_error(), "6 free"));
    assert_int_equal(berth_kv_sequence_length(b), 0);
    assert_int_equal(kv_kit_stats(&kit).refusals, 1);
    assert_int_equal(kv_kit_stats(&kit).held_blocks, 10);
    assert_ok(kv_kit_add(&kit, b, 0, 4 * 6));
    berth_kv_sequence_release(a);
    berth_kv_sequence_release(b);
    kv_kit_close(&kit);
}

static void a_quota_bounds_the_cache(void** state) {
    (void)state;
    kv_kit kit;
    const berth_kv_options options = kv_kit_options();
    kv_kit_open(&kit, &options, 8);
    assert_ok(berth_runtime_set_quota(kit.exec.runtime, BERTH_MEMORY_KV, 2 * GRANULE));
    berth_kv_sequence* a = kv_kit_begin(&kit, "m");
    assert_fails(kv_kit_add(&kit, a, 0, 4 * 17), BERTH_ERR_OUT_OF_MEMORY, "16 free");
    assert_ok(kv_kit_add(&kit, a, 0, 4 * 16));
    assert_int_equal(mapped(&kit), 2 * GRANULE);
    berth_kv_sequence_release(a);
    kv_kit_close(&kit);
}

static void cached_blocks_make_room_for_new_ones(void** state) {
    (void)state;
    kv_kit kit;
    berth_kv_options options = kv_kit_options();
    options.max_bytes = 2 * GRANULE;
    options.eviction = BERTH_KV_EVICT_LRU;
    kv_kit_open(&kit, &options, 8);
    berth_kv_sequence* a = kv_kit_begin(&kit, "m");
    assert_ok(kv_kit_add(&kit, a, 0, 4 * 10));
    berth_kv_sequence_release(a);
    assert_int_equal(kv_kit_stats(&kit).cached_blocks, 10);
    berth_kv_room room;
    assert_ok(berth_kv_cache_query_room(kit.cache, &room));
    assert_int_equal(room.ready_blocks, 6);
    assert_int_equal(room.cached_blocks, 10);
    assert_int_equal(room.mappable_blocks, 0);
    berth_kv_sequence* b = kv_kit_begin(&kit, "n");
    assert_ok(kv_kit_add(&kit, b, 1000, 4 * 8));
    assert_int_equal(kv_kit_stats(&kit).evicted_blocks, 2);
    // the end of the prompt went first
    berth_kv_match match;
    berth_kv_sequence* c = kv_kit_find(&kit, "m", 0, 4 * 10, &match);
    assert_int_equal(match.tokens, 4 * 8);
    assert_int_equal(match.miss, BERTH_KV_MISS_EVICTED);
    berth_kv_sequence_release(b);
    berth_kv_sequence_release(c);
    kv_kit_close(&kit);
}

static void cached_blocks_are_given_up_for_tensors(void** state) {
    (void)state;
    kv_kit kit;
    const berth_kv_options options = kv_kit_options();
    kv_kit_open(&kit, &options, 8);
    berth_kv_sequence* a = kv_kit_begin(&kit, "m");
    berth_kv_sequence* b = kv_kit_begin(&kit, "n");
    // blocks of both by turns in all granules, so that no granule is the one's alone
    for (int32_t i = 0; i < 24; ++i) {
        assert_ok(kv_kit_add(&kit, a, 4 * i, 4));
        assert_ok(kv_kit_add(&kit, b, 4 * i, 4));
    }
    assert_int_equal(mapped(&kit), 6 * GRANULE);
    berth_kv_sequence_release(a);
    void* data = berth_alloc(kit.exec.ctx, 4 * GRANULE);
    assert_context_ok(kit.exec.ctx);
    assert_non_null(data);
    assert_int_equal(mapped(&kit), 4 * GRANULE);
    assert_int_equal(kv_kit_stats(&kit).held_blocks, 24);
    assert_true(kv_kit_stats(&kit).moved_blocks > 0);
    berth_free(kit.exec.ctx, data);
    berth_kv_sequence_release(b);
    kv_kit_close(&kit);
}

static void blocks_in_use_are_not_given_up(void** state) {
    (void)state;
    kv_kit kit;
    const berth_kv_options options = kv_kit_options();
    kv_kit_open(&kit, &options, 8);
    berth_kv_sequence* a = kv_kit_begin(&kit, "m");
    assert_ok(kv_kit_add(&kit, a, 0, 4 * 48));
    assert_null(berth_alloc(kit.exec.ctx, 3 * GRANULE));
    assert_context_fails(kit.exec.ctx, BERTH_ERR_OUT_OF_MEMORY, "kv");
    assert_int_equal(kv_kit_stats(&kit).held_blocks, 48);
    berth_kv_sequence_release(a);
    kv_kit_close(&kit);
}

// K1, K2: under their new numbers, too.
static void holes_are_packed_while_sequences_live(void** state) {
    (void)state;
    kv_kit kit;
    const berth_kv_options options = kv_kit_options();
    kv_kit_open(&kit, &options, 8);
    const berth_kv_sequence_options hidden = {.struct_size = sizeof hidden, .is_private = true};
    berth_kv_sequence* sequences[48];
    for (size_t i = 0; i < 48; ++i) {
        assert_ok(berth_kv_sequence_create(kit.cache, &hidden, &sequences[i]));
        assert_ok(kv_kit_add(&kit, sequences[i], (int32_t)i, 4));
    }
    for (size_t i = 0; i < 48; ++i)
        if (i % 4 != 0) berth_kv_sequence_release(sequences[i]);
    assert_int_equal(mapped(&kit), 6 * GRANULE);
    berth_idle_result idle;
    do
        assert_ok(berth_idle(kit.exec.ctx, 1000000, &idle));
    while (idle.has_more);
    assert_ok(berth_context_synchronize(kit.exec.ctx));
    assert_ok(berth_trim(kit.exec.runtime, 0, NULL));
    // 12 blocks of an eighth of a granule
    assert_int_equal(mapped(&kit), 2 * GRANULE);
    assert_true(berth_kv_cache_is_valid(kit.cache));
    for (size_t i = 0; i < 48; i += 4)
        berth_kv_sequence_release(sequences[i]);
    kv_kit_close(&kit);
}

// K4.
static void no_held_block_moves_while_a_batch_is_open(void** state) {
    (void)state;
    kv_kit kit;
    const berth_kv_options options = kv_kit_options();
    kv_kit_open(&kit, &options, 8);
    const berth_kv_sequence_options hidden = {.struct_size = sizeof hidden, .is_private = true};
    berth_kv_sequence* rest;
    berth_kv_sequence* first;
    berth_kv_sequence* second;
    assert_ok(berth_kv_sequence_create(kit.cache, &hidden, &rest));
    assert_ok(berth_kv_sequence_create(kit.cache, &hidden, &first));
    assert_ok(berth_kv_sequence_create(kit.cache, &hidden, &second));
    assert_ok(kv_kit_add(&kit, rest, 0, 4));
    assert_ok(kv_kit_add(&kit, first, 0, 4 * 39));
    const int32_t tokens[] = {1, 2, 3, 4};
    const berth_kv_part part = {second, tokens, 4};
    berth_kv_batch* batch;
    assert_ok(berth_kv_batch_begin(kit.cache, &part, 1, &batch));
    const int32_t block = berth_kv_batch_tables(batch)->block_indices[0];
    berth_kv_sequence_release(first);
    berth_idle_result idle;
    assert_ok(berth_idle(kit.exec.ctx, 1000000, &idle));
    assert_int_equal(kv_kit_stats(&kit).moved_blocks, 0);
    assert_int_equal(second->blocks.items[0], block);
    assert_ok(berth_kv_batch_end(batch, true));
    assert_ok(berth_idle(kit.exec.ctx, 1000000, &idle));
    assert_int_equal(kv_kit_stats(&kit).moved_blocks, 1);
    assert_int_equal(second->blocks.items[0], 1);
    berth_kv_sequence_release(rest);
    berth_kv_sequence_release(second);
    kv_kit_close(&kit);
}

static void a_trim_keeps_what_it_is_told(void** state) {
    (void)state;
    kv_kit kit;
    const berth_kv_options options = kv_kit_options();
    kv_kit_open(&kit, &options, 8);
    berth_kv_sequence* a = kv_kit_begin(&kit, "m");
    assert_ok(kv_kit_add(&kit, a, 0, 4 * 40));
    berth_kv_sequence_release(a);
    assert_int_equal(mapped(&kit), 5 * GRANULE);
    uint64_t released;
    assert_ok(berth_kv_cache_trim(kit.cache, 2 * GRANULE, &released));
    assert_int_equal(released, 3 * GRANULE);
    assert_int_equal(kv_kit_stats(&kit).cached_blocks, 16);
    assert_ok(berth_kv_cache_trim(kit.cache, 0, &released));
    assert_int_equal(mapped(&kit), 0);
    // it stays usable
    berth_kv_sequence* b = kv_kit_begin(&kit, "m");
    assert_ok(kv_kit_add(&kit, b, 0, 4));
    berth_kv_sequence_release(b);
    kv_kit_close(&kit);
}

// K5.
static void a_trim_of_the_runtime_accounts_for_every_byte(void** state) {
    (void)state;
    kv_kit kit;
    const berth_kv_options options = kv_kit_options();
    kv_kit_open(&kit, &options, 8);
    berth_kv_sequence* a = kv_kit_begin(&kit, "m");
    assert_ok(kv_kit_add(&kit, a, 0, 4 * 17));
    berth_trim_result result;
    assert_ok(berth_trim(kit.exec.runtime, 0, &result));
    const uint64_t used = 17 * kit.layout.block_bytes;
    assert_int_equal(result.in_use_bytes, used);
    assert_int_equal(result.fragmented_bytes, 3 * GRANULE - used);
    assert_int_equal(result.busy_bytes, 0);
    berth_kv_sequence_release(a);
    kv_kit_close(&kit);
}

static void tables_stay_bounded_while_sequences_come_and_go(void** state) {
    (void)state;
    kv_kit kit;
    berth_kv_options options = kv_kit_options();
    options.max_bytes = 4 * GRANULE;
    kv_kit_open(&kit, &options, 8);
    uint64_t bytes = 0;
    for (int32_t i = 0; i < 400; ++i) {
        char key[16];
        (void)snprintf(key, sizeof key, "%03d", (int)i);
        berth_kv_match match;
        berth_kv_sequence* a = kv_kit_find(&kit, key, 7 * i, 50, &match);
        assert_ok(kv_kit_add(&kit, a, 7 * i, 50));
        berth_kv_sequence_release(a);
        if (i == 100) bytes = kv_kit_stats(&kit).metadata_bytes;
        if (i > 100) assert_int_equal(kv_kit_stats(&kit).metadata_bytes, bytes);
    }
    kv_kit_close(&kit);
}

static void the_last_block_fits_where_blocks_are_larger_than_granules(void** state) {
    (void)state;
    kv_kit kit;
    berth_kv_options options = kv_kit_options();
    options.block_tokens = 48; // a granule and a half
    options.max_bytes = 3 * GRANULE;
    kv_kit_open(&kit, &options, 3);
    assert_int_equal(kit.layout.block_bytes * 2, 3 * GRANULE);
    assert_int_equal(kit.layout.max_blocks, 2);
    berth_kv_sequence* a = kv_kit_begin(&kit, "m");
    assert_ok(kv_kit_add(&kit, a, 0, 48));
    assert_int_equal(mapped(&kit), 2 * GRANULE);
    berth_kv_room room;
    assert_ok(berth_kv_cache_query_room(kit.cache, &room));
    assert_int_equal(room.mappable_blocks, 1);
    assert_ok(kv_kit_add(&kit, a, 48, 48));
    assert_int_equal(mapped(&kit), 3 * GRANULE);
    assert_true(berth_kv_cache_is_valid(kit.cache));
    berth_kv_sequence_release(a);
    kv_kit_close(&kit);
}

static void blocks_that_straddle_granules_take_no_more_of_them_than_they_need(void** state) {
    (void)state;
    kv_kit kit;
    berth_kv_options options = kv_kit_options();
    options.block_tokens = 24; // three quarters of a granule
    kv_kit_open(&kit, &options, 8);
    assert_ok(berth_runtime_set_quota(kit.exec.runtime, BERTH_MEMORY_KV, 3 * GRANULE));
    berth_kv_sequence* a = kv_kit_begin(&kit, "m");
    assert_ok(kv_kit_add(&kit, a, 0, 24));
    assert_int_equal(mapped(&kit), GRANULE);
    berth_kv_room room;
    assert_ok(berth_kv_cache_query_room(kit.cache, &room));
    assert_int_equal(room.mappable_blocks, 3);
    assert_ok(kv_kit_add(&kit, a, 24, 24 * 3));
    assert_int_equal(mapped(&kit), 3 * GRANULE);
    assert_true(berth_kv_cache_is_valid(kit.cache));
    berth_kv_sequence_release(a);
    kv_kit_close(&kit);
}

static void tokens_beyond_all_room_take_no_host_memory(void** state) {
    (void)state;
    kv_kit kit;
    const berth_kv_options options = kv_kit_options();
    kv_kit_open(&kit, &options, 8);
    berth_kv_sequence* a = kv_kit_begin(&kit, "m");
    const uint64_t bytes = kv_kit_stats(&kit).metadata_bytes;
    const int32_t tokens[64] = {1}; // nobody reads on where nothing is found
    const berth_kv_part part = {a, tokens, INT32_MAX};
    berth_kv_batch* batch;
    assert_fails(berth_kv_batch_begin(kit.cache, &part, 1, &batch),
                 BERTH_ERR_OUT_OF_MEMORY,
                 "blocks of 8192 bytes are needed");
    // a place for its part is all that it took
    assert_in_range(kv_kit_stats(&kit).metadata_bytes, bytes, bytes + 64);
    berth_kv_match match;
    assert_ok(berth_kv_sequence_match(a, tokens, INT64_MAX, &match));
    assert_int_equal(match.tokens, 0);
    assert_true(kv_kit_stats(&kit).metadata_bytes < bytes + 65536);
    assert_int_equal(berth_kv_sequence_growth(a, INT64_MAX), INT64_MAX / 4 + 1);
    berth_kv_sequence_release(a);
    kv_kit_close(&kit);
}

static void nothing_in_place_of_a_cache_or_a_result_is_survived(void** state) {
    (void)state;
    kv_kit kit;
    const berth_kv_options options = kv_kit_options();
    kv_kit_open(&kit, &options, 8);
    berth_kv_layout layout = {.max_blocks = 1};
    berth_kv_cache_layout(NULL, &layout);
    assert_int_equal(layout.max_blocks, 0);
    berth_kv_cache_layout(kit.cache, NULL);
    assert_null(berth_kv_cache_base(NULL));
    berth_kv_cache_set_recompute_cost(NULL, 1.0);
    assert_fails(berth_kv_cache_query_room(kit.cache, NULL),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "a place for the room");
    berth_kv_cache_query_stats(kit.cache, NULL);
    kv_kit_close(&kit);
}

static void a_cache_that_cannot_be_is_refused(void** state) {
    (void)state;
    kv_kit kit;
    const berth_kv_options good = kv_kit_options();
    kv_kit_open(&kit, &good, 8);
    berth_kv_cache* cache;
    berth_kv_options bad = good;
    bad.layers = 0;
    assert_fails(berth_kv_cache_create(kit.exec.ctx, &bad, &cache),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "layers is 0");
    assert_null(cache);
    bad = good;
    bad.block_tokens = 1025;
    assert_fails(berth_kv_cache_create(kit.exec.ctx, &bad, &cache),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "block_tokens is 1025, not 1 to 1024");
    bad = good;
    bad.dtype = BERTH_I32;
    assert_fails(berth_kv_cache_create(kit.exec.ctx, &bad, &cache), BERTH_ERR_UNSUPPORTED, "q8_0");
    bad = good;
    bad.dtype = BERTH_Q8_0;
    bad.key_dims = 40;
    assert_fails(berth_kv_cache_create(kit.exec.ctx, &bad, &cache),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "whole blocks of q8_0");
    bad = good;
    bad.block_tokens = 1024;
    bad.layers = 1;
    bad.kv_heads = 64;
    bad.key_dims = 1024;
    assert_fails(berth_kv_cache_create(kit.exec.ctx, &bad, &cache),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "one block of the KV cache");
    assert_fails(
        berth_kv_cache_create(NULL, &good, &cache), BERTH_ERR_INVALID_ARGUMENT, "a context");
    kv_kit_close(&kit);
}

static void a_cache_whose_creation_fails_anywhere_leaves_nothing(void** state) {
    (void)state;
    failing_host host;
    failing_host_init(&host);
    exec_kit exec;
    const berth_option_setting settings[] = {{"device", "sim"}, {"threads", "1"}};
    assert_ok(exec_kit_open(&exec, &host.allocator, settings, 2));
    const berth_kv_options options = kv_kit_options();
    bool has_failed = true;
    for (size_t nth = 1; has_failed; ++nth) {
        const size_t before = host.live_blocks;
        failing_host_fail(&host, nth, false);
        berth_kv_cache* cache;
        const berth_status status = berth_kv_cache_create(exec.ctx, &options, &cache);
        has_failed = failing_host_has_failed(&host);
        failing_host_fail(&host, 0, false);
        // of addresses it may do with fewer
        if (status != BERTH_OK) assert_int_equal(status, BERTH_ERR_OUT_OF_MEMORY);
        assert_int_equal(cache == NULL, status != BERTH_OK);
        berth_kv_cache_release(cache);
        // tensors' objects stay with the context
        if (nth > 8) assert_int_equal(host.live_blocks, before);
    }
    exec_kit_close(&exec);
    assert_int_equal(host.live_blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_mapped_as_they_are_needed),
        cmocka_unit_test(a_batch_without_room_is_refused_with_the_numbers),
        cmocka_unit_test(a_quota_bounds_the_cache),
        cmocka_unit_test(cached_blocks_make_room_for_new_ones),
        cmocka_unit_test(cached_blocks_are_given_up_for_tensors),
        cmocka_unit_test(blocks_in_use_are_not_given_up),
        cmocka_unit_test(holes_are_packed_while_sequences_live),
        cmocka_unit_test(no_held_block_moves_while_a_batch_is_open),
        cmocka_unit_test(a_trim_keeps_what_it_is_told),
        cmocka_unit_test(a_trim_of_the_runtime_accounts_for_every_byte),
        cmocka_unit_test(tables_stay_bounded_while_sequences_come_and_go),
        cmocka_unit_test(the_last_block_fits_where_blocks_are_larger_than_granules),
        cmocka_unit_test(blocks_that_straddle_granules_take_no_more_of_them_than_they_need),
        cmocka_unit_test(tokens_beyond_all_room_take_no_host_memory),
        cmocka_unit_test(nothing_in_place_of_a_cache_or_a_result_is_survived),
        cmocka_unit_test(a_cache_that_cannot_be_is_refused),
        cmocka_unit_test(a_cache_whose_creation_fails_anywhere_leaves_nothing),
    };
    return cmocka_run_group_tests_name("KV memory", tests, NULL, NULL);
}
