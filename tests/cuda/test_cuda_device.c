// SPDX-License-Identifier: Apache-2.0
// The CUDA device over the stand-in for the driver: what it asks of the driver, beyond what every
// device promises (tests/conformance).
#include "cuda/cuda_device_kit.h"

#include <pthread.h>
#include <stdatomic.h>

#include "berth/cuda.h"
#include "device/cuda/cuda_api.h"

enum { BYTES = 50000 };

static unsigned char pattern(uint64_t i) { return (unsigned char)(i * 131 + (i >> 8) * 7 + 3); }

typedef struct room {
    berth_space* space;
    berth_stream* stream;
} room;

static room take_room(const cuda_fixture* f) {
    room taken;
    assert_ok(berth_space_reserve(f->device, 4 * f->granule, &taken.space));
    assert_ok(berth_space_map(taken.space, 0, 2 * f->granule));
    assert_ok(berth_stream_create(f->device, &taken.stream));
    return taken;
}

static void give_room(const cuda_fixture* f, room given) {
    berth_stream_destroy(given.stream);
    assert_ok(berth_space_unmap(given.space, 0, 2 * f->granule));
    berth_space_release(given.space);
}

static void granules_are_what_the_driver_recommends(void** state) {
    const cuda_fixture* f = *state;
    standin_settings settings;
    f->driver->get_settings(&settings);
    assert_int_equal(f->granule, settings.granularity_bytes);
    berth_space* space;
    assert_ok(berth_space_reserve(f->device, 8 * f->granule, &space));
    assert_ok(berth_space_map(space, f->granule, 3 * f->granule));
    assert_int_equal(cuda_kit_live(f).allocations, 3);
    assert_int_equal(cuda_kit_live(f).mapped_bytes, 3 * f->granule);
    assert_ok(berth_space_unmap(space, 2 * f->granule, f->granule));
    assert_int_equal(cuda_kit_live(f).allocations, 2);
    assert_ok(berth_space_unmap(space, f->granule, f->granule));
    assert_ok(berth_space_unmap(space, 3 * f->granule, f->granule));
    berth_space_release(space);
}

static void a_range_gets_its_access_in_one_call(void** state) {
    const cuda_fixture* f = *state;
    berth_space* space;
    assert_ok(berth_space_reserve(f->device, 8 * f->granule, &space));
    const uint64_t before = f->driver->query_calls("cuMemSetAccess");
    assert_ok(berth_space_map(space, 0, 8 * f->granule));
    assert_int_equal(f->driver->query_calls("cuMemSetAccess"), before + 1);
    assert_ok(berth_space_unmap(space, 0, 8 * f->granule));
    berth_space_release(space);
}

static void remapped_granules_keep_what_they_hold_without_a_copy(void** state) {
    const cuda_fixture* f = *state;
    room in = take_room(f);
    static unsigned char written[BYTES], read[BYTES];
    for (uint64_t i = 0; i < BYTES; i++)
        written[i] = pattern(i);
    assert_ok(
        berth_stream_copy(in.stream, in.space->base, written, BYTES, BERTH_COPY_HOST_TO_DEVICE));
    assert_ok(berth_stream_synchronize(in.stream));
    const uint64_t copies = f->driver->query_calls("cuMemcpyDtoDAsync_v2");
    assert_ok(berth_space_remap(in.space, 0, in.space, 2 * f->granule, 2 * f->granule));
    assert_int_equal(f->driver->query_calls("cuMemcpyDtoDAsync_v2"), copies);
    assert_int_equal(cuda_kit_live(f).mapped_bytes, 2 * f->granule);
    assert_ok(berth_stream_copy(
        in.stream, read, in.space->base + 2 * f->granule, BYTES, BERTH_COPY_DEVICE_TO_HOST));
    assert_ok(berth_stream_synchronize(in.stream));
    assert_memory_equal(read, written, BYTES);
    assert_ok(berth_space_remap(in.space, 2 * f->granule, in.space, 0, 2 * f->granule));
    give_room(f, in);
}

static void mapped_bytes_are_taken_off_what_is_available(void** state) {
    const cuda_fixture* f = *state;
    uint64_t total, available, total_after, available_after;
    assert_ok(berth_device_query_memory(f->device, &total, &available));
    assert_int_equal(total, available);
    assert_true(total > 0 && total % f->granule == 0);
    room in = take_room(f);
    assert_ok(berth_device_query_memory(f->device, &total_after, &available_after));
    assert_int_equal(total_after, total);
    assert_int_equal(available_after, available - 2 * f->granule);
    give_room(f, in);
}

static void the_driver_keeps_a_part_for_its_kernels(void** state) {
    const cuda_fixture* f = *state;
    standin_settings settings;
    f->driver->get_settings(&settings);
    uint64_t total, available;
    assert_ok(berth_device_query_memory(f->device, &total, &available));
    assert_true(total < settings.capacity_bytes);
    assert_true(total >= settings.capacity_bytes - settings.capacity_bytes / 32);
}

static void pinned_memory_is_whole_pages(void** state) {
    const cuda_fixture* f = *state;
    void* data;
    assert_ok(berth_device_pin(f->device, 5000, &data));
    assert_int_equal(cuda_kit_live(f).pinned_bytes, 8192);
    memset(data, 1, 5000);
    berth_device_unpin(f->device, data, 5000);
    assert_int_equal(cuda_kit_live(f).pinned_bytes, 0);
}

/// Moves `size` bytes from offset `from` to `to` on the device, and compares with memmove.
static void check_move(const cuda_fixture* f, room in, uint64_t to, uint64_t from, uint64_t size) {
    static unsigned char expected[BYTES], found[BYTES];
    for (uint64_t i = 0; i < BYTES; i++)
        expected[i] = pattern(i);
    unsigned char* base = in.space->base;
    assert_ok(berth_stream_copy(in.stream, base, expected, BYTES, BERTH_COPY_HOST_TO_DEVICE));
    assert_ok(
        berth_stream_copy(in.stream, base + to, base + from, size, BERTH_COPY_DEVICE_TO_DEVICE));
    assert_ok(berth_stream_copy(in.stream, found, base, BYTES, BERTH_COPY_DEVICE_TO_HOST));
    assert_ok(berth_stream_synchronize(in.stream));
    memmove(expected + to, expected + from, (size_t)size);
    assert_memory_equal(found, expected, BYTES);
    (void)f;
}

static void copies_between_overlapping_ranges_are_moves(void** state) {
    const cuda_fixture* f = *state;
    room in = take_room(f);
    const uint64_t few = f->driver->query_calls("cuLaunchKernel");
    check_move(f, in, 0, 20000, 30000);
    check_move(f, in, 20000, 0, 30000);
    check_move(f, in, 2000, 0, 31999);
    check_move(f, in, 0, 2000, 32000);
    check_move(f, in, 7, 7, 1000);
    assert_int_equal(f->driver->query_calls("cuLaunchKernel"), few);
    check_move(f, in, 1, 0, 40001);
    check_move(f, in, 0, 1, 40001);
    check_move(f, in, 16, 0, 48000);
    check_move(f, in, 0, 16, 48000);
    check_move(f, in, 160, 32, 48000);
    assert_int_equal(f->driver->query_calls("cuLaunchKernel"), few + 5);
    give_room(f, in);
}

static void a_ticket_that_is_known_to_be_done_costs_no_call(void** state) {
    const cuda_fixture* f = *state;
    room in = take_room(f);
    berth_stream* other;
    assert_ok(berth_stream_create(f->device, &other));
    static unsigned char zeros[64];
    uint64_t ticket;
    assert_ok(berth_stream_copy(
        in.stream, in.space->base, zeros, sizeof zeros, BERTH_COPY_HOST_TO_DEVICE));
    assert_ok(berth_stream_record(in.stream, &ticket));
    assert_ok(berth_stream_wait(in.stream, ticket));
    const uint64_t calls = f->driver->query_calls(NULL);
    assert_true(berth_stream_query(in.stream, ticket));
    assert_ok(berth_stream_wait(in.stream, ticket));
    assert_ok(berth_stream_wait_stream(other, in.stream, ticket));
    assert_int_equal(f->driver->query_calls(NULL), calls);
    berth_stream_destroy(other);
    give_room(f, in);
}

static void tickets_without_work_between_share_an_event(void** state) {
    const cuda_fixture* f = *state;
    room in = take_room(f);
    static unsigned char zeros[64];
    uint64_t first, second, third;
    assert_ok(berth_stream_record(in.stream, &first));
    assert_true(berth_stream_query(in.stream, first));
    assert_int_equal(cuda_kit_live(f).events, 0);
    assert_ok(berth_stream_copy(
        in.stream, in.space->base, zeros, sizeof zeros, BERTH_COPY_HOST_TO_DEVICE));
    assert_ok(berth_stream_record(in.stream, &second));
    assert_ok(berth_stream_record(in.stream, &third));
    assert_true(first < second && second < third);
    assert_int_equal(cuda_kit_live(f).events, 1);
    assert_false(berth_stream_query(in.stream, third));
    assert_ok(berth_stream_wait(in.stream, second));
    assert_true(berth_stream_query(in.stream, third));
    give_room(f, in);
}

static void events_are_used_again(void** state) {
    const cuda_fixture* f = *state;
    room in = take_room(f);
    static unsigned char zeros[64];
    for (int i = 0; i < 200; i++) {
        uint64_t ticket;
        assert_ok(berth_stream_copy(
            in.stream, in.space->base, zeros, sizeof zeros, BERTH_COPY_HOST_TO_DEVICE));
        assert_ok(berth_stream_record(in.stream, &ticket));
        if (i % 3 == 2) assert_ok(berth_stream_wait(in.stream, ticket));
    }
    assert_true(cuda_kit_live(f).events <= 3);
    give_room(f, in);
}

static void another_stream_waits_for_a_ticket_by_its_event(void** state) {
    const cuda_fixture* f = *state;
    room in = take_room(f);
    berth_stream* other;
    assert_ok(berth_stream_create(f->device, &other));
    static unsigned char ones[64], found[64];
    memset(ones, 1, sizeof ones);
    uint64_t ticket;
    assert_ok(
        berth_stream_copy(in.stream, in.space->base, ones, sizeof ones, BERTH_COPY_HOST_TO_DEVICE));
    assert_ok(berth_stream_record(in.stream, &ticket));
    assert_ok(berth_stream_wait_stream(other, in.stream, ticket));
    assert_ok(
        berth_stream_copy(other, found, in.space->base, sizeof found, BERTH_COPY_DEVICE_TO_HOST));
    assert_ok(berth_stream_synchronize(other));
    assert_memory_equal(found, ones, sizeof found);
    berth_stream_destroy(other);
    give_room(f, in);
}

typedef struct waiter {
    berth_stream* stream;
    _Atomic uint64_t* issued;
    uint64_t last; ///< to wait for
    bool is_right;
} waiter;

/// Waits for every ticket as it is issued, or asks for it until it is done.
static void* wait_for_all(void* opaque) {
    waiter* self = opaque;
    self->is_right = true;
    for (uint64_t ticket = 1; ticket <= self->last; ticket++) {
        while (atomic_load(self->issued) < ticket) {
        }
        if (ticket % 3 == 0 && berth_stream_query(self->stream, ticket)) continue;
        if (berth_stream_wait(self->stream, ticket) != BERTH_OK) self->is_right = false;
        if (!berth_stream_query(self->stream, ticket)) self->is_right = false;
    }
    return NULL;
}

static void several_threads_wait_for_one_stream(void** state) {
    const cuda_fixture* f = *state;
    room in = take_room(f);
    static unsigned char zeros[64];
    _Atomic uint64_t issued = 0;
    waiter waiters[2];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        waiters[i] = (waiter){in.stream, &issued, 301, false};
        assert_int_equal(pthread_create(&threads[i], NULL, wait_for_all, &waiters[i]), 0);
    }
    bool is_right = true;
    for (int i = 0; i < 300; i++) {
        uint64_t ticket;
        if (berth_stream_copy(
                in.stream, in.space->base, zeros, sizeof zeros, BERTH_COPY_HOST_TO_DEVICE) !=
                BERTH_OK ||
            berth_stream_record(in.stream, &ticket) != BERTH_OK)
            is_right = false;
        atomic_store(&issued, (uint64_t)i + 1);
    }
    uint64_t last;
    assert_ok(berth_stream_record(in.stream, &last));
    assert_int_equal(last, 301);
    atomic_store(&issued, last);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        is_right = is_right && waiters[i].is_right;
    }
    assert_true(is_right);
    give_room(f, in);
}

static void calls_leave_the_callers_context_as_it_was(void** state) {
    const cuda_fixture* f = *state;
    cu_result (*pop)(cu_context*);
    cuda_kit_find("cuCtxPopCurrent_v2", &pop);
    room in = take_room(f);
    check_move(f, in, 1, 0, 40001);
    uint64_t total, available;
    assert_ok(berth_device_query_memory(f->device, &total, &available));
    give_room(f, in);
    cu_context popped;
    assert_int_not_equal(pop(&popped), CU_SUCCESS); // there was none, and is none
}

static void* seen_stream;

static void note_stream(const berth_op_call* call) {
    (void)call;
    seen_stream = berth_cuda_current_stream();
}

static void a_kernel_can_ask_for_the_stream_it_is_on(void** state) {
    const cuda_fixture* f = *state;
    berth_stream* stream;
    assert_ok(berth_stream_create(f->device, &stream));
    assert_non_null(stream->native);
    const berth_op_call call = {0};
    assert_ok(berth_stream_launch(stream, note_stream, &call, 0));
    assert_ptr_equal(seen_stream, stream->native);
    assert_null(berth_cuda_current_stream());
    berth_stream_destroy(stream);
}

static void a_stream_that_the_user_has_gets_an_event_for_each_ticket(void** state) {
    const cuda_fixture* f = *state;
    berth_stream* stream;
    assert_ok(berth_stream_create(f->device, &stream));
    atomic_store(&stream->is_shared, true);
    const uint64_t before = f->driver->query_calls("cuEventRecord");
    uint64_t ticket;
    assert_ok(berth_stream_record(stream, &ticket));
    assert_ok(berth_stream_record(stream, &ticket));
    assert_int_equal(f->driver->query_calls("cuEventRecord"), before + 2);
    assert_ok(berth_stream_wait(stream, ticket));
    berth_stream_destroy(stream);
}

static void a_blocking_device_waits_for_each_launch(void** state) {
    (void)state;
    cuda_fixture f;
    cuda_kit_begin(&f);
    berth_cuda_options options = cuda_kit_options();
    options.is_blocking = true;
    cuda_kit_open(&f, &options);
    berth_stream* stream;
    assert_ok(berth_stream_create(f.device, &stream));
    const uint64_t before = f.driver->query_calls("cuStreamSynchronize");
    const berth_op_call call = {0};
    assert_ok(berth_stream_launch(stream, note_stream, &call, 0));
    assert_int_equal(f.driver->query_calls("cuStreamSynchronize"), before + 1);
    berth_stream_destroy(stream);
    cuda_kit_end_clean(&f);
}

#define ON_DEVICE(test) cmocka_unit_test_setup_teardown(test, cuda_kit_set_up, cuda_kit_tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_DEVICE(granules_are_what_the_driver_recommends),
        ON_DEVICE(a_range_gets_its_access_in_one_call),
        ON_DEVICE(remapped_granules_keep_what_they_hold_without_a_copy),
        ON_DEVICE(mapped_bytes_are_taken_off_what_is_available),
        ON_DEVICE(the_driver_keeps_a_part_for_its_kernels),
        ON_DEVICE(pinned_memory_is_whole_pages),
        ON_DEVICE(copies_between_overlapping_ranges_are_moves),
        ON_DEVICE(a_ticket_that_is_known_to_be_done_costs_no_call),
        ON_DEVICE(tickets_without_work_between_share_an_event),
        ON_DEVICE(events_are_used_again),
        ON_DEVICE(another_stream_waits_for_a_ticket_by_its_event),
        ON_DEVICE(several_threads_wait_for_one_stream),
        ON_DEVICE(calls_leave_the_callers_context_as_it_was),
        ON_DEVICE(a_kernel_can_ask_for_the_stream_it_is_on),
        ON_DEVICE(a_stream_that_the_user_has_gets_an_event_for_each_ticket),
        cmocka_unit_test(a_blocking_device_waits_for_each_launch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
