// SPDX-License-Identifier: Apache-2.0
// Every call of the driver fails in turn, in every entry of the CUDA device: the entry reports it,
// everything is as before, and the entry then succeeds.
#include "cuda/cuda_device_kit.h"

#include "base/error.h"
#include "device/cuda/cuda_api.h"

enum { BYTES = 3 * 4096 };

/// What an entry is called on.
typedef struct scene {
    cuda_fixture* f;
    berth_space* space; ///< granules 0..2 are mapped and hold a pattern, 3..7 are not
    berth_stream* stream;
    berth_stream* other; ///< `ticket` of it is pending
    uint64_t ticket;
    unsigned char host[BYTES];
    void* made; ///< what a successful call made
} scene;

typedef struct entry {
    const char* name;
    berth_status (*call)(scene* s);
    void (*undo)(scene* s); ///< of a successful call; may be NULL
} entry;

static berth_status call_map(scene* s) {
    return berth_space_map(s->space, 4 * s->f->granule, 3 * s->f->granule);
}

static void undo_map(scene* s) {
    assert_ok(berth_space_unmap(s->space, 4 * s->f->granule, 3 * s->f->granule));
}

static berth_status call_unmap(scene* s) {
    return berth_space_unmap(s->space, 0, 3 * s->f->granule);
}

static void fill(scene* s) {
    for (size_t i = 0; i < BYTES; i++)
        s->host[i] = (unsigned char)(i * 31 + i / 256);
    for (int g = 0; g < 3; g++)
        assert_ok(berth_stream_copy(s->stream,
                                    s->space->base + (uint64_t)g * s->f->granule,
                                    s->host + g * (BYTES / 3),
                                    BYTES / 3,
                                    BERTH_COPY_HOST_TO_DEVICE));
    assert_ok(berth_stream_synchronize(s->stream));
}

static void undo_unmap(scene* s) {
    assert_ok(berth_space_map(s->space, 0, 3 * s->f->granule));
    fill(s);
}

static berth_status call_remap(scene* s) {
    return berth_space_remap(s->space, 0, s->space, 5 * s->f->granule, 3 * s->f->granule);
}

static void undo_remap(scene* s) {
    assert_ok(berth_space_remap(s->space, 5 * s->f->granule, s->space, 0, 3 * s->f->granule));
}

static berth_status call_reserve(scene* s) {
    berth_space* made;
    const berth_status status = berth_space_reserve(s->f->device, 2 * s->f->granule, &made);
    s->made = made;
    return status;
}

static void undo_reserve(scene* s) { berth_space_release(s->made); }

static berth_status call_pin(scene* s) { return berth_device_pin(s->f->device, 10000, &s->made); }

static void undo_pin(scene* s) { berth_device_unpin(s->f->device, s->made, 10000); }

static berth_status call_query_memory(scene* s) {
    uint64_t total, available;
    return berth_device_query_memory(s->f->device, &total, &available);
}

static berth_status call_stream_create(scene* s) {
    berth_stream* made;
    const berth_status status = berth_stream_create(s->f->device, &made);
    s->made = made;
    return status;
}

static void undo_stream_create(scene* s) { berth_stream_destroy(s->made); }

static berth_status call_copy_in(scene* s) {
    return berth_stream_copy(
        s->stream, s->space->base, s->host, BYTES / 3, BERTH_COPY_HOST_TO_DEVICE);
}

static berth_status call_copy_out(scene* s) {
    return berth_stream_copy(
        s->stream, s->host, s->space->base, BYTES / 3, BERTH_COPY_DEVICE_TO_HOST);
}

/// By a few copies of the driver, each of which writes what is there.
static berth_status call_copy_within(scene* s) {
    return berth_stream_copy(s->stream,
                             s->space->base + 2 * s->f->granule + BYTES,
                             s->space->base + 2 * s->f->granule + BYTES - 512,
                             2048,
                             BERTH_COPY_DEVICE_TO_DEVICE);
}

/// By a kernel.
static berth_status call_move(scene* s) {
    return berth_stream_copy(s->stream,
                             s->space->base + 2 * s->f->granule + BYTES + 16,
                             s->space->base + 2 * s->f->granule + BYTES,
                             8192,
                             BERTH_COPY_DEVICE_TO_DEVICE);
}

static berth_status call_synchronize(scene* s) {
    BERTH_TRY(call_copy_in(s));
    return berth_stream_synchronize(s->stream);
}

static berth_status call_wait(scene* s) { return berth_stream_wait(s->other, s->ticket); }

static berth_status call_wait_stream(scene* s) {
    return berth_stream_wait_stream(s->stream, s->other, s->ticket);
}

static const entry entries[] = {
    {"map", call_map, undo_map},
    {"unmap", call_unmap, undo_unmap},
    {"remap", call_remap, undo_remap},
    {"reserve", call_reserve, undo_reserve},
    {"pin", call_pin, undo_pin},
    {"query_memory", call_query_memory, NULL},
    {"stream_create", call_stream_create, undo_stream_create},
    {"copy to the device", call_copy_in, NULL},
    {"copy to the host", call_copy_out, NULL},
    {"copy on the device", call_copy_within, NULL},
    {"move on the device", call_move, NULL},
    {"synchronize", call_synchronize, NULL},
    {"wait", call_wait, NULL},
    {"wait_stream", call_wait_stream, NULL},
};
enum { ENTRIES = sizeof entries / sizeof entries[0] };

static void begin(scene* s) {
    static cuda_fixture fixture;
    cuda_kit_begin(&fixture);
    const berth_cuda_options options = cuda_kit_options();
    cuda_kit_open(&fixture, &options);
    *s = (scene){.f = &fixture};
    assert_ok(berth_space_reserve(s->f->device, 8 * s->f->granule, &s->space));
    assert_ok(berth_space_map(s->space, 0, 3 * s->f->granule));
    assert_ok(berth_stream_create(s->f->device, &s->stream));
    assert_ok(berth_stream_create(s->f->device, &s->other));
    fill(s);
    assert_ok(
        berth_stream_copy(s->other, s->space->base, s->host, BYTES / 3, BERTH_COPY_HOST_TO_DEVICE));
    assert_ok(berth_stream_record(s->other, &s->ticket));
}

static void end(scene* s) {
    berth_stream_destroy(s->stream);
    berth_stream_destroy(s->other);
    assert_ok(berth_space_unmap(s->space, 0, 3 * s->f->granule));
    berth_space_release(s->space);
    cuda_kit_end_clean(s->f);
}

/// What was written before is where it was.
static void check_content(scene* s) {
    unsigned char found[BYTES];
    for (int g = 0; g < 3; g++)
        assert_ok(berth_stream_copy(s->other,
                                    found + g * (BYTES / 3),
                                    s->space->base + (uint64_t)g * s->f->granule,
                                    BYTES / 3,
                                    BERTH_COPY_DEVICE_TO_HOST));
    assert_ok(berth_stream_synchronize(s->other));
    assert_memory_equal(found, s->host, BYTES);
}

static void check_live(const entry* of, const standin_live* before, const standin_live* after) {
    // events wait on a free list, for the stream's life
    standin_live expected = *before;
    expected.events = after->events;
    if (memcmp(&expected, after, sizeof expected) != 0 || after->events > before->events + 1)
        fail_msg("%s: something is left of a failure", of->name);
}

/// The nth call of the driver fails in the entry; true if the entry makes so many.
static bool fail_nth(const entry* of, uint64_t nth, int result) {
    scene s;
    begin(&s);
    const standin_live before = cuda_kit_live(s.f);
    cuda_kit_fail(s.f, NULL, nth, result);
    const uint64_t calls = s.f->driver->query_calls(NULL);
    berth_status status = of->call(&s);
    const bool is_reached = s.f->driver->query_calls(NULL) - calls >= nth;
    cuda_kit_fail(s.f, NULL, 0, 0);
    if (status != BERTH_OK) {
        assert_true(is_reached);
        const bool is_memory = result == CU_ERROR_OUT_OF_MEMORY;
        assert_int_equal(status, is_memory ? BERTH_ERR_OUT_OF_MEMORY : BERTH_ERR_DEVICE);
        assert_non_null(strstr(berth_last_error(), "failed: "));
        const standin_live after = cuda_kit_live(s.f);
        check_live(of, &before, &after);
        check_content(&s);
        assert_ok(of->call(&s));
    }
    if (of->undo != NULL) of->undo(&s);
    check_content(&s);
    end(&s);
    return is_reached;
}

static void a_call_that_fails_leaves_everything_as_before(void** state) {
    (void)state;
    for (int i = 0; i < ENTRIES; i++) {
        uint64_t nth = 1;
        while (fail_nth(&entries[i], nth, CU_ERROR_OUT_OF_MEMORY))
            nth++;
        assert_true(nth > 2); // the context, and what the entry is for
    }
}

static void errors_that_are_not_of_memory_are_the_devices(void** state) {
    (void)state;
    for (int i = 0; i < ENTRIES; i++) {
        for (uint64_t nth = 1; fail_nth(&entries[i], nth, CU_ERROR_INVALID_VALUE);)
            nth++;
    }
}

/// The host's allocations fail in turn.
static void host_memory_that_is_missing_is_reported_or_done_without(void** state) {
    (void)state;
    for (int i = 0; i < ENTRIES; i++) {
        scene s;
        begin(&s);
        for (size_t nth = 1;; nth++) {
            failing_host_fail(&s.f->allocator, nth, false);
            const berth_status status = entries[i].call(&s);
            const bool has_failed = failing_host_has_failed(&s.f->allocator);
            failing_host_fail(&s.f->allocator, 0, false);
            if (!has_failed) {
                assert_ok(status);
                break;
            }
            // an event that there is no memory for is done without
            if (entries[i].call == call_synchronize) break;
            assert_int_equal(status, BERTH_ERR_OUT_OF_MEMORY);
        }
        if (entries[i].undo != NULL) entries[i].undo(&s);
        check_content(&s);
        end(&s);
    }
}

/// The nth allocation of a device's creation fails, or the nth call of the driver.
static bool fail_creation(uint64_t nth, bool is_of_host) {
    cuda_fixture f;
    cuda_kit_begin(&f);
    const berth_cuda_options options = cuda_kit_options();
    const uint64_t calls = f.driver->query_calls(NULL);
    if (is_of_host)
        failing_host_fail(&f.allocator, nth, false);
    else
        cuda_kit_fail(&f, NULL, nth, CU_ERROR_NOT_SUPPORTED);
    const berth_status status =
        berth_cuda_open(f.host, BERTH_TEST_CUDA_MODULE, &options, &f.device);
    const bool is_reached = is_of_host ? failing_host_has_failed(&f.allocator)
                                       : f.driver->query_calls(NULL) - calls >= nth;
    failing_host_fail(&f.allocator, 0, false);
    cuda_kit_fail(&f, NULL, 0, 0);
    if (status != BERTH_OK) {
        assert_true(is_reached);
        assert_null(f.device);
        assert_int_equal(status, is_of_host ? BERTH_ERR_OUT_OF_MEMORY : BERTH_ERR_DEVICE);
        assert_true(berth_last_error()[0] != '\0');
        standin_live live = cuda_kit_live(&f);
        assert_int_equal(live.context_references, 0);
        assert_int_equal(live.modules, 0);
    }
    cuda_kit_end(&f);
    return is_reached;
}

static void a_creation_that_fails_leaves_nothing(void** state) {
    (void)state;
    uint64_t calls = 1, allocations = 1;
    while (fail_creation(calls, false))
        calls++;
    while (fail_creation(allocations, true))
        allocations++;
    assert_true(calls > 10 && allocations > 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_that_fails_leaves_everything_as_before),
        cmocka_unit_test(errors_that_are_not_of_memory_are_the_devices),
        cmocka_unit_test(host_memory_that_is_missing_is_reported_or_done_without),
        cmocka_unit_test(a_creation_that_fails_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
