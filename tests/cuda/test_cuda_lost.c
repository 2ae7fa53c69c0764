// SPDX-License-Identifier: Apache-2.0
// A CUDA device whose work has failed, or that could not be brought back to how it was: it keeps
// the first reason, refuses everything at once, and can still be taken down.
#include "cuda/cuda_device_kit.h"

#include "base/error.h"
#include "berth/berth.h"
#include "device/cuda/cuda_api.h"

typedef struct scene {
    cuda_fixture f;
    berth_space* space; ///< granules 0 and 1 of 6 are mapped
    berth_stream* stream;
    void* pinned;
} scene;

static void begin(scene* s) {
    *s = (scene){0};
    cuda_kit_begin(&s->f);
    const berth_cuda_options options = cuda_kit_options();
    cuda_kit_open(&s->f, &options);
    assert_ok(berth_space_reserve(s->f.device, 6 * s->f.granule, &s->space));
    assert_ok(berth_space_map(s->space, 0, 2 * s->f.granule));
    assert_ok(berth_stream_create(s->f.device, &s->stream));
    assert_ok(berth_device_pin(s->f.device, 4096, &s->pinned));
}

/// Everything is given back, as an owner would that knows nothing of the loss.
static void end(scene* s) {
    berth_device_unpin(s->f.device, s->pinned, 4096);
    berth_stream_destroy(s->stream);
    assert_ok(berth_space_unmap(s->space, 0, 2 * s->f.granule));
    berth_space_release(s->space);
    cuda_kit_end(&s->f);
}

/// Enqueues the kernel that moves bytes within device memory.
static berth_status enqueue_kernel(scene* s) {
    return berth_stream_copy(
        s->stream, s->space->base + 16, s->space->base, 4096, BERTH_COPY_DEVICE_TO_DEVICE);
}

static void crash(scene* s) {
    s->f.driver->crash_kernel(1);
    assert_ok(enqueue_kernel(s));
    assert_fails(berth_stream_synchronize(s->stream), BERTH_ERR_DEVICE, "ILLEGAL_ADDRESS");
}

static void check_refused(scene* s, const char* reason) {
    const char* const lost = "the device is lost since: ";
    uint64_t total, available, ticket;
    unsigned char byte = 0;
    void* pinned;
    berth_space* space;
    berth_stream* stream;
    const berth_op_call call = {0};
    berth_device* device = s->f.device;
    const uint64_t calls = s->f.driver->query_calls(NULL);
#define REFUSED(expr)                                                                              \
    do {                                                                                           \
        assert_fails(expr, BERTH_ERR_DEVICE, lost);                                                \
        assert_non_null(strstr(berth_last_error(), reason));                                       \
    } while (0)
    REFUSED(berth_device_query_memory(device, &total, &available));
    REFUSED(berth_space_reserve(device, s->f.granule, &space));
    REFUSED(berth_space_map(s->space, 3 * s->f.granule, s->f.granule));
    REFUSED(berth_space_remap(s->space, 0, s->space, 3 * s->f.granule, s->f.granule));
    REFUSED(berth_stream_create(device, &stream));
    REFUSED(berth_stream_launch(s->stream, device->kernels[BERTH_OP_ADD], &call, 0));
    REFUSED(berth_stream_copy(s->stream, &byte, s->space->base, 1, BERTH_COPY_DEVICE_TO_HOST));
    assert_ok(berth_stream_record(s->stream, &ticket));
    REFUSED(berth_stream_wait(s->stream, ticket));
    assert_true(berth_stream_query(s->stream, ticket));
    REFUSED(berth_stream_synchronize(s->stream));
    REFUSED(berth_device_pin(device, 4096, &pinned));
#undef REFUSED
    assert_int_equal(s->f.driver->query_calls(NULL), calls);
}

static void a_failed_kernel_loses_the_device_for_good(void** state) {
    (void)state;
    scene s;
    begin(&s);
    crash(&s);
    check_refused(&s, "CUDA_ERROR_ILLEGAL_ADDRESS");
    end(&s);
}

static void tickets_of_a_lost_device_are_done(void** state) {
    (void)state;
    scene s;
    begin(&s);
    uint64_t ticket;
    s.f.driver->crash_kernel(1);
    assert_ok(enqueue_kernel(&s));
    assert_ok(berth_stream_record(s.stream, &ticket));
    assert_false(berth_stream_query(s.stream, ticket));
    assert_fails(berth_stream_wait(s.stream, ticket), BERTH_ERR_DEVICE, "ILLEGAL_ADDRESS");
    assert_true(berth_stream_query(s.stream, ticket));
    assert_fails(berth_stream_wait(s.stream, ticket), BERTH_ERR_DEVICE, "lost since");
    assert_fails(berth_stream_drain(s.stream), BERTH_ERR_DEVICE, "lost since");
    end(&s);
}

static void the_first_reason_is_kept(void** state) {
    (void)state;
    scene s;
    begin(&s);
    cuda_kit_fail(&s.f, "cuMemcpyDtoDAsync_v2", 1, CU_ERROR_ECC_UNCORRECTABLE);
    assert_fails(
        berth_stream_copy(
            s.stream, s.space->base + 4096, s.space->base, 4096, BERTH_COPY_DEVICE_TO_DEVICE),
        BERTH_ERR_DEVICE,
        "ECC_UNCORRECTABLE");
    check_refused(&s, "ECC_UNCORRECTABLE");
    end(&s);
}

static void results_that_stick_lose_the_device_and_others_do_not(void** state) {
    (void)state;
    static const struct {
        int result;
        bool is_fatal;
    } cases[] = {
        {CU_ERROR_ILLEGAL_ADDRESS, true},
        {CU_ERROR_LAUNCH_FAILED, true},
        {CU_ERROR_ILLEGAL_INSTRUCTION, true},
        {CU_ERROR_MISALIGNED_ADDRESS, true},
        {CU_ERROR_LAUNCH_TIMEOUT, true},
        {CU_ERROR_DEINITIALIZED, true},
        {CU_ERROR_INVALID_VALUE, false},
        {CU_ERROR_LAUNCH_OUT_OF_RESOURCES, false},
        {CU_ERROR_OUT_OF_MEMORY, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        scene s;
        begin(&s);
        cuda_kit_fail(&s.f, "cuLaunchKernel", 1, cases[i].result);
        assert_int_not_equal(enqueue_kernel(&s), BERTH_OK);
        if (cases[i].is_fatal)
            assert_fails(enqueue_kernel(&s), BERTH_ERR_DEVICE, "lost since");
        else
            assert_ok(enqueue_kernel(&s));
        end(&s);
    }
}

static void a_blocking_device_reports_the_launch_that_failed(void** state) {
    (void)state;
    scene s = {0};
    cuda_kit_begin(&s.f);
    berth_cuda_options options = cuda_kit_options();
    options.is_blocking = true;
    cuda_kit_open(&s.f, &options);
    assert_ok(berth_space_reserve(s.f.device, 6 * s.f.granule, &s.space));
    assert_ok(berth_space_map(s.space, 0, 2 * s.f.granule));
    assert_ok(berth_stream_create(s.f.device, &s.stream));
    assert_ok(berth_device_pin(s.f.device, 4096, &s.pinned));
    assert_ok(enqueue_kernel(&s));
    s.f.driver->crash_kernel(1);
    assert_fails(enqueue_kernel(&s), BERTH_ERR_DEVICE, "ILLEGAL_ADDRESS");
    end(&s);
}

static berth_status map(scene* s) {
    return berth_space_map(s->space, 3 * s->f.granule, 2 * s->f.granule);
}

static berth_status unmap(scene* s) { return berth_space_unmap(s->space, 0, 2 * s->f.granule); }

static berth_status remap(scene* s) {
    return berth_space_remap(s->space, 0, s->space, 3 * s->f.granule, 2 * s->f.granule);
}

/// A call fails, and then what would take back what it had done.
static void roll_backs_that_fail_lose_the_device(void** state) {
    (void)state;
    static const struct {
        berth_status (*call)(scene* s);
        const char* symbol; ///< its nth call fails
        uint64_t nth;
        const char* undone_by; ///< and the nth of this
        uint64_t undo_nth;
    } cases[] = {
        {map, "cuMemMap", 2, "cuMemUnmap", 1},
        {map, "cuMemSetAccess", 1, "cuMemUnmap", 2},
        {unmap, "cuMemUnmap", 2, "cuMemMap", 1},
        {unmap, "cuMemUnmap", 2, "cuMemSetAccess", 1},
        {remap, "cuMemSetAccess", 1, "cuMemUnmap", 1},
        {remap, "cuMemMap", 2, "cuMemUnmap", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        scene s;
        begin(&s);
        cuda_kit_fail(&s.f, cases[i].symbol, cases[i].nth, CU_ERROR_INVALID_VALUE);
        cuda_kit_fail(&s.f, cases[i].undone_by, cases[i].undo_nth, CU_ERROR_NOT_SUPPORTED);
        assert_int_equal(cases[i].call(&s), BERTH_ERR_DEVICE);
        check_refused(&s, "could not be taken back: CUDA_ERROR_NOT_SUPPORTED");
        end(&s);
    }
}

static void a_device_that_is_lost_while_it_ends_is_no_trouble(void** state) {
    (void)state;
    scene s;
    begin(&s);
    s.f.driver->crash_kernel(1);
    assert_ok(enqueue_kernel(&s)); // nobody has waited for it
    end(&s);
}

/// A runtime on the stand-in, with one more setting.
static berth_runtime* create_runtime(cuda_fixture* f, const char* option, const char* value) {
    const berth_option_setting settings[] = {
        {"DEVICE", "cuda"},
        {"CUDA_MODULE", BERTH_TEST_CUDA_MODULE},
        {"CUDA_DRIVER", BERTH_TEST_CUDA_DRIVER},
        {option, value},
        {"THREADS", "1"},
    };
    const berth_runtime_options options = {
        .struct_size = sizeof options,
        .host = &f->allocator.allocator,
        .settings = settings,
        .setting_count = sizeof settings / sizeof settings[0],
    };
    berth_runtime* runtime;
    assert_ok(berth_runtime_create(&options, &runtime));
    return runtime;
}

/// Whether another thread loses it before a call, or after the call has looked, is no difference.
static void a_device_that_is_lost_on_the_way_in_still_takes_back(void** state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        scene s;
        begin(&s);
        assert_ok(enqueue_kernel(&s));
        s.f.driver->fail_from("cuCtxPushCurrent_v2", 1, CU_ERROR_NOT_SUPPORTED);
        uint64_t ticket = 0;
        if (i == 0) {
            assert_ok(berth_stream_record(s.stream, &ticket));
            assert_true(berth_stream_query(s.stream, ticket));
        } else {
            assert_ok(berth_space_unmap(s.space, 0, s.f.granule));
            assert_ok(berth_space_unmap(s.space, s.f.granule, s.f.granule));
        }
        assert_fails(berth_stream_synchronize(s.stream), BERTH_ERR_DEVICE, "lost since: cuCtxPush");
        if (i == 0) assert_ok(berth_space_unmap(s.space, 0, 2 * s.f.granule));
        s.f.driver->fail_from("cuCtxPushCurrent_v2", 0, 0);
        berth_device_unpin(s.f.device, s.pinned, 4096);
        berth_stream_destroy(s.stream);
        berth_space_release(s.space);
        cuda_kit_end(&s.f);
    }
}

static void a_programs_error_names_the_op_whose_work_failed(void** state) {
    (void)state;
    cuda_fixture f = {.driver = cuda_kit_driver()};
    f.driver->reset(NULL);
    failing_host_init(&f.allocator);
    berth_runtime* runtime = create_runtime(&f, "LAUNCH_BLOCKING", "1");
    berth_context* context;
    assert_ok(berth_context_create(runtime, &context));
    const int64_t dims[] = {100};
    berth_tensor* x = berth_ones(context, BERTH_F32, 1, dims);
    berth_tensor* y = berth_exp(context, x);
    assert_non_null(y);
    f.driver->crash_kernel(1);
    assert_null(berth_mul(context, x, y));
    assert_int_equal(berth_context_error(context), BERTH_ERR_DEVICE);
    assert_non_null(strstr(berth_context_error_text(context), "mul(f32[100], f32[100])"));
    assert_non_null(strstr(berth_context_error_text(context), "ILLEGAL_ADDRESS"));
    berth_context_clear_error(context);
    assert_null(berth_exp(context, x));
    assert_non_null(strstr(berth_context_error_text(context), "lost since"));
    berth_release(x);
    berth_release(y);
    berth_context_release(context);
    berth_runtime_release(runtime);
    assert_int_equal(f.allocator.live_blocks, 0);
}

/// Two contexts, of which one reads what is the other's, on a device that crashes under them.
static void lose_runtime(const char* option, const char* value) {
    cuda_fixture f = {.driver = cuda_kit_driver()};
    f.driver->reset(NULL);
    failing_host_init(&f.allocator);
    berth_runtime* runtime = create_runtime(&f, option, value);
    berth_context *first, *second;
    assert_ok(berth_context_create(runtime, &first));
    assert_ok(berth_context_create(runtime, &second));
    berth_tensor* small = berth_ones(first, BERTH_F32, 1, (int64_t[]){100});
    berth_tensor* large = berth_ones(first, BERTH_F32, 1, (int64_t[]){50000});
    berth_tensor* more = berth_ones(first, BERTH_F32, 1, (int64_t[]){50000});
    assert_ok(berth_context_synchronize(first));
    f.driver->crash_kernel(1);
    berth_tensor* y = berth_exp(second, large);
    berth_tensor* z = berth_copy(second, small);
    berth_release(more);
    assert_int_equal(berth_context_synchronize(second), BERTH_ERR_DEVICE);
    berth_release_all(small, large, y, z);
    berth_context_release(first);
    berth_context_release(second);
    berth_runtime_release(runtime);
    if (f.allocator.live_blocks != 0)
        fail_msg("%d blocks of the host's are left with %s=%s",
                 (int)f.allocator.live_blocks,
                 option,
                 value);
    const char* violation;
    if (f.driver->query_violations(&violation) != 0) fail_msg("%s", violation);
}

static void a_runtime_whose_device_is_lost_ends_whatever_watches_it(void** state) {
    (void)state;
    static const char* const settings[][2] = {
        {"KEEP", "none"},
        {"GUARD", "1"},
        {"CHECK_ORDER", "1"},
        {"COMPACT", "always"},
        {"LEAKS", "1"},
        {"POISON", "both"},
        {"MODE", "pool"},
    };
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        lose_runtime(settings[i][0], settings[i][1]);
}

static void a_driver_that_takes_no_memory_back_keeps_nothing_from_ending(void** state) {
    (void)state;
    static const char* const settings[][2] = {{"KEEP", "all"}, {"GUARD", "1"}};
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        cuda_fixture f = {.driver = cuda_kit_driver()};
        f.driver->reset(NULL);
        failing_host_init(&f.allocator);
        berth_runtime* runtime = create_runtime(&f, settings[i][0], settings[i][1]);
        berth_context* context;
        assert_ok(berth_context_create(runtime, &context));
        berth_tensor* x = berth_ones(context, BERTH_F32, 1, (int64_t[]){100000});
        f.driver->fail_from("cuMemUnmap", 1, CU_ERROR_INVALID_VALUE);
        berth_release(x);
        berth_context_release(context);
        berth_runtime_release(runtime);
        assert_int_equal(f.allocator.live_blocks, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_kernel_loses_the_device_for_good),
        cmocka_unit_test(tickets_of_a_lost_device_are_done),
        cmocka_unit_test(the_first_reason_is_kept),
        cmocka_unit_test(results_that_stick_lose_the_device_and_others_do_not),
        cmocka_unit_test(a_blocking_device_reports_the_launch_that_failed),
        cmocka_unit_test(roll_backs_that_fail_lose_the_device),
        cmocka_unit_test(a_device_that_is_lost_on_the_way_in_still_takes_back),
        cmocka_unit_test(a_programs_error_names_the_op_whose_work_failed),
        cmocka_unit_test(a_device_that_is_lost_while_it_ends_is_no_trouble),
        cmocka_unit_test(a_runtime_whose_device_is_lost_ends_whatever_watches_it),
        cmocka_unit_test(a_driver_that_takes_no_memory_back_keeps_nothing_from_ending),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
