// SPDX-License-Identifier: Apache-2.0
// Each rung of the ladder alone: scenes in which one rung, and no other, saves a request. It is met
// while that rung is all there is, and refused while that rung alone is missing. And whatever call
// of the device or of the host fails on the way, nothing is lost.
#include "exec_kit.h"

#include <stdio.h>

#include "berth/memory.h"
#include "memory/page_store_internal.h"

#define MIB (INT64_C(1) << 20)

enum { PLACES = 32, MOST_SCATTERED = 32, TENSORS = 4 * MOST_SCATTERED + 1 };

/// Two contexts on a device of 16 MiB, and what lives in them.
typedef struct scene {
    failing_host host;
    exec_kit kit;
    berth_context* other;
    berth_kv_cache* cache;          ///< of `other`; may be NULL
    berth_tensor* tensors[TENSORS]; ///< each filled with its index
    berth_reclaimer* away[PLACES];  ///< rungs taken out of the ladder
    size_t away_count;
} scene;

/// One rung, and how it comes to be needed.
typedef struct scenario {
    const char* name;
    berth_rung rung;
    const char* device;
    void (*arrange)(scene* s);
    /// Makes the request and gives back what it got; true if it was met.
    bool (*ask)(scene* s);
    const char* compact; ///< off where it would do what the rung does, too
} scenario;

// ---- The ladder's places.

/// Takes the places of `rung` out of the ladder, or, if `others`, all places of other rungs.
static void take_away(scene* s, berth_rung rung, bool others) {
    berth_store* store = s->kit.runtime->store;
    for (berth_reclaimer *place = store->reclaimers, *next; place != NULL; place = next) {
        next = place->next;
        if ((place->rung == rung) == others) continue;
        assert_true(s->away_count < PLACES);
        s->away[s->away_count++] = place;
        berth_store_remove_reclaimer(store, place);
    }
}

static void put_back(scene* s) {
    for (size_t i = 0; i < s->away_count; ++i)
        berth_store_add_reclaimer(s->kit.runtime->store, s->away[i]);
    s->away_count = 0;
}

// ---- What is in a scene.

static void open_scene(scene* s, const char* device, const char* compact) {
    *s = (scene){.away_count = 0};
    failing_host_init(&s->host);
    const berth_option_setting settings[] = {{"device", device},
                                             {"threads", "1"},
                                             {"memory", "16M"},
                                             {"keep", "all"},
                                             {"compact", compact},
                                             {"log", "off"}};
    assert_ok(exec_kit_open(&s->kit, &s->host.allocator, settings, 6));
    assert_ok(berth_context_create(s->kit.runtime, &s->other));
}

static void synchronize(const scene* s) {
    assert_ok(berth_context_synchronize(s->kit.ctx));
    assert_ok(berth_context_synchronize(s->other));
}

/// A tensor of `bytes` bytes, all of them `value`.
static berth_tensor* make(berth_context* ctx, int64_t bytes, int value) {
    return berth_full(ctx, (double)value, BERTH_U8, 1, &bytes);
}

static void put(scene* s, int index, berth_tensor* tensor) {
    assert_non_null(tensor);
    s->tensors[index] = tensor;
}

/// Fails if a tensor no longer holds what it held, or the books are wrong.
static void check(scene* s) {
    static uint8_t bytes[16 * MIB];
    for (int i = 0; i < TENSORS; ++i) {
        if (s->tensors[i] == NULL) continue;
        const size_t size = (size_t)berth_tensor_bytes(s->tensors[i]);
        assert_ok(berth_tensor_read(s->tensors[i], bytes, size));
        for (size_t at = 0; at < size; at += 61)
            assert_int_equal(bytes[at], i);
    }
    berth_store_stats stats;
    berth_store_query_stats(s->kit.runtime->store, &stats);
    uint64_t sum = 0;
    for (int owner = 0; owner < BERTH_OWNER_COUNT; ++owner)
        sum += stats.mapped_by_owner[owner];
    assert_int_equal(sum, stats.mapped_bytes);
    assert_int_equal(stats.reserved_bytes, 0);
    assert_true(stats.mapped_bytes <= stats.capacity_bytes);
    const berth_device* device = s->kit.runtime->device;
    if (device->kind == BERTH_DEVICE_SIM)
        assert_int_equal(berth_sim_query_mapped_bytes(device), stats.mapped_bytes);
    assert_true(berth_pool_is_valid(s->kit.ctx->home.pool));
    assert_true(berth_pool_is_valid(s->other->home.pool));
}

static void close_scene(scene* s) {
    put_back(s);
    check(s);
    berth_release_array(s->tensors, TENSORS);
    berth_kv_cache_release(s->cache);
    berth_context_release(s->other);
    exec_kit_close(&s->kit);
    assert_int_equal(s->host.live_blocks, 0);
    assert_false(s->host.mismatch);
}

/// Asks for a tensor of `bytes` in the first context.
static bool ask_for(const scene* s, int64_t bytes) {
    berth_context* ctx = s->kit.ctx;
    berth_release(make(ctx, bytes, 0));
    const bool is_met = berth_context_error(ctx) == BERTH_OK;
    berth_context_clear_error(ctx);
    return is_met;
}

// ---- The scenarios.

/// All memory is in tensors, two of which another thread releases while an op runs.
static void arrange_pending(scene* s) {
    for (int i = 0; i < 8; ++i)
        put(s, i, make(s->kit.ctx, 2 * MIB, i));
    synchronize(s);
}

static bool ask_pending(scene* s) {
    berth_home* home = &s->kit.ctx->home;
    const berth_pool_request request = {.size_bytes = 3 * MIB};
    berth_block block;
    assert_true(berth_home_lock(home));
    for (int i = 3; i < 6; i += 2) {
        berth_release(s->tensors[i]);
        s->tensors[i] = NULL;
    }
    const bool is_met = berth_home_take(home, &request, &block) == BERTH_OK;
    if (is_met) berth_home_give(home, &block);
    berth_home_unlock(home);
    return is_met;
}

/// The only granule that is left has nothing on it but what is ready in the front.
static void arrange_front(scene* s) {
    berth_context* ctx = s->kit.ctx;
    const int64_t granule = (int64_t)s->kit.runtime->device->granule_bytes;
    put(s, 0, make(ctx, 16 * MIB - granule, 0));
    berth_release(make(ctx, 20000, 1));
    synchronize(s);
}

/// A step declares one granule more: it is promised, and not found in the pool.
static bool ask_front(scene* s) {
    berth_context* ctx = s->kit.ctx;
    berth_step_cancel_extra(ctx);
    berth_step_reserve_extra(ctx, s->kit.runtime->device->granule_bytes);
    const bool is_met = exec_kit_begin(ctx, "step", 4) == BERTH_OK;
    if (is_met) assert_ok(berth_step_end(ctx));
    berth_context_clear_error(ctx);
    return is_met;
}

/// A frame of at least 8 MiB stays mapped between the steps that use it.
static void run_step(scene* s) {
    berth_context* ctx = s->kit.ctx;
    assert_ok(exec_kit_begin(ctx, "frame", 4));
    berth_tensor* a = make(ctx, 6 * MIB, 1);
    berth_tensor* b = make(ctx, 4 * MIB, 2);
    berth_release(a);
    berth_release(b);
    assert_ok(berth_step_end(ctx));
}

static void arrange_frames(scene* s) {
    for (int i = 0; i < 4; ++i)
        run_step(s);
    synchronize(s);
    assert_ok(berth_trim(s->kit.runtime, 0, NULL));
    run_step(s);
    synchronize(s);
    berth_store_stats stats;
    berth_store_query_stats(s->kit.runtime->store, &stats);
    assert_true(stats.mapped_by_owner[BERTH_OWNER_FRAMES] >= 8 * (uint64_t)MIB);
}

static bool ask_frames(scene* s) { return ask_for(s, 12 * MIB); }

static int64_t scattered_granules(const scene* s) {
    const int64_t all = 16 * MIB / (int64_t)s->kit.runtime->device->granule_bytes;
    return all < MOST_SCATTERED ? all : MOST_SCATTERED;
}

/// Each of the last granules has one live tensor of a quarter of it.
static void arrange_scattered(scene* s) {
    const int64_t granule = (int64_t)s->kit.runtime->device->granule_bytes;
    const int64_t granules = scattered_granules(s);
    const int count = (int)(4 * granules);
    if (granules * granule < 16 * MIB)
        put(s, count, make(s->kit.ctx, 16 * MIB - granules * granule, count));
    for (int i = 0; i < count; ++i)
        put(s, i, make(s->kit.ctx, granule / 4, i));
    for (int i = 0; i < count; ++i) {
        if (i % 4 == 0) continue;
        berth_release(s->tensors[i]);
        s->tensors[i] = NULL;
    }
    synchronize(s);
}

static bool ask_scattered(scene* s) {
    const int64_t granule = (int64_t)s->kit.runtime->device->granule_bytes;
    return ask_for(s, scattered_granules(s) / 2 * granule);
}

/// Another context has used memory and keeps it.
static void arrange_idle_other(scene* s) {
    put(s, 0, make(s->other, 2 * MIB, 0));
    berth_tensor* large = make(s->other, 13 * MIB, 1);
    assert_non_null(large);
    berth_release(large);
    assert_ok(berth_context_synchronize(s->kit.ctx));
}

static void arrange_quiet_other(scene* s) {
    arrange_idle_other(s);
    synchronize(s);
}

/// Another context has cached keys and values that nobody uses.
static void arrange_cached(scene* s) {
    enum { BLOCKS = 13 * 32, BLOCK_TOKENS = 16 };
    const berth_kv_options options = {.struct_size = sizeof options,
                                      .layers = 2,
                                      .kv_heads = 2,
                                      .key_dims = 64,
                                      .dtype = BERTH_F32}; // 32 KiB a block
    assert_ok(berth_kv_cache_create(s->other, &options, &s->cache));
    static int32_t tokens[BLOCKS * BLOCK_TOKENS];
    berth_kv_part part = {.tokens = tokens, .count = BLOCKS * BLOCK_TOKENS};
    berth_kv_batch* batch;
    assert_ok(berth_kv_sequence_create(s->cache, NULL, &part.sequence));
    assert_ok(berth_kv_batch_begin(s->cache, &part, 1, &batch));
    assert_ok(berth_kv_batch_end(batch, true));
    berth_kv_sequence_release(part.sequence);
    synchronize(s);
}

static bool ask_large(scene* s) { return ask_for(s, 10 * MIB); }

static const scenario scenarios[] = {
    {"pending releases", BERTH_RUNG_PENDING, "cpu", arrange_pending, ask_pending, "auto"},
    {"fronts", BERTH_RUNG_FRONTS, "cpu", arrange_front, ask_front, "off"},
    {"idle frames", BERTH_RUNG_FRAMES, "cpu", arrange_frames, ask_frames, "auto"},
    {"compaction", BERTH_RUNG_COMPACTION, "cpu", arrange_scattered, ask_scattered, "auto"},
    {"idle pool memory", BERTH_RUNG_TRIM, "cpu", arrange_quiet_other, ask_large, "auto"},
    {"cached KV blocks", BERTH_RUNG_CACHED, "cpu", arrange_cached, ask_large, "off"},
    {"pending releases", BERTH_RUNG_PENDING, "sim", arrange_pending, ask_pending, "auto"},
    {"fronts", BERTH_RUNG_FRONTS, "sim", arrange_front, ask_front, "off"},
    {"idle frames", BERTH_RUNG_FRAMES, "sim", arrange_frames, ask_frames, "auto"},
    {"compaction", BERTH_RUNG_COMPACTION, "sim", arrange_scattered, ask_scattered, "auto"},
    {"idle pool memory", BERTH_RUNG_TRIM, "sim", arrange_quiet_other, ask_large, "auto"},
    {"cached KV blocks", BERTH_RUNG_CACHED, "sim", arrange_cached, ask_large, "off"},
    {"pending work", BERTH_RUNG_WAIT, "sim", arrange_idle_other, ask_large, "auto"},
};

enum { SCENARIOS = sizeof scenarios / sizeof scenarios[0] };

/// Opens a scene in which the scenario's rung is all that is missing.
static void open_scenario(scene* s, const scenario* what) {
    open_scene(s, what->device, what->compact);
    what->arrange(s);
}

// ---- The tests.

static void a_request_that_one_rung_saves_needs_no_other_one(void** state) {
    (void)state;
    for (int i = 0; i < SCENARIOS; ++i) {
        const scenario* what = &scenarios[i];
        scene s;
        open_scenario(&s, what);
        take_away(&s, what->rung, true);
        if (!what->ask(&s))
            fail_msg("%s alone on %s do not save a request: %s",
                     what->name,
                     what->device,
                     berth_last_error());
        close_scene(&s);
    }
}

static void without_its_rung_the_request_is_refused_whatever_else_there_is(void** state) {
    (void)state;
    for (int i = 0; i < SCENARIOS; ++i) {
        const scenario* what = &scenarios[i];
        scene s;
        open_scenario(&s, what);
        take_away(&s, what->rung, false);
        // which, having waited, gives what these would have given without
        if (what->rung == BERTH_RUNG_FRAMES || what->rung == BERTH_RUNG_TRIM ||
            what->rung == BERTH_RUNG_COMPACTION || what->rung == BERTH_RUNG_CACHED)
            take_away(&s, BERTH_RUNG_WAIT, false);
        if (what->ask(&s)) fail_msg("a request on %s is met without %s", what->device, what->name);
        check(&s);
        put_back(&s);
        synchronize(&s);
        assert_true(what->ask(&s));
        close_scene(&s);
    }
}

/// True if the rung is climbed past the last call that was to fail.
static bool ask_with_fault(const scenario* what, bool of_host, uint64_t nth) {
    scene s;
    open_scenario(&s, what);
    berth_device* device = s.kit.runtime->device;
    const uint64_t before = of_host ? 0 : berth_sim_query_all_calls(device);
    if (of_host)
        failing_host_fail(&s.host, (size_t)nth, false);
    else
        berth_sim_fail_any(device, nth);
    const bool is_met = what->ask(&s);
    const bool is_done = of_host ? !failing_host_has_failed(&s.host)
                                 : berth_sim_query_all_calls(device) - before < nth;
    failing_host_fail(&s.host, 0, false);
    if (!of_host) berth_sim_fail_any(device, 0);
    assert_true(is_met || !is_done);
    check(&s);
    synchronize(&s);
    if (!what->ask(&s))
        fail_msg("%s on %s, after call %d has failed: %s",
                 what->name,
                 what->device,
                 (int)nth,
                 berth_last_error());
    close_scene(&s);
    return is_done;
}

static void device_calls_that_fail_on_a_rung_lose_nothing(void** state) {
    (void)state;
    for (int i = 0; i < SCENARIOS; ++i) {
        if (strcmp(scenarios[i].device, "sim") != 0) continue;
        for (uint64_t nth = 1; !ask_with_fault(&scenarios[i], false, nth); nth += nth < 24 ? 1 : 5)
            continue;
    }
}

static void host_memory_that_fails_on_a_rung_loses_nothing(void** state) {
    (void)state;
    for (int i = 0; i < SCENARIOS; ++i)
        for (uint64_t nth = 1; !ask_with_fault(&scenarios[i], true, nth); ++nth)
            continue;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_that_one_rung_saves_needs_no_other_one),
        cmocka_unit_test(without_its_rung_the_request_is_refused_whatever_else_there_is),
        cmocka_unit_test(device_calls_that_fail_on_a_rung_lose_nothing),
        cmocka_unit_test(host_memory_that_fails_on_a_rung_loses_nothing),
    };
    return cmocka_run_group_tests_name("rungs", tests, NULL, NULL);
}
