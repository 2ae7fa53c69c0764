// SPDX-License-Identifier: Apache-2.0
// Several threads on the CUDA device, over the stand-in for the driver: they share it, open and
// close it, hand work from stream to stream, and lose it while they allocate.
#include "cuda/cuda_kit.h"

#include <pthread.h>
#include <stdatomic.h>

#include "berth/berth.h"
#include "device/cuda/cuda_api.h"
#include "kit/sharing_worker.h"

enum { MOST_THREADS = 8, OPENINGS = 6, HANDOVERS = 60, LOSS_TURNS = 400 };

static berth_status open_runtime(berth_runtime** out_runtime) {
    static const berth_option_setting settings[] = {
        {"DEVICE", "cuda"},
        {"CUDA_MODULE", BERTH_TEST_CUDA_MODULE},
        {"CUDA_DRIVER", BERTH_TEST_CUDA_DRIVER},
        {"THREADS", "1"},
        {"LOG", "off"},
    };
    const berth_runtime_options options = {
        .struct_size = sizeof options,
        .settings = settings,
        .setting_count = sizeof settings / sizeof settings[0],
    };
    return berth_runtime_create(&options, out_runtime);
}

/// What threads share; the first that finds something wrong keeps it in `failure`.
typedef struct crew {
    berth_runtime* runtime;
    pthread_barrier_t start;
    atomic_bool has_failed;
    char failure[400];
    atomic_uint_fast64_t count;
    berth_context* contexts[MOST_THREADS];
    _Atomic(berth_tensor*) box;
} crew;

static void note(crew* c, const char* what, const char* text) {
    if (atomic_exchange(&c->has_failed, true)) return;
    (void)snprintf(c->failure, sizeof c->failure, "%s: %s", what, text);
}

typedef struct member {
    crew* c;
    size_t number;
    void (*work)(crew* c, size_t number);
} member;

static void* run_member(void* opaque) {
    const member* m = opaque;
    pthread_barrier_wait(&m->c->start);
    m->work(m->c, m->number);
    return NULL;
}

static void run_crew(crew* c, size_t threads, void (*work)(crew* c, size_t number)) {
    pthread_t handles[MOST_THREADS];
    member members[MOST_THREADS];
    assert_int_equal(pthread_barrier_init(&c->start, NULL, (unsigned)threads), 0);
    for (size_t i = 0; i < threads; i++) {
        members[i] = (member){c, i, work};
        assert_int_equal(pthread_create(&handles[i], NULL, run_member, &members[i]), 0);
    }
    for (size_t i = 0; i < threads; i++)
        assert_int_equal(pthread_join(handles[i], NULL), 0);
    (void)pthread_barrier_destroy(&c->start);
    if (atomic_load(&c->has_failed)) fail_msg("%s", c->failure);
}

/// sum(2 * ones[count]), and what it is.
static bool compute(berth_context* ctx, int64_t count, float* out_value) {
    berth_tensor* x = berth_ones(ctx, BERTH_F32, BERTH_SHAPE(count));
    x = berth_add(ctx, x, berth_move(x));
    berth_tensor* sum = berth_sum(ctx, berth_move(x), BERTH_DIMS(0), false);
    const bool is_read =
        sum != NULL && berth_tensor_read(sum, out_value, sizeof *out_value) == BERTH_OK;
    berth_release(sum);
    return is_read;
}

// --- Runtimes that come and go ------------------------------------------------------------------

static void open_and_close(crew* c, size_t number) {
    for (size_t i = 0; i < OPENINGS; i++) {
        berth_runtime* runtime;
        berth_context* ctx = NULL;
        float value = 0.0f;
        const int64_t count = 100 + (int64_t)(10 * number + i);
        if (open_runtime(&runtime) != BERTH_OK) {
            note(c, "a runtime", berth_last_error());
            return;
        }
        if (berth_context_create(runtime, &ctx) != BERTH_OK)
            note(c, "a context", berth_last_error());
        else if (!compute(ctx, count, &value) || value != 2.0f * (float)count)
            note(c, "a sum", berth_context_error_text(ctx));
        berth_context_release(ctx);
        berth_runtime_release(runtime);
    }
}

static void threads_open_and_close_the_device_at_a_time(void** state) {
    (void)state;
    cuda_kit_reset(0);
    crew c = {0};
    run_crew(&c, MOST_THREADS, open_and_close);
    cuda_kit_assert_clean();
}

/// Asks for what is not there, too: each thread gets its own sentence.
static void open_in_vain(crew* c, size_t number) {
    berth_device* device;
    char driver[64];
    (void)snprintf(driver, sizeof driver, "/nowhere/libcuda.so.%zu", number);
    const berth_cuda_options options = {.driver = driver};
    for (size_t i = 0; i < OPENINGS; i++) {
        if (number % 2 == 0) {
            open_and_close(c, number);
        } else if (berth_cuda_open(
                       berth_host_default(), BERTH_TEST_CUDA_MODULE, &options, &device) !=
                       BERTH_ERR_DEVICE ||
                   strstr(berth_last_error(), driver) == NULL) {
            note(c, "another's sentence", berth_last_error());
        }
    }
}

static void threads_that_find_no_driver_disturb_no_others(void** state) {
    (void)state;
    cuda_kit_reset(0);
    crew c = {0};
    run_crew(&c, 4, open_in_vain);
    cuda_kit_assert_clean();
}

// --- One device ---------------------------------------------------------------------------------

static void threads_share_the_device(void** state) {
    (void)state;
    static const char* const capacities[] = {"2M", "3M"};
    static sharing_shop shop;
    for (uint64_t i = 0; i < 2; i++) {
        const berth_option_setting settings[] = {
            {"device", "cuda"},
            {"cuda_module", BERTH_TEST_CUDA_MODULE},
            {"cuda_driver", BERTH_TEST_CUDA_DRIVER},
            {"memory", capacities[i]},
            {"check_order", "1"},
            {"compact", i == 0 ? "auto" : "always"},
            {"log", "off"},
        };
        cuda_kit_reset(i);
        if (!sharing_run(&shop, settings, sizeof settings / sizeof settings[0], 3, 60, i + 1))
            fail_msg("%s", shop.failure);
        cuda_kit_assert_clean();
    }
}

enum { MOST_ELEMENTS = 4000 };

/// True if all elements are the same number below 0.
static bool is_even(crew* c, berth_tensor* x) {
    float seen[MOST_ELEMENTS] = {0.0f};
    const size_t bytes = (size_t)berth_tensor_bytes(x);
    if (bytes > sizeof seen || berth_tensor_read(x, seen, bytes) != BERTH_OK) {
        note(c, "a read", berth_last_error());
        return false;
    }
    for (size_t i = 0; i < bytes / sizeof seen[0]; i++)
        if (seen[i] != seen[0] || seen[i] >= 0.0f) return false;
    return true;
}

/// Takes what another thread has left, computes with it on a stream of its own, and is the one that
/// releases it: both streams' work is done with it before the memory is anybody else's.
static void hand_over(crew* c, size_t number) {
    berth_context* ctx = c->contexts[number];
    for (int64_t i = 0; i < HANDOVERS && !atomic_load(&c->has_failed); i++) {
        const double mine = (double)(1 + 1000 * (int64_t)number + i);
        berth_tensor* x = berth_full(ctx, mine, BERTH_F32, BERTH_SHAPE(500 + 50 * i));
        x = atomic_exchange(&c->box, x);
        if (x == NULL) continue;
        berth_tensor* y = berth_neg(ctx, x);
        berth_release(x);
        if (y == NULL)
            note(c, "a tensor of another stream", berth_context_error_text(ctx));
        else if (!is_even(c, y))
            note(c, "a tensor of another stream", "it has changed");
        berth_release(y);
    }
}

static void begin(crew* c, size_t threads) {
    *c = (crew){0};
    assert_ok(open_runtime(&c->runtime));
    for (size_t i = 0; i < threads; i++)
        assert_ok(berth_context_create(c->runtime, &c->contexts[i]));
}

static void end(crew* c) {
    berth_release(atomic_exchange(&c->box, NULL));
    for (size_t i = 0; i < MOST_THREADS; i++)
        berth_context_release(c->contexts[i]);
    berth_runtime_release(c->runtime);
}

static void threads_hand_tensors_from_stream_to_stream(void** state) {
    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++) {
        cuda_kit_reset(seed);
        crew c;
        begin(&c, 4);
        run_crew(&c, 4, hand_over);
        end(&c);
        cuda_kit_assert_clean();
    }
}

/// Data goes to the device and back while pinned memory comes and goes.
static void transfer(crew* c, size_t number) {
    berth_context* ctx = c->contexts[number];
    float data[MOST_ELEMENTS];
    for (int64_t i = 0; i < HANDOVERS && !atomic_load(&c->has_failed); i++) {
        const int64_t count = 1 + (997 * i + 31 * (int64_t)number) % MOST_ELEMENTS;
        for (int64_t k = 0; k < count; k++)
            data[k] = -(float)(number + 1);
        void* own;
        if (berth_pinned_alloc(c->runtime, 1 + (uint64_t)(i % 7) * 4096, &own) != BERTH_OK)
            note(c, "pinned memory", berth_last_error());
        berth_tensor* x = berth_tensor_from_memory(
            ctx, data, sizeof data, BERTH_F32, BERTH_SHAPE(count), true, NULL, NULL);
        if (x == NULL)
            note(c, "data of the host", berth_context_error_text(ctx));
        else if (!is_even(c, x))
            note(c, "data of the host", "it has changed");
        berth_release(x);
        berth_pinned_free(c->runtime, own);
    }
}

static void threads_transfer_while_pinned_memory_comes_and_goes(void** state) {
    (void)state;
    cuda_kit_reset(7);
    crew c;
    begin(&c, 4);
    run_crew(&c, 4, transfer);
    end(&c);
    cuda_kit_assert_clean();
}

// --- Loss ---------------------------------------------------------------------------------------

/// Allocates and computes until the device is lost, which nothing but its own error says.
static void work_until_lost(crew* c, size_t number) {
    berth_context* ctx = c->contexts[number];
    for (int64_t i = 0; i < LOSS_TURNS; i++) {
        float value = 0.0f;
        const int64_t count = 100 + 37 * i % 3000;
        if (atomic_fetch_add(&c->count, 1) == LOSS_TURNS / 2) cuda_kit_control()->crash_kernel(1);
        const berth_step_input input = {.name = "n", .rank = 1, .dims = &count};
        const berth_step_desc step = {.name = "work", .inputs = &input, .input_count = 1};
        const bool is_step = i % 3 != 0 && berth_step_begin(ctx, &step) == BERTH_OK;
        const bool is_done = compute(ctx, count, &value);
        if (is_step) (void)!berth_step_end(ctx);
        if (is_done && value != 2.0f * (float)count) note(c, "a sum", "it is wrong");
        if (i % 16 == 0) (void)!berth_trim(c->runtime, 0, NULL);
        const berth_status status = berth_context_error(ctx);
        if (status == BERTH_ERR_DEVICE) return;
        if (status != BERTH_OK) note(c, "work", berth_context_error_text(ctx));
    }
    note(c, "work", "it has not failed");
}

static void a_device_that_is_lost_under_threads_tells_all_of_them(void** state) {
    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++) {
        cuda_kit_reset(seed);
        crew c;
        begin(&c, 4);
        run_crew(&c, 4, work_until_lost);
        for (size_t i = 0; i < 4; i++) {
            berth_context_clear_error(c.contexts[i]);
            assert_null(berth_ones(c.contexts[i], BERTH_F32, BERTH_SHAPE(10)));
            assert_non_null(strstr(berth_context_error_text(c.contexts[i]), "lost since"));
        }
        end(&c);
        cuda_kit_assert_no_violation();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_open_and_close_the_device_at_a_time),
        cmocka_unit_test(threads_that_find_no_driver_disturb_no_others),
        cmocka_unit_test(threads_share_the_device),
        cmocka_unit_test(threads_hand_tensors_from_stream_to_stream),
        cmocka_unit_test(threads_transfer_while_pinned_memory_comes_and_goes),
        cmocka_unit_test(a_device_that_is_lost_under_threads_tells_all_of_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
