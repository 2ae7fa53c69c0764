// SPDX-License-Identifier: Apache-2.0
// After fork: the child leaves what is the parent's alone, without a lock, and may have a runtime
// of its own; the parent goes on.
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "exec/exec_kit.h"
#include "memory/poison.h"

#if defined(__SANITIZE_THREAD__)
#define HAS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAS_TSAN 1
#endif
#endif
#ifndef HAS_TSAN
#define HAS_TSAN 0 // which lets no child of several threads start threads
#endif

/// Elsewhere the child's idle memory ages in a thread of its own.
static const char* const child_decay_ms = HAS_TSAN ? "unlimited" : "10000";

enum { SECONDS_UNTIL_HUNG = 60, FORKS = 20 };

/// In a child: ends it unless `condition` holds.
#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "child: line %d: %s\n", __LINE__, #condition);                         \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/// Runs `body` in a child, which must end well. A child that hangs is killed by a signal.
static void run_child(void (*body)(void* argument), void* argument) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(SECONDS_UNTIL_HUNG);
        body(argument);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) fail_msg("the child ended by signal %d", WTERMSIG(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/// What a parent leaves to its child: a context with an open step and tensors.
typedef struct heirloom {
    exec_kit kit;
    berth_tensor* x;
    berth_tensor* view;
    void* mapped;
} heirloom;

static void open_heirloom(heirloom* h, const char* device) {
    const berth_option_setting settings[] = {{"device", device}, {"threads", "1"}};
    assert_ok(exec_kit_open(&h->kit, NULL, settings, 2));
    for (int64_t n = 10; n < 50; n += 10) {
        assert_ok(exec_kit_begin(h->kit.ctx, "s", n));
        berth_release(exec_kit_ramp(h->kit.ctx, 0, n));
        assert_ok(berth_step_end(h->kit.ctx));
    }
    h->x = exec_kit_ramp(h->kit.ctx, 1, 4);
    h->view = berth_slice(h->kit.ctx, h->x, 0, 1, 3, 1);
    assert_ok(berth_tensor_map(h->x, &h->mapped));
    assert_ok(exec_kit_begin(h->kit.ctx, "s", 10));
}

/// The parent's objects work as before.
static void close_heirloom(heirloom* h) {
    berth_tensor_unmap(h->x);
    berth_tensor* y = berth_neg(h->kit.ctx, h->x);
    exec_kit_expect(y, (float[]){-1, -2, -3, -4}, 4);
    assert_ok(berth_step_end(h->kit.ctx));
    exec_kit_expect(y, (float[]){-1, -2, -3, -4}, 4);
    berth_release_all(h->x, h->view, y);
    assert_int_equal(h->kit.ctx->home.live_objects, 0);
    exec_kit_close(&h->kit);
}

/// Ops return NULL, also those that would refuse their operands.
static void require_no_ops(heirloom* h) {
    berth_context* ctx = h->kit.ctx;
    const int64_t dims[1] = {4};
    float data[4];
    REQUIRE(berth_neg(ctx, h->x) == NULL);
    REQUIRE(berth_add(ctx, h->x, NULL) == NULL);
    REQUIRE(berth_neg(ctx, berth_move(h->x)) == NULL);
    REQUIRE(berth_slice(ctx, h->x, 0, 0, 1, 1) == NULL);
    REQUIRE(berth_transpose(ctx, h->x, 0, 0) == NULL);
    REQUIRE(berth_reshape(ctx, h->x, 1, dims) == NULL);
    REQUIRE(berth_contiguous(ctx, h->x) == NULL);
    REQUIRE(berth_cast(ctx, h->x, BERTH_F32) == NULL);
    REQUIRE(berth_cat(ctx, &h->x, 1, 0) == NULL);
    REQUIRE(berth_cat(ctx, NULL, 0, 0) == NULL);
    REQUIRE(berth_empty(ctx, BERTH_F32, 1, dims) == NULL);
    REQUIRE(berth_zeros(ctx, BERTH_F32, 1, dims) == NULL);
    REQUIRE(berth_zeros(ctx, BERTH_F32, -1, NULL) == NULL);
    REQUIRE(berth_rand(ctx, 1, 0, 1, BERTH_F32, 1, dims) == NULL);
    REQUIRE(berth_arange(ctx, 0, 4, 1, BERTH_F32) == NULL);
    REQUIRE(berth_tensor_from_memory(
                ctx, data, sizeof data, BERTH_F32, 1, dims, false, NULL, NULL) == NULL);
}

#define REQUIRE_FORKED(call)                                                                       \
    do {                                                                                           \
        (void)berth_fail(BERTH_ERR_INTERNAL, "stale");                                             \
        REQUIRE((call) == BERTH_ERR_FORKED);                                                       \
        REQUIRE(strstr(berth_last_error(), "parent") != NULL);                                     \
    } while (0)

/// Nothing is printed, described, written or opened.
static void require_no_files(heirloom* h) {
    const berth_safetensors_source source = {"x", h->x};
    berth_safetensors* file = NULL;
    berth_tensor_properties properties;
    size_t needed;
    REQUIRE_FORKED(berth_tensor_format(h->x, NULL, NULL, 0, &needed));
    REQUIRE_FORKED(berth_tensor_print(h->x, stderr));
    REQUIRE_FORKED(berth_tensor_info(h->x, &properties));
    REQUIRE_FORKED(berth_tensor_format_info(h->x, NULL, 0, &needed));
    REQUIRE(berth_npy_read(h->kit.ctx, "/dev/null") == NULL);
    REQUIRE_FORKED(berth_npy_write(h->x, "/nowhere/x.npy"));
    REQUIRE_FORKED(berth_safetensors_open(h->kit.runtime, "/dev/null", &file));
    REQUIRE_FORKED(berth_safetensors_write("/nowhere/x.safetensors", &source, 1, NULL, 0));
}

static void require_refusals(heirloom* h) {
    berth_context* ctx = h->kit.ctx;
    berth_runtime* runtime = h->kit.runtime;
    const int64_t n = 10;
    const berth_step_input input = {.name = "x", .rank = 1, .dims = &n};
    const berth_step_desc desc = {.name = "s", .inputs = &input, .input_count = 1};
    berth_step_estimate_result estimate;
    berth_context* other = NULL;
    berth_memory_stats stats;
    berth_step_counters counters;
    const char* name;
    float values[4];
    void* data;
    char text[64];
    REQUIRE_FORKED(berth_step_begin(ctx, &desc));
    REQUIRE_FORKED(berth_step_end(ctx));
    REQUIRE_FORKED(berth_step_estimate(ctx, &desc, &estimate));
    REQUIRE_FORKED(berth_step_warm(ctx, &desc));
    berth_step_reserve_extra(ctx, 100);
    berth_step_cancel_extra(ctx);
    REQUIRE_FORKED(berth_tensor_read(h->x, values, sizeof values));
    REQUIRE_FORKED(berth_tensor_write(h->x, values, sizeof values));
    REQUIRE_FORKED(berth_tensor_map(h->x, &data));
    berth_tensor_unmap(h->x);
    require_no_files(h);
    REQUIRE_FORKED(berth_context_synchronize(ctx));
    REQUIRE_FORKED(berth_context_create(runtime, &other));
    REQUIRE(other == NULL);
    REQUIRE_FORKED(berth_runtime_query_memory(runtime, &stats));
    REQUIRE_FORKED(berth_runtime_query_step(runtime, 0, &name, &counters));
    REQUIRE(berth_runtime_query_step_count(runtime) == 0);
    REQUIRE_FORKED(berth_runtime_format_report(runtime, text, sizeof text, NULL));
    REQUIRE_FORKED(berth_trim(runtime, 0, NULL));
    REQUIRE(berth_context_error(ctx) == BERTH_ERR_FORKED);
    REQUIRE(berth_context_error_text(ctx)[0] != '\0');
    berth_context_clear_error(ctx);
    REQUIRE(berth_context_error(ctx) == BERTH_ERR_FORKED);
}

/// Releases leave the parent's objects as they are; more of them than references do no harm.
static void require_idle_releases(heirloom* h) {
    const uint64_t live = h->kit.ctx->home.live_objects;
    for (int i = 0; i < 3; ++i) {
        berth_release(h->x);
        berth_release_all(h->view, NULL);
        berth_context_release(h->kit.ctx);
        berth_runtime_release(h->kit.runtime);
    }
    REQUIRE(h->kit.ctx->home.live_objects == live);
    REQUIRE(berth_tensor_count(h->x) == 4);
    // memory is the child's copy: mapped data can still be seen
    REQUIRE(((float*)h->mapped)[3] == 4);
}

static void use_inheritance(void* argument) {
    heirloom* h = argument;
    require_no_ops(h);
    require_refusals(h);
    require_idle_releases(h);
}

static void the_child_gets_null_and_errors(void** state) {
    (void)state;
    static const char* const devices[] = {"cpu", "sim"};
    for (size_t i = 0; i < 2; ++i) {
        heirloom h;
        open_heirloom(&h, devices[i]);
        run_child(use_inheritance, &h);
        close_heirloom(&h);
    }
}

/// A thread that holds every lock of the runtime while the parent forks.
typedef struct holder {
    heirloom* h;
    pthread_barrier_t meeting;
} holder;

static void* hold_locks(void* argument) {
    holder* self = argument;
    berth_home_lock(&self->h->kit.ctx->home);
    berth_mutex_lock(&self->h->kit.runtime->lock);
    berth_storage_lock(self->h->x->storage);
    pthread_barrier_wait(&self->meeting); // held
    pthread_barrier_wait(&self->meeting); // forked
    berth_storage_unlock(self->h->x->storage);
    berth_mutex_unlock(&self->h->kit.runtime->lock);
    berth_home_unlock(&self->h->kit.ctx->home);
    return NULL;
}

static void the_child_takes_no_lock(void** state) {
    (void)state;
    heirloom h;
    holder self = {.h = &h};
    pthread_t thread;
    open_heirloom(&h, "cpu");
    assert_int_equal(pthread_barrier_init(&self.meeting, NULL, 2), 0);
    assert_int_equal(pthread_create(&thread, NULL, hold_locks, &self), 0);
    pthread_barrier_wait(&self.meeting);
    run_child(use_inheritance, &h);
    pthread_barrier_wait(&self.meeting);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_barrier_destroy(&self.meeting);
    close_heirloom(&h);
}

/// A runtime of the child's own, from creation to end.
static void live_on(void* threads) {
    const berth_option_setting settings[] = {
        {"threads", threads}, {"log", "warn"}, {"decay_ms", child_decay_ms}};
    exec_kit kit;
    REQUIRE(exec_kit_open(&kit, NULL, settings, 3) == BERTH_OK);
    for (int64_t n = 10; n < 100; n += 10) {
        float values[100];
        REQUIRE(exec_kit_begin(kit.ctx, "mine", n) == BERTH_OK);
        berth_tensor* x = exec_kit_ramp(kit.ctx, 0, n);
        berth_tensor* y = berth_affine(kit.ctx, x, 2, 1);
        REQUIRE(y != NULL);
        REQUIRE(berth_tensor_read(y, values, (uint64_t)n * sizeof(float)) == BERTH_OK);
        for (int64_t i = 0; i < n; ++i)
            REQUIRE(values[i] == (float)(2 * i + 1));
        berth_release_all(x, y);
        REQUIRE(berth_step_end(kit.ctx) == BERTH_OK);
    }
    berth_memory_stats stats;
    REQUIRE(berth_trim(kit.runtime, 0, NULL) == BERTH_OK);
    REQUIRE(berth_runtime_query_memory(kit.runtime, &stats) == BERTH_OK);
    REQUIRE(stats.mapped_bytes == 0);
    exec_kit_close(&kit);
}

/// A grandchild finds its parent's runtime forked, too.
static void live_on_and_fork(void* threads) {
    exec_kit kit;
    const berth_option_setting settings[] = {{"threads", "1"}, {"decay_ms", child_decay_ms}};
    REQUIRE(exec_kit_open(&kit, NULL, settings, 2) == BERTH_OK);
    berth_tensor* x = exec_kit_ramp(kit.ctx, 0, 3);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        alarm(SECONDS_UNTIL_HUNG);
        REQUIRE(berth_neg(kit.ctx, x) == NULL);
        REQUIRE(berth_context_error(kit.ctx) == BERTH_ERR_FORKED);
        live_on(threads);
        _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    berth_release(x);
    exec_kit_close(&kit);
}

static void the_child_may_have_a_runtime_of_its_own(void** state) {
    (void)state;
    heirloom h;
    static char one[] = "1", two[] = "2";
    open_heirloom(&h, "cpu");
    run_child(live_on, one);
    if (!HAS_TSAN) run_child(live_on, two);
    run_child(live_on_and_fork, one);
    close_heirloom(&h);
}

/// A parent whose kernels run on threads: they are not in the child.
static void the_child_of_a_parent_with_a_team_lives_on(void** state) {
    (void)state;
    const berth_option_setting setting = {"threads", "2"};
    static char two[] = "2";
    exec_kit kit;
    if (HAS_TSAN) {
        print_message("skipped: the sanitizer lets no such child start threads\n");
        skip();
    }
    assert_ok(exec_kit_open(&kit, NULL, &setting, 1));
    berth_tensor* x = berth_ones(kit.ctx, BERTH_F32, 1, (int64_t[]){1 << 20});
    berth_tensor* y = berth_neg(kit.ctx, x);
    run_child(live_on, two);
    y = berth_neg(kit.ctx, berth_move(y));
    berth_tensor* equal = berth_slice(kit.ctx, y, 0, -3, INT64_MAX, 1);
    exec_kit_expect(equal, (float[]){1, 1, 1}, 3);
    berth_release_all(x, y, equal);
    exec_kit_close(&kit);
}

static atomic_bool is_over;

/// Keeps all locks of a runtime and its allocator busy; NULL unless something fails.
static void* work_on(void* argument) {
    exec_kit* kit = argument;
    for (int64_t n = 1; !atomic_load(&is_over); n = n % 999 + 1) {
        berth_context* other;
        if (berth_context_create(kit->runtime, &other) != BERTH_OK) return kit;
        if (exec_kit_begin(kit->ctx, "busy", n) != BERTH_OK) return kit;
        berth_tensor* x = exec_kit_ramp(kit->ctx, 0, n);
        berth_tensor* y = berth_neg(other, x);
        berth_release(x);
        if (berth_step_end(kit->ctx) != BERTH_OK) return kit;
        berth_release(y);
        berth_context_release(other);
    }
    return NULL;
}

static void forks_may_come_at_any_moment_of_other_threads(void** state) {
    (void)state;
    const berth_option_setting setting = {"threads", "1"};
    static char one[] = "1";
    exec_kit kit;
    pthread_t thread;
    if (BERTH_POISONS) {
        print_message("skipped: the address sanitizer's own locks do not survive such a fork\n");
        skip();
    }
    assert_ok(exec_kit_open(&kit, NULL, &setting, 1));
    atomic_store(&is_over, false);
    assert_int_equal(pthread_create(&thread, NULL, work_on, &kit), 0);
    for (int i = 0; i < FORKS; ++i)
        run_child(live_on, one);
    atomic_store(&is_over, true);
    void* failed;
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    assert_context_ok(kit.ctx);
    exec_kit_close(&kit);
}

static pthread_barrier_t writing;
static void wait_while_writing(void* self, berth_log_level level, const char* text) {
    (void)self;
    (void)level;
    (void)text;
    pthread_barrier_wait(&writing); // the log's lock is held
    pthread_barrier_wait(&writing); // forked
}

static void* write_line(void* argument) {
    (void)argument;
    berth_log_line(BERTH_LOG_ERROR, "a line");
    return NULL;
}

static void a_child_forked_while_a_line_is_logged_can_log(void** state) {
    (void)state;
    static char one[] = "1";
    pthread_t thread;
    exec_kit kit;
    const berth_option_setting settings[] = {{"threads", "1"}, {"log", "error"}};
    assert_ok(exec_kit_open(&kit, NULL, settings, 2));
    assert_int_equal(pthread_barrier_init(&writing, NULL, 2), 0);
    berth_log_set_callback(wait_while_writing, NULL);
    assert_int_equal(pthread_create(&thread, NULL, write_line, NULL), 0);
    pthread_barrier_wait(&writing);
    run_child(live_on, one);
    pthread_barrier_wait(&writing);
    assert_int_equal(pthread_join(thread, NULL), 0);
    berth_log_set_callback(NULL, NULL);
    pthread_barrier_destroy(&writing);
    exec_kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_child_gets_null_and_errors),
        cmocka_unit_test(the_child_takes_no_lock),
        cmocka_unit_test(the_child_may_have_a_runtime_of_its_own),
        cmocka_unit_test(the_child_of_a_parent_with_a_team_lives_on),
        cmocka_unit_test(forks_may_come_at_any_moment_of_other_threads),
        cmocka_unit_test(a_child_forked_while_a_line_is_logged_can_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
