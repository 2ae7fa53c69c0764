// SPDX-License-Identifier: Apache-2.0
// Everything that can be missing when a program asks for the CUDA device: the module, the driver, a
// device that is good enough. Each is one sentence, and the program goes on without.
#include "cuda/cuda_device_kit.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "berth/berth.h"
#include "device/cuda/cuda_api.h"

static berth_status open_with(const char* module,
                              const berth_cuda_options* options,
                              berth_device** out_device) {
    return berth_cuda_open(berth_host_default(), module, options, out_device);
}

static void refused(const char* module, const berth_cuda_options* options, const char* sentence) {
    berth_device* device = (berth_device*)&device;
    assert_fails(open_with(module, options, &device), BERTH_ERR_DEVICE, sentence);
    assert_null(device);
}

/// Opening the stand-in's devices with these settings is refused with `sentence`.
static void refused_by(const standin_settings* settings, uint32_t ordinal, const char* sentence) {
    const standin_control* driver = cuda_kit_driver();
    driver->reset(settings);
    berth_cuda_options options = cuda_kit_options();
    options.ordinal = ordinal;
    refused(BERTH_TEST_CUDA_MODULE, &options, sentence);
    standin_live live;
    driver->query_live(&live);
    assert_int_equal(live.context_references, 0);
    driver->reset(NULL);
}

static standin_settings usual_settings(void) {
    const standin_control* driver = cuda_kit_driver();
    standin_settings settings;
    driver->reset(NULL);
    driver->get_settings(&settings);
    return settings;
}

static void a_module_that_is_not_there_is_named(void** state) {
    (void)state;
    const berth_cuda_options options = cuda_kit_options();
    refused("/nonexistent/libberth_cuda.so", &options, "/nonexistent/libberth_cuda.so");
}

static void a_library_that_is_no_module_is_refused(void** state) {
    (void)state;
    const berth_cuda_options options = cuda_kit_options();
    refused(BERTH_TEST_CUDA_DRIVER, &options, "or is none");
}

static void a_module_of_another_version_is_refused(void** state) {
    (void)state;
    const berth_cuda_options options = cuda_kit_options();
    refused(BERTH_TEST_CUDA_OTHER_VERSION, &options, "of another version of Berth than this one");
}

/// Copies the first `bytes` of the module to the file `target`.
static void copy_begin_of_module(int target, size_t bytes) {
    static unsigned char buffer[1 << 16];
    const int source = open(BERTH_TEST_CUDA_MODULE, O_RDONLY);
    assert_true(source >= 0);
    while (bytes > 0) {
        const ssize_t length = read(source, buffer, bytes < sizeof buffer ? bytes : sizeof buffer);
        assert_true(length > 0);
        assert_int_equal(write(target, buffer, (size_t)length), length);
        bytes -= (size_t)length;
    }
    (void)close(source);
}

static void a_module_that_was_copied_in_part_is_refused(void** state) {
    (void)state;
    const berth_cuda_options options = cuda_kit_options();
    static const size_t lengths[] = {0, 40, 700, 5000, 40000};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        char path[] = "/tmp/berth_cuda_part_XXXXXX";
        const int file = mkstemp(path);
        assert_true(file >= 0);
        copy_begin_of_module(file, lengths[i]);
        (void)close(file);
        refused(path, &options, "the CUDA module cannot be loaded: ");
        if (lengths[i] >= 5000) refused(path, &options, "the rest is missing");
        (void)unlink(path);
    }
    refused("/tmp", &options, "the CUDA module cannot be loaded: /tmp: ");
}

static void a_driver_that_is_not_there_is_named(void** state) {
    (void)state;
    berth_cuda_options options = cuda_kit_options();
    options.driver = "libno_such_driver.so.1";
    refused(
        BERTH_TEST_CUDA_MODULE, &options, "no CUDA device: libno_such_driver.so.1: cannot open");
}

static void a_library_that_is_no_driver_is_refused(void** state) {
    (void)state;
    berth_cuda_options options = cuda_kit_options();
    options.driver = BERTH_TEST_CUDA_MODULE;
    refused(BERTH_TEST_CUDA_MODULE, &options, "has no function cuInit");
}

static void the_drivers_own_reason_is_told(void** state) {
    (void)state;
    standin_settings settings = usual_settings();
    settings.init_result = CU_ERROR_NO_DEVICE;
    refused_by(&settings, 0, "CUDA_ERROR_NO_DEVICE");
    settings.init_result = CU_ERROR_SYSTEM_DRIVER_MISMATCH;
    refused_by(&settings, 0, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH");
    settings.init_result = CU_ERROR_STUB_LIBRARY;
    refused_by(&settings, 0, "is the toolkit's stub for linking");
}

static void a_driver_without_devices_is_refused(void** state) {
    (void)state;
    standin_settings settings = usual_settings();
    settings.device_count = 0;
    refused_by(&settings, 0, "no CUDA device: the driver lists none");
}

static void a_device_that_is_not_listed_is_refused(void** state) {
    (void)state;
    standin_settings settings = usual_settings();
    settings.device_count = 2;
    refused_by(&settings, 2, "no CUDA device 2: the driver lists 2");
}

static void an_old_device_is_refused_by_its_capability(void** state) {
    (void)state;
    standin_settings settings = usual_settings();
    settings.capability_major = 7;
    settings.capability_minor = 5;
    refused_by(&settings, 0, "has compute capability 7.5, 8.0 is needed");
}

static void a_device_that_cannot_map_is_refused(void** state) {
    (void)state;
    standin_settings settings = usual_settings();
    settings.has_virtual_memory = false;
    refused_by(&settings, 0, "virtual memory management");
}

static void any_listed_device_can_be_chosen(void** state) {
    (void)state;
    standin_settings settings = usual_settings();
    settings.device_count = 2;
    cuda_kit_driver()->reset(&settings);
    berth_cuda_options options = cuda_kit_options();
    options.ordinal = 1;
    berth_device* device;
    assert_ok(open_with(BERTH_TEST_CUDA_MODULE, &options, &device));
    assert_int_equal(device->kind, BERTH_DEVICE_CUDA);
    berth_device_destroy(device);
    cuda_kit_driver()->reset(NULL);
}

static void a_module_beside_the_program_is_found(void** state) {
    (void)state;
    const berth_cuda_options options = cuda_kit_options();
    berth_device* device;
    assert_ok(open_with(NULL, &options, &device)); // where the build puts tests and module
    berth_device_destroy(device);
}

static void two_devices_can_be_open_at_a_time(void** state) {
    (void)state;
    const berth_cuda_options options = cuda_kit_options();
    berth_device *first, *second;
    assert_ok(open_with(BERTH_TEST_CUDA_MODULE, &options, &first));
    assert_ok(open_with(BERTH_TEST_CUDA_MODULE, &options, &second));
    berth_device_destroy(first);
    berth_stream* stream;
    assert_ok(berth_stream_create(second, &stream));
    berth_stream_destroy(stream);
    berth_device_destroy(second);
}

// --- Runtimes -----------------------------------------------------------------------------------

static berth_status create_runtime(const char* device,
                                   const char* module,
                                   const char* driver,
                                   berth_runtime** out_runtime) {
    const berth_option_setting settings[] = {
        {"DEVICE", device},
        {"CUDA_MODULE", module},
        {"CUDA_DRIVER", driver},
        {"THREADS", "1"},
    };
    const berth_runtime_options options = {
        .struct_size = sizeof options,
        .settings = settings,
        .setting_count = sizeof settings / sizeof settings[0],
    };
    return berth_runtime_create(&options, out_runtime);
}

static void a_program_goes_on_without_the_device(void** state) {
    (void)state;
    berth_runtime* runtime;
    assert_fails(create_runtime("cuda", "/nonexistent/libberth_cuda.so", "libcuda.so.1", &runtime),
                 BERTH_ERR_DEVICE,
                 "BERTH_DEVICE=cuda: the CUDA module cannot be loaded");
    assert_null(runtime);
    assert_fails(create_runtime("cuda", BERTH_TEST_CUDA_MODULE, "libno_such_driver.so", &runtime),
                 BERTH_ERR_DEVICE,
                 "BERTH_DEVICE=cuda: no CUDA device: ");
    assert_null(runtime);
    assert_ok(create_runtime("cpu", "-", "libcuda.so.1", &runtime));
    berth_context* context;
    assert_ok(berth_context_create(runtime, &context));
    assert_null(berth_context_cuda_stream(context));
    berth_context_release(context);
    berth_runtime_release(runtime);
}

static void a_contexts_stream_is_the_drivers(void** state) {
    (void)state;
    const standin_control* driver = cuda_kit_driver();
    driver->reset(NULL);
    berth_runtime* runtime;
    assert_ok(create_runtime("cuda", BERTH_TEST_CUDA_MODULE, BERTH_TEST_CUDA_DRIVER, &runtime));
    berth_context *one, *other;
    assert_ok(berth_context_create(runtime, &one));
    assert_ok(berth_context_create(runtime, &other));
    assert_non_null(berth_context_cuda_stream(one));
    assert_ptr_not_equal(berth_context_cuda_stream(one), berth_context_cuda_stream(other));
    assert_null(berth_context_cuda_stream(NULL));
    assert_null(berth_cuda_current_stream());
    berth_context_release(one);
    berth_context_release(other);
    berth_runtime_release(runtime);
    standin_live live;
    driver->query_live(&live);
    static const standin_live none;
    assert_memory_equal(&live, &none, sizeof live);
}

// --- Forks --------------------------------------------------------------------------------------

/// What goes wrong in a child that uses the device of its parent; NULL: nothing.
static const char* use_in_child(berth_device* device, berth_stream* stream) {
    const standin_control* driver = cuda_kit_driver();
    const uint64_t calls = driver->query_calls(NULL);
    const berth_cuda_options options = cuda_kit_options();
    uint64_t ticket, total, available;
    berth_space* space;
    berth_device* another;
    if (berth_device_query_memory(device, &total, &available) != BERTH_ERR_FORKED) return "query";
    if (berth_space_reserve(device, device->granule_bytes, &space) != BERTH_ERR_FORKED)
        return "reserve";
    if (berth_stream_record(stream, &ticket) != BERTH_ERR_FORKED) return "record";
    if (open_with(BERTH_TEST_CUDA_MODULE, &options, &another) != BERTH_ERR_FORKED) return "open";
    if (strstr(berth_last_error(), "has used CUDA") == NULL) return "the sentence";
    return driver->query_calls(NULL) == calls ? NULL : "a call of the driver";
}

static void a_forked_child_touches_no_driver(void** state) {
    (void)state;
    cuda_kit_driver()->reset(NULL);
    const berth_cuda_options options = cuda_kit_options();
    berth_device* device;
    berth_stream* stream;
    assert_ok(open_with(BERTH_TEST_CUDA_MODULE, &options, &device));
    assert_ok(berth_stream_create(device, &stream));
    const pid_t child = fork();
    if (child == 0) {
        const char* wrong = use_in_child(device, stream);
        if (wrong != NULL) (void)!write(STDERR_FILENO, wrong, strlen(wrong));
        _exit(wrong == NULL ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    berth_stream_destroy(stream);
    berth_device_destroy(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_module_that_is_not_there_is_named),
        cmocka_unit_test(a_library_that_is_no_module_is_refused),
        cmocka_unit_test(a_module_of_another_version_is_refused),
        cmocka_unit_test(a_module_that_was_copied_in_part_is_refused),
        cmocka_unit_test(a_driver_that_is_not_there_is_named),
        cmocka_unit_test(a_library_that_is_no_driver_is_refused),
        cmocka_unit_test(the_drivers_own_reason_is_told),
        cmocka_unit_test(a_driver_without_devices_is_refused),
        cmocka_unit_test(a_device_that_is_not_listed_is_refused),
        cmocka_unit_test(an_old_device_is_refused_by_its_capability),
        cmocka_unit_test(a_device_that_cannot_map_is_refused),
        cmocka_unit_test(any_listed_device_can_be_chosen),
        cmocka_unit_test(a_module_beside_the_program_is_found),
        cmocka_unit_test(two_devices_can_be_open_at_a_time),
        cmocka_unit_test(a_program_goes_on_without_the_device),
        cmocka_unit_test(a_contexts_stream_is_the_drivers),
        cmocka_unit_test(a_forked_child_touches_no_driver),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
