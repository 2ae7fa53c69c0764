// SPDX-License-Identifier: Apache-2.0
// Waiting for a CUDA device that refuses to be waited for: whoever takes memory away from its work
// knows in the end that none of it runs any more.
#include "cuda/cuda_device_kit.h"

#include "base/error.h"
#include "berth/berth.h"
#include "device/cuda/cuda_api.h"

enum { BYTES = 4096 };

typedef struct scene {
    cuda_fixture f;
    berth_space* space; ///< one granule of it is mapped, and holds `written`
    berth_stream* stream;
    unsigned char written[BYTES];
    unsigned char read[BYTES];
} scene;

static void begin(scene* s, const berth_cuda_options* options) {
    *s = (scene){0};
    cuda_kit_begin(&s->f);
    cuda_kit_open(&s->f, options);
    assert_ok(berth_space_reserve(s->f.device, s->f.granule, &s->space));
    assert_ok(berth_space_map(s->space, 0, s->f.granule));
    assert_ok(berth_stream_create(s->f.device, &s->stream));
    for (int i = 0; i < BYTES; i++)
        s->written[i] = (unsigned char)(i * 7 + 3);
    assert_ok(
        berth_stream_copy(s->stream, s->space->base, s->written, BYTES, BERTH_COPY_HOST_TO_DEVICE));
}

static void end(scene* s) {
    s->f.driver->fail_from("cuStreamSynchronize", 0, 0);
    s->f.driver->fail_from("cuEventSynchronize", 0, 0);
    berth_stream_destroy(s->stream);
    assert_ok(berth_space_unmap(s->space, 0, s->f.granule));
    berth_space_release(s->space);
    cuda_kit_end_clean(&s->f);
}

static berth_status enqueue_read(scene* s) {
    return berth_stream_copy(s->stream, s->read, s->space->base, BYTES, BERTH_COPY_DEVICE_TO_HOST);
}

/// With seed 0 the stand-in works in calls that wait alone.
static void assert_has_run(const scene* s) { assert_memory_equal(s->read, s->written, BYTES); }

static void work_that_no_event_can_mark_is_waited_for(void** state) {
    (void)state;
    static const char* const symbols[] = {"cuEventCreate", "cuEventRecord"};
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        scene s;
        const berth_cuda_options options = cuda_kit_options();
        begin(&s, &options);
        s.f.driver->fail_from(symbols[i], 1, CU_ERROR_OUT_OF_MEMORY);
        uint64_t ticket;
        assert_ok(enqueue_read(&s));
        assert_ok(berth_stream_record(s.stream, &ticket));
        assert_has_run(&s);
        assert_true(berth_stream_query(s.stream, ticket));
        assert_ok(berth_stream_drain(s.stream));
        end(&s);
    }
}

static void work_that_there_is_no_host_memory_to_mark_is_waited_for(void** state) {
    (void)state;
    scene s;
    const berth_cuda_options options = cuda_kit_options();
    begin(&s, &options);
    assert_ok(enqueue_read(&s));
    failing_host_fail(&s.f.allocator, 1, true);
    assert_ok(berth_stream_drain(s.stream));
    failing_host_fail(&s.f.allocator, 0, false);
    assert_has_run(&s);
    end(&s);
}

static void an_event_that_cannot_be_waited_for_is_by_its_stream(void** state) {
    (void)state;
    scene s;
    const berth_cuda_options options = cuda_kit_options();
    begin(&s, &options);
    s.f.driver->fail_from("cuEventSynchronize", 1, CU_ERROR_NOT_SUPPORTED);
    assert_ok(enqueue_read(&s));
    assert_ok(berth_stream_synchronize(s.stream));
    assert_has_run(&s);
    end(&s);
}

static void a_device_that_cannot_be_waited_for_at_all_is_lost(void** state) {
    (void)state;
    scene s;
    const berth_cuda_options options = cuda_kit_options();
    begin(&s, &options);
    uint64_t ticket;
    assert_ok(berth_stream_record(s.stream, &ticket));
    s.f.driver->fail_from("cuEventSynchronize", 1, CU_ERROR_NOT_SUPPORTED);
    s.f.driver->fail_from("cuStreamSynchronize", 1, CU_ERROR_NOT_SUPPORTED);
    assert_fails(berth_stream_wait(s.stream, ticket),
                 BERTH_ERR_DEVICE,
                 "a stream cannot be waited for: CUDA_ERROR_NOT_SUPPORTED");
    assert_true(berth_stream_query(s.stream, ticket));
    assert_fails(enqueue_read(&s), BERTH_ERR_DEVICE, "lost since: a stream cannot be waited for");
    end(&s);
}

static void a_device_whose_context_cannot_be_made_current_is_lost(void** state) {
    (void)state;
    scene s;
    const berth_cuda_options options = cuda_kit_options();
    begin(&s, &options);
    assert_ok(enqueue_read(&s));
    cuda_kit_fail(&s.f, "cuCtxPushCurrent_v2", 1, CU_ERROR_NOT_SUPPORTED);
    assert_ok(berth_stream_drain(s.stream)); // once does no harm
    assert_has_run(&s);
    assert_ok(enqueue_read(&s));
    s.f.driver->fail_from("cuCtxPushCurrent_v2", 1, CU_ERROR_NOT_SUPPORTED);
    assert_fails(berth_stream_drain(s.stream), BERTH_ERR_DEVICE, "failed twice");
    assert_true(berth_stream_come_to_rest(s.stream));
    s.f.driver->fail_from("cuCtxPushCurrent_v2", 0, 0);
    assert_fails(enqueue_read(&s), BERTH_ERR_DEVICE, "lost since: cuCtxPushCurrent failed twice");
    end(&s);
}

static void a_blocking_call_that_cannot_wait_at_once_waits_again(void** state) {
    (void)state;
    scene s;
    berth_cuda_options options = cuda_kit_options();
    options.is_blocking = true;
    begin(&s, &options);
    cuda_kit_fail(&s.f, "cuStreamSynchronize", 1, CU_ERROR_NOT_SUPPORTED);
    assert_ok(enqueue_read(&s));
    assert_has_run(&s);
    end(&s);
}

/// A sort of so many rows is of two kernels; the first reads its operand.
enum { LONG = 70000 };

static void what_a_failed_op_had_enqueued_may_still_read_other_contexts_operands(void** state) {
    (void)state;
    cuda_fixture f = {.driver = cuda_kit_driver()};
    f.driver->reset(NULL);
    const berth_option_setting settings[] = {
        {"DEVICE", "cuda"},
        {"CUDA_MODULE", BERTH_TEST_CUDA_MODULE},
        {"CUDA_DRIVER", BERTH_TEST_CUDA_DRIVER},
        {"KEEP", "none"},
    };
    const berth_runtime_options options = {
        .struct_size = sizeof options,
        .settings = settings,
        .setting_count = sizeof settings / sizeof settings[0],
    };
    berth_runtime* runtime;
    berth_context *owner, *user;
    assert_ok(berth_runtime_create(&options, &runtime));
    assert_ok(berth_context_create(runtime, &owner));
    assert_ok(berth_context_create(runtime, &user));
    berth_tensor* x = berth_ones(owner, BERTH_F32, 1, (int64_t[]){LONG});
    assert_ok(berth_context_synchronize(owner));
    cuda_kit_fail(&f, "cuLaunchKernel", 2, CU_ERROR_LAUNCH_OUT_OF_RESOURCES);
    assert_null(berth_sort(user, x, 0, false, NULL));
    assert_non_null(strstr(berth_context_error_text(user), "sort(f32[70000])"));
    assert_non_null(strstr(berth_context_error_text(user), "LAUNCH_OUT_OF_RESOURCES"));
    berth_release(x);
    assert_ok(berth_trim(runtime, 0, NULL));
    assert_ok(berth_context_synchronize(user));
    berth_context_release(owner);
    berth_context_release(user);
    berth_runtime_release(runtime);
    const char* first;
    if (f.driver->query_violations(&first) != 0) fail_msg("%s", first);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_that_no_event_can_mark_is_waited_for),
        cmocka_unit_test(work_that_there_is_no_host_memory_to_mark_is_waited_for),
        cmocka_unit_test(an_event_that_cannot_be_waited_for_is_by_its_stream),
        cmocka_unit_test(a_device_that_cannot_be_waited_for_at_all_is_lost),
        cmocka_unit_test(a_device_whose_context_cannot_be_made_current_is_lost),
        cmocka_unit_test(a_blocking_call_that_cannot_wait_at_once_waits_again),
        cmocka_unit_test(what_a_failed_op_had_enqueued_may_still_read_other_contexts_operands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
