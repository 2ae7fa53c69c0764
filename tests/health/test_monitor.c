// SPDX-License-Identifier: Apache-2.0
// The monitor's figures against a walk over all of a pool, its samples, and how figures of several
// pools make one.
#include "memory/memory_kit.h"

#include "health/compactor.h"
#include "health/monitor.h"
#include "kit/movers.h"
#include "memory/pool_internal.h"

#define HORIZON UINT64_C(64)
#define BLOCKS 160u
#define CROWD 2000u

typedef struct watched {
    berth_pool* pool;
    berth_monitor* monitor;
    berth_block blocks[BLOCKS];
    bool is_out[BLOCKS];
} watched;

static mover_owner crowd[CROWD];

static void watch(const memory_kit* kit, watched* w) {
    memset(w, 0, sizeof *w);
    const berth_pool_config config = {
        .host = kit->host, .store = kit->store, .stream = kit->stream};
    assert_ok(berth_pool_create(&config, &w->pool));
    const berth_monitor_config monitor = {
        .host = kit->host,
        .pool = w->pool,
        .horizon_takes = HORIZON,
        .trigger = {.fi_threshold = 0.5, .cooldown_ns = 1000},
        .guides_placement = true,
    };
    assert_ok(berth_monitor_create(&monitor, &w->monitor));
}

static void give_all(watched* w) {
    for (uint32_t i = 0; i < BLOCKS; i++) {
        if (w->is_out[i]) berth_pool_give(w->pool, &w->blocks[i]);
        w->is_out[i] = false;
    }
}

static void stop(watched* w) {
    give_all(w);
    berth_monitor_destroy(w->monitor);
    berth_pool_destroy(w->pool);
}

static bool try_take(watched* w, uint32_t i, uint64_t size) {
    const berth_pool_request request = {.size_bytes = size};
    w->is_out[i] = berth_pool_take(w->pool, &request, &w->blocks[i]) == BERTH_OK;
    return w->is_out[i];
}

static berth_health_stats figures(const watched* w) {
    berth_health_sums sums;
    berth_health_stats stats;
    berth_health_sums_init(&sums);
    berth_monitor_add(w->monitor, &sums);
    berth_health_sums_finish(&sums, &stats);
    return stats;
}

static uint64_t placeable_in(const berth_extent* extent, uint64_t size) {
    uint64_t start = extent->start;
    if (size >= KIT_GRANULE) start = (start + KIT_GRANULE - 1) / KIT_GRANULE * KIT_GRANULE;
    const uint64_t end = extent->start + extent->size;
    return start < end ? (end - start) / size * size : 0;
}

/// What a walk over every extent finds, where blocks of `requested` bytes are out.
static void compare_figures(const watched* w, uint64_t requested) {
    const berth_health_stats stats = figures(w);
    uint64_t free_bytes = 0, used = 0, largest = 0;
    uint64_t placeable[3] = {0};
    static const uint64_t sizes[3] = {UINT64_C(64) << 10, UINT64_C(1) << 20, KIT_GRANULE};
    const berth_extents* extents = &w->pool->extents;
    for (uint32_t i = 1; i < extents->record_count; i++) {
        const berth_extent* extent = berth_extents_at(extents, i);
        if (extent->state == BERTH_EXTENT_USED) used += extent->size;
        if (extent->state != BERTH_EXTENT_FREE) continue;
        free_bytes += extent->size;
        if (extent->size > largest) largest = extent->size;
        for (int k = 0; k < 3; k++)
            placeable[k] += placeable_in(extent, sizes[k]);
    }
    assert_int_equal(stats.requested_bytes, requested);
    assert_int_equal(stats.reserved_bytes, used);
    assert_int_equal(stats.free_bytes, free_bytes);
    assert_int_equal(stats.placeable_64k_bytes, placeable[0]);
    assert_int_equal(stats.placeable_1m_bytes, placeable[1]);
    assert_int_equal(stats.placeable_granule_bytes, placeable[2]);
    assert_true(stats.largest_free_bytes >= largest);
    assert_true(stats.largest_free_bytes <= largest + largest / 16);
    const double external = free_bytes > 0 ? 1 - (double)largest / (double)free_bytes : 0;
    assert_true((double)stats.external_ppm <= external * 1e6 + 1);
    assert_true((double)stats.external_ppm >= external * 1e6 - 1e6 / 16 - 1);
    const double fi = free_bytes > 0 ? 1 - (double)placeable[2] / (double)free_bytes : 0;
    assert_true((double)stats.fi_granule_ppm <= fi * 1e6 + 1);
    assert_true((double)stats.fi_granule_ppm >= fi * 1e6 - 1);
    const double internal = used > 0 ? 1 - (double)requested / (double)used : 0;
    assert_true((double)stats.internal_ppm <= internal * 1e6 + 1);
    assert_true((double)stats.internal_ppm >= internal * 1e6 - 1);
    assert_true(stats.fi_ppm <= 1000000 && stats.fi_predicted_ppm <= 1000000);
    assert_true(stats.event_ppm <= 1000000);
}

static void compare_with_walk(const watched* w) {
    uint64_t requested = 0;
    for (uint32_t i = 0; i < BLOCKS; i++)
        requested += w->is_out[i] ? w->blocks[i].size_bytes : 0;
    compare_figures(w, requested);
}

static void figures_agree_with_a_walk_over_random_pools(void** state) {
    memory_kit* kit = *state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        watched w;
        watch(kit, &w);
        test_random random = test_random_make(seed);
        for (uint32_t turn = 0; turn < 3000; turn++) {
            const uint32_t i = (uint32_t)test_random_below(&random, BLOCKS);
            const uint64_t limit = test_random_one_in(&random, 8) ? 8 * KIT_GRANULE : KIT_GRANULE;
            if (w.is_out[i]) {
                berth_pool_give(w.pool, &w.blocks[i]);
                w.is_out[i] = false;
            } else {
                (void)try_take(&w, i, test_random_below(&random, limit));
            }
            if (test_random_one_in(&random, 500)) berth_pool_trim(w.pool, KIT_GRANULE, true);
            if (turn % 10 == 0) compare_with_walk(&w);
        }
        stop(&w);
    }
}

/// One of 10,000 operations on a crowd of blocks that can be moved; changes the bytes requested.
static uint64_t change(const memory_kit* kit, watched* w, test_random* random, uint64_t requested) {
    mover_owner* owner = &crowd[test_random_below(random, CROWD)];
    if (owner->is_out) {
        requested -= owner->block.size_bytes;
        mover_give(w->pool, owner);
        return requested;
    }
    const uint64_t shift = 8 + test_random_below(random, 10);
    const uint64_t size = 1 + test_random_below(random, UINT64_C(1) << shift);
    const berth_status status = mover_take(w->pool, kit->stream, owner, size, (unsigned char)shift);
    return status == BERTH_OK ? requested + size : requested;
}

static void figures_of_a_crowd_agree_while_it_is_moved_and_trimmed(void** state) {
    (void)state;
    memory_kit kit;
    memory_kit_init(
        &kit,
        &(berth_sim_options){.capacity_bytes = 256 * KIT_GRANULE, .granule_bytes = KIT_GRANULE});
    const berth_compact_budget budget = {.bytes = KIT_GRANULE, .ns = UINT64_MAX / 2};
    watched w;
    berth_compactor compactor;
    watch(&kit, &w);
    berth_compactor_init(&compactor, kit.host, w.pool);
    test_random random = test_random_make(5);
    uint64_t requested = 0, blocks = 0;
    for (uint32_t turn = 1; turn <= 10000; turn++) {
        requested = change(&kit, &w, &random, requested);
        if (test_random_one_in(&random, 20)) (void)berth_compactor_tidy(&compactor, &budget);
        if (test_random_one_in(&random, 400)) berth_pool_trim(w.pool, 8 * KIT_GRANULE, true);
        if (turn % 50 != 0) continue;
        compare_figures(&w, requested);
        assert_true(berth_pool_is_valid(w.pool));
    }
    assert_true(compactor.stats.moved_blocks > 100);
    for (uint32_t i = 0; i < CROWD; i++) {
        if (!crowd[i].is_out) continue;
        mover_check(&crowd[i]);
        mover_give(w.pool, &crowd[i]);
        blocks++;
    }
    assert_true(blocks > 500);
    compare_figures(&w, 0);
    berth_compactor_fini(&compactor);
    stop(&w);
    memory_kit_fini(&kit);
}

static void an_empty_pool_is_in_good_health(void** state) {
    watched w;
    watch(*state, &w);
    const berth_health_stats stats = figures(&w);
    const berth_health_stats none = {0};
    assert_memory_equal(&stats, &none, sizeof stats);
    stop(&w);
}

/// 20 granules with a block of five eighths each; the rest of each is free.
static void make_comb(watched* w) {
    for (uint32_t i = 0; i < 40; i++)
        assert_true(try_take(w, i, KIT_GRANULE / 8 * (i % 2 == 0 ? 5 : 3)));
    for (uint32_t i = 1; i < 40; i += 2) {
        berth_pool_give(w->pool, &w->blocks[i]);
        w->is_out[i] = false;
    }
}

static void the_index_is_high_while_no_granule_is_whole(void** state) {
    watched w;
    watch(*state, &w);
    make_comb(&w);
    berth_monitor_look(w.monitor, false);
    assert_int_equal(figures(&w).fi_granule_ppm, 1000000);
    assert_int_equal(figures(&w).fi_ppm, 1000000);
    give_all(&w);
    assert_int_equal(figures(&w).fi_granule_ppm, 0);
    assert_int_equal(figures(&w).fi_ppm, 0);
    compare_with_walk(&w);
    stop(&w);
}

static void samples_are_kept_in_a_bounded_ring(void** state) {
    watched w;
    watch(*state, &w);
    berth_monitor_sample samples[2 * BERTH_MONITOR_SAMPLES];
    assert_int_equal(berth_monitor_query_samples(w.monitor, samples, 4), 0);
    for (uint32_t i = 0; i < 3; i++)
        berth_monitor_look(w.monitor, false);
    assert_int_equal(berth_monitor_query_samples(w.monitor, samples, 2), 2);
    assert_int_equal(berth_monitor_query_samples(w.monitor, samples, 100), 3);
    for (uint32_t i = 0; i < 20 * HORIZON; i++) {
        assert_true(try_take(&w, 0, KIT_GRANULE));
        berth_pool_give(w.pool, &w.blocks[0]);
        w.is_out[0] = false;
    }
    const uint32_t got = berth_monitor_query_samples(w.monitor, samples, 2 * BERTH_MONITOR_SAMPLES);
    assert_int_equal(got, BERTH_MONITOR_SAMPLES);
    for (uint32_t i = 0; i + 1 < got; i++)
        assert_int_equal(samples[i].takes - samples[i + 1].takes, HORIZON / BERTH_FORECAST_SAMPLES);
    assert_int_equal(figures(&w).samples, 3 + 20 * BERTH_FORECAST_SAMPLES - 1);
    stop(&w);
}

static void rates_tell_what_is_taken_and_what_comes_back(void** state) {
    watched w;
    watch(*state, &w);
    for (uint32_t i = 0; i < 10 * HORIZON; i++) {
        assert_true(try_take(&w, 0, KIT_GRANULE));
        berth_pool_give(w.pool, &w.blocks[0]);
        w.is_out[0] = false;
    }
    const berth_health_stats stats = figures(&w);
    assert_true(stats.take_rate_bytes >= 990 * KIT_GRANULE);
    assert_true(stats.take_rate_bytes <= 1010 * KIT_GRANULE);
    assert_true(stats.give_rate_bytes >= 980 * KIT_GRANULE);
    assert_true(stats.give_rate_bytes <= 1010 * KIT_GRANULE);
    stop(&w);
}

static void moves_though_enough_is_free_are_foretold_counted_and_acted_on(void** state) {
    memory_kit* kit = *state;
    watched w;
    watch(kit, &w);
    for (uint32_t turn = 0; turn < 300; turn++) {
        // a comb of granules, then a request that fits no gap of it
        for (uint32_t i = 0; i < 40; i++)
            assert_true(try_take(&w, i, KIT_GRANULE));
        for (uint32_t i = 0; i < 40; i += 2) {
            berth_pool_give(w.pool, &w.blocks[i]);
            w.is_out[i] = false;
        }
        (void)try_take(&w, 50, 12 * KIT_GRANULE);
        give_all(&w);
        berth_pool_trim(w.pool, 0, true);
    }
    const berth_health_stats stats = figures(&w);
    assert_int_equal(stats.moved, 300);
    assert_true(stats.shifted_bytes >= 300 * KIT_GRANULE);
    assert_true(stats.true_positives > 0);
    assert_true(stats.recall_ppm > 900000);
    assert_int_equal(stats.requests,
                     stats.found + stats.grew + stats.spread + stats.moved + stats.refused +
                         stats.full);
    stop(&w);
}

static void a_pass_that_ends_takes_the_wish_back(void** state) {
    watched w;
    watch(*state, &w);
    make_comb(&w);
    berth_monitor_look(w.monitor, false);
    assert_int_equal(berth_monitor_query_wanted(w.monitor), BERTH_TRIGGER_FI);
    berth_monitor_finish_pass(w.monitor, 0);
    assert_int_equal(berth_monitor_query_wanted(w.monitor), BERTH_TRIGGER_NONE);
    assert_int_equal(figures(&w).wanted_for_fi, 1);
    stop(&w);
}

static void placement_is_cautious_while_an_event_is_expected(void** state) {
    watched w;
    watch(*state, &w);
    uint64_t cautious = 0;
    berth_monitor_sample last;
    for (uint32_t turn = 0; turn < 100; turn++) {
        make_comb(&w);
        (void)try_take(&w, 60, 4 * KIT_GRANULE);
        assert_int_equal(berth_monitor_query_samples(w.monitor, &last, 1), 1);
        assert_int_equal(w.pool->is_cautious, last.is_expected);
        cautious += w.pool->is_cautious;
        give_all(&w);
        berth_pool_trim(w.pool, turn % 2 == 0 ? 0 : UINT64_MAX, true);
    }
    assert_true(cautious > 0);
    stop(&w);
}

static void figures_of_two_pools_add_up(void** state) {
    memory_kit* kit = *state;
    watched a, b;
    watch(kit, &a);
    watch(kit, &b);
    make_comb(&a);
    for (uint32_t i = 0; i < 8; i++)
        assert_true(try_take(&b, i, KIT_GRANULE));
    for (uint32_t i = 0; i < 8; i += 2) {
        berth_pool_give(b.pool, &b.blocks[i]);
        b.is_out[i] = false;
    }
    const berth_health_stats one = figures(&a), two = figures(&b);
    berth_health_sums sums;
    berth_health_stats both;
    berth_health_sums_init(&sums);
    berth_monitor_add(a.monitor, &sums);
    berth_monitor_add(b.monitor, &sums);
    berth_health_sums_finish(&sums, &both);
    assert_int_equal(both.free_bytes, one.free_bytes + two.free_bytes);
    assert_int_equal(both.requests, one.requests + two.requests);
    assert_true(both.fi_granule_ppm < one.fi_granule_ppm);
    assert_true(both.fi_granule_ppm > two.fi_granule_ppm);
    assert_true(both.event_ppm >= one.event_ppm && both.event_ppm >= two.event_ppm);
    stop(&a);
    stop(&b);
}

static void a_monitor_without_host_memory_is_refused(void** state) {
    memory_kit* kit = *state;
    const berth_pool_config config = {
        .host = kit->host, .store = kit->store, .stream = kit->stream};
    berth_pool* pool;
    assert_ok(berth_pool_create(&config, &pool));
    const berth_monitor_config monitor = {.host = kit->host, .pool = pool, .horizon_takes = 1};
    berth_monitor* none;
    failing_host_fail(&kit->failing, 1, false);
    assert_fails(berth_monitor_create(&monitor, &none), BERTH_ERR_OUT_OF_MEMORY, "monitor");
    assert_null(none);
    berth_monitor_destroy(NULL);
    berth_pool_destroy(pool);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, memory_kit_setup, memory_kit_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(figures_agree_with_a_walk_over_random_pools),
        cmocka_unit_test(figures_of_a_crowd_agree_while_it_is_moved_and_trimmed),
        TEST(an_empty_pool_is_in_good_health),
        TEST(the_index_is_high_while_no_granule_is_whole),
        TEST(samples_are_kept_in_a_bounded_ring),
        TEST(rates_tell_what_is_taken_and_what_comes_back),
        TEST(moves_though_enough_is_free_are_foretold_counted_and_acted_on),
        TEST(a_pass_that_ends_takes_the_wish_back),
        TEST(placement_is_cautious_while_an_event_is_expected),
        TEST(figures_of_two_pools_add_up),
        TEST(a_monitor_without_host_memory_is_refused),
    };
    return cmocka_run_group_tests_name("monitor", tests, NULL, NULL);
}
