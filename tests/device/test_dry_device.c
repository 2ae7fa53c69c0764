// SPDX-License-Identifier: Apache-2.0
// What is particular to the dry device: memory of any size without memory, exact books, no kernel.
#include "test.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/cpu/cpu_device.h"
#include "device/dry/dry_device.h"

#define GRANULE ((uint64_t)BERTH_DRY_GRANULE_BYTES)

// The thread sanitizer leaves a program few addresses.
#if defined(__SANITIZE_THREAD__)
#define LARGE (1ull << 36)
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LARGE (1ull << 36)
#endif
#endif
#ifndef LARGE
#define LARGE (1ull << 40)
#endif

static berth_device* create(uint64_t capacity) {
    berth_device* device;
    assert_ok(
        berth_dry_device_create(berth_host_default(),
                                &(berth_dry_options){.capacity_bytes = capacity, .threads = 1},
                                &device));
    return device;
}

static void expect_left(berth_device* device, uint64_t expected) {
    uint64_t total, available;
    assert_ok(berth_device_query_memory(device, &total, &available));
    assert_int_equal(available, expected);
}

/// Pages of [base, base + size) that are in memory.
static size_t count_pages(unsigned char* base, size_t size) {
    static unsigned char in_memory[1 << 16];
    const size_t pages = size / (size_t)sysconf(_SC_PAGESIZE);
    assert_true(pages <= sizeof in_memory);
    assert_int_equal(mincore(base, size, in_memory), 0);
    size_t count = 0;
    for (size_t i = 0; i < pages; i++)
        count += in_memory[i] & 1u;
    return count;
}

static void more_memory_than_there_is_is_mapped_counted_and_not_there(void** state) {
    (void)state;
    berth_device* device = create(LARGE);
    berth_space* space;
    assert_ok(berth_space_reserve(device, 2 * LARGE, &space));
    assert_ok(berth_space_map(space, 0, LARGE - GRANULE));
    expect_left(device, GRANULE);
    assert_fails(berth_space_map(space, LARGE, 2 * GRANULE),
                 BERTH_ERR_OUT_OF_MEMORY,
                 "4194304 bytes are needed, the device has 2097152 left");
    expect_left(device, GRANULE);
    assert_ok(berth_space_map(space, LARGE, GRANULE));
    expect_left(device, 0);
    assert_int_equal(count_pages(space->base, 64 * GRANULE), 0);
    assert_ok(berth_space_unmap(space, 0, LARGE - GRANULE));
    assert_ok(berth_space_unmap(space, LARGE, GRANULE));
    expect_left(device, LARGE);
    berth_space_release(space);
    berth_device_destroy(device);
}

static void capacity_is_shared_by_all_spaces_and_a_remap_needs_none(void** state) {
    (void)state;
    berth_device* device = create(4 * GRANULE);
    berth_space *a, *b;
    assert_ok(berth_space_reserve(device, 8 * GRANULE, &a));
    assert_ok(berth_space_reserve(device, 8 * GRANULE, &b));
    assert_ok(berth_space_map(a, 0, 3 * GRANULE));
    assert_ok(berth_space_map(b, 0, GRANULE));
    expect_left(device, 0);
    assert_ok(berth_space_remap(a, GRANULE, b, 4 * GRANULE, 2 * GRANULE));
    expect_left(device, 0);
    assert_int_equal(berth_space_map(a, GRANULE, GRANULE), BERTH_ERR_OUT_OF_MEMORY);
    assert_ok(berth_space_unmap(b, 4 * GRANULE, 2 * GRANULE));
    expect_left(device, 2 * GRANULE);
    assert_ok(berth_space_unmap(a, 0, GRANULE));
    assert_ok(berth_space_unmap(b, 0, GRANULE));
    berth_space_release(a);
    berth_space_release(b);
    berth_device_destroy(device);
}

static int ran;

static void count_run(const berth_op_call* call) {
    (void)call;
    ran++;
}

static void no_kernel_runs_and_its_ticket_is_done_at_once(void** state) {
    (void)state;
    berth_device* device = create(GRANULE);
    berth_stream* stream;
    assert_ok(berth_stream_create(device, &stream));
    ran = 0;
    assert_ok(berth_stream_launch(stream, count_run, &(berth_op_call){.output_count = 0}, 0));
    uint64_t ticket;
    assert_ok(berth_stream_record(stream, &ticket));
    assert_true(berth_stream_query(stream, ticket));
    assert_ok(berth_stream_synchronize(stream));
    assert_int_equal(ran, 0);
    berth_stream_destroy(stream);
    berth_device_destroy(device);
}

static void copies_touch_no_address_but_the_hosts_target(void** state) {
    (void)state;
    berth_device* device = create(GRANULE);
    berth_stream* stream;
    assert_ok(berth_stream_create(device, &stream));
    unsigned char* nowhere = (unsigned char*)64;
    unsigned char kept[16], got[16];
    memset(kept, 7, sizeof kept);
    memset(got, 7, sizeof got);
    assert_ok(berth_stream_copy(stream, nowhere, kept, 16, BERTH_COPY_HOST_TO_DEVICE));
    assert_ok(berth_stream_copy(stream, nowhere, nowhere, 16, BERTH_COPY_DEVICE_TO_DEVICE));
    assert_ok(berth_stream_copy(stream, kept, got, 16, BERTH_COPY_HOST_TO_DEVICE));
    assert_int_equal(kept[0], 7);
    assert_ok(berth_stream_copy(stream, got, nowhere, 15, BERTH_COPY_DEVICE_TO_HOST));
    for (int i = 0; i < 15; i++)
        assert_int_equal(got[i], 0);
    assert_int_equal(got[15], 7);
    berth_stream_destroy(stream);
    berth_device_destroy(device);
}

static void it_says_what_it_is(void** state) {
    (void)state;
    berth_device* device = create(GRANULE);
    assert_string_equal(device->name, "dry");
    assert_int_equal(device->kind, BERTH_DEVICE_DRY);
    assert_false(berth_device_has_data(device));
    assert_false(berth_device_has_host_access(device));
    assert_false(berth_device_is_async(device));
    assert_true(berth_device_takes_host_memory(device));
    berth_device_destroy(device);
    assert_ok(
        berth_cpu_device_create(berth_host_default(), &(berth_cpu_options){.threads = 1}, &device));
    assert_true(berth_device_has_data(device));
    assert_true(berth_device_takes_host_memory(device));
    berth_device_destroy(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_memory_than_there_is_is_mapped_counted_and_not_there),
        cmocka_unit_test(capacity_is_shared_by_all_spaces_and_a_remap_needs_none),
        cmocka_unit_test(no_kernel_runs_and_its_ticket_is_done_at_once),
        cmocka_unit_test(copies_touch_no_address_but_the_hosts_target),
        cmocka_unit_test(it_says_what_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
