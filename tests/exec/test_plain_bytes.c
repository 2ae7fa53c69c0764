// SPDX-License-Identifier: Apache-2.0
// Bytes of the pool without a tensor: their place, their books, and what is wrong with a pointer.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "berth/memory.h"
#include "exec/exec_kit.h"

static berth_context* context_of(void** state) { return ((exec_kit*)*state)->ctx; }

static uint64_t requested_bytes(berth_runtime* runtime) {
    berth_memory_stats stats;
    assert_ok(berth_runtime_query_memory(runtime, &stats));
    return stats.requested_bytes;
}

static void bytes_of_any_size_are_aligned_apart_and_accounted(void** state) {
    exec_kit* kit = *state;
    static const uint64_t sizes[] = {1, 63, 64, 65, 4096, 100000, 3 << 20, 1000, 7};
    enum { SIZES = sizeof sizes / sizeof sizes[0] };
    unsigned char* blocks[SIZES];
    uint64_t sum = 0;
    for (size_t i = 0; i < SIZES; ++i) {
        blocks[i] = berth_alloc(kit->ctx, sizes[i]);
        assert_context_ok(kit->ctx);
        assert_int_equal((uintptr_t)blocks[i] % 64, 0);
        memset(blocks[i], (int)i + 1, sizes[i]);
        sum += sizes[i];
        assert_int_equal(requested_bytes(kit->runtime), sum);
    }
    for (size_t i = 0; i < SIZES; ++i) {
        assert_int_equal(blocks[i][0], i + 1);
        assert_int_equal(blocks[i][sizes[i] - 1], i + 1);
        berth_free(kit->ctx, blocks[i]);
        sum -= sizes[i];
        assert_int_equal(requested_bytes(kit->runtime), sum);
    }
    assert_context_ok(kit->ctx);
    assert_true(berth_pool_is_valid(kit->ctx->home.pool));
}

static void no_bytes_have_an_address_of_their_own(void** state) {
    berth_context* ctx = context_of(state);
    void* a = berth_alloc(ctx, 0);
    void* b = berth_alloc(ctx, 0);
    assert_true(a != NULL && b != NULL && a != b);
    berth_free(ctx, a);
    berth_free(ctx, b);
    berth_free(ctx, NULL);
    berth_free(NULL, a);
    assert_null(berth_alloc(NULL, 1));
    assert_context_ok(ctx);
}

static void a_pointer_that_is_not_out_is_an_error_of_the_context(void** state) {
    exec_kit* kit = *state;
    berth_context* other;
    assert_ok(berth_context_create(kit->runtime, &other));
    unsigned char* a = berth_alloc(kit->ctx, 100);
    int on_the_stack = 0;
    berth_free(kit->ctx, &on_the_stack);
    assert_context_fails(kit->ctx, BERTH_ERR_INVALID_ARGUMENT, "free: ");
    berth_free(kit->ctx, a + 64);
    assert_context_fails(kit->ctx, BERTH_ERR_INVALID_ARGUMENT, "berth_alloc()");
    berth_free(other, a);
    assert_context_fails(other, BERTH_ERR_INVALID_ARGUMENT, "berth_alloc()");
    a[99] = 1;
    berth_free(kit->ctx, a);
    assert_context_ok(kit->ctx);
    berth_free(kit->ctx, a);
    assert_context_fails(kit->ctx, BERTH_ERR_INVALID_ARGUMENT, "still out");
    berth_context_release(other);
}

static void sizes_that_cannot_be_are_the_contexts_error(void** state) {
    exec_kit* kit = *state;
    static const uint64_t sizes[] = {UINT64_MAX, UINT64_MAX - 63, INT64_MAX, UINT64_C(1) << 50};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
        assert_null(berth_alloc(kit->ctx, sizes[i]));
        const berth_status status = berth_context_error(kit->ctx);
        assert_true(status == BERTH_ERR_OUT_OF_MEMORY || status == BERTH_ERR_OVERFLOW);
        assert_null(berth_alloc(kit->ctx, 1)); // it sticks
        assert_context_fails(kit->ctx, status, "alloc: ");
    }
    assert_int_equal(requested_bytes(kit->runtime), 0);
}

static void an_error_that_sticks_does_not_keep_bytes_from_being_freed(void** state) {
    exec_kit* kit = *state;
    void* a = berth_alloc(kit->ctx, 1000);
    assert_null(berth_neg(kit->ctx, NULL));
    berth_free(kit->ctx, a);
    assert_int_equal(requested_bytes(kit->runtime), 0);
    assert_context_fails(kit->ctx, BERTH_ERR_INVALID_ARGUMENT, "neg");
}

static void bytes_are_no_values_of_a_step(void** state) {
    exec_kit* kit = *state;
    unsigned char* kept[10];
    for (int round = 0; round < 10; ++round) {
        assert_ok(exec_kit_begin(kit->ctx, "step", 100));
        berth_tensor* x = berth_full(kit->ctx, round, BERTH_F32, 1, (int64_t[]){100});
        // one step takes more of them than another
        for (int i = 0; i < round % 3; ++i) {
            void* scratch = berth_alloc(kit->ctx, 777);
            memset(scratch, 0xFF, 777);
            berth_free(kit->ctx, scratch);
        }
        kept[round] = berth_alloc(kit->ctx, 500);
        memset(kept[round], round, 500);
        berth_tensor* y = berth_neg(kit->ctx, berth_move(x));
        float value;
        berth_tensor* first = berth_slice(kit->ctx, y, 0, 99, 100, 1);
        assert_ok(berth_tensor_read(first, &value, sizeof value));
        assert_true(value == (float)-round);
        berth_release_all(y, first);
        assert_ok(berth_step_end(kit->ctx));
    }
    const berth_step_counters counters = exec_kit_counters(kit->runtime, "step");
    assert_int_equal(counters.side_exits, 0);
    assert_true(counters.hits >= 7);
    for (int round = 0; round < 10; ++round) {
        for (int i = 0; i < 500; ++i)
            assert_int_equal(kept[round][i], round);
        berth_free(kit->ctx, kept[round]);
    }
}

/// On sim: kernels that still wait in the queue write to blocks that have been released.
static void pending_work_of_the_last_owner_does_not_reach_fresh_bytes(void** state) {
    berth_context* ctx = context_of(state);
    for (int round = 0; round < 20; ++round) {
        berth_release(berth_full(ctx, 1, BERTH_F32, 1, (int64_t[]){1000}));
        unsigned char* data = berth_alloc(ctx, 4000);
        memset(data, 0xEE, 4000);
        assert_ok(berth_context_synchronize(ctx));
        for (int i = 0; i < 4000; ++i)
            assert_int_equal(data[i], 0xEE);
        berth_free(ctx, data);
    }
}

static void a_tensor_over_bytes_works_and_keeps_their_context(void** state) {
    (void)state;
    failing_host host;
    failing_host_init(&host);
    exec_kit kit;
    const berth_option_setting settings[] = {{"threads", "1"}, {"log", "off"}};
    assert_ok(exec_kit_open(&kit, &host.allocator, settings, 2));
    float* data = berth_alloc(kit.ctx, 16);
    memcpy(data, (float[]){1, 2, 3, 4}, 16);
    berth_tensor* x = berth_tensor_from_memory(
        kit.ctx, data, 16, BERTH_F32, 1, (int64_t[]){4}, false, NULL, NULL);
    (void)berth_alloc(kit.ctx, 5000); // forgotten, as `data` is
    exec_kit_close(&kit);
    exec_kit_expect(x, (float[]){1, 2, 3, 4}, 4);
    berth_release(x); // ends context, bytes and runtime
    assert_int_equal(atomic_load(&host.live_blocks), 0);
}

static void every_mode_and_filler_gives_bytes_back(void** state) {
    (void)state;
    static const berth_option_setting ways[][3] = {
        {{"mode", "system"}, {"poison", "both"}, {"device", "cpu"}},
        {{"mode", "pool"}, {"poison", "both"}, {"device", "cpu"}},
        {{"mode", "system"}, {"poison", "off"}, {"device", "sim"}},
    };
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; ++i) {
        exec_kit kit;
        assert_ok(exec_kit_open(&kit, NULL, ways[i], 3));
        unsigned char* data = berth_alloc(kit.ctx, 1000);
        assert_context_ok(kit.ctx);
        if (kit.ctx->home.fills_on_alloc) assert_int_equal(data[999], BERTH_POISON_ALLOC_BYTE);
        memset(data, 1, 1000);
        berth_free(kit.ctx, data);
        (void)berth_alloc(kit.ctx, 1000);
        exec_kit_close(&kit);
    }
}

static void host_memory_may_fail_at_any_call(void** state) {
    (void)state;
    failing_host host;
    failing_host_init(&host);
    exec_kit kit;
    const berth_option_setting settings[] = {{"threads", "1"}, {"log", "off"}};
    assert_ok(exec_kit_open(&kit, &host.allocator, settings, 2));
    void* blocks[100];
    size_t faults = 0;
    for (size_t i = 0; i < 100; ++i) {
        blocks[i] = NULL;
        for (size_t nth = 1; blocks[i] == NULL; ++nth) {
            const uint64_t before = requested_bytes(kit.runtime);
            failing_host_fail(&host, nth, false);
            blocks[i] = berth_alloc(kit.ctx, 40 + 3000 * i);
            failing_host_fail(&host, 0, false);
            if (blocks[i] != NULL) break;
            assert_context_fails(kit.ctx, BERTH_ERR_OUT_OF_MEMORY, "alloc: ");
            assert_int_equal(requested_bytes(kit.runtime), before);
            ++faults;
        }
    }
    assert_true(faults >= 5);
    for (size_t i = 0; i < 100; ++i)
        berth_free(kit.ctx, blocks[i]);
    assert_context_ok(kit.ctx);
    exec_kit_close(&kit);
    assert_int_equal(atomic_load(&host.live_blocks), 0);
}

static void the_device_may_fail_at_any_call(void** state) {
    exec_kit* kit = *state;
    size_t faults = 0;
    for (uint64_t nth = 1; nth <= 8; ++nth) {
        berth_release(exec_kit_ramp(kit->ctx, 0, 50)); // something to wait for
        berth_sim_fail_any(kit->runtime->device, nth);
        void* data = berth_alloc(kit->ctx, 100000 * nth);
        berth_sim_fail_any(kit->runtime->device, 0);
        // some faults are got over by trying again
        assert_true((data == NULL) == (berth_context_error(kit->ctx) != BERTH_OK));
        faults += data == NULL;
        berth_context_clear_error(kit->ctx);
        berth_free(kit->ctx, data);
        assert_int_equal(requested_bytes(kit->runtime), 0);
    }
    assert_true(faults >= 2); // at least where it waits: the ticket, and the wait for it
}

static void a_child_gets_and_frees_nothing(void** state) {
    berth_context* ctx = context_of(state);
    void* data = berth_alloc(ctx, 10);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        berth_free(ctx, data);
        _exit(berth_alloc(ctx, 1) == NULL ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    berth_free(ctx, data);
    assert_context_ok(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        EXEC_KIT_ON_BOTH(bytes_of_any_size_are_aligned_apart_and_accounted),
        EXEC_KIT_ON_BOTH(no_bytes_have_an_address_of_their_own),
        EXEC_KIT_ON_BOTH(a_pointer_that_is_not_out_is_an_error_of_the_context),
        EXEC_KIT_ON_BOTH(sizes_that_cannot_be_are_the_contexts_error),
        EXEC_KIT_ON_BOTH(an_error_that_sticks_does_not_keep_bytes_from_being_freed),
        EXEC_KIT_ON_BOTH(bytes_are_no_values_of_a_step),
        EXEC_KIT_ON_BOTH(pending_work_of_the_last_owner_does_not_reach_fresh_bytes),
        cmocka_unit_test(a_tensor_over_bytes_works_and_keeps_their_context),
        cmocka_unit_test(every_mode_and_filler_gives_bytes_back),
        cmocka_unit_test(host_memory_may_fail_at_any_call),
        cmocka_unit_test_setup_teardown(
            the_device_may_fail_at_any_call, exec_kit_set_up_sim, exec_kit_tear_down),
        EXEC_KIT_ON_BOTH(a_child_gets_and_frees_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
