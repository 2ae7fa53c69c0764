// SPDX-License-Identifier: Apache-2.0
// A KV cache while calls of the host and the device fail, while other threads need the device's
// memory, when its context ends, and in a child process.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kv_kit.h"

enum { MOST_FAULTS = 60, TURNS = 600, STORIES = 6, THREADS = 2 };

static void open_small(kv_kit* kit, const berth_host_allocator* host) {
    const berth_option_setting settings[] = {
        {"device", "sim"}, {"threads", "1"}, {"memory", "256K"}, {"log", "off"}, {"keep", "all"}};
    berth_kv_options options = kv_kit_options();
    options.park_bytes = 1 << 20;
    assert_ok(exec_kit_open(&kit->exec, host, settings, 5));
    assert_ok(berth_kv_cache_create(kit->exec.ctx, &options, &kit->cache));
    berth_kv_cache_layout(kit->cache, &kit->layout);
}

/// Every kind of change, whatever fails.
static void change_everything(kv_kit* kit, berth_kv_sequence* a) {
    berth_kv_sequence *child, *found;
    int32_t tokens[64];
    for (int32_t i = 0; i < 64; ++i)
        tokens[i] = i;
    (void)!berth_kv_sequence_fork(a, &child);
    (void)!kv_kit_add(kit, a, 100, 50);
    if (child != NULL) (void)!kv_kit_add(kit, child, 200, 40);
    assert_true(berth_kv_cache_is_valid(kit->cache));
    (void)!berth_kv_sequence_create(kit->cache, NULL, &found);
    if (found != NULL) {
        (void)!berth_kv_sequence_match(found, tokens, 14, NULL);
        (void)!kv_kit_add(kit, found, 0, 9);
    }
    (void)!berth_kv_sequence_park(a, BERTH_KV_PARK_HOST, NULL);
    assert_true(berth_kv_cache_is_valid(kit->cache));
    (void)!berth_kv_sequence_resume(a, NULL);
    (void)!berth_kv_sequence_truncate(a, 3);
    (void)!kv_kit_add(kit, a, 0, 120);
    (void)!berth_kv_cache_trim(kit->cache, 0, NULL);
    assert_true(berth_kv_cache_is_valid(kit->cache));
    const berth_kv_part part = {a, tokens, 5};
    berth_kv_batch* batch;
    if (berth_kv_batch_begin(kit->cache, &part, 1, &batch) == BERTH_OK) {
        berth_kv_tensors tensors;
        (void)berth_kv_batch_upload(batch, &tensors);
        (void)berth_kv_batch_end(batch, true);
    }
    berth_kv_sequence_release(child);
    berth_kv_sequence_release(found);
}

static void any_call_may_fail_and_nothing_is_lost(void** state) {
    (void)state;
    enum { ONCE, FROM_THEN_ON, OF_THE_DEVICE, WAYS };
    failing_host host;
    failing_host_init(&host);
    for (int way = 0; way < WAYS; ++way) {
        for (size_t nth = 1; nth < MOST_FAULTS; ++nth) {
            kv_kit kit;
            open_small(&kit, &host.allocator);
            berth_device* device = kit.exec.runtime->device;
            berth_kv_sequence* a = kv_kit_begin(&kit, "m");
            assert_ok(kv_kit_add(&kit, a, 0, 13));
            if (way == OF_THE_DEVICE)
                berth_sim_fail_any(device, nth);
            else
                failing_host_fail(&host, nth, way == FROM_THEN_ON);
            change_everything(&kit, a);
            berth_sim_fail_any(device, 0);
            failing_host_fail(&host, 0, false);
            berth_context_clear_error(kit.exec.ctx);
            assert_ok(berth_context_synchronize(kit.exec.ctx));
            berth_kv_sequence_release(a);
            kv_kit_close(&kit);
            assert_int_equal(host.live_blocks, 0);
        }
    }
}

/// What other threads do meanwhile.
typedef struct crowd {
    berth_runtime* runtime;
    atomic_bool is_over;
} crowd;

static void* need_memory(void* self) {
    crowd* c = self;
    berth_context* ctx;
    if (berth_context_create(c->runtime, &ctx) != BERTH_OK) return NULL;
    for (unsigned i = 1; !atomic_load(&c->is_over); ++i) {
        void* data = berth_alloc(ctx, 65536u * (1 + i % 4));
        berth_free(ctx, data);
        berth_context_clear_error(ctx);
        if (i % 7 == 0) (void)!berth_trim(c->runtime, 0, NULL);
        berth_memory_stats stats;
        (void)!berth_runtime_query_memory(c->runtime, &stats);
    }
    berth_context_release(ctx);
    return NULL;
}

static void assert_valid(berth_kv_cache* cache) {
    assert_ok(berth_kv_enter(cache));
    const bool is_valid = berth_kv_cache_is_valid(cache);
    berth_kv_leave(cache);
    assert_true(is_valid);
}

/// Sequences of two caches come, grow, are parked and end.
static void use_both(kv_kit kits[2]) {
    berth_kv_sequence* sequences[STORIES] = {NULL};
    for (int32_t i = 0; i < TURNS; ++i) {
        const int32_t at = i % STORIES;
        kv_kit* kit = &kits[at % 2];
        berth_kv_sequence_release(sequences[at]);
        sequences[at] = kv_kit_begin(kit, i % 3 == 0 ? "n" : "m");
        for (int32_t j = 0; j < 3; ++j)
            (void)!kv_kit_add(kit, sequences[at], j * 37 + i % 4, 37);
        if (i % 5 == 0) {
            (void)!berth_kv_sequence_park(sequences[at], (berth_kv_parking)(i % 3), NULL);
            (void)!berth_kv_sequence_resume(sequences[at], NULL);
        }
        if (i % 50 == 0) {
            assert_valid(kit->cache);
            (void)!berth_kv_cache_trim(kit->cache, 65536, NULL);
        }
    }
    for (size_t i = 0; i < STORIES; ++i)
        berth_kv_sequence_release(sequences[i]);
}

static void other_threads_may_need_the_memory_at_any_time(void** state) {
    (void)state;
    static const char* const keeps[] = {"none", "auto", "all"};
    for (size_t k = 0; k < 3; ++k) {
        const berth_option_setting settings[] = {{"device", "sim"},
                                                 {"threads", "1"},
                                                 {"memory", "640K"},
                                                 {"keep", keeps[k]},
                                                 {"decay_ms", "1"},
                                                 {"log", "off"}};
        berth_kv_options options = kv_kit_options();
        options.park_bytes = 1 << 20;
        kv_kit kits[2];
        assert_ok(exec_kit_open(&kits[0].exec, NULL, settings, 6));
        kits[1] = kits[0];
        assert_ok(berth_kv_cache_create(kits[0].exec.ctx, &options, &kits[0].cache));
        options.block_tokens = 24;
        assert_ok(berth_kv_cache_create(kits[1].exec.ctx, &options, &kits[1].cache));
        crowd c = {.runtime = kits[0].exec.runtime};
        pthread_t threads[THREADS];
        for (size_t i = 0; i < THREADS; ++i)
            assert_int_equal(pthread_create(&threads[i], NULL, need_memory, &c), 0);
        use_both(kits);
        atomic_store(&c.is_over, true);
        for (size_t i = 0; i < THREADS; ++i)
            pthread_join(threads[i], NULL);
        berth_kv_cache_release(kits[1].cache);
        kv_kit_close(&kits[0]);
    }
}

static void a_batch_may_end_after_its_context(void** state) {
    (void)state;
    for (int is_uploaded = 0; is_uploaded < 2; ++is_uploaded) {
        kv_kit kit;
        const berth_kv_options options = kv_kit_options();
        kv_kit_open(&kit, &options, 8);
        berth_kv_sequence* a = kv_kit_begin(&kit, "m");
        assert_ok(kv_kit_add(&kit, a, 0, 33));
        const int32_t token = 3;
        const berth_kv_part part = {a, &token, 1};
        berth_kv_batch *batch, *second;
        berth_kv_tensors tensors;
        assert_ok(berth_kv_batch_begin(kit.cache, &part, 1, &batch));
        if (is_uploaded != 0) assert_true(berth_kv_batch_upload(batch, &tensors));
        berth_context_release(kit.exec.ctx);
        assert_fails(
            berth_kv_batch_begin(kit.cache, &part, 1, &second), BERTH_ERR_STATE, "context");
        assert_ok(berth_kv_batch_end(batch, true));
        assert_int_equal(berth_kv_sequence_length(a), 34);
        berth_kv_cache_release(kit.cache);
        berth_kv_sequence_release(a);
        berth_runtime_release(kit.exec.runtime);
    }
}

static void a_child_process_is_refused(void** state) {
    (void)state;
    kv_kit kit;
    const berth_kv_options options = kv_kit_options();
    kv_kit_open(&kit, &options, 8);
    berth_kv_sequence* a = kv_kit_begin(&kit, "m");
    assert_ok(kv_kit_add(&kit, a, 0, 5));
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        berth_kv_sequence* b;
        const bool is_right = kv_kit_add(&kit, a, 5, 1) == BERTH_ERR_FORKED &&
                              berth_kv_sequence_truncate(a, 0) == BERTH_ERR_FORKED &&
                              berth_kv_sequence_fork(a, &b) == BERTH_ERR_FORKED &&
                              berth_kv_cache_trim(kit.cache, 0, NULL) == BERTH_ERR_FORKED;
        berth_kv_sequence_release(a);
        berth_kv_cache_release(kit.cache);
        _exit(is_right ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    berth_kv_sequence_release(a);
    kv_kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_call_may_fail_and_nothing_is_lost),
        cmocka_unit_test(other_threads_may_need_the_memory_at_any_time),
        cmocka_unit_test(a_batch_may_end_after_its_context),
        cmocka_unit_test(a_child_process_is_refused),
    };
    return cmocka_run_group_tests_name("KV faults", tests, NULL, NULL);
}
