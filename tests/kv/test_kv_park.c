// SPDX-License-Identifier: Apache-2.0
// Parking: what a sequence gives up, what comes back, and what it costs.
#include <stdio.h>

#include "kv_kit.h"

enum { GRANULE = 65536 };

static void a_dropped_sequence_finds_what_is_still_cached(void** state) {
    (void)state;
    kv_kit kit;
    const berth_kv_options options = kv_kit_options();
    kv_kit_open(&kit, &options, 8);
    berth_kv_sequence* a = kv_kit_begin(&kit, "m");
    assert_ok(kv_kit_add(&kit, a, 0, 10));
    berth_kv_parked parked;
    assert_ok(berth_kv_sequence_park(a, BERTH_KV_PARK_DROP, &parked));
    assert_int_equal(parked.how, BERTH_KV_PARK_DROP);
    assert_int_equal(parked.cached_blocks, 3);
    assert_int_equal(parked.freed_blocks, 0);
    assert_int_equal(berth_kv_sequence_length(a), 10);
    assert_fails(kv_kit_add(&kit, a, 10, 1), BERTH_ERR_INVALID_ARGUMENT, "parked");
    int64_t length;
    assert_ok(berth_kv_sequence_resume(a, &length));
    assert_int_equal(length, 10);
    // evicted meanwhile: nothing comes back
    assert_ok(berth_kv_sequence_park(a, BERTH_KV_PARK_DROP, NULL));
    assert_ok(berth_kv_cache_trim(kit.cache, 0, NULL));
    assert_ok(berth_kv_sequence_resume(a, &length));
    assert_int_equal(length, 0);
    assert_int_equal(berth_kv_sequence_length(a), 0);
    berth_kv_sequence_release(a);
    kv_kit_close(&kit);
}

static void a_copy_in_host_memory_brings_all_back(void** state) {
    (void)state;
    kv_kit kit;
    berth_kv_options options = kv_kit_options();
    options.park_bytes = 4 * GRANULE;
    kv_kit_open(&kit, &options, 8);
    berth_kv_sequence* a = kv_kit_begin(&kit, "m");
    assert_ok(kv_kit_add(&kit, a, 0, 10));
    assert_ok(berth_context_synchronize(kit.exec.ctx));
    for (size_t i = 0; i < 3; ++i)
        memset(berth_kv_blocks_data(&kit.cache->blocks, a->blocks.items[i]),
               (int)(0x30 + i),
               kit.layout.block_bytes);
    berth_kv_parked parked;
    assert_ok(berth_kv_sequence_park(a, BERTH_KV_PARK_HOST, &parked));
    assert_int_equal(parked.how, BERTH_KV_PARK_HOST);
    assert_int_equal(parked.host_bytes, 3 * kit.layout.block_bytes);
    assert_int_equal(kv_kit_stats(&kit).parked_bytes, parked.host_bytes);
    assert_ok(berth_kv_cache_trim(kit.cache, 0, NULL));
    int64_t length;
    assert_ok(berth_kv_sequence_resume(a, &length));
    assert_int_equal(length, 10);
    assert_int_equal(kv_kit_stats(&kit).parked_bytes, 0);
    assert_ok(berth_context_synchronize(kit.exec.ctx));
    for (size_t i = 0; i < 3; ++i) {
        const unsigned char* data = berth_kv_blocks_data(&kit.cache->blocks, a->blocks.items[i]);
        assert_int_equal(data[0], 0x30 + i);
        assert_int_equal(data[kit.layout.block_bytes - 1], 0x30 + i);
    }
    berth_kv_sequence_release(a);
    kv_kit_close(&kit);
}

static void host_memory_for_parking_is_bounded(void** state) {
    (void)state;
    kv_kit kit;
    berth_kv_options options = kv_kit_options();
    options.park_bytes = 2 * 8192;
    kv_kit_open(&kit, &options, 8);
    berth_kv_sequence* a = kv_kit_begin(&kit, "m");
    assert_ok(kv_kit_add(&kit, a, 0, 10));
    assert_fails(berth_kv_sequence_park(a, BERTH_KV_PARK_HOST, NULL),
                 BERTH_ERR_OUT_OF_MEMORY,
                 "24576 bytes");
    assert_int_equal(kv_kit_stats(&kit).held_blocks, 3);
    berth_kv_parked parked;
    assert_ok(berth_kv_sequence_park(a, BERTH_KV_PARK_CHEAPER, &parked));
    assert_int_equal(parked.how, BERTH_KV_PARK_DROP);
    berth_kv_sequence_release(a);
    kv_kit_close(&kit);
}

static void the_cheaper_way_is_taken(void** state) {
    (void)state;
    kv_kit kit;
    berth_kv_options options = kv_kit_options();
    options.park_bytes = 4 * GRANULE;
    kv_kit_open(&kit, &options, 8);
    berth_kv_sequence* a = kv_kit_begin(&kit, "m");
    assert_ok(kv_kit_add(&kit, a, 0, 10));
    berth_kv_parked parked;
    int64_t length;
    berth_kv_cache_set_recompute_cost(kit.cache, 1e9); // a second a token
    assert_ok(berth_kv_sequence_park(a, BERTH_KV_PARK_CHEAPER, &parked));
    assert_int_equal(parked.how, BERTH_KV_PARK_HOST);
    assert_ok(berth_kv_sequence_resume(a, &length));
    berth_kv_cache_set_recompute_cost(kit.cache, 1e-9);
    assert_ok(berth_kv_sequence_park(a, BERTH_KV_PARK_CHEAPER, &parked));
    assert_int_equal(parked.how, BERTH_KV_PARK_DROP);
    berth_kv_sequence_release(a);
    kv_kit_close(&kit);
}

static void a_parked_sequence_says_what_it_gave_up(void** state) {
    (void)state;
    kv_kit kit;
    const berth_kv_options options = kv_kit_options();
    kv_kit_open(&kit, &options, 8);
    const berth_kv_sequence_options hidden = {.struct_size = sizeof hidden, .is_private = true};
    berth_kv_sequence* a;
    berth_kv_sequence* b;
    assert_ok(berth_kv_sequence_create(kit.cache, &hidden, &a));
    assert_ok(kv_kit_add(&kit, a, 0, 8));
    assert_ok(berth_kv_sequence_fork(a, &b));
    assert_ok(kv_kit_add(&kit, a, 8, 8));
    berth_kv_parked parked;
    assert_ok(berth_kv_sequence_park(a, BERTH_KV_PARK_DROP, &parked));
    assert_int_equal(parked.freed_blocks, 2);
    assert_int_equal(parked.shared_blocks, 2);
    assert_int_equal(parked.cached_blocks, 0);
    assert_int_equal(kv_kit_stats(&kit).held_blocks, 2);
    assert_fails(
        berth_kv_sequence_park(a, BERTH_KV_PARK_DROP, NULL), BERTH_ERR_STATE, "parked already");
    assert_fails(berth_kv_sequence_resume(b, NULL), BERTH_ERR_STATE, "not parked");
    berth_kv_sequence_release(a);
    berth_kv_sequence_release(b);
    kv_kit_close(&kit);
}

static void a_sequence_without_room_stays_parked(void** state) {
    (void)state;
    kv_kit kit;
    berth_kv_options options = kv_kit_options();
    options.park_bytes = 4 * GRANULE;
    options.max_bytes = GRANULE; // 8 blocks
    kv_kit_open(&kit, &options, 8);
    berth_kv_sequence* a = kv_kit_begin(&kit, "m");
    berth_kv_sequence* b = kv_kit_begin(&kit, "n");
    assert_ok(kv_kit_add(&kit, a, 0, 4 * 5));
    assert_ok(berth_kv_sequence_park(a, BERTH_KV_PARK_HOST, NULL));
    assert_ok(kv_kit_add(&kit, b, 100, 4 * 7));
    int64_t length;
    assert_fails(berth_kv_sequence_resume(a, &length), BERTH_ERR_OUT_OF_MEMORY, "blocks");
    assert_int_equal(berth_kv_sequence_length(a), 4 * 5);
    assert_true(berth_kv_cache_is_valid(kit.cache));
    berth_kv_sequence_release(b);
    assert_ok(berth_kv_sequence_resume(a, &length));
    assert_int_equal(length, 4 * 5);
    berth_kv_sequence_release(a);
    kv_kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dropped_sequence_finds_what_is_still_cached),
        cmocka_unit_test(a_copy_in_host_memory_brings_all_back),
        cmocka_unit_test(host_memory_for_parking_is_bounded),
        cmocka_unit_test(the_cheaper_way_is_taken),
        cmocka_unit_test(a_parked_sequence_says_what_it_gave_up),
        cmocka_unit_test(a_sequence_without_room_stays_parked),
    };
    return cmocka_run_group_tests_name("KV parking", tests, NULL, NULL);
}
