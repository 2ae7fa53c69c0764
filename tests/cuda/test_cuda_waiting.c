// SPDX-License-Identifier: Apache-2.0
// Waiting for a CUDA device that refuses to be waited for: whoever takes memory away from its work
// knows in the end that none of it runs any more.
#include "cuda/cuda_device_kit.h"

#include "base/error.h"
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_that_no_event_can_mark_is_waited_for),
        cmocka_unit_test(work_that_there_is_no_host_memory_to_mark_is_waited_for),
        cmocka_unit_test(an_event_that_cannot_be_waited_for_is_by_its_stream),
        cmocka_unit_test(a_device_that_cannot_be_waited_for_at_all_is_lost),
        cmocka_unit_test(a_blocking_call_that_cannot_wait_at_once_waits_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
