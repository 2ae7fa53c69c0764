// SPDX-License-Identifier: Apache-2.0
// Page-locked memory: its bound, its books, what the system refuses, and its end.
#include <linux/capability.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "berth/log.h"
#include "exec/exec_kit.h"

enum { MIB = 1 << 20 };

static uint64_t page_bytes(void) { return (uint64_t)sysconf(_SC_PAGESIZE); }

static uint64_t pinned_bytes(berth_runtime* runtime) {
    berth_memory_stats stats;
    assert_ok(berth_runtime_query_memory(runtime, &stats));
    return stats.pinned_bytes;
}

static berth_runtime* open_runtime(const char* device, const char* cap, failing_host* host) {
    const berth_option_setting settings[] = {
        {"device", device}, {"threads", "1"}, {"log", "off"}, {"pinned", cap}};
    const berth_runtime_options options = {.struct_size = sizeof options,
                                           .host = host != NULL ? &host->allocator : NULL,
                                           .settings = settings,
                                           .setting_count = 4};
    berth_runtime* runtime;
    assert_ok(berth_runtime_create(&options, &runtime));
    return runtime;
}

static void pinned_memory_is_whole_pages_that_can_be_used(void** state) {
    berth_runtime* runtime = ((exec_kit*)*state)->runtime;
    void *a, *b;
    assert_ok(berth_pinned_alloc(runtime, 1, &a));
    assert_ok(berth_pinned_alloc(runtime, 3 * page_bytes() + 1, &b));
    assert_int_equal((uintptr_t)a % page_bytes(), 0);
    assert_int_equal(pinned_bytes(runtime), 5 * page_bytes());
    memset(a, 1, page_bytes());
    memset(b, 2, 4 * page_bytes());
    assert_int_equal(((unsigned char*)a)[page_bytes() - 1], 1);
    berth_pinned_free(runtime, a);
    assert_int_equal(pinned_bytes(runtime), 4 * page_bytes());
    assert_int_equal(((unsigned char*)b)[4 * page_bytes() - 1], 2);
    berth_pinned_free(runtime, b);
    assert_int_equal(pinned_bytes(runtime), 0);
}

static void pinned_memory_takes_a_tensor_and_transfers(void** state) {
    exec_kit* kit = *state;
    void* data;
    assert_ok(berth_pinned_alloc(kit->runtime, 16, &data));
    berth_tensor* x = exec_kit_ramp(kit->ctx, 1, 4);
    assert_ok(berth_tensor_read(x, data, 16));
    assert_memory_equal(data, ((float[]){1, 2, 3, 4}), 16);
    berth_tensor* y = berth_tensor_from_memory(
        kit->ctx, data, 16, BERTH_F32, 1, (int64_t[]){4}, true, NULL, NULL);
    berth_tensor* z = berth_neg(kit->ctx, y);
    exec_kit_expect(z, (float[]){-1, -2, -3, -4}, 4);
    berth_release_all(x, y, z);
    berth_pinned_free(kit->runtime, data);
}

static void no_bytes_are_a_page_and_null_is_nothing_to_free(void** state) {
    berth_runtime* runtime = ((exec_kit*)*state)->runtime;
    void *a, *b;
    assert_ok(berth_pinned_alloc(runtime, 0, &a));
    assert_ok(berth_pinned_alloc(runtime, 0, &b));
    assert_true(a != NULL && b != NULL && a != b);
    assert_int_equal(pinned_bytes(runtime), 2 * page_bytes());
    berth_pinned_free(runtime, NULL);
    berth_pinned_free(NULL, a);
    berth_pinned_free(runtime, a);
    berth_pinned_free(runtime, b);
    assert_fails(berth_pinned_alloc(NULL, 1, &a), BERTH_ERR_INVALID_ARGUMENT, "runtime");
    assert_null(a);
    assert_fails(berth_pinned_alloc(runtime, 1, NULL), BERTH_ERR_INVALID_ARGUMENT, "place");
}

static void more_than_the_cap_is_refused_with_all_numbers(void** state) {
    (void)state;
    berth_runtime* runtime = open_runtime("sim", "1M", NULL);
    void *a, *b;
    assert_ok(berth_pinned_alloc(runtime, 768 << 10, &a));
    assert_fails(berth_pinned_alloc(runtime, (256 << 10) + 1, &b),
                 BERTH_ERR_OUT_OF_MEMORY,
                 "786432 are in use, BERTH_PINNED allows 1048576");
    assert_null(b);
    assert_int_equal(pinned_bytes(runtime), 768 << 10);
    assert_ok(berth_pinned_alloc(runtime, 256 << 10, &b));
    berth_pinned_free(runtime, a);
    assert_ok(berth_pinned_alloc(runtime, 768 << 10, &a));
    berth_pinned_free(runtime, a);
    berth_pinned_free(runtime, b);
    assert_int_equal(berth_pinned_alloc(runtime, UINT64_MAX, &a), BERTH_ERR_OVERFLOW);
    assert_int_equal(berth_pinned_alloc(runtime, UINT64_MAX / 2, &a), BERTH_ERR_OUT_OF_MEMORY);
    berth_runtime_release(runtime);
}

static void the_cap_may_be_nothing_or_a_share_of_the_device(void** state) {
    (void)state;
    void* a;
    berth_runtime* runtime = open_runtime("sim", "0", NULL);
    assert_fails(berth_pinned_alloc(runtime, 0, &a), BERTH_ERR_OUT_OF_MEMORY, "allows 0");
    berth_runtime_release(runtime);
    runtime = open_runtime("sim", "25%", NULL); // of 16 MiB
    assert_fails(
        berth_pinned_alloc(runtime, 4 * MIB + 1, &a), BERTH_ERR_OUT_OF_MEMORY, "allows 4194304");
    assert_ok(berth_pinned_alloc(runtime, 4 * MIB, &a));
    berth_pinned_free(runtime, a);
    berth_runtime_release(runtime);
    for (int i = 0; i < 2; ++i) { // without a cap the system decides
        runtime = open_runtime(i == 0 ? "sim" : "cpu", "unlimited", NULL);
        assert_int_equal(berth_pinned_alloc(runtime, UINT64_C(1) << 62, &a),
                         BERTH_ERR_OUT_OF_MEMORY);
        assert_null(a);
        assert_int_equal(pinned_bytes(runtime), 0);
        berth_runtime_release(runtime);
    }
}

static int complaints;

static void note_complaint(void* self, berth_log_level level, const char* line) {
    (void)self;
    if (level == BERTH_LOG_ERROR && strstr(line, "berth_pinned_free") != NULL) ++complaints;
}

static void what_is_not_pinned_is_not_freed(void** state) {
    berth_runtime* runtime = ((exec_kit*)*state)->runtime;
    berth_log_set_callback(note_complaint, NULL);
    complaints = 0;
    unsigned char* a;
    void* data;
    assert_ok(berth_pinned_alloc(runtime, 100, &data));
    a = data;
    berth_pinned_free(runtime, a + 1);
    berth_pinned_free(runtime, &data);
    assert_int_equal(complaints, 2);
    a[0] = 1;
    assert_int_equal(pinned_bytes(runtime), page_bytes());
    berth_pinned_free(runtime, data);
    berth_pinned_free(runtime, data); // once more
    assert_int_equal(complaints, 3);
    assert_int_equal(pinned_bytes(runtime), 0);
    berth_log_set_callback(NULL, NULL);
}

static void what_is_still_out_ends_with_the_runtime(void** state) {
    (void)state;
    static const char* const devices[] = {"cpu", "sim"};
    for (size_t i = 0; i < 2; ++i) {
        failing_host host;
        failing_host_init(&host);
        berth_runtime* runtime = open_runtime(devices[i], "1M", &host);
        void* data;
        for (int k = 0; k < 20; ++k)
            assert_ok(berth_pinned_alloc(runtime, 5000, &data));
        berth_runtime_release(runtime); // the sim device checks that nothing is pinned
        assert_int_equal(atomic_load(&host.live_blocks), 0);
    }
}

static void host_memory_and_device_may_fail_at_any_call(void** state) {
    (void)state;
    failing_host host;
    failing_host_init(&host);
    berth_runtime* runtime = open_runtime("sim", "1M", &host);
    void* blocks[40];
    size_t host_faults = 0;
    for (size_t i = 0; i < 40;) {
        failing_host_fail(&host, 1, false);
        const berth_status status = berth_pinned_alloc(runtime, 1, &blocks[i]);
        failing_host_fail(&host, 0, false);
        if (status == BERTH_OK) {
            ++i;
            continue;
        }
        assert_int_equal(status, BERTH_ERR_OUT_OF_MEMORY);
        ++host_faults;
        assert_ok(berth_pinned_alloc(runtime, 1, &blocks[i++]));
    }
    assert_true(host_faults >= 3); // the table grew as often
    assert_int_equal(berth_sim_query_pinned_bytes(runtime->device), 40 * page_bytes());
    void* data;
    berth_sim_fail(runtime->device, BERTH_SIM_PIN, 1);
    assert_fails(berth_pinned_alloc(runtime, 1, &data), BERTH_ERR_OUT_OF_MEMORY, "injected");
    assert_null(data);
    assert_int_equal(pinned_bytes(runtime), 40 * page_bytes());
    for (size_t i = 0; i < 40; ++i)
        berth_pinned_free(runtime, blocks[i]);
    assert_int_equal(pinned_bytes(runtime), 0);
    assert_int_equal(berth_sim_query_pinned_bytes(runtime->device), 0);
    berth_runtime_release(runtime);
    assert_int_equal(atomic_load(&host.live_blocks), 0);
}

/// Takes or returns the right of this thread to lock more than its limit.
static bool set_lock_privilege(bool has_it) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    const uint32_t bit = UINT32_C(1) << CAP_IPC_LOCK;
    if (syscall(SYS_capget, &header, data) != 0) return false;
    if (has_it && (data[0].permitted & bit) == 0) return true; // never had it
    data[0].effective = has_it ? data[0].effective | bit : data[0].effective & ~bit;
    return syscall(SYS_capset, &header, data) == 0;
}

static void a_refusal_of_the_system_names_its_limit(void** state) {
    berth_runtime* runtime = ((exec_kit*)*state)->runtime;
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
    const struct rlimit low = {.rlim_cur = 65536, .rlim_max = limit.rlim_max};
    assert_true(set_lock_privilege(false));
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &low), 0);
    void *small, *large;
    const berth_status fits = berth_pinned_alloc(runtime, 4096, &small);
    const berth_status status = berth_pinned_alloc(runtime, MIB, &large);
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    assert_true(set_lock_privilege(true));
    assert_int_equal(fits, BERTH_OK);
    if (status == BERTH_OK) { // sanitizers turn the lock into nothing
        print_message("skipped: the system does not refuse to lock here\n");
        berth_pinned_free(runtime, small);
        berth_pinned_free(runtime, large);
        skip();
    }
    assert_int_equal(status, BERTH_ERR_OUT_OF_MEMORY);
    assert_non_null(strstr(berth_last_error(), "RLIMIT_MEMLOCK (ulimit -l) is 65536 bytes"));
    assert_null(large);
    assert_int_equal(pinned_bytes(runtime), page_bytes());
    berth_pinned_free(runtime, small);
}

enum { THREADS = 4, ROUNDS = 300 };

static void* take_and_give(void* argument) {
    berth_runtime* runtime = argument;
    size_t failed = 0;
    for (int i = 0; i < ROUNDS; ++i) {
        void *a, *b;
        const berth_status first = berth_pinned_alloc(runtime, 5000, &a);
        const berth_status second = berth_pinned_alloc(runtime, 100, &b);
        failed += first != BERTH_OK || second != BERTH_OK;
        if (a != NULL) memset(a, i, 5000);
        if (b != NULL) memset(b, i + 1, 100);
        failed += a != NULL && ((unsigned char*)a)[4999] != (unsigned char)i;
        berth_pinned_free(runtime, a);
        berth_pinned_free(runtime, b);
    }
    return (void*)(uintptr_t)failed;
}

static void threads_share_the_books(void** state) {
    berth_runtime* runtime = ((exec_kit*)*state)->runtime;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; ++i)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, runtime), 0);
    for (int i = 0; i < THREADS; ++i) {
        void* failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(pinned_bytes(runtime), 0);
}

static void a_child_is_refused_and_frees_nothing(void** state) {
    berth_runtime* runtime = ((exec_kit*)*state)->runtime;
    void* data;
    assert_ok(berth_pinned_alloc(runtime, 1, &data));
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        void* more = data;
        berth_pinned_free(runtime, data);
        const bool refused = berth_pinned_alloc(runtime, 1, &more) == BERTH_ERR_FORKED;
        _exit(refused && more == NULL ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    berth_pinned_free(runtime, data);
}

static void a_device_without_pinned_memory_says_so(void** state) {
    berth_runtime* runtime = ((exec_kit*)*state)->runtime;
    const berth_device_ops* real = runtime->device->ops;
    berth_device_ops bare = *real;
    bare.pin = NULL;
    assert_false(berth_device_ops_are_valid(&bare));
    bare.unpin = NULL;
    bare.caps &= ~(uint32_t)BERTH_DEVICE_CAP_PIN;
    assert_true(berth_device_ops_are_valid(&bare));
    runtime->device->ops = &bare;
    void* data;
    const berth_status status = berth_pinned_alloc(runtime, 1, &data);
    runtime->device->ops = real;
    assert_int_equal(status, BERTH_ERR_UNSUPPORTED);
    assert_null(data);
    assert_int_equal(pinned_bytes(runtime), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        EXEC_KIT_ON_BOTH(pinned_memory_is_whole_pages_that_can_be_used),
        EXEC_KIT_ON_BOTH(pinned_memory_takes_a_tensor_and_transfers),
        EXEC_KIT_ON_BOTH(no_bytes_are_a_page_and_null_is_nothing_to_free),
        cmocka_unit_test(more_than_the_cap_is_refused_with_all_numbers),
        cmocka_unit_test(the_cap_may_be_nothing_or_a_share_of_the_device),
        EXEC_KIT_ON_BOTH(what_is_not_pinned_is_not_freed),
        cmocka_unit_test(what_is_still_out_ends_with_the_runtime),
        cmocka_unit_test(host_memory_and_device_may_fail_at_any_call),
        cmocka_unit_test_setup_teardown(
            a_refusal_of_the_system_names_its_limit, exec_kit_set_up_cpu, exec_kit_tear_down),
        EXEC_KIT_ON_BOTH(threads_share_the_books),
        EXEC_KIT_ON_BOTH(a_child_is_refused_and_frees_nothing),
        EXEC_KIT_ON_BOTH(a_device_without_pinned_memory_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
