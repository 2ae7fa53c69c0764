// SPDX-License-Identifier: Apache-2.0
// The stand-in for the driver itself: that it refuses what the real one refuses, notes what the
// real one leaves undefined, and fails when it is told to. What it let pass, no test would find.
#include "test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/cuda_kit.h"
#include "device/cuda/cuda_api.h"
#include "device/cuda/cuda_kernels.h"

#define GRANULE ((size_t)64 << 10)

static struct {
#define FIELD(field, symbol, parameters) cu_result(*field) parameters;
    CU_FUNCTION_MAP(FIELD)
#undef FIELD
} driver;

static const cu_allocation on_device = {.type = CU_ALLOCATION_PINNED,
                                        .location = {CU_LOCATION_DEVICE, 0}};
static const cu_access read_write = {{CU_LOCATION_DEVICE, 0}, CU_ACCESS_READ_WRITE};

/// A range of four granules, the first of which is mapped, a stream and an event.
typedef struct fixture {
    cu_address range;
    cu_handle handle;
    cu_stream stream;
    cu_event event;
} fixture;

static void find_functions(void) {
    (void)cuda_kit_control();
    void* library = dlopen(BERTH_TEST_CUDA_DRIVER, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    void* found;
#define FIND(field, symbol, parameters)                                                            \
    found = dlsym(library, #symbol);                                                               \
    assert_non_null(found);                                                                        \
    memcpy(&driver.field, &found, sizeof found);
    CU_FUNCTION_MAP(FIND)
#undef FIND
}

static void add_granule(cu_address at, cu_handle* out_handle) {
    assert_int_equal(driver.mem_create(out_handle, GRANULE, &on_device, 0), CU_SUCCESS);
    assert_int_equal(driver.mem_map(at, GRANULE, 0, *out_handle, 0), CU_SUCCESS);
    assert_int_equal(driver.mem_set_access(at, GRANULE, &read_write, 1), CU_SUCCESS);
}

static int set_up(void** state) {
    static fixture made;
    fixture* f = *state = &made;
    find_functions();
    cuda_kit_reset(0);
    cu_context context;
    assert_int_equal(driver.init(0), CU_SUCCESS);
    assert_int_equal(driver.primary_ctx_retain(&context, 0), CU_SUCCESS);
    assert_int_equal(driver.ctx_push(context), CU_SUCCESS);
    assert_int_equal(driver.mem_address_reserve(&f->range, 4 * GRANULE, GRANULE, 0, 0), CU_SUCCESS);
    add_granule(f->range, &f->handle);
    assert_int_equal(driver.stream_create(&f->stream, CU_STREAM_IS_NON_BLOCKING), CU_SUCCESS);
    assert_int_equal(driver.event_create(&f->event, CU_EVENT_IS_UNTIMED), CU_SUCCESS);
    return 0;
}

static int tear_down(void** state) {
    fixture* f = *state;
    cuda_kit_reset(0); // forgets a violation, and a sticky error
    cu_context context;
    assert_int_equal(driver.stream_destroy(f->stream), CU_SUCCESS);
    assert_int_equal(driver.event_destroy(f->event), CU_SUCCESS);
    assert_int_equal(driver.mem_unmap(f->range, GRANULE), CU_SUCCESS);
    assert_int_equal(driver.mem_release(f->handle), CU_SUCCESS);
    assert_int_equal(driver.mem_address_free(f->range, 4 * GRANULE), CU_SUCCESS);
    assert_int_equal(driver.ctx_pop(&context), CU_SUCCESS);
    assert_int_equal(driver.primary_ctx_release(0), CU_SUCCESS);
    cuda_kit_assert_clean();
    return 0;
}

static void assert_violation(const char* part) {
    const char* first;
    assert_true(cuda_kit_control()->query_violations(&first) > 0);
    if (strstr(first, part) == NULL) fail_msg("'%s' does not mention '%s'", first, part);
}

static void put(const fixture* f, cu_address at, unsigned char byte) {
    assert_int_equal(driver.memcpy_to_device(at, &byte, 1, f->stream), CU_SUCCESS);
    assert_int_equal(driver.stream_synchronize(f->stream), CU_SUCCESS);
}

static unsigned char get(const fixture* f, cu_address at) {
    unsigned char byte = 0;
    assert_int_equal(driver.memcpy_to_host(&byte, at, 1, f->stream), CU_SUCCESS);
    assert_int_equal(driver.stream_synchronize(f->stream), CU_SUCCESS);
    return byte;
}

// --- Memory -------------------------------------------------------------------------------------

static void memory_is_mapped_whole_and_unmapped_whole(void** state) {
    fixture* f = *state;
    const cu_address second = f->range + GRANULE;
    cu_handle two;
    assert_int_equal(driver.mem_create(&two, 2 * GRANULE, &on_device, 0), CU_SUCCESS);
    assert_int_equal(driver.mem_map(second, GRANULE, 0, two, 0), CU_ERROR_INVALID_VALUE);
    assert_int_equal(driver.mem_map(f->range, 2 * GRANULE, 0, two, 0), CU_ERROR_INVALID_VALUE);
    assert_int_equal(driver.mem_map(f->range + 3 * GRANULE, 2 * GRANULE, 0, two, 0),
                     CU_ERROR_INVALID_VALUE);
    assert_int_equal(driver.mem_map(second + 4096, 2 * GRANULE, 0, two, 0), CU_ERROR_INVALID_VALUE);
    assert_int_equal(driver.mem_map(second, 2 * GRANULE, 0, two, 0), CU_SUCCESS);
    assert_int_equal(driver.mem_unmap(second, GRANULE), CU_ERROR_INVALID_VALUE);
    assert_int_equal(driver.mem_unmap(second + GRANULE, GRANULE), CU_ERROR_INVALID_VALUE);
    assert_int_equal(driver.mem_unmap(f->range, 4 * GRANULE), CU_ERROR_INVALID_VALUE); // a hole
    assert_int_equal(driver.mem_unmap(second, 2 * GRANULE), CU_SUCCESS);
    assert_int_equal(driver.mem_release(two), CU_SUCCESS);
}

static void a_range_with_mappings_is_not_given_back(void** state) {
    fixture* f = *state;
    assert_int_equal(driver.mem_address_free(f->range, 4 * GRANULE), CU_ERROR_INVALID_VALUE);
    cu_address other;
    assert_int_equal(driver.mem_address_reserve(&other, 2 * GRANULE, GRANULE, 0, 0), CU_SUCCESS);
    assert_int_equal(driver.mem_address_free(other, GRANULE), CU_ERROR_INVALID_VALUE);
    assert_int_equal(driver.mem_address_free(other + GRANULE, GRANULE), CU_ERROR_INVALID_VALUE);
    assert_int_equal(driver.mem_address_free(other, 2 * GRANULE), CU_SUCCESS);
    assert_int_equal(driver.mem_address_free(other, 2 * GRANULE), CU_ERROR_INVALID_VALUE);
}

static void mapped_memory_is_of_no_use_before_access_is_set(void** state) {
    fixture* f = *state;
    const cu_address second = f->range + GRANULE;
    cu_handle handle;
    unsigned char byte = 0;
    assert_int_equal(driver.mem_create(&handle, GRANULE, &on_device, 0), CU_SUCCESS);
    assert_int_equal(driver.memcpy_to_device(second, &byte, 1, f->stream), CU_ERROR_INVALID_VALUE);
    assert_int_equal(driver.mem_map(second, GRANULE, 0, handle, 0), CU_SUCCESS);
    assert_int_equal(driver.memcpy_to_device(second, &byte, 1, f->stream), CU_ERROR_INVALID_VALUE);
    assert_int_equal(driver.mem_set_access(second, 2 * GRANULE, &read_write, 1),
                     CU_ERROR_INVALID_VALUE);
    assert_int_equal(driver.mem_set_access(second, GRANULE, &read_write, 1), CU_SUCCESS);
    assert_int_equal(driver.memcpy_to_device(second, &byte, 1, f->stream), CU_SUCCESS);
    assert_int_equal(driver.stream_synchronize(f->stream), CU_SUCCESS);
    assert_int_equal(driver.mem_unmap(second, GRANULE), CU_SUCCESS);
    assert_int_equal(driver.mem_release(handle), CU_SUCCESS);
}

static void one_allocation_can_be_at_two_addresses(void** state) {
    fixture* f = *state;
    const cu_address last = f->range + 3 * GRANULE;
    put(f, f->range + 5, 77);
    assert_int_equal(driver.mem_map(last, GRANULE, 0, f->handle, 0), CU_SUCCESS);
    assert_int_equal(driver.mem_set_access(last, GRANULE, &read_write, 1), CU_SUCCESS);
    assert_int_equal(get(f, last + 5), 77);
    put(f, last + 6, 78);
    assert_int_equal(get(f, f->range + 6), 78);
    assert_int_equal(driver.mem_unmap(last, GRANULE), CU_SUCCESS);
    assert_int_equal(get(f, f->range + 6), 78);
}

static void a_copy_spans_allocations_that_lie_side_by_side(void** state) {
    fixture* f = *state;
    cu_handle second;
    add_granule(f->range + GRANULE, &second);
    unsigned char sent[64], got[64];
    for (size_t i = 0; i < sizeof sent; i++)
        sent[i] = (unsigned char)(i + 1);
    const cu_address border = f->range + GRANULE - 20;
    assert_int_equal(driver.memcpy_to_device(border, sent, 64, f->stream), CU_SUCCESS);
    assert_int_equal(driver.memcpy_on_device(f->range, border, 64, f->stream), CU_SUCCESS);
    assert_int_equal(driver.memcpy_to_host(got, f->range, 64, f->stream), CU_SUCCESS);
    assert_int_equal(driver.stream_synchronize(f->stream), CU_SUCCESS);
    assert_memory_equal(got, sent, sizeof sent);
    assert_int_equal(get(f, f->range + GRANULE), 21);
    assert_int_equal(driver.mem_unmap(f->range + GRANULE, GRANULE), CU_SUCCESS);
    assert_int_equal(driver.mem_release(second), CU_SUCCESS);
}

static void released_memory_stays_while_it_is_mapped_and_is_mapped_no_more(void** state) {
    fixture* f = *state;
    const cu_address second = f->range + GRANULE;
    size_t before, mapped, after, total;
    cu_handle handle;
    assert_int_equal(driver.mem_get_info(&before, &total), CU_SUCCESS);
    add_granule(second, &handle);
    assert_int_equal(driver.mem_release(handle), CU_SUCCESS);
    assert_int_equal(driver.mem_release(handle), CU_ERROR_INVALID_VALUE);
    assert_int_equal(driver.mem_map(second + GRANULE, GRANULE, 0, handle, 0),
                     CU_ERROR_INVALID_VALUE);
    assert_int_equal(driver.mem_get_info(&mapped, &total), CU_SUCCESS);
    assert_int_equal(before - mapped, GRANULE);
    put(f, second, 3);
    assert_int_equal(driver.mem_unmap(second, GRANULE), CU_SUCCESS);
    assert_int_equal(driver.mem_get_info(&after, &total), CU_SUCCESS);
    assert_int_equal(after, before);
}

static void no_more_memory_is_made_than_the_device_has(void** state) {
    (void)state;
    size_t available, total;
    cu_handle handle;
    assert_int_equal(driver.mem_get_info(&available, &total), CU_SUCCESS);
    assert_int_equal(driver.mem_create(&handle, available + GRANULE, &on_device, 0),
                     CU_ERROR_OUT_OF_MEMORY);
    assert_int_equal(driver.mem_create(&handle, GRANULE / 2, &on_device, 0),
                     CU_ERROR_INVALID_VALUE);
    assert_int_equal(driver.mem_create(&handle, available, &on_device, 0), CU_SUCCESS);
    assert_int_equal(driver.mem_release(handle), CU_SUCCESS);
}

/// Whether a child that reads the byte dies of it.
static bool kills_who_reads(cu_address address) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)signal(SIGSEGV, SIG_DFL); // no handler of a test or a sanitizer
        _exit(*(volatile unsigned char*)(uintptr_t)address == 1 ? 1 : 0);
    }
    int ended;
    assert_int_equal(waitpid(child, &ended, 0), child);
    return WIFSIGNALED(ended) && WTERMSIG(ended) == SIGSEGV;
}

static void the_host_does_not_see_device_memory(void** state) {
    fixture* f = *state;
    put(f, f->range, 1);
    assert_true(kills_who_reads(f->range));
    standin_settings settings;
    cuda_kit_control()->get_settings(&settings);
    settings.is_hidden = false;
    cuda_kit_control()->reset(&settings);
    assert_false(kills_who_reads(f->range));
    assert_int_equal(*(unsigned char*)(uintptr_t)f->range, 1);
}

// --- Work ---------------------------------------------------------------------------------------

static void work_waits_for_who_waits_for_it(void** state) {
    fixture* f = *state;
    static unsigned char byte;
    byte = 5;
    assert_int_equal(driver.memcpy_to_device(f->range, &byte, 1, f->stream), CU_SUCCESS);
    byte = 6; // the copy reads it when it runs
    assert_int_equal(driver.event_record(f->event, f->stream), CU_SUCCESS);
    assert_int_equal(driver.event_query(f->event), CU_ERROR_NOT_READY);
    assert_int_equal(driver.event_synchronize(f->event), CU_SUCCESS);
    assert_int_equal(driver.event_query(f->event), CU_SUCCESS);
    assert_int_equal(get(f, f->range), 6);
}

static void with_a_seed_work_runs_by_itself(void** state) {
    fixture* f = *state;
    static const unsigned char byte = 7;
    cuda_kit_reset(3);
    assert_int_equal(driver.memcpy_to_device(f->range, &byte, 1, f->stream), CU_SUCCESS);
    assert_int_equal(driver.event_record(f->event, f->stream), CU_SUCCESS);
    cu_result result = CU_ERROR_NOT_READY;
    for (int i = 0; i < 10000 && result == CU_ERROR_NOT_READY; i++)
        result = driver.event_query(f->event);
    assert_int_equal(result, CU_SUCCESS);
}

static void a_stream_that_waits_runs_after_the_other(void** state) {
    fixture* f = *state;
    for (uint64_t seed = 0; seed < 8; seed++) {
        cuda_kit_reset(seed);
        static const unsigned char bytes[] = {1, 2};
        cu_stream second;
        assert_int_equal(driver.stream_create(&second, CU_STREAM_IS_NON_BLOCKING), CU_SUCCESS);
        assert_int_equal(driver.memcpy_to_device(f->range, &bytes[0], 1, f->stream), CU_SUCCESS);
        assert_int_equal(driver.event_record(f->event, f->stream), CU_SUCCESS);
        assert_int_equal(driver.stream_wait_event(second, f->event, 0), CU_SUCCESS);
        assert_int_equal(driver.memcpy_to_device(f->range, &bytes[1], 1, second), CU_SUCCESS);
        assert_int_equal(driver.stream_synchronize(second), CU_SUCCESS);
        assert_int_equal(get(f, f->range), 2);
        assert_int_equal(driver.stream_destroy(second), CU_SUCCESS);
    }
}

static cu_result launch_move(const fixture* f, cu_module module, unsigned blocks_y) {
    cu_function function;
    assert_int_equal(driver.module_get_function(&function, module, "berth_cuda_none"),
                     CU_ERROR_NOT_FOUND);
    assert_int_equal(driver.module_get_function(&function, module, "berth_cuda_move"), CU_SUCCESS);
    berth_cuda_move_args move = {.target = (unsigned char*)(uintptr_t)(f->range + 1),
                                 .source = (const unsigned char*)(uintptr_t)f->range,
                                 .bytes = 3};
    void* arguments[] = {&move};
    const cu_result result =
        driver.launch_kernel(function, 1, blocks_y, 1, 64, 1, 1, 0, f->stream, arguments, NULL);
    memset(&move, 0xff, sizeof move); // they were copied
    return result;
}

static void kernels_run_with_the_arguments_that_they_were_given(void** state) {
    fixture* f = *state;
    static const unsigned char bytes[] = {1, 2, 3, 4};
    cu_module module;
    assert_int_equal(driver.module_load(&module, bytes), CU_SUCCESS);
    assert_int_equal(driver.memcpy_to_device(f->range, bytes, 4, f->stream), CU_SUCCESS);
    assert_int_equal(launch_move(f, module, 2), CU_ERROR_INVALID_VALUE);
    assert_int_equal(launch_move(f, module, 1), CU_SUCCESS);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(get(f, f->range + i), i == 0 ? 1 : i);
    assert_int_equal(driver.module_unload(module), CU_SUCCESS);
    assert_int_equal(driver.module_unload(module), CU_ERROR_INVALID_HANDLE);
}

static void what_the_driver_leaves_undefined_is_noted(void** state) {
    fixture* f = *state;
    static const unsigned char byte = 9;
    assert_int_equal(driver.memcpy_on_device(f->range + 4, f->range, 8, f->stream), CU_SUCCESS);
    assert_violation("overlaps");
    cuda_kit_reset(0);
    const cu_address second = f->range + GRANULE;
    cu_handle handle;
    add_granule(second, &handle);
    assert_int_equal(driver.memcpy_to_device(second, &byte, 1, f->stream), CU_SUCCESS);
    assert_int_equal(driver.mem_unmap(second, GRANULE), CU_SUCCESS); // the copy has not run
    assert_int_equal(driver.mem_release(handle), CU_SUCCESS);
    assert_int_equal(driver.stream_synchronize(f->stream), CU_ERROR_ILLEGAL_ADDRESS);
    assert_violation("not mapped any more");
}

static void what_was_destroyed_is_refused(void** state) {
    fixture* f = *state;
    cu_stream stream;
    cu_event event;
    assert_int_equal(driver.stream_create(&stream, CU_STREAM_IS_NON_BLOCKING), CU_SUCCESS);
    assert_int_equal(driver.event_create(&event, CU_EVENT_IS_UNTIMED), CU_SUCCESS);
    assert_int_equal(driver.event_record(event, f->stream), CU_SUCCESS);
    assert_int_equal(driver.stream_destroy(stream), CU_SUCCESS);
    assert_int_equal(driver.event_destroy(event), CU_SUCCESS); // its mark is still to be passed
    assert_int_equal(driver.stream_synchronize(stream), CU_ERROR_INVALID_HANDLE);
    assert_int_equal(driver.event_query(event), CU_ERROR_INVALID_HANDLE);
    assert_int_equal(driver.event_record(event, f->stream), CU_ERROR_INVALID_HANDLE);
    assert_int_equal(driver.stream_synchronize(f->stream), CU_SUCCESS);
}

// --- Failures and contexts ----------------------------------------------------------------------

static void a_call_fails_when_it_was_told_to(void** state) {
    fixture* f = *state;
    const standin_control* control = cuda_kit_control();
    size_t available, total;
    (control->fail)(
        "cuMemGetInfo_v2", 2, CU_ERROR_OUT_OF_MEMORY); // cmocka has a macro of that name
    assert_int_equal(driver.mem_get_info(&available, &total), CU_SUCCESS);
    assert_int_equal(driver.event_query(f->event), CU_SUCCESS);
    assert_int_equal(driver.mem_get_info(&available, &total), CU_ERROR_OUT_OF_MEMORY);
    assert_int_equal(driver.mem_get_info(&available, &total), CU_SUCCESS);
    assert_int_equal(control->query_calls("cuMemGetInfo_v2"), 3);
    const uint64_t all = control->query_calls(NULL);
    (control->fail)(NULL, 1, CU_ERROR_NOT_SUPPORTED); // cmocka has a macro of that name
    assert_int_equal(driver.event_query(f->event), CU_ERROR_NOT_SUPPORTED);
    assert_int_equal(driver.event_query(f->event), CU_SUCCESS);
    assert_int_equal(control->query_calls(NULL), all + 2);
}

static void a_kernel_that_crashes_ends_everything_when_it_is_waited_for(void** state) {
    fixture* f = *state;
    static const unsigned char byte = 4;
    cu_module module;
    assert_int_equal(driver.module_load(&module, &byte), CU_SUCCESS);
    cuda_kit_control()->crash_kernel(1);
    assert_int_equal(launch_move(f, module, 1), CU_SUCCESS);
    assert_int_equal(driver.memcpy_to_device(f->range, &byte, 1, f->stream), CU_SUCCESS);
    assert_int_equal(driver.stream_synchronize(f->stream), CU_ERROR_ILLEGAL_ADDRESS);
    cu_handle handle;
    assert_int_equal(driver.mem_create(&handle, GRANULE, &on_device, 0), CU_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(driver.event_query(f->event), CU_ERROR_ILLEGAL_ADDRESS);
    cuda_kit_reset(0);
    assert_int_equal(driver.module_unload(module), CU_SUCCESS);
}

static void without_a_context_nothing_is_done(void** state) {
    fixture* f = *state;
    cu_context context;
    cu_stream stream;
    size_t available, total;
    void* data;
    unsigned char byte = 0;
    assert_int_equal(driver.ctx_pop(&context), CU_SUCCESS);
    assert_int_not_equal(driver.mem_get_info(&available, &total), CU_SUCCESS);
    assert_int_not_equal(driver.stream_create(&stream, CU_STREAM_IS_NON_BLOCKING), CU_SUCCESS);
    assert_int_not_equal(driver.mem_host_alloc(&data, 4096, 0), CU_SUCCESS);
    assert_int_not_equal(driver.memcpy_to_device(f->range, &byte, 1, f->stream), CU_SUCCESS);
    assert_int_not_equal(driver.ctx_pop(&context), CU_SUCCESS);
    assert_int_equal(driver.primary_ctx_retain(&context, 0), CU_SUCCESS);
    assert_int_equal(driver.primary_ctx_release(0), CU_SUCCESS);
    assert_int_equal(driver.ctx_push(context), CU_SUCCESS);
}

static void a_forked_child_has_no_driver(void** state) {
    fixture* f = *state;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        size_t available, total;
        const bool refused = driver.init(0) == CU_ERROR_NOT_INITIALIZED &&
                             driver.mem_get_info(&available, &total) == CU_ERROR_NOT_INITIALIZED &&
                             driver.event_query(f->event) == CU_ERROR_NOT_INITIALIZED;
        _exit(refused ? 0 : 1);
    }
    int ended;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
    assert_int_equal(driver.event_query(f->event), CU_SUCCESS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(memory_is_mapped_whole_and_unmapped_whole),
        TEST(a_range_with_mappings_is_not_given_back),
        TEST(mapped_memory_is_of_no_use_before_access_is_set),
        TEST(one_allocation_can_be_at_two_addresses),
        TEST(a_copy_spans_allocations_that_lie_side_by_side),
        TEST(released_memory_stays_while_it_is_mapped_and_is_mapped_no_more),
        TEST(no_more_memory_is_made_than_the_device_has),
        TEST(the_host_does_not_see_device_memory),
        TEST(work_waits_for_who_waits_for_it),
        TEST(with_a_seed_work_runs_by_itself),
        TEST(a_stream_that_waits_runs_after_the_other),
        TEST(kernels_run_with_the_arguments_that_they_were_given),
        TEST(what_the_driver_leaves_undefined_is_noted),
        TEST(what_was_destroyed_is_refused),
        TEST(a_call_fails_when_it_was_told_to),
        TEST(a_kernel_that_crashes_ends_everything_when_it_is_waited_for),
        TEST(without_a_context_nothing_is_done),
        TEST(a_forked_child_has_no_driver),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
