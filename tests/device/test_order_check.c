// SPDX-License-Identifier: Apache-2.0
// The happens-before check on the simulated device: what it refuses, what it lets pass.
#include "kit/test.h"

#include "device/cpu/cpu_device.h"
#include "device/order_check.h"
#include "device/sim/sim_device.h"
#include "kit/failing_host.h"

#define GRANULE 65536u

typedef struct fixture {
    berth_device* device;
    berth_stream* a;
    berth_stream* b;
    berth_space* space;
} fixture;

static int set_up(void** state) {
    static fixture f;
    *state = &f;
    const berth_sim_options options = {.seed = 3};
    assert_ok(berth_sim_device_create(berth_host_default(), &options, &f.device));
    assert_ok(berth_order_check_start(f.device));
    assert_ok(berth_stream_create(f.device, &f.a));
    assert_ok(berth_stream_create(f.device, &f.b));
    assert_ok(berth_space_reserve(f.device, 4 * GRANULE, &f.space));
    assert_ok(berth_space_map(f.space, 0, 2 * GRANULE));
    return 0;
}

static int tear_down(void** state) {
    fixture* f = *state;
    assert_ok(berth_stream_drain(f->a));
    assert_ok(berth_stream_drain(f->b));
    assert_ok(berth_space_unmap(f->space, 0, 2 * GRANULE));
    berth_space_release(f->space);
    berth_stream_destroy(f->a);
    berth_stream_destroy(f->b);
    berth_device_destroy(f->device);
    return 0;
}

/// Copies `size` bytes within the space.
static berth_status copy(
    const fixture* f, berth_stream* stream, uint64_t to, uint64_t from, uint64_t size) {
    return berth_stream_copy(
        stream, f->space->base + to, f->space->base + from, size, BERTH_COPY_DEVICE_TO_DEVICE);
}

static void order(berth_stream* first, berth_stream* second) {
    uint64_t ticket;
    assert_ok(berth_stream_record(first, &ticket));
    assert_ok(berth_stream_wait_stream(second, first, ticket));
}

static void work_of_two_streams_on_the_same_bytes_is_refused_by_name(void** state) {
    fixture* f = *state;
    assert_ok(copy(f, f->a, 0, 1024, 64));
    assert_fails(copy(f, f->b, 32, 2048, 64), BERTH_ERR_STATE, "stream 2 would write 32 bytes");
    assert_fails(copy(f, f->b, 4096, 63, 1), BERTH_ERR_STATE, "of stream 1");
    assert_fails(copy(f, f->b, 1024, 2048, 1), BERTH_ERR_STATE, "a copy");
    assert_int_equal(berth_order_check_query_refused(f->device), 3);
    // readers do not disturb each other, and what touches nothing of it is free to go
    assert_ok(copy(f, f->b, 4096, 1024, 64));
    assert_ok(copy(f, f->b, 64, 2048, 64));
}

static void what_the_device_has_refused_is_in_nobodys_way(void** state) {
    fixture* f = *state;
    berth_sim_fail(f->device, BERTH_SIM_COPY, 1);
    assert_fails(copy(f, f->a, 0, 1024, 64), BERTH_ERR_DEVICE, "injected fault");
    assert_ok(copy(f, f->b, 0, 2048, 64));
    const berth_op_call call = {.output_count = 1,
                                .outputs = {{f->space->base + 4096, BERTH_U8, 1, {64}, {1}}}};
    berth_sim_fail(f->device, BERTH_SIM_LAUNCH, 1);
    assert_fails(berth_stream_launch(f->b, f->device->kernels[BERTH_OP_FILL], &call, 0),
                 BERTH_ERR_DEVICE,
                 "injected fault");
    assert_ok(copy(f, f->a, 4096, 1024, 64));
    assert_int_equal(berth_order_check_query_refused(f->device), 0);
}

static void a_wait_between_the_streams_orders_them_one_way(void** state) {
    fixture* f = *state;
    assert_ok(copy(f, f->a, 0, 1024, 64));
    order(f->a, f->b);
    assert_ok(copy(f, f->b, 0, 2048, 64));
    assert_fails(copy(f, f->a, 0, 1024, 64), BERTH_ERR_STATE, "stream 1 would write");
    order(f->b, f->a);
    assert_ok(copy(f, f->a, 0, 1024, 64));
    assert_int_equal(berth_order_check_query_refused(f->device), 1);
}

static void a_ticket_orders_only_what_came_before_it(void** state) {
    fixture* f = *state;
    uint64_t ticket;
    assert_ok(copy(f, f->a, 0, 1024, 64));
    assert_ok(berth_stream_record(f->a, &ticket));
    assert_ok(copy(f, f->a, 64, 1024, 64));
    assert_ok(berth_stream_wait_stream(f->b, f->a, ticket));
    assert_ok(copy(f, f->b, 0, 2048, 64));
    assert_fails(copy(f, f->b, 64, 2048, 64), BERTH_ERR_STATE, "its use 2");
}

static void order_is_passed_on_over_a_third_stream(void** state) {
    fixture* f = *state;
    berth_stream* c;
    assert_ok(berth_stream_create(f->device, &c));
    assert_ok(copy(f, f->a, 0, 1024, 64));
    order(f->a, c);
    order(c, f->b);
    assert_ok(copy(f, f->b, 0, 2048, 64));
    berth_stream_destroy(c);
}

static void what_the_host_has_waited_for_is_over(void** state) {
    fixture* f = *state;
    assert_ok(copy(f, f->a, 0, 1024, 64));
    assert_ok(berth_stream_synchronize(f->a));
    assert_ok(copy(f, f->b, 0, 2048, 64));
    uint64_t ticket;
    assert_ok(berth_stream_record(f->b, &ticket));
    while (!berth_stream_query(f->b, ticket)) {
    }
    assert_ok(copy(f, f->a, 0, 1024, 64));
}

static void the_end_of_a_stream_ends_its_uses(void** state) {
    fixture* f = *state;
    for (int round = 0; round < 100; round++) {
        berth_stream* c;
        assert_ok(berth_stream_create(f->device, &c));
        order(f->a, c);
        assert_ok(copy(f, c, 0, 1024, 64));
        assert_int_equal(copy(f, f->a, 0, 1024, 64), BERTH_ERR_STATE);
        berth_stream_destroy(c);
        assert_ok(copy(f, f->a, 0, 1024, 64));
    }
}

static void memory_is_not_taken_away_from_pending_work(void** state) {
    fixture* f = *state;
    assert_ok(copy(f, f->a, GRANULE, 0, 64));
    assert_fails(berth_space_unmap(f->space, GRANULE, GRANULE), BERTH_ERR_STATE, "taken away");
    assert_fails(berth_space_remap(f->space, GRANULE, f->space, 2 * GRANULE, GRANULE),
                 BERTH_ERR_STATE,
                 "taken away");
    assert_ok(berth_stream_synchronize(f->a));
    assert_ok(berth_space_unmap(f->space, GRANULE, GRANULE));
    assert_ok(berth_space_map(f->space, GRANULE, GRANULE));
}

static void a_launch_is_known_by_its_op_and_the_elements_of_its_views(void** state) {
    fixture* f = *state;
    // every other element of 8, from the last one back: 4 .. 60
    const berth_op_call call = {
        .input_count = 1,
        .output_count = 1,
        .inputs = {{f->space->base + 56, BERTH_F32, 1, {8}, {-2}}},
        .outputs = {{f->space->base + 1024, BERTH_F32, 1, {8}, {1}}},
    };
    const berth_kernel kernel = f->device->kernels[BERTH_OP_COPY];
    assert_ok(berth_stream_launch(f->a, kernel, &call, 0));
    assert_ok(copy(f, f->b, 60, 2048, 4));
    assert_fails(copy(f, f->b, 59, 2048, 1), BERTH_ERR_STATE, "copy of stream 1");
    assert_fails(copy(f, f->b, 0, 2048, 1), BERTH_ERR_STATE, "while copy of stream 1");
    assert_fails(copy(f, f->b, 1024 + 31, 2048, 1), BERTH_ERR_STATE, "write 1 bytes");
    assert_ok(copy(f, f->b, 1024 + 32, 2048, 1));
}

static void too_many_streams_are_not_checked_and_do_no_harm(void** state) {
    fixture* f = *state;
    berth_stream* more[2 * BERTH_ORDER_STREAMS];
    for (size_t i = 0; i < 2 * BERTH_ORDER_STREAMS; i++) {
        assert_ok(berth_stream_create(f->device, &more[i]));
        order(f->a, more[i]);
        assert_ok(copy(f, more[i], 4096 + 64 * i, 1024, 64));
    }
    for (size_t i = 0; i < 2 * BERTH_ORDER_STREAMS; i++)
        berth_stream_destroy(more[i]);
    assert_int_equal(berth_order_check_query_refused(f->device), 0);
}

static void without_memory_nothing_is_watched_and_nothing_lost(void** state) {
    (void)state;
    failing_host host;
    failing_host_init(&host);
    berth_host* wrapped;
    assert_ok(berth_host_create(&host.allocator, &wrapped));
    berth_device* device;
    const berth_sim_options options = {0};
    assert_ok(berth_sim_device_create(wrapped, &options, &device));
    failing_host_fail(&host, 1, false);
    assert_int_equal(berth_order_check_start(device), BERTH_ERR_OUT_OF_MEMORY);
    assert_null(device->order_check);
    assert_ok(berth_order_check_start(device));
    berth_device_destroy(device);
    berth_host_destroy(wrapped);
    assert_int_equal(host.live_blocks, 0);
}

static void a_device_that_works_at_once_keeps_its_own_table(void** state) {
    (void)state;
    berth_device* device;
    const berth_cpu_options options = {.threads = 1};
    assert_ok(berth_cpu_device_create(berth_host_default(), &options, &device));
    const berth_device_ops* ops = device->ops;
    assert_ok(berth_order_check_start(device));
    assert_ptr_equal(device->ops, ops);
    assert_int_equal(berth_order_check_query_refused(device), 0);
    berth_device_destroy(device);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(work_of_two_streams_on_the_same_bytes_is_refused_by_name),
        TEST(what_the_device_has_refused_is_in_nobodys_way),
        TEST(a_wait_between_the_streams_orders_them_one_way),
        TEST(a_ticket_orders_only_what_came_before_it),
        TEST(order_is_passed_on_over_a_third_stream),
        TEST(what_the_host_has_waited_for_is_over),
        TEST(the_end_of_a_stream_ends_its_uses),
        TEST(memory_is_not_taken_away_from_pending_work),
        TEST(a_launch_is_known_by_its_op_and_the_elements_of_its_views),
        TEST(too_many_streams_are_not_checked_and_do_no_harm),
        cmocka_unit_test(without_memory_nothing_is_watched_and_nothing_lost),
        cmocka_unit_test(a_device_that_works_at_once_keeps_its_own_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
