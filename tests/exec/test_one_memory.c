// SPDX-License-Identifier: Apache-2.0
// Contexts have pools of their own over one memory: what one of them keeps idle is there for the
// others, so that many contexts need no more than is used at one time.
#include "exec_kit.h"

#include <pthread.h>
#include <stdio.h>

#include "berth/memory.h"

enum { CONTEXTS = 8, THREADS = 4, ROUNDS = 60, UNITS = 64 };

static const char* const devices[] = {"cpu", "sim"};

/// A runtime of UNITS granules that gives nothing back by itself, and contexts.
typedef struct crowd {
    exec_kit kit;
    int64_t granule;
    berth_context* contexts[CONTEXTS];
    size_t count;
} crowd;

static void open_crowd(crowd* c, const char* device, size_t count) {
    *c = (crowd){.granule = strcmp(device, "sim") == 0 ? 65536 : 2097152, .count = count};
    char memory[32];
    snprintf(memory, sizeof memory, "%lld", (long long)(UNITS * c->granule));
    const berth_option_setting settings[] = {
        {"device", device}, {"threads", "1"}, {"memory", memory}, {"keep", "all"}};
    assert_ok(exec_kit_open(&c->kit, NULL, settings, 4));
    assert_int_equal(c->kit.runtime->device->granule_bytes, c->granule);
    for (size_t i = 0; i < count; ++i)
        assert_ok(berth_context_create(c->kit.runtime, &c->contexts[i]));
}

static void close_crowd(crowd* c) {
    for (size_t i = 0; i < c->count; ++i)
        berth_context_release(c->contexts[i]);
    exec_kit_close(&c->kit);
}

/// The context uses so many bytes at one time, in two tensors; false, and says why, if it is
/// refused them.
static bool use(berth_context* ctx, int64_t bytes) {
    berth_tensor* a = berth_full(ctx, 1, BERTH_U8, 1, (int64_t[]){bytes / 2});
    berth_tensor* b = berth_neg(ctx, a);
    berth_release(a);
    berth_release(b);
    const bool is_right = berth_context_error(ctx) == BERTH_OK;
    if (!is_right) print_error("%lld bytes: %s\n", (long long)bytes, berth_context_error_text(ctx));
    berth_context_clear_error(ctx);
    return is_right;
}

static void contexts_that_take_turns_need_the_memory_of_one(void** state) {
    (void)state;
    for (size_t d = 0; d < 2; ++d) {
        crowd c;
        open_crowd(&c, devices[d], CONTEXTS);
        for (size_t turn = 0; turn < 3 * CONTEXTS; ++turn)
            assert_true(use(c.contexts[turn % CONTEXTS], UNITS / 4 * 3 * c.granule));
        berth_memory_stats stats;
        assert_ok(berth_runtime_query_memory(c.kit.runtime, &stats));
        assert_int_equal(stats.failures, 0);
        assert_true(stats.peak_mapped_bytes <= (uint64_t)(UNITS * c.granule));
        close_crowd(&c);
    }
}

typedef struct worker {
    pthread_t thread;
    berth_context* ctx;
    int64_t granule;
    uint64_t seed;
    int refused;
} worker;

/// Half of what a thread's part of the memory is, in changing sizes.
static void* work(void* self) {
    worker* w = self;
    test_random random = test_random_make(w->seed);
    const uint64_t most = (uint64_t)(UNITS / THREADS / 2 * w->granule);
    for (int i = 0; i < ROUNDS; ++i)
        w->refused += !use(w->ctx, 1024 + (int64_t)test_random_below(&random, most));
    return NULL;
}

static void threads_whose_needs_fit_together_are_refused_nothing(void** state) {
    (void)state;
    for (size_t d = 0; d < 2; ++d) {
        crowd c;
        open_crowd(&c, devices[d], CONTEXTS);
        // four contexts that keep what they used before are idle meanwhile
        for (size_t i = THREADS; i < CONTEXTS; ++i)
            assert_true(use(c.contexts[i], UNITS / 4 * c.granule));
        worker workers[THREADS];
        for (size_t i = 0; i < THREADS; ++i) {
            workers[i] = (worker){.ctx = c.contexts[i], .granule = c.granule, .seed = i};
            assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
        }
        for (size_t i = 0; i < THREADS; ++i) {
            pthread_join(workers[i].thread, NULL);
            assert_int_equal(workers[i].refused, 0);
        }
        close_crowd(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts_that_take_turns_need_the_memory_of_one),
        cmocka_unit_test(threads_whose_needs_fit_together_are_refused_nothing),
    };
    return cmocka_run_group_tests_name("one memory", tests, NULL, NULL);
}
