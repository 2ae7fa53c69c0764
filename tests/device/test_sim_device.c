// SPDX-License-Identifier: Apache-2.0
// What is particular to the simulated device: laziness, seeds, faults, counters, capacity.
#include "test.h"

#include <unistd.h>

#include "device/sim/sim_device.h"

#define GRANULE 4096u

static berth_device* create(uint64_t seed) {
    berth_device* device;
    assert_ok(berth_sim_device_create(
        berth_host_default(),
        &(berth_sim_options){.capacity_bytes = 8 * GRANULE, .granule_bytes = GRANULE, .seed = seed},
        &device));
    return device;
}

static int ran;

static void count_run(const berth_op_call* call) {
    (void)call;
    ran++;
}

static void launch(berth_stream* stream) {
    const berth_op_call call = {.output_count = 0};
    assert_ok(berth_stream_launch(stream, count_run, &call, 0));
}

static void a_granule_that_is_no_power_of_two_is_refused(void** state) {
    (void)state;
    const uint64_t bad[] = {5000, 2048, 12288};
    for (int i = 0; i < 3; i++) {
        berth_device* device;
        assert_fails(berth_sim_device_create(berth_host_default(),
                                             &(berth_sim_options){.granule_bytes = bad[i]},
                                             &device),
                     BERTH_ERR_INVALID_ARGUMENT,
                     "granule");
        assert_null(device);
    }
}

static void fresh_memory_holds_a_pattern_again_after_each_map(void** state) {
    (void)state;
    berth_device* device = create(0);
    berth_space* space;
    assert_ok(berth_space_reserve(device, GRANULE, &space));
    for (int round = 0; round < 2; round++) {
        assert_ok(berth_space_map(space, 0, GRANULE));
        for (unsigned i = 0; i < GRANULE; i++)
            assert_int_equal(space->base[i], 0xA5);
        space->base[100] = 1;
        assert_ok(berth_space_unmap(space, 0, GRANULE));
    }
    berth_space_release(space);
    berth_device_destroy(device);
}

/// Whether the host may read the byte at `at`: the system looks, so that nothing crashes.
static bool is_readable(const void* at) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const bool is = write(ends[1], at, 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return is;
}

static bool was_readable;

static void look_at_output(const berth_op_call* call) {
    was_readable = is_readable(call->outputs[0].data);
}

static void hidden_memory_is_there_for_work_alone(void** state) {
    (void)state;
    berth_device* device;
    assert_ok(
        berth_sim_device_create(berth_host_default(),
                                &(berth_sim_options){.granule_bytes = GRANULE, .is_hidden = true},
                                &device));
    assert_false(berth_device_has_host_access(device));
    berth_space *space, *other;
    berth_stream* stream;
    assert_ok(berth_space_reserve(device, 4 * GRANULE, &space));
    assert_ok(berth_space_reserve(device, 2 * GRANULE, &other));
    assert_ok(berth_stream_create(device, &stream));
    assert_ok(berth_space_map(space, GRANULE, 2 * GRANULE));
    assert_false(is_readable(space->base + GRANULE));
    const berth_op_call call = {.output_count = 1, .outputs = {{.data = space->base + GRANULE}}};
    assert_ok(berth_stream_launch(stream, look_at_output, &call, 0));
    assert_ok(berth_stream_synchronize(stream));
    assert_true(was_readable);
    assert_false(is_readable(space->base + GRANULE));
    assert_ok(berth_space_remap(space, 2 * GRANULE, other, 0, GRANULE));
    assert_false(is_readable(other->base));
    unsigned char byte = 0;
    assert_ok(berth_stream_copy(stream, &byte, other->base, 1, BERTH_COPY_DEVICE_TO_HOST));
    assert_ok(berth_stream_synchronize(stream));
    assert_int_equal(byte, 0xA5);
    assert_ok(berth_space_unmap(space, GRANULE, GRANULE));
    assert_ok(berth_space_unmap(other, 0, GRANULE));
    berth_stream_destroy(stream);
    berth_space_release(other);
    berth_space_release(space);
    berth_device_destroy(device);
}

static void capacity_is_shared_by_all_spaces_and_exact(void** state) {
    (void)state;
    berth_device* device = create(0);
    berth_space *a, *b;
    assert_ok(berth_space_reserve(device, 8 * GRANULE, &a));
    assert_ok(berth_space_reserve(device, 8 * GRANULE, &b));
    assert_ok(berth_space_map(a, 0, 5 * GRANULE));
    assert_fails(berth_space_map(b, 0, 4 * GRANULE), BERTH_ERR_OUT_OF_MEMORY, "has 12288 left");
    assert_int_equal(berth_sim_query_mapped_bytes(device), 5 * GRANULE);
    assert_ok(berth_space_map(b, 0, 3 * GRANULE));
    // A move needs no room.
    assert_ok(berth_space_remap(a, 0, b, 3 * GRANULE, 5 * GRANULE));
    assert_int_equal(berth_sim_query_mapped_bytes(device), 8 * GRANULE);
    uint64_t total, available;
    assert_ok(berth_device_query_memory(device, &total, &available));
    assert_int_equal(total, 8 * GRANULE);
    assert_int_equal(available, 0);
    assert_ok(berth_space_unmap(b, 0, 8 * GRANULE));
    assert_int_equal(berth_sim_query_mapped_bytes(device), 0);
    berth_space_release(a);
    berth_space_release(b);
    berth_device_destroy(device);
}

static void nothing_runs_before_it_is_waited_for(void** state) {
    (void)state;
    ran = 0;
    berth_device* device = create(0);
    berth_stream* stream;
    assert_ok(berth_stream_create(device, &stream));
    uint64_t first, second;
    for (int i = 0; i < 3; i++)
        launch(stream);
    assert_ok(berth_stream_record(stream, &first));
    for (int i = 0; i < 3; i++)
        launch(stream);
    assert_ok(berth_stream_record(stream, &second));
    assert_false(berth_stream_query(stream, first));
    assert_int_equal(ran, 0);
    assert_ok(berth_stream_wait(stream, first));
    assert_int_equal(ran, 3);
    assert_true(berth_stream_query(stream, first));
    assert_false(berth_stream_query(stream, second));
    berth_stream_destroy(stream);
    assert_int_equal(ran, 6);
    berth_device_destroy(device);
}

/// How much had run at each of 100 launches, for one seed.
static void watch_progress(uint64_t seed, int* out_ran) {
    ran = 0;
    berth_device* device = create(seed);
    berth_stream* stream;
    assert_ok(berth_stream_create(device, &stream));
    for (int i = 0; i < 100; i++) {
        launch(stream);
        out_ran[i] = ran;
    }
    berth_stream_destroy(stream);
    assert_int_equal(ran, 100);
    berth_device_destroy(device);
}

static void a_seed_makes_work_run_on_in_the_same_way_each_time(void** state) {
    (void)state;
    int first[100], again[100], other[100];
    watch_progress(3, first);
    watch_progress(3, again);
    watch_progress(4, other);
    assert_memory_equal(first, again, sizeof first);
    assert_memory_not_equal(first, other, sizeof first);
    assert_in_range(first[99], 50, 99);
}

static void waiting_runs_what_other_streams_owe(void** state) {
    (void)state;
    ran = 0;
    berth_device* device = create(0);
    berth_stream* streams[3];
    for (int i = 0; i < 3; i++)
        assert_ok(berth_stream_create(device, &streams[i]));
    uint64_t ticket;
    for (int i = 0; i < 3; i++) {
        launch(streams[i]);
        assert_ok(berth_stream_record(streams[i], &ticket));
        if (i < 2) assert_ok(berth_stream_wait_stream(streams[i + 1], streams[i], ticket));
    }
    launch(streams[0]); // after the ticket: nobody waits for it
    assert_ok(berth_stream_wait(streams[2], ticket));
    assert_int_equal(ran, 3);
    for (int i = 0; i < 3; i++)
        berth_stream_destroy(streams[i]);
    berth_device_destroy(device);
}

static void the_call_that_is_told_to_fail_fails_once(void** state) {
    (void)state;
    berth_device* device = create(0);
    berth_space* space;
    assert_ok(berth_space_reserve(device, 4 * GRANULE, &space));
    berth_sim_fail(device, BERTH_SIM_MAP, 2);
    assert_ok(berth_space_map(space, 0, GRANULE));
    assert_fails(berth_space_map(space, GRANULE, GRANULE), BERTH_ERR_OUT_OF_MEMORY, "fault in MAP");
    assert_ok(berth_space_map(space, GRANULE, GRANULE));
    assert_int_equal(berth_sim_query_calls(device, BERTH_SIM_MAP), 3);

    berth_sim_fail_any(device, 2);
    assert_ok(berth_space_unmap(space, 0, GRANULE));
    berth_stream* stream;
    assert_fails(berth_stream_create(device, &stream), BERTH_ERR_DEVICE, "STREAM_CREATE");
    assert_null(stream);
    assert_ok(berth_stream_create(device, &stream));
    berth_sim_fail(device, BERTH_SIM_UNMAP, 1);
    assert_int_equal(berth_space_unmap(space, GRANULE, GRANULE), BERTH_ERR_DEVICE);
    assert_int_equal(space->base[GRANULE], 0xA5);
    berth_sim_fail(device, BERTH_SIM_UNMAP, 1);
    berth_sim_fail(device, BERTH_SIM_UNMAP, 0);
    assert_ok(berth_space_unmap(space, GRANULE, GRANULE));
    assert_int_equal(berth_sim_query_all_calls(device), 1 + 3 + 3 + 2);
    berth_stream_destroy(stream);
    berth_space_release(space);
    berth_device_destroy(device);
}

static void a_failed_launch_or_ticket_leaves_the_stream_as_it_was(void** state) {
    (void)state;
    ran = 0;
    berth_device* device = create(0);
    berth_stream* stream;
    assert_ok(berth_stream_create(device, &stream));
    launch(stream);
    const berth_op_call call = {.output_count = 0};
    berth_sim_fail(device, BERTH_SIM_LAUNCH, 1);
    assert_int_equal(berth_stream_launch(stream, count_run, &call, 0), BERTH_ERR_DEVICE);
    uint64_t ticket;
    berth_sim_fail(device, BERTH_SIM_RECORD, 1);
    assert_int_equal(berth_stream_record(stream, &ticket), BERTH_ERR_DEVICE);
    assert_ok(berth_stream_record(stream, &ticket));
    assert_int_equal(ticket, 1);
    berth_sim_fail(device, BERTH_SIM_WAIT, 1);
    assert_int_equal(berth_stream_wait(stream, ticket), BERTH_ERR_DEVICE);
    assert_int_equal(ran, 0);
    assert_ok(berth_stream_wait(stream, ticket));
    assert_int_equal(ran, 1);
    berth_stream_destroy(stream);
    berth_device_destroy(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_granule_that_is_no_power_of_two_is_refused),
        cmocka_unit_test(fresh_memory_holds_a_pattern_again_after_each_map),
        cmocka_unit_test(hidden_memory_is_there_for_work_alone),
        cmocka_unit_test(capacity_is_shared_by_all_spaces_and_exact),
        cmocka_unit_test(nothing_runs_before_it_is_waited_for),
        cmocka_unit_test(a_seed_makes_work_run_on_in_the_same_way_each_time),
        cmocka_unit_test(waiting_runs_what_other_streams_owe),
        cmocka_unit_test(the_call_that_is_told_to_fail_fails_once),
        cmocka_unit_test(a_failed_launch_or_ticket_leaves_the_stream_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
